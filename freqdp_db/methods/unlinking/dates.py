"""No dates: released times are the weekday, the hour and the minute, in one week for all.

All times move by whole weeks of the dataset's wall clock into one week, which is of the data's own period:
that of the middle sample of the build, or the nearest one in which no clock is put forward or back. Weeks
begin on Monday. Nobody learns from a released time in which week somebody was somewhere, and those who were
there at the same hour of the week are not told apart by the date. A piece of a trip ends with its week, and
where the zone's clock changes, so that its times ascend.
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


def in_week(at: Ints, timezone: str, week_us: int) -> Ints:
    """Each time on the same weekday, hour and minute of the week that begins then."""
    moved: Ints = week_us + (local_times(at, timezone) - _MONDAY_US) % WEEK_US
    return moved


def new_weeks(at: Ints, timezone: str) -> Flags:
    """Whether each sample, but the first, is in another week than the one before, or by another clock."""
    local = local_times(at, timezone)
    week, ahead = (local - _MONDAY_US) // WEEK_US, local - at
    other: Flags = (np.diff(week) != 0) | (np.diff(ahead) != 0)
    return other


def leave_out_dates(world: StepContext, state: WorkingSet) -> WorkingSet:
    """The state with its times in one week; each of its trajectories lies in one week."""
    side, week = state.trajectories, week_of(world)
    zone = world.build.timezone
    moved = replace(side, at=in_week(side.at, zone, week), start=in_week(side.start, zone, week))
    return replace(state, trajectories=moved, undated=Undated(week, side.at))


def check_dates(world: StepContext, at: Ints, after: WorkingSet) -> None:
    """Refuse unless every sample has its weekday, hour and minute, in one week.

    at: its time with the date.

    Raises:
        VerificationFailed: a time that is not whole weeks from where it was on the wall clock, times of
            more than one week, or times of a trajectory that go backwards.
    """
    side, zone = after.trajectories, world.build.timezone
    if after.undated is None or not np.array_equal(after.undated.at, at):
        raise VerificationFailed("times without dates are of other samples")
    was, shown = local_times(at, zone), local_times(side.at, zone)
    if ((shown - was) % WEEK_US != 0).any():
        raise VerificationFailed("a time has another weekday, hour or minute than it had")
    day = shown // DAY_US
    if len(np.unique(day - (day - _MONDAY_US // DAY_US) % 7)) > 1:
        raise VerificationFailed("times lie in more than one week")
    inside = np.diff(side.owner) == 0
    if (np.diff(side.at)[inside] < 0).any():
        raise VerificationFailed("times of a piece go backwards in the week")
