"""What an audit can see of a guarantee for an object: the noisy vectors with and without one object.

Whoever knows everybody else subtracts their sums. What is left is noise, with or without the vectors
of the one: the sum of the vectors, each entry weighted by the one's own over the variance of its
noise, tells the two worlds apart best of all that is linear. Each vector is looked at alone, too: one
without its noise would drown in the sum of all.

Whoever has the released trips alone counts them, and how many pass where the one went.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.columns.ragged import owners, rows_of
from freqdp_db.evaluation.audit.bounds import Bound, Observed, bound_from
from freqdp_db.mechanisms.accounting import epsilon_of
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods.contract import World
from freqdp_db.methods.synthesis.baseline import cell_trips
from freqdp_db.methods.synthesis.options import StrictOptions
from freqdp_db.methods.synthesis.plan import FIRST_ROUND, SCALE, plan_of, planned_from
from freqdp_db.methods.synthesis.public import Region
from freqdp_db.methods.synthesis.strict import carry_out, released_size
from freqdp_db.methods.synthesis.trips import Trips, cut_trips
from freqdp_db.methods.synthesis.vectors import measured, size_counts, vectors_of, with_noise

MOST_RUNS = 20_000
_FEW = 50
_SIDE = 15
_STEPS = 100_000
"""Shares are looked at in steps of this part."""
_MOST_TRIPS = 1_000
"""Of a release so many are made: where they pass shows in them."""
_MOST_APART = 40.0
_SURE = 5.0
"""Standard deviations that a bound stays on the safe side by."""


def told_apart(world: World, options: StrictOptions, source: RandomSource, runs: int) -> Bound:
    """How much of epsilon the object with the most trips shows, from below."""
    parameters = options.parameters
    region, period = world.public_facts(options.region, options.period)
    trips = cut_trips(world.build.trajectories, world.locations, region, period)
    count, classes = size_counts(trips)
    plan = planned_from(np.array([count * SCALE]), classes * SCALE, region, period, parameters)
    one = int(np.argmax(np.diff(trips.by_object)))
    alone = _some(trips, np.array([one]))
    first = [np.array([size_counts(alone)[0]]) * SCALE, size_counts(alone)[1] * SCALE]
    vectors = [*first, *vectors_of(trips, plan, one, pure=False)]
    runs = min(runs, MOST_RUNS)
    scores, alone_apart = np.zeros((2, runs)), 0.0
    for statistic, vector in zip([*FIRST_ROUND, *plan.statistics], vectors, strict=True):
        own = vector[vector != 0]
        if not statistic.share or not len(own):
            continue
        weight = own * (statistic.share / statistic.bound**2)
        mine = np.zeros((2, runs))
        for there in range(2):
            total = np.tile(own * there, runs)
            seen = with_noise(total, statistic, parameters, source)
            mine[there] = seen.reshape(runs, -1).astype(np.float64) @ weight
        scores += mine
        alone_apart = max(alone_apart, _apart(mine))
    apart = max(_apart(scores), alone_apart)
    lower, upper = (max(apart + way * _SURE * math.sqrt(2 / runs), 0.0) for way in (-1, 1))
    return Bound(_epsilon(lower, parameters.delta), _epsilon(upper, parameters.delta), runs)


def _apart(scores: Metres) -> float:
    """How many deviations lie between the means of two worlds."""
    between = float(scores[1].mean() - scores[0].mean())
    spread = math.sqrt(float(scores[0].var() + scores[1].var()) / 2)
    return min(between / spread, _MOST_APART) if spread > 0 else _MOST_APART * (between > 0)


def released_told_apart(
    world: World, options: StrictOptions, source: RandomSource, runs: int, alpha: float
) -> dict[str, Bound]:
    """The same for whoever has the released trips alone, by what they look at.

    Worlds of few objects: the one with the most trips shows most among few, and many releases
    can be made.
    """
    region, period = world.public_facts(options.region, options.period)
    all_trips = cut_trips(world.build.trajectories, world.locations, region, period)
    busiest = np.argsort(-np.diff(all_trips.by_object), kind="stable")[:_FEW]
    here, there = _some(all_trips, busiest), _some(all_trips, busiest[1:])
    where = _passing(_some(all_trips, busiest[:1]), region)
    seen = {"number of trips": np.zeros((2, runs)), "where they pass": np.zeros((2, runs))}
    for w, trips in enumerate((here, there)):
        for run in range(runs):
            drawn = measured(trips, region, period, options.parameters, source)
            plan = plan_of(drawn, region, period, options.parameters)
            count = released_size(drawn, plan, options.parameters)
            fewer = replace(options.parameters, size=min(count, _MOST_TRIPS))
            made = carry_out(drawn, region, period, fewer)[1]
            t, places = made.trajectories, made.places
            out = Trips(np.array([0, len(t)]), t.offsets, places.x[t.location],
                        places.y[t.location], t.at)  # fmt: skip
            seen["number of trips"][w, run] = count
            seen["where they pass"][w, run] = _STEPS * (_passing(out, region) @ where) / len(t)
    delta = 0.0 if options.parameters.pure else float(options.delta)
    found = {}
    for name, columns in seen.items():
        left, right = (Observed(np.floor(column).astype(np.int64)) for column in columns)
        found[name] = bound_from(left, right, alpha / len(seen), delta)
    return found


def _passing(trips: Trips, region: Region) -> Metres:
    """Share of the trips that pass each cell of a coarse grid."""
    found = cell_trips(trips, region, _SIDE)
    once = np.unique(owners(found.offsets).astype(np.int64) * _SIDE**2 + found.cells)
    share: Metres = np.bincount(once % _SIDE**2, minlength=_SIDE**2) / max(len(trips), 1)
    return share


def _epsilon(apart: float, delta: Fraction) -> float:
    """The epsilon that two normal laws so many deviations apart stand for."""
    rho = Fraction(apart) ** 2 / 2
    return float(epsilon_of(rho, delta)) if rho else 0.0


def _some(trips: Trips, chosen: Ints) -> Trips:
    """The trips of these objects."""
    which, by_object = rows_of(trips.by_object, chosen)
    samples, offsets = rows_of(trips.offsets, which)
    return Trips(by_object, offsets, trips.x[samples], trips.y[samples], trips.at[samples])
