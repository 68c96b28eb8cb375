"""What a job has changed of a build's segments so far: which are gone, and which are new."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.ragged import offsets_from, owners
from freqdp_db.columns.sorting import find, stable_order
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.ranges import joined, map_each, map_ranges
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
    parts = map_ranges(
        _sort_range, trajectories.offsets, trajectories.offsets, trajectories.location
    )
    found, key, position = joined(parts)
    return SortedSegments(offsets_from(found), key, position)


@njit(nogil=True, cache=True)
def _sort_range(first, last, offsets, location):  # type: ignore[no-untyped-def]
    """How many distinct segments each trajectory has, their keys and first positions."""
    room = offsets[last] - offsets[first]
    key, position = np.empty(room, np.int64), np.empty(room, np.int32)
    found = np.zeros(last - first, np.int64)
    k = 0
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
        for j in range(steps):
            if j == 0 or unsorted[order[j]] != unsorted[order[j - 1]]:
                key[k], position[k] = unsorted[order[j]], order[j]
                found[t - first] += 1
                k += 1
    return found, key[:k].copy(), position[:k].copy()


def first_positions(current: SortedSegments, trajectory: Ids, tail: Ids, head: Ids) -> Ids:
    """Where each segment begins in its trajectory as it is now; -1: it is not there any more."""
    parts = map_each(
        _look_up, len(trajectory), trajectory, tail, head,
        current.offsets, current.key, current.position,
    )  # fmt: skip
    (position,) = joined(parts)
    return position


@njit(nogil=True, cache=True)
def _look_up(first, last, trajectory, tail, head, offsets, key, positions):  # type: ignore[no-untyped-def]
    position = np.empty(last - first, np.int32)
    for i in range(first, last):
        t = trajectory[i]
        wanted = (np.int64(tail[i]) << 32) | np.int64(head[i])
        at = find(key, offsets[t], offsets[t + 1], wanted)
        position[i - first] = positions[at] if at >= 0 else -1
    return (position,)


def changed_segments(current: SortedSegments, built: SortedSegments) -> Segments:
    """What the trajectories have now and the build has not."""
    parts = map_ranges(
        _is_new, current.offsets, current.offsets, current.key, built.offsets, built.key
    )
    (new,) = joined(parts)
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
def _is_new(first, last, offsets, key, built_offsets, built_key):  # type: ignore[no-untyped-def]
    new = np.empty(offsets[last] - offsets[first], np.bool_)
    for t in range(first, last):
        at, end = built_offsets[t], built_offsets[t + 1]
        for i in range(offsets[t], offsets[t + 1]):
            while at < end and built_key[at] < key[i]:
                at += 1
            new[i - offsets[first]] = at == end or built_key[at] != key[i]
    return (new,)
