"""Insertions: which segments take a new occurrence of a place.

The loss is the distance from the place to the segment, on the trajectories after the deletions. A sample at
the same instant as its neighbour, or too soon after it, could be recognized as inserted; samples are
therefore inserted into segments that have time for them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numba import njit

from freqdp_db.engines.partitions import Partitions
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.methods.frequency.applying import (
    Edited,
    Thinned,
    cheapest_of_each,
    detour,
    finish,
    free_of,
    own_gaps,
    split,
)
from freqdp_db.methods.frequency.counts import count_frequencies
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.model.arrays import Ids, Ints, offsets_from, offsets_of, owners, within
from freqdp_db.model.kernels import stable_order
from freqdp_db.model.trajectories import (
    Clock,
    EditRuns,
    Locations,
    PfTargets,
    TfTargets,
    Trajectories,
)
from freqdp_db.search.nearest import (
    Nearest,
    Queries,
    index_segments,
    nearest_trajectories,
    squared_distance,
    to_mm,
)

# Room for the insertions of the global step: a segment with a free time step, near the nearest one.


_NEARBY_MM = 500_000
"""How much farther than the nearest segment one with a free time step may be."""
_ANYWHERE_MM = 1 << 62


@njit(nogil=True, cache=True)
def _find_room(  # type: ignore[no-untyped-def]
    first, last, offsets, location, at, kept, x, y, step, gap, edit_offsets, place, position, loss
):
    """Replace segments without a free time step by the nearest one that has one: positions and losses."""
    begin = edit_offsets[first]
    position = position[begin : edit_offsets[last]].copy()
    loss = loss[begin : edit_offsets[last]].copy()
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        if edit_offsets[t] == edit_offsets[t + 1] or hi - lo < 2:
            continue
        free = free_of(at, lo, hi, step)
        for e in range(edit_offsets[t], edit_offsets[t + 1]):
            px, py = x[place[e]], y[place[e]]
            here = np.searchsorted(kept[lo:hi], position[e - begin])
            if free[here] <= 0:
                own = own_gaps(at, lo, hi, gap)
                nearby = own[len(own) // 2] < 2 * step
                best = loss[e - begin] + _NEARBY_MM + 1 if nearby else _ANYWHERE_MM
                for i in range(hi - lo - 1):
                    if free[i] > 0:
                        a, b = location[lo + i], location[lo + i + 1]
                        cost = to_mm(squared_distance(px, py, x[a], y[a], x[b], y[b]))
                        if cost < best:
                            best, here = cost, i
                if free[here] > 0:
                    position[e - begin], loss[e - begin] = kept[lo + here], best
            free[here] -= 1
    return position, loss


PAPER_SPREAD_MM = -1
"""Value of `--spread paper`: the K nearest segments at any distance."""
_MAX_SPREAD_FACTOR = 4
"""Factor by which the spread may be exceeded if segments within it have no free time step."""


@njit(nogil=True, cache=True)
def _choose_segments(  # type: ignore[no-untyped-def]
    first, last, offsets, location, at, kept, x, y, step, gap, spread_mm,
    run_offsets, run_place, slots,
):  # fmt: skip
    """Choose segments for the insertions of every run (Alg. 3): positions and losses."""
    begin = slots[run_offsets[first]]
    size = slots[run_offsets[last]] - begin
    position, loss = np.empty(size, np.int32), np.empty(size, np.int64)
    for t in range(first, last):
        r0, r1 = run_offsets[t], run_offsets[t + 1]
        if r0 == r1:
            continue
        lo, hi = offsets[t], offsets[t + 1]
        if hi == lo:
            for k in range(slots[r0] - begin, slots[r1] - begin):
                position[k], loss[k] = -1, 0
            continue
        segments = max(hi - lo - 1, 1)
        free = free_of(at, lo, hi, step)
        taken = np.zeros(segments, np.int64)
        own = own_gaps(at, lo, hi, gap)
        usual = own[len(own) // 2]
        cost, length = np.empty(segments, np.int64), np.empty(segments, np.int64)
        room = free.copy()
        for run in range(r0, r1):
            px, py = x[run_place[run]], y[run_place[run]]
            for i in range(segments):
                a, b = location[lo + i], location[lo + min(i + 1, hi - lo - 1)]
                cost[i] = to_mm(squared_distance(px, py, x[a], y[a], x[b], y[b]))
            wanted = slots[run + 1] - slots[run]
            # if usual gaps have no free step, the few long ones would get all insertions
            nearby = usual < 2 * step
            chosen = _nearest_segments(cost, free, taken, spread_mm, nearby, wanted)
            for i in chosen:
                j = min(i + 1, hi - lo - 1)
                a, b = location[lo + i], location[lo + j]
                length[i] = at[lo + j] - at[lo + i] - detour(px, py, x[a], y[a], x[b], y[b])
                if spread_mm >= 0:
                    room[i] = min(free[i], length[i] // usual - 1)
            times = _share_out(chosen, cost, length, room, free, taken, wanted)
            k = slots[run] - begin
            for i in range(segments):
                taken[i] += times[i]
                for _ in range(times[i]):
                    position[k] = kept[lo + i]
                    loss[k] = cost[i]
                    k += 1
    return position, loss


@njit(cache=True)
def _nearest_segments(cost, free, taken, spread_mm, nearby, wanted):  # type: ignore[no-untyped-def]
    """Segments in order of (loss, position): all within the spread, at least the nearest.

    More segments follow if these have too few free time steps; with `nearby`, only up to _MAX_SPREAD_FACTOR
    times the distance. A spread below 0 means all segments.
    """
    if spread_mm < 0:
        return stable_order(cost)
    reach = cost[0]
    for i in range(len(cost)):
        reach = min(reach, cost[i])
    reach = max(reach, spread_mm)
    found = np.empty(len(cost), np.int64)
    near = steps = 0
    for i in range(len(cost)):
        if cost[i] <= reach:
            found[near] = i
            near += 1
            steps += max(free[i] - taken[i], 0)
    if steps >= wanted:
        # sort only these, which are few
        order = stable_order(cost[found[:near]])
        for j in range(near):
            order[j] = found[order[j]]
        return order
    order = stable_order(cost)
    while near < len(order) and steps < wanted:
        if nearby and cost[order[near]] > _MAX_SPREAD_FACTOR * reach:
            break
        steps += max(free[order[near]] - taken[order[near]], 0)
        near += 1
    return order[:near]


@njit(cache=True)
def _share_out(chosen, cost, length, room, free, taken, wanted):  # type: ignore[no-untyped-def]
    """Number of samples to insert into each segment.

    Rounds over the chosen segments, nearest first, as long as they have room. Remaining samples go one by
    one into the segment where samples are farthest apart in time.
    """
    times = np.zeros(len(length), np.int64)
    left, going = wanted, True
    while left > 0 and going:
        going = False
        for i in chosen:
            if left > 0 and taken[i] + times[i] < room[i]:
                times[i] += 1
                left -= 1
                going = True
    if left == 0:
        return times
    heap = [_crowding(i, cost, length, free, taken[i] + times[i]) for i in chosen]
    heapq.heapify(heap)
    for _ in range(left):
        i = heap[0][-1]
        times[i] += 1
        heapq.heapreplace(heap, _crowding(i, cost, length, free, taken[i] + times[i]))
    return times


@njit(cache=True)
def _crowding(i, cost, length, free, there):  # type: ignore[no-untyped-def]
    """Sort key of a segment that has `there` inserted samples: least crowded first, without a free step
    last."""
    full = there >= free[i]
    # if the way takes longer than the time there is, each further sample adds to the shortage
    apart = length[i] // (there + 2) if length[i] > 0 else length[i] * (there + 2)
    return full, there if full else -apart, cost[i], i


# Intra-trajectory


def insert_locally(
    thinned: Partitions[Thinned],
    targets: PfTargets,
    spread_mm: int,
    clock: Clock,
    key: np.uint64,
) -> Partitions[Edited]:
    """Intra-trajectory: each place whose PF must grow goes to the nearest segments (Alg. 3).

    key: determines the times of inserted samples.
    """
    return thinned.map(_insert_growing, split(targets, thinned.ranges), spread_mm, clock, key)


def _insert_growing(
    thinned: Thinned, targets: PfTargets, spread_mm: int, clock: Clock, key: np.uint64
) -> Edited:
    growing = np.flatnonzero(targets.target > targets.pf)
    order = growing[np.lexsort((targets.location[growing], targets.trajectory[growing]))]
    trajectory, location = targets.trajectory[order], targets.location[order]
    slots = offsets_from(targets.target[order].astype(np.int64) - targets.pf[order])
    left, places = thinned.partition.trajectories, thinned.partition.places
    parts = map_ranges(
        _choose_segments, left.offsets, left.offsets, left.location, left.at, thinned.position,
        places.x, places.y, clock.step_us, clock.median_gap_us, spread_mm,
        offsets_of(trajectory, len(left)), location, slots,
    )  # fmt: skip
    insertions = EditRuns("i", trajectory, location, slots, *joined(parts))
    return finish(thinned, insertions, clock, key)


# Inter-trajectory


class Search(Protocol):
    """Finds the K nearest trajectories of every query, except those that the query skips."""

    def __call__(
        self, trajectories: Trajectories, locations: Locations, rank: Ints, queries: Queries
    ) -> Nearest: ...


def search_in_memory(
    trajectories: Trajectories, locations: Locations, rank: Ints, queries: Queries
) -> Nearest:
    """Search one index of all segments."""
    return nearest_trajectories(index_segments(trajectories, locations, rank), queries)


@dataclass(frozen=True)
class InsertionCandidates:
    """Trajectories into which a place may be inserted."""

    query: Ids
    """Number of the place among those whose TF must grow."""
    trajectory: Ids
    position: Ids
    """The sample of the mechanism's input after which the place would be inserted."""
    loss_mm: Ints
    empty: Ids
    """Trajectories without samples. They are used only if there are too few others."""


def insert_globally(
    thinned: Partitions[Thinned],
    targets: TfTargets,
    rank: Ints,
    clock: Clock,
    key: np.uint64,
    search: Search = search_in_memory,
) -> Partitions[Edited]:
    """Inter-trajectory: one occurrence into each of the K nearest trajectories that lack the place.

    One search per candidate, over the segments of all trajectories. rank: the order of the
    trajectories' released ids, for ties. key: determines the times of inserted samples.
    """
    own_rank = split(rank, thinned.ranges)
    # the nearest trajectories of all are among the nearest of each partition
    each = thinned.map(find_insertion_candidates, targets, own_rank, search)
    found = InsertionCandidates(*joined([list(vars(part).values()) for part in each]))
    insertions = _insert_into_nearest(found, targets, rank)
    return thinned.map(_insert_with_room, split(insertions, thinned.ranges), clock, key)


def growth(targets: TfTargets) -> tuple[Ids, Ints]:
    """Places whose TF must grow, and the number of trajectories that each must gain."""
    growing = np.flatnonzero(targets.target > targets.tf)
    more = (targets.target[growing] - targets.tf[growing]).astype(np.int64)
    return targets.location[growing], more


def growing_places(left: Partition, targets: TfTargets) -> Queries:
    """A query for each place whose TF must grow: the K nearest trajectories that do not contain it."""
    place, more = growth(targets)
    frequencies = count_frequencies(left.trajectories, len(left.places))
    query_of = np.full(len(left.places), -1, np.int64)
    query_of[place] = np.arange(len(place))
    owner = owners(frequencies.offsets)
    query = query_of[frequencies.location]
    pairs = np.flatnonzero(query >= 0)
    pairs = pairs[np.argsort(query[pairs], kind="stable")]
    return Queries(
        left.places.x[place],
        left.places.y[place],
        more,
        offsets_of(query[pairs], len(place)),
        owner[pairs],
    )


def find_insertion_candidates(
    thinned: Thinned, targets: TfTargets, rank: Ints, search: Search
) -> InsertionCandidates:
    """The K nearest trajectories of a partition, or all, for each place whose TF must grow."""
    left = thinned.partition
    found = search(left.trajectories, left.places, rank, growing_places(left, targets))
    hit = found.position >= 0
    trajectory = found.trajectory[hit]
    begin = left.trajectories.offsets[trajectory]
    empty = np.flatnonzero(left.trajectories.lengths == 0).astype(np.int32)
    return InsertionCandidates(
        owners(found.offsets)[hit],
        trajectory + np.int32(left.first),
        thinned.position[begin + found.position[hit]],
        found.loss_mm[hit],
        empty + np.int32(left.first),
    )


def _insert_into_nearest(found: InsertionCandidates, targets: TfTargets, rank: Ints) -> EditRuns:
    """Insert each place into its K nearest trajectories, and into empty ones if there are fewer."""
    places, more = growth(targets)
    near = cheapest_of_each(found.query, found.loss_mm, rank[found.trajectory], more)
    query, trajectory = found.query[near], found.trajectory[near]
    lacking = more - np.bincount(query, minlength=len(places))
    empty = found.empty[np.argsort(rank[found.empty], kind="stable")]
    begin = offsets_from(lacking)
    trajectory = np.concatenate([trajectory, empty[within(begin)]])
    place = places[np.concatenate([query, owners(begin)])]
    nowhere = np.zeros(begin[-1], np.int32)
    position = np.concatenate([found.position[near], nowhere - 1])
    loss = np.concatenate([found.loss_mm[near], nowhere])
    order = np.lexsort((place, trajectory))
    each = np.arange(len(order) + 1, dtype=np.int64)
    return EditRuns("i", trajectory[order], place[order], each, position[order], loss[order])


def _insert_with_room(
    thinned: Thinned, insertions: EditRuns, clock: Clock, key: np.uint64
) -> Edited:
    """Insert places, one for each run, into segments that have time for them."""
    left, places = thinned.partition.trajectories, thinned.partition.places
    parts = map_ranges(
        _find_room, left.offsets, left.offsets, left.location, left.at, thinned.position,
        places.x, places.y, clock.step_us, clock.median_gap_us,
        insertions.by_trajectory(len(left)), insertions.location, insertions.position,
        insertions.loss_mm,
    )  # fmt: skip
    position, loss = joined(parts)
    return finish(thinned, replace(insertions, position=position, loss_mm=loss), clock, key)
