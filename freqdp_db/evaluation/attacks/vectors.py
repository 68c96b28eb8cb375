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
from freqdp_db.engines.threads import over_ranges
from freqdp_db.frequency.counts import count_frequencies

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
def _weigh(first, last, offsets, dimension, count, idf, keep, kept, order, weight):  # type: ignore[no-untyped-def]
    """Unit weights of each trajectory; the strongest `keep` come first in `order`."""
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        norm = 0.0
        for i in range(lo, hi):
            weight[i] = count[i] * idf[dimension[i]]
            norm += weight[i] * weight[i]
        if keep >= hi - lo:
            for i in range(lo, hi):
                order[i] = i
        else:
            score = np.empty(hi - lo, np.int64)
            for i in range(lo, hi):
                share = weight[i] / math.sqrt(norm)
                score[i - lo] = -np.int64(math.floor(share / SAME + 0.5))
            # stable, and dimensions ascend: ties go to the lower one
            ranked = stable_order(score)
            for i in range(hi - lo):
                order[lo + i] = lo + ranked[i]
        kept[t] = min(hi - lo, keep)
        norm = 0.0
        for i in range(kept[t]):
            w = weight[order[lo + i]]
            norm += w * w
        if norm > 0.0:
            for i in range(kept[t]):
                weight[order[lo + i]] /= math.sqrt(norm)


@njit(nogil=True, cache=True)
def _gather(first, last, offsets, order, dimension, weight, out_offsets, out_dimension, out_weight):  # type: ignore[no-untyped-def]
    for t in range(first, last):
        for i in range(out_offsets[t + 1] - out_offsets[t]):
            source = order[offsets[t] + i]
            out_dimension[out_offsets[t] + i] = dimension[source]
            out_weight[out_offsets[t] + i] = weight[source]


def tf_idf(trajectories: Trajectories, dimensions: int, strongest: int | None) -> Vectors:
    """tf * ln((N + 1) / df) over what `location` counts, cut to the strongest, of length 1."""
    counted = count_frequencies(trajectories, dimensions)
    filled = int((trajectories.lengths > 0).sum())
    idf = np.log((filled + 1.0) / np.maximum(counted.tf, 1))
    size = len(counted.location)
    keep = size if strongest is None else strongest
    kept = np.zeros(len(trajectories), np.int64)
    order, weight = np.empty(size, np.int64), np.empty(size, np.float64)
    over_ranges(
        _weigh, counted.offsets, counted.offsets, counted.location, counted.pf, idf, keep,
        kept, order, weight,
    )  # fmt: skip
    offsets = offsets_from(kept)
    out_dimension = np.empty(offsets[-1], np.int32)
    out_weight = np.empty(offsets[-1], np.float64)
    over_ranges(
        _gather, counted.offsets, counted.offsets, order, counted.location, weight,
        offsets, out_dimension, out_weight,
    )  # fmt: skip
    return Vectors(offsets, out_dimension, out_weight)


@njit(nogil=True, cache=True)
def _compare(  # type: ignore[no-untyped-def]
    first, last, offsets, dimension, weight, list_offsets, owner, share, own, other
):
    """Cosine of each released vector with all originals, through lists by dimension."""
    like = np.zeros(len(own), np.float64)
    for t in range(first, last):
        for i in range(len(like)):
            like[i] = 0.0
        for i in range(offsets[t], offsets[t + 1]):
            d = dimension[i]
            for j in range(list_offsets[d], list_offsets[d + 1]):
                like[owner[j]] += weight[i] * share[j]
        own[t] = like[t]
        best = 0.0
        for i in range(len(like)):
            if i != t and like[i] > best:
                best = like[i]
        other[t] = best


def most_alike(released: Vectors, original: Vectors, dimensions: int) -> Links:
    """Compare every released trajectory with every original; memory for one row at a time."""
    order = np.argsort(original.dimension, kind="stable")
    owner = owners(original.offsets)
    lists = offsets_of(original.dimension[order], dimensions)
    own, other = np.zeros(len(released)), np.zeros(len(released))
    over_ranges(
        _compare, released.offsets, released.offsets, released.dimension, released.weight,
        lists, owner[order], original.weight[order], own, other,
    )  # fmt: skip
    return Links(own, other)


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
def _compare_clocks(first, last, offsets, released, original, filled, scale, own, other):  # type: ignore[no-untyped-def]
    gap = np.empty(released.shape[1], np.float64)
    for t in range(first, last):
        if offsets[t] == offsets[t + 1]:
            continue
        for o in range(len(filled)):
            if filled[o]:
                like = 1.0 - scale * around_the_clock(released[t], original[o], gap)
                if o == t:
                    own[t] = like
                elif like > other[t]:
                    other[t] = like


def most_alike_clocks(
    released: Weights, original: Weights, on_both: tuple[Flags, Flags], scale: float
) -> Links:
    """Compare histograms around the clock: likeness = 1 - scale * distance in bins."""
    has_released, has_original = on_both
    own, other = np.zeros(len(released)), np.zeros(len(released))
    work = offsets_from(has_released.astype(np.int64))
    over_ranges(
        _compare_clocks, work, work, released, original, has_original, scale, own, other
    )  # fmt: skip
    return Links(own, other)
