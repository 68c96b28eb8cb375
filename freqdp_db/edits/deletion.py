"""Deletions: which occurrences of a place go.

The loss of deleting an occurrence of q is the distance from q to the segment that joins the outer
neighbours of its run of equal consecutive samples; at an end of the trajectory, to the one
neighbour; if there is none, 0. (Sample by sample, as the paper writes it, a stay would be free to
delete: the neighbours of its inner samples are q itself.)
"""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import EditRuns, PfTargets, TfTargets
from freqdp_db.columns.ragged import offsets_from, offsets_of, owners
from freqdp_db.columns.sorting import find, stable_order
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.threads import over_ranges
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
def _sum_losses(first, last, offsets, location, x, y, pair_offsets, pair_place, wanted, total):  # type: ignore[no-untyped-def]
    """Total loss of all occurrences of each wanted (trajectory, location) pair."""
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
                total[pair] += loss * (end - begin)
            begin = end


@njit(nogil=True, cache=True)
def _cheapest(  # type: ignore[no-untyped-def]
    first, last, offsets, location, x, y, run_offsets, run_place, slots, position, loss
):
    """For each run: its cheapest occurrences, as many as it has slots; ties by position."""
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
            k = slots[run]
            for s in range(j - i):
                if go[s]:
                    position[k] = where[by_run[i + s]]
                    loss[k] = price_of[s]
                    k += 1
            i = j


def _fill(
    trajectories: Trajectories,
    locations: Locations,
    trajectory: Ids,
    location: Ids,
    count: Ints,
) -> EditRuns:
    slots = offsets_from(count)
    position = np.empty(slots[-1], np.int32)
    loss = np.empty(slots[-1], np.int64)
    over_ranges(
        _cheapest,
        trajectories.offsets,
        trajectories.offsets,
        trajectories.location,
        locations.x,
        locations.y,
        offsets_of(trajectory, len(trajectories)),
        location,
        slots,
        position,
        loss,
    )
    return EditRuns("d", trajectory, location, slots, position, loss)


def delete_locally(
    trajectories: Trajectories, locations: Locations, targets: PfTargets
) -> EditRuns:
    """Intra-trajectory: the |delta| cheapest occurrences of each place whose PF must fall."""
    falling = np.flatnonzero(targets.target < targets.pf)
    order = falling[np.lexsort((targets.location[falling], targets.trajectory[falling]))]
    count = (targets.pf[order] - targets.target[order]).astype(np.int64)
    return _fill(trajectories, locations, targets.trajectory[order], targets.location[order], count)


def delete_globally(
    trajectories: Trajectories,
    locations: Locations,
    frequencies: Frequencies,
    targets: TfTargets,
    rank: Ints,
) -> EditRuns:
    """Inter-trajectory: every occurrence from the |delta| trajectories with the least total loss."""
    drop = np.zeros(len(locations), np.int64)
    drop[targets.location] = np.maximum(targets.tf.astype(np.int64) - targets.target, 0)
    total = np.zeros(len(frequencies.location), np.int64)
    over_ranges(
        _sum_losses,
        trajectories.offsets,
        trajectories.offsets,
        trajectories.location,
        locations.x,
        locations.y,
        frequencies.offsets,
        frequencies.location,
        drop > 0,
        total,
    )
    owner = owners(frequencies.offsets)
    pairs = np.flatnonzero(drop[frequencies.location] > 0)
    place = frequencies.location[pairs]
    order = np.lexsort((rank[owner[pairs]], total[pairs], place))
    pairs, place = pairs[order], place[order]
    begin = np.searchsorted(place, place)
    chosen = np.sort(pairs[np.arange(len(pairs)) - begin < drop[place]])
    return _fill(
        trajectories,
        locations,
        owner[chosen],
        frequencies.location[chosen],
        frequencies.pf[chosen].astype(np.int64),
    )
