"""The synthetic methods: budgets, plans, determinism, possible trips, and who may see what."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyproj
import pytest
import shapely

import freqdp_db
from freqdp_db.dataset.facts import facts_in
from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.evaluation.utility import trip_lengths
from freqdp_db.methods.contract import options_of
from freqdp_db.methods.kinds import (
    Box,
    LonLatArea,
    NotAcceptable,
    Outline,
    TimeStretch,
    outline_in_geojson,
)
from freqdp_db.methods.synthesis import strict
from freqdp_db.methods.synthesis.estimation import with_tail_cut
from freqdp_db.methods.synthesis.plan import (
    FIRST_ROUND,
    SCALE,
    ClipLoss,
    Draw,
    Grids,
    find_significant_classes,
    plan_of,
    second_round,
    spent,
)
from freqdp_db.methods.synthesis.public import (
    MINUTE_US,
    Corners,
    Parameters,
    Region,
    StrictOptions,
    SyntheticOptions,
)
from freqdp_db.methods.synthesis.roads import road_net
from freqdp_db.methods.synthesis.sampling import lattice
from freqdp_db.methods.synthesis.steps import StrictStep
from freqdp_db.methods.synthesis.trips import cut_trips
from freqdp_db.methods.synthesis.vectors import draw, measured
from freqdp_db.model.arrays import Ints, Metres
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.paper import adatrace, dpt
from freqdp_db.paper.methods import AdaTraceStep
from freqdp_db.privacy.accounting import (
    best_guess_any,
    best_guess_pure,
    cost_of_replacing,
    cost_of_several,
    epsilon_of,
    gaussian_cost,
    pure_cost,
    rho_for,
    rounded_up,
    sigma2_for,
)
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.release.request import Request
from freqdp_db.roads.network import Network, RoadRows, find_candidates, make_network
from tests.synthetic_world import PERIOD, REGION, best_guess, riders, small_city, small_trips

DELTA = Fraction(1, 10**6)
SMALL = Parameters(epsilon=Fraction(4), size=300)


# --- accounting -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"),
    [
        ("0.5", "1e-6", 0.00664), ("1", "1e-6", 0.02436), ("2", "1e-6", 0.08815), ("4", "1e-6", 0.311),
        ("0.5", "1e-5", 0.0085), ("1", "1e-5", 0.0306), ("2", "1e-5", 0.108), ("4", "1e-5", 0.373),
    ],
)  # fmt: skip
def test_known_conversions(epsilon: str, delta: str, rho: float) -> None:
    found = rho_for(Fraction(epsilon), Fraction(delta))
    assert float(found) == pytest.approx(rho, rel=4e-3)
    back = epsilon_of(found, Fraction(delta))
    # rounding never favours the release, and is small
    assert 0 <= Fraction(epsilon) - back < Fraction(1, 10**9)
    assert epsilon_of(found * Fraction(10001, 10000), Fraction(delta)) > Fraction(epsilon)


def test_composition_and_guesses() -> None:
    rho = rho_for(Fraction(1), DELTA)
    assert pure_cost(Fraction(1, 2)) == Fraction(1, 8)
    assert gaussian_cost(12345**2, sigma2_for(12345**2, rho)) == rho
    for epsilon, right in ((".5", 0.523), ("1", 0.544), ("2", 0.583), ("4", 0.653)):
        cost = rho_for(Fraction(epsilon), DELTA)
        assert best_guess(cost) == pytest.approx(right, abs=6e-4)
        assert best_guess(cost) < best_guess_any(cost)
    assert best_guess_pure(Fraction(1)) == pytest.approx(0.731, abs=1e-3)
    assert epsilon_of(Fraction(0), DELTA) == 0
    # two phones: k^2, so 4.29 and not 4; one in the place of another: twice, or four times if pure
    two = epsilon_of(cost_of_several(rho_for(Fraction(2), DELTA), 2), DELTA)
    assert float(two) == pytest.approx(4.2902, abs=1e-4)
    assert cost_of_several(rho, 3) == 9 * rho
    assert cost_of_replacing(rho) == 2 * rho and cost_of_replacing(rho, rho) == 6 * rho
    assert float(best_guess_any(cost_of_replacing(rho_for(Fraction(2), DELTA)))) == pytest.approx(
        0.64845, abs=1e-5
    )


def test_the_table_of_the_privacy_page_is_computed() -> None:
    """PRIVACY.md, section 16: every number is what the accounting gives, rounded up."""
    page = (Path(__file__).parents[2] / "PRIVACY.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("|")]
    table = {row[0]: row[1:] for row in rows}
    epsilons = [Fraction(e) for e in ("0.5", "1", "2", "4")]
    rhos = [rho_for(epsilon, DELTA) for epsilon in epsilons]
    for begin, bounds, decimals in (
        ("rho at delta", rhos, 4),
        ("is it in it, for anything", map(best_guess_any, rhos), 3),
        ("which of two, 2 rho", (best_guess_any(cost_of_replacing(rho)) for rho in rhos), 3),
        ("is it in it, against Gaussian", map(best_guess, rhos), 3),
        ("is it in it, pure", map(best_guess_pure, epsilons), 3),
    ):
        (shown,) = (values for name, values in table.items() if name.startswith(begin))
        assert [float(v) for v in shown] == [float(rounded_up(b, decimals)) for b in bounds]
    (shown,) = (values for name, values in table.items() if name.startswith("which of two, pure"))
    assert all(
        float(said) - 1e-3 < best_guess_pure(2 * epsilon) <= Fraction(said)
        for said, epsilon in zip(shown, epsilons, strict=True)
    )
    for said in (
        "epsilon 4.291, not 4",
        "at epsilon 1 they are 2.112",
        "rho 0.731, which is epsilon 6.481",
    ):
        assert said in page


@pytest.mark.parametrize("accounting", ["zcdp", "pure"])
@pytest.mark.parametrize("objects", [0, 3, 1_000, 50_000])
def test_no_plan_spends_more_than_is_booked(accounting: str, objects: int) -> None:
    parameters = Parameters(epsilon=Fraction(2), pure=accounting == "pure")
    sizes = np.zeros(24, np.int64)
    sizes[4] = objects
    plan = second_round(REGION, PERIOD, objects, sizes, parameters.whole, pure=parameters.pure)
    cost = spent(parameters, [*FIRST_ROUND, *plan.statistics])
    assert parameters.whole * Fraction(99, 100) < cost <= parameters.whole


# --- trips ----------------------------------------------------------------------------------------


def one_way(minutes: list[int], x: list[float]) -> tuple[Trajectories, Locations]:
    at = np.array(minutes, np.int64) * MINUTE_US
    places = Locations(np.array(x, float), np.full(len(x), 5_000.0))
    offsets = np.array([0, len(x)], np.int64)
    return Trajectories(offsets, np.arange(len(x), dtype=np.int32), at, at[:1]), places


def lengths_of(minutes: list[int], x: list[float]) -> list[int]:
    return np.diff(cut_trips(*one_way(minutes, x), REGION, PERIOD).offsets).tolist()


def test_trips_are_cut_as_stated() -> None:
    moving = [1_000.0 * i for i in range(1, 7)]
    assert lengths_of([0, 5, 10, 15, 20, 25], moving) == [6]
    assert lengths_of([0, 5, 10, 45, 50, 55], moving) == [3, 3]  # a gap over 30 min
    assert lengths_of([0, 5, 10], [1_000.0, 1_200.0, 1_400.0]) == []  # under 1 km
    assert lengths_of([0, 5], [1_000.0, 9_000.0]) == []  # two samples
    assert lengths_of([0, 5, 6, 10], [1_000.0, 2_000.0, 23_000.0, 3_000.0]) == [3]  # 350 m/s
    assert lengths_of([0, 5, 10, 15], [-1.0, 2_000.0, 3_000.0, 4_000.0]) == [3]  # outside
    stay = [1_000.0, 3_000.0, 5_000.0, 5_050.0, 5_000.0, 5_100.0, 7_000.0, 9_000.0]
    assert lengths_of([0, 5, 10, 17, 25, 32, 37, 42], stay) == [3, 3]


# --- a release ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn() -> Draw:
    return measured(small_trips(150, 3), REGION, PERIOD, SMALL, SeededSource(1))


def test_check_fails_for_what_is_not_so(drawn: Draw) -> None:
    log, released = strict.carry_out(drawn, REGION, PERIOD, SMALL)
    fast = replace(released, places=Locations(released.places.x * 1.3, released.places.y))
    early = replace(
        released, trajectories=replace(released.trajectories, at=released.trajectories.at - 10**12)
    )
    for wrong in (fast, early):
        with pytest.raises(VerificationFailed):
            strict.check_trips(wrong, 300, REGION, PERIOD, SMALL)
    with pytest.raises(VerificationFailed):
        strict.check(drawn, replace(log, hours=log.hours * 2), released, REGION, PERIOD, SMALL)
    with pytest.raises(VerificationFailed):
        strict.check(drawn, replace(log, count=log.count + 1), released, REGION, PERIOD, SMALL)


@pytest.mark.parametrize("accounting", ["zcdp", "pure"])
@pytest.mark.parametrize("objects", [0, 1, 8])
def test_few_objects_still_give_a_release(accounting: str, objects: int) -> None:
    """Mostly noise, but nothing breaks, and nothing says how few they are."""
    parameters = Parameters(epsilon=Fraction(1), pure=accounting == "pure", size=50)
    trajectories, places = small_city(max(objects, 1), 2)
    if objects == 0:
        places = Locations(places.x + 10**6, places.y)
    made = draw(trajectories, places, REGION, PERIOD, parameters, SeededSource(4))
    plan = plan_of(made, REGION, PERIOD, parameters)
    assert [len(getattr(made, s.name)) for s in plan.statistics] == plan.sizes
    _, released = strict.carry_out(made, REGION, PERIOD, parameters)
    strict.check_trips(released, 50, REGION, PERIOD, parameters)


# --- how long, how far, how many --------------------------------------------------------------------


def minutes_of(offsets: Ints, at: Ints) -> Metres:
    return (at[offsets[1:] - 1] - at[offsets[:-1]]) / MINUTE_US


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("epsilon", [1, 2])
def test_trips_last_as_long_as_trips_do(epsilon: int, seed: int) -> None:
    """Noise in classes that nobody is in makes no trips of days; and clips do not make trips fewer."""
    trips = cut_trips(*riders(1_500, 5), REGION, PERIOD)
    truth = minutes_of(trips.offsets, trips.at)
    assert truth.max() < 30
    parameters = Parameters(epsilon=Fraction(epsilon))
    drawn = measured(trips, REGION, PERIOD, parameters, SeededSource(seed))
    log, released = strict.carry_out(drawn, REGION, PERIOD, parameters)
    made, lengths = released.trajectories, released.trajectories.lengths
    minutes = minutes_of(made.offsets, made.at)
    assert (minutes > 45).mean() < 0.02
    assert lengths[minutes > 45].sum() < 0.06 * lengths.sum()
    assert minutes.max() <= log.longest[0] + 1 <= 130
    assert abs(minutes.mean() / truth.mean() - 1) < 0.15
    assert abs(len(made) / len(trips) - 1) < 0.2 / epsilon
    # what is said of the number of trips holds here, at twice what it says
    assert abs(len(made) / len(trips) - 1) * 1000 <= 2 * log.errors[0] + 20


@pytest.mark.parametrize("accounting", ["zcdp", "pure"])
@pytest.mark.parametrize("epsilon", ["0.1", "0.2", "0.5"])
def test_noise_makes_no_release_of_millions(accounting: str, epsilon: str) -> None:
    """Where noise hides everything, what comes out is small, and its trips are trips."""
    trips = cut_trips(*riders(120, 5), REGION, PERIOD)
    parameters = Parameters(Fraction(epsilon), pure=accounting == "pure")
    for seed in range(6):
        drawn = measured(trips, REGION, PERIOD, parameters, SeededSource(seed))
        plan = plan_of(drawn, REGION, PERIOD, parameters)
        count = strict.released_size(drawn, plan, parameters)
        most = max(int(drawn.objects[0]) // SCALE, 1) * ClipLoss.of(drawn.sizes // SCALE, plan).most
        assert 1 <= count <= most
        fewer = replace(parameters, size=min(count, 200))
        _, released = strict.carry_out(drawn, REGION, PERIOD, fewer)
        minutes = minutes_of(released.trajectories.offsets, released.trajectories.at)
        assert minutes.mean() < 60 and minutes.max() < 12 * 60


def test_a_size_that_nobody_can_use_is_refused() -> None:
    options = StrictOptions(
        epsilon=Decimal(1), size=5_000_000, every=1_000_000, region=None, period=None,
        delta=Decimal("0.000001"), accounting="zcdp", roads=None,
    )  # fmt: skip
    with pytest.raises(BadInput, match="6,005,000,000 rows") as refused:
        StrictStep().require_possible(options, 1_000, 10_000)
    assert "size 166527" in str(refused.value.remedy)
    StrictStep().require_possible(replace(options, size=166_527), 1_000, 10_000)
    StrictStep().require_possible(replace(options, every=60_000_000), 1_000, 10_000)


def test_tails_are_cut_where_noise_begins() -> None:
    sigma, rng = 10.0, np.random.default_rng(3)
    true = np.array([50, 400, 900, 500, 60, 0, 0, 0, 0, 0, 0, 0, 0.0])
    far = 0.0
    for _ in range(200):
        noisy = true + rng.normal(0, sigma, len(true))
        # one class that stands out far off does not bring back those between
        noisy[11] += 6 * sigma
        kept = with_tail_cut(np.maximum(noisy, 1.0), noisy, sigma)
        assert (kept[:5] == np.maximum(noisy, 1.0)[:5]).all()
        assert (kept[8:] == 0).all()
        far += kept[5:].sum()
    assert far / 200 < 0.02 * true.sum()


def test_sizes_beyond_the_noise_or_the_period_do_not_count() -> None:
    sizes = np.zeros(24, np.int64)
    assert find_significant_classes(sizes, 10.0, 3) == (0, 0)
    sizes[3:8] = [40, 90, 120, 80, 30]
    first, last = find_significant_classes(sizes, 5.0, 60)
    assert (first, last) == (3, 8)
    assert find_significant_classes(sizes, 5.0, 60) == find_significant_classes(
        np.append(sizes[:23], 19), 5.0, 60
    )
    assert find_significant_classes(sizes, 200.0, 60) == (0, 0)
    # nobody makes 2,000 trips in three days
    assert find_significant_classes(np.append(np.zeros(22, np.int64), [10**6, 10**6]), 5.0, 3) == (
        0,
        0,
    )


def test_what_clips_took_is_put_back_by_noisy_numbers() -> None:
    parameters = Parameters(epsilon=Fraction(2))
    sizes = np.zeros(24, np.int64)
    sizes[4:12] = [100, 300, 500, 700, 500, 300, 100, 50]
    plan = second_round(REGION, PERIOD, 2_550, sizes, parameters.whole, pure=False)
    edges = np.array([1, 2, 2, 3, 4, 6, 8, 12, 16, 23, 32, 46, 64])
    middle = (edges[4:12] + edges[5:13] - 1) / 2
    loss = ClipLoss.of(sizes, plan)
    true = float((sizes[4:12] * middle).sum())
    clipped = float((sizes[4:12] * np.minimum(middle, loss.clip)).sum())
    assert clipped < 0.9 * true
    assert loss.corrected(round(clipped), 2_550) == pytest.approx(true, rel=0.01)
    assert 0 < loss.error(16.0) < 0.1
    # noisy numbers that make no sense are cut to what the objects can have made
    assert loss.corrected(10**9, 2_550) == 2_550 * loss.most
    assert loss.corrected(-5, 2_550) == 1 == loss.corrected(10**9, -3) // loss.most


def test_errors_and_warnings_follow_from_noisy_numbers() -> None:
    options = StrictOptions(
        epsilon=Decimal(1), size=None, every=60_000_000, region=None, period=None,
        delta=Decimal("0.00001"), accounting="zcdp", roads=None,
    )  # fmt: skip
    counts = {"noisy_objects": 3_000, "trips_error": 31, "zones_error": 12, "hours_error": 7}
    step = StrictStep()
    assert "the number of trips by 3.1 %" in step.errors(options, counts)
    assert "by 1.2 points" in step.errors(options, counts)
    assert "number of trips was asked for" in step.errors(replace(options, size=5), counts)
    (warned,) = step.warnings(options, counts)
    assert warned.startswith("[[delta]] 0.00001 times the noisy number of objects (3,000) is 0.03")
    assert "[[delta]] of 0.000001 or less" in warned
    assert not step.warnings(replace(options, delta=Decimal("0.000001")), counts)
    assert not step.warnings(replace(options, accounting="pure"), counts)
    (few,) = step.warnings(options, counts | {"noisy_objects": 12})
    assert few.startswith("By their noisy number 12 objects have trips")


def test_delta_above_a_hundred_thousandth_is_refused() -> None:
    """By command line and Python; what an earlier version recorded can still be read."""
    for accepted in ("0.00001", "0.000001"):
        Request.parse("strict", delta=accepted)
    with pytest.raises(BadInput, match=r"delta 0\.00002 is not between"):
        Request.parse("strict", delta="0.00002")
    with pytest.raises(BadInput, match=r"delta 0\.0001 is not between"):
        Request.from_json("strict", {"delta": Decimal("0.0001")})
    stored = SimpleNamespace(method="strict", parameters={"delta": 0.0001}, kept=None)
    recorded = Request.of(stored)  # type: ignore[arg-type]
    (step,) = recorded.method.steps
    with pytest.raises(BadInput, match=r"delta 0\.0001 is more than"):
        step.require_possible(options_of(step, recorded.values), 1_000, 10_000)


# --- who sees what --------------------------------------------------------------------------------

FOLDER = Path(freqdp_db.__file__).parent / "methods" / "synthesis"
DECLARE = {"kinds", "parameters"}
SEE_DATA = {"trips", "vectors"}
MAY_IMPORT = {"methods", "privacy", "model", "engines", "errors", "roads"}
PUBLIC_SIDE = ("strict", "estimation", "sampling", "roads", "plan", "public")


@pytest.mark.parametrize("module", PUBLIC_SIDE)
def test_what_samples_sees_no_data(module: str) -> None:
    """Nothing after the draw imports what holds data, nor anything that could read it."""
    seen, left = set(), {module}
    while left:
        name = left.pop()
        seen.add(name)
        tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("freqdp_db."):
                parts = str(node.module).split(".")
                assert parts[1] in MAY_IMPORT
                assert parts[1] != "roads" or parts[2] in {"graph", "network", "router"}
                if parts[1] == "methods" and parts[2] not in DECLARE:
                    assert parts[2] == "synthesis"
                    left |= {parts[3]} - seen
    assert not seen & SEE_DATA


# --- Synthetic trips on roads: where samples lie, how long routes are, and which roads are refused.


@pytest.fixture(scope="module")
def road_draw() -> Draw:
    return measured(small_trips(200, 3), REGION, PERIOD, SMALL, SeededSource(5))


def town(blocks: int = 60) -> Network:
    """Streets every 400 m, both ways, each with a bend; and a piece that is not connected."""
    column, row = np.meshgrid(np.arange(blocks), np.arange(45))
    x, y = column.ravel() * 400.0 + 100, row.ravel() * 400.0 + 100
    x, y = np.append(x, [50.0, 60.0]), np.append(y, [50.0, 50.0])
    number = np.arange(45 * blocks).reshape(45, blocks)
    source = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel(), [45 * blocks]])
    target = np.concatenate([number[:, 1:].ravel(), number[1:].ravel(), [45 * blocks + 1]])
    return roads_between(x, y, source, target, bend=30.0)


def roads_between(x: Metres, y: Metres, source: Ints, target: Ints, bend: float = 0.0) -> Network:
    """Roads with a vertex beside their middle."""
    middle_x = (x[source] + x[target]) / 2 + bend * (y[source] != y[target])
    middle_y = (y[source] + y[target]) / 2 + bend * (y[source] == y[target])
    lines = [np.stack(c, axis=1).ravel() for c in
             ((x[source], middle_x, x[target]), (y[source], middle_y, y[target]))]  # fmt: skip
    count = len(source)
    rows = RoadRows(
        np.arange(count), source, target, np.zeros(count, np.bool_), np.arange(count + 1) * 3,
        lines[0], lines[1],
    )  # fmt: skip
    return make_network(rows)


@pytest.mark.parametrize(("every", "trips"), [(1_000_000, 50), (30_000_000, 300)])
def test_samples_lie_on_roads(road_draw: Draw, every: int, trips: int) -> None:
    parameters, network = replace(SMALL, every_us=every, size=trips), town()
    net = road_net(network, REGION, every)
    log, released = strict.carry_out(road_draw, REGION, PERIOD, parameters, net)
    strict.check(road_draw, log, released, REGION, PERIOD, parameters, net)
    assert find_candidates(network, released.places).away[:, 0].max() <= 0.001
    again = strict.replay(road_draw, log, REGION, PERIOD, parameters, net)
    assert (released.trajectories.location == again.trajectories.location).all()
    places = released.places
    beside = replace(released, places=Locations(places.x + 1.0, places.y + 1.0))
    with pytest.raises(VerificationFailed, match="on no road"):
        strict.check(road_draw, log, beside, REGION, PERIOD, parameters, net)


def test_routes_are_as_long_as_trips_are_to_be(road_draw: Draw) -> None:
    net = road_net(town(), REGION, SMALL.every_us)
    _, plain = strict.carry_out(road_draw, REGION, PERIOD, SMALL)
    _, drive = strict.carry_out(road_draw, REGION, PERIOD, SMALL, net)
    metres = [np.median(trip_lengths(made.trajectories, made.places)) for made in (plain, drive)]
    assert 0.8 < metres[1] / metres[0] < 1.3


def test_ranges_do_not_matter_on_roads(road_draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    net = road_net(town(), REGION, SMALL.every_us)
    log, first = strict.carry_out(road_draw, REGION, PERIOD, SMALL, net)
    monkeypatch.setattr("freqdp_db.engines.ranges._RANGES_PER_CORE", 1)
    monkeypatch.setattr("freqdp_db.engines.ranges.cores", lambda: 1)
    alone = strict.replay(road_draw, log, REGION, PERIOD, SMALL, net)
    assert (first.trajectories.location == alone.trajectories.location).all()
    assert (first.trajectories.at == alone.trajectories.at).all()


def test_a_release_on_other_roads_is_not_replayed(road_draw: Draw) -> None:
    net, other = (road_net(town(blocks), REGION, SMALL.every_us) for blocks in (60, 58))
    log, _ = strict.carry_out(road_draw, REGION, PERIOD, SMALL, net)
    for roads in (other, None):
        with pytest.raises(VerificationFailed, match="not those"):
            strict.replay(road_draw, log, REGION, PERIOD, SMALL, roads)


def test_roads_that_do_not_connect_are_refused() -> None:
    x, y = np.arange(40) * 500.0 + 100, np.full(40, 9_000.0)
    apart = roads_between(x, y, np.arange(0, 40, 2), np.arange(1, 40, 2))
    with pytest.raises(BadInput, match="do not connect"):
        road_net(apart, REGION, SMALL.every_us)
    with pytest.raises(BadInput, match=r"cover 3\d% of the region") as refused:
        road_net(town(20), REGION, SMALL.every_us)
    assert "region" in str(refused.value.remedy)


# --- Regions with an outline: what is said of them, and that trips keep to them.


TRIANGLE = "POLYGON((116.2 39.7, 116.6 39.7, 116.4 40.1, 116.2 39.7))"
# a horseshoe with a hole: straight ways between its parts leave it
_RINGS = [
    [(1, 1), (23, 1), (23, 17), (15, 17), (15, 6), (9, 6), (9, 17), (1, 17), (1, 1)],
    [(3, 2), (3, 4), (5, 4), (5, 2), (3, 2)],
]
HORSESHOE = Corners(
    np.array([1000.0 * x for ring in _RINGS for x, _ in ring]),
    np.array([1000.0 * y for ring in _RINGS for _, y in ring]),
    np.array([0, 9, 14]),
)
AREA = Region(1_000.0, 1_000.0, 23_000.0, 17_000.0, HORSESHOE)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("4.2,50.7,4.5,51", "4.2,50.7,4.5,51"),
        (TRIANGLE, "MULTIPOLYGON(((116.2 39.7, 116.6 39.7, 116.4 40.1, 116.2 39.7)))"),
        ("polygon ((1 1,2 1,2 2))", "MULTIPOLYGON(((1 1, 2 1, 2 2, 1 1)))"),
        (
            "MULTIPOLYGON(((1 1,2 1,2 2,1 1),(1.5 1.2,1.6 1.2,1.6 1.3,1.5 1.2)),((5 5,6 5,6 6,5 5)))",
            "MULTIPOLYGON(((1 1, 2 1, 2 2, 1 1)), ((1.5 1.2, 1.6 1.2, 1.6 1.3, 1.5 1.2)), "
            "((5 5, 6 5, 6 6, 5 5)))",
        ),
    ],
)
def test_what_is_said_is_kept(text: str, kept: str) -> None:
    kind = LonLatArea()
    assert kind.show(kind.from_text(text)) == kept
    assert kind.show(kind.from_text(kept)) == kept


@pytest.mark.parametrize(
    "text",
    [
        "POLYGON((1 1, 2 2))", "POLYGON((1 1, 2 1, x 2, 1 1))", "POLYGON", "POLYGON((1 1, 1 2, 1 3, 1 1))",
        "POLYGON((1 1, 200 1, 200 2, 1 1))", "LINESTRING(1 1, 2 2)", "1,2,3",
    ],
)  # fmt: skip
def test_what_is_no_area_is_refused(text: str) -> None:
    with pytest.raises(NotAcceptable):
        LonLatArea().from_text(text)


def test_geojson() -> None:
    ring = [[116.2, 39.7], [116.6, 39.7], [116.4, 40.1], [116.2, 39.7]]
    polygon = {"type": "Polygon", "coordinates": [ring]}
    feature = {"type": "Feature", "properties": {}, "geometry": polygon}
    for document in (polygon, feature, {"type": "FeatureCollection", "features": [feature]}):
        assert outline_in_geojson(json.dumps(document)) == LonLatArea().from_text(TRIANGLE)
    for wrong in ("[]", "{}", "nothing", '{"type": "Polygon", "coordinates": [[1]]}'):
        with pytest.raises(NotAcceptable):
            outline_in_geojson(wrong)


def test_inside_and_outside() -> None:
    points = {
        (2, 15): True, (12, 15): False, (20, 15): True, (12, 3): True, (4, 3): False, (0, 0): False,
        (24, 3): False,
    }  # fmt: skip
    x, y = (np.array([1000.0 * p[i] + 7 for p in points]) for i in range(2))
    assert AREA.holds(x, y).tolist() == list(points.values())
    columns, rows = np.arange(0.5, 24_000, 97.0), np.arange(0.25, 18_000, 113.0)
    all_x, all_y = (side.ravel() for side in np.meshgrid(columns, rows))
    runs = HORSESHOE.runs((0.5, 97.0, len(columns)), (0.25, 113.0, len(rows)))
    found = np.zeros((len(rows), len(columns)), bool)
    for row, first, last in zip(runs.row, runs.first, runs.last, strict=True):
        found[row, first:last] = True
    assert (found.ravel() == HORSESHOE.holds(all_x, all_y)).all()
    outline = LonLatArea().from_text(TRIANGLE)
    assert isinstance(outline, Outline)
    assert outline.box == Box(*map(Fraction, ("116.2", "39.7", "116.6", "40.1")))


@pytest.mark.parametrize("region", [REGION, AREA], ids=["box", "outline"])
@pytest.mark.parametrize("method", [adatrace, dpt])
def test_baselines_give_possible_trips(method: Any, region: Region) -> None:
    trips = cut_trips(*small_city(150, 3), region, PERIOD)
    drawn = method.draw(trips, region, Fraction(1), SeededSource(2))
    asked = (region, PERIOD, Fraction(1), 200, SMALL.every_us)
    made, again = (method.make_trips(drawn, *asked) for _ in range(2))
    strict.check_trips(strict.Synthetic(*made), 200, region, PERIOD, SMALL)
    assert (made[0].location == again[0].location).all()


def test_steps_too_short_for_a_wide_area_are_refused() -> None:
    outline = LonLatArea().from_text("POLYGON((100 30, 120 30, 120 45, 100 30))")
    options = SyntheticOptions(
        epsilon=Decimal(1), size=None, every=1_000_000, region=outline, period=None
    )
    with pytest.raises(BadInput, match="every 1s is too short"):
        AdaTraceStep().require_possible(options, 100, 1000)
    AdaTraceStep().require_possible(replace(options, every=60_000_000), 100, 1000)


def test_an_area_without_room_is_refused() -> None:
    sliver = Corners(
        np.array([0.0, 20_000.0, 20_000.0, 0.0, 0.0]),
        9_000.0 + np.array([0.0, 0.0, 0.001, 0.001, 0.0]),
        np.array([0, 5]),
    )  # fmt: skip
    with pytest.raises(BadInput, match="too thin"):
        lattice(Grids(Region(0.0, 0.0, 20_000.0, 18_000.0, sliver), 6, 5, 1, 3), 60_000_000)


# --- what the owner said, in degrees ---------------------------------------------------------------

SAID = [
    "9.0,59.0,11.5,60.2",  # wide and far north: parallels bend by hundreds of metres
    "POLYGON((9 59, 11.5 59.1, 11 60.2, 10.2 59.6, 9.3 60.1, 9 59))",
]


def said(text: str) -> Region:
    """A region as releases see it, in UTM zone 32."""
    area, stretch = LonLatArea().from_text(text), TimeStretch().from_text("2000-01-01/2000-01-04")
    return facts_in(32632, "EPSG:32632", "UTC")(area, stretch)[0]


def degrees_outside(text: str, x: Metres, y: Metres) -> int:
    """How many places lie outside of what was said, by shapely in degrees."""
    lon, lat = pyproj.Transformer.from_crs(32632, 4326, always_xy=True).transform(x, y)
    area = LonLatArea().from_text(text)
    shape = (
        shapely.box(*map(float, area))
        if isinstance(area, Box)
        else shapely.Polygon([tuple(map(float, c)) for c in area.rings[0]])
    )
    return int((~shapely.contains_xy(shape, lon, lat)).sum())


@pytest.mark.parametrize("text", SAID)
def test_a_region_is_what_was_said_and_not_the_box_around_it_in_metres(text: str) -> None:
    """Input outside is dropped, also where the box around the region in metres would hold it."""
    region = said(text)
    rng = np.random.default_rng(1)
    x = rng.uniform(region.x_min, region.x_max, 20_000)
    y = rng.uniform(region.y_min, region.y_max, 20_000)
    held = region.holds(x, y)
    assert degrees_outside(text, x[held], y[held]) == 0
    assert degrees_outside(text, x[~held], y[~held]) == (~held).sum() > 100
    outline = region.outline
    assert outline is not None
    # the outline in metres says the same but for the very edge
    assert (outline.holds(x, y) != held).sum() <= 1


@pytest.mark.parametrize(
    ("text", "every"), [(SAID[0], 60_000_000), (SAID[1], 60_000_000), (SAID[1], 20_000_000)]
)
def test_every_sample_lies_inside_of_what_was_said(text: str, every: int) -> None:
    region = said(text)
    parameters = replace(SMALL, every_us=every)
    trajectories, places = small_city(150, 3)
    wide = Locations(
        region.x_min + places.x / REGION.width * region.width,
        region.y_min + places.y / REGION.height * region.height,
    )
    drawn = draw(trajectories, wide, region, PERIOD, parameters, SeededSource(1))
    log, released = strict.carry_out(drawn, region, PERIOD, parameters)
    strict.check(drawn, log, released, region, PERIOD, parameters)
    assert degrees_outside(text, released.places.x, released.places.y) == 0
    epsilon, source = Fraction(1), SeededSource(2)
    trips = cut_trips(trajectories, wide, region, PERIOD)
    for method in (adatrace, dpt):
        drawn = method.draw(trips, region, epsilon, source)
        made = method.make_trips(drawn, region, PERIOD, epsilon, 200, every)
        assert degrees_outside(text, made[1].x, made[1].y) == 0


def test_a_sample_outside_of_what_was_said_is_found() -> None:
    """The middle of the north edge of the box in metres lies north of the parallel."""
    region = said(SAID[0])
    trajectories = Trajectories(
        np.array([0, 2]), np.zeros(2, np.int32), np.array([0, 60_000_000]), np.zeros(1, np.int64)
    )
    middle = (region.x_min + region.x_max) / 2
    inside = Locations(np.array([middle]), np.array([(region.y_min + region.y_max) / 2]))
    outside = Locations(np.array([middle]), np.array([region.y_max - 1.0]))
    one = replace(SMALL, size=1)
    strict.check_trips(strict.Synthetic(trajectories, inside), 1, region, PERIOD, one)
    with pytest.raises(VerificationFailed, match="1 places lie outside the region"):
        strict.check_trips(strict.Synthetic(trajectories, outside), 1, region, PERIOD, one)
