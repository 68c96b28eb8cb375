"""The audit of a guarantee for a person has power, and catches mechanisms that are broken."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from freqdp_db.evaluation import audit as persons
from freqdp_db.evaluation.audit import released_told_apart, told_apart
from freqdp_db.methods.contract import StepContext
from freqdp_db.methods.synthesis import vectors
from freqdp_db.methods.synthesis.options import Parameters, StrictOptions
from freqdp_db.methods.synthesis.plan import SCALE, Draw, MeasurementPlan, Statistic
from freqdp_db.methods.synthesis.trips import Trips
from freqdp_db.methods.synthesis.vectors import measured, vectors_of, with_noise
from freqdp_db.model.arrays import Ints
from freqdp_db.model.trajectories import Build, Clock
from freqdp_db.privacy.noise import RandomSource, SeededSource
from tests.synthetic_world import PERIOD, REGION, rough_fits, small_city

RUNS = 8_000


@pytest.fixture(scope="module")
def world() -> StepContext:
    trajectories, places = small_city(200, 3)
    build = Build(trajectories, places, Clock(1, 1), 3857, 3857)
    return StepContext(build, facts=lambda region, period: (REGION, PERIOD))


@pytest.fixture(autouse=True)
def _rough(monkeypatch: pytest.MonkeyPatch) -> None:
    rough_fits(monkeypatch)


def asked(epsilon: str) -> StrictOptions:
    return StrictOptions(
        epsilon=Decimal(epsilon), size=None, every=60_000_000, region=None, period=None,
        delta=Decimal("0.000001"), accounting="zcdp", roads=None,
    )  # fmt: skip


def half_of_it(
    total: Ints, statistic: Statistic, parameters: Parameters, source: RandomSource
) -> Ints:
    """As if four times the budget had been booked: half the width."""
    noise = with_noise(np.zeros_like(total), statistic, parameters, source)
    return total + noise // 2


def exact(name: str) -> Any:
    def noisy(
        total: Ints, statistic: Statistic, parameters: Parameters, source: RandomSource
    ) -> Ints:
        if statistic.name == name:
            return total
        return with_noise(total, statistic, parameters, source)

    return noisy


def unclipped(trips: Trips, plan: MeasurementPlan, one: int, *, pure: bool) -> list[Ints]:
    loose = [replace(s, bound=min(64 * s.bound, 2**30)) for s in plan.statistics]
    return vectors_of(trips, MeasurementPlan(plan.grids, plan.period, loose), one, pure=pure)


@pytest.mark.parametrize("epsilon", ["1", "2"])
def test_vectors_show_much_and_not_too_much(world: StepContext, epsilon: str) -> None:
    bound = told_apart(world, asked(epsilon), SeededSource(1), RUNS)
    assert 0.3 * float(epsilon) < bound.lower <= float(epsilon)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("with_noise", half_of_it),
        ("with_noise", exact("trips")),
        ("with_noise", exact("objects")),
        ("vectors_of", unclipped),
    ],
    ids=["half the noise", "exact trips", "exact objects", "no clip"],
)
def test_what_is_broken_is_caught(
    world: StepContext, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persons, name, broken)
    assert told_apart(world, asked("2"), SeededSource(1), RUNS).lower > 2


def test_released_trips_show_no_more_than_is_claimed(world: StepContext) -> None:
    seen = released_told_apart(world, asked("1"), SeededSource(1), 60, 0.001)
    assert all(bound.lower <= 1 for bound in seen.values())


def test_an_exact_count_in_a_release_is_caught(
    world: StepContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many trips as there are, and not their noisy number."""

    def leaking(trips: Trips, *more: Any) -> Draw:
        return replace(measured(trips, *more), trips=np.array([len(trips) * SCALE]))

    monkeypatch.setattr(persons, "measured", leaking)
    monkeypatch.setattr(persons, "released_size", lambda drawn, *_: int(drawn.trips[0]) // SCALE)
    seen = released_told_apart(world, asked("1"), SeededSource(1), 60, 0.001)
    assert seen["number of trips"].lower > 1


def test_releases_without_noise_are_caught(
    world: StepContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "with_noise", lambda total, *_: total)
    seen = released_told_apart(world, asked("1"), SeededSource(1), 60, 0.001)
    assert max(bound.lower for bound in seen.values()) > 1


def test_delta_is_no_leak() -> None:
    """An event of probability delta in one world alone is allowed."""
    from freqdp_db.evaluation.audit import bound_from_hits

    assert bound_from_hits(100, 0, 100_000, 0.001).lower > 1
    assert bound_from_hits(100, 0, 100_000, 0.001, delta=0.002).lower == 0
    assert Fraction(asked("1").delta) == Fraction(1, 10**6)
