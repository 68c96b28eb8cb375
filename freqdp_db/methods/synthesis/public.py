"""Public inputs of the methods with a guarantee for an object: region, period, options and budget.

Nothing in this module reads data.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from freqdp_db.errors import BadInput
from freqdp_db.methods.kinds import (
    US_PER_S,
    Box,
    Choice,
    Duration,
    LonLatArea,
    Name,
    Number,
    Outline,
    Stretch,
    TimeStretch,
    Whole,
    plain,
)
from freqdp_db.methods.parameters import parameter
from freqdp_db.model.arrays import Flags, Ints, Metres, offsets_from
from freqdp_db.privacy.accounting import PrivacyBudget

EDGE_M = 0.05
"""Metres. No synthetic sample lies nearer to the edge of a region."""
MINUTE_US = 60 * US_PER_S


@dataclass(frozen=True, eq=False)
class Corners:
    """The outline of an area: the corners of closed rings, whose first corner is repeated as the last."""

    x: Metres
    y: Metres
    offsets: Ints
    """Ring r has the corners offsets[r] to offsets[r + 1] - 1."""

    def holds(self, x: Metres, y: Metres) -> Flags:
        """Which of these points are inside an odd number of rings."""
        inside = np.zeros(len(x), np.bool_)
        for ring, end in pairwise(self.offsets):
            for i in range(ring, end - 1):
                ax, ay, bx, by = self.x[i], self.y[i], self.x[i + 1], self.y[i + 1]
                if ay == by:
                    continue
                across = (ay > y) != (by > y)
                at = np.flatnonzero(across)
                inside[at] ^= x[at] < ax + (y[at] - ay) * ((bx - ax) / (by - ay))
        return inside

    def runs(self, x: tuple[float, float, int], y: tuple[float, float, int]) -> Runs:
        """Points of a grid that lie inside, at least EDGE_M from the edge.

        x, y: the axes of the grid, as (first coordinate, step, number of points).
        """
        ends = np.ones(len(self.x), np.bool_)
        ends[self.offsets[1:] - 1] = False
        i = np.flatnonzero(ends)
        ax, ay, bx, by = self.x[i], self.y[i], self.x[i + 1], self.y[i + 1]
        level = ay == by
        ax, ay, bx, by = ax[~level], ay[~level], bx[~level], by[~level]
        slope = (bx - ax) / (by - ay)

        def inside(at: float) -> list[tuple[int, int]]:
            across = (ay > at) != (by > at)
            crossed = np.sort(ax[across] + (at - ay[across]) * slope[across])
            first = np.ceil((crossed[::2] + EDGE_M - x[0]) / x[1])
            last = np.floor((crossed[1::2] - EDGE_M - x[0]) / x[1]) + 1
            both = np.clip(np.stack([first, last]), 0, x[2]).astype(np.int64)
            return [(a, b) for a, b in both.T.tolist() if a < b]

        lengths, found = [], []
        for row in range(y[2]):
            at = y[0] + row * y[1]
            # edges that are nearly parallel to the row are caught EDGE_M below and above it
            ranges = _intersect(inside(at - EDGE_M), inside(at + EDGE_M))
            ranges = _intersect(inside(at), ranges)
            lengths.append(len(ranges))
            found += ranges
        columns = np.array(found, np.int64).reshape(-1, 2)
        return Runs(offsets_from(np.array(lengths)), columns[:, 0].copy(), columns[:, 1].copy())


def _intersect(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The intersection of two ascending lists of ranges."""
    return [(max(a, c), min(b, d)) for a, b in one for c, d in two if max(a, c) < min(b, d)]


class Runs(NamedTuple):
    """Points of a grid that lie in an area, as runs of columns, row by row."""

    offsets: Ints
    """Row r has the runs offsets[r] to offsets[r + 1] - 1."""
    first: Ints
    """First column of each run."""
    last: Ints
    """Column after the last one of each run."""

    @property
    def row(self) -> Ints:
        """Row of each run."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


class DeclaredArea(Protocol):
    """The region as the owner declared it, in degrees."""

    def holds(self, x: Metres, y: Metres) -> Flags:
        """Which of these points, in metres, lie inside."""


@dataclass(frozen=True)
class Region:
    """The public region in metres of the projected SRID: its bounding box, and its outline if it has one.

    The upper edges of the box do not belong to it.
    """

    x_min: float
    y_min: float
    x_max: float
    y_max: float
    outline: Corners | None = None
    """The declared area in metres. It differs from it only within EDGE_M of the edge."""
    declared: DeclaredArea | None = None
    """Decides which points are inside; None: the outline does."""

    def holds(self, x: Metres, y: Metres) -> Flags:
        """Which of these points lie in it."""
        inside: Flags = (x >= self.x_min) & (x < self.x_max) & (y >= self.y_min) & (y < self.y_max)
        if self.outline is None:
            return inside
        at = np.flatnonzero(inside)
        inside[at] = (self.declared or self.outline).holds(x[at], y[at])
        return inside

    @property
    def width(self) -> float:
        return self.x_max - self.x_min

    @property
    def height(self) -> float:
        return self.y_max - self.y_min


@dataclass(frozen=True)
class Period:
    """The public period, in microseconds since 2000-01-01 UTC, and the offset of local time."""

    begin: int
    end: int
    """Not in the period."""
    offset_us: int = 0
    """Offset of local time from UTC at the begin."""
    change_us: int = 0
    """By how much the offset at the end is larger."""

    @property
    def days(self) -> int:
        """Number of local dates that it touches."""
        first = (self.begin + self.offset_us) // (24 * 60 * MINUTE_US)
        return int((self.end - 1 + self.offset_us) // (24 * 60 * MINUTE_US) - first) + 1


# Options of the synthetic methods.


_EPSILON = Number(Decimal(20), "2", low=Decimal("0.01"))
LARGEST_SIZE = 5_000_000
LARGEST_DELTA = Decimal("0.00001")
_DELTA_MARGIN = 100
"""delta should be at most 1 / (_DELTA_MARGIN * number of objects)."""
MOST_ROWS = 200_000_000
"""Largest number of rows of a synthetic release. Requests for more are refused."""
USUAL_TRIP_US = 20 * 60 * US_PER_S
"""Usual duration of a trip: a public constant, for estimating the number of rows."""


@dataclass(frozen=True)
class SyntheticOptions:
    epsilon: Decimal = parameter(_EPSILON, "For one object with all its data.", Decimal(2))
    size: int | None = parameter(
        Whole(1, LARGEST_SIZE, "10000"), "How many trips. Default: their noisy number."
    )
    every: int = parameter(Duration("60s"), "Time between two samples.", 60 * US_PER_S)
    region: Box | Outline | None = parameter(
        LonLatArea(), "Public: where the data may lie. Default: the dataset's."
    )
    period: Stretch | None = parameter(
        TimeStretch(), "Public: when the data may lie. Default: the dataset's."
    )

    @property
    def parameters(self) -> Parameters:
        """What the mechanism reads of the options. Accounting is pure."""
        return Parameters(Fraction(self.epsilon), pure=True, size=self.size, every_us=self.every)


@dataclass(frozen=True)
class StrictOptions(SyntheticOptions):
    delta: Decimal = parameter(
        Number(LARGEST_DELTA, "0.000001", decimals=12, recorded=Decimal("0.001")),
        "With zcdp: how seldom epsilon may not hold; much less than 1 / objects.",
        Decimal("0.000001"),
    )
    accounting: str = parameter(
        Choice(("zcdp", "pure")), "zcdp (epsilon and delta), or pure (epsilon alone).", "zcdp"
    )
    roads: str | None = parameter(
        Name("public.roads"), "Public table of roads that trips keep to. Default: straight lines."
    )

    @property
    def parameters(self) -> Parameters:
        return Parameters(
            Fraction(self.epsilon),
            Fraction(self.delta),
            self.accounting == "pure",
            self.size,
            self.every,
        )


def require_small_delta(accounting: str, delta: Decimal) -> None:
    """Refuse a delta with which the guarantee would fail too often; raises BadInput."""
    if accounting == "zcdp" and delta > LARGEST_DELTA:
        raise BadInput(
            f"[[delta]] {plain(delta)} is more than {plain(LARGEST_DELTA)}",
            remedy="it is how often the guarantee may fail altogether: give [[delta]] 0.000001",
        )


def delta_warnings(accounting: str, delta: Decimal, objects: int) -> list[str]:
    """A warning if delta is not small for this (noisy) number of objects."""
    if accounting != "zcdp" or delta * objects * _DELTA_MARGIN <= 1:
        return []
    return [
        f"[[delta]] {plain(delta)} times the noisy number of objects ({objects:,}) is "
        f"{float(delta * objects):.2g}: that is no longer small. Take a [[delta]] of "
        f"{plain(Decimal(1).scaleb(-len(str(_DELTA_MARGIN * objects))))} or less."
    ]


# Budget, size and sampling interval of a synthetic release.


@dataclass(frozen=True)
class Parameters(PrivacyBudget):
    """What the mechanism of a synthetic release reads of its options."""

    size: int | None = None
    """Number of trips. None: their noisy number."""
    every_us: int = 60 * US_PER_S
    """Time between two samples."""
