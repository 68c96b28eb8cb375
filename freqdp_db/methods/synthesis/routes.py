"""Lines become routes: each point goes to the nearest junction, junctions are joined by the cheapest way.

A road costs its length and up to a fifth more, by the trip's own dice: not everybody takes the same
way. Turning round in the road costs much, so that trips go on.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from freqdp_db.columns.heap import pop, push
from freqdp_db.columns.streams import splitmix64

DETOUR = 1.3
"""Routes are about so much longer than the straight lines they replace: where searching begins."""
MOST_ARCS = 30_000
"""Of one trip's route, at most; what would follow is left out."""
_DEAREST = 0.2
_TURNING_ROUND_M = 1000.0


@njit(nogil=True, cache=True)
def road_scratch(graph):  # type: ignore[no-untyped-def]
    """Of one range: cost, stamp, final stamp, arc by which reached; a heap of costs and junctions."""
    junctions, arcs = len(graph.x), len(graph.end)
    return (
        np.empty(junctions), np.zeros(junctions, np.int64), np.zeros(junctions, np.int64),
        np.empty(junctions, np.int64), np.empty(arcs + 2), np.empty(arcs + 2, np.int64),
        np.zeros(1, np.int64),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def nearest(px, py, graph):  # type: ignore[no-untyped-def]
    """The nearest junction: squares in rings around the point, until none can be nearer."""
    columns, rows, dx, dy, x_min, y_min = graph.shape
    cx = min(max(int((px - x_min) / dx), 0), columns - 1)
    cy = min(max(int((py - y_min) / dy), 0), rows - 1)
    best, least = -1, np.inf
    for ring in range(max(columns, rows)):
        if best >= 0 and least <= (ring - 1) * min(dx, dy):
            break
        for by in range(max(cy - ring, 0), min(cy + ring, rows - 1) + 1):
            on_edge = by == cy - ring or by == cy + ring
            step = 1 if on_edge or ring == 0 else 2 * ring
            for bx in range(cx - ring, cx + ring + 1, step):
                if bx < 0 or bx >= columns:
                    continue
                square = by * columns + bx
                for k in range(graph.bucket[square], graph.bucket[square + 1]):
                    n = graph.by_bucket[k]
                    far = math.sqrt((graph.x[n] - px) ** 2 + (graph.y[n] - py) ** 2)
                    if far < least:
                        best, least = n, far
    return best


@njit(nogil=True, cache=True)
def _dearer(salt, road):  # type: ignore[no-untyped-def]
    """What a metre of a road costs for this trip."""
    word = splitmix64(salt ^ (np.uint64(road) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)))
    return 1.0 + _DEAREST * (float(word >> np.uint64(11)) * 2.0**-53)


@njit(nogil=True, cache=True)
def _route(start, goal, came_by, salt, graph, scratch, out, n):  # type: ignore[no-untyped-def]
    """Append the arcs of the cheapest way to out[n:]; the new n.

    `came_by`: the arc that led to the start, -1: none.
    """
    cost, seen, done, by, heap_cost, heap_node, stamps = scratch
    stamps[0] += 1
    stamp = stamps[0]
    cost[start], seen[start], by[start] = 0.0, stamp, -1
    size = push(heap_cost, heap_node, 0, 0.0, start)
    while size > 0:
        here = heap_node[0]
        size = pop(heap_cost, heap_node, size)
        if done[here] == stamp:
            continue
        done[here] = stamp
        if here == goal:
            break
        before = came_by if here == start else by[here]
        for arc in range(graph.leaving[here], graph.leaving[here + 1]):
            to = graph.end[arc]
            there = cost[here] + graph.metres[arc] * _dearer(salt, graph.road[arc])
            if before >= 0 and graph.begin[before] == to:
                there += _TURNING_ROUND_M
            if seen[to] != stamp or there < cost[to]:
                seen[to], cost[to], by[to] = stamp, there, arc
                ahead = math.sqrt(
                    (graph.x[to] - graph.x[goal]) ** 2 + (graph.y[to] - graph.y[goal]) ** 2
                )
                size = push(heap_cost, heap_node, size, there + ahead, to)
    count, at = 0, goal
    while at != start:
        count += 1
        at = graph.begin[by[at]]
    if n + count > len(out):
        return n
    at = goal
    for k in range(count):
        out[n + count - 1 - k] = by[at]
        at = graph.begin[by[at]]
    return n + count


@njit(nogil=True, cache=True)
def along_roads(x, y, n, salt, graph, scratch, out):  # type: ignore[no-untyped-def]
    """The line through n points as arcs of a route: how many (at least one), and their metres."""
    last = nearest(x[0], y[0], graph)
    m = 0
    for i in range(1, n):
        to = nearest(x[i], y[i], graph)
        if to == last:
            continue
        longer = _route(last, to, out[m - 1] if m else -1, salt, graph, scratch, out, m)
        if longer == m:
            break
        m, last = longer, to
    if m == 0:  # all at one junction: along one road of it
        out[0] = graph.leaving[last]
        m = 1
    total = 0.0
    for k in range(m):
        total += graph.metres[out[k]]
    return m, total
