"""Single samples that are followed: most of who walks alone, less where a crowd is."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.evaluation.attacks.points import find_marks, tracked_exposures
from freqdp_db.evaluation.pair import Case, ReleaseSeen
from freqdp_db.methods.contract import StepContext, WorkingSet
from freqdp_db.methods.unlinking.options import PointsOptions
from freqdp_db.methods.unlinking.steps import PointsStep
from freqdp_db.model.arrays import offsets_from
from freqdp_db.model.trajectories import Build, Clock, Locations, Trajectories
from freqdp_db.privacy.noise import SeededSource

MINUTE = 60_000_000
SAMPLES = 60


def walkers(apart_m: float, step_m: float, count: int, seed: int = 1) -> Build:
    """Objects that walk at random, a sample a minute, from places so far apart."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(0, step_m, (2, count, SAMPLES)).cumsum(axis=2)
    x, y = (np.round((steps[k] + apart_m * np.arange(count)[:, None]) / 100) * 100 for k in (0, 1))
    return built(x, y)


def built(x: NDArray[np.float64], y: NDArray[np.float64]) -> Build:
    """Of positions by object and minute."""
    count = len(x)
    places, location = np.unique(
        np.column_stack([x.ravel(), y.ravel()]), axis=0, return_inverse=True
    )
    at = np.tile(np.arange(SAMPLES) * MINUTE, count)
    side = Trajectories(
        offsets_from(np.full(count, SAMPLES)),
        location.reshape(-1).astype(np.int32),
        at,
        at[::SAMPLES],
    )
    return Build(side, Locations(places[:, 0], places[:, 1]), Clock(1_000_000, MINUTE), 32631, 4326)


def case_of(build: Build, **given: Any) -> Case:
    """Its points."""
    values: dict[str, Any] = {
        "crowd": None, "crowd_within": None, "dates": None, "share": None, "clock": MINUTE,
        "grain": None, "dominance": None, "beside": None, **given,
    }  # fmt: skip
    options = PointsOptions(**values)
    world = StepContext(build)
    state = WorkingSet(build.trajectories, build.locations, np.arange(len(build.trajectories)))
    drawn = PointsStep().draw(world, state, options, SeededSource(1))
    _, after = PointsStep().carry_out(world, state, drawn, options)
    return Case.of(build, after, values)


def tracked(case: Case) -> dict[str, float]:
    return tracked_exposures(case, np.random.default_rng(1))


def test_who_walks_alone_is_followed() -> None:
    found = tracked(case_of(walkers(50_000.0, 60.0, 20)))
    assert found["exposure.tracked.1"] > 0.9
    assert found["exposure.tracked.1.precision"] > 0.95


def test_nothing_is_learnt_of_samples_that_are_dealt_anew() -> None:
    """The same marks, but at every tick whose they are is drawn anew: nobody can be followed."""
    case = case_of(walkers(50_000.0, 60.0, 20))
    owners, at = case.release.owners, case.release.trajectories.at
    rng = np.random.default_rng(2)
    whose, original = np.empty_like(owners), case.original
    location = np.empty_like(original.location)
    for tick in np.unique(at):
        there = np.flatnonzero(at == tick)
        whose[there] = rng.permutation(owners[there])
    order = np.lexsort((at, whose))
    location = case.release.trajectories.location[order]
    assert len(location) == original.samples
    dealt = replace(
        case,
        original=replace(original, location=location.astype(np.int32), at=at[order]),
        places=case.release.places,
        release=replace(case.release, owner=whose),
    )
    found = tracked(dealt)
    # each known sample tells of the ten ticks around it, where the same object is one of twenty again
    assert found["exposure.tracked.1"] < 0.02 and found["exposure.tracked.10"] < 0.15


def test_a_crowd_hides() -> None:
    alone = tracked(case_of(walkers(50_000.0, 300.0, 150)))
    crowd = tracked(case_of(walkers(0.0, 300.0, 150)))
    assert crowd["exposure.tracked.10"] < 0.5 * alone["exposure.tracked.10"]


def test_values_that_are_carried_along_tell_a_crowd_apart() -> None:
    """Ten of 150 have each value. Values that are dealt anew to every sample tell nothing."""
    build = walkers(0.0, 300.0, 150)
    side = build.trajectories
    values = (side.owner % 15).astype(np.int16)
    kept = [None, values, np.random.default_rng(3).permutation(values)]
    without, told, noise = (
        tracked(case_of(replace(build, trajectories=replace(side, kept=codes))))[
            "exposure.tracked.10"
        ]
        for codes in kept
    )
    assert told > 1.5 * without
    assert noise < 1.2 * without


def drivers(count: int, seed: int = 1) -> Build:
    """Objects that drive straight on at 20 m/s through each other, a sample a minute."""
    rng = np.random.default_rng(seed)
    angle, begin = rng.uniform(0, 2 * np.pi, count), rng.uniform(-40_000, 40_000, (2, count))
    minutes = np.arange(SAMPLES)[None]
    x, y = (
        np.round((begin[k][:, None] + 1_200 * minutes * way[:, None]) / 100) * 100
        for k, way in enumerate((np.cos(angle), np.sin(angle)))
    )
    return built(x, y)


def resting(count: int) -> Build:
    """Objects that stay at one place for two hours, each somewhere else, and send every ten minutes."""
    x = np.repeat(5_000.0 * np.arange(count)[:, None], SAMPLES, axis=1)
    build = built(x, np.zeros_like(x))
    return replace(
        build, trajectories=build.trajectories.where(np.tile(np.arange(SAMPLES) % 10 == 0, count))
    )


def test_what_is_at_the_same_place_is_claimed() -> None:
    found = tracked(case_of(resting(40), share=Decimal(60)))
    assert found["exposure.tracked.1"] > 0.4
    assert found["exposure.tracked.1.precision"] > 0.95


def test_who_drives_on_is_followed_by_the_velocity() -> None:
    found = tracked(case_of(drivers(60)))
    assert found["exposure.tracked.1"] > 0.3
    assert found["exposure.tracked.10"] > 0.8


def test_cells_hide_nothing_that_they_tell() -> None:
    """A cell of 500 m says where somebody was; one of 2 km says too little to count."""
    build = walkers(50_000.0, 60.0, 20)
    whole = tracked(case_of(build))["exposure.tracked.10"]
    assert tracked(case_of(build, grain=Decimal(500)))["exposure.tracked.10"] > 0.7 * whole
    assert tracked(case_of(build, grain=Decimal(2_000)))["exposure.tracked.10"] < 0.2 * whole


def test_gaps_and_other_dates_hide() -> None:
    build = walkers(50_000.0, 60.0, 20)
    whole = tracked(case_of(build))["exposure.tracked.1"]
    assert tracked(case_of(build, share=Decimal(5)))["exposure.tracked.1"] < 0.5 * whole
    # the same way on twenty days: with dates each is alone, without them all are together
    side = build.trajectories
    week = replace(side, at=side.at + 24 * 60 * MINUTE * side.owner.astype(np.int64))
    together = replace(walkers(0.0, 300.0, 20), trajectories=replace(
        walkers(0.0, 300.0, 20).trajectories, at=week.at))  # fmt: skip
    dated = tracked(case_of(together))["exposure.tracked.10"]
    undated = tracked(case_of(together, dates="hour-of-day"))["exposure.tracked.10"]
    assert undated < 0.7 * dated


def test_claims_are_judged_by_the_date() -> None:
    build = walkers(50_000.0, 60.0, 20)
    case, dated = case_of(build, dates="hour-of-day"), case_of(build)
    assert not np.array_equal(case.release.true_at, case.release.trajectories.at)
    # all on one day: dates hid nothing
    assert tracked(case) == tracked(dated)


def test_releases_with_trajectories_are_not_tracked() -> None:
    build = walkers(0.0, 60.0, 3)
    case = Case(
        build.trajectories, build.locations, ReleaseSeen(build.trajectories, build.locations)
    )
    assert tracked(case) == {}


def test_marks_are_samples_of_one_place_and_tick() -> None:
    case = case_of(walkers(0.0, 30.0, 30))
    release, marks = case.release, find_marks(case.release)
    naive: dict[tuple[float, float, int], set[int]] = {}
    for i in range(release.trajectories.samples):
        where = float(release.x[i]), float(release.y[i]), int(release.trajectories.at[i]) // MINUTE
        naive.setdefault(where, set()).add(i)
    got = {
        (float(marks.x[m]), float(marks.y[m]), int(marks.tick[m])): set(
            marks.sample[marks.offsets[m] : marks.offsets[m + 1]].tolist()
        )
        for m in range(len(marks.key))
    }
    assert got == naive
