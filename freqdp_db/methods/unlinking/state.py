"""What steps hand on, as the contract of methods has it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freqdp_db.model import Ids, Ints, Locations, Metres, Trajectories


@dataclass(frozen=True)
class Areas:
    """Where and when each released sample of a generalised release may have been."""

    x_min: Metres
    y_min: Metres
    x_max: Metres
    y_max: Metres
    until: Ints
    """A sample's interval is `at` to `until`."""


@dataclass(frozen=True)
class State:
    """Trajectories between two steps."""

    trajectories: Trajectories
    places: Locations
    key: Ints
    """Released id of each trajectory."""
    owner: Ids | None = None
    """The object of each sample; None: trajectory t is object t's."""
    areas: Areas | None = None

    def owners(self) -> Ids:
        """The object of each sample."""
        if self.owner is not None:
            return self.owner
        return trajectory_of(self.trajectories)


def trajectory_of(trajectories: Trajectories) -> Ids:
    """The trajectory of each sample."""
    return np.repeat(np.arange(len(trajectories), dtype=np.int32), trajectories.lengths)
