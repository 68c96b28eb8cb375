"""K-nearest segments of one trajectory (paper, Def. "K-Nearest Trajectory Segment Search").

Here every occurrence of a segment counts, since each can take an insertion; they are in order of
(loss, position). Two ways: scan the trajectory and select, or the paper's grid of each trajectory,
HG(tau), searched bottom-up-down (Algorithm 3 as it stands).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import add, join, map_each, map_ranges, merged
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_from, offsets_of, owners, within
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.paper.grid_searches import (
    FINEST,
    GridBox,
    best_fit_cells,
    cell_at,
    central_box,
    min_distance2,
)
from freqdp_db.search.best import (
    ANYWHERE,
    ROOM,
    grown,
    pop,
    push,
    squared_distance,
    to_mm,
    unmarked,
)
from freqdp_db.search.grid import ROOT, interleave

# Loss and position in one number, which orders as the pair does: 2^36 mm are 68,000 km.
_POSITION_BITS = 27
_CELL_BITS = 2 * (FINEST + 1)
_STACK = 8 * FINEST


@dataclass(frozen=True)
class NearestSegments:
    """Answers, in order of (query, loss, position); position -1: the trajectory has no more."""

    offsets: Ints
    position: Ids
    loss_mm: Ints
    distances: int
    cells: int


@dataclass(frozen=True)
class SegmentQueries:
    """Points to find the nearest segments of one trajectory of, and how many."""

    trajectory: Ids
    x: Metres
    y: Metres
    k: Ints

    def __len__(self) -> int:
        return len(self.k)

    def take(self, chosen: Ints) -> SegmentQueries:
        """Some of the queries, in this order."""
        return SegmentQueries(
            self.trajectory[chosen], self.x[chosen], self.y[chosen], self.k[chosen]
        )


def _answer(offsets: Ints, parts: list[tuple[Ints, int, int]]) -> NearestSegments:
    best, distances, cells = merged(parts, join, add, add)
    return NearestSegments(
        offsets,
        np.where(best < 0, -1, best & ((1 << _POSITION_BITS) - 1)).astype(np.int32),
        np.where(best < 0, 0, best >> _POSITION_BITS),
        distances,
        cells,
    )


def scan_locally(world: tuple[Trajectories, Locations], queries: SegmentQueries) -> NearestSegments:
    """Compare with every segment of the trajectory, then select."""
    trajectories, locations = world
    offsets = offsets_from(queries.k)
    parts = map_ranges(
        _scan_range, offsets_from(trajectories.lengths[queries.trajectory]),
        queries.trajectory, queries.x, queries.y, offsets,
        trajectories.offsets, trajectories.location, locations.x, locations.y,
    )  # fmt: skip
    return _answer(offsets, parts)


@njit(nogil=True, cache=True)
def _scan_range(  # type: ignore[no-untyped-def]
    first, last, trajectory, x, y, offsets, begins, location, place_x, place_y
):
    best = unmarked(offsets[last] - offsets[first])
    distances = 0
    for q in range(first, last):
        lo, hi = begins[trajectory[q]], begins[trajectory[q] + 1]
        wanted = offsets[q + 1] - offsets[q]
        if hi == lo or wanted == 0:
            continue
        segments = max(hi - lo - 1, 1)
        heap = best[offsets[q] - offsets[first] : offsets[q + 1] - offsets[first]]
        held = 0
        for i in range(segments):
            a, b = location[lo + i], location[min(lo + i + 1, hi - 1)]
            d2 = squared_distance(x[q], y[q], place_x[a], place_y[a], place_x[b], place_y[b])
            held = _keep(heap, held, (to_mm(d2) << _POSITION_BITS) | i)
        distances += segments
        _sort(heap, held)
    return best, distances, 0


@dataclass(frozen=True)
class LocalGrids:
    """The best-fit grid of every trajectory: rows by (trajectory, cell), and the occupied cells."""

    box: GridBox
    ends: Metres
    """[coordinate, row]: ax, ay, bx, by."""
    position: Ids
    first: Ints
    """Cells of trajectory t, with their ancestors, are first[t] to first[t + 1] - 1."""
    cell: Ids
    offsets: Ints
    """Rows of each of these cells."""


def file_locally(trajectories: Trajectories, locations: Locations) -> LocalGrids:
    """File every segment of each trajectory in its best-fit cell."""
    lengths = trajectories.lengths
    segments = offsets_from(np.where(lengths > 1, lengths - 1, lengths))
    owner = owners(segments).astype(np.int64)
    position = within(segments)
    begin = trajectories.offsets[owner] + position
    end = np.minimum(begin + 1, trajectories.offsets[owner + 1] - 1)
    tail, head = trajectories.location[begin], trajectories.location[end]
    ends = np.stack([locations.x[tail], locations.y[tail], locations.x[head], locations.y[head]])
    box = central_box(trajectories, locations)
    key = (owner << _CELL_BITS) | best_fit_cells(box, *ends)
    order = np.argsort(key, kind="stable")
    generations = [np.unique(key)]
    cell_bits = (1 << _CELL_BITS) - 1
    while len(below := generations[-1][(generations[-1] & cell_bits) > ROOT]):
        up = (below & ~np.int64(cell_bits)) | ((below & cell_bits) >> 2)
        generations.append(np.unique(up))
    cells = np.unique(np.concatenate(generations))
    return LocalGrids(
        box,
        np.ascontiguousarray(ends[:, order]),
        position[order].astype(np.int32),
        offsets_of(cells >> _CELL_BITS, len(trajectories)),
        (cells & cell_bits).astype(np.int32),
        np.append(np.searchsorted(key[order], cells), len(key)).astype(np.int64),
    )


def search_locally(grids: LocalGrids, queries: SegmentQueries) -> NearestSegments:
    """Algorithm 3 on each trajectory's grid."""
    offsets = offsets_from(queries.k)
    box = (grids.box.x, grids.box.y, grids.box.width, grids.box.height)
    parts = map_each(
        _local_range, len(queries), queries.trajectory, queries.x, queries.y, offsets, box,
        grids.ends, grids.position, grids.first, grids.cell, grids.offsets,
    )  # fmt: skip
    return _answer(offsets, parts)


@njit(nogil=True, cache=True)
def _local_range(  # type: ignore[no-untyped-def]
    first, last, trajectory, x, y, offsets, box, ends, position, first_cell, cell_of, rows
):
    best = unmarked(offsets[last] - offsets[first])
    box_x, box_y, width, height = box
    visited = np.zeros(len(cell_of), np.bool_)  # V, and its members, to clear it after a query
    members = np.empty(ROOM, np.int64)
    stack_d, stack_n = np.empty(_STACK, np.float64), np.empty(_STACK, np.int64)
    queue_d, queue_n = np.empty(ROOM, np.float64), np.empty(ROOM, np.int64)
    distances, cells = 0, 0
    for q in range(first, last):
        lo, hi = first_cell[trajectory[q]], first_cell[trajectory[q] + 1]
        heap = best[offsets[q] - offsets[first] : offsets[q + 1] - offsets[first]]
        if lo == hi or len(heap) == 0:
            continue
        px, py = x[q], y[q]
        held, limit2 = 0, ANYWHERE
        # the finest cell at the point that has segments in it or below it
        u, v = cell_at(px, py, box_x, box_y, width, height)
        start = (np.int64(1) << (2 * FINEST)) | interleave(u, v)
        at = _find(cell_of, lo, hi, start)
        while at == hi or cell_of[at] != start:
            start >>= 2
            at = _find(cell_of, lo, hi, start)
        root_access = start == ROOT
        stacked, queued, visits = 0, 0, 0
        if root_access:
            queued = push(queue_d, queue_n, 0, 0.0, at)
        else:
            stack_d[0], stack_n[0] = 0.0, at
            stacked = 1
        while stacked > 0 or queued > 0:
            if not root_access:
                stacked -= 1
                distance2, node = stack_d[stacked], stack_n[stacked]
                if distance2 > limit2:
                    continue
            else:
                distance2, node = queue_d[0], queue_n[0]
                queued = pop(queue_d, queue_n, queued)
                if distance2 > limit2:
                    break
            if visits == len(members):
                members = grown(members)
            visited[node] = True
            members[visits] = node
            visits += 1
            for s in range(rows[node], rows[node + 1]):
                d2 = squared_distance(px, py, ends[0, s], ends[1, s], ends[2, s], ends[3, s])
                if d2 <= limit2:
                    key = (to_mm(d2) << _POSITION_BITS) | position[s]
                    held = _keep(heap, held, key)
                    if held == len(heap):
                        limit = ((heap[0] >> _POSITION_BITS) + 1) / 1000.0
                        limit2 = limit * limit
            distances += rows[node + 1] - rows[node]
            cell = np.int64(cell_of[node])
            if not root_access:
                parent = _find(cell_of, lo, hi, cell >> 2)
                if not visited[parent]:
                    if cell >> 2 == ROOT:
                        root_access = True
                        queued = push(queue_d, queue_n, queued, 0.0, parent)
                    else:
                        stack_d[stacked], stack_n[stacked] = 0.0, parent
                        stacked += 1
            if len(queue_d) < queued + 4:
                queue_d, queue_n = grown(queue_d), grown(queue_n)
            child = _find(cell_of, lo, hi, 4 * cell)
            while child < hi and cell_of[child] < 4 * cell + 4:
                if not visited[child]:
                    d2 = min_distance2(px, py, cell_of[child], box_x, box_y, width, height)
                    if root_access:
                        queued = push(queue_d, queue_n, queued, d2, child)
                    else:
                        stack_d[stacked], stack_n[stacked] = d2, child
                        stacked += 1
                child += 1
        for i in range(visits):
            visited[members[i]] = False
        cells += visits
        _sort(heap, held)
    return best, distances, cells


@njit(cache=True)
def _find(cell_of, lo, hi, cell):  # type: ignore[no-untyped-def]
    """The first of the cells lo to hi - 1, which are in order, that is not before this one."""
    while lo < hi:
        middle = (lo + hi) // 2
        if cell_of[middle] < cell:
            lo = middle + 1
        else:
            hi = middle
    return lo


@njit(cache=True)
def _keep(heap, held, key):  # type: ignore[no-untyped-def]
    """Keep the smallest keys, the largest of them on top; how many there are."""
    if held < len(heap):
        i = held
        while i > 0 and heap[(i - 1) // 2] < key:
            heap[i] = heap[(i - 1) // 2]
            i = (i - 1) // 2
        heap[i] = key
        return held + 1
    if key < heap[0]:
        _sink(heap, held, key)
    return held


@njit(cache=True)
def _sink(heap, held, key):  # type: ignore[no-untyped-def]
    """Put a key in the place of the largest."""
    i = 0
    while 2 * i + 1 < held:
        child = 2 * i + 1
        if child + 1 < held and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= key:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = key


@njit(cache=True)
def _sort(heap, held):  # type: ignore[no-untyped-def]
    """Smallest first: the largest goes to the end, again and again."""
    for end in range(held - 1, 0, -1):
        key = heap[end]
        heap[end] = heap[0]
        _sink(heap, end, key)
