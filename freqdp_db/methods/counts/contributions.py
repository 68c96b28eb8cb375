"""What each object contributes to the tables: whole numbers, within public bounds.

Looks at one object at a time, and at public zones and bins. So an object that is added or removed adds or
removes its own contributions and moves nobody else's.

*Visits*: an object visits a zone in a bin if it is there at a sample, or on the straight line at constant
speed between two neighbouring samples, at one of the evenly spaced moments that are at most `STEP_M` and
`STEP_US` apart. Two samples are neighbours if they follow each other by at most the gap of the trip rule,
or are of one stay. Each zone and bin counts once for an object.

*Trips*: those of `synthesis.trips`: at least 3 samples and 1 km. Each is counted where and in the bin in
which it begins; trips that begin or end in no zone are left out. *Stays*: those of the trip rule, where and
in the bin in which they begin. *Passages*: each trip is put on the roads by itself, with the same
`DETOUR_M` for all, and passes a road when it comes to the middle of it.

*Bounds*: each contribution of an object to a table counts for the same part of 1, a whole number of
`1 / WHOLE`. It is the largest with which the object keeps all bounds of the table: of how many it has in
all, or of sums of the squares of how many it has in each group (see `groups_of`). An object within the
bounds counts in full.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.methods.counts.zones import OUTSIDE, Bins, Roads, Zones
from freqdp_db.methods.synthesis.public import MINUTE_US, Period, Region
from freqdp_db.methods.synthesis.trips import (
    RULE,
    Trips,
    metres_of_trips,
    possible_samples,
    trips_in,
)
from freqdp_db.methods.trips import ARRIVAL, DEPARTURE, RESTING, find_roles
from freqdp_db.model.arrays import Flags, Ids, Ints, new_rows, offsets_from
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.roads.matching import find_passages

STEP_M = 250.0
STEP_US = 10 * MINUTE_US
_AT_ONCE = 500_000
"""Samples whose visits are found at a time."""
LENGTH_EDGES_M = (0, 2_000, 5_000, 10_000, 20_000, 50_000)
DURATION_EDGES_MIN = (0, 10, 20, 30, 60, 120)
"""Where classes of trips begin; the last of each is open."""
TRIP_CLASSES = len(LENGTH_EDGES_M) * len(DURATION_EDGES_MIN)
LONGEST_STAY_MIN = 720
"""Longer stays count as so long."""
FASTEST_KMH = 120
"""Who is faster counts as so fast."""
DETOUR_M = 100.0
"""How far ways are from straight: the scale of detours, which map matching else fits to all objects."""
WHOLE = 16
"""What is measured counts in parts of 1 / WHOLE."""


@dataclass(frozen=True)
class Items:
    """Contributions to one table, object by object."""

    offsets: Ints
    """Object u has the items offsets[u] to offsets[u + 1] - 1."""
    bin: Ids
    zone: Ids
    """Where: of trips, where they begin; of passages, which road."""
    to: Ids
    """Of trips: where they end; else zeros."""
    size: Ids
    """Of trips: the class of length and duration; of stays: minutes; of passages: km/h; else zeros."""
    part: Ints
    """For how much each item of an object counts: a number for each object, WHOLE for 1."""

    def __len__(self) -> int:
        return len(self.bin)

    @property
    def counts(self) -> Ints:
        """How many each object has."""
        return np.diff(self.offsets)

    @property
    def parts(self) -> Ints:
        """For how much each item counts, in parts of 1 / WHOLE."""
        return np.repeat(self.part, self.counts)

    def cells(self, bins: int) -> Ints:
        """zone * bins + bin of each item."""
        cell = self.zone.astype(np.int64)
        cell *= bins
        cell += self.bin
        return cell

    def where(self, kept: Flags) -> Items:
        owner = np.repeat(np.arange(len(self.offsets) - 1), self.counts)
        lengths = np.bincount(owner[kept], minlength=len(self.offsets) - 1)
        bin, zone, to, size = (c[kept] for c in (self.bin, self.zone, self.to, self.size))
        return Items(offsets_from(lengths), bin, zone, to, size, self.part)


def _nothing(count: int) -> tuple[Ids, Ids]:
    """Two columns of zeros, which take no memory."""
    zeros = np.broadcast_to(np.int32(0), count)
    return zeros, zeros


def sorted_once(numbers: Ints) -> Ints:
    """In order, each once. (For millions of them, np.unique takes several times as long.)"""
    numbers = np.sort(numbers)
    return numbers[new_rows(numbers)] if len(numbers) else numbers


def _items(offsets: Ints, bin: Ids, zone: Ids, to: Ids, size: Ids) -> Items:
    """All in full."""
    return Items(offsets, bin, zone, to, size, np.full(len(offsets) - 1, WHOLE, np.int64))


@dataclass(frozen=True)
class Contributions:
    visits: Items
    trips: Items
    stays: Items
    passages: Items
    """None of anybody where no roads were asked for."""


def contributions_of(
    trajectories: Trajectories,
    places: Locations,
    region: Region,
    period: Period,
    zones: Zones,
    bins: Bins,
    roads: Roads | None = None,
) -> Contributions:
    """What every object contributes, all of it in full."""
    side = possible_samples(trajectories, places, region, period)
    role = find_roles(side, places, RULE)
    trips = trips_in(side, places)
    return Contributions(
        _visits(side, places, role, zones, bins),
        _trips(trips, zones, bins),
        _stays(side, places, role, zones, bins),
        _passages(trips, roads, bins),
    )


# Visits.


@njit(nogil=True, cache=True)
def _looks(first, last, offsets, location, at, px, py, role, gap):  # type: ignore[no-untyped-def]
    """The moments at which objects are looked at: whose, where and when."""
    total = 0
    for fill in range(2):
        if fill == 1:
            whose = np.empty(total, np.int64)
            x, y = np.empty(total), np.empty(total)
            when = np.empty(total, np.int64)
        n = 0
        for u in range(first, last):
            for i in range(offsets[u], offsets[u + 1]):
                steps = 1
                lasts = np.int64(0)
                a = location[i]
                b = a
                if i + 1 < offsets[u + 1]:
                    resting = (role[i] == ARRIVAL or role[i] == RESTING) and (
                        role[i + 1] == RESTING or role[i + 1] == DEPARTURE
                    )
                    lasts = at[i + 1] - at[i]
                    if resting or lasts <= gap:
                        b = location[i + 1]
                        far = math.hypot(px[b] - px[a], py[b] - py[a])
                        steps = max(
                            np.int64(math.ceil(far / STEP_M)),
                            (lasts + STEP_US - 1) // STEP_US,
                            1,
                        )
                if fill == 1:
                    for k in range(steps):
                        part = k / steps
                        whose[n + k] = u
                        x[n + k] = px[a] + part * (px[b] - px[a])
                        y[n + k] = py[a] + part * (py[b] - py[a])
                        # lasts * k // steps, which years of rest would overflow
                        whole, rest = lasts // steps, lasts % steps
                        when[n + k] = at[i] + whole * k + rest * k // steps
                n += steps
        total = n
    return whose, x, y, when


def _visited(  # type: ignore[no-untyped-def]
    first, last, offsets, location, at, px, py, role, gap, zones: Zones, bins: Bins
) -> tuple[Ints, Ids, Ids]:
    """Objects `first` to `last` - 1: how many visits each has; which zones in which bins, each once."""
    cells, found = len(zones) * len(bins), [np.zeros(0, np.int64)]
    begin = first
    while begin < last:
        # there are many moments: those of some objects at a time
        end = int(np.searchsorted(offsets, offsets[begin] + _AT_ONCE, side="right")) - 1
        end = min(max(end, begin + 1), last)
        whose, x, y, when = _looks(begin, end, offsets, location, at, px, py, role, gap)
        zone, bin = zones.locate(x, y), bins.of(when)
        cell = zone.astype(np.int64) * len(bins) + bin
        inside = (zone != OUTSIDE) & (bin != OUTSIDE)
        # most moments find the object where it was: sort only what is new
        inside[1:] &= (cell[1:] != cell[:-1]) | (whose[1:] != whose[:-1])
        found.append(sorted_once((whose[inside] - first) * cells + cell[inside]))
        begin = end
    whose, cell = np.divmod(np.concatenate(found), cells)
    zone, bin = np.divmod(cell, len(bins))
    of_each = np.bincount(whose, minlength=last - first)
    return of_each, zone.astype(np.int32), bin.astype(np.int32)


def _visits(
    side: Trajectories,
    places: Locations,
    role: NDArray[np.uint8],
    zones: Zones,
    bins: Bins,
) -> Items:
    parts = map_ranges(
        _visited, side.offsets, side.offsets, side.location, side.at, places.x, places.y, role,
        RULE.gap_us, zones, bins,
    )  # fmt: skip
    of_each, zone, bin = joined(parts)
    return _items(offsets_from(of_each), bin, zone, *_nothing(len(zone)))


# Trips, stays and passages.


def _trips(trips: Trips, zones: Zones, bins: Bins) -> Items:
    first, last = trips.offsets[:-1], trips.offsets[1:] - 1
    begins = trips.at[first]
    metres = metres_of_trips(trips.offsets, trips.x, trips.y)
    minutes = (trips.at[last] - begins) // MINUTE_US
    of_length = np.searchsorted(LENGTH_EDGES_M, metres, side="right") - 1
    of_duration = np.searchsorted(DURATION_EDGES_MIN, minutes, side="right") - 1
    origin = zones.locate(trips.x[first], trips.y[first])
    destination = zones.locate(trips.x[last], trips.y[last])
    items = _items(
        trips.by_object,
        bins.of(begins),
        origin,
        destination,
        (of_length * len(DURATION_EDGES_MIN) + of_duration).astype(np.int32),
    )
    return items.where((origin != OUTSIDE) & (destination != OUTSIDE) & (items.bin != OUTSIDE))


def _stays(
    side: Trajectories,
    places: Locations,
    role: NDArray[np.uint8],
    zones: Zones,
    bins: Bins,
) -> Items:
    begins = np.flatnonzero(role == ARRIVAL)
    # a stay has at least two samples, so that each arrival has its departure
    ends = np.flatnonzero(role == DEPARTURE)
    whose = side.owner[begins].astype(np.int64)
    place = side.location[begins]
    zone = zones.locate(places.x[place], places.y[place])
    at = side.at[begins]
    minutes = np.minimum((side.at[ends] - at) // MINUTE_US, LONGEST_STAY_MIN)
    items = _items(
        offsets_from(np.bincount(whose, minlength=len(side))),
        bins.of(at),
        zone,
        np.zeros(len(at), np.int32),
        minutes.astype(np.int32),
    )
    return items.where((zone != OUTSIDE) & (items.bin != OUTSIDE))


def _passages(trips: Trips, roads: Roads | None, bins: Bins) -> Items:
    if roads is None:
        nothing = np.zeros(0, np.int32)
        return _items(np.zeros(trips.objects + 1, np.int64), nothing, nothing, nothing, nothing)
    # samples that follow each other at one place are one place to be matched
    still = (np.diff(trips.x) == 0) & (np.diff(trips.y) == 0)
    place = np.arange(len(trips.x), dtype=np.int32)
    place[1:][still] = 0
    place = np.maximum.accumulate(place)
    found = find_passages(
        roads.network,
        Trajectories(trips.offsets, place, trips.at, trips.at[trips.offsets[:-1]]),
        Locations(trips.x, trips.y),
        DETOUR_M,
    )
    road, kmh = roads.number[found.road], np.minimum(np.rint(3.6 * found.speed), FASTEST_KMH)
    items = _items(
        found.offsets[trips.by_object],
        bins.of(found.at),
        road,
        _nothing(len(road))[0],
        kmh.astype(np.int32),
    )
    return items.where((road != OUTSIDE) & (items.bin != OUTSIDE))


# Bounds.


@njit(nogil=True, cache=True)
def _squares(first, last, offsets, group):  # type: ignore[no-untyped-def]
    found = np.zeros(last - first, np.int64)
    for u in range(first, last):
        mine = np.sort(group[offsets[u] : offsets[u + 1]])
        run = 0
        for k in range(len(mine)):
            run = run + 1 if k > 0 and mine[k] == mine[k - 1] else 1
            # one more in a group of run - 1
            found[u - first] += 2 * run - 1
    return (found,)


def squares_of(items: Items, group: NDArray[Any]) -> Ints:
    """Of each object, the sum of the squares of how many items its groups have."""
    parts = map_ranges(_squares, items.offsets, items.offsets, group)
    (found,) = joined(parts)
    return found


def within_squares(items: Items, limits: list[tuple[Ints, int]]) -> Items:
    """With the largest parts p that keep every bound b of a sum of squares s: p^2 s <= WHOLE^2 b."""
    part = items.part
    for squares, bound in limits:
        part = np.minimum(part, _whole_root(WHOLE**2 * bound // np.maximum(squares, 1)))
    return replace(items, part=part)


def within_number(items: Items, most: int) -> Items:
    """With the largest parts p that keep the bound of the number n of items: p n <= WHOLE most."""
    part = WHOLE * most // np.maximum(items.counts, 1)
    return replace(items, part=np.minimum(items.part, part))


def _whole_root(squares: Ints) -> Ints:
    """The largest whole number up to WHOLE whose square is not larger."""
    return np.searchsorted(np.arange(1, WHOLE + 1) ** 2, squares, side="right").astype(np.int64)


def groups_of(
    what: str, items: Items, zones: Zones, bins: int, roads: Roads | None = None
) -> dict[str, NDArray[Any]]:
    """By which groups the contributions of an object are bounded: the group of each item."""
    if what == "passages":
        if roads is None:
            return {}
        district = roads.district[items.zone].astype(np.int64)
        return {
            "cells": items.cells(bins),
            "roads": items.zone,
            "areas": district * bins + items.bin,
            "districts": district,
        }
    district = zones.district.astype(np.int64)
    groups: dict[str, NDArray[Any]] = {"bins": items.bin}
    if what == "visits":
        groups["zones"] = items.zone
    if what == "stays":
        groups["districts"] = district[items.zone]
    if what == "trips":
        begin, end = district[items.zone], district[items.to]
        groups |= {
            "departs": begin * bins + items.bin,
            "arrives": end * bins + items.bin,
            "districts": begin,
            "ends": end,
            "reaches": zones.distance_classes()[begin * zones.districts + end],
        }
    return groups
