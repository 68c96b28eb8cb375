"""One rule for trips: the kernel, a plain loop and the table of a release cut alike."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freqdp_db.methods.relations import TRAJECTORIES
from freqdp_db.methods.trips import TripRule, find_trips
from freqdp_db.model.arrays import offsets_from
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.release.table import ReleasedTable

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
    """Trips as the docstring of `freqdp_db.methods.trips` has them, sample by sample."""
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


def test_the_table_of_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are the trips of a plain loop that pass two places or more, by released ids."""
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
    side, samples = columns_of(worlds)
    where, location = np.unique(samples.x + 1j * samples.y, return_inverse=True)
    side = replace(side, location=location.astype(np.int32))
    places = Locations(where.real.copy(), where.imag.copy())
    key = rng.permutation(len(worlds)) + 1000
    order = np.argsort(key)
    table = ReleasedTable(side, order, key, places.x, places.y, places, None, 32631, "UTC")
    (_, _, relation) = TRAJECTORIES
    monkeypatch.setattr("freqdp_db.release.table._LINE_ROWS", 1000)
    blocks = list(table.blocks(relation))
    assert len(blocks) > 2
    found = [row for block in blocks for row in decoded(block.tobytes())]
    expected = []
    for t in order:
        trips = [trip for trip in naive_trips(worlds[t], with_stops=True) if len(_places(trip)) > 1]
        for number, trip in enumerate(trips, 1):
            way = _places(trip)
            metres = sum(round(math.dist(a, b) * 1000) for a, b in pairwise(way)) / 1000
            expected.append(
                (key[t], number, trip[0][0], trip[-1][0], metres, len(way), way[0], way[-1], way)
            )
    assert found == expected
    assert len(found) > 300


def decoded(data: bytes) -> Iterator[tuple[Any, ...]]:
    """Rows of trips as COPY has them; times in seconds."""
    at = 0

    def take(form: str) -> tuple[Any, ...]:
        nonlocal at
        at += struct.calcsize(form)
        return struct.unpack_from(form, data, at - struct.calcsize(form))

    def point() -> tuple[float, float]:
        size, order, kind, srid, x, y = take(">iB") + take("<IIdd")
        assert (size, order, kind, srid) == (25, 1, 0x20000001, 32631)
        return x, y

    while at < len(data):
        ((columns,), (_, key), (_, trip)) = take(">h"), take(">iq"), take(">ii")
        ((_, begin), (_, end), (_, metres), (_, places)) = (
            take(">iq"), take(">iq"), take(">id"), take(">ii"),
        )  # fmt: skip
        ends = point(), point()
        size, order, kind, srid, count = take(">iB") + take("<III")
        assert (columns, size, order, kind, srid) == (9, 13 + 16 * count, 1, 0x20000002, 32631)
        line = [take("<dd") for _ in range(count)]
        yield key, trip, begin / 1e6, end / 1e6, metres, places, *ends, line


def _places(trip: list[Sample]) -> list[tuple[int, int]]:
    """One after another, without repeats."""
    places = [s[1:] for s in trip]
    return [p for n, p in enumerate(places) if n == 0 or p != places[n - 1]]
