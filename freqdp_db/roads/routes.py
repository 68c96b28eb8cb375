"""Shortest routes between roads near one place and roads near another, bounded.

Dijkstra's algorithm runs from each junction at which a candidate road can be left, until all roads
ahead are reached or the bound is; junctions are opened in order of cost plus straight distance to
the nearest goal (A*), which leaves out all that is too far off the way. Kernels hand each other
three bundles of arrays:

`graph`    source, target, oneway and length of roads; arc offsets, ends and roads by junction; x, y
`near`     the candidate roads of each place: road, metres along it, metres away
`scratch`  of one thread: cost, stamps of what was seen and what is final, road of arrival, straight
           distance to a goal; a heap
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from freqdp_db.columns.heap import pop, push
from freqdp_db.roads.network import CANDIDATES, REACH_M

FASTEST_M_PER_S = 50.0
DETOUR = 8.0
JITTER_M = 50.0
"""So far back on a one-way road is noise along it (5 sigma), not a drive around the block."""


@njit(nogil=True, cache=True)
def make_scratch(graph):  # type: ignore[no-untyped-def]
    junctions, arcs = len(graph[4]) - 1, len(graph[5])
    return (
        np.empty(junctions, np.float64), np.zeros(junctions, np.int64),
        np.zeros(junctions, np.int64), np.empty(junctions, np.int32),
        np.empty(junctions, np.float64),
        np.empty(arcs + 2, np.float64), np.empty(arcs + 2, np.int64),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def make_ways():  # type: ignore[no-untyped-def]
    """What `routes` fills in for each pair of candidates: route, leave, enter."""
    pairs = (CANDIDATES, CANDIDATES)
    return np.empty(pairs, np.float64), np.empty(pairs, np.int64), np.empty(pairs, np.int64)


@njit(nogil=True, cache=True)
def _straight_ahead(node, wanted, targets, x, y):  # type: ignore[no-untyped-def]
    """Straight distance to the nearest goal: no route is shorter."""
    least = np.inf
    for k in range(targets):
        dx, dy = x[wanted[k]] - x[node], y[wanted[k]] - y[node]
        least = min(least, dx * dx + dy * dy)
    return math.sqrt(least)


@njit(nogil=True, cache=True)
def search(start, bound, wanted, targets, graph, scratch, stamp):  # type: ignore[no-untyped-def]
    """Costs from a junction until all of wanted[:targets] (distinct) are final or the bound is passed.

    Where `seen` holds the stamp there is a cost; where `done` does, it is final.
    """
    _, _, _, length, arc_offsets, arc_to, arc_road, x, y = graph
    cost, seen, done, came_by, ahead, heap_cost, heap_node = scratch
    cost[start], seen[start], came_by[start] = 0.0, stamp, -1
    ahead[start] = _straight_ahead(start, wanted, targets, x, y)
    size = push(heap_cost, heap_node, 0, ahead[start], start)
    left = targets
    while size > 0:
        node = heap_node[0]
        at = cost[node]
        size = pop(heap_cost, heap_node, size)
        if done[node] == stamp:
            continue
        done[node] = stamp
        for k in range(targets):
            if wanted[k] == node:
                left -= 1
        if left == 0:
            return
        for arc in range(arc_offsets[node], arc_offsets[node + 1]):
            to = arc_to[arc]
            there = at + length[arc_road[arc]]
            if seen[to] != stamp:
                seen[to], cost[to] = stamp, np.inf
                ahead[to] = _straight_ahead(to, wanted, targets, x, y)
            if there < cost[to] and there + ahead[to] <= bound:
                cost[to], came_by[to] = there, arc_road[arc]
                size = push(heap_cost, heap_node, size, there + ahead[to], to)


@njit(nogil=True, cache=True)
def _ends(place, only, leaving, near, graph, node, metres):  # type: ignore[no-untyped-def]
    """Junctions through which each candidate can be left (or entered), and how far they are."""
    source, target, oneway, length = graph[0], graph[1], graph[2], graph[3]
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
def longest_route(straight, gap_us):  # type: ignore[no-untyped-def]
    """How long a route may be, beside the way between samples and their roads."""
    return min(FASTEST_M_PER_S * gap_us / 1e6, DETOUR * straight)


@njit(nogil=True, cache=True)
def routes(u, v, limit, only_u, only_v, near, graph, scratch, stamp, route, leave, enter):  # type: ignore[no-untyped-def]
    """Shortest way from each candidate of place u to each of place v, if within the limit; else inf.

    `leave` and `enter`: the first and last junction of the way (-1: it stays on one road). `only_u`
    and `only_v` ask for one candidate instead of all (-1). Returns the next free stamp.
    """
    oneway = graph[2]
    roads, along, away = near
    cost, done = scratch[0], scratch[2]
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
        search(exits[k], limit + 2 * REACH_M, entries, targets, graph, scratch, stamp)
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
        stamp += 1
    for i in range(CANDIDATES):
        for j in range(CANDIDATES):
            r = roads[u, i]
            if r < 0 or roads[v, j] < 0:
                continue
            ahead = along[v, j] - along[u, i]
            on_one_road = r == roads[v, j] and (ahead >= -JITTER_M or not oneway[r])
            if on_one_road and abs(ahead) <= route[i, j]:
                route[i, j], leave[i, j], enter[i, j] = abs(ahead), -1, -1
            if route[i, j] > limit + away[u, i] + away[v, j]:
                route[i, j] = np.inf
    return stamp
