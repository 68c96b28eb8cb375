"""Uniform random permutations of many groups at once, from words of the random source."""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.sorting import stable_order
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.mechanisms.noise import RandomSource


@njit(nogil=True, cache=True)
def _rank(first, last, offsets, word):  # type: ignore[no-untyped-def]
    """Rank of each member's word in its group; groups with two equal words are marked."""
    begin = offsets[first]
    rank = np.empty(offsets[last] - begin, np.int32)
    tied = np.zeros(last - first, np.bool_)
    for g in range(first, last):
        lo, hi = offsets[g], offsets[g + 1]
        order = stable_order(word[lo:hi])
        for i in range(hi - lo):
            rank[lo - begin + i] = order[i]
            if i > 0 and word[lo + order[i]] == word[lo + order[i - 1]]:
                tied[g - first] = True
    return rank, tied


def deal(offsets: Ints, source: RandomSource) -> Ids:
    """For each group a uniform random permutation of 0 .. size - 1, one after the other.

    The order of independent uniform words is uniform as long as no two are equal; a group with
    equal words is drawn again, so that what is left is exactly uniform.
    """
    word = source.uniform_words(int(offsets[-1]))
    while True:
        rank, tied = joined(map_ranges(_rank, offsets, offsets, word))
        if not tied.any():
            return rank
        again = np.repeat(tied, np.diff(offsets))
        word[again] = source.uniform_words(int(again.sum()))
