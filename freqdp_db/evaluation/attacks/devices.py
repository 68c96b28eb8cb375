"""Attackers who know a device by what it writes: its instants, and the digits of its coordinates.

From a few known samples the attacker finds the runs that hold them: stretches of released trajectories
that are one object's. They show at which fraction of a second the device sends,
at which second of the minute, at which phase of its own interval, and with how many decimals it writes
coordinates. All runs of the release that fit are claimed, the best ones first, unless somebody would
be at two places at once, or have to travel faster than anybody does. Where more fits than a few
objects can have, the mark tells nothing and nothing is claimed. The value is the largest share found,
over how exactly it has to fit, at which claims are right at even odds on average.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.evaluation.attacks.claims import (
    NEAR_M,
    AttackScore,
    best_at_even_odds,
    boxes_of,
    score_claim,
    until_of,
)
from freqdp_db.evaluation.attacks.known_samples import KnownSamples, Sighted
from freqdp_db.evaluation.attacks.relinking import Runs
from freqdp_db.evaluation.pair import Case
from freqdp_db.model.arrays import Flags, Ids, Ints
from freqdp_db.model.kernels import stable_order
from freqdp_db.model.trajectories import Locations

MARKS = ("fraction", "second", "interval", "digits")
"""What a device may be known by."""
_SECOND_US = 1_000_000
_MINUTE_US = 60 * _SECOND_US
_LONGEST_INTERVAL_US = 60 * _MINUTE_US
_MOST_INTERVALS = 12
"""So many of the most common intervals are tried."""
_FITS = (1 / 1000, 1 / 120, 1 / 30)
"""How far from the mark a run may be, as shares of a turn."""
_STEADY = 0.9
"""A run, or an object, whose phases agree less than this has none."""
_MOST_OBJECTS = 4.0
"""More samples than so many objects have is nobody's mark."""
_FASTEST_M_PER_US = 150_000 / 3_600 / 1e6
_DECIMALS = 10
_TURN = 2 * np.pi

Floats = NDArray[np.float64]


def device_exposures(
    case: Case,
    runs: Runs,
    count: int,
    known: KnownSamples,
    sighted: Sighted,
    done: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """`exposure.<mark>.<count>` of a release that was taken apart. `done` is called after each mark."""
    release, side = case.release, case.release.trajectories
    seen = _seen_runs(runs, known, sighted)
    everybody = np.ones(len(case), np.bool_)
    found: dict[str, float] = {}
    for mark in MARKS:
        scores = [_nothing_found(case) for _ in _FITS]
        if mark == "interval":
            own = _intervals(case, runs, known, seen)
            there, times = np.unique(own[own > 0], return_counts=True)
            for interval in there[np.argsort(-times, kind="stable")][:_MOST_INTERVALS]:
                theirs = own == interval
                some = _claim(case, runs, known, seen, _phases(side.at, int(interval)), theirs)
                scores = [
                    AttackScore(*(np.where(theirs, new, old) for new, old in
                            ((s.found, w.found), (s.right, w.right))))
                    for s, w in zip(some, scores, strict=True)
                ]  # fmt: skip
        elif mark == "digits":
            angle = _digits_as_phases(release.places, runs, side.location)
            if angle is not None:
                scores = _claim(case, runs, known, seen, angle, everybody)
        else:
            modulus = _SECOND_US if mark == "fraction" else _MINUTE_US
            scores = _claim(case, runs, known, seen, _phases(side.at, modulus), everybody)
        found |= best_at_even_odds(f"exposure.{mark}.{count}", scores)
        done()
    return found


def _nothing_found(case: Case) -> AttackScore:
    """Of claiming nothing."""
    filled = case.original.lengths > 0
    return AttackScore(np.where(filled, 0.0, np.nan), np.full(len(case), np.nan))


def _phases(at: Ints, modulus: int) -> Floats:
    phases: Floats = (at % modulus) / modulus * _TURN
    return phases


def decimals_of(places: Locations) -> Ids | None:
    """With how many decimals each place is written; None: places that a method made."""
    if places.source_x is None or places.source_y is None:
        return None
    most = np.zeros(len(places), np.int32)
    for column in (places.source_x, places.source_y):
        needed = np.full(len(places), _DECIMALS, np.int32)
        for decimals in range(_DECIMALS - 1, -1, -1):
            # as text has it: the nearest number with so few decimals is this one
            needed[np.round(column, decimals) == column] = decimals
        most = np.maximum(most, needed)
    return most


def _digits_as_phases(places: Locations, runs: Runs, location: Ids) -> Floats | None:
    """The decimals of each sample's run, far apart on the circle; None if all are the same."""
    decimals = decimals_of(places)
    if decimals is None:
        return None
    of_run = np.maximum.reduceat(decimals[location], runs.first)
    if of_run.min() == of_run.max():
        return None
    angle: Floats = (of_run / (_DECIMALS + 1) * _TURN)[runs.of]
    return angle


def _seen_runs(runs: Runs, known: KnownSamples, sighted: Sighted) -> Ints:
    """The run that each known sample is seen in; -1: in none."""
    there = sighted.where >= 0
    seen = np.full(len(known.position), -1, np.int64)
    seen[there] = runs.of[sighted.where[there]]
    return seen


def _intervals(case: Case, runs: Runs, known: KnownSamples, seen: Ints) -> Ints:
    """The interval at which each object sends, by the runs it was seen in, in whole seconds; 0: none."""
    side = case.release.trajectories
    gap = np.diff(side.at, append=side.at[-1:])
    parts = map_ranges(_median_gaps, known.offsets, known.offsets, seen, runs.offsets, gap)
    (median,) = joined(parts)
    whole = (median + _SECOND_US // 2) // _SECOND_US * _SECOND_US
    return np.where((whole >= 2 * _SECOND_US) & (whole <= _LONGEST_INTERVAL_US), whole, 0)


@njit(nogil=True, cache=True)
def _median_gaps(first, last, known_offsets, seen, run_offsets, gap):  # type: ignore[no-untyped-def]
    median = np.zeros(last - first, np.int64)
    for u in range(first, last):
        n = 0
        for k in range(known_offsets[u], known_offsets[u + 1]):
            if seen[k] >= 0:
                n += run_offsets[seen[k] + 1] - run_offsets[seen[k]] - 1
        gaps, n = np.empty(n, np.int64), 0
        for k in range(known_offsets[u], known_offsets[u + 1]):
            if seen[k] >= 0:
                for i in range(run_offsets[seen[k]], run_offsets[seen[k] + 1] - 1):
                    gaps[n] = gap[i]
                    n += 1
        if n:
            gaps.sort()
            median[u - first] = gaps[n // 2]
    return (median,)


def _claim(
    case: Case, runs: Runs, known: KnownSamples, seen: Ints, angle: Floats, asked: Flags
) -> list[AttackScore]:
    """What it is worth to claim all runs of an object's phase, for each of the fits."""
    release, side = case.release, case.release.trajectories
    east, north = (np.add.reduceat(f(angle), runs.first) for f in (np.cos, np.sin))
    size = np.diff(runs.offsets)
    steady = np.flatnonzero(np.hypot(east, north) >= _STEADY * size)
    direction = np.arctan2(north, east) % _TURN
    order = steady[np.argsort(direction[steady], kind="stable")]
    upto = np.concatenate([[0], np.cumsum(size[order])]).astype(np.int64)
    parts = map_ranges(
        _claim_all, case.original.offsets, case.original.offsets, case.judged_x, case.judged_y,
        case.original.at,
        known.flags(case.original.samples), known.offsets, seen, asked, runs.offsets, angle, order,
        direction[order], upto, release.x, release.y, side.at, release.true_at, boxes_of(release),
        until_of(release),
        np.array(_FITS) * _TURN, _MOST_OBJECTS * side.samples / len(case),
    )  # fmt: skip
    found, right = joined(parts)
    return [AttackScore(f, r) for f, r in zip(found.T, right.T, strict=True)]


@njit(nogil=True, cache=True)
def _claim_all(  # type: ignore[no-untyped-def]
    first, last, offsets, ux, uy, ut, known, known_offsets, seen, asked, run_offsets, angle, order,
    direction, upto, x, y, at, true_at, boxes, until, fits, most,
):  # fmt: skip
    found = np.empty((last - first, len(fits)))
    right = np.empty((last - first, len(fits)))
    for u in range(first, last):
        mine = seen[known_offsets[u] : known_offsets[u + 1]]
        mark = _mark(mine, run_offsets, angle) if asked[u] else -1.0
        for f in range(len(fits)):
            claim = np.zeros(0, np.int64)
            if mark >= 0.0:
                claim = _fitting(
                    mark, fits[f], most, mine, run_offsets, order, direction, upto, x, y, at
                )
            claim = claim[stable_order(true_at[claim])]
            found[u - first, f], right[u - first, f] = score_claim(
                u, offsets, ux, uy, ut, known, claim, x, y, true_at, boxes, until
            )
    return found, right


@njit(nogil=True, cache=True)
def _mark(mine, run_offsets, angle):  # type: ignore[no-untyped-def]
    """The phase of an object by the runs it was seen in; -1: it has none."""
    east, north, n = 0.0, 0.0, 0
    for r in mine:
        if r >= 0:
            for i in range(run_offsets[r], run_offsets[r + 1]):
                east, north, n = east + np.cos(angle[i]), north + np.sin(angle[i]), n + 1
    if n == 0 or np.hypot(east, north) < _STEADY * n:
        return -1.0
    return np.arctan2(north, east) % _TURN


@njit(nogil=True, cache=True)
def _fitting(mark, fit, most, mine, run_offsets, order, direction, upto, x, y, at):  # type: ignore[no-untyped-def]
    """Samples of all runs that fit and go together, in order of time."""
    # round the circle: what is just below a whole turn is near to what is just above 0
    low, high = np.empty(3, np.int64), np.empty(3, np.int64)
    samples = runs = 0
    for turn in range(3):
        middle = mark + (turn - 1) * _TURN
        low[turn] = np.searchsorted(direction, middle - fit)
        high[turn] = np.searchsorted(direction, middle + fit, side="right")
        samples += upto[high[turn]] - upto[low[turn]]
        runs += high[turn] - low[turn]
    if samples > most:
        return np.zeros(0, np.int64)
    run, off = np.empty(runs, np.int64), np.empty(runs, np.float64)
    n = 0
    for turn in range(3):
        for k in range(low[turn], high[turn]):
            run[n] = order[k]
            off[n] = abs(direction[k] - mark - (turn - 1) * _TURN)
            for r in mine:
                if r == run[n]:  # what is known comes first
                    off[n] = -1.0
            n += 1
    taken, size, claimed = np.empty(runs, np.int64), 0, 0
    begins = np.empty(runs, np.int64)
    for k in np.argsort(off, kind="mergesort"):
        a, b = run_offsets[run[k]], run_offsets[run[k] + 1] - 1
        place = np.searchsorted(begins[:size], at[a])
        if place > 0:
            before = run_offsets[taken[place - 1] + 1] - 1
            if not _goes_on(before, a, x, y, at):
                continue
        if place < size and not _goes_on(b, run_offsets[taken[place]], x, y, at):
            continue
        for i in range(size, place, -1):
            taken[i], begins[i] = taken[i - 1], begins[i - 1]
        taken[place], begins[place] = run[k], at[a]
        size += 1
        claimed += b - a + 1
    claim, n = np.empty(claimed, np.int64), 0
    for k in range(size):
        for i in range(run_offsets[taken[k]], run_offsets[taken[k] + 1]):
            claim[n] = i
            n += 1
    return claim


@njit(nogil=True, cache=True)
def _goes_on(a, b, x, y, at):  # type: ignore[no-untyped-def]
    """Whether somebody can be at sample a, and later at sample b."""
    dx, dy = x[b] - x[a], y[b] - y[a]
    reach = (at[b] - at[a]) * _FASTEST_M_PER_US + NEAR_M
    return at[b] > at[a] and dx * dx + dy * dy <= reach * reach
