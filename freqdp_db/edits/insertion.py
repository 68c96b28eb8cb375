"""Insertions: which segments take a new occurrence of a place.

The loss is the distance from the place to the segment, on the trajectories as the deletions left
them. Whoever shares an instant with a neighbour, or comes too soon after one, is known for an
insertion: so samples go where there is time for them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import EditRuns, PfTargets, TfTargets
from freqdp_db.columns.ragged import offsets_from, offsets_of, owners, within
from freqdp_db.columns.sorting import stable_order
from freqdp_db.columns.trajectories import Clock, Locations, Trajectories
from freqdp_db.edits.applying import Thinned
from freqdp_db.edits.room import find_room
from freqdp_db.edits.timing import detour, free_of, own_gaps
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.frequency.counts import count_frequencies
from freqdp_db.search.best import Nearest, Queries
from freqdp_db.search.distance import squared_distance, to_mm
from freqdp_db.search.nearest import index_segments, nearest_trajectories

PAPER_SPREAD_MM = -1
"""Stands for `--spread paper`: the K nearest segments, however far."""
_FARTHER = 4
"""So many times the spread, where segments within it have no free time step left."""


@njit(nogil=True, cache=True)
def _spread_out(  # type: ignore[no-untyped-def]
    first, last, offsets, location, at, kept, x, y, step, gap, spread_mm,
    run_offsets, run_place, slots,
):  # fmt: skip
    """Choose the segments for every run of each trajectory."""
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
                j = min(i + 1, hi - lo - 1)
                a, b = location[lo + i], location[lo + j]
                cost[i] = to_mm(squared_distance(px, py, x[a], y[a], x[b], y[b]))
                length[i] = at[lo + j] - at[lo + i] - detour(px, py, x[a], y[a], x[b], y[b])
                if spread_mm >= 0:
                    room[i] = min(free[i], length[i] // usual - 1)
            wanted = slots[run + 1] - slots[run]
            # where even a usual gap has no free step, all would go into the few long ones
            nearby = usual < 2 * step
            chosen = _within(cost, free, taken, spread_mm, nearby, wanted)
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
def _within(cost, free, taken, spread_mm, nearby, wanted):  # type: ignore[no-untyped-def]
    """Segments in order of (loss, position): those within the spread, at least the nearest ones.

    If these have too few free time steps, the next ones; nearby: not much farther. Paper: all.
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
        # those in question, before they are sorted: it is few of them
        order = stable_order(cost[found[:near]])
        for j in range(near):
            order[j] = found[order[j]]
        return order
    order = stable_order(cost)
    while near < len(order) and steps < wanted:
        if nearby and cost[order[near]] > _FARTHER * reach:
            break
        steps += max(free[order[near]] - taken[order[near]], 0)
        near += 1
    return order[:near]


@njit(cache=True)
def _share_out(chosen, cost, length, room, free, taken, wanted):  # type: ignore[no-untyped-def]
    """How many samples each segment takes.

    Rounds over the chosen segments, nearest first, as long as they have room. What is left goes,
    one by one, where samples stay farthest apart in time.
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
    """How crowded a segment is where so many samples are: those without a free step come last."""
    full = there >= free[i]
    # where the way takes longer than there is time, every further sample lacks as much again
    apart = length[i] // (there + 2) if length[i] > 0 else length[i] * (there + 2)
    return full, there if full else -apart, cost[i], i


def insert_locally(
    thinned: Thinned, locations: Locations, targets: PfTargets, clock: Clock, spread_mm: int
) -> EditRuns:
    """Intra-trajectory: each place whose PF must grow goes to the nearest segments (Alg. 3)."""
    growing = np.flatnonzero(targets.target > targets.pf)
    order = growing[np.lexsort((targets.location[growing], targets.trajectory[growing]))]
    slots = offsets_from(targets.target[order].astype(np.int64) - targets.pf[order])
    state = thinned.trajectories
    parts = map_ranges(
        _spread_out,
        state.offsets,
        state.offsets,
        state.location,
        state.at,
        thinned.position,
        locations.x,
        locations.y,
        clock.step_us,
        clock.median_gap_us,
        spread_mm,
        offsets_of(targets.trajectory[order], len(state)),
        targets.location[order],
        slots,
    )
    position, loss = joined(parts)
    return EditRuns("i", targets.trajectory[order], targets.location[order], slots, position, loss)


def growing_places(
    thinned: Trajectories, locations: Locations, targets: TfTargets
) -> tuple[Ids, Queries]:
    """The places whose TF must grow; and for each: so many trajectories near it that lack it."""
    place, more = growth(targets)
    frequencies = count_frequencies(thinned, len(locations))
    query_of = np.full(len(locations), -1, np.int64)
    query_of[place] = np.arange(len(place))
    owner = owners(frequencies.offsets)
    query = query_of[frequencies.location]
    pairs = np.flatnonzero(query >= 0)
    pairs = pairs[np.argsort(query[pairs], kind="stable")]
    return place, Queries(
        locations.x[place],
        locations.y[place],
        more,
        offsets_of(query[pairs], len(place)),
        owner[pairs],
    )


class Search(Protocol):
    """Finds the K nearest trajectories of every query, without those that it is to skip."""

    def __call__(
        self, trajectories: Trajectories, locations: Locations, rank: Ints, queries: Queries
    ) -> Nearest: ...


def search_in_memory(
    trajectories: Trajectories, locations: Locations, rank: Ints, queries: Queries
) -> Nearest:
    """Over one index of all segments."""
    return nearest_trajectories(index_segments(trajectories, locations, rank), queries)


@dataclass(frozen=True)
class Found:
    """Trajectories that may take a place in, in order of (query, loss, rank)."""

    query: Ids
    trajectory: Ids
    position: Ids
    """The sample of the mechanism's input that the place would follow."""
    loss_mm: Ints
    empty: Ids
    """Trajectories without a sample: nothing is near them, they are the last resort."""


def find_takers(
    thinned: Thinned, locations: Locations, targets: TfTargets, rank: Ints, search: Search
) -> Found:
    """The K nearest trajectories of each place whose TF must grow, fewer if there are none."""
    state = thinned.trajectories
    _, queries = growing_places(state, locations, targets)
    found = search(state, locations, rank, queries)
    hit = found.position >= 0
    trajectory = found.trajectory[hit]
    return Found(
        owners(found.offsets)[hit],
        trajectory,
        thinned.position[state.offsets[trajectory] + found.position[hit]],
        found.loss_mm[hit],
        np.flatnonzero(state.lengths == 0).astype(np.int32),
    )


def growth(targets: TfTargets) -> tuple[Ids, Ints]:
    """The places whose TF must grow, and by how many trajectories."""
    growing = np.flatnonzero(targets.target > targets.tf)
    more = (targets.target[growing] - targets.tf[growing]).astype(np.int64)
    return targets.location[growing], more


def merge_takers(earlier: Found, later: Found, more: Ints, rank: Ints) -> Found:
    """The same of two sets of trajectories: as many of each query as it wants."""
    query, trajectory, position, loss, empty = (
        np.concatenate([getattr(earlier, f.name), getattr(later, f.name)]) for f in fields(Found)
    )
    order = np.lexsort((rank[trajectory], loss, query))
    query = query[order]
    nth = np.arange(len(order)) - np.searchsorted(query, query)
    order = order[nth < more[query]]
    return Found(query[nth < more[query]], trajectory[order], position[order], loss[order], empty)


def insertions_into(found: Found, targets: TfTargets, rank: Ints) -> EditRuns:
    """One occurrence of a place into each of its takers; what lacks one goes to empty ones."""
    places, more = growth(targets)
    lacking = more - np.bincount(found.query, minlength=len(places))
    empty = found.empty[np.argsort(rank[found.empty], kind="stable")]
    begin = offsets_from(lacking)
    trajectory = np.concatenate([found.trajectory, empty[within(begin)]])
    place = places[np.concatenate([found.query, owners(begin)])]
    nowhere = np.zeros(begin[-1], np.int32)
    position = np.concatenate([found.position, nowhere - 1])
    loss = np.concatenate([found.loss_mm, nowhere])
    order = np.lexsort((place, trajectory))
    return EditRuns(
        "i",
        trajectory[order],
        place[order],
        np.arange(len(order) + 1, dtype=np.int64),
        position[order],
        loss[order],
    )


def insert_globally(
    thinned: Thinned,
    locations: Locations,
    targets: TfTargets,
    rank: Ints,
    clock: Clock,
    search: Search = search_in_memory,
) -> EditRuns:
    """Inter-trajectory: one occurrence into each of the K nearest trajectories that lack the place.

    One search per candidate, over the segments of all trajectories.
    """
    takers = find_takers(thinned, locations, targets, rank, search)
    return find_room(thinned, locations, insertions_into(takers, targets, rank), clock)
