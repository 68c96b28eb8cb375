"""Pages of a build's segments: what is in memory of them, and what a query finds on one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.columns.trajectories import Locations
from freqdp_db.engines.ranges import joined, map_each
from freqdp_db.search.best import limit_of, mark, offer, unmarked
from freqdp_db.search.changes import SortedSegments, first_positions
from freqdp_db.search.comparison.rows import rough_squared_distance
from freqdp_db.search.directory import CellRows
from freqdp_db.search.distance import common_direction, squared_distance, to_mm

_BUNDLE = 8
_SLACK_M = 1e-6


@dataclass(frozen=True)
class Page:
    """What a build's cells still hold, in bundles of eight with turned boxes."""

    offsets: Ints
    """Rows of the page's nth cell."""
    ends: Metres
    owner: Ids
    position: Ids
    strip: Metres

    @classmethod
    def of(cls, cells: Ints, rows: CellRows, current: SortedSegments, locations: Locations) -> Page:
        """The rows of these cells, without those that the trajectories no longer have."""
        position = first_positions(current, rows.trajectory, rows.tail, rows.head)
        kept = np.flatnonzero(position >= 0)
        tail, head = rows.tail[kept], rows.head[kept]
        ends = np.stack(
            [locations.x[tail], locations.y[tail], locations.x[head], locations.y[head]], axis=1
        )
        (strip,) = joined(map_each(_fit, -(-len(kept) // _BUNDLE), ends))
        offsets = np.append(np.searchsorted(rows.cell[kept], cells), len(kept))
        return cls(offsets, ends, rows.trajectory[kept], position[kept], strip)

    @property
    def columns(self) -> tuple[Ints, Metres, Ids, Ids, Metres]:
        """As kernels get it."""
        return self.offsets, self.ends, self.owner, self.position, self.strip

    @property
    def bytes(self) -> int:
        return sum(column.nbytes for column in self.columns)


class PageCache:
    """Pages in memory, those used last kept; one page there always is."""

    def __init__(self, read: Callable[[int], Page], memory: int) -> None:
        self._read = read
        self._memory = memory
        self._pages: OrderedDict[int, Page] = OrderedDict()
        self._bytes = 0

    def page(self, number: int) -> Page:
        found = self._pages.pop(number, None)
        if found is None:
            found = self._read(number)
            self._bytes += found.bytes
        self._pages[number] = found
        while self._bytes > self._memory and len(self._pages) > 1:
            self._bytes -= self._pages.popitem(last=False)[1].bytes
        return found


@njit(nogil=True, cache=True)
def _fit(first, last, ends):  # type: ignore[no-untyped-def]
    """A box for every eight rows, turned into their direction."""
    strip = np.empty((last - first, 6), np.float64)
    for b in range(last - first):
        lo = (first + b) * _BUNDLE
        hi = min(lo + _BUNDLE, len(ends))
        ux, uy = common_direction(ends, lo, hi)
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
    return (strip,)


@njit(nogil=True, cache=True)
def scan_cells(first, last, asked, lists, starts, cells, page):  # type: ignore[no-untyped-def]
    """The best lists of queries after the cells of a page that each has named, and the distances.

    Query q has named cells[starts[q]] to cells[starts[q + 1] - 1].
    """
    x, y, offsets, skip_offsets, skip, rank = asked
    cell_offsets, ends, owner, position, strip = page
    begin = offsets[first]
    out_t = lists[0][begin : offsets[last]].copy()
    out_p = lists[1][begin : offsets[last]].copy()
    out_d = lists[2][begin : offsets[last]].copy()
    held = lists[3][first:last].copy()
    skipped, listed, slot = unmarked(len(rank)), unmarked(len(rank)), unmarked(len(rank))
    distances = 0
    for q in range(first, last):
        px, py = x[q], y[q]
        begin_q, end_q = offsets[q] - begin, offsets[q + 1] - begin
        best_t, best_p = out_t[begin_q:end_q], out_p[begin_q:end_q]
        best_d = out_d[begin_q:end_q]
        mark(skipped, skip, skip_offsets[q], skip_offsets[q + 1], q)
        n = held[q - first]
        for i in range(n):
            listed[best_t[i]] = q
            slot[best_t[i]] = i
        limit2 = limit_of(best_d, n)
        for cell in range(starts[q], starts[q + 1]):
            lo, hi = cell_offsets[cells[cell]], cell_offsets[cells[cell] + 1]
            if lo == hi:
                continue
            for b in range(lo // _BUNDLE, (hi - 1) // _BUNDLE + 1):
                if _strip_distance2(px, py, strip, b) > limit2:
                    continue
                distances += _BUNDLE
                for s in range(max(b * _BUNDLE, lo), min((b + 1) * _BUNDLE, hi)):
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
        held[q - first] = n
    return out_t, out_p, out_d, held, distances


@njit(cache=True)
def _strip_distance2(px, py, strip, b):  # type: ignore[no-untyped-def]
    """Squared distance from a point to a turned box."""
    along = px * strip[b, 0] + py * strip[b, 1]
    across = py * strip[b, 0] - px * strip[b, 1]
    u = max(strip[b, 2] - along, 0.0, along - strip[b, 3])
    v = max(strip[b, 4] - across, 0.0, across - strip[b, 5])
    return u * u + v * v
