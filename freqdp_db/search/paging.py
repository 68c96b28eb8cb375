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

import math
from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.threads import over_ranges
from freqdp_db.search.best import Nearest, limit_of, mark, offer, sort_list, unmarked
from freqdp_db.search.changes import (
    SortedSegments,
    changed_segments,
    first_positions,
    sort_segments,
)
from freqdp_db.search.comparison.rows import rough_squared_distance
from freqdp_db.search.directory import Directory, Fetch, along_curve, first_cells
from freqdp_db.search.distance import box_squared_distance, squared_distance, to_mm
from freqdp_db.search.filing import file_segments
from freqdp_db.search.grid import choose_frame
from freqdp_db.search.nearest import index_filed, nearest_trajectories
from freqdp_db.search.visits import ROOM, grown, pop, push

_BUNDLE = 8
_BATCH = 2048
_FIRST_CELLS, _MOST_CELLS = 8, 64
_SLACK_M = 1e-6
ROW_BYTES = 32 + 4 + 4 + 6 * 8 // _BUNDLE
"""What a cached row takes: four coordinates, its trajectory and position, its share of a strip."""


@dataclass(frozen=True)
class _Page:
    """What a build's cells still hold, in bundles of eight with turned boxes."""

    offsets: Ints
    """Rows of the page's nth cell."""
    ends: Metres
    owner: Ids
    position: Ids
    strip: Metres

    @property
    def bytes(self) -> int:
        return sum(
            a.nbytes for a in (self.offsets, self.ends, self.owner, self.position, self.strip)
        )


class PagedSearch:
    """Answers as `nearest_trajectories` does, over the segments of a build and what has changed."""

    def __init__(
        self, directory: Directory, fetch: Fetch, built: Trajectories, memory: int
    ) -> None:
        self._directory = directory
        self._fetch = fetch
        self._built = built
        self.memory = memory
        self._first_cell = first_cells(directory)
        self.rows_read = 0

    def __call__(
        self,
        trajectories: Trajectories,
        locations: Locations,
        rank: Ints,
        x: Metres,
        y: Metres,
        k: Ints,
        skip_offsets: Ints,
        skip: Ids,
    ) -> Nearest:
        """The K nearest of these trajectories for each query."""
        current = sort_segments(trajectories)
        overlay = changed_segments(trajectories, current, sort_segments(self._built))
        used = np.bincount(trajectories.location, minlength=len(locations))
        filed = file_segments(overlay, locations, choose_frame(locations, used), cut=True)
        found = nearest_trajectories(index_filed(filed, rank), x, y, k, skip_offsets, skip)
        cache = _Cache(self, current, locations)
        asked = (x, y, found.offsets, skip_offsets, skip, rank)
        lists = (found.trajectory, found.position, found.loss_mm)
        held = np.zeros(len(k), np.int64)
        over_ranges(_heapify, found.offsets, found.offsets, rank, *lists, held)
        distances = found.distances
        along = np.argsort(along_curve(self._directory.frame, x, y), kind="stable")
        for begin in range(0, len(along), _BATCH):
            distances += self._search(
                np.sort(along[begin : begin + _BATCH]), asked, lists, held, cache
            )
        over_ranges(_sort_lists, found.offsets, found.offsets, rank, *lists, held)
        return Nearest(found.offsets, *lists, distances, found.cells)

    def _search(
        self,
        queries: Ints,
        asked: tuple[Metres, Metres, Ints, Ints, Ids, Ints],
        lists: tuple[Ids, Ids, Ints],
        held: Ints,
        cache: _Cache,
    ) -> int:
        """Round by round: which cells come next for whom, then page by page what they hold."""
        directory = self._directory
        done = np.zeros(len(queries), np.int64)
        wanted, distances = _FIRST_CELLS, 0
        tree = (directory.child_offsets, directory.box, directory.tree_box, directory.count)
        while len(queries):
            cells = np.full((len(queries), wanted), -1, np.int64)
            each = np.arange(len(queries) + 1)
            over_ranges(_next_cells, each, queries, done, asked, lists[2], held, *tree, cells)
            named = cells >= 0
            pair_query = np.repeat(queries, named.sum(axis=1))
            pair_cell = cells[named]
            page = np.searchsorted(self._first_cell, pair_cell, side="right") - 1
            order = np.argsort(page, kind="stable")
            edges = np.flatnonzero(np.diff(page[order], prepend=-1, append=len(self._first_cell)))
            for begin, end in pairwise(edges):
                part = order[begin:end]
                number = int(page[part[0]])
                rows = cache.page(number)
                pairs = pair_query[part]
                starts = np.append(np.flatnonzero(np.diff(pairs, prepend=-1)), len(pairs))
                distances += sum(
                    over_ranges(
                        _scan, starts, starts, pairs, pair_cell[part] - self._first_cell[number],
                        asked, lists, held, rows.offsets, rows.ends, rows.owner, rows.position,
                        rows.strip,
                    )
                )  # fmt: skip
            done += named.sum(axis=1)
            more = named[:, -1]
            queries, done = queries[more], done[more]
            wanted = min(2 * wanted, _MOST_CELLS)
        return distances

    def read_page(self, number: int, current: SortedSegments, locations: Locations) -> _Page:
        """Read the cells of a page and leave out what the trajectories no longer have."""
        part = slice(*self._first_cell[number : number + 2])
        cells = self._directory.cell[part]
        rows = self._fetch(cells[self._directory.count[part] > 0])
        self.rows_read += len(rows.cell)
        position = first_positions(current, rows.trajectory, rows.tail, rows.head)
        kept = np.flatnonzero(position >= 0)
        tail, head = rows.tail[kept], rows.head[kept]
        ends = np.stack(
            [locations.x[tail], locations.y[tail], locations.x[head], locations.y[head]], axis=1
        )
        strip = np.empty((-(-len(kept) // _BUNDLE), 6))
        over_ranges(_fit, np.arange(len(strip) + 1), ends, strip)
        return _Page(
            np.append(np.searchsorted(rows.cell[kept], cells), len(kept)),
            ends,
            rows.trajectory[kept],
            position[kept],
            strip,
        )


class _Cache:
    """Pages in memory, those used last kept; one page there always is."""

    def __init__(self, search: PagedSearch, current: SortedSegments, locations: Locations) -> None:
        self._search = search
        self._current = current
        self._locations = locations
        self._pages: OrderedDict[int, _Page] = OrderedDict()
        self._bytes = 0

    def page(self, number: int) -> _Page:
        found = self._pages.pop(number, None)
        if found is None:
            found = self._search.read_page(number, self._current, self._locations)
            self._bytes += found.bytes
        self._pages[number] = found
        while self._bytes > self._search.memory and len(self._pages) > 1:
            self._bytes -= self._pages.popitem(last=False)[1].bytes
        return found


@njit(nogil=True, cache=True)
def _fit(first, last, ends, strip):  # type: ignore[no-untyped-def]
    """A box for every eight rows, turned into their direction."""
    for b in range(first, last):
        lo, hi = b * _BUNDLE, min((b + 1) * _BUNDLE, len(ends))
        ux, uy = 0.0, 0.0
        for s in range(lo, hi):
            dx, dy = ends[s, 2] - ends[s, 0], ends[s, 3] - ends[s, 1]
            if dx < 0.0 or (dx == 0.0 and dy < 0.0):
                dx, dy = -dx, -dy
            ux += dx
            uy += dy
        length = math.sqrt(ux * ux + uy * uy)
        if length > 0.0:
            ux, uy = ux / length, uy / length
        else:
            ux, uy = 1.0, 0.0
        strip[b, 0], strip[b, 1] = ux, uy
        strip[b, 2] = strip[b, 4] = np.inf
        strip[b, 3] = strip[b, 5] = -np.inf
        for s in range(lo, hi):
            for end in (0, 2):
                along = ends[s, end] * ux + ends[s, end + 1] * uy
                across = ends[s, end + 1] * ux - ends[s, end] * uy
                strip[b, 2] = min(strip[b, 2], along - _SLACK_M)
                strip[b, 3] = max(strip[b, 3], along + _SLACK_M)
                strip[b, 4] = min(strip[b, 4], across - _SLACK_M)
                strip[b, 5] = max(strip[b, 5], across + _SLACK_M)


@njit(nogil=True, cache=True)
def _heapify(first, last, offsets, rank, trajectory, position, loss, held):  # type: ignore[no-untyped-def]
    """Turn sorted lists, which may not be full, into heaps with the worst on top."""
    slot = unmarked(len(rank))
    listed = unmarked(len(rank))
    for q in range(first, last):
        size = offsets[q + 1] - offsets[q]
        t = trajectory[offsets[q] : offsets[q + 1]]
        p = position[offsets[q] : offsets[q + 1]]
        d = loss[offsets[q] : offsets[q + 1]]
        found_t, found_p, found_d = t.copy(), p.copy(), d.copy()
        n = 0
        for i in range(size):
            if found_t[i] >= 0:
                n = offer(t, p, d, listed, slot, rank, q, n, found_t[i], found_p[i], found_d[i])
        held[q] = n


@njit(nogil=True, cache=True)
def _sort_lists(first, last, offsets, rank, trajectory, position, loss, held):  # type: ignore[no-untyped-def]
    slot = unmarked(len(rank))
    for q in range(first, last):
        t = trajectory[offsets[q] : offsets[q + 1]]
        p = position[offsets[q] : offsets[q + 1]]
        d = loss[offsets[q] : offsets[q + 1]]
        sort_list(t, p, d, slot, rank, held[q])


@njit(nogil=True, cache=True)
def _next_cells(  # type: ignore[no-untyped-def]
    first, last, queries, done, asked, loss, held, child_offsets, box, tree_box, count, cells
):
    """For each query the next cells, nearest first, after those that it has been to.

    The order depends on the point alone, and a limit that shrinks only cuts its end off.
    """
    x, y, offsets, _, _, _ = asked
    queue_d, queue_n = np.empty(ROOM, np.float64), np.empty(ROOM, np.int64)
    for i in range(first, last):
        q = queries[i]
        if offsets[q] == offsets[q + 1] or len(count) == 0:
            continue
        px, py = x[q], y[q]
        limit2 = limit_of(loss[offsets[q] : offsets[q + 1]], held[q])
        passed, named = 0, 0
        size = push(queue_d, queue_n, 0, 0.0, 0)
        while size > 0 and queue_d[0] <= limit2 and named < cells.shape[1]:
            node = queue_n[0]
            size = pop(queue_d, queue_n, size)
            if node < 0:
                passed += 1
                if passed > done[i]:
                    cells[i, named] = -1 - node
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


@njit(nogil=True, cache=True)
def _scan(  # type: ignore[no-untyped-def]
    first, last, starts, pair_query, pair_cell, asked, lists, held,
    cell_offsets, ends, owner, position, strip,
):  # fmt: skip
    """Offer the rows of the cells that each query has named to its list."""
    x, y, offsets, skip_offsets, skip, rank = asked
    out_t, out_p, out_d = lists
    skipped, listed, slot = unmarked(len(rank)), unmarked(len(rank)), unmarked(len(rank))
    distances = 0
    for group in range(first, last):
        q = pair_query[starts[group]]
        px, py = x[q], y[q]
        best_t = out_t[offsets[q] : offsets[q + 1]]
        best_p = out_p[offsets[q] : offsets[q + 1]]
        best_d = out_d[offsets[q] : offsets[q + 1]]
        mark(skipped, skip, skip_offsets[q], skip_offsets[q + 1], q)
        n = held[q]
        for i in range(n):
            listed[best_t[i]] = q
            slot[best_t[i]] = i
        limit2 = limit_of(best_d, n)
        for pair in range(starts[group], starts[group + 1]):
            begin, end = cell_offsets[pair_cell[pair]], cell_offsets[pair_cell[pair] + 1]
            if begin == end:
                continue
            for b in range(begin // _BUNDLE, (end - 1) // _BUNDLE + 1):
                if _strip_distance2(px, py, strip, b) > limit2:
                    continue
                distances += _BUNDLE
                for s in range(max(b * _BUNDLE, begin), min((b + 1) * _BUNDLE, end)):
                    ax, ay, bx, by = ends[s, 0], ends[s, 1], ends[s, 2], ends[s, 3]
                    if (
                        rough_squared_distance(px, py, ax, ay, bx, by) > limit2
                        or skipped[owner[s]] == q
                    ):
                        continue
                    loss = to_mm(squared_distance(px, py, ax, ay, bx, by))
                    n = offer(
                        best_t, best_p, best_d, listed, slot, rank,
                        q, n, owner[s], position[s], loss,
                    )  # fmt: skip
                    limit2 = limit_of(best_d, n)
        held[q] = n
    return distances


@njit(cache=True)
def _strip_distance2(px, py, strip, b):  # type: ignore[no-untyped-def]
    """Squared distance from a point to a turned box."""
    along = px * strip[b, 0] + py * strip[b, 1]
    across = py * strip[b, 0] - px * strip[b, 1]
    u = max(strip[b, 2] - along, 0.0, along - strip[b, 3])
    v = max(strip[b, 4] - across, 0.0, across - strip[b, 5])
    return u * u + v * v
