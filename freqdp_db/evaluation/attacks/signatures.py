"""Attacks by likeness: places, times of day, places by the hour, and movements.

A trajectory's signature is a sparse unit vector (tf-idf), or its hours of the day. The *linking attacks*
(LA) take each released trajectory and look for the most similar original, as the paper does. The
*exposures* go the other way: for each object they look for its released trajectory. A release may have
more trajectories than there are objects, or fewer.

Protocol A takes the whole period on both sides; B the released odd days and D's even days, so that
nothing is linked by the very same samples. With m' = 10 a method that removes the ten strongest
places scores 0 by construction, while the attacker who uses all of them still links many: both
are measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.evaluation.attacks.claims import score_picks
from freqdp_db.evaluation.attacks.points import is_of_points
from freqdp_db.evaluation.pair import Case, CellBox, Pair, hours_of_day, on_odd_days, share_of
from freqdp_db.methods.frequency.counts import Frequencies, count_frequencies
from freqdp_db.model.arrays import Flags, Ids, Ints, offsets_from, offsets_of, owners, within
from freqdp_db.model.trajectories import Trajectories

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


def tf_idf(trajectories: Trajectories, dimensions: int) -> Vectors:
    """tf * ln((N + 1) / df) over what `location` counts, of length 1."""
    return weigh(count_frequencies(trajectories, dimensions), None)


def weigh(counted: Frequencies, strongest: int | None) -> Vectors:
    """The same of what is counted already, cut to the strongest dimensions of each trajectory."""
    sizes = np.diff(counted.offsets)
    filled = int((sizes > 0).sum())
    idf: Weights = np.log((filled + 1.0) / np.maximum(np.arange(filled + 1), 1))
    owner, dimension = owners(counted.offsets), counted.location
    weight = counted.pf * idf[counted.tf[dimension]]
    if strongest is not None:
        # dimensions ascend, and the sort is stable: ties go to the lower one
        score = np.floor(weight / _norms(owner, weight, len(sizes)) / SAME + 0.5)
        order = np.lexsort((np.where(sizes[owner] > strongest, -score, 0.0), owner))
        kept = order[within(counted.offsets) < strongest]
        owner, dimension, weight = owner[kept], dimension[kept], weight[kept]
        sizes = np.minimum(sizes, strongest)
    return Vectors(offsets_from(sizes), dimension, weight / _norms(owner, weight, len(sizes)))


def _norms(owner: Ids, weight: Weights, count: int) -> Weights:
    """The length of the vector that each weight is part of; 1 where all weights are 0."""
    squares = np.bincount(owner, weight * weight, count)
    return np.sqrt(np.where(squares > 0.0, squares, 1.0))[owner]


@njit(nogil=True, cache=True)
def _compare(  # type: ignore[no-untyped-def]
    first, last, offsets, dimension, weight, lists, target_of, share, targets, chance
):
    """Cosine of each vector with all targets, through lists by dimension; memory for one row at a time.

    The most alike target, -1 if none is, with ties by chance, and how alike it is; how alike the target of
    the same number is, and the best of the others.
    """
    pick, best_of = np.full(last - first, -1, np.int64), np.zeros(last - first)
    own, other = np.zeros(last - first), np.zeros(last - first)
    like, touched = np.zeros(targets), np.empty(targets, np.int64)
    for v in range(first, last):
        n = 0
        for i in range(offsets[v], offsets[v + 1]):
            if weight[i] <= 0.0:
                continue
            for j in range(lists[dimension[i]], lists[dimension[i] + 1]):
                if share[j] > 0.0:
                    if like[target_of[j]] == 0.0:
                        touched[n] = target_of[j]
                        n += 1
                    like[target_of[j]] += weight[i] * share[j]
        best = 0.0
        for t in touched[:n]:
            best = max(best, like[t])
            if t == v:
                own[v - first] = like[t]
            else:
                other[v - first] = max(other[v - first], like[t])
        best_of[v - first] = best
        if best > SAME:
            ties = 0
            for t in touched[:n]:
                if like[t] >= best - SAME:
                    ties += 1
            chosen = min(int(chance[v] * ties), ties - 1)
            for t in touched[:n]:
                if like[t] >= best - SAME:
                    if chosen == 0:
                        pick[v - first] = t
                        break
                    chosen -= 1
        for t in touched[:n]:
            like[t] = 0.0
    return pick, best_of, own, other


def _compare_all(
    vectors: Vectors, targets: Vectors, dimensions: int, chance: Weights
) -> tuple[NDArray[Any], ...]:
    order = np.argsort(targets.dimension, kind="stable")
    parts = map_ranges(
        _compare, vectors.offsets, vectors.offsets, vectors.dimension, vectors.weight,
        offsets_of(targets.dimension[order], dimensions), owners(targets.offsets)[order],
        targets.weight[order], len(targets), chance,
    )  # fmt: skip
    return joined(parts)


def most_alike(released: Vectors, original: Vectors, dimensions: int) -> Links:
    """Compare every released trajectory with every original."""
    return Links(*_compare_all(released, original, dimensions, np.zeros(len(released)))[2:])


def pick_by_cosine(
    original: Vectors, released: Vectors, dimensions: int, rng: np.random.Generator
) -> tuple[Ints, Weights]:
    """For each object its most alike released trajectory (-1: none is alike), and how alike."""
    found = _compare_all(original, released, dimensions, rng.random(len(original)))
    return found[0], found[1]


def around_the_clock(one: Weights, others: Weights) -> Weights:
    """Likeness of one histogram of hours with others: 1 - circular earth mover's distance in hours / 12.

    That distance of two histograms is sum |F - median F| of the running sum F of their difference.
    """
    running = np.sort(np.cumsum(one - others, axis=-1), axis=-1)
    middle = running[..., running.shape[-1] // 2, np.newaxis]
    apart: Weights = np.abs(running - middle).sum(axis=-1)
    return 1.0 - HOURS_PER_WINDOW / FARTHEST_HOURS * apart


STRONGEST = 10
_EDGE_PERCENT = 0.1
_GRID_SIDE = 300
_HOURS = 24
_WINDOWS = 12
HOURS_PER_WINDOW = 2
FARTHEST_HOURS = 12.0
PROTOCOLS = ("a", "b")
KINDS = ("s", "st", "sq")


def linking_attacks(pair: Pair) -> dict[str, float]:
    """LA_s, LA_st, LA_sq and LA_t; `.none` is the share that is like nothing at all."""
    found: dict[str, float] = {}
    for protocol in PROTOCOLS:
        met = pair if protocol == "a" else days_apart(pair)
        links = {
            f"{kind}.{protocol}.{length}": most_alike(shown, true, dimensions)
            for kind, length, true, shown, dimensions in _signatures(met)
        }
        links[f"t.{protocol}"] = _by_time_of_day(met)
        for name, linked in links.items():
            found[f"la_{name}"] = share_of(linked.right(), met.on_both_sides)
            found[f"la_{name}.none"] = share_of(linked.none(), met.on_both_sides)
    return found


def _signatures(pair: Pair) -> Iterator[tuple[str, str, Vectors, Vectors, int]]:
    """Kind and length, the originals' vectors and the released ones, and their dimensions."""
    for kind in KINDS:
        original, released, dimensions = dimensions_of(pair, kind)
        counted = [count_frequencies(side, dimensions) for side in (original, released)]
        del original, released
        for length, strongest in ((str(STRONGEST), STRONGEST), ("full", None)):
            true, shown = (weigh(side, strongest) for side in counted)
            yield kind, length, true, shown, dimensions


def days_apart(pair: Pair) -> Pair:
    """Protocol B: released odd days, D's even days."""
    odd = on_odd_days(pair.released.at, pair.timezone)
    even = ~on_odd_days(pair.original.at, pair.timezone)
    return replace(pair, original=pair.original.where(even), released=pair.released.where(odd))


def dimensions_of(pair: Pair, kind: str) -> tuple[Trajectories, Trajectories, int]:
    """D and D* with what the attack counts in place of locations, and how many of it there are."""
    if kind == "s":
        return pair.original, pair.released, len(pair.locations)
    if kind == "st":
        # only cells with a location in them, numbered as they lie: of a small city most have none
        used, number = np.unique(
            CellBox.of(pair, _EDGE_PERCENT).cells(pair.locations, _GRID_SIDE), return_inverse=True
        )
        cells: Ids = number.astype(np.int32)

        def in_hours(side: Trajectories) -> Trajectories:
            hour = hours_of_day(side.at, pair.timezone)
            return replace(side, location=cells[side.location] * np.int32(_HOURS) + hour)

        return in_hours(pair.original), in_hours(pair.released), len(used) * _HOURS
    return _movements(pair)


def _movements(pair: Pair) -> tuple[Trajectories, Trajectories, int]:
    """Unordered pairs of consecutive different locations, numbered over both sides."""
    codes, sides = [], []
    for side in (pair.original, pair.released):
        a, b = side.location[:-1].astype(np.int64), side.location[1:].astype(np.int64)
        moves = ~side.ends
        moves[:-1] &= a != b
        code = np.minimum(a, b) * len(pair.locations) + np.maximum(a, b)
        codes.append(code[moves[:-1]])
        sides.append(side.where(moves))
    known, number = np.unique(np.concatenate(codes), return_inverse=True)
    numbers = np.split(number.astype(np.int32), [len(codes[0])])
    original, released = (
        replace(side, location=which) for side, which in zip(sides, numbers, strict=True)
    )
    return original, released, len(known)


def _by_time_of_day(pair: Pair) -> Links:
    """LA_t: shares of twelve two-hour windows."""
    shown, true = (windows_of_day(side, pair.timezone) for side in (pair.released, pair.original))
    filled = np.flatnonzero(pair.original.lengths > 0)
    own, other = np.zeros((2, len(shown)))
    for t in np.flatnonzero(pair.released.lengths > 0):
        like, mine = around_the_clock(shown[t], true[filled]), filled == t
        own[t] = like[mine].sum()
        other[t] = like[~mine].max(initial=0.0)
    return Links(own, other)


def windows_of_day(side: Trajectories, timezone: str) -> Weights:
    """Share of a trajectory's samples in each of twelve two-hour windows."""
    window = hours_of_day(side.at, timezone) // HOURS_PER_WINDOW
    counts = np.bincount(
        side.owner.astype(np.int64) * _WINDOWS + window, minlength=len(side) * _WINDOWS
    ).reshape(len(side), _WINDOWS)
    shares: Weights = counts / np.maximum(side.lengths, 1)[:, np.newaxis]
    return shares


def pick_by_clock(pair: Pair, rng: np.random.Generator) -> Ints:
    """For each object the released trajectory whose hours of the day are most alike, ties by chance."""
    original, released = (
        windows_of_day(side, pair.timezone) for side in (pair.original, pair.released)
    )
    filled = np.flatnonzero(pair.released.lengths > 0)
    pick, chance = np.full(len(original), -1, np.int64), rng.random(len(original))
    if not len(filled):
        return pick
    # pieces have few hours: many histograms are the same
    distinct, which, copies = np.unique(
        released[filled], axis=0, return_inverse=True, return_counts=True
    )
    members = filled[np.argsort(which.reshape(-1), kind="stable")]
    begin = offsets_from(copies)
    for u in np.flatnonzero(pair.original.lengths > 0):
        like = around_the_clock(original[u], distinct)
        if like.max() > SAME:
            best = np.flatnonzero(like >= like.max() - SAME)
            ties = int(copies[best].sum())
            chosen = min(int(chance[u] * ties), ties - 1)
            upto = np.cumsum(copies[best])
            group = int(np.searchsorted(upto, chosen, side="right"))
            pick[u] = members[begin[best[group]] + chosen - (upto[group] - copies[best[group]])]
    return pick


def likeness_exposures(case: Case, rng: np.random.Generator) -> dict[str, float]:
    """`exposure.s`, `.st`, `.sq` and `.t`: protocols a and b, the ten strongest and all.

    Nothing where no trajectory has two samples: one sample tells one moment, and `habits`
    claims all that fit.
    """
    found: dict[str, float] = {}
    if is_of_points(case.release):
        return found
    for protocol in PROTOCOLS:
        pair = case.pair if protocol == "a" else days_apart(case.pair)
        for kind, length, true, shown, dimensions in _signatures(pair):
            pick, _ = pick_by_cosine(true, shown, dimensions, rng)
            found |= score_picks(case, pick).named(f"exposure.{kind}.{protocol}.{length}")
        found |= score_picks(case, pick_by_clock(pair, rng)).named(f"exposure.t.{protocol}")
    return found
