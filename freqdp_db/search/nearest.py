"""The K-nearest-trajectory search over a filed grid: best first, fine cells before coarse ones.

A query passes near few of the long segments of its surroundings, but inside the axis-parallel box of
nearly all of them. The rows of a cell are ordered by the line they lie on (direction and offset), so that
a box turned into the direction of consecutive ones is a strip that most queries are outside of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_from
from freqdp_db.model.kernels import longer
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.search.best import (
    ROOM,
    BestLists,
    Nearest,
    Queries,
    box_squared_distance,
    limit_of,
    mark,
    offer,
    pop,
    push,
    rough_squared_distance,
    squared_distance,
    to_mm,
    unmarked,
)
from freqdp_db.search.grid import Filed, Grid, file_trajectories, piece_of

_LARGE, _SMALL = 256, 16
"""Rows of a block."""
_BELOW = 5  # a cell's own segments and its four children
_NO_RANK = np.iinfo(np.int32).max
"""Worse than every rank."""


class Blocks(NamedTuple):
    """Consecutive rows of each cell, so many at a time, with a box turned into their direction."""

    offsets: Ints
    """Blocks of cell i are offsets[i] to offsets[i + 1] - 1."""
    strip: Metres
    """[block]: the middle of its box (x, y), the box's direction (x, y), half its length and width."""
    best_rank: Ints
    """[block]: the best rank among its trajectories."""


@dataclass(frozen=True)
class SegmentIndex:
    """All segments of a set of trajectories, filed in pieces."""

    grid: Grid
    large: Blocks
    small: Blocks
    ends: Metres
    owner: Ids
    position: Ids
    """[row]: ax, ay, bx, by of the whole segment, its trajectory, and where in it it begins."""
    rank: Ints
    """Order of the trajectories among equals."""


def index_segments(trajectories: Trajectories, locations: Locations, rank: Ints) -> SegmentIndex:
    """File every distinct segment."""
    return index_filed(file_trajectories(trajectories, locations, cut=True), rank)


def index_filed(filed: Filed, rank: Ints) -> SegmentIndex:
    """Fit a box to every block of what is filed."""
    grid, segments = filed.grid, filed.segments
    owner, position = segments.trajectory[filed.row], segments.position[filed.row]
    of_row = rank[owner]
    large, small = (_cut_into_blocks(filed, of_row, size) for size in (_LARGE, _SMALL))
    return SegmentIndex(grid, large, small, filed.ends, owner, position, rank)


def _cut_into_blocks(filed: Filed, rank: Ints, size: int) -> Blocks:
    """rank: of the trajectory of each row."""
    rows = filed.grid.segment_offsets
    parts = map_ranges(_fit, rows, rows, size, filed.ends, filed.part, rank)
    return Blocks(offsets_from(-(-np.diff(rows) // size)), *joined(parts))


@njit(nogil=True, cache=True)
def _fit(first, last, rows, size, ends, part, rank):  # type: ignore[no-untyped-def]
    """The columns `strip` and `best_rank` of the cells of a range."""
    count = 0
    for cell in range(first, last):
        count += -((rows[cell] - rows[cell + 1]) // size)
    strip, best_rank = np.empty((count, 6), np.float64), np.empty(count, np.int64)
    b = 0
    for cell in range(first, last):
        for lo in range(rows[cell], rows[cell + 1], size):
            hi = min(lo + size, rows[cell + 1])
            ux, uy = _common_direction(ends, lo, hi)
            along_min = across_min = np.inf
            along_max = across_max = -np.inf
            best = rank[lo]
            for s in range(lo, hi):
                best = min(best, rank[s])
                ax, ay, bx, by = piece_of(
                    ends[s, 0], ends[s, 1], ends[s, 2], ends[s, 3], part[s, 0], part[s, 1]
                )
                for px, py in ((ax, ay), (bx, by)):
                    along, across = px * ux + py * uy, py * ux - px * uy
                    along_min, along_max = min(along_min, along), max(along_max, along)
                    across_min, across_max = min(across_min, across), max(across_max, across)
            along, across = (along_min + along_max) / 2, (across_min + across_max) / 2
            strip[b, 0], strip[b, 1] = along * ux - across * uy, along * uy + across * ux
            strip[b, 2], strip[b, 3] = ux, uy
            strip[b, 4], strip[b, 5] = (along_max - along_min) / 2, (across_max - across_min) / 2
            best_rank[b] = best
            b += 1
    return strip, best_rank


@njit(cache=True)
def _common_direction(ends, lo, hi):  # type: ignore[no-untyped-def]
    """The direction of length 1 that these segments have on the whole; none counts as pointing left."""
    ux, uy = 0.0, 0.0
    for s in range(lo, hi):
        dx, dy = ends[s, 2] - ends[s, 0], ends[s, 3] - ends[s, 1]
        if dx < 0.0 or (dx == 0.0 and dy < 0.0):
            dx, dy = -dx, -dy
        ux += dx
        uy += dy
    length = math.sqrt(ux * ux + uy * uy)
    if length > 0.0:
        return ux / length, uy / length
    return 1.0, 0.0


def nearest_trajectories(index: SegmentIndex, queries: Queries) -> Nearest:
    """Answer all queries."""
    best = BestLists(queries, index.rank)
    search_index(index, best)
    return best.nearest()


def search_index(index: SegmentIndex, best: BestLists, chosen: Ints | None = None) -> None:
    """Look in an index for what is better than what the lists have: for all queries, or some."""
    grid = index.grid
    arrays = (
        grid.child_offsets, grid.box, grid.tree_box, grid.segment_offsets,
        *index.large, *index.small, index.ends, index.owner, index.position,
    )  # fmt: skip
    best.search(_nearest_range, arrays, chosen)


@njit(nogil=True, cache=True)
def _nearest_range(  # type: ignore[no-untyped-def]
    first, last, asked, lists, child_offsets, box, tree_box, rows,
    large_at, large, large_rank, small_at, small, small_rank,
    ends, owner, position,
):  # fmt: skip
    x, y, offsets, skip_offsets, skip, rank = asked
    given_t, given_p, given_d, given = lists
    begin = offsets[first]
    out_t, out_p = given_t[begin : offsets[last]].copy(), given_p[begin : offsets[last]].copy()
    out_d, out_held = given_d[begin : offsets[last]].copy(), given[first:last].copy()
    skipped, listed, slot = unmarked(len(rank)), unmarked(len(rank)), unmarked(len(rank))
    queue_d, queue_n = np.empty(ROOM, np.float64), np.empty(ROOM, np.int64)
    distances, cells = 0, 0
    for q in range(first, last):
        if offsets[q] == offsets[q + 1]:
            continue
        mark(skipped, skip, skip_offsets[q], skip_offsets[q + 1], q)
        begin_q, end_q = offsets[q] - begin, offsets[q + 1] - begin
        best_t, best_p = out_t[begin_q:end_q], out_p[begin_q:end_q]
        best_d = out_d[begin_q:end_q]
        px, py = x[q], y[q]
        held = given[q]
        for i in range(held):
            listed[best_t[i]] = q
            slot[best_t[i]] = i
        limit2, worst_rank = limit_of(best_d, held), _worst_rank(best_t, best_d, held, rank)
        size = push(queue_d, queue_n, 0, 0.0, 0)
        while size > 0 and queue_d[0] <= limit2:
            node = queue_n[0]
            size = pop(queue_d, queue_n, size)
            cells += 1
            if node >= 0:
                if len(queue_d) < size + _BELOW:
                    queue_d, queue_n = longer(queue_d, 0), longer(queue_n, 0)
                size = _push_below(
                    px, py, node, child_offsets, box, tree_box, rows, limit2, queue_d, queue_n, size
                )
                continue
            node = -1 - node
            for i in range(rows[node], rows[node + 1], _LARGE):
                b = large_at[node] + (i - rows[node]) // _LARGE
                if large_rank[b] > worst_rank or _strip_distance2(px, py, large, b) > limit2:
                    continue
                for lo in range(i, min(i + _LARGE, rows[node + 1]), _SMALL):
                    b = small_at[node] + (lo - rows[node]) // _SMALL
                    if small_rank[b] > worst_rank or _strip_distance2(px, py, small, b) > limit2:
                        continue
                    hi = min(lo + _SMALL, rows[node + 1])
                    distances += hi - lo
                    for r in range(lo, hi):
                        ax, ay, bx, by = ends[r, 0], ends[r, 1], ends[r, 2], ends[r, 3]
                        if rough_squared_distance(px, py, ax, ay, bx, by) > limit2:
                            continue
                        t = owner[r]
                        if skipped[t] == q or rank[t] > worst_rank:
                            continue
                        loss = to_mm(squared_distance(px, py, ax, ay, bx, by))
                        held = offer(
                            best_t,
                            best_p,
                            best_d,
                            listed,
                            slot,
                            rank,
                            q,
                            held,
                            t,
                            position[r],
                            loss,
                        )
                        limit2 = limit_of(best_d, held)
                        worst_rank = _worst_rank(best_t, best_d, held, rank)
        out_held[q - first] = held
    return out_t, out_p, out_d, out_held, distances, cells


@njit(cache=True)
def _worst_rank(best_t, best_d, held, rank):  # type: ignore[no-untyped-def]
    """The rank that a trajectory must not be behind, if the list is full of losses 0."""
    if held < len(best_d) or best_d[0] > 0:
        return np.int32(_NO_RANK)
    return np.int32(rank[best_t[0]])


@njit(cache=True, inline="always")
def _strip_distance2(px, py, strip, b):  # type: ignore[no-untyped-def]
    """Squared distance to the box of a block."""
    dx, dy = px - strip[b, 0], py - strip[b, 1]
    along = max(abs(dx * strip[b, 2] + dy * strip[b, 3]) - strip[b, 4], 0.0)
    across = max(abs(dy * strip[b, 2] - dx * strip[b, 3]) - strip[b, 5], 0.0)
    return along * along + across * across


@njit(cache=True)
def _distance2(px, py, box, i):  # type: ignore[no-untyped-def]
    return box_squared_distance(px, py, box[i, 0], box[i, 1], box[i, 2], box[i, 3])


@njit(cache=True)
def _push_below(  # type: ignore[no-untyped-def]
    px, py, node, child_offsets, box, tree_box, rows, limit2, queue_d, queue_n, size
):
    """Queue a cell's own segments (-1 - its number) and its children (their numbers)."""
    if rows[node] < rows[node + 1]:
        d2 = _distance2(px, py, box, node)
        if d2 <= limit2:
            size = push(queue_d, queue_n, size, d2, -1 - node)
    for c in range(child_offsets[node, 0], child_offsets[node, 1]):
        d2 = _distance2(px, py, tree_box, c)
        if d2 <= limit2:
            size = push(queue_d, queue_n, size, d2, c)
    return size
