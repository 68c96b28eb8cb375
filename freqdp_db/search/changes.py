"""What a job has changed of a build's segments so far: which are gone, and which are new."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.ragged import offsets_from, owners, within
from freqdp_db.columns.sorting import find, stable_order
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.threads import over_ranges
from freqdp_db.search.segments import Segments


@dataclass(frozen=True)
class SortedSegments:
    """The distinct segments of each trajectory, in order of their ends."""

    offsets: Ints
    key: Ints
    """tail << 32 | head, ascending within a trajectory."""
    position: Ids


def sort_segments(trajectories: Trajectories) -> SortedSegments:
    """The distinct segments with their first positions, to be looked up by their ends."""
    lengths = trajectories.lengths
    room = offsets_from(np.where(lengths > 1, lengths - 1, lengths))
    key, position = np.empty(room[-1], np.int64), np.empty(room[-1], np.int32)
    found = np.zeros(len(trajectories), np.int64)
    over_ranges(
        _sort_range, trajectories.offsets, trajectories.offsets, trajectories.location, room, key,
        position, found,
    )  # fmt: skip
    nth = within(room)
    used = nth < np.repeat(found, np.diff(room))
    return SortedSegments(offsets_from(found), key[used], position[used])


@njit(nogil=True, cache=True)
def _sort_range(first, last, offsets, location, room, key, position, found):  # type: ignore[no-untyped-def]
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        if hi == lo:
            continue
        steps = max(hi - lo - 1, 1)
        unsorted = np.empty(steps, np.int64)
        for i in range(steps):
            tail, head = location[lo + i], location[min(lo + i + 1, hi - 1)]
            unsorted[i] = (np.int64(tail) << 32) | np.int64(head)
        order = stable_order(unsorted)
        k = room[t]
        for j in range(steps):
            if j == 0 or unsorted[order[j]] != unsorted[order[j - 1]]:
                key[k], position[k] = unsorted[order[j]], order[j]
                k += 1
        found[t] = k - room[t]


def first_positions(current: SortedSegments, trajectory: Ids, tail: Ids, head: Ids) -> Ids:
    """Where each segment begins in its trajectory as it is now; -1: it is not there any more."""
    position = np.empty(len(trajectory), np.int32)
    over_ranges(
        _look_up, np.arange(len(position) + 1), trajectory, tail, head,
        current.offsets, current.key, current.position, position,
    )  # fmt: skip
    return position


@njit(nogil=True, cache=True)
def _look_up(first, last, trajectory, tail, head, offsets, key, positions, position):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        t = trajectory[i]
        wanted = (np.int64(tail[i]) << 32) | np.int64(head[i])
        at = find(key, offsets[t], offsets[t + 1], wanted)
        position[i] = positions[at] if at >= 0 else -1


def changed_segments(
    trajectories: Trajectories, current: SortedSegments, built: SortedSegments
) -> Segments:
    """What the trajectories have now and the build has not."""
    new = np.empty(len(current.key), np.bool_)
    over_ranges(
        _is_new, current.offsets, current.offsets, current.key, built.offsets, built.key, new
    )
    owner = owners(current.offsets)[new]
    key = current.key[new]
    return Segments(
        owner,
        current.position[new],
        (key >> 32).astype(np.int32),
        (key & 0xFFFFFFFF).astype(np.int32),
        np.ones(len(key), np.int32),
    )


@njit(nogil=True, cache=True)
def _is_new(first, last, offsets, key, built_offsets, built_key, new):  # type: ignore[no-untyped-def]
    for t in range(first, last):
        at, end = built_offsets[t], built_offsets[t + 1]
        for i in range(offsets[t], offsets[t + 1]):
            while at < end and built_key[at] < key[i]:
                at += 1
            new[i] = at == end or built_key[at] != key[i]
