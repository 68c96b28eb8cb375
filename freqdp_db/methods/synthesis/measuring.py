"""The only step that sees data: trips, clipped vectors, noise. What leaves it is the draw.

Input: all samples of the build, the public region and period, the parameters.
Protected change: one object with all its data, added or removed.
Sensitivity: each statistic's sum moves by that object's vector, at most its bound long (vectors.py).
Guarantee: rho-zCDP, rho from (epsilon, delta), by composition of the statistics' shares; with pure
accounting, epsilon-DP. The second round's plan depends on the first round's noisy numbers only.
"""

from __future__ import annotations

import numpy as np

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.streams import SEED_WORDS
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods.synthesis.noisy import Draw, planned_from, scale_of, sigma2_of
from freqdp_db.methods.synthesis.parameters import Parameters
from freqdp_db.methods.synthesis.plan import FIRST_ROUND, SCALE, Statistic
from freqdp_db.methods.synthesis.public import Period, Region
from freqdp_db.methods.synthesis.trips import Trips, cut_trips
from freqdp_db.methods.synthesis.vectors import size_counts, summed


def with_noise(
    total: Ints, statistic: Statistic, parameters: Parameters, source: RandomSource
) -> Ints:
    """A sum of clipped vectors, with noise on every entry; zeros where it is not measured."""
    if not statistic.share:
        return np.zeros(len(total), np.int64)
    if parameters.pure:
        return total + source.discrete_laplace(scale_of(parameters, statistic), len(total))
    return total + source.discrete_gaussian(sigma2_of(parameters, statistic), len(total))


def measured(
    trips: Trips, region: Region, period: Period, parameters: Parameters, source: RandomSource
) -> Draw:
    """The draw of objects whose trips are given."""
    objects, classes = size_counts(trips)
    first = [
        with_noise(total * SCALE, statistic, parameters, source)
        for total, statistic in zip(
            (np.array([objects], np.int64), classes), FIRST_ROUND, strict=True
        )
    ]
    plan = planned_from(first[0], first[1], region, period, parameters)
    totals = summed(trips, plan, pure=parameters.pure)
    second = {
        statistic.name: with_noise(total, statistic, parameters, source)
        for total, statistic in zip(totals, plan.statistics, strict=True)
    }
    seed = source.uniform_words(SEED_WORDS) & 0xFFFFFFFF
    return Draw(objects=first[0], sizes=first[1], **second, seed=seed)


def draw(
    trajectories: Trajectories,
    places: Locations,
    region: Region,
    period: Period,
    parameters: Parameters,
    source: RandomSource,
) -> Draw:
    """Everything random of a release; nothing else of the data goes on."""
    return measured(
        cut_trips(trajectories, places, region, period), region, period, parameters, source
    )
