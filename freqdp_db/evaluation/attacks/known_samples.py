"""Attackers who know a few exact samples: LA_x, unicity, `exposure.x` and `exposure.near`.

Untouched samples keep their exact times, so whoever knows a few of them has the strongest attack of
all. Where released times were coarsened, the attacker coarsens the known times in the same way.

For `exposure.x` the trajectory that holds most of them exactly fits best; among equals, the one with
most of them nearby (200 m, 5 min). Where samples were made areas, what fits is what contains them.
For `exposure.near` each known sample speaks for itself: the trajectory that holds it is the object's for
some time before and after.

Who knows a sample knows the values that it carries along, if the release has such columns: one that carries
others is not it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numba import njit
from scipy.sparse import csr_array

from freqdp_db.engines.ranges import joined, map_each, map_ranges
from freqdp_db.evaluation.attacks.claims import (
    NEAR_M,
    NEAR_US,
    AttackScore,
    Claims,
    best_at_even_odds,
    boxes_of,
    score_claims,
    score_picks,
)
from freqdp_db.evaluation.pair import Case, Pair, ReleaseSeen, share_of
from freqdp_db.evaluation.utility import numbered_cells
from freqdp_db.methods.frequency.counts import count_frequencies
from freqdp_db.model.arrays import (
    Flags,
    Ids,
    Ints,
    new_rows,
    offsets_from,
    offsets_of,
    owners,
    rows_of,
    within,
)
from freqdp_db.model.days import HOUR_US
from freqdp_db.model.trajectories import Trajectories

KNOWN_SAMPLES = (1, 2, 4, 10)
NEAR_KNOWN = (1, 4, 10)
_MINUTE_US = 60_000_000
_ALL_US = 2**62
_WINDOWS_US = (*(int(minutes * _MINUTE_US) for minutes in (2.5, 5, 10, 15, 30, 60)), _ALL_US)
"""So long before and after a known sample; the last: the whole trajectory."""
_UNICITY_SAMPLES = 4
_UNICITY_CELL_M = 1_000.0
_OBJECTS_AT_ONCE = 256


class _Facts:
    """Which trajectories hold each fact (any integer)."""

    def __init__(self, fact: Ints, owner: Ints, trajectories: int) -> None:
        self.known, which = np.unique(fact, return_inverse=True)
        shape = (max(len(self.known), 1), trajectories)
        self.holders = csr_array((np.ones(len(fact), np.int64), (which, owner)), shape)
        self.holders.data[:] = 1

    def match(self, fact: Ints, offsets: Ints) -> tuple[Ints, Ints, Ints]:
        """For each object: hits of its own trajectory, the most hits, and how many reach them."""
        at = np.minimum(np.searchsorted(self.known, fact), max(len(self.known) - 1, 0))
        found = self.known[at] == fact if len(self.known) else np.zeros(len(fact), np.bool_)
        ones = found.astype(np.int64)
        asked = csr_array((ones, at, offsets), (len(offsets) - 1, self.holders.shape[0]))
        own, best, ties = np.zeros((3, len(offsets) - 1), np.int64)
        for begin in range(0, len(own), _OBJECTS_AT_ONCE):
            part = slice(begin, begin + _OBJECTS_AT_ONCE)
            hits = asked[part] @ self.holders
            hits.eliminate_zeros()
            best[part] = hits.max(axis=1).toarray().ravel()
            who = owners(hits.indptr.astype(np.int64))
            ties[part] = np.bincount(who, hits.data == best[part][who], len(best[part]))
            own[part] = hits.diagonal(begin)
        return own, best, ties


def pick_samples(side: Trajectories, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Random samples of each trajectory, without repetition: offsets, and positions."""
    order = np.lexsort((rng.random(side.samples), side.owner))
    return offsets_from(np.minimum(side.lengths, count)), order[within(side.offsets) < count]


def known_samples(pair: Pair, rng: np.random.Generator) -> dict[str, float]:
    """LA_x: share of objects that k known samples (place, exact time) find, and nobody else."""
    clock, released_time = np.unique(pair.released.at, return_inverse=True)
    steps = max(len(clock), 1)

    def facts(location: Ints, time: Ints) -> Ints:
        return location * np.int64(steps) + time

    holds = _Facts(
        facts(pair.released.location.astype(np.int64), released_time.astype(np.int64)),
        pair.released.owner.astype(np.int64),
        len(pair),
    )
    linkable = pair.on_both_sides
    found = {}
    for count in KNOWN_SAMPLES:
        offsets, position = pick_samples(pair.original, count, rng)
        at = pair.coarse(pair.original.at[position])
        step = np.minimum(np.searchsorted(clock, at), steps - 1)
        seen = clock[step] == at if len(clock) else np.zeros(len(at), np.bool_)
        fact = facts(pair.original.location[position].astype(np.int64), step.astype(np.int64))
        own, best, ties = holds.match(np.where(seen, fact, -1), offsets)
        right = (own > 0) & (own == best) & (ties == 1)
        found[f"la_x.{count}"] = share_of(right, linkable)
    return found


def unicity(pair: Pair, rng: np.random.Generator) -> dict[str, float]:
    """Share of released trajectories that four samples of their own (1 km, hour) pin down.

    Reads the release alone. Beside it, `unicity.place`: the share of objects with a place that
    only they visit in D and whose samples there were published untouched, at least one.
    """
    side = pair.released
    cell, _, _ = numbered_cells(pair.locations, _UNICITY_CELL_M)
    hour = side.at // HOUR_US
    hour = hour - hour.min(initial=0)
    fact = cell[side.location] * (hour.max(initial=0) + 1) + hour
    holds = _Facts(fact, side.owner.astype(np.int64), len(side))
    offsets, position = pick_samples(side, _UNICITY_SAMPLES, rng)
    # a fact that was drawn twice says no more than once, but both trajectories count it alike
    _, _, ties = holds.match(fact[position], offsets)
    return {
        "unicity": share_of(ties == 1, side.lengths > 0),
        "unicity.place": _own_places(pair),
    }


def _own_places(pair: Pair) -> float:
    original = pair.original
    tf = count_frequencies(original, len(pair.locations)).tf
    alone = tf[original.location] == 1
    # untouched: the same object at the same place and time, as the release shows times
    shown = replace(original, at=pair.coarse(original.at))
    untouched = ~absent_from(pair.released, shown, original.owner)
    exposed: Flags = np.zeros(len(pair), np.bool_)
    exposed[original.owner[alone & untouched]] = True
    return share_of(exposed, original.lengths > 0)


# One sample held exactly outweighs any number nearby.
_EXACT = 1_000
_SAME_PLACE_M = 1e-3
_DECIMALS = 3


@dataclass(frozen=True)
class KnownSamples:
    """Samples of each object that the attacker knows: positions in the original."""

    offsets: Ints
    position: Ints

    def flags(self, samples: int) -> Flags:
        known = np.zeros(samples, np.bool_)
        known[self.position] = True
        return known


@dataclass(frozen=True)
class Sighted:
    """What the attacker makes of them."""

    pick: Ints
    """The trajectory that fits best; -1: none fits."""
    where: Ints
    """The released sample that each known one is taken for; -1: none."""
    score: Ints
    """How well the pick fits: 1,000 for each sample held exactly, 1 for each nearby."""

    @property
    def exact(self) -> Ints:
        """How many samples the pick holds exactly, give or take one for every 1,000 nearby."""
        return self.score // _EXACT


class SightingIndex:
    """Released samples by window of time and cell: who was near a place at a time."""

    def __init__(self, release: ReleaseSeen) -> None:
        self.release = release

    @cached_property
    def _grid(self) -> tuple[Ints, Ints, Ints]:
        """Keys in order, the sample of each, and what keys are made of."""
        x, y, at = self.release.x, self.release.y, self.release.trajectories.at
        column, row = (np.floor(v / NEAR_M).astype(np.int64) for v in (x, y))
        window = at // NEAR_US
        low = [int(k.min()) - 1 if len(k) else 0 for k in (window, column, row)]
        high = [int(k.max()) + 1 if len(k) else 0 for k in (window, column, row)]
        size = [h - lo + 1 for lo, h in zip(low, high, strict=True)]
        folded = size[0] * size[1] * size[2] >= 2**62
        if folded:
            # a bogus position on the other side of the globe: such places share a row or column
            column, row = column & 0xFFFF, row & 0xFFFF
            low[1:], size[1:] = [-1, -1], [0x10002, 0x10002]
        key = ((window - low[0]) * size[1] + (column - low[1])) * size[2] + (row - low[2])
        order = np.argsort(key, kind="stable")
        return key[order], order, np.array([*low, *size, folded], np.int64)

    def find(self, case: Case, known: KnownSamples, rng: np.random.Generator) -> Sighted:
        release = self.release
        x, y = release.shown(case.x[known.position], case.y[known.position])
        at = release.coarse(case.original.at[known.position])
        kept = case.kept[known.position]
        side, chance = release.trajectories, rng.random(len(case))
        until = side.at if release.areas is None else release.areas.until
        parts = map_ranges(
            _sight, known.offsets, known.offsets, x, y, at, kept, *self._grid, release.x, release.y,
            side.at, release.kept, release.trajectory, side.offsets, boxes_of(release)[0], until,
            chance,
        )  # fmt: skip
        return Sighted(*joined(parts))


@njit(nogil=True, cache=True)
def _near(x, y, at, value, keys, order, frame, rx, ry, rat, values, out):  # type: ignore[no-untyped-def]
    """Released samples within reach of a place and time into `out`, which grows; and their number.

    value: what they carry along.
    """
    n = 0
    column, row = int(np.floor(x / NEAR_M)), int(np.floor(y / NEAR_M))
    window = at // NEAR_US
    for w in range(window - 1, window + 2):
        if w < frame[0] or w >= frame[0] + frame[3]:
            continue
        for c in range(column - 1, column + 2):
            for r in range(row - 1, row + 2):
                fc, fr = c, r
                if frame[6]:  # folded
                    fc, fr = c & 0xFFFF, r & 0xFFFF
                fc, fr = fc - frame[1], fr - frame[2]
                if fc < 0 or fc >= frame[4] or fr < 0 or fr >= frame[5]:
                    continue
                key = ((w - frame[0]) * frame[4] + fc) * frame[5] + fr
                k = np.searchsorted(keys, key)
                while k < len(keys) and keys[k] == key:
                    p = order[k]
                    k += 1
                    if values[p] != value:
                        continue
                    dx, dy = rx[p] - x, ry[p] - y
                    if abs(rat[p] - at) <= NEAR_US and dx * dx + dy * dy <= NEAR_M * NEAR_M:
                        if n == len(out):
                            out = np.append(out, np.empty_like(out))
                        out[n] = p
                        n += 1
    return out, n


@njit(nogil=True, cache=True)
def _is_exact(x, y, at, p, rx, ry, rat):  # type: ignore[no-untyped-def]
    return rat[p] == at and abs(rx[p] - x) < _SAME_PLACE_M and abs(ry[p] - y) < _SAME_PLACE_M


@njit(nogil=True, cache=True)
def _best(touched, n, points, chance):  # type: ignore[no-untyped-def]
    """The one with most points, a tie by chance; -1 if there is none."""
    best = ties = 0
    for k in range(n):
        if points[touched[k]] > best:
            best, ties = points[touched[k]], 1
        elif points[touched[k]] == best and best > 0:
            ties += 1
    chosen = min(int(chance * ties), ties - 1)
    for k in range(n):
        if best > 0 and points[touched[k]] == best:
            if chosen == 0:
                return touched[k], best
            chosen -= 1
    return -1, 0


@njit(nogil=True, cache=True)
def _containing(x, y, at, begins, rat, boxes, until, out):  # type: ignore[no-untyped-def]
    """Of each trajectory the sample whose area and interval contain a place and time; their number."""
    n = 0
    for t in range(len(begins) - 1):
        p = begins[t] + np.searchsorted(rat[begins[t] : begins[t + 1]], at, side="right") - 1
        while p >= begins[t] and until[p] >= at:
            if boxes[p, 0] <= x <= boxes[p, 2] and boxes[p, 1] <= y <= boxes[p, 3]:
                out[n] = p
                n += 1
                break
            p -= 1
    return n


@njit(nogil=True, cache=True)
def _sight(  # type: ignore[no-untyped-def]
    first, last, offsets, x, y, at, kept, keys, order, frame, rx, ry, rat, values, carrier, begins,
    boxes, until, chance,
):  # fmt: skip
    carriers, areas = len(begins) - 1, len(boxes) > 0
    begin = offsets[first]
    pick, score = np.empty(last - first, np.int64), np.empty(last - first, np.int64)
    where = np.full(offsets[last] - begin, -1, np.int64)
    points = np.zeros(carriers, np.int64)
    seen = np.full(carriers, -1, np.int64)
    exactly = np.full(carriers, -1, np.int64)
    touched = np.empty(carriers, np.int64)
    near, count = np.empty(max(carriers if areas else 0, 64), np.int64), 0
    for u in range(first, last):
        n = 0
        # first the trajectory that fits best, then what it has of each known sample
        for found in (False, True):
            for i in range(offsets[u], offsets[u + 1]):
                if areas:
                    count = _containing(x[i], y[i], at[i], begins, rat, boxes, until, near)
                else:
                    near, count = _near(
                        x[i], y[i], at[i], kept[i], keys, order, frame, rx, ry, rat, values, near
                    )
                rank = 0
                for p in near[:count]:
                    t = carrier[p]
                    exact = not areas and _is_exact(x[i], y[i], at[i], p, rx, ry, rat)
                    if found:
                        # exact and in the picked one, exact, or at least near in the picked one
                        mine = t == pick[u - first]
                        value = 3 if exact and mine else 2 if exact else 1 if mine else 0
                        if value > rank:
                            rank, where[i - begin] = value, p
                        continue
                    if seen[t] != i:
                        if points[t] == 0:
                            touched[n] = t
                            n += 1
                        seen[t] = i
                        points[t] += 1
                    if exact and exactly[t] != i:
                        exactly[t] = i
                        points[t] += _EXACT
            if not found:
                if areas:
                    touched[:n] = np.sort(touched[:n])
                pick[u - first], score[u - first] = _best(touched, n, points, chance[u])
                for t in touched[:n]:
                    points[t] = 0
    return pick, where, score


def draw_known(
    case: Case, count: int, rng: np.random.Generator, among: Flags | None = None
) -> KnownSamples:
    """So many random samples of each object, or all it has; `among` these, if that is given."""
    if among is None:
        return KnownSamples(*pick_samples(case.original, count, rng))
    offsets, position = pick_samples(case.original.where(among), count, rng)
    return KnownSamples(offsets, np.flatnonzero(among)[position])


def held_samples(case: Case) -> Flags | None:
    """Original samples that the release holds as it shows samples; None: it holds none as such.

    Somebody may be seen at any time, but only what the release holds is found in it: an attacker who
    knows so many of these knows most.
    """
    release = case.release
    owner = release.owners
    if release.areas is not None or (owner < 0).all():
        return None
    x, y = release.shown(case.places.x, case.places.y)
    at_places = np.round(np.concatenate([x, release.places.x]), _DECIMALS) + 1j * np.round(
        np.concatenate([y, release.places.y]), _DECIMALS
    )
    number = np.unique(at_places, return_inverse=True)[1].reshape(-1).astype(np.int32)
    theirs, ours = number[: len(x)], number[len(x) :]
    side = release.trajectories
    rows = np.flatnonzero(owner >= 0)
    order = rows[np.lexsort((side.at[rows], owner[rows]))]
    shown = Trajectories(
        offsets_of(owner[order], len(case)), ours[side.location[order]], side.at[order],
        case.original.start,
    )  # fmt: skip
    asked = replace(
        case.original,
        location=theirs[case.original.location],
        at=release.coarse(case.original.at),
    )
    return ~absent_from(shown, asked, asked.owner)


@njit(nogil=True, cache=True)
def _absent(first, last, offsets, location, at, owner, asked_location, asked_at):  # type: ignore[no-untyped-def]
    absent = np.ones(last - first, np.bool_)
    for i in range(first, last):
        begin, end = offsets[owner[i]], offsets[owner[i] + 1]
        k = begin + np.searchsorted(at[begin:end], asked_at[i])
        while k < end and at[k] == asked_at[i]:
            if location[k] == asked_location[i]:
                absent[i - first] = False
            k += 1
    return (absent,)


def absent_from(others: Trajectories, side: Trajectories, owner: Ids) -> Flags:
    """Samples of `side` that trajectory `owner` of `others` does not have: place or time is new."""
    parts = map_each(
        _absent, side.samples, others.offsets, others.location, others.at, owner, side.location,
        side.at,
    )  # fmt: skip
    (absent,) = joined(parts)
    return absent


def sighting_exposures(
    case: Case, index: SightingIndex, rng: np.random.Generator
) -> tuple[dict[str, float], dict[int, Sighted]]:
    """`exposure.x.<k>`, and what was seen."""
    found: dict[str, float] = {}
    seen: dict[int, Sighted] = {}
    for count in KNOWN_SAMPLES:
        known = draw_known(case, count, rng)
        seen[count] = index.find(case, known, rng)
        score = score_picks(case, seen[count].pick, known.flags(case.original.samples))
        found |= score.named(f"exposure.x.{count}")
    return found, seen


def near_exposures(
    case: Case, seen: dict[int, tuple[KnownSamples, Sighted]], rng: np.random.Generator
) -> dict[str, float]:
    """`exposure.near.<p>`: the best window at even odds."""
    half = (rng.permutation(len(case)) < len(case) // 2).astype(np.int32)
    found: dict[str, float] = {}
    for count, (known, sighted) in seen.items():
        found |= best_at_even_odds(f"exposure.near.{count}", near_known(case, known, sighted), half)
    return found


def near_known(
    case: Case, known: KnownSamples, sighted: Sighted, windows: tuple[int, ...] = _WINDOWS_US
) -> list[AttackScore]:
    """What it is worth to claim, for each known sample, what its trajectory has near it in time."""
    release, side = case.release, case.release.trajectories
    who = owners(known.offsets).astype(np.int64)
    order = np.lexsort((sighted.where, who))
    order = order[sighted.where[order] >= 0]
    who, seen = who[order], sighted.where[order]
    # of each object, the trajectories that hold known samples, with all that they have
    held = new_rows(who, release.trajectory[seen])
    sample, taken = rows_of(side.offsets, release.trajectory[seen[held]])
    claimant, trajectory = who[held][owners(taken)], release.trajectory[sample]
    # the known samples before and after each of these, in its own trajectory
    after = np.searchsorted(who * side.samples + seen, claimant * side.samples + sample)
    away = np.full(len(sample), _ALL_US)
    for nearest in (after - 1, after):
        there = (nearest >= 0) & (nearest < len(seen))
        nearest = np.where(there, nearest, 0)
        there &= (who[nearest] == claimant) & (release.trajectory[seen[nearest]] == trajectory)
        apart = np.abs(side.at[sample] - side.at[seen[nearest]])
        away = np.where(there, np.minimum(away, apart), away)
    claims = Claims(offsets_of(claimant, len(case)), sample, -away.astype(np.float64))
    levels = [-float(window) for window in windows]
    return score_claims(case, claims, levels, known.flags(case.original.samples))
