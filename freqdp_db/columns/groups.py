"""Groups of samples that met: where identities may have been dealt anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.ragged import offsets_from, owners


@dataclass(frozen=True)
class Groups:
    """Groups of at least two stops, in flat arrays."""

    offsets: Ints
    """Group g has the members offsets[g] to offsets[g + 1] - 1."""
    stop: Ints
    """The sample of each member: the last of its trajectory in the window."""
    doubled: Ids
    """How often the cell of each group was doubled."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def moved(self, position: Ints) -> Groups:
        """The groups where samples stand elsewhere now; -1: gone. Who is left alone is in none."""
        stop = position[self.stop]
        there = stop >= 0
        number = self.of_members()[there]
        size = np.bincount(number, minlength=len(self))
        company = size[number] > 1
        return Groups(offsets_from(size[size > 1]), stop[there][company], self.doubled[size > 1])

    def of_members(self) -> Ints:
        """The group of each member."""
        return owners(self.offsets).astype(np.int64)
