"""What is drawn and committed: the noisy vectors, and the seed of the sampling. Holds no data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np

from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.mechanisms.accounting import gaussian_cost, sigma2_for
from freqdp_db.mechanisms.noise import scale_for
from freqdp_db.methods.synthesis.parameters import Parameters
from freqdp_db.methods.synthesis.plan import (
    FIRST_ROUND,
    SCALE,
    SHARES,
    MeasurementPlan,
    Statistic,
    second_round,
)
from freqdp_db.methods.synthesis.public import Period, Region


class NoisyDraw:
    """Columns of noisy numbers, and the seed of what is sampled from them."""

    def __len__(self) -> int:
        """How many noisy numbers."""
        return sum(len(column) for name, column in vars(self).items() if name != "seed")


@dataclass(frozen=True)
class Draw(NoisyDraw):
    """Noisy sums in units of 1 / SCALE, by the names of the statistics; and 256 bits, 32 a word."""

    objects: Ints
    sizes: Ints
    trips: Ints
    origins: Ints
    destinations: Ints
    same_zone: Ints
    distances: Ints
    visits: Ints
    moves: Ints
    turns: Ints
    steps: Ints
    bends: Ints
    metres: Ints
    minutes: Ints
    hours: Ints
    days: Ints
    pace: Ints
    fine: Ints
    flows: Ints
    seed: Ints

    def __post_init__(self) -> None:
        for field in fields(self):
            column = getattr(self, field.name)
            if column.dtype != np.int64 or column.ndim != 1:
                raise ValueError(f"{field.name} is no column of whole numbers")


@dataclass(frozen=True)
class Noisy:
    """Noisy sums in counts, with the width of their noise (infinite: not measured)."""

    values: dict[str, Metres]
    sigma: dict[str, float]


def share_of(parameters: Parameters, statistic: Statistic) -> Fraction:
    """The part of rho (or, for pure accounting, of epsilon) that a statistic may cost."""
    return parameters.whole * Fraction(statistic.share, SHARES)


def sigma2_of(parameters: Parameters, statistic: Statistic) -> Fraction:
    """Variance of the discrete Gaussian noise; costs its share exactly."""
    return sigma2_for(statistic.bound**2, share_of(parameters, statistic))


def scale_of(parameters: Parameters, statistic: Statistic) -> float:
    """Scale of the discrete Laplace noise; costs its share at most."""
    return scale_for(statistic.bound, share_of(parameters, statistic))


def spent(parameters: Parameters, statistics: list[Statistic]) -> Fraction:
    """What these statistics cost together: rho, or epsilon for pure accounting."""
    measured = [statistic for statistic in statistics if statistic.share]
    if parameters.pure:
        return sum(
            (statistic.bound / Fraction(scale_of(parameters, statistic)) for statistic in measured),
            Fraction(0),
        )
    return sum((gaussian_cost(s.bound**2, sigma2_of(parameters, s)) for s in measured), Fraction(0))


def plan_of(draw: Draw, region: Region, period: Period, parameters: Parameters) -> MeasurementPlan:
    """The plan that the first round's numbers lead to."""
    return planned_from(draw.objects, draw.sizes, region, period, parameters)


def planned_from(
    objects: Ints, sizes: Ints, region: Region, period: Period, parameters: Parameters
) -> MeasurementPlan:
    return second_round(
        region, period, max(int(objects[0]) // SCALE, 0), sizes // SCALE, parameters.whole,
        pure=parameters.pure,
    )  # fmt: skip


def in_counts(draw: Draw, plan: MeasurementPlan, parameters: Parameters) -> Noisy:
    """The noisy sums as floats, with the standard deviation of their noise."""
    values, sigma = {}, {}
    for statistic in [*FIRST_ROUND, *plan.statistics]:
        column: Ints = getattr(draw, statistic.name)
        values[statistic.name] = column / SCALE
        if not statistic.share:
            sigma[statistic.name] = float("inf")
        elif parameters.pure:
            sigma[statistic.name] = scale_of(parameters, statistic) * 2**0.5 / SCALE
        else:
            sigma[statistic.name] = float(sigma2_of(parameters, statistic)) ** 0.5 / SCALE
    return Noisy(values, sigma)
