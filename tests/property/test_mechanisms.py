"""Whole mechanisms, in both orders: point lists, targets, and that the targets hold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small_worlds import SmallWorld, as_lists, quick, thorough, worlds
from test_edits import assert_ordered, assert_pf, assert_tf

from freqdp_db.methods.contract import (
    CompletedStep,
    StepContext,
    StoredStep,
    WorkingSet,
    options_of,
)
from freqdp_db.methods.frequency.counts import count_frequencies, rank_places
from freqdp_db.methods.frequency.perturbation import perturb_pf, perturb_tf
from freqdp_db.model.trajectories import Build, PfTargets, TfTargets, Trajectories
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.release.request import Request

epsilons = st.sampled_from(["0.05", "0.5", "1", "4"])


def _ranking(trajectories: Trajectories) -> list[list[int]]:
    """Places of each trajectory by pf * ln(|D| / tf), ties by id."""
    lists = as_lists(trajectories)
    visited = [{p for p, _ in samples} for samples in lists]
    result = []
    for samples, places in zip(lists, visited, strict=True):
        score = {}
        for place in places:
            pf = sum(p == place for p, _ in samples)
            tf = sum(place in other for other in visited)
            score[place] = math.floor(pf * math.log(len(lists) / tf) * 1e9 + 0.5)
        result.append(sorted(places, key=lambda p: (-score[p], p)))
    return result


@thorough
@given(
    worlds(),
    st.sampled_from(["lg", "gl", "pure-l", "pure-g"]),
    epsilons,
    st.integers(1, 6),
    st.sampled_from(["100", "500", "paper"]),
    st.integers(0, 2**32),
)
def test_targets_hold_after_each_mechanism(
    world: SmallWorld, method: str, epsilon: str, signature: int, spread: str, seed: int
) -> None:
    given = {"epsilon": epsilon, "signature": signature, "seed": seed}
    if method != "pure-g":
        given["spread"] = spread
    request = Request.parse(method, **given)
    surroundings = StepContext(
        Build(world.trajectories, world.locations, world.clock, srid=32631, source_srid=4326)
    )
    source = SeededSource(seed)
    state = WorkingSet(world.trajectories, world.locations, world.rank)
    for step in request.method.steps:
        options = options_of(step, request.values)
        drawn = step.draw(surroundings, state, options, source)
        step.require_drawn_from(surroundings, state, drawn)
        logged, after = step.carry_out(surroundings, state, drawn, options)
        step.check(CompletedStep(surroundings, state, drawn, logged, options, after))
        replayed = step.replay(StoredStep(surroundings, state, drawn, logged, options))
        assert as_lists(replayed.trajectories) == as_lists(after.trajectories)
        if isinstance(drawn, TfTargets):
            assert_tf(after.trajectories, drawn)
        else:
            assert_pf(after.trajectories, drawn)
        assert_ordered(after.trajectories)
        # |D| stays the original count, whatever was emptied
        assert len(after.trajectories) == len(world.trajectories)
        state = after


@quick
@given(worlds(allow_empty=True), st.integers(1, 4), st.integers(0, 2**32))
def test_point_lists(world: SmallWorld, size: int, seed: int) -> None:
    """The top m; then the next-ranked candidates; then others; 2m or as many as there are."""
    frequencies = world.frequencies
    targets = perturb_pf(
        frequencies, rank_places(frequencies, size), Fraction(1), SeededSource(seed)
    )
    ranking = _ranking(world.trajectories)
    candidates = {place for places in ranking for place in places[:size]}
    for t, places in enumerate(ranking):
        mine = targets.trajectory == t
        listed = targets.location[mine].tolist()
        known = places[:size] + [p for p in places[size:] if p in candidates]
        assert listed[: len(known)] == known[: 2 * size]
        assert len(listed) == len(set(listed)) == min(len(places), 2 * size)
        assert set(listed) <= set(places)
        assert targets.rank[mine].tolist() == list(range(1, len(listed) + 1))
        assert targets.stage[mine].tolist() == [1 if r < size else 2 for r in range(len(listed))]
    assert_pf(world.trajectories, _unchanged(targets))


def _unchanged(targets: PfTargets) -> PfTargets:
    return PfTargets(
        targets.trajectory, targets.location, targets.stage, targets.rank, targets.pf, targets.pf
    )


class _Fixed:
    """A source that deals out given noise, to see what becomes of it."""

    def __init__(self, noise: list[int]) -> None:
        self.noise = noise
        self.scales: list[float] = []

    def discrete_laplace(self, scale: float, count: int) -> np.typing.NDArray[np.int64]:
        self.scales.append(scale)
        dealt = [self.noise[i % len(self.noise)] for i in range(count)]
        return np.array(dealt, np.int64)

    def uniform_words(self, count: int) -> np.typing.NDArray[np.int64]:
        return np.arange(count, dtype=np.int64)


@thorough
@given(
    worlds(allow_empty=True),
    st.integers(1, 4),
    st.lists(st.integers(-9, 9), min_size=1, max_size=9),
)
def test_tf_targets(world: SmallWorld, size: int, noise: list[int]) -> None:
    """The candidates are the signatures; l* = clamp(l + noise, 0, |D|), the noise at 1/eps."""
    frequencies = world.frequencies
    signatures = rank_places(frequencies, size)
    source = _Fixed(noise)
    objects = len(world.trajectories)
    targets = perturb_tf(frequencies.tf, objects, signatures.candidates, Fraction(1, 4), source)
    ranking = _ranking(world.trajectories)
    assert targets.location.tolist() == sorted({p for places in ranking for p in places[:size]})
    visited = [{p for p, _ in samples} for samples in as_lists(world.trajectories)]
    assert targets.tf.tolist() == [sum(p in v for v in visited) for p in targets.location.tolist()]
    assert targets.target.tolist() == [
        min(max(tf + noise[i % len(noise)], 0), len(visited))
        for i, tf in enumerate(targets.tf.tolist())
    ]
    assert source.scales == [4.0]


@thorough
@given(
    worlds(allow_empty=True),
    st.integers(1, 4),
    st.lists(st.integers(-60, 60), min_size=1, max_size=9),
)
def test_stage_arithmetic(world: SmallWorld, size: int, noise: list[int]) -> None:
    """Stage 2 is floor(x + 1/2) of f - mu + noise / m, in exact rationals."""
    frequencies = world.frequencies
    source = _Fixed(noise)
    targets = perturb_pf(frequencies, rank_places(frequencies, size), Fraction(1, 2), source)
    first = np.flatnonzero(targets.stage == 1)
    second = np.flatnonzero(targets.stage == 2)
    drawn = {int(i): noise[n % len(noise)] for part in (first, second) for n, i in enumerate(part)}
    for t in range(len(world.trajectories)):
        mine = [int(i) for i in np.flatnonzero(targets.trajectory == t)]
        stage_1 = [i for i in mine if targets.stage[i] == 1]
        for i in stage_1:
            assert targets.target[i] == max(0, drawn[i])
        for i in mine:
            if targets.stage[i] == 2:
                assert len(stage_1) == size
                mu = Fraction(
                    sum(int(targets.target[j]) - int(targets.pf[j]) for j in stage_1), size
                )
                exact = int(targets.pf[i]) - mu + Fraction(drawn[i], size)
                assert targets.target[i] == max(0, math.floor(exact + Fraction(1, 2)))
    # stage 1 at 1/eps, stage 2 on the lattice 1/m: m/eps in its units
    assert source.scales == [2.0, 2.0 * size]


@quick
@given(worlds(allow_empty=True))
def test_frequencies(world: SmallWorld) -> None:
    frequencies = count_frequencies(world.trajectories, len(world.locations))
    visited = [[p for p, _ in samples] for samples in as_lists(world.trajectories)]
    for t, places in enumerate(visited):
        part = slice(frequencies.offsets[t], frequencies.offsets[t + 1])
        assert frequencies.location[part].tolist() == sorted(set(places))
        assert frequencies.pf[part].tolist() == [places.count(p) for p in sorted(set(places))]
    tf = [sum(p in places for places in visited) for p in range(len(world.locations))]
    assert frequencies.tf.tolist() == tf
