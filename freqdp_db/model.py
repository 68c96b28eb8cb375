"""Value types that all layers share: columns, not an object per sample.

Ids of trajectories and locations are positions in these arrays (from 0); the tables use the same
numbers. Positions of samples count from 0 here and from 1 in the tables (`seq`). Times are
microseconds since 2000-01-01 UTC, as PostgreSQL keeps them. Lengths are metres in the projected
SRID; losses are whole millimetres.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Ids: TypeAlias = NDArray[np.int32]
Metres: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

Operation: TypeAlias = Literal["d", "i"]
MM_PER_M = 1000.0


@dataclass(frozen=True)
class Locations:
    """The discrete places of a build."""

    x: Metres
    y: Metres

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
        return len(self.location)

    @property
    def lengths(self) -> Ints:
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Clock:
    """What the source's times look like."""

    step_us: int
    """Source times are multiples of this."""
    median_gap_us: int
    """Median time between consecutive samples."""


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

    @property
    def loss_m(self) -> float:
        return float(self.loss_mm.sum()) / MM_PER_M

    def by_trajectory(self, trajectories: int) -> Ints:
        """Runs of trajectory t are by_trajectory[t] to by_trajectory[t + 1] - 1."""
        return offsets_of(self.trajectory, trajectories)


@dataclass(frozen=True)
class Edits:
    """What one mechanism does: all deletions, then all insertions."""

    deletions: EditRuns
    insertions: EditRuns


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


Targets: TypeAlias = TfTargets | PfTargets


def offsets_of(groups: NDArray[Any], count: int) -> Ints:
    """Where each of `count` groups begins in a sorted column of group numbers."""
    return np.searchsorted(groups, np.arange(count + 1)).astype(np.int64)


def offsets_from(lengths: NDArray[Any]) -> Ints:
    """Running sum that begins with 0."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
