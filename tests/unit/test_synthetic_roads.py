"""Synthetic trips on roads: where samples lie, how long routes are, and which roads are refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.evaluation.utility import trip_lengths
from freqdp_db.methods.synthesis import strict
from freqdp_db.methods.synthesis.options import Parameters
from freqdp_db.methods.synthesis.plan import Draw, plan_of
from freqdp_db.methods.synthesis.roads import driven, road_net
from freqdp_db.methods.synthesis.sampling import walks_of
from freqdp_db.methods.synthesis.vectors import measured
from freqdp_db.model.arrays import Ints, Metres
from freqdp_db.model.kernels import derived, key
from freqdp_db.model.trajectories import Locations
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.progress import Progress
from freqdp_db.roads.matching import match
from freqdp_db.roads.network import Network, RoadRows, find_candidates, make_network
from tests.synthetic_world import PERIOD, REGION, small_trips

SMALL = Parameters(epsilon=Fraction(4), size=300)


@pytest.fixture(scope="module")
def drawn() -> Draw:
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


def on_roads(made: strict.Synthetic, network: Network) -> Metres:
    """How far each released place is from the nearest road."""
    return find_candidates(network, made.places).away[:, 0]


@pytest.mark.parametrize(("every", "trips"), [(1_000_000, 50), (30_000_000, 300)])
def test_samples_lie_on_roads(drawn: Draw, every: int, trips: int) -> None:
    parameters, network = replace(SMALL, every_us=every, size=trips), town()
    net = road_net(network, REGION, every)
    log, released = strict.carry_out(drawn, REGION, PERIOD, parameters, net)
    strict.check(drawn, log, released, REGION, PERIOD, parameters, net)
    assert on_roads(released, network).max() <= 0.001
    again = strict.replay(drawn, log, REGION, PERIOD, parameters, net)
    assert (released.trajectories.location == again.trajectories.location).all()
    places = released.places
    beside = replace(released, places=Locations(places.x + 1.0, places.y + 1.0))
    with pytest.raises(VerificationFailed, match="on no road"):
        strict.check(drawn, log, beside, REGION, PERIOD, parameters, net)


def test_routes_are_as_long_as_trips_are_to_be(drawn: Draw) -> None:
    net = road_net(town(), REGION, SMALL.every_us)
    _, plain = strict.carry_out(drawn, REGION, PERIOD, SMALL)
    _, driven = strict.carry_out(drawn, REGION, PERIOD, SMALL, net)
    metres = [np.median(trip_lengths(made.trajectories, made.places)) for made in (plain, driven)]
    assert 0.8 < metres[1] / metres[0] < 1.3


def test_matching_gives_back_the_roads_that_were_driven(drawn: Draw) -> None:
    network, parameters = town(), replace(SMALL, size=100)
    net = road_net(network, REGION, parameters.every_us)
    log, released = strict.carry_out(drawn, REGION, PERIOD, parameters, net)
    matched = match(
        network, find_candidates(network, released.places), released.trajectories,
        released.places, Progress(),
    )  # fmt: skip
    grids, purpose = plan_of(drawn, REGION, PERIOD, parameters).grids, key(drawn.seed, "sample")
    ((first, walks),) = walks_of(strict._model(log), grids, 100, purpose)
    offsets, arcs = driven(strict._model(log), grids, net, walks, first, derived(purpose, 2))
    # all roads of the town but the one that is not connected, in their order
    true = {
        (t, int(r))
        for t in range(100)
        for r in net.graph.arc_road[arcs[offsets[t] : offsets[t + 1]]]
    }
    found = {
        (t, int(r))
        for t in range(100)
        for r in matched.driven[matched.offsets[t] : matched.offsets[t + 1]]
    }
    # a town of so few roads has more ways that look alike than a real one
    assert 2 * len(true & found) / (len(true) + len(found)) >= 0.93


def test_ranges_do_not_matter_on_roads(drawn: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    net = road_net(town(), REGION, SMALL.every_us)
    log, first = strict.carry_out(drawn, REGION, PERIOD, SMALL, net)
    monkeypatch.setattr("freqdp_db.engines.ranges._RANGES_PER_CORE", 1)
    monkeypatch.setattr("freqdp_db.engines.ranges.cores", lambda: 1)
    alone = strict.replay(drawn, log, REGION, PERIOD, SMALL, net)
    assert (first.trajectories.location == alone.trajectories.location).all()
    assert (first.trajectories.at == alone.trajectories.at).all()


def test_a_release_on_other_roads_is_not_replayed(drawn: Draw) -> None:
    net, other = (road_net(town(blocks), REGION, SMALL.every_us) for blocks in (60, 58))
    log, _ = strict.carry_out(drawn, REGION, PERIOD, SMALL, net)
    for roads in (other, None):
        with pytest.raises(VerificationFailed, match="not those"):
            strict.replay(drawn, log, REGION, PERIOD, SMALL, roads)


def test_roads_that_do_not_connect_are_refused() -> None:
    x, y = np.arange(40) * 500.0 + 100, np.full(40, 9_000.0)
    apart = roads_between(x, y, np.arange(0, 40, 2), np.arange(1, 40, 2))
    with pytest.raises(BadInput, match="do not connect"):
        road_net(apart, REGION, SMALL.every_us)
    with pytest.raises(BadInput, match=r"cover 3\d% of the region") as refused:
        road_net(town(20), REGION, SMALL.every_us)
    assert "region" in str(refused.value.remedy)
