"""Wall clocks: local times and days in a time zone.

Our own, by zoneinfo: pyarrow does the same no faster, and would be loaded for every release.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from freqdp_db.errors import BadInput
from freqdp_db.model.arrays import Ints

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
# Time zones change their offset at quarters of an hour.
_QUARTER_US = HOUR_US // 4
_QUARTERS_OF_A_DAY = 96
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_DENSE = 1 << 20
"""Quarters of an hour in 30 years: up to here a table of all of them is quicker than sorting."""


def find_zone(name: str) -> ZoneInfo:
    """A zone of the IANA list, by name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput(
            f"[[timezone]] {name!r} is not a known time zone",
            remedy="give a name such as UTC, Europe/Brussels or Asia/Shanghai",
        ) from None


def local_times(at: Ints, timezone: str) -> Ints:
    """Wall-clock microseconds since 2000-01-01 00:00 in a time zone."""
    if not len(at):
        return at
    quarter = at // _QUARTER_US
    first = int(quarter.min())
    if int(quarter.max()) - first < min(_DENSE, 16 * len(at)):
        return at + _offsets_from(first, int(quarter.max()), timezone)[quarter - first]
    known, which = np.unique(quarter, return_inverse=True)
    return at + _offsets(known, timezone)[which]


def _offsets_from(first: int, last: int, timezone: str) -> NDArray[np.int64]:
    """The same for all quarters of an hour from the first to the last.

    No zone changes its offset and changes it back within a day: where two days begin alike, all
    between them is alike.
    """
    begins = np.append(np.arange(first, last, _QUARTERS_OF_A_DAY), last)
    each = _offsets(begins, timezone)
    shift = np.repeat(each, np.diff(np.append(begins, last + 1)))
    for k in np.flatnonzero(np.diff(each)):
        inside = np.arange(begins[k], begins[k + 1])
        shift[inside - first] = _offsets(inside, timezone)
    return shift


def _offsets(quarters: NDArray[np.int64], timezone: str) -> NDArray[np.int64]:
    """Microseconds that the zone is ahead of UTC, from each of these quarters of an hour on."""
    zone, micro = ZoneInfo(timezone), timedelta(microseconds=1)
    shift: NDArray[np.int64] = np.empty(len(quarters), np.int64)
    for i, quarter in enumerate(quarters):
        instant = _EPOCH + timedelta(microseconds=int(quarter) * _QUARTER_US)
        shift[i] = (instant.astimezone(zone).utcoffset() or timedelta()) // micro
    return shift


def local_days(at: Ints, timezone: str) -> Ints:
    """The day of each time in the zone, counted from 2000-01-01 (day 0), as PostgreSQL does."""
    return local_times(at, timezone) // DAY_US
