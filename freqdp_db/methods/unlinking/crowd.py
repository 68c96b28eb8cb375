"""The crowd rule: a sample is published only where enough objects were.

A place is the build's, or the cell of the grain. Objects are those of the build, each counted once, with
the places and times that the release would show of them; the object whose sample it is counts too.
Samples that a method before has put in count for nobody. They may have been there ever, in the same hour
of any day, or on the same day, by the dataset's time zone.

It is no guarantee: a crowd at a place says nothing about who of it a trajectory belongs to.
"""

from __future__ import annotations

import numpy as np

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import StepContext, WorkingSet
from freqdp_db.methods.unlinking.clock import hide_samples
from freqdp_db.methods.unlinking.options import CutOptions, PointsOptions
from freqdp_db.model.arrays import Flags, Ints
from freqdp_db.model.days import DAY_US, HOUR_US, local_times

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
    visits = np.unique(_runs(there * objects + source.owners()))
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


def _runs(codes: Ints) -> Ints:
    """The first of each run of equal codes: most samples repeat the one before."""
    fresh = np.ones(len(codes), np.bool_)
    fresh[1:] = codes[1:] != codes[:-1]
    return codes[fresh]


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
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (np.diff(place[order]) != 0) | (np.diff(time[order]) != 0)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(fresh) - 1
    order = np.lexsort((owner, number[:visits]))
    one, who = number[:visits][order], owner[order]
    first = np.ones(visits, np.bool_)
    first[1:] = (np.diff(one) != 0) | (np.diff(who) != 0)
    objects = np.bincount(one[first], minlength=int(fresh.sum()))
    enough = objects[number[visits:]] >= options.crowd
    if (kept & ~enough).any():
        raise VerificationFailed("a sample is published where too few objects were")
    if (~kept & enough).any():
        raise VerificationFailed("a sample was left out although enough objects were there")
