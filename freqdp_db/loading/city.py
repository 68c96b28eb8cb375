"""A made-up city whose inhabitants move along its roads, sampled as real devices would.

Everything follows from one random generator: the same seed gives the same rows. Objects are
simulated in batches of their own seeds, so that memory stays bounded and any batch can be made
again, with the roads that were really driven (`Chunk.truth`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.ragged import offsets_from, owners
from freqdp_db.errors import BadInput
from freqdp_db.loading.agenda import (
    DAY,
    PlannedTrips,
    carry_out,
    make_places,
    plan_people,
    plan_taxis,
)
from freqdp_db.loading.dirt import soil
from freqdp_db.loading.interest import make_interest
from freqdp_db.loading.network import Floats, Ints, make_network, to_degrees
from freqdp_db.loading.rows import SourceSamples
from freqdp_db.roads.router import DestinationTrees, Paths

BATCH = 400
TAXI_SHARE = 0.1
GPS_SIGMA_M = 8.0
# Monday, 4 March 2024, midnight in the city (UTC+1).
START = datetime(2024, 3, 3, 23, tzinfo=UTC)
_START_S = int(START.timestamp())
_ASLEEP_AFTER_S = (1_200.0, 3_600.0)
"""A parked person's device falls silent after this long; a taxi's later."""


@dataclass(frozen=True)
class DrivenRoads:
    """The roads that were really driven, one row per road and passage, by object and time."""

    object_id: NDArray[np.bytes_]
    road_id: Ints
    """As in the roads table: 1, 2, ..."""
    forward: NDArray[np.bool_]
    """Whether it was driven from its source to its target."""
    enter_s: Floats
    leave_s: Floats
    """Seconds since 1970-01-01 UTC."""


@dataclass(frozen=True)
class Chunk:
    """Some objects' rows, in the order of the table, and what is known about them."""

    objects: int
    samples: SourceSamples
    dirt: dict[str, int]
    """How many unusable rows were put in, by reason."""
    truth: DrivenRoads


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
        truths: list[DrivenRoads] = []
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
            truths.append(self._truth(trips, paths, names[who]))
        samples = _in_order(parts)
        samples, dirt = soil(samples, rng)
        named = replace(samples, object_id=names[samples.object_id])
        return Chunk(len(names), named, dirt, _join_truths(truths))

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

    def _truth(self, trips: PlannedTrips, paths: Paths, names: NDArray[np.bytes_]) -> DrivenRoads:
        trip = owners(paths.first)
        seconds = self.network.seconds[paths.road]
        clock = np.concatenate([[0.0], np.cumsum(seconds)])
        since = clock[:-1] - clock[paths.first[trip]]
        begin = _START_S + trips.leave[trip]
        return DrivenRoads(
            names[trips.object[trip]],
            paths.road.astype(np.int64) + 1,
            paths.forward,
            begin + since * trips.pace[trip],
            begin + (since + seconds) * trips.pace[trip],
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


def _join_truths(parts: list[DrivenRoads]) -> DrivenRoads:
    return DrivenRoads(
        *(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(DrivenRoads))
    )
