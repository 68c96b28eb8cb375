"""Lines along public roads: each point goes to the nearest junction, junctions are joined by routes.

Roads are public, so all of this is post-processing. A route is the cheapest by length, where each road
costs up to 60 % more for a trip, by the trip's own dice: not everybody takes the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.columns.ragged import offsets_of
from freqdp_db.columns.streams import mixed
from freqdp_db.errors import BadInput
from freqdp_db.methods.synthesis.public import Region

_BUCKET_M = 500.0
_DEAREST = 0.6
_LEAST_JUNCTIONS = 10
MOST_ROUTE = 30_000
"""Points of one trip's route, at most; what would follow is left out."""
DETOUR = 1.3
"""Routes are about so much longer than the straight lines they replace: a public number."""


@dataclass(frozen=True)
class Roads:
    """Junctions, and roads between them; `oneway` roads go from `source` to `target` only."""

    x: Metres
    y: Metres
    source: Ids
    target: Ids
    length: Metres
    oneway: np.typing.NDArray[np.bool_] | None = None


Graph = tuple[Ints, Ints, Metres, Metres, Metres, Ints, Ints, tuple[int, int, float, float]]
"""Arc offsets, ends and lengths by junction; x, y; junctions by bucket; the buckets' shape."""


def road_graph(roads: Roads, region: Region) -> Graph:
    """The largest part of the roads inside the region in which every junction reaches every other."""
    inside = (
        (roads.x >= region.x_min) & (roads.x < region.x_max)
        & (roads.y >= region.y_min) & (roads.y < region.y_max)
    )  # fmt: skip
    both = np.ones(len(roads.source), np.bool_) if roads.oneway is None else ~roads.oneway
    a = np.concatenate([roads.source, roads.target[both]]).astype(np.int64)
    b = np.concatenate([roads.target, roads.source[both]]).astype(np.int64)
    metres = np.concatenate([roads.length, roads.length[both]])
    keep = inside[a] & inside[b] & (a != b)
    a, b, metres = a[keep], b[keep], metres[keep]
    count = len(roads.x)
    matrix = coo_array((np.ones(len(a)), (a, b)), shape=(count, count))
    _, part = connected_components(matrix, directed=True, connection="strong")
    largest = part == np.bincount(part).argmax() if count else inside
    if int(largest.sum()) < _LEAST_JUNCTIONS:
        raise BadInput(
            "the roads do not connect inside the region",
            remedy="give a road table that covers the region, or leave --roads out",
        )
    new = np.cumsum(largest) - 1
    keep = largest[a] & largest[b]
    a, b, metres = new[a[keep]], new[b[keep]], metres[keep]
    x, y = roads.x[largest], roads.y[largest]
    # a road is no shorter than the straight line between its ends
    metres = np.maximum(metres, np.hypot(x[a] - x[b], y[a] - y[b]))
    order = np.argsort(a, kind="stable")
    columns = max(1, math.ceil(region.width / _BUCKET_M))
    rows = max(1, math.ceil(region.height / _BUCKET_M))
    column = np.minimum((x - region.x_min) / region.width * columns, columns - 1).astype(np.int64)
    row = np.minimum((y - region.y_min) / region.height * rows, rows - 1).astype(np.int64)
    bucket = row * columns + column
    by_bucket = np.argsort(bucket, kind="stable").astype(np.int64)
    shape = (columns, rows, region.width / columns, region.height / rows)
    return (
        offsets_of(a[order], len(x)), b[order], metres[order], x, y,
        offsets_of(bucket[by_bucket], columns * rows), by_bucket, shape,
    )  # fmt: skip


@njit(nogil=True, cache=True)
def road_scratch(graph):  # type: ignore[no-untyped-def]
    """Of one range: cost, stamp, final stamp, junction before; a heap of costs and junctions."""
    junctions, arcs = len(graph[3]), len(graph[1])
    return (
        np.empty(junctions), np.zeros(junctions, np.int64), np.zeros(junctions, np.int64),
        np.empty(junctions, np.int64), np.empty(arcs + 2), np.empty(arcs + 2, np.int64),
        np.zeros(1, np.int64),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def nearest(px, py, graph, corner):  # type: ignore[no-untyped-def]
    """The nearest junction: buckets in rings around the point, until none can be nearer."""
    x, y, begin, order, shape = graph[3], graph[4], graph[5], graph[6], graph[7]
    columns, rows, dx, dy = shape
    cx = min(max(int((px - corner[0]) / dx), 0), columns - 1)
    cy = min(max(int((py - corner[1]) / dy), 0), rows - 1)
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
                for k in range(begin[by * columns + bx], begin[by * columns + bx + 1]):
                    n = order[k]
                    far = math.sqrt((x[n] - px) ** 2 + (y[n] - py) ** 2)
                    if far < least:
                        best, least = n, far
    return best


@njit(nogil=True, cache=True)
def _sift(cost, node, size, value, junction):  # type: ignore[no-untyped-def]
    """Put on the heap; its new size."""
    i = size
    while i > 0 and cost[(i - 1) // 2] > value:
        cost[i], node[i] = cost[(i - 1) // 2], node[(i - 1) // 2]
        i = (i - 1) // 2
    cost[i], node[i] = value, junction
    return size + 1


@njit(nogil=True, cache=True)
def _drop(cost, node, size):  # type: ignore[no-untyped-def]
    """Take the least off the heap; its new size."""
    size -= 1
    value, junction, i = cost[size], node[size], 0
    while 2 * i + 1 < size:
        c = 2 * i + 1
        if c + 1 < size and cost[c + 1] < cost[c]:
            c += 1
        if cost[c] >= value:
            break
        cost[i], node[i] = cost[c], node[c]
        i = c
    cost[i], node[i] = value, junction
    return size


@njit(nogil=True, cache=True)
def _dearer(salt, a, b):  # type: ignore[no-untyped-def]
    """What a road costs for this trip: 1 to 1.6 times its length."""
    word = mixed(salt ^ (np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b)))
    return 1.0 + _DEAREST * (float(word >> np.uint64(11)) * 2.0**-53)


@njit(nogil=True, cache=True)
def route(start, goal, salt, graph, scratch, out_x, out_y, n):  # type: ignore[no-untyped-def]
    """Append the junctions of the cheapest way after `start` to out[n:]; the new n."""
    begin, ends, metres, x, y = graph[0], graph[1], graph[2], graph[3], graph[4]
    cost, seen, done, before, heap_cost, heap_node, stamps = scratch
    stamps[0] += 1
    stamp = stamps[0]
    cost[start], seen[start], before[start] = 0.0, stamp, -1
    size = _sift(heap_cost, heap_node, 0, 0.0, start)
    while size > 0:
        here = heap_node[0]
        size = _drop(heap_cost, heap_node, size)
        if done[here] == stamp:
            continue
        done[here] = stamp
        if here == goal:
            break
        for arc in range(begin[here], begin[here + 1]):
            to = ends[arc]
            there = cost[here] + metres[arc] * _dearer(salt, here, to)
            if seen[to] != stamp or there < cost[to]:
                seen[to], cost[to], before[to] = stamp, there, here
                ahead = math.sqrt((x[to] - x[goal]) ** 2 + (y[to] - y[goal]) ** 2)
                size = _sift(heap_cost, heap_node, size, there + ahead, to)
    count, at = 0, goal
    while at != start:
        count += 1
        at = before[at]
    if n + count > len(out_x):
        return n
    at = goal
    for k in range(count):
        out_x[n + count - 1 - k], out_y[n + count - 1 - k] = x[at], y[at]
        at = before[at]
    return n + count


@njit(nogil=True, cache=True)
def along_roads(x, y, n, salt, graph, scratch, corner, out_x, out_y):  # type: ignore[no-untyped-def]
    """The line through n points as a route; how many points it has (at least 2)."""
    last = nearest(x[0], y[0], graph, corner)
    out_x[0], out_y[0] = graph[3][last], graph[4][last]
    m = 1
    for i in range(1, n):
        to = nearest(x[i], y[i], graph, corner)
        if to == last:
            continue
        longer = route(last, to, salt, graph, scratch, out_x, out_y, m)
        if longer == m:
            break
        m, last = longer, to
    if m == 1:  # all at one junction: to the end of one road and back
        to = graph[1][graph[0][last]]
        out_x[1], out_y[1] = graph[3][to], graph[4][to]
        m = 2
    return m
