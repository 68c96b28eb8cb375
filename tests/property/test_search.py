"""Every search gives the answer of a naive scan, ties included: in memory, paged, and the paper's."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import naive
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_worlds import SmallWorld, as_lists, quick, thorough, worlds

from freqdp_db.dataset.cleaning import snap_grid
from freqdp_db.errors import BadInput
from freqdp_db.loading.city import City
from freqdp_db.model.arrays import Ids, Ints, offsets_from
from freqdp_db.model.trajectories import Clock, Locations, Trajectories
from freqdp_db.paper.bench import parse_names
from freqdp_db.paper.strategies import DEFAULT, STRATEGIES, distinct_rows, index_bytes
from freqdp_db.search import stored
from freqdp_db.search.grid import cells_of, distinct_segments, file_trajectories
from freqdp_db.search.nearest import Nearest, Queries
from freqdp_db.search.stored import GridSearch, StoredGrid

OTHERS = [name for name in STRATEGIES if name != "linear"]


def _world(walks: list[Any], places: Locations, rng: np.random.Generator) -> SmallWorld:
    offsets = offsets_from(np.array([len(walk) for walk in walks]))
    location = np.concatenate([np.zeros(0, np.int32), *walks]).astype(np.int32)
    at = np.arange(len(location), dtype=np.int64)
    trajectories = Trajectories(offsets, location, at, np.zeros(len(walks), np.int64))
    return SmallWorld(trajectories, places, Clock(1, 1), rng.permutation(len(walks)))


def _crowd(seed: int) -> SmallWorld:
    """Random walks on few grid points, so that distances tie: with stays, repeats, empty ones,
    single samples and, as every GPS has them, some far outliers."""
    rng = np.random.default_rng(seed)
    side, pitch = int(rng.integers(1, 30)), float(rng.choice([0.25, 100.0, 1000.0]))
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2)
    grid = np.concatenate([grid, rng.integers(-50_000, 50_000, (3, 2))])
    places = Locations(500_000 + pitch * grid[:, 0], 4_000_000 + pitch * grid[:, 1])
    stride = int(rng.integers(1, side + 1))
    walks = []
    for length in rng.integers(0, rng.choice([3, 60]), rng.integers(1, 40)):
        step = rng.integers(-stride, stride + 1, (length, 2)) * (rng.random((length, 1)) < 0.6)
        cell = np.clip(rng.integers(0, side, 2) + np.cumsum(step, 0), 0, side - 1)
        place = cell[:, 1] * side + cell[:, 0]
        outlier = rng.random(length) < 0.02
        place[outlier] = side * side + rng.integers(0, 3, outlier.sum())
        walks.append(place)
    return _world(walks, places, rng)


seeds = st.integers(0, 2**32)
any_world = st.one_of(worlds(allow_empty=True), seeds.map(_crowd))


@cache
def _city() -> SmallWorld:
    """People and taxis of the demo's city, on a grid of 100 m."""
    owner, x, y = [], [], []
    for chunk in City(40, 2, np.random.default_rng(1)).chunks():
        usable = np.isfinite(chunk.samples.x) & (np.abs(chunk.samples.x) > 1)
        owner.append(chunk.samples.object_id[usable])
        x.append(chunk.samples.x[usable] * 111_000)
        y.append(chunk.samples.y[usable] * 111_000)
    names, number = np.unique(np.concatenate(owner), return_inverse=True)
    snapped = snap_grid(np.concatenate(x), np.concatenate(y), 100.0)
    walks = [snapped.of_row[number == t] for t in range(len(names))]
    return _world(walks, snapped.locations, np.random.default_rng(2))


def _queries(trajectories: Trajectories, places: Locations, seed: int, count: int) -> Queries:
    """At places, near them and far outside; K from none to more than there are; some left out."""
    rng = np.random.default_rng(seed)
    size = len(trajectories)
    at = rng.integers(0, len(places), count)
    apart = rng.choice([0.0, 0.001, 37.3, 5000.0, 1e6], count)
    angle = rng.random(count)
    skips = [np.flatnonzero(rng.random(size) < rng.choice([0, 0.3, 1])) for _ in range(count)]
    return Queries(
        places.x[at] + apart * np.cos(angle),
        places.y[at] + apart * np.sin(angle),
        rng.integers(0, min(size, 12) + 3, count),
        offsets_from(np.array([len(skip) for skip in skips])),
        np.concatenate([np.zeros(0, np.int64), *skips]).astype(np.int32),
    )


def _at(places: Locations, chosen: Ints, k: int) -> Queries:
    """The K nearest of these places, nobody left out."""
    return Queries(
        places.x[chosen], places.y[chosen], np.full(len(chosen), k),
        np.zeros(len(chosen) + 1, np.int64), np.zeros(0, np.int32),
    )  # fmt: skip


def _found(name: str, world: SmallWorld, queries: Queries) -> Nearest:
    strategy = STRATEGIES[name]
    index = strategy.build(world.trajectories, world.locations, world.rank)
    return strategy.query(index, queries)


def _same(found: Nearest, expected: Nearest) -> None:
    for column in ("loss_mm", "offsets", "trajectory", "position"):
        assert getattr(found, column).tolist() == getattr(expected, column).tolist(), column


def _scan(world: SmallWorld, x: float, y: float, k: int, skip: set[int]) -> list[Any]:
    """(loss, trajectory, position) of the K nearest, with rational numbers."""
    q = (naive.Fraction(x), naive.Fraction(y))
    found = []
    for t, samples in enumerate(as_lists(world.trajectories)):
        if samples and t not in skip:
            places = [naive.point(world, p) for p, _ in samples]
            ends = list(pairwise(places)) or [(places[0], places[0])]
            loss, position = min((naive.distance_mm(q, a, b), i) for i, (a, b) in enumerate(ends))
            found.append((loss, int(world.rank[t]), t, position))
    return [(loss, t, position) for loss, _, t, position in sorted(found)[:k]]


@thorough
@given(any_world, seeds)
def test_linear_is_the_naive_loop(world: SmallWorld, seed: int) -> None:
    queries = _queries(world.trajectories, world.locations, seed, 3)
    found = _found("linear", world, queries)
    for q, (x, y, k) in enumerate(zip(queries.x, queries.y, queries.k, strict=True)):
        skip = set(queries.skip[slice(*queries.skip_offsets[q : q + 2])].tolist())
        expected = _scan(world, float(x), float(y), k, skip)
        part = slice(found.offsets[q], found.offsets[q + 1])
        columns = (found.loss_mm[part], found.trajectory[part], found.position[part])
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        assert rows[: len(expected)] == expected
        assert all(row[1:] == (-1, -1) for row in rows[len(expected) :]), "there is no other"


@pytest.mark.parametrize("name", OTHERS)
@quick
@given(any_world, seeds)
def test_strategies_answer_as_linear(name: str, world: SmallWorld, seed: int) -> None:
    queries = _queries(world.trajectories, world.locations, seed, 5)
    found = _found(name, world, queries)
    _same(found, _found("linear", world, queries))
    assert found.cells > 0 or queries.k.sum() == 0


@pytest.mark.parametrize("name", OTHERS)
def test_strategies_answer_as_linear_in_a_city(name: str) -> None:
    world = _city()
    assert world.trajectories.samples > 5_000
    queries = _queries(world.trajectories, world.locations, 3, 100)
    _same(_found(name, world, queries), _found("linear", world, queries))


def test_counts_say_how_much_was_looked_at() -> None:
    world = _city()
    places = np.random.default_rng(4).integers(0, len(world.locations), 200)
    looked = {}
    for name, strategy in STRATEGIES.items():
        index = strategy.build(world.trajectories, world.locations, world.rank)
        assert index_bytes(index) > 0
        looked[name] = strategy.query(index, _at(world.locations, places, 3)).distances
    distinct = len(distinct_rows(world.trajectories, world.locations).ax)
    assert looked["linear"] == 200 * distinct
    assert looked[DEFAULT] < min(n for name, n in looked.items() if name != DEFAULT)


@pytest.mark.parametrize("name", STRATEGIES)
def test_nothing_to_search(name: str) -> None:
    """No sample is left, or no query is asked."""
    place, rng = Locations(np.zeros(1), np.zeros(1)), np.random.default_rng(1)
    empty = _world([np.zeros(0, np.int64)] * 2, place, rng)
    asked, none = (_at(place, np.zeros(count, np.int64), 2) for count in (1, 0))
    for world, queries in ((empty, asked), (empty, none), (_crowd(1), none)):
        assert (_found(name, world, queries).trajectory == -1).all()


def test_names() -> None:
    assert list(STRATEGIES) == [
        "linear", "uniform-grid", "hg-top-down", "hg-bottom-up", "hg-bottom-up-down", "extent",
    ]  # fmt: skip
    assert DEFAULT == "extent"
    assert parse_names(None) == [*STRATEGIES, "gist"]
    assert parse_names("linear, gist") == ["linear", "gist"]
    with pytest.raises(BadInput, match="quad-tree"):
        parse_names("linear,quad-tree")


# What the grid holds.


@thorough
@given(worlds(allow_empty=True))
def test_distinct_segments(world: SmallWorld) -> None:
    expected: dict[tuple[int, int, int], list[int]] = {}
    for t, samples in enumerate(as_lists(world.trajectories)):
        ends = samples[1:] or samples  # one sample is a segment of length 0
        for i, ((a, _), (b, _)) in enumerate(zip(samples, ends, strict=False)):
            expected.setdefault((t, a, b), [i, 0])[1] += 1
    segments = distinct_segments(world.trajectories)
    columns = (segments.trajectory, segments.tail, segments.head)
    keys = list(zip(*(c.tolist() for c in columns), strict=True))
    values = zip(segments.position.tolist(), segments.occurrences.tolist(), strict=True)
    assert dict(zip(keys, map(list, values), strict=True)) == expected
    assert len(keys) == len(set(keys))


@thorough
@given(any_world, st.booleans())
def test_the_directory_covers_its_segments(world: SmallWorld, cut: bool) -> None:
    """Every cell's boxes hold the rows filed in it and below it, and the counts add up."""
    filed = file_trajectories(world.trajectories, world.locations, cut=cut)
    grid, cell = filed.grid, cells_of(filed)
    x, y = world.locations.x, world.locations.y
    tail, head = filed.segments.tail[filed.row], filed.segments.head[filed.row]
    assert filed.ends.tolist() == np.stack([x[tail], y[tail], x[head], y[head]], 1).tolist()
    # every segment is there once, whole or in all its pieces
    pieces = np.bincount(filed.row, minlength=len(filed.segments))
    assert (filed.part[:, 1] == pieces[filed.row]).all() and (pieces > 0).all()
    assert len({(r, p) for r, p in zip(filed.row, filed.part[:, 0], strict=True)}) == len(filed)
    assert (filed.part[:, 0] >= 0).all() and (filed.part[:, 0] < filed.part[:, 1]).all()
    assert cut or (pieces == 1).all()

    step = (filed.ends[:, 2:] - filed.ends[:, :2]) / filed.part[:, 1:]
    begin = filed.ends[:, :2] + filed.part[:, :1] * step
    low, high = np.minimum(begin, begin + step), np.maximum(begin, begin + step)
    # each in the cell of its midpoint, at the finest level whose cells are as long as it
    levels = np.array([(c.bit_length() - 1) // 2 for c in cell.tolist()], np.int64)
    size = grid.frame.side / 2.0**levels
    extent = np.abs(step).max(1)
    assert (np.isclose(extent, size) | (extent < size) | (levels == 0)).all()
    assert (
        np.isclose(extent, size / 2) | (extent > size / 2) | (levels == grid.frame.levels)
    ).all()
    corner = np.array([_corner(c) for c in cell.tolist()], np.float64).reshape(-1, 2)
    inside = (begin + step / 2 - [grid.frame.x, grid.frame.y]) / size[:, None] - corner
    assert (inside > -1e-6).all() and (inside < 1 + 1e-6).all()

    assert grid.tree_segments[0] == len(filed)
    assert grid.cell[0] == 1 and (np.diff(grid.cell) > 0).all()
    for i, number in enumerate(grid.cell.tolist()):
        own = slice(grid.segment_offsets[i], grid.segment_offsets[i + 1])
        assert (cell[own] == number).all()
        below = np.array([_is_below(c, number) for c in cell.tolist()], bool)
        assert grid.tree_segments[i] == below.sum()
        for box, rows in ((grid.box[i], own), (grid.tree_box[i], below)):
            if len(low[rows]):
                expected = [*low[rows].min(0), *high[rows].max(0)]
                assert np.allclose(box, expected, rtol=0, atol=1e-6)
            else:
                assert box[0] > box[2]
        children = grid.cell[grid.child_offsets[i, 0] : grid.child_offsets[i, 1]]
        assert children.tolist() == [c for c in grid.cell.tolist() if c >> 2 == number]


def _corner(cell: int) -> tuple[int, int]:
    """Column and row of a cell among those of its level: its bits by turns."""
    bits = bin(cell)[3:]
    return int(bits[1::2] or "0", 2), int(bits[0::2] or "0", 2)


def _is_below(cell: int, ancestor: int) -> bool:
    while cell > ancestor:
        cell >>= 2
    return cell == ancestor


# The search over a build's tables, for any budget and after any edits.


class _Tables:
    """Stands for the build's tables; counts what is asked of them."""

    def __init__(self, built: Trajectories, locations: Locations) -> None:
        self.filed = file_trajectories(built, locations, cut=False)
        self.cells: list[int] = []
        grid = self.filed.grid
        own = np.diff(grid.segment_offsets).astype(np.int32)
        self.grid = StoredGrid(grid.frame, grid.cell, own, grid.box, self.read)

    def read(self, cells: Ints | None) -> tuple[Ids, Ids]:
        cells = self.filed.grid.cell if cells is None else cells
        self.cells += cells.tolist()
        rows = self.filed.row[np.isin(cells_of(self.filed), cells)]
        return self.filed.segments.trajectory[rows], self.filed.segments.position[rows]


def _edited(built: Trajectories, places: int, rng: np.random.Generator) -> Trajectories:
    """Samples taken out and others put in, at random; some trajectories keep none."""
    walks = []
    for t in range(len(built)):
        walk = built.location[built.offsets[t] : built.offsets[t + 1]]
        walk = walk[rng.random(len(walk)) < rng.choice([0.0, 0.5, 0.9, 1.0])]
        new = rng.integers(0, places, rng.integers(0, 4))
        walks.append(np.insert(walk, rng.integers(0, len(walk) + 1, len(new)), new))
    offsets = offsets_from(np.array([len(walk) for walk in walks], np.int64))
    location = np.concatenate([np.zeros(0, np.int32), *walks]).astype(np.int32)
    return Trajectories(offsets, location, np.zeros(len(location), np.int64), built.start)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "_LEAST_ROWS", 8)


@pytest.mark.usefixtures("small_pages")
@settings(thorough, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(worlds(allow_empty=True), seeds, st.sampled_from([0, 2500, 10**9]))
def test_the_stored_search_answers_as_linear(world: SmallWorld, seed: int, memory: int) -> None:
    built, places = world.trajectories, world.locations
    state = _edited(built, len(places), np.random.default_rng(seed))
    queries = _queries(state, places, seed, 9)
    found = GridSearch(_Tables(built, places).grid, built, memory)(
        state, places, world.rank, queries
    )
    _same(found, _found("linear", replace(world, trajectories=state), queries))


@pytest.mark.usefixtures("small_pages")
def test_the_bound_leaves_pages_out_and_the_budget_reads_them_again() -> None:
    rng = np.random.default_rng(5)
    side = 40
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2) * 100.0
    locations = Locations(grid[:, 0].copy(), grid[:, 1].copy())
    # each object stays in its own part of town
    walks = []
    for t in range(200):
        home = np.array([t % side, (t * 7) % side])
        steps = np.clip(home + rng.integers(-2, 3, (30, 2)), 0, side - 1)
        walks.append(steps[:, 1] * side + steps[:, 0])
    world = _world(walks, locations, rng)
    built, rank = world.trajectories, world.rank
    queries = _at(locations, rng.integers(0, len(locations), 50), 3)
    answers, read = [], []
    for memory in (0, 10**9):
        tables = _Tables(built, locations)
        search = GridSearch(tables.grid, built, memory)
        answers.append(search(built, locations, rank, queries).trajectory.tolist())
        read.append(tables.cells)
    assert answers[0] == answers[1]
    assert len(read[1]) == len(set(read[1])), "with enough memory nothing is read twice"
    assert 1 < max(Counter(read[0]).values()) <= 3, "with little memory pages are read again"
    few = _Tables(built, locations)
    GridSearch(few.grid, built, 0)(built, locations, rank, queries.take(np.array([0])))
    assert 0 < len(set(few.cells)) < len(set(read[0])) / 2
