"""Deletions and insertions equal the naive rules, and carrying them out reaches the targets."""

from __future__ import annotations

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

from freqdp_db.columns.edits import Edits, PfTargets, TfTargets
from freqdp_db.columns.trajectories import Clock, Locations, Trajectories
from freqdp_db.edits.applying import apply_edits, coarsen_times, delete, insert
from freqdp_db.edits.deletion import delete_globally, delete_locally
from freqdp_db.edits.insertion import PAPER_SPREAD_MM, insert_globally, insert_locally

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
    deletions = delete_globally(
        world.trajectories, world.locations, world.frequencies, targets, world.rank
    )
    assert naive.as_edits(deletions) == naive.delete_globally(world, targets)
    thinned = delete(world.trajectories, deletions)
    insertions = insert_globally(thinned, world.locations, targets, world.rank)
    left = naive.thin(world, naive.as_edits(deletions))
    assert naive.as_edits(insertions) == naive.insert_globally(world, left, targets)
    after = insert(thinned, insertions, world.locations, world.clock)
    assert_tf(after, targets)
    assert_ordered(after)
    assert_inserted(world, left, naive.as_edits(insertions), after)


@thorough
@given(world_with_pf_targets(), spreads)
def test_local(given_: tuple[SmallWorld, PfTargets], spread_mm: int | None) -> None:
    world, targets = given_
    deletions = delete_locally(world.trajectories, world.locations, targets)
    assert naive.as_edits(deletions) == naive.delete_locally(world, targets)
    thinned = delete(world.trajectories, deletions)
    insertions = insert_locally(
        thinned,
        world.locations,
        targets,
        world.clock,
        PAPER_SPREAD_MM if spread_mm is None else spread_mm,
    )
    left = naive.thin(world, naive.as_edits(deletions))
    assert naive.as_edits(insertions) == naive.insert_locally(world, left, targets, spread_mm)
    after = insert(thinned, insertions, world.locations, world.clock)
    assert_pf(after, targets)
    assert_ordered(after)
    assert_inserted(world, left, naive.as_edits(insertions), after)


def assert_inserted(
    world: SmallWorld, left: naive.Thinned, insertions: naive.Edits, after: Trajectories
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
            gaps.append((begin, [share for share, _ in there], at, following and following[2]))
        assert [place for place, _ in rows[t]] == [place for place, _ in expected]
        assert all(at in (None, row[1]) for (_, at), row in zip(expected, rows[t], strict=True))
        for begin, shares, a, b in gaps:
            times = [at for _, at in rows[t][begin : begin + len(shares)]]
            _assert_times(world, times, shares, a, b, alone=len(samples) == 1)


def _projection(world: SmallWorld, place: int, a: int, b: int) -> Fraction:
    if a < 0:
        return Fraction(1, 2)
    return naive.projection(*(naive.point(world, p) for p in (place, a, b)))


def _assert_times(
    world: SmallWorld, times: list[int], shares: list[Fraction], a: int, b: int | None, alone: bool
) -> None:
    """Insertions into the gap from a to b; b is None after a lone sample and in an empty one."""
    step, gap = world.clock.step_us, world.clock.median_gap_us
    if b is None:
        assert times == [a + (i + alone) * gap for i in range(len(times))]
        return
    low, high = (a // step + 1) * step, -(-b // step) * step - step
    for i, (at, share) in enumerate(zip(times, shares, strict=True), start=1):
        exact = a + (b - a) * (share + Fraction(i, len(times) + 1)) / 2
        if low <= high:
            assert at % step == 0 and a < at < b
            # the nearest step; at most a microsecond off where two are as near
            assert abs(at - min(max(exact, low), high)) <= Fraction(step, 2) + 1
        elif b - a > 1:
            assert a < at < b
            assert abs(at - exact) <= 1
        else:
            assert a <= at <= b


@quick
@given(world_with_pf_targets(), spreads, st.sampled_from([7, 60, 1000]))
def test_apply_and_coarsen(
    given_: tuple[SmallWorld, PfTargets], spread_mm: int | None, coarse: int
) -> None:
    """`apply_edits` is delete and insert; coarser times keep the order and are multiples."""
    world, targets = given_
    deletions = delete_locally(world.trajectories, world.locations, targets)
    thinned = delete(world.trajectories, deletions)
    spread = PAPER_SPREAD_MM if spread_mm is None else spread_mm
    insertions = insert_locally(thinned, world.locations, targets, world.clock, spread)
    after = apply_edits(
        world.trajectories, Edits(deletions, insertions), world.locations, world.clock
    )
    again = insert(thinned, insertions, world.locations, world.clock)
    assert as_lists(after) == as_lists(again)
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
    deletions = delete_globally(
        world.trajectories, world.locations, frequencies, targets, world.rank
    )
    insertions = insert_globally(
        delete(world.trajectories, deletions), world.locations, targets, world.rank
    )
    assert deletions.edits == insertions.edits == 0
    after = apply_edits(
        world.trajectories, Edits(deletions, insertions), world.locations, world.clock
    )
    assert as_lists(after) == as_lists(world.trajectories)
    assert (after.start == world.trajectories.start).all()
