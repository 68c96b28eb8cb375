"""The paper's hierarchical grid and its searches (section "Efficient Hierarchical Grid Index").

Levels of 1 x 1 to 512 x 512 cells; a segment is in its best-fit cell, the finest that holds both
its ends. Kept faithful, to compare with: a cell's bounds are those of the grid, every segment of a
visited cell is compared. (Only what is empty, with all below it, is never visited.)

Cells are numbered as in `grid`: the root is 1, the children of c are 4c to 4c + 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Flags, Ints, Metres
from freqdp_db.columns.ragged import offsets_of
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.ranges import joined, map_each
from freqdp_db.search.best import (
    ANYWHERE,
    ROOM,
    Nearest,
    Queries,
    empty_lists,
    grown,
    limit_of,
    mark,
    pop,
    push,
    search,
    sort_list,
    unmarked,
)
from freqdp_db.search.comparison.rows import SegmentRows, Sketch, distinct_rows, scan_blocks, sketch
from freqdp_db.search.grid import ROOT, interleave

FINEST = 9
SIDE = 1 << FINEST
_CELLS = 4 ** (FINEST + 1)
TOP_DOWN, BOTTOM_UP, BOTTOM_UP_DOWN = 0, 1, 2
# All cells of a path and their siblings wait at most; Alg. 3's stack holds no more.
_STACK = 8 * FINEST


@dataclass(frozen=True)
class GridBox:
    """What a grid of fixed size covers."""

    x: float
    y: float
    width: float
    height: float


def central_box(trajectories: Trajectories, locations: Locations) -> GridBox:
    """The box of the 0.1 to 99.9 percentiles of the samples."""
    used = np.bincount(trajectories.location, minlength=len(locations))
    x_min, x_max = _percentiles(locations.x, used)
    y_min, y_max = _percentiles(locations.y, used)
    return GridBox(x_min, y_min, max(x_max - x_min, 1.0), max(y_max - y_min, 1.0))


def _percentiles(values: Metres, used: Ints) -> tuple[float, float]:
    """The 0.1 and 99.9 percentiles of values that occur so often."""
    if used.sum() == 0:
        return 0.0, 0.0
    order = np.argsort(values)
    below = np.cumsum(used[order])
    at = np.searchsorted(below, np.array([0.001, 0.999]) * below[-1])
    low, high = values[order[at]]
    return float(low), float(high)


@dataclass(frozen=True)
class BestFitGrid:
    """The segments cell by cell, and what a search asks of a cell."""

    box: GridBox
    rows: SegmentRows
    small: Sketch
    offsets: Ints
    """SegmentRows of cell c are offsets[c] to offsets[c + 1] - 1."""
    occupied: Flags
    """Whether the cell or one below it has a segment."""


def file_best_fit(trajectories: Trajectories, locations: Locations) -> BestFitGrid:
    """Put every distinct segment into its best-fit cell."""
    box = central_box(trajectories, locations)
    rows = distinct_rows(trajectories, locations)
    cell = best_fit_cells(box, rows.ax, rows.ay, rows.bx, rows.by)
    order = np.argsort(cell, kind="stable")
    offsets = offsets_of(cell[order], _CELLS)
    occupied = np.diff(offsets) > 0
    for level in range(FINEST, 0, -1):
        children = occupied[4**level : 4 ** (level + 1)]
        occupied[4 ** (level - 1) : 4**level] |= children.reshape(-1, 4).any(axis=1)
    rows = rows.take(order)
    return BestFitGrid(box, rows, sketch(rows, box.x, box.y), offsets, occupied)


def best_fit_cells(box: GridBox, ax: Metres, ay: Metres, bx: Metres, by: Metres) -> Ints:
    """The best-fit cell of each segment."""
    parts = map_each(_best_fit, len(ax), ax, ay, bx, by, box.x, box.y, box.width, box.height)
    (cell,) = joined(parts)
    return cell


@njit(cache=True)
def cell_at(x, y, box_x, box_y, width, height):  # type: ignore[no-untyped-def]
    """Column and row of the finest cell at a point; what is outside goes to the border's."""
    u = np.int64(min(max((x - box_x) / width, 0.0) * SIDE, SIDE - 1.0))
    v = np.int64(min(max((y - box_y) / height, 0.0) * SIDE, SIDE - 1.0))
    return u, v


@njit(nogil=True, cache=True)
def _best_fit(  # type: ignore[no-untyped-def]
    first, last, ax, ay, bx, by, box_x, box_y, width, height
):
    """Paper, Def. "Best-fit Grid Cell"; the root for what is not inside the box."""
    cell = np.empty(last - first, np.int64)
    for s in range(first, last):
        inside = (
            min(ax[s], bx[s]) >= box_x
            and max(ax[s], bx[s]) <= box_x + width
            and min(ay[s], by[s]) >= box_y
            and max(ay[s], by[s]) <= box_y + height
        )
        if not inside:
            cell[s - first] = ROOT
            continue
        u, v = cell_at(ax[s], ay[s], box_x, box_y, width, height)
        u2, v2 = cell_at(bx[s], by[s], box_x, box_y, width, height)
        level = FINEST
        while u != u2 or v != v2:
            u, v, u2, v2 = u >> 1, v >> 1, u2 >> 1, v2 >> 1
            level -= 1
        cell[s - first] = (np.int64(1) << (2 * level)) | interleave(u, v)
    return (cell,)


@njit(cache=True)
def _level_of(cell):  # type: ignore[no-untyped-def]
    level = 0
    while cell > 3:
        cell >>= 2
        level += 1
    return level


@njit(cache=True)
def min_distance2(px, py, cell, box_x, box_y, width, height):  # type: ignore[no-untyped-def]
    """MINdist of the point and a cell, squared; 0 for the root, which also holds what is outside."""
    level = _level_of(cell)
    if level == 0:
        return 0.0
    u, v = np.int64(0), np.int64(0)
    for bit in range(level):
        u |= ((cell >> (2 * bit)) & 1) << bit
        v |= ((cell >> (2 * bit + 1)) & 1) << bit
    w, h = width / (1 << level), height / (1 << level)
    dx = max(box_x + u * w - px, 0.0, px - (box_x + (u + 1) * w))
    dy = max(box_y + v * h - py, 0.0, py - (box_y + (v + 1) * h))
    return dx * dx + dy * dy


def search_best_fit(grid: BestFitGrid, way: int, queries: Queries, rank: Ints) -> Nearest:
    """Answer all queries, top-down, bottom-up or bottom-up-down."""
    box = (grid.box.x, grid.box.y, grid.box.width, grid.box.height)
    index = (way, box, tuple(grid.rows), tuple(grid.small), grid.offsets, grid.occupied)
    return search(_best_fit_range, index, queries, rank)


@njit(nogil=True, cache=True)
def _best_fit_range(first, last, asked, way, box, rows, small, cell_offsets, occupied):  # type: ignore[no-untyped-def]
    """Algorithm 3, for trajectories: the best list (Q_s) is bounded, theta_K is its limit.

    Top-down starts at the root with the queue; bottom-up keeps to the stack; bottom-up-down goes
    from the stack to the queue when it comes to the root.
    """
    x, y, offsets, skip_offsets, skip, rank = asked
    out_t, out_p, out_d = empty_lists(offsets[last] - offsets[first])
    ax, ay, bx, by, owner, position = rows
    ends, reach = small
    box_x, box_y, width, height = box
    skipped, listed, slot = unmarked(len(rank)), unmarked(len(rank)), unmarked(len(rank))
    visited = np.zeros(len(occupied), np.bool_)  # V, and its members, to clear it after a query
    members = np.empty(ROOM, np.int64)
    stack_d, stack_n = np.empty(_STACK, np.float64), np.empty(_STACK, np.int64)
    queue_d, queue_n = np.empty(ROOM, np.float64), np.empty(ROOM, np.int64)
    distances, cells = 0, 0
    for q in range(first, last):
        if offsets[q] == offsets[q + 1]:
            continue
        mark(skipped, skip, skip_offsets[q], skip_offsets[q + 1], q)
        begin_q, end_q = offsets[q] - offsets[first], offsets[q + 1] - offsets[first]
        best_t, best_p = out_t[begin_q:end_q], out_p[begin_q:end_q]
        best_d = out_d[begin_q:end_q]
        px, py = x[q], y[q]
        held, limit2 = 0, ANYWHERE
        stacked, queued, visits = 0, 0, 0
        root_access = way == TOP_DOWN
        if root_access:
            queued = push(queue_d, queue_n, 0, 0.0, ROOT)
        else:  # lines 1-4
            u, v = cell_at(px, py, box_x, box_y, width, height)
            stack_d[0], stack_n[0] = 0.0, (np.int64(1) << (2 * FINEST)) | interleave(u, v)
            stacked = 1
        while stacked > 0 or queued > 0:
            if not root_access:  # lines 9-12
                stacked -= 1
                distance2, cell = stack_d[stacked], stack_n[stacked]
                if distance2 > limit2:
                    continue
            else:  # lines 13-16
                distance2, cell = queue_d[0], queue_n[0]
                queued = pop(queue_d, queue_n, queued)
                if distance2 > limit2:
                    break
            if visits == len(members):
                members = grown(members)
            visited[cell] = True
            members[visits] = cell
            visits += 1
            # lines 18-23: the cell's segments, and the limit
            begin, end = cell_offsets[cell], cell_offsets[cell + 1]
            if end > begin:
                # outside of the box there is nothing but in the root
                held = scan_blocks(
                    ends, box_x, box_y, reach if cell == ROOT else width + height, begin, end,
                    ax, ay, bx, by, owner, position, px, py,
                    best_t, best_p, best_d, skipped, listed, slot, rank, q, held,
                )  # fmt: skip
                distances += end - begin
                limit2 = limit_of(best_d, held)
            # lines 24-29: the parent first, so that the children are looked at before it
            parent = cell >> 2
            if not root_access and cell != ROOT and not visited[parent]:
                if parent == ROOT and way == BOTTOM_UP_DOWN:
                    root_access = True
                    queued = push(queue_d, queue_n, queued, 0.0, parent)
                else:
                    stack_d[stacked], stack_n[stacked] = 0.0, parent
                    stacked += 1
            # lines 30-35
            if cell >= _CELLS // 4:
                continue
            if len(queue_d) < queued + 4:
                queue_d, queue_n = grown(queue_d), grown(queue_n)
            for child in range(4 * cell, 4 * cell + 4):
                if not occupied[child] or visited[child]:
                    continue
                d2 = min_distance2(px, py, child, box_x, box_y, width, height)
                if root_access:
                    queued = push(queue_d, queue_n, queued, d2, child)
                else:
                    stack_d[stacked], stack_n[stacked] = d2, child
                    stacked += 1
        for i in range(visits):
            visited[members[i]] = False
        cells += visits
        sort_list(best_t, best_p, best_d, slot, rank, held)
    return out_t, out_p, out_d, distances, cells
