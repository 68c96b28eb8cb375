"""The plan of a release: what is measured, with which bounds and which parts of the budget. Sees no data.

The first round counts objects and, in classes of half an octave, how much they contribute. The bounds of
the second round follow from these noisy numbers and from public ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property

import numpy as np

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.counts.contributions import (
    FASTEST_KMH,
    LONGEST_STAY_MIN,
    TRIP_CLASSES,
    WHOLE,
)
from freqdp_db.methods.counts.options import Budget
from freqdp_db.methods.counts.zones import DISTANCE_CLASSES, Bins, Roads, Zones
from freqdp_db.model.arrays import Ints
from freqdp_db.model.days import DAY_US
from freqdp_db.privacy.accounting import gaussian_cost, sigma2_for
from freqdp_db.privacy.noise import RandomSource, Tail, privacy_loss, scale_for

SIZE_CLASSES = 40
SIZE_EDGES = tuple(math.isqrt(2**j - 1) + 1 for j in range(SIZE_CLASSES + 1))
"""Class j begins with this many: the smallest t with t^2 >= 2^j."""
CLASSES_OF_SIZES = tuple(j for j in range(SIZE_CLASSES) if SIZE_EDGES[j] < SIZE_EDGES[j + 1])
FIRST_ROUND = Fraction(10, 100)
_SIZES = 8
"""How many contributions objects have is measured with so many times the share of the others."""
MINUTE_STEPS = 8
"""How long stays are is counted in so many steps at most."""
STEP_MIN = LONGEST_STAY_MIN // MINUTE_STEPS
STRAY_ROWS = 1000
"""So many cells of a sparse table are shown by chance, on average, where no threshold is given,"""
_MOST_STRAY_ROWS = 1_000_000
"""and so many at most where one is."""
MOST_DENSE = 4_000_000
"""Larger domains of zones and bins are sparse: zones are measured over all bins together, and single bins
of them only where something is to be seen."""
_WIDEST = 2000 * WHOLE
_FARTHEST = 40
"""Cells are not picked by their own noisy numbers where the noise is wider, or the threshold that was asked
for so many times as large: none would be. Their budget is then left over."""
_STANDS_OUT = 2.5
_TOGETHER = 3
_APART = 6
"""Classes stand out if so many together do, and are at most so many away from others."""
_OFF = 0.15
"""What classes give may be off by so much, because they are wide."""
_HIDDEN = 0.7
"""So many standard deviations more objects may be in three classes than their noisy numbers say."""
_BIAS = 0.3
"""How far a number is off if so much is left out and it is corrected as all others are: in proportion."""
_MOST_LOST = 0.3
"""Bounds that leave out more are not taken."""
_SMOOTH = 0.3
"""What is left of noise where neighbours in time and space help."""
_BUSY = 5
"""Bounds are chosen for cells that hold so many times the mean."""

# Parts of the budget after the first round.
_TABLES = {"visits": 46, "flows": 41, "stays": 9, "trips": 4, "roads": 40}
_PARTS: dict[str, dict[str, int]] = {
    "visits": {
        "visits_zone": 35, "visits_zone_all": 55, "visits_district": 35, "visits_city": 10,
        "visits_picked": 5, "visits_cells": 15,
    },
    "stays": {
        "stays_zone": 40, "stays_zone_all": 20, "stays_district": 10, "stays_district_all": 8,
        "stays_city": 5, "stays_minutes": 17,
    },
    "flows": {
        "flows_city": 10, "flows_distance": 8, "flows_from_district": 14,
        "flows_from_district_all": 14, "flows_districts": 14, "flows_districts_all": 10,
        "flows_from": 4, "flows_from_all": 14, "flows_to": 1, "flows_to_all": 4,
        "flows_to_district": 2, "flows_to_district_all": 3, "flows_picked": 1, "flows_cells": 3,
    },
    "trips": {"trips_city": 20, "trips_class": 80},
    "roads": {
        "roads_road": 15, "roads_road_all": 35, "roads_district": 15, "roads_district_all": 5,
        "kmh_road": 3, "kmh_road_all": 12, "kmh_district": 7, "kmh_district_all": 8,
    },
}  # fmt: skip
_DENSE_ONLY = ("visits_zone", "stays_zone", "flows_from", "flows_to")
_SPARSE_ONLY = ("visits_district", "visits_picked", "visits_cells")
_ROADS_BY_BIN = ("roads_road", "kmh_road")
_ROUND = {
    "visits": ("sizes", "bins", "zones"),
    "trips": ("sizes", "bins", "departs", "districts", "reaches"),
    "stays": ("sizes", "bins", "districts"),
    "passages": ("sizes", "cells", "roads", "areas", "districts"),
}
"""Histograms of the first round, by what is counted: of numbers, and of how many times as large the sums of
squares by group are, in steps of 1 / RATIO. With pure accounting those of numbers alone."""
RATIO = 16
_RATIO_LOSS = 0.01
"""What part of all contributions is left out by each bound of sums of squares."""


@dataclass(frozen=True)
class Shape:
    """How large the public domain is."""

    zones: int
    districts: int
    bins: int
    around: bool = False
    """Whether the last bin is a neighbour of the first."""
    roads: int = 0
    road_districts: int = 0

    @classmethod
    def of(cls, zones: Zones, bins: Bins, roads: Roads | None = None) -> Shape:
        around = bins.kind in ("hour-of-day", "hour-of-week", "parts-of-day")
        of_roads = (0, 0) if roads is None else (len(roads), roads.districts)
        return cls(len(zones), zones.districts, len(bins), around, *of_roads)

    @property
    def sparse(self) -> bool:
        return self.zones * self.bins > MOST_DENSE

    @property
    def few_roads(self) -> bool:
        """Whether they are measured by bin; otherwise over all bins together."""
        return self.roads * self.bins <= MOST_DENSE

    def cells(self, table: str) -> int:
        """How many cells the finest level of visits or flows has."""
        return self.zones * self.bins * (self.zones if table == "flows" else 1)


@dataclass(frozen=True)
class Design:
    """What is counted and what it may cost: public, and chosen before anything is measured."""

    zones: Zones
    bins: Bins
    tables: tuple[str, ...]
    budget: Budget
    threshold: int | None = None
    """From how many noisy trips on flows between zones are picked; None: chosen by the plan."""
    roads: Roads | None = None
    """Those of the table of roads, if it is wanted."""

    @cached_property
    def shape(self) -> Shape:
        return Shape.of(self.zones, self.bins, self.roads)

    @cached_property
    def digest(self) -> Ints:
        """Tells the zones and roads from others: a draw says nothing of these."""
        told = [self.zones.digest(), b"" if self.roads is None else self.roads.digest()]
        return np.frombuffer(b"".join(told), "<i8").astype(np.int64)

    @property
    def counted(self) -> list[str]:
        """What is counted for the tables: visits, trips, stays, passages."""
        wanted = {
            "visits": {"visits"}, "trips": {"flows", "trips"}, "stays": {"stays"},
            "passages": {"roads"},
        }  # fmt: skip
        return [name for name, of in wanted.items() if of & set(self.tables)]

    @cached_property
    def first_round(self) -> dict[str, Measurement]:
        """How many objects there are, and histograms of what they contribute: one moves one entry by 1."""
        pure = self.budget.pure
        weights = {"objects": 1} | {
            f"{what.removesuffix('s')}_{name}": _SIZES if name == "sizes" else 1
            for what in self.counted
            for name in _ROUND[what]
            if name == "sizes" or not pure
        }
        each = self.budget.whole * FIRST_ROUND / sum(weights.values())
        return {
            name: Measurement(
                name, 1 if name == "objects" else SIZE_CLASSES, 1, weight * each, pure
            )
            for name, weight in weights.items()
        }


@dataclass(frozen=True)
class Bounds:
    """What an object contributes to a table, at most."""

    sizes: int
    """Contributions with pure accounting; else the sum of their squares, each in a group of its own,"""
    bins: int = 0
    """the sum of the squares of how many there are in each bin,"""
    zones: int = 0
    """of visits: in each zone,"""
    departs: int = 0
    """of trips: in each bin and district where they begin, and where they end,"""
    districts: int = 0
    """of trips and stays: in each district where they begin (of trips also where they end); of passages:
    in each district,"""
    reaches: int = 0
    """of trips: in each class of distance,"""
    cells: int = 0
    """of passages: on each road in each bin,"""
    roads: int = 0
    """on each road,"""
    areas: int = 0
    """in each district in each bin."""
    lost: float = 0.0
    """About what part of all is not counted because of them, by the first round: see `part_lost`."""

    def of(self, group: str) -> int:
        """The bound for a group, as `groups_of` names them."""
        found: int = getattr(self, {"arrives": "departs", "ends": "districts"}.get(group, group))
        return found


_LEAST_BOUNDS = Bounds(*[1] * 9)


@dataclass(frozen=True)
class Measurement:
    """A vector that is measured, with independent noise on each entry."""

    name: str
    size: int
    bound: int
    """The squared L2 norm of an object's vector is at most this; with pure accounting, its L1 norm."""
    amount: Fraction
    """What it may cost: rho, or epsilon with pure accounting."""
    pure: bool

    @property
    def sigma2(self) -> Fraction:
        """Variance of the discrete Gaussian noise; costs the amount exactly."""
        return sigma2_for(self.bound, self.amount)

    @property
    def scale(self) -> float:
        """Scale of the discrete Laplace noise; costs the amount at most."""
        return scale_for(self.bound, self.amount)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise."""
        return math.sqrt(2) * self.scale if self.pure else math.sqrt(self.sigma2)

    @property
    def cost(self) -> Fraction:
        if self.pure:
            return privacy_loss(self.bound, self.scale)
        return gaussian_cost(self.bound, self.sigma2)

    def tail(self, least: int) -> Tail:
        if self.pure:
            return Tail(least, scale=self.scale)
        return Tail(least, sigma2=self.sigma2)

    def noise(self, source: RandomSource, count: int) -> Ints:
        if self.pure:
            return source.discrete_laplace(self.scale, count)
        return source.discrete_gaussian(self.sigma2, count)


@dataclass(frozen=True)
class Plan:
    """The second round."""

    design: Design
    bounds: dict[str, Bounds]
    """Of visits, trips and stays, and of passages if there are roads."""
    measurements: dict[str, Measurement]
    threshold: dict[str, int]
    """From which noisy number on a cell of visits or flows is picked."""

    @property
    def every_measurement(self) -> list[Measurement]:
        """Those of the first round, too."""
        return [*self.design.first_round.values(), *self.measurements.values()]

    @property
    def cost(self) -> Fraction:
        """What all cost together: rho, or epsilon with pure accounting."""
        return sum((m.cost for m in self.every_measurement), Fraction(0))

    def __getitem__(self, name: str) -> Measurement:
        return self.measurements[name]

    def __contains__(self, name: str) -> bool:
        return name in self.measurements

    @property
    def sparse(self) -> list[str]:
        """The tables whose finest level is measured in some cells only."""
        return [table for table in ("visits", "flows") if f"{table}_cells" in self]


_A_DAY = {"visit": 12, "trip": 3, "stay": 4, "passage": 150}
"""What an object contributes in a day, about, by travel surveys: for plans, before anything is measured."""


def assumed_round(design: Design, objects: int) -> dict[str, Ints]:
    """The first round of objects that are all alike, each the whole period long."""
    found = {"objects": np.array([objects], np.int64)}
    period = design.bins.period
    days = -(-(period.end - period.begin) // DAY_US)
    for name in design.first_round.keys() - found.keys():
        one, _, what = name.partition("_")
        # contributions of an object meet in the same bin or district now and then
        number = _A_DAY[one] * days if what == "sizes" else 2 * RATIO
        found[name] = objects * classes_of(np.array([number]))
    return found


def classes_of(numbers: Ints) -> Ints:
    """A histogram of numbers above 0, in half octaves."""
    numbers = numbers[numbers > 0]
    classes = np.searchsorted(np.array(SIZE_EDGES[:-1]), numbers, side="right") - 1
    return np.bincount(np.minimum(classes, SIZE_CLASSES - 1), minlength=SIZE_CLASSES)


def second_round(design: Design, round_one: Mapping[str, Ints]) -> Plan:
    """The plan that follows from the noisy numbers of the first round."""
    shape, tables, budget = design.shape, design.tables, design.budget
    shares = _shares(design)
    d, b = shape.districts, shape.bins
    # bounds are chosen for these: a measurement, its cells, and the group that bounds it
    chosen_for = {
        "visits": ("visits_zone", shape.zones * b, "sizes"),
        "trips": ("flows_from_district", d * b, "departs"),
        "stays": ("stays_district", d * b, "bins"),
    }
    if design.roads is not None:
        chosen_for["passages"] = ("roads_road_all", shape.roads, "roads")
    if shape.sparse:
        chosen_for["visits"] = ("visits_district", d * b, "bins")
    if "flows" not in tables:
        chosen_for["trips"] = ("trips_class", TRIP_CLASSES * b, "bins")
    bounds = dict.fromkeys(chosen_for, _LEAST_BOUNDS)
    for what in design.counted:
        one = what.removesuffix("s")
        histograms = {
            name: _cleaned(round_one[full], design.first_round[full].deviation)
            for name in _ROUND[what]
            if (full := f"{one}_{name}") in design.first_round
        }
        best, cells, group = chosen_for[what]
        part = float(budget.whole * shares[best])
        bounds[what] = _bounds(histograms, cells, group, part, pure=budget.pure)
    measurements = _measurements(design, bounds)
    thresholds = {"visits": 1, "flows": design.threshold or 1}
    for table, least in thresholds.items():
        if (name := f"{table}_picked") not in measurements:
            continue
        spread = measurements[name].deviation
        if spread > _WIDEST or least * WHOLE > _FARTHEST * spread:
            del measurements[name]
        else:
            cells, asked = shape.cells(table), table == "flows" and design.threshold
            fewest = _threshold(
                measurements[name], cells, _MOST_STRAY_ROWS if asked else STRAY_ROWS
            )
            thresholds[table] = max(least, fewest)
    return Plan(design, bounds, measurements, thresholds)


def _shares(design: Design) -> dict[str, Fraction]:
    """The part of the budget of each measurement."""
    left_out: tuple[str, ...] = _DENSE_ONLY if design.shape.sparse else _SPARSE_ONLY
    if not design.shape.few_roads:
        left_out += _ROADS_BY_BIN
    weight = {name: _TABLES[name] for name in design.tables}
    whole = sum(weight.values())
    shares: dict[str, Fraction] = {}
    for table, parts in _PARTS.items():
        if table not in weight:
            continue
        if table == "trips" and "flows" in weight:  # the city's trips are measured there
            parts = {"trips_class": 1}
        parts = {name: part for name, part in parts.items() if name not in left_out}
        for name, part in parts.items():
            mine = Fraction(weight[table], whole) * Fraction(part, sum(parts.values()))
            shares[name] = (1 - FIRST_ROUND) * mine
    return shares


def _measurements(design: Design, bounds: dict[str, Bounds]) -> dict[str, Measurement]:
    """Each with the bound that those of its table give: see the proof in PRIVACY.md."""
    shape, budget, shares = design.shape, design.budget, _shares(design)
    z, d, b = shape.zones, shape.districts, shape.bins
    visits, trips, stays = (bounds[what] for what in ("visits", "trips", "stays"))
    passages, roads, rd = bounds.get("passages", _LEAST_BOUNDS), shape.roads, shape.road_districts
    # name: entries, whose bounds, and which of them bounds its squared L2 norm
    known = {
        "visits_zone": (z * b, visits, "sizes"),
        "visits_zone_all": (z, visits, "zones"),
        "visits_district": (d * b, visits, "bins"),
        "visits_city": (b, visits, "bins"),
        "visits_picked": (z * b, visits, "sizes"),
        "visits_cells": (z * b, visits, "sizes"),
        "stays_zone": (z * b, stays, "bins"),
        "stays_zone_all": (z, stays, "districts"),
        "stays_district": (d * b, stays, "bins"),
        "stays_district_all": (d, stays, "districts"),
        "stays_city": (b, stays, "bins"),
        "stays_minutes": (d * b, stays, "bins"),
        "flows_city": (b, trips, "bins"),
        "flows_distance": (DISTANCE_CLASSES, trips, "reaches"),
        "flows_from_district": (d * b, trips, "departs"),
        "flows_from_district_all": (d, trips, "districts"),
        "flows_districts": (d * d * b, trips, "departs"),
        "flows_districts_all": (d * d, trips, "districts"),
        "flows_from": (z * b, trips, "departs"),
        "flows_from_all": (z, trips, "districts"),
        "flows_to": (z * b, trips, "arrives"),
        "flows_to_all": (z, trips, "ends"),
        "flows_to_district": (d * b, trips, "arrives"),
        "flows_to_district_all": (d, trips, "ends"),
        "flows_picked": (z * z * b, trips, "departs"),
        "flows_cells": (z * z * b, trips, "departs"),
        "trips_city": (b, trips, "bins"),
        "trips_class": (TRIP_CLASSES * b, trips, "bins"),
        "roads_road": (roads * b, passages, "cells"),
        "roads_road_all": (roads, passages, "roads"),
        "roads_district": (rd * b, passages, "areas"),
        "roads_district_all": (rd, passages, "districts"),
        "kmh_road": (roads * b, passages, "cells"),
        "kmh_road_all": (roads, passages, "roads"),
        "kmh_district": (rd * b, passages, "areas"),
        "kmh_district_all": (rd, passages, "districts"),
    }
    found = {}
    for name, (size, of, group) in known.items():
        if name in shares:
            times = WHOLE * _largest_item(name)
            bound = of.sizes * times if budget.pure else of.of(group) * times**2
            amount = budget.whole * shares[name]
            found[name] = Measurement(name, size, bound, amount, budget.pure)
    return found


def _largest_item(measurement: str) -> int:
    """What one contribution adds to a measurement at most."""
    if measurement == "stays_minutes":
        return MINUTE_STEPS
    return FASTEST_KMH if measurement.startswith("kmh_") else 1


def _cleaned(histogram: Ints, noise: float) -> list[float]:
    """The classes that stand out of the noise, and what lies between them; zeros elsewhere.

    Begins with the neighbours that hold most, and goes on in both directions to the next ones, not far off,
    that stand out together.
    """
    values = [float(n) for n in histogram]

    def stands(first: int) -> bool:
        window = values[first : first + _TOGETHER]
        return sum(window) > _STANDS_OUT * noise * math.sqrt(len(window))

    last = SIZE_CLASSES - _TOGETHER
    first = end = max(range(last + 1), key=lambda j: sum(values[j : j + _TOGETHER]))
    if not stands(first):
        return [0.0] * SIZE_CLASSES
    while further := [j for j in range(end + 1, min(end + _APART, last) + 1) if stands(j)]:
        end = further[-1]
    while before := [j for j in range(max(first - _APART, 0), first) if stands(j)]:
        first = before[0]
    return [
        max(value, 0.0) if first <= j < end + _TOGETHER else 0.0 for j, value in enumerate(values)
    ]


def _bounds(
    histograms: dict[str, list[float]], cells: int, group: str, part: float, *, pure: bool
) -> Bounds:
    """The bounds of a table: more is more noise, less leaves out more.

    The sum of squares of what both do to a busy cell of one measurement is least. cells, part: how many
    that has, and its part of the budget; group: what bounds it.
    """
    sizes = histograms.pop("sizes")
    total = _counted(sizes, math.inf)
    if total <= 0:
        return _LEAST_BOUNDS
    times, kept = {"sizes": Fraction(1)}, 1.0
    for name, histogram in histograms.items():
        ratio, loss = _ratio(histogram)
        times[name], kept = Fraction(ratio, RATIO), kept * (1 - loss)
    found = []
    for j in CLASSES_OF_SIZES:
        most = SIZE_EDGES[j + 1] - 1
        lost = 1 - kept * _counted(sizes, most, pure=pure) / total
        if lost > _MOST_LOST:
            continue
        bound = float(most * times["sizes" if pure else group])
        noise = math.sqrt(2) * bound / part if pure else math.sqrt(bound / (2 * part))
        busy = _BUSY * total * (1 - lost) / cells
        found.append(((_BIAS * lost) ** 2 + (_SMOOTH * noise / busy) ** 2, most, lost))
    _, most, lost = min(found)
    return Bounds(**{name: math.ceil(most * ratio) for name, ratio in times.items()}, lost=lost)


def _counted(sizes: list[float], most: float, *, pure: bool = False) -> float:
    """About how much is counted: of an object with f times as many, 1 / sqrt(f); pure: 1 / f."""
    found = 0.0
    for j in CLASSES_OF_SIZES:
        first, end = SIZE_EDGES[j], SIZE_EDGES[j + 1]
        for number in (first, (first + end - 1) / 2, end - 1):
            over = max(number / most, 1.0)
            part = math.floor(WHOLE / (over if pure else math.sqrt(over)))
            found += sizes[j] * number * part / (3 * WHOLE)
    return found


def part_lost(
    noisy: Ints, what: Measurement, bounds: Bounds, counted: float, variance: float
) -> float:
    """What part of all the bounds leave out, by how much was counted within them.

    A few objects with very many contributions do not stand out in a histogram of objects, but what is
    counted is then more than its classes give. The rest is taken for that of objects of the least class
    above them in which so many would not stand out.

    noisy, what: the histogram of sizes. counted, variance: the sum over all bins of what was counted, and
    that of its noise.
    """
    noise, pure = what.deviation, what.pure
    sizes = _cleaned(noisy, noise)
    total = _counted(sizes, math.inf)
    seen = [j for j in CLASSES_OF_SIZES if sizes[j] > 0]
    if not seen:
        return bounds.lost

    def one(j: int) -> tuple[float, float]:
        """What an object of a class has, and how much of it is counted."""
        alone = [float(k == j) for k in range(SIZE_CLASSES)]
        return _counted(alone, math.inf), _counted(alone, bounds.sizes, pure=pure)

    expected = (1 - bounds.lost) * total
    spread = variance + noise**2 * sum(one(j)[1] ** 2 for j in seen)
    beyond = counted - expected
    if beyond > math.sqrt(spread) + _OFF * expected:
        for j in (j for j in CLASSES_OF_SIZES if j > seen[-1]):
            has, counts = one(j)
            there = float(noisy[j - 1 : j + 2].sum()) + _HIDDEN * noise * math.sqrt(3)
            if counts > 0 and beyond / counts <= there:
                total += beyond / counts * has
                return 1 - (expected + beyond) / total
    return bounds.lost


def _ratio(histogram: list[float]) -> tuple[int, float]:
    """The least bound of a ratio that leaves out little, and what part: all objects count alike."""
    total = sum(histogram)
    if total <= 0:
        return RATIO, 0.0
    for j in CLASSES_OF_SIZES:
        ratio = SIZE_EDGES[j + 1] - 1
        left = sum(
            n * min(1.0, math.sqrt(2 * ratio / (SIZE_EDGES[k] + SIZE_EDGES[k + 1] - 1)))
            for k, n in enumerate(histogram)
        )
        lost = 1 - left / total
        if lost <= _RATIO_LOSS:
            break
    return ratio, max(lost, 0.0)


def _threshold(picked: Measurement, cells: int, stray: int) -> int:
    """The least whole number that so few empty cells reach: `stray` of them are expected to."""
    low, high = 1, max(2, math.ceil(40 * picked.deviation / WHOLE))
    while low < high:
        middle = (low + high) // 2
        if _about(picked, middle * WHOLE) * cells <= stray:
            high = middle
        else:
            low = middle + 1
    return low


def _about(picked: Measurement, least: int) -> float:
    """The probability that noise reaches a number, as a float: good enough to choose by."""
    if picked.pure:
        return math.exp(-least / picked.scale) / (1 + math.exp(-1 / picked.scale))
    return math.erfc((least - 0.5) / (math.sqrt(2) * picked.deviation)) / 2


# What is drawn and committed. Holds no data.


@dataclass(frozen=True)
class Draw:
    """Noisy numbers, by the names of the measurements; empty: not asked for.

    Those of the first round count objects, all others parts of 1 / WHOLE."""

    design: Ints
    """The digest of the zones and roads that they are of."""
    objects: Ints
    visit_sizes: Ints
    visit_bins: Ints
    visit_zones: Ints
    trip_sizes: Ints
    trip_bins: Ints
    trip_departs: Ints
    trip_districts: Ints
    trip_reaches: Ints
    stay_sizes: Ints
    stay_bins: Ints
    stay_districts: Ints
    passage_sizes: Ints
    passage_cells: Ints
    passage_roads: Ints
    passage_areas: Ints
    passage_districts: Ints
    visits_zone: Ints
    visits_zone_all: Ints
    visits_district: Ints
    visits_city: Ints
    visits_picked: Ints
    """Cells that are shown of a sparse table of visits: zone * bins + bin, in order."""
    visits_likely: Ints
    """Those of them that were picked by the coarser levels, not by a noisy number of their own."""
    visits_cells: Ints
    """Of each of them, its noisy number: independent of the noise that it was picked by."""
    stays_zone: Ints
    stays_district: Ints
    stays_city: Ints
    stays_minutes: Ints
    stays_zone_all: Ints
    stays_district_all: Ints
    flows_city: Ints
    flows_distance: Ints
    flows_from_district: Ints
    flows_districts: Ints
    flows_from: Ints
    flows_to: Ints
    flows_to_district: Ints
    flows_from_district_all: Ints
    flows_districts_all: Ints
    flows_from_all: Ints
    flows_to_all: Ints
    flows_to_district_all: Ints
    flows_picked: Ints
    """The same of flows between zones: (origin * zones + destination) * bins + bin."""
    flows_likely: Ints
    flows_cells: Ints
    trips_city: Ints
    trips_class: Ints
    roads_road: Ints
    roads_road_all: Ints
    roads_district: Ints
    roads_district_all: Ints
    kmh_road: Ints
    """Sums of speeds in km/h; as all others, in parts of 1 / WHOLE."""
    kmh_road_all: Ints
    kmh_district: Ints
    kmh_district_all: Ints

    def __len__(self) -> int:
        """How many noisy numbers."""
        return sum(len(getattr(self, f.name)) for f in fields(self)) - len(self.design)


def plan_of(draw: Draw, design: Design) -> Plan:
    """The plan that the first round of a draw leads to; raises VerificationFailed for other zones."""
    if not np.array_equal(draw.design, design.digest):
        raise VerificationFailed(
            "the zones or roads are not those that the counts were made of",
            remedy="bring back the tables that [[zones]] and [[roads]] name, as they were",
        )
    return second_round(design, vars(draw))
