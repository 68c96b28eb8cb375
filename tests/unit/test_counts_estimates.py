"""Counts: least squares over levels, whole numbers that add up, margins that hold, tables that agree."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from synthetic_world import PERIOD, REGION, grid_roads, grid_zones, riders, small_city, time_bins

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.counts import plan as plan_module
from freqdp_db.methods.counts.checking import check
from freqdp_db.methods.counts.contributions import (
    FASTEST_KMH,
    WHOLE,
    Contributions,
    Items,
    contributions_of,
)
from freqdp_db.methods.counts.estimation import (
    Level,
    _projected,
    least_squares,
    margins,
    rounded,
    smoothed,
    sums,
    total_margins,
)
from freqdp_db.methods.counts.family import TABLES
from freqdp_db.methods.counts.measuring import (
    _pick_cells,
    bounded_by,
    cells_of,
    measure,
)
from freqdp_db.methods.counts.plan import (
    Design,
    Draw,
    Plan,
    Shape,
    estimate_lost_share,
    plan_of,
    second_round,
    size_histogram,
)
from freqdp_db.methods.counts.tables import CountTables, make_tables
from freqdp_db.model.arrays import Flags
from freqdp_db.privacy.accounting import PrivacyBudget
from freqdp_db.privacy.noise import SecureSource, SeededSource

ZONES, BINS = grid_zones(), time_bins("parts-of-day")
ROADS = grid_roads(ZONES)
WITH_ROADS = (*TABLES, "roads")
SPARSE = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
ZCDP = PrivacyBudget(Fraction(8), Fraction(1, 10**6))
PURE = PrivacyBudget(Fraction(40), Fraction(1, 10**6), pure=True)


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


def test_what_is_missing_goes_to_those_that_lost_most() -> None:
    values = np.array([[0.5, 1.2], [3.9, 1.2], [0.5, 1.2], [7.5, 4.0]])
    parent = np.array([1, 1, 1, 0])
    found = rounded(values, parent, np.array([[8, 4], [5, 9]]))
    assert found.tolist() == [[1, 3], [4, 3], [0, 3], [8, 4]], (
        "ties to the first, several each if need be"
    )
    assert rounded(values, parent, np.array([[7, 4], [5, 1]]))[:3, 1].tolist() == [1, 0, 0]


def test_nearest_numbers_that_add_up() -> None:
    """Each is its value less the same multiple of its share, or 0 where that is below 0."""
    generator = np.random.default_rng(6)
    parent = generator.permutation(np.repeat(np.arange(4), 10))
    values = generator.normal(3, 10, (40, 5))
    variance = generator.uniform(0.5, 2, (40, 1))
    above = np.maximum(sums(parent, values, 4), 5.0)
    found = _projected(values, variance, above, parent)
    assert (found >= 0).all() and np.allclose(sums(parent, found, 4), above)
    for p in range(4):
        of = parent == p
        multiple = (values[of] - found[of]) / variance[of]
        for b in range(5):
            free = found[of][:, b] > 0
            assert np.ptp(multiple[free, b]) < 1e-6
            assert (multiple[~free, b] <= multiple[free, b].max() + 1e-6).all()


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


def sparse_from(monkeypatch: pytest.MonkeyPatch, sparse: bool) -> None:
    """Have the small world of these tests measured as a large one is."""
    if sparse:
        monkeypatch.setattr(plan_module, "MAX_DENSE_CELLS", 10)
    assert Shape.of(ZONES, BINS, ROADS).sparse == sparse
    assert Shape.of(ZONES, BINS, ROADS).few_roads != sparse


def made(
    budget: PrivacyBudget,
    seed: int,
    objects: int = 60,
    tables: tuple[str, ...] = TABLES,
    threshold: int | None = None,
) -> tuple[Draw, Plan, CountTables]:
    roads = ROADS if "roads" in tables else None
    found = contributions_of(*small_city(objects, 4), REGION, PERIOD, ZONES, BINS, roads)
    design = Design(ZONES, BINS, tables, budget, threshold, roads)
    drawn = measure(found, design, SeededSource(seed))
    plan = plan_of(drawn, design)
    return drawn, plan, make_tables(drawn, plan)


@SPARSE
@pytest.mark.parametrize("budget", [ZCDP, PURE], ids=["zcdp", "pure"])
def test_tables_agree_and_keep_to_the_budget(
    budget: PrivacyBudget, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sparse_from(monkeypatch, sparse)
    drawn, plan, tables = made(budget, 5, tables=WITH_ROADS)
    assert check(drawn, tables, plan)["rows"] == len(tables)
    assert budget.whole * Fraction(999, 1000) < plan.cost <= budget.whole


@SPARSE
@pytest.mark.parametrize(
    "column", ["visits_value", "flows_value", "stays_estimate", "trips_value", "roads_value"]
)
def test_a_changed_number_is_found(
    column: str, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sparse_from(monkeypatch, sparse)
    drawn, plan, tables = made(ZCDP, 6, tables=WITH_ROADS)
    for place in (1, len(getattr(tables, column)) - 1):
        changed = getattr(tables, column).copy()
        changed[place] += 1
        with pytest.raises(VerificationFailed):
            check(drawn, replace(tables, **{column: changed}), plan)


def held(tables: CountTables, bounded: Contributions) -> dict[str, Flags]:
    """Whether each interval holds the bounded count, by table and level, and for all bins apart."""
    found = {}
    for name in ("visits", "stays", "flows", "roads"):
        rows = tables.table(name)
        items = getattr(bounded, {"flows": "trips", "roads": "passages"}.get(name, name))
        ends = {"flows": ("origin", "destination"), "roads": ("road",)}.get(name, ("zone",))
        of = ROADS if name == "roads" else ZONES
        zones, city = len(of), of.city_id
        areas = (of.ids, of.district_ids[of.district], np.full(zones, city))
        true = np.zeros((city + 1,) * len(ends) + (len(BINS) + 1,))
        kmh = np.zeros_like(true)
        for at in product(areas, repeat=len(ends)):
            place = [area[zone] for area, zone in zip(at, (items.zone, items.to), strict=False)]
            for bin in (items.bin + 1, np.zeros_like(items.bin)):
                np.add.at(true, (*place, bin), items.parts / WHOLE)
                if name == "roads":
                    np.add.at(kmh, (*place, bin), items.parts * items.size / WHOLE)
        key = [rows[end] for end in ends]
        hit = np.abs(rows["value"] - true[(*key, rows["bin"])]) <= rows["margin"]
        level = sum(3**k * np.searchsorted((zones, city - 1), each) for k, each in enumerate(key))
        for one in np.unique(level):
            for all_bins in (False, True):
                chosen = (level == one) & ((rows["bin"] == 0) == all_bins)
                found[f"{name} {one}, all bins: {all_bins}"] = hit[chosen]
        if name == "roads":
            there = (true[(*key, rows["bin"])] > 0) & (rows["mean_margin"] < FASTEST_KMH)
            mean = kmh[(*key, rows["bin"])][there] / true[(*key, rows["bin"])][there]
            found["speeds"] = np.abs(rows["mean_kmh"][there] - mean) <= rows["mean_margin"][there]
    return found


@pytest.mark.parametrize(
    ("pure", "sparse"),
    [(False, False), (True, False), (False, True)],
    ids=["zcdp", "pure", "sparse"],
)
def test_margins_hold_what_they_say(
    pure: bool, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over many draws 95 % of the intervals hold the bounded count, at every level."""
    sparse_from(monkeypatch, sparse)
    budget = PrivacyBudget(Fraction(2), Fraction(1, 10**6), pure)
    found = contributions_of(*riders(250, 8), REGION, PERIOD, ZONES, BINS, ROADS)
    design = Design(ZONES, BINS, WITH_ROADS, budget, roads=ROADS)
    inside: dict[str, list[bool]] = {}
    for seed in range(40):
        drawn = measure(found, design, SeededSource(seed))
        plan = plan_of(drawn, design)
        tables, bounded = make_tables(drawn, plan), bounded_by(found, plan)
        for name, hits in held(tables, bounded).items():
            inside.setdefault(name, []).extend(hits)
    assert np.mean(inside.pop("speeds")) > 0.94
    for name, hits in inside.items():
        error = (0.95 * 0.05 / max(len(hits), 1)) ** 0.5
        assert not len(hits) or abs(np.mean(hits) - 0.95) < 0.01 + 4 * error, (name, np.mean(hits))


@pytest.mark.parametrize("bins", [1, 2, 24])
@pytest.mark.parametrize("scale", [1.0, 40.0], ids=["by bins", "by their sum"])
def test_margins_of_laplace_noise(bins: int, scale: float) -> None:
    """Where a number is mostly one measured number, and where it is one of many that were added up."""
    zones, noise = 40_000, np.random.default_rng(bins)
    spread = {"bin": 1e3 * scale, "sum": 1e3 * math.sqrt(bins) / scale}
    level = Level(
        None, np.zeros(zones, np.int64), noise.laplace(0, spread["bin"], (zones, bins)),
        2 * spread["bin"] ** 2, noise.laplace(0, spread["sum"], (zones, 1)), 2 * spread["sum"] ** 2,
    )  # fmt: skip
    (fit,) = least_squares({"zone": level}).values()
    error = 4 * (0.95 * 0.05 / zones) ** 0.5
    total = np.abs(fit.value.sum(axis=1, keepdims=True)) <= total_margins(fit, pure=True)
    assert abs(total.mean() - 0.95) < 0.004 + error, total.mean()
    one = np.abs(fit.value[:, :1]) <= margins(fit, pure=True)
    assert abs(one.mean() - 0.95) < 0.004 + error, one.mean()


def test_cells_of_a_large_domain_are_all_different() -> None:
    """Each flow is in a cell of its own: 32 bits, which NumPy 1 would compute in, hold fewer numbers."""
    shape = Shape(100_000, 300, 168)
    at = np.array([0, 3, 45_678, 99_998, 99_999], np.int32)
    origin, destination, bin = (c.ravel() for c in np.meshgrid(at, at, at % 168, indexing="ij"))
    offsets, parts = np.array([0, len(bin)]), np.array([WHOLE])
    trips = Items(offsets, bin, origin, destination, np.zeros_like(bin), parts)
    cells, counts = cells_of("flows", Contributions(trips, trips, trips, trips), shape)
    by_hand = {
        (int(a) * 100_000 + int(b)) * 168 + int(c)
        for a, b, c in zip(origin, destination, bin, strict=True)
    }
    assert cells.tolist() == sorted(by_hand)
    assert (counts == WHOLE).all()


def test_picked_cells_have_the_law_of_noise_on_every_cell() -> None:
    """As often as if noise were drawn for every cell; those without trips all alike."""
    _, plan, _ = made(ZCDP, 7)
    least = 2 * math.isqrt(plan["flows_picked"].bound) // WHOLE
    small = SimpleNamespace(shape=Shape(9, 2, 5))
    plan = replace(plan, design=small, threshold={"flows": least})  # type: ignore[arg-type]
    tail = plan["flows_picked"].tail(least * WHOLE)
    cells, counts = np.array([3, 4, 77, 404]), np.array([0, 0, 0, 10**8])
    hits = np.zeros(405)
    trials = 4_000
    for _ in range(trials):
        hits[_pick_cells("flows", cells, counts, plan, SecureSource())] += 1
    p = tail.probability()
    assert 0.0005 < p < 0.5 and hits[404] == trials
    error = (p * (1 - p) / trials) ** 0.5
    assert np.abs(hits[:404] / trials - p).max() < 5.5 * error
    assert abs(hits[:404].mean() / trials - p) < 5.5 * error / 404**0.5


def test_a_chosen_threshold_is_kept() -> None:
    for threshold in (3, 10**6):
        drawn, plan, _ = made(ZCDP, 1, 20, ("flows",), threshold)
        assert plan.threshold["flows"] == threshold
        own = set(drawn.flows_picked) - set(drawn.flows_likely)
        assert (len(own) > 100) == (threshold == 3)


def test_only_what_is_asked_for_is_measured() -> None:
    drawn, plan, tables = made(ZCDP, 1, 20, ("trips",))
    assert set(plan.measurements) == {"trips_city", "trips_class"}
    assert not len(drawn.visits_zone) and not len(drawn.flows_picked)
    assert check(drawn, tables, plan)["rows"] == len(tables.trips_bin)


def test_noise_that_hides_every_flow_picks_none() -> None:
    """With hardly any budget flows between zones are chosen by the coarser levels alone."""
    budget = PrivacyBudget(Fraction(1, 100), Fraction(1, 10**6))
    drawn, plan, tables = made(budget, 3)
    assert "flows_picked" not in plan
    assert np.array_equal(drawn.flows_picked, drawn.flows_likely)
    assert check(drawn, tables, plan)["rows"] == len(tables)


def test_few_objects_with_very_many_are_not_forgotten() -> None:
    """One in ten is a taxi: too few for the first round to see, yet much of what is counted."""
    design = Design(ZONES, time_bins(), TABLES, PrivacyBudget(Fraction(2), Fraction(1, 10**6)))
    generator, source = np.random.default_rng(4), SeededSource(4)
    sizes = design.first_round["visit_sizes"]
    off = []
    for _ in range(30):
        taxis = generator.lognormal(math.log(500), 0.4, 40)
        people = generator.lognormal(math.log(35), 0.5, 360)
        size = np.concatenate([taxis, people]).astype(np.int64)
        noisy = size_histogram(size) + sizes.noise(source, sizes.size)
        alike = 400 * size_histogram(np.array([40]))
        round_one = {n: np.array([400]) if n == "objects" else alike for n in design.first_round}
        plan = second_round(design, round_one | {"visit_sizes": noisy})
        bounds, city = plan.bounds["visits"], plan["visits_city"]
        part = np.floor(WHOLE * np.minimum(1, np.sqrt(bounds.sizes / size))) / WHOLE
        variance = design.shape.bins * (city.deviation / WHOLE) ** 2
        counted = (size * part).sum() + generator.normal(0, math.sqrt(variance))
        said = estimate_lost_share(noisy, sizes, bounds, counted, variance)
        true = 1 - (size * part).sum() / size.sum()
        off.append((abs(bounds.lost - true), abs(said - true)))
    by_histogram, by_what_was_counted = np.mean(off, axis=0)
    assert by_what_was_counted < 0.75 * by_histogram


@pytest.mark.parametrize("pure", [False, True], ids=["zcdp", "pure"])
@pytest.mark.parametrize("number", [1, 20, 700, 10**6])
def test_bounds_for_objects_that_are_all_alike(number: int, pure: bool) -> None:
    """However many contributions they have: little is lost, and the bound is about what they have."""
    design = Design(ZONES, BINS, TABLES, PrivacyBudget(Fraction(1), Fraction(1, 10**6), pure))
    many = size_histogram(np.full(10**6, number))
    round_one = {n: np.array([10**6]) if n == "objects" else many for n in design.first_round}
    plan = second_round(design, round_one)
    for bounds in plan.bounds.values():
        assert bounds.lost <= 0.3 and number / 4 <= bounds.sizes <= 2 * number
