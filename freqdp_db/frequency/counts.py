"""PF and TF of trajectories, from the samples the service has read anyway.

The views `point_frequency` and `trajectory_frequency` compute the same in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.ranges import add, join, map_ranges, merged


@dataclass(frozen=True)
class Frequencies:
    """Distinct locations of each trajectory in ascending order, with their counts."""

    offsets: Ints
    location: Ids
    pf: Ids
    tf: Ids
    """Per location: how many trajectories visit it."""


@njit(nogil=True, cache=True)
def _count(first, last, offsets, location, locations):  # type: ignore[no-untyped-def]
    """Distinct places of each trajectory, how many they are, their PF; and TF in this range."""
    begin = offsets[first]
    ordered = location[begin : offsets[last]].copy()
    distinct = np.zeros(last - first, np.int64)
    total = 0
    for t in range(first, last):
        part = ordered[offsets[t] - begin : offsets[t + 1] - begin]
        part.sort()
        for i in range(len(part)):
            if i == 0 or part[i] != part[i - 1]:
                distinct[t - first] += 1
        total += distinct[t - first]
    place, pf = np.empty(total, np.int32), np.empty(total, np.int32)
    tf = np.zeros(locations, np.int32)
    k = -1
    for t in range(first, last):
        for i in range(offsets[t] - begin, offsets[t + 1] - begin):
            if i == offsets[t] - begin or ordered[i] != ordered[i - 1]:
                k += 1
                place[k] = ordered[i]
                pf[k] = 1
                tf[ordered[i]] += 1
            else:
                pf[k] += 1
    return distinct, place, pf, tf


def count_frequencies(trajectories: Trajectories, locations: int) -> Frequencies:
    """Count every location of every trajectory."""
    parts = map_ranges(
        _count, trajectories.offsets, trajectories.offsets, trajectories.location, locations
    )
    distinct, place, pf, tf = merged(parts, join, join, join, add)
    return Frequencies(offsets_from(distinct), place, pf, tf)
