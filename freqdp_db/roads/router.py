"""The router: Dijkstra's algorithm over a road graph, with a goal in sight (A*) where there is one.

One kernel for all that looks for ways. Map matching asks for the ways between all candidate roads of
two samples, within a bound; synthetic trips for one way each, at prices of their own; the generated
city for the ways from everywhere to a place. `scipy.sparse.csgraph.dijkstra` could serve the last of
these only: it knows no goal, no bound by place, no price for turning round, and holds the interpreter's
lock, while most of the other two run inside kernels, a few dozen junctions at a time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_each
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_from
from freqdp_db.model.kernels import splitmix64
from freqdp_db.roads.graph import RoadGraph, reverse


class Prices(NamedTuple):
    """What a way costs besides its length."""

    variety: float
    """A road costs up to this share more, by the dice of whoever drives."""
    salt: np.uint64
    """Whose dice."""
    turning_m: float
    """What turning round in the road costs, in metres."""


class Scratch(NamedTuple):
    """What a search writes to; one for each thread. Where `seen` holds the stamp of the search there is
    a cost; where `done` does, it is final."""

    cost: Metres
    seen: Ints
    done: Ints
    came_by: Ints
    """The arc by which a junction was reached; -1: the search began there."""
    ahead: Metres
    """Straight distance to the nearest goal."""
    heap_cost: Metres
    heap_node: Ints
    stamp: Ints
    """Of the last search, in an array of one."""


@njit(nogil=True, cache=True)
def make_scratch(graph):  # type: ignore[no-untyped-def]
    junctions, arcs = len(graph.x), len(graph.arc_to)
    return Scratch(
        np.empty(junctions, np.float64), np.zeros(junctions, np.int64),
        np.zeros(junctions, np.int64), np.empty(junctions, np.int64),
        np.empty(junctions, np.float64), np.empty(arcs + 2, np.float64),
        np.empty(arcs + 2, np.int64), np.zeros(1, np.int64),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _push(costs, nodes, size, cost, node):  # type: ignore[no-untyped-def]
    """Put on the heap, whose least cost is on top; the new size."""
    i = size
    while i > 0:
        up = (i - 1) >> 1
        if costs[up] <= cost:
            break
        costs[i], nodes[i] = costs[up], nodes[up]
        i = up
    costs[i], nodes[i] = cost, node
    return size + 1


@njit(nogil=True, cache=True)
def _pop(costs, nodes, size):  # type: ignore[no-untyped-def]
    """Take the top off, which the caller has read at 0; the new size."""
    size -= 1
    cost, node = costs[size], nodes[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and costs[child + 1] < costs[child]:
            child += 1
        if costs[child] >= cost:
            break
        costs[i], nodes[i] = costs[child], nodes[child]
        i = child
    costs[i], nodes[i] = cost, node
    return size


@njit(nogil=True, cache=True)
def _straight_ahead(node, goals, count, x, y):  # type: ignore[no-untyped-def]
    """Straight distance to the nearest goal: no way is shorter. Without a goal 0."""
    if count == 0:
        return 0.0
    least = np.inf
    for k in range(count):
        dx, dy = x[goals[k]] - x[node], y[goals[k]] - y[node]
        least = min(least, dx * dx + dy * dy)
    return math.sqrt(least)


@njit(nogil=True, cache=True)
def _price(metres, road, prices):  # type: ignore[no-untyped-def]
    """What a road of so many metres costs whoever drives."""
    word = splitmix64(
        prices.salt ^ (np.uint64(road) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1))
    )
    return metres * (1.0 + prices.variety * (float(word >> np.uint64(11)) * 2.0**-53))


@njit(nogil=True, cache=True)
def search(start, came_by, goals, count, bound, prices, graph, scratch):  # type: ignore[no-untyped-def]
    """Cheapest ways from a junction until all of goals[:count] (distinct) are final or the bound is passed.

    Without goals: to all junctions. `came_by`: the arc that led to the start, -1: none. `prices`: None:
    a way costs its length, and what is compiled for that looks at nothing else. What is found stands in
    `scratch` under the stamp of this search, which is returned.
    """
    x, y, _, _, _, length, arc_offsets, arc_from, arc_to, arc_road, _ = graph
    cost, seen, done, arrival, ahead, heap_cost, heap_node, stamps = scratch
    stamps[0] += 1
    stamp = stamps[0]
    cost[start], seen[start], arrival[start] = 0.0, stamp, -1
    ahead[start] = _straight_ahead(start, goals, count, x, y)
    size = _push(heap_cost, heap_node, 0, ahead[start], start)
    left = count
    while size > 0:
        node = heap_node[0]
        size = _pop(heap_cost, heap_node, size)
        if done[node] == stamp:
            continue
        done[node] = stamp
        for k in range(count):
            if goals[k] == node:
                left -= 1
        if count > 0 and left == 0:
            return stamp
        before = came_by if node == start else arrival[node]
        for arc in range(arc_offsets[node], arc_offsets[node + 1]):
            to, road = arc_to[arc], arc_road[arc]
            if prices is None:
                there = cost[node] + length[road]
            else:
                there = cost[node] + _price(length[road], road, prices)
                if before >= 0 and arc_from[before] == to:
                    there += prices.turning_m
            if seen[to] != stamp:
                seen[to], cost[to] = stamp, np.inf
                ahead[to] = _straight_ahead(to, goals, count, x, y)
            if there < cost[to] and there + ahead[to] <= bound:
                cost[to], arrival[to] = there, arc
                size = _push(heap_cost, heap_node, size, there + ahead[to], to)
    return stamp


@njit(nogil=True, cache=True)
def _trees(first, last, roots, graph):  # type: ignore[no-untyped-def]
    """For some roots, by junction: the arc of arrival (-1: none) and the cost."""
    junctions = len(graph.x)
    arcs = np.full((last - first, junctions), -1, np.int32)
    costs = np.full((last - first, junctions), np.inf, np.float32)
    scratch, none = make_scratch(graph), np.empty(0, np.int64)
    for r in range(first, last):
        stamp = search(roots[r], -1, none, 0, np.inf, None, graph, scratch)
        for n in range(junctions):
            if scratch.done[n] == stamp:
                arcs[r - first, n], costs[r - first, n] = scratch.came_by[n], scratch.cost[n]
    return arcs, costs


class Paths(NamedTuple):
    """The roads of many trips, one after the other: trip i has `first[i]:first[i + 1]`."""

    first: Ints
    road: Ids
    forward: NDArray[np.bool_]
    """Whether a road is driven from its source to its target."""


class DestinationTrees:
    """For each destination the cheapest way from everywhere: found when it is first needed."""

    def __init__(self, graph: RoadGraph) -> None:
        # towards a destination means from it, with all roads turned round
        self._graph = reverse(graph)
        junctions = len(graph.x)
        self._row = np.full(junctions, -1)
        self._arc = np.empty((0, junctions), np.int32)
        self._cost = np.empty((0, junctions), np.float32)

    def prepare(self, destinations: Ints) -> None:
        """Find the trees of these destinations (below 0: none), those that are not known yet."""
        wanted = np.unique(destinations[destinations >= 0])
        wanted = wanted[self._row[wanted] < 0]
        if not len(wanted):
            return
        arcs, costs = joined(map_each(_trees, len(wanted), wanted, self._graph))
        self._row[wanted] = len(self._arc) + np.arange(len(wanted))
        self._arc = np.concatenate([self._arc, arcs])
        self._cost = np.concatenate([self._cost, costs])

    def costs(self, origin: Ints, destination: Ints) -> Metres:
        """What the ways between prepared places cost, in the unit of the graph's lengths."""
        costs: Metres = self._cost[self._row[destination], origin].astype(np.float64)
        return costs

    def paths(self, origin: Ints, destination: Ints) -> Paths:
        """The roads of all trips at once, one step of every trip per round."""
        trip = np.arange(len(origin))
        here, row = origin.copy(), self._row[destination]
        trips: list[Ints] = [np.empty(0, np.int64)]
        arcs: list[Ids] = [np.empty(0, np.int32)]
        while len(trip):
            moving = here != destination[trip]
            trip, here = trip[moving], here[moving]
            arc = self._arc[row[trip], here]
            trips.append(trip)
            arcs.append(arc)
            here = self._graph.arc_from[arc].astype(np.int64)
        all_trips = np.concatenate(trips)
        arc = np.concatenate(arcs)[np.argsort(all_trips, kind="stable")]
        first = offsets_from(np.bincount(all_trips, minlength=len(origin)))
        return Paths(first, self._graph.arc_road[arc], self._graph.forward[arc])
