"""Snapping: from positions in metres to discrete locations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_each
from freqdp_db.errors import BadData
from freqdp_db.model.arrays import Ids, Ints, Metres
from freqdp_db.model.trajectories import Locations
from freqdp_db.search.grid import interleave

_HALF = 1 << 31
"""Numbers of so many values fill one half of 64 bits."""


@dataclass(frozen=True)
class Snapped:
    """Locations along the Z-order curve, and the location of every row."""

    locations: Locations
    of_row: Ids
    origin: Ints | None = None
    """For each location that is no cell, the anchor that it is, or some row that is at it."""


@njit(cache=True)
def _curve(ix, iy, z):  # type: ignore[no-untyped-def]
    for i in range(len(ix)):
        z[i] = interleave(ix[i], iy[i])


def _along_curve(x: Metres, y: Metres, pitch: float) -> Ints:
    """Order of points along the Z-order curve over cells of this pitch, then by coordinates."""
    if len(x) == 0:
        return np.zeros(0, np.int64)
    # 31 bits a side: coarser where the data is wider than that
    pitch = max(pitch, float(np.ptp(x)) / 2**30, float(np.ptp(y)) / 2**30)
    z = np.empty(len(x), np.int64)
    _curve(
        np.floor((x - x.min()) / pitch).astype(np.int64),
        np.floor((y - y.min()) / pitch).astype(np.int64),
        z,
    )
    return np.lexsort((y, x, z))


def _number(key: Ints, x: Metres, y: Metres, pitch: float) -> tuple[Ids, Ints]:
    """Number the distinct keys along the curve: number of each row, and a row for each number."""
    _, row, of_row = np.unique(key, return_index=True, return_inverse=True)
    order = _along_curve(x[row], y[row], pitch)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return number[of_row], row[order]


@dataclass(frozen=True)
class GridCells:
    """Distinct cells of a grid, in order of (column, row)."""

    column: Ints
    row: Ints

    @classmethod
    def of(cls, x: Metres, y: Metres, metres: float) -> GridCells:
        return cls.distinct(*_cells(x, y, metres))

    @classmethod
    def distinct(cls, column: Ints, row: Ints) -> GridCells:
        # compared as pairs: a number made by a product of extents can leave 64 bits for one far row
        if all(c.min(initial=0) >= -_HALF and c.max(initial=0) < _HALF for c in (column, row)):
            pair = np.unique((column << 32) + (row + _HALF))
            return cls(pair >> 32, (pair & 0xFFFFFFFF) - _HALF)
        order = np.lexsort((row, column))
        column, row = column[order], row[order]
        new = (np.diff(column, prepend=column[0] - 1) != 0) | (np.diff(row, prepend=row[0]) != 0)
        return cls(column[new], row[new])

    def numbered(self) -> GridCells:
        """In the order of their numbers: along the Z-order curve."""
        order = _along_curve(self.column.astype(np.float64), self.row.astype(np.float64), 1.0)
        return GridCells(self.column[order], self.row[order])

    def locations(self, metres: float) -> Locations:
        """The centre of each cell."""
        u, v = self.column.astype(np.float64), self.row.astype(np.float64)
        return Locations((u + 0.5) * metres, (v + 0.5) * metres)

    def find(self, x: Metres, y: Metres, metres: float) -> Ids:
        """The place here of the cell of each point."""
        order = np.lexsort((self.row, self.column))
        known = self.column[order], self.row[order], order.astype(np.int32)
        (found,) = joined(map_each(_find_cells, len(x), *known, *_cells(x, y, metres)))
        assert not len(found) or found.min() >= 0, "a point in none of the cells"
        return cast("Ids", found)


def _cells(x: Metres, y: Metres, metres: float) -> tuple[Ints, Ints]:
    """Column and row of the cell of each point."""
    column, row = (np.floor(c / metres).astype(np.int64) for c in (x, y))
    return column, row


@njit(nogil=True, cache=True)
def _find_cells(first, last, columns, rows, number, column, row):  # type: ignore[no-untyped-def]
    """The number of the cell of each point in a range, of cells in order of (column, row); -1: none."""
    found = np.empty(last - first, np.int32)
    here = 0
    for i in range(first, last):
        u, v = column[i], row[i]
        # most samples are in the cell of the one before
        if here == len(columns) or columns[here] != u or rows[here] != v:
            here, high = 0, len(columns)
            while here < high:
                middle = (here + high) // 2
                if columns[middle] < u or (columns[middle] == u and rows[middle] < v):
                    here = middle + 1
                else:
                    high = middle
        known = here < len(columns) and columns[here] == u and rows[here] == v
        found[i - first] = number[here] if known else -1
    return (found,)


def merge_cells(one: GridCells, other: GridCells) -> GridCells:
    """The cells of either."""
    return GridCells.distinct(
        np.concatenate([one.column, other.column]), np.concatenate([one.row, other.row])
    )


def snap_grid(x: Metres, y: Metres, metres: float) -> Snapped:
    """Cells are multiples of `metres`; the location is the cell's centre."""
    cells = GridCells.of(x, y, metres).numbered()
    return Snapped(cells.locations(metres), cells.find(x, y, metres))


def snap_exact(x: Metres, y: Metres) -> Snapped:
    """Every distinct position is a location."""
    pairs = np.stack([x, y], axis=1) + 0.0  # + 0.0 makes -0.0 equal to 0.0
    key = np.unique(pairs.view([("x", "f8"), ("y", "f8")]).reshape(-1), return_inverse=True)[1]
    of_row, row = _number(key.astype(np.int64), x, y, 1.0)
    return Snapped(Locations(x[row], y[row]), of_row, row)


def snap_anchors(x: Metres, y: Metres, anchor_x: Metres, anchor_y: Metres) -> Snapped:
    """The nearest anchor; of anchors at one place, the first."""
    from scipy.spatial import cKDTree  # slow to import, and rarely needed

    usable = np.flatnonzero(np.isfinite(anchor_x) & np.isfinite(anchor_y))
    if len(usable) == 0:
        raise BadData("the relation of [[snap]] anchors: has no usable points")
    places = np.stack([anchor_x[usable], anchor_y[usable]], axis=1)
    _, first = np.unique(places, axis=0, return_index=True)
    first.sort()
    nearest = cKDTree(places[first]).query(np.stack([x, y], axis=1), workers=-1)[1]
    anchor = usable[first][nearest]
    of_row, row = _number(anchor, anchor_x[anchor], anchor_y[anchor], 1.0)
    chosen = anchor[row]
    return Snapped(Locations(anchor_x[chosen], anchor_y[chosen]), of_row, chosen)
