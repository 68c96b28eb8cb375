"""What each object contributes to the tables: whole numbers, within public caps.

Looks at one object at a time, at public zones and bins, and at a key that was drawn. So an object that is
added or removed adds or removes its own contributions and moves nobody else's.

*Visits*: an object visits a zone in a bin if it is there at a sample, or on the straight line at constant
speed between two neighbouring samples, at one of the evenly spaced moments that are at most `STEP_M` and
`STEP_US` apart. Two samples are neighbours if they follow each other by at most the gap of the trip rule,
or are of one stay. Each zone and bin counts once for an object.

*Trips*: those of `synthesis.trips`: at least 3 samples and 1 km. Each is counted where and in the bin in
which it begins; trips that begin or end in no zone are left out. *Stays*: those of the trip rule, where and
in the bin in which they begin.

*Caps*: the contributions of an object to a table are taken in the order of a keyed hash until one of its
bounds is reached: their number, or the sum of the squares of how many lie in one bin (and other groups,
see `groups_of`). In SQL: count(*) OVER w <= most, and sum(2 * row_number - 1) OVER w <= bound, where w is
PARTITION BY object ORDER BY hash, and row_number numbers the contributions of an object and group in the
same order: the k-th of a group adds 2 k - 1 to the sum of squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.methods.counts.zones import OUTSIDE, Bins, Zones
from freqdp_db.methods.synthesis.public import MINUTE_US, Period, Region
from freqdp_db.methods.synthesis.trips import RULE, possible_samples, trips_in
from freqdp_db.methods.trips import ARRIVAL, DEPARTURE, RESTING, find_roles
from freqdp_db.model.arrays import Flags, Ints, offsets_from
from freqdp_db.model.kernels import splitmix64, stable_order
from freqdp_db.model.trajectories import Locations, Trajectories

STEP_M = 250.0
STEP_US = 10 * MINUTE_US
LENGTH_EDGES_M = (0, 2_000, 5_000, 10_000, 20_000, 50_000)
DURATION_EDGES_MIN = (0, 10, 20, 30, 60, 120)
"""Where classes of trips begin; the last of each is open."""
TRIP_CLASSES = len(LENGTH_EDGES_M) * len(DURATION_EDGES_MIN)
LONGEST_STAY_MIN = 720
"""Longer stays count as so long."""


@dataclass(frozen=True)
class Items:
    """Contributions to one table, object by object."""

    offsets: Ints
    """Object u has the items offsets[u] to offsets[u + 1] - 1."""
    bin: Ints
    zone: Ints
    """Where: of trips, where they begin."""
    to: Ints
    """Of trips: where they end; else zeros."""
    size: Ints
    """Of trips: the class of length and duration; of stays: minutes; else zeros."""
    order: NDArray[np.uint64]
    """The keyed hash."""

    def __len__(self) -> int:
        return len(self.bin)

    @property
    def counts(self) -> Ints:
        """How many each object has."""
        return np.diff(self.offsets)

    def where(self, kept: Flags) -> Items:
        owner = np.repeat(np.arange(len(self.offsets) - 1), self.counts)
        lengths = np.bincount(owner[kept], minlength=len(self.offsets) - 1)
        bin, zone, to, size = (c[kept] for c in (self.bin, self.zone, self.to, self.size))
        return Items(offsets_from(lengths), bin, zone, to, size, self.order[kept])


@dataclass(frozen=True)
class Contributions:
    visits: Items
    trips: Items
    stays: Items


def contributions_of(
    trajectories: Trajectories,
    places: Locations,
    region: Region,
    period: Period,
    zones: Zones,
    bins: Bins,
    key: np.uint64,
) -> Contributions:
    """What every object contributes, without caps."""
    side = possible_samples(trajectories, places, region, period)
    role = find_roles(side, places, RULE)
    salts = _salts(side, places, key)
    return Contributions(
        _visits(side, places, role, zones, bins, salts),
        _trips(side, places, zones, bins, salts),
        _stays(side, places, role, zones, bins, salts),
    )


def _salts(side: Trajectories, places: Locations, key: np.uint64) -> NDArray[np.uint64]:
    """A key for each object, from its own first sample: numbers of objects would shift with others."""
    first = np.minimum(side.offsets[:-1], max(side.samples - 1, 0))
    if not side.samples:
        return np.zeros(len(side), np.uint64)
    salt = np.full(len(side), key, np.uint64)
    place = side.location[first]
    for told in (side.at[first], places.x[place], places.y[place]):
        salt = _mixed(salt, np.ascontiguousarray(told).view(np.uint64))
    return salt


def _mixed(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed: NDArray[np.uint64] = splitmix64(one ^ splitmix64(other))
    return mixed


def _hashes(salt: NDArray[np.uint64], *columns: NDArray[Any]) -> NDArray[np.uint64]:
    for column in columns:
        salt = _mixed(salt, column.astype(np.int64).view(np.uint64))
    return salt


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
                        when[n + k] = at[i] + (at[i + 1] - at[i]) * k // steps if k else at[i]
                n += steps
        total = n
    return whose, x, y, when


def _visited(  # type: ignore[no-untyped-def]
    first, last, offsets, location, at, px, py, role, gap, zones: Zones, bins: Bins
) -> tuple[Ints, Ints]:
    """Objects `first` to `last` - 1: who visits which zone in which bin, each once."""
    whose, x, y, when = _looks(first, last, offsets, location, at, px, py, role, gap)
    zone, bin = zones.locate(x, y), bins.of(when)
    cell = zone.astype(np.int64) * len(bins) + bin
    inside = (zone != OUTSIDE) & (bin != OUTSIDE)
    # most moments find the object where it was: sort only what is new
    inside[1:] &= (cell[1:] != cell[:-1]) | (whose[1:] != whose[:-1])
    cells = len(zones) * len(bins)
    found = np.unique((whose[inside] - first) * cells + cell[inside])
    return found // cells + first, found % cells


def _visits(
    side: Trajectories,
    places: Locations,
    role: NDArray[np.uint8],
    zones: Zones,
    bins: Bins,
    salts: NDArray[np.uint64],
) -> Items:
    parts = map_ranges(
        _visited, side.offsets, side.offsets, side.location, side.at, places.x, places.y, role,
        RULE.gap_us, zones, bins,
    )  # fmt: skip
    whose, cell = joined(parts)
    nothing = np.zeros(len(cell), np.int64)
    return Items(
        offsets_from(np.bincount(whose, minlength=len(side))),
        cell % len(bins),
        cell // len(bins),
        nothing,
        nothing,
        _hashes(salts[whose], cell),
    )


# Trips and stays.


def _trips(
    side: Trajectories, places: Locations, zones: Zones, bins: Bins, salts: NDArray[np.uint64]
) -> Items:
    trips = trips_in(side, places)
    first, last = trips.offsets[:-1], trips.offsets[1:] - 1
    begins = trips.at[first]
    length = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(trips.x), np.diff(trips.y)))])
    metres = length[last] - length[first] if len(trips) else np.zeros(0)
    minutes = (trips.at[last] - begins) // MINUTE_US
    of_length = np.searchsorted(LENGTH_EDGES_M, metres, side="right") - 1
    of_duration = np.searchsorted(DURATION_EDGES_MIN, minutes, side="right") - 1
    whose = np.repeat(np.arange(trips.objects), np.diff(trips.by_object))
    origin = zones.locate(trips.x[first], trips.y[first]).astype(np.int64)
    destination = zones.locate(trips.x[last], trips.y[last]).astype(np.int64)
    items = Items(
        trips.by_object,
        bins.of(begins).astype(np.int64),
        origin,
        destination,
        of_length * len(DURATION_EDGES_MIN) + of_duration,
        _hashes(salts[whose], begins),
    )
    return items.where((origin != OUTSIDE) & (destination != OUTSIDE) & (items.bin != OUTSIDE))


def _stays(
    side: Trajectories,
    places: Locations,
    role: NDArray[np.uint8],
    zones: Zones,
    bins: Bins,
    salts: NDArray[np.uint64],
) -> Items:
    begins = np.flatnonzero(role == ARRIVAL)
    # a stay has at least two samples, so that each arrival has its departure
    ends = np.flatnonzero(role == DEPARTURE)
    whose = side.owner[begins].astype(np.int64)
    place = side.location[begins]
    zone = zones.locate(places.x[place], places.y[place]).astype(np.int64)
    at = side.at[begins]
    minutes = np.minimum((side.at[ends] - at) // MINUTE_US, LONGEST_STAY_MIN)
    items = Items(
        offsets_from(np.bincount(whose, minlength=len(side))),
        bins.of(at).astype(np.int64),
        zone,
        np.zeros(len(at), np.int64),
        minutes,
        _hashes(salts[whose], at),
    )
    return items.where((zone != OUTSIDE) & (items.bin != OUTSIDE))


# Caps.


@njit(nogil=True, cache=True)
def _number(order, group):  # type: ignore[no-untyped-def]
    """Of one object's items, the number of each in its group, from 1, in the order of the hash."""
    ranked = stable_order(order)
    grouped = group[ranked]
    again = stable_order(grouped)
    number = np.empty(len(order), np.int64)
    run = 0
    for k in range(len(order)):
        run = run + 1 if k > 0 and grouped[again[k]] == grouped[again[k - 1]] else 1
        number[ranked[again[k]]] = run
    return ranked, number


@njit(nogil=True, cache=True)
def _kept(first, last, offsets, order, groups, bounds, most):  # type: ignore[no-untyped-def]
    """Which items of objects `first` to `last` - 1 are counted."""
    begin = offsets[first]
    kept = np.zeros(offsets[last] - begin, np.bool_)
    for u in range(first, last):
        a, b = offsets[u], offsets[u + 1]
        counted = min(b - a, most)
        ranked = np.arange(b - a)
        for g in range(len(bounds)):
            ranked, number = _number(order[a:b], groups[g, a:b])
            squares = 0
            for k in range(counted):
                squares += 2 * number[ranked[k]] - 1
                if squares > bounds[g]:
                    counted = k
                    break
        for k in range(counted):
            kept[a - begin + ranked[k]] = True
    return (kept,)


def cap_items(items: Items, most: int, groups: list[tuple[Ints, int]]) -> Items:
    """The first items of each object, until one of its bounds is reached.

    most: how many. groups: for each bound of a sum of squares the group of every item, and the bound.
    """
    columns = np.stack([group for group, _ in groups])
    bounds = np.array([bound for _, bound in groups], np.int64)
    parts = map_ranges(_kept, items.offsets, items.offsets, items.order, columns, bounds, most)
    (kept,) = joined(parts)
    return items.where(kept)


@njit(nogil=True, cache=True)
def _squares(first, last, offsets, order, group):  # type: ignore[no-untyped-def]
    found = np.zeros(last - first, np.int64)
    for u in range(first, last):
        a, b = offsets[u], offsets[u + 1]
        _, number = _number(order[a:b], group[a:b])
        for k in range(b - a):
            found[u - first] += 2 * number[k] - 1
    return (found,)


def squares_of(items: Items, group: Ints) -> Ints:
    """Of each object, the sum of the squares of how many items its groups have."""
    parts = map_ranges(_squares, items.offsets, items.offsets, items.order, group)
    (found,) = joined(parts)
    return found


def groups_of(what: str, items: Items, zones: Zones, bins: int) -> dict[str, Ints]:
    """By which groups the contributions of an object are bounded: the group of each item."""
    district = zones.district.astype(np.int64)
    groups = {"bins": items.bin}
    if what == "stays":
        groups["districts"] = district[items.zone]
    if what == "trips":
        pair = district[items.zone] * zones.districts + district[items.to]
        groups |= {"pairs": pair * bins + items.bin, "districts": district[items.zone],
                   "ends": district[items.to]}  # fmt: skip
    return groups
