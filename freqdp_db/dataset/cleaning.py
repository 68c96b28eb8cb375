"""From rows to samples: which are left out, counted by reason, the order of the rest, and their places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numba import njit

from freqdp_db.db.source_rows import EPOCH_PER_SECOND
from freqdp_db.engines.ranges import joined, map_each
from freqdp_db.errors import BadData
from freqdp_db.model.arrays import Flags, Ids, Ints, Metres
from freqdp_db.model.kernels import stable_order
from freqdp_db.model.trajectories import Codes, Locations
from freqdp_db.search.grid import interleave

US_PER_S = 1_000_000
_EPOCH_2000_S = 946_684_800
# Later than the invention of the clock radio, earlier than anybody's trajectory data: a time
# outside is a mistake, and infinities are far outside.
_EARLIEST_US = -100 * 365 * 86_400 * US_PER_S
_LATEST_US = 200 * 365 * 86_400 * US_PER_S

# The steps that sources keep their times in, longest first.
_STEPS_US = (
    *(s * US_PER_S for s in (3600, 1800, 900, 600, 300, 60, 30, 15, 10, 5, 1)),
    *(100_000, 10_000, 1_000, 1),
)
_ON_STEP_SHARE = 0.999

REASONS = {
    "null_object": "no object",
    "null_time": "no time",
    "null_position": "no position",
    "not_a_point": "geometry that is not a point",
    "other_srid": "geometry of another SRID",
    "bad_time": "time out of range",
    "bad_position": "position out of range or not a number",
    "null_island": "position 0, 0",
    "outside_projection": "cannot be projected to metres",
    "repeat": "exact repeat of another row",
    "same_instant": "second position of an object at one instant",
}


@dataclass(frozen=True)
class Rows:
    """Source rows as columns; `object` numbers the trajectories."""

    object: Ints
    at: Ints
    x: Metres
    y: Metres
    kept: Codes | None = None
    """A number for the values that a row carries along: the source reader's. None: they carry none."""

    def __len__(self) -> int:
        return len(self.object)

    def take(self, chosen: Flags | Ints) -> Rows:
        kept = None if self.kept is None else self.kept[chosen]
        return Rows(self.object[chosen], self.at[chosen], self.x[chosen], self.y[chosen], kept)


TIME_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_GUESSED_BELOW = {"s": 1e11, "ms": 1e14, "us": 1e17, "ns": np.inf}


def guess_unit(values: Metres) -> str:
    """What epoch numbers count, by the median of their sizes: by all rows, so nothing for persons."""
    finite = np.isfinite(values)
    size = float(np.median(np.abs(values[finite]))) if finite.any() else 0.0
    return next(unit for unit, limit in _GUESSED_BELOW.items() if size < limit)


def epoch_to_us(values: Metres, unit: str) -> Ints:
    """Epoch numbers to microseconds since 2000; those out of range become the largest time."""
    seconds = np.where(np.isfinite(values), values, np.inf) / EPOCH_PER_SECOND[unit] - _EPOCH_2000_S
    out_of_range = np.abs(seconds) > 9e12
    us = np.where(out_of_range, 0.0, seconds) * US_PER_S
    return np.where(out_of_range, np.iinfo(np.int64).max, np.rint(us).astype(np.int64))


def within(x: Metres, y: Metres, limits: tuple[float, float]) -> Flags:
    """Which positions are no farther from 0 than the limits on each axis; NaN and infinity never are."""
    inside: Flags = (np.abs(x) <= limits[0]) & (np.abs(y) <= limits[1])
    return inside


def drop_unusable(rows: Rows, limits: tuple[float, float], excluded: dict[str, int]) -> Rows:
    """Leave out times and positions that cannot be: a row is judged by itself and public limits.

    limits: how far from 0 the coordinates of the source's SRID can be.
    """
    good_time = (rows.at > _EARLIEST_US) & (rows.at < _LATEST_US)
    good_place = within(rows.x, rows.y, limits)
    island = (rows.x == 0.0) & (rows.y == 0.0)
    excluded["bad_time"] = int((~good_time).sum())
    excluded["bad_position"] = int((good_time & ~good_place).sum())
    excluded["null_island"] = int((good_time & island).sum())
    keep = good_time & good_place & ~island
    return rows if keep.all() else rows.take(keep)


def sort_rows(rows: Rows) -> Rows:
    """Order by (object, time); rows of one instant may be in any order, but for what they carry along."""
    if len(rows) == 0:
        return rows
    if rows.kept is not None:
        # of repeats the first stays: always the same one
        return rows.take(np.lexsort((rows.kept, rows.at, rows.object)))
    first = int(rows.at.min())
    span = int(rows.at.max()) - first + 1
    if int(rows.object.max()) < (2**62) // span:
        order = np.argsort(rows.object * span + (rows.at - first))
    else:
        order = np.lexsort((rows.at, rows.object))
    return rows.take(order)


@njit(cache=True)
def _by_position(x, y):  # type: ignore[no-untyped-def]
    """Order by (x, y)."""
    order = stable_order(y)
    return order[stable_order(x[order])]


@njit(cache=True)
def _one_per_instant(owner, at, x, y):  # type: ignore[no-untyped-def]
    """Of each instant keep the row with the smallest (x, y); count repeats and other positions."""
    n = len(owner)
    keep = np.ones(n, np.bool_)
    repeats = 0
    others = 0
    begin = 0
    while begin < n:
        end = begin + 1
        while end < n and owner[end] == owner[begin] and at[end] == at[begin]:
            end += 1
        if end - begin > 1:
            order = begin + _by_position(x[begin:end], y[begin:end])
            keep[begin:end] = False
            keep[order[0]] = True
            for k in range(1, len(order)):
                a, b = order[k - 1], order[k]
                if x[a] == x[b] and y[a] == y[b]:
                    repeats += 1
                else:
                    others += 1
        begin = end
    return keep, repeats, others


def drop_repeats(rows: Rows, excluded: dict[str, int]) -> Rows:
    """Of rows in order, one per object and instant."""
    keep, repeats, others = _one_per_instant(rows.object, rows.at, rows.x, rows.y)
    excluded["repeat"] = int(repeats)
    excluded["same_instant"] = int(others)
    return rows if keep.all() else rows.take(keep)


def on_step(at: Ints, step_us: int) -> int:
    """How many times are multiples of the step."""
    return int(np.count_nonzero(at % step_us == 0))


def time_step(count: Callable[[int], int], times: int) -> int:
    """The longest step that all but a few times are multiples of, in microseconds.

    count(step): how many of the times are multiples of it.
    """
    for step in _STEPS_US:
        if count(step) >= _ON_STEP_SHARE * times:
            return step
    return 1


def gaps(at: Ints, owner: Ints) -> Ints:
    """Time between consecutive samples of one object."""
    found: Ints = np.diff(at)[owner[1:] == owner[:-1]]
    return found


def median_of_counted(values: Ints, times: Ints) -> float:
    """The median of values that are there so many times each; they ascend, and there are some."""
    upto = np.cumsum(times)
    middle = [(upto[-1] - 1) // 2, upto[-1] // 2]
    return float(values[np.searchsorted(upto, middle, side="right")].mean())


def median_gap(median: float | None, step: int) -> int:
    """The median time between samples of one object, in whole time steps; None: there is none.

    At least one step: it dates samples that are appended, and a fraction would give them away.
    """
    gap = 60 * US_PER_S if median is None else int(median)
    return max((gap + step // 2) // step, 1) * step


# Snapping: from positions in metres to discrete locations.

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
        raise BadData("the table of [[snap]] has no usable points")
    places = np.stack([anchor_x[usable], anchor_y[usable]], axis=1)
    _, first = np.unique(places, axis=0, return_index=True)
    first.sort()
    nearest = cKDTree(places[first]).query(np.stack([x, y], axis=1), workers=-1)[1]
    anchor = usable[first][nearest]
    of_row, row = _number(anchor, anchor_x[anchor], anchor_y[anchor], 1.0)
    chosen = anchor[row]
    return Snapped(Locations(anchor_x[chosen], anchor_y[chosen]), of_row, chosen)
