"""Applying edits: used by `carry_out` on planned edits, and by `verify` on logged ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit

from freqdp_db.engines.partitions import PerPartition, Range
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.frequency.counts import Frequencies
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_from, offsets_of, owners
from freqdp_db.model.kernels import stream, uniform
from freqdp_db.model.trajectories import (
    Clock,
    EditRuns,
    Edits,
    Locations,
    PfTargets,
    Trajectories,
)
from freqdp_db.search.nearest import to_mm

# Times of inserted samples, which look like those of their neighbours.


_DRIVING_M_PER_S = 15
"""Speed that a detour through an inserted place is assumed to have."""


@njit(cache=True)
def free_steps(a, b, step):  # type: ignore[no-untyped-def]
    """Number of multiples of the time step strictly between two times."""
    return max((b - 1) // step - a // step, 0)


@njit(cache=True)
def detour(px, py, ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """Driving time from a to b through p, in microseconds."""
    # in whole millimetres, so that all machines compute the same number
    way = to_mm((px - ax) ** 2 + (py - ay) ** 2) + to_mm((bx - px) ** 2 + (by - py) ** 2)
    return way * 1000 // _DRIVING_M_PER_S


@njit(cache=True)
def own_gaps(at, lo, hi, usual):  # type: ignore[no-untyped-def]
    """Intervals between the samples of a trajectory, ascending; `usual` if it has none."""
    gaps = np.empty(max(hi - lo - 1, 1), np.int64)
    n = 0
    for i in range(lo, hi - 1):
        if at[i + 1] > at[i]:
            gaps[n] = at[i + 1] - at[i]
            n += 1
    if n == 0:
        gaps[0] = usual
        n = 1
    return np.sort(gaps[:n])


@njit(cache=True)
def fill_times(out, a, b, ways, own, step, state):  # type: ignore[no-untyped-def]
    """Fill `out` with times between a and b.

    Intervals are drawn from the trajectory's own ones and are long enough for their ways.
    """
    count, gap = len(out), b - a
    # only intervals of at most half the gap; if there are none, the shortest
    fit = max(np.searchsorted(own, gap // 2, side="right"), 1)
    wanted = np.empty(count + 1, np.float64)
    total = 0.0
    for j in range(count + 1):
        drawn = float(own[int(uniform(state) * fit)])
        wanted[j] = max(drawn, ways[j] * 1e6 / _DRIVING_M_PER_S)
        total += wanted[j]
    if total >= gap:
        for j in range(count + 1):
            wanted[j] *= gap / total
    else:
        wanted[int(uniform(state) * (count + 1))] += gap - total
    first = (a // step + 1) * step
    last = (b - 1) // step * step
    free = free_steps(a, b, step)
    since = 0.0
    for j in range(count):
        since += wanted[j]
        exact = a + np.int64(math.floor(since + 0.5))
        if free >= count:
            low, high = first + j * step, last - (count - 1 - j) * step
            if j > 0:
                low = max(low, out[j - 1] + step)
            out[j] = min(max((exact + step // 2) // step * step, low), high)
        elif free > 0:
            out[j] = min(max((exact + step // 2) // step * step, first), last)
        else:
            # finer than the time step; a gap of at most one microsecond has no time strictly inside
            out[j] = min(max(exact, a + 1), max(b - 1, a))


@njit(cache=True)
def free_of(at, lo, hi, step):  # type: ignore[no-untyped-def]
    """Number of free time steps of each segment of a trajectory."""
    free = np.zeros(max(hi - lo - 1, 1), np.int64)
    for i in range(hi - lo - 1):
        free[i] = free_steps(at[lo + i], at[lo + i + 1], step)
    return free


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


def delete(partition: Partition, deletions: EditRuns) -> Thinned:
    """Take the deleted samples out."""
    before = partition.trajectories
    owner, _, position = _one_by_one(deletions)
    keep = np.ones(before.samples, np.bool_)
    keep[before.offsets[owner] + position] = False
    lengths = before.lengths - np.bincount(owner, minlength=len(before))
    stood = np.flatnonzero(keep) - np.repeat(before.offsets[:-1], lengths)
    left = Trajectories(
        offsets_from(lengths), before.location[keep], before.at[keep], before.start,
        before.kept_of(keep),
    )  # fmt: skip
    return Thinned(replace(partition, trajectories=left), stood.astype(np.int32), deletions)


def cheapest_of_each(group: Ids | Ints, loss: Ints, rank: Ids | Ints, wanted: Ids | Ints) -> Ints:
    """As many rows of each group as are wanted of it: those with the least loss, ties by rank."""
    order = np.lexsort((rank, loss, group))
    group = group[order]
    nth = np.arange(len(order)) - np.searchsorted(group, group)
    return np.sort(order[nth < wanted[group]])


@njit(nogil=True, cache=True)
def _insert_range(  # type: ignore[no-untyped-def]
    first, last, offsets, location, at, start, x, y, step, gap, new_offsets, place, follows, key,
    numbered_from,
):  # fmt: skip
    """Places and times of trajectories with their new samples, which are in order."""
    size = offsets[last] - offsets[first] + new_offsets[last] - new_offsets[first]
    out_location, out_at = np.empty(size, np.int32), np.empty(size, np.int64)
    k = 0
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        e, new_end = new_offsets[t], new_offsets[t + 1]
        if hi == lo:
            for j in range(new_end - e):
                out_location[k], out_at[k] = place[e + j], start[t] + j * gap
                k += 1
            continue
        own = own_gaps(at, lo, hi, gap) if e < new_end else at[:0]
        for i in range(lo, hi):
            out_location[k], out_at[k] = location[i], at[i]
            k += 1
            count = 0
            while e + count < new_end and follows[e + count] == i:
                out_location[k + count] = place[e + count]
                count += 1
            if hi - lo == 1:
                for j in range(count):
                    out_at[k + j] = at[lo] + (j + 1) * gap
            elif count:
                ways = np.empty(count + 1, np.float64)
                a = location[i]
                for j in range(count + 1):
                    b = out_location[k + j] if j < count else location[i + 1]
                    ways[j] = math.sqrt((x[b] - x[a]) ** 2 + (y[b] - y[a]) ** 2)
                    a = b
                fill_times(
                    out_at[k : k + count], at[i], at[i + 1], ways, own, step,
                    stream(key, ((numbered_from + t) << 32) + i - lo),
                )  # fmt: skip
            k += count
            e += count
    return out_location, out_at


def insert(thinned: Thinned, insertions: EditRuns, clock: Clock, key: np.uint64) -> Partition:
    """Put the inserted samples in, with times that the key draws.

    Those after one sample are in the order of their projections on the segment, then of their places.
    """
    first, places = thinned.partition.first, thinned.partition.places
    left = thinned.partition.trajectories
    owner, place, position = _one_by_one(insertions)
    follows = _find_followed(thinned, owner, position)
    order = np.lexsort((_projections(left, places, place, follows), follows, owner))
    place, follows = place[order], follows[order]
    new_offsets = offsets_of(owner, len(left))
    parts = map_ranges(
        _insert_range, left.offsets + new_offsets, left.offsets, left.location, left.at, left.start,
        places.x, places.y, clock.step_us, clock.median_gap_us, new_offsets, place, follows, key,
        first,
    )  # fmt: skip
    location, at = joined(parts)
    offsets = left.offsets + new_offsets
    start = left.start.copy()
    filled = np.diff(offsets) > 0
    start[filled] = at[offsets[:-1][filled]]
    kept = None
    if left.kept is not None:
        # an inserted sample has the values of the sample it follows, or none
        kept = np.zeros(len(at), np.int16)
        copies = 1 + np.bincount(follows[follows >= 0], minlength=left.samples)
        kept[np.repeat(left.lengths > 0, np.diff(offsets))] = np.repeat(left.kept, copies)
    return replace(thinned.partition, trajectories=Trajectories(offsets, location, at, start, kept))


def _find_followed(thinned: Thinned, owner: Ids, position: Ids) -> Ints:
    """The remaining sample that each inserted one follows; -1: none is left."""
    # both sides in order of (trajectory, position in the mechanism's input)
    span = np.int64(max(position.max(initial=0), thinned.position.max(initial=0)) + 1)
    stood = thinned.partition.trajectories.owner * span + thinned.position
    return np.where(position < 0, -1, np.searchsorted(stood, owner * span + position))


def _projections(left: Trajectories, places: Locations, place: Ids, follows: Ints) -> Metres:
    """Where on the segment after the sample that it follows each place falls, from 0 to 1."""
    some = follows >= 0
    a = left.location[follows[some]]
    # the last sample of a trajectory has a segment of length 0
    b = left.location[follows[some] + ~left.ends[follows[some]]]
    ax, ay = places.x[a], places.y[a]
    dx, dy = places.x[b] - ax, places.y[b] - ay
    along = (places.x[place[some]] - ax) * dx + (places.y[place[some]] - ay) * dy
    length2 = dx * dx + dy * dy
    found = np.full(len(place), 0.5)
    share = np.divide(along, length2, out=np.full(len(a), 0.5), where=length2 > 0)
    found[some] = np.clip(share, 0.0, 1.0)
    return found


def finish(thinned: Thinned, insertions: EditRuns, clock: Clock, key: np.uint64) -> Edited:
    """Put the inserted samples in, and note what was done."""
    after = insert(thinned, insertions, clock, key)
    return Edited(after, Edits(thinned.deletions, insertions).shifted(after.first))


def apply_edits(partition: Partition, edits: Edits, clock: Clock, key: np.uint64) -> Partition:
    """The partition after one mechanism."""
    return insert(delete(partition, edits.deletions), edits.insertions, clock, key)


def coarsen_times(t: Trajectories, step_us: int) -> Trajectories:
    """Round every time down to a multiple of the step (`--time-step`)."""
    return replace(t, at=t.at // step_us * step_us, start=t.start // step_us * step_us)


def coarsen(partition: Partition, step_us: int) -> Partition:
    """The partition with every time rounded down."""
    return replace(partition, trajectories=coarsen_times(partition.trajectories, step_us))


# Whether stored targets and edits fit the trajectories that they are said to be of.


def pf_of_targets(frequencies: Frequencies, targets: PfTargets) -> Ints:
    """PF of each (trajectory, location) of the targets; 0 where it is absent."""
    places = len(frequencies.tf)
    known = owners(frequencies.offsets).astype(np.int64) * places + frequencies.location
    wanted = targets.trajectory.astype(np.int64) * places + targets.location
    if len(known) == 0:
        return np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, frequencies.pf[at], 0).astype(np.int64)


def require_possible(state: Trajectories, edits: Edits, places: int) -> None:
    """Every deletion names a sample that is at its place; every insertion goes between samples.

    The kernels that apply the edits take this for granted.
    """
    for runs in (edits.deletions, edits.insertions):
        known = (runs.trajectory >= 0) & (runs.trajectory < len(state))
        known &= (runs.location >= 0) & (runs.location < places)
        if not known.all():
            raise VerificationFailed("the log names trajectories or places of no build")
    owner, place, position = _one_by_one(edits.deletions)
    if not ((position >= 0) & (position < state.lengths[owner])).all():
        raise VerificationFailed("the log deletes samples that do not exist")
    at = state.offsets[owner] + position
    keep = np.ones(state.samples + 1, np.bool_)
    keep[at] = False
    gone = len(keep) - np.count_nonzero(keep)
    if not (state.location[at] == place).all() or gone != len(at):
        raise VerificationFailed("the log deletes samples of other places, or twice")
    left = state.lengths - np.bincount(owner, minlength=len(state))
    # the last sample that is left ends no segment, unless it is the only one
    last = np.flatnonzero(keep)[np.cumsum(left) - 1] - state.offsets[:-1]
    owner, place, position = _one_by_one(edits.insertions)
    inside = (position >= 0) & (position < state.lengths[owner])
    survives = keep[np.where(inside, state.offsets[owner] + position, state.samples)]
    follows = inside & survives & ((position != last[owner]) | (left[owner] == 1))
    if not np.where(left[owner] == 0, position == -1, follows).all():
        raise VerificationFailed("the log inserts after samples that are not there")


def _one_by_one(runs: EditRuns) -> tuple[Ids, Ids, Ids]:
    """Trajectory, location and position of each edit."""
    counts = np.diff(runs.offsets)
    return np.repeat(runs.trajectory, counts), np.repeat(runs.location, counts), runs.position
