"""Carry edits out: used by the pipeline on what it planned and by `verify` on what is in the log."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import EditRuns, Edits
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.sorting import stable_order
from freqdp_db.columns.streams import stream
from freqdp_db.columns.trajectories import Clock, Trajectories
from freqdp_db.edits.timing import fill_times, own_gaps, time_at_share
from freqdp_db.engines.partitions import PerPartition, Range
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.frequency.partition import Partition
from freqdp_db.search.distance import projection


@dataclass(frozen=True)
class Thinned:
    """A partition after a mechanism's deletions."""

    partition: Partition
    position: Ids
    """Where each remaining sample stood in the mechanism's input."""
    deletions: EditRuns


@dataclass(frozen=True)
class Edited:
    """A partition after a mechanism, and what the mechanism did to it."""

    after: Partition
    edits: Edits
    """Of trajectories as they are numbered among all."""


def split(rows: Any, ranges: list[Range]) -> PerPartition:
    """What each partition gets of rows in order of trajectories, or of a column with a row for each."""
    if isinstance(rows, np.ndarray):
        return PerPartition([rows[first:last] for first, last in ranges])
    return PerPartition([rows.between(first, last) for first, last in ranges])


@njit(nogil=True, cache=True)
def _delete_range(  # type: ignore[no-untyped-def]
    first, last, offsets, location, at, run_offsets, slots, position, out_offsets
):
    size = out_offsets[last] - out_offsets[first]
    left_location, left_at = np.empty(size, np.int32), np.empty(size, np.int64)
    left_position = np.empty(size, np.int32)
    k = 0
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        gone = np.zeros(hi - lo, np.bool_)
        for e in range(slots[run_offsets[t]], slots[run_offsets[t + 1]]):
            gone[position[e]] = True
        for i in range(hi - lo):
            if not gone[i]:
                left_location[k], left_at[k], left_position[k] = location[lo + i], at[lo + i], i
                k += 1
    return left_location, left_at, left_position


def delete(partition: Partition, deletions: EditRuns) -> Thinned:
    """Take the deleted samples out."""
    before = partition.trajectories
    run_offsets = deletions.by_trajectory(len(before))
    offsets = offsets_from(before.lengths - np.diff(deletions.offsets[run_offsets]))
    parts = map_ranges(
        _delete_range, before.offsets, before.offsets, before.location, before.at,
        run_offsets, deletions.offsets, deletions.position, offsets,
    )  # fmt: skip
    location, at, position = joined(parts)
    left = Trajectories(offsets, location, at, before.start)
    return Thinned(Partition(partition.first, left, partition.places), position, deletions)


@njit(nogil=True, cache=True)
def _insert_range(  # type: ignore[no-untyped-def]
    first, last, offsets, location, at, start, kept, x, y, step, gap,
    run_offsets, run_place, slots, position, drawn, key, numbered_from, out_offsets,
):  # fmt: skip
    size = out_offsets[last] - out_offsets[first]
    out_location, out_at = np.empty(size, np.int32), np.empty(size, np.int64)
    k = 0
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        r0, r1 = run_offsets[t], run_offsets[t + 1]
        if r0 == r1:
            for i in range(lo, hi):
                out_location[k], out_at[k] = location[i], at[i]
                k += 1
            continue
        new = slots[r1] - slots[r0]
        place = np.empty(new, np.int32)
        after = np.empty(new, np.int64)  # sample of the thinned trajectory it follows
        share = np.empty(new, np.float64)
        followed = np.empty(new, np.int64)
        n = 0
        for run in range(r0, r1):
            for e in range(slots[run], slots[run + 1]):
                place[n] = run_place[run]
                if hi - lo == 0:
                    after[n], share[n] = -1, 0.5
                else:
                    i = lo + np.searchsorted(kept[lo:hi], position[e])
                    j = min(i + 1, hi - 1)
                    after[n] = i - lo
                    share[n] = projection(
                        x[place[n]], y[place[n]],
                        x[location[i]], y[location[i]], x[location[j]], y[location[j]],
                    )  # fmt: skip
                n += 1
        # by (segment, projection, location); runs are in order of location already
        by_share = stable_order(share)
        for e in range(new):
            followed[e] = after[by_share[e]]
        order = stable_order(followed)
        for e in range(new):
            order[e] = by_share[order[e]]
        e = 0
        if hi - lo == 0:
            for e in range(new):
                out_location[k] = place[order[e]]
                out_at[k] = start[t] + e * gap
                k += 1
            continue
        own = own_gaps(at, lo, hi, gap)
        for i in range(hi - lo):
            out_location[k], out_at[k] = location[lo + i], at[lo + i]
            k += 1
            end = e
            while end < new and after[order[end]] == i:
                end += 1
            count = end - e
            for j in range(count):
                out_location[k + j] = place[order[e + j]]
            if hi - lo == 1:
                for j in range(count):
                    out_at[k + j] = at[lo] + (j + 1) * gap
            elif count and not drawn:
                for j in range(count):
                    fraction = (share[order[e + j]] + (j + 1) / (count + 1)) / 2
                    out_at[k + j] = time_at_share(at[lo + i], at[lo + i + 1], fraction, step)
            elif count:
                ways = np.empty(count + 1, np.float64)
                a = location[lo + i]
                for j in range(count + 1):
                    b = out_location[k + j] if j < count else location[lo + i + 1]
                    ways[j] = math.sqrt((x[b] - x[a]) ** 2 + (y[b] - y[a]) ** 2)
                    a = b
                fill_times(
                    out_at[k : k + count], at[lo + i], at[lo + i + 1], ways, own, step,
                    stream(key, ((numbered_from + t) << 32) + i),
                )  # fmt: skip
            k += count
            e = end
    return out_location, out_at


def insert(
    thinned: Thinned, insertions: EditRuns, clock: Clock, key: np.uint64 | None
) -> Partition:
    """Put the inserted samples in, with their times: drawn by the key, or as up to 0.2.0 spread them."""
    first, places = thinned.partition.first, thinned.partition.places
    left = thinned.partition.trajectories
    run_offsets = insertions.by_trajectory(len(left))
    offsets = offsets_from(left.lengths + np.diff(insertions.offsets[run_offsets]))
    parts = map_ranges(
        _insert_range,
        offsets,
        left.offsets,
        left.location,
        left.at,
        left.start,
        thinned.position,
        places.x,
        places.y,
        clock.step_us,
        clock.median_gap_us,
        run_offsets,
        insertions.location,
        insertions.offsets,
        insertions.position,
        key is not None,
        np.uint64(0) if key is None else key,
        first,
        offsets,
    )
    location, at = joined(parts)
    after = Trajectories(offsets, location, at, _starts(offsets, at, left.start))
    return Partition(first, after, places)


def finish(thinned: Thinned, insertions: EditRuns, clock: Clock, key: np.uint64) -> Edited:
    """Put the inserted samples in, and note what was done."""
    after = insert(thinned, insertions, clock, key)
    return Edited(after, Edits(thinned.deletions, insertions).shifted(after.first))


def _starts(offsets: Ints, at: Ints, before: Ints) -> Ints:
    filled = offsets[1:] > offsets[:-1]
    start = before.copy()
    start[filled] = at[offsets[:-1][filled]]
    return start


def apply_edits(
    partition: Partition, edits: Edits, clock: Clock, key: np.uint64 | None
) -> Partition:
    """The partition after one mechanism."""
    return insert(delete(partition, edits.deletions), edits.insertions, clock, key)


def coarsen_times(trajectories: Trajectories, step_us: int) -> Trajectories:
    """Round every time down to a multiple of the step (`--time-step`)."""
    return Trajectories(
        trajectories.offsets,
        trajectories.location,
        trajectories.at // step_us * step_us,
        trajectories.start // step_us * step_us,
    )


def coarsen(partition: Partition, step_us: int) -> Partition:
    """The partition with every time rounded down."""
    return replace(partition, trajectories=coarsen_times(partition.trajectories, step_us))
