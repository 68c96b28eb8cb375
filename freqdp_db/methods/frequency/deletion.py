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
from freqdp_db.model.arrays import Ids, Ints, offsets_from, offsets_of, owners
from freqdp_db.model.kernels import find
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
def _find_occurrences(first, last, offsets, location, x, y, pair_offsets, pair_place):  # type: ignore[no-untyped-def]
    """Every occurrence of some places, which are pairs of a trajectory and a place: the pair, the
    position in the trajectory, and the loss."""
    size = offsets[last] - offsets[first]
    pair_of, position = np.empty(size, np.int64), np.empty(size, np.int32)
    loss = np.empty(size, np.int64)
    k = 0
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        begin = hi if pair_offsets[t] == pair_offsets[t + 1] else lo
        while begin < hi:
            end = begin + 1
            while end < hi and location[end] == location[begin]:
                end += 1
            pair = find(pair_place, pair_offsets[t], pair_offsets[t + 1], location[begin])
            if pair >= 0:
                of_each = _stay_loss(lo, hi, begin, end, location, x, y)
                for i in range(begin, end):
                    pair_of[k], position[k], loss[k] = pair, i - lo, of_each
                    k += 1
            begin = end
    return pair_of[:k], position[:k], loss[:k]


def _cheapest(first: int, last: int, count: Ids, *samples: Any) -> tuple[Ids, Ints]:
    """The `count` cheapest occurrences of each pair; ties go to the first position."""
    pair, position, loss = _find_occurrences(first, last, *samples)
    kept = cheapest_of_each(pair, loss, position, count)
    kept = kept[np.argsort(pair[kept], kind="stable")]
    return position[kept], loss[kept]


def _delete(partition: Partition, trajectory: Ids, location: Ids, count: Ids) -> Thinned:
    """Delete the `count` cheapest occurrences of each location in its trajectory."""
    trajectories, places = partition.trajectories, partition.places
    parts = map_ranges(
        _cheapest, trajectories.offsets, count, trajectories.offsets, trajectories.location,
        places.x, places.y, offsets_of(trajectory, len(trajectories)), location,
    )  # fmt: skip
    runs = EditRuns("d", trajectory, location, offsets_from(count), *joined(parts))
    return delete(partition, runs)


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
    falls = np.zeros(len(places), np.bool_)
    falls[: len(fall)] = fall > 0
    pair = np.flatnonzero(falls[frequencies.location])
    owner, location = owners(frequencies.offsets)[pair], frequencies.location[pair]
    parts = map_ranges(
        _find_candidates, trajectories.offsets, (owner, location, fall, rank),
        trajectories.offsets, trajectories.location, places.x, places.y,
        offsets_of(owner, len(trajectories)), location,
    )  # fmt: skip
    kept, loss = joined(parts)
    pf = frequencies.pf[pair[kept]]
    return DeletionCandidates(owner[kept] + np.int32(partition.first), location[kept], pf, loss)


def _find_candidates(
    first: int, last: int, pairs: tuple[Ids, Ids, Ints, Ints], *samples: Any
) -> tuple[Ints, Ints]:
    """Of the pairs in a range of trajectories the cheapest of each place, and their total losses."""
    owner, location, fall, rank = pairs
    begin, end = np.searchsorted(owner, [first, last])
    pair, _, loss = _find_occurrences(first, last, *samples)
    total = np.zeros(end - begin, np.int64)
    np.add.at(total, pair - begin, loss)
    kept = cheapest_of_each(location[begin:end], total, rank[owner[begin:end]], fall)
    return begin + kept, total[kept]


def _delete_all_occurrences(partition: Partition, chosen: DeletionCandidates) -> Thinned:
    return _delete(partition, chosen.trajectory, chosen.location, chosen.pf)
