"""What is public: region, period, and what a release was asked for. Nothing is read from the data."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Literal, NamedTuple, Protocol

import numpy as np

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
)
from freqdp_db.methods.parameters import parameter
from freqdp_db.model.arrays import Flags, Ints, Metres, offsets_from
from freqdp_db.privacy.accounting import pure_cost, rho_for

EDGE_M = 0.05
"""No synthetic sample lies nearer to the edge of an area."""
MINUTE_US = 60 * US_PER_S


@dataclass(frozen=True, eq=False)
class Corners:
    """The outline of an area: closed rings; ring r has the corners offsets[r] to offsets[r + 1] - 1."""

    x: Metres
    y: Metres
    offsets: Ints

    def holds(self, x: Metres, y: Metres) -> Flags:
        """Which of these points an odd number of rings goes round."""
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
        """Which points of a grid lie inside, and not at the very edge. Axes: first, step, how many."""
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
            # an edge that nearly follows the row is found from below or above
            mine = _common(_common(inside(at), inside(at - EDGE_M)), inside(at + EDGE_M))
            lengths.append(len(mine))
            found += mine
        columns = np.array(found, np.int64).reshape(-1, 2)
        return Runs(offsets_from(np.array(lengths)), columns[:, 0].copy(), columns[:, 1].copy())


def _common(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What two lists of ranges, both in order, have in common."""
    return [(max(a, c), min(b, d)) for a, b in one for c, d in two if max(a, c) < min(b, d)]


class Runs(NamedTuple):
    """Places of a grid that lie in an area: runs of columns, row by row."""

    offsets: Ints
    """Row r has the runs offsets[r] to offsets[r + 1] - 1."""
    first: Ints
    last: Ints
    """One after the last column."""

    @property
    def row(self) -> Ints:
        """Of each run."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


class Declared(Protocol):
    """What an owner said, in degrees."""

    def holds(self, x: Metres, y: Metres) -> Flags:
        """Which of these places, in metres, lie inside of it."""


@dataclass(frozen=True)
class Region:
    """What the owner said, and the box around it in metres of the projected SRID.

    Without an outline it is that box, without its upper edges.
    """

    x_min: float
    y_min: float
    x_max: float
    y_max: float
    outline: Corners | None = None
    """In metres: so near to what was said that only places within EDGE_M of its edge could differ."""
    declared: Declared | None = None
    """What was said; None: the outline."""

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
    """A public stretch of time, and the offset of local time; microseconds since 2000-01-01 UTC."""

    begin: int
    end: int
    offset_us: int = 0
    """At the begin."""
    change_us: int = 0
    """By how much the clock is further ahead at the end."""

    @property
    def days(self) -> int:
        """How many local dates it touches."""
        first = (self.begin + self.offset_us) // (24 * 60 * MINUTE_US)
        return int((self.end - 1 + self.offset_us) // (24 * 60 * MINUTE_US) - first) + 1


# What the synthetic methods can be asked for.


_EPSILON = Number(Decimal(20), "2", low=Decimal("0.01"))
LARGEST_SIZE = 5_000_000
LARGEST_DELTA = Decimal("0.00001")
MOST_ROWS = 200_000_000
"""Of a synthetic release: what would be more is refused, or cut to it."""
USUAL_TRIP_US = 20 * 60 * US_PER_S
"""A public guess, by which a size that was asked for is judged."""


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
        """What the mechanism reads; pure epsilon."""
        return Parameters(Fraction(self.epsilon), accounting="pure", size=self.size,
                          every_us=self.every)  # fmt: skip


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
            "pure" if self.accounting == "pure" else "zcdp",
            self.size,
            self.every,
        )


# Budget, size and rhythm of a synthetic release, as the mechanism reads them.


Accounting = Literal["zcdp", "pure"]


@dataclass(frozen=True)
class Parameters:
    """Budget, size and rhythm of a release."""

    epsilon: Fraction = Fraction(2)
    delta: Fraction = Fraction(1, 10**6)
    """Not used by pure accounting."""
    accounting: Accounting = "zcdp"
    size: int | None = None
    """Trips; without it, their noisy number."""
    every_us: int = 60 * US_PER_S

    @property
    def pure(self) -> bool:
        return self.accounting == "pure"

    @property
    def rho(self) -> Fraction:
        """What the ledger for objects books."""
        return pure_cost(self.epsilon) if self.pure else rho_for(self.epsilon, self.delta)

    @property
    def whole(self) -> Fraction:
        """What the shares are shares of: rho, or epsilon for pure accounting."""
        return self.epsilon if self.pure else self.rho
