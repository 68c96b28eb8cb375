"""swap: whenever trajectories meet, what follows is dealt out among them at random.

No sample that is on the clock is lost or moved: a released trajectory is pieced together from several
objects', and every seam lies where they met. It is no formal guarantee: an attacker who follows a trace
by its speed and direction undoes part of it, which the exposure metrics measure.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Flags, Ints
from freqdp_db.columns.groups import Groups
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import State
from freqdp_db.methods.unlinking.meetings import last_in_trajectory
from freqdp_db.methods.unlinking.steps import SwapDraw


def swapped_trajectories(trajectories: Trajectories, draw: SwapDraw) -> tuple[Trajectories, Ints]:
    """Follow every trajectory through its seams; beside it, where each sample stood before.

    Linear in the samples: each is followed by one other, and only stops know another one.
    """
    following = np.arange(1, trajectories.samples + 1, dtype=np.int64)
    following[last_in_trajectory(trajectories)] = -1
    begin = np.repeat(draw.offsets[:-1], np.diff(draw.offsets))
    following[draw.stop] = following[draw.stop][begin + draw.dealt]
    begins = trajectories.offsets
    lengths, source = joined(map_ranges(_follow, begins, begins, following))
    if len(source) != trajectories.samples:
        raise VerificationFailed("the draw does not deal every passage once")
    location, at = trajectories.location[source], trajectories.at[source]
    return Trajectories(offsets_from(lengths), location, at, trajectories.start), source


@njit(nogil=True, cache=True)
def _follow(first, last, begins, following):  # type: ignore[no-untyped-def]
    """How long each released trajectory is, and where each of its samples stood."""
    lengths = np.zeros(last - first, np.int64)
    for t in range(first, last):
        i = begins[t] if begins[t] < begins[t + 1] else -1
        # as many steps as there are samples: a draw that was tampered with may go round in circles
        while i >= 0 and lengths[t - first] <= len(following):
            lengths[t - first] += 1
            i = following[i]
    source = np.empty(lengths.sum(), np.int64)
    k = 0
    for t in range(first, last):
        i = begins[t]
        for _ in range(lengths[t - first]):
            source[k] = i
            k += 1
            i = following[i]
    return lengths, source


def groups_in_result(draw: SwapDraw, source: Ints, kept: Flags) -> Groups:
    """The groups by positions in the step's result: where identities may have changed in it.

    source: where each swapped sample stood; kept: whether it is in the result.
    """
    position = np.empty(len(source), np.int64)
    position[source] = np.where(kept, np.cumsum(kept) - 1, -1)
    return draw.groups.moved(position)


def never_meet(trajectories: Trajectories, stop: Ints) -> Flags:
    """Trajectories with samples of which none is in a group."""
    met = np.zeros(len(trajectories), np.bool_)
    met[trajectories.owner[stop]] = True
    return ~met & (trajectories.lengths > 0)


def pieced_together(state: State) -> int:
    """Trajectories with samples of several objects."""
    trajectory, owner = state.trajectories.owner, state.owners()
    another = (np.diff(owner) != 0) & (np.diff(trajectory) == 0)
    return len(np.unique(trajectory[1:][another]))


def summary(state: State, draw: SwapDraw, after: State) -> dict[str, float]:
    """For the curator: meetings of an object, how many never meet, and what came of it."""
    filled = state.trajectories.lengths > 0
    meetings = np.bincount(state.trajectories.owner[draw.stop], minlength=len(state.trajectories))[
        filled
    ]
    sizes = np.diff(draw.offsets)
    return {
        "objects": int(filled.sum()),
        "objects_that_never_meet": int((meetings == 0).sum()),
        "meetings_per_object_median": float(np.median(meetings)) if len(meetings) else 0.0,
        "meetings_per_object_mean": float(meetings.mean()) if len(meetings) else 0.0,
        "groups": len(sizes),
        "largest_group": int(sizes.max(initial=0)),
        "trajectories": int((after.trajectories.lengths > 0).sum()),
        "pieced_together": pieced_together(after),
    }
