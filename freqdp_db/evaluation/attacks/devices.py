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

from collections.abc import Iterator

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.evaluation.attacks.claims import (
    NEAR_M,
    Claims,
    best_at_even_odds,
    score_claims,
)
from freqdp_db.evaluation.attacks.known_samples import KnownSamples, Sighted
from freqdp_db.evaluation.attacks.relinking import Runs
from freqdp_db.evaluation.pair import Case
from freqdp_db.model.arrays import Flags, Ids, Ints, offsets_from, offsets_of, owners, within
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
    case: Case, runs: Runs, count: int, known: KnownSamples, sighted: Sighted
) -> dict[str, float]:
    """`exposure.<mark>.<count>` of a release that was taken apart."""
    # the run that each known sample is seen in; -1: in none
    seen = np.where(sighted.where >= 0, runs.of[sighted.where], -1)
    flags = known.flags(case.original.samples)
    nothing = np.zeros(0, np.int64)
    found: dict[str, float] = {}
    for mark in MARKS:
        # objects and runs, for each of the fits
        claimed: list[list[tuple[Ints, Ints]]] = [[(nothing, nothing)] for _ in _FITS]
        for angle, asked in _phases_by(mark, case, runs, known, seen):
            of_fits = _claim(case, runs, known, seen, angle, asked)
            for before, some in zip(claimed, of_fits, strict=True):
                before.append(some)
        scores = []
        for of_fit in claimed:
            who, run = (np.concatenate(column) for column in zip(*of_fit, strict=True))
            claims = Claims.of_groups(len(case), who, run, np.ones(len(who)), runs.offsets)
            scores += score_claims(case, claims, (1.0,), flags)
        found |= best_at_even_odds(f"exposure.{mark}.{count}", scores)
    return found


def _phases_by(
    mark: str, case: Case, runs: Runs, known: KnownSamples, seen: Ints
) -> Iterator[tuple[Floats, Flags]]:
    """An angle for each released sample, and the objects to look for by it; several, by interval."""
    release, side = case.release, case.release.trajectories
    everybody = np.ones(len(case), np.bool_)
    if mark == "interval":
        own = _intervals(case, runs, known, seen)
        there, times = np.unique(own[own > 0], return_counts=True)
        often = there[np.argsort(-times, kind="stable")][:_MOST_INTERVALS]
        for interval in often:
            yield _phases(side.at, int(interval)), own == interval
    elif mark == "digits":
        angle = _digits_as_phases(release.places, runs, side.location)
        if angle is not None:
            yield angle, everybody
    else:
        yield _phases(side.at, _SECOND_US if mark == "fraction" else _MINUTE_US), everybody


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


def _intervals(case: Case, runs: Runs, known: KnownSamples, seen: Ints) -> Ints:
    """The interval at which each object sends, by the runs it was seen in, in whole seconds; 0: none."""
    at, there = case.release.trajectories.at, seen >= 0
    who, run = owners(known.offsets)[there], seen[there]
    # a run of n samples has n - 1 gaps, which begin with all but its last
    sizes = offsets_from(np.diff(runs.offsets)[run] - 1)
    before = runs.first[run][owners(sizes)] + within(sizes)
    gaps, who = at[before + 1] - at[before], who[owners(sizes)]
    order = np.lexsort((gaps, who))
    offsets = offsets_of(who[order], len(case))
    many = np.diff(offsets)
    median = np.zeros(len(case), np.int64)
    median[many > 0] = gaps[order][(offsets[:-1] + many // 2)[many > 0]]
    whole = (median + _SECOND_US // 2) // _SECOND_US * _SECOND_US
    return np.where((whole >= 2 * _SECOND_US) & (whole <= _LONGEST_INTERVAL_US), whole, 0)


def _claim(
    case: Case, runs: Runs, known: KnownSamples, seen: Ints, angle: Floats, asked: Flags
) -> list[tuple[Ints, Ints]]:
    """Objects, and runs of their phase that go together, for each of the fits."""
    release, side = case.release, case.release.trajectories
    east, north = (np.add.reduceat(f(angle), runs.first) for f in (np.cos, np.sin))
    size = np.diff(runs.offsets)
    steady = np.flatnonzero(np.hypot(east, north) >= _STEADY * size)
    direction = np.arctan2(north, east) % _TURN
    order = steady[np.argsort(direction[steady], kind="stable")]
    found = []
    for fit in _FITS:
        parts = map_ranges(
            _claim_all, known.offsets, known.offsets, seen, asked, runs.offsets, angle, order,
            direction[order], offsets_from(size[order]), release.x, release.y, side.at, fit * _TURN,
            _MOST_OBJECTS * (release.owners >= 0).sum() / len(case),
        )  # fmt: skip
        lengths, run = joined(parts)
        found.append((np.repeat(np.arange(len(case)), lengths), run))
    return found


@njit(nogil=True, cache=True)
def _claim_all(  # type: ignore[no-untyped-def]
    first, last, known_offsets, seen, asked, run_offsets, angle, order, direction, upto, x, y, at,
    fit, most,
):  # fmt: skip
    lengths, claimed, n = np.zeros(last - first, np.int64), np.empty(64, np.int64), 0
    for u in range(first, last):
        mine = seen[known_offsets[u] : known_offsets[u + 1]]
        mark = _mark(mine, run_offsets, angle) if asked[u] else -1.0
        if mark >= 0.0:
            taken = _fitting(mark, fit, most, mine, run_offsets, order, direction, upto, x, y, at)
            lengths[u - first] = len(taken)
            while n + len(taken) > len(claimed):
                claimed = np.append(claimed, np.empty_like(claimed))
            claimed[n : n + len(taken)] = taken
            n += len(taken)
    return lengths, claimed[:n].copy()


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
    """All runs that fit and go together, in order of time."""
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
    taken, size = np.empty(runs, np.int64), 0
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
    return taken[:size]


@njit(nogil=True, cache=True)
def _goes_on(a, b, x, y, at):  # type: ignore[no-untyped-def]
    """Whether somebody can be at sample a, and later at sample b."""
    dx, dy = x[b] - x[a], y[b] - y[a]
    reach = (at[b] - at[a]) * _FASTEST_M_PER_US + NEAR_M
    return at[b] > at[a] and dx * dx + dy * dy <= reach * reach
