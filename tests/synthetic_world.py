"""A small made-up city for synthetic methods and counts: persons with trips between places."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import ndtr

from freqdp_db.methods.counts.plan import Bounds
from freqdp_db.methods.counts.zones import BinKind, Bins, Roads, Squares, Zones, blocks_of
from freqdp_db.methods.synthesis import sampling as fitting
from freqdp_db.methods.synthesis.estimation import smoothed
from freqdp_db.methods.synthesis.public import MINUTE_US, Period, Region
from freqdp_db.methods.synthesis.trips import Trips, cut_trips
from freqdp_db.model.arrays import offsets_from
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.roads.network import RoadRows, make_network

REGION = Region(0.0, 0.0, 24_000.0, 18_000.0)
PERIOD = Period(0, 3 * 24 * 60 * MINUTE_US, 2 * 60 * MINUTE_US)


def rough_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that make releases by the hundred: what their fit is worth does not matter there."""
    monkeypatch.setattr(fitting, "SIMULATED", 300)
    monkeypatch.setattr(fitting.fit_walks, "__defaults__", (2,))
    monkeypatch.setattr(smoothed, "__kwdefaults__", {"spreads": (1.2,), "reaches": (2.0,)})


def best_guess(rho: Fraction) -> float:
    """How often the best test for "was this object in it?" is right, against Gaussian noise.

    The two worlds differ by at most sqrt(2 rho) standard deviations in the direction that tells them
    apart best; half of that is the threshold. A coin is right half of the time. (The law is that of
    continuous noise. At the widths in use, thousands of steps and more, the discrete one cannot be
    told from it.)
    """
    return float(ndtr(math.sqrt(float(rho) / 2)))


def small_city(objects: int, seed: int, *, wild: bool = False) -> tuple[Trajectories, Locations]:
    """Walks of a few hours a day; `wild` adds samples outside, jumps, and very long days."""
    generator = np.random.default_rng(seed)
    lengths, xs, ys, times = [], [], [], []
    for _ in range(objects):
        count = int(generator.integers(0, 400 if wild else 120))
        gaps = generator.choice([1, 2, 5, 45], count, p=[0.3, 0.4, 0.25, 0.05]) * MINUTE_US
        at = generator.integers(0, 600) * MINUTE_US + np.cumsum(gaps)
        way = np.cumsum(generator.normal(0, 700, (count, 2)), axis=0) * generator.choice(
            [0.05, 1, 2]
        )
        x, y = 11_000 + generator.normal(0, 3_000) + way[:, 0], 9_000 + way[:, 1]
        if wild:
            jumps = generator.random(count) < 0.05
            x = np.where(jumps, x + generator.normal(0, 60_000, count), x)
        else:
            x, y = np.clip(x, 0, 23_999), np.clip(y, 0, 17_999)
        lengths.append(count)
        xs.append(x)
        ys.append(y)
        times.append(at)
    at = np.concatenate(times).astype(np.int64)
    offsets = offsets_from(np.array(lengths))
    places = Locations(np.concatenate(xs), np.concatenate(ys))
    location = np.arange(len(at), dtype=np.int32)
    start = np.array([at[a] if a < b else 0 for a, b in pairwise(offsets)])
    return Trajectories(offsets, location, at, start.astype(np.int64)), places


def small_trips(objects: int, seed: int, *, wild: bool = False) -> Trips:
    return cut_trips(*small_city(objects, seed, wild=wild), REGION, PERIOD)


def without(trajectories: Trajectories, one: int) -> Trajectories:
    """The same without one object."""
    kept = np.delete(np.arange(len(trajectories)), one)
    index = np.concatenate(
        [np.arange(trajectories.offsets[u], trajectories.offsets[u + 1]) for u in kept]
    )
    return Trajectories(
        offsets_from(trajectories.lengths[kept]),
        trajectories.location[index],
        trajectories.at[index],
        trajectories.start[kept],
    )


def riders(objects: int, seed: int) -> tuple[Trajectories, Locations]:
    """Rides of 2 to 5 km at 4 m/s, over an hour apart: nobody rides for half an hour.

    Some ride once in the period, some every hour of the day.
    """
    generator = np.random.default_rng(seed)
    lengths, xs, ys, times = [], [], [], []
    for _ in range(objects):
        rides = int(np.clip(generator.lognormal(2.0, 0.8), 1, 60))
        for ride in np.sort(generator.choice(66, rides, replace=False)):
            metres, way = generator.uniform(2_000, 5_000), generator.uniform(0, 2 * np.pi)
            along = np.append(np.arange(0, metres, 4 * 60), metres)
            x = np.clip(12_000 + generator.normal(0, 2_500) + along * np.cos(way), 0, 23_999)
            y = np.clip(9_000 + generator.normal(0, 2_000) + along * np.sin(way), 0, 17_999)
            xs.append(x)
            ys.append(y)
            times.append((int(ride) * 64 + 5) * MINUTE_US + (along / 4 * 1e6).astype(np.int64))
        lengths.append(sum(len(t) for t in times[-rides:]))
    at = np.concatenate(times)
    offsets = offsets_from(np.array(lengths))
    places = Locations(np.concatenate(xs), np.concatenate(ys))
    location = np.arange(len(at), dtype=np.int32)
    return Trajectories(offsets, location, at, at[offsets[:-1]]), places


def grid_zones(width: float = 2_000.0, block: float = 8_000.0) -> Zones:
    """Squares over the region, and blocks of them as districts."""
    columns, rows = int(REGION.x_max // width), int(REGION.y_max // width)
    number = np.arange(columns * rows)
    x, y = (number % columns + 0.5) * width, (number // columns + 0.5) * width
    district, names = blocks_of(x, y, block)
    squares = Squares(width, 0, 0, number.reshape(rows, columns).astype(np.int32))
    return Zones(tuple(map(str, number)), district, names, x, y, tuple, squares)


def grid_roads(zones: Zones, step: float = 300.0) -> Roads:
    """Streets over the region, a junction every `step` metres; every fifth road is one-way."""
    columns, rows = int(REGION.x_max // step) + 1, int(REGION.y_max // step) + 1
    node = np.arange(columns * rows).reshape(rows, columns)
    source = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    target = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    ends = np.stack([source, target], axis=1).ravel()
    count = len(source)
    return Roads.of(
        make_network(
            RoadRows(
                np.arange(100, 100 + count),
                source,
                target,
                np.arange(count) % 5 == 0,
                np.arange(0, 2 * count + 1, 2),
                ends % columns * step,
                ends // columns * step,
            )
        ),
        zones,
    )


def time_bins(kind: BinKind = "hour-of-day", timezone: str = "Europe/Brussels") -> Bins:
    return Bins(kind, PERIOD, timezone)


def bounds_of(sizes: int, *of_groups: int) -> Bounds:
    """Bounds of sums of squares, in the order of the groups named here."""
    groups = ("bins", "zones", "departs", "districts", "reaches", "cells", "roads", "areas")
    return Bounds(sizes, dict(zip(groups, of_groups, strict=False)))
