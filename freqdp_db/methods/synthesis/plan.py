"""The plan of `strict`: its statistics, their public grids, shares of the budget, and clips.

Three nested grids cover the region: zones, cells and fine cells. A move leads from a cell to one of its
eight neighbours; headings are numbered 0 to 7 anticlockwise from east.

The first round counts objects, and the number of trips that each has. The plan of the second round is a
function of these noisy numbers, the region and the budget. The draw consists of the noisy vectors and the
seed of the sampling. Nothing in this module reads data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numba import njit

from freqdp_db.methods.synthesis.public import Parameters, Period, Region
from freqdp_db.model.arrays import Ints, Metres
from freqdp_db.privacy.accounting import VectorNoise

# Change of column and row with a move in each heading.
HEADING_X = np.array([1, 1, 0, -1, -1, -1, 0, 1], np.int64)
HEADING_Y = np.array([0, 1, 1, 1, 0, -1, -1, -1], np.int64)
HEADINGS = 8

DISTANCE_EDGES = np.array([0.5, 1.2, 1.7, 2.1, 2.5, 2.9, 3.2, 4.3, 5.5])
"""Upper edges of the classes of distance between two zones, in zones; class 0 is the same zone."""
DISTANCE_CLASSES = 10
REACH_OF_DISTANCE = np.array([0, 1, 1, 2, 2, 2, 3, 4, 5, 5], np.int64)
"""For each class of distance its reach: a coarser class, by which numbers of steps are counted."""
REACHES = 6
STEP_CLASSES = 16
"""Classes of the number of steps between cells."""
BENDS = 12
"""Classes of bend (see BEND_EDGES)."""
BEND_GROUPS = 4
"""Groups of step classes, by which bends are counted."""
METRE_CLASSES = 17
METRE_EDGES = 1000.0 * 2.0 ** (np.arange(METRE_CLASSES + 1) / 2.0)
"""Edges of the classes of a trip's length, in metres; the last class is open."""
MINUTE_CLASSES = 18
MINUTE_EDGES = 2.0 * 2.0 ** (np.arange(MINUTE_CLASSES + 1) / 2.0)
"""Edges of the classes of a trip's duration, in minutes; the first class begins at 0, the last is open."""
BEND_EDGES = 0.25 * 2.0 ** (np.arange(BENDS + 1) / 2.0)
"""Edges of the classes of bend: the length of a trip / (side of a cell * (number of steps + 0.7))."""
DAYPARTS = 6
"""Parts of the day, of equal length."""
PACES = 12
PACE_EDGES = 0.25 * 2.0 ** (np.arange(PACES + 1) / 3.0)
"""Edges of the classes of pace: the speed of a trip, relative to the mean speed of its part of the day."""


@dataclass(frozen=True)
class Grids:
    """The three grids. Rows are numbered northwards, columns eastwards, cells row by row."""

    region: Region
    zones_x: int
    zones_y: int
    per_zone: int
    """Cells along one side of a zone."""
    per_cell: int
    """Fine cells along one side of a cell."""

    @property
    def cells_x(self) -> int:
        return self.zones_x * self.per_zone

    @property
    def cells_y(self) -> int:
        return self.zones_y * self.per_zone

    @property
    def fine_x(self) -> int:
        return self.cells_x * self.per_cell

    @property
    def fine_y(self) -> int:
        return self.cells_y * self.per_cell

    @property
    def zones(self) -> int:
        return self.zones_x * self.zones_y

    @property
    def cells(self) -> int:
        return self.cells_x * self.cells_y

    @property
    def fine(self) -> int:
        return self.fine_x * self.fine_y

    @property
    def cell_m(self) -> float:
        """Mean of both sides of a cell, in metres."""
        return (self.region.width / self.cells_x + self.region.height / self.cells_y) / 2

    def zone_of_cell(self) -> Ints:
        """[cell]: its zone."""
        row, column = np.divmod(np.arange(self.cells), self.cells_x)
        zone: Ints = (row // self.per_zone) * self.zones_x + column // self.per_zone
        return zone

    def cell_of_fine(self) -> Ints:
        """[fine cell]: its cell."""
        row, column = np.divmod(np.arange(self.fine), self.fine_x)
        cell: Ints = (row // self.per_cell) * self.cells_x + column // self.per_cell
        return cell

    def zone_distance_class(self) -> Ints:
        """Class of distance of each pair of zones: [first * zones + second]."""
        row, column = np.divmod(np.arange(self.zones), self.zones_x)
        far = np.hypot(row[:, None] - row[None, :], column[:, None] - column[None, :])
        return distance_class(far).ravel()

    def cell_centres(self) -> tuple[Metres, Metres]:
        """x and y of the centres of cells, in cells from the south-western corner."""
        row, column = np.divmod(np.arange(self.cells), self.cells_x)
        return column + 0.5, row + 0.5


def distance_class(zones_apart: Metres) -> Ints:
    """The class of a distance that is given in zones."""
    return np.searchsorted(DISTANCE_EDGES, zones_apart).astype(np.int64)


STEP_EDGES = np.array([0, 1, 2, 3, 4, 5, 6, 8, 11, 15, 20, 27, 36, 48, 64, 96, 160], np.int64)
"""Step class j has STEP_EDGES[j] to STEP_EDGES[j + 1] - 1 steps; the last class is open."""
BEND_GROUP_OF_STEPS = np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3], np.int64)
"""[step class]: the group by which bends are counted."""


@njit(nogil=True, cache=True)
def heading_of(dx, dy):  # type: ignore[no-untyped-def]
    """The heading of a move by dx columns and dy rows, each -1, 0 or 1."""
    if dy == 0:
        return 0 if dx > 0 else 4
    if dy > 0:
        return 2 - dx
    return 6 + dx


# --- The plan of a release ---


SCALE = 2**16
"""Weights of contributions are whole numbers from 0 to SCALE, which stands for 1."""
LARGEST_BOUND = 2**30
"""Largest clip, so that no sum of squares exceeds 64 bits. A clip that is too low does little harm."""
SHARES = 1000
"""Shares of the budget are whole numbers of 1 / SHARES."""
SIZE_CLASSES = 24
"""Classes of the number of trips of an object; class j is from 2**(j/2) to below 2**((j+1)/2)."""
SIZE_EDGES = tuple(math.isqrt(2**j - 1) + 1 for j in range(SIZE_CLASSES + 1))
"""The smallest number of trips in class j, which is the smallest t with t^2 >= 2^j."""
MOST_TRIPS_A_DAY = 48
"""Largest plausible number of trips of an object in a day: one every half hour."""
ZONES_ALONG = 6
"""Zones along the longer side of the region."""
ENOUGH_FOR_FLOWS = 600.0
"""From this strength (objects times sqrt(2 rho)) on, the matrix of flows is measured directly."""
MOST_PER_ZONE = 5
"""Largest number of cells along a side of a zone."""
MOST_CORRECTED = 4
"""Largest factor by which the number of trips is corrected for its clip."""


@dataclass(frozen=True)
class Statistic:
    """A vector that is measured."""

    name: str
    size: int
    share: int
    """Share of the budget, in thousandths; 0: not measured."""
    bound: int
    """Largest norm of an object's vector (L2; L1 with pure accounting), in units of 1 / SCALE."""


@dataclass(frozen=True)
class MeasurementPlan:
    """The second round: what is measured, and with which clips."""

    grids: Grids
    period: Period
    statistics: list[Statistic]
    significant: tuple[int, int] = (0, 0)
    """Significant classes of the number of trips: the first, and one after the last; (0, 0): none."""

    @property
    def sizes(self) -> list[int]:
        return [statistic.size for statistic in self.statistics]


FIRST_ROUND = (
    Statistic("objects", 1, 10, SCALE),
    Statistic("sizes", SIZE_CLASSES, 20, SCALE),
)


class _Rule(NamedTuple):
    """Size, shares and clips of one statistic of the second round."""

    size: Callable[[Grids, Period], int]
    few: int
    many: int
    pure: int
    """Share of the budget in thousandths: with few objects, with many, and with pure accounting."""
    l2: float
    l1: float
    """Clip of the L2 norm, or of the L1 norm with pure accounting, for each trip of an object in the lower
    quartile.

    These are low on purpose. A low clip does little harm: signal and noise shrink together, and objects
    count more alike. A high clip only adds noise.
    """


_RULES = {
    "trips": _Rule(lambda grids, period: 1, 10, 10, 20, 0.0, 0.0),
    "origins": _Rule(lambda grids, period: grids.zones, 90, 70, 85, 0.4, 0.8),
    "destinations": _Rule(lambda grids, period: grids.zones, 90, 70, 85, 0.4, 0.8),
    "same_zone": _Rule(lambda grids, period: grids.zones, 60, 40, 60, 0.2, 0.25),
    "distances": _Rule(lambda grids, period: DISTANCE_CLASSES, 40, 30, 45, 0.4, 0.8),
    "visits": _Rule(lambda grids, period: grids.cells, 280, 220, 500, 0.8, 4.0),
    "moves": _Rule(lambda grids, period: grids.cells * HEADINGS, 90, 120, 0, 0.7, 4.0),
    "turns": _Rule(lambda grids, period: HEADINGS, 20, 20, 25, 2.0, 4.0),
    "steps": _Rule(lambda grids, period: REACHES * STEP_CLASSES, 50, 50, 45, 0.25, 0.8),
    "bends": _Rule(lambda grids, period: BEND_GROUPS * BENDS, 20, 20, 20, 0.25, 0.8),
    "metres": _Rule(lambda grids, period: METRE_CLASSES, 50, 25, 35, 0.25, 0.8),
    "minutes": _Rule(lambda grids, period: MINUTE_CLASSES, 25, 25, 20, 0.25, 0.8),
    "hours": _Rule(lambda grids, period: 24, 30, 30, 15, 0.25, 0.8),
    "days": _Rule(lambda grids, period: period.days, 20, 20, 10, 0.3, 0.8),
    "pace": _Rule(lambda grids, period: 2 * DAYPARTS, 15, 15, 5, 60.0, 60.0),
    "fine": _Rule(lambda grids, period: grids.fine, 80, 115, 0, 1.0, 5.0),
    "flows": _Rule(lambda grids, period: grids.zones**2, 0, 90, 0, 0.25, 0.8),
}
ORDER = tuple(_RULES)


def find_significant_classes(sizes: Ints, sigma: float, days: int) -> tuple[int, int]:
    """Classes of the noisy histogram that are significant: the first, and one after the last.

    The search begins with the four neighbours that hold most and goes on in both directions as long as the
    next two classes are significant. Classes with more trips than the period has room for are noise.
    """
    counts = [int(count) for count in sizes]
    top = sum(edge <= days * MOST_TRIPS_A_DAY for edge in SIZE_EDGES[:-1])

    def is_significant(first: int, last: int, deviations: float) -> bool:
        return sum(counts[first:last]) > deviations * sigma * math.sqrt(last - first)

    first = max(range(max(top - 3, 1)), key=lambda j: sum(counts[j : min(j + 4, top)]))
    last = min(first + 4, top)
    if not is_significant(first, last, 3.0):
        return 0, 0
    while last < top and is_significant(last, min(last + 2, top), 2.0):
        last += 1
    while first > 0 and is_significant(max(first - 2, 0), first, 2.0):
        first -= 1
    return first, last


def find_quantile_class(sizes: Ints, significant: tuple[int, int], share: Fraction) -> int:
    """The class of a quantile of the number of trips, by the significant classes."""
    first, last = significant
    total, running = sum(int(count) for count in sizes[first:last]), 0
    for j in range(first, last):
        running += int(sizes[j])
        if running > 0 and running >= share * total:
            return j
    return 0


@dataclass(frozen=True)
class ClipLoss:
    """How much the clip of the number of trips removes, by the noisy histogram of these numbers."""

    clip: int
    """In trips."""
    most: int
    """Largest plausible number of trips of an object."""
    middles: list[int]
    """Twice the middle of each significant class."""
    unclipped: int
    """Twice the trips of all objects in these classes."""
    clipped: int
    """Twice the trips of all objects in these classes after the clip."""

    @classmethod
    def of(cls, sizes: Ints, plan: MeasurementPlan) -> ClipLoss:
        (clip,) = (s.bound // SCALE for s in plan.statistics if s.name == "trips")
        first, last = plan.significant
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
        """Whether the histogram shows that the clip removes trips."""
        return 0 < self.clipped < self.unclipped

    def corrected(self, trips: int, objects: int) -> int:
        """The number of trips, corrected for the clip. Whole-number arithmetic: the same on all
        machines."""
        if self.known:
            trips = trips * min(self.unclipped, MOST_CORRECTED * self.clipped) // self.clipped
        return max(min(trips, max(objects, 1) * self.most), 1)

    def error(self, sigma: float) -> float:
        """Relative standard error of the correction. sigma: deviation of the noise of a class."""
        if not self.known:
            return 0.0
        parts = [m / self.unclipped - min(m, 2 * self.clip) / self.clipped for m in self.middles]
        return sigma * math.sqrt(sum(part * part for part in parts))


def second_round(
    region: Region, period: Period, objects: int, sizes: Ints, whole: Fraction, *, pure: bool
) -> MeasurementPlan:
    """The plan that follows from the noisy numbers of the first round, in whole objects.

    whole: the budget, which is rho, or epsilon with pure accounting.
    """
    strength = max(objects, 1) * (float(whole) / 8 if pure else math.sqrt(2 * float(whole)))
    share = "pure" if pure else "many" if strength >= ENOUGH_FOR_FLOWS else "few"
    grids = choose_grids(region, strength)
    part = float(whole) * FIRST_ROUND[1].share / SHARES
    significant = find_significant_classes(
        sizes, math.sqrt(2) / part if pure else math.sqrt(1 / (2 * part)), period.days
    )
    typical = 2.0 ** (find_quantile_class(sizes, significant, Fraction(1, 4)) / 2)
    many = 2.0 ** (find_quantile_class(sizes, significant, Fraction(1, 2)) / 2 + 1)
    statistics = []
    for name, how in _RULES.items():
        clip = many if name == "trips" else (how.l1 if pure else how.l2) * typical
        bound = min(max(SCALE, math.floor(clip * SCALE)), LARGEST_BOUND)
        size = how.size(grids, period)
        statistics.append(Statistic(name, size, getattr(how, share), bound))
    return MeasurementPlan(grids, period, statistics, significant)


def choose_grids(region: Region, strength: float) -> Grids:
    """Grids with about 1.5 cells for each unit of strength, so that a typical cell exceeds the noise."""
    zones_x, zones_y = sides(region, ZONES_ALONG)
    per_zone = math.floor(math.sqrt(1.5 * strength / (zones_x * zones_y)) + 0.5)
    per_zone = min(max(per_zone, 1), MOST_PER_ZONE)
    return Grids(region, zones_x, zones_y, per_zone, 3 if per_zone <= 3 else 2)


def sides(region: Region, along: int) -> tuple[int, int]:
    """Number of zones along x and y: `along` on the longer side, of about the same width on the other."""
    longest = max(region.width, region.height)
    return (
        max(1, math.floor(along * region.width / longest + 0.5)),
        max(1, math.floor(along * region.height / longest + 0.5)),
    )


# --- What is drawn and committed: noisy vectors, and the seed of the sampling ---


class NoisyDraw:
    """Base of draws: columns of noisy numbers, and the seed of the sampling."""

    def __post_init__(self) -> None:
        for name, column in vars(self).items():
            if column.dtype != np.int64 or column.ndim != 1:
                raise ValueError(f"{name} is no column of whole numbers")

    def __len__(self) -> int:
        """Number of noisy numbers."""
        return sum(len(column) for name, column in vars(self).items() if name != "seed")


_NUMBERS = make_dataclass(
    "_NUMBERS", [*(s.name for s in FIRST_ROUND), *_RULES, "seed"], bases=(NoisyDraw,), frozen=True
)


class Draw(_NUMBERS):  # type: ignore[misc, valid-type]
    """Noisy sums of the statistics in units of 1 / SCALE; the seed is 256 bits in words of 32."""


@dataclass(frozen=True)
class Noisy:
    """Noisy sums in counts, by statistic."""

    values: dict[str, Metres]
    sigma: dict[str, float]
    """Standard deviation of the noise; infinite: not measured."""


def noise_of(parameters: Parameters, statistic: Statistic) -> VectorNoise:
    """The noise that a statistic is measured with, at its share of the budget."""
    return VectorNoise(
        bound=statistic.bound if parameters.pure else statistic.bound**2,
        amount=parameters.whole * Fraction(statistic.share, SHARES),
        pure=parameters.pure,
    )


def spent(parameters: Parameters, statistics: list[Statistic]) -> Fraction:
    """What these statistics cost together: rho, or epsilon for pure accounting."""
    costs = (noise_of(parameters, s).cost for s in statistics if s.share)
    return sum(costs, Fraction(0))


def plan_of(draw: Draw, region: Region, period: Period, parameters: Parameters) -> MeasurementPlan:
    """The plan of the draw's second round."""
    return planned_from(draw.objects, draw.sizes, region, period, parameters)


def planned_from(
    objects: Ints, sizes: Ints, region: Region, period: Period, parameters: Parameters
) -> MeasurementPlan:
    """The plan that follows from the noisy numbers of the first round."""
    return second_round(
        region, period, max(int(objects[0]) // SCALE, 0), sizes // SCALE, parameters.whole,
        pure=parameters.pure,
    )  # fmt: skip


def in_counts(draw: Draw, plan: MeasurementPlan, parameters: Parameters) -> Noisy:
    """The noisy sums of a draw in counts, with the standard deviations of their noise."""
    values, sigma = {}, {}
    for statistic in [*FIRST_ROUND, *plan.statistics]:
        column: Ints = getattr(draw, statistic.name)
        values[statistic.name] = column / SCALE
        sigma[statistic.name] = (
            noise_of(parameters, statistic).deviation / SCALE if statistic.share else math.inf
        )
    return Noisy(values, sigma)
