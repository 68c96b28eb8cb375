"""The search over the grid of a build, as its tables have it.

The build knows nothing of the edits of a job. Of its segments those that the trajectories still have
are searched where the build has filed them; what they have and the build has not (bridges over
deleted samples, insertions) is filed in memory. After a step that changes nearly everything that is
most of it: the tables serve what is unchanged.

With enough memory all cells are read at once, and all segments are one index. With less, the new
segments are an index by themselves, which is searched first, and the cells are read in pages: runs of
cells of one level, neighbours on the Z-order curve. First each query goes where it lies: to the nearest
page, of the equally near ones (0 for those around it) to the finest. That gives it a bound. Then the
pages are read from the finest level up, each for the queries whose bound does not rule it out. The
answer is that of every other strategy, and however little memory there is, a page is read at most
three times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.model.arrays import Flags, Ids, Ints, Metres, offsets_of
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.search.grid import Frame, Segments, distinct_segments, file_segments, levels_of
from freqdp_db.search.nearest import (
    ANYWHERE,
    BestLists,
    Nearest,
    Queries,
    SegmentIndex,
    index_filed,
    index_segments,
    nearest_trajectories,
    search_index,
)

INDEX_BYTES = 120
"""What an index takes for a segment while it is made."""
_LEAST_ROWS = 1 << 15
"""Of a page: smaller ones take as long to ask for."""
_ROUNDS = 2
"""So often each query may go to the next page for a bound."""


@dataclass(frozen=True)
class StoredGrid:
    """The grid of a build: its cells, in order of their ids, and how to read what they hold."""

    frame: Frame
    cell: Ints
    segments: Ids
    """How many are filed in the cell itself."""
    box: Metres
    """Of the cell's own segments: x_min, y_min, x_max, y_max."""
    read: Callable[[Ints | None], tuple[Ids, Ids]]
    """read(cells): trajectory and position of the segments filed in these cells; None: in all."""


class GridSearch:
    """Finds the K nearest of the trajectories of a build, as edits have left them."""

    def __init__(self, grid: StoredGrid, built: Trajectories, memory: int) -> None:
        self._grid = grid
        self._built = built
        self._memory = memory
        """Bytes that may be held of the segments."""

    def __call__(
        self, trajectories: Trajectories, locations: Locations, rank: Ints, queries: Queries
    ) -> Nearest:
        """The K nearest of these trajectories for each query."""
        if len(trajectories) != len(self._built):
            # others than the build's, which has nothing of them
            return nearest_trajectories(index_segments(trajectories, locations, rank), queries)
        segments = distinct_segments(trajectories)
        since = compare_with_build(segments, self._built)
        new = segments.take(np.flatnonzero(since.new))
        del segments  # as much again as what is read below
        grid = self._grid

        def index(found: Segments) -> SegmentIndex:
            return index_filed(file_segments(found, locations, grid.frame, cut=True), rank)

        def index_cells(cells: Ints) -> SegmentIndex:
            return index(since.left_of(*grid.read(cells)))

        if int(grid.segments.sum()) * INDEX_BYTES <= self._memory:
            return nearest_trajectories(index(since.left_of(*grid.read(None)).then(new)), queries)
        best = BestLists(queries, rank)
        search_index(index(new), best)
        pages, boxes = _cut_into_pages(grid, max(self._memory // INDEX_BYTES, _LEAST_ROWS))
        _search_pages(pages, boxes, index_cells, queries, best)
        return best.nearest()


def _search_pages(
    pages: list[Ints],
    boxes: Metres,
    index_cells: Callable[[Ints], SegmentIndex],
    queries: Queries,
    best: BestLists,
) -> None:
    """Take each query to the pages that may have something for it."""
    been = np.zeros((len(pages), len(queries)), np.bool_)

    def look(number: int, chosen: Ints) -> None:
        search_index(index_cells(pages[number]), best, chosen)
        been[number, chosen] = True

    for _ in range(_ROUNDS):
        unbound = best.limits() == ANYWHERE
        nearest, least = np.full(len(queries), -1), np.full(len(queries), np.inf)
        for number, box in enumerate(boxes):
            distance2 = _box_distances(queries, box)
            nearer = unbound & ~been[number] & (distance2 <= least)
            nearest[nearer], least[nearer] = number, distance2[nearer]
        for number in np.unique(nearest[nearest >= 0]).tolist():
            look(number, np.flatnonzero(nearest == number))
    for number in range(len(pages) - 1, -1, -1):
        near = _box_distances(queries, boxes[number]) <= best.limits()
        chosen = np.flatnonzero(near & ~been[number])
        if len(chosen):
            look(number, chosen)


def _cut_into_pages(grid: StoredGrid, most_rows: int) -> tuple[list[Ints], Metres]:
    """The cells of each page, of one level and with so many segments at most; and their boxes."""
    own = np.flatnonzero(grid.segments)
    if len(own) == 0:
        return [], np.zeros((0, 4))
    level = levels_of(grid.cell[own])
    cuts, rows = [0], 0
    for i, count in enumerate(grid.segments[own].tolist()):
        if i > cuts[-1] and (level[i] != level[i - 1] or rows + count > most_rows):
            cuts.append(i)
            rows = 0
        rows += count
    box = grid.box[own]
    low, high = np.minimum.reduceat(box[:, :2], cuts), np.maximum.reduceat(box[:, 2:], cuts)
    return np.split(grid.cell[own], cuts[1:]), np.concatenate([low, high], axis=1)


def _box_distances(queries: Queries, box: Metres) -> Metres:
    """MINdist from each query to a box, squared."""
    x_min, y_min, x_max, y_max = box
    dx = np.maximum(np.maximum(x_min - queries.x, queries.x - x_max), 0.0)
    dy = np.maximum(np.maximum(y_min - queries.y, queries.y - y_max), 0.0)
    squared: Metres = dx * dx + dy * dy
    return squared


# What has become of the segments of a build.


@dataclass(frozen=True)
class SinceBuild:
    """What has become of the segments of a build in the trajectories as they were edited."""

    built: Trajectories
    now_at: Ids
    """[sample of the build]: where the segment that begins there first occurs now; -1: nowhere."""
    new: Flags
    """[segment of now]: the build has no such segment of this trajectory."""

    def left_of(self, trajectory: Ids, position: Ids) -> Segments:
        """Those of the build's segments that are still there, as they are now."""
        offsets, location = self.built.offsets, self.built.location
        begins = offsets[trajectory] + position
        there = self.now_at[begins] >= 0
        owner, begins = trajectory[there], begins[there]
        ends = np.minimum(begins + 1, offsets[owner + 1] - 1)
        once = np.ones(len(owner), np.int32)
        return Segments(owner, self.now_at[begins], location[begins], location[ends], once)


def compare_with_build(segments: Segments, built: Trajectories) -> SinceBuild:
    """Compare what the build's trajectories have now, after edits, with what the build has."""
    offsets = offsets_of(segments.trajectory, len(built))
    parts = map_ranges(
        _compare, built.offsets, built.offsets, built.location,
        offsets, segments.position, segments.tail, segments.head,
    )  # fmt: skip
    return SinceBuild(built, *joined(parts))


@njit(nogil=True, cache=True)
def _compare(first, last, built_offsets, built_location, offsets, position, tail, head):  # type: ignore[no-untyped-def]
    """`now_at` and `new` of a range."""
    begin, begin_now = built_offsets[first], offsets[first]
    now_at = np.empty(built_offsets[last] - begin, np.int32)
    new = np.ones(offsets[last] - begin_now, np.bool_)
    for t in range(first, last):
        lo, hi = built_offsets[t], built_offsets[t + 1]
        for i in range(lo, hi):
            now_at[i - begin] = -1
            if i == hi - 1 and hi - lo > 1:
                continue  # no segment begins at the last sample
            a, b = built_location[i], built_location[min(i + 1, hi - 1)]
            at = _find(tail, head, offsets[t], offsets[t + 1], a, b)
            if at >= 0:
                now_at[i - begin] = position[at]
                new[at - begin_now] = False
    return now_at, new


@njit(cache=True)
def _find(tail, head, lo, hi, a, b):  # type: ignore[no-untyped-def]
    """Where the segment from a to b is among lo to hi - 1, in order of (tail, head); -1: nowhere."""
    end = hi
    while lo < hi:
        middle = (lo + hi) // 2
        if tail[middle] < a or (tail[middle] == a and head[middle] < b):
            lo = middle + 1
        else:
            hi = middle
    if lo < end and tail[lo] == a and head[lo] == b:
        return lo
    return -1
