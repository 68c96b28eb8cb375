"""Whatever rows an object has, it moves what is measured by its own bounded vectors and by nothing else.

From rows as they are read, in degrees, to the vectors of counts and `strict`: cleaned, projected, snapped,
cut by a region that is a polygon in degrees and by a period in which a clock changes, located in polygons
or squares.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pyproj
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_counts_sensitivity import vectors

from freqdp_db.dataset import cleaning
from freqdp_db.dataset.building import project
from freqdp_db.dataset.cleaning import Rows, snap_exact, snap_grid
from freqdp_db.dataset.facts import facts_in
from freqdp_db.dataset.projection import ReferenceSystem, to_lon_lat
from freqdp_db.dataset.reading import RawRows
from freqdp_db.methods.counts import contributions
from freqdp_db.methods.counts.family import TABLES
from freqdp_db.methods.counts.measuring import first_numbers
from freqdp_db.methods.counts.plan import Design, Plan, _measurements
from freqdp_db.methods.counts.polygons import index_polygons
from freqdp_db.methods.counts.zones import Bins, Roads, Squares, Zones, blocks_of
from freqdp_db.methods.kinds import LonLatArea, TimeStretch
from freqdp_db.methods.synthesis.plan import second_round
from freqdp_db.methods.synthesis.trips import cut_trips
from freqdp_db.methods.synthesis.vectors import size_counts, summed
from freqdp_db.model.arrays import Ints, offsets_of
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.privacy.accounting import PrivacyBudget
from freqdp_db.roads import matching
from freqdp_db.roads.network import RoadRows, make_network
from tests.synthetic_world import bounds_of

RAW, PLANE = (ReferenceSystem(srid, pyproj.CRS.from_epsg(srid)) for srid in (4326, 32631))
ZONE = "Europe/Brussels"
_AREA = "POLYGON((4.2 50.7, 4.45 50.7, 4.5 50.9, 4.3 50.86, 4.2 50.9, 4.2 50.7))"
_FACTS = facts_in(32631, "EPSG:32631", ZONE)
REGION, PERIOD = _FACTS(
    LonLatArea().from_text(_AREA),
    # the clock goes forward on the second day
    TimeStretch().from_text("2024-03-29T23:00+00:00/2024-04-01T22:00+00:00"),
)
US = 1_000_000
_WIDTH = 2_500.0
Column = NDArray[Any]
Object = tuple[Column, Column, Column]
"""Longitudes, latitudes and times."""


@cache
def _zones(polygons: bool) -> Zones:
    """Squares over the region, whole or cut into two triangles each."""
    west, south, east, north = (
        int(side // _WIDTH) for side in (REGION.x_min, REGION.y_min, REGION.x_max, REGION.y_max)
    )
    wide, high = east - west + 1, north - south + 1
    number = np.arange(wide * high)
    x, y = (number % wide + west) * _WIDTH, (number // wide + south) * _WIDTH
    if not polygons:
        places: Any = Squares(_WIDTH, west, south, number.reshape(high, wide).astype(np.int32))
        x, y = x + _WIDTH / 2, y + _WIDTH / 2
    else:
        corners = [[(0, 0), (1, 0), (1, 1), (0, 0)], [(0, 0), (1, 1), (0, 1), (0, 0)]]
        shift = np.array(corners, np.float64).reshape(1, 8, 2) * _WIDTH
        ring = np.repeat(np.arange(2 * len(number)), 4)
        ring_x, ring_y = ((c[:, None] + shift[..., axis]).ravel() for axis, c in enumerate((x, y)))
        places = index_polygons(ring, ring, ring_x, ring_y, 2 * len(number))
        x, y = (c.reshape(-1, 4)[:, :3].sum(axis=1) / 3 for c in (ring_x, ring_y))
    district, names = blocks_of(x, y, 3 * _WIDTH)
    return Zones(tuple(map(str, range(len(x)))), district, names, x, y, tuple, places)


@cache
def _roads(polygons: bool) -> Roads:
    """Streets of 500 m; every fifth is one-way."""
    step = 500.0
    x, y = np.arange(REGION.x_min, REGION.x_max, step), np.arange(REGION.y_min, REGION.y_max, step)
    node = np.arange(len(x) * len(y)).reshape(len(y), len(x))
    source = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    target = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    ends, count = np.stack([source, target], axis=1).ravel(), len(source)
    rows = RoadRows(
        np.arange(count), source, target, np.arange(count) % 5 == 0, np.arange(0, 2 * count + 1, 2),
        x[ends % len(x)], y[ends // len(x)],
    )  # fmt: skip
    return Roads.of(make_network(rows), _zones(polygons))


_GAPS = {20: 0.3, 60: 0.3, 120: 0.2, 600: 0.1, 1799: 0.02, 1800: 0.02, 1801: 0.02, 3600: 0.04}
"""Seconds between two samples, and how often: a gap of trips is more than 1800."""


def _hostile(random: np.random.Generator, kind: str) -> Object:
    """One object's rows, in any order."""
    count = int(random.integers(2, 250))
    seconds, odds = zip(*_GAPS.items(), strict=True)
    gaps = random.choice(seconds, count, p=odds)
    at = int(random.integers(PERIOD.begin - 10**10, PERIOD.end)) + np.cumsum(gaps) * US
    heading = np.cumsum(random.choice([0, 0, 0, np.pi / 2], count))
    metres = random.choice([0, 4, 12, 30, 49.9999, 51]) * np.minimum(gaps, 120)
    x = random.uniform(REGION.x_min, REGION.x_max) + np.cumsum(np.cos(heading) * metres)
    y = random.uniform(REGION.y_min, REGION.y_max) + np.cumsum(np.sin(heading) * metres)
    if kind == "borders":
        x, y = (
            np.rint(c / _WIDTH) * _WIDTH + random.choice([0, 1e-9, -1e-9], count) for c in (x, y)
        )
    elif kind == "burst":
        at = at[0] + random.integers(0, US, count)
    elif kind == "stay":
        x, y = (c[0] + random.choice([0, 106.066, 149.9999, 150, 150.0001], count) for c in (x, y))
    elif kind == "ends":
        midnights = PERIOD.begin + np.arange(4) * 86_400 * US
        moments = np.concatenate([midnights, [PERIOD.begin, PERIOD.end]])
        at = random.choice(moments, count) + random.choice([-US, -1, 0, 1, 3600 * US], count)
    lon, lat = to_lon_lat(PLANE, x, y)
    if kind == "edges":
        lon = random.choice([4.2, np.nextafter(4.2, 0), 4.45, 4.3, 4.31], count)
        lat = random.choice([50.7, np.nextafter(50.7, 0), 50.86, 50.9, 50.8], count)
    elif kind == "broken":
        odd = random.random(count) < 0.3
        lon[odd] = random.choice([np.nan, np.inf, 1e300, 0.0, -0.0, 180.0, 5e-324], odd.sum())
        lat[odd] = random.choice([np.nan, -np.inf, 0.0, -0.0, 90.0, 50.8], odd.sum())
        at[random.random(count) < 0.1] = random.choice([2**63 - 1, -(2**63), 0])
    again = random.integers(0, count, count // 4)  # twice, and elsewhere at the same time
    lon, lat, at = (
        np.append(lon, lon[again]), np.append(lat, np.roll(lat[again], 1)), np.append(at, at[again]),
    )  # fmt: skip
    order = random.permutation(len(at))
    return lon[order], lat[order], at[order].astype(np.int64)


KINDS = ("drive", "drive", "borders", "burst", "stay", "ends", "edges", "broken")


def _built(
    objects: list[Object], snap: float | None, random: np.random.Generator
) -> tuple[Trajectories, Locations]:
    """As a build makes them of rows that come in any order."""
    owner = np.repeat(np.arange(len(objects)), [len(at) for *_, at in objects])
    lon, lat, at = (np.concatenate(column) for column in zip(*objects, strict=True))
    order = random.permutation(len(owner))
    rows = cleaning.drop_unusable(
        Rows(owner[order], at[order], lon[order], lat[order]), RAW.limits, {}
    )
    found = project(RawRows([str(n) for n in range(len(objects))], rows, {}), RAW, PLANE)
    snapped = snap_exact(found.x, found.y) if snap is None else snap_grid(found.x, found.y, snap)
    offsets, at = offsets_of(found.rows.object, len(found.keys)), found.rows.at
    return Trajectories(offsets, snapped.of_row, at, at[offsets[:-1]]), snapped.locations


def require_own_vectors(
    seed: int, kinds: list[str], bins: str, bounds: tuple[int, ...], snap: float | None,
    *, polygons: bool, with_roads: bool, pure: bool, sparse: bool,
) -> Ints:  # fmt: skip
    """All objects together move every vector by the sum of what each moves it by alone, within the bounds.

    Returns how many visits, trips, stays and passages there were."""
    random = np.random.default_rng(seed)
    objects = [_hostile(random, kind) for kind in kinds]
    zones, roads = _zones(polygons), _roads(polygons) if with_roads else None
    tables = (*TABLES, "roads") if with_roads else TABLES
    budget = PrivacyBudget(Fraction(1), Fraction(1, 10**6), pure)
    every = dict.fromkeys(("visits", "trips", "stays", "passages"), bounds_of(*bounds))
    sizes = np.zeros(24, np.int64)
    sizes[2] = 900
    strict = second_round(REGION, PERIOD, 900, sizes, Fraction(1, 10), pure=pure)
    with patch("freqdp_db.methods.counts.plan.MAX_DENSE_CELLS", 10 if sparse else 10**9):
        design = Design(zones, Bins(bins, PERIOD, ZONE), tables, budget, roads=roads)  # type: ignore[arg-type]
        plan = Plan(design, every, _measurements(design, every), {"visits": 1, "flows": 1})

        def measured(those: list[Object]) -> tuple[dict[str, Ints], Ints]:
            trajectories, places = _built(those, snap, random)
            found = contributions.contributions_of(
                trajectories, places, REGION, PERIOD, zones, design.bins, roads
            )
            trips = cut_trips(trajectories, places, REGION, PERIOD)
            count, sizes = size_counts(trips)
            names = [f"strict {statistic.name}" for statistic in strict.statistics]
            numbers = vectors(found, plan) | first_numbers(found, design)
            numbers |= dict(zip(names, summed(trips, strict, pure=pure), strict=True))
            numbers |= {"strict objects": np.array([count]), "strict sizes": sizes}
            return numbers, np.array([len(items) for items in vars(found).values()])

        together, counts = measured(objects)
        alone = [measured([one])[0] for one in objects]
    known = {m.name: m.bound for m in plan.every_measurement}
    known |= {f"strict {s.name}": s.bound if pure else s.bound**2 for s in strict.statistics}
    known |= {"strict objects": 1, "strict sizes": 1}
    for name, whole in together.items():
        assert np.array_equal(whole, sum(own[name] for own in alone)), name
        for own in alone:
            entries = own[name][own[name] != 0].astype(object)
            assert (entries > 0).all(), name
            assert (entries if pure else entries**2).sum() <= known[name], name
    return counts


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kinds=st.lists(st.sampled_from(KINDS), min_size=2, max_size=6),
    bins=st.sampled_from(["hour-of-day", "hour", "parts-of-day", "day"]),
    bounds=st.tuples(*[st.integers(1, 80)] * 9),
    snap=st.sampled_from([None, None, 100.0, 0.01]),
    polygons=st.booleans(),
    with_roads=st.booleans(),
    pure=st.booleans(),
    sparse=st.booleans(),
)
def test_hostile_objects_move_their_own_vectors(**drawn: Any) -> None:
    require_own_vectors(**drawn)


def _one_world(seed: int) -> Ints:
    return require_own_vectors(
        seed, [*KINDS, "drive", "drive"], "hour", (20,) * 9, None,
        polygons=True, with_roads=True, pure=False, sparse=False,
    )  # fmt: skip


def test_they_do_a_lot() -> None:
    """The worlds above are not empty."""
    counts = np.sum([_one_world(seed) for seed in range(4)], axis=0)
    assert (counts > np.array([500, 10, 10, 100])).all()


def _first_of_all(locate: Callable[..., Any]) -> Callable[..., Any]:
    """Places relative to the first one of all."""
    return lambda self, x, y: locate(self, x - x[:1] + np.floor(x[:1]), y)


@pytest.mark.parametrize("mutant", ["places", "detours"])
def test_objects_that_meet_are_found_out(monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    """The check above can fail: where an object is, or how it went, follows from all of them."""
    if mutant == "places":
        monkeypatch.setattr(Zones, "locate", _first_of_all(Zones.locate))
    else:
        known = matching.find_passages
        monkeypatch.setattr(
            contributions, "find_passages",
            lambda network, trips, places, beta: known(
                network, trips, places, beta * len(trips) ** 4 / 10
            ),
        )  # fmt: skip
    with pytest.raises(AssertionError):
        for seed in range(4):
            _one_world(seed)
