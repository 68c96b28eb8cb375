"""Nearest trajectories with bounded memory: segments are read cell by cell, where the bound allows.

In memory are the directory of the build's grid (boxes and counts of its cells) and, of the
trajectories as the job has edited them so far, a sorted list of their distinct segments. The build
knows nothing of the edits. So what the build has and the trajectories no longer have is left out as
a page is read, and what they have and the build has not (bridges over deleted samples, insertions)
is an index in memory, the overlay, which is searched first.

Pages are runs of cells of one level, neighbours on the Z-order curve. Queries go along the same
curve, some thousands at a time, so that they want the same pages. Each names the cells that it needs
next; page by page, all that is wanted of it is done; then they name more, until no cell is near
enough. The answer is that of every other strategy: what the budget changes is how often a page is
read again.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.columns.ragged import rows_of
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.ranges import add, join, joined, map_each, map_ranges, merged
from freqdp_db.search.best import (
    ANYWHERE,
    Nearest,
    Queries,
    as_asked,
    offer,
    sort_list,
    unmarked,
)
from freqdp_db.search.changes import SortedSegments, changed_segments, sort_segments
from freqdp_db.search.directory import Directory, Fetch, along_curve, first_cells
from freqdp_db.search.distance import box_squared_distance
from freqdp_db.search.filing import file_segments
from freqdp_db.search.grid import choose_frame
from freqdp_db.search.nearest import index_filed, nearest_trajectories
from freqdp_db.search.pages import Page, PageCache, scan_cells
from freqdp_db.search.visits import ROOM, grown, pop, push

_BATCH = 2048
_FIRST_CELLS, _MOST_CELLS = 8, 64


class _BestLists:
    """The best lists of all queries as they grow: kernels get some of them and give them back."""

    def __init__(self, found: Nearest, rank: Ints) -> None:
        self.offsets = found.offsets
        self._rank = rank
        heaps = map_ranges(
            _heapify, found.offsets, found.offsets, rank,
            found.trajectory, found.position, found.loss_mm,
        )  # fmt: skip
        *columns, self._held = joined(heaps)
        self._columns = columns

    def take(self, chosen: Ints) -> tuple[Any, ...]:
        """Trajectory, position and loss in the lists of these queries, and how many each holds."""
        rows, _ = rows_of(self.offsets, chosen)
        return *(column[rows] for column in self._columns), self._held[chosen]

    def put(self, chosen: Ints, lists: tuple[Any, ...]) -> None:
        """What `take` gave, after a page."""
        *changed, held = lists
        rows, _ = rows_of(self.offsets, chosen)
        for column, part in zip(self._columns, changed, strict=True):
            column[rows] = part
        self._held[chosen] = held

    def limits(self, chosen: Ints) -> Metres:
        """`limit_of` each of these lists; below 0 where nothing is asked for."""
        size = np.diff(self.offsets)[chosen]
        limit = np.where(size > 0, ANYWHERE, -1.0)
        full = np.flatnonzero((size > 0) & (self._held[chosen] == size))
        worst = (self._columns[2][self.offsets[:-1][chosen[full]]] + 1) / 1000.0
        limit[full] = worst * worst
        return limit

    def sorted(self) -> tuple[Any, ...]:
        """The lists with the nearest first."""
        parts = map_ranges(
            _sort_lists, self.offsets, self.offsets, self._rank, *self._columns, self._held
        )
        return joined(parts)


class PagedSearch:
    """Answers as `nearest_trajectories` does, over the segments of a build and what has changed."""

    def __init__(
        self, directory: Directory, fetch: Fetch, built: Trajectories, memory: int
    ) -> None:
        self._directory = directory
        self._fetch = fetch
        self._built = built
        self._memory = memory
        self._first_cell = first_cells(directory)

    def __call__(
        self, trajectories: Trajectories, locations: Locations, rank: Ints, queries: Queries
    ) -> Nearest:
        """The K nearest of these trajectories for each query."""
        current = sort_segments(trajectories)
        overlay = changed_segments(current, sort_segments(self._built))
        used = np.bincount(trajectories.location, minlength=len(locations))
        filed = file_segments(overlay, locations, choose_frame(locations, used), cut=True)
        found = nearest_trajectories(index_filed(filed, rank), queries)
        cache = PageCache(lambda number: self.read_page(number, current, locations), self._memory)
        best = _BestLists(found, rank)
        distances = found.distances
        along = np.argsort(along_curve(self._directory.frame, queries.x, queries.y), kind="stable")
        for begin in range(0, len(along), _BATCH):
            batch = np.sort(along[begin : begin + _BATCH])
            distances += self._search(batch, queries, rank, best, cache)
        trajectory, position, loss = best.sorted()
        return Nearest(found.offsets, trajectory, position, loss, distances, found.cells)

    def _search(
        self, active: Ints, queries: Queries, rank: Ints, best: _BestLists, cache: PageCache
    ) -> int:
        """Round by round: which cells come next for whom, then page by page what they hold."""
        directory = self._directory
        done = np.zeros(len(active), np.int64)
        wanted, distances = _FIRST_CELLS, 0
        tree = (directory.child_offsets, directory.box, directory.tree_box, directory.count)
        while len(active):
            naming = map_each(
                _next_cells, len(active), queries.x[active], queries.y[active],
                best.limits(active), done, wanted, *tree,
            )  # fmt: skip
            (cells,) = joined(naming)
            named = cells >= 0
            pair_query = np.repeat(active, named.sum(axis=1))
            pair_cell = cells[named]
            page = np.searchsorted(self._first_cell, pair_cell, side="right") - 1
            order = np.argsort(page, kind="stable")
            edges = np.flatnonzero(np.diff(page[order], prepend=-1, append=len(self._first_cell)))
            for begin, end in pairwise(edges):
                part = order[begin:end]
                number = int(page[part[0]])
                rows = cache.page(number)
                starts = np.flatnonzero(np.diff(pair_query[part], prepend=-1))
                seekers = pair_query[part][starts]
                starts = np.append(starts, len(part))
                scanned = map_ranges(
                    scan_cells, starts, as_asked(queries.take(seekers), rank),
                    best.take(seekers), starts, pair_cell[part] - self._first_cell[number],
                    rows.columns,
                )  # fmt: skip
                *lists, looked = merged(scanned, join, join, join, join, add)
                best.put(seekers, tuple(lists))
                distances += looked
            done += named.sum(axis=1)
            more = named[:, -1]
            active, done = active[more], done[more]
            wanted = min(2 * wanted, _MOST_CELLS)
        return distances

    def read_page(self, number: int, current: SortedSegments, locations: Locations) -> Page:
        """Read the cells of a page and leave out what the trajectories no longer have."""
        part = slice(*self._first_cell[number : number + 2])
        cells = self._directory.cell[part]
        rows = self._fetch(cells[self._directory.count[part] > 0])
        return Page.of(cells, rows, current, locations)


@njit(nogil=True, cache=True)
def _heapify(first, last, offsets, rank, trajectory, position, loss):  # type: ignore[no-untyped-def]
    """Sorted lists, which may not be full, as heaps with the worst on top; how many each holds."""
    slot, listed = unmarked(len(rank)), unmarked(len(rank))
    begin = offsets[first]
    out_t = trajectory[begin : offsets[last]].copy()
    out_p = position[begin : offsets[last]].copy()
    out_d = loss[begin : offsets[last]].copy()
    held = np.zeros(last - first, np.int64)
    for q in range(first, last):
        lo, hi = offsets[q] - begin, offsets[q + 1] - begin
        t, p, d = out_t[lo:hi], out_p[lo:hi], out_d[lo:hi]
        n = 0
        for i in range(offsets[q], offsets[q + 1]):
            if trajectory[i] >= 0:
                n = offer(t, p, d, listed, slot, rank, q, n, trajectory[i], position[i], loss[i])
        held[q - first] = n
    return out_t, out_p, out_d, held


@njit(nogil=True, cache=True)
def _sort_lists(first, last, offsets, rank, trajectory, position, loss, held):  # type: ignore[no-untyped-def]
    slot = unmarked(len(rank))
    begin = offsets[first]
    out_t = trajectory[begin : offsets[last]].copy()
    out_p = position[begin : offsets[last]].copy()
    out_d = loss[begin : offsets[last]].copy()
    for q in range(first, last):
        lo, hi = offsets[q] - begin, offsets[q + 1] - begin
        sort_list(out_t[lo:hi], out_p[lo:hi], out_d[lo:hi], slot, rank, held[q])
    return out_t, out_p, out_d


@njit(nogil=True, cache=True)
def _next_cells(  # type: ignore[no-untyped-def]
    first, last, x, y, limits, done, wanted, child_offsets, box, tree_box, count
):
    """For each query the next cells, nearest first, after those that it has been to; -1: no more.

    The order depends on the point alone, and a limit that shrinks only cuts its end off.
    """
    cells = np.empty((last - first, wanted), np.int64)
    queue_d, queue_n = np.empty(ROOM, np.float64), np.empty(ROOM, np.int64)
    for i in range(first, last):
        for c in range(wanted):
            cells[i - first, c] = -1
        px, py, limit2 = x[i], y[i], limits[i]
        passed, named = 0, 0
        size = 0 if len(count) == 0 else push(queue_d, queue_n, 0, 0.0, 0)
        while size > 0 and queue_d[0] <= limit2 and named < wanted:
            node = queue_n[0]
            size = pop(queue_d, queue_n, size)
            if node < 0:
                passed += 1
                if passed > done[i]:
                    cells[i - first, named] = -1 - node
                    named += 1
                continue
            if len(queue_d) < size + 5:
                queue_d, queue_n = grown(queue_d), grown(queue_n)
            if count[node] > 0:
                d2 = box_squared_distance(
                    px, py, box[node, 0], box[node, 1], box[node, 2], box[node, 3]
                )
                if d2 <= limit2:
                    size = push(queue_d, queue_n, size, d2, -1 - node)
            for c in range(child_offsets[node, 0], child_offsets[node, 1]):
                d2 = box_squared_distance(
                    px, py, tree_box[c, 0], tree_box[c, 1], tree_box[c, 2], tree_box[c, 3]
                )
                if d2 <= limit2:
                    size = push(queue_d, queue_n, size, d2, c)
    return (cells,)
