"""No dates: released times are the weekday, hour and minute in one week for all, or the hour and minute.

All times move by whole weeks, or whole days, of the dataset's wall clock into one week of the data's own
period: that of the middle sample of the build, or the nearest one in which no clock is put forward or back;
or into its first day. Weeks begin on Monday. Nobody learns from a released time in which week, or on which
day, somebody was somewhere, and those who were there at the same hour are not told apart by the date. A
piece of a trip ends with its week or day, and where the zone's clock changes, so that its times ascend.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import StepContext, Undated, WorkingSet
from freqdp_db.model.arrays import Flags, Ints
from freqdp_db.model.days import DAY_US, local_times

WEEK_US = 7 * DAY_US
_MONDAY_US = 2 * DAY_US
"""2000-01-01, from which times are counted, was a Saturday."""
_WEEKS_OF_A_YEAR = 53
SPANS = {"hour-of-week": WEEK_US, "hour-of-day": DAY_US}
"""How often times repeat, where dates are left out so."""


def column_comments(dates: str | None) -> dict[str, str]:
    """What columns with times say, where dates were left out."""
    if dates is None:
        return {}
    what = "Weekday, hour and minute" if dates == "hour-of-week" else "Hour and minute"
    said = f"{what} {{}}; the date is the same week or day for all, and is not when it happened."
    return {
        "at": said.format("of the sample"),
        "start_at": said.format("of its first sample"),
        "end_at": said.format("of its last sample"),
        "day": "A day of the week that all times were moved into; not when it happened.",
    }


def week_of(world: StepContext) -> int:
    """When the week begins that all times are moved into: UTC microseconds."""
    zone, at = world.build.timezone, world.build.trajectories.at
    middle = int(np.median(at)) if len(at) else 0
    local = int(local_times(np.array([middle]), zone)[0])
    monday = middle - (local - _MONDAY_US) % WEEK_US
    for away in range(_WEEKS_OF_A_YEAR):
        for begin in (monday + away * WEEK_US, monday - away * WEEK_US):
            ends = np.array([begin, begin + WEEK_US])
            if (local_times(ends, zone) - ends == local - middle).all():
                return begin
    raise AssertionError(f"no week in {zone} is without a change of its clock")


def fold(at: Ints, timezone: str, begin_us: int | Ints, span_us: int) -> Ints:
    """Each time at the same hour and minute of the span that begins then: a week, or its first day."""
    moved: Ints = begin_us + (local_times(at, timezone) - _MONDAY_US) % span_us
    return moved


def new_spans(at: Ints, timezone: str, dates: str) -> Flags:
    """Whether each sample, but the first, is in another span than the one before, or by another clock."""
    local = local_times(at, timezone)
    span, ahead = (local - _MONDAY_US) // SPANS[dates], local - at
    other: Flags = (np.diff(span) != 0) | (np.diff(ahead) != 0)
    return other


def leave_out_dates(world: StepContext, state: WorkingSet, dates: str | None) -> WorkingSet:
    """The state with its times in one week or day, as each of its trajectories is; None: as it is."""
    if dates is None:
        return state
    side, begin, span = state.trajectories, week_of(world), SPANS[dates]
    at, start = (fold(t, world.build.timezone, begin, span) for t in (side.at, side.start))
    moved = replace(side, at=at, start=start)
    return replace(state, trajectories=moved, undated=Undated(begin, span, side.at))


def check_dates(world: StepContext, at: Ints, after: WorkingSet, dates: str | None) -> None:
    """Refuse unless every sample has its hour and minute, and its weekday, in one week or day.

    at: its time with the date.

    Raises:
        VerificationFailed: a time that is not whole weeks or days from where it was on the wall clock,
            times of more than one of them, or times of a trajectory that go backwards.
    """
    side, zone = after.trajectories, world.build.timezone
    if dates is None:
        if not np.array_equal(at, side.at):
            raise VerificationFailed("a sample has another time than it had")
        return
    if after.undated is None or not np.array_equal(after.undated.at, at):
        raise VerificationFailed("times without dates are of other samples")
    days = {"hour-of-week": 7, "hour-of-day": 1}[dates]
    was, shown = local_times(at, zone), local_times(side.at, zone)
    if ((shown - was) % (days * DAY_US) != 0).any():
        raise VerificationFailed("a time has another weekday, hour or minute than it had")
    day = shown // DAY_US
    if len(np.unique(day - (day - _MONDAY_US // DAY_US) % days)) > 1:
        raise VerificationFailed("times lie in more than one week or day")
    inside = np.diff(side.owner) == 0
    if (np.diff(side.at)[inside] < 0).any():
        raise VerificationFailed("times of a piece go backwards")
