"""Point-in-polygon assignment for many polygons, with a raster as the index.

A place is inside a zone if a ray to the east crosses an odd number of the zone's edges; these are the edges
of all its rings. Every edge is stored from its lower to its upper end. Two zones with a common edge thus
compute the same crossing, and a place on the edge belongs to exactly one of them.

Each cell of the raster lists the zones that cover it or have an edge in it, so that few edges are tested.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import join, map_each
from freqdp_db.model.arrays import Flags, Ids, Ints, Metres, offsets_of

_CELLS = 1024
"""Cells along each side of the raster."""
_ROUNDING = 1e-6
"""Bound of all rounding errors, in sides of a cell."""


@dataclass(frozen=True, eq=False)
class Polygons:
    """Polygons with their raster, as `index_polygons` makes them."""

    offsets: Ints
    """Zone z has the edges offsets[z] to offsets[z + 1] - 1."""
    edges: Metres
    """[edge]: x, y of the lower end, x, y of the upper end."""
    frame: Metres
    """x, y of the south-western corner of the raster, width and height of a cell."""
    cell_offsets: Ints
    """Cell c has the candidates cell_offsets[c] to cell_offsets[c + 1] - 1, ascending by zone."""
    candidate: Ids
    """Zone of each candidate."""
    covers: Flags
    """Whether the zone covers the whole cell."""

    def locate(self, x: Metres, y: Metres) -> Ids:
        """The zone of each place; -1: none."""
        parts = map_each(
            _locate, len(x), x, y, self.offsets, self.edges, self.frame,
            self.cell_offsets, self.candidate, self.covers,
        )  # fmt: skip
        return join(parts)


def index_polygons(zone: Ints, ring: Ints, x: Metres, y: Metres, zones: int) -> Polygons:
    """Index polygons, given as the corners of closed rings in the order of zones and rings.

    zone, ring: of each corner; rings are numbered across all zones.
    """
    first = np.flatnonzero(ring[1:] == ring[:-1])
    last = first + 1
    swapped = y[first] > y[last]
    low, high = np.where(swapped, last, first), np.where(swapped, first, last)
    edges = np.stack([x[low], y[low], x[high], y[high]], axis=1)
    offsets = offsets_of(zone[first], zones)
    corner = np.array([x.min(), y.min()])
    size = np.maximum(np.array([x.max(), y.max()]) - corner, 1.0) / _CELLS * (1 + _ROUNDING)
    frame = np.concatenate([corner, size])
    parts = map_each(_cells, zones, offsets, edges, frame)
    # a pair of cell and zone that has an edge sorts before the same pair as covered, and is kept
    found = np.unique(join(parts))
    kept = np.ones(len(found), np.bool_)
    kept[1:] = np.diff(found >> 1) != 0
    found = found[kept]
    cell, candidate = np.divmod(found >> 1, zones)
    return Polygons(
        offsets,
        edges,
        frame,
        offsets_of(cell, _CELLS * _CELLS),
        candidate.astype(np.int32),
        (found & 1) == 1,
    )


@njit(nogil=True, cache=True)
def _cells(first, last, offsets, edges, frame):  # type: ignore[no-untyped-def]
    """The candidates of zones `first` to `last` - 1, as (cell * zones + zone) * 2 + covered."""
    zones = len(offsets) - 1
    found = [0]
    found.clear()
    crossings = np.empty(0)
    for zone in range(first, last):
        begin, end = offsets[zone], offsets[zone + 1]
        if begin == end:
            continue
        if len(crossings) < end - begin:
            crossings = np.empty(end - begin)
        low = _CELLS
        high = -1
        for i in range(begin, end):
            ax, ay, bx, by = edges[i]
            level = ay == by
            slope = 0.0 if level else (bx - ax) / (by - ay)
            bottom = max(int(np.floor((ay - frame[1]) / frame[3] - _ROUNDING)), 0)
            top = min(int(np.floor((by - frame[1]) / frame[3] + _ROUNDING)), _CELLS - 1)
            low, high = min(low, bottom), max(high, top)
            for row in range(bottom, top + 1):
                y0 = min(max(frame[1] + row * frame[3], ay), by)
                y1 = min(max(frame[1] + (row + 1) * frame[3], ay), by)
                x0 = ax + (y0 - ay) * slope
                x1 = bx if level else ax + (y1 - ay) * slope
                west = max(int(np.floor((min(x0, x1) - frame[0]) / frame[2] - _ROUNDING)), 0)
                east = min(
                    int(np.floor((max(x0, x1) - frame[0]) / frame[2] + _ROUNDING)), _CELLS - 1
                )
                for column in range(west, east + 1):
                    found.append(((row * _CELLS + column) * zones + zone) * 2)
        for row in range(low, high + 1):
            y = frame[1] + (row + 0.5) * frame[3]
            count = 0
            for i in range(begin, end):
                ax, ay, bx, by = edges[i]
                if ay <= y < by:
                    crossings[count] = ax + (y - ay) * ((bx - ax) / (by - ay))
                    count += 1
            inside = np.sort(crossings[:count])
            for k in range(0, count - 1, 2):
                west = max(int(np.ceil((inside[k] - frame[0]) / frame[2] - 0.5)), 0)
                east = min(int(np.floor((inside[k + 1] - frame[0]) / frame[2] - 0.5)), _CELLS - 1)
                for column in range(west, east + 1):
                    found.append(((row * _CELLS + column) * zones + zone) * 2 + 1)
    return np.array(found, dtype=np.int64)


@njit(nogil=True, cache=True)
def _locate(first, last, x, y, offsets, edges, frame, cell_offsets, candidate, covers):  # type: ignore[no-untyped-def]
    """The zone of places `first` to `last` - 1; -1: none."""
    found = np.full(last - first, -1, np.int32)
    for p in range(first, last):
        column = np.floor((x[p] - frame[0]) / frame[2])
        row = np.floor((y[p] - frame[1]) / frame[3])
        if not (column >= 0 and column < _CELLS and row >= 0 and row < _CELLS):
            continue
        cell = int(row) * _CELLS + int(column)
        for k in range(cell_offsets[cell], cell_offsets[cell + 1]):
            zone = candidate[k]
            inside = covers[k]
            if not inside:
                for i in range(offsets[zone], offsets[zone + 1]):
                    ay, by = edges[i, 1], edges[i, 3]
                    if ay <= y[p] < by:
                        ax, bx = edges[i, 0], edges[i, 2]
                        if x[p] < ax + (y[p] - ay) * ((bx - ax) / (by - ay)):
                            inside = not inside
            if inside:
                found[p - first] = zone
                break
    return found
