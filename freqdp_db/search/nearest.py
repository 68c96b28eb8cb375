"""K-nearest trajectories of a place: best first over the grid, with a bounded best list.

For each query place q and K: the K trajectories that do not contain q with the smallest loss, ties
by the trajectories' rank, each with its nearest segment, ties by position (paper, Def. "K-Nearest
Trajectory Search"; DESIGN: bounds prune at loss + 1 mm).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_each, map_ranges
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_from, within
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.search.best import (
    ROOM,
    BestLists,
    Nearest,
    Queries,
    box_squared_distance,
    common_direction,
    grown,
    limit_of,
    mark,
    offer,
    pop,
    push,
    squared_distance,
    to_mm,
    unmarked,
)
from freqdp_db.search.grid import Filed, Grid, file_trajectories, piece_of

# Bundles: inside a cell, segments that lie along each other are laid out together.
#
# A query passes near few of the long segments of its surroundings, but inside the axis-parallel box
# of nearly all of them. So the segments of a cell are ordered by the line they lie on (direction and
# offset), and every eight of them are a bundle with a box turned into their direction: a strip, for
# long segments. The distance to that box bounds the distance to each of them from below. Every eight
# bundles of a cell are a sheaf, every eight sheaves a larger one, until one holds the whole cell.
#
# The numbers of eight neighbours stand side by side (all first ends' x, then all y, ...); places that no
# member fills are infinitely far away.
# What decides whether to look closer takes half the memory of the exact coordinates: whole quanta (a
# millimetre or so) in 32 bits, whose differences are exact, and single precision for the rest. Bounds
# give way by what rounding can make of a distance, so that nothing near is missed; losses are computed
# from the exact ends.


SIZE = 8
NO_RANK = np.iinfo(np.int32).max
"""Worse than every rank."""
_STRIP, MEMBER = 3, 7  # numbers of a box: the first in single precision, and the last
_FINEST_M = 2.0**-10
_MOST_QUANTA = 2.0**30 - 2
_FARTHEST = 1e37
"""Squared quanta: what a limit is at most. Finite, so that empty places are beyond it."""
# What rounding can make of a distance: a share of it, one of the extent of what it leads to, and
# some quanta. A thousandth more than the limit's square lets the second be added as a square.
_ERROR = 2e-6
_MORE = 1e-3
_QUANTA = 4.0
_LENGTH_ERROR2 = np.float32(_ERROR**2 * (1.0 + 1.0 / _MORE))


class Lattice(NamedTuple):
    """Whole quanta from an origin in the midst of the data."""

    x: float
    y: float
    quantum: float
    """Metres, a power of two: no coordinate of the data is 2^30 quanta from the origin."""


@dataclass(frozen=True)
class Bundles:
    """The segments of all cells in bundles, and these in sheaves."""

    top: Ints
    """The sheaf, or the only bundle, that holds all of a cell (-1: the cell has no segments)."""
    height: NDArray[np.int8]
    """How many sheaves are above a bundle of the cell; 0: the cell is one bundle."""
    lattice: Lattice
    row: Ints
    """Bundle b has rows row[b] to row[b + 1] - 1, as filed."""
    ends: Ids
    """[bundle, coordinate, place]: ax, ay, bx, by of whole segments, in quanta."""
    box: Ids
    """[sheaf, number, place]: the boxes of its members. Their middle (x, y), in quanta; the best rank
    behind them; as bits of single precision their direction (x, y) and how far they reach along it
    and across it; then, in the first place, which is the first member (the others follow)."""


def pack_leaves(filed: Filed, best_rank: Ints) -> Bundles:
    """Cut each cell's rows into bundles, gather them in sheaves and fit the boxes.

    best_rank: of the trajectory of each row.
    """
    rows = filed.grid.segment_offsets
    bundles = -(-np.diff(rows) // SIZE)
    first_bundle = offsets_from(bundles)
    lattice = _choose_lattice(filed)
    parts = map_ranges(_lay_out, rows, rows, first_bundle, filed.ends, tuple(lattice))
    row, ends = joined(parts)
    top = np.where(bundles > 0, first_bundle[:-1], -1)
    height = np.zeros(len(bundles), np.int8)
    level, member, begin, end = [0], [], [], []
    below, h, width = first_bundle[:-1], 0, SIZE
    while (high := np.flatnonzero(bundles > SIZE**h)).size:
        # members of a sheaf of height h + 1 have `width` rows each
        sheaves = -(-bundles[high] // SIZE ** (h + 1))
        nth = within(offsets_from(sheaves))
        cell = np.repeat(high, sheaves)
        first = np.zeros(len(bundles), np.int64)
        first[high] = level[-1] + np.cumsum(sheaves) - sheaves
        member.append(below[cell] + nth * SIZE)
        begin.append(rows[cell] + nth * width * SIZE)
        end.append(rows[cell + 1])
        top[high], height[high] = first[high], h + 1
        level.append(level[-1] + int(sheaves.sum()))
        below, h, width = first, h + 1, width * SIZE
    box = np.empty((level[-1], 8, SIZE), np.int32)
    for h in range(len(member)):
        part = box[level[h] : level[h + 1]]
        fitted = map_each(
            _fit, len(part), begin[h], end[h], SIZE ** (h + 1), filed.ends, filed.part, best_rank,
            tuple(lattice),
        )  # fmt: skip
        part[:, :_STRIP], part[:, _STRIP:MEMBER].view(np.float32)[:] = joined(fitted)
        part[:, MEMBER, 0] = member[h]
    return Bundles(top, height, lattice, np.append(row, len(filed)), ends, box)


def _choose_lattice(filed: Filed) -> Lattice:
    if not len(filed):
        return Lattice(0.0, 0.0, 1.0)
    x0, y0, x1, y1 = filed.grid.tree_box[0]
    reach = max(x1 - x0, y1 - y0) / 2
    quantum = _FINEST_M
    while reach / quantum >= _MOST_QUANTA:
        quantum *= 2.0
    return Lattice((x0 + x1) / 2, (y0 + y1) / 2, quantum)


@njit(cache=True, inline="always")
def in_quanta(metres, origin, quantum):  # type: ignore[no-untyped-def]
    """A coordinate on the lattice. One beyond all data is drawn nearer, and so are its distances."""
    return np.int32(min(max(np.rint((metres - origin) / quantum), -_MOST_QUANTA), _MOST_QUANTA))


@njit(nogil=True, cache=True)
def _lay_out(first, last, rows, first_bundle, ends, lattice):  # type: ignore[no-untyped-def]
    """The first row of each bundle, and its ends."""
    x, y, quantum = lattice
    size = first_bundle[last] - first_bundle[first]
    out_row, out_ends = np.empty(size, np.int64), np.empty((size, 4, SIZE), np.int32)
    b = 0
    for cell in range(first, last):
        for nth in range(first_bundle[cell + 1] - first_bundle[cell]):
            out_row[b] = rows[cell] + nth * SIZE
            for place in range(SIZE):
                r = min(out_row[b] + place, rows[cell + 1] - 1)
                for i in range(4):
                    out_ends[b, i, place] = in_quanta(ends[r, i], x if i % 2 == 0 else y, quantum)
            b += 1
    return out_row, out_ends


@njit(nogil=True, cache=True)
def _fit(first, last, begin, end, width, ends, part, best_rank, lattice):  # type: ignore[no-untyped-def]
    """Boxes of the members of each sheaf: `width` rows each, the last one what is left."""
    origin_x, origin_y, quantum = lattice
    middle = np.empty((last - first, _STRIP, SIZE), np.int32)
    strip = np.empty((last - first, MEMBER - _STRIP, SIZE), np.float32)
    for sheaf in range(last - first):
        for place in range(SIZE):
            lo = begin[first + sheaf] + place * width
            hi = min(lo + width, end[first + sheaf])
            ux, uy = common_direction(ends, lo, hi)
            along_min = across_min = np.inf
            along_max = across_max = -np.inf
            rank = NO_RANK
            for s in range(lo, hi):
                rank = min(rank, best_rank[s])
                ax, ay, bx, by = piece_of(
                    ends[s, 0], ends[s, 1], ends[s, 2], ends[s, 3], part[s, 0], part[s, 1]
                )
                for px, py in ((ax, ay), (bx, by)):
                    along, across = px * ux + py * uy, py * ux - px * uy
                    along_min, along_max = min(along_min, along), max(along_max, along)
                    across_min, across_max = min(across_min, across), max(across_max, across)
            strip[sheaf, 0, place], strip[sheaf, 1, place] = ux, uy
            middle[sheaf, 2, place] = rank
            if lo >= hi:
                middle[sheaf, 0, place] = middle[sheaf, 1, place] = 0
                strip[sheaf, 2, place] = strip[sheaf, 3, place] = -np.inf
                continue
            along, across = (along_min + along_max) / 2, (across_min + across_max) / 2
            middle[sheaf, 0, place] = in_quanta(along * ux - across * uy, origin_x, quantum)
            middle[sheaf, 1, place] = in_quanta(along * uy + across * ux, origin_y, quantum)
            half_along = (along_max - along_min) / 2 / quantum
            half_across = (across_max - across_min) / 2 / quantum
            error = _ERROR * (half_along + half_across) + _QUANTA
            strip[sheaf, 2, place] = half_along + error
            strip[sheaf, 3, place] = half_across + error
    return middle, strip


@njit(cache=True)
def rough_limit(limit2, quantum):  # type: ignore[no-untyped-def]
    """A limit in squared metres as the comparisons below take it: in squared quanta, and wider."""
    limit = math.sqrt(limit2) / quantum * (1.0 + _ERROR) + _QUANTA
    return np.float32(min(limit * limit * (1.0 + _MORE), _FARTHEST))


@njit(nogil=True, cache=True)
def near_members(x, y, box, strip, sheaf, limit2, worst_rank):  # type: ignore[no-untyped-def]
    """Which members of a sheaf may hold something for the list, as bits.

    By distance; and where the list is full of losses 0, by rank: a trajectory that ranks behind
    all of the list cannot enter it. strip: the bits of all boxes as single precision.
    """
    zero, near = np.float32(0.0), 0
    for place in range(SIZE):
        dx = np.float32(x - box[sheaf, 0, place])
        dy = np.float32(y - box[sheaf, 1, place])
        ux, uy = strip[sheaf, 3, place], strip[sheaf, 4, place]
        along = max(abs(dx * ux + dy * uy) - strip[sheaf, 5, place], zero)
        across = max(abs(dy * ux - dx * uy) - strip[sheaf, 6, place], zero)
        ranked = box[sheaf, 2, place] <= worst_rank
        near |= (ranked & (along * along + across * across <= limit2)) << place
    return near


@njit(nogil=True, cache=True)
def near_segments(x, y, ends, bundle, limit2):  # type: ignore[no-untyped-def]
    """Which segments of a bundle are within the limit, as bits."""
    zero, one, near = np.float32(0.0), np.float32(1.0), 0
    for place in range(SIZE):
        ax, ay = ends[bundle, 0, place], ends[bundle, 1, place]
        ux, uy = np.float32(x - ax), np.float32(y - ay)
        dx = np.float32(ends[bundle, 2, place] - ax)
        dy = np.float32(ends[bundle, 3, place] - ay)
        length2 = dx * dx + dy * dy
        t = max(min(ux * dx + uy * dy, length2), zero) / max(length2, one)
        ex, ey = ux - t * dx, uy - t * dy
        near |= (ex * ex + ey * ey <= limit2 + _LENGTH_ERROR2 * length2) << place
    return near


__all__ = ["Nearest", "SegmentIndex", "index_segments", "nearest_trajectories"]

# members that wait while one is looked at: at most all places of one sheaf of each height
_STACK = SIZE * 16
_BELOW = 5  # a cell's own segments and its four children


@dataclass(frozen=True)
class SegmentIndex:
    """All segments of a set of trajectories, filed in pieces and bundled."""

    grid: Grid
    bundles: Bundles
    ends: Metres
    owner: Ids
    position: Ids
    """[row]: ax, ay, bx, by of the whole segment, its trajectory, and where in it it begins."""
    rank: Ints
    """Order of the trajectories among equals."""


def index_segments(trajectories: Trajectories, locations: Locations, rank: Ints) -> SegmentIndex:
    """File every distinct segment and tie the bundles."""
    return index_filed(file_trajectories(trajectories, locations, cut=True), rank)


def index_filed(filed: Filed, rank: Ints) -> SegmentIndex:
    """Tie the bundles of what is filed."""
    owner = filed.segments.trajectory[filed.row]
    bundles = pack_leaves(filed, rank[owner])
    position = filed.segments.position[filed.row]
    return SegmentIndex(filed.grid, bundles, filed.ends, owner, position, rank)


def nearest_trajectories(index: SegmentIndex, queries: Queries) -> Nearest:
    """Answer all queries."""
    best = BestLists(queries, index.rank)
    search_index(index, best)
    return best.nearest()


def search_index(index: SegmentIndex, best: BestLists, chosen: Ints | None = None) -> None:
    """Look in an index for what is better than what the lists have: for all queries, or some."""
    grid, bundles = index.grid, index.bundles
    arrays = (
        grid.child_offsets, grid.box, grid.tree_box, bundles.top, bundles.height, tuple(bundles.lattice),
        bundles.box, bundles.row, bundles.ends,
        index.ends, index.owner, index.position,
    )  # fmt: skip
    best.search(_nearest_range, arrays, chosen)


@njit(nogil=True, cache=True)
def _nearest_range(  # type: ignore[no-untyped-def]
    first, last, asked, lists, child_offsets, box, tree_box, top, height, lattice,
    sheaves, row, rough, ends, owner, position,
):  # fmt: skip
    x, y, offsets, skip_offsets, skip, rank = asked
    given_t, given_p, given_d, given = lists
    begin = offsets[first]
    out_t, out_p = given_t[begin : offsets[last]].copy(), given_p[begin : offsets[last]].copy()
    out_d, out_held = given_d[begin : offsets[last]].copy(), given[first:last].copy()
    origin_x, origin_y, quantum = lattice
    strips = sheaves.view(np.float32)
    skipped, listed, slot = unmarked(len(rank)), unmarked(len(rank)), unmarked(len(rank))
    around = np.empty(ROOM, np.int64)
    queue_d, queue_n = np.empty(ROOM, np.float64), np.empty(ROOM, np.int64)
    stack_n, stack_h = np.empty(_STACK, np.int64), np.empty(_STACK, np.int64)
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
        rough_x, rough_y = in_quanta(px, origin_x, quantum), in_quanta(py, origin_y, quantum)
        rough_limit2 = rough_limit(limit2, quantum)
        # The cells around q: they are at distance 0, no bound leaves them out. The finest first,
        # so that a tight bound is found before the long segments are looked at.
        enclosing, around = _enclosing(px, py, child_offsets, tree_box, around)
        todo = enclosing
        size = -1
        while True:
            if todo > 0:
                todo -= 1
                node = around[todo]
                cells += 1
                if top[node] < 0 or _distance2(px, py, box, node) > 0.0:
                    continue
            else:
                # Then what lies beside q: n for the subtree of cell n, -1 - n for its segments.
                if size < 0:
                    while len(queue_d) < _BELOW * enclosing:
                        queue_d, queue_n = grown(queue_d), grown(queue_n)
                    size = 0
                    for i in range(enclosing):
                        size = _push_below(
                            px, py, around[i], child_offsets, box, tree_box, top, limit2, True,
                            queue_d, queue_n, size,
                        )  # fmt: skip
                if size == 0 or queue_d[0] > limit2:
                    break
                node = queue_n[0]
                size = pop(queue_d, queue_n, size)
                cells += 1
                if node >= 0:
                    if len(queue_d) < size + _BELOW:
                        queue_d, queue_n = grown(queue_d), grown(queue_n)
                    size = _push_below(
                        px, py, node, child_offsets, box, tree_box, top, limit2, False,
                        queue_d, queue_n, size,
                    )  # fmt: skip
                    continue
                node = -1 - node
            # the cell's own segments: down the sheaves to the bundles that can be near enough
            stack_n[0], stack_h[0] = top[node], height[node]
            waiting = 1
            while waiting > 0:
                waiting -= 1
                n, h = stack_n[waiting], stack_h[waiting]
                if h > 0:
                    near = near_members(
                        rough_x, rough_y, sheaves, strips, n, rough_limit2, worst_rank
                    )
                    member = sheaves[n, MEMBER, 0]
                    # all are written, those that are near stay: a branch would be guessed wrong
                    for place in range(SIZE):
                        stack_n[waiting], stack_h[waiting] = member + place, h - 1
                        waiting += (near >> place) & 1
                    continue
                distances += SIZE
                near = near_segments(rough_x, rough_y, rough, n, rough_limit2)
                if near == 0:
                    continue
                for r in range(row[n], row[n + 1]):
                    is_near = near & 1
                    near >>= 1
                    if is_near == 0 or skipped[owner[r]] == q or rank[owner[r]] > worst_rank:
                        continue
                    d2 = squared_distance(px, py, ends[r, 0], ends[r, 1], ends[r, 2], ends[r, 3])
                    if d2 > limit2:
                        continue
                    held = offer(
                        best_t, best_p, best_d, listed, slot, rank,
                        q, held, owner[r], position[r], to_mm(d2),
                    )  # fmt: skip
                limit2 = limit_of(best_d, held)
                rough_limit2 = rough_limit(limit2, quantum)
                worst_rank = _worst_rank(best_t, best_d, held, rank)
        out_held[q - first] = held
    return out_t, out_p, out_d, out_held, distances, cells


@njit(cache=True)
def _worst_rank(best_t, best_d, held, rank):  # type: ignore[no-untyped-def]
    """The rank that a trajectory must not be behind, if the list is full of losses 0."""
    if held < len(best_d) or best_d[0] > 0:
        return np.int32(NO_RANK)
    return np.int32(rank[best_t[0]])


@njit(cache=True)
def _distance2(px, py, box, i):  # type: ignore[no-untyped-def]
    return box_squared_distance(px, py, box[i, 0], box[i, 1], box[i, 2], box[i, 3])


@njit(cache=True)
def _enclosing(px, py, child_offsets, tree_box, around):  # type: ignore[no-untyped-def]
    """The cells whose subtrees' boxes hold the point, coarse before fine; how many there are."""
    around[0] = 0
    found, i = 1, 0
    while i < found:
        if len(around) < found + _BELOW:
            around = grown(around)
        for c in range(child_offsets[around[i], 0], child_offsets[around[i], 1]):
            if _distance2(px, py, tree_box, c) == 0.0:
                around[found] = c
                found += 1
        i += 1
    return found, around


@njit(cache=True)
def _push_below(  # type: ignore[no-untyped-def]
    px, py, node, child_offsets, box, tree_box, top, limit2, beside, queue_d, queue_n, size
):
    """Queue a cell's own segments and its children; `beside`: only what the point is not in."""
    if top[node] >= 0:
        d2 = _distance2(px, py, box, node)
        if d2 <= limit2 and (d2 > 0.0 or not beside):
            size = push(queue_d, queue_n, size, d2, -1 - node)
    for c in range(child_offsets[node, 0], child_offsets[node, 1]):
        d2 = _distance2(px, py, tree_box, c)
        if d2 <= limit2 and (d2 > 0.0 or not beside):
            size = push(queue_d, queue_n, size, d2, c)
    return size
