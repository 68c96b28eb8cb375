"""Ends of trips trimmed by the map: nothing is published until somebody may have come from many places.

From where a trip begins, samples are left out up to the first that is more than 500 m away in a straight
line, more than 650 m by the shortest way along roads, and at least 8 junctions away by the way with fewest
of them; at the latest, up to the first that is more than 2,500 m away. Likewise back from where it ends.
Whoever sees the first sample that is published then has all places to choose from that are as near by road.
The three least distances are those of the privacy tool of the US Department of Transportation for connected
vehicles.

The map is public. Each place counts as its nearest junction; a place that is farther than 500 m from all
junctions is not on the map, and only the straight line counts. Roads are taken both ways: who walks does
not keep to one-way streets. A junction is where at least three roads meet; where two do, a road goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from freqdp_db.engines.ranges import joined, map_each
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import WorkingSet
from freqdp_db.methods.trips import TripRuns, samples_of
from freqdp_db.model.arrays import Flags, Ids, Ints, new_rows, offsets_of
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.roads.graph import RoadGraph, make_graph
from freqdp_db.roads.network import Network
from freqdp_db.roads.router import DestinationTrees

STRAIGHT_M = 500.0
BY_ROAD_M = 650.0
JUNCTIONS = 8
FAR_M = 2_500.0
"""Farther away in a straight line is far enough, whatever the map says."""
_ON_THE_MAP_M = 500.0
_FORK = 3
_PASSED = 1e-6
"""What passing a node costs that is no junction: csgraph has no arcs of length 0."""
_SOURCES = 512


def nearest_junctions(network: Network, places: Locations) -> Ints:
    """Of each place; -1: it is not on the map."""
    graph = network.graph
    away, node = cKDTree(np.column_stack([graph.x, graph.y])).query(
        np.column_stack([places.x, places.y])
    )
    found: Ints = np.where(away <= _ON_THE_MAP_M, node, -1)
    return found


@dataclass(frozen=True)
class _Nearby:
    """Junctions that are too near to some of them, by road or by how many are passed."""

    row: Ints
    """The row of each junction; -1: it was not asked for."""
    offsets: Ints
    junction: Ids
    """In order, row by row."""


def _find_nearby(network: Network, asked: Ints) -> _Nearby:
    graph = network.graph
    metres, passed = _matrices(graph)
    row = np.full(len(graph.x), -1, np.int64)
    row[asked] = np.arange(len(asked))
    rows, near = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for begin in range(0, len(asked), _SOURCES):
        part = asked[begin : begin + _SOURCES]
        close = np.isfinite(dijkstra(metres, directed=False, indices=part, limit=BY_ROAD_M))
        close |= np.isfinite(dijkstra(passed, directed=True, indices=part, limit=JUNCTIONS - 0.5))
        source, node = np.nonzero(close)
        rows.append(begin + source)
        near.append(node.astype(np.int32))
    return _Nearby(row, offsets_of(np.concatenate(rows), len(asked)), np.concatenate(near))


def _matrices(graph: RoadGraph) -> tuple[csr_matrix, csr_matrix]:
    """Metres of each road; and 1 for each arc to a junction."""
    nodes = len(graph.x)
    source, target = graph.source, graph.target
    apart = source != target
    low, high = np.minimum(source, target)[apart], np.maximum(source, target)[apart]
    # of parallel roads, the shortest
    order = np.lexsort((graph.length[apart], high, low))
    one = order[new_rows(low[order], high[order])]
    metres = csr_matrix((graph.length[apart][one], (low[one], high[one])), (nodes, nodes))
    forks = np.bincount(np.concatenate([source, target]), minlength=nodes) >= _FORK
    a, b = np.concatenate([low[one], high[one]]), np.concatenate([high[one], low[one]])
    passed = csr_matrix((np.where(forks[b], 1.0, _PASSED), (a, b)), (nodes, nodes))
    return metres, passed


def trim_trips(
    trips: TripRuns, side: Trajectories, places: Locations, network: Network
) -> TripRuns:
    """The trips without what is too near to where they begin and end; some have nothing left."""
    junction = nearest_junctions(network, places)
    ends = junction[side.location[np.concatenate([trips.first, trips.last])]]
    nearby = _find_nearby(network, np.unique(ends[ends >= 0]))
    x, y = places.x[side.location], places.y[side.location]
    first, last = joined(
        map_each(
            _trim, len(trips), trips.first, trips.last, x, y, junction[side.location], nearby.row,
            nearby.offsets, nearby.junction,
        )
    )  # fmt: skip
    some = first <= last
    return TripRuns(first[some], last[some], trips.trajectory[some])


@njit(nogil=True, cache=True)
def _is_near(i, end, x, y, junction, row, offsets, near):  # type: ignore[no-untyped-def]
    straight = np.hypot(x[i] - x[end], y[i] - y[end])
    if straight <= STRAIGHT_M:
        return True
    if straight > FAR_M or junction[i] < 0 or junction[end] < 0:
        return False
    r = row[junction[end]]
    part = near[offsets[r] : offsets[r + 1]]
    k = np.searchsorted(part, junction[i])
    return k < len(part) and part[k] == junction[i]


@njit(nogil=True, cache=True)
def _trim(begin, end, firsts, lasts, x, y, junction, row, offsets, near):  # type: ignore[no-untyped-def]
    first, last = firsts[begin:end].copy(), lasts[begin:end].copy()
    for t in range(begin, end):
        a, b = firsts[t], lasts[t]
        while a <= lasts[t] and _is_near(a, firsts[t], x, y, junction, row, offsets, near):
            a += 1
        while b >= a and _is_near(b, lasts[t], x, y, junction, row, offsets, near):
            b -= 1
        first[t - begin], last[t - begin] = a, b
    return first, last


def check_trimmed(before: WorkingSet, trips: TripRuns, rows: Ints, network: Network) -> None:
    """Refuse unless something of each trip is far enough from its end before anything is published of it.

    rows: samples of the input that are published, ascending. Ways are looked up in trees of the router.

    Raises:
        VerificationFailed: a sample is too near to where its trip begins or ends.
    """
    side, places = before.trajectories, before.places
    trip = np.searchsorted(trips.first, rows, side="right") - 1
    if (trip < 0).any() or (rows > trips.last[trip]).any():
        raise VerificationFailed("cut: a sample is of no trip")
    there, first, count = np.unique(trip, return_index=True, return_counts=True)
    junction = nearest_junctions(network, places)[side.location]
    x, y = places.x[side.location], places.y[side.location]
    for end, low, high in (
        (trips.first[there], trips.first[there], rows[first]),
        (trips.last[there], rows[first + count - 1], trips.last[there]),
    ):
        offsets, between = samples_of(low, high)
        to = np.repeat(end, np.diff(offsets))
        straight = np.hypot(x[between] - x[to], y[between] - y[to])
        far = straight > STRAIGHT_M
        mapped = far & (straight <= FAR_M) & (junction[between] >= 0) & (junction[to] >= 0)
        far[mapped] = _far_by_road(network, junction[between[mapped]], junction[to[mapped]])
        if len(far) and not np.logical_or.reduceat(far, offsets[:-1]).all():
            raise VerificationFailed("cut: a sample is too near to where its trip begins or ends")


def _far_by_road(network: Network, origin: Ints, destination: Ints) -> Flags:
    """Whether junctions are far from others by road and by the junctions passed, by the router's trees."""
    graph = network.graph
    fork = (
        np.bincount(np.concatenate([graph.source, graph.target]), minlength=len(graph.x)) >= _FORK
    ) * 1.0
    both = np.zeros(len(graph.source), np.bool_)
    far = np.zeros(len(origin), np.bool_)
    goals = np.unique(destination)
    for begin in range(0, len(goals), _SOURCES):
        mine = np.isin(destination, goals[begin : begin + _SOURCES])
        here, goal = origin[mine], destination[mine]
        apart = []
        # half of each junction on either side of it
        for length in (graph.length, (fork[graph.source] + fork[graph.target]) / 2):
            trees = DestinationTrees(
                make_graph(graph.x, graph.y, graph.source, graph.target, both, length)
            )
            trees.prepare(goal)
            apart.append(trees.costs(here, goal))
        passed = apart[1] + (fork[here] - fork[goal]) / 2
        far[mine] = (apart[0] > BY_ROAD_M) & (passed > JUNCTIONS - 0.5)
    return far
