"""K-nearest trajectories of a place: best first over the grid, with a bounded best list.

For each query place q and K: the K trajectories that do not contain q with the smallest loss, ties
by the trajectories' rank, each with its nearest segment, ties by position (paper, Def. "K-Nearest
Trajectory Search"; DESIGN: bounds prune at loss + 1 mm).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.model import Ids, Ints, Locations, Metres, Trajectories, offsets_from
from freqdp_db.parallel import over_ranges
from freqdp_db.search.bundles import Bundles, strip_squared_distance, tie_bundles
from freqdp_db.search.distance import box_squared_distance, squared_distance, to_mm
from freqdp_db.search.filing import Filed, file_trajectories


@dataclass(frozen=True)
class SegmentIndex:
    """All segments of a set of trajectories, filed in pieces and bundled."""

    filed: Filed
    bundles: Bundles
    owner: Ids
    position: Ids
    """Trajectory of each row, and where in it the segment begins."""


@dataclass(frozen=True)
class Nearest:
    """Answers, in order of (query, loss, rank). Fewer than K: the other trajectories are empty."""

    offsets: Ints
    trajectory: Ids
    position: Ids
    loss_mm: Ints
    distances: int
    """How many point-segment distances were computed, over all queries."""


def index_segments(trajectories: Trajectories, locations: Locations) -> SegmentIndex:
    """File every distinct segment and tie the bundles."""
    filed = file_trajectories(trajectories, locations, cut=True)
    segments = filed.segments
    return SegmentIndex(
        filed, tie_bundles(filed), segments.trajectory[filed.row], segments.position[filed.row]
    )


def nearest_trajectories(
    index: SegmentIndex,
    query_x: Metres,
    query_y: Metres,
    k: Ints,
    skip_offsets: Ints,
    skip: Ids,
    rank: Ints,
) -> Nearest:
    """Answer all queries. skip: the trajectories that query i must leave out (they contain it)."""
    offsets = offsets_from(k)
    size = int(offsets[-1])
    trajectory = np.full(size, -1, np.int32)
    position = np.full(size, -1, np.int32)
    loss = np.zeros(size, np.int64)
    grid = index.filed.grid
    counts = over_ranges(
        _search_range,
        offsets,
        query_x,
        query_y,
        offsets,
        skip_offsets,
        skip,
        rank,
        grid.segment_offsets,
        grid.child_offsets,
        grid.box,
        grid.tree_box,
        index.bundles.of_cell,
        index.bundles.offsets,
        index.bundles.strip,
        index.filed.ends,
        index.owner,
        index.position,
        trajectory,
        position,
        loss,
    )
    return Nearest(offsets, trajectory, position, loss, sum(counts))


@njit(nogil=True, cache=True)
def _search_range(  # type: ignore[no-untyped-def]
    first, last, query_x, query_y, offsets, skip_offsets, skip, rank,
    segment_offsets, child_offsets, box, tree_box, bundle_of_cell, bundle_offsets, strip,
    ends, owner, begin,
    out_trajectory, out_position, out_loss,
):  # fmt: skip
    trajectories = len(rank)
    skipped = np.full(trajectories, -1, np.int64)  # query that leaves the trajectory out
    listed = np.full(trajectories, -1, np.int64)  # query whose best list holds the trajectory
    slot = np.zeros(trajectories, np.int64)  # where in the list
    queue_d = np.empty(256, np.float64)
    queue_n = np.empty(256, np.int64)
    computed = np.int64(0)
    for q in range(first, last):
        k = offsets[q + 1] - offsets[q]
        if k == 0:
            continue
        for i in range(skip_offsets[q], skip_offsets[q + 1]):
            skipped[skip[i]] = q
        px, py = query_x[q], query_y[q]
        # the best list: a heap with the worst on top, ordered by (loss, rank)
        best_t = out_trajectory[offsets[q] : offsets[q + 1]]
        best_p = out_position[offsets[q] : offsets[q + 1]]
        best_d = out_loss[offsets[q] : offsets[q + 1]]
        held = 0
        limit2 = np.inf
        # Nodes to visit: n for the subtree of cell n, -1 - n for its own segments. Nearest first,
        # and of equally near ones (0 for all cells around q) subtrees before segments and fine
        # cells before coarse: a tight bound is found before the long segments are looked at.
        size = 0
        size, queue_d, queue_n = _push(queue_d, queue_n, size, 0.0, 0)
        while size > 0:
            distance2, node = queue_d[0], queue_n[0]
            size = _pop(queue_d, queue_n, size)
            if distance2 > limit2:
                break
            if node >= 0:
                if segment_offsets[node + 1] > segment_offsets[node]:
                    d2 = box_squared_distance(
                        px, py, box[node, 0], box[node, 1], box[node, 2], box[node, 3]
                    )
                    if d2 <= limit2:
                        size, queue_d, queue_n = _push(queue_d, queue_n, size, d2, -1 - node)
                for c in range(child_offsets[node, 0], child_offsets[node, 1]):
                    d2 = box_squared_distance(
                        px, py, tree_box[c, 0], tree_box[c, 1], tree_box[c, 2], tree_box[c, 3]
                    )
                    if d2 <= limit2:
                        size, queue_d, queue_n = _push(queue_d, queue_n, size, d2, c)
                continue
            cell = -1 - node
            for b in range(bundle_of_cell[cell], bundle_of_cell[cell + 1]):
                if strip_squared_distance(px, py, strip, b) > limit2:
                    continue
                for s in range(bundle_offsets[b], bundle_offsets[b + 1]):
                    t = owner[s]
                    if skipped[t] == q:
                        continue
                    computed += 1
                    d2 = squared_distance(px, py, ends[s, 0], ends[s, 1], ends[s, 2], ends[s, 3])
                    if d2 > limit2:
                        continue
                    loss = to_mm(d2)
                    if listed[t] == q:
                        at = slot[t]
                        if loss < best_d[at] or (loss == best_d[at] and begin[s] < best_p[at]):
                            best_d[at] = loss
                            best_p[at] = begin[s]
                            _sink(best_t, best_p, best_d, slot, rank, held, at)
                    elif held < k:
                        best_t[held], best_p[held], best_d[held] = t, begin[s], loss
                        slot[t] = held
                        listed[t] = q
                        held += 1
                        _rise(best_t, best_p, best_d, slot, rank, held - 1)
                    elif loss < best_d[0] or (loss == best_d[0] and rank[t] < rank[best_t[0]]):
                        listed[best_t[0]] = -1
                        best_t[0], best_p[0], best_d[0] = t, begin[s], loss
                        slot[t] = 0
                        listed[t] = q
                        _sink(best_t, best_p, best_d, slot, rank, held, 0)
                    if held == k:
                        limit = (best_d[0] + 1) / 1000.0
                        limit2 = limit * limit
        _sort_best(best_t, best_p, best_d, slot, rank, held)
    return computed


@njit(cache=True)
def _worse(best_t, best_d, rank, i, j):  # type: ignore[no-untyped-def]
    return best_d[i] > best_d[j] or (best_d[i] == best_d[j] and rank[best_t[i]] > rank[best_t[j]])


@njit(cache=True)
def _swap(best_t, best_p, best_d, slot, i, j):  # type: ignore[no-untyped-def]
    best_t[i], best_t[j] = best_t[j], best_t[i]
    best_p[i], best_p[j] = best_p[j], best_p[i]
    best_d[i], best_d[j] = best_d[j], best_d[i]
    slot[best_t[i]] = i
    slot[best_t[j]] = j


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


@njit(cache=True)
def _sort_best(best_t, best_p, best_d, slot, rank, held):  # type: ignore[no-untyped-def]
    """Heap sort in place: nearest first."""
    for end in range(held - 1, 0, -1):
        _swap(best_t, best_p, best_d, slot, 0, end)
        _sink(best_t, best_p, best_d, slot, rank, end, 0)


@njit(cache=True)
def _before(d_a, n_a, d_b, n_b):  # type: ignore[no-untyped-def]
    """Order of visits: by distance; then subtrees (n >= 0) first; then the finer cell."""
    if d_a != d_b:
        return d_a < d_b
    if (n_a >= 0) != (n_b >= 0):
        return n_a >= 0
    return n_a > n_b if n_a >= 0 else n_a < n_b


@njit(cache=True)
def _push(queue_d, queue_n, size, distance2, node):  # type: ignore[no-untyped-def]
    """Add to the queue (a heap, first to visit on top), growing it when full."""
    if size == len(queue_d):
        queue_d = np.concatenate((queue_d, np.empty_like(queue_d)))
        queue_n = np.concatenate((queue_n, np.empty_like(queue_n)))
    i = size
    while i > 0:
        up = (i - 1) // 2
        if not _before(distance2, node, queue_d[up], queue_n[up]):
            break
        queue_d[i], queue_n[i] = queue_d[up], queue_n[up]
        i = up
    queue_d[i], queue_n[i] = distance2, node
    return size + 1, queue_d, queue_n


@njit(cache=True)
def _pop(queue_d, queue_n, size):  # type: ignore[no-untyped-def]
    """Take the first from the queue; the caller has read it at 0."""
    size -= 1
    distance2, node = queue_d[size], queue_n[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and _before(
            queue_d[child + 1], queue_n[child + 1], queue_d[child], queue_n[child]
        ):
            child += 1
        if not _before(queue_d[child], queue_n[child], distance2, node):
            break
        queue_d[i], queue_n[i] = queue_d[child], queue_n[child]
        i = child
    queue_d[i], queue_n[i] = distance2, node
    return size
