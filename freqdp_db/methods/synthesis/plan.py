"""The plan of a release: which vectors, over which grids, with which shares and clips.

The first round counts objects and how many trips each has; from these noisy numbers, the region and
the budget the plan of the second round follows by whole-number and plain rules. No data is seen here.

What is drawn and committed: the noisy vectors, and the seed of the sampling. Holds no data."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np

from freqdp_db.methods.synthesis.layout import (
    BEND_GROUPS,
    BENDS,
    DAYPARTS,
    DISTANCE_CLASSES,
    HEADINGS,
    METRE_CLASSES,
    MINUTE_CLASSES,
    REACHES,
    STEP_CLASSES,
    Grids,
)
from freqdp_db.methods.synthesis.options import Parameters
from freqdp_db.methods.synthesis.public import Period, Region
from freqdp_db.model.arrays import Ints, Metres
from freqdp_db.privacy.accounting import gaussian_cost, sigma2_for
from freqdp_db.privacy.noise import scale_for

SCALE = 2**16
"""Contributions are whole multiples of 1 / SCALE of a count."""
LARGEST_BOUND = 2**30
"""No clip is larger, so that no sum of squares leaves 64 bits; one that is too low costs little."""
SHARES = 1000
SIZE_CLASSES = 24
"""Classes of the number of trips of one object: from 2**(j/2) to below 2**((j+1)/2)."""
SIZE_EDGES = tuple(math.isqrt(2**j - 1) + 1 for j in range(SIZE_CLASSES + 1))
"""Class j begins with this number of trips: the smallest t with t^2 >= 2^j."""
MOST_TRIPS_A_DAY = 48
"""No object is taken to make more: a trip begins half an hour after the one before it."""
ZONES_ALONG = 6
ENOUGH_FOR_FLOWS = 600.0
"""From this strength on (objects times sqrt(2 rho)) the matrix of flows is measured directly."""
MOST_PER_ZONE = 5
MOST_CORRECTED = 4
"""What clips took away of the number of trips is put back up to so many times what is left."""


@dataclass(frozen=True)
class Statistic:
    """One vector that is measured."""

    name: str
    size: int
    share: int
    """Of the budget, in thousandths; 0: not measured."""
    bound: int
    """No object's vector is longer than this (L2; L1 for pure), in units of 1 / SCALE."""


@dataclass(frozen=True)
class MeasurementPlan:
    grids: Grids
    period: Period
    statistics: list[Statistic]
    sized: tuple[int, int] = (0, 0)
    """Classes of the number of trips that stand out of the noise: from the first to before the second;
    (0, 0): none."""

    @property
    def sizes(self) -> list[int]:
        return [statistic.size for statistic in self.statistics]


FIRST_ROUND = (
    Statistic("objects", 1, 10, SCALE),
    Statistic("sizes", SIZE_CLASSES, 20, SCALE),
)

# Shares by what is measured: with few objects, with many, and for pure accounting.
_FEW = {
    "trips": 10, "origins": 90, "destinations": 90, "same_zone": 60, "distances": 40,
    "visits": 280, "moves": 90, "turns": 20, "steps": 50, "bends": 20, "metres": 50,
    "minutes": 25, "hours": 30, "days": 20, "pace": 15, "fine": 80, "flows": 0,
}  # fmt: skip
_MANY = {
    "trips": 10, "origins": 70, "destinations": 70, "same_zone": 40, "distances": 30,
    "visits": 220, "moves": 120, "turns": 20, "steps": 50, "bends": 20, "metres": 25,
    "minutes": 25, "hours": 30, "days": 20, "pace": 15, "fine": 115, "flows": 90,
}  # fmt: skip
_PURE = {
    "trips": 20, "origins": 85, "destinations": 85, "same_zone": 60, "distances": 45,
    "visits": 500, "moves": 0, "turns": 25, "steps": 45, "bends": 20, "metres": 35,
    "minutes": 20, "hours": 15, "days": 10, "pace": 5, "fine": 0, "flows": 0,
}  # fmt: skip
# Clips for each trip that an object of the lower quartile has. A clip that is too low costs hardly
# anything (signal and noise shrink together, objects only come to count alike); one that is too high
# is noise for nothing. So these are low.
_CLIP_L2 = {
    "trips": 0.0, "origins": 0.4, "destinations": 0.4, "same_zone": 0.2, "distances": 0.4,
    "visits": 0.8, "moves": 0.7, "turns": 2.0, "steps": 0.25, "bends": 0.25, "metres": 0.25,
    "minutes": 0.25, "hours": 0.25, "days": 0.3, "pace": 60.0, "fine": 1.0, "flows": 0.25,
}  # fmt: skip
_CLIP_L1 = {
    "trips": 0.0, "origins": 0.8, "destinations": 0.8, "same_zone": 0.25, "distances": 0.8,
    "visits": 4.0, "moves": 4.0, "turns": 4.0, "steps": 0.8, "bends": 0.8, "metres": 0.8,
    "minutes": 0.8, "hours": 0.8, "days": 0.8, "pace": 60.0, "fine": 5.0, "flows": 0.8,
}  # fmt: skip


def standing_out(sizes: Ints, sigma: float, days: int) -> tuple[int, int]:
    """Classes of the noisy histogram that stand out of its noise: first, and one after the last.

    Begins with the four neighbours that hold most, and goes on in both directions as long as the next
    two stand out. Classes beyond what the period has room for are noise, whatever they hold.
    """
    counts = [int(count) for count in sizes]
    top = sum(edge <= days * MOST_TRIPS_A_DAY for edge in SIZE_EDGES[:-1])

    def stands(first: int, last: int, times: float) -> bool:
        return sum(counts[first:last]) > times * sigma * math.sqrt(last - first)

    first = max(range(max(top - 3, 1)), key=lambda j: sum(counts[j : min(j + 4, top)]))
    last = min(first + 4, top)
    if not stands(first, last, 3.0):
        return 0, 0
    while last < top and stands(last, min(last + 2, top), 2.0):
        last += 1
    while first > 0 and stands(max(first - 2, 0), first, 2.0):
        first -= 1
    return first, last


def quantile_class(sizes: Ints, sized: tuple[int, int], share: Fraction) -> int:
    """The class up to which this share of the objects lies, by the classes that stand out."""
    first, last = sized
    total, running = sum(int(count) for count in sizes[first:last]), 0
    for j in range(first, last):
        running += int(sizes[j])
        if running > 0 and running >= share * total:
            return j
    return 0


@dataclass(frozen=True)
class ClipLoss:
    """What the clip of the number of trips took away, by the noisy histogram of these numbers."""

    clip: int
    most: int
    """No object is taken to have more trips."""
    middles: list[int]
    """Twice the middle of each class that stands out."""
    unclipped: int
    """Twice the trips of all objects in these classes."""
    clipped: int
    """The same after the clip."""

    @classmethod
    def of(cls, sizes: Ints, plan: MeasurementPlan) -> ClipLoss:
        (clip,) = (s.bound // SCALE for s in plan.statistics if s.name == "trips")
        first, last = plan.sized
        middles = [SIZE_EDGES[j] + SIZE_EDGES[j + 1] - 1 for j in range(first, last)]
        counts = [int(n) for n in sizes[first:last]]
        return cls(
            clip,
            SIZE_EDGES[last] - 1 if last else clip,
            middles,
            sum(n * m for n, m in zip(counts, middles, strict=True)),
            sum(n * min(m, 2 * clip) for n, m in zip(counts, middles, strict=True)),
        )

    @property
    def known(self) -> bool:
        return 0 < self.clipped < self.unclipped

    def corrected(self, trips: int, objects: int) -> int:
        """How many trips there are: in whole numbers, so that all machines agree."""
        if self.known:
            trips = trips * min(self.unclipped, MOST_CORRECTED * self.clipped) // self.clipped
        return max(min(trips, max(objects, 1) * self.most), 1)

    def error(self, sigma: float) -> float:
        """Standard error of the correction, in proportion; `sigma`: of a class of the histogram."""
        if not self.known:
            return 0.0
        parts = [m / self.unclipped - min(m, 2 * self.clip) / self.clipped for m in self.middles]
        return sigma * math.sqrt(sum(part * part for part in parts))


def second_round(
    region: Region, period: Period, objects: int, sizes: Ints, whole: Fraction, *, pure: bool
) -> MeasurementPlan:
    """The plan that follows from the first round's noisy numbers (in whole objects)."""
    strength = max(objects, 1) * (float(whole) / 8 if pure else math.sqrt(2 * float(whole)))
    shares = _PURE if pure else _MANY if strength >= ENOUGH_FOR_FLOWS else _FEW
    grids = chosen_grids(region, strength)
    clips = _CLIP_L1 if pure else _CLIP_L2
    part = float(whole) * FIRST_ROUND[1].share / SHARES
    sized = standing_out(
        sizes, math.sqrt(2) / part if pure else math.sqrt(1 / (2 * part)), period.days
    )
    typical = 2.0 ** (quantile_class(sizes, sized, Fraction(1, 4)) / 2)
    many = 2.0 ** (quantile_class(sizes, sized, Fraction(1, 2)) / 2 + 1)
    lengths = {
        "trips": 1,
        "origins": grids.zones,
        "destinations": grids.zones,
        "same_zone": grids.zones,
        "distances": DISTANCE_CLASSES,
        "visits": grids.cells,
        "moves": grids.cells * HEADINGS,
        "turns": HEADINGS,
        "steps": REACHES * STEP_CLASSES,
        "bends": BEND_GROUPS * BENDS,
        "metres": METRE_CLASSES,
        "minutes": MINUTE_CLASSES,
        "hours": 24,
        "days": period.days,
        "pace": 2 * DAYPARTS,
        "fine": grids.fine,
        "flows": grids.zones**2,
    }
    statistics = [
        Statistic(
            name, size, shares[name], _bound(many if name == "trips" else clips[name] * typical)
        )
        for name, size in lengths.items()
    ]
    return MeasurementPlan(grids, period, statistics, sized)


def _bound(clip: float) -> int:
    return min(max(SCALE, math.floor(clip * SCALE)), LARGEST_BOUND)


def chosen_grids(region: Region, strength: float) -> Grids:
    """Cells so many that a typical one still stands out of the noise; about 1.5 for each unit."""
    zones_x, zones_y = sides(region, ZONES_ALONG)
    per_zone = math.floor(math.sqrt(1.5 * strength / (zones_x * zones_y)) + 0.5)
    per_zone = min(max(per_zone, 1), MOST_PER_ZONE)
    return Grids(region, zones_x, zones_y, per_zone, 3 if per_zone <= 3 else 2)


def sides(region: Region, along: int) -> tuple[int, int]:
    """Zones along both sides: `along` on the longer, about as wide on the shorter."""
    longest = max(region.width, region.height)
    return (
        max(1, math.floor(along * region.width / longest + 0.5)),
        max(1, math.floor(along * region.height / longest + 0.5)),
    )


# --- What is drawn and committed: the noisy vectors, and the seed of the sampling. Holds no data ---


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
