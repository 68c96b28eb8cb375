"""PF and TF of trajectories, from the samples the service has read anyway.

The views `point_frequency` and `trajectory_frequency` define the same in SQL. Draws from a build read
its TF as it is stored (`StepContext.tf_of`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import add, either, join, map_ranges, merged
from freqdp_db.model.arrays import Flags, Ids, Ints, new_rows, offsets_from
from freqdp_db.model.kernels import stable_order
from freqdp_db.model.trajectories import Trajectories

_PLACE_BITS = 32


@dataclass(frozen=True)
class Frequencies:
    """Distinct locations of each trajectory in ascending order, with their counts."""

    offsets: Ints
    location: Ids
    pf: Ids
    tf: Ids
    """Per location: how many trajectories visit it."""


def _count(
    first: int, last: int, offsets: Ints, location: Ids, locations: int
) -> tuple[Ints, Ids, Ids, Ids]:
    """Distinct places of each trajectory, how many they are, their PF; and TF in this range."""
    mine = offsets[first : last + 1]
    # NumPy sorts whole numbers by vector instructions, ten times as fast as a kernel
    visit = np.repeat(np.arange(last - first) << _PLACE_BITS, np.diff(mine))
    visit += location[mine[0] : mine[-1]]
    visit.sort()
    begin = np.flatnonzero(new_rows(visit))
    pf = np.diff(begin, append=len(visit)).astype(np.int32)
    visit = visit[begin]
    place = (visit & ((1 << _PLACE_BITS) - 1)).astype(np.int32)
    distinct = np.bincount(visit >> _PLACE_BITS, minlength=last - first)
    return distinct, place, pf, np.bincount(place, minlength=locations).astype(np.int32)


def count_frequencies(trajectories: Trajectories, locations: int) -> Frequencies:
    """Count every location of every trajectory."""
    parts = map_ranges(
        _count, trajectories.offsets, trajectories.offsets, trajectories.location, locations
    )
    distinct, place, pf, tf = merged(parts, join, join, join, add)
    return Frequencies(offsets_from(distinct), place, pf, tf)


# Weights and signatures: which locations say most about a trajectory.
#
# The views `location_weight` and `signature` compute the same in SQL.


# Scores are compared in whole units of 1e-9, so that mathematically equal weights are ties
# whichever way the last bit of a logarithm fell.
_SCORE_UNITS = 1e9


@dataclass(frozen=True)
class Signatures:
    """All locations of each trajectory, most telling first."""

    order: Ints
    """Positions in the frequency columns; trajectory t's are at the same offsets as there."""
    size: int
    """m: the first so many of a trajectory are its signature."""
    candidates: Flags
    """The paper's P: locations that are in any signature."""


@njit(nogil=True, cache=True)
def _rank(first, last, offsets, place, pf, tf, trajectories, size):  # type: ignore[no-untyped-def]
    """The order of each trajectory's places, and which are in a signature of this range."""
    begin = offsets[first]
    order = np.empty(offsets[last] - begin, np.int64)
    candidates = np.zeros(len(tf), np.bool_)
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        score = np.empty(hi - lo, np.int64)
        for i in range(lo, hi):
            weight = pf[i] * math.log(trajectories / tf[place[i]])
            score[i - lo] = -np.int64(math.floor(weight * _SCORE_UNITS + 0.5))
        # stable, and the places are in ascending order: ties by location id
        ranked = stable_order(score)
        for i in range(hi - lo):
            order[lo - begin + i] = lo + ranked[i]
            if i < size:
                candidates[place[lo + ranked[i]]] = True
    return order, candidates


def rank_places(frequencies: Frequencies, size: int, trajectories: int | None = None) -> Signatures:
    """Order each trajectory's locations by pf/|tau| * ln(|D|/tf); the first `size` are its signature.

    trajectories: |D|, if these are not all of them; TF is that of all.
    """
    offsets = frequencies.offsets
    parts = map_ranges(
        _rank, offsets, offsets, frequencies.location, frequencies.pf, frequencies.tf,
        len(offsets) - 1 if trajectories is None else trajectories, size,
    )  # fmt: skip
    order, candidates = merged(parts, join, either)
    return Signatures(order, size, candidates)
