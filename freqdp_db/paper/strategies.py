"""The strategies of K-nearest search behind one interface: all exact, all with the same answer.

`linear` looks at every segment and defines the answer; the others find it by looking at less. `extent`
is what a release uses. The uniform grid and the paper's hierarchical grid (section "Efficient
Hierarchical Grid Index") are here to compare with: levels of 1 x 1 to 512 x 512 cells; a segment is in
its best-fit cell, the finest that holds both its ends. A cell's bounds are those of the grid, and every
segment of a visited cell is compared. (Only what is empty, with all below it, is never visited.)

Cells are numbered as in `grid`: the root is 1, the children of c are 4c to 4c + 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_each, map_ranges
from freqdp_db.model.arrays import Flags, Ids, Ints, Metres, offsets_from, offsets_of, owners
from freqdp_db.model.kernels import longer
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.search.grid import ROOT, distinct_segments, interleave
from freqdp_db.search.nearest import (
    ANYWHERE,
    ROOM,
    Nearest,
    Queries,
    empty_lists,
    index_segments,
    limit_of,
    mark,
    nearest_trajectories,
    offer,
    pop,
    push,
    rough_squared_distance,
    search,
    sort_list,
    squared_distance,
    to_mm,
    unmarked,
)


class SegmentRows(NamedTuple):
    """Distinct segments of trajectories, as columns."""

    ax: Metres
    ay: Metres
    bx: Metres
    by: Metres
    owner: Ids
    position: Ids
    """Trajectory of each segment, and where in it the segment begins."""

    def take(self, order: Ints) -> SegmentRows:
        return SegmentRows._make(column[order] for column in self)


def distinct_rows(trajectories: Trajectories, locations: Locations) -> SegmentRows:
    """Every distinct segment, trajectory by trajectory."""
    segments = distinct_segments(trajectories)
    return SegmentRows(
        locations.x[segments.tail],
        locations.y[segments.tail],
        locations.x[segments.head],
        locations.y[segments.head],
        segments.trajectory,
        segments.position,
    )


@njit(cache=True)
def scan_rows(  # type: ignore[no-untyped-def]
    ax, ay, bx, by, owner, position, px, py,
    best_t, best_p, best_d, skipped, listed, slot, rank, q, held,
):  # fmt: skip
    """Offer rows to the list of query q; how many it holds then.

    They are handed over as slices: an index that begins at 0 cannot be negative, so that the
    compiler need not care for counting from the end.
    """
    limit2 = limit_of(best_d, held)
    for s in range(len(ax)):
        # the limit before anything else
        if rough_squared_distance(px, py, ax[s], ay[s], bx[s], by[s]) > limit2:
            continue
        if skipped[owner[s]] != q:
            loss = to_mm(squared_distance(px, py, ax[s], ay[s], bx[s], by[s]))
            held = offer(
                best_t, best_p, best_d, listed, slot, rank, q, held, owner[s], position[s], loss
            )
            limit2 = limit_of(best_d, held)
    return held


FINEST = 9
SIDE = 1 << FINEST
_CELLS = 4 ** (FINEST + 1)
TOP_DOWN, BOTTOM_UP, BOTTOM_UP_DOWN = 0, 1, 2
# All cells of a path and their siblings wait at most; Alg. 3's stack holds no more.
_STACK = 8 * FINEST


class GridBox(NamedTuple):
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
    offsets: Ints
    """Rows of cell c are offsets[c] to offsets[c + 1] - 1."""
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
    return BestFitGrid(box, rows.take(order), offsets, occupied)


def best_fit_cells(box: GridBox, ax: Metres, ay: Metres, bx: Metres, by: Metres) -> Ints:
    """The best-fit cell of each segment."""
    parts = map_each(_best_fit, len(ax), ax, ay, bx, by, *box)
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
    index = (way, tuple(grid.box), tuple(grid.rows), grid.offsets, grid.occupied)
    return search(_best_fit_range, index, queries, rank)


@njit(nogil=True, cache=True)
def _best_fit_range(first, last, asked, way, box, rows, cell_offsets, occupied):  # type: ignore[no-untyped-def]
    """Algorithm 3, for trajectories: the best list (Q_s) is bounded, theta_K is its limit.

    Top-down starts at the root with the queue; bottom-up keeps to the stack; bottom-up-down goes
    from the stack to the queue when it comes to the root.
    """
    x, y, offsets, skip_offsets, skip, rank = asked
    out_t, out_p, out_d = empty_lists(offsets[last] - offsets[first])
    ax, ay, bx, by, owner, position = rows
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
                members = longer(members, 0)
            visited[cell] = True
            members[visits] = cell
            visits += 1
            # lines 18-23: the cell's segments, and the limit
            begin, end = cell_offsets[cell], cell_offsets[cell + 1]
            if end > begin:
                held = scan_rows(
                    ax[begin:end], ay[begin:end], bx[begin:end], by[begin:end],
                    owner[begin:end], position[begin:end], px, py,
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
                queue_d, queue_n = longer(queue_d, 0), longer(queue_n, 0)
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


# The uniform grid: 512 x 512 cells, searched ring by ring around the query.
#
# A segment is listed in every cell that it passes. Cells at the border reach to infinity, so that
# nothing is outside; a segment that passes very many cells is scanned always instead.


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
    frame = tuple(box)
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
    index = (tuple(grid.box), tuple(grid.rows), grid.always, grid.offsets, grid.listed)
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


# The linear scan: every segment, for every query. What all other strategies are measured by.


def search_linear(rows: SegmentRows, queries: Queries, rank: Ints) -> Nearest:
    """Answer all queries by looking at every row."""
    return search(_linear_range, (tuple(rows),), queries, rank)


@njit(nogil=True, cache=True)
def _linear_range(first, last, asked, rows):  # type: ignore[no-untyped-def]
    x, y, offsets, skip_offsets, skip, rank = asked
    out_t, out_p, out_d = empty_lists(offsets[last] - offsets[first])
    ax, ay, bx, by, owner, position = rows
    skipped, listed, slot = unmarked(len(rank)), unmarked(len(rank)), unmarked(len(rank))
    answered = 0
    for q in range(first, last):
        if offsets[q] == offsets[q + 1]:
            continue
        mark(skipped, skip, skip_offsets[q], skip_offsets[q + 1], q)
        begin_q, end_q = offsets[q] - offsets[first], offsets[q + 1] - offsets[first]
        best_t, best_p = out_t[begin_q:end_q], out_p[begin_q:end_q]
        best_d = out_d[begin_q:end_q]
        held = scan_rows(
            ax, ay, bx, by, owner, position, x[q], y[q],
            best_t, best_p, best_d, skipped, listed, slot, rank, q, 0,
        )  # fmt: skip
        sort_list(best_t, best_p, best_d, slot, rank, held)
        answered += 1
    return out_t, out_p, out_d, answered * len(ax), 0


DEFAULT = "extent"


@dataclass(frozen=True)
class Strategy:
    """A way to the K nearest trajectories of a point."""

    name: str
    build: Callable[[Trajectories, Locations, Ints], Any]
    """build(trajectories, locations, rank): the index, whatever it is."""
    query: Callable[[Any, Queries], Nearest]
    """query(index, queries): the answers."""


def _ranked(name: str, build: Callable[..., Any], query: Callable[..., Nearest]) -> Strategy:
    """A strategy whose index knows nothing of the rank."""
    return Strategy(
        name,
        lambda trajectories, locations, rank: (build(trajectories, locations), rank),
        lambda index, queries: query(index[0], queries, index[1]),
    )


def _best_fit_strategy(name: str, way: int) -> Strategy:
    def query(index: BestFitGrid, queries: Queries, rank: Ints) -> Nearest:
        return search_best_fit(index, way, queries, rank)

    return _ranked(name, file_best_fit, query)


STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        _ranked("linear", distinct_rows, search_linear),
        _ranked("uniform-grid", file_uniformly, search_uniform),
        _best_fit_strategy("hg-top-down", TOP_DOWN),
        _best_fit_strategy("hg-bottom-up", BOTTOM_UP),
        _best_fit_strategy("hg-bottom-up-down", BOTTOM_UP_DOWN),
        Strategy(DEFAULT, index_segments, nearest_trajectories),
    )
}


def index_bytes(index: Any) -> int:
    """Memory that the arrays of an index take."""
    return sum({id(array): array.nbytes for array in _arrays(index)}.values())


def _arrays(part: Any) -> Iterator[np.typing.NDArray[Any]]:
    if isinstance(part, np.ndarray):
        yield part
    elif isinstance(part, tuple):
        for member in part:
            yield from _arrays(member)
    elif is_dataclass(part):
        for field in fields(part):
            yield from _arrays(getattr(part, field.name))
