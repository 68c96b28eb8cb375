"""Who goes where, and when: daily routines of people, shifts of taxis, as tables of trips.

Both kinds are planned as a fixed number of slots per object, each with a destination (or none),
the earliest and latest time to leave, and the least stay before leaving. One pass over the slots,
for all objects at once, turns plans into trips that follow each other in time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freqdp_db.loading.network import Floats, Ints, StreetNetwork
from freqdp_db.roads.router import DestinationTrees

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


def _plans(
    start: Ints, destination: Ints, earliest: Floats, latest: Floats, stay: Floats
) -> DayPlans:
    """Days and slots of a day become one row of slots; it may have no objects at all."""
    shape = (len(start), destination.shape[1] * destination.shape[2])
    return DayPlans(
        start,
        destination.reshape(shape),
        earliest.reshape(shape),
        latest.reshape(shape),
        stay.reshape(shape),
    )


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
