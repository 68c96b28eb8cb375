"""K-nearest trajectories of a place: best first over the grid, with a bounded best list.

For each query place q and K: the K trajectories that do not contain q with the smallest loss, ties
by the trajectories' rank, each with its nearest segment, ties by position (paper, Def. "K-Nearest
Trajectory Search"; DESIGN: bounds prune at loss + 1 mm).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.search.best import (
    ANYWHERE,
    Nearest,
    Queries,
    empty_lists,
    limit_of,
    mark,
    offer,
    search,
    sort_list,
    unmarked,
)
from freqdp_db.search.bundles import (
    MEMBER,
    NO_RANK,
    SIZE,
    Bundles,
    in_quanta,
    near_members,
    near_segments,
    rough_limit,
    tie_bundles,
)
from freqdp_db.search.distance import box_squared_distance, squared_distance, to_mm
from freqdp_db.search.filing import Filed, file_trajectories
from freqdp_db.search.grid import Grid
from freqdp_db.search.visits import ROOM, grown, pop, push

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
    bundles = tie_bundles(filed, rank[owner])
    position = filed.segments.position[filed.row]
    return SegmentIndex(filed.grid, bundles, filed.ends, owner, position, rank)


def nearest_trajectories(index: SegmentIndex, queries: Queries) -> Nearest:
    """Answer all queries."""
    grid, bundles = index.grid, index.bundles
    arrays = (
        grid.child_offsets, grid.box, grid.tree_box, bundles.top, bundles.height, tuple(bundles.lattice),
        bundles.box, bundles.row, bundles.ends,
        index.ends, index.owner, index.position,
    )  # fmt: skip
    return search(_nearest_range, arrays, queries, index.rank)


@njit(nogil=True, cache=True)
def _nearest_range(  # type: ignore[no-untyped-def]
    first, last, asked, child_offsets, box, tree_box, top, height, lattice,
    sheaves, row, rough, ends, owner, position,
):  # fmt: skip
    x, y, offsets, skip_offsets, skip, rank = asked
    out_t, out_p, out_d = empty_lists(offsets[last] - offsets[first])
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
        begin_q, end_q = offsets[q] - offsets[first], offsets[q + 1] - offsets[first]
        best_t, best_p = out_t[begin_q:end_q], out_p[begin_q:end_q]
        best_d = out_d[begin_q:end_q]
        px, py = x[q], y[q]
        held, limit2, worst_rank = 0, ANYWHERE, np.int32(NO_RANK)
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
                if limit2 < ANYWHERE and best_d[0] == 0:
                    worst_rank = np.int32(rank[best_t[0]])
        sort_list(best_t, best_p, best_d, slot, rank, held)
    return out_t, out_p, out_d, distances, cells


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
