"""What the attackers are given: the objects they look for, and a release with what is public of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from freqdp_db.columns.areas import Areas
from freqdp_db.columns.arrays import Flags, Ids, Ints, Metres
from freqdp_db.columns.build import Build
from freqdp_db.columns.groups import Groups
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.evaluation.pair import Pair
from freqdp_db.methods.contract import State
from freqdp_db.methods.unlinking.clock import in_grains, nearest_tick


@dataclass(frozen=True)
class ReleaseSeen:
    """A release as its readers have it, and whose each sample is, for who judges the attacks."""

    trajectories: Trajectories
    places: Locations
    owner: Ids | None = None
    """The object of each sample, -1: nobody's (synthetic); None: trajectory t is object t's."""
    areas: Areas | None = None
    time_step_us: int | None = None
    """What released times were coarsened to: public."""
    clock_us: int | None = None
    """The clock that released times are on: public, too."""
    grain_m: float | None = None
    """The side of the cells that released places are centres of, where the build's are not."""
    groups: Groups | None = None
    """Released samples after which identities may have been swapped. An attacker who knows the
    method finds most of them; here all are known, so that no attacker knows more."""
    pieces: bool = False
    """Whether released trajectories are pieces that go on under other ids."""
    members: Ints | None = None
    """How many objects each trajectory stands for, where that is several."""
    part_of: Ids | None = None
    """The trajectory that each object is in, -1: in none; None: in several, or as `owner` says."""

    @cached_property
    def trajectory(self) -> Ids:
        """The trajectory of each sample."""
        return self.trajectories.owner

    @property
    def owners(self) -> Ids:
        return self.trajectory if self.owner is None else self.owner

    @cached_property
    def x(self) -> Metres:
        """Of each sample."""
        return self.places.x[self.trajectories.location]

    @cached_property
    def y(self) -> Metres:
        """Of each sample."""
        return self.places.y[self.trajectories.location]

    @cached_property
    def ends(self) -> Flags:
        """Whether each sample is the last of its trajectory."""
        return self.trajectories.ends

    def shown(self, x: Metres, y: Metres) -> tuple[Metres, Metres]:
        """Positions as the release shows them."""
        return (x, y) if self.grain_m is None else in_grains(x, y, self.grain_m)

    def coarse(self, at: Ints) -> Ints:
        """Times as the release shows them."""
        if self.clock_us:
            at = nearest_tick(at, self.clock_us)
        return at if self.time_step_us is None else at // self.time_step_us * self.time_step_us


def _metres(grain: Decimal | None) -> float | None:
    return None if grain is None else float(grain)


@dataclass(frozen=True)
class Case:
    """Objects that are looked for, and the release they are looked for in."""

    original: Trajectories
    places: Locations
    release: ReleaseSeen
    timezone: str = "UTC"

    @classmethod
    def of(cls, build: Build, state: State, values: Mapping[str, Any]) -> Case:
        """What a method made of a build, with these values of its parameters."""
        release = ReleaseSeen(
            state.trajectories, state.places, state.owner, state.areas, values.get("time_step"),
            values.get("clock"), _metres(values.get("grain")), state.groups, state.pieces,
            state.members, state.part_of,
        )  # fmt: skip
        return cls(build.trajectories, build.locations, release, build.timezone)

    def __len__(self) -> int:
        return len(self.original)

    @cached_property
    def x(self) -> Metres:
        """Of each original sample."""
        return self.places.x[self.original.location]

    @cached_property
    def y(self) -> Metres:
        """Of each original sample."""
        return self.places.y[self.original.location]

    @property
    def made_up(self) -> bool:
        """Whether released trajectories are nobody's."""
        release = self.release
        return (
            release.members is None
            and release.owner is not None
            and bool((release.owner < 0).all())
        )

    @cached_property
    def pair(self) -> Pair:
        """Both sides over the original places, for what compares places by number."""
        side = self.release.trajectories
        if self.release.places is not self.places:
            tree = cKDTree(np.column_stack([self.places.x, self.places.y]))
            points = np.column_stack([self.release.places.x, self.release.places.y])
            nearest: Ids = np.asarray(tree.query(points)[1], np.int32)
            side = replace(side, location=nearest[side.location])
        return Pair(
            self.original, side, self.places, self.timezone, self.release.time_step_us, self.made_up
        )
