"""Value types that all layers share: columns, not an object per sample.

Ids of trajectories and locations are positions in these arrays (from 0); the tables use the same
numbers. Positions of samples count from 0 here and from 1 in the tables (`seq`). Times are
microseconds since 2000-01-01 UTC, as PostgreSQL keeps them. Lengths are metres in the projected
SRID; losses are whole millimetres.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from freqdp_db.model.arrays import Flags, Ids, Ints, Metres, offsets_from, owners, rows_of


@dataclass(frozen=True)
class Locations:
    """Discrete places, in metres; those of a build also as a release shows them."""

    x: Metres
    y: Metres
    source_x: Metres | None = None
    source_y: Metres | None = None
    """In the source's SRID; None: places that a method made."""

    def in_source(self) -> tuple[Metres, Metres]:
        """The coordinates of a build's places as a release shows them."""
        assert self.source_x is not None and self.source_y is not None
        return self.source_x, self.source_y

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class Trajectories:
    """All samples, trajectory after trajectory, each in time order."""

    offsets: Ints
    """Trajectory t has the samples offsets[t] to offsets[t + 1] - 1."""
    location: Ids
    at: Ints
    start: Ints
    """Time of a trajectory's first sample; of an emptied one, that of the first sample it had."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def samples(self) -> int:
        return int(self.offsets[-1])

    @property
    def lengths(self) -> Ints:
        return np.diff(self.offsets)

    @property
    def owner(self) -> Ids:
        """The trajectory of each sample."""
        return owners(self.offsets)

    @property
    def ends(self) -> Flags:
        """Whether each sample is the last of its trajectory."""
        last = np.zeros(self.samples, np.bool_)
        last[self.offsets[1:][self.lengths > 0] - 1] = True
        return last

    def take(self, chosen: Ints) -> Trajectories:
        """These trajectories, in this order."""
        rows, offsets = rows_of(self.offsets, chosen)
        return Trajectories(offsets, self.location[rows], self.at[rows], self.start[chosen])

    def where(self, kept: Flags) -> Trajectories:
        """Only these samples."""
        lengths = np.bincount(self.owner[kept], minlength=len(self))
        return Trajectories(offsets_from(lengths), self.location[kept], self.at[kept], self.start)


@dataclass(frozen=True)
class Clock:
    """What the source's times look like."""

    step_us: int
    """Source times are multiples of this."""
    median_gap_us: int
    """Median time between consecutive samples."""


# A build in memory.


@dataclass(frozen=True)
class Build:
    """One consistent copy of a dataset, as arrays: what was written, or what was read back."""

    trajectories: Trajectories
    locations: Locations
    clock: Clock
    srid: int
    """Of the metres in which the locations lie."""
    source_srid: int
    """Of the coordinates that a release shows."""
    timezone: str = "UTC"
    systems: tuple[str, str] | None = None
    """Definitions of both reference systems, for methods that make places of their own."""
    tf: Ids | None = None
    """How many trajectories visit each location, as it is stored; None: it was not read."""

    def with_trajectories(
        self, trajectories: Trajectories, locations: Locations | None = None
    ) -> Build:
        """The same build with other trajectories: the stored TF is not theirs, and goes."""
        places = self.locations if locations is None else locations
        return replace(self, trajectories=trajectories, locations=places, tf=None)


# Areas and intervals, how they look in a release, and points of interest.


@dataclass(frozen=True)
class Areas:
    """For generalised releases: where and when each sample may have been."""

    x_min: Metres
    y_min: Metres
    x_max: Metres
    y_max: Metres
    until: Ints
    """The interval of a sample is from its `at` to this, the end not in it."""


class Shown(Protocol):
    """The coordinates of a release."""

    def points(self, x: Metres, y: Metres) -> tuple[Metres, Metres]: ...

    def areas(self, areas: Areas) -> Areas: ...


# Points of interest.


@dataclass(frozen=True)
class Points:
    """Points with a category each, in metres."""

    x: Metres
    y: Metres
    category: Ids
    """Numbers that count through `names`."""
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.x)
