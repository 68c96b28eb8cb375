"""The follower: knows a few exact samples, the method and its parameters, and follows the trace.

From each known sample it goes forward and backward. At a *swap point*, where the method may have
changed the identity, it takes the continuation with the least change of velocity: at a swap one of
the stops that met, at a cut the piece that goes on best by place, time and velocity. With several known
samples a trace is followed to half the time to the next one: beyond, that one knows better. The value
is the largest share found, over horizons, at which claims are right at even odds on average.
`relink` is the share of the swap points that the follower undoes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import add, joined, map_each, map_ranges, merged
from freqdp_db.evaluation.attacks.claims import AttackScore, boxes_of, score_claim, until_of
from freqdp_db.evaluation.attacks.known_samples import KnownSamples, Sighted
from freqdp_db.evaluation.pair import Case, ReleaseSeen
from freqdp_db.model.arrays import Ints
from freqdp_db.model.days import HOUR_US
from freqdp_db.model.kernels import stable_order

_CELL_M = 1_000.0
_RINGS = 2
_LONGEST_US = 3 * HOUR_US
# Waiting costs as much as standing this far off for every second.
_SLOWEST_M_S = 0.5
# The last velocity says where somebody is for so long, and not much longer.
_MEMORY_S = 90.0
_TURN_S = 30.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SwapPoints:
    """Choices of a follower."""

    group: Ints
    """The group of stops that each released sample is in; -1: none."""
    offsets: Ints
    stop: Ints
    after: Ints
    """First sample of the piece that goes on best from each trajectory; -1: none."""
    before: Ints
    """Last sample of the piece that comes before best; -1: none."""


def find_swap_points(release: ReleaseSeen) -> SwapPoints:
    """All swap points that the release's method may have made."""
    side = release.trajectories
    group = np.full(side.samples, -1, np.int64)
    offsets, stop = np.zeros(1, np.int64), np.zeros(0, np.int64)
    if release.groups is not None:
        offsets, stop = release.groups.offsets, release.groups.stop
        group[stop] = release.groups.of_members()
    after = before = np.full(len(side), -1, np.int64)
    if release.pieces:
        after, before = join_pieces(release)
    return SwapPoints(group, offsets, stop, after, before)


def join_pieces(release: ReleaseSeen) -> tuple[Ints, Ints]:
    """For each piece the first sample of its best successor and the last of its best predecessor."""
    side = release.trajectories
    filled = np.flatnonzero(side.lengths > 0)
    head, tail = side.offsets[filled], side.offsets[filled + 1] - 1
    second, second_last = np.minimum(head + 1, tail), np.maximum(tail - 1, head)
    starts = (release.x[head], release.y[head], side.at[head], *_velocity(release, head, second))
    ends = (release.x[tail], release.y[tail], side.at[tail], *_velocity(release, second_last, tail))
    after, before = (np.full(len(side), -1, np.int64) for _ in range(2))
    nearest = _nearest_pieces(ends, starts)
    after[filled] = np.where(nearest >= 0, head[nearest], -1)
    # backwards in time the same question is asked from the other end
    nearest = _nearest_pieces(_reversed(starts), _reversed(ends))
    before[filled] = np.where(nearest >= 0, tail[nearest], -1)
    return after, before


Ends = tuple[Floats, Floats, Ints, Floats, Floats]


def _reversed(ends: Ends) -> Ends:
    x, y, at, vx, vy = ends
    return x, y, -at, -vx, -vy


def _velocity(release: ReleaseSeen, a: Ints, b: Ints) -> tuple[Floats, Floats]:
    """Metres a second from sample a to sample b; 0 for a piece of one sample."""
    seconds = np.maximum((release.trajectories.at[b] - release.trajectories.at[a]) / 1e6, 1.0)
    return (release.x[b] - release.x[a]) / seconds, (release.y[b] - release.y[a]) / seconds


def _nearest_pieces(ends: Ends, starts: Ends) -> Ints:
    """For each end the start that follows best, by number; -1: none within reach."""
    x, y, at = starts[:3]
    column, row = np.floor(x / _CELL_M).astype(np.int64), np.floor(y / _CELL_M).astype(np.int64)
    code = column * np.int64(2**31) + row
    order = np.lexsort((at, code))
    cells, begins = np.unique(code[order], return_index=True)
    begins = np.append(begins, len(order)).astype(np.int64)
    parts = map_each(
        _join, len(ends[0]), *ends, *(column_[order] for column_ in starts), order, cells, begins
    )
    (found,) = joined(parts)
    return found


@njit(nogil=True, cache=True)
def _join(  # type: ignore[no-untyped-def]
    first, last, ex, ey, et, evx, evy, sx, sy, st, svx, svy, order, cells, begins
):
    found = np.full(last - first, -1, np.int64)
    for e in range(first, last):
        column, row = int(np.floor(ex[e] / _CELL_M)), int(np.floor(ey[e] / _CELL_M))
        best = np.inf
        for c in range(column - _RINGS, column + _RINGS + 1):
            for r in range(row - _RINGS, row + _RINGS + 1):
                code = c * np.int64(2**31) + r
                k = np.searchsorted(cells, code)
                if k == len(cells) or cells[k] != code:
                    continue
                i = begins[k] + np.searchsorted(st[begins[k] : begins[k + 1]], et[e] + 1)
                while i < begins[k + 1] and st[i] - et[e] <= _LONGEST_US:
                    seconds = (st[i] - et[e]) / 1e6
                    if _SLOWEST_M_S * seconds > best:
                        break
                    ahead = min(seconds, _MEMORY_S)
                    off = np.hypot(sx[i] - ex[e] - evx[e] * ahead, sy[i] - ey[e] - evy[e] * ahead)
                    turn = np.hypot(svx[i] - evx[e], svy[i] - evy[e])
                    cost = off + _SLOWEST_M_S * seconds + _TURN_S * turn
                    if cost < best:
                        best = cost
                        found[e - first] = order[i]
                    i += 1
    return (found,)


HORIZONS_H = {"1h": 1, "3h": 3, "6h": 6, "12h": 12, "24h": 24, "endless": None}
"""Hours, by what their metrics are called."""
_ENDLESS_US = 2**62
FOLLOWERS = {"follow": False, "rhythm": True}
"""By velocity alone, and by the intervals between samples besides."""
_EVEN_ODDS = 0.5
# So much change of velocity is as strange as an interval that is twice as odd.
_TURN_M_S = 3.0


@njit(nogil=True, cache=True)
def _seconds(a, b, at):  # type: ignore[no-untyped-def]
    return max(abs(at[b] - at[a]) / 1e6, 1.0)


@njit(nogil=True, cache=True)
def _turn(a, b, c, x, y, at):  # type: ignore[no-untyped-def]
    """Change of velocity at b, metres a second; the same in both directions of time."""
    before, after = _seconds(a, b, at), _seconds(b, c, at)
    return np.hypot(
        (x[c] - x[b]) / after - (x[b] - x[a]) / before,
        (y[c] - y[b]) / after - (y[b] - y[a]) / before,
    )


@njit(nogil=True, cache=True)
def _off_beat(seconds, usual):  # type: ignore[no-untyped-def]
    """How far an interval is from another one, from its double and from its half."""
    return min(abs(seconds - usual), abs(seconds - 2 * usual), abs(2 * seconds - usual))


@njit(nogil=True, cache=True)
def _misfit(earlier, prior, p, b, beyond, x, y, at, by_rhythm):  # type: ignore[no-untyped-def]
    """How badly b and what lies beyond it go on from p and what the follower knows behind it.

    Samples that are not known are -1. By rhythm: devices send at intervals of their own, and an
    interval that fits tells as much as a velocity does.
    """
    if prior >= 0:
        cost = _turn(prior, p, b, x, y, at)
    elif beyond >= 0:
        cost = _turn(p, b, beyond, x, y, at)
    else:
        cost = np.hypot(x[b] - x[p], y[b] - y[p]) / _seconds(p, b, at)
    if not by_rhythm:
        return cost
    cost /= _TURN_M_S
    here = _seconds(p, b, at)
    if prior >= 0:
        usual = _seconds(prior, p, at)
        off = _off_beat(here, usual)
        if earlier >= 0:
            off = min(off, _off_beat(here, _seconds(earlier, prior, at)))
        cost += np.log1p(off)
        if beyond >= 0:
            off = abs(_seconds(b, beyond, at) - usual)
            if earlier >= 0:
                off = min(off, abs(_seconds(b, beyond, at) - _seconds(earlier, prior, at)))
            cost += np.log1p(off) / 2
    elif beyond >= 0:
        cost += np.log1p(_off_beat(here, _seconds(b, beyond, at)))
    return cost


@njit(nogil=True, cache=True)
def next_sample(  # type: ignore[no-untyped-def]
    p, prior, earlier, x, y, at, ends, trajectory, group, offsets, stop, after, by_rhythm
):
    """Where the follower goes on from p, having come by `earlier` and `prior` (-1: not known)."""
    g = group[p]
    if g < 0:
        return after[trajectory[p]] if ends[p] else p + 1
    best, chosen = np.inf, -1
    for m in range(offsets[g], offsets[g + 1]):
        s = stop[m]
        b = after[trajectory[s]] if ends[s] else s + 1
        # what follows a stop is later, even if coarsened times are equal; a piece has to be
        if b < 0 or (ends[s] and at[b] <= at[p]):
            continue
        beyond = -1 if ends[b] else b + 1
        cost = _misfit(earlier, prior, p, b, beyond, x, y, at, by_rhythm)
        if cost < best:
            best, chosen = cost, b
    return chosen


@njit(nogil=True, cache=True)
def sample_before(  # type: ignore[no-untyped-def]
    p, later, latest, x, y, at, begins, trajectory, group, offsets, stop, before, by_rhythm
):
    """Where the follower comes from at p, having gone on to `later` and `latest` (-1: not known)."""
    heads = p == begins[trajectory[p]]
    q = before[trajectory[p]] if heads else p - 1
    if q < 0 or group[q] < 0:
        return q
    g = group[q]
    best, chosen = np.inf, -1
    for m in range(offsets[g], offsets[g + 1]):
        s = stop[m]
        if heads and at[s] >= at[p]:
            continue
        beyond = -1 if s == begins[trajectory[s]] else s - 1
        cost = _misfit(latest, later, p, s, beyond, x, y, at, by_rhythm)
        if cost < best:
            best, chosen = cost, s
    return chosen


@njit(nogil=True, cache=True)
def follow_one(  # type: ignore[no-untyped-def]
    u, known_offsets, where, x, y, at, begins, ends, trajectory, group, group_offsets, stop, after,
    before, by_rhythm,
):  # fmt: skip
    """What the follower claims for an object, in order of time; and how far from a known sample."""
    seen = where[known_offsets[u] : known_offsets[u + 1]].copy()
    times = np.empty(len(seen), np.int64)
    for k in range(len(seen)):
        times[k] = at[seen[k]] if seen[k] >= 0 else _ENDLESS_US
    order = stable_order(times)
    claim, age, n = np.empty(256, np.int64), np.empty(256, np.int64), 0
    for k in range(len(seen)):
        p = seen[order[k]]
        if p < 0:
            continue
        since, to = -_ENDLESS_US, _ENDLESS_US
        if k > 0:
            since = (times[order[k - 1]] + at[p]) // 2
        if k + 1 < len(seen) and seen[order[k + 1]] >= 0:
            to = (times[order[k + 1]] + at[p]) // 2
        for way in range(2):
            here, prior, earlier = p, -1, -1
            if way == 0 and p != begins[trajectory[p]] and group[p - 1] < 0:
                prior = p - 1
            if way == 1 and not ends[p] and group[p] < 0:
                prior = p + 1
            while here >= 0 and since <= at[here] <= to:
                if n == len(claim):
                    more = np.empty_like(claim)
                    claim, age = np.append(claim, more), np.append(age, more)
                if way == 0 or here != p:
                    claim[n], age[n] = here, abs(at[here] - at[p])
                    n += 1
                if way == 0:
                    step = next_sample(
                        here, prior, earlier, x, y, at, ends, trajectory, group, group_offsets,
                        stop, after, by_rhythm,
                    )  # fmt: skip
                else:
                    step = sample_before(
                        here, prior, earlier, x, y, at, begins, trajectory, group,
                        group_offsets, stop, before, by_rhythm,
                    )  # fmt: skip
                here, prior, earlier = step, here, prior
    in_time = stable_order(at[claim[:n]])
    return claim[in_time], age[in_time]


@njit(nogil=True, cache=True)
def _follow_all(  # type: ignore[no-untyped-def]
    first, last, offsets, ux, uy, ut, known, known_offsets, where, x, y, at, begins, ends,
    trajectory, group, group_offsets, stop, after, before, boxes, until, by_rhythm,
    horizons,
):  # fmt: skip
    """Shares found and right of each object's claim, at each horizon."""
    found = np.empty((last - first, len(horizons)))
    right = np.empty((last - first, len(horizons)))
    for u in range(first, last):
        claim, age = follow_one(
            u, known_offsets, where, x, y, at, begins, ends, trajectory, group, group_offsets,
            stop, after, before, by_rhythm,
        )  # fmt: skip
        for h in range(len(horizons)):
            found[u - first, h], right[u - first, h] = score_claim(
                u, offsets, ux, uy, ut, known, claim[age <= horizons[h]], x, y, at, boxes, until
            )
    return found, right


def follow(
    case: Case, swap_points: SwapPoints, known: KnownSamples, sighted: Sighted, *, by_rhythm: bool
) -> list[AttackScore]:
    """What the follower's claims are worth at each horizon."""
    release, side = case.release, case.release.trajectories
    horizons = np.array(
        [_ENDLESS_US if h is None else h * HOUR_US for h in HORIZONS_H.values()], np.int64
    )
    parts = map_ranges(
        _follow_all, case.original.offsets, case.original.offsets, case.x, case.y,
        case.original.at, known.flags(case.original.samples), known.offsets, sighted.where,
        release.x, release.y, side.at, side.offsets, release.ends, release.trajectory,
        swap_points.group, swap_points.offsets, swap_points.stop, swap_points.after, swap_points.before,
        boxes_of(release), until_of(release), by_rhythm, horizons,
    )  # fmt: skip
    found, right = joined(parts)
    return [AttackScore(f, r) for f, r in zip(found.T, right.T, strict=True)]


def following_exposures(
    case: Case,
    swap_points: SwapPoints,
    seen: dict[int, tuple[KnownSamples, Sighted]],
    done: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """`exposure.follow.<p>` and `exposure.rhythm.<p>` with every horizon beside them.

    `done` is called after each of them.
    """
    result: dict[str, float] = {}
    for attack, by_rhythm in FOLLOWERS.items():
        for count, (known, sighted) in seen.items():
            scores = follow(case, swap_points, known, sighted, by_rhythm=by_rhythm)
            name = f"exposure.{attack}.{count}"
            result |= best_at_even_odds(name, scores) | _by_horizon(name, scores)
            done()
    return result


def best_at_even_odds(name: str, scores: Iterable[AttackScore]) -> dict[str, float]:
    """The claims that find most, of those that are right at least every second time."""
    best = dict.fromkeys((name, f"{name}.precision", f"{name}.half", f"{name}.p95"), 0.0)
    for score in scores:
        at = score.named(name)
        if at[f"{name}.precision"] >= _EVEN_ODDS and at[name] > best[name]:
            best = at
    return best


def _by_horizon(name: str, scores: list[AttackScore]) -> dict[str, float]:
    by_horizon: dict[str, float] = {}
    for horizon, score in zip(HORIZONS_H, scores, strict=True):
        at = score.named(name)
        label = f"{name}.{horizon}"
        by_horizon[label] = at[name]
        by_horizon[f"{label}.precision"] = at[f"{name}.precision"]
    return by_horizon


@njit(nogil=True, cache=True)
def _relink_swaps(  # type: ignore[no-untyped-def]
    first, last, offsets, stop, owner, prior_of, x, y, at, ends, trajectory, group, after,
    by_rhythm,
):  # fmt: skip
    """Asked and answered right, where the object goes on from the group."""
    asked = right = 0
    for g in range(first, last):
        for m in range(offsets[g], offsets[g + 1]):
            p = stop[m]
            goes_on = False
            for k in range(offsets[g], offsets[g + 1]):
                s = stop[k]
                goes_on |= not ends[s] and owner[s + 1] == owner[p]
            if goes_on:
                prior = prior_of[p]
                earlier = prior_of[prior] if prior >= 0 else -1
                chosen = next_sample(
                    p, prior, earlier, x, y, at, ends, trajectory, group, offsets, stop, after,
                    by_rhythm,
                )  # fmt: skip
                asked += 1
                if chosen >= 0 and owner[chosen] == owner[p]:
                    right += 1
    return asked, right


def relink(release: ReleaseSeen, swap_points: SwapPoints) -> dict[str, float]:
    """Share of the swap points that the follower gets right: `relink`, and `relink.rhythm`.

    At a swap the follower has been right so far; beside the whole stand swaps and cuts alone. A
    release without swap points has neither.
    """
    side, owner = release.trajectories, release.owners
    order = np.lexsort((side.at, owner))
    same = owner[order][1:] == owner[order][:-1]
    prior_of, next_of = (np.full(side.samples, -1, np.int64) for _ in range(2))
    prior_of[order[1:][same]] = order[:-1][same]
    next_of[order[:-1][same]] = order[1:][same]
    cuts, joined = _relink_cuts(release, swap_points, next_of) if release.pieces else (0, 0)
    found: dict[str, float] = {}
    for attack, by_rhythm in FOLLOWERS.items():
        name = "relink" if attack == "follow" else f"relink.{attack}"
        asked, right = _tally_swaps(release, swap_points, prior_of, by_rhythm=by_rhythm)
        if asked + cuts:
            found[name] = (right + joined) / (asked + cuts)
        if asked and cuts:
            found[f"{name}.swap"] = right / asked
            found[f"{name}.cut"] = joined / cuts
    return found


def _tally_swaps(
    release: ReleaseSeen, swap_points: SwapPoints, prior_of: Ints, *, by_rhythm: bool
) -> tuple[int, int]:
    if len(swap_points.offsets) < 2:
        return 0, 0
    parts = map_ranges(
        _relink_swaps, swap_points.offsets, swap_points.offsets, swap_points.stop, release.owners, prior_of,
        release.x, release.y, release.trajectories.at, release.ends, release.trajectory,
        swap_points.group, swap_points.after, by_rhythm,
    )  # fmt: skip
    asked, right = merged(parts, add, add)
    return asked, right


def _relink_cuts(release: ReleaseSeen, swap_points: SwapPoints, next_of: Ints) -> tuple[int, int]:
    """Piece ends whose object goes on in another piece, and those joined with that one."""
    tail = np.flatnonzero(release.ends)
    truth = next_of[tail]
    there = truth >= 0
    there[there] &= release.trajectory[truth[there]] != release.trajectory[tail[there]]
    chosen = swap_points.after[release.trajectory[tail[there]]]
    return int(there.sum()), int((chosen == truth[there]).sum())
