"""K-nearest search equals a naive scan, ties included."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import naive
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from small_worlds import SmallWorld, as_lists, thorough, worlds

from freqdp_db.model.arrays import Flags, offsets_from
from freqdp_db.model.trajectories import Clock, Locations, Trajectories
from freqdp_db.search.best import Queries
from freqdp_db.search.grid import cells_of, file_trajectories
from freqdp_db.search.nearest import index_segments, nearest_trajectories
from freqdp_db.search.segments import distinct_segments


@st.composite
def _queries(draw: st.DrawFn, world: SmallWorld) -> list[tuple[float, float, int, list[int]]]:
    """(x, y, k, trajectories to skip): any point, also far outside, and k beyond what there is."""
    coordinate = st.one_of(
        st.integers(-200, 800).map(float), st.integers(-4_000_000, 4_000_000).map(lambda n: n / 4)
    )
    place = st.integers(0, len(world.locations) - 1)
    at_place = place.map(lambda i: (float(world.locations.x[i]), float(world.locations.y[i])))
    size = len(world.trajectories)
    query = st.tuples(
        st.one_of(at_place, st.tuples(coordinate, coordinate)),
        st.integers(0, size + 2),
        st.sets(st.integers(0, size - 1)).map(sorted),
    )
    return [(x, y, k, skip) for (x, y), k, skip in draw(st.lists(query, max_size=5))]


def _scan(world: SmallWorld, x: float, y: float, k: int, skip: list[int]) -> list[Any]:
    q = (naive.Fraction(x), naive.Fraction(y))
    found = []
    for t, samples in enumerate(as_lists(world.trajectories)):
        if not samples or t in skip:
            continue
        places = [naive.point(world, p) for p, _ in samples]
        ends = list(pairwise(places)) or [(places[0], places[0])]
        loss, position = min((naive.distance_mm(q, a, b), i) for i, (a, b) in enumerate(ends))
        found.append((loss, int(world.rank[t]), t, position))
    return [(t, position, loss) for loss, _, t, position in sorted(found)[:k]]


@thorough
@given(st.data())
def test_nearest_trajectories(data: st.DataObject) -> None:
    world = data.draw(worlds(allow_empty=True))
    queries = data.draw(_queries(world))
    k = np.array([q[2] for q in queries], np.int64)
    found = nearest_trajectories(
        index_segments(world.trajectories, world.locations, world.rank),
        Queries(
            np.array([q[0] for q in queries], np.float64),
            np.array([q[1] for q in queries], np.float64),
            k,
            offsets_from(np.array([len(q[3]) for q in queries], np.int64)),
            np.array([t for q in queries for t in q[3]], np.int32),
        ),
    )
    for i, query in enumerate(queries):
        part = slice(found.offsets[i], found.offsets[i + 1])
        rows = list(
            zip(
                found.trajectory[part].tolist(),
                found.position[part].tolist(),
                found.loss_mm[part].tolist(),
                strict=True,
            )
        )
        expected = _scan(world, *query)
        assert rows[: len(expected)] == expected
        # fewer than K: there is no other
        assert all(t == -1 and p == -1 for t, p, _ in rows[len(expected) :])


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


def _assert_directory(world: SmallWorld, *, cut: bool) -> None:
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


@thorough
@given(worlds(allow_empty=True), st.booleans())
def test_grid_directory_covers_its_segments(world: SmallWorld, cut: bool) -> None:
    _assert_directory(world, cut=cut)


def _corner(cell: int) -> tuple[int, int]:
    """Column and row of a cell among those of its level: its bits by turns."""
    bits = bin(cell)[3:]
    return int(bits[1::2] or "0", 2), int(bits[0::2] or "0", 2)


def _is_below(cell: int, ancestor: int) -> bool:
    while cell > ancestor:
        cell >>= 2
    return cell == ancestor


@st.composite
def _crowds(draw: st.DrawFn) -> SmallWorld:
    """Enough trajectories for the search to prune: random walks on a grid, far from the origin."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    pitch = draw(st.sampled_from([0.25, 100.0, 1000.0]))
    side = draw(st.sampled_from([6, 40]))
    stride = draw(st.sampled_from([1, 15]))
    lengths = rng.integers(0, 60, draw(st.integers(2, 60)))
    walks = []
    for length in lengths:
        steps = rng.integers(-stride, stride + 1, (length, 2)) * (rng.random((length, 1)) < 0.6)
        walks.append(np.clip(rng.integers(0, side, 2) + np.cumsum(steps, 0), 0, side - 1))
    cells = np.concatenate([np.concatenate(walks), rng.integers(0, side, (1, 2))])
    # some far outliers, as every GPS has them
    cells[rng.random(len(cells)) < 0.01] += 5000
    distinct, location = np.unique(cells, axis=0, return_inverse=True)
    locations = Locations(
        500_000 + pitch * (distinct[:, 0] + 0.5), 4_000_000 + pitch * (distinct[:, 1] + 0.5)
    )
    offsets = offsets_from(lengths)
    location = location.reshape(-1)[:-1].astype(np.int32)
    times = np.arange(len(location), dtype=np.int64)
    start = np.zeros(len(lengths), np.int64)
    rank = rng.permutation(len(lengths)).astype(np.int64)
    return SmallWorld(Trajectories(offsets, location, times, start), locations, Clock(1, 1), rank)


@settings(thorough, max_examples=15)
@given(_crowds(), st.booleans())
def test_grid_directory_of_a_crowd(world: SmallWorld, cut: bool) -> None:
    _assert_directory(world, cut=cut)


def _scan_all(world: SmallWorld, place: int, skip: Flags) -> list[tuple[int, int, int]]:
    """(trajectory, position, loss) of every trajectory's nearest segment, nearest first."""
    x, y = world.locations.x.astype(np.longdouble), world.locations.y.astype(np.longdouble)
    found = []
    for t in np.flatnonzero(~skip & (world.trajectories.lengths > 0)).tolist():
        mine = world.trajectories.location[slice(*world.trajectories.offsets[t : t + 2])]
        a, b = (mine[:-1], mine[1:]) if len(mine) > 1 else (mine, mine)
        dx, dy = x[b] - x[a], y[b] - y[a]
        length2 = dx * dx + dy * dy
        along = (x[place] - x[a]) * dx + (y[place] - y[a]) * dy
        share = np.clip(along / np.where(length2 > 0, length2, 1), 0, 1)
        distance = np.hypot(x[place] - x[a] - share * dx, y[place] - y[a] - share * dy)
        loss = np.floor(distance * 1000 + np.longdouble(0.5)).astype(np.int64)
        position = int(np.argmin(loss))
        found.append((int(loss[position]), int(world.rank[t]), t, position))
    return [(t, position, loss) for loss, _, t, position in sorted(found)]


@thorough
@given(_crowds(), st.integers(0, 2**32))
def test_nearest_in_a_crowd(world: SmallWorld, seed: int) -> None:
    """Places of the world as queries, leaving out who contains them, as the global step asks."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, len(world.locations), 12)
    owner = np.repeat(np.arange(len(world.trajectories)), world.trajectories.lengths)
    skips = [
        np.bincount(owner[world.trajectories.location == p], minlength=len(world.rank)) > 0
        for p in place
    ]
    k = rng.integers(1, len(world.rank) + 1, len(place)).astype(np.int64)
    found = nearest_trajectories(
        index_segments(world.trajectories, world.locations, world.rank),
        Queries(
            world.locations.x[place],
            world.locations.y[place],
            k,
            offsets_from(np.array([skip.sum() for skip in skips])),
            np.concatenate([np.flatnonzero(skip) for skip in skips]).astype(np.int32),
        ),
    )
    for i, (p, skip) in enumerate(zip(place.tolist(), skips, strict=True)):
        part = slice(found.offsets[i], found.offsets[i + 1])
        expected = _scan_all(world, p, skip)[: k[i]]
        columns = (found.trajectory[part], found.position[part], found.loss_mm[part])
        rows = list(zip(*(c.tolist() for c in columns), strict=True))
        assert rows[: len(expected)] == expected
        assert all(t == -1 for t, _, _ in rows[len(expected) :])
