"""One object's samples -> its trips. Looks at that object alone, and at public numbers.

Samples outside the public region or period are dropped; so is a sample that could only be reached
faster than 50 m/s from the last one kept. The rest is cut at gaps over 30 min and at stays (at least
20 min within 150 m of where the stay began); a stay itself belongs to no trip. Trips of fewer than 3
samples or 1 km are dropped.

Protected change: an object added or removed adds or removes its own trips and moves nobody else's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.methods.synthesis.public import Period, Region, TripRule


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
def _cut(first, last, offsets, location, at, px, py, inside, period, rule):  # type: ignore[no-untyped-def]
    """How many trips each object has, how many samples each trip has, and these."""
    most = offsets[last] - offsets[first]
    trips = np.zeros(last - first, np.int64)
    lengths = np.empty(most, np.int64)
    out_x, out_y, out_at = np.empty(most), np.empty(most), np.empty(most, np.int64)
    found = size = 0
    fastest, gap, stay, stay_m, least_samples, least_m = rule
    for u in range(first, last):
        lo, hi = offsets[u], offsets[u + 1]
        keep = np.empty(hi - lo, np.int64)
        k = 0
        for i in range(lo, hi):
            x, y = px[location[i]], py[location[i]]
            if not inside[location[i]] or at[i] < period[0] or at[i] >= period[1]:
                continue
            if k > 0:
                j = keep[k - 1]
                seconds = (at[i] - at[j]) / 1e6
                far = math.hypot(x - px[location[j]], y - py[location[j]])
                # after a long gap anything may have happened: the faulty one may be the last kept
                if seconds <= 0 or (far > fastest * seconds and at[i] - at[j] <= gap):
                    continue
            keep[k] = i
            k += 1
        # a stay: from a sample on, all within its reach for long enough
        still = np.zeros(k, np.bool_)
        a = 0
        while a < k:
            b = a
            ax, ay = px[location[keep[a]]], py[location[keep[a]]]
            while b + 1 < k:
                x, y = px[location[keep[b + 1]]], py[location[keep[b + 1]]]
                if math.hypot(x - ax, y - ay) > stay_m or at[keep[b + 1]] - at[keep[b]] > gap:
                    break
                b += 1
            if at[keep[b]] - at[keep[a]] >= stay:
                # its first and last sample end and begin the trips around it
                for i in range(a + 1, b):
                    still[i] = True
                a = b if b > a else a + 1
            else:
                a += 1
        a = 0
        while a < k:
            if still[a]:
                a += 1
                continue
            b = a
            metres = 0.0
            while b + 1 < k and not still[b + 1]:
                i, j = keep[b], keep[b + 1]
                if at[j] - at[i] > gap:
                    break
                metres += math.hypot(
                    px[location[j]] - px[location[i]], py[location[j]] - py[location[i]]
                )
                b += 1
            if b - a + 1 >= least_samples and metres >= least_m:
                for n in range(a, b + 1):
                    i = keep[n]
                    out_x[size], out_y[size] = px[location[i]], py[location[i]]
                    out_at[size] = at[i]
                    size += 1
                lengths[found] = b - a + 1
                found += 1
                trips[u - first] += 1
            a = b + 1
    return trips, lengths[:found], out_x[:size], out_y[:size], out_at[:size]


def cut_trips(
    trajectories: Trajectories,
    places: Locations,
    region: Region,
    period: Period,
    rule: TripRule | None = None,
) -> Trips:
    """Every object's trips."""
    rule = rule or TripRule()
    parts = map_ranges(
        _cut, trajectories.offsets, trajectories.offsets, trajectories.location, trajectories.at,
        places.x, places.y,
        region.holds(places.x, places.y),
        (period.begin, period.end),
        (
            rule.fastest_m_per_s, rule.gap_us, rule.stay_us, rule.stay_m, rule.least_samples,
            rule.least_m,
        ),
    )  # fmt: skip
    trips, lengths, x, y, at = joined(parts)
    return Trips(offsets_from(trips), offsets_from(lengths), x, y, at)
