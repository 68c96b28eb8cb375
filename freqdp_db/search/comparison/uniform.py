"""The uniform grid: 512 x 512 cells, searched ring by ring around the query.

A segment is listed in every cell that it passes. Cells at the border reach to infinity, so that
nothing is outside; a segment that passes very many cells is scanned always instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.ragged import offsets_from, owners
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.ranges import joined, map_each, map_ranges
from freqdp_db.search.best import (
    ANYWHERE,
    Nearest,
    Queries,
    empty_lists,
    limit_of,
    mark,
    offer,
    search,
    sort_list,
    unmarked,
)
from freqdp_db.search.comparison.bestfit import SIDE, GridBox, cell_at, central_box
from freqdp_db.search.comparison.rows import (
    SegmentRows,
    distinct_rows,
    rough_squared_distance,
    scan_rows,
)
from freqdp_db.search.distance import squared_distance, to_mm

_MOST_CELLS = 256


@dataclass(frozen=True)
class UniformGrid:
    """The segments, and which of them pass each cell."""

    box: GridBox
    rows: SegmentRows
    """Those that are scanned always come first, then the others from cell to cell."""
    always: int
    offsets: Ints
    """Cell [v, u] lists offsets[v * SIDE + u] to offsets[v * SIDE + u + 1] - 1."""
    listed: Ids


def file_uniformly(trajectories: Trajectories, locations: Locations) -> UniformGrid:
    """List every distinct segment in the cells that it passes."""
    box = central_box(trajectories, locations)
    frame = (box.x, box.y, box.width, box.height)
    rows = distinct_rows(trajectories, locations)
    count, start = joined(map_each(_cells_passed, len(rows.ax), tuple(rows), frame))
    start[count > _MOST_CELLS] = -1
    order = np.argsort(start, kind="stable")  # neighbours lie side by side in memory
    rows, count = rows.take(order), count[order]
    always = int((start < 0).sum())
    count[:always] = 0
    room = offsets_from(count)
    (cell,) = joined(map_ranges(_cells_listed, room, tuple(rows), frame, room))
    row = owners(room)
    by_cell = np.argsort(cell, kind="stable")
    offsets = offsets_from(np.bincount(cell, minlength=SIDE * SIDE))
    return UniformGrid(box, rows, always, offsets, row[by_cell])


@njit(cache=True)
def _columns_of(v, rows, s, frame):  # type: ignore[no-untyped-def]
    """First and last column that segment s passes in row v of the cells."""
    ax, ay, bx, by = rows[0][s], rows[1][s], rows[2][s], rows[3][s]
    if ay > by:
        ax, ay, bx, by = bx, by, ax, ay
    low = -np.inf if v == 0 else frame[1] + v * (frame[3] / SIDE)
    high = np.inf if v == SIDE - 1 else frame[1] + (v + 1) * (frame[3] / SIDE)
    x1 = ax if ay >= low else ax + (bx - ax) * ((low - ay) / (by - ay))
    x2 = bx if by <= high else ax + (bx - ax) * ((high - ay) / (by - ay))
    u1, _ = cell_at(x1, ay, frame[0], frame[1], frame[2], frame[3])
    u2, _ = cell_at(x2, ay, frame[0], frame[1], frame[2], frame[3])
    return min(u1, u2), max(u1, u2)


@njit(cache=True)
def _lines_of(rows, s, frame):  # type: ignore[no-untyped-def]
    _, v1 = cell_at(rows[0][s], rows[1][s], frame[0], frame[1], frame[2], frame[3])
    _, v2 = cell_at(rows[2][s], rows[3][s], frame[0], frame[1], frame[2], frame[3])
    return min(v1, v2), max(v1, v2)


@njit(nogil=True, cache=True)
def _cells_passed(first, last, rows, frame):  # type: ignore[no-untyped-def]
    """How many cells each segment passes, and the first of them."""
    count, start = np.zeros(last - first, np.int64), np.empty(last - first, np.int64)
    for s in range(first, last):
        v1, v2 = _lines_of(rows, s, frame)
        start[s - first] = v1 * SIDE + _columns_of(v1, rows, s, frame)[0]
        for v in range(v1, v2 + 1):
            u1, u2 = _columns_of(v, rows, s, frame)
            count[s - first] += u2 - u1 + 1
    return count, start


@njit(nogil=True, cache=True)
def _cells_listed(first, last, rows, frame, room):  # type: ignore[no-untyped-def]
    cell = np.empty(room[last] - room[first], np.int32)
    i = 0
    for s in range(first, last):
        if room[s] == room[s + 1]:
            continue
        v1, v2 = _lines_of(rows, s, frame)
        for v in range(v1, v2 + 1):
            u1, u2 = _columns_of(v, rows, s, frame)
            for u in range(u1, u2 + 1):
                cell[i] = v * SIDE + u
                i += 1
    return (cell,)


def search_uniform(grid: UniformGrid, queries: Queries, rank: Ints) -> Nearest:
    """Answer all queries, ring by ring."""
    frame = (grid.box.x, grid.box.y, grid.box.width, grid.box.height)
    index = (frame, tuple(grid.rows), grid.always, grid.offsets, grid.listed)
    return search(_ring_range, index, queries, rank)


@njit(nogil=True, cache=True)
def _ring_range(  # type: ignore[no-untyped-def]
    first, last, asked, frame, rows, always, cell_offsets, listing
):
    x, y, offsets, skip_offsets, skip, rank = asked
    out_t, out_p, out_d = empty_lists(offsets[last] - offsets[first])
    ax, ay, bx, by, owner, position = rows
    skipped, listed, slot = unmarked(len(rank)), unmarked(len(rank)), unmarked(len(rank))
    distances, cells = 0, 0
    for q in range(first, last):
        if offsets[q] == offsets[q + 1]:
            continue
        mark(skipped, skip, skip_offsets[q], skip_offsets[q + 1], q)
        begin_q, end_q = offsets[q] - offsets[first], offsets[q + 1] - offsets[first]
        best_t, best_p = out_t[begin_q:end_q], out_p[begin_q:end_q]
        best_d = out_d[begin_q:end_q]
        px, py = x[q], y[q]
        column, line = cell_at(px, py, frame[0], frame[1], frame[2], frame[3])
        held, limit2 = 0, ANYWHERE
        for ring in range(SIDE):
            if _beyond(px, py, column, line, ring, frame) > limit2:
                break
            for v in range(max(line - ring, 0), min(line + ring, SIDE - 1) + 1):
                # the first and last line of the ring are whole, the others have two cells
                step = 1 if abs(v - line) == ring else 2 * ring
                for u in range(column - ring, column + ring + 1, step):
                    if u < 0 or u >= SIDE or _cell_distance2(px, py, u, v, frame) > limit2:
                        continue
                    cells += 1
                    begin, end = cell_offsets[v * SIDE + u], cell_offsets[v * SIDE + u + 1]
                    distances += end - begin
                    for i in range(begin, end):
                        s = listing[i]
                        d2 = rough_squared_distance(px, py, ax[s], ay[s], bx[s], by[s])
                        if d2 > limit2 or skipped[owner[s]] == q:
                            continue
                        d2 = squared_distance(px, py, ax[s], ay[s], bx[s], by[s])
                        held = offer(
                            best_t, best_p, best_d, listed, slot, rank,
                            q, held, owner[s], position[s], to_mm(d2),
                        )  # fmt: skip
                        limit2 = limit_of(best_d, held)
            if ring == 0:
                # with a limit from the query's own cell these are mostly passed over
                held = scan_rows(
                    ax[:always], ay[:always], bx[:always], by[:always],
                    owner[:always], position[:always], px, py,
                    best_t, best_p, best_d, skipped, listed, slot, rank, q, held,
                )  # fmt: skip
                distances += always
                limit2 = limit_of(best_d, held)
        sort_list(best_t, best_p, best_d, slot, rank, held)
    return out_t, out_p, out_d, distances, cells


@njit(cache=True)
def _beyond(px, py, column, line, ring, frame):  # type: ignore[no-untyped-def]
    """Squared distance that everything in this ring and the rings around it has at least."""
    if ring == 0:
        return 0.0
    w, h = frame[2] / SIDE, frame[3] / SIDE
    nearest = np.inf
    if column - ring >= 0:
        nearest = min(nearest, px - (frame[0] + (column - ring + 1) * w))
    if column + ring < SIDE:
        nearest = min(nearest, frame[0] + (column + ring) * w - px)
    if line - ring >= 0:
        nearest = min(nearest, py - (frame[1] + (line - ring + 1) * h))
    if line + ring < SIDE:
        nearest = min(nearest, frame[1] + (line + ring) * h - py)
    return max(nearest, 0.0) ** 2


@njit(cache=True)
def _cell_distance2(px, py, u, v, frame):  # type: ignore[no-untyped-def]
    """MINdist, squared; cells at the border reach to infinity."""
    w, h = frame[2] / SIDE, frame[3] / SIDE
    dx = dy = 0.0
    if u > 0:
        dx = max(dx, frame[0] + u * w - px)
    if u < SIDE - 1:
        dx = max(dx, px - (frame[0] + (u + 1) * w))
    if v > 0:
        dy = max(dy, frame[1] + v * h - py)
    if v < SIDE - 1:
        dy = max(dy, py - (frame[1] + (v + 1) * h))
    return dx * dx + dy * dy
