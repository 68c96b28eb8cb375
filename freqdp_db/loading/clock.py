"""Times in files: their formats, and local times made absolute."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from freqdp_db.errors import BadInput
from freqdp_db.loading.rows import NO_TIME

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Years 1 to 9999: what Python, NumPy and PostgreSQL can all hold.
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
# No zone ever changed its clocks within a quarter of an hour that began on one.
_QUARTER_US = 900_000_000


def time_zone(name: str) -> tzinfo:
    """A zone of the IANA list, by name."""
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadInput(
            f"[[timezone]] {name!r} is not a known time zone",
            remedy="give a name such as UTC, Europe/Brussels or Asia/Shanghai",
        ) from None


def to_utc(local_us: NDArray[np.int64], zone: tzinfo) -> NDArray[np.int64]:
    """Microseconds of a wall clock, as microseconds since 1970 UTC; `NO_TIME` stays.

    A time that the clock shows twice in autumn is taken as the first of the two.
    """
    if zone is UTC or not len(local_us):
        return local_us
    usable = local_us != NO_TIME
    quarter, position = np.unique(local_us[usable] // _QUARTER_US, return_inverse=True)
    naive = _EPOCH.replace(tzinfo=None)
    offsets = np.array(
        [
            (zone.utcoffset(naive + timedelta(microseconds=int(q) * _QUARTER_US)) or timedelta())
            // _MICROSECOND
            for q in quarter
        ],
        np.int64,
    )
    result = local_us.copy()
    result[usable] -= offsets[position]
    return result


def parser(text: str, zone: tzinfo) -> Callable[[pa.Array], NDArray[np.int64]]:
    """Strings to UTC microseconds, `NO_TIME` where a string is no time in this format."""
    if text == "iso":
        return lambda column: _iso(column, zone)
    if text in ("epoch", "epoch-ms"):
        return lambda column: _epoch(column, 1e6 if text == "epoch" else 1e3)
    if "%" not in text:
        raise BadInput(
            f"[[time_format]] {text!r} is not a format",
            remedy="give iso, epoch, epoch-ms or a strptime format such as '%d/%m/%Y %H:%M:%S'",
        )
    return lambda column: _each(column, zone, lambda value: datetime.strptime(value, text))


def numbers(column: pa.Array) -> NDArray[np.float64]:
    """Strings to numbers, NaN where a string is none."""
    trimmed = pc.utf8_trim_whitespace(column)
    try:
        parsed = pc.cast(trimmed, pa.float64())
    except pa.ArrowInvalid:
        looks = pc.match_substring_regex(trimmed, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
        bare = pc.replace_substring_regex(trimmed, r"^\+", "")
        parsed = pc.cast(pc.if_else(looks, bare, None), pa.float64())
    values: NDArray[np.float64] = parsed.to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def _iso(column: pa.Array, zone: tzinfo) -> NDArray[np.int64]:
    for kind, of_zone in ((pa.timestamp("us"), zone), (pa.timestamp("us", "UTC"), UTC)):
        try:
            parsed = pc.cast(column, kind)
        except pa.ArrowInvalid:
            continue
        return _bounded(to_utc(pc.cast(parsed, pa.int64()).to_numpy(), of_zone))
    # Mixed, or with bad rows: one by one, which is slower and knows which.
    return _each(column, zone, datetime.fromisoformat)


def _epoch(column: pa.Array, factor: float) -> NDArray[np.int64]:
    seconds = numbers(column)
    usable = np.abs(np.nan_to_num(seconds, nan=np.inf)) * factor < _LAST_US
    scaled = np.round(np.where(usable, seconds, 0.0) * factor).astype(np.int64)
    return _bounded(np.where(usable, scaled, NO_TIME))


def _each(column: pa.Array, zone: tzinfo, parse: Callable[[str], datetime]) -> NDArray[np.int64]:
    local = np.full(len(column), NO_TIME, np.int64)
    absolute = np.zeros(len(column), bool)
    naive_epoch = _EPOCH.replace(tzinfo=None)
    for i, value in enumerate(column.to_pylist()):
        try:
            moment = parse(value.strip())
        except ValueError:
            continue
        absolute[i] = moment.tzinfo is not None
        since = moment - (_EPOCH if moment.tzinfo is not None else naive_epoch)
        local[i] = since // _MICROSECOND
    return _bounded(np.where(absolute, local, to_utc(np.where(absolute, NO_TIME, local), zone)))


def _bounded(at_us: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where((at_us >= _FIRST_US) & (at_us <= _LAST_US), at_us, NO_TIME)
