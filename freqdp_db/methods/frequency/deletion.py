"""Deletions: which occurrences of a place are removed.

The loss of deleting an occurrence of q is the distance from q to the segment that joins the outer
neighbours of its run of equal consecutive samples; at an end of the trajectory, to the one
neighbour; if there is none, 0. (The paper computes it sample by sample. Deleting a stay would then cost
nothing, because the neighbours of its inner samples are at q, too.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit

from freqdp_db.engines.partitions import Partitions
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.methods.frequency.applying import Thinned, cheapest_of_each, delete, split
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.model.arrays import Ids, Ints, offsets_from, offsets_of
from freqdp_db.model.kernels import find, stable_order
from freqdp_db.model.trajectories import EditRuns, PfTargets, TfTargets
from freqdp_db.search.nearest import squared_distance, to_mm


@njit(cache=True)
def _stay_loss(lo, hi, begin, end, location, x, y):  # type: ignore[no-untyped-def]
    """Loss, in millimetres, of each sample of the stay begin .. end - 1 in the trajectory lo .. hi - 1."""
    px, py = x[location[begin]], y[location[begin]]
    if begin > lo and end < hi:
        a, b = location[begin - 1], location[end]
    elif begin > lo:
        a = b = location[begin - 1]
    elif end < hi:
        a = b = location[end]
    else:
        return np.int64(0)
    return to_mm(squared_distance(px, py, x[a], y[a], x[b], y[b]))


@njit(nogil=True, cache=True)
def _sum_losses(first, last, offsets, location, x, y, pair_offsets, pair_place, wanted):  # type: ignore[no-untyped-def]
    """The pairs of trajectory and wanted location: pair, trajectory, and total loss of all its
    occurrences."""
    begin_pair = pair_offsets[first]
    total = np.zeros(pair_offsets[last] - begin_pair, np.int64)
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        begin = lo
        while begin < hi:
            place = location[begin]
            end = begin + 1
            while end < hi and location[end] == place:
                end += 1
            if wanted[place]:
                pair = find(pair_place, pair_offsets[t], pair_offsets[t + 1], place)
                loss = _stay_loss(lo, hi, begin, end, location, x, y)
                total[pair - begin_pair] += loss * (end - begin)
            begin = end
    count = 0
    for i in range(len(total)):
        count += wanted[pair_place[begin_pair + i]]
    pair_of, owner = np.empty(count, np.int64), np.empty(count, np.int32)
    loss_of = np.empty(count, np.int64)
    count = 0
    for t in range(first, last):
        for i in range(pair_offsets[t], pair_offsets[t + 1]):
            if wanted[pair_place[i]]:
                pair_of[count], owner[count], loss_of[count] = i, t, total[i - begin_pair]
                count += 1
    return pair_of, owner, loss_of


@njit(nogil=True, cache=True)
def _cheapest(  # type: ignore[no-untyped-def]
    first, last, offsets, location, x, y, run_offsets, run_place, slots
):
    """The cheapest occurrences of each run, as many as it has slots; ties go to the first position."""
    begin_slot = slots[run_offsets[first]]
    size = slots[run_offsets[last]] - begin_slot
    position, loss = np.empty(size, np.int32), np.empty(size, np.int64)
    for t in range(first, last):
        r0, r1 = run_offsets[t], run_offsets[t + 1]
        if r0 == r1:
            continue
        lo, hi = offsets[t], offsets[t + 1]
        # occurrences of all runs of this trajectory, in order of position
        which = np.empty(hi - lo, np.int64)
        where = np.empty(hi - lo, np.int64)
        cost = np.empty(hi - lo, np.int64)
        n = 0
        begin = lo
        while begin < hi:
            end = begin + 1
            while end < hi and location[end] == location[begin]:
                end += 1
            run = find(run_place, r0, r1, location[begin])
            if run >= 0:
                price = _stay_loss(lo, hi, begin, end, location, x, y)
                for i in range(begin, end):
                    which[n], where[n], cost[n] = run, i - lo, price
                    n += 1
            begin = end
        by_run = stable_order(which[:n])
        i = 0
        while i < n:
            run = which[by_run[i]]
            j = i
            while j < n and which[by_run[j]] == run:
                j += 1
            # mark the cheapest, then write them in the order of their positions
            price_of = np.empty(j - i, np.int64)
            for s in range(j - i):
                price_of[s] = cost[by_run[i + s]]
            cheapest = stable_order(price_of)
            taken = slots[run + 1] - slots[run]
            go = np.zeros(j - i, np.bool_)
            for s in range(taken):
                go[cheapest[s]] = True
            k = slots[run] - begin_slot
            for s in range(j - i):
                if go[s]:
                    position[k] = where[by_run[i + s]]
                    loss[k] = price_of[s]
                    k += 1
            i = j
    return position, loss


def _delete(partition: Partition, trajectory: Ids, location: Ids, count: Ids) -> Thinned:
    """Delete the `count` cheapest occurrences of each location in its trajectory."""
    trajectories, places = partition.trajectories, partition.places
    slots = offsets_from(count)
    parts = map_ranges(
        _cheapest, trajectories.offsets, trajectories.offsets, trajectories.location,
        places.x, places.y, offsets_of(trajectory, len(trajectories)), location, slots,
    )  # fmt: skip
    return delete(partition, EditRuns("d", trajectory, location, slots, *joined(parts)))


# Intra-trajectory


def delete_locally(partitions: Partitions[Partition], targets: PfTargets) -> Partitions[Thinned]:
    """Intra-trajectory: the |delta| cheapest occurrences of each place whose PF must fall."""
    return partitions.map(_delete_falling, split(targets, partitions.ranges))


def _delete_falling(partition: Partition, targets: PfTargets) -> Thinned:
    falling = np.flatnonzero(targets.target < targets.pf)
    order = falling[np.lexsort((targets.location[falling], targets.trajectory[falling]))]
    count = targets.pf[order] - targets.target[order]
    return _delete(partition, targets.trajectory[order], targets.location[order], count)


# Inter-trajectory


@dataclass(frozen=True)
class DeletionCandidates:
    """Trajectories that may lose all occurrences of a place, in order of (trajectory, location)."""

    trajectory: Ids
    location: Ids
    pf: Ids
    loss_mm: Ints
    """Total loss of all occurrences."""

    def take(self, chosen: Ints) -> DeletionCandidates:
        return DeletionCandidates(*(column[chosen] for column in vars(self).values()))

    def between(self, first: int, last: int) -> DeletionCandidates:
        """The candidates in a range of trajectories, which are then numbered from its first."""
        own = self.take(np.arange(*np.searchsorted(self.trajectory, [first, last])))
        return replace(own, trajectory=own.trajectory - np.int32(first))


def delete_globally(
    partitions: Partitions[Partition], targets: TfTargets, rank: Ints
) -> Partitions[Thinned]:
    """Inter-trajectory: every occurrence from the |delta| trajectories with the least total loss.

    rank: the order of the trajectories' released ids, for ties.
    """
    fall, own_rank = _fall(targets), split(rank, partitions.ranges)
    # the cheapest trajectories of all are among the cheapest of each partition
    each = partitions.map(find_deletion_candidates, fall, own_rank)
    found = DeletionCandidates(*joined([list(vars(part).values()) for part in each]))
    chosen = cheapest_of_each(found.location, found.loss_mm, rank[found.trajectory], fall)
    return partitions.map(_delete_all_occurrences, split(found.take(chosen), partitions.ranges))


def _fall(targets: TfTargets) -> Ints:
    """[place]: number of trajectories that must lose it. The array ends with the last target's place."""
    fall = np.zeros(targets.location.max(initial=-1) + 1, np.int64)
    fall[targets.location] = np.maximum(targets.tf.astype(np.int64) - targets.target, 0)
    return fall


def find_deletion_candidates(partition: Partition, fall: Ints, rank: Ints) -> DeletionCandidates:
    """The cheapest trajectories of a partition for each place whose TF must fall."""
    trajectories, places, frequencies = (
        partition.trajectories, partition.places, partition.frequencies,
    )  # fmt: skip
    wanted = np.zeros(len(places), np.bool_)
    wanted[: len(fall)] = fall > 0
    parts = map_ranges(
        _candidates_of_range, trajectories.offsets, (frequencies.location, fall, rank),
        trajectories.offsets, trajectories.location, places.x, places.y,
        frequencies.offsets, frequencies.location, wanted,
    )  # fmt: skip
    pair, owner, loss = joined(parts)
    return DeletionCandidates(
        owner + np.int32(partition.first), frequencies.location[pair], frequencies.pf[pair], loss
    )


def _candidates_of_range(
    first: int, last: int, places: tuple[Ids, Ints, Ints], *samples: Any
) -> tuple[Ints, Ids, Ints]:
    pair, owner, loss = _sum_losses(first, last, *samples)
    location, fall, rank = places
    kept = cheapest_of_each(location[pair], loss, rank[owner], fall)
    return pair[kept], owner[kept], loss[kept]


def _delete_all_occurrences(partition: Partition, chosen: DeletionCandidates) -> Thinned:
    return _delete(partition, chosen.trajectory, chosen.location, chosen.pf)
