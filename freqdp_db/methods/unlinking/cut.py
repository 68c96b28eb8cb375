"""cut: a new released trajectory for every piece of a trip, with an id of its own.

Stays are left out, and a quiet time between two pieces of one trip; the ends of a piece are trimmed
back to places that several objects visit. What a few known samples of an object give away is then a
piece. No formal guarantee: pieces can be joined again by place, time and velocity, to a degree that
the exposure metrics measure.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Flags, Ids
from freqdp_db.columns.groups import Groups
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.methods.contract import State, World
from freqdp_db.methods.unlinking.clock import hide_devices
from freqdp_db.methods.unlinking.grain import put_in_grains
from freqdp_db.methods.unlinking.options import CutOptions
from freqdp_db.methods.unlinking.steps import CutLog
from freqdp_db.trips import TripRuns, find_trips, samples_of


def pieces_on_clock(world: World, state: State, options: CutOptions) -> TripRuns:
    """The pieces of what comes in, as runs of its samples on the clock."""
    visits = None
    if options.ends_in_source:
        # a visit that a method before has put in is nobody's
        source = State(world.build.trajectories, world.locations, state.key)
        source = put_in_grains(source, options.grain)
        visits = source.trajectories.location, source.owners()
    return find_pieces(hide_devices(state, options), options, visits)


def find_pieces(
    state: State, options: CutOptions, visits: tuple[Ids, Ids] | None = None
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


def summary(samples: int, state: State, logged: CutLog) -> dict[str, float]:
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
