"""What is counted, over which public grids, with which shares of the budget and which clips.

Three grids lie over the region, each cutting the one before: zones, cells, fine cells. Headings are
numbered 0 to 7 anticlockwise from east; a move goes to one of the eight neighbours.

The first round counts objects and how many trips each has; from these noisy numbers, the region and
the budget the plan of the second round follows by whole-number and plain rules. What is drawn and
committed are the noisy vectors, and the seed of the sampling. No data is seen here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numba import njit

from freqdp_db.methods.synthesis.public import Parameters, Period, Region
from freqdp_db.model.arrays import Ints, Metres
from freqdp_db.privacy.accounting import gaussian_cost, sigma2_for
from freqdp_db.privacy.noise import scale_for

HEADING_X = np.array([1, 1, 0, -1, -1, -1, 0, 1], np.int64)
HEADING_Y = np.array([0, 1, 1, 1, 0, -1, -1, -1], np.int64)
HEADINGS = 8

DISTANCE_EDGES = np.array([0.5, 1.2, 1.7, 2.1, 2.5, 2.9, 3.2, 4.3, 5.5])
"""Upper edges, in zones of straight distance between two zones; class 0 is the same zone."""
DISTANCE_CLASSES = 10
REACH_OF_DISTANCE = np.array([0, 1, 1, 2, 2, 2, 3, 4, 5, 5], np.int64)
"""Numbers of steps are counted by a coarser class of the distance."""
REACHES = 6
STEP_CLASSES = 16
BENDS = 12
BEND_GROUPS = 4
METRE_CLASSES = 17
METRE_EDGES = 1000.0 * 2.0 ** (np.arange(METRE_CLASSES + 1) / 2.0)
"""Classes of a trip's length; the last is open."""
MINUTE_CLASSES = 18
MINUTE_EDGES = 2.0 * 2.0 ** (np.arange(MINUTE_CLASSES + 1) / 2.0)
"""Classes of a trip's duration, in minutes; the first begins at none, the last is open."""
BEND_EDGES = 0.25 * 2.0 ** (np.arange(BENDS + 1) / 2.0)
"""How long a trip is for its steps: metres / (side of a cell * (steps + 0.7))."""
DAYPARTS = 6
PACES = 12
PACE_EDGES = 0.25 * 2.0 ** (np.arange(PACES + 1) / 3.0)
"""How fast a trip is, in proportion to the speed of its part of the day."""


@dataclass(frozen=True)
class Grids:
    """The three grids; rows go north, columns east, numbers row by row."""

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
        """Side of a cell, the mean of both."""
        return (self.region.width / self.cells_x + self.region.height / self.cells_y) / 2

    def zone_of_cell(self) -> Ints:
        row, column = np.divmod(np.arange(self.cells), self.cells_x)
        zone: Ints = (row // self.per_zone) * self.zones_x + column // self.per_zone
        return zone

    def cell_of_fine(self) -> Ints:
        row, column = np.divmod(np.arange(self.fine), self.fine_x)
        cell: Ints = (row // self.per_cell) * self.cells_x + column // self.per_cell
        return cell

    def zone_distance_class(self) -> Ints:
        """Class of each pair of zones, a row for each first zone, flattened."""
        row, column = np.divmod(np.arange(self.zones), self.zones_x)
        far = np.hypot(row[:, None] - row[None, :], column[:, None] - column[None, :])
        return distance_class(far).ravel()

    def cell_centres(self) -> tuple[Metres, Metres]:
        """In units of cells, from the region's corner."""
        row, column = np.divmod(np.arange(self.cells), self.cells_x)
        return column + 0.5, row + 0.5


def distance_class(zones_apart: Metres) -> Ints:
    """0: same zone; then by straight distance, the last open."""
    return np.searchsorted(DISTANCE_EDGES, zones_apart).astype(np.int64)


STEP_EDGES = np.array([0, 1, 2, 3, 4, 5, 6, 8, 11, 15, 20, 27, 36, 48, 64, 96, 160], np.int64)
"""Class j has the numbers of steps from STEP_EDGES[j] to STEP_EDGES[j + 1] - 1; the last is open."""


BEND_GROUP_OF_STEPS = np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3], np.int64)
"""Bends are counted by a coarser class of the number of steps."""


@njit(nogil=True, cache=True)
def heading_of(dx, dy):  # type: ignore[no-untyped-def]
    """0 to 7 anticlockwise from east, for steps of -1, 0, 1."""
    if dy == 0:
        return 0 if dx > 0 else 4
    if dy > 0:
        return 2 - dx
    return 6 + dx


# --- The plan of a release ---


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


class _Measured(NamedTuple):
    """How one vector is measured."""

    few: int
    many: int
    pure: int
    """Shares of the budget, in thousandths: with few objects, with many, and for pure accounting."""
    l2: float
    l1: float
    """Clips (L1: for pure accounting) for each trip that an object of the lower quartile has.

    A clip that is too low costs hardly anything (signal and noise shrink together, objects only come
    to count alike); one that is too high is noise for nothing. So these are low.
    """


_MEASURED = {
    "trips": _Measured(10, 10, 20, 0.0, 0.0),
    "origins": _Measured(90, 70, 85, 0.4, 0.8),
    "destinations": _Measured(90, 70, 85, 0.4, 0.8),
    "same_zone": _Measured(60, 40, 60, 0.2, 0.25),
    "distances": _Measured(40, 30, 45, 0.4, 0.8),
    "visits": _Measured(280, 220, 500, 0.8, 4.0),
    "moves": _Measured(90, 120, 0, 0.7, 4.0),
    "turns": _Measured(20, 20, 25, 2.0, 4.0),
    "steps": _Measured(50, 50, 45, 0.25, 0.8),
    "bends": _Measured(20, 20, 20, 0.25, 0.8),
    "metres": _Measured(50, 25, 35, 0.25, 0.8),
    "minutes": _Measured(25, 25, 20, 0.25, 0.8),
    "hours": _Measured(30, 30, 15, 0.25, 0.8),
    "days": _Measured(20, 20, 10, 0.3, 0.8),
    "pace": _Measured(15, 15, 5, 60.0, 60.0),
    "fine": _Measured(80, 115, 0, 1.0, 5.0),
    "flows": _Measured(0, 90, 0, 0.25, 0.8),
}
ORDER = tuple(_MEASURED)


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
    share = "pure" if pure else "many" if strength >= ENOUGH_FOR_FLOWS else "few"
    grids = chosen_grids(region, strength)
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
    statistics = []
    for name, how in _MEASURED.items():
        clip = many if name == "trips" else (how.l1 if pure else how.l2) * typical
        bound = min(max(SCALE, math.floor(clip * SCALE)), LARGEST_BOUND)
        statistics.append(Statistic(name, lengths[name], getattr(how, share), bound))
    return MeasurementPlan(grids, period, statistics, sized)


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


def _share(parameters: Parameters, statistic: Statistic) -> Fraction:
    """The part of rho (or, for pure accounting, of epsilon) that a statistic may cost."""
    return parameters.whole * Fraction(statistic.share, SHARES)


def sigma2_of(parameters: Parameters, statistic: Statistic) -> Fraction:
    """Variance of the discrete Gaussian noise; costs its share exactly."""
    return sigma2_for(statistic.bound**2, _share(parameters, statistic))


def scale_of(parameters: Parameters, statistic: Statistic) -> float:
    """Scale of the discrete Laplace noise; costs its share at most."""
    return scale_for(statistic.bound, _share(parameters, statistic))


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
    return planned_from(draw.objects, draw.sizes, region, period, parameters)


def planned_from(
    objects: Ints, sizes: Ints, region: Region, period: Period, parameters: Parameters
) -> MeasurementPlan:
    """The plan that the first round's numbers lead to."""
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
