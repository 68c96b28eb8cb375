"""Which samples are published, and with which dates.

*The crowd rule*: a sample is published only where enough objects were. A place is the build's, or the cell
of the grain. Objects are those of the build, each counted once, with the places and times that the release
would show of them; the object whose sample it is counts too. Samples that a method before has put in count
for nobody. They may have been there ever, in the same hour of any day, or on the same day, by the
dataset's time zone. It is no guarantee: a crowd at a place says nothing about who of it a trajectory
belongs to.

*The dominance rule*: of the published samples of a place and hour of the day, by the dataset's time zone,
no object has more than a given share. What is too much is left out: everybody keeps at most the same number
of samples there, the largest that the rule allows, and which ones is drawn. Where fewer objects were than
the rule asks for (four, at 30 per cent), nothing is left. Whoever knows that somebody is usually at a place
at that hour, and claims what is published of it, is right for no larger share of it, unless others were
there at the same moments.

*No dates*: released times are the weekday, hour and minute in one week for all, or the hour and minute.
All times move by whole weeks, or whole days, of the dataset's wall clock into one week of the data's own
period: that of the middle sample of the build, or the nearest one in which no clock is put forward or back;
or into its first day. Weeks begin on Monday. Nobody learns from a released time in which week, or on which
day, somebody was somewhere, and those who were there at the same hour are not told apart by the date. A
piece of a trip ends with its week or day, and where the zone's clock changes, so that its times ascend.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import StepContext, Undated, WorkingSet
from freqdp_db.methods.unlinking.clock import hide_samples
from freqdp_db.methods.unlinking.options import CutOptions, PointsOptions
from freqdp_db.model.arrays import Flags, Ints, new_rows
from freqdp_db.model.days import DAY_US, HOUR_US, local_times

# --- The crowd rule ---


_OF_A_DAY = 24


def find_crowded(
    world: StepContext, state: WorkingSet, options: CutOptions | PointsOptions
) -> Flags:
    """Whether each sample of a state, with devices hidden, is where enough objects were."""
    if options.crowd is None:
        return np.ones(state.samples, np.bool_)
    source = _source(world, options)
    within = options.crowd_within or "ever"
    there = _cells(source, within, world.build.timezone)
    objects = len(source.trajectories)
    visits = there * objects + source.owners()
    # most samples repeat the one before
    visits = np.unique(visits[new_rows(visits)])
    cell, visitors = np.unique(visits // objects, return_counts=True)
    crowded = cell[visitors >= options.crowd]
    if not len(crowded):
        return np.zeros(state.samples, np.bool_)
    asked = _cells(state, within, world.build.timezone)
    at = np.minimum(np.searchsorted(crowded, asked), len(crowded) - 1)
    found: Flags = crowded[at] == asked
    return found


def _source(world: StepContext, options: CutOptions | PointsOptions) -> WorkingSet:
    """All samples of the build, with the places and times that a release shows."""
    build = WorkingSet(world.build.trajectories, world.locations, np.zeros(0, np.int64))
    return hide_samples(build, options)


def _cells(state: WorkingSet, within: str, timezone: str) -> Ints:
    """A number for the place of each sample, and for its hour of the day or its day where that counts."""
    place = state.trajectories.location.astype(np.int64)
    if within == "ever":
        return place
    local = local_times(state.trajectories.at, timezone)
    if within == "hour":
        return place * _OF_A_DAY + local // HOUR_US % _OF_A_DAY
    # days of a thousand years, so that both sides number them alike
    days = 366_000
    return place * days + (local // DAY_US) % days


def check_crowd(
    world: StepContext,
    before: WorkingSet,
    rows: Ints,
    kept: Flags,
    options: CutOptions | PointsOptions,
) -> None:
    """Refuse unless exactly the samples with a crowd were kept, of these rows of the hidden input.

    Visits are sorted by place, time and object, and counted run by run.

    Raises:
        VerificationFailed: a sample is kept without its crowd, or left out although it has one.
    """
    if options.crowd is None:
        if not kept.all():
            raise VerificationFailed("a sample was left out, and no crowd was asked for")
        return
    source = _source(world, options)
    sides = []
    for state in (source, before):
        side = state.trajectories
        local = local_times(side.at, world.build.timezone)
        when = {
            "ever": np.zeros(side.samples, np.int64),
            "hour": local % DAY_US // HOUR_US,
            "day": local // DAY_US,
        }[options.crowd_within or "ever"]
        sides.append((side.location, when, state.owners()))
    (location, when, owner), asked = sides[0], [column[rows] for column in sides[1][:2]]
    visits = len(location)
    # visits, and behind them what is asked for, as one table: equal places and times get one number
    place = np.concatenate([location, asked[0]])
    time = np.concatenate([when, asked[1]])
    order = np.lexsort((time, place))
    fresh = new_rows(place[order], time[order])
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(fresh) - 1
    order = np.lexsort((owner, number[:visits]))
    one = number[:visits][order]
    objects = np.bincount(one[new_rows(one, owner[order])], minlength=int(fresh.sum()))
    enough = objects[number[visits:]] >= options.crowd
    if (kept & ~enough).any():
        raise VerificationFailed("a sample is published where too few objects were")
    if (~kept & enough).any():
        raise VerificationFailed("a sample was left out although enough objects were there")


# --- The dominance rule ---


def within_dominance(
    state: WorkingSet, timezone: str, rows: Ints, percent: Decimal, order: Ints
) -> Flags:
    """Which of some samples of a state, with devices hidden, may be published under the dominance rule.

    order: a number drawn for each of them; of one object, place and hour the lowest are kept.
    """
    cell, owner = _cells(state, "hour", timezone)[rows], state.owners()[rows]
    by_owner = np.lexsort((order, owner, cell))
    fresh = new_rows(cell[by_owner], owner[by_owner])
    first = np.flatnonzero(fresh)
    count = np.diff(first, append=len(rows))
    cells = np.flatnonzero(new_rows(cell[by_owner[first]]))
    most = np.repeat(_most_of_each(count, cells, percent), np.diff(cells, append=len(first)))
    rank = np.arange(len(rows)) - np.repeat(first, count)
    kept = np.empty(len(rows), np.bool_)
    kept[by_owner] = rank < np.repeat(most, count)
    return kept


def _most_of_each(count: Ints, cells: Ints, percent: Decimal) -> Ints:
    """How many samples an object may have at most in each cell; `count` has them by cell and object.

    cells: where each cell begins. If some number keeps the rule, all smaller ones do.
    """
    if not len(cells):
        return np.zeros(0, np.int64)
    low, high = np.zeros(len(cells), np.int64), np.maximum.reduceat(count, cells)
    objects = np.diff(cells, append=len(count))
    while (low < high).any():
        middle = (low + high + 1) // 2
        published = np.add.reduceat(np.minimum(count, np.repeat(middle, objects)), cells)
        keeps = ~_dominates(middle, published, percent)
        low, high = np.where(keeps, middle, low), np.where(keeps, high, middle - 1)
    return low


def _dominates(one: Ints, published: Ints, percent: Decimal) -> Flags:
    """Whether so many of so many samples are more than the rule allows; in whole numbers."""
    more: Flags = one * 100_000 > int(percent * 1_000) * published
    return more


def check_dominance(
    world: StepContext, before: WorkingSet, rows: Ints, kept: Flags, percent: Decimal
) -> None:
    """Refuse unless the dominance rule holds for what was kept of these rows, and nothing more could be.

    Counts are tables by cell and object, and what one more sample for everybody would do is tried out.

    Raises:
        VerificationFailed: an object has too much of what is published of a place and hour, or a sample was
            left out although the rule allows it.
    """
    local = local_times(before.trajectories.at[rows], world.build.timezone)
    hour, place = local % DAY_US // HOUR_US, before.trajectories.location[rows]
    cell = np.unique(place.astype(np.int64) * _OF_A_DAY + hour, return_inverse=True)[1]
    objects = len(before.trajectories)
    pair = cell * objects + before.owners()[rows]
    pairs, number = np.unique(pair, return_inverse=True)
    there, shown = (
        np.bincount(number[which], minlength=len(pairs)) for which in (kept | ~kept, kept)
    )
    cell_of = pairs // objects
    most = np.zeros(int(cell_of.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, cell_of, shown)

    def published(by_object: Ints) -> Ints:
        return np.bincount(cell_of, by_object, len(most)).astype(np.int64)

    if _dominates(most, published(shown), percent).any():
        raise VerificationFailed("an object has too large a share of a place and hour")
    if not np.array_equal(shown, np.minimum(there, most[cell_of])):
        raise VerificationFailed("objects of a place and hour do not keep equally many samples")
    more = most + 1
    allowed = ~_dominates(more, published(np.minimum(there, more[cell_of])), percent)
    if (allowed[cell_of] & (there > shown)).any():
        raise VerificationFailed("a sample was left out although the dominance rule allows it")


# --- No dates ---


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
        "sampled_at": said.format("of the sample"),
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
