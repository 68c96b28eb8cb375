"""The distinct segments of trajectories: what the grid files and the search finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids
from freqdp_db.columns.sorting import stable_order
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.ranges import joined, map_ranges


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

    def take(self, order: np.typing.NDArray[np.int64]) -> Segments:
        return Segments(
            self.trajectory[order],
            self.position[order],
            self.tail[order],
            self.head[order],
            self.occurrences[order],
        )


@njit(nogil=True, cache=True)
def _group(first, last, offsets, location):  # type: ignore[no-untyped-def]
    """The columns of `Segments`, in order of (trajectory, first occurrence)."""
    room = offsets[last] - offsets[first]
    owner, position = np.empty(room, np.int32), np.empty(room, np.int32)
    tail, head = np.empty(room, np.int32), np.empty(room, np.int32)
    count = np.empty(room, np.int32)
    k = 0
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        if hi - lo == 0:
            continue
        if hi - lo == 1:
            owner[k], position[k], count[k] = t, 0, 1
            tail[k] = head[k] = location[lo]
            k += 1
            continue
        steps = hi - lo - 1
        key = np.empty(steps, np.int64)
        for i in range(steps):
            key[i] = (np.int64(location[lo + i]) << 32) | np.int64(location[lo + i + 1])
        order = stable_order(key)
        times = np.zeros(steps, np.int32)
        run = 0
        for j in range(steps):
            if j > 0 and key[order[j]] != key[order[j - 1]]:
                run = j
            times[order[run]] += 1
        for i in range(steps):
            if times[i] > 0:
                owner[k], position[k], count[k] = t, i, times[i]
                tail[k], head[k] = location[lo + i], location[lo + i + 1]
                k += 1
    # copies, so that the room for repeats is free while other ranges are at work
    return (
        owner[:k].copy(), position[:k].copy(), tail[:k].copy(), head[:k].copy(), count[:k].copy()
    )  # fmt: skip


def distinct_segments(trajectories: Trajectories) -> Segments:
    """Segments in order of (trajectory, first occurrence)."""
    parts = map_ranges(_group, trajectories.offsets, trajectories.offsets, trajectories.location)
    return Segments(*joined(parts))
