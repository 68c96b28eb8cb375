"""Metrics on cases computed by hand, and at their limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from numpy.typing import NDArray
from sides import MINUTE, side_of

from freqdp_db.evaluation import utility
from freqdp_db.evaluation.attacks import signatures
from freqdp_db.evaluation.attacks.known_samples import known_samples, unicity
from freqdp_db.evaluation.attacks.signatures import around_the_clock, linking_attacks, tf_idf, weigh
from freqdp_db.evaluation.evaluate import PUBLISHABLE, measure, measure_piece, measure_release
from freqdp_db.evaluation.pair import Case, Pair, ReleaseSeen, hours_of_day, on_odd_days
from freqdp_db.evaluation.utility import (
    cut_into_trips,
    diameter_error,
    diameters,
    hotspot_correlation,
    information_loss,
    most_frequent,
    mutual_information,
    plausibility,
    query_error,
    query_squares,
    trip_error,
)
from freqdp_db.methods.frequency.counts import count_frequencies
from freqdp_db.model.days import HOUR_US, local_times
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.progress import Progress

Samples = Sequence[tuple[int, float]]
"""(location, minutes)"""


def trajectories(*rows: Samples) -> Trajectories:
    return side_of(rows)


def places(*points: tuple[float, float]) -> Locations:
    return Locations(np.array([p[0] for p in points]), np.array([p[1] for p in points]))


def minutes(*where: int, start: float = 0.0) -> Samples:
    """These places, a minute apart."""
    return [(place, start + i) for i, place in enumerate(where)]


LINE = places(*((1_000.0 * i, 0.0) for i in range(20)))


@pytest.fixture
def world() -> tuple[Trajectories, Locations]:
    """Thirty wanderers over 400 places and three days, each with a home of its own."""
    rng = np.random.default_rng(np.arange(3))
    rows = []
    for t in range(30):
        walk = rng.integers(0, 370, 150)
        walk[::3] = 370 + t
        rows.append([(int(p), 25.0 * i + 20 * (i // 10) + t) for i, p in enumerate(walk)])
    spots = Locations(rng.uniform(0, 20_000, 400), rng.uniform(0, 20_000, 400))
    return trajectories(*rows), spots


def test_limits_of_an_identical_release(world: tuple[Trajectories, Locations]) -> None:
    found = measure(Pair(world[0], world[0], world[1]), 1, Progress())
    for name, value in found.items():
        if name.startswith(("la_s", "la_x")) and ".b." not in name and not name.endswith(".none"):
            assert value == 1.0, name
    assert found["la_t.a"] == 1.0
    assert found["la"] == 1.0
    for name in ("inf", "inf.sym", "de", "te.trip", "te.trajectory", "query_error"):
        assert found[name] == pytest.approx(0.0, abs=1e-12), name
    for name in ("ffp", "ffp.occurrence", "hotspot", "plausibility.length_ratio", "mi"):
        assert found[name] == pytest.approx(1.0), name
    assert found["plausibility.fast"] == found["plausibility.fast.original"]
    assert found["unicity.place"] == 1.0
    assert found.keys() >= PUBLISHABLE


def test_limits_of_a_disjoint_release(world: tuple[Trajectories, Locations]) -> None:
    original, spots = world
    moved = Trajectories(original.offsets, original.location + 400, original.at, original.start)
    both = Locations(np.concatenate([spots.x, spots.x]), np.concatenate([spots.y, spots.y]))
    found = measure(Pair(original, moved, both), 1, Progress())
    for name, value in found.items():
        if name.startswith(("la_s.", "la_sq.", "la_x.")):
            assert value == (1.0 if name.endswith(".none") else 0.0), name
    assert found["inf"] == found["inf.sym"] == 1.0
    assert found["unicity.place"] == 0.0


def test_an_empty_release_breaks_nothing(world: tuple[Trajectories, Locations]) -> None:
    original, spots = world
    nothing = Trajectories(
        np.zeros(31, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64), original.start
    )
    found = measure(Pair(original, nothing, spots), 1, Progress())
    assert found["la"] == 0.0
    assert found["inf"] == 1.0
    assert found["de"] == pytest.approx(math.log(2))
    assert all(math.isfinite(v) for v in found.values())


def test_weights_are_tf_idf_cut_and_of_length_1() -> None:
    side = trajectories(minutes(0, 0, 0, 1, 2, 2), minutes(1, 3), [])
    idf_alone, idf_both = math.log(3 / 1), math.log(3 / 2)
    full = tf_idf(side, 4)
    assert full.offsets.tolist() == [0, 3, 5, 5]
    weights = np.array([3 * idf_alone, 1 * idf_both, 2 * idf_alone])
    assert full.weight[:3] == pytest.approx(weights / np.linalg.norm(weights))
    cut = weigh(count_frequencies(side, 4), 2)
    assert cut.dimension.tolist() == [0, 2, 1, 3]
    assert cut.weight[:2] == pytest.approx(np.array([3, 2]) / math.sqrt(13))


def test_linking_by_places() -> None:
    original = trajectories(minutes(0, 0, 1), minutes(2, 2, 3), minutes(4, 5), minutes(6, 7))
    # the first keeps a trace, the second takes the third's places, the third is like nothing
    released = trajectories(minutes(1, 8), minutes(4, 4), minutes(9, 9), [])
    found = linking_attacks(Pair(original, released, LINE))
    assert found["la_s.a.full"] == found["la_s.a.10"] == pytest.approx(1 / 3)
    assert found["la_s.a.full.none"] == pytest.approx(1 / 3)
    assert found["la_sq.a.full"] == 0.0


def test_a_tie_counts_for_the_attacker() -> None:
    original = trajectories(minutes(0, 1), minutes(0, 1), minutes(2, 3))
    found = linking_attacks(Pair(original, original, LINE))
    assert found["la_s.a.full"] == 1.0


def test_ten_strongest_against_all() -> None:
    """Without its ten strongest places a trajectory is found by the others only."""
    strong = [p for p in range(10) for _ in range(5)]
    original = trajectories(minutes(*strong, 10, 11), minutes(*range(12, 19)))
    released = trajectories(minutes(10, 11), minutes(*range(12, 19)))
    found = linking_attacks(Pair(original, released, LINE))
    assert found["la_s.a.10"] == 0.5
    assert found["la_s.a.full"] == 1.0


def test_protocol_b_takes_odd_days_against_even_ones() -> None:
    day = 24 * 60
    original = trajectories(
        [*minutes(0, 1), *minutes(2, 3, start=day)], [*minutes(4, 5), *minutes(0, 1, start=day)]
    )
    found = linking_attacks(Pair(original, original, LINE))
    # on the odd day the first is somewhere new, and the second is where the first was
    assert found["la_s.a.full"] == 1.0
    assert found["la_s.b.full"] == 0.0
    assert found["la_s.b.full.none"] == 0.5
    # the same hours both days
    assert found["la_t.b"] == 1.0


def test_movements_have_no_direction() -> None:
    original = trajectories(minutes(0, 1, 1, 2), minutes(3, 4))
    released = trajectories(minutes(2, 1, 0), minutes(5, 6))
    a, b, dimensions = signatures._movements(Pair(original, released, LINE))
    assert dimensions == 4  # 0-1, 1-2, 3-4, 5-6
    assert sorted(a.location[:2].tolist()) == sorted(b.location[:2].tolist())
    assert linking_attacks(Pair(original, released, LINE))["la_sq.a.full"] == 0.5


@pytest.mark.parametrize(
    ("a", "b", "hours"),
    [
        ({0: 1.0}, {6: 1.0}, 12.0),  # midnight and noon
        ({0: 1.0}, {11: 1.0}, 2.0),  # around midnight
        ({0: 0.5, 1: 0.5}, {1: 0.5, 2: 0.5}, 2.0),
        ({3: 1.0}, {3: 1.0}, 0.0),
    ],
)
def test_time_of_day_goes_around_the_clock(
    a: dict[int, float], b: dict[int, float], hours: float
) -> None:
    one, other = np.zeros((1, 12)), np.zeros((1, 12))
    for histogram, shares in ((one, a), (other, b)):
        for window, share in shares.items():
            histogram[0, window] = share
    assert around_the_clock(one[0], other).tolist() == pytest.approx([1 - hours / 12])


def test_hours_and_days_are_local() -> None:
    # 2000-03-26 00:30 UTC is 01:30 in Brussels; an hour later it is 03:30: summer time has begun
    night = (31 + 29 + 25) * 24 * HOUR_US + HOUR_US // 2
    at = np.array([night, night + HOUR_US], np.int64)
    assert hours_of_day(at, "Europe/Brussels").tolist() == [1, 3]
    assert (local_times(at, "Asia/Kolkata") - at).tolist() == [int(5.5 * HOUR_US)] * 2
    evening = np.array([23 * HOUR_US], np.int64)
    assert on_odd_days(evening, "UTC").tolist() == [False]
    assert on_odd_days(evening, "Asia/Shanghai").tolist() == [True]


@pytest.mark.parametrize(
    "zone",
    [
        "Europe/Paris",
        "America/St_Johns",
        "Asia/Kathmandu",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
    ],
)
def test_local_times_of_many_years(zone: str) -> None:
    """Times of twelve years, to a quarter of an hour, against the clock of each."""
    at = np.arange(0, 12 * 366 * 24 * HOUR_US, HOUR_US // 4)
    found = local_times(at, zone)
    epoch, there = datetime(2000, 1, 1, tzinfo=UTC), ZoneInfo(zone)
    for k in range(0, len(at), 23):
        clock = (epoch + timedelta(microseconds=int(at[k]))).astimezone(there).replace(tzinfo=UTC)
        assert found[k] == (clock - epoch) // timedelta(microseconds=1)


def test_known_samples_find_the_only_best_match() -> None:
    rng = np.random.default_rng(np.arange(1))
    original = trajectories(minutes(0, 1), minutes(0, 1), minutes(2, 3))
    # the first two cannot be told apart, the third has lost its times
    released = trajectories(minutes(0, 1), minutes(0, 1), minutes(2, 3, start=0.5))
    assert known_samples(Pair(original, released, LINE), rng)["la_x.10"] == 0.0
    # whoever knows that times are whole hours finds the third again
    coarse = Trajectories(released.offsets, released.location, released.at * 0, released.start)
    found = known_samples(Pair(original, coarse, LINE, time_step_us=HOUR_US), rng)
    assert found["la_x.1"] == found["la_x.10"] == pytest.approx(1 / 3)


def test_unicity_counts_the_release() -> None:
    rng = np.random.default_rng(np.arange(1))
    released = trajectories(minutes(0, 1), minutes(0, 1), minutes(2, 3))
    found = unicity(Pair(released, released, LINE), rng)
    assert found["unicity"] == pytest.approx(1 / 3)
    assert found["unicity.place"] == pytest.approx(1 / 3)
    moved = trajectories(minutes(0, 1), minutes(0, 1), minutes(2, 3, start=1))
    assert unicity(Pair(released, moved, LINE), rng)["unicity.place"] == 0.0


def test_mutual_information_follows_the_last_released_sample() -> None:
    original = trajectories([(0, 0), (9, 1), (0, 2), (9, 3)])
    same = mutual_information(Pair(original, original, LINE))
    assert same["mi"] == pytest.approx(1.0)
    assert same["mi.nats"] == pytest.approx(math.log(2))
    # released only at minute 1: minute 0 is left out, and the rest is always the same place
    still = mutual_information(Pair(original, trajectories([(9, 1)]), LINE))
    assert still == {"mi": 0.0, "mi.nats": 0.0}
    # every second instant right, the others at the place before
    lagging = mutual_information(Pair(original, trajectories([(0, 0), (9, 3)]), LINE))
    # x = 0 9 0 9, y = 0 0 0 9
    expected = math.log(2) + _entropy(3 / 4, 1 / 4) - _entropy(2 / 4, 1 / 4, 1 / 4)
    assert lagging["mi.nats"] == pytest.approx(expected)


def _entropy(*shares: float) -> float:
    return -sum(p * math.log(p) for p in shares)


def test_information_loss() -> None:
    original = trajectories(minutes(0, 0, 0, 1), minutes(2, 3))
    released = trajectories(minutes(0, 1, 1, 4, 4, 4, 4, 4), [])
    found = information_loss(Pair(original, released, LINE))
    assert found["inf"] == pytest.approx(((1 - 2 / 4) + 1) / 2)
    assert found["inf.sym"] == pytest.approx(((1 - 2 / 8) + 1) / 2)


def test_diameter_is_that_of_all_pairs() -> None:
    rng = np.random.default_rng(np.arange(2))
    spots = Locations(rng.normal(0, 1_000, 300), rng.normal(0, 1_000, 300))
    rows = [minutes(*rng.integers(0, 300, n).tolist()) for n in (1, 2, 3, 10, 200)]
    found = diameters(trajectories(*rows), spots)
    for row, diameter in zip(rows, found, strict=True):
        at = [p for p, _ in row]
        apart = np.hypot(
            spots.x[at][:, None] - spots.x[at][None, :], spots.y[at][:, None] - spots.y[at][None, :]
        )
        assert diameter == pytest.approx(apart.max())


def test_diameter_error_counts_overflow_in_the_last_bucket() -> None:
    original = trajectories(minutes(0, 10), minutes(0, 1))
    assert diameter_error(Pair(original, original, LINE))["de"] == 0.0
    # 10 km grows to 15: still the last of twenty buckets; 1 km stays
    grown = trajectories(minutes(0, 15), minutes(3, 4))
    assert diameter_error(Pair(original, grown, LINE))["de"] == 0.0
    shrunk = trajectories(minutes(0, 5), minutes(3, 4))
    half = (0.5 * math.log(2)) / 2
    assert diameter_error(Pair(original, shrunk, LINE))["de"] == pytest.approx(2 * half)


def test_trips_are_split_at_gaps_over_thirty_minutes() -> None:
    side = trajectories([(0, 0), (5, 10), (5, 40), (9, 70.5)], [(3, 0)])
    cells = np.arange(20, dtype=np.int64)
    ends, owner = utility._ends(side, cells, 30 * MINUTE)
    assert [(int(e) // 36, int(e) % 36) for e in ends] == [(0, 5), (9, 9), (3, 3)]
    assert owner.tolist() == [0, 0, 1]
    ends, _ = utility._ends(side, cells, None)
    assert [(int(e) // 36, int(e) % 36) for e in ends] == [(0, 9), (3, 3)]


def test_trip_error_has_what_chance_does_beside_it(world: tuple[Trajectories, Locations]) -> None:
    found = trip_error(Pair(world[0], world[0], world[1]), np.random.default_rng(np.arange(1)))
    assert found["te.trip"] == found["te.trajectory"] == 0.0
    assert 0.0 < found["te.trip.chance"] < found["te.trajectory.chance"] < math.log(2)


def test_patterns_by_trajectories_and_by_occurrence() -> None:
    offsets, cells = np.array([0, 6, 8]), np.array([1, 2, 1, 2, 1, 2, 3, 4], np.int32)
    by_carrier = most_frequent(offsets, cells, by_occurrence=False)
    by_occurrence = most_frequent(offsets, cells, by_occurrence=True)
    # each of length 2 has one carrier: the lowest cells first; by occurrence 1-2 leads as well
    two = 2 * 36**8
    assert by_carrier[:3].tolist() == [two + 36 + 2, two + 2 * 36 + 1, two + 3 * 36 + 4]
    assert by_occurrence[:2].tolist() == [two + 36 + 2, two + 2 * 36 + 1]
    # no pattern runs from one trajectory into the next
    assert two + 2 * 36 + 3 not in by_carrier
    # 1-2-1-2-1-2 has two patterns of each length up to 5 and one of 6; and there is 3-4
    assert len(by_carrier) == 3 + 2 + 2 + 2 + 1


def test_plausibility() -> None:
    # 1 km in a minute is 60 km/h; 3 km are 180; no time at all is too fast for any way
    original = trajectories([(0, 0), (1, 1), (4, 2), (4, 3)])
    released = trajectories([(0, 0), (1, 1), (1, 1), (4, 1)])
    found = plausibility(Pair(original, released, LINE))
    assert found["plausibility.fast.original"] == pytest.approx(1 / 3)
    assert found["plausibility.fast"] == pytest.approx(1 / 3)
    assert found["plausibility.length_km"] == pytest.approx(4.0)
    assert found["plausibility.length_ratio"] == pytest.approx(1.0)


def test_what_is_made_up_is_as_fast_as_it_is_released() -> None:
    """Not as the places of the originals nearest to it, which only the curator knows."""
    towns = Locations(np.array([0.0, 10_000.0]), np.zeros(2))
    road = Locations(np.arange(0.0, 10_001.0, 500.0), np.zeros(21))
    original = trajectories([(0, 0), (1, 60)], [(1, 0), (0, 60)])
    slow = trajectories([(place, place) for place in range(21)])
    case = Case(original, towns, ReleaseSeen(slow, road))
    found = measure_release(case, "synthetic", 1)
    assert found["plausibility.fast"] == 0.0
    assert found["plausibility.length_km"] == pytest.approx(10.0)
    # 30 km/h all the way; over the two towns it is one jump of 10 km in a minute
    assert plausibility(case.pair)["plausibility.fast"] > 0.0


def test_query_error_and_hotspots_see_what_is_gone(world: tuple[Trajectories, Locations]) -> None:
    original, spots = world
    rng = np.random.default_rng(np.arange(1))
    nothing = Trajectories(
        np.zeros(31, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64), original.start
    )
    assert query_error(Pair(original, nothing, spots), rng)["query_error"] == 1.0
    assert hotspot_correlation(Pair(original, nothing, spots))["hotspot"] == 0.0
    # every place swapped for its mirror image: the order of the hotspots is another one
    mirror = Locations(np.concatenate([spots.x, 20_000 - spots.x]), np.concatenate([spots.y] * 2))
    swapped = Trajectories(original.offsets, original.location + 400, original.at, original.start)
    assert hotspot_correlation(Pair(original, swapped, mirror))["hotspot"] < 0.5


# --- synthetic releases are measured where their samples lie -----------------------------------------

Row = tuple[int, int, float, float]
"""A row of a table: trajectory, time, and where."""


def table_of(side: Trajectories, places: Locations) -> list[Row]:
    return [
        (int(t), int(at), float(places.x[p]), float(places.y[p]))
        for t, at, p in zip(side.owner, side.at, side.location, strict=True)
    ]


def percentile(values: list[float], percent: float) -> float:
    values = sorted(values)
    at = percent / 100 * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def cell(value: float, low: float, high: float, side: int) -> int:
    return min(max(math.floor((value - low) / ((high - low) / side)), 0), side - 1)


def kendall_tau_b(a: Sequence[int], b: Sequence[int]) -> float:
    agree = ties_a = ties_b = pairs = 0
    for i in range(len(a)):
        for j in range(i):
            one, two = (a[i] > a[j]) - (a[i] < a[j]), (b[i] > b[j]) - (b[i] < b[j])
            agree += one * two
            ties_a += one == 0
            ties_b += two == 0
            pairs += 1
    return agree / math.sqrt((pairs - ties_a) * (pairs - ties_b))


def hotspot_of(source: list[Row], table: list[Row]) -> float:
    """As docs/reference/metrics.md says it."""
    x, y = [row[2] for row in source], [row[3] for row in source]
    box = [percentile(x, 0.1), percentile(x, 99.9), percentile(y, 0.1), percentile(y, 99.9)]
    counts = []
    for rows in (source, table):
        seen = [0] * 225
        for _, _, px, py in rows:
            seen[cell(py, box[2], box[3], 15) * 15 + cell(px, box[0], box[1], 15)] += 1
        counts.append(seen)
    return kendall_tau_b(*counts)


def patterns_of(rows: list[Row], box: list[float]) -> set[tuple[int, ...]]:
    """The 100 patterns that most trajectories have; ties: shorter ones, then lower cells."""
    ways: dict[int, list[tuple[int, int]]] = {}
    for trajectory, _, px, py in rows:
        to = cell(px, box[0], box[1], 6), cell(py, box[2], box[3], 6)
        way = ways.setdefault(trajectory, [to])
        (x, y), done_x, done_y = way[-1], 0, 0
        wide, high = abs(to[0] - x), abs(to[1] - y)
        while (done_x, done_y) != (wide, high):
            if done_x < wide and (1 + 2 * done_x) * high <= (1 + 2 * done_y) * wide:
                x, done_x = x + (1 if to[0] > x else -1), done_x + 1
            else:
                y, done_y = y + (1 if to[1] > y else -1), done_y + 1
            way.append((x, y))
    support: dict[tuple[int, ...], set[int]] = {}
    for trajectory, way in ways.items():
        cells = [y * 6 + x for x, y in way]
        for length in range(2, 9):
            for i in range(len(cells) - length + 1):
                support.setdefault(tuple(cells[i : i + length]), set()).add(trajectory)
    return set(sorted(support, key=lambda p: (-len(support[p]), len(p), p))[:100])


def ffp_of(source: list[Row], table: list[Row]) -> float:
    x, y = [row[2] for row in source], [row[3] for row in source]
    box = [percentile(x, 1), percentile(x, 99), percentile(y, 1), percentile(y, 99)]
    one, two = patterns_of(source, box), patterns_of(table, box)
    return 2 * len(one & two) / (len(one) + len(two))


def query_error_of(source: list[Row], table: list[Row], boxes: list[list[float]]) -> float:
    """Of squares that are given; both sides are trips."""
    shares = []
    for rows in (source, table):
        passing = [
            len({t for t, _, x, y in rows if w <= x <= e and s <= y <= n}) for w, s, e, n in boxes
        ]
        shares.append([p / len({row[0] for row in rows}) for p in passing])
    errors = sorted(abs(b - a) / max(a, 0.01) for a, b in zip(*shares, strict=True))
    return (errors[len(errors) // 2] + errors[(len(errors) - 1) // 2]) / 2


def test_metrics_of_synthetic_releases_can_be_recomputed_from_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From coordinates alone. D has few places, far apart: moving samples to them would flatter."""
    rng = np.random.default_rng(5)
    hubs = Locations(rng.uniform(0, 9_000, 12), rng.uniform(0, 9_000, 12))
    lengths = np.full(30, 20)
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    at = np.tile(np.arange(20, dtype=np.int64) * 2 * MINUTE, 30)
    original = Trajectories(
        offsets, (rng.integers(0, 12, 600) * rng.integers(0, 2, 600)).astype(np.int32), at, at[::20]
    )
    made_up = Locations(rng.normal(4_500, 2_000, 400), rng.normal(4_500, 2_000, 400))
    released = replace(original, location=rng.integers(0, 400, 600).astype(np.int32))
    seen = ReleaseSeen(released, made_up, owner=np.full(600, -1, np.int32))
    case = Case(original, hubs, seen)
    source, table = table_of(original, hubs), table_of(released, made_up)

    found = measure_release(case, "synthetic", 3)
    assert found["hotspot"] == pytest.approx(hotspot_of(source, table), abs=1e-9)
    assert found["ffp"] == pytest.approx(ffp_of(source, table), abs=1e-9)

    asked: list[list[float]] = []

    def remembered(pair: Pair, rng: np.random.Generator) -> NDArray[np.float64]:
        squares = query_squares(pair, rng)
        asked.extend(squares.tolist())
        return squares

    monkeypatch.setattr(utility, "query_squares", remembered)
    found = measure_piece(case, "range queries", 3, Progress())
    both = [cut_into_trips(*side) for side in ((original, hubs), (released, made_up))]
    trips = [table_of(side, places) for side, places in zip(both, (hubs, made_up), strict=True)]
    assert len(asked) == 500
    assert found["query_error"] == pytest.approx(query_error_of(*trips, asked), abs=1e-9)
