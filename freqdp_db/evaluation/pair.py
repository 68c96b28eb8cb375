"""A dataset and a release of it side by side, and the grids and clocks that the metrics count in.

Trajectory t of the release is the anonymized trajectory t of the dataset: the private key has
linked them. Grids of the metrics cover the box of D's 0.1 to 99.9 percentiles (TE and FFP: 1 to
99), and what lies outside is counted in the cells at the border: one bogus position on the other
side of the globe would otherwise put a whole city into one cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freqdp_db.columns.arrays import Flags, Ids, Ints, Metres
from freqdp_db.columns.days import DAY_US, HOUR_US, local_days, local_times
from freqdp_db.columns.trajectories import Locations, Trajectories


@dataclass(frozen=True)
class Pair:
    """D as built and D* as released, over the same places."""

    original: Trajectories
    released: Trajectories
    locations: Locations
    timezone: str = "UTC"
    time_step_us: int | None = None
    """What released times were coarsened to, if they were: it is public, so attackers know it."""
    made_up: bool = False
    """Whether released trajectories are nobody's: how many there are need not be D's number."""

    def __len__(self) -> int:
        return len(self.original)

    @property
    def on_both_sides(self) -> Flags:
        """Trajectories that are not empty in D nor in D*."""
        return (self.original.lengths > 0) & (self.released.lengths > 0)

    def coarse(self, at: Ints) -> Ints:
        """Times as the release shows them."""
        return at if self.time_step_us is None else at // self.time_step_us * self.time_step_us


@dataclass(frozen=True)
class CellBox:
    """A box that is cut into equal cells; what lies outside belongs to the cells at its border."""

    west: float
    south: float
    east: float
    north: float

    @classmethod
    def of(cls, pair: Pair, percent: float) -> CellBox:
        """The box of D's samples from this percentile to its counterpart."""
        place = pair.original.location
        return cls.around(pair.locations.x[place], pair.locations.y[place], percent)

    @classmethod
    def around(cls, x: Metres, y: Metres, percent: float) -> CellBox:
        """The same of any positions."""
        if not len(x):
            return cls(0.0, 0.0, 0.0, 0.0)
        ends = (percent, 100.0 - percent)
        (west, east), (south, north) = np.percentile(x, ends), np.percentile(y, ends)
        return cls(float(west), float(south), float(east), float(north))

    def columns_and_rows(self, locations: Locations, side: int) -> tuple[Ids, Ids]:
        """Of each location, in a grid of side x side cells."""
        return (
            _cut(locations.x, self.west, self.east, side),
            _cut(locations.y, self.south, self.north, side),
        )

    def cells(self, locations: Locations, side: int) -> Ids:
        """Cell of each location: row by row from the south-west."""
        column, row = self.columns_and_rows(locations, side)
        return row * np.int32(side) + column


def _cut(values: Metres, low: float, high: float, side: int) -> Ids:
    width = (high - low) / side
    if width <= 0:
        return np.zeros(len(values), np.int32)
    return np.clip(np.floor((values - low) / width), 0, side - 1).astype(np.int32)


def share_of(which: Flags, of: Flags) -> float:
    """How many of these are so; 0 if there are none."""
    return float(which[of].mean()) if of.any() else 0.0


def hours_of_day(at: Ints, timezone: str) -> Ids:
    return (local_times(at, timezone) % DAY_US // HOUR_US).astype(np.int32)


def on_odd_days(at: Ints, timezone: str) -> Flags:
    """Whether each time falls on an odd day, counted from 2000-01-01 (day 0) in the zone."""
    odd: Flags = local_days(at, timezone) % 2 == 1
    return odd
