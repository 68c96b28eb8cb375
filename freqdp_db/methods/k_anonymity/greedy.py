"""Greedy grouping of rows of boxes (GLOVE): the pair with the least stretch is merged until all have k
objects.

The order of merges is exactly that of a search through all pairs. Each row keeps its few cheapest partners
among the rows with lower numbers. When all of these are gone, the cost of the last one remains a lower
bound, so the row searches again only when this bound is the least of all.

The *stretch* of two boxes is the growth by which each covers the other, weighted by the numbers of their
objects. Space counts up to 20 km and time up to 8 h, each with weight one half. The stretch of two rows is
the mean, over the boxes of the longer row, of the least stretch to a box of the shorter row. In cells and
minutes, with N objects in both rows, a box costs the whole number

    12 min(S, 200 N) + 5 min(T, 480 N)      in units of 1 / (4800 N)

Rows are searched in chunks of consecutive boxes. The extremes of the bounds in two chunks give a lower
bound of the cost between any of their boxes. With it most boxes are never compared, and a pair of rows is
given up as soon as it is certain to cost too much.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import SingleThread, joined, map_each, map_ranges, use
from freqdp_db.methods.contract import WorkingSet
from freqdp_db.methods.k_anonymity.glove import SIDES, Boxes, GloveOptions, first_boxes
from freqdp_db.methods.trips import samples_of
from freqdp_db.model.arrays import Flags, Ids, Ints, offsets_from, rows_of
from freqdp_db.model.trajectories import Trajectories
from freqdp_db.progress import ProgressCallback, as_shares, ignore_progress

CHUNK = 16
"""Boxes in a chunk."""
INFINITE_STRETCH = 1e30
"""Stretch of a pair that was given up."""
PARTNERS = 4
"""Cheapest partners that are kept for a row. Most rows need no second search."""
SPACE_WEIGHT, TIME_WEIGHT = 12, 5
MAX_CELLS, MAX_MINUTES = 200, 480
COST_PER_OBJECT = 4800.0
"""Largest cost of a box, for each object of both rows."""
_INFINITE_COST_32 = 1 << 30
_short = np.int32


@njit(nogil=True, cache=True)
def fill_chunks(bounds, boxes, extremes, at):  # type: ignore[no-untyped-def]
    """Write the boxes of a row into chunks, padded with its last box, and the extremes of their bounds."""
    count = bounds.shape[1]
    for chunk in range((count + CHUNK - 1) // CHUNK):
        for side in range(6):
            low = high = bounds[side, chunk * CHUNK]
            for i in range(CHUNK):
                value = bounds[side, min(chunk * CHUNK + i, count - 1)]
                boxes[at + chunk, side, i] = value
                low, high = min(low, value), max(high, value)
            extremes[at + chunk, 2 * side] = low
            extremes[at + chunk, 2 * side + 1] = high


@njit(nogil=True, cache=True)
def _least_growth(one, other, axis, n_one, n_other):  # type: ignore[no-untyped-def]
    """Lower bound of the weighted growth along an axis, for any boxes of two chunks."""
    low, high = 4 * axis, 4 * axis + 2
    grown = n_one * (max(one[low] - other[low + 1], 0) + max(other[high] - one[high + 1], 0))
    return grown + n_other * (
        max(other[low] - one[low + 1], 0) + max(one[high] - other[high + 1], 0)
    )


@njit(nogil=True, cache=True)
def _least_cost(one, other, n_one, n_other, most_space, most_time):  # type: ignore[no-untyped-def]
    """Lower bound of the cost of any boxes of two chunks."""
    space = _least_growth(one, other, 0, n_one, n_other) + _least_growth(
        one, other, 1, n_one, n_other
    )
    time = _least_growth(one, other, 2, n_one, n_other)
    return SPACE_WEIGHT * min(space, most_space) + TIME_WEIGHT * min(time, most_time)


@njit(nogil=True, cache=True)
def _least_growth_beyond(one, other, way, n_one, n_other):  # type: ignore[no-untyped-def]
    """Lower bound of the growth in time for a chunk and all chunks beyond it, as begins of boxes ascend."""
    if way == 0:
        return n_other * max(other[8] - one[9], 0)
    return n_one * max(one[8] - other[9], 0)


@njit(nogil=True, cache=True)
def _cheapest_in_chunk(chunk, x0, x1, y0, y1, t0, t1, n_one, n_other, most_space, most_time, least):  # type: ignore[no-untyped-def]
    """The least cost of a box and any box of a chunk, without branches, so that it is vectorized.

    With d and e the differences of the low and high bounds, the growth n max(d, 0) + m max(-d, 0) + m
    max(e, 0) + n max(-e, 0) is computed as half of (n + m) (|d| + |e|) + (n - m) (d - e).
    """
    both, more = _short(n_one + n_other), _short(n_one - n_other)
    for j in range(CHUNK):
        a, b = _short(x0 - chunk[0, j]), _short(x1 - chunk[1, j])
        c, d = _short(y0 - chunk[2, j]), _short(y1 - chunk[3, j])
        e, f = _short(t0 - chunk[4, j]), _short(t1 - chunk[5, j])
        apart = _short(_short(abs(a) + abs(b)) + _short(abs(c) + abs(d)))
        shifted = _short(_short(a - b) + _short(c - d))
        # twice the growth, which is even
        space = _short(_short(both * apart) + _short(more * shifted)) >> 1
        time = _short(_short(both * _short(abs(e) + abs(f))) + _short(more * _short(e - f))) >> 1
        cost = _short(
            _short(_short(12) * min(_short(space), most_space))
            + _short(_short(5) * min(_short(time), most_time))
        )
        least = min(least, cost)
    return least


@njit(nogil=True, cache=True)
def stretch(boxes, extremes, at, length, size, a, b, limit, low, middle, likely, near):  # type: ignore[no-untyped-def]
    """The stretch of rows a and b, or INFINITE_STRETCH as soon as it is certain to be at least `limit`.

    low, middle, likely: work arrays with an entry for each chunk of a row. near: work array of length
    CHUNK.
    """
    if length[a] < length[b] or (length[a] == length[b] and b < a):
        a, b = b, a
    n_a, n_b = size[a], size[b]
    most_space, most_time = MAX_CELLS * (n_a + n_b), MAX_MINUTES * (n_a + n_b)
    scale = float(length[a]) * float(n_a + n_b) * COST_PER_OBJECT
    count = (length[a] + CHUNK - 1) // CHUNK
    first_b, end_b = at[b], at[b] + (length[b] + CHUNK - 1) // CHUNK
    total = 0
    # lower bounds, chunk by chunk
    nearest = first_b
    for c in range(count):
        one = extremes[at[a] + c]
        while nearest + 1 < end_b and extremes[nearest + 1, 8] <= one[8]:
            nearest += 1
        best, where = _INFINITE_COST_32, nearest
        for way in range(2):
            j = nearest if way == 0 else nearest - 1
            while first_b <= j < end_b:
                other = extremes[j]
                if (
                    TIME_WEIGHT * min(_least_growth_beyond(one, other, way, n_a, n_b), most_time)
                    >= best
                ):
                    break
                cost = _least_cost(one, other, n_a, n_b, most_space, most_time)
                if cost < best:
                    best, where = cost, j
                j += 1 if way == 0 else -1
        low[c], middle[c], likely[c] = best * min(CHUNK, length[a] - c * CHUNK), nearest, where
        total += low[c]
        if total / scale >= limit:
            return INFINITE_STRETCH
    # exact costs, chunk by chunk
    for c in range(count):
        here = min(CHUNK, length[a] - c * CHUNK)
        total -= low[c]
        total += _chunk_cost(
            boxes, extremes, at[a] + c, here, first_b, end_b, middle[c], likely[c], n_a, n_b, near
        )
        if total / scale >= limit:
            return INFINITE_STRETCH
    return total / scale


@njit(nogil=True, cache=True)
def _chunk_cost(boxes, extremes, chunk, here, first_b, end_b, middle, likely, n_a, n_b, near):  # type: ignore[no-untyped-def]
    """Cost of the boxes of a chunk to a row. Its most promising chunk comes first, then others outward in
    time."""
    most_space, most_time = MAX_CELLS * (n_a + n_b), MAX_MINUTES * (n_a + n_b)
    one = extremes[chunk]
    for i in range(here):
        near[i] = _INFINITE_COST_32
    worst = _compare_chunk(boxes, chunk, here, likely, -1, n_a, n_b, near)
    for way in range(2):
        j = middle if way == 0 else middle - 1
        while first_b <= j < end_b:
            other = extremes[j]
            if (
                TIME_WEIGHT * min(_least_growth_beyond(one, other, way, n_a, n_b), most_time)
                >= worst
            ):
                break
            if j != likely:
                least = _least_cost(one, other, n_a, n_b, most_space, most_time)
                if least < worst:
                    worst = _compare_chunk(boxes, chunk, here, j, least, n_a, n_b, near)
            j += 1 if way == 0 else -1
    total = 0
    for i in range(here):
        total += near[i]
    return total


@njit(nogil=True, cache=True)
def _compare_chunk(boxes, chunk, here, other, least, n_a, n_b, near):  # type: ignore[no-untyped-def]
    """Lower the least costs `near` by the boxes of another chunk; returns the largest of them."""
    one, others = boxes[chunk], boxes[other]
    most_space, most_time = _short(MAX_CELLS * (n_a + n_b)), _short(MAX_MINUTES * (n_a + n_b))
    worst = 0
    for i in range(here):
        if near[i] > least:
            near[i] = _cheapest_in_chunk(
                others, one[0, i], one[1, i], one[2, i], one[3, i], one[4, i], one[5, i],
                _short(n_a), _short(n_b), most_space, most_time, near[i],
            )  # fmt: skip
        worst = max(worst, near[i])
    return worst


@njit(nogil=True, cache=True)
def _search_partners(row, others, cost, partner, longest, boxes, extremes, at, length, size):  # type: ignore[no-untyped-def]
    """Fill in the cheapest partners of a row among `others`, ascending; the first of equal ones."""
    cost[:], partner[:] = INFINITE_STRETCH, -1
    low, near = np.empty(longest, np.int64), np.empty(CHUNK, np.int32)
    middle, likely = np.empty(longest, np.int64), np.empty(longest, np.int64)
    last = len(cost) - 1
    for other in others:
        found = stretch(
            boxes, extremes, at, length, size, other, row, cost[last], low, middle, likely, near
        )
        if found < cost[last]:
            i = last
            while i > 0 and found < cost[i - 1]:
                cost[i], partner[i] = cost[i - 1], partner[i - 1]
                i -= 1
            cost[i], partner[i] = found, other


@njit(nogil=True, cache=True)
def nearest_before(first, last, longest, boxes, extremes, at, length, size):  # type: ignore[no-untyped-def]
    """For each row of the range, the cheapest partners among the rows before it: costs and rows."""
    cost, partner = np.empty((last - first, PARTNERS)), np.empty((last - first, PARTNERS), np.int64)
    others = np.arange(last)
    for row in range(first, last):
        i = row - first
        _search_partners(
            row, others[:row], cost[i], partner[i], longest, boxes, extremes, at, length, size
        )  # fmt: skip
    return cost, partner


@njit(nogil=True, cache=True)
def nearest_among(first, last, row, others, longest, boxes, extremes, at, length, size):  # type: ignore[no-untyped-def]
    """The cheapest partners of a row among others[first:last], which ascend: costs and rows."""
    cost, partner = np.empty(PARTNERS), np.empty(PARTNERS, np.int64)
    some = others[first:last]
    _search_partners(row, some, cost, partner, longest, boxes, extremes, at, length, size)
    return cost, partner


# --- Merging two rows into one that covers both ---


_INFINITE_COST = 1 << 62


def merge_rows(a: Ids, b: Ids, size_a: int, size_b: int) -> Ids:
    """The row that covers rows a and b. sizes: their numbers of objects. Of equally long rows, a is the
    longer."""
    # views have another memory layout, for which the kernels would be compiled again
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    longer, shorter, n, m = (a, b, size_a, size_b)
    if a.shape[1] < b.shape[1]:
        longer, shorter, n, m = b, a, size_b, size_a
    partner = _cheapest_partners(longer, shorter, n, m)
    merged: Ids = _make_disjoint(_unite(longer, shorter, partner, n, m))
    return merged


@njit(nogil=True, cache=True)
def _cost(one, i, other, j, n, m):  # type: ignore[no-untyped-def]
    """Cost of box i of one row and box j of another, in units of 1 / (4800 (n + m))."""
    space = _growth(one, 0, i, other, j, n, m) + _growth(one, 2, i, other, j, n, m)
    time = _growth(one, 4, i, other, j, n, m)
    return SPACE_WEIGHT * min(space, MAX_CELLS * (n + m)) + TIME_WEIGHT * min(
        time, MAX_MINUTES * (n + m)
    )


@njit(nogil=True, cache=True)
def _growth(one, low, i, other, j, n, m):  # type: ignore[no-untyped-def]
    """Weighted growth along one axis by which each box covers the other."""
    a, b = one[low, i] - other[low, j], one[low + 1, i] - other[low + 1, j]
    return n * (max(a, 0) + max(-b, 0)) + m * (max(-a, 0) + max(b, 0))


@njit(nogil=True, cache=True)
def _cheapest_partners(longer, shorter, n, m):  # type: ignore[no-untyped-def]
    """For each box of the longer row, the cheapest box of the shorter row; of equal ones the first."""
    found = np.empty(longer.shape[1], np.int64)
    last = shorter.shape[1]
    nearest = 0
    for i in range(longer.shape[1]):
        begin = longer[4, i]
        while nearest + 1 < last and shorter[4, nearest + 1] <= begin:
            nearest += 1
        best, where = _INFINITE_COST, -1
        # outward in time, until the time alone costs more; begins and ends of a row ascend
        j = nearest
        while j < last:
            late = m * max(shorter[4, j] - begin, 0)
            if TIME_WEIGHT * min(late, MAX_MINUTES * (n + m)) >= best:
                break
            cost = _cost(longer, i, shorter, j, n, m)
            if cost < best:
                best, where = cost, j
            j += 1
        j = nearest - 1
        while j >= 0:
            early = n * max(begin - shorter[4, j], 0)
            if TIME_WEIGHT * min(early, MAX_MINUTES * (n + m)) > best:
                break
            cost = _cost(longer, i, shorter, j, n, m)
            if cost <= best:
                best, where = cost, j
            j -= 1
        found[i] = where
    return found


@njit(nogil=True, cache=True)
def _cover(found, at, row, i):  # type: ignore[no-untyped-def]
    """Extend box `at` so that it covers box i of a row."""
    for axis in range(3):
        found[2 * axis, at] = min(found[2 * axis, at], row[2 * axis, i])
        found[2 * axis + 1, at] = max(found[2 * axis + 1, at], row[2 * axis + 1, i])


@njit(nogil=True, cache=True)
def _unite(longer, shorter, partner, n, m):  # type: ignore[no-untyped-def]
    """Boxes of the shorter row, extended by their partners; unused ones are merged into the cheapest of
    these."""
    used = np.zeros(shorter.shape[1], np.bool_)
    for i in range(len(partner)):
        used[partner[i]] = True
    place = np.cumsum(used) - 1
    united = shorter[:, used].copy()
    for i in range(len(partner)):
        _cover(united, place[partner[i]], longer, i)
    joined = np.full(shorter.shape[1], -1)
    for j in range(shorter.shape[1]):
        if not used[j]:
            best = _INFINITE_COST
            for i in range(united.shape[1]):
                cost = _cost(shorter, j, united, i, m, n + m)
                if cost < best:
                    best, joined[j] = cost, i
    for j in range(shorter.shape[1]):
        if not used[j]:
            _cover(united, joined[j], shorter, j)
    return united


@njit(nogil=True, cache=True)
def _make_disjoint(boxes):  # type: ignore[no-untyped-def]
    """Boxes that do not overlap in time: where several do, one box covers all of them."""
    cuts = np.unique(np.concatenate((boxes[4], boxes[5])))
    count = len(cuts) - 1
    found = np.empty((6, count), np.int32)
    covered, spanned = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    first = np.searchsorted(cuts, boxes[4])
    last = np.searchsorted(cuts, boxes[5])
    for b in range(boxes.shape[1]):
        for e in range(first[b], last[b]):
            if covered[e]:
                for low in (0, 2):
                    found[low, e] = min(found[low, e], boxes[low, b])
                    found[low + 1, e] = max(found[low + 1, e], boxes[low + 1, b])
            else:
                found[:4, e] = boxes[:4, b]
                covered[e] = True
            if e > first[b]:
                spanned[e] = True
    kept = 0
    for e in range(count):
        if not covered[e]:
            continue
        # an interval that continues the box before it is appended to that box
        whole = spanned[e] and kept > 0 and found[5, kept - 1] == cuts[e]
        for side in range(4):
            whole = whole and found[side, kept - 1] == found[side, e]
        if whole:
            found[5, kept - 1] = cuts[e + 1]
        else:
            found[:4, kept] = found[:4, e]
            found[4, kept], found[5, kept] = cuts[e], cuts[e + 1]
            kept += 1
    return found[:, :kept].copy()


# --- The pool of rows that can still be merged ---


_ROOM = 1.25
"""Growth factor of the arrays."""
_MIN_PARALLEL_CHUNKS = 4096
"""Searches of fewer chunks run on one core."""


class Pool:
    """Rows of boxes in chunks, in one array: the original rows first, then merged ones."""

    def __init__(self, boxes: Boxes, sizes: Ints) -> None:
        count = len(boxes)
        self._rows = self._used = 0
        chunks = int(_chunks_of(np.diff(boxes.offsets)).sum())
        self._boxes = np.empty((int(chunks * _ROOM) + 8, len(SIDES), CHUNK), np.int32)
        self._extremes = np.empty((len(self._boxes), 2 * len(SIDES)), np.int32)
        self._at, self._length, self._size = np.zeros((3, 2 * count), np.int64)
        self._alive: Flags = np.zeros(2 * count, np.bool_)
        for row in range(count):
            self.add(boxes.row(row), int(sizes[row]))

    def alive(self, row: int) -> bool:
        """Whether a row can still be merged."""
        return bool(self._alive[row])

    def left(self) -> Ints:
        return np.flatnonzero(self._alive[: self._rows])

    def leave(self, row: int) -> None:
        self._alive[row] = False

    def add(self, bounds: Ids, size: int) -> int:
        """Add a row of this many objects; returns its number."""
        row, end = self._rows, self._used + int(_chunks_of(bounds.shape[1]))
        if end > len(self._boxes):
            more = int(end * _ROOM) - len(self._boxes)
            self._boxes, self._extremes = (
                np.concatenate([table, np.empty((more, *table.shape[1:]), np.int32)])
                for table in (self._boxes, self._extremes)
            )
        fill_chunks(bounds, self._boxes, self._extremes, self._used)
        self._at[row], self._length[row], self._size[row] = self._used, bounds.shape[1], size
        self._alive[row] = True
        self._rows, self._used = row + 1, end
        return row

    def _columns(self) -> tuple[int, Ids, Ids, Ints, Ints, Ints]:
        longest = int(_chunks_of(self._length[: self._rows].max(initial=1)))
        return longest, self._boxes, self._extremes, self._at, self._length, self._size

    def nearest_of_all(self, report_progress: ProgressCallback) -> tuple[NDArray[np.float64], Ints]:
        """For each row its cheapest partners among the rows before it: costs and rows (-1: no more)."""
        work = np.arange(self._rows + 1) * np.concatenate([[0], self._length[: self._rows]])
        advance = as_shares(report_progress, self._rows)
        parts = map_ranges(nearest_before, np.cumsum(work), *self._columns(), advance=advance)
        cost, partner = joined(parts)
        return cost, partner

    def nearest(self, row: int) -> tuple[NDArray[np.float64], Ints]:
        """The cheapest partners of a row among the rows before it: costs and rows (-1: no more)."""
        others = np.flatnonzero(self._alive[:row])
        arguments = (row, others, *self._columns())
        if len(others) * _chunks_of(self._length[row]) < _MIN_PARALLEL_CHUNKS:
            return nearest_among(0, len(others), *arguments)  # type: ignore[no-any-return]
        cost, partner = joined(map_each(nearest_among, len(others), *arguments))
        # of equal ones the first: ranges ascend
        order = np.argsort(cost, kind="stable")[:PARTNERS]
        return cost[order], partner[order]


def _chunks_of(lengths: Ints | int) -> Ints:
    return np.asarray((lengths + CHUNK - 1) // CHUNK)


# --- The greedy merging ---


_FIRST_SEARCH_SHARE = 0.5
"""Approximate share of the work that the first search for partners takes."""

Shaping: TypeAlias = Callable[[Ids], Ids]
"""Changes the boxes of a merged row."""


@dataclass(frozen=True)
class Merges:
    """The merges, in order: merge n joined rows first[n] and second[n] into row `number of rows + n`."""

    first: Ints
    second: Ints

    def __len__(self) -> int:
        return len(self.first)


class _Merging:
    """The boxes and objects of all rows while merges are carried out."""

    def __init__(self, boxes: Boxes, objects: Ids, shaping: Shaping | None) -> None:
        self.boxes, self.shaping = boxes, shaping
        self.members = [objects[i : i + 1] for i in range(len(boxes))]
        """Objects of each row, ascending."""
        self.merged: dict[int, Ids] = {}
        self.first: list[int] = []
        self.second: list[int] = []

    def bounds(self, row: int) -> Ids:
        return self.boxes.row(row) if row < len(self.boxes) else self.merged[row]

    def merge(self, a: int, b: int) -> tuple[Ids, Ids]:
        """Merge two rows; returns the boxes and the objects of the new row."""
        members = np.union1d(self.members[a], self.members[b])
        bounds = merge_rows(
            self.bounds(a), self.bounds(b), len(self.members[a]), len(self.members[b])
        )
        if self.shaping is not None:
            bounds = self.shaping(bounds)
        self.first.append(a)
        self.second.append(b)
        for row in (a, b):
            self.merged.pop(row, None)
        self.merged[len(self.members)] = bounds
        self.members.append(members)
        return bounds, members


class _Queue:
    """Priority queue of pairs of rows by cost. Pairs with rows that are gone are skipped."""

    def __init__(self, pool: Pool, report_progress: ProgressCallback) -> None:
        self._pool = pool
        costs, partners = pool.nearest_of_all(report_progress)
        self._known = [
            _as_stack(cost, partner) for cost, partner in zip(costs, partners, strict=True)
        ]
        """For each row a stack of (cost, partner) with the cheapest on top; partner -1: there are no
        more."""
        self._heap: list[tuple[float, int, int]] = []
        for row in range(len(self._known)):
            self._push(row)

    def add(self, row: int) -> None:
        """Add the next row."""
        self._known.append(_as_stack(*self._pool.nearest(row)))
        self._push(row)

    def skip(self) -> None:
        """Count a row that takes no part: a finished group."""
        self._known.append([])

    def cheapest(self) -> tuple[int, int] | None:
        """The cheapest pair of rows, the lower number first; None: no pair is left."""
        while self._heap:
            _, partner, row = heapq.heappop(self._heap)
            if not self._pool.alive(row):
                continue
            if self._pool.alive(partner):
                return partner, row
            if not self._known[row]:
                self._known[row] = _as_stack(*self._pool.nearest(row))
            self._push(row)
        return None

    def _push(self, row: int) -> None:
        """Queue the cheapest partner that is alive, or else the last one known: a lower bound of all
        others."""
        known = self._known[row]
        while known:
            cost, partner = known.pop()
            if partner < 0:
                return
            if self._pool.alive(partner) or not known:
                heapq.heappush(self._heap, (cost, partner, row))
                return


def _as_stack(cost: NDArray[np.float64], partner: Ints) -> list[tuple[float, int]]:
    return list(zip(cost.tolist(), partner.tolist(), strict=True))[::-1]


def group_rows(
    boxes: Boxes,
    objects: Ids,
    k: int,
    shaping: Shaping | None = None,
    report_progress: ProgressCallback = ignore_progress,
    *,
    join: bool = True,
) -> Merges:
    """Merge rows, none of them empty, until all have at least k objects. objects: the object of each row.

    A row that is left over joins the cheapest finished group (`join`), or stays as it is.
    """
    count = len(boxes)
    run = _Merging(boxes, objects, shaping)
    finished: list[int] = []
    if count > 1 and k > 1:
        pool = Pool(boxes, np.ones(count, np.int64))
        queue = _Queue(pool, lambda share: report_progress(share * _FIRST_SEARCH_SHARE))
        most = count - count // (2 * k)
        while (pair := queue.cheapest()) is not None:
            bounds, members = run.merge(*pair)
            report_progress(_FIRST_SEARCH_SHARE + (1 - _FIRST_SEARCH_SHARE) * len(run.first) / most)
            for row in pair:
                pool.leave(row)
            row = pool.add(bounds, len(members))
            if len(members) >= k:
                pool.leave(row)
                finished.append(row)
                queue.skip()
            else:
                queue.add(row)
        left = pool.left().tolist()
        if join and left and finished:
            for row in left:
                _merge_into_nearest(run, finished, row)
    return Merges(np.array(run.first, np.int64), np.array(run.second, np.int64))


def _merge_into_nearest(run: _Merging, finished: list[int], row: int) -> None:
    """Merge a row that is left over into the cheapest finished group."""
    rows = [run.bounds(f) for f in finished] + [run.bounds(row)]
    sizes = np.array([len(run.members[f]) for f in finished] + [len(run.members[row])])
    offsets = np.concatenate([[0], np.cumsum([r.shape[1] for r in rows])])
    pool = Pool(Boxes(offsets, np.concatenate(rows, axis=1), run.boxes.origin), sizes)
    with use(SingleThread()):
        nearest = int(pool.nearest(len(finished))[1][0])
    run.merge(finished[nearest], row)
    finished[nearest] = len(run.members) - 1


@dataclass(frozen=True)
class Group:
    """The rows that were merged into one."""

    bounds: Ids
    """Its boxes, as in `Boxes`."""
    objects: Ids
    key: int
    """Smallest key of its rows."""


def replay_merges(
    boxes: Boxes,
    objects: Ids,
    keys: Ints,
    merges: Merges,
    shaping: Shaping | None = None,
    report_progress: ProgressCallback = ignore_progress,
) -> list[Group]:
    """Carry out stored merges; returns the rows that remain, in order of their numbers."""
    count = len(boxes)
    run = _Merging(boxes, objects, shaping)
    key = keys.tolist()
    advance = as_shares(report_progress, len(merges))
    for a, b in zip(merges.first.tolist(), merges.second.tolist(), strict=True):
        run.merge(a, b)
        key.append(min(key[a], key[b]))
        advance(1)
    gone = np.zeros(count + len(merges), np.bool_)
    gone[merges.first] = gone[merges.second] = True
    kept = np.flatnonzero(~gone).tolist()
    return [Group(run.bounds(row), run.members[row], key[row]) for row in kept]


# The rows: whole trajectories, or pieces of trips that are grouped within windows of time.


_MAX_GROUP_FACTOR = 3
"""Bound of the size of a group in k: two groups below k merge, and fewer than k objects join them."""


@dataclass(frozen=True)
class SampleRuns:
    """Runs of consecutive samples that become rows of boxes. None is empty."""

    first: Ints
    last: Ints
    """First and last sample of each run, in the step's input."""
    object: Ids
    block: Ints
    """Block of each run, ascending. Only runs of one block are merged."""
    boxes: Boxes


def whole_rows(state: WorkingSet) -> tuple[Ints, Ints]:
    """First and last sample of every trajectory that is not empty."""
    offsets = state.trajectories.offsets
    there = state.trajectories.lengths > 0
    return offsets[:-1][there], offsets[1:][there] - 1


def cut_rows(state: WorkingSet, options: GloveOptions) -> tuple[Ints, Ints]:
    """First and last sample of pieces of trips, ordered by the window of time of their middle."""
    from freqdp_db.methods.unlinking.cut import find_pieces

    assert options.cutting is not None
    pieces = find_pieces(state, options.cutting)
    at = state.trajectories.at
    order = np.argsort(_window(at, pieces.first, pieces.last, options), kind="stable")
    return pieces.first[order], pieces.last[order]


def _window(at: Ints, first: Ints, last: Ints, options: GloveOptions) -> Ints:
    if options.pieces is None:
        return np.zeros(len(first), np.int64)
    middle: Ints = (at[first] + at[last]) // 2
    return middle // options.pieces


def make_rows(state: WorkingSet, first: Ints, last: Ints, options: GloveOptions) -> SampleRuns:
    side = state.trajectories
    offsets, samples = samples_of(first, last)
    runs = Trajectories(offsets, side.location[samples], side.at[samples], side.at[first])
    return SampleRuns(
        first,
        last,
        state.owners()[first],
        _window(side.at, first, last, options),
        first_boxes(runs, state.places, _MAX_GROUP_FACTOR * options.k),
    )


def group_all(
    rows: SampleRuns,
    options: GloveOptions,
    shaping: Shaping | None,
    report_progress: ProgressCallback,
) -> Merges:
    """Group the rows of each block; the merges are numbered across all blocks."""
    blocks = offsets_from(np.unique(rows.block, return_counts=True)[1])
    join = options.leftovers == "join"
    if len(blocks) <= 2:
        return group_rows(rows.boxes, rows.object, options.k, shaping, report_progress, join=join)
    parts = map_ranges(
        group_blocks, blocks, blocks, rows, options.k, shaping, join,
        advance=as_shares(report_progress, len(blocks) - 1),
    )  # fmt: skip
    merges = [m for part in parts for m in part]
    base = len(rows.first)
    first: list[Ints] = []
    second: list[Ints] = []
    for begin, end, found in zip(blocks[:-1], blocks[1:], merges, strict=True):
        for column, whole in ((found.first, first), (found.second, second)):
            made = column >= end - begin
            whole.append(np.where(made, column - (end - begin) + base, column + begin))
        base += len(found)
    return Merges(np.concatenate(first), np.concatenate(second))


def group_blocks(
    first: int,
    last: int,
    blocks: Ints,
    rows: SampleRuns,
    k: int,
    shaping: Shaping | None,
    join: bool,
) -> list[Merges]:
    """The merges of each block from `first` to `last` - 1."""
    found = []
    for block in range(first, last):
        begin, end = int(blocks[block]), int(blocks[block + 1])
        taken, offsets = rows_of(rows.boxes.offsets, np.arange(begin, end))
        boxes = Boxes(offsets, rows.boxes.bounds[:, taken], rows.boxes.origin)
        objects = rows.object[begin:end]
        # blocks run in parallel, so that each keeps to one core
        with use(SingleThread()):
            found.append(group_rows(boxes, objects, k, shaping, join=join))
    return found
