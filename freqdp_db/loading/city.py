"""A made-up city whose inhabitants move along its roads, sampled as real devices would.

Everything follows from one random generator: the same seed gives the same rows. Objects are
simulated in batches of their own seeds, so that memory stays bounded and any batch can be made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from freqdp_db.errors import BadInput
from freqdp_db.loading.files import NO_TIME, SourceSamples
from freqdp_db.loading.network import Floats, Ints, StreetNetwork, make_network, to_degrees
from freqdp_db.model.arrays import offsets_from, owners
from freqdp_db.roads.router import DestinationTrees, Paths

# Who goes where, and when: daily routines of people, shifts of taxis, as tables of trips.
#
# Both kinds are planned as a fixed number of slots per object, each with a destination (or none),
# the earliest and latest time to leave, and the least stay before leaving. One pass over the slots,
# for all objects at once, turns plans into trips that follow each other in time.


HOUR = 3_600.0
DAY = 86_400.0
_HOTSPOTS = 60
_ADDRESSES = 500
_TAXI_SLOTS = 36
_PERSON_SLOTS = 7


@dataclass(frozen=True)
class Places:
    """Junctions with a meaning; popularity falls with the rank, as in real cities."""

    hotspots: Ints
    popularity: Floats
    addresses: Ints
    homes: Floats
    """For each junction, how likely somebody lives there."""


@dataclass(frozen=True)
class DayPlans:
    """One row per object, one column per slot; destination -1 means no trip."""

    start: Ints
    destination: Ints
    earliest: Floats
    latest: Floats
    stay: Floats


@dataclass(frozen=True)
class PlannedTrips:
    """Trips that happen, by object and time. `pace` stretches free-flow travel times."""

    object: Ints
    origin: Ints
    destination: Ints
    leave: Floats
    arrive: Floats
    pace: Floats


def make_places(network: StreetNetwork, rng: np.random.Generator) -> Places:
    radius = np.hypot(network.x, network.y)
    nodes = len(radius)
    main = np.zeros(nodes, bool)
    main[network.source[network.kind > 0]] = True
    central = np.exp(-radius / 2_200) * np.where(main, 3.0, 1.0)
    homes = np.where(main, 0.3, 1.0) * (0.3 + np.minimum(radius / 2_500, 1.2))
    popularity = 1 / np.arange(1, _HOTSPOTS + 1) ** 0.9
    return Places(
        rng.choice(nodes, _HOTSPOTS, replace=False, p=central / central.sum()),
        popularity / popularity.sum(),
        rng.choice(nodes, min(_ADDRESSES, nodes), replace=False),
        homes / homes.sum(),
    )


def plan_people(places: Places, count: int, days: int, rng: np.random.Generator) -> DayPlans:
    """Commuters: work on weekdays, errands after it, other errands at weekends, home at night."""
    nodes = len(places.homes)
    home = rng.choice(nodes, count, p=places.homes)
    at_hotspot = rng.random(count) < 0.7
    work = np.where(at_hotspot, _hotspots(places, count, rng), rng.choice(places.addresses, count))
    works = rng.random(count) < 0.85
    favourites = np.column_stack(
        [_hotspots(places, (count, 2), rng), rng.choice(nodes, (count, 2))]
    )
    rises = rng.normal(8.0, 0.8, count)

    shape = (count, days, _PERSON_SLOTS)
    destination = np.full(shape, -1)
    earliest = np.zeros(shape)
    stay = np.full(shape, 300.0)
    weekday = (np.arange(days) % 7) < 5
    working = works[:, None] & weekday[None, :] & (rng.random((count, days)) < 0.93)

    def errand(slot: int, chance: NDArray[np.float64]) -> None:
        pick = rng.choice(4, (count, days), p=(0.4, 0.25, 0.2, 0.15))
        goes = rng.random((count, days)) < chance
        where = favourites[np.arange(count)[:, None], pick]
        destination[:, :, slot] = np.where(goes, where, -1)

    def around(hour: NDArray[np.float64] | float, spread: float) -> Floats:
        drawn: Floats = np.asarray(hour) + rng.normal(0, spread, (count, days))
        return drawn

    destination[:, :, 0] = np.where(working, work[:, None], -1)
    earliest[:, :, 0] = around(rises[:, None], 0.3)
    errand(1, np.where(working, 0.15, 0.65))
    earliest[:, :, 1] = np.where(working, around(12.2, 0.3), around(11.0, 1.5))
    destination[:, :, 2] = np.where(working, work[:, None], -1)
    earliest[:, :, 2] = around(13.0, 0.2)
    errand(3, np.where(working, 0.35, 0.4))
    earliest[:, :, 3] = np.where(working, around(rises[:, None] + 9.1, 0.6), around(15.5, 1.5))
    stay[:, :, 3] = 1_800
    destination[:, :, 4] = home[:, None]
    earliest[:, :, 4] = np.where(working, around(rises[:, None] + 9.2, 0.6), 0.0)
    stay[:, :, 4] = 600 + rng.exponential(2_400, (count, days))
    errand(5, np.full((count, days), 0.16))
    earliest[:, :, 5] = around(20.0, 0.6)
    destination[:, :, 6] = home[:, None]
    stay[:, :, 6] = 3_600 + rng.exponential(3_600, (count, days))
    earliest = np.clip(earliest, 0.05, 23.5) * HOUR + (np.arange(days) * DAY)[None, :, None]
    # Errands wait for nobody; going home always happens, however late.
    latest = earliest + 4 * HOUR
    latest[:, :, [4, 6]] = np.inf
    return _plans(home, destination, earliest, latest, stay)


def plan_taxis(places: Places, count: int, days: int, rng: np.random.Generator) -> DayPlans:
    """Taxis: one fare after the other through a shift, with waits at the stands between."""
    shape = (count, days, _TAXI_SLOTS)
    popular = rng.random(shape) < 0.6
    destination = np.where(
        popular, _hotspots(places, shape, rng), rng.choice(places.addresses, shape)
    )
    night = rng.random(count) < 0.35
    begins = np.where(night, 15.5, 6.0)[:, None] + rng.normal(0, 0.4, (count, days))
    off = rng.random((count, days)) < 0.1
    begin = begins * HOUR + np.arange(days) * DAY
    earliest = np.broadcast_to(begin[:, :, None], shape)
    end = np.where(off, -1.0, begin + 11 * HOUR)
    latest = np.broadcast_to(end[:, :, None], shape)
    stand = rng.random(shape) < 0.15
    stay = 60 + rng.exponential(np.where(stand, 1_200.0, 240.0))
    start = rng.choice(places.addresses, count)
    return _plans(start, destination, earliest, latest, stay)


def carry_out(
    plans: DayPlans, ways: DestinationTrees, days: int, rng: np.random.Generator
) -> PlannedTrips:
    """Follow the plans slot by slot; a trip starts where the last one ended, after it."""
    ways.prepare(plans.destination)
    count, slots = plans.destination.shape
    here = plans.start.copy()
    free = np.zeros(count)
    habit = np.exp(rng.normal(0, 0.08, count))
    columns: list[tuple[NDArray[np.generic], ...]] = []
    everyone = np.arange(count)
    for slot in range(slots):
        destination = plans.destination[:, slot]
        leave = np.maximum(plans.earliest[:, slot], free + plans.stay[:, slot])
        # Nobody leaves in the last half hour, so that every trip ends within the days asked for.
        goes = (destination >= 0) & (destination != here)
        goes &= (leave < plans.latest[:, slot]) & (leave < days * DAY - HOUR)
        pace = _traffic(leave) * habit * np.exp(rng.normal(0, 0.06, count))
        who = everyone[goes]
        travel = ways.costs(here[who], destination[who]) * pace[who]
        columns.append(
            (who, here[who], destination[who], leave[who], leave[who] + travel, pace[who])
        )
        free[who] = leave[who] + travel
        here[who] = destination[who]
    flat = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
    order = np.lexsort((flat[3], flat[0]))
    return PlannedTrips(*(column[order] for column in flat))


def _plans(start: Ints, destination: Ints, *times: Floats) -> DayPlans:
    """Days and slots of a day become one row of slots; it may have no objects at all."""
    shape = (len(start), destination.shape[1] * destination.shape[2])
    return DayPlans(start, destination.reshape(shape), *(t.reshape(shape) for t in times))


def _hotspots(places: Places, size: int | tuple[int, ...], rng: np.random.Generator) -> Ints:
    chosen: Ints = rng.choice(places.hotspots, size, p=places.popularity)
    return chosen


def _traffic(at: Floats) -> Floats:
    """How much longer a trip takes at that time: rush hours on weekdays, empty nights."""
    hour = at % DAY / HOUR
    weekday = (at // DAY) % 7 < 5
    rush = np.exp(-(((hour - 8.2) / 1.1) ** 2)) + np.exp(-(((hour - 17.6) / 1.3) ** 2))
    quiet = np.where((hour < 6) | (hour > 22), 0.9, 1.1)
    return np.asarray(quiet + np.where(weekday, 0.5, 0.1) * rush)


# Points of interest of a made-up city: what there is at its places, by category.
#
# Each category is partly where many go, near the hotspots, and partly where people live: offices and
# hotels are nearly all where many go, schools and clinics everywhere.


_FOR_EACH_JUNCTION = 1.2
_FROM_HOTSPOT_M, _FROM_JUNCTION_M = 220.0, 45.0
# category: share of all points, and how much of it is near hotspots
_CATEGORIES = {
    "shop": (0.26, 0.5),
    "restaurant": (0.19, 0.6),
    "office": (0.17, 0.8),
    "school": (0.10, 0.15),
    "clinic": (0.08, 0.25),
    "sport": (0.08, 0.2),
    "culture": (0.07, 0.7),
    "hotel": (0.05, 0.85),
}


@dataclass(frozen=True)
class Interest:
    """Points in degrees with a category each, in no order that tells anything."""

    lon: Floats
    lat: Floats
    category: NDArray[np.bytes_]


def make_interest(network: StreetNetwork, places: Places, rng: np.random.Generator) -> Interest:
    count = round(_FOR_EACH_JUNCTION * len(network.x))
    shares = np.array([share for share, _ in _CATEGORIES.values()])
    category = rng.choice(len(shares), count, p=shares)
    crowded = rng.random(count) < np.array([near for _, near in _CATEGORIES.values()])[category]
    hotspot = rng.choice(places.hotspots, count, p=places.popularity)
    at = np.where(crowded, hotspot, rng.choice(len(network.x), count, p=places.homes))
    spread = np.where(crowded, _FROM_HOTSPOT_M, _FROM_JUNCTION_M)
    x, y = (side[at] + rng.normal(0, spread) for side in (network.x, network.y))
    lon, lat = to_degrees(x, y)
    names = np.array(list(_CATEGORIES), dtype="S")
    return Interest(np.round(lon, 7), np.round(lat, 7), names[category])


# Unusable rows in small known shares, so that a build of the demo has something to leave out.


SHARES = {
    "no place": 0.002,
    "no time": 0.0005,
    "null island": 0.002,
    "out of range": 0.001,
    "exact repeat": 0.005,
    "same instant": 0.003,
}
"""Share of the clean rows that get a dirty row right after them, by kind of dirt."""


def add_unusable_rows(
    samples: SourceSamples, rng: np.random.Generator
) -> tuple[SourceSamples, dict[str, int]]:
    """Put dirty rows in between. The clean ones all stay, so the truth stays complete."""
    clean = len(samples)
    draw = rng.random(clean)
    bounds = np.cumsum([0.0, *SHARES.values()])
    picks = [np.flatnonzero((draw >= a) & (draw < b)) for a, b in pairwise(bounds)]
    rows = np.concatenate([np.arange(clean), *picks])
    kind = np.concatenate(
        [np.zeros(clean, int), *(np.full(len(p), i + 1) for i, p in enumerate(picks))]
    )
    order = np.lexsort((kind, rows))
    mixed = samples.take(rows[order])
    kind = kind[order]
    at, x, y = mixed.at_us.copy(), mixed.x.copy(), mixed.y.copy()

    def of(name: str) -> NDArray[np.bool_]:
        wanted: NDArray[np.bool_] = kind == list(SHARES).index(name) + 1
        return wanted

    # A row that is dirty in its place has a time of its own: it must not also be a repeat.
    displaced = of("no place") | of("null island") | of("out of range")
    at[displaced] += 7_000_000
    x[of("no place")] = y[of("no place")] = np.nan
    at[of("no time")] = NO_TIME
    x[of("null island")] = y[of("null island")] = 0.0
    y[of("out of range")] += 90.0
    x[of("same instant")] += 0.0004
    counts = {name: len(pick) for name, pick in zip(SHARES, picks, strict=True)}
    return replace(mixed, at_us=at, x=x, y=y), counts


BATCH = 400
TAXI_SHARE = 0.1
GPS_SIGMA_M = 8.0
# Monday, 4 March 2024, midnight in the city (UTC+1).
START = datetime(2024, 3, 3, 23, tzinfo=UTC)
_START_S = int(START.timestamp())
_ASLEEP_AFTER_S = (1_200.0, 3_600.0)
"""A parked person's device falls silent after this long; a taxi's later."""


@dataclass(frozen=True)
class Chunk:
    """Some objects' rows, in the order of the table."""

    objects: int
    samples: SourceSamples
    dirt: dict[str, int]
    """How many unusable rows were put in, by reason."""


class City:
    """The network, the places, what there is, and the cast; `chunks` plays it, as often as asked."""

    def __init__(self, objects: int, days: int, rng: np.random.Generator) -> None:
        for option, value, most in (("[[objects]]", objects, 1_000_000), ("[[days]]", days, 366)):
            if not 1 <= value <= most:
                raise BadInput(
                    f"{option} {value} is not possible", remedy=f"give a number from 1 to {most:,}"
                )
        self.days = days
        # a generator of their own: what moves is the same with and without them
        (own,) = rng.spawn(1)
        self.network = make_network(rng)
        self.places = make_places(self.network, rng)
        self.interest = make_interest(self.network, self.places, own)
        self._ways = DestinationTrees(self.network.graph)
        taxis = round(objects * TAXI_SHARE)
        width = max(4, len(str(objects)))
        names = [f"taxi-{i:0{width}}" for i in range(1, taxis + 1)]
        names += [f"person-{i:0{width}}" for i in range(1, objects - taxis + 1)]
        # Real tables do not come sorted by kind.
        order = rng.permutation(objects)
        self._names = np.array(names, dtype="S")[order]
        self._taxi = order < taxis
        self._seeds = rng.integers(2**63, size=-(-objects // BATCH))

    def chunks(self) -> Iterator[Chunk]:
        """Batch after batch; an object's rows are together and in time order."""
        for batch, seed in enumerate(self._seeds):
            part = slice(batch * BATCH, (batch + 1) * BATCH)
            yield self._play(self._names[part], self._taxi[part], np.random.default_rng(seed))

    def _play(
        self, names: NDArray[np.bytes_], taxi: NDArray[np.bool_], rng: np.random.Generator
    ) -> Chunk:
        people = plan_people(self.places, int((~taxi).sum()), self.days, rng)
        taxis = plan_taxis(self.places, int(taxi.sum()), self.days, rng)
        parts: list[SourceSamples] = []
        for plans, who in ((people, np.flatnonzero(~taxi)), (taxis, np.flatnonzero(taxi))):
            if not len(who):
                continue
            trips = carry_out(plans, self._ways, self.days, rng)
            paths = self._ways.paths(trips.origin, trips.destination)
            asleep = _ASLEEP_AFTER_S[int(taxi[who[0]])]
            owner, at, x, y, speed = self._record(trips, paths, plans.start, asleep, rng)
            order = np.lexsort((at, owner))
            owner, at = owner[order], at[order]
            x, y, speed = x[order], y[order], speed[order]
            kept = _without_outages(owner, at, len(who), self.days, rng)
            lon, lat = to_degrees(x[kept], y[kept])
            # Receivers give seven decimals, a centimetre.
            lon, lat = np.round(lon, 7), np.round(lat, 7)
            at_us = (at[kept].astype(np.int64) + _START_S) * 1_000_000
            parts.append(
                SourceSamples(
                    who[owner[kept]], at_us, lon, lat, {"speed_kmh": np.round(speed[kept], 1)}
                )
            )
        samples = _in_order(parts)
        samples, dirt = add_unusable_rows(samples, rng)
        named = replace(samples, object_id=names[samples.object_id])
        return Chunk(len(names), named, dirt)

    def _record(
        self,
        trips: PlannedTrips,
        paths: Paths,
        start: Ints,
        asleep: float,
        rng: np.random.Generator,
    ) -> tuple[Ints, Floats, Floats, Floats, Floats]:
        """What the devices would send: fixes under way, and one repeated fix while parked."""
        network, seconds = self.network, self.network.seconds[paths.road]
        trip, at = _instants(trips.leave, trips.arrive, 30.0, 38.0, 300.0, rng)
        clock = np.concatenate([[0.0], np.cumsum(seconds)])
        into = clock[paths.first[trip]] + (at - trips.leave[trip]) / trips.pace[trip]
        index = np.searchsorted(clock, into, side="right") - 1
        index = np.clip(index, paths.first[trip], paths.first[trip + 1] - 1)
        road, forward = paths.road[index], paths.forward[index]
        share = np.clip((into - clock[index]) / seconds[index], 0.0, 1.0)
        tail = np.where(forward, network.source[road], network.target[road])
        head = np.where(forward, network.target[road], network.source[road])
        moving_x = network.x[tail] + share * (network.x[head] - network.x[tail])
        moving_y = network.y[tail] + share * (network.y[head] - network.y[tail])
        noise = rng.normal(0, GPS_SIGMA_M, (2, len(road)))
        speed = network.speed_kmh[road] / trips.pace[trip]
        speed = np.maximum(speed * rng.normal(0.85, 0.15, len(road)), 0.0)

        # A stay follows each trip; the first one starts with the recording.
        everyone = np.arange(len(start))
        place = np.concatenate([start, trips.destination])
        owner = np.concatenate([everyone, trips.object])
        begin = np.concatenate([np.zeros(len(start)), trips.arrive])
        order = np.lexsort((begin, owner))
        place, owner, begin = place[order], owner[order], begin[order]
        following = np.append(owner[1:] == owner[:-1], False)
        leaves = np.full(len(owner), self.days * DAY)
        leaves[following] = trips.leave
        until = np.minimum(leaves, begin + asleep)
        stay, parked_at = _instants(begin + 30, until - 30, 120.0, 90.0, 300.0, rng)
        fix = rng.normal(0, GPS_SIGMA_M, (2, len(owner)))
        parked_x = network.x[place] + fix[0]
        parked_y = network.y[place] + fix[1]
        return (
            np.concatenate([trips.object[trip], owner[stay]]),
            np.floor(np.concatenate([at, parked_at])),
            np.concatenate([moving_x + noise[0], parked_x[stay]]),
            np.concatenate([moving_y + noise[1], parked_y[stay]]),
            np.concatenate([speed, np.zeros(len(stay))]),
        )


def _instants(
    start: Floats,
    end: Floats,
    least: float,
    mean_more: float,
    most: float,
    rng: np.random.Generator,
) -> tuple[Ints, Floats]:
    """Irregular instants in windows: the window of each and its time; gaps from least to most."""
    room = np.maximum(end - start, 0.0)
    counts = np.ceil(room / least).astype(np.int64)
    offsets = offsets_from(counts)
    window, first = owners(offsets), offsets[:-1]
    gaps = np.minimum(least + rng.exponential(mean_more, len(window)), most)
    clock = np.cumsum(gaps)
    before = np.concatenate([[0.0], clock])[first]
    # The first fix comes as the window opens.
    at = start[window] + clock - before[window] - gaps[first[window]]
    inside = at < end[window]
    return window[inside], at[inside]


def _without_outages(
    owner: Ints, at: Floats, objects: int, days: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Which fixes arrived: dead batteries make long gaps, tunnels short ones."""
    happens = rng.random((objects, days)) < 0.15
    begin = np.where(happens, rng.uniform(0, DAY, (objects, days)), np.inf)
    end = begin + 600 + rng.exponential(2_400, (objects, days))
    day = np.minimum(at // DAY, days - 1).astype(np.int64)
    time = at - day * DAY
    dark = (time >= begin[owner, day]) & (time < end[owner, day])
    return ~dark & (rng.random(len(at)) > 0.01)


def _in_order(parts: list[SourceSamples]) -> SourceSamples:
    """Both kinds of objects together, by object, each in time order as before."""
    owner = np.concatenate([p.object_id for p in parts])
    joined = SourceSamples(
        owner,
        np.concatenate([p.at_us for p in parts]),
        np.concatenate([p.x for p in parts]),
        np.concatenate([p.y for p in parts]),
        {"speed_kmh": np.concatenate([p.extra["speed_kmh"] for p in parts])},
    )
    return joined.take(np.argsort(owner, kind="stable"))
