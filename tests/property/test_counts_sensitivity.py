"""One object more or less moves what counts measures by its own bounded vector, and by nothing else."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_world import (
    PERIOD,
    REGION,
    bounds_of,
    grid_roads,
    grid_zones,
    small_city,
    time_bins,
    without,
)

from freqdp_db.methods.counts.contributions import WHOLE, Contributions, contributions_of
from freqdp_db.methods.counts.family import ROADS as OF_ROADS
from freqdp_db.methods.counts.family import TABLES
from freqdp_db.methods.counts.measuring import bounded_by, cells_of, first_numbers, totals
from freqdp_db.methods.counts.plan import Bounds, Design, Plan, _measurements
from freqdp_db.methods.counts.zones import OUTSIDE, Bins
from freqdp_db.methods.synthesis.trips import RULE, possible_samples
from freqdp_db.methods.trips import ARRIVAL, DEPARTURE, RESTING, find_roles
from freqdp_db.model.arrays import Ints
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.privacy.accounting import PrivacyBudget

ZONES = grid_zones()
ROADS = grid_roads(ZONES)


def found_in(trajectories: Trajectories, places: Locations, bins: Bins) -> Contributions:
    return contributions_of(trajectories, places, REGION, PERIOD, ZONES, bins, ROADS)


def planned(bins: Bins, bounds: Bounds, *, pure: bool = False) -> Plan:
    budget = PrivacyBudget(Fraction(1), Fraction(1, 10**6), pure)
    design = Design(ZONES, bins, (*TABLES, OF_ROADS), budget, roads=ROADS)
    every = dict.fromkeys(("visits", "trips", "stays", "passages"), bounds)
    return Plan(design, every, _measurements(design, every), {"visits": 1, "flows": 1})


def vectors(found: Contributions, plan: Plan) -> dict[str, Ints]:
    bounded = bounded_by(found, plan)
    found = totals(bounded, plan)
    for table in plan.sparse:
        every = np.zeros(plan.design.shape.cells(table), np.int64)
        cells, counts = cells_of(table, bounded, plan.design.shape)
        every[cells] = counts
        found |= {f"{table}_picked": every, f"{table}_cells": every}
    return found


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    one=st.integers(0, 7),
    wild=st.booleans(),
    kind=st.sampled_from(["hour-of-day", "hour", "parts-of-day", "day"]),
    pure=st.booleans(),
    sparse=st.booleans(),
    bounds=st.tuples(*[st.integers(1, 60)] * 6),
    of_roads=st.tuples(*[st.integers(1, 2000)] * 3),
)
def test_one_object_moves_its_own_vector_within_the_bounds(
    seed: int,
    one: int,
    wild: bool,
    kind: str,
    pure: bool,
    sparse: bool,
    bounds: tuple[int, ...],
    of_roads: tuple[int, ...],
) -> None:
    with patch("freqdp_db.methods.counts.plan.MAX_DENSE_CELLS", 10 if sparse else 10**9):
        require_own_vector(seed, one, wild, kind, pure, bounds_of(*bounds, *of_roads))


def with_bound(bounds: Bounds, group: str, bound: int) -> Bounds:
    if group == "sizes":
        return replace(bounds, sizes=bound)
    return replace(bounds, groups={**bounds.groups, group: bound})


def require_own_vector(
    seed: int, one: int, wild: bool, kind: str, pure: bool, bounds: Bounds
) -> None:
    bins = time_bins(kind)  # type: ignore[arg-type]
    trajectories, places = small_city(8, seed, wild=wild)
    plan = planned(bins, bounds, pure=pure)
    alone = Trajectories(
        np.array([0, trajectories.lengths[one]]),
        *(
            column[trajectories.offsets[one] : trajectories.offsets[one + 1]]
            for column in (trajectories.location, trajectories.at)
        ),
        trajectories.start[one : one + 1],
    )
    every, others, own = (
        found_in(t, places, bins) for t in (trajectories, without(trajectories, one), alone)
    )
    known = {m.name: m for m in plan.every_measurement}
    for numbers in (lambda f: vectors(f, plan), lambda f: first_numbers(f, plan.design)):
        whole, rest, mine = numbers(every), numbers(others), numbers(own)
        assert whole.keys() <= known.keys()
        for name, vector in whole.items():
            assert np.array_equal(vector - rest[name], mine[name]), name
            assert mine[name].min() >= 0, name
            size = mine[name] if pure else mine[name] ** 2
            assert size.sum() <= known[name].bound, name
    assert plan.design.first_round.keys() == numbers(every).keys()


def test_one_object_does_not_round_the_trips_of_others() -> None:
    """Trips of 2,000 m in steps of a tenth: their class must not hang on who comes before them."""
    step, objects = 600_000_000, 400
    x = np.concatenate([np.arange(5) * 3333.3, np.ravel(0.1 * np.arange(1, objects)[:, None]
                        + np.arange(5) * 500.0)])  # fmt: skip
    y = np.repeat(0.1 * np.arange(objects), 5)
    offsets = np.arange(0, 5 * objects + 1, 5)
    at = np.tile(np.arange(5, dtype=np.int64) * step, objects)
    side = Trajectories(offsets, np.arange(5 * objects, dtype=np.int32), at, at[::5])
    places, bins = Locations(x, y), time_bins("day")
    every, others = (found_in(t, places, bins).trips for t in (side, without(side, 0)))
    assert len(every) > len(others) > 300
    assert np.array_equal(every.size[len(every) - len(others) :], others.size)


def test_bounds_bind() -> None:
    """Objects that have more than a bound count for less, as much as it lets them; the others in full."""
    bins = time_bins("parts-of-day")
    trajectories, places = small_city(30, 3)
    found = found_in(trajectories, places, bins)
    free = bounds_of(*[10**12] * 9)
    for field in ("sizes", "bins", "departs", "districts", "reaches"):
        bounds = with_bound(free, field, 5)
        trips = bounded_by(found, planned(bins, bounds)).trips
        held = trips.part < WHOLE
        assert 0 < held.sum() < len(held)
        plan = planned(bins, with_bound(bounds, field, 6))
        assert (trips.part <= bounded_by(found, plan).trips.part).all()
    for field in ("cells", "roads", "areas", "districts"):
        passages = bounded_by(found, planned(bins, with_bound(free, field, 5))).passages
        assert 0 < (passages.part < WHOLE).sum() < len(passages.part)
    number = bounded_by(found, planned(bins, Bounds(4), pure=True)).trips
    many = number.counts > 4
    assert many.any() and (number.part[~many] == WHOLE).all()
    assert (number.part[many] == WHOLE * 4 // number.counts[many]).all()
    every = bounded_by(found, planned(bins, free))
    assert all((items.part == WHOLE).all() for items in vars(every).values())


@pytest.mark.parametrize("wild", [False, True])
def test_visits_are_those_of_a_plain_loop(wild: bool) -> None:
    """Samples within the gap or a stay are joined by lines, looked at every 250 m and ten minutes."""
    bins = time_bins("hour")
    trajectories, places = small_city(6, 11, wild=wild)
    found = found_in(trajectories, places, bins).visits
    side = possible_samples(trajectories, places, REGION, PERIOD)
    role = find_roles(side, places, RULE)
    joined = 0
    for u in range(6):
        mine = range(side.offsets[u], side.offsets[u + 1])
        seen = set()
        for i in mine:
            moments = [(places.x[side.location[i]], places.y[side.location[i]], int(side.at[i]))]
            if i + 1 in mine:
                lasts = int(side.at[i + 1] - side.at[i])
                stays = role[i] in (ARRIVAL, RESTING) and role[i + 1] in (RESTING, DEPARTURE)
                if stays or lasts <= RULE.gap_us:
                    (x, y, at), to = moments[0], side.location[i + 1]
                    far = math.hypot(places.x[to] - x, places.y[to] - y)
                    steps = max(math.ceil(far / 250), math.ceil(lasts / 600_000_000), 1)
                    for k in range(1, steps):
                        part = k / steps
                        moments.append(
                            (x + part * (places.x[to] - x), y + part * (places.y[to] - y),
                             at + lasts * k // steps)
                        )  # fmt: skip
                        joined += 1
            for x, y, at in moments:
                zone = int(ZONES.locate(np.array([x]), np.array([y]))[0])
                bin = int(bins.of(np.array([at]))[0])
                if zone != OUTSIDE and bin != OUTSIDE:
                    seen.add((zone, bin))
        own = slice(found.offsets[u], found.offsets[u + 1])
        got = list(zip(found.zone[own].tolist(), found.bin[own].tolist(), strict=True))
        assert len(got) == len(set(got)) and set(got) == seen
    assert joined > 100
