"""One object more or less moves what counts measures by its own capped vector, and by nothing else."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from counts_world import grid_zones, time_bins
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_world import PERIOD, REGION, small_city, without

from freqdp_db.methods.counts.contributions import Contributions, contributions_of
from freqdp_db.methods.counts.measuring import capped_by, first_numbers, flow_cells, totals
from freqdp_db.methods.counts.options import TABLES, Budget
from freqdp_db.methods.counts.plan import Caps, Plan, Shape, _measurements, _shares, first_round
from freqdp_db.methods.counts.zones import Bins
from freqdp_db.model.arrays import Ints
from freqdp_db.model.trajectories import Locations, Trajectories

ZONES = grid_zones()
KEY = np.uint64(0x1234_5678_9ABC_DEF0)
BUDGET = Budget(Fraction(1), Fraction(1, 10**6))


def found_in(trajectories: Trajectories, places: Locations, bins: Bins) -> Contributions:
    return contributions_of(trajectories, places, REGION, PERIOD, ZONES, bins, KEY)


def planned(bins: Bins, visits: Caps, trips: Caps, stays: Caps) -> Plan:
    shape = Shape.of(ZONES, bins)
    measurements = _measurements(shape, _shares(TABLES), visits, trips, stays)
    return Plan(shape, TABLES, visits, trips, stays, measurements, 1)


def vectors(found: Contributions, plan: Plan) -> dict[str, Ints]:
    capped = capped_by(found, plan, ZONES)
    flows = np.zeros(plan.shape.pairs, np.int64)
    cells, counts = flow_cells(capped.trips, plan.shape)
    flows[cells] = counts
    return totals(capped, plan, ZONES) | {"picked": flows, "flows_zones": flows}


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    one=st.integers(0, 7),
    wild=st.booleans(),
    kind=st.sampled_from(["hour-of-day", "hour", "parts-of-day", "day"]),
    most=st.integers(1, 40),
    bounds=st.tuples(*[st.integers(1, 60)] * 3),
)
def test_one_object_moves_its_own_vector_within_the_bounds(
    seed: int, one: int, wild: bool, kind: str, most: int, bounds: tuple[int, int, int]
) -> None:
    bins = time_bins(kind)  # type: ignore[arg-type]
    trajectories, places = small_city(8, seed, wild=wild)
    caps = Caps(most, *bounds)
    plan = planned(bins, caps, caps, caps)
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
    for numbers in (
        lambda f: vectors(f, plan),
        lambda f: first_numbers(f, ZONES, len(bins), TABLES),
    ):
        whole, rest, mine = numbers(every), numbers(others), numbers(own)
        known = plan.measurements | {m.name: m for m in first_round(TABLES)}
        assert whole.keys() <= known.keys()
        for name, vector in whole.items():
            assert np.array_equal(vector - rest[name], mine[name]), name
            assert (mine[name] ** 2).sum() <= known[name].squares, name
            assert np.abs(mine[name]).sum() <= known[name].absolute, name


def test_caps_bind() -> None:
    """Each bound is met by objects that have more to give than is counted."""
    bins = time_bins("parts-of-day")
    trajectories, places = small_city(30, 3)
    found = found_in(trajectories, places, bins)
    for caps in (Caps(4, 99, 99, 99), Caps(99, 5, 99, 99), Caps(99, 99, 99, 3)):
        capped = capped_by(found, planned(bins, caps, caps, caps), ZONES)
        assert len(capped.trips) < len(found.trips)
        if caps.districts > 3:
            assert capped.visits.counts.max() < found.visits.counts.max()
    free = Caps(10**6, 10**12, 10**12, 10**12)
    every = capped_by(found, planned(bins, free, free, free), ZONES)
    assert [len(i) for i in vars(every).values()] == [len(i) for i in vars(found).values()]


def test_visits_are_those_of_a_plain_loop() -> None:
    """Samples are joined by straight lines, looked at every 250 m and ten minutes."""
    bins = time_bins("hour")
    trajectories, places = small_city(6, 11)
    found = found_in(trajectories, places, bins).visits
    for u in range(6):
        mine = range(trajectories.offsets[u], trajectories.offsets[u + 1])
        seen = set()
        for i in mine:
            a = trajectories.location[i]
            zone = ZONES.locate(places.x[a : a + 1], places.y[a : a + 1])[0]
            seen.add((int(zone), int(bins.of(trajectories.at[i : i + 1])[0])))
        got = set(
            zip(
                found.zone[found.offsets[u] : found.offsets[u + 1]].tolist(),
                found.bin[found.offsets[u] : found.offsets[u + 1]].tolist(),
                strict=True,
            )
        )
        # the samples themselves, but for those that could not be reached
        assert len(seen - got) <= len(seen) // 2 and got
