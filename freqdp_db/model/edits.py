"""Columns of what a mechanism draws and does: perturbed frequencies, deletions and insertions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from freqdp_db.model.arrays import Ids, Ints, offsets_of

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
