"""What an audit can see of a guarantee for a person: the noisy vectors with and without one object.

Whoever knows everybody else subtracts their sums. What is left is noise, with or without the vectors
of the one: the sum of the vectors, each entry weighted by the one's own over the variance of its
noise, tells the two worlds apart best of all that is linear.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from freqdp_db.errors import BadInput
from freqdp_db.evaluation.audit.bounds import Bound
from freqdp_db.mechanisms.accounting import epsilon_of
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods.contract import World
from freqdp_db.methods.synthesis.measuring import with_noise
from freqdp_db.methods.synthesis.noisy import planned_from
from freqdp_db.methods.synthesis.options import StrictOptions
from freqdp_db.methods.synthesis.plan import FIRST_ROUND, SCALE
from freqdp_db.methods.synthesis.trips import Trips, cut_trips
from freqdp_db.methods.synthesis.vectors import size_counts, vectors_of

MOST_RUNS = 20_000
_SURE = 5.0
"""Standard deviations that a bound stays on the safe side by."""


def told_apart(world: World, options: StrictOptions, source: RandomSource, runs: int) -> Bound:
    """How much of epsilon the object with the most trips shows, from below."""
    parameters = options.parameters
    if parameters.pure:
        raise BadInput(
            "--accounting pure cannot be audited this way: its bound is on single events",
            remedy="audit with --accounting zcdp",
        )
    region, period = world.public_facts(options.region, options.period)
    trips = cut_trips(world.build.trajectories, world.locations, region, period)
    count, classes = size_counts(trips)
    plan = planned_from(np.array([count * SCALE]), classes * SCALE, region, period, parameters)
    one = int(np.argmax(np.diff(trips.by_object)))
    alone = _only(trips, one)
    first = [np.array([size_counts(alone)[0]]) * SCALE, size_counts(alone)[1] * SCALE]
    vectors = [*first, *vectors_of(trips, plan, one, pure=False)]
    runs = min(runs, MOST_RUNS)
    scores = np.zeros((2, runs))
    for statistic, vector in zip([*FIRST_ROUND, *plan.statistics], vectors, strict=True):
        own = vector[vector != 0]
        if not statistic.share or not len(own):
            continue
        weight = own * (statistic.share / statistic.bound**2)
        for there in range(2):
            total = np.tile(own * there, runs)
            seen = with_noise(total, statistic, parameters, source)
            scores[there] += seen.reshape(runs, -1).astype(np.float64) @ weight
    spread = math.sqrt((scores[0].var() + scores[1].var()) / 2)
    apart = (scores[1].mean() - scores[0].mean()) / spread
    lower, upper = (max(apart + way * _SURE * math.sqrt(2 / runs), 0.0) for way in (-1, 1))
    return Bound(_epsilon(lower, parameters.delta), _epsilon(upper, parameters.delta), runs)


def _epsilon(apart: float, delta: Fraction) -> float:
    """The epsilon that two normal laws so many deviations apart stand for."""
    rho = Fraction(apart) ** 2 / 2
    return float(epsilon_of(rho, delta)) if rho else 0.0


def _only(trips: Trips, one: int) -> Trips:
    begin, end = trips.by_object[one], trips.by_object[one + 1]
    a, b = trips.offsets[begin], trips.offsets[end]
    return Trips(
        by_object=np.array([0, end - begin], np.int64),
        offsets=trips.offsets[begin : end + 1] - a,
        x=trips.x[a:b],
        y=trips.y[a:b],
        at=trips.at[a:b],
    )
