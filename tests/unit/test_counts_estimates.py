"""Counts: least squares over levels, whole numbers that add up, margins that hold, tables that agree."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from counts_world import grid_zones, time_bins
from synthetic_world import PERIOD, REGION, riders, small_city

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.counts.checking import check
from freqdp_db.methods.counts.contributions import WHOLE, contributions_of
from freqdp_db.methods.counts.estimation import Level, least_squares, rounded, smoothed, sums
from freqdp_db.methods.counts.measuring import (
    _picked,
    bounded_by,
    draw,
    flow_cells,
    measured,
    totals,
)
from freqdp_db.methods.counts.options import TABLES, Budget
from freqdp_db.methods.counts.plan import (
    Draw,
    Plan,
    Shape,
    classes_of,
    first_round,
    plan_of,
    second_round,
    spent,
)
from freqdp_db.methods.counts.tables import Made, made_of
from freqdp_db.privacy.noise import SecureSource, SeededSource

ZONES, BINS = grid_zones(), time_bins("parts-of-day")
ZCDP = Budget(Fraction(8), Fraction(1, 10**6))
PURE = Budget(Fraction(40), Fraction(1, 10**6), pure=True)


def test_least_squares_is_that_of_the_whole_system() -> None:
    """Against the normal equations of all measurements at once, values and variances."""
    generator = np.random.default_rng(1)
    districts = generator.permutation(np.repeat(np.arange(3), (2, 4, 5)))
    pairs = np.repeat(np.arange(3), 3)
    levels = {
        "city": Level(None, np.zeros(1, np.int64), generator.normal(0, 9, (1, 2)), 4.0),
        "district": Level("city", np.zeros(3, np.int64)),
        "zone": Level("district", districts, generator.normal(0, 9, (11, 2)), 9.0),
        "pair": Level("district", pairs, generator.normal(0, 9, (9, 2)), 2.5),
    }
    # unknown: zones, then pairs of which the last of each district follows from the others
    free = [k for k in range(9) if k % 3 < 2]
    design, values, weights = [], [], []
    zone_rows = np.hstack([np.eye(11), np.zeros((11, 6))])
    pair_rows = np.zeros((9, 17))
    for place, k in enumerate(free):
        pair_rows[k, 11 + place] = 1
    for d in range(3):
        pair_rows[3 * d + 2, :11] = districts == d
        pair_rows[3 * d + 2] -= pair_rows[3 * d] + pair_rows[3 * d + 1]
    city_row = np.hstack([np.ones((1, 11)), np.zeros((1, 6))])
    rows = {"city": city_row, "zone": zone_rows, "pair": pair_rows}
    for name, row in rows.items():
        level = levels[name]
        design.append(row / level.variance**0.5)
        values.append(level.noisy / level.variance**0.5)  # type: ignore[operator]
        weights.append(row)
    a, b = np.vstack(design), np.vstack(values)
    covariance = np.linalg.inv(a.T @ a)
    solution = covariance @ a.T @ b
    fits = least_squares(levels)
    rows["district"] = np.hstack([np.eye(3)[districts].T, np.zeros((3, 6))])
    for name, row in rows.items():
        assert np.allclose(fits[name].value, row @ solution)
        assert np.allclose(fits[name].variance[:, 0], np.diag(row @ covariance @ row.T))


def test_whole_numbers_add_up() -> None:
    generator = np.random.default_rng(2)
    parent = generator.integers(0, 4, 30)
    parent[:4] = np.arange(4)
    values = generator.normal(0, 5, (30, 6))
    above = np.rint(sums(parent, values, 4)).astype(np.int64)
    found = rounded(values, parent, above)
    assert np.array_equal(sums(parent, found, 4), above)
    assert np.abs(found - values).max() < 1.5


def test_estimates_are_not_below_zero_and_add_up() -> None:
    generator = np.random.default_rng(3)
    parent = np.repeat(np.arange(5), 7)
    true = generator.gamma(0.5, 30, (35, 24))
    noisy = true + generator.normal(0, 20, true.shape)
    above = sums(parent, true, 5)
    levels = {
        "city": Level(None, np.zeros(5, np.int64), above, 1e-6),
        "zone": Level("city", parent, noisy, 400.0),
    }
    found = smoothed(above, parent, least_squares(levels)["zone"])
    assert found.min() >= 0 and np.allclose(sums(parent, found, 5), above)
    assert ((found - true) ** 2).mean() < 0.7 * ((noisy - true) ** 2).mean()


def made(budget: Budget, seed: int, objects: int = 60) -> tuple[Draw, Plan, Made]:
    trajectories, places = small_city(objects, 4)
    drawn = draw(
        trajectories, places, REGION, PERIOD, ZONES, BINS, TABLES, budget, None, SeededSource(seed)
    )
    plan = plan_of(drawn, Shape.of(ZONES, BINS), TABLES, budget, None)
    return drawn, plan, made_of(drawn, plan, ZONES, BINS, budget)


@pytest.mark.parametrize("budget", [ZCDP, PURE], ids=["zcdp", "pure"])
def test_tables_agree_and_keep_to_the_budget(budget: Budget) -> None:
    drawn, plan, tables = made(budget, 5)
    assert check(drawn, tables, plan, ZONES, budget)["rows"] == len(tables)
    cost = spent([*first_round(TABLES, pure=budget.pure), *plan.measurements.values()], budget)
    assert budget.whole * Fraction(999, 1000) < cost <= budget.whole


@pytest.mark.parametrize("column", ["visits_value", "flows_value", "stays_estimate", "trips_value"])
def test_a_changed_number_is_found(column: str) -> None:
    drawn, plan, tables = made(ZCDP, 6)
    for place in (1, len(getattr(tables, column)) - 1):
        changed = getattr(tables, column).copy()
        changed[place] += 1
        with pytest.raises(VerificationFailed):
            check(drawn, replace(tables, **{column: changed}), plan, ZONES, ZCDP)


@pytest.mark.parametrize("pure", [False, True], ids=["zcdp", "pure"])
def test_margins_hold_what_they_say(pure: bool) -> None:
    """Over many draws 95 % of the intervals hold the bounded count, at every level."""
    budget = Budget(Fraction(2), Fraction(1, 10**6), pure)
    trajectories, places = riders(250, 8)
    inside: dict[str, list[bool]] = {}
    for seed in range(40):
        source = SeededSource(seed)
        found = contributions_of(trajectories, places, REGION, PERIOD, ZONES, BINS)
        drawn = measured(found, ZONES, BINS, TABLES, budget, None, source)
        plan = plan_of(drawn, Shape.of(ZONES, BINS), TABLES, budget, None)
        tables = made_of(drawn, plan, ZONES, BINS, budget)
        bounded = bounded_by(found, plan, ZONES, pure=pure)
        exact = {name: sum_ / WHOLE for name, sum_ in totals(bounded, plan, ZONES).items()}
        bins, zones = len(BINS), len(ZONES)
        for name in ("visits", "stays"):
            table = tables.table(name)
            value, margin = (table[c][: zones * (bins + 1)] for c in ("value", "margin"))
            value, margin = (c.reshape(zones, bins + 1) for c in (value, margin))
            true = exact[f"{name}_zone"].reshape(zones, bins)
            whole = np.hstack([true.sum(axis=1, keepdims=True), true])
            hit = np.abs(value - whole) <= margin
            inside.setdefault(f"{name} zone", []).extend(hit[:, 1:].ravel())
            inside.setdefault(f"{name} zone, all bins", []).extend(hit[:, 0])
        flows = tables.table("flows")
        count, city = ZONES.districts, ZONES.city_id
        origin, destination = flows["origin"], flows["destination"]
        far = (origin > zones) & (origin < city) & (destination > zones) & (destination < city)
        true = exact["flows_districts"].reshape(count * count, bins)
        whole = np.hstack([true.sum(axis=1, keepdims=True), true]).ravel()
        hit = np.abs(flows["value"][far] - whole) <= flows["margin"][far]
        inside.setdefault("between districts", []).extend(hit)
        cells, counts = flow_cells(bounded.trips, plan.shape)
        known = dict(zip(cells.tolist(), (counts / WHOLE).tolist(), strict=True))
        near = (origin <= zones) & (destination <= zones)
        true = np.array([known.get(cell, 0) for cell in drawn.picked.tolist()])
        hit = np.abs(flows["value"][near] - true) <= flows["margin"][near]
        inside.setdefault("between zones", []).extend(hit)
    for name, hits in inside.items():
        assert len(hits) > 500, name
        error = (0.95 * 0.05 / len(hits)) ** 0.5
        assert abs(np.mean(hits) - 0.95) < 0.01 + 4 * error, (name, np.mean(hits))


def test_picked_cells_have_the_law_of_noise_on_every_cell() -> None:
    """As often as if noise were drawn for every cell; those without trips all alike."""
    _, plan, _ = made(ZCDP, 7)
    plan = replace(
        plan, shape=Shape(9, 2, 5), threshold=2 * math.isqrt(plan["picked"].bound) // WHOLE
    )
    tail = plan["picked"].tail(ZCDP, plan.threshold * WHOLE)
    cells, counts = np.array([3, 4, 77, 404]), np.array([0, 0, 0, 10**8])
    hits = np.zeros(405)
    trials = 4_000
    for _ in range(trials):
        hits[_picked(cells, counts, plan, ZCDP, SecureSource())] += 1
    p = tail.probability()
    assert 0.0005 < p < 0.5 and hits[404] == trials
    error = (p * (1 - p) / trials) ** 0.5
    assert np.abs(hits[:404] / trials - p).max() < 5.5 * error
    assert abs(hits[:404].mean() / trials - p) < 5.5 * error / 404**0.5


def test_a_chosen_threshold_is_kept() -> None:
    trajectories, places = small_city(20, 4)
    what = (trajectories, places, REGION, PERIOD, ZONES, BINS, ("flows",), ZCDP)
    for threshold in (3, 10**6):
        drawn = draw(*what, threshold, SeededSource(1))
        plan = plan_of(drawn, Shape.of(ZONES, BINS), ("flows",), ZCDP, threshold)
        assert plan.threshold == threshold
        own = set(drawn.picked) - set(drawn.likely)
        assert (len(own) > 100) == (threshold == 3)


def test_only_what_is_asked_for_is_measured() -> None:
    trajectories, places = small_city(20, 4)
    drawn = draw(
        trajectories, places, REGION, PERIOD, ZONES, BINS, ("trips",), ZCDP, None, SeededSource(1)
    )
    plan = plan_of(drawn, Shape.of(ZONES, BINS), ("trips",), ZCDP, None)
    assert set(plan.measurements) == {"trips_city", "trips_class"}
    assert not len(drawn.visits_zone) and not len(drawn.picked)
    tables = made_of(drawn, plan, ZONES, BINS, ZCDP)
    assert check(drawn, tables, plan, ZONES, ZCDP)["rows"] == len(tables.trips_bin)


def test_noise_that_hides_every_flow_picks_none() -> None:
    """With hardly any budget flows between zones are chosen by the coarser levels alone."""
    budget = Budget(Fraction(1, 100), Fraction(1, 10**6))
    drawn, plan, tables = made(budget, 3)
    assert "picked" not in plan and np.array_equal(drawn.picked, drawn.likely)
    assert check(drawn, tables, plan, ZONES, budget)["rows"] == len(tables)


@pytest.mark.parametrize("pure", [False, True], ids=["zcdp", "pure"])
@pytest.mark.parametrize("number", [1, 20, 700, 10**6])
def test_bounds_for_objects_that_are_all_alike(number: int, pure: bool) -> None:
    """However many contributions they have: little is lost, and the bound is about what they have."""
    budget = Budget(Fraction(1), Fraction(1, 10**6), pure)
    many = classes_of(np.full(10**6, number))
    names = [m.name for m in first_round(TABLES, pure=pure)]
    round_one = {n: np.array([10**6]) if n == "objects" else many for n in names}
    plan = second_round(Shape.of(ZONES, BINS), TABLES, budget, round_one)
    for bounds in (plan.visits, plan.trips, plan.stays):
        assert bounds.lost <= 0.3 and number / 4 <= bounds.sizes <= 2 * number
