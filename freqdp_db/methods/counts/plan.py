"""The plan of a release: what is measured, with which caps and which parts of the budget. Sees no data.

The first round counts objects and, in classes of half an octave, how much they contribute. The caps of the
second round follow from these noisy numbers and from public ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np

from freqdp_db.methods.counts.contributions import LONGEST_STAY_MIN, TRIP_CLASSES
from freqdp_db.methods.counts.options import Budget
from freqdp_db.methods.counts.zones import Bins, Zones
from freqdp_db.model.arrays import Ints
from freqdp_db.privacy.accounting import gaussian_cost, sigma2_for
from freqdp_db.privacy.noise import Tail, privacy_loss, scale_for

SIZE_CLASSES = 40
SIZE_EDGES = tuple(math.isqrt(2**j - 1) + 1 for j in range(SIZE_CLASSES + 1))
"""Class j begins with this many: the smallest t with t^2 >= 2^j."""
CLASSES_OF_SIZES = tuple(j for j in range(SIZE_CLASSES) if SIZE_EDGES[j] < SIZE_EDGES[j + 1])
FIRST_ROUND = Fraction(8, 100)
_SIZES = 3
"""How many contributions objects have is measured with so many times the share of the others."""
MINUTE_STEPS = 4
"""How long stays are is counted by how many steps they are longer or shorter than half of the longest; at
most so many."""
STEP_MIN = LONGEST_STAY_MIN // (2 * MINUTE_STEPS)
STRAY_ROWS = 1000
"""So many flows between zones are shown by chance, on average, where no threshold is given."""
MOST_CELLS = 50_000_000
"""Cells of one table that are kept one by one."""
_STANDS_OUT = 2.5
_TOGETHER = 3
_APART = 6
"""Classes stand out if so many together do, and are at most so many away from others."""
_MOST_CORRECTED = 0.5
_BUSY = 5
"""Caps are chosen for cells that hold so many times the mean."""
_MOST_LOST = 0.1
_SMOOTH = 0.5
"""What is left of noise where neighbours in time and space help."""

# Parts of the budget after the first round.
_TABLES = {"visits": 38, "flows": 42, "stays": 15, "trips": 5}
_PARTS: dict[str, dict[str, int]] = {
    "visits": {"visits_zone": 85, "visits_city": 15},
    "stays": {
        "stays_zone": 40, "stays_zone_all": 20, "stays_district": 10, "stays_district_all": 8,
        "stays_city": 5, "stays_minutes": 17,
    },
    "flows": {
        "flows_city": 12, "flows_from_district": 8, "flows_from_district_all": 10,
        "flows_districts": 18, "flows_districts_all": 12, "flows_from": 8, "flows_from_all": 12,
        "flows_to": 2, "flows_to_all": 5, "flows_to_district": 2, "flows_to_district_all": 3,
        "picked": 2, "flows_zones": 6,
    },
    "trips": {"trips_city": 20, "trips_class": 80},
}  # fmt: skip
_ROUND = {
    "visits": ("visit_sizes", "visit_bins"),
    "trips": ("trip_sizes", "trip_bins", "trip_pairs", "trip_districts"),
    "stays": ("stay_sizes", "stay_bins", "stay_districts"),
}
"""Histograms of the first round, by what is counted: of numbers, and of sums of squares by group."""


@dataclass(frozen=True)
class Shape:
    """How large the public domain is."""

    zones: int
    districts: int
    bins: int
    around: bool = False
    """Whether the last bin is a neighbour of the first."""

    @classmethod
    def of(cls, zones: Zones, bins: Bins) -> Shape:
        around = bins.kind in ("hour-of-day", "hour-of-week", "parts-of-day")
        return cls(len(zones), zones.districts, len(bins), around)

    @property
    def pairs(self) -> int:
        """Cells of the largest table."""
        return self.zones * self.zones * self.bins


@dataclass(frozen=True)
class Caps:
    """No object is counted for more."""

    most: int
    """Contributions to a table."""
    bins: int
    """Sum of squares of how many there are in each bin,"""
    pairs: int = 0
    """of trips: between two districts in a bin,"""
    districts: int = 0
    """of trips and stays: in each district where they begin. Of trips also where they end."""
    lost: float = 0.0
    """About what part of all is not counted because of them, by the first round."""

    @property
    def correction(self) -> float:
        """By which estimates are multiplied, so that they are of all that there is."""
        return 1 / (1 - min(self.lost, _MOST_CORRECTED))

    def bounds(self) -> dict[str, int]:
        """By the names of the groups."""
        return {
            "bins": self.bins,
            "pairs": self.pairs,
            "districts": self.districts,
            "ends": self.districts,
        }


@dataclass(frozen=True)
class Measurement:
    """A vector that is measured, with independent noise on each entry."""

    name: str
    size: int
    share: Fraction
    """Of the budget."""
    squares: int
    """The squared L2 norm of an object's vector is at most this."""
    absolute: int
    """The L1 norm of an object's vector is at most this."""

    def sigma2(self, budget: Budget) -> Fraction:
        """Variance of the discrete Gaussian noise; costs its share exactly."""
        return sigma2_for(self.squares, budget.whole * self.share)

    def scale(self, budget: Budget) -> float:
        """Scale of the discrete Laplace noise; costs its share at most."""
        return scale_for(self.absolute, budget.whole * self.share)

    def variance(self, budget: Budget) -> float:
        """Of the noise, as a float."""
        return 2 * self.scale(budget) ** 2 if budget.pure else float(self.sigma2(budget))

    def cost(self, budget: Budget) -> Fraction:
        if budget.pure:
            return privacy_loss(self.absolute, self.scale(budget))
        return gaussian_cost(self.squares, self.sigma2(budget))

    def tail(self, budget: Budget, least: int) -> Tail:
        if budget.pure:
            return Tail(least, scale=self.scale(budget))
        return Tail(least, sigma2=self.sigma2(budget))


@dataclass(frozen=True)
class Plan:
    """The second round."""

    shape: Shape
    tables: tuple[str, ...]
    visits: Caps
    trips: Caps
    stays: Caps
    measurements: dict[str, Measurement]
    threshold: int
    """From which noisy number on a flow between zones is picked."""

    def __getitem__(self, name: str) -> Measurement:
        return self.measurements[name]

    def __contains__(self, name: str) -> bool:
        return name in self.measurements


def counted(tables: tuple[str, ...]) -> list[str]:
    """What is counted for these tables: visits, trips, stays."""
    wanted = {"visits": {"visits"}, "trips": {"flows", "trips"}, "stays": {"stays"}}
    return [name for name, of in wanted.items() if of & set(tables)]


def first_round(tables: tuple[str, ...]) -> list[Measurement]:
    """How many objects there are, and histograms of what they contribute: one entry of each moves by 1."""
    weights = {"objects": 1} | {
        name: _SIZES if name.endswith("_sizes") else 1
        for what in counted(tables)
        for name in _ROUND[what]
    }
    return [
        Measurement(
            name, 1 if name == "objects" else SIZE_CLASSES,
            FIRST_ROUND * Fraction(weight, sum(weights.values())), 1, 1,
        )
        for name, weight in weights.items()
    ]  # fmt: skip


def classes_of(numbers: Ints) -> Ints:
    """A histogram of numbers above 0, in half octaves."""
    numbers = numbers[numbers > 0]
    classes = np.searchsorted(np.array(SIZE_EDGES[:-1]), numbers, side="right") - 1
    return np.bincount(np.minimum(classes, SIZE_CLASSES - 1), minlength=SIZE_CLASSES)


def second_round(
    shape: Shape,
    tables: tuple[str, ...],
    budget: Budget,
    round_one: dict[str, Ints],
    threshold: int | None = None,
) -> Plan:
    """The plan that follows from the noisy numbers of the first round."""
    noise = {m.name: math.sqrt(m.variance(budget)) for m in first_round(tables)}
    shares = _shares(tables)
    cells = {
        "visits": shape.zones * shape.bins,
        "trips": shape.zones * shape.bins,
        "stays": shape.zones * shape.bins,
    }
    finest = {"visits": "visits_zone", "trips": "flows_from", "stays": "stays_zone"}
    caps = {"visits": Caps(1, 1), "trips": Caps(1, 1, 1, 1), "stays": Caps(1, 1, 0, 1)}
    for what in counted(tables):
        sizes, *squares = (_cleaned(round_one[name], noise[name]) for name in _ROUND[what])
        part = shares.get(finest[what], shares.get("trips_class", Fraction(1, 20)))
        most, lost = _most(sizes, cells[what], float(budget.whole * part), budget.pure)
        bounds, further = {}, 0.0
        for name, histogram in zip(_ROUND[what][1:], squares, strict=True):
            bound, more = _bound(histogram)
            # no sum of squares is larger than the square of the number, and none is smaller than it
            bounds[name.partition("_")[2]] = min(max(bound, most), most * most)
            further = max(further, more)
        caps[what] = Caps(most, **bounds, lost=min(lost + further, 1.0))
    measurements = _measurements(shape, shares, caps["visits"], caps["trips"], caps["stays"])
    least = 1
    if "picked" in measurements:
        least = threshold or _threshold(measurements["picked"], budget, shape.pairs)
    return Plan(
        shape, tables, caps["visits"], caps["trips"], caps["stays"], measurements, least
    )  # fmt: skip


def _shares(tables: tuple[str, ...]) -> dict[str, Fraction]:
    """The part of the budget of each measurement."""
    weight = {name: _TABLES[name] for name in tables}
    whole = sum(weight.values())
    shares: dict[str, Fraction] = {}
    for table, parts in _PARTS.items():
        if table not in weight:
            continue
        if table == "trips" and "flows" in tables:  # the city's trips are measured there
            parts = {"trips_class": 1}
        for name, part in parts.items():
            mine = Fraction(weight[table], whole) * Fraction(part, sum(parts.values()))
            shares[name] = (1 - FIRST_ROUND) * mine
    return shares


def _measurements(
    shape: Shape, shares: dict[str, Fraction], visits: Caps, trips: Caps, stays: Caps
) -> dict[str, Measurement]:
    """Each with the bounds that its caps give: see the proof in docs/privacy."""
    z, d, b = shape.zones, shape.districts, shape.bins
    # name: entries, squared L2 norm, L1 norm
    known = {
        "visits_zone": (z * b, visits.most, visits.most),
        "visits_city": (b, visits.bins, visits.most),
        "stays_zone": (z * b, stays.bins, stays.most),
        "stays_zone_all": (z, stays.districts, stays.most),
        "stays_district": (d * b, stays.bins, stays.most),
        "stays_district_all": (d, stays.districts, stays.most),
        "stays_city": (b, stays.bins, stays.most),
        "stays_minutes": (d * b, stays.bins * MINUTE_STEPS**2, stays.most * MINUTE_STEPS),
        "flows_city": (b, trips.bins, trips.most),
        "flows_from_district": (d * b, trips.bins, trips.most),
        "flows_from_district_all": (d, trips.districts, trips.most),
        "flows_districts": (d * d * b, trips.pairs, trips.most),
        "flows_districts_all": (d * d, trips.districts, trips.most),
        "flows_from": (z * b, trips.bins, trips.most),
        "flows_from_all": (z, trips.districts, trips.most),
        "flows_to": (z * b, trips.bins, trips.most),
        "flows_to_all": (z, trips.districts, trips.most),
        "flows_to_district": (d * b, trips.bins, trips.most),
        "flows_to_district_all": (d, trips.districts, trips.most),
        "picked": (z * z * b, trips.pairs, trips.most),
        "flows_zones": (z * z * b, trips.pairs, trips.most),
        "trips_city": (b, trips.bins, trips.most),
        "trips_class": (TRIP_CLASSES * b, trips.bins, trips.most),
    }
    return {
        name: Measurement(name, size, shares[name], squares, absolute)
        for name, (size, squares, absolute) in known.items()
        if name in shares
    }


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


def _bound(histogram: list[float]) -> tuple[int, float]:
    """The least bound of sums of squares that loses little, and what part it loses.

    Of an object whose sum is larger by a factor f, about the part 1 / sqrt(f) is counted.
    """
    middles = {j: math.sqrt((SIZE_EDGES[j] + SIZE_EDGES[j + 1] - 1) / 2) for j in CLASSES_OF_SIZES}
    total = sum(histogram[j] * middle for j, middle in middles.items())
    for j in CLASSES_OF_SIZES:
        bound = SIZE_EDGES[j + 1] - 1
        counted_ = sum(histogram[k] * min(m, math.sqrt(bound)) for k, m in middles.items())
        if total > 0 and 1 - counted_ / total <= _MOST_LOST / 2:
            return bound, 1 - counted_ / total
    return 1, 0.0


def _most(histogram: list[float], cells: int, part: float, pure: bool) -> tuple[int, float]:
    """How many contributions of an object are counted, and which part of all is lost by that.

    More are more noise, fewer lose more: the sum of squares of both is least, for a cell that holds
    `_BUSY` times the mean. Caps that lose more than `_MOST_LOST` are not taken: no margin covers what is
    lost.
    """
    middles = {j: (SIZE_EDGES[j] + SIZE_EDGES[j + 1] - 1) / 2 for j in CLASSES_OF_SIZES}
    total = sum(histogram[j] * middle for j, middle in middles.items())
    if total <= 0:
        return 1, 0.0
    busy = _BUSY * total / cells
    best = (math.inf, 1, 0.0)
    for j in CLASSES_OF_SIZES:
        cap = SIZE_EDGES[j + 1] - 1
        counted_ = sum(histogram[k] * min(middle, cap) for k, middle in middles.items())
        lost = 1 - counted_ / total
        noise = math.sqrt(2) * cap / part if pure else math.sqrt(cap / (2 * part))
        if lost <= _MOST_LOST or cap == SIZE_EDGES[SIZE_CLASSES] - 1:
            best = min(best, (lost**2 + (_SMOOTH * noise / busy) ** 2, cap, lost))
    return best[1], best[2]


def _threshold(picked: Measurement, budget: Budget, cells: int) -> int:
    """The least whole number that so few cells without trips reach."""
    spread = math.sqrt(picked.variance(budget))
    low, high = 1, max(2, math.ceil(40 * spread))
    while low < high:
        middle = (low + high) // 2
        if _about(picked, budget, middle) * cells <= STRAY_ROWS:
            high = middle
        else:
            low = middle + 1
    return low


def _about(picked: Measurement, budget: Budget, least: int) -> float:
    """The probability that noise reaches a number, as a float: good enough to choose by."""
    if budget.pure:
        scale = picked.scale(budget)
        return math.exp(-least / scale) / (1 + math.exp(-1 / scale))
    return math.erfc((least - 0.5) / math.sqrt(2 * picked.variance(budget))) / 2


def spent(measurements: list[Measurement], budget: Budget) -> Fraction:
    """What these cost together: rho, or epsilon for pure accounting."""
    return sum((m.cost(budget) for m in measurements), Fraction(0))


# What is drawn and committed. Holds no data.


@dataclass(frozen=True)
class Draw:
    """Noisy numbers, by the names of the measurements (empty: not asked for), and 256 bits of a seed."""

    seed: Ints
    objects: Ints
    visit_sizes: Ints
    visit_bins: Ints
    trip_sizes: Ints
    trip_bins: Ints
    trip_pairs: Ints
    trip_districts: Ints
    stay_sizes: Ints
    stay_bins: Ints
    stay_districts: Ints
    visits_zone: Ints
    visits_city: Ints
    stays_zone: Ints
    stays_district: Ints
    stays_city: Ints
    stays_minutes: Ints
    stays_zone_all: Ints
    stays_district_all: Ints
    flows_city: Ints
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
    picked: Ints
    """Flows between zones that are shown: (origin * zones + destination) * bins + bin, in order."""
    likely: Ints
    """Those of them that were picked by the coarser levels, not by a noisy number of their own."""
    flows_zones: Ints
    """Of each of them, its noisy number: independent of the noise that it was picked by."""
    trips_city: Ints
    trips_class: Ints

    def __len__(self) -> int:
        """How many noisy numbers."""
        return sum(len(getattr(self, f.name)) for f in fields(self)) - len(self.seed)


def plan_of(
    draw: Draw, shape: Shape, tables: tuple[str, ...], budget: Budget, threshold: int | None
) -> Plan:
    """The plan that the first round of a draw leads to."""
    names = (m.name for m in first_round(tables))
    return second_round(
        shape, tables, budget, {name: getattr(draw, name) for name in names}, threshold
    )
