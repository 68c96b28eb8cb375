"""The re-linker: joins what a method took apart, by what it learnt from other objects.

A *run* is a stretch of a released trajectory that is one object's: it ends with the trajectory, and
where identities may have been swapped. Which run goes on from which is learnt. Candidates know the
published rule: at a swap, the continuations of all who met; at a cut, starts after the quiet time that
can be reached, starts soon after it that are near, and starts up to 14 h later that are very near. Where
samples carry columns along, starts with the values of the end come first.
Gradient-boosted trees that learnt from the true links of half of the objects give each pair its odds.
These are normalised over all that may follow an end and all that may precede a start, with "nobody" among
them, and links are taken one to one, the likeliest first. From the runs of known samples the attacker
goes on both ways while the product of the posteriors stays above a threshold; the threshold that finds
most at even odds counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_each, map_ranges
from freqdp_db.evaluation.attacks.claims import Claims
from freqdp_db.evaluation.attacks.known_samples import KnownSamples, Sighted
from freqdp_db.evaluation.attacks.learning import LEAST, SPLITS, Features, cross_test, trees
from freqdp_db.evaluation.attacks.points import is_of_points
from freqdp_db.evaluation.pair import Case, ReleaseSeen
from freqdp_db.model.arrays import Flags, Ids, Ints, offsets_of
from freqdp_db.model.days import HOUR_US

_SECOND_US = 1_000_000
_SOON_US, _LATER_US, _LATEST_US = 150 * _SECOND_US, 600 * _SECOND_US, 14 * HOUR_US
_NEAR_M, _VERY_NEAR_M = 3_000.0, 500.0
_FASTEST_M_S = 40.0
_MOST_OF_A_CLASS = 12
"""Candidates of one end by one class of gap and distance: those that fit best."""
_MOST_PAIRS = 10_000_000
"""With more ends, fewer candidates of each."""
_MOST_OF_A_GROUP = 24
_CLASSES = 3
# Waiting costs as much as standing this far off for every second; the last velocity says where
# somebody is for so long, and not much longer.
_SLOWEST_M_S, _MEMORY_S, _TURN_S = 0.5, 90.0, 30.0
_METRES_PER_S = 100.0 / 3600
"""Of starts hours later: an hour is as far as 100 m."""
_OTHER_VALUES_M = 3_000.0
"""A start that carries other values along than the end is as far as one so much farther away."""
_CHUNK = 500_000
_MOST_TO_LEARN = 200_000
_TREES: dict[str, Any] = {"max_iter": 80, "max_depth": 6, "learning_rate": 0.15}
_ROUNDS = 3
_MOST_POINTS = 20_000
"""More single samples than this are only followed to the nearest (`points.py`)."""
_LARGE = 2_000_000
"""With more pairs than this, one split has to do."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Runs:
    """Stretches of released trajectories that are one object's."""

    offsets: Ints
    """Run r has the samples offsets[r] to offsets[r + 1] - 1."""
    of: Ints
    """The run of each sample."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def first(self) -> Ints:
        return self.offsets[:-1]

    @property
    def last(self) -> Ints:
        return self.offsets[1:] - 1


def find_runs(release: ReleaseSeen) -> Runs:
    """A run ends with its trajectory, and where identities may have been dealt anew."""
    last = release.trajectories.ends.copy()
    if release.groups is not None:
        last[release.groups.stop] = True
    ends = np.flatnonzero(last) + 1
    of: Ints = np.cumsum(last) - last
    return Runs(np.concatenate([[0], ends]).astype(np.int64), of)


@dataclass(frozen=True)
class Pairs:
    """Runs that may follow each other: candidates, in order of the runs that end."""

    end: Ids
    """The run that ends."""
    start: Ids
    """The run that may go on."""
    offsets: Ints
    """Pairs of each run that ends."""
    by_start: Ints
    """The pairs in order of the runs that start."""
    start_offsets: Ints

    @classmethod
    def of(cls, end: Ids, start: Ids, runs: int) -> Pairs:
        order = np.lexsort((start, end))
        end, start = end[order], start[order]
        by_start = np.argsort(start, kind="stable")
        return cls(end, start, offsets_of(end, runs), by_start, offsets_of(start[by_start], runs))

    def __len__(self) -> int:
        return len(self.end)


def find_pairs(release: ReleaseSeen, runs: Runs, traits: Floats) -> Pairs:
    """All candidates: those of swaps, and those of cuts."""
    parts = []
    cut_ends = release.trajectories.ends[runs.last]
    if release.groups is not None:
        offsets, stop = release.groups.offsets, release.groups.stop
        run = runs.of[stop]
        parts.append(
            joined(
                map_ranges(_pairs_of_groups, offsets, offsets, run, release.trajectories.ends[stop])
            )
        )
        # who meets somebody whose piece ends may be the one who ends
        group = release.groups.of_members()
        ended = np.bincount(group, release.trajectories.ends[stop], len(release.groups)) > 0
        cut_ends = cut_ends.copy()
        cut_ends[run[ended[group]]] = True
    if release.pieces:
        parts.append(_pairs_of_pieces(release, runs, traits, np.flatnonzero(cut_ends)))
    end, start = (np.concatenate(column).astype(np.int32) for column in zip(*parts, strict=True))
    return Pairs.of(end, start, len(runs))


@njit(nogil=True, cache=True)
def _pairs_of_groups(first, last, offsets, run, ends):  # type: ignore[no-untyped-def]
    """Each who stops with each continuation; of a crowd, the nearest in its order."""
    n = 0
    for g in range(first, last):
        size = offsets[g + 1] - offsets[g]
        n += size * min(size, 2 * _MOST_OF_A_GROUP + 1)
    end, start, n = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for g in range(first, last):
        for m in range(offsets[g], offsets[g + 1]):
            low = max(offsets[g], m - _MOST_OF_A_GROUP)
            for k in range(low, min(offsets[g + 1], m + _MOST_OF_A_GROUP + 1)):
                if not ends[k]:
                    end[n], start[n] = run[m], run[k] + 1
                    n += 1
    return end[:n].copy(), start[:n].copy()


def _pairs_of_pieces(
    release: ReleaseSeen, runs: Runs, traits: Floats, ends: Ints
) -> tuple[Ints, Ints]:
    """By class: reachable just after the quiet time, near and soon, very near and later."""
    side = release.trajectories
    starts = runs.of[side.offsets[:-1][side.lengths > 0]]
    starts = starts[np.argsort(side.at[runs.first[starts]], kind="stable")]
    at = side.at[runs.first[starts]]
    x, y = release.x[runs.first[starts]], release.y[runs.first[starts]]
    cell = np.floor(x / _VERY_NEAR_M).astype(np.int64) << 32
    cell += np.floor(y / _VERY_NEAR_M).astype(np.int64)
    by_cell = np.argsort(cell, kind="stable")
    cells, begins = np.unique(cell[by_cell], return_index=True)
    begins = np.append(begins, len(by_cell)).astype(np.int64)
    tail = runs.last[ends]
    soon = max(_SOON_US, 2 * (release.clock_us or 0))
    parts = map_each(
        _find_starts, len(ends), release.x[tail], release.y[tail], side.at[tail],
        release.kept[tail], traits[ends].astype(np.float64), x, y, at,
        release.kept[runs.first[starts]], traits[starts].astype(np.float64), by_cell, cells, begins,
        release.quiet_after(side.at[tail]), soon, max(soon, _LATER_US),
        max(min(_MOST_OF_A_CLASS, _MOST_PAIRS // (_CLASSES * max(len(ends), 1))), 1),
    )  # fmt: skip
    e, s = joined(parts)
    return ends[e], starts[s]


@njit(nogil=True, cache=True)
def _keep_best(cost, who, n, new_cost, new):  # type: ignore[no-untyped-def]
    """Insert a candidate into a short list in order of cost; how many there are then."""
    if n == len(cost):
        if new_cost >= cost[n - 1]:
            return n
        n -= 1
    k = n
    while k > 0 and cost[k - 1] > new_cost:
        cost[k], who[k] = cost[k - 1], who[k - 1]
        k -= 1
    cost[k], who[k] = new_cost, new
    return n + 1


@njit(nogil=True, cache=True)
def _find_starts(  # type: ignore[no-untyped-def]
    first, last, ex, ey, et, ek, ends, sx, sy, st, sk, starts, by_cell, cells, begins, quiet, soon,
    later, most,
):  # fmt: skip
    room = (last - first) * _CLASSES * most
    end, start, n = np.empty(room, np.int64), np.empty(room, np.int64), 0
    cost, who = np.empty((_CLASSES, most)), np.empty((_CLASSES, most), np.int64)
    for e in range(first, last):
        counts = np.zeros(_CLASSES, np.int64)
        i = np.searchsorted(st, et[e] + max(quiet[e], 1))
        while i < len(st) and st[i] - et[e] <= quiet[e] + later:
            seconds = (st[i] - et[e]) / 1e6
            away = np.hypot(sx[i] - ex[e], sy[i] - ey[e])
            c = -1
            if st[i] - et[e] <= quiet[e] + soon:
                c = 0 if away <= _FASTEST_M_S * seconds + _VERY_NEAR_M else -1
            elif away <= _NEAR_M:
                c = 1
            if c >= 0:
                ahead = min(seconds, _MEMORY_S)
                off = np.hypot(
                    sx[i] - ex[e] - ends[e, _TAIL_VX] * ahead,
                    sy[i] - ey[e] - ends[e, _TAIL_VY] * ahead,
                )
                turn = np.hypot(
                    starts[i, _HEAD_VX] - ends[e, _TAIL_VX], starts[i, _HEAD_VY] - ends[e, _TAIL_VY]
                )
                worth = off + _SLOWEST_M_S * seconds + _TURN_S * turn
                worth += _OTHER_VALUES_M * (sk[i] != ek[e])
                counts[c] = _keep_best(cost[c], who[c], counts[c], worth, i)
            i += 1
        column, row = int(np.floor(ex[e] / _VERY_NEAR_M)), int(np.floor(ey[e] / _VERY_NEAR_M))
        for c in range(column - 1, column + 2):
            for r in range(row - 1, row + 2):
                code = (np.int64(c) << 32) + r
                k = np.searchsorted(cells, code)
                if k == len(cells) or cells[k] != code:
                    continue
                part = by_cell[begins[k] : begins[k + 1]]
                j = np.searchsorted(part, i)  # starts are numbered in order of time
                while j < len(part) and st[part[j]] - et[e] <= _LATEST_US:
                    later_one = part[j]
                    away = np.hypot(sx[later_one] - ex[e], sy[later_one] - ey[e])
                    if away <= _VERY_NEAR_M:
                        worth = away + _METRES_PER_S * (st[later_one] - et[e]) / 1e6
                        worth += _OTHER_VALUES_M * (sk[later_one] != ek[e])
                        counts[2] = _keep_best(cost[2], who[2], counts[2], worth, later_one)
                    j += 1
        for c in range(_CLASSES):
            for m in range(counts[c]):
                end[n], start[n] = e, who[c, m]
                n += 1
    return end[:n].copy(), start[:n].copy()


(
    _TAIL_VX, _TAIL_VY, _HEAD_VX, _HEAD_VY, _LONG_TAIL_VX, _LONG_TAIL_VY, _LONG_HEAD_VX,
    _LONG_HEAD_VY, _INTERVAL, _LASTS, _SIZE, _SPEED, _STRAIGHT, _TRAITS,
) = range(14)  # fmt: skip
_LONG_US = 300 * _SECOND_US


@njit(nogil=True, cache=True)
def _set_velocity(row, k, a, b, x, y, at):  # type: ignore[no-untyped-def]
    seconds = max((at[b] - at[a]) / 1e6, 1.0)
    row[k], row[k + 1] = (x[b] - x[a]) / seconds, (y[b] - y[a]) / seconds


@njit(nogil=True, cache=True)
def _run_traits(first, last, offsets, x, y, at):  # type: ignore[no-untyped-def]
    """Of each run: velocities at its ends, interval, duration, samples, speed, straightness."""
    traits = np.zeros((last - first, _TRAITS), np.float32)
    for r in range(first, last):
        row = traits[r - first]
        a, b = offsets[r], offsets[r + 1] - 1
        row[_LASTS], row[_SIZE] = (at[b] - at[a]) / 1e6, b - a + 1
        if a == b:
            row[_INTERVAL] = np.nan
            continue
        _set_velocity(row, _TAIL_VX, b - 1, b, x, y, at)
        _set_velocity(row, _HEAD_VX, a, a + 1, x, y, at)
        k = b
        while k > a and at[b] - at[k] < _LONG_US:
            k -= 1
        _set_velocity(row, _LONG_TAIL_VX, k, b, x, y, at)
        k = a
        while k < b and at[k] - at[a] < _LONG_US:
            k += 1
        _set_velocity(row, _LONG_HEAD_VX, a, k, x, y, at)
        gaps = at[a + 1 : b + 1] - at[a:b]
        row[_INTERVAL] = np.median(gaps) / 1e6
        way = 0.0
        for i in range(a, b):
            way += np.hypot(x[i + 1] - x[i], y[i + 1] - y[i])
        row[_SPEED] = way / max(row[_LASTS], 1.0)
        row[_STRAIGHT] = np.hypot(x[b] - x[a], y[b] - y[a]) / max(way, 1.0)
    return (traits,)


_SEEN = 42
_RIVALRY = 10


@njit(nogil=True, cache=True)
def _angle(ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """Between two vectors, as a cosine; not a number if one of them is 0."""
    size = np.hypot(ax, ay) * np.hypot(bx, by)
    return (ax * bx + ay * by) / size if size > 1e-6 else np.nan


@njit(nogil=True, cache=True)
def _off_beat(seconds, interval):  # type: ignore[no-untyped-def]
    """How far a time is from a multiple of an interval."""
    if not interval > 0.0:
        return np.nan
    rest = seconds % interval
    return min(rest, interval - rest)


@njit(nogil=True, cache=True)
def _pair_features(first, last, rows, ends, starts, offsets, traits, x, y, at, kept, quiet):  # type: ignore[no-untyped-def]
    found = np.empty((last - first, _SEEN), np.float32)
    for n in range(first, last):
        out = found[n - first]
        a, b = ends[rows[n]], starts[rows[n]]
        e, s = offsets[a + 1] - 1, offsets[b]
        p, q = traits[a], traits[b]
        gap = (at[s] - at[e]) / 1e6
        dx, dy = x[s] - x[e], y[s] - y[e]
        away = np.hypot(dx, dy)
        k = 0
        out[0], out[1], out[2] = gap, gap - quiet, away
        out[3] = away / max(gap, 1.0)
        k = 4
        # where each side expects the other one to be
        for column in (_TAIL_VX, _LONG_TAIL_VX):
            for ahead in (gap, min(gap, _MEMORY_S)):
                out[k] = np.hypot(dx - p[column] * ahead, dy - p[column + 1] * ahead)
                k += 1
        for column in (_HEAD_VX, _LONG_HEAD_VX):
            for back in (gap, min(gap, _MEMORY_S)):
                out[k] = np.hypot(dx - q[column] * back, dy - q[column + 1] * back)
                k += 1
        for tail, head in ((_TAIL_VX, _HEAD_VX), (_LONG_TAIL_VX, _LONG_HEAD_VX)):
            px, py, qx, qy = p[tail], p[tail + 1], q[head], q[head + 1]
            out[k] = np.hypot(dx - (px + qx) * gap / 2, dy - (py + qy) * gap / 2)
            out[k + 1] = np.hypot(qx - px, qy - py)
            out[k + 2] = np.hypot(qx, qy) - np.hypot(px, py)
            out[k + 3] = _angle(px, py, dx, dy)
            out[k + 4] = _angle(dx, dy, qx, qy)
            out[k + 5] = _angle(px, py, qx, qy)
            out[k + 6] = away / max(gap, 1.0) - (np.hypot(qx, qy) + np.hypot(px, py)) / 2
            k += 7
        out[k], out[k + 1] = p[_INTERVAL], q[_INTERVAL]
        out[k + 2] = abs(np.log(max(p[_INTERVAL], 0.1) / max(q[_INTERVAL], 0.1)))
        out[k + 3], out[k + 4] = _off_beat(gap, p[_INTERVAL]), _off_beat(gap, q[_INTERVAL])
        out[k + 5] = (at[s] - at[e]) // _SECOND_US % 60
        out[k + 6], out[k + 7] = at[e] // _SECOND_US % 60, at[s] // _SECOND_US % 60
        out[k + 8], out[k + 9] = p[_LASTS], q[_LASTS]
        out[k + 10], out[k + 11] = p[_SIZE], q[_SIZE]
        out[k + 12] = at[e] // HOUR_US % 24
        out[k + 13], out[k + 14] = p[_SPEED] - q[_SPEED], p[_STRAIGHT] - q[_STRAIGHT]
        out[k + 15] = kept[e] == kept[s]
    return (found,)


@njit(nogil=True, cache=True)
def _rivalry(first, last, offsets, order, cost, away, gap):  # type: ignore[no-untyped-def]
    """Of each pair among those of its run: how many, its ranks, and how far from the best other."""
    found = np.empty((offsets[last] - offsets[first], _RIVALRY // 2), np.float32)
    for r in range(first, last):
        lo, hi = offsets[r], offsets[r + 1]
        for i in range(lo, hi):
            m = order[i]
            out = found[i - offsets[first]]
            out[:] = 0.0
            out[0] = hi - lo
            best = np.inf
            for j in range(lo, hi):
                k = order[j]
                if k != m:
                    best = min(best, cost[k])
                    out[1] += cost[k] < cost[m]
                    out[2] += away[k] < away[m]
                    out[3] += gap[k] < gap[m]
            out[4] = cost[m] - best if hi - lo > 1 else np.nan
    return (found,)


@dataclass(frozen=True)
class Joints:
    """Everything that may be joined in a release, as the attacker sees it; and what is true of it."""

    release: ReleaseSeen
    runs: Runs
    traits: Floats
    pairs: Pairs
    rivals: Features
    owner: Ids
    """The object of each run; -1: nobody's."""
    true: Flags
    """Whether each pair is what an object did next."""
    goes_on: Flags
    """Whether the object of each run goes on in another one."""

    def features(self, rows: Ints) -> Features:
        """What the release shows of these pairs, and how each ranks among its rivals."""
        release, pairs = self.release, self.pairs
        parts = map_each(
            _pair_features, len(rows), rows, pairs.end, pairs.start, self.runs.offsets, self.traits,
            release.x, release.y, release.trajectories.at, release.kept, release.quiet_us / 1e6,
        )  # fmt: skip
        (seen,) = joined(parts)
        return np.hstack([seen, self.rivals[rows]])


def find_joints(release: ReleaseSeen) -> Joints | None:
    """None: nothing was taken apart."""
    side = release.trajectories
    if (release.groups is None and not release.pieces) or not side.samples:
        return None
    if side.samples > _MOST_POINTS and is_of_points(release):
        return None
    runs = find_runs(release)
    (traits,) = joined(
        map_ranges(_run_traits, runs.offsets, runs.offsets, release.x, release.y, side.at)
    )
    pairs = find_pairs(release, runs, traits)
    owner = release.owners[runs.first]
    order = np.lexsort((runs.first, release.true_at[runs.first], owner))
    follows = np.full(len(runs), -1, np.int64)
    same = (owner[order][1:] == owner[order][:-1]) & (owner[order][1:] >= 0)
    follows[order[:-1][same]] = order[1:][same]
    true: Flags = follows[pairs.end] == pairs.start
    rivals = _rivals(release, runs, traits, pairs)
    return Joints(release, runs, traits, pairs, rivals, owner, true, follows >= 0)


def _rivals(release: ReleaseSeen, runs: Runs, traits: Floats, pairs: Pairs) -> Features:
    """Of each pair among the others of its end, and among those of its start."""
    tail, head = runs.last[pairs.end], runs.first[pairs.start]
    gap = (release.trajectories.at[head] - release.trajectories.at[tail]) / 1e6
    dx, dy = release.x[head] - release.x[tail], release.y[head] - release.y[tail]
    away = np.hypot(dx, dy)
    ahead = np.minimum(gap, _MEMORY_S)
    v = traits[:, _TAIL_VX : _TAIL_VY + 1][pairs.end]
    w = traits[:, _HEAD_VX : _HEAD_VY + 1][pairs.start]
    cost = np.hypot(dx - v[:, 0] * ahead, dy - v[:, 1] * ahead)
    cost += _SLOWEST_M_S * gap + _TURN_S * np.hypot(*(w - v).T)
    cost += _OTHER_VALUES_M * (release.kept[tail] != release.kept[head])
    found = np.empty((len(pairs), _RIVALRY), np.float32)
    every = np.arange(len(pairs))
    for part, offsets, order in (
        (0, pairs.offsets, every),
        (1, pairs.start_offsets, pairs.by_start),
    ):
        columns = slice(part * _RIVALRY // 2, (part + 1) * _RIVALRY // 2)
        (told,) = joined(map_ranges(_rivalry, offsets, offsets, order, cost, away, gap))
        found[order, columns] = told
    return found


@dataclass(frozen=True)
class Links:
    """Which run goes on from which, and how likely that is; -1: nobody does."""

    after: Ints
    before: Ints
    likely_after: Floats
    likely_before: Floats

    @classmethod
    def none(cls, runs: int) -> Links:
        nobody, never = np.full(runs, -1, np.int64), np.zeros(runs, np.float32)
        return cls(nobody, nobody.copy(), never, never.copy())


def learn_links(joints: Joints, learn: Flags, rng: np.random.Generator) -> Links:
    """Trained on the links of some objects, found for all runs."""
    pairs = joints.pairs
    known = (joints.owner >= 0) & np.append(learn, False)[joints.owner]
    rows = np.flatnonzero(known[pairs.end])
    if len(rows) > _MOST_TO_LEARN:
        # whole lists of candidates
        keep = rng.random(len(joints.runs)) < _MOST_TO_LEARN / len(rows)
        rows = rows[keep[pairs.end[rows]]]
    odds = np.zeros(len(pairs), np.float32)
    score = trees(joints.features(rows), joints.true[rows], **_TREES)
    for begin in range(0, len(pairs), _CHUNK):
        part = np.arange(begin, min(begin + _CHUNK, len(pairs)))
        odds[part] = np.exp(score(joints.features(part)))
    return assign(pairs, posteriors(pairs, odds), len(joints.runs))


def posteriors(pairs: Pairs, odds: Floats) -> Floats:
    """Of each pair, given that an end has one successor at most, and a start one predecessor.

    Sums over rivals on both sides in turn (belief propagation for matchings); alone, a pair of odds o
    has o / (1 + o).
    """
    from_start = np.ones(len(pairs), np.float32)
    from_end = from_start
    for _ in range(_ROUNDS):
        message = odds * from_start
        total = np.bincount(pairs.end, message, len(pairs.offsets) - 1)
        from_end = (1.0 / (1.0 + np.maximum(total[pairs.end] - message, 0.0))).astype(np.float32)
        message = odds * from_end
        total = np.bincount(pairs.start, message, len(pairs.offsets) - 1)
        from_start = (1.0 / (1.0 + np.maximum(total[pairs.start] - message, 0.0))).astype(
            np.float32
        )
    both = odds * from_end * from_start
    likely: Floats = both / (1.0 + both)
    return likely


def assign(pairs: Pairs, likely: Floats, runs: int) -> Links:
    """One to one, the likeliest first."""
    order = np.argsort(-likely, kind="stable")
    order = order[likely[order] >= LEAST]
    chosen_after, chosen_before = _assign(order, pairs.end, pairs.start, runs)
    links = Links.none(runs)
    for chosen, other, to, how in (
        (chosen_after, pairs.start, links.after, links.likely_after),
        (chosen_before, pairs.end, links.before, links.likely_before),
    ):
        linked = chosen >= 0
        to[linked], how[linked] = other[chosen[linked]], likely[chosen[linked]]
    return links


@njit(nogil=True, cache=True)
def _assign(order, end, start, runs):  # type: ignore[no-untyped-def]
    after, before = np.full(runs, -1, np.int64), np.full(runs, -1, np.int64)
    for pair in order:
        if after[end[pair]] < 0 and before[start[pair]] < 0:
            after[end[pair]] = pair
            before[start[pair]] = pair
    return after, before


def claim_linked(
    runs: Runs, links: Links, known: KnownSamples, sighted: Sighted, attack: Flags
) -> Claims:
    """From the runs of known samples both ways, while the product of the posteriors is large enough."""
    who = np.repeat(np.arange(len(attack)), np.diff(known.offsets))
    there = (sighted.where >= 0) & attack[who]
    who, run = who[there], runs.of[sighted.where[there]]
    steps = [(who, run, np.ones(len(who)))]
    for to, likely in ((links.after, links.likely_after), (links.before, links.likely_before)):
        on, here, product = steps[0]
        # links may go in a circle: after so many, every run has been met
        for _ in range(len(runs)):
            product, here = product * likely[here], to[here]
            goes_on = (here >= 0) & (product >= LEAST)
            on, here, product = on[goes_on], here[goes_on], product[goes_on]
            if not len(on):
                break
            steps.append((on, here, product))
    who, run, worth = (np.concatenate(column) for column in zip(*steps, strict=True))
    return Claims.of_groups(len(attack), who, run, worth, runs.offsets)


def relinked_exposures(
    case: Case,
    joints: Joints | None,
    seen: Mapping[int, tuple[KnownSamples, Sighted]],
    rng: np.random.Generator,
) -> dict[str, float]:
    """`exposure.relink.<p>` and `relink`; nothing where nothing was taken apart."""
    if joints is None:
        return {}
    tallies = []

    def claims_by(learn: Flags, attack: Flags) -> dict[str, Claims]:
        links = learn_links(joints, learn, rng)
        tallies.append(_tally(joints, links, attack))
        return {
            f"exposure.relink.{count}": claim_linked(joints.runs, links, *what, attack)
            for count, what in seen.items()
        }

    samples = case.original.samples
    known = {f"exposure.relink.{count}": k.flags(samples) for count, (k, _) in seen.items()}
    splits = SPLITS if len(joints.pairs) <= _LARGE else 1
    found = cross_test(case, np.arange(len(case)), known, claims_by, rng, splits)
    return _named_tallies(np.sum(tallies, axis=0), joints) | found


def _tally(joints: Joints, links: Links, asked: Flags) -> NDArray[np.int64]:
    """Of swaps and of cuts: where an object goes on, where that was found, and what was joined."""
    mine = (joints.owner >= 0) & np.append(asked, False)[joints.owner]
    cut = joints.release.trajectories.ends[joints.runs.last]
    true_start = np.full(len(mine), -2, np.int64)
    pairs = joints.pairs
    true_start[pairs.end[joints.true]] = pairs.start[joints.true]
    linked = links.after >= 0
    hit = linked & (links.after == true_start)
    return np.array(
        [
            [(mine & part & what).sum() for what in (joints.goes_on, hit, linked)]
            for part in (~cut, cut)
        ]
    )


def _named_tallies(tallies: NDArray[np.int64], joints: Joints) -> dict[str, float]:
    """`relink`: share of the joints that are found, with its precision; swaps and cuts apart."""
    swaps, cuts = tallies
    named = {"relink": swaps + cuts}
    if joints.release.groups is not None and joints.release.pieces:
        named |= {"relink.swap": swaps, "relink.cut": cuts}
    found: dict[str, float] = {}
    for name, (goes_on, hit, linked) in named.items():
        if goes_on:
            found[name] = float(hit / goes_on)
            found[f"{name}.precision"] = float(hit / max(linked, 1))
    return found
