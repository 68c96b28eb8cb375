"""The roads of a table in memory: their graph, their lines, and the roads near a place."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_each
from freqdp_db.model.arrays import (
    Flags,
    Ids,
    Ints,
    Metres,
    offsets_from,
    offsets_of,
    owners,
    within,
)
from freqdp_db.model.trajectories import Locations
from freqdp_db.roads.graph import RoadGraph, make_graph

REACH_M = 100.0
CANDIDATES = 8
_FAR = 1 << 31
_HAIR_M = 1e-9


@dataclass(frozen=True)
class RoadRows:
    """Roads in order of their ids; road r runs through the vertices offsets[r] to offsets[r+1]-1."""

    id: Ints
    source: Ints
    target: Ints
    oneway: Flags
    offsets: Ints
    x: Metres
    y: Metres

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, eq=False)
class Network:
    """Roads of a table: their graph and their lines. Positions on a road are metres from its source."""

    road_id: Ints
    graph: RoadGraph
    piece_road: Ids
    """Straight pieces of roads: of which road, from where to where, and how far along it."""
    piece: NDArray[np.float64]
    cell_key: Ints
    cell_offsets: Ints
    cell_piece: Ids

    def __len__(self) -> int:
        return len(self.road_id)

    def corners(self) -> tuple[Ids, Metres, Metres]:
        """Of all lines, one after the other: of which road, and where."""
        last = np.flatnonzero(np.append(np.diff(self.piece_road) != 0, True))
        before = np.arange(len(self.piece))
        at = np.insert(before, last + 1, last)
        side = np.zeros(len(at), np.int64)
        side[last + 1 + np.arange(len(last))] = 2
        return self.piece_road[at], self.piece[at, side], self.piece[at, side + 1]

    def middles(self) -> tuple[Metres, Metres]:
        """Half way along each line."""
        first = offsets_of(self.piece_road, len(self))
        along, metres = self.piece[:, 4], self.piece[:, 5]
        half = (along + metres)[first[1:] - 1] / 2
        # of the pieces that reach the middle, the first
        reached = np.flatnonzero(along + metres >= half[self.piece_road])
        piece = reached[np.searchsorted(self.piece_road[reached], np.arange(len(self)))]
        share = (half - along[piece]) / np.maximum(metres[piece], _HAIR_M)
        share = np.clip(share, 0.0, 1.0)
        x, y = (
            self.piece[piece, axis]
            + share * (self.piece[piece, axis + 2] - self.piece[piece, axis])
            for axis in (0, 1)
        )
        return x, y


@dataclass(frozen=True)
class Candidates:
    """Up to eight roads near each location, nearest first; road -1: no more."""

    road: NDArray[np.int32]
    along: NDArray[np.float64]
    away: NDArray[np.float64]


def make_network(roads: RoadRows) -> Network:
    """Number the junctions, measure the roads, file their pieces in cells."""
    junctions, ends = np.unique(np.concatenate([roads.source, roads.target]), return_inverse=True)
    count = len(roads.id)
    source, target = ends[:count], ends[count:]
    first = np.ones(len(roads.x), np.bool_)
    first[roads.offsets[:-1]] = False
    end = np.flatnonzero(first)
    piece_road = (np.searchsorted(roads.offsets, end, side="right") - 1).astype(np.int32)
    begin = end - 1
    metres = np.hypot(roads.x[end] - roads.x[begin], roads.y[end] - roads.y[begin])
    run = np.concatenate([[0.0], np.cumsum(metres)])
    starts = offsets_of(piece_road, count)
    along = run[:-1] - run[starts[piece_road]]
    length = run[starts[1:]] - run[starts[:-1]]
    piece = np.column_stack(
        [roads.x[begin], roads.y[begin], roads.x[end], roads.y[end], along, metres]
    )
    x, y = np.zeros(len(junctions)), np.zeros(len(junctions))
    for at, node in ((roads.offsets[:-1], source), (roads.offsets[1:] - 1, target)):
        x[node], y[node] = roads.x[at], roads.y[at]
    # where ends were snapped to a junction, a road must not seem shorter than the way between them
    length = np.maximum(length, np.hypot(x[target] - x[source], y[target] - y[source]))
    keys, of_piece = _file(piece)
    by_key = np.lexsort((of_piece, keys))
    cell_key, at = np.unique(keys[by_key], return_index=True)
    return Network(
        np.asarray(roads.id),
        make_graph(x, y, source, target, np.asarray(roads.oneway), length),
        piece_road,
        piece,
        cell_key,
        np.append(at, len(keys)).astype(np.int64),
        of_piece[by_key],
    )


def _file(piece: NDArray[np.float64]) -> tuple[Ints, Ids]:
    """The cells that the box of each piece touches, as one number, with the piece."""
    ends = np.floor(piece[:, :4] / REACH_M).astype(np.int64).reshape(-1, 2, 2)
    (low_x, low_y), (high_x, high_y) = ends.min(axis=1).T, ends.max(axis=1).T
    wide = high_x - low_x + 1
    cells = wide * (high_y - low_y + 1)
    which = owners(offsets_from(cells))
    nth = within(offsets_from(cells))
    column = low_x[which] + nth % wide[which]
    row = low_y[which] + nth // wide[which]
    return (row + _FAR) * (2 * _FAR) + column + _FAR, which.astype(np.int32)


@njit(nogil=True, cache=True)
def _near(  # type: ignore[no-untyped-def]
    first, last, x, y, cell_key, cell_offsets, cell_piece, piece, piece_road
):
    """The nearest roads within reach of each place, by (distance, road)."""
    most = CANDIDATES
    road = np.full((last - first, most), -1, np.int32)
    along, away = np.zeros((last - first, most)), np.zeros((last - first, most))
    for p in range(last - first):
        px, py = x[first + p], y[first + p]
        found = 0
        column, row = math.floor(px / REACH_M), math.floor(py / REACH_M)
        for cell in range(9):
            key = (row + cell // 3 - 1 + _FAR) * (2 * _FAR) + column + cell % 3 - 1 + _FAR
            k = np.searchsorted(cell_key, key)
            if k == len(cell_key) or cell_key[k] != key:
                continue
            for c in range(cell_offsets[k], cell_offsets[k + 1]):
                s = cell_piece[c]
                ax, ay, metres = piece[s, 0], piece[s, 1], piece[s, 5]
                dx, dy = piece[s, 2] - ax, piece[s, 3] - ay
                t = 0.0
                if metres > 0.0:
                    t = ((px - ax) * dx + (py - ay) * dy) / (metres * metres)
                    t = min(max(t, 0.0), 1.0)
                apart = math.hypot(px - ax - t * dx, py - ay - t * dy)
                if apart > REACH_M:
                    continue
                r = piece_road[s]
                # a road that is listed moves up if this piece of it is nearer
                at = 0
                while at < found and road[p, at] != r:
                    at += 1
                if at < found:
                    if away[p, at] <= apart:
                        continue
                elif found < most:
                    found += 1
                elif (away[p, most - 1], road[p, most - 1]) <= (apart, r):
                    continue
                else:
                    at = most - 1
                while at > 0 and (away[p, at - 1], road[p, at - 1]) > (apart, r):
                    road[p, at], along[p, at] = road[p, at - 1], along[p, at - 1]
                    away[p, at] = away[p, at - 1]
                    at -= 1
                road[p, at], along[p, at] = r, piece[s, 4] + t * metres
                away[p, at] = apart
    return road, along, away


def find_candidates(network: Network, locations: Locations) -> Candidates:
    """The roads that a sample at each location may lie on."""
    parts = map_each(
        _near, len(locations), locations.x, locations.y, network.cell_key,
        network.cell_offsets, network.cell_piece, network.piece, network.piece_road,
    )  # fmt: skip
    return Candidates(*joined(parts))
