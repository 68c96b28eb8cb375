"""Attackers who know an object by its places, times and movements pick the most alike trajectory.

The signatures are those of the linking attacks; here an object looks for its released trajectory,
of which there may be many more, or fewer, than objects.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.ragged import offsets_from, offsets_of, owners
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.evaluation.attacks.exposure.case import Case
from freqdp_db.evaluation.attacks.exposure.claims import worth_of_picks
from freqdp_db.evaluation.attacks.linking import (
    FARTHEST_HOURS,
    HOURS_PER_WINDOW,
    KINDS,
    PROTOCOLS,
    STRONGEST,
    days_apart,
    dimensions_of,
    windows_of_day,
)
from freqdp_db.evaluation.attacks.vectors import SAME, Vectors, around_the_clock, weigh
from freqdp_db.evaluation.pair import Pair
from freqdp_db.frequency.counts import count_frequencies


@njit(nogil=True, cache=True)
def _pick_by_cosine(  # type: ignore[no-untyped-def]
    first, last, offsets, dimension, weight, lists, carrier, share, chance, like_of
):
    """The released vector most like each object's; ties by chance; likeness 0 picks nothing."""
    pick, best_of = np.full(last - first, -1, np.int64), np.empty(last - first)
    like = np.zeros(like_of, np.float64)
    touched = np.empty(like_of, np.int64)
    for u in range(first, last):
        n = 0
        for i in range(offsets[u], offsets[u + 1]):
            d = dimension[i]
            if weight[i] <= 0.0:
                continue
            for j in range(lists[d], lists[d + 1]):
                if share[j] > 0.0:
                    if like[carrier[j]] == 0.0:
                        touched[n] = carrier[j]
                        n += 1
                    like[carrier[j]] += weight[i] * share[j]
        best = 0.0
        for k in range(n):
            best = max(best, like[touched[k]])
        best_of[u - first] = best
        if best > SAME:
            ties = 0
            for k in range(n):
                if like[touched[k]] >= best - SAME:
                    ties += 1
            chosen = min(int(chance[u] * ties), ties - 1)
            for k in range(n):
                if like[touched[k]] >= best - SAME:
                    if chosen == 0:
                        pick[u - first] = touched[k]
                        break
                    chosen -= 1
        for k in range(n):
            like[touched[k]] = 0.0
    return pick, best_of


def pick_by_cosine(
    original: Vectors, released: Vectors, dimensions: int, rng: np.random.Generator
) -> tuple[Ints, NDArray[np.float64]]:
    """For each object its most alike released trajectory (-1: none is alike), and how alike."""
    order = np.argsort(released.dimension, kind="stable")
    carrier = owners(released.offsets)
    lists = offsets_of(released.dimension[order], dimensions)
    parts = map_ranges(
        _pick_by_cosine, original.offsets, original.offsets, original.dimension, original.weight,
        lists, carrier[order], released.weight[order], rng.random(len(original)), len(released),
    )  # fmt: skip
    pick, best = joined(parts)
    return pick, best


@njit(nogil=True, cache=True)
def _pick_by_clock(first, last, work, original, distinct, copies, scale, chance):  # type: ignore[no-untyped-def]
    """Number of the best distinct histogram, and which of its equals, for each object."""
    choice, equal = np.full(last - first, -1, np.int64), np.full(last - first, -1, np.int64)
    gap = np.empty(original.shape[1], np.float64)
    near = np.empty(len(distinct), np.float64)
    for u in range(first, last):
        if work[u] == work[u + 1]:
            continue
        best = -1.0
        for d in range(len(distinct)):
            near[d] = 1.0 - scale * around_the_clock(original[u], distinct[d], gap)
            best = max(best, near[d])
        if best <= SAME:
            continue
        ties = 0
        for d in range(len(distinct)):
            if near[d] >= best - SAME:
                ties += copies[d]
        chosen = min(int(chance[u] * ties), ties - 1)
        for d in range(len(distinct)):
            if near[d] >= best - SAME:
                if chosen < copies[d]:
                    choice[u - first], equal[u - first] = d, chosen
                    break
                chosen -= copies[d]
    return choice, equal


def pick_by_clock(pair: Pair, rng: np.random.Generator) -> Ints:
    """For each object the released trajectory whose hours of the day are most alike."""
    released = windows_of_day(pair.released, pair.timezone)
    filled = np.flatnonzero(pair.released.lengths > 0)
    pick = np.full(len(pair.original), -1, np.int64)
    if not len(filled):
        return pick
    # pieces have few hours: many histograms are the same
    distinct, which, copies = np.unique(
        released[filled], axis=0, return_inverse=True, return_counts=True
    )
    members = filled[np.argsort(which.reshape(-1), kind="stable")]
    work = offsets_from((pair.original.lengths > 0).astype(np.int64))
    parts = map_ranges(
        _pick_by_clock, work, work, windows_of_day(pair.original, pair.timezone), distinct,
        copies, HOURS_PER_WINDOW / FARTHEST_HOURS, rng.random(len(pick)),
    )  # fmt: skip
    choice, equal = joined(parts)
    there = choice >= 0
    pick[there] = members[offsets_from(copies)[choice[there]] + equal[there]]
    return pick


LIKENESSES = len(PROTOCOLS) * (len(KINDS) * 2 + 1)
"""So many attackers of this kind there are."""


def likeness_exposures(
    case: Case, rng: np.random.Generator, done: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """`exposure.s`, `.st`, `.sq` and `.t`: protocols a and b, the ten strongest and all.

    `done` is called after each of them.
    """
    found: dict[str, float] = {}
    for protocol in PROTOCOLS:
        pair = case.pair if protocol == "a" else days_apart(case.pair)
        for kind in KINDS:
            original, released, dimensions = dimensions_of(pair, kind)
            counted = [count_frequencies(side, dimensions) for side in (original, released)]
            del original, released
            for length, strongest in ((str(STRONGEST), STRONGEST), ("full", None)):
                true, shown = (weigh(side, strongest) for side in counted)
                pick, _ = pick_by_cosine(true, shown, dimensions, rng)
                name = f"exposure.{kind}.{protocol}.{length}"
                found |= worth_of_picks(case, pick).named(name)
                done()
        found |= worth_of_picks(case, pick_by_clock(pair, rng)).named(f"exposure.t.{protocol}")
        done()
    return found
