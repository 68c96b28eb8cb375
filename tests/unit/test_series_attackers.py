"""Attackers over a series: windows that are joined are the whole again, and habits find who is who."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from freqdp_db.evaluation.attacks.exposure import measure_exposure
from freqdp_db.evaluation.pair import Case, ReleaseSeen, Windows
from freqdp_db.evaluation.series import Window, as_metrics, from_metrics, join_windows, numbers_of
from freqdp_db.methods.contract import Undated
from freqdp_db.model.arrays import Groups, offsets_from
from freqdp_db.model.days import DAY_US
from freqdp_db.model.trajectories import KeptColumns, Locations, Trajectories

_MINUTE_US = 60_000_000
_PERSONS, _DAYS = 24, 10


def _way(rng: np.random.Generator) -> np.ndarray:
    """What somebody does every day: home, in a town of 2 km, work and a shop, somewhere in 20 km."""
    home = rng.integers(0, 2_000, 2).astype(np.float64)
    work, shop = rng.integers(0, 20_000, (2, 2)).astype(np.float64)
    stops = [home] * 4 + [work] * 8 + [shop] * 2 + [home] * 4
    return np.array(stops)


def _night(day: int, ways: list[np.ndarray], order: np.ndarray) -> Case:
    """A day of persons in this order; what is released of it is all that they did, in another order."""
    rng = np.random.default_rng([2, day])
    points = np.concatenate([ways[p] for p in order])
    _, first, number = np.unique(
        points[:, 0] + 1j * points[:, 1], return_index=True, return_inverse=True
    )
    # places are numbered anew each night
    new = rng.permutation(len(first))
    places = Locations(*(np.empty(len(first)) for _ in range(2)))
    places.x[new], places.y[new] = points[first].T
    each = len(ways[0])
    at = day * DAY_US + (6 * 60 + 50 * np.arange(each)) * _MINUTE_US
    offsets = offsets_from([each] * len(order))
    times = np.tile(at, len(order)) + np.repeat(rng.integers(0, 600, len(order)), each) * 1_000_000
    original = Trajectories(offsets, new[number].astype(np.int32), times, times[offsets[:-1]])
    released_as = rng.permutation(len(order))
    release = ReleaseSeen(
        original.take(released_as), places, np.repeat(released_as, each).astype(np.int32)
    )
    return Case(original, places, release)


def _series(days: int, shuffled: bool = False) -> list[Window]:
    """shuffled: the persons are others every day, so that nothing can be learnt from other days."""
    rng = np.random.default_rng(1)
    ways = [_way(rng) for _ in range(_PERSONS)]
    windows = []
    for day in range(days):
        order = rng.permutation(_PERSONS)
        of = ways if not shuffled else [_way(rng) for _ in range(_PERSONS)]
        windows.append(Window(_night(day, of, order), [f"p{p}" for p in order], day * DAY_US))
    return windows


def test_joined_windows_are_what_every_object_did_in_all() -> None:
    windows = _series(3)
    joined = join_windows(windows)
    assert (len(joined), len(joined.release.trajectories)) == (_PERSONS, 3 * _PERSONS)
    assert len(joined.places) == len(np.unique(joined.places.x + 1j * joined.places.y))
    keys = list(dict.fromkeys(key for window in windows for key in window.objects))
    for number, key in enumerate(keys):
        mine = slice(*joined.original.offsets[number : number + 2])
        parts = []
        for window in windows:
            t = window.objects.index(key)
            own = slice(*window.case.original.offsets[t : t + 2])
            parts.append((window.case.original.at[own], window.case.x[own], window.case.y[own]))
        expected = [np.concatenate(column) for column in zip(*parts, strict=True)]
        found = [joined.original.at[mine], joined.x[mine], joined.y[mine]]
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
        # every released sample of this owner is one that the object has
        own = joined.release.owners == number
        assert np.array_equal(np.sort(joined.release.trajectories.at[own]), np.sort(expected[0]))
        assert np.array_equal(np.sort(joined.release.x[own]), np.sort(expected[1]))
    assert joined.original.start[0] == joined.original.at[0]


def test_windows_name_the_same_values_alike() -> None:
    """Each build numbers what its samples carry along by itself."""
    windows = []
    for window, values in zip(_series(2), ((None, "a", "b"), (None, "b", "c")), strict=True):
        case, side = window.case, window.case.release.trajectories
        # object p0 has a, then b; p1 has b, then c; the others have nothing
        codes = np.zeros(len(case), np.int16)
        codes[[window.objects.index("p0"), window.objects.index("p1")]] = (1, 2)
        original = replace(case.original, kept=codes[case.original.owner])
        released = replace(side, kept=codes[case.release.owners])
        case = replace(
            case, original=original, release=replace(case.release, trajectories=released)
        )
        kept = KeptColumns((("kind", "text"),), tuple((value,) for value in values))
        windows.append(replace(window, case=case, kept=kept))
    joined = join_windows(windows)
    assert joined.original.kept is not None and joined.release.trajectories.kept is not None
    number = {key: n for n, key in enumerate(dict.fromkeys(k for w in windows for k in w.objects))}
    for codes, owner in (
        (joined.original.kept, joined.original.owner),
        (joined.release.trajectories.kept, joined.release.owners),
    ):
        first, second = (set(codes[owner == number[key]].tolist()) for key in ("p0", "p1"))
        assert first == {1, 2} and second == {2, 3}
        others = (owner != number["p0"]) & (owner != number["p1"])
        assert not codes[others].any()


def test_groups_of_all_windows_name_their_own_samples() -> None:
    first, second = _series(2)
    groups = Groups(np.array([0, 2]), np.array([3, 21]), np.zeros(1, np.int32))
    with_groups = [
        replace(w, case=replace(w.case, release=replace(w.case.release, groups=groups)))
        for w in (first, second)
    ]
    joined = join_windows(with_groups).release
    assert joined.groups is not None and len(joined.groups) == 2
    there = first.case.release.trajectories.samples
    assert joined.groups.stop.tolist() == [3, 21, 3 + there, 21 + there]


def test_habits_of_other_nights_find_persons_and_one_night_alone_has_none() -> None:
    windows = _series(_DAYS)
    alone = measure_exposure(join_windows(windows[-1:]), 1, only=["habits"])
    together = measure_exposure(join_windows(windows), 1, only=["habits"])
    assert alone.get("exposure.habits", 0.0) == 0.0
    assert together["exposure.habits"] > 0.3 and together["habits"] > 0.9
    nobody = measure_exposure(join_windows(_series(_DAYS, shuffled=True)), 1, only=["habits"])
    assert nobody.get("exposure.habits", 0.0) < 0.05
    assert nobody.get("habits", 0.0) < 0.2


def test_nights_are_joined_where_a_person_sleeps() -> None:
    """Each night's trajectory goes on in the next night's: the re-linker follows from known samples."""
    together = measure_exposure(join_windows(_series(_DAYS)), 1, only=["traces"])
    assert together["relink"] > 0.5
    assert together["exposure.relink.1"] > together["exposure.x.1"]
    shuffled = join_windows(_series(_DAYS, shuffled=True))
    nobody = measure_exposure(shuffled, 1, only=["traces"])
    assert nobody["relink"] < 0.2
    # no more than the nights that are known
    assert nobody["exposure.relink.1"] < nobody["exposure.near.1"] + 0.05


def test_nothing_follows_before_the_quiet_time_but_in_the_next_window() -> None:
    release = _series(1)[0].case.release
    quiet = 600_000_000
    release = replace(release, quiet_us=quiet)
    at = np.array([10, DAY_US - 5, DAY_US, 2 * DAY_US + 7], np.int64)
    assert release.quiet_after(at).tolist() == [quiet] * 4
    begin = np.array([0, DAY_US, 2 * DAY_US], np.int64)
    release = replace(release, windows=Windows(begin, np.zeros(3, np.int64)))
    assert release.quiet_after(at).tolist() == [quiet, 5, quiet, quiet]


def test_times_without_dates_are_looked_for_in_the_week_of_their_window() -> None:
    release = _series(1)[0].case.release
    weeks = np.array([0, 14], np.int64) * DAY_US
    monday = 2 * DAY_US  # 2000-01-03
    nothing = np.zeros(0, np.int64)
    release = replace(
        release,
        undated=Undated(int(weeks[1]), 7 * DAY_US, nothing),
        windows=Windows(monday + np.array([0, 14], np.int64) * DAY_US, weeks),
    )
    at = monday + np.array([3, 10, 15], np.int64) * DAY_US
    assert release.coarse(at).tolist() == [3 * DAY_US, 3 * DAY_US, 15 * DAY_US]


@pytest.mark.parametrize(
    ("windows", "numbers"),
    [(1, [1]), (2, [1, 2]), (7, [1, 2, 5, 7]), (30, [1, 2, 5, 10, 30]), (400, [1, 2, 5, 10, 30])],
)
def test_how_many_windows_are_attacked(windows: int, numbers: list[int]) -> None:
    assert numbers_of(windows) == numbers


def test_stored_numbers_are_read_back() -> None:
    found = {2: {"exposure": 0.1, "half": 0.0, "exposure.x.1": 0.1, "exposure.x.1.half": 0.0}}
    stored = as_metrics(found)
    assert stored == {"series.2.exposure": 0.1, "series.2.half": 0.0, "series.2.exposure.x.1": 0.1}
    assert from_metrics({"exposure": 0.5, **stored}) == {
        2: {"exposure": 0.1, "half": 0.0, "exposure.x.1": 0.1}
    }
