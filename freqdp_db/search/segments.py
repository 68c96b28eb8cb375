"""The distinct segments of trajectories: what the grid files and the search finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_each, map_ranges
from freqdp_db.model.arrays import Flags, Ids, Ints, offsets_of
from freqdp_db.model.kernels import stable_order
from freqdp_db.model.trajectories import Trajectories


@dataclass(frozen=True)
class Segments:
    """Equal segments of one trajectory are kept once, with their count.

    A trajectory of one sample has one segment of length 0; an empty one has none.
    """

    trajectory: Ids
    position: Ids
    """Where in its trajectory the first occurrence begins."""
    tail: Ids
    head: Ids
    """Locations that it goes from and to."""
    occurrences: Ids

    def __len__(self) -> int:
        return len(self.trajectory)

    def take(self, order: Ints) -> Segments:
        return Segments(
            self.trajectory[order],
            self.position[order],
            self.tail[order],
            self.head[order],
            self.occurrences[order],
        )

    def then(self, others: Segments) -> Segments:
        """These, and others after them."""
        return Segments(
            np.concatenate([self.trajectory, others.trajectory]),
            np.concatenate([self.position, others.position]),
            np.concatenate([self.tail, others.tail]),
            np.concatenate([self.head, others.head]),
            np.concatenate([self.occurrences, others.occurrences]),
        )


def distinct_segments(trajectories: Trajectories) -> Segments:
    """Segments in order of (trajectory, tail, head)."""
    parts = map_ranges(_group, trajectories.offsets, trajectories.offsets, trajectories.location)
    return Segments(*joined(parts))


@njit(nogil=True, cache=True)
def _group(first, last, offsets, location):  # type: ignore[no-untyped-def]
    """The columns of `Segments`."""
    room = offsets[last] - offsets[first]
    owner, position = np.empty(room, np.int32), np.empty(room, np.int32)
    tail, head = np.empty(room, np.int32), np.empty(room, np.int32)
    count = np.empty(room, np.int32)
    k = -1
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        if hi == lo:
            continue
        steps = max(hi - lo - 1, 1)
        key = np.empty(steps, np.int64)
        for i in range(steps):
            a, b = location[lo + i], location[min(lo + i + 1, hi - 1)]
            key[i] = (np.int64(a) << 32) | np.int64(b)
        # stable: the first of equal ones is the first occurrence
        order = stable_order(key)
        for j in range(steps):
            i = order[j]
            if j > 0 and key[i] == key[order[j - 1]]:
                count[k] += 1
                continue
            k += 1
            owner[k], position[k], count[k] = t, i, 1
            tail[k], head[k] = location[lo + i], location[min(lo + i + 1, hi - 1)]
    k += 1
    # copies, so that the room for repeats is free while other ranges are at work
    return (
        owner[:k].copy(), position[:k].copy(), tail[:k].copy(), head[:k].copy(), count[:k].copy()
    )  # fmt: skip


@dataclass(frozen=True)
class SinceBuild:
    """What has become of the segments of a build in the trajectories as they were edited."""

    built: Trajectories
    now_at: Ids
    """[sample of the build]: where the segment that begins there first occurs now; -1: nowhere."""
    new: Flags
    """[segment of now]: the build has no such segment of this trajectory."""

    def left_of(self, trajectory: Ids, position: Ids) -> Segments:
        """Those of the build's segments that are still there, as they are now."""
        parts = map_each(
            _left, len(trajectory), trajectory, position,
            self.built.offsets, self.built.location, self.now_at,
        )  # fmt: skip
        owner, now, tail, head = joined(parts)
        return Segments(owner, now, tail, head, np.ones(len(owner), np.int32))


def compare_with_build(segments: Segments, built: Trajectories) -> SinceBuild:
    """Compare what the build's trajectories have now, after edits, with what the build has."""
    offsets = offsets_of(segments.trajectory, len(built))
    parts = map_ranges(
        _compare, built.offsets, built.offsets, built.location,
        offsets, segments.position, segments.tail, segments.head,
    )  # fmt: skip
    return SinceBuild(built, *joined(parts))


@njit(nogil=True, cache=True)
def _compare(first, last, built_offsets, built_location, offsets, position, tail, head):  # type: ignore[no-untyped-def]
    """`now_at` and `new` of a range."""
    begin, begin_now = built_offsets[first], offsets[first]
    now_at = np.empty(built_offsets[last] - begin, np.int32)
    new = np.ones(offsets[last] - begin_now, np.bool_)
    for t in range(first, last):
        lo, hi = built_offsets[t], built_offsets[t + 1]
        for i in range(lo, hi):
            now_at[i - begin] = -1
            if i == hi - 1 and hi - lo > 1:
                continue  # no segment begins at the last sample
            a, b = built_location[i], built_location[min(i + 1, hi - 1)]
            at = _find(tail, head, offsets[t], offsets[t + 1], a, b)
            if at >= 0:
                now_at[i - begin] = position[at]
                new[at - begin_now] = False
    return now_at, new


@njit(cache=True)
def _find(tail, head, lo, hi, a, b):  # type: ignore[no-untyped-def]
    """Where the segment from a to b is among lo to hi - 1, in order of (tail, head); -1: nowhere."""
    end = hi
    while lo < hi:
        middle = (lo + hi) // 2
        if tail[middle] < a or (tail[middle] == a and head[middle] < b):
            lo = middle + 1
        else:
            hi = middle
    if lo < end and tail[lo] == a and head[lo] == b:
        return lo
    return -1


@njit(nogil=True, cache=True)
def _left(first, last, trajectory, position, offsets, location, now_at):  # type: ignore[no-untyped-def]
    owner, now = np.empty(last - first, np.int32), np.empty(last - first, np.int32)
    tail, head = np.empty(last - first, np.int32), np.empty(last - first, np.int32)
    k = 0
    for row in range(first, last):
        t = trajectory[row]
        i = offsets[t] + position[row]
        if now_at[i] >= 0:
            owner[k], now[k] = t, now_at[i]
            tail[k], head[k] = location[i], location[min(i + 1, offsets[t + 1] - 1)]
            k += 1
    return owner[:k].copy(), now[:k].copy(), tail[:k].copy(), head[:k].copy()
