"""Every search strategy gives the linear scan's answer, ties included; and that is the right one."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import floor, isqrt
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freqdp_db.dataset.snapping import snap_grid
from freqdp_db.errors import BadInput
from freqdp_db.loading.city import City
from freqdp_db.model.arrays import Ints, offsets_from
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.paper.bench import parse_names
from freqdp_db.paper.strategies import DEFAULT, STRATEGIES, distinct_rows, index_bytes
from freqdp_db.search.best import Queries

thorough = settings(derandomize=True, deadline=None, max_examples=60, database=None)


class Scene(NamedTuple):
    trajectories: Trajectories
    locations: Locations
    rank: Ints


def _scene(walks: list[Any], places: Locations, rng: np.random.Generator) -> Scene:
    offsets = offsets_from(np.array([len(walk) for walk in walks]))
    location = np.concatenate([np.zeros(0, np.int32), *walks]).astype(np.int32)
    at = np.arange(len(location), dtype=np.int64)
    trajectories = Trajectories(offsets, location, at, np.zeros(len(walks), np.int64))
    return Scene(trajectories, places, rng.permutation(len(walks)).astype(np.int64))


def _small_world(seed: int) -> Scene:
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
    return _scene(walks, places, rng)


def _queries(scene: Scene, seed: int, count: int) -> Queries:
    """At places, near them and far outside; K from none to more than there are; some left out."""
    rng = np.random.default_rng(seed)
    size, places = len(scene.trajectories), scene.locations
    at = rng.integers(0, len(places), count)
    apart = rng.choice([0.0, 0.001, 37.3, 1e6], count)
    angle = rng.random(count)
    skips = [np.flatnonzero(rng.random(size) < rng.choice([0, 0.3, 1])) for _ in range(count)]
    return Queries(
        places.x[at] + apart * np.cos(angle),
        places.y[at] + apart * np.sin(angle),
        rng.integers(0, min(size, 12) + 3, count),
        offsets_from(np.array([len(skip) for skip in skips])),
        np.concatenate(skips).astype(np.int32),
    )


@cache
def _city() -> Scene:
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
    return _scene(walks, snapped.locations, np.random.default_rng(2))


def _same(found: Any, expected: Any) -> None:
    assert found.loss_mm.tolist() == expected.loss_mm.tolist()
    for column in ("offsets", "trajectory", "position"):
        if hasattr(expected, column):
            assert getattr(found, column).tolist() == getattr(expected, column).tolist(), column


def _loss_mm(scene: Scene, x: float, y: float, a: int, b: int) -> int:
    """Exactly floor(1000 d + 1/2), with rational numbers."""
    q, a_, b_ = (
        (Fraction(float(u)), Fraction(float(v)))
        for u, v in (
            (x, y),
            (scene.locations.x[a], scene.locations.y[a]),
            (scene.locations.x[b], scene.locations.y[b]),
        )
    )
    dx, dy = b_[0] - a_[0], b_[1] - a_[1]
    t = Fraction(0)
    if dx or dy:
        t = ((q[0] - a_[0]) * dx + (q[1] - a_[1]) * dy) / (dx * dx + dy * dy)
        t = min(Fraction(1), max(Fraction(0), t))
    ex, ey = q[0] - a_[0] - t * dx, q[1] - a_[1] - t * dy
    return (isqrt(floor(4_000_000 * (ex * ex + ey * ey))) + 1) // 2


def _losses(scene: Scene, t: int, x: float, y: float) -> list[tuple[int, int]]:
    """(loss, position) of every segment of a trajectory, nearest first."""
    walk = scene.trajectories.location[slice(*scene.trajectories.offsets[t : t + 2])].tolist()
    ends = list(pairwise(walk)) or [(p, p) for p in walk]
    return sorted((_loss_mm(scene, x, y, a, b), i) for i, (a, b) in enumerate(ends))


@thorough
@given(st.integers(0, 2**32))
def test_linear_is_the_naive_loop(seed: int) -> None:
    scene = _small_world(seed)
    queries = _queries(scene, seed, 3)
    linear = STRATEGIES["linear"]
    index = linear.build(scene.trajectories, scene.locations, scene.rank)
    found = linear.query(index, queries)
    for q, (x, y, k) in enumerate(zip(queries.x, queries.y, queries.k, strict=True)):
        skip = set(queries.skip[slice(*queries.skip_offsets[q : q + 2])].tolist())
        expected = sorted(
            (loss, int(scene.rank[t]), t, position)
            for t in range(len(scene.trajectories))
            if t not in skip
            for loss, position in _losses(scene, t, x, y)[:1]
        )[:k]
        part = slice(found.offsets[q], found.offsets[q + 1])
        columns = (found.loss_mm[part], found.trajectory[part], found.position[part])
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        assert rows[: len(expected)] == [(loss, t, position) for loss, _, t, position in expected]
        assert all(row[1:] == (-1, -1) for row in rows[len(expected) :]), "there is no other"


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "linear"])
@thorough
@given(seed=st.integers(0, 2**32))
def test_strategies_answer_as_linear(name: str, seed: int) -> None:
    scene = _small_world(seed)
    _compare(name, scene, _queries(scene, seed, 12))


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "linear"])
def test_strategies_answer_as_linear_in_a_city(name: str) -> None:
    scene = _city()
    assert scene.trajectories.samples > 5_000
    _compare(name, scene, _queries(scene, 3, 400))


def _compare(name: str, scene: Scene, queries: Queries) -> None:
    world = scene.trajectories, scene.locations, scene.rank
    strategy, linear = STRATEGIES[name], STRATEGIES["linear"]
    index = strategy.build(*world)
    found = strategy.query(index, queries)
    expected = linear.query(linear.build(*world), queries)
    _same(found, expected)
    assert found.cells > 0 or queries.k.sum() == 0


def test_counts_say_how_much_was_looked_at() -> None:
    scene = _city()
    places = np.random.default_rng(4).integers(0, len(scene.locations), 200)
    queries = Queries(
        scene.locations.x[places],
        scene.locations.y[places],
        np.full(200, 3),
        np.zeros(201, np.int64),
        np.zeros(0, np.int32),
    )
    looked = {}
    for name, strategy in STRATEGIES.items():
        index = strategy.build(scene.trajectories, scene.locations, scene.rank)
        assert index_bytes(index) > 0
        looked[name] = strategy.query(index, queries).distances
    distinct = len(distinct_rows(scene.trajectories, scene.locations).ax)
    assert looked["linear"] == 200 * distinct
    assert looked[DEFAULT] < min(n for name, n in looked.items() if name != DEFAULT)


def test_nothing_to_search() -> None:
    """No sample is left, or no query is asked."""
    rng = np.random.default_rng(1)
    empty = _scene([np.zeros(0, np.int64)] * 2, Locations(np.zeros(1), np.zeros(1)), rng)
    asked = Queries(
        np.zeros(1), np.zeros(1), np.array([2]), np.zeros(2, np.int64), np.zeros(0, np.int32)
    )
    none = Queries(
        np.zeros(0),
        np.zeros(0),
        np.zeros(0, np.int64),
        np.zeros(1, np.int64),
        np.zeros(0, np.int32),
    )
    for strategy in STRATEGIES.values():
        for scene, queries in ((empty, asked), (empty, none), (_small_world(1), none)):
            index = strategy.build(scene.trajectories, scene.locations, scene.rank)
            found = strategy.query(index, queries)
            assert (found.trajectory == -1).all()


def test_names() -> None:
    assert list(STRATEGIES) == [
        "linear",
        "uniform-grid",
        "hg-top-down",
        "hg-bottom-up",
        "hg-bottom-up-down",
        "extent",
    ]
    assert DEFAULT == "extent"
    assert parse_names(None) == [*STRATEGIES, "gist"]
    assert parse_names("linear, gist") == ["linear", "gist"]
    with pytest.raises(BadInput, match="quad-tree"):
        parse_names("linear,quad-tree")
