"""`exposure.tracked.<k>`: single samples that are followed from a few known ones, where no id joins them.

Samples of one place and time are one mark. From the mark of each known sample the attacker goes from tick
to tick, both ways: of the marks within reach, the nearest is taken for the same object, with a chance that
falls with the distance and with the number of others as near (the tracking of Hoh and Gruteser). He claims
all samples of the marks up to where the product of these chances falls below a threshold. Of the thresholds
at which claims are right at least every second time, the best counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.evaluation.attacks.claims import (
    AttackScore,
    best_at_even_odds,
    boxes_of,
    score_claim,
    until_of,
)
from freqdp_db.evaluation.attacks.known_samples import (
    KnownSamples,
    SightingIndex,
    draw_known,
    held_samples,
)
from freqdp_db.evaluation.pair import Case, ReleaseSeen
from freqdp_db.model.arrays import Ints, Metres

TRACKED = (1, 10)
_THRESHOLDS = np.array([0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05])
_CELL_M = 500.0
_FASTEST_M_PER_S = 20.0
_USUAL_M_PER_S = 3.0
_LEAST_M = 30.0
_NOBODY = 0.1
"""The weight of the object having no mark, beside 1 for one where it was."""
_TICKS_AHEAD = 4
_LEAST_TICK_US = 30_000_000
_MOST_MARKS = 400


@dataclass(frozen=True)
class Marks:
    """Released samples of one place and tick, in order of (tick, column, row)."""

    key: Ints
    frame: Ints
    """What keys are made of: the least tick, column and row, and how many columns and rows."""
    x: Metres
    y: Metres
    tick: Ints
    offsets: Ints
    sample: Ints
    of_sample: Ints
    tick_us: int


def is_of_points(release: ReleaseSeen) -> bool:
    """Whether no trajectory has two samples."""
    return release.areas is None and bool((release.trajectories.lengths <= 1).all())


def find_marks(release: ReleaseSeen) -> Marks:
    """The marks of a release."""
    tick_us = max(release.clock_us or 0, release.time_step_us or 0, _LEAST_TICK_US)
    tick = release.trajectories.at // tick_us
    column, row = (np.floor(v / _CELL_M).astype(np.int64) for v in (release.x, release.y))
    low = [int(v.min(initial=0)) for v in (tick, column, row)]
    columns, rows = (
        int(v.max(initial=0)) - least + 1 for v, least in ((column, low[1]), (row, low[2]))
    )
    key = ((tick - low[0]) * columns + column - low[1]) * rows + row - low[2]
    order = np.lexsort((release.y, release.x, key))
    fresh = np.ones(len(order), np.bool_)
    for value in (key, release.x, release.y):
        same = np.diff(value[order]) == 0
        fresh[1:] = ~same if value is key else fresh[1:] | ~same
    first = np.flatnonzero(fresh)
    of_sample = np.empty(len(order), np.int64)
    of_sample[order] = np.cumsum(fresh) - 1
    head = order[first]
    return Marks(
        key[head],
        np.array([*low, columns, rows], np.int64),
        release.x[head],
        release.y[head],
        tick[head],
        np.append(first, len(order)),
        order,
        of_sample,
        tick_us,
    )


@njit(nogil=True, cache=True)
def _next(mark, way, key, frame, x, y, tick, tick_s):  # type: ignore[no-untyped-def]
    """The likeliest next mark and its chance; -1: none is."""
    for ahead in range(1, _TICKS_AHEAD + 1):
        when = tick[mark] + way * ahead
        seconds = ahead * tick_s
        reach = _FASTEST_M_PER_S * seconds
        usual = max(_USUAL_M_PER_S * seconds, _LEAST_M)
        west = max(int(np.floor((x[mark] - reach) / _CELL_M)) - frame[1], 0)
        east = min(int(np.floor((x[mark] + reach) / _CELL_M)) - frame[1], frame[3] - 1)
        south = max(int(np.floor((y[mark] - reach) / _CELL_M)) - frame[2], 0)
        north = min(int(np.floor((y[mark] + reach) / _CELL_M)) - frame[2], frame[4] - 1)
        best, weight, total = -1, 0.0, 0.0
        for column in range(west, east + 1):
            base = ((when - frame[0]) * frame[3] + column) * frame[4]
            k = np.searchsorted(key, base + south)
            while k < len(key) and key[k] <= base + north:
                away = np.hypot(x[k] - x[mark], y[k] - y[mark])
                if away <= reach:
                    likely = np.exp(-away / usual)
                    total += likely
                    if likely > weight:
                        best, weight = k, likely
                k += 1
        if total > _NOBODY:
            return best, weight / (total + _NOBODY)
    return -1, 0.0


@njit(nogil=True, cache=True)
def _track(  # type: ignore[no-untyped-def]
    first, last, offsets, ux, uy, ut, known, known_offsets, seen, of_sample, mark_offsets, sample,
    key, frame, mx, my, tick, tick_s, x, y, at, boxes, until, thresholds,
):  # fmt: skip
    found = np.empty((last - first, len(thresholds)))
    right = np.empty((last - first, len(thresholds)))
    for u in range(first, last):
        marks, chances = np.empty(64, np.int64), np.empty(64)
        n = 0
        for i in range(known_offsets[u], known_offsets[u + 1]):
            if seen[i] < 0:
                continue
            for way in (-1, 1):
                mark, chance = of_sample[seen[i]], 1.0
                for _ in range(_MOST_MARKS):
                    if n == len(marks):
                        marks = np.append(marks, np.empty_like(marks))
                        chances = np.append(chances, np.empty_like(chances))
                    marks[n], chances[n] = mark, chance
                    n += 1
                    mark, more = _next(mark, way, key, frame, mx, my, tick, tick_s)
                    chance *= more
                    if mark < 0 or chance < thresholds[-1]:
                        break
        for h in range(len(thresholds)):
            chosen = np.unique(marks[:n][chances[:n] >= thresholds[h]])
            size = 0
            for m in chosen:
                size += mark_offsets[m + 1] - mark_offsets[m]
            claim, k = np.empty(size, np.int64), 0
            for m in chosen:
                for p in range(mark_offsets[m], mark_offsets[m + 1]):
                    claim[k] = sample[p]
                    k += 1
            claim = claim[np.argsort(at[claim])]
            found[u - first, h], right[u - first, h] = score_claim(
                u, offsets, ux, uy, ut, known, claim, x, y, at, boxes, until
            )
    return found, right


def tracked_exposures(case: Case, rng: np.random.Generator) -> dict[str, float]:
    """Of every object; nothing where a trajectory has two samples."""
    release = case.release
    if not is_of_points(release) or not release.trajectories.samples:
        return {}
    index, marks, held = SightingIndex(release), find_marks(release), held_samples(case)
    found: dict[str, float] = {}
    for count in TRACKED:
        known = draw_known(case, count, rng, held)
        seen = index.find(case, known, rng).where
        scores = track(case, marks, known, seen)
        found |= best_at_even_odds(f"exposure.tracked.{count}", scores)
    return found


def track(case: Case, marks: Marks, known: KnownSamples, seen: Ints) -> list[AttackScore]:
    """What is claimed for each threshold, from where known samples were seen."""
    release = case.release
    parts = map_ranges(
        _track, case.original.offsets, case.original.offsets, case.x, case.y, case.original.at,
        known.flags(case.original.samples), known.offsets, seen, marks.of_sample, marks.offsets,
        marks.sample, marks.key, marks.frame, marks.x, marks.y, marks.tick, marks.tick_us / 1e6,
        release.x, release.y, release.true_at, boxes_of(release), until_of(release), _THRESHOLDS,
    )  # fmt: skip
    found, right = joined(parts)
    return [AttackScore(f, r) for f, r in zip(found.T, right.T, strict=True)]
