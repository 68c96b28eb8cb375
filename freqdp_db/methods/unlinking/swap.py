"""swap: whenever trajectories meet, what follows is dealt out among them at random.

No sample is lost or moved: a released trajectory is pieced together from several objects', and
every seam lies where they met. It is no formal guarantee: an attacker who follows a trace by its
speed and direction undoes part of it, which the exposure metrics measure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.errors import BadInput
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods.unlinking.dealing import deal
from freqdp_db.methods.unlinking.meetings import Groups, Meeting, find_groups, last_in_trajectory
from freqdp_db.methods.unlinking.state import State, trajectory_of
from freqdp_db.methods.unlinking.swap_check import check_swap
from freqdp_db.model import Flags, Ids, Ints, Trajectories, offsets_from

_CELLS_M = (1.0, 100_000.0)
_WINDOWS_US = (1_000_000, 24 * 3_600_000_000)
_MOST_DOUBLINGS = 8
_MOST_COURSES = 36


@dataclass(frozen=True)
class SwapParameters:
    """Checked parameters of the step."""

    cell_m: float = 500.0
    window_us: int = 300_000_000
    doublings: int = 1
    courses: int = 6
    drop_unmixed: bool = False

    def __post_init__(self) -> None:
        if not _CELLS_M[0] <= self.cell_m <= _CELLS_M[1]:
            raise BadInput(
                f"--meet: a cell of {self.cell_m:g} m is not between 1 m and 100 km",
                remedy="for example --meet 500m/5min",
            )
        if not _WINDOWS_US[0] <= self.window_us <= _WINDOWS_US[1]:
            raise BadInput(
                f"--meet: a window of {self.window_us / 1e6:g} s is not between 1 s and a day",
                remedy="for example --meet 500m/5min",
            )
        if not 0 <= self.doublings <= _MOST_DOUBLINGS:
            raise BadInput(
                f"--widen {self.doublings} is not between 0 and {_MOST_DOUBLINGS}",
                remedy="1 looks for company in cells of up to twice the side",
            )
        if not (self.courses == 0 or 2 <= self.courses <= _MOST_COURSES):
            raise BadInput(
                f"--courses {self.courses} is not 0 nor between 2 and {_MOST_COURSES}",
                remedy="6 swaps among those who come from the same sixth of the compass",
            )

    @property
    def meeting(self) -> Meeting:
        return Meeting(self.cell_m, self.window_us, self.doublings, self.courses)


@dataclass(frozen=True)
class SwapDraw:
    """The permutation of each group: all that is random, and who it was dealt to."""

    offsets: Ints
    stop: Ints
    doubled: Ids
    dealt: Ids
    """Member i of a group goes on as member dealt[i] of it did; counted from 0 in the group."""

    @property
    def groups(self) -> Groups:
        return Groups(self.offsets, self.stop, self.doubled)


@dataclass(frozen=True)
class SwapLog:
    """What the step did besides the draw."""

    dropped: Ids
    """Input trajectories that were left out because they never meet anybody."""


class Swap:
    """The step."""

    name = "swap"

    def draw(
        self, world: object, state: State, parameters: SwapParameters, source: RandomSource
    ) -> SwapDraw:
        groups = find_groups(state.trajectories, state.places, parameters.meeting)
        return SwapDraw(groups.offsets, groups.stop, groups.doubled, deal(groups.offsets, source))

    def carry_out(
        self, world: object, state: State, draw: SwapDraw, parameters: SwapParameters
    ) -> tuple[SwapLog, State]:
        unmixed = never_meet(state.trajectories, draw.stop)
        dropped = np.flatnonzero(unmixed) if parameters.drop_unmixed else np.zeros(0, np.int64)
        log = SwapLog(dropped.astype(np.int32))
        return log, self.replay(world, state, draw, log, parameters)

    def replay(
        self,
        world: object,
        state: State,
        draw: SwapDraw,
        log: SwapLog,
        parameters: SwapParameters,
    ) -> State:
        swapped, source = swapped_trajectories(state.trajectories, draw)
        owner = state.owners()[source]
        if len(log.dropped):
            # whoever never meets is whole, and alone in a trajectory
            keep = np.ones(len(swapped), np.bool_)
            keep[log.dropped] = False
            kept = keep[trajectory_of(swapped)]
            swapped = Trajectories(
                offsets_from(np.where(keep, swapped.lengths, 0)),
                swapped.location[kept],
                swapped.at[kept],
                swapped.start,
            )
            owner = owner[kept]
        return State(swapped, state.places, state.key, owner)

    def check(
        self,
        world: object,
        before: State,
        draw: SwapDraw,
        log: SwapLog,
        after: State,
        parameters: SwapParameters,
    ) -> dict[str, int]:
        return check_swap(before, draw.groups, draw.dealt, log.dropped, after, parameters.meeting)


def swapped_trajectories(trajectories: Trajectories, draw: SwapDraw) -> tuple[Trajectories, Ints]:
    """Follow every trajectory through its seams; beside it, where each sample stood before.

    Linear in the samples: each is followed by one other, and only stops know another one.
    """
    following = np.arange(1, trajectories.samples + 1, dtype=np.int64)
    following[last_in_trajectory(trajectories)] = -1
    begin = np.repeat(draw.offsets[:-1], np.diff(draw.offsets))
    following[draw.stop] = following[draw.stop][begin + draw.dealt]
    source = np.empty(trajectories.samples, np.int64)
    offsets = np.zeros(len(trajectories) + 1, np.int64)
    filled = trajectories.lengths > 0
    _follow(trajectories.offsets, filled, following, source, offsets)
    return (
        Trajectories(
            offsets, trajectories.location[source], trajectories.at[source], trajectories.start
        ),
        source,
    )


@njit(nogil=True, cache=True)
def _follow(begins, filled, following, source, offsets):  # type: ignore[no-untyped-def]
    """Where each released sample stood, trajectory after trajectory."""
    k = 0
    for t in range(len(filled)):
        if filled[t]:
            i = begins[t]
            while i >= 0:
                source[k] = i
                k += 1
                i = following[i]
        offsets[t + 1] = k


def groups_in_result(state: State, draw: SwapDraw, log: SwapLog) -> Groups:
    """The groups by positions in the step's result: where identities may have changed in it."""
    swapped, source = swapped_trajectories(state.trajectories, draw)
    position = np.empty(len(source), np.int64)
    position[source] = np.arange(len(source))
    if len(log.dropped):
        gone = np.isin(trajectory_of(swapped), log.dropped)
        position = np.where(gone, -1, np.cumsum(~gone) - 1)[position]
    return draw.groups.moved(position)


def never_meet(trajectories: Trajectories, stop: Ints) -> Flags:
    """Trajectories with samples of which none is in a group."""
    met = np.zeros(len(trajectories), np.bool_)
    met[trajectory_of(trajectories)[stop]] = True
    return ~met & (trajectories.lengths > 0)


def summary(state: State, draw: SwapDraw) -> dict[str, float]:
    """For the curator: meetings of an object, and how many objects never meet."""
    filled = state.trajectories.lengths > 0
    meetings = np.bincount(
        trajectory_of(state.trajectories)[draw.stop], minlength=len(state.trajectories)
    )[filled]
    sizes = np.diff(draw.offsets)
    return {
        "objects": int(filled.sum()),
        "objects_that_never_meet": int((meetings == 0).sum()),
        "meetings_per_object_median": float(np.median(meetings)) if len(meetings) else 0.0,
        "meetings_per_object_mean": float(meetings.mean()) if len(meetings) else 0.0,
        "groups": len(sizes),
        "largest_group": int(sizes.max(initial=0)),
    }
