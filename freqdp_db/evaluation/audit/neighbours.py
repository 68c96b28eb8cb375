"""Neighbouring worlds: the same trajectories but for one incidence, one occurrence or one sample.

A mechanism is run many times by one call on copies laid side by side: Alg. 1 treats every candidate,
and Alg. 2 every trajectory, alike and apart from the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from freqdp_db.columns.arrays import Flags, Ints
from freqdp_db.columns.edits import PfTargets
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.frequency.counts import Frequencies
from freqdp_db.frequency.signatures import Signatures


def copied_tf(frequencies: Frequencies, tf: int, copies: int) -> tuple[Frequencies, Flags]:
    """A vector of equal candidates over as many trajectories as there are, and all of them listed."""
    nothing = np.zeros(0, np.int32)
    vector = Frequencies(frequencies.offsets, nothing, nothing, np.full(copies, tf, np.int32))
    return vector, np.ones(copies, np.bool_)


@dataclass(frozen=True)
class PointList:
    """The places of one trajectory that its noise goes to, the signature first, and their counts."""

    size: int
    pf: Ints

    @classmethod
    def of(cls, targets: PfTargets, trajectory: int, size: int) -> PointList:
        return cls(size, targets.pf[targets.trajectory == trajectory].astype(np.int64))

    def __len__(self) -> int:
        return len(self.pf)

    def with_one_more(self, place: int) -> PointList:
        """The neighbour: one occurrence of this listed place added, the list unchanged."""
        pf = self.pf.copy()
        pf[place] += 1
        return PointList(self.size, pf)

    def copied(self, copies: int) -> tuple[Frequencies, Signatures]:
        """So many trajectories with just this list: nothing of it is left to chance."""
        places = len(self)
        frequencies = Frequencies(
            np.arange(copies + 1, dtype=np.int64) * places,
            np.tile(np.arange(places, dtype=np.int32), copies),
            np.tile(self.pf.astype(np.int32), copies),
            np.ones(places, np.int32),
        )
        order = np.arange(copies * places, dtype=np.int64)
        return frequencies, Signatures(order, self.size, np.ones(places, np.bool_))


def without(trajectories: Trajectories, owner: int, place: int) -> Trajectories:
    """The neighbour in which this trajectory never visits this place."""
    mine = slice(trajectories.offsets[owner], trajectories.offsets[owner + 1])
    gone = np.zeros(trajectories.samples, np.bool_)
    gone[mine] = trajectories.location[mine] == place
    return trajectories.where(~gone)


def with_canary(
    trajectories: Trajectories, locations: Locations, trajectory: int
) -> tuple[Trajectories, Locations, int]:
    """One sample of a trajectory moved to a place of its own, which nobody else has; and that place."""
    canary = len(locations)
    sample = int(trajectories.offsets[trajectory] + trajectories.lengths[trajectory] // 2)
    place = trajectories.location.copy()
    home = place[sample]
    place[sample] = canary
    beside = Locations(
        np.append(locations.x, locations.x[home] + 1.0),
        np.append(locations.y, locations.y[home] + 1.0),
    )
    return replace(trajectories, location=place), beside, canary


def richest(frequencies: Frequencies) -> int:
    """The trajectory with the most places: it has the most to lose."""
    return int(np.argmax(np.diff(frequencies.offsets)))
