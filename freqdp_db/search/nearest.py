"""The K-nearest-trajectory search over a filed grid: best first, fine cells before coarse ones.

A query passes near few of the long segments of its surroundings, but inside the axis-parallel box of
nearly all of them. The rows of a cell are ordered by the line they lie on (direction and offset), so that
a box turned into the direction of consecutive ones is a strip that most queries are outside of.

First stand the queries, the trajectories to leave out, the list of the K best by (loss, rank), each
trajectory with its nearest segment, ties by position; and the cells to visit, nearest first.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import add, join, joined, map_ranges, merged
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_from, owners, rows_of, within
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.search.grid import Filed, Grid, file_trajectories, piece_of

ANYWHERE = 1e300
"""Squared metres: the limit while the list is not full."""


@dataclass(frozen=True)
class Nearest:
    """Answers, in order of (query, loss, rank). Fewer than K: the other trajectories are empty."""

    offsets: Ints
    trajectory: Ids
    position: Ids
    loss_mm: Ints
    distances: int
    """How many point-segment distances were computed, over all queries."""
    cells: int = 0
    """How many cells of the index were visited, over all queries."""


@dataclass(frozen=True)
class Queries:
    """Points to find the nearest trajectories of, how many, and whom each is to leave out."""

    x: Metres
    y: Metres
    k: Ints
    skip_offsets: Ints
    skip: Ids
    """Trajectories that query i leaves out: skip_offsets[i] to skip_offsets[i + 1] - 1."""

    def __len__(self) -> int:
        return len(self.k)

    def take(self, chosen: Ints) -> Queries:
        """Some of the queries, in this order."""
        rows, offsets = rows_of(self.skip_offsets, chosen)
        return Queries(self.x[chosen], self.y[chosen], self.k[chosen], offsets, self.skip[rows])


def as_asked(queries: Queries, rank: Ints) -> tuple[Metres, Metres, Ints, Ints, Ids, Ints]:
    """Queries as kernels get them: x, y, offsets, skip_offsets, skip and rank.

    offsets: running sum of K, where each query's best list begins; rank: order of the trajectories
    among equals.
    """
    return (
        queries.x, queries.y, offsets_from(queries.k), queries.skip_offsets, queries.skip, rank
    )  # fmt: skip


class BestLists:
    """The best lists of all queries as they grow, from one index to the next."""

    def __init__(self, queries: Queries, rank: Ints) -> None:
        self._queries = queries
        self._rank = rank
        self._offsets = offsets_from(queries.k)
        size = self._offsets[-1]
        self._columns: Any = (
            np.full(size, -1, np.int32), np.full(size, -1, np.int32), np.zeros(size, np.int64)
        )  # fmt: skip
        """Trajectory, position and loss of each place; each list is a heap with the worst on top."""
        self._held = np.zeros(len(queries), np.int64)
        self._distances = self._cells = 0

    def search(
        self, kernel: Callable[..., Any], index: tuple[Any, ...], chosen: Ints | None = None
    ) -> None:
        """Run kernel(first, last, asked, lists, *index) over ranges of the queries, or of some of them.

        It gets their lists as they are (trajectory, position and loss of each place, and how many
        places are taken), and gives them back with how many distances it computed and how many
        cells it visited.
        """
        if chosen is None:
            chosen = np.arange(len(self._queries))
        rows, offsets = rows_of(self._offsets, chosen)
        lists = (*(column[rows] for column in self._columns), self._held[chosen])
        asked = as_asked(self._queries.take(chosen), self._rank)
        parts = map_ranges(kernel, offsets, asked, lists, *index)
        *changed, held, distances, cells = merged(parts, join, join, join, join, add, add)
        for column, part in zip(self._columns, changed, strict=True):
            column[rows] = part
        self._held[chosen] = held
        self._distances += distances
        self._cells += cells

    def limits(self) -> Metres:
        """`limit_of` each list; below 0 where nothing is asked for."""
        size = self._queries.k
        limit = np.where(size > 0, ANYWHERE, -1.0)
        full = np.flatnonzero((size > 0) & (self._held == size))
        worst = (self._columns[2][self._offsets[full]] + 1) / 1000.0
        limit[full] = worst * worst
        return limit

    def nearest(self) -> Nearest:
        """The answers, once all lists are as good as they get."""
        query, slot = owners(self._offsets), within(self._offsets)
        free = slot >= self._held[query]
        trajectory, position, loss = self._columns
        rank = np.append(self._rank, 0)[trajectory]  # of free places, any
        order = np.lexsort((rank, loss, free, query))
        return Nearest(
            self._offsets, trajectory[order], position[order], loss[order],
            self._distances, self._cells,
        )  # fmt: skip


# Kernels unpack what is asked once and hand plain arrays on: an array taken out of a tuple
# counts a reference each time, with an atomic operation, which costs more than a distance.
# What a kernel knows of each trajectory t, where the number of a query saves clearing:
#   skipped[t]  the last query that left it out
#   listed[t]   the last query whose list took it in
#   slot[t]     where in that list it stands


@njit(cache=True)
def unmarked(trajectories):  # type: ignore[no-untyped-def]
    """Marks of no query. (np.full would be compiled anew in every kernel.)"""
    marks = np.empty(trajectories, np.int64)
    for t in range(trajectories):
        marks[t] = -1
    return marks


@njit(cache=True)
def mark(skipped, skip, first, last, q):  # type: ignore[no-untyped-def]
    """Mark the trajectories that query q leaves out."""
    for i in range(first, last):
        skipped[skip[i]] = q


@njit(cache=True)
def offer(  # type: ignore[no-untyped-def]
    best_t, best_p, best_d, listed, slot, rank, q, held, t, position, loss
):
    """Take a segment of trajectory t into the list if it is among the best; how many it holds."""
    if listed[t] == q:
        at = slot[t]
        if loss < best_d[at] or (loss == best_d[at] and position < best_p[at]):
            best_d[at] = loss
            best_p[at] = position
            _sink(best_t, best_p, best_d, slot, rank, held, at)
    elif held < len(best_d):
        best_t[held], best_p[held], best_d[held] = t, position, loss
        slot[t] = held
        listed[t] = q
        held += 1
        _rise(best_t, best_p, best_d, slot, rank, held - 1)
    elif loss < best_d[0] or (loss == best_d[0] and rank[t] < rank[best_t[0]]):
        listed[best_t[0]] = -1
        best_t[0], best_p[0], best_d[0] = t, position, loss
        slot[t] = 0
        listed[t] = q
        _sink(best_t, best_p, best_d, slot, rank, held, 0)
    return held


@njit(cache=True)
def limit_of(best_d, held):  # type: ignore[no-untyped-def]
    """Squared metres beyond which nothing can enter the list: theta_K, at loss + 1 mm."""
    if held < len(best_d):
        return ANYWHERE
    limit = (best_d[0] + 1) / 1000.0
    return limit * limit


@njit(cache=True)
def _worse(best_t, best_d, rank, i, j):  # type: ignore[no-untyped-def]
    return best_d[i] > best_d[j] or (best_d[i] == best_d[j] and rank[best_t[i]] > rank[best_t[j]])


@njit(cache=True)
def _swap(best_t, best_p, best_d, slot, i, j):  # type: ignore[no-untyped-def]
    t, p, d = best_t[i], best_p[i], best_d[i]
    best_t[i], best_p[i], best_d[i] = best_t[j], best_p[j], best_d[j]
    best_t[j], best_p[j], best_d[j] = t, p, d
    slot[best_t[i]] = i
    slot[t] = j


@njit(cache=True)
def _rise(best_t, best_p, best_d, slot, rank, i):  # type: ignore[no-untyped-def]
    while i > 0:
        up = (i - 1) // 2
        if not _worse(best_t, best_d, rank, i, up):
            return
        _swap(best_t, best_p, best_d, slot, i, up)
        i = up


@njit(cache=True)
def _sink(best_t, best_p, best_d, slot, rank, held, i):  # type: ignore[no-untyped-def]
    while True:
        worst = i
        for child in (2 * i + 1, 2 * i + 2):
            if child < held and _worse(best_t, best_d, rank, child, worst):
                worst = child
        if worst == i:
            return
        _swap(best_t, best_p, best_d, slot, i, worst)
        i = worst


# The queue of cells to visit: (squared distance, turn) of each, in a heap.


_SEGMENTS = 1 << 62


@njit(cache=True)
def _turn_of(node):  # type: ignore[no-untyped-def]
    """Which of equally near nodes comes first, as a number.

    Nodes are numbered from the root on, so that of equally near ones (0 for all cells around q)
    subtrees (n >= 0) come before segments (n < 0) and fine cells before coarse: a tight bound is
    found before the long segments are looked at.
    """
    return -node if node >= 0 else _SEGMENTS + node


@njit(cache=True)
def _node_of(turn):  # type: ignore[no-untyped-def]
    return -turn if turn <= 0 else turn - _SEGMENTS


# Distances, as every kernel computes them: no fastmath, losses in whole millimetres.


# mypy cannot see through numba's decorators; the kernels below take and return scalars.


@njit(cache=True)
def squared_distance(px, py, ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """Squared distance in metres from a point to the segment from a to b."""
    dx = bx - ax
    dy = by - ay
    length2 = dx * dx + dy * dy
    t = 0.0
    if length2 > 0.0:
        t = ((px - ax) * dx + (py - ay) * dy) / length2
        if t < 0.0:
            t = 0.0
        elif t > 1.0:
            t = 1.0
    ex = px - (ax + t * dx)
    ey = py - (ay + t * dy)
    return ex * ex + ey * ey


_TINY = 1e-300


@njit(cache=True, inline="always")
def rough_squared_distance(px, py, ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """`squared_distance` but for its last bits: to compare with a limit, which has half a
    millimetre to spare.

    Without branches: half of the segments have length 0 and most points project beyond an end, by
    no rule that a processor could guess, and a wrong guess costs as much as the arithmetic.
    """
    dx, dy = bx - ax, by - ay
    ux, uy = px - ax, py - ay
    length2 = dx * dx + dy * dy
    t = max(0.0, min(ux * dx + uy * dy, length2)) / max(length2, _TINY)
    ex, ey = ux - t * dx, uy - t * dy
    return ex * ex + ey * ey


@njit(cache=True)
def to_mm(squared_m):  # type: ignore[no-untyped-def]
    """Loss in whole millimetres from a squared distance in metres."""
    return np.int64(math.floor(math.sqrt(squared_m) * 1000.0 + 0.5))


@njit(cache=True)
def box_squared_distance(px, py, x_min, y_min, x_max, y_max):  # type: ignore[no-untyped-def]
    """MINdist (paper, Def. "Point-Grid Cell Distance"), squared."""
    dx = max(x_min - px, 0.0, px - x_max)
    dy = max(y_min - py, 0.0, py - y_max)
    return dx * dx + dy * dy


_BLOCK = 32
"""Rows of a block."""
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
    blocks: Blocks
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
    rows = grid.segment_offsets
    parts = map_ranges(_fit, rows, rows, filed.ends, filed.part, rank[owner])
    blocks = Blocks(offsets_from(-(-np.diff(rows) // _BLOCK)), *joined(parts))
    return SegmentIndex(grid, blocks, filed.ends, owner, position, rank)


@njit(nogil=True, cache=True)
def _fit(first, last, rows, ends, part, rank):  # type: ignore[no-untyped-def]
    """The columns `strip` and `best_rank` of the cells of a range."""
    count = 0
    for cell in range(first, last):
        count += -((rows[cell] - rows[cell + 1]) // _BLOCK)
    strip, best_rank = np.empty((count, 6), np.float64), np.empty(count, np.int64)
    b = 0
    for cell in range(first, last):
        for lo in range(rows[cell], rows[cell + 1], _BLOCK):
            hi = min(lo + _BLOCK, rows[cell + 1])
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
        *index.blocks, index.ends, index.owner, index.position,
    )  # fmt: skip
    best.search(_nearest_range, arrays, chosen)


@njit(nogil=True, cache=True)
def _nearest_range(  # type: ignore[no-untyped-def]
    first, last, asked, lists, child_offsets, box, tree_box, rows,
    block_at, strip, best_rank,
    ends, owner, position,
):  # fmt: skip
    x, y, offsets, skip_offsets, skip, rank = asked
    given_t, given_p, given_d, given = lists
    begin = offsets[first]
    out_t, out_p = given_t[begin : offsets[last]].copy(), given_p[begin : offsets[last]].copy()
    out_d, out_held = given_d[begin : offsets[last]].copy(), given[first:last].copy()
    skipped, listed, slot = unmarked(len(rank)), unmarked(len(rank)), unmarked(len(rank))
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
        queue = [(0.0, 0)]
        while len(queue) > 0 and queue[0][0] <= limit2:
            node = _node_of(heapq.heappop(queue)[1])
            cells += 1
            if node >= 0:
                _push_below(px, py, node, child_offsets, box, tree_box, rows, limit2, queue)
                continue
            node = -1 - node
            for lo in range(rows[node], rows[node + 1], _BLOCK):
                b = block_at[node] + (lo - rows[node]) // _BLOCK
                if best_rank[b] > worst_rank or _strip_distance2(px, py, strip, b) > limit2:
                    continue
                hi = min(lo + _BLOCK, rows[node + 1])
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
def _push_below(px, py, node, child_offsets, box, tree_box, rows, limit2, queue):  # type: ignore[no-untyped-def]
    """Queue a cell's own segments (-1 - its number) and its children (their numbers)."""
    if rows[node] < rows[node + 1]:
        d2 = _distance2(px, py, box, node)
        if d2 <= limit2:
            heapq.heappush(queue, (d2, _turn_of(-1 - node)))
    for c in range(child_offsets[node, 0], child_offsets[node, 1]):
        d2 = _distance2(px, py, tree_box, c)
        if d2 <= limit2:
            heapq.heappush(queue, (d2, _turn_of(c)))
