"""The plan of a release of counts: its measurements, their bounds, and their shares of the budget.

A release measures in two rounds. The first round counts objects and makes histograms of how much they
contribute; a class of these histograms is half an octave wide. The second round measures the tables. Its
bounds and thresholds are functions of the noisy numbers of the first round and of public numbers, so that
nothing in this module reads data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.counts.contributions import (
    FASTEST_KMH,
    LONGEST_STAY_MIN,
    TRIP_CLASSES,
    WHOLE,
)
from freqdp_db.methods.counts.zones import DISTANCE_CLASSES, Bins, Roads, Zones
from freqdp_db.model.arrays import Ints
from freqdp_db.model.days import DAY_US
from freqdp_db.privacy.accounting import PrivacyBudget, VectorNoise

SIZE_CLASSES = 40
"""Classes of a histogram of the first round."""
SIZE_EDGES = tuple(math.isqrt(2**j - 1) + 1 for j in range(SIZE_CLASSES + 1))
"""The smallest number in class j, which is the smallest t with t^2 >= 2^j; half an octave to the next."""
CLASSES_OF_SIZES = tuple(j for j in range(SIZE_CLASSES) if SIZE_EDGES[j] < SIZE_EDGES[j + 1])
"""The classes that contain a whole number: the lowest ones are narrower than 1."""
FIRST_ROUND = Fraction(10, 100)
"""Share of the budget that the first round gets."""
_SIZES_WEIGHT = 8
"""Weight, in the first round, of the histogram of numbers of contributions; all others have 1."""
MINUTE_STEPS = 8
"""Durations of stays are measured in whole steps, from 0 to this many."""
STEP_MIN = LONGEST_STAY_MIN // MINUTE_STEPS
"""Minutes in a step."""
EXPECTED_STRAY_CELLS = 1000
"""Expected number of empty cells of a sparse table that noise alone lifts above the chosen threshold."""
_MAX_STRAY_CELLS = 1_000_000
"""Highest expected number of such cells if the user chose the threshold; it is raised until this holds."""
MAX_DENSE_CELLS = 4_000_000
"""With more zones times bins the tables of zones are sparse: zones are measured over all bins together, and
single bins only in cells that are picked."""
_MAX_PICKING_DEVIATION = 2000 * WHOLE
"""Largest standard deviation of the noise with which cells are picked by a threshold. With more noise the
threshold would exceed any count, so nothing is picked and the share of the budget stays unused."""
_MAX_THRESHOLD_DEVIATIONS = 40
"""The same for a threshold that the user chose, in standard deviations of the noise."""
_SIGNIFICANT_DEVIATIONS = 2.5
"""Neighbouring classes of a noisy histogram are significant if their sum exceeds this many standard
deviations of its noise."""
_CLASSES_IN_WINDOW = 3
"""Number of neighbouring classes that are tested together."""
_MAX_CLASS_GAP = 6
"""Significant classes are at most this many classes apart; those farther away are taken for noise."""
_CLASS_WIDTH_ERROR = 0.15
"""Relative error of a total that is computed from classes, which are half an octave wide."""
_HIDDEN_DEVIATIONS = 0.7
"""Objects that three neighbouring classes may hold beyond their noisy sum, in standard deviations."""
_RESIDUAL_BIAS = 0.3
"""Bias of an estimate that is left after the common correction, as a share of what the bounds leave out."""
_MAX_LOST_SHARE = 0.3
"""Largest share of the contributions that bounds may leave out."""
_SMOOTHED_NOISE_SHARE = 0.3
"""Share of the noise that remains in estimates after smoothing over time and space."""
_BUSY_CELL_FACTOR = 5
"""Bounds are chosen for the error of a cell that holds this many times the mean count."""


class _Measured(NamedTuple):
    """How the second round measures a vector of sums."""

    weight: int
    """Its share of the budget of its table, in relation to the others."""
    group: str
    """What bounds the squared L2 norm of an object's vector: see `Bounds.of`."""
    sides: tuple[str, ...]
    """It has an entry for each combination of these: numbers of `Shape`."""
    most: int = 1
    """The largest number that one contribution adds to an entry."""
    only: str = ""
    """dense, sparse: tables of this kind alone have it; by bin: only few roads are measured by bin."""


_TABLE_WEIGHTS = {"visits": 46, "flows": 41, "stays": 9, "trips": 4, "roads": 40}
"""Weights by which the tables share what the first round leaves."""
_MEASURED = {
    "visits": {
        "visits_zone": _Measured(35, "sizes", ("zones", "bins"), only="dense"),
        "visits_zone_all": _Measured(55, "zones", ("zones",)),
        "visits_district": _Measured(35, "bins", ("districts", "bins"), only="sparse"),
        "visits_city": _Measured(10, "bins", ("bins",)),
        "visits_picked": _Measured(5, "sizes", ("zones", "bins"), only="sparse"),
        "visits_cells": _Measured(15, "sizes", ("zones", "bins"), only="sparse"),
    },
    "stays": {
        "stays_zone": _Measured(40, "bins", ("zones", "bins"), only="dense"),
        "stays_zone_all": _Measured(20, "districts", ("zones",)),
        "stays_district": _Measured(10, "bins", ("districts", "bins")),
        "stays_district_all": _Measured(8, "districts", ("districts",)),
        "stays_city": _Measured(5, "bins", ("bins",)),
        "stays_minutes": _Measured(17, "bins", ("districts", "bins"), most=MINUTE_STEPS),
    },
    "flows": {
        "flows_city": _Measured(10, "bins", ("bins",)),
        "flows_distance": _Measured(8, "reaches", ("distances",)),
        "flows_from_district": _Measured(14, "departs", ("districts", "bins")),
        "flows_from_district_all": _Measured(14, "districts", ("districts",)),
        "flows_districts": _Measured(14, "departs", ("districts", "districts", "bins")),
        "flows_districts_all": _Measured(10, "districts", ("districts", "districts")),
        "flows_from": _Measured(4, "departs", ("zones", "bins"), only="dense"),
        "flows_from_all": _Measured(14, "districts", ("zones",)),
        "flows_to": _Measured(1, "arrives", ("zones", "bins"), only="dense"),
        "flows_to_all": _Measured(4, "ends", ("zones",)),
        "flows_to_district": _Measured(2, "arrives", ("districts", "bins")),
        "flows_to_district_all": _Measured(3, "ends", ("districts",)),
        "flows_picked": _Measured(1, "departs", ("zones", "zones", "bins")),
        "flows_cells": _Measured(3, "departs", ("zones", "zones", "bins")),
    },
    "trips": {
        "trips_city": _Measured(20, "bins", ("bins",)),
        "trips_class": _Measured(80, "bins", ("classes", "bins")),
    },
    "roads": {
        "roads_road": _Measured(15, "cells", ("roads", "bins"), only="by bin"),
        "roads_road_all": _Measured(35, "roads", ("roads",)),
        "roads_district": _Measured(15, "areas", ("road_districts", "bins")),
        "roads_district_all": _Measured(5, "districts", ("road_districts",)),
        "kmh_road": _Measured(3, "cells", ("roads", "bins"), FASTEST_KMH, "by bin"),
        "kmh_road_all": _Measured(12, "roads", ("roads",), FASTEST_KMH),
        "kmh_district": _Measured(7, "areas", ("road_districts", "bins"), FASTEST_KMH),
        "kmh_district_all": _Measured(8, "districts", ("road_districts",), FASTEST_KMH),
    },
}
"""The measurements of each table. PRIVACY.md, section 17, proves their bounds."""
_COUNTED_FOR = {
    "visits": "visits", "flows": "trips", "stays": "stays", "trips": "trips", "roads": "passages",
}  # fmt: skip
"""The kind of contribution that each table counts."""
_FIRST_ROUND_HISTOGRAMS = {
    "visits": ("sizes", "bins", "zones"),
    "trips": ("sizes", "bins", "departs", "districts", "reaches"),
    "stays": ("sizes", "bins", "districts"),
    "passages": ("sizes", "cells", "roads", "areas", "districts"),
}
"""For each kind of contribution, the histograms of the first round. `sizes` is of the numbers n of
contributions that objects have. The others are of the ratios s / n, in steps of 1 / RATIO_STEPS, where s is
the sum of squares over the groups of that name (see `groups_of`). Pure accounting needs `sizes` alone."""
RATIO_STEPS = 16
"""Ratios are counted in units of 1 / RATIO_STEPS."""
_RATIO_LOSS = 0.01
"""Share of all contributions that the bound of each ratio may leave out."""


@dataclass(frozen=True)
class Shape:
    """Size of the public domain."""

    zones: int
    districts: int
    bins: int
    cyclic: bool = False
    """Whether the first bin follows the last one, as hours of a day do."""
    roads: int = 0
    road_districts: int = 0
    distances: ClassVar[int] = DISTANCE_CLASSES
    classes: ClassVar[int] = TRIP_CLASSES
    """Classes of distance between districts, and classes of trips."""

    @classmethod
    def of(cls, zones: Zones, bins: Bins, roads: Roads | None = None) -> Shape:
        cyclic = bins.kind in ("hour-of-day", "hour-of-week", "parts-of-day")
        of_roads = (0, 0) if roads is None else (len(roads), roads.districts)
        return cls(len(zones), zones.districts, len(bins), cyclic, *of_roads)

    @property
    def sparse(self) -> bool:
        """Whether there are too many zones and bins to measure all of them."""
        return self.zones * self.bins > MAX_DENSE_CELLS

    @property
    def few_roads(self) -> bool:
        """Whether roads are measured by bin, and not only over all bins together."""
        return self.roads * self.bins <= MAX_DENSE_CELLS

    def cells(self, table: str) -> int:
        """Number of cells at the finest level of the table `visits` or `flows`."""
        return self.zones * self.bins * (self.zones if table == "flows" else 1)


@dataclass(frozen=True)
class Design:
    """What a release counts and what it may cost. All of it is public and fixed before anything is
    measured."""

    zones: Zones
    bins: Bins
    tables: tuple[str, ...]
    budget: PrivacyBudget
    threshold: int | None = None
    """Smallest noisy number with which a flow between zones is picked. None: the plan chooses it."""
    roads: Roads | None = None
    """The roads of the table `roads`, if it is wanted."""

    @cached_property
    def shape(self) -> Shape:
        return Shape.of(self.zones, self.bins, self.roads)

    @cached_property
    def digest(self) -> Ints:
        """Hash of the zones and roads. It is stored with the draw, which does not contain them."""
        parts = [self.zones.digest(), b"" if self.roads is None else self.roads.digest()]
        return np.frombuffer(b"".join(parts), "<i8").astype(np.int64)

    @property
    def counted(self) -> list[str]:
        """The kinds of contributions that the tables need: of visits, trips, stays, passages."""
        wanted = {_COUNTED_FOR[table] for table in self.tables}
        return [kind for kind in _FIRST_ROUND_HISTOGRAMS if kind in wanted]

    @cached_property
    def first_round(self) -> dict[str, Measurement]:
        """The measurements of the first round. One object changes one entry of each by 1."""
        pure = self.budget.pure
        weights = {"objects": 1} | {
            f"{what.removesuffix('s')}_{name}": _SIZES_WEIGHT if name == "sizes" else 1
            for what in self.counted
            for name in _FIRST_ROUND_HISTOGRAMS[what]
            if name == "sizes" or not pure
        }
        each = self.budget.whole * FIRST_ROUND / sum(weights.values())
        return {
            name: Measurement(
                name=name,
                size=1 if name == "objects" else SIZE_CLASSES,
                bound=1,
                amount=weight * each,
                pure=pure,
            )
            for name, weight in weights.items()
        }


@dataclass(frozen=True)
class Bounds:
    """The most that one object contributes to a table."""

    sizes: int
    """Number of contributions, which is their sum of squares if each is a group of its own."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """By grouping (see `groups_of`), the largest sum over groups of the squared number of contributions.
    Pure accounting needs none."""
    lost: float = 0.0
    """Estimated share of all contributions that these bounds leave out, from the first round."""

    def of(self, group: str) -> int:
        """The bound for a grouping. Begins and ends of trips have the same bounds."""
        if group == "sizes":
            return self.sizes
        return self.groups[{"arrives": "departs", "ends": "districts"}.get(group, group)]


_MINIMAL_BOUNDS = Bounds(
    1, dict.fromkeys((name for names in _FIRST_ROUND_HISTOGRAMS.values() for name in names), 1)
)
"""For kinds of contributions that nobody seems to have."""


@dataclass(frozen=True, kw_only=True)
class Measurement(VectorNoise):
    """A vector of sums over all objects, measured with independent noise on each entry."""

    name: str
    size: int
    """Number of entries."""


@dataclass(frozen=True)
class Plan:
    """The measurements of the second round."""

    design: Design
    bounds: dict[str, Bounds]
    """By kind: visits, trips, stays, and passages if there are roads."""
    measurements: dict[str, Measurement]
    threshold: dict[str, int]
    """For visits and flows, the smallest noisy number with which a cell is picked."""

    @property
    def every_measurement(self) -> list[Measurement]:
        """The measurements of both rounds."""
        return [*self.design.first_round.values(), *self.measurements.values()]

    @property
    def cost(self) -> Fraction:
        """Cost of all measurements together: rho, or epsilon with pure accounting."""
        return sum((m.cost for m in self.every_measurement), Fraction(0))

    def __getitem__(self, name: str) -> Measurement:
        return self.measurements[name]

    def __contains__(self, name: str) -> bool:
        return name in self.measurements

    @property
    def sparse(self) -> list[str]:
        """Tables whose finest level is measured only in cells that were picked."""
        return [table for table in ("visits", "flows") if f"{table}_cells" in self]


_USUAL_PER_DAY = {"visit": 12, "trip": 3, "stay": 4, "passage": 150}
"""Usual contributions of an object in a day, from travel surveys. `plan` uses them before anything is
measured."""


def assumed_round(design: Design, objects: int) -> dict[str, Ints]:
    """A made-up first round: objects that are all alike and contribute every day of the period."""
    found = {"objects": np.array([objects], np.int64)}
    period = design.bins.period
    days = -(-(period.end - period.begin) // DAY_US)
    for name in design.first_round.keys() - found.keys():
        one, _, what = name.partition("_")
        # an object has, in the mean, two contributions in the same group
        number = _USUAL_PER_DAY[one] * days if what == "sizes" else 2 * RATIO_STEPS
        found[name] = objects * size_histogram(np.array([number]))
    return found


def size_histogram(numbers: Ints) -> Ints:
    """Histogram of the numbers above 0, with SIZE_CLASSES classes of half an octave."""
    numbers = numbers[numbers > 0]
    classes = np.searchsorted(np.array(SIZE_EDGES[:-1]), numbers, side="right") - 1
    return np.bincount(np.minimum(classes, SIZE_CLASSES - 1), minlength=SIZE_CLASSES)


def second_round(design: Design, round_one: Mapping[str, Ints]) -> Plan:
    """The plan that follows from the noisy numbers of the first round."""
    shape, tables, budget = design.shape, design.tables, design.budget
    shares = _shares(design)
    d, b = shape.districts, shape.bins
    # the bounds of each kind minimize the error of one measurement: its name, its cells, its group
    optimized_for = {
        "visits": ("visits_zone", shape.zones * b, "sizes"),
        "trips": ("flows_from_district", d * b, "departs"),
        "stays": ("stays_district", d * b, "bins"),
    }
    if design.roads is not None:
        optimized_for["passages"] = ("roads_road_all", shape.roads, "roads")
    if shape.sparse:
        optimized_for["visits"] = ("visits_district", d * b, "bins")
    if "flows" not in tables:
        optimized_for["trips"] = ("trips_class", TRIP_CLASSES * b, "bins")
    bounds = dict.fromkeys(optimized_for, _MINIMAL_BOUNDS)
    for what in design.counted:
        one = what.removesuffix("s")
        histograms = {
            name: _significant_classes(round_one[full], design.first_round[full].deviation)
            for name in _FIRST_ROUND_HISTOGRAMS[what]
            if (full := f"{one}_{name}") in design.first_round
        }
        measurement, cells, group = optimized_for[what]
        amount = float(budget.whole * shares[measurement])
        bounds[what] = _choose_bounds(histograms, cells, group, amount, pure=budget.pure)
    measurements = _measurements(design, bounds)
    thresholds = {"visits": 1, "flows": design.threshold or 1}
    for table, least in thresholds.items():
        if (name := f"{table}_picked") not in measurements:
            continue
        deviation = measurements[name].deviation
        too_high = least * WHOLE > _MAX_THRESHOLD_DEVIATIONS * deviation
        if deviation > _MAX_PICKING_DEVIATION or too_high:
            del measurements[name]
        else:
            given = table == "flows" and design.threshold
            stray = _MAX_STRAY_CELLS if given else EXPECTED_STRAY_CELLS
            lowest = _lowest_threshold(measurements[name], shape.cells(table), stray)
            thresholds[table] = max(least, lowest)
    return Plan(design, bounds, measurements, thresholds)


def _shares(design: Design) -> dict[str, Fraction]:
    """Share of the whole budget of each measurement of the second round."""
    shape = design.shape
    has = {"sparse" if shape.sparse else "dense", "by bin" if shape.few_roads else "", ""}
    weight = {name: _TABLE_WEIGHTS[name] for name in design.tables}
    shares: dict[str, Fraction] = {}
    for table in weight:
        parts = {name: of.weight for name, of in _MEASURED[table].items() if of.only in has}
        if table == "trips" and "flows" in weight:  # flows_city measures the same as trips_city
            del parts["trips_city"]
        of_table = (1 - FIRST_ROUND) * Fraction(weight[table], sum(weight.values()))
        whole = sum(parts.values())
        shares |= {name: of_table * Fraction(part, whole) for name, part in parts.items()}
    return shares


def _measurements(design: Design, bounds: dict[str, Bounds]) -> dict[str, Measurement]:
    """The measurements, with their bounds."""
    budget, shares = design.budget, _shares(design)
    found = {}
    for table in design.tables:
        of = bounds[_COUNTED_FOR[table]]
        for name, how in _MEASURED[table].items():
            if name in shares:
                times = WHOLE * how.most
                found[name] = Measurement(
                    name=name,
                    size=math.prod(getattr(design.shape, side) for side in how.sides),
                    bound=of.sizes * times if budget.pure else of.of(how.group) * times**2,
                    amount=budget.whole * shares[name],
                    pure=budget.pure,
                )
    return found


def _significant_classes(histogram: Ints, noise: float) -> list[float]:
    """The histogram from its first to its last significant class, not below 0; zeros elsewhere.

    The search begins with the window of classes that holds most. It goes on in both directions to the next
    significant window, as long as that is at most `_MAX_CLASS_GAP` classes away.
    """
    values = [float(n) for n in histogram]

    def is_significant(first: int) -> bool:
        window = values[first : first + _CLASSES_IN_WINDOW]
        return sum(window) > _SIGNIFICANT_DEVIATIONS * noise * math.sqrt(len(window))

    top = SIZE_CLASSES - _CLASSES_IN_WINDOW
    first = last = max(range(top + 1), key=lambda j: sum(values[j : j + _CLASSES_IN_WINDOW]))
    if not is_significant(first):
        return [0.0] * SIZE_CLASSES
    while after := [
        j for j in range(last + 1, min(last + _MAX_CLASS_GAP, top) + 1) if is_significant(j)
    ]:
        last = after[-1]
    while before := [j for j in range(max(first - _MAX_CLASS_GAP, 0), first) if is_significant(j)]:
        first = before[0]
    return [
        max(value, 0.0) if first <= j < last + _CLASSES_IN_WINDOW else 0.0
        for j, value in enumerate(values)
    ]


def _choose_bounds(
    histograms: dict[str, list[float]], cells: int, group: str, amount: float, *, pure: bool
) -> Bounds:
    """The bounds of one kind of contribution.

    Higher bounds mean more noise, lower bounds leave out more. The bounds returned minimize the sum of
    both squared errors in a busy cell of one measurement.

    cells, amount: number of cells of that measurement, and its share of the budget. group: the group that
    bounds it.
    """
    sizes = histograms.pop("sizes")
    total = _sum_of_counted(sizes, math.inf)
    if total <= 0:
        return _MINIMAL_BOUNDS
    ratios, kept = {"sizes": Fraction(1)}, 1.0
    for name, histogram in histograms.items():
        ratio, loss = _choose_ratio(histogram)
        ratios[name], kept = Fraction(ratio, RATIO_STEPS), kept * (1 - loss)
    found = []
    for j in CLASSES_OF_SIZES:
        most = SIZE_EDGES[j + 1] - 1
        lost = 1 - kept * _sum_of_counted(sizes, most, pure=pure) / total
        if lost > _MAX_LOST_SHARE:
            continue
        bound = float(most * ratios["sizes" if pure else group])
        noise = math.sqrt(2) * bound / amount if pure else math.sqrt(bound / (2 * amount))
        busy = _BUSY_CELL_FACTOR * total * (1 - lost) / cells
        error2 = (_RESIDUAL_BIAS * lost) ** 2 + (_SMOOTHED_NOISE_SHARE * noise / busy) ** 2
        found.append((error2, most, lost))
    _, most, lost = min(found)
    groups = {name: math.ceil(most * ratio) for name, ratio in ratios.items()}
    return Bounds(groups.pop("sizes"), groups, lost)


def _sum_of_counted(sizes: list[float], most: float, *, pure: bool = False) -> float:
    """Sum of the weights of all contributions, by a histogram of their numbers, under the bound `most`.

    An object with f times the bound counts with weight 1 / sqrt(f), with pure accounting 1 / f.
    """
    found = 0.0
    for j in CLASSES_OF_SIZES:
        first, end = SIZE_EDGES[j], SIZE_EDGES[j + 1]
        for number in (first, (first + end - 1) / 2, end - 1):
            excess = max(number / most, 1.0)
            weight = math.floor(WHOLE / (excess if pure else math.sqrt(excess)))
            found += sizes[j] * number * weight / (3 * WHOLE)
    return found


def estimate_lost_share(
    noisy: Ints, histogram: Measurement, bounds: Bounds, counted: float, variance: float
) -> float:
    """Estimate the share of all contributions that the bounds leave out.

    A few objects with very many contributions are hidden by the noise of the histogram, but then more is
    counted than its significant classes explain. That surplus is attributed to objects of the lowest higher
    class in which the noise could hide them.

    noisy, histogram: the noisy numbers of the histogram `sizes`, and its measurement. counted, variance:
    the noisy sum of what was counted in all bins, and the variance of its noise.
    """
    noise, pure = histogram.deviation, histogram.pure
    sizes = _significant_classes(noisy, noise)
    total = _sum_of_counted(sizes, math.inf)
    significant = [j for j in CLASSES_OF_SIZES if sizes[j] > 0]
    if not significant:
        return bounds.lost

    def object_of_class(j: int) -> tuple[float, float]:
        """Contributions of an object of class j, and the sum of their weights within the bounds."""
        alone = [float(k == j) for k in range(SIZE_CLASSES)]
        return _sum_of_counted(alone, math.inf), _sum_of_counted(alone, bounds.sizes, pure=pure)

    explained = (1 - bounds.lost) * total
    explained_variance = variance + noise**2 * sum(object_of_class(j)[1] ** 2 for j in significant)
    surplus = counted - explained
    if surplus > math.sqrt(explained_variance) + _CLASS_WIDTH_ERROR * explained:
        for j in (j for j in CLASSES_OF_SIZES if j > significant[-1]):
            contributes, counts = object_of_class(j)
            could_be = float(noisy[j - 1 : j + 2].sum()) + _HIDDEN_DEVIATIONS * noise * math.sqrt(3)
            if counts > 0 and surplus / counts <= could_be:
                total += surplus / counts * contributes
                return 1 - (explained + surplus) / total
    return bounds.lost


def _choose_ratio(histogram: list[float]) -> tuple[int, float]:
    """The lowest bound of a ratio that leaves out at most `_RATIO_LOSS`, and the share that it leaves out.

    Objects are taken to have equally many contributions, whatever their ratio.
    """
    total = sum(histogram)
    if total <= 0:
        return RATIO_STEPS, 0.0
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


def _lowest_threshold(picked: Measurement, cells: int, stray: int) -> int:
    """The lowest whole number that noise alone is expected to reach in at most `stray` of the cells."""
    low, high = 1, max(2, math.ceil(40 * picked.deviation / WHOLE))
    while low < high:
        middle = (low + high) // 2
        if _tail_probability(picked, middle * WHOLE) * cells <= stray:
            high = middle
        else:
            low = middle + 1
    return low


def _tail_probability(picked: Measurement, least: int) -> float:
    """Approximate probability that the noise is at least `least`. Only for choosing a threshold."""
    if picked.pure:
        return math.exp(-least / picked.scale) / (1 + math.exp(-1 / picked.scale))
    return math.erfc((least - 0.5) / (math.sqrt(2) * picked.deviation)) / 2


# What is drawn and committed: noisy numbers only.


_NUMBERS = make_dataclass(
    "_NUMBERS",
    [
        *("design", "objects", "visits_likely", "flows_likely"),
        *(f"{what.removesuffix('s')}_{n}" for what, of in _FIRST_ROUND_HISTOGRAMS.items() for n in of),
        *(name for of in _MEASURED.values() for name in of),
    ],
    frozen=True,
)  # fmt: skip


class Draw(_NUMBERS):  # type: ignore[misc, valid-type]
    """Columns of noisy numbers by the name of their measurement; empty where it was not asked for.

    Numbers of the first round are in objects; all others are sums of weights, in units of 1 / WHOLE.

    design: `Design.digest`, the zones and roads that were counted.
    visits_picked, flows_picked: published cells of a sparse table, ascending: zone * bins + bin, or
    (origin * zones + destination) * bins + bin.
    visits_likely, flows_likely: those of them that coarser levels suggested.
    visits_cells, flows_cells: the noisy number of each published cell, independent of the noise by which it
    was picked.
    """

    def __len__(self) -> int:
        """Number of noisy numbers."""
        return sum(len(column) for column in vars(self).values()) - len(self.design)


def plan_of(draw: Draw, design: Design) -> Plan:
    """The plan that follows from the first round of a draw.

    Raises VerificationFailed if the zones or roads of the design are not those of the draw.
    """
    if not np.array_equal(draw.design, design.digest):
        raise VerificationFailed(
            "the zones or roads are not those that the counts were made of",
            remedy="bring back the tables that [[zones]] and [[roads]] name, as they were",
        )
    return second_round(design, vars(draw))
