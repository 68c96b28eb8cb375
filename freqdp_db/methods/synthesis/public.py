"""What is public: the region, the period, and when a trip ends. Nothing here is read from the data."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from freqdp_db.columns.arrays import Flags, Ints, Metres

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US


@dataclass(frozen=True, eq=False)
class Corners:
    """The outline of an area: closed rings; ring r has the corners offsets[r] to offsets[r + 1] - 1."""

    x: Metres
    y: Metres
    offsets: Ints

    def hold(self, x: Metres, y: Metres) -> Flags:
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

    def hold_rows(self, x: Metres, y: Metres) -> Flags:
        """The same for all points of a grid with these columns, which rise, and rows."""
        ends = np.ones(len(self.x), np.bool_)
        ends[self.offsets[1:] - 1] = False
        i = np.flatnonzero(ends)
        ax, ay, bx, by = self.x[i], self.y[i], self.x[i + 1], self.y[i + 1]
        level = ay == by
        ax, ay, bx, by = ax[~level], ay[~level], bx[~level], by[~level]
        slope = (bx - ax) / (by - ay)
        inside = np.empty((len(y), len(x)), np.bool_)
        for row, at in enumerate(y):
            across = (ay > at) != (by > at)
            crossed = np.sort(ax[across] + (at - ay[across]) * slope[across])
            inside[row] = (len(crossed) - np.searchsorted(crossed, x, side="right")) % 2 == 1
        return inside


@dataclass(frozen=True)
class Region:
    """A public box, in metres of the projected SRID; the upper edges do not belong to it.

    With an outline, only what lies in that, too.
    """

    x_min: float
    y_min: float
    x_max: float
    y_max: float
    outline: Corners | None = None

    def holds(self, x: Metres, y: Metres) -> Flags:
        """Which of these points lie in it."""
        inside: Flags = (x >= self.x_min) & (x < self.x_max) & (y >= self.y_min) & (y < self.y_max)
        return inside if self.outline is None else inside & self.outline.hold(x, y)

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

    @property
    def days(self) -> int:
        """How many local dates it touches."""
        first = (self.begin + self.offset_us) // (24 * 60 * MINUTE_US)
        return int((self.end - 1 + self.offset_us) // (24 * 60 * MINUTE_US) - first) + 1


@dataclass(frozen=True)
class TripRule:
    """When a trip ends; public constants."""

    fastest_m_per_s: float = 50.0
    gap_us: int = 30 * MINUTE_US
    stay_us: int = 20 * MINUTE_US
    stay_m: float = 150.0
    least_samples: int = 3
    least_m: float = 1000.0
