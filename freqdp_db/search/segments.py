"""The distinct segments of trajectories: what the grid files and the search finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids
from freqdp_db.columns.ragged import offsets_from, owners
from freqdp_db.columns.sorting import stable_order
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.threads import over_ranges


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
def _group(first, last, offsets, location, room, position, count, found):  # type: ignore[no-untyped-def]
    """Distinct segments of each trajectory, in order of first occurrence, at room[t]."""
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        if hi - lo == 0:
            continue
        if hi - lo == 1:
            position[room[t]] = 0
            count[room[t]] = 1
            found[t] = 1
            continue
        steps = hi - lo - 1
        key = np.empty(steps, np.int64)
        for i in range(steps):
            key[i] = (np.int64(location[lo + i]) << 32) | np.int64(location[lo + i + 1])
        order = stable_order(key)
        times = np.zeros(steps, np.int32)
        head = 0
        for j in range(steps):
            if j > 0 and key[order[j]] != key[order[j - 1]]:
                head = j
            times[order[head]] += 1
        k = room[t]
        for i in range(steps):
            if times[i] > 0:
                position[k] = i
                count[k] = times[i]
                k += 1
        found[t] = k - room[t]


def distinct_segments(trajectories: Trajectories) -> Segments:
    """Segments in order of (trajectory, first occurrence)."""
    lengths = trajectories.lengths
    room = offsets_from(np.where(lengths > 1, lengths - 1, lengths))
    position = np.empty(room[-1], np.int32)
    count = np.empty(room[-1], np.int32)
    found = np.zeros(len(trajectories), np.int64)
    over_ranges(
        _group,
        trajectories.offsets,
        trajectories.offsets,
        trajectories.location,
        room,
        position,
        count,
        found,
    )
    owner = owners(room)
    used = (np.arange(room[-1]) - room[owner]) < found[owner]
    owner, position, count = owner[used], position[used], count[used]
    begin = trajectories.offsets[owner] + position
    end = np.minimum(begin + 1, trajectories.offsets[owner + 1] - 1)
    return Segments(
        trajectory=owner,
        position=position,
        tail=trajectories.location[begin],
        head=trajectories.location[end],
        occurrences=count,
    )
