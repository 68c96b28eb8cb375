"""Deletions: which occurrences of a place go.

The loss of deleting an occurrence of q is the distance from q to the segment that joins the outer
neighbours of its run of equal consecutive samples; at an end of the trajectory, to the one
neighbour; if there is none, 0. (Sample by sample, as the paper writes it, a stay would be free to
delete: the neighbours of its inner samples are q itself.)
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import EditRuns, PfTargets, TfTargets
from freqdp_db.columns.ragged import offsets_from, offsets_of
from freqdp_db.columns.sorting import find, stable_order
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.frequency.counts import Frequencies
from freqdp_db.search.distance import squared_distance, to_mm


@njit(cache=True)
def _stay_loss(lo, hi, begin, end, location, x, y):  # type: ignore[no-untyped-def]
    """Loss of any sample of the stay begin .. end - 1 in the trajectory lo .. hi - 1."""
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
    """The wanted pairs (trajectory, location), whose they are, and their occurrences' total loss."""
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
    """For each run: its cheapest occurrences, as many as it has slots; ties by position."""
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
            # the cheapest go; then back into the order of their positions
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


def _fill(
    trajectories: Trajectories,
    locations: Locations,
    trajectory: Ids,
    location: Ids,
    count: Ints,
) -> EditRuns:
    slots = offsets_from(count)
    parts = map_ranges(
        _cheapest,
        trajectories.offsets,
        trajectories.offsets,
        trajectories.location,
        locations.x,
        locations.y,
        offsets_of(trajectory, len(trajectories)),
        location,
        slots,
    )
    position, loss = joined(parts)
    return EditRuns("d", trajectory, location, slots, position, loss)


def delete_locally(
    trajectories: Trajectories, locations: Locations, targets: PfTargets
) -> EditRuns:
    """Intra-trajectory: the |delta| cheapest occurrences of each place whose PF must fall."""
    falling = np.flatnonzero(targets.target < targets.pf)
    order = falling[np.lexsort((targets.location[falling], targets.trajectory[falling]))]
    count = (targets.pf[order] - targets.target[order]).astype(np.int64)
    return _fill(trajectories, locations, targets.trajectory[order], targets.location[order], count)


@dataclass(frozen=True)
class Carriers:
    """Trajectories that may have to lose a place, in order of (trajectory, location)."""

    trajectory: Ids
    location: Ids
    pf: Ids
    loss_mm: Ints

    def take(self, chosen: Ints) -> Carriers:
        return Carriers(*(getattr(self, f.name)[chosen] for f in fields(self)))


def to_drop(targets: TfTargets, places: int) -> Ints:
    """From how many trajectories each place has to go."""
    drop = np.zeros(places, np.int64)
    drop[targets.location] = np.maximum(targets.tf.astype(np.int64) - targets.target, 0)
    return drop


def _cheapest_carriers(
    first: int, last: int, places: tuple[Ids, Ints, Ints], *samples: Any
) -> tuple[Ints, Ids, Ints]:
    """Of the trajectories of a range, those that may be the ones to lose a place."""
    pair, owner, loss = _sum_losses(first, last, *samples)
    location, drop, rank = places
    kept = _least(location[pair], loss, drop, rank[owner])
    return pair[kept], owner[kept], loss[kept]


def _least(place: Ids, loss: Ints, drop: Ints, rank: Ints) -> Ints:
    """As many rows of each place as must go: those with the least loss, ties by rank."""
    order = np.lexsort((rank, loss, place))
    place = place[order]
    nth = np.arange(len(order)) - np.searchsorted(place, place)
    return np.sort(order[nth < drop[place]])


def cheapest_carriers(
    trajectories: Trajectories,
    locations: Locations,
    frequencies: Frequencies,
    drop: Ints,
    rank: Ints,
) -> Carriers:
    """As many carriers of each place as must go: those with the least total loss."""
    parts = map_ranges(
        _cheapest_carriers,
        trajectories.offsets,
        (frequencies.location, drop, rank),
        trajectories.offsets,
        trajectories.location,
        locations.x,
        locations.y,
        frequencies.offsets,
        frequencies.location,
        drop > 0,
    )
    pair, owner, loss = joined(parts)
    # the least of all are among the least of each range
    kept = _least(frequencies.location[pair], loss, drop, rank[owner])
    pair = pair[kept]
    return Carriers(owner[kept], frequencies.location[pair], frequencies.pf[pair], loss[kept])


def merge_carriers(earlier: Carriers, later: Carriers, drop: Ints, rank: Ints) -> Carriers:
    """The same of two sets of trajectories, one before the other."""
    both = Carriers(
        *(
            np.concatenate([getattr(earlier, f.name), getattr(later, f.name)])
            for f in fields(Carriers)
        )
    )
    return both.take(_least(both.location, both.loss_mm, drop, rank[both.trajectory]))


def delete_from(trajectories: Trajectories, locations: Locations, carriers: Carriers) -> EditRuns:
    """Every occurrence of the place from each of the carriers."""
    return _fill(
        trajectories,
        locations,
        carriers.trajectory,
        carriers.location,
        carriers.pf.astype(np.int64),
    )


def delete_globally(
    trajectories: Trajectories,
    locations: Locations,
    frequencies: Frequencies,
    targets: TfTargets,
    rank: Ints,
) -> EditRuns:
    """Inter-trajectory: every occurrence from the |delta| trajectories with the least total loss."""
    drop = to_drop(targets, len(locations))
    carriers = cheapest_carriers(trajectories, locations, frequencies, drop, rank)
    return delete_from(trajectories, locations, carriers)
