"""Stops and trips: the one rule by which the product cuts trajectories into trips.

A stay is a run of consecutive samples of one trajectory that all lie within `radius_m` of the first
of them, the last at least `stay_us` after the first. Stays are looked for from a trajectory's first
sample on; each takes as many samples as it can, and the next one begins after it. A stay goes on
across gaps: a parked vehicle may send nothing. A gap is more than `gap_us` between two consecutive
samples that are not of one stay. A trip is a longest run of consecutive samples that neither a stay
nor a gap interrupts: from the last sample of the stay before it (the departure) to the first sample
of the stay after it (the arrival).

Who leaves stays out (`cut`), or compares with what left them out (`evaluate`), takes trips without
departure and arrival; the synthetic methods and the table `<release>_trip` take them with both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.model.arrays import Flags, Ids, Ints, offsets_from, within
from freqdp_db.model.trajectories import Locations, Trajectories

MINUTE_US = 60_000_000
MOVING, ARRIVAL, RESTING, DEPARTURE = range(4)


@dataclass(frozen=True)
class TripRule:
    """Where one trip ends and the next begins: durations in microseconds, the radius in metres."""

    stay_us: int = 20 * MINUTE_US
    gap_us: int = 30 * MINUTE_US
    radius_m: float = 150.0


@dataclass(frozen=True)
class TripRuns:
    """Trips in order of trajectories and time: each a run of consecutive samples."""

    first: Ints
    last: Ints
    """The last sample of each, itself part of it."""
    trajectory: Ids

    def __len__(self) -> int:
        return len(self.first)


@njit(nogil=True, cache=True)
def _find_roles(first, last, offsets, location, at, x, y, stay_us, radius):  # type: ignore[no-untyped-def]
    begin = offsets[first]
    role = np.full(offsets[last] - begin, MOVING, np.uint8)
    for t in range(first, last):
        i = offsets[t]
        while i < offsets[t + 1]:
            j = i
            while j + 1 < offsets[t + 1]:
                dx, dy = x[location[j + 1]] - x[location[i]], y[location[j + 1]] - y[location[i]]
                if dx * dx + dy * dy > radius * radius:
                    break
                j += 1
            if at[j] - at[i] >= stay_us:
                role[i - begin : j + 1 - begin] = RESTING
                role[i - begin], role[j - begin] = ARRIVAL, DEPARTURE
                i = j + 1
            else:
                i += 1
    return (role,)


def find_roles(trajectories: Trajectories, places: Locations, rule: TripRule) -> NDArray[np.uint8]:
    """What each sample is: MOVING, or the ARRIVAL, RESTING or DEPARTURE of a stay."""
    parts = map_ranges(
        _find_roles, trajectories.offsets, trajectories.offsets, trajectories.location,
        trajectories.at, places.x, places.y, rule.stay_us, rule.radius_m,
    )  # fmt: skip
    (role,) = joined(parts)
    return role


def find_stays(trajectories: Trajectories, places: Locations, rule: TripRule) -> Flags:
    """Whether each sample is part of a stay."""
    stays: Flags = find_roles(trajectories, places, rule) != MOVING
    return stays


def find_trips(
    trajectories: Trajectories, places: Locations, rule: TripRule, *, with_stops: bool = False
) -> TripRuns:
    """All trips, of one sample or more. with_stops: with the departure before and the arrival after."""
    role = find_roles(trajectories, places, rule)
    owner = trajectories.owner
    kept = role != RESTING if with_stops else role == MOVING
    begins = kept.copy()
    begins[1:] &= (
        ~kept[:-1]
        | (role[1:] == DEPARTURE)
        | (owner[1:] != owner[:-1])
        | (np.diff(trajectories.at) > rule.gap_us)
    )
    first = np.flatnonzero(begins)
    size = np.add.reduceat(kept.astype(np.int64), first) if len(first) else first
    # what is left out after a run belongs to no trip, so that the run is its kept samples
    return TripRuns(first, first + size - 1, owner[first])


def samples_of(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """The offsets of these runs, one after the other, and all their samples."""
    offsets = offsets_from(last - first + 1)
    return offsets, within(offsets) + np.repeat(first, np.diff(offsets))
