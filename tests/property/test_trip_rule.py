"""One rule for trips: the kernel, a plain loop and the view of a release cut alike."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from library import opened
from world import query

from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.statements import call
from freqdp_db.trips import TripRule, find_trips

STAY_S, GAP_S, RADIUS_M = 20 * 60, 30 * 60, 150.0
Sample = tuple[int, int, int]
"""Seconds, and metres east and north of a corner."""
GAPS = [60, 300, 600, 1199, 1200, 1201, 1799, 1800, 1801, 4000]
steps = st.tuples(
    st.sampled_from(GAPS),
    st.sampled_from([-151, -90, 0, 0, 60, 150, 400]),
    st.sampled_from([0, 90]),
)


def naive_trips(samples: list[Sample], *, with_stops: bool) -> list[list[Sample]]:
    """Trips as the docstring of `freqdp_db.trips` has them, sample by sample."""
    trips: list[list[Sample]] = [[]]
    i = 0
    while i < len(samples):
        stay = [samples[i]]
        for later in samples[i + 1 :]:
            if math.hypot(later[1] - stay[0][1], later[2] - stay[0][2]) > RADIUS_M:
                break
            stay.append(later)
        gap = i > 0 and samples[i][0] - samples[i - 1][0] > GAP_S
        if gap:
            trips.append([])
        if stay[-1][0] - stay[0][0] >= STAY_S:
            if with_stops:
                trips[-1].append(stay[0])
            trips.append([stay[-1]] if with_stops else [])
            i += len(stay)
        else:
            trips[-1].append(samples[i])
            i += 1
    return [trip for trip in trips if trip]


def columns_of(worlds: list[list[Sample]]) -> tuple[Trajectories, Locations]:
    flat = np.array([s for samples in worlds for s in samples], np.int64).reshape(-1, 3)
    offsets = offsets_from(np.array([len(samples) for samples in worlds]))
    at = flat[:, 0] * 1_000_000
    places = Locations(flat[:, 1].astype(float), flat[:, 2].astype(float))
    location = np.arange(len(flat), dtype=np.int32)
    return Trajectories(offsets, location, at, np.zeros(len(worlds), np.int64)), places


def python_trips(worlds: list[list[Sample]], *, with_stops: bool) -> list[list[list[Sample]]]:
    side, places = columns_of(worlds)
    flat = [s for samples in worlds for s in samples]
    runs = find_trips(side, places, TripRule(), with_stops=with_stops)
    found: list[list[list[Sample]]] = [[] for _ in worlds]
    for first, last, t in zip(runs.first, runs.last, runs.trajectory, strict=True):
        found[t].append(flat[first : last + 1])
    return found


def walked(moves: list[tuple[int, int, int]]) -> list[Sample]:
    way = np.cumsum(np.array(moves, np.int64).reshape(-1, 3), axis=0)
    return [(int(s), int(x), int(y)) for s, x, y in way]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(steps, min_size=1, max_size=25).map(walked), min_size=1, max_size=4),
    st.booleans(),
)
def test_the_kernel_cuts_as_a_plain_loop(worlds: list[list[Sample]], with_stops: bool) -> None:
    expected = [naive_trips(samples, with_stops=with_stops) for samples in worlds]
    assert python_trips(worlds, with_stops=with_stops) == expected


def test_the_view_cuts_as_the_kernel(db: Database, database_url: str) -> None:
    rng = np.random.default_rng(5)
    worlds = [[(0, 0, 0)], [(0, 0, 0), (5, 0, 0)], [(0, 0, 0), (9, 100, 0)]]
    for _ in range(120):
        moves = np.column_stack(
            [
                rng.choice(GAPS, size=40),
                rng.choice([-151, -90, 0, 0, 60, 150, 400], size=40),
                rng.choice([0, 0, 90], size=40),
            ]
        )
        worlds.append(walked(moves.tolist()))
    _view(database_url, worlds)
    found: list[list[tuple[int, int, list[tuple[int, int]]]]] = [[] for _ in worlds]
    for t, number, begin, end, metres, places, points in query(
        database_url,
        "SELECT trajectory_id, trip, extract(epoch FROM start_at)::int, "
        "extract(epoch FROM end_at)::int, length_m, places, ARRAY(SELECT ARRAY["
        "round(ST_X(d.geom) - 500000)::int, round(ST_Y(d.geom) - 5600000)::int] "
        "FROM ST_DumpPoints(geom) d) FROM freqdp_release.r_trip ORDER BY 1, 2",
    ):
        found[t].append((begin, end, [(x, y) for x, y in points]))
        assert (number, places) == (len(found[t]), len(points))
        way = sum(math.dist(a, b) for a, b in pairwise(points))
        assert metres == pytest.approx(way, rel=1e-3)
    expected = [
        [(trip[0][0], trip[-1][0], places) for trip in trips if len(places := _places(trip)) > 1]
        for trips in python_trips(worlds, with_stops=True)
    ]
    assert found == expected
    assert sum(map(len, found)) > 300


def _places(trip: list[Sample]) -> list[tuple[int, int]]:
    """One after another, without repeats."""
    places = [s[1:] for s in trip]
    return [p for n, p in enumerate(places) if n == 0 or p != places[n - 1]]


def _view(url: str, worlds: list[list[Sample]]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE freqdp_release.r (trajectory_id bigint, seq int, at timestamptz, "
            "geom public.geometry(Point, 32631))"
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO freqdp_release.r VALUES (%s, %s, to_timestamp(%s), public.ST_SetSRID("
                "public.ST_MakePoint(500000 + %s::float8, 5600000 + %s::float8), 32631))",
                [(t, n, *s) for t, samples in enumerate(worlds) for n, s in enumerate(samples, 1)],
            )
    with opened(url) as database, database.begin() as connection:
        call(connection, database, "create_trip_view", "r", 32631, 32631)
