"""What the proofs rest on: clips hold exactly, sums are sums, objects do not meet before the noise."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freqdp_db.methods.synthesis.plan import (
    LARGEST_BOUND,
    SCALE,
    SIZE_CLASSES,
    Grids,
    MeasurementPlan,
    second_round,
)
from freqdp_db.methods.synthesis.trips import Trips, cut_trips
from freqdp_db.methods.synthesis.vectors import (
    _arguments,
    cell_trips,
    size_counts,
    sum_objects,
    summed,
    vectors_of,
    weight,
    whole_root,
)
from freqdp_db.paper import adatrace, dpt
from tests.synthetic_world import PERIOD, REGION, small_city, small_trips, without

ACCOUNTINGS = pytest.mark.parametrize("pure", [False, True], ids=["zcdp", "pure"])


def plan_for(pure: bool, objects: int = 900) -> MeasurementPlan:
    sizes = np.zeros(24, np.int64)
    sizes[2] = objects
    return second_round(REGION, PERIOD, objects, sizes, Fraction(1, 10), pure=pure)


def one_object(trips: Trips, u: int) -> Trips:
    """The trips of one object alone."""
    a, b = trips.by_object[u], trips.by_object[u + 1]
    lo, hi = trips.offsets[a], trips.offsets[b]
    return Trips(
        np.array([0, b - a]), trips.offsets[a : b + 1] - lo, trips.x[lo:hi], trips.y[lo:hi],
        trips.at[lo:hi],
    )  # fmt: skip


@ACCOUNTINGS
@pytest.mark.parametrize("seed", range(3))
def test_clips_hold_exactly(pure: bool, seed: int) -> None:
    """For every object and statistic, in Python's whole numbers; some objects are clipped."""
    plan, trips, clipped = plan_for(pure), small_trips(40, seed, wild=True), 0
    for u in range(trips.objects):
        for vector, statistic in zip(
            vectors_of(trips, plan, u, pure=pure), plan.statistics, strict=True
        ):
            entries = [int(v) for v in vector if v]
            size = sum(abs(v) for v in entries) if pure else sum(v * v for v in entries)
            bound = statistic.bound if pure else statistic.bound**2
            assert size <= bound, statistic.name
            clipped += bool(entries) and np.gcd.reduce(vector) < SCALE
    assert clipped > 50


@ACCOUNTINGS
def test_sums_are_sums_of_the_objects_vectors(pure: bool) -> None:
    """Whatever the ranges: one by one, in two parts, or as the product cuts them."""
    plan, trips = plan_for(pure), small_trips(60, 7, wild=True)
    whole = np.concatenate(summed(trips, plan, pure=pure))
    alone = sum(
        np.concatenate(vectors_of(one_object(trips, u), plan, 0, pure=pure))
        for u in range(trips.objects)
    )
    assert (whole == alone).all() and whole.any()
    _, arguments = _arguments(trips, plan, pure)
    for cut in (1, 23, 59):
        (before,) = sum_objects(0, cut, trips.by_object, *arguments)
        (after,) = sum_objects(cut, trips.objects, trips.by_object, *arguments)
        assert (whole == before + after).all()


@ACCOUNTINGS
@pytest.mark.parametrize("one", [0, 11, 29])
def test_removing_an_object_moves_sums_by_its_own_vector(pure: bool, one: int) -> None:
    """From the samples on: nobody else's trips change."""
    trajectories, places = small_city(30, 5, wild=True)
    plan = plan_for(pure)
    trips = cut_trips(trajectories, places, REGION, PERIOD)
    rest = cut_trips(without(trajectories, one), places, REGION, PERIOD)
    before, after = summed(trips, plan, pure=pure), summed(rest, plan, pure=pure)
    for a, b, own in zip(before, after, vectors_of(trips, plan, one, pure=pure), strict=True):
        assert (a - b == own).all()
    (objects, sizes), (fewer, others) = size_counts(trips), size_counts(rest)
    assert objects - fewer == (sizes - others).sum() <= 1
    assert ((sizes - others) >= 0).all()


@ACCOUNTINGS
def test_one_object_in_the_place_of_another(pure: bool) -> None:
    """No entry is below 0: so two contributions differ by 2 B^2 in the square, not by 4 (L1: by 2 B)."""
    plan, trips, far = plan_for(pure), small_trips(30, 5, wild=True), 0
    objects = [vectors_of(trips, plan, u, pure=pure) for u in range(trips.objects)]
    for place, statistic in enumerate(plan.statistics):
        rows = [[int(v) for v in vectors[place]] for vectors in objects]
        assert all(v >= 0 for row in rows for v in row)
        for one, other in itertools.combinations(rows, 2):
            apart = [abs(a - b) for a, b in zip(one, other, strict=True)]
            size = sum(apart) if pure else sum(v * v for v in apart)
            assert size <= 2 * statistic.bound ** (1 if pure else 2)
            far += size > statistic.bound ** (1 if pure else 2)
    assert far > 10, "adding or removing one object moves less than replacing it"


def test_replacing_in_the_first_round() -> None:
    """The number of objects and the histogram of their trips: at most 1 and 2 in the square."""
    trips = small_trips(30, 5, wild=True)
    counted = [size_counts(one_object(trips, u)) for u in range(trips.objects)]
    for (one, sizes), (other, others) in itertools.combinations(counted, 2):
        assert abs(one - other) <= 1
        assert ((sizes - others) ** 2).sum() <= 2


def test_a_forgotten_clip_is_caught() -> None:
    plan, trips = plan_for(False), small_trips(40, 1, wild=True)
    loose = replace(plan, statistics=[replace(s, bound=64 * s.bound) for s in plan.statistics])
    broken = 0
    for u in range(trips.objects):
        for vector, told in zip(
            vectors_of(trips, loose, u, pure=False), plan.statistics, strict=True
        ):
            broken += sum(int(v) ** 2 for v in vector) > told.bound**2
    assert broken > 10


@ACCOUNTINGS
@pytest.mark.parametrize("size_class", range(SIZE_CLASSES))
def test_clips_stay_in_range_however_many_trips_objects_have(pure: bool, size_class: int) -> None:
    """Also where everybody has thousands; and they are kept then, too."""
    sizes = np.zeros(SIZE_CLASSES, np.int64)
    sizes[size_class] = 1000
    plan = second_round(REGION, PERIOD, 1000, sizes, Fraction(1, 10), pure=pure)
    assert all(SCALE <= s.bound <= LARGEST_BOUND for s in plan.statistics)
    trips = small_trips(3, 1, wild=True)
    for vector, statistic in zip(
        vectors_of(trips, plan, 0, pure=pure), plan.statistics, strict=True
    ):
        entries = [int(v) for v in vector]
        size = sum(entries) if pure else sum(v * v for v in entries)
        assert size <= (statistic.bound if pure else statistic.bound**2)


@given(st.lists(st.integers(1, 2**20), min_size=1, max_size=50), st.integers(2**16, 2**30))
@settings(max_examples=200, deadline=None)
def test_weights_are_the_largest_that_fit(counts: list[int], bound: int) -> None:
    column, used = np.array(counts, np.int64), np.arange(len(counts))
    squares = sum(c * c for c in counts)
    w = int(weight(column, used, bound, True))
    assert w * w * squares <= bound * bound
    assert w == SCALE or (w + 1) ** 2 * squares > bound * bound
    w = int(weight(column, used, bound, False))
    assert w * sum(counts) <= bound
    assert w == SCALE or (w + 1) * sum(counts) > bound


@given(st.integers(0, 2**61))
def test_whole_root(n: int) -> None:
    root = int(whole_root(np.int64(n)))
    assert root * root <= n < (root + 1) ** 2


@pytest.mark.parametrize("one", [0, 3, 17])
def test_baselines_move_by_at_most_one(one: int) -> None:
    """Every vector of AdaTrace and DPT: at most 1 in L1 for one object."""
    trajectories, places = small_city(25, 9, wild=True)
    grids = Grids(REGION, adatrace.SIDE, adatrace.SIDE, 1, 1)
    worlds = [
        cut_trips(t, places, REGION, PERIOD) for t in (trajectories, without(trajectories, one))
    ]
    counted = [adatrace.totals(cell_trips(t, REGION, adatrace.SIDE), grids) for t in worlds]
    for part in adatrace.SHARES:
        assert 0 <= np.abs(counted[0][part] - counted[1][part]).sum() <= SCALE
    assert sum(adatrace.SHARES.values()) == 1
    for a, b in zip(dpt.totals(worlds[0], REGION), dpt.totals(worlds[1], REGION), strict=True):
        assert np.abs(a - b).sum() <= SCALE
