"""Map matching with the hidden Markov model of Newson and Krumm.

Emission: normal in the distance to the road. Transition: exponential in |route - straight|. A stay
at one place is one step. A chain breaks where a sample has no road within reach, or no route within
bounds leads to it; a new one begins there. Kernels hand each other `graph` (a `RoadGraph`) and `near`: the
candidate roads of each place, metres along them and metres away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import add, join, joined, map_each, map_ranges, merged
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_from
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.progress import Progress
from freqdp_db.roads.network import CANDIDATES, REACH_M, Candidates, Network, find_candidates
from freqdp_db.roads.router import make_scratch, search

SIGMA_M = 10.0
_LEAST_BETA_M = SIGMA_M  # where samples are seconds apart, their own noise makes the detours
_BETA_MOVES = 5_000
_AS_NEAR_M = 0.01
_FASTEST_M_PER_S = 50.0
_DETOUR = 8.0
_AT_ONCE = 500_000
"""Samples whose passages are found at a time."""
_JITTER_M = 50.0
"""So far back on a one-way road is noise along it (5 sigma), not a drive around the block."""


@dataclass(frozen=True)
class Matched:
    """The road of each sample (-1: none), and the roads that each trajectory drove, once each."""

    road: Ids
    offsets: Ints
    driven: Ids
    breaks: int
    beta_m: float


@dataclass(frozen=True)
class Passages:
    """Roads passed: a trajectory passes a road when its way comes to the middle of it.

    It has to leave the road before it can pass it again. Along its way between two samples it moves at
    constant speed.
    """

    offsets: Ints
    """Trajectory t has the passages offsets[t] to offsets[t + 1] - 1, in the order of their times."""
    road: Ids
    at: Ints
    speed: Metres
    """Metres per second; infinite between two samples of the same time."""


@njit(nogil=True, cache=True)
def _make_ways():  # type: ignore[no-untyped-def]
    """What `_routes` fills in for each pair of candidates: route, leave, enter."""
    pairs = (CANDIDATES, CANDIDATES)
    return np.empty(pairs, np.float64), np.empty(pairs, np.int64), np.empty(pairs, np.int64)


@njit(nogil=True, cache=True)
def _ends(place, only, leaving, near, graph, node, metres):  # type: ignore[no-untyped-def]
    """Junctions through which each candidate can be left (or entered), and how far they are."""
    source, target, oneway, length = graph.source, graph.target, graph.oneway, graph.length
    roads, along, _ = near
    for i in range(CANDIDATES):
        node[i, 0] = node[i, 1] = -1
        r = roads[place, i]
        if r < 0 or (only >= 0 and i != only):
            continue
        ahead, behind = length[r] - along[place, i], along[place, i]
        if leaving or not oneway[r]:
            node[i, 0], metres[i, 0] = target[r], ahead
        if not leaving or not oneway[r]:
            node[i, 1], metres[i, 1] = source[r], behind


@njit(nogil=True, cache=True)
def _distinct(node, found):  # type: ignore[no-untyped-def]
    """The junctions of these ends, each once; how many."""
    count = 0
    for i in range(CANDIDATES):
        for end in range(2):
            new = node[i, end] >= 0
            for k in range(count):
                if found[k] == node[i, end]:
                    new = False
            if new:
                found[count] = node[i, end]
                count += 1
    return count


@njit(nogil=True, cache=True)
def _longest_route(straight, gap_us):  # type: ignore[no-untyped-def]
    """How long a route may be, beside the way between samples and their roads."""
    return min(_FASTEST_M_PER_S * gap_us / 1e6, _DETOUR * straight)


@njit(nogil=True, cache=True)
def _routes(u, v, limit, only_u, only_v, near, graph, scratch, route, leave, enter):  # type: ignore[no-untyped-def]
    """Shortest way from each candidate of place u to each of place v, if within the limit; else inf.

    `leave` and `enter`: the first and last junction of the way (-1: it stays on one road). `only_u`
    and `only_v` ask for one candidate instead of all (-1).
    """
    oneway = graph.oneway
    roads, along, away = near
    cost, done = scratch.cost, scratch.done
    out_node, out_metres = np.empty((CANDIDATES, 2), np.int64), np.empty((CANDIDATES, 2))
    in_node, in_metres = np.empty((CANDIDATES, 2), np.int64), np.empty((CANDIDATES, 2))
    _ends(u, only_u, True, near, graph, out_node, out_metres)
    _ends(v, only_v, False, near, graph, in_node, in_metres)
    exits, entries = np.empty(2 * CANDIDATES, np.int64), np.empty(2 * CANDIDATES, np.int64)
    starts, targets = _distinct(out_node, exits), _distinct(in_node, entries)
    for i in range(CANDIDATES):
        for j in range(CANDIDATES):
            route[i, j], leave[i, j], enter[i, j] = np.inf, -1, -1
    # one search serves all candidates that are left through the same junction
    for k in range(starts):
        bound = limit + 2 * REACH_M
        stamp = search(exits[k], -1, entries, targets, bound, None, graph, scratch)
        for i in range(CANDIDATES):
            for out in range(2):
                if out_node[i, out] != exits[k]:
                    continue
                for j in range(CANDIDATES):
                    for into in range(2):
                        n = in_node[j, into]
                        if n >= 0 and done[n] == stamp:
                            whole = out_metres[i, out] + cost[n] + in_metres[j, into]
                            if whole < route[i, j]:
                                route[i, j], leave[i, j], enter[i, j] = whole, exits[k], n
    for i in range(CANDIDATES):
        for j in range(CANDIDATES):
            r = roads[u, i]
            if r < 0 or roads[v, j] < 0:
                continue
            ahead = along[v, j] - along[u, i]
            on_one_road = r == roads[v, j] and (ahead >= -_JITTER_M or not oneway[r])
            if on_one_road and abs(ahead) <= route[i, j]:
                route[i, j], leave[i, j], enter[i, j] = abs(ahead), -1, -1
            if route[i, j] > limit + away[u, i] + away[v, j]:
                route[i, j] = np.inf


@njit(nogil=True, cache=True)
def _way(u, v, a, b, lasts, location_x, location_y, near, graph, scratch, ways, arcs):  # type: ignore[no-untyped-def]
    """The way from candidate a of place u to candidate b of place v: its arcs, the last one first.

    Returns how many there are, the junctions where they begin and end (-1: it stays on one road), and
    `arcs`, which may have grown.
    """
    route, leave, enter = ways
    straight = math.hypot(location_x[v] - location_x[u], location_y[v] - location_y[u])
    limit = _longest_route(straight, lasts)
    _routes(u, v, limit, a, b, near, graph, scratch, route, leave, enter)
    start, end = leave[a, b], enter[a, b]
    count = 0
    if end >= 0:
        goal = np.full(1, end, np.int64)
        search(start, -1, goal, 1, np.inf, None, graph, scratch)
        n = end
        while n != start:
            if count == len(arcs):
                arcs = np.append(arcs, np.empty_like(arcs))
            arcs[count] = scratch.came_by[n]
            n = graph.arc_from[arcs[count]]
            count += 1
    return count, start, end, arcs


@njit(nogil=True, cache=True)
def _stays_between(first, last, location):  # type: ignore[no-untyped-def]
    """Where the stays of a trajectory begin, then its end; how many there are."""
    stays = np.empty(last - first + 1, np.int64)
    count = 0
    for i in range(first, last):
        if i == first or location[i] != location[i - 1]:
            stays[count] = i
            count += 1
    stays[count] = last
    return stays, count


@njit(nogil=True, cache=True)
def _emission(away):  # type: ignore[no-untyped-def]
    return -0.5 * (away / SIGMA_M) ** 2


@njit(nogil=True, cache=True)
def _likeliest(stays, count, location, at, x, y, beta, near, graph, scratch, chosen, linked):  # type: ignore[no-untyped-def]
    """Viterbi over the stays of one trajectory: the candidate of each (-1: none).

    `linked`: whether a route leads to it from the stay before. Returns the breaks.
    """
    roads, _, away = near
    route, leave, enter = _make_ways()
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
            limit = _longest_route(straight, at[stays[k]] - at[stays[k] - 1])
            _routes(u, v, limit, -1, -1, near, graph, scratch, route, leave, enter)
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
    return breaks


@njit(nogil=True, cache=True)
def _match(first, last, offsets, location, at, x, y, beta, near, graph):  # type: ignore[no-untyped-def]
    """The road of each sample; how many each trajectory drove, and which; and the breaks."""
    road = np.full(offsets[last] - offsets[first], -1, np.int32)
    driven_count = np.zeros(last - first, np.int64)
    roads = near[0]
    scratch = make_scratch(graph)
    ways, arcs = _make_ways(), np.empty(64, np.int64)
    marked = np.full(len(graph.source), -1, np.int64)
    driven = np.empty(1024, np.int32)
    total, breaks = 0, 0
    for t in range(first, last):
        begun = total
        stays, count = _stays_between(offsets[t], offsets[t + 1], location)
        chosen, linked = np.full(count, -1, np.int8), np.zeros(count, np.bool_)
        breaks += _likeliest(
            stays, count, location, at, x, y, beta, near, graph, scratch, chosen, linked
        )
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
            u, lasts = location[stays[k - 1]], at[stays[k]] - at[stays[k] - 1]
            arcs_between, _, _, arcs = _way(
                u, v, chosen[k - 1], chosen[k], lasts, x, y, near, graph, scratch, ways, arcs
            )
            for arc in arcs[:arcs_between]:
                driven, total = _mark(graph.arc_road[arc], t, marked, driven, total)
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
def _end_at(road, junction, along, leaving, graph):  # type: ignore[no-untyped-def]
    """How far along a road its end at a junction is, by which it is left or entered; of two, the nearer."""
    metres = graph.length[road]
    both_ways = not graph.oneway[road]
    at_target = graph.target[road] == junction and (leaving or both_ways)
    at_source = graph.source[road] == junction and (not leaving or both_ways)
    if at_target and (not at_source or metres - along <= along):
        return metres
    return 0.0


@njit(nogil=True, cache=True)
def _passages(first, last, offsets, location, at, x, y, beta, near, graph):  # type: ignore[no-untyped-def]
    """How many passages each trajectory has; of each its road, its time, and metres per second."""
    counts = np.zeros(last - first, np.int64)
    road, when, speed = np.empty(1024, np.int32), np.empty(1024, np.int64), np.empty(1024)
    roads, along, _ = near
    scratch = make_scratch(graph)
    ways, arcs = _make_ways(), np.empty(64, np.int64)
    total = 0
    for t in range(first, last):
        begun = total
        stays, count = _stays_between(offsets[t], offsets[t + 1], location)
        chosen, linked = np.full(count, -1, np.int8), np.zeros(count, np.bool_)
        _likeliest(stays, count, location, at, x, y, beta, near, graph, scratch, chosen, linked)
        on, passed = -1, False  # the road that it is on, and whether it has passed its middle
        for k in range(count):
            if not linked[k]:
                on = -1
                continue
            u, v, a, b = location[stays[k - 1]], location[stays[k]], chosen[k - 1], chosen[k]
            departs = at[stays[k] - 1]
            lasts = at[stays[k]] - departs
            between, start, end, arcs = _way(
                u, v, a, b, lasts, x, y, near, graph, scratch, ways, arcs
            )
            # parts of the way: what is left of the first road, all of those between, some of the last
            parts = 1 if end < 0 else between + 2
            part_road = np.empty(parts, np.int64)
            begins, ends = np.empty(parts), np.empty(parts)
            part_road[0], begins[0] = roads[u, a], along[u, a]
            part_road[parts - 1], ends[parts - 1] = roads[v, b], along[v, b]
            if end >= 0:
                ends[0] = _end_at(part_road[0], start, along[u, a], True, graph)
                begins[parts - 1] = _end_at(part_road[parts - 1], end, along[v, b], False, graph)
                for p in range(1, parts - 1):
                    arc = arcs[between - p]
                    r = graph.arc_road[arc]
                    part_road[p] = r
                    begins[p] = 0.0 if graph.forward[arc] else graph.length[r]
                    ends[p] = graph.length[r] - begins[p]
            whole = np.abs(ends - begins).sum()
            gone = 0.0
            for p in range(parts):
                r = part_road[p]
                if r != on:
                    on, passed = r, False
                middle = graph.length[r] / 2
                crosses = min(begins[p], ends[p]) <= middle <= max(begins[p], ends[p])
                if crosses and begins[p] != ends[p] and not passed:
                    passed = True
                    if total == len(road):
                        road = np.append(road, np.empty_like(road))
                        when = np.append(when, np.empty_like(when))
                        speed = np.append(speed, np.empty_like(speed))
                    share = (gone + abs(middle - begins[p])) / whole
                    road[total] = r
                    when[total] = departs + np.int64(share * lasts)
                    speed[total] = whole / (lasts / 1e6) if lasts > 0 else np.inf
                    total += 1
                gone += abs(ends[p] - begins[p])
        counts[t - first] = total - begun
    return counts, road[:total], when[:total], speed[:total]


@njit(nogil=True, cache=True)
def _detours(first, last, move_from, move_to, gap_us, x, y, near, graph):  # type: ignore[no-untyped-def]
    """|route - straight| between the nearest roads of two places; -1 if there is no route.

    The two directions of a street may be two roads: of those as near as the nearest, the best pair.
    """
    roads, _, away = near
    detour = np.empty(last - first, np.float64)
    scratch = make_scratch(graph)
    route, leave, enter = _make_ways()
    for m in range(first, last):
        u, v = move_from[m], move_to[m]
        straight = math.hypot(x[v] - x[u], y[v] - y[u])
        limit = _longest_route(straight, gap_us[m])
        _routes(u, v, limit, -1, -1, near, graph, scratch, route, leave, enter)
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


def find_passages(
    network: Network,
    trajectories: Trajectories,
    locations: Locations,
    beta_m: float,
) -> Passages:
    """The roads that each trajectory passes. It is matched by itself: no other has any influence.

    beta_m: the scale of detours, which `match` fits to all trajectories together.
    """
    found = []
    begin = 0
    while begin < len(trajectories):
        # roads near places take much memory: those of some trajectories at a time
        reached = int(trajectories.offsets[begin]) + _AT_ONCE
        end = int(np.searchsorted(trajectories.offsets, reached, side="right")) - 1
        end = min(max(end, begin + 1), len(trajectories))
        first, last = trajectories.offsets[begin], trajectories.offsets[end]
        used, place = np.unique(trajectories.location[first:last], return_inverse=True)
        x, y = locations.x[used], locations.y[used]
        near = find_candidates(network, Locations(x, y))
        offsets = trajectories.offsets[begin : end + 1] - first
        found += map_ranges(
            _passages, offsets, offsets, place, trajectories.at[first:last], x, y, beta_m,
            (near.road, near.along, near.away), network.graph,
        )  # fmt: skip
        begin = end
    if not found:
        nothing = np.zeros(0, np.int64)
        return Passages(np.zeros(1, np.int64), nothing.astype(np.int32), nothing, np.zeros(0))
    counts, road, at, speed = joined(found)
    return Passages(offsets_from(counts), road, at, speed)


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
