"""The synthetic methods: budgets, plans, determinism, possible trips, and who may see what."""

from __future__ import annotations

import ast
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import freqdp_db
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.errors import VerificationFailed
from freqdp_db.mechanisms.accounting import (
    best_guess,
    best_guess_any,
    best_guess_pure,
    epsilon_of,
    gaussian_cost,
    pure_cost,
    rho_for,
    sigma2_for,
)
from freqdp_db.mechanisms.noise import SeededSource
from freqdp_db.methods.synthesis import adatrace, dpt, strict
from freqdp_db.methods.synthesis.baselines import adatrace_trips, dpt_trips
from freqdp_db.methods.synthesis.measuring import draw, measured
from freqdp_db.methods.synthesis.noisy import Draw, plan_of, spent
from freqdp_db.methods.synthesis.parameters import Parameters
from freqdp_db.methods.synthesis.plan import FIRST_ROUND, second_round
from freqdp_db.methods.synthesis.public import MINUTE_US
from freqdp_db.methods.synthesis.trips import cut_trips
from tests.synthetic_world import PERIOD, REGION, small_city, small_trips

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


@pytest.mark.parametrize("accounting", ["zcdp", "pure"])
@pytest.mark.parametrize("objects", [0, 3, 1_000, 50_000])
def test_no_plan_spends_more_than_is_booked(accounting: str, objects: int) -> None:
    parameters = Parameters(epsilon=Fraction(2), accounting=accounting)  # type: ignore[arg-type]
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


def test_same_draw_same_release(drawn: Draw) -> None:
    """Twice the same; and a shorter release is the beginning of a longer one's plans."""
    log, first = strict.carry_out(drawn, REGION, PERIOD, SMALL)
    again, second = strict.carry_out(drawn, REGION, PERIOD, SMALL)
    replayed = strict.replay(drawn, log, REGION, PERIOD, SMALL)
    for other in (second, replayed):
        assert (first.trajectories.at == other.trajectories.at).all()
        assert (first.trajectories.location == other.trajectories.location).all()
        assert (first.places.x == other.places.x).all()
    assert all((getattr(log, f.name) == getattr(again, f.name)).all() for f in fields(log))
    counts = strict.check(drawn, log, first, REGION, PERIOD, SMALL)
    assert counts["trips"] == 300 == len(first.key)
    shifted = replace(drawn, seed=drawn.seed[::-1].copy())
    third = strict.replay(shifted, log, REGION, PERIOD, SMALL)
    assert not np.array_equal(first.trajectories.location, third.trajectories.location)


def test_ranges_do_not_matter(drawn: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    log, first = strict.carry_out(drawn, REGION, PERIOD, SMALL)
    monkeypatch.setattr("freqdp_db.engines.threads._RANGES_PER_CORE", 1)
    monkeypatch.setattr("freqdp_db.engines.threads.cores", lambda: 1)
    alone = strict.replay(drawn, log, REGION, PERIOD, SMALL)
    assert (first.trajectories.location == alone.trajectories.location).all()
    assert (first.trajectories.at == alone.trajectories.at).all()


@pytest.mark.parametrize("every", [5, 60, 600])
def test_trips_are_possible(drawn: Draw, every: int) -> None:
    parameters = replace(SMALL, every_us=every * 1_000_000)
    _, released = strict.carry_out(drawn, REGION, PERIOD, parameters)
    assert strict.check_trips(released, 300, REGION, PERIOD, parameters)["trips"] == 300


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
    parameters = Parameters(epsilon=Fraction(1), accounting=accounting, size=50)  # type: ignore[arg-type]
    trajectories, places = small_city(max(objects, 1), 2)
    if objects == 0:
        places = Locations(places.x + 10**6, places.y)
    made = draw(trajectories, places, REGION, PERIOD, parameters, SeededSource(4))
    plan = plan_of(made, REGION, PERIOD, parameters)
    assert [len(getattr(made, s.name)) for s in plan.statistics] == plan.sizes
    _, released = strict.carry_out(made, REGION, PERIOD, parameters)
    strict.check_trips(released, 50, REGION, PERIOD, parameters)


def test_baselines_give_possible_trips() -> None:
    trips, epsilon, source = small_trips(100, 6), Fraction(1), SeededSource(2)
    parameters = Parameters(size=200)
    for made, again in (
        [adatrace_trips(a, REGION, PERIOD, epsilon, 200, parameters.every_us) for _ in range(2)]
        for a in [adatrace.draw(trips, REGION, epsilon, source)]
    ):
        strict.check_trips(strict.Synthetic(*made), 200, REGION, PERIOD, parameters)
        assert (made[0].location == again[0].location).all()
    made = dpt_trips(
        dpt.draw(trips, REGION, epsilon, source), REGION, PERIOD, epsilon, 200, parameters.every_us
    )
    strict.check_trips(strict.Synthetic(*made), 200, REGION, PERIOD, parameters)


# --- who sees what --------------------------------------------------------------------------------

FOLDER = Path(freqdp_db.__file__).parent / "methods" / "synthesis"
DECLARE = {"areas", "kinds", "places_and_times", "parameters"}
SEE_DATA = {"trips", "vectors", "measuring", "baseline", "adatrace", "dpt"}
PUBLIC_SIDE = (
    "strict", "estimation", "lengths", "smoothing", "fitting", "walks", "lines", "sampling",
    "roads", "routes", "driving", "inside", "noisy", "plan", "layout", "parameters", "public",
)  # fmt: skip


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
                assert parts[1] in {"methods", "mechanisms", "columns", "engines", "errors"}
                if parts[1] == "methods" and parts[2] not in DECLARE:
                    assert parts[2] == "synthesis"
                    left |= {parts[3]} - seen
    assert not seen & SEE_DATA
