"""Columns of what a mechanism draws and does: perturbed frequencies, deletions and insertions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.ragged import offsets_of

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


Targets: TypeAlias = TfTargets | PfTargets
