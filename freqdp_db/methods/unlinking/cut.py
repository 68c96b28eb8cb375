"""cut: a new released trajectory for every piece of a trip, with an id of its own.

Stays are left out, and a quiet time between two pieces of one trip; the ends of a piece are trimmed
back to places that several objects visit. What a few known samples of an object give away is then a
piece. No formal guarantee: pieces can be joined again by place, time and velocity, to a degree that
the exposure metrics measure.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import StepContext, WorkingSet
from freqdp_db.methods.trips import TripRule, TripRuns, find_trips, samples_of
from freqdp_db.methods.unlinking.clock import hide_devices, put_in_grains
from freqdp_db.methods.unlinking.options import CutOptions
from freqdp_db.methods.unlinking.steps import CutLog
from freqdp_db.model.arrays import Flags, Groups, Ids, Ints, offsets_from


def pieces_on_clock(world: StepContext, state: WorkingSet, options: CutOptions) -> TripRuns:
    """The pieces of what comes in, as runs of its samples on the clock."""
    visits = None
    if options.ends_in_source:
        # a visit that a method before has put in is nobody's
        source = WorkingSet(world.build.trajectories, world.locations, state.key)
        source = put_in_grains(source, options.grain)
        visits = source.trajectories.location, source.owners()
    return find_pieces(hide_devices(state, options), options, visits)


def find_pieces(
    state: WorkingSet, options: CutOptions, visits: tuple[Ids, Ids] | None = None
) -> TripRuns:
    """Trips, cut to the longest piece with quiet time between, and trimmed to places of several.

    visits: places, and who was there; None: those of the state.
    """
    side = state.trajectories
    location, whose = visits or (side.location, state.owners())
    shared = shared_places(location, whose, len(state.places), options.ends)
    trips = find_trips(side, state.places, options.rule)
    parts = map_ranges(
        _cut_trips, offsets_from(trips.last - trips.first + 1), trips.first, trips.last, side.at,
        side.location, shared, options.pieces, options.quiet,
    )  # fmt: skip
    first, last = joined(parts)
    owner = np.searchsorted(side.offsets, first, side="right") - 1
    return TripRuns(first, last, owner.astype(np.int32))


def groups_after(groups: Groups, samples: int, log: CutLog) -> Groups:
    """Groups of an earlier swap by positions in the result of the cut."""
    _, rows = samples_of(log.first, log.last)
    position = np.full(samples, -1, np.int64)
    position[rows] = np.arange(len(rows))
    return groups.moved(position)


def shared_places(location: Ids, owner: Ids, places: int, objects: int) -> Flags:
    """Places with samples of at least so many objects."""
    distinct = np.unique(location.astype(np.int64) << 32 | owner.astype(np.int64)) >> 32
    shared: Flags = np.bincount(distinct, minlength=places) >= objects
    return shared


@njit(nogil=True, cache=True)
def _cut_trips(first, last, heads, tails, at, location, shared, longest, quiet):  # type: ignore[no-untyped-def]
    """First and last sample of each piece of the trips in a range, where anything is left of it."""
    most = 0
    for trip in range(first, last):
        most += tails[trip] - heads[trip] + 1
    begins, ends, k = np.empty(most, np.int64), np.empty(most, np.int64), 0
    for trip in range(first, last):
        i = heads[trip]
        while i <= tails[trip]:
            a, start = i, at[i]
            while i <= tails[trip] and at[i] - start <= longest:
                i += 1
            b = i - 1
            while i <= tails[trip] and at[i] - at[b] < quiet:
                i += 1
            z = b
            while a <= z and not shared[location[a]]:
                a += 1
            while z >= a and not shared[location[z]]:
                z -= 1
            if a <= z:
                begins[k], ends[k] = a, z
                k += 1
    return begins[:k].copy(), ends[:k].copy()


def summary(samples: int, state: WorkingSet, logged: CutLog) -> dict[str, float]:
    """For the curator: pieces, pieces of a trajectory, and the share of so many samples that stays."""
    side = state.trajectories
    kept = int((logged.last - logged.first + 1).sum())
    owner = np.searchsorted(side.offsets, logged.first, side="right") - 1
    each = np.bincount(owner, minlength=len(side))[side.lengths > 0]
    return {
        "pieces": len(logged),
        "pieces_per_trajectory_median": float(np.median(each)) if len(each) else 0.0,
        "trajectories_without_a_piece": int((each == 0).sum()),
        "samples_kept_share": kept / max(samples, 1),
    }


# --- What `cut` promises, looked up in its result: no kernel of the step takes part ---


_PER_MILLE = 1000


def check_cut(
    before: WorkingSet,
    after: WorkingSet,
    visits: WorkingSet,
    *,
    rule: TripRule,
    longest_us: int,
    quiet_us: int,
    ends: int,
    runs: tuple[Ints, Ints],
) -> dict[str, int]:
    """Refuse unless every piece is a run of its input and keeps the promises.

    visits: where who was, for the places that pieces may begin and end at.

    Returns:
        Counts, with the largest share of an object's samples that is under one id (per mille).

    Raises:
        VerificationFailed: a piece that is too long, spans a gap or a stay, ends at a place of too
            few, is too near to the piece before, or holds what the input does not.
    """
    old, new = before.trajectories, after.trajectories
    if len(after.key) != len(new) or len(np.unique(after.key)) != len(new):
        raise VerificationFailed("cut: two pieces have one id")
    if (new.lengths == 0).any():
        raise VerificationFailed("cut: a piece is empty")
    first, last = runs
    _require_runs(before, after, first, last)
    head, tail = new.offsets[:-1], new.offsets[1:] - 1
    if (new.at[tail] - new.at[head] > longest_us).any():
        raise VerificationFailed("cut: a piece is longer than it may be")
    inside = np.ones(max(new.samples - 1, 0), np.bool_)
    inside[tail[:-1]] = False
    gap = np.diff(new.at)[inside]
    if (gap > rule.gap_us).any() or (gap < 0).any():
        raise VerificationFailed("cut: a piece spans a gap, or its times fall")
    stays = _stays_inside(after, rule)
    if stays:
        raise VerificationFailed(f"cut: {stays:,} stays are part of a piece")
    few = ~_visited_by(visits, ends)
    if few[new.location[head]].any() or few[new.location[tail]].any():
        raise VerificationFailed("cut: a piece ends at a place of too few objects")
    order = np.argsort(first, kind="stable")
    same = old.owner[first[order][1:]] == old.owner[last[order][:-1]]
    if (same & (old.at[first[order][1:]] - old.at[last[order][:-1]] < quiet_us)).any():
        raise VerificationFailed("cut: two pieces of one trip follow without quiet time")
    return {
        "pieces": len(new),
        "samples": new.samples,
        "largest_share_per_mille": largest_share(before, after),
    }


def _require_runs(before: WorkingSet, after: WorkingSet, first: Ints, last: Ints) -> None:
    """Each piece is its run of the input, sample by sample; no sample is in two."""
    old, new = before.trajectories, after.trajectories
    known = len(first) == len(last) == len(new)
    if not known or not ((first >= 0) & (last >= first) & (last < old.samples)).all():
        raise VerificationFailed("cut: the log names samples that do not exist")
    if not np.array_equal(last - first + 1, new.lengths):
        raise VerificationFailed("cut: a piece has another length than its run")
    owner = old.owner
    if (owner[first] != owner[last]).any():
        raise VerificationFailed("cut: a piece has samples of two trajectories")
    within = np.arange(new.samples) - np.repeat(new.offsets[:-1], new.lengths)
    rows = np.repeat(first, new.lengths) + within
    if len(np.unique(rows)) != len(rows):
        raise VerificationFailed("cut: a sample is in two pieces")
    for column, was, there in (
        ("place", old.location, new.location),
        ("time", old.at, new.at),
        ("object", before.owners(), after.owners()),
    ):
        if not np.array_equal(was[rows], there):
            raise VerificationFailed(f"cut: a sample has another {column} than it had")


def _visited_by(before: WorkingSet, objects: int) -> Flags:
    location, owner = before.trajectories.location, before.owners()
    order = np.lexsort((owner, location))
    place, who = location[order], owner[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (place[1:] != place[:-1]) | (who[1:] != who[:-1])
    enough: Flags = np.bincount(place[fresh], minlength=len(before.places)) >= objects
    return enough


def _stays_inside(after: WorkingSet, rule: TripRule) -> int:
    """Samples from which a piece remains near for as long as a stay: all looked ahead together."""
    side = after.trajectories
    piece = side.owner
    x, y = after.places.x[side.location], after.places.y[side.location]
    looking: Ints = np.arange(side.samples)
    found = np.zeros(side.samples, np.bool_)
    ahead = 0
    while len(looking):
        ahead += 1
        looking = looking[looking + ahead < side.samples]
        far = looking + ahead
        near = piece[far] == piece[looking]
        near &= (x[far] - x[looking]) ** 2 + (y[far] - y[looking]) ** 2 <= rule.radius_m**2
        looking, far = looking[near], far[near]
        found[looking[side.at[far] - side.at[looking] >= rule.stay_us]] = True
    return int(found.sum())


def largest_share(before: WorkingSet, after: WorkingSet) -> int:
    """Of an object's samples, the most under one id, per mille, rounded up."""
    objects = before.owners()
    total = np.bincount(objects, minlength=int(objects.max(initial=0)) + 1)
    pair = after.trajectories.owner.astype(np.int64) << 32 | after.owners().astype(np.int64)
    both, count = np.unique(pair, return_counts=True)
    owner: Ids = (both & 0xFFFFFFFF).astype(np.int32)
    return int((-(-_PER_MILLE * count // total[owner])).max(initial=0))
