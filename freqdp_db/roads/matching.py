"""Map matching with the hidden Markov model of Newson and Krumm.

Emission: normal in the distance to the road. Transition: exponential in |route - straight|. A stay
at one place is one step. A chain breaks where a sample has no road within reach, or no route within
bounds leads to it; a new one begins there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.ranges import add, join, joined, map_each, map_ranges, merged
from freqdp_db.progress import Progress
from freqdp_db.roads.network import CANDIDATES, Candidates, Network
from freqdp_db.roads.routes import longest_route, make_scratch, make_ways, routes, search

SIGMA_M = 10.0
_LEAST_BETA_M = SIGMA_M  # where samples are seconds apart, their own noise makes the detours
_BETA_MOVES = 5_000
_AS_NEAR_M = 0.01


@dataclass(frozen=True)
class Matched:
    """The road of each sample (-1: none), and the roads that each trajectory drove, once each."""

    road: Ids
    offsets: Ints
    driven: Ids
    breaks: int
    beta_m: float


@njit(nogil=True, cache=True)
def _emission(away):  # type: ignore[no-untyped-def]
    return -0.5 * (away / SIGMA_M) ** 2


@njit(nogil=True, cache=True)
def _likeliest(stays, count, location, at, x, y, beta, near, graph, scratch, stamp, chosen, linked):  # type: ignore[no-untyped-def]
    """Viterbi over the stays of one trajectory: the candidate of each (-1: none).

    `linked`: whether a route leads to it from the stay before. Returns the next stamp and the breaks.
    """
    roads, _, away = near
    route, leave, enter = make_ways()
    back = np.full((count, CANDIDATES), -1, np.int8)
    score, better = np.full(CANDIDATES, -np.inf), np.empty(CANDIDATES)
    breaks = 0
    begun = -1  # where the open chain began
    for k in range(count + 1):
        v = location[stays[k]] if k < count else -1
        there = v >= 0 and roads[v, 0] >= 0
        reached = False
        if there and begun >= 0:
            u = location[stays[k - 1]]
            straight = math.hypot(x[v] - x[u], y[v] - y[u])
            limit = longest_route(straight, at[stays[k]] - at[stays[k] - 1])
            stamp = routes(u, v, limit, -1, -1, near, graph, scratch, stamp, route, leave, enter)
            for j in range(CANDIDATES):
                better[j] = -np.inf
                for i in range(CANDIDATES):
                    value = score[i] - abs(route[i, j] - straight) / beta
                    if value > better[j]:
                        better[j], back[k, j] = value, i
                if better[j] > -np.inf:
                    better[j] += _emission(away[v, j])
                    reached = True
        if begun >= 0 and not reached:
            # the chain ends with the stay before: back along the likeliest way
            breaks += k < count
            best = 0
            for j in range(CANDIDATES):
                if score[j] > score[best]:
                    best = j
            for s in range(k - 1, begun - 1, -1):
                chosen[s], linked[s] = best, s > begun
                best = back[s, best]
            begun = -1
        if there and not reached:
            begun = k
            for j in range(CANDIDATES):
                better[j] = _emission(away[v, j]) if roads[v, j] >= 0 else -np.inf
        for j in range(CANDIDATES):
            score[j] = better[j]
    return stamp, breaks


@njit(nogil=True, cache=True)
def _match(first, last, offsets, location, at, x, y, beta, near, graph):  # type: ignore[no-untyped-def]
    """The road of each sample; how many each trajectory drove, and which; and the breaks."""
    road = np.full(offsets[last] - offsets[first], -1, np.int32)
    driven_count = np.zeros(last - first, np.int64)
    source, target = graph[0], graph[1]
    roads = near[0]
    scratch = make_scratch(graph)
    came_by = scratch[3]
    route, leave, enter = make_ways()
    goal = np.empty(1, np.int64)
    marked = np.full(len(source), -1, np.int64)
    driven = np.empty(1024, np.int32)
    total, breaks, stamp = 0, 0, 1
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        begun = total
        stays = np.empty(hi - lo + 1, np.int64)
        count = 0
        for i in range(lo, hi):
            if i == lo or location[i] != location[i - 1]:
                stays[count] = i
                count += 1
        stays[count] = hi
        chosen, linked = np.full(count, -1, np.int8), np.zeros(count, np.bool_)
        stamp, broken = _likeliest(
            stays, count, location, at, x, y, beta, near, graph, scratch, stamp, chosen, linked
        )
        breaks += broken
        for k in range(count):
            if chosen[k] < 0:
                continue
            v = location[stays[k]]
            r = roads[v, chosen[k]]
            for i in range(stays[k], stays[k + 1]):
                road[i - offsets[first]] = r
            driven, total = _mark(r, t, marked, driven, total)
            if not linked[k]:
                continue
            # the roads between: the way is searched once more, for this pair alone
            u = location[stays[k - 1]]
            a, b = chosen[k - 1], chosen[k]
            straight = math.hypot(x[v] - x[u], y[v] - y[u])
            limit = longest_route(straight, at[stays[k]] - at[stays[k] - 1])
            stamp = routes(u, v, limit, a, b, near, graph, scratch, stamp, route, leave, enter)
            n, start = enter[a, b], leave[a, b]
            if n < 0:
                continue
            goal[0] = n
            search(start, np.inf, goal, 1, graph, scratch, stamp)
            stamp += 1
            while n != start:
                r = came_by[n]
                driven, total = _mark(r, t, marked, driven, total)
                n = source[r] if target[r] == n else target[r]
        driven_count[t - first] = total - begun
    return road, driven_count, driven[:total], breaks


@njit(nogil=True, cache=True)
def _mark(road, trajectory, marked, driven, total):  # type: ignore[no-untyped-def]
    """List a road of this trajectory, once."""
    if marked[road] != trajectory:
        marked[road] = trajectory
        if total == len(driven):
            driven = np.append(driven, np.empty_like(driven))
        driven[total] = road
        total += 1
    return driven, total


@njit(nogil=True, cache=True)
def _detours(first, last, move_from, move_to, gap_us, x, y, near, graph):  # type: ignore[no-untyped-def]
    """|route - straight| between the nearest roads of two places; -1 if there is no route.

    The two directions of a street may be two roads: of those as near as the nearest, the best pair.
    """
    roads, _, away = near
    detour = np.empty(last - first, np.float64)
    scratch = make_scratch(graph)
    route, leave, enter = make_ways()
    stamp = 1
    for m in range(first, last):
        u, v = move_from[m], move_to[m]
        straight = math.hypot(x[v] - x[u], y[v] - y[u])
        limit = longest_route(straight, gap_us[m])
        stamp = routes(u, v, limit, -1, -1, near, graph, scratch, stamp, route, leave, enter)
        best = np.inf
        for i in range(CANDIDATES):
            for j in range(CANDIDATES):
                nearest = away[u, i] <= away[u, 0] + _AS_NEAR_M
                nearest = nearest and away[v, j] <= away[v, 0] + _AS_NEAR_M
                if nearest and roads[u, i] >= 0 and roads[v, j] >= 0:
                    best = min(best, abs(route[i, j] - straight))
        detour[m - first] = best if best < np.inf else -1.0
    return (detour,)


def match(
    network: Network,
    candidates: Candidates,
    trajectories: Trajectories,
    locations: Locations,
    progress: Progress,
    name: str = "match",
) -> Matched:
    """Put every trajectory on the roads."""
    near = (candidates.road, candidates.along, candidates.away)
    beta = _beta(trajectories, locations, near, network.graph)
    with progress.stage(name, len(trajectories), "trajectories") as stage:
        parts = map_ranges(
            _match, trajectories.offsets, trajectories.offsets, trajectories.location,
            trajectories.at, locations.x, locations.y, beta, near, network.graph,
            advance=stage.advance,
        )  # fmt: skip
    road, count, driven, breaks = merged(parts, join, join, join, add)
    return Matched(road, offsets_from(count), driven, breaks, beta)


def _beta(
    trajectories: Trajectories,
    locations: Locations,
    near: tuple[Any, Any, Any],
    graph: tuple[Any, ...],
) -> float:
    """Median of |route - straight| between nearest roads, over ln 2 (Newson and Krumm)."""
    owner = trajectories.owner
    a, b = trajectories.location[:-1], trajectories.location[1:]
    on_road = near[0][:, 0] >= 0
    moves = np.flatnonzero((owner[:-1] == owner[1:]) & (a != b) & on_road[a] & on_road[b])
    if not len(moves):
        return _LEAST_BETA_M
    some = moves[np.unique(np.linspace(0, len(moves) - 1, _BETA_MOVES).astype(np.int64))]
    parts = map_each(
        _detours, len(some), a[some], b[some], np.diff(trajectories.at)[some],
        locations.x, locations.y, near, graph,
    )  # fmt: skip
    (detour,) = joined(parts)
    found = detour[detour >= 0]
    if not len(found):
        return _LEAST_BETA_M
    return max(float(np.median(found)) / math.log(2), _LEAST_BETA_M)
