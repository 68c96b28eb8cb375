"""One object's samples -> its trips. Looks at that object alone, and at public numbers.

Samples outside the public region or period are dropped; so is a sample that could only be reached
faster than 50 m/s from the last one kept. The rest is cut into trips by the rule of `methods.trips`,
each from its departure to its arrival. Trips of fewer than 3 samples or 1 km are dropped.

Protected change: an object added or removed adds or removes its own trips and moves nobody else's.
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
_LEAST_SAMPLES = 3
_LEAST_M = 1000.0


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
def _possible(first, last, offsets, location, at, px, py, inside, period, fastest, gap):  # type: ignore[no-untyped-def]
    """Which samples are kept: inside the region and the period, and reached at a possible speed."""
    begin = offsets[first]
    kept = np.zeros(offsets[last] - begin, np.bool_)
    for u in range(first, last):
        j = -1  # the last one kept
        for i in range(offsets[u], offsets[u + 1]):
            if not inside[location[i]] or at[i] < period[0] or at[i] >= period[1]:
                continue
            if j >= 0:
                seconds = (at[i] - at[j]) / 1e6
                a, b = location[i], location[j]
                far = math.hypot(px[a] - px[b], py[a] - py[b])
                # after a long gap anything may have happened: the faulty one may be the last kept
                if seconds <= 0 or (far > fastest * seconds and at[i] - at[j] <= gap):
                    continue
            kept[i - begin] = True
            j = i
    return (kept,)


@njit(nogil=True, cache=True)
def _metres(first, last, offsets, x, y):  # type: ignore[no-untyped-def]
    """How long each trip is."""
    metres = np.zeros(last - first)
    for t in range(first, last):
        for i in range(offsets[t], offsets[t + 1] - 1):
            metres[t - first] += math.hypot(x[i + 1] - x[i], y[i + 1] - y[i])
    return (metres,)


def metres_of_trips(offsets: Ints, x: Metres, y: Metres) -> Metres:
    """How long each trip is, summed by itself: no trip changes how that of another is rounded."""
    metres: Metres
    (metres,) = joined(map_ranges(_metres, offsets, offsets, x, y))
    return metres


def possible_samples(
    trajectories: Trajectories, places: Locations, region: Region, period: Period
) -> Trajectories:
    """Only the samples inside the region and the period that were reached at a possible speed."""
    parts = map_ranges(
        _possible, trajectories.offsets, trajectories.offsets, trajectories.location,
        trajectories.at, places.x, places.y, region.holds(places.x, places.y),
        (period.begin, period.end), FASTEST_M_PER_S, RULE.gap_us,
    )  # fmt: skip
    (kept,) = joined(parts)
    return trajectories.where(kept)


def cut_trips(
    trajectories: Trajectories, places: Locations, region: Region, period: Period
) -> Trips:
    """Every object's trips."""
    return trips_in(possible_samples(trajectories, places, region, period), places)


def trips_in(side: Trajectories, places: Locations) -> Trips:
    """The trips of objects of whom only possible samples are left."""
    runs = find_trips(side, places, RULE, with_stops=True)
    offsets, rows = samples_of(runs.first, runs.last)
    x, y = places.x[side.location[rows]], places.y[side.location[rows]]
    metres = metres_of_trips(offsets, x, y)
    whole = np.flatnonzero((np.diff(offsets) >= _LEAST_SAMPLES) & (metres >= _LEAST_M))
    offsets, rows = samples_of(runs.first[whole], runs.last[whole])
    place = side.location[rows]
    return Trips(
        offsets_from(np.bincount(runs.trajectory[whole], minlength=len(side))),
        offsets,
        places.x[place],
        places.y[place],
        side.at[rows],
    )
