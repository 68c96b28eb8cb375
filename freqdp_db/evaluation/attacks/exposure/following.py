"""The follower: knows a few exact samples, the method and its parameters, and follows the trace.

From each known sample it goes forward and backward; wherever the method may have changed the
identity it takes the continuation with the least change of velocity. With several known samples a
trace is followed to half the time to the next one: beyond, that one knows better. The value is the
largest share found, over horizons, at which claims are right at even odds on average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numba import njit

from freqdp_db.columns.days import HOUR_US
from freqdp_db.columns.sorting import stable_order
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.evaluation.attacks.exposure.case import Case
from freqdp_db.evaluation.attacks.exposure.claims import Worth, boxes_of, until_of, worth_of
from freqdp_db.evaluation.attacks.exposure.joints import Joints
from freqdp_db.evaluation.attacks.exposure.sightings import KnownSamples, Sighted

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
            found[u - first, h], right[u - first, h] = worth_of(
                u, offsets, ux, uy, ut, known, claim[age <= horizons[h]], x, y, at, boxes, until
            )
    return found, right


def follow(
    case: Case, joints: Joints, known: KnownSamples, sighted: Sighted, *, by_rhythm: bool
) -> list[Worth]:
    """What the follower's claims are worth at each horizon."""
    release, side = case.release, case.release.trajectories
    horizons = np.array(
        [_ENDLESS_US if h is None else h * HOUR_US for h in HORIZONS_H.values()], np.int64
    )
    parts = map_ranges(
        _follow_all, case.original.offsets, case.original.offsets, case.x, case.y,
        case.original.at, known.flags(case.original.samples), known.offsets, sighted.where,
        release.x, release.y, side.at, side.offsets, release.ends, release.trajectory,
        joints.group, joints.offsets, joints.stop, joints.after, joints.before,
        boxes_of(release), until_of(release), by_rhythm, horizons,
    )  # fmt: skip
    found, right = joined(parts)
    return [Worth(f, r) for f, r in zip(found.T, right.T, strict=True)]


def following_exposures(
    case: Case,
    joints: Joints,
    seen: dict[int, tuple[KnownSamples, Sighted]],
    done: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """`exposure.follow.<p>` and `exposure.rhythm.<p>` with every horizon beside them.

    `done` is called after each of them.
    """
    result: dict[str, float] = {}
    for attack, by_rhythm in FOLLOWERS.items():
        for count, (known, sighted) in seen.items():
            worths = follow(case, joints, known, sighted, by_rhythm=by_rhythm)
            name = f"exposure.{attack}.{count}"
            result |= best_at_even_odds(name, worths) | _by_horizon(name, worths)
            done()
    return result


def best_at_even_odds(name: str, worths: Iterable[Worth]) -> dict[str, float]:
    """The claims that find most, of those that are right at least every second time."""
    best = dict.fromkeys((name, f"{name}.precision", f"{name}.half", f"{name}.p95"), 0.0)
    for worth in worths:
        at = worth.named(name)
        if at[f"{name}.precision"] >= _EVEN_ODDS and at[name] > best[name]:
            best = at
    return best


def _by_horizon(name: str, worths: list[Worth]) -> dict[str, float]:
    by_horizon: dict[str, float] = {}
    for horizon, worth in zip(HORIZONS_H, worths, strict=True):
        at = worth.named(name)
        label = f"{name}.{horizon}"
        by_horizon[label] = at[name]
        by_horizon[f"{label}.precision"] = at[f"{name}.precision"]
    return by_horizon
