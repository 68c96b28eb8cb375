"""Utility for every kind of release: against naive counts on tiny random worlds, and its limits."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sides import MINUTE, Rows, side_of

from freqdp_db.evaluation.pair import Pair
from freqdp_db.evaluation.utility import (
    cut_into_trips,
    density_error,
    extent_errors,
    flow_error,
    in_trips,
    largest_errors,
    speed_error,
    transition_error,
    trip_lengths,
    usefulness,
)
from freqdp_db.model.trajectories import Locations, Trajectories

HOUR = 60 * MINUTE
GRID = Locations(300.0 * (np.arange(144) % 12), 300.0 * (np.arange(144) // 12))


def world(seed: int, count: int = 30) -> Trajectories:
    rng = np.random.default_rng([20, seed])
    rows: Rows = []
    for _ in range(count):
        here, minute, row = int(rng.integers(144)), float(rng.integers(0, 600)), []
        for _ in range(int(rng.integers(0, 40))):
            row.append((here, minute))
            minute += float(rng.choice([1, 2, 5, 25]))
            here = int(min(max(here + rng.choice([-12, -1, 0, 1, 12]), 0), 143))
        rows.append(row)
    return side_of(rows)


def naive_divergence(a: Counter[object], b: Counter[object]) -> float:
    p, q = ({k: n / sum(c.values()) for k, n in c.items()} for c in (a, b))
    total = 0.0
    for one in (p, q):
        for key, share in one.items():
            middle = (p.get(key, 0) + q.get(key, 0)) / 2
            total += share * math.log(share / middle) / 2
    return total


def cell_of(place: int, side: float) -> tuple[int, int]:
    return int(GRID.x[place] // side), int(GRID.y[place] // side)


def rows_of(side: Trajectories) -> Rows:
    return [
        [(int(p), int(a)) for p, a in zip(side.location[lo:hi], side.at[lo:hi], strict=True)]
        for lo, hi in zip(side.offsets, side.offsets[1:], strict=False)
    ]


@pytest.fixture(params=range(6))
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(world(request.param), world(request.param + 100), GRID, "UTC")


def test_density(pair: Pair) -> None:
    counts = [
        Counter((cell_of(p, 500), at // HOUR % 24) for row in rows_of(s) for p, at in row)
        for s in (pair.original, pair.released)
    ]
    maps = [
        Counter(cell_of(p, 500) for row in rows_of(s) for p, _ in row)
        for s in (pair.original, pair.released)
    ]
    found = density_error(pair)
    assert found["density"] == pytest.approx(naive_divergence(counts[0], counts[1]))
    assert found["density.map"] == pytest.approx(naive_divergence(maps[0], maps[1]))
    top = sorted(maps[0].values(), reverse=True)[:100]
    if len(top) < 100:
        error = np.mean([abs(maps[1][k] - n) / n for k, n in maps[0].items()])
        assert found["density.map.busiest.counts"] == pytest.approx(error)


def test_largest_errors_as_counts_and_shares() -> None:
    found = largest_errors("e", np.array([8, 2, 0]), np.array([4, 1, 0]))
    assert found == {"e.counts": 0.5, "e.shares": 0.0}


def test_flows(pair: Pair) -> None:
    trips = in_trips(pair)
    counts = [
        Counter((cell_of(row[0][0], 1000), cell_of(row[-1][0], 1000)) for row in rows_of(s))
        for s in (trips.original, trips.released)
    ]
    scale = sum(counts[0].values()) / sum(counts[1].values())
    found = flow_error(trips)
    if len(counts[0]) <= 100 and len(counts[1]) <= 100:
        error = np.mean([abs(counts[1][k] * scale - n) / n for k, n in counts[0].items()])
        assert found["flow"] == pytest.approx(error)
        both = len(counts[0].keys() & counts[1].keys())
        assert found["flow.f1"] == pytest.approx(2 * both / (len(counts[0]) + len(counts[1])))


def test_transitions_and_speed(pair: Pair) -> None:
    trips = in_trips(pair)
    moves, speeds = [], []
    for side in (trips.original, trips.released):
        found: Counter[object] = Counter()
        ways: dict[tuple[int, int], list[tuple[float, float]]] = {}
        for row in rows_of(side):
            for (p, a), (q, b) in pairwise(row):
                c, d = cell_of(p, 1000), cell_of(q, 1000)
                if max(abs(c[0] - d[0]), abs(c[1] - d[1])) == 1:
                    found[c, d] += 1
                way = math.hypot(GRID.x[p] - GRID.x[q], GRID.y[p] - GRID.y[q])
                if b > a:
                    ways.setdefault(cell_of(p, 500), []).append((way, (b - a) / 1e6))
        moves.append(found)
        speeds.append(
            {
                c: 3.6 * sum(w for w, _ in v) / sum(t for _, t in v)
                for c, v in ways.items()
                if len(v) >= 20
            }
        )
    assert transition_error(trips)["transitions"] == pytest.approx(naive_divergence(*moves))
    cells = speeds[0].keys() & speeds[1].keys()
    if cells:
        error = np.median([abs(speeds[0][c] - speeds[1][c]) for c in cells])
        assert speed_error(trips)["speed"] == pytest.approx(error)
    else:
        assert speed_error(trips) == {}


def test_speed_is_in_km_h() -> None:
    # 300 m a minute are 18 km/h; at half the pace, 9
    rows: Rows = [[(k, float(k)) for k in range(12)] for _ in range(20)]
    slow: Rows = [[(p, 2 * m) for p, m in row] for row in rows]
    assert speed_error(Pair(side_of(rows), side_of(slow), GRID))["speed"] == pytest.approx(9.0)


def test_lengths_and_durations() -> None:
    rows: Rows = [[(k, float(k)) for k in range(2 + n)] for n in range(8)]
    side = side_of(rows)
    assert trip_lengths(side, GRID).tolist() == [300.0 * (1 + n) for n in range(8)]
    assert extent_errors(Pair(side, side, GRID)) == {"length": 0.0, "duration": 0.0}
    late = replace(side, at=side.at * 3)
    found = extent_errors(Pair(side, late, GRID))
    assert found["length"] == 0.0 and found["duration"] > 0.1
    short = side_of([[(0, 0.0), (0, float(n + 1))] for n in range(8)])
    assert extent_errors(Pair(side, short, GRID))["length"] == pytest.approx(math.log(2), abs=0.3)


def test_trips_end_at_gaps_and_stays() -> None:
    side = side_of(
        [[(0, 0), (2, 3), (4, 6), (4, 30), (5, 31), (7, 33), (9, 64), (11, 66)], [(3, 0)]]
    )
    trips = cut_into_trips(side, GRID)
    assert [[p for p, _ in row] for row in rows_of(trips)] == [[0, 2], [5, 7], [9, 11]]


def test_limits() -> None:
    side = world(1)
    same = usefulness(Pair(side, side, GRID), GRID)
    for name, value in same.items():
        best = 1.0 if name.endswith(".f1") else 0.0
        assert value == pytest.approx(best, abs=1e-12), name
    # the same places, in a list of the release's own
    own = Locations(GRID.x.copy(), GRID.y.copy())
    again = usefulness(Pair(side, side, GRID), own)
    assert again == pytest.approx(same, abs=1e-12)
    far = Locations(GRID.x + 50_000, GRID.y)
    apart = usefulness(Pair(side, side, GRID), far)
    assert apart["density"] == pytest.approx(math.log(2))
    assert apart["transitions"] == pytest.approx(math.log(2))
    assert apart["flow"] == 1.0 and apart["flow.f1"] == 0.0
    assert apart["length"] == apart["duration"] == 0.0
    nothing = Trajectories(
        np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(1, np.int64)
    )
    empty = usefulness(Pair(side, nothing, GRID), GRID)
    assert all(math.isfinite(v) for v in empty.values())
    assert empty["density"] == pytest.approx(math.log(2))
