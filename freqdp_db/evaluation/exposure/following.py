"""The follower: knows a few exact samples, the method and its parameters, and follows the trace.

From each known sample it goes forward and backward; wherever the method may have changed the
identity it takes the continuation with the least change of velocity. With several known samples a
trace is followed to half the time to the next one: beyond, that one knows better. The value is the
largest share found, over horizons, at which claims are right at even odds on average.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.evaluation.exposure.case import Case, Release
from freqdp_db.evaluation.exposure.claims import Worth, boxes_of, until_of, worth_of
from freqdp_db.evaluation.exposure.joints import Joints
from freqdp_db.evaluation.exposure.sightings import Known, Sighted
from freqdp_db.model import Ints
from freqdp_db.parallel import over_ranges
from freqdp_db.sorting import stable_order

HORIZONS_H = (1, 3, 6, 12, 24, None)
_HOUR_US = 3_600_000_000
_ENDLESS_US = 2**62
_EVEN_ODDS = 0.5


@njit(nogil=True, cache=True)
def _turn(px, py, pt, ax, ay, at, bx, by, bt):  # type: ignore[no-untyped-def]
    """Change of velocity at the middle of three points, metres a second."""
    before, after = max((at - pt) / 1e6, 1.0), max((bt - at) / 1e6, 1.0)
    return np.hypot(
        (bx - ax) / after - (ax - px) / before, (by - ay) / after - (ay - py) / before
    )  # fmt: skip


@njit(nogil=True, cache=True)
def next_sample(p, prior, x, y, at, ends, trajectory, group, offsets, stop, after):  # type: ignore[no-untyped-def]
    """Where the follower goes on from p, having come from `prior` (-1: from nowhere)."""
    g = group[p]
    if g < 0:
        return after[trajectory[p]] if ends[p] else p + 1
    best, chosen = np.inf, -1
    for m in range(offsets[g], offsets[g + 1]):
        s = stop[m]
        b = after[trajectory[s]] if ends[s] else s + 1
        if b < 0 or at[b] <= at[p]:
            continue
        cost = 0.0
        if prior >= 0:
            cost += _turn(x[prior], y[prior], at[prior], x[p], y[p], at[p], x[b], y[b], at[b])
        if not ends[b] and (group[b] < 0 or prior < 0):
            cost += _turn(x[p], y[p], at[p], x[b], y[b], at[b], x[b + 1], y[b + 1], at[b + 1])
        elif prior >= 0:
            cost *= 2.0
        if cost < best:
            best, chosen = cost, b
    return chosen


@njit(nogil=True, cache=True)
def sample_before(p, later, x, y, at, begins, ends, trajectory, group, offsets, stop, before):  # type: ignore[no-untyped-def]
    """Where the follower comes from at p, having gone on to `later` (-1: to nowhere)."""
    heads = p == begins[trajectory[p]]
    q = before[trajectory[p]] if heads else p - 1
    if q < 0 or group[q] < 0:
        return q
    g = group[q]
    best, chosen = np.inf, -1
    for m in range(offsets[g], offsets[g + 1]):
        s = stop[m]
        if at[s] >= at[p]:
            continue
        cost = 0.0
        if later >= 0:
            cost += _turn(x[s], y[s], at[s], x[p], y[p], at[p], x[later], y[later], at[later])
        prior = s - 1
        has = s != begins[trajectory[s]]
        if has and (group[prior] < 0 or later < 0):
            cost += _turn(x[prior], y[prior], at[prior], x[s], y[s], at[s], x[p], y[p], at[p])
        elif later >= 0:
            cost *= 2.0
        if cost < best:
            best, chosen = cost, s
    return chosen


@njit(nogil=True, cache=True)
def _follow_all(  # type: ignore[no-untyped-def]
    first, last, offsets, ux, uy, ut, known, known_offsets, where, x, y, at, begins, ends,
    trajectory, group, group_offsets, stop, after, before, boxes, until, horizons, found, right,
):  # fmt: skip
    for u in range(first, last):
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
                here, prior = p, -1
                if way == 0 and p != begins[trajectory[p]] and group[p - 1] < 0:
                    prior = p - 1
                if way == 1 and not ends[p] and group[p] < 0:
                    prior = p + 1
                while here >= 0 and since <= at[here] <= to:
                    if n == len(claim):
                        wider, older = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
                        for i in range(n):
                            wider[i], older[i] = claim[i], age[i]
                        claim, age = wider, older
                    if way == 0 or here != p:
                        claim[n], age[n] = here, abs(at[here] - at[p])
                        n += 1
                    if way == 0:
                        step = next_sample(
                            here, prior, x, y, at, ends, trajectory, group, group_offsets, stop,
                            after,
                        )  # fmt: skip
                    else:
                        step = sample_before(
                            here, prior, x, y, at, begins, ends, trajectory, group, group_offsets,
                            stop, before,
                        )  # fmt: skip
                    here, prior = step, here
        moment = np.empty(n, np.int64)
        for i in range(n):
            moment[i] = at[claim[i]]
        in_time = stable_order(moment)
        for h in range(len(horizons)):
            chosen, c = np.empty(n, np.int64), 0
            for i in range(n):
                if age[in_time[i]] <= horizons[h]:
                    chosen[c] = claim[in_time[i]]
                    c += 1
            found[h, u], right[h, u] = worth_of(
                u, offsets, ux, uy, ut, known, chosen[:c], x, y, at, boxes, until
            )  # fmt: skip


def follow(case: Case, joints: Joints, known: Known, sighted: Sighted) -> list[Worth]:
    """What the follower's claims are worth at each horizon."""
    release, side = case.release, case.release.trajectories
    horizons = np.array([_ENDLESS_US if h is None else h * _HOUR_US for h in HORIZONS_H], np.int64)
    found, right = (np.full((len(horizons), len(case)), np.nan) for _ in range(2))
    over_ranges(
        _follow_all, case.original.offsets, case.original.offsets, case.x, case.y,
        case.original.at, known.flags(case.original.samples), known.offsets, sighted.where,
        release.x, release.y, side.at, side.offsets, release.ends, release.trajectory,
        joints.group, joints.offsets, joints.stop, joints.after, joints.before,
        boxes_of(release), until_of(release), horizons, found, right,
    )  # fmt: skip
    return [Worth(f, r) for f, r in zip(found, right, strict=True)]


def following_exposures(
    case: Case, joints: Joints, seen: dict[int, tuple[Known, Sighted]]
) -> dict[str, float]:
    """`exposure.follow.<p>` with every horizon beside it."""
    result: dict[str, float] = {}
    for count, (known, sighted) in seen.items():
        name = f"exposure.follow.{count}"
        by_horizon: dict[str, float] = {}
        best = Worth(np.zeros(len(case)), np.full(len(case), np.nan)).named(name)
        for hours, worth in zip(HORIZONS_H, follow(case, joints, known, sighted), strict=True):
            at = worth.named(name)
            label = f"{name}.{'endless' if hours is None else f'{hours}h'}"
            by_horizon[label] = at[name]
            by_horizon[f"{label}.precision"] = at[f"{name}.precision"]
            if at[f"{name}.precision"] >= _EVEN_ODDS and at[name] > best[name]:
                best = at
        result |= best | by_horizon
    return result


@njit(nogil=True, cache=True)
def _relink_swaps(  # type: ignore[no-untyped-def]
    first, last, offsets, stop, owner, prior_of, x, y, at, ends, trajectory, group, after, tally
):
    for g in range(first, last):
        for m in range(offsets[g], offsets[g + 1]):
            p = stop[m]
            goes_on = False
            for k in range(offsets[g], offsets[g + 1]):
                s = stop[k]
                goes_on |= not ends[s] and owner[s + 1] == owner[p]
            if goes_on:
                chosen = next_sample(
                    p, prior_of[p], x, y, at, ends, trajectory, group, offsets, stop, after
                )
                tally[g, 0] += 1
                tally[g, 1] += chosen >= 0 and owner[chosen] == owner[p]


def relink(release: Release, joints: Joints) -> dict[str, float]:
    """Share of the joints that the follower gets right: of swaps, of cuts, and of all."""
    side, owner = release.trajectories, release.owners
    tally = np.zeros((max(len(joints.offsets) - 1, 0), 2), np.int64)
    order = np.lexsort((side.at, owner))
    prior_of = np.full(side.samples, -1, np.int64)
    same = owner[order][1:] == owner[order][:-1]
    prior_of[order[1:][same]] = order[:-1][same]
    if len(tally):
        over_ranges(
            _relink_swaps, joints.offsets, joints.offsets, joints.stop, owner, prior_of, release.x,
            release.y, side.at, release.ends, release.trajectory, joints.group, joints.after, tally,
        )  # fmt: skip
    asked, right = (int(column.sum()) for column in tally.T)
    found = {"relink.swap": right / asked} if asked else {}
    if release.pieces:
        cuts, joined = _relink_cuts(release, joints, order)
        if cuts:
            found["relink.cut"] = joined / cuts
        asked, right = asked + cuts, right + joined
    return {"relink": right / asked, **found} if asked else {}


def _relink_cuts(release: Release, joints: Joints, order: Ints) -> tuple[int, int]:
    """Piece ends whose object goes on in another piece, and those joined with that one."""
    owner, trajectory = release.owners, release.trajectory
    next_of = np.full(release.trajectories.samples, -1, np.int64)
    same = owner[order][1:] == owner[order][:-1]
    next_of[order[:-1][same]] = order[1:][same]
    tail = np.flatnonzero(release.ends)
    truth = next_of[tail]
    there = truth >= 0
    there[there] &= trajectory[truth[there]] != trajectory[tail[there]]
    chosen = joints.after[trajectory[tail[there]]]
    return int(there.sum()), int((chosen == truth[there]).sum())
