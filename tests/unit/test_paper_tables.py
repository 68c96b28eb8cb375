"""Releases of every kind beside their originals, object by object, as the paper compares them."""

from __future__ import annotations

import numpy as np
import pytest
from sides import MINUTE, side_of

from freqdp_db.evaluation.pair import Case, CellBox
from freqdp_db.methods.contract import WorkingSet
from freqdp_db.model.arrays import offsets_from
from freqdp_db.model.trajectories import Build, Clock, Locations, Trajectories
from freqdp_db.paper.experiment import compare_trips, passing_squares
from freqdp_db.paper.summary_table import COLUMNS, ROWS, aligned

_PLACES = Locations(np.arange(4.0) * 1000, np.zeros(4))


def _trajectories(*lists: list[tuple[int, int]]) -> Trajectories:
    """Of (place, minutes)."""
    return side_of([[(place, float(at)) for place, at in one] for one in lists])


def _lists(side: Trajectories) -> list[list[tuple[int, int]]]:
    samples = list(zip(side.location.tolist(), (side.at // MINUTE).tolist(), strict=True))
    return [samples[a:b] for a, b in zip(side.offsets, side.offsets[1:], strict=False)]


_ORIGINAL = _trajectories([(0, 1)], [(1, 2)], [(2, 3)])


def _aligned(state: WorkingSet) -> list[list[tuple[int, int]]]:
    build = Build(_ORIGINAL, _PLACES, Clock(1, 1), 3857, 3857)
    return _lists(aligned(Case.of(build, state, {})).released)


def test_a_group_s_trajectory_stands_beside_each_of_its_objects() -> None:
    released = _trajectories([(3, 9), (1, 11)], [(2, 5)])
    several = np.full(3, -1, np.int32)
    part_of = np.array([1, -1, 0], np.int32)
    state = WorkingSet(
        released, _PLACES, np.arange(2), several, members=np.array([5, 5]), part_of=part_of
    )
    assert _aligned(state) == [[(2, 5)], [], [(3, 9), (1, 11)]]


def test_trips_of_nobody_are_dealt_out_in_turn() -> None:
    released = _trajectories([(0, 9)], [(1, 2), (2, 4)], [(3, 1)], [(1, 5), (2, 10)])
    state = WorkingSet(released, _PLACES, np.arange(4), np.full(6, -1, np.int32))
    assert _aligned(state) == [[(1, 5), (0, 9), (2, 10)], [(1, 2), (2, 4)], [(3, 1)]]


def test_one_object_s_trajectory_is_left_as_it_is() -> None:
    released = _trajectories([(1, 1)], [], [(0, 3)])
    assert _aligned(WorkingSet(released, _PLACES, np.arange(3))) == [[(1, 1)], [], [(0, 3)]]


def test_the_published_table_is_whole() -> None:
    """14 methods, 14 columns; the gaps are those of the two that generate."""
    assert len(ROWS) == len(COLUMNS) == 14
    for row in ROWS:
        assert len(row.values) == len(COLUMNS)
        gaps = sum(value is None for value in row.values)
        assert gaps == (7 if row.title in ("DPT", "AdaTrace") else 0)
        by_name = dict(zip(COLUMNS, row.values, strict=True))
        precision, recall, f = (by_name[n] for n in ("Precision", "Recall", "F-score"))
        if precision is not None and recall is not None and f is not None:
            # as printed, but for W4M's own: its F is a mean over trajectories, it seems
            near = 0.025 if row.title == "W4M" else 0.0025
            assert abs(2 * precision * recall / (precision + recall) - f) < near


# --- The seven numbers by which sets of trips are compared: at their limits, and by hand.


BOX = CellBox(0.0, 0.0, 30_000.0, 30_000.0)
BEST = {
    "trip.te": 0.0, "trip.de": 0.0, "trip.length": 0.0, "trip.density": 0.0, "trip.kendall": 1.0,
    "trip.query": 0.0, "trip.query.mean": 0.0, "trip.ffp": 1.0,
}  # fmt: skip


def lines(*trips: list[tuple[float, float]]) -> tuple[Trajectories, Locations]:
    points = np.array([p for trip in trips for p in trip], np.float64)
    offsets = offsets_from(np.array([len(trip) for trip in trips]))
    count = np.arange(len(points))
    side = Trajectories(
        offsets, count.astype(np.int32), count.astype(np.int64), offsets[:-1].astype(np.int64)
    )
    return side, Locations(points[:, 0], points[:, 1])


def walks(seed: int, at: float, size: int = 60) -> tuple[Trajectories, Locations]:
    rng = np.random.default_rng(seed)
    ways = np.clip(at + np.cumsum(rng.normal(0, 900, (size, 20, 2)), axis=1), 0, 29_999)
    return lines(*[[(float(x), float(y)) for x, y in way] for way in ways])


def test_the_same_trips_are_alike() -> None:
    side = walks(1, 15_000)
    assert compare_trips(BOX, side, side) == BEST


def test_trips_with_more_samples_on_the_way_are_alike() -> None:
    """Half way between any two samples another one: nothing is passed that was not before."""
    side, places = walks(1, 15_000)
    x, y = places.x.reshape(60, 20), places.y.reshape(60, 20)
    full = np.empty((60, 39, 2))
    for i, column in enumerate((x, y)):
        full[:, ::2, i], full[:, 1::2, i] = column, (column[:, 1:] + column[:, :-1]) / 2
    other = lines(*[[(float(a), float(b)) for a, b in way] for way in full])
    found = compare_trips(BOX, (side, places), other)
    for name in ("trip.te", "trip.de", "trip.length", "trip.query", "trip.query.mean"):
        assert found[name] == pytest.approx(0.0, abs=1e-9), name
    assert found["trip.kendall"] > 0.95 and found["trip.density"] < 0.01


def test_trips_elsewhere_are_not() -> None:
    found = compare_trips(BOX, walks(1, 5_000), walks(2, 25_000))
    assert found["trip.te"] == pytest.approx(np.log(2), abs=0.05)
    assert found["trip.density"] > 0.5 and found["trip.ffp"] < 0.2
    assert found["trip.kendall"] < 0.2 and found["trip.query.mean"] > 0.9


def test_worse_trips_score_worse() -> None:
    original = walks(1, 15_000, 400)
    near, far = (compare_trips(BOX, original, walks(2, at, 400)) for at in (15_000, 18_000))
    for name, best in BEST.items():
        assert abs(near[name] - best) < abs(far[name] - best) or name in ("trip.de", "trip.length")


@pytest.mark.parametrize(
    ("a", "b", "passes"),
    [
        ((0, 0), (30, 30), True), ((0, 15), (5, 15), False), ((15, 15), (15, 15), True),
        ((0, 25), (25, 0), True), ((0, 31), (31, 0), True), ((0, 45), (45, 0), False),
        ((10, 0), (10, 30), True),
        ((9, 0), (9, 30), False),
    ],
)  # fmt: skip
def test_a_way_passes_a_square(a: tuple[int, int], b: tuple[int, int], passes: bool) -> None:
    square = (10.0, 10.0, 20.0, 20.0)
    assert passing_squares(*lines([a, b]), np.array([square])).tolist() == [passes]
