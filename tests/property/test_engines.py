"""What kernels compute does not depend on how many ranges the work is cut into.

The runner here keeps ranges apart, as other processes would: each finds the function by its name
and gets copies of the arguments, so that what a kernel writes into them is lost.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_worlds import SmallWorld, quick, worlds

from freqdp_db.engines.partitions import LocalPartitions
from freqdp_db.engines.ranges import cut, map_ranges, use
from freqdp_db.evaluation.attacks.exposure import measure_exposure, measure_membership
from freqdp_db.evaluation.attacks.habits import habit_exposures
from freqdp_db.evaluation.evaluate import measure
from freqdp_db.evaluation.pair import Case, Pair, ReleaseSeen
from freqdp_db.methods.contract import StepContext, WorkingSet
from freqdp_db.methods.frequency.counts import count_frequencies, rank_places
from freqdp_db.methods.frequency.deletion import delete_globally, delete_locally
from freqdp_db.methods.frequency.insertion import growing_places, insert_globally, insert_locally
from freqdp_db.methods.frequency.perturbation import perturb_pf, perturb_tf
from freqdp_db.methods.loop import Trial, run_steps
from freqdp_db.methods.parameters import read
from freqdp_db.methods.registry import find_method
from freqdp_db.methods.synthesis import strict
from freqdp_db.methods.synthesis.public import Parameters
from freqdp_db.methods.synthesis.vectors import measured
from freqdp_db.model.arrays import Ids, Ints, offsets_from
from freqdp_db.model.trajectories import Areas, Build, Clock, Locations, Trajectories
from freqdp_db.paper import dpt
from freqdp_db.paper.closure import close_signatures
from freqdp_db.paper.strategies import STRATEGIES
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.progress import Progress
from freqdp_db.roads.matching import match
from freqdp_db.roads.network import RoadRows, find_candidates, make_network
from freqdp_db.search.grid import cells_of, file_trajectories
from freqdp_db.search.stored import GridSearch, StoredGrid
from tests.synthetic_world import PERIOD, REGION, small_trips

few = settings(quick, max_examples=20)
MINUTE = 60_000_000


class Apart:
    """Cuts into so many ranges, and lets none see what another does."""

    def __init__(self, parts: int) -> None:
        self.parts = parts

    def run(
        self,
        function: Callable[..., Any],
        ranges: list[tuple[int, int]],
        arguments: tuple[Any, ...],
    ) -> Iterator[Any]:
        named = getattr(importlib.import_module(function.__module__), function.__name__)
        for first, last in ranges:
            mine = pickle.loads(pickle.dumps(arguments))
            yield pickle.loads(pickle.dumps(named(first, last, *mine)))


def _columns(*results: Any) -> list[Any]:
    """The arrays of some dataclasses, to be compared."""
    return [
        value.tolist() if isinstance(value, np.ndarray) else value
        for result in results
        for value in vars(result).values()
        if isinstance(value, np.ndarray | int)
    ]


def _anonymize(world: SmallWorld) -> list[Any]:
    """Every mechanism once, with all that it makes on the way."""
    state, locations, clock, rank = world.trajectories, world.locations, world.clock, world.rank
    frequencies = count_frequencies(state, len(locations))
    signatures = rank_places(frequencies, 2)
    closed = close_signatures(frequencies, signatures, locations, 150.0)
    source = SeededSource(1, 1)
    tf = perturb_tf(frequencies.tf, len(state), signatures.candidates, Fraction(1, 2), source)
    thinned = delete_globally(world.partitions, tf, rank)
    edited = insert_globally(thinned, tf, rank, clock, np.uint64(1))
    after = [one.after for one in edited]
    again = after[0].frequencies
    pf = perturb_pf(again, rank_places(again, 2), Fraction(1, 2), SeededSource(1, 2))
    fewer = delete_locally(LocalPartitions(edited.ranges, after), pf)
    end = insert_locally(fewer, pf, 500, clock, np.uint64(2))
    return _columns(
        frequencies, signatures, closed, tf, pf,
        *(left.partition.trajectories for left in (*thinned, *fewer)),
        *(done.after.trajectories for done in (*edited, *end)),
        *(done.edits.deletions for done in (*edited, *end)),
        *(done.edits.insertions for done in (*edited, *end)),
    )  # fmt: skip


def _search(world: SmallWorld) -> list[Any]:
    """Every strategy, and the paged search of what two edits have left of the build."""
    built, locations, rank = world.trajectories, world.locations, world.rank
    frequencies = count_frequencies(built, len(locations))
    everywhere = np.ones(len(locations), np.bool_)
    source = SeededSource(3, 1)
    targets = perturb_tf(frequencies.tf, len(built), everywhere, Fraction(1, 9), source)
    (thinned,) = delete_globally(world.partitions, targets, rank)
    state = thinned.partition
    queries = growing_places(state, targets)
    filed = file_trajectories(built, locations, cut=False)
    cell, grid = cells_of(filed), filed.grid

    def read(cells: Ints | None) -> tuple[Ids, Ids]:
        rows = filed.row if cells is None else filed.row[np.isin(cell, cells)]
        return filed.segments.trajectory[rows], filed.segments.position[rows]

    own = np.diff(grid.segment_offsets).astype(np.int32)
    stored = StoredGrid(grid.frame, grid.cell, own, grid.box, read)
    found = [
        GridSearch(stored, built, memory)(state.trajectories, locations, rank, queries)
        for memory in (0, 10**9)
    ] + [
        strategy.query(strategy.build(state.trajectories, locations, rank), queries)
        for strategy in STRATEGIES.values()
    ]
    return _columns(*found)


@cache
def _town() -> tuple[Trajectories, Locations, RoadRows]:
    """Walks over the junctions of a small town, in the middle of nowhere now and then."""
    rng = np.random.default_rng(4)
    side = 6
    x, y = (np.stack(np.meshgrid(np.arange(side), np.arange(side))) * 300.0).reshape(2, -1)
    node = np.arange(side * side).reshape(side, side)
    source = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    target = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    ends = np.stack([source, target], 1).ravel()
    roads = RoadRows(
        np.arange(len(source)), source, target, rng.random(len(source)) < 0.2,
        np.arange(len(source) + 1) * 2, x[ends], y[ends],
    )  # fmt: skip
    places = Locations(
        np.append(x + rng.normal(0, 10, len(x)), 9e4), np.append(y + rng.normal(0, 10, len(y)), 9e4)
    )
    lengths = rng.integers(0, 40, 30)
    offsets = offsets_from(lengths)
    location = rng.integers(0, len(places), offsets[-1]).astype(np.int32)
    at = np.arange(offsets[-1], dtype=np.int64) * 60_000_000
    return Trajectories(offsets, location, at, np.zeros(len(lengths), np.int64)), places, roads


@few
@given(worlds(allow_empty=True), st.sampled_from([1, 2, 3, 64]))
def test_releases(world: SmallWorld, parts: int) -> None:
    expected = _anonymize(world)
    with use(Apart(parts)):
        assert _anonymize(world) == expected


def _released(method: str, build: Build, **given: str) -> WorkingSet:
    found = find_method(method)
    values = read(found.parameters, given, method, text=True)
    trial = Trial(lambda step: SeededSource(2, step))
    return run_steps(found, values, StepContext(build), trial, Progress())


def _unlink(world: SmallWorld, meet: str, courses: str) -> list[Any]:
    """swap and cut, with times in seconds: in microseconds nobody gets anywhere."""
    side = world.trajectories
    slowly = Trajectories(side.offsets, side.location, side.at * 10**6, side.start * 10**6)
    build = Build(slowly, world.locations, world.clock, srid=32631, source_srid=4326)
    after = _released(
        "swap+cut", build, meet=meet, courses=courses, trips="20s", gap="2h", pieces="60s",
        quiet="5s", ends="1",
    )  # fmt: skip
    assert after.owner is not None
    return [*_columns(after.trajectories, after.groups), after.key.tolist(), after.owner.tolist()]


@few
@given(
    worlds(allow_empty=True),
    st.sampled_from(["500m/5min", "10000m/24h"]),
    st.sampled_from(["0", "6"]),
    st.sampled_from([1, 2, 3, 64]),
)
def test_unlinking(world: SmallWorld, meet: str, courses: str, parts: int) -> None:
    expected = _unlink(world, meet, courses)
    with use(Apart(parts)):
        assert _unlink(world, meet, courses) == expected


@cache
def _crowd() -> Build:
    """Walkers in a small town at one time, who rest and go on."""
    rng = np.random.default_rng(5)
    side = 8
    x, y = (np.stack(np.meshgrid(np.arange(side), np.arange(side))) * 250.0).reshape(2, -1)
    lengths = rng.integers(0, 90, 30)
    offsets = offsets_from(lengths)
    location = np.zeros(offsets[-1], np.int32)
    at = np.zeros(offsets[-1], np.int64)
    for lo, hi in pairwise(offsets):
        moves = rng.choice([0, 1, side, -1, -side], (hi - lo), p=[0.4, 0.2, 0.2, 0.1, 0.1])
        location[lo:hi] = (rng.integers(side * side) + np.cumsum(moves)) % (side * side)
        at[lo:hi] = np.cumsum(rng.choice([1, 2, 5, 40], hi - lo, p=[0.6, 0.3, 0.08, 0.02])) * MINUTE
    start = np.array([at[lo] if lo < hi else 0 for lo, hi in pairwise(offsets)], np.int64)
    trajectories = Trajectories(offsets, location, at, start)
    return Build(trajectories, Locations(x, y), Clock(MINUTE, MINUTE), srid=32631, source_srid=4326)


@cache
def _exposures() -> list[dict[str, float]]:
    """Of what was edited, swapped and cut; of what was made areas; and by habits of other days."""
    build = _crowd()
    state = _released("lg+swap+cut", build, ends="2")
    x, y = state.places.x[state.trajectories.location], state.places.y[state.trajectories.location]
    wide = 300.0 * (np.arange(len(x)) % 2)
    until = state.trajectories.at + 5 * MINUTE
    areas = Areas(x - wide, y - wide, x + wide, y + wide, until)
    found = []
    for boxes in (None, areas):
        release = replace(state, areas=boxes)
        controls = build.trajectories.where(np.arange(build.trajectories.samples) % 2 > 0)
        case = Case.of(build, release, {})
        found.append(measure_exposure(case, 1) | measure_membership(case, 1, controls))
    slow = replace(build.trajectories, at=20 * build.trajectories.at)
    days = Case(slow, build.locations, ReleaseSeen(slow, build.locations))
    found.append(habit_exposures(days, np.random.default_rng(1)))
    return found


@pytest.mark.parametrize("parts", [1, 64])
def test_exposures(parts: int) -> None:
    expected = _exposures()
    # every attack finds something to do
    assert {"relink.swap", "relink.cut", "edits.auc", "home"} <= expected[0].keys()
    assert expected[2]["habits"] > 0
    with use(Apart(parts)):
        assert _exposures.__wrapped__() == expected


def _synthesize() -> list[Any]:
    trips = small_trips(40, 3, wild=True)
    parameters = Parameters(epsilon=Fraction(4), size=60)
    drawn = measured(trips, REGION, PERIOD, parameters, SeededSource(1, 1))
    log, made = strict.carry_out(drawn, REGION, PERIOD, parameters)
    trees = dpt.draw(trips, REGION, Fraction(4), SeededSource(1, 2))
    walks = [dpt.walks(trees, level, 20, 7, Fraction(4), np.uint64(5)) for level in range(3)]
    return [
        *_columns(trips, drawn, log, made.trajectories, made.places, trees),
        *(column.tolist() for walk in walks for column in walk),
    ]


@pytest.mark.parametrize("parts", [1, 64])
def test_synthesis(parts: int) -> None:
    expected = _synthesize()
    with use(Apart(parts)):
        assert _synthesize() == expected


@few
@given(worlds(allow_empty=True), st.sampled_from([1, 2, 3, 64]))
def test_searches(world: SmallWorld, parts: int) -> None:
    expected = _search(world)
    with use(Apart(parts)):
        assert _search(world) == expected


@pytest.mark.parametrize("parts", [1, 64])
def test_metrics_and_matching(parts: int) -> None:
    state, places, roads = _town()
    released = state.where(np.arange(state.samples) % 3 > 0)

    def evaluate() -> tuple[dict[str, float], list[Any]]:
        network = make_network(roads)
        found = match(network, find_candidates(network, places), released, places, Progress())
        return measure(Pair(state, released, places), 1, Progress()), _columns(found)

    expected = evaluate()
    with use(Apart(parts)):
        assert evaluate() == expected


@quick
@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 30))
def test_ranges_hold_whole_groups_of_about_equal_size(lengths: list[int], parts: int) -> None:
    offsets = offsets_from(np.array(lengths, np.int64))
    ranges = cut(offsets, parts)
    assert [g for first, last in ranges for g in range(first, last)] == list(range(len(lengths)))
    assert 1 <= len(ranges) <= max(min(parts, len(lengths)), 1)
    share = offsets[-1] / max(min(parts, len(lengths)), 1)
    for first, last in ranges:
        # no more than its share, but for one group that does not fit in it
        assert offsets[max(last - 1, first)] - offsets[first] <= share


def _fail_at(first: int, last: int, where: int) -> tuple[int]:
    if first <= where < last:
        raise ArithmeticError(where)
    return (last - first,)


def test_progress_and_errors_come_through() -> None:
    offsets = np.arange(101)
    done: list[int] = []
    map_ranges(_fail_at, offsets, -1, advance=done.append)
    assert sum(done) == 100 and len(done) > 1
    with pytest.raises(ArithmeticError, match="70"):
        map_ranges(_fail_at, offsets, 70)
