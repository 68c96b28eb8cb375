"""Deletions and insertions equal the naive rules, and carrying them out reaches the targets."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import naive
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from small_worlds import (
    SmallWorld,
    as_lists,
    quick,
    thorough,
    world_with_pf_targets,
    world_with_tf_targets,
    worlds,
)

from freqdp_db.methods.frequency.applying import (
    Edited,
    Thinned,
    apply_edits,
    coarsen_times,
    delete,
    insert,
)
from freqdp_db.methods.frequency.deletion import delete_globally, delete_locally
from freqdp_db.methods.frequency.insertion import PAPER_SPREAD_MM, insert_globally, insert_locally
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.model.trajectories import (
    Clock,
    EditRuns,
    Locations,
    PfTargets,
    TfTargets,
    Trajectories,
)

_KEY = np.uint64(0x1234_5678_9ABC_DEF0)
spreads = st.sampled_from([None, 0, 100_000, 500_000])


def assert_ordered(trajectories: Trajectories) -> None:
    for samples in as_lists(trajectories):
        times = [at for _, at in samples]
        assert times == sorted(times)


def assert_tf(trajectories: Trajectories, targets: TfTargets) -> None:
    visited = [{place for place, _ in samples} for samples in as_lists(trajectories)]
    for place, target in zip(targets.location.tolist(), targets.target.tolist(), strict=True):
        assert sum(place in places for places in visited) == target


def assert_pf(trajectories: Trajectories, targets: PfTargets) -> None:
    lists = as_lists(trajectories)
    for t, place, target in zip(
        targets.trajectory.tolist(), targets.location.tolist(), targets.target.tolist(), strict=True
    ):
        assert sum(p == place for p, _ in lists[t]) == target


# one that can carry the place, three emptied ones of which two must: by rank, not by number
_LAST_RESORT = (
    SmallWorld(
        Trajectories(np.array([0, 1, 1, 1, 1]), np.array([0], np.int32), np.zeros(1, np.int64),
                     np.arange(4, dtype=np.int64)),
        Locations(np.array([0.0, 100.0]), np.zeros(2)),
        Clock(1, 1),
        np.array([0, 3, 2, 1]),
    ),
    TfTargets(np.array([1], np.int32), np.array([0], np.int32), np.array([3], np.int32)),
)  # fmt: skip


@thorough
@given(world_with_tf_targets())
@example(_LAST_RESORT)
def test_global(given_: tuple[SmallWorld, TfTargets]) -> None:
    world, targets = given_
    deleted = delete_globally(world.partitions, targets, world.rank)
    (thinned,) = deleted
    deletions = naive.as_edits(thinned.deletions)
    assert deletions == naive.delete_globally(world, targets)
    (edited,) = insert_globally(deleted, targets, world.rank, world.clock, _KEY)
    insertions, left = edited.edits.insertions, naive.thin(world, deletions)
    assert naive.as_edits(insertions) == naive.insert_globally(world, left, targets)
    assert_edited(world, thinned, left, edited, lambda after: assert_tf(after, targets))


@thorough
@given(world_with_pf_targets(), spreads)
def test_local(given_: tuple[SmallWorld, PfTargets], spread_mm: int | None) -> None:
    world, targets = given_
    deleted = delete_locally(world.partitions, targets)
    (thinned,) = deleted
    deletions = naive.as_edits(thinned.deletions)
    assert deletions == naive.delete_locally(world, targets)
    spread = PAPER_SPREAD_MM if spread_mm is None else spread_mm
    (edited,) = insert_locally(deleted, targets, spread, world.clock, _KEY)
    insertions, left = edited.edits.insertions, naive.thin(world, deletions)
    assert naive.as_edits(insertions) == naive.insert_locally(world, left, targets, spread_mm)
    assert_edited(world, thinned, left, edited, lambda after: assert_pf(after, targets))


def assert_edited(
    world: SmallWorld,
    thinned: Thinned,
    left: naive.Thinned,
    edited: Edited,
    assert_targets: Callable[[Trajectories], None],
) -> None:
    after = edited.after.trajectories
    assert_targets(after)
    assert_ordered(after)
    assert_inserted(world, left, naive.as_edits(edited.edits.insertions), after)


def assert_inserted(
    world: SmallWorld,
    left: naive.Thinned,
    insertions: naive.Edits,
    after: Trajectories,
) -> None:
    """What stayed keeps its place and time; between, the insertions by (projection, location)."""
    rows = as_lists(after)
    for t, samples in enumerate(left):
        mine = {place: edits for (owner, place), edits in insertions.items() if owner == t}
        expected: list[tuple[int, int | None]] = []
        gaps = []
        for n, (i, here, at) in enumerate(samples or [(-1, -1, int(world.trajectories.start[t]))]):
            if samples:
                expected.append((here, at))
            following = samples[n + 1] if n + 1 < len(samples) else None
            ends = (here, following[1]) if following else (here, here)
            there = sorted(
                (_projection(world, place, *ends), place)
                for place, edits in mine.items()
                for position, _ in edits
                if position == i
            )
            begin = len(expected)
            expected += [(place, None) for _, place in there]
            gaps.append((begin, len(there), at, following and following[2]))
        assert [place for place, _ in rows[t]] == [place for place, _ in expected]
        assert all(at in (None, row[1]) for (_, at), row in zip(expected, rows[t], strict=True))
        for begin, count, a, b in gaps:
            times = [at for _, at in rows[t][begin : begin + count]]
            if b is None:
                # after a lone sample, and in an empty trajectory
                gap, lone = world.clock.median_gap_us, len(samples) == 1
                assert times == [a + (i + lone) * gap for i in range(count)]
            else:
                _assert_drawn_times(world, times, a, b)


def _projection(world: SmallWorld, place: int, a: int, b: int) -> Fraction:
    if a < 0:
        return Fraction(1, 2)
    return naive.projection(*(naive.point(world, p) for p in (place, a, b)))


def _assert_drawn_times(world: SmallWorld, times: list[int], a: int, b: int) -> None:
    """On the step, and at instants of their own, wherever there are enough of them."""
    step = world.clock.step_us
    free = naive.free_steps(a, b, step)
    if free:
        assert all(at % step == 0 and a < at < b for at in times)
    elif b - a > 1:
        assert all(a < at < b for at in times)
    if free >= len(times):
        assert len(set(times)) == len(times)
    assert times == sorted(times)


def test_times_look_like_the_trajectory_s_own() -> None:
    """In a long gap of a regular trajectory, inserted samples come in its rhythm; each key its own."""
    minute = 60_000_000
    at = np.array([0, 1, 2, 3, 63, 64, 65], np.int64) * minute
    location = np.zeros(7, np.int32)
    one = Trajectories(np.array([0, 7]), location, at, at[:1])
    places = Locations(np.array([0.0, 10.0]), np.zeros(2))
    runs = EditRuns("i", np.array([0], np.int32), np.array([1], np.int32), np.array([0, 5]),
                    np.full(5, 3, np.int32), np.zeros(5, np.int64))  # fmt: skip
    none = EditRuns("d", *np.zeros((2, 0), np.int32), np.zeros(1, np.int64),
                    np.zeros(0, np.int32), np.zeros(0, np.int64))  # fmt: skip
    thinned = delete(Partition(0, one, places), none)
    seen = set()
    for key in range(20):
        after = insert(thinned, runs, Clock(1_000_000, minute), np.uint64(key)).trajectories
        gaps = np.diff(after.at[3:10]) // minute
        assert gaps.sum() == 60 and (gaps == 1).sum() >= 4  # the own ones are 1, 1, 1, 60, 1, 1
        seen.add(tuple(after.at.tolist()))
    assert len(seen) > 5


@quick
@given(world_with_pf_targets(), spreads, st.sampled_from([7, 60, 1000]))
def test_apply_and_coarsen(
    given_: tuple[SmallWorld, PfTargets], spread_mm: int | None, coarse: int
) -> None:
    """`apply_edits` is delete and insert; coarser times keep the order and are multiples."""
    world, targets = given_
    spread = PAPER_SPREAD_MM if spread_mm is None else spread_mm
    deleted = delete_locally(world.partitions, targets)
    (edited,) = insert_locally(deleted, targets, spread, world.clock, _KEY)
    (whole,) = world.partitions
    after = apply_edits(whole, edited.edits, world.clock, _KEY).trajectories
    assert as_lists(after) == as_lists(edited.after.trajectories)
    rounded = coarsen_times(after, coarse)
    assert_ordered(rounded)
    assert (rounded.at % coarse == 0).all()
    assert ((after.at - rounded.at) < coarse).all() and (rounded.at <= after.at).all()


@quick
@given(worlds(allow_empty=True))
def test_nothing_to_do_changes_nothing(world: SmallWorld) -> None:
    frequencies = world.frequencies
    place = np.flatnonzero(frequencies.tf >= 0).astype(np.int32)
    targets = TfTargets(place, frequencies.tf[place], frequencies.tf[place])
    deleted = delete_globally(world.partitions, targets, world.rank)
    (edited,) = insert_globally(deleted, targets, world.rank, world.clock, _KEY)
    assert len(edited.edits) == 0
    after = edited.after.trajectories
    assert as_lists(after) == as_lists(world.trajectories)
    assert (after.start == world.trajectories.start).all()
