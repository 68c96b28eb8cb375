"""Fastest ways through a network: one tree per destination, found when it is first needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from freqdp_db.columns.ragged import offsets_from
from freqdp_db.loading.network import Floats, Ints, StreetNetwork

_JUNCTION_S = 5.0
"""Slowing down and waiting at the end of each road."""


@dataclass(frozen=True)
class Paths:
    """The roads of many trips, one after the other: trip i has `first[i]:first[i + 1]`."""

    first: Ints
    arc: Ints
    seconds: Floats


class Router:
    """Directed arcs over a network's roads, and for each destination the next arc from anywhere."""

    def __init__(self, network: StreetNetwork) -> None:
        back = np.flatnonzero(~network.oneway)
        self.road = np.concatenate([np.arange(len(network.source)), back])
        self.forward = np.arange(len(self.road)) < len(network.source)
        self.tail = np.concatenate([network.source, network.target[back]])
        self.head = np.concatenate([network.target, network.source[back]])
        speed = network.speed_kmh[self.road] / 3.6
        self.seconds = network.length_m[self.road] / speed + _JUNCTION_S
        self._nodes = len(network.x)
        # Two roads may join the same two junctions: the router knows the faster one.
        key = self.tail * self._nodes + self.head
        order = np.lexsort((self.seconds, key))
        first = np.ones(len(key), bool)
        first[1:] = key[order][1:] != key[order][:-1]
        self._arc = order[first]
        self._key = key[self._arc]
        # Towards a destination means from it, on the reversed graph.
        self._reversed = csr_array(
            (self.seconds[self._arc], (self.head[self._arc], self.tail[self._arc])),
            shape=(self._nodes, self._nodes),
        )
        self._row = np.full(self._nodes, -1)
        self._next = np.empty((0, self._nodes), np.int32)
        self._travel = np.empty((0, self._nodes), np.float32)

    def prepare(self, destinations: Ints) -> None:
        """Find the trees of these destinations, those that are not known yet."""
        wanted = np.unique(destinations[destinations >= 0])
        wanted = wanted[self._row[wanted] < 0]
        if not len(wanted):
            return
        travel, after = dijkstra(self._reversed, indices=wanted, return_predecessors=True)
        nodes = np.arange(self._nodes)
        key = nodes * self._nodes + np.maximum(after, 0)
        found = self._arc[np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)]
        self._row[wanted] = len(self._next) + np.arange(len(wanted))
        arcs = np.where(after >= 0, found, -1).astype(np.int32)
        self._next = np.concatenate([self._next, arcs])
        self._travel = np.concatenate([self._travel, travel.astype(np.float32)])

    def travel_s(self, origin: Ints, destination: Ints) -> Floats:
        """Free-flow travel time between prepared places."""
        seconds: Floats = self._travel[self._row[destination], origin].astype(np.float64)
        return seconds

    def paths(self, origin: Ints, destination: Ints) -> Paths:
        """The roads of all trips at once, one step of every trip per round."""
        trip = np.arange(len(origin))
        here, row = origin.copy(), self._row[destination]
        trips: list[NDArray[np.int64]] = []
        arcs: list[NDArray[np.int64]] = []
        while len(trip):
            moving = here != destination[trip]
            trip, here = trip[moving], here[moving]
            arc = self._next[row[trip], here].astype(np.int64)
            trips.append(trip)
            arcs.append(arc)
            here = self.head[arc]
        all_trips = np.concatenate(trips) if trips else np.empty(0, np.int64)
        all_arcs = np.concatenate(arcs) if arcs else np.empty(0, np.int64)
        order = np.argsort(all_trips, kind="stable")
        arc = all_arcs[order]
        first = offsets_from(np.bincount(all_trips, minlength=len(origin)))
        return Paths(first, arc, self.seconds[arc])
