"""The search over a build's tables answers as a linear scan, for any budget and after any edits."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_worlds import thorough, worlds

from freqdp_db.model.arrays import Ids, Ints, offsets_from
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.paper.strategies import distinct_rows, search_linear
from freqdp_db.search import stored
from freqdp_db.search.best import Queries
from freqdp_db.search.grid import cells_of, file_trajectories
from freqdp_db.search.stored import GridSearch, StoredGrid


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


def _queries(
    state: Trajectories, locations: Locations, count: int, rng: np.random.Generator
) -> Queries:
    at = rng.integers(0, len(locations), count)
    apart = rng.choice([0.0, 30.0, 5000.0], count)
    skips = [np.flatnonzero(rng.random(len(state)) < 0.3) for _ in range(count)]
    return Queries(
        locations.x[at] + apart,
        locations.y[at] - apart,
        rng.integers(0, len(state) + 2, count),
        offsets_from(np.array([len(skip) for skip in skips], np.int64)),
        np.concatenate([np.zeros(0, np.int64), *skips]).astype(np.int32),
    )


def _same(built: Trajectories, locations: Locations, rank: Ints, seed: int, memory: int) -> _Tables:
    rng = np.random.default_rng(seed)
    state = _edited(built, len(locations), rng)
    queries = _queries(state, locations, 9, rng)
    tables = _Tables(built, locations)
    found = GridSearch(tables.grid, built, memory)(state, locations, rank, queries)
    expected = search_linear(distinct_rows(state, locations), queries, rank)
    for column in ("offsets", "trajectory", "position", "loss_mm"):
        assert getattr(found, column).tolist() == getattr(expected, column).tolist(), column
    return tables


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "_LEAST_ROWS", 8)


@thorough
@given(st.data())
def test_small_worlds(data: st.DataObject) -> None:
    world = data.draw(worlds(allow_empty=True))
    _same(
        world.trajectories,
        world.locations,
        world.rank,
        data.draw(st.integers(0, 2**32)),
        data.draw(st.sampled_from([0, 2500, 10**9])),
    )


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
    offsets = offsets_from(np.array([len(walk) for walk in walks]))
    location = np.concatenate(walks).astype(np.int32)
    built = Trajectories(
        offsets, location, np.zeros(len(location), np.int64), np.zeros(200, np.int64)
    )
    rank = rng.permutation(200)
    at = rng.integers(0, len(locations), 50)
    queries = Queries(
        locations.x[at], locations.y[at], np.full(50, 3), np.zeros(51, np.int64),
        np.zeros(0, np.int32),
    )  # fmt: skip
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
