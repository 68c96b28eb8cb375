"""Sparse signatures of trajectories and who is most like whom: the machinery of linking attacks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Flags, Ids, Ints
from freqdp_db.columns.ragged import offsets_from, offsets_of, owners
from freqdp_db.columns.sorting import stable_order
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.frequency.counts import Frequencies, count_frequencies

Weights = NDArray[np.float64]

# Weights and similarities that differ by less are equal: sums in another order end in other bits.
SAME = 1e-9


@dataclass(frozen=True)
class Vectors:
    """A sparse unit vector for each trajectory; empty for an empty one."""

    offsets: Ints
    dimension: Ids
    weight: Weights

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class Links:
    """How like its own original each released trajectory is, and how like the best of the others."""

    own: Weights
    other: Weights

    def right(self) -> Flags:
        """Linked right: nothing is more like it than its own original. Likeness 0 links nothing."""
        return (self.own > SAME) & (self.own >= self.other - SAME)

    def none(self) -> Flags:
        """Like nothing at all."""
        return (self.own <= SAME) & (self.other <= SAME)


@njit(nogil=True, cache=True)
def _weigh(first, last, offsets, dimension, count, tf, idf, keep):  # type: ignore[no-untyped-def]
    """How many dimensions each trajectory keeps, the strongest ones, and their unit weights.

    idf: of a dimension that so many trajectories have.
    """
    kept = np.zeros(last - first, np.int64)
    total = 0
    for t in range(first, last):
        kept[t - first] = min(offsets[t + 1] - offsets[t], keep)
        total += kept[t - first]
    out_dimension, out_weight = np.empty(total, np.int32), np.empty(total, np.float64)
    k = 0
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        weight = np.empty(hi - lo, np.float64)
        norm = 0.0
        for i in range(hi - lo):
            weight[i] = count[lo + i] * idf[tf[dimension[lo + i]]]
            norm += weight[i] * weight[i]
        order = np.arange(hi - lo)
        if keep < hi - lo:
            score = np.empty(hi - lo, np.int64)
            for i in range(hi - lo):
                share = weight[i] / math.sqrt(norm)
                score[i] = -np.int64(math.floor(share / SAME + 0.5))
            # stable, and dimensions ascend: ties go to the lower one
            order = stable_order(score)
        norm = 0.0
        for i in range(kept[t - first]):
            w = weight[order[i]]
            norm += w * w
        for i in range(kept[t - first]):
            out_dimension[k] = dimension[lo + order[i]]
            out_weight[k] = weight[order[i]] / math.sqrt(norm) if norm > 0.0 else weight[order[i]]
            k += 1
    return kept, out_dimension, out_weight


def tf_idf(trajectories: Trajectories, dimensions: int) -> Vectors:
    """tf * ln((N + 1) / df) over what `location` counts, of length 1."""
    return weigh(count_frequencies(trajectories, dimensions), None)


def weigh(counted: Frequencies, strongest: int | None) -> Vectors:
    """The same of what is counted already, cut to the strongest."""
    filled = int((np.diff(counted.offsets) > 0).sum())
    idf = np.log((filled + 1.0) / np.maximum(np.arange(filled + 1), 1))
    keep = len(counted.location) if strongest is None else strongest
    parts = map_ranges(
        _weigh, counted.offsets, counted.offsets, counted.location, counted.pf, counted.tf, idf,
        keep,
    )  # fmt: skip
    kept, dimension, weight = joined(parts)
    return Vectors(offsets_from(kept), dimension, weight)


@njit(nogil=True, cache=True)
def _compare(  # type: ignore[no-untyped-def]
    first, last, offsets, dimension, weight, list_offsets, owner, share, originals
):
    """Cosine of each released vector with all originals, through lists by dimension."""
    own, other = np.zeros(last - first), np.zeros(last - first)
    like = np.zeros(originals, np.float64)
    for t in range(first, last):
        for i in range(len(like)):
            like[i] = 0.0
        for i in range(offsets[t], offsets[t + 1]):
            d = dimension[i]
            for j in range(list_offsets[d], list_offsets[d + 1]):
                like[owner[j]] += weight[i] * share[j]
        own[t - first] = like[t]
        best = 0.0
        for i in range(len(like)):
            if i != t and like[i] > best:
                best = like[i]
        other[t - first] = best
    return own, other


def most_alike(released: Vectors, original: Vectors, dimensions: int) -> Links:
    """Compare every released trajectory with every original; memory for one row at a time."""
    order = np.argsort(original.dimension, kind="stable")
    owner = owners(original.offsets)
    lists = offsets_of(original.dimension[order], dimensions)
    parts = map_ranges(
        _compare, released.offsets, released.offsets, released.dimension, released.weight,
        lists, owner[order], original.weight[order], len(original),
    )  # fmt: skip
    return Links(*joined(parts))


@njit(cache=True)
def around_the_clock(a, b, gap):  # type: ignore[no-untyped-def]
    """Circular earth mover's distance of two histograms, in bins: sum |F - median F|."""
    run = 0.0
    for i in range(len(a)):
        run += a[i] - b[i]
        # insert in order: a dozen bins
        j = i
        while j > 0 and gap[j - 1] > run:
            gap[j] = gap[j - 1]
            j -= 1
        gap[j] = run
    middle = gap[len(a) // 2]
    total = 0.0
    for i in range(len(a)):
        total += abs(gap[i] - middle)
    return total


@njit(nogil=True, cache=True)
def _compare_clocks(first, last, offsets, released, original, filled, scale):  # type: ignore[no-untyped-def]
    own, other = np.zeros(last - first), np.zeros(last - first)
    gap = np.empty(released.shape[1], np.float64)
    for t in range(first, last):
        if offsets[t] == offsets[t + 1]:
            continue
        for o in range(len(filled)):
            if filled[o]:
                like = 1.0 - scale * around_the_clock(released[t], original[o], gap)
                if o == t:
                    own[t - first] = like
                elif like > other[t - first]:
                    other[t - first] = like
    return own, other


def most_alike_clocks(
    released: Weights, original: Weights, filled: tuple[Flags, Flags], scale: float
) -> Links:
    """Compare histograms around the clock: likeness = 1 - scale * distance in bins.

    `filled`: which of each side are not empty.
    """
    has_released, has_original = filled
    work = offsets_from(has_released.astype(np.int64))
    parts = map_ranges(_compare_clocks, work, work, released, original, has_original, scale)
    return Links(*joined(parts))
