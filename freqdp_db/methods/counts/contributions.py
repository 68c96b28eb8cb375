"""The contributions of each object to the tables of counts, with weights that keep public bounds.

The contributions of an object are computed from its own samples and public inputs alone. Adding or
removing an object therefore adds or removes its own contributions and changes no other object's.

*Visits*: an object visits a zone in a time bin if it is in the zone at a sample of the bin, or at one of
the evenly spaced moments between two consecutive samples, where it is taken to move straight at constant
speed. These moments are at most `STEP_M` and `STEP_US` apart. There are none between samples that are
farther apart than the gap of the trip rule, unless both belong to the same stay. An object contributes at
most one visit to each zone and bin.

*Trips*: the trips of `synthesis.trips`, which have at least 3 samples and 1 km. A trip is counted in the
zone and bin in which it begins; trips that begin or end outside all zones are left out. *Stays*: the stays
of the trip rule, counted in the zone and bin in which they begin. *Passages*: each trip is matched to the
roads by itself, with the constant `DETOUR_M`, and passes a road when it reaches the middle of it.

*Bounds*: all contributions of an object to a table have the same weight, a whole number from 0 to `WHOLE`.
It is the largest weight with which the object keeps all bounds of the table: that of the number of its
contributions, or those of the sums of squares over groups (see `groups_of`). An object within the bounds
counts in full.
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
"""Largest distance and time between two moments at which visits are looked for."""
_BATCH_SAMPLES = 500_000
"""Visits are looked for in batches of about this many samples, which bounds the memory."""
LENGTH_EDGES_M = (0, 2_000, 5_000, 10_000, 20_000, 50_000)
DURATION_EDGES_MIN = (0, 10, 20, 30, 60, 120)
"""Lower edges of the classes of trips; the last class of each is open."""
TRIP_CLASSES = len(LENGTH_EDGES_M) * len(DURATION_EDGES_MIN)
LONGEST_STAY_MIN = 720
"""Minutes. Longer stays count as this long."""
FASTEST_KMH = 120
"""Km/h. Higher speeds count as this speed."""
DETOUR_M = 100.0
"""Scale of detours in metres, for map matching. A constant: fitted, it would depend on all objects."""
WHOLE = 16
"""Weight of a contribution that counts in full. Measured sums are in units of 1 / WHOLE."""


@dataclass(frozen=True)
class Items:
    """Contributions of one kind, object by object."""

    offsets: Ints
    """Object u has the items offsets[u] to offsets[u + 1] - 1."""
    bin: Ids
    """Time bin of each item."""
    zone: Ids
    """Zone of each item: for trips that of the begin; for passages, the road instead."""
    to: Ids
    """Zone in which a trip ends; zeros for other kinds."""
    size: Ids
    """Trips: class of length and duration. Stays: minutes. Passages: km/h. Zeros for visits."""
    part: Ints
    """Weight of the items of each object, one number for each object; WHOLE: they count in full."""

    def __len__(self) -> int:
        return len(self.bin)

    @property
    def counts(self) -> Ints:
        """Number of items of each object."""
        return np.diff(self.offsets)

    @property
    def parts(self) -> Ints:
        """Weight of each item, in units of 1 / WHOLE."""
        return np.repeat(self.part, self.counts)

    def cells(self, bins: int) -> Ints:
        """The cell of each item: zone * bins + bin."""
        cell = self.zone.astype(np.int64)
        cell *= bins
        cell += self.bin
        return cell

    def where(self, kept: Flags) -> Items:
        """Only these items."""
        owner = np.repeat(np.arange(len(self.offsets) - 1), self.counts)
        lengths = np.bincount(owner[kept], minlength=len(self.offsets) - 1)
        bin, zone, to, size = (c[kept] for c in (self.bin, self.zone, self.to, self.size))
        return Items(offsets_from(lengths), bin, zone, to, size, self.part)


def _zero_columns(count: int) -> tuple[Ids, Ids]:
    """Two columns of zeros that share one number, so that they take no memory."""
    zeros = np.broadcast_to(np.int32(0), count)
    return zeros, zeros


def sorted_once(numbers: Ints) -> Ints:
    """The distinct numbers, ascending. For millions of numbers np.unique is several times slower."""
    numbers = np.sort(numbers)
    return numbers[new_rows(numbers)] if len(numbers) else numbers


def _items(offsets: Ints, bin: Ids, zone: Ids, to: Ids, size: Ids) -> Items:
    """Items that all count in full."""
    return Items(offsets, bin, zone, to, size, np.full(len(offsets) - 1, WHOLE, np.int64))


@dataclass(frozen=True)
class Contributions:
    """The contributions of all objects, by kind."""

    visits: Items
    trips: Items
    stays: Items
    passages: Items
    """Empty if the release has no roads."""


def contributions_of(
    trajectories: Trajectories,
    places: Locations,
    region: Region,
    period: Period,
    zones: Zones,
    bins: Bins,
    roads: Roads | None = None,
) -> Contributions:
    """The contributions of every object. All count in full: bounds are applied later."""
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
def _moments(first, last, offsets, location, at, px, py, role, gap):  # type: ignore[no-untyped-def]
    """Object, x, y and time of each moment at which visits of objects `first` to `last` - 1 are looked
    for."""
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
                duration = np.int64(0)
                a = location[i]
                b = a
                if i + 1 < offsets[u + 1]:
                    resting = (role[i] == ARRIVAL or role[i] == RESTING) and (
                        role[i + 1] == RESTING or role[i + 1] == DEPARTURE
                    )
                    duration = at[i + 1] - at[i]
                    if resting or duration <= gap:
                        b = location[i + 1]
                        far = math.hypot(px[b] - px[a], py[b] - py[a])
                        steps = max(
                            np.int64(math.ceil(far / STEP_M)),
                            (duration + STEP_US - 1) // STEP_US,
                            1,
                        )
                if fill == 1:
                    for k in range(steps):
                        part = k / steps
                        whose[n + k] = u
                        x[n + k] = px[a] + part * (px[b] - px[a])
                        y[n + k] = py[a] + part * (py[b] - py[a])
                        # duration * k // steps, without overflow if the object rests for years
                        whole, rest = duration // steps, duration % steps
                        when[n + k] = at[i] + whole * k + rest * k // steps
                n += steps
        total = n
    return whose, x, y, when


def _visited(  # type: ignore[no-untyped-def]
    first, last, offsets, location, at, px, py, role, gap, zones: Zones, bins: Bins
) -> tuple[Ints, Ids, Ids]:
    """Visits of objects `first` to `last` - 1: how many each has, then zone and bin of each visit."""
    cells, found = len(zones) * len(bins), [np.zeros(0, np.int64)]
    begin = first
    while begin < last:
        # whole objects, in batches that limit the number of moments in memory
        end = int(np.searchsorted(offsets, offsets[begin] + _BATCH_SAMPLES, side="right")) - 1
        end = min(max(end, begin + 1), last)
        whose, x, y, when = _moments(begin, end, offsets, location, at, px, py, role, gap)
        zone, bin = zones.locate(x, y), bins.of(when)
        cell = zone.astype(np.int64) * len(bins) + bin
        inside = (zone != OUTSIDE) & (bin != OUTSIDE)
        # most moments repeat the one before; only the others have to be sorted
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
    return _items(offsets_from(of_each), bin, zone, *_zero_columns(len(zone)))


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
        _zero_columns(len(road))[0],
        kmh.astype(np.int32),
    )
    return items.where((road != OUTSIDE) & (items.bin != OUTSIDE))


# Bounds.


def squares_of(items: Items, group: NDArray[Any]) -> Ints:
    """For each object, the sum over its groups of the squared number of items. group: that of each item."""
    objects = len(items.offsets) - 1
    groups = np.int64(group.max(initial=0)) + 1
    number = np.repeat(np.arange(objects), items.counts) * groups + group
    number.sort()
    first = np.flatnonzero(new_rows(number))
    count = np.diff(first, append=len(number))
    # sums of whole numbers below 2^53: exact
    return np.bincount(number[first] // groups, count**2, objects).astype(np.int64)


def within_squares(items: Items, limits: list[tuple[Ints, int]]) -> Items:
    """The items with the largest weights w that keep all bounds: w^2 * squares <= WHOLE^2 * bound.

    limits: pairs of a sum of squares for each object, and its bound.
    """
    part = items.part
    for squares, bound in limits:
        part = np.minimum(part, _whole_root(WHOLE**2 * bound // np.maximum(squares, 1)))
    return replace(items, part=part)


def within_number(items: Items, most: int) -> Items:
    """The items with the largest weights w that keep the bound of their number: w * number <= WHOLE *
    most."""
    part = WHOLE * most // np.maximum(items.counts, 1)
    return replace(items, part=np.minimum(items.part, part))


def _whole_root(squares: Ints) -> Ints:
    """Rounded-down square roots, at most WHOLE."""
    return np.searchsorted(np.arange(1, WHOLE + 1) ** 2, squares, side="right").astype(np.int64)


def groups_of(
    what: str, items: Items, zones: Zones, bins: int, roads: Roads | None = None
) -> dict[str, NDArray[Any]]:
    """The groupings by which contributions of a kind are bounded: by name, the group of each item."""
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
