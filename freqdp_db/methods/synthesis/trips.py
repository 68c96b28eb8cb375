"""The trips of an object, from its own samples and public numbers alone.

Samples outside the public region or period are dropped, and so is a sample that could be reached from the
last sample kept only at more than 50 m/s. The rest is divided into trips by the rule of `methods.trips`,
from departure to arrival. Trips of fewer than 3 samples or 1 km are dropped.

Protected change: an object that is added or removed adds or removes its own trips and changes no other's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.methods.synthesis.public import Period, Region
from freqdp_db.methods.trips import TripRule, find_trips, samples_of
from freqdp_db.model.arrays import Ints, Metres, offsets_from
from freqdp_db.model.trajectories import Locations, Trajectories

RULE = TripRule()
FASTEST_M_PER_S = 50.0
_MIN_SAMPLES = 3
_MIN_M = 1000.0


@dataclass(frozen=True)
class Trips:
    """The trips of each object, in order of objects and times."""

    by_object: Ints
    """Object u has the trips by_object[u] to by_object[u + 1] - 1."""
    offsets: Ints
    """Trip t has the samples offsets[t] to offsets[t + 1] - 1."""
    x: Metres
    y: Metres
    at: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def objects(self) -> int:
        return len(self.by_object) - 1


@njit(nogil=True, cache=True)
def _find_possible(first, last, offsets, location, at, px, py, inside, period, fastest, gap):  # type: ignore[no-untyped-def]
    """Which samples are kept: inside the region and the period, and reached at a possible speed."""
    begin = offsets[first]
    kept = np.zeros(offsets[last] - begin, np.bool_)
    for u in range(first, last):
        j = -1  # the last sample kept
        for i in range(offsets[u], offsets[u + 1]):
            if not inside[location[i]] or at[i] < period[0] or at[i] >= period[1]:
                continue
            if j >= 0:
                seconds = (at[i] - at[j]) / 1e6
                a, b = location[i], location[j]
                far = math.hypot(px[a] - px[b], py[a] - py[b])
                # after a long gap the sample is kept: the one before the gap may be the wrong one
                if seconds <= 0 or (far > fastest * seconds and at[i] - at[j] <= gap):
                    continue
            kept[i - begin] = True
            j = i
    return (kept,)


@njit(nogil=True, cache=True)
def _sum_metres(first, last, offsets, x, y):  # type: ignore[no-untyped-def]
    """Length of each trip in metres."""
    metres = np.zeros(last - first)
    for t in range(first, last):
        for i in range(offsets[t], offsets[t + 1] - 1):
            metres[t - first] += math.hypot(x[i + 1] - x[i], y[i + 1] - y[i])
    return (metres,)


def metres_of_trips(offsets: Ints, x: Metres, y: Metres) -> Metres:
    """Length of each trip in metres. Each is summed by itself: no trip affects the rounding of another."""
    metres: Metres
    (metres,) = joined(map_ranges(_sum_metres, offsets, offsets, x, y))
    return metres


def possible_samples(
    trajectories: Trajectories, places: Locations, region: Region, period: Period
) -> Trajectories:
    """The trajectories with only samples inside the region and period, reached at a possible speed."""
    parts = map_ranges(
        _find_possible, trajectories.offsets, trajectories.offsets, trajectories.location,
        trajectories.at, places.x, places.y, region.holds(places.x, places.y),
        (period.begin, period.end), FASTEST_M_PER_S, RULE.gap_us,
    )  # fmt: skip
    (kept,) = joined(parts)
    return trajectories.where(kept)


def cut_trips(
    trajectories: Trajectories, places: Locations, region: Region, period: Period
) -> Trips:
    """The trips of every object."""
    return trips_in(possible_samples(trajectories, places, region, period), places)


def trips_in(side: Trajectories, places: Locations) -> Trips:
    """The trips of objects, given only their possible samples."""
    runs = find_trips(side, places, RULE, with_stops=True)
    offsets, rows = samples_of(runs.first, runs.last)
    x, y = places.x[side.location[rows]], places.y[side.location[rows]]
    metres = metres_of_trips(offsets, x, y)
    whole = np.flatnonzero((np.diff(offsets) >= _MIN_SAMPLES) & (metres >= _MIN_M))
    offsets, rows = samples_of(runs.first[whole], runs.last[whole])
    place = side.location[rows]
    return Trips(
        offsets_from(np.bincount(runs.trajectory[whole], minlength=len(side))),
        offsets,
        places.x[place],
        places.y[place],
        side.at[rows],
    )
