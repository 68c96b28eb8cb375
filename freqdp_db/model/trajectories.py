"""Value types that all layers share: columns, not an object per sample.

Ids of trajectories and locations are positions in these arrays (from 0); the tables use the same
numbers. Positions of samples count from 0 here and from 1 in the tables (`seq`). Times are
microseconds since 2000-01-01 UTC, as PostgreSQL keeps them. Lengths are metres in the projected
SRID; losses are whole millimetres.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from freqdp_db.model.arrays import (
    Flags,
    Ids,
    Ints,
    Metres,
    offsets_from,
    offsets_of,
    owners,
    rows_of,
)

Codes: TypeAlias = NDArray[np.int16]


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
    kept: Codes | None = None
    """A code for the values that each sample carries along: see `KeptColumns`. None: they carry none."""

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
        start = self.start[chosen]
        return Trajectories(offsets, self.location[rows], self.at[rows], start, self.kept_of(rows))

    def where(self, kept: Flags) -> Trajectories:
        """Only these samples."""
        offsets = offsets_from(np.bincount(self.owner[kept], minlength=len(self)))
        location, at = self.location[kept], self.at[kept]
        return Trajectories(offsets, location, at, self.start, self.kept_of(kept))

    def kept_of(self, samples: Ints | Flags) -> Codes | None:
        """The codes of these samples."""
        return None if self.kept is None else self.kept[samples]


KeptValue: TypeAlias = str | bool | int | None


@dataclass(frozen=True)
class KeptColumns:
    """Columns of the source that samples carry along: coarse, and declared public by their owner."""

    columns: tuple[tuple[str, str], ...]
    """The name of each, and its type in a release: text, bool, int2, int4 or int8."""
    values: tuple[tuple[KeptValue, ...], ...]
    """Of each code, the values of all columns. Those of code 0 are NULL."""

    @classmethod
    def of(cls, document: Mapping[str, Any] | None) -> KeptColumns | None:
        """As a build records them; None: it has none."""
        if document is None:
            return None
        columns, values = ([tuple(row) for row in document[name]] for name in ("columns", "values"))
        return cls(tuple(columns), tuple(values))

    def document(self) -> dict[str, Any]:
        return {"columns": list(map(list, self.columns)), "values": list(map(list, self.values))}


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
    kept: KeptColumns | None = None
    """What the samples' codes stand for; None: they carry no columns along."""

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


class ReleaseCoordinates(Protocol):
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


Operation: TypeAlias = Literal["d", "i"]
MM_PER_M = 1000.0


@dataclass(frozen=True)
class EditRuns:
    """Edits of one operation, grouped into runs of one place in one trajectory.

    Runs are in order of (trajectory, location). `position` is the place in the mechanism's input:
    of the deleted sample, or of the sample after which one is inserted (-1: none is left).
    """

    operation: Operation
    trajectory: Ids
    location: Ids
    offsets: Ints
    position: Ids
    loss_mm: Ints

    def __len__(self) -> int:
        return len(self.trajectory)

    @property
    def edits(self) -> int:
        return len(self.position)

    def totals(self) -> EditTotals:
        return EditTotals(self.edits, int(self.loss_mm.sum()))

    def between(self, first: int, last: int) -> EditRuns:
        """The runs of a range of trajectories, which are numbered from its first."""
        lo, hi = np.searchsorted(self.trajectory, [first, last])
        begin, end = self.offsets[lo], self.offsets[hi]
        return EditRuns(
            self.operation,
            self.trajectory[lo:hi] - np.int32(first),
            self.location[lo:hi],
            self.offsets[lo : hi + 1] - begin,
            self.position[begin:end],
            self.loss_mm[begin:end],
        )

    def shifted(self, by: int) -> EditRuns:
        """The same of trajectories with higher numbers."""
        return replace(self, trajectory=self.trajectory + np.int32(by))

    def by_trajectory(self, trajectories: int) -> Ints:
        """Runs of trajectory t are by_trajectory[t] to by_trajectory[t + 1] - 1."""
        return offsets_of(self.trajectory, trajectories)


@dataclass(frozen=True)
class Edits:
    """What one mechanism does: all deletions, then all insertions."""

    deletions: EditRuns
    insertions: EditRuns

    def __len__(self) -> int:
        return self.deletions.edits + self.insertions.edits

    def shifted(self, by: int) -> Edits:
        """The same of trajectories with higher numbers."""
        return Edits(self.deletions.shifted(by), self.insertions.shifted(by))


@dataclass(frozen=True)
class EditTotals:
    """How many edits there are, and what they lose."""

    edits: int
    loss_mm: int

    @property
    def loss_m(self) -> float:
        return self.loss_mm / MM_PER_M


@dataclass(frozen=True)
class EditLog:
    """The log of a mechanism: its edits, range by range of trajectories, and their totals."""

    partitions: Iterable[Edits]
    """Numbered as they are among all; kept where the trajectories are."""
    deletions: EditTotals
    insertions: EditTotals

    def __len__(self) -> int:
        return self.deletions.edits + self.insertions.edits


@dataclass(frozen=True)
class TfTargets:
    """Perturbed trajectory frequencies of the candidates (Alg. 1)."""

    location: Ids
    tf: Ids
    target: Ids

    def __len__(self) -> int:
        return len(self.location)


@dataclass(frozen=True)
class PfTargets:
    """Perturbed point frequencies of the point lists (Alg. 2), in order of (trajectory, rank)."""

    trajectory: Ids
    location: Ids
    stage: NDArray[np.int16]
    rank: NDArray[np.int16]
    pf: Ids
    target: Ids

    def __len__(self) -> int:
        return len(self.trajectory)

    def between(self, first: int, last: int) -> PfTargets:
        """The targets of a range of trajectories, which are numbered from its first."""
        lo, hi = np.searchsorted(self.trajectory, [first, last])
        own = PfTargets(*(column[lo:hi] for column in vars(self).values()))
        return replace(own, trajectory=own.trajectory - np.int32(first))


Targets: TypeAlias = TfTargets | PfTargets
