"""Stays and trips: where an object rests, and what lies between.

A stay is a run of samples within so many metres of its first one that lasts long enough, across
gaps too: a parked vehicle may send nothing. A trip is what lies between stays and long gaps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Flags, Ids, Ints
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.ranges import joined, map_ranges

STAY_RADIUS_M = 150.0


@dataclass(frozen=True)
class StayRule:
    """Where one trip ends and another begins."""

    stay_us: int
    gap_us: int
    radius_m: float = STAY_RADIUS_M


@dataclass(frozen=True)
class TripRuns:
    """Trips in order of trajectories and time: each a run of consecutive samples."""

    first: Ints
    last: Ints
    """The last sample of each, itself part of it."""
    trajectory: Ids

    def __len__(self) -> int:
        return len(self.first)


@njit(nogil=True, cache=True)
def _mark_stays(first, last, offsets, location, at, x, y, stay_us, radius):  # type: ignore[no-untyped-def]
    begin = offsets[first]
    stays = np.zeros(offsets[last] - begin, np.bool_)
    for t in range(first, last):
        i = offsets[t]
        while i < offsets[t + 1]:
            j = i
            while j + 1 < offsets[t + 1]:
                dx, dy = x[location[j + 1]] - x[location[i]], y[location[j + 1]] - y[location[i]]
                if dx * dx + dy * dy > radius * radius:
                    break
                j += 1
            if at[j] - at[i] >= stay_us:
                stays[i - begin : j + 1 - begin] = True
                i = j + 1
            else:
                i += 1
    return (stays,)


def find_stays(trajectories: Trajectories, places: Locations, rule: StayRule) -> Flags:
    """Whether each sample is part of a stay."""
    parts = map_ranges(
        _mark_stays, trajectories.offsets, trajectories.offsets, trajectories.location,
        trajectories.at, places.x, places.y, rule.stay_us, rule.radius_m,
    )  # fmt: skip
    (stays,) = joined(parts)
    return stays


def find_trips(trajectories: Trajectories, places: Locations, rule: StayRule) -> TripRuns:
    """Runs of samples between stays and gaps; a stay is part of none."""
    moving = ~find_stays(trajectories, places, rule)
    owner = np.repeat(np.arange(len(trajectories), dtype=np.int32), trajectories.lengths)
    begins = moving.copy()
    begins[1:] &= (
        ~moving[:-1] | (owner[1:] != owner[:-1]) | (np.diff(trajectories.at) > rule.gap_us)
    )
    first = np.flatnonzero(begins)
    size = np.add.reduceat(moving.astype(np.int64), first) if len(first) else first
    # what is left out after a run belongs to no trip, so that the run is its moving samples
    return TripRuns(first, first + size - 1, owner[first])


def samples_of(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """All samples of these runs, one after the other, and their offsets."""
    offsets = offsets_from(last - first + 1)
    rows = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], np.diff(offsets))
    return offsets, rows
