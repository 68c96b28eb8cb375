"""PF and TF of trajectories, from the samples the service has read anyway.

The views `point_frequency` and `trajectory_frequency` compute the same in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.sorting import sort_ids
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.threads import over_ranges


@dataclass(frozen=True)
class Frequencies:
    """Distinct locations of each trajectory in ascending order, with their counts."""

    offsets: Ints
    location: Ids
    pf: Ids
    tf: Ids
    """Per location: how many trajectories visit it."""


@njit(nogil=True, cache=True)
def _sort_places(first, last, offsets, ordered, distinct):  # type: ignore[no-untyped-def]
    """Sort each trajectory's places in place and count the distinct ones."""
    for t in range(first, last):
        part = ordered[offsets[t] : offsets[t + 1]]
        sort_ids(part)
        count = 0
        for i in range(len(part)):
            if i == 0 or part[i] != part[i - 1]:
                count += 1
        distinct[t] = count


@njit(nogil=True, cache=True)
def _count_runs(first, last, offsets, ordered, out_offsets, place, pf):  # type: ignore[no-untyped-def]
    for t in range(first, last):
        k = out_offsets[t] - 1
        for i in range(offsets[t], offsets[t + 1]):
            if i == offsets[t] or ordered[i] != ordered[i - 1]:
                k += 1
                place[k] = ordered[i]
                pf[k] = 1
            else:
                pf[k] += 1


def count_frequencies(trajectories: Trajectories, locations: int) -> Frequencies:
    """Count every location of every trajectory."""
    ordered = trajectories.location.copy()
    distinct = np.zeros(len(trajectories), np.int64)
    over_ranges(_sort_places, trajectories.offsets, trajectories.offsets, ordered, distinct)
    offsets = offsets_from(distinct)
    place = np.empty(offsets[-1], np.int32)
    pf = np.empty(offsets[-1], np.int32)
    over_ranges(
        _count_runs, trajectories.offsets, trajectories.offsets, ordered, offsets, place, pf
    )
    tf = np.bincount(place, minlength=locations).astype(np.int32)
    return Frequencies(offsets, place, pf, tf)
