"""Weights and signatures: which locations say most about a trajectory.

The views `location_weight` and `signature` compute the same in SQL.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Flags, Ints
from freqdp_db.columns.ragged import within
from freqdp_db.columns.sorting import stable_order
from freqdp_db.engines.threads import over_ranges
from freqdp_db.frequency.counts import Frequencies

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
def _rank(first, last, offsets, place, pf, tf, order):  # type: ignore[no-untyped-def]
    trajectories = len(offsets) - 1
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        score = np.empty(hi - lo, np.int64)
        for i in range(lo, hi):
            weight = pf[i] * math.log(trajectories / tf[place[i]])
            score[i - lo] = -np.int64(math.floor(weight * _SCORE_UNITS + 0.5))
        # stable, and the places are in ascending order: ties by location id
        ranked = stable_order(score)
        for i in range(hi - lo):
            order[lo + i] = lo + ranked[i]


def rank_places(frequencies: Frequencies, size: int) -> Signatures:
    """Order each trajectory's locations by pf/|tau| * ln(|D|/tf); the first `size` are its signature."""
    order = np.empty(len(frequencies.location), np.int64)
    over_ranges(
        _rank,
        frequencies.offsets,
        frequencies.offsets,
        frequencies.location,
        frequencies.pf,
        frequencies.tf,
        order,
    )
    rank = within(frequencies.offsets)
    candidates = np.zeros(len(frequencies.tf), np.bool_)
    candidates[frequencies.location[order[rank < size]]] = True
    return Signatures(order, size, candidates)
