"""The audit of counts has power, and catches noise that is too narrow and bounds that are forgotten."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from synthetic_world import PERIOD, REGION, grid_zones, small_city

from freqdp_db.evaluation import audit
from freqdp_db.evaluation.audit import bound_of_vectors, bounds_of_releases
from freqdp_db.methods.contract import StepContext
from freqdp_db.methods.counts.contributions import Contributions
from freqdp_db.methods.counts.family import TABLES, CountsOptions
from freqdp_db.methods.counts.plan import Design, Measurement, Plan
from freqdp_db.model.arrays import Ints
from freqdp_db.model.trajectories import Build, Clock
from freqdp_db.privacy.noise import SeededSource

RUNS = 4_000


@pytest.fixture(scope="module")
def world() -> StepContext:
    trajectories, places = small_city(200, 3)
    build = Build(trajectories, places, Clock(1, 1), 3857, 3857)
    return StepContext(
        build, inputs={"zones": grid_zones()}, facts=lambda region, period: (REGION, PERIOD)
    )


def asked(accounting: str = "zcdp") -> CountsOptions:
    return CountsOptions(
        zones=None, zone=None, district=None, bins="parts-of-day", tables=TABLES, roads=None,
        epsilon=Decimal(1), delta=Decimal("0.000001"), accounting=accounting, threshold=None,
        region=None, period=None,
    )  # fmt: skip


def shown(world: StepContext) -> float:
    return bound_of_vectors(world, asked(), SeededSource(1), RUNS).lower


def test_it_stays_within_the_claim_and_has_power(world: StepContext) -> None:
    assert 0.15 < shown(world) <= 1


def test_half_the_noise_is_caught(world: StepContext, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = Measurement.noise
    monkeypatch.setattr(Measurement, "noise", lambda *arguments: noise(*arguments) // 2)
    assert shown(world) > 1


def test_forgotten_bounds_are_caught(world: StepContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def unbounded(found: Contributions, plan: Plan) -> Contributions:
        return found

    plan = audit.second_round

    def low(design: Design, round_one: dict[str, Ints]) -> Plan:
        return plan(design, {n: np.zeros(40, int) for n in round_one})

    monkeypatch.setattr(audit, "bounded_by", unbounded)
    monkeypatch.setattr(audit, "second_round", low)
    assert shown(world) > 1


@pytest.mark.parametrize("accounting", ["zcdp", "pure"])
def test_released_tables_stay_within_the_claim(world: StepContext, accounting: str) -> None:
    found = bounds_of_releases(world, asked(accounting), SeededSource(2), 60, 0.001)
    assert len(found) == 3 and all(bound.lower <= 1 for bound in found.values())
