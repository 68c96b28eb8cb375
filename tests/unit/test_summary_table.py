"""Releases of every kind beside their originals, object by object, as the paper compares them."""

from __future__ import annotations

import numpy as np

from freqdp_db.evaluation.pair import Case
from freqdp_db.methods.contract import WorkingSet
from freqdp_db.model.trajectories import Build, Clock, Locations, Trajectories
from freqdp_db.paper.summary_table import COLUMNS, ROWS, aligned

_PLACES = Locations(np.arange(4.0) * 1000, np.zeros(4))


def _trajectories(*lists: list[tuple[int, int]]) -> Trajectories:
    flat = [sample for one in lists for sample in one]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    return Trajectories(
        offsets,
        np.array([place for place, _ in flat], np.int32),
        np.array([at for _, at in flat], np.int64),
        np.array([one[0][1] if one else 0 for one in lists], np.int64),
    )


def _lists(side: Trajectories) -> list[list[tuple[int, int]]]:
    samples = list(zip(side.location.tolist(), side.at.tolist(), strict=True))
    return [samples[a:b] for a, b in zip(side.offsets, side.offsets[1:], strict=False)]


_ORIGINAL = _trajectories([(0, 1)], [(1, 2)], [(2, 3)])


def _aligned(state: WorkingSet) -> list[list[tuple[int, int]]]:
    build = Build(_ORIGINAL, _PLACES, Clock(1, 1), 3857, 3857)
    return _lists(aligned(Case.of(build, state, {}), state).released)


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
