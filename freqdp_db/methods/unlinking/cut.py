"""cut: a new released trajectory for every piece of a trip, with an id of its own.

Stays are left out, and a quiet time between two pieces of one trip; the ends of a piece are trimmed
back to places that several objects visit. What a few known samples of an object give away is then a
piece. No formal guarantee: pieces can be joined again by place, time and velocity, to a degree that
the exposure metrics measure.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Flags
from freqdp_db.columns.groups import Groups
from freqdp_db.methods.contract import State
from freqdp_db.methods.unlinking.options import CutOptions
from freqdp_db.methods.unlinking.steps import CutLog
from freqdp_db.methods.unlinking.trips import Trips, find_trips, samples_of


def find_pieces(state: State, options: CutOptions) -> Trips:
    """Trips, cut to the longest piece with quiet time between, and trimmed to places of several."""
    side = state.trajectories
    trips = find_trips(side, state.places, options.rule)
    kept, begins = np.zeros(side.samples, np.bool_), np.zeros(side.samples, np.bool_)
    _cut_trips(trips.first, trips.last, side.at, options.pieces, options.quiet, kept, begins)
    first = np.flatnonzero(begins)
    if not len(first):
        return Trips(first, first, np.zeros(0, np.int32))
    last = first + np.add.reduceat(kept.astype(np.int64), first) - 1
    _trim(first, last, side.location, shared_places(state, options.ends))
    there = last >= first
    first, last = first[there], last[there]
    owner = np.searchsorted(side.offsets, first, side="right") - 1
    return Trips(first, last, owner.astype(np.int32))


def groups_after(groups: Groups, samples: int, log: CutLog) -> Groups:
    """Groups of an earlier swap by positions in the result of the cut."""
    _, rows = samples_of(log.first, log.last)
    position = np.full(samples, -1, np.int64)
    position[rows] = np.arange(len(rows))
    return groups.moved(position)


def shared_places(state: State, objects: int) -> Flags:
    """Places with samples of at least so many objects."""
    pairs = state.trajectories.location.astype(np.int64) << 32 | state.owners().astype(np.int64)
    distinct = np.unique(pairs) >> 32
    shared: Flags = np.bincount(distinct, minlength=len(state.places)) >= objects
    return shared


@njit(nogil=True, cache=True)
def _cut_trips(first, last, at, longest, quiet, kept, begins):  # type: ignore[no-untyped-def]
    for trip in range(len(first)):
        i = first[trip]
        while i <= last[trip]:
            begins[i] = True
            start = at[i]
            while i <= last[trip] and at[i] - start <= longest:
                kept[i] = True
                i += 1
            end = at[i - 1]
            while i <= last[trip] and at[i] - end < quiet:
                i += 1


@njit(nogil=True, cache=True)
def _trim(first, last, location, shared):  # type: ignore[no-untyped-def]
    for p in range(len(first)):
        while first[p] <= last[p] and not shared[location[first[p]]]:
            first[p] += 1
        while last[p] >= first[p] and not shared[location[last[p]]]:
            last[p] -= 1


def summary(state: State, logged: CutLog) -> dict[str, float]:
    """For the curator: pieces, pieces of an object, and the share of samples that stay."""
    side = state.trajectories
    kept = int((logged.last - logged.first + 1).sum())
    owner = np.searchsorted(side.offsets, logged.first, side="right") - 1
    each = np.bincount(owner, minlength=len(side))[side.lengths > 0]
    return {
        "pieces": len(logged),
        "pieces_per_trajectory_median": float(np.median(each)) if len(each) else 0.0,
        "trajectories_without_a_piece": int((each == 0).sum()),
        "samples_kept_share": kept / max(side.samples, 1),
    }
