"""Sensitivity, by exhaustive search: no neighbour of any small world moves a vector further than stated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from freqdp_db.methods.contract import StepContext, WorkingSet, options_of
from freqdp_db.methods.frequency.counts import (
    Frequencies,
    Signatures,
    count_frequencies,
    rank_places,
)
from freqdp_db.methods.frequency.perturbation import (
    perturb_pf,
    perturb_tf,
    pf_mechanism,
    tf_mechanism,
)
from freqdp_db.methods.frequency.steps import LocalStep
from freqdp_db.model.arrays import offsets_from
from freqdp_db.model.trajectories import Build, Clock, Locations, PfTargets, Trajectories
from freqdp_db.release.request import Request

Ints = NDArray[np.int64]
Walk = tuple[int, ...]
PLACES = 3
EPSILON = Fraction(1)


class Dealt:
    """A source that deals given noise: stage 1 (or the only call) first, then stage 2."""

    def __init__(self, *noise: Ints) -> None:
        self._noise = list(noise)

    def discrete_laplace(self, scale: float, count: int) -> Ints:
        dealt = self._noise.pop(0)
        assert len(dealt) == count
        return dealt

    def uniform_words(self, count: int) -> Ints:
        return np.arange(count, dtype=np.int64)


def walks(longest: int) -> list[Walk]:
    return [walk for length in range(longest + 1) for walk in product(range(PLACES), repeat=length)]


def world_of(all_walks: tuple[Walk, ...]) -> Trajectories:
    location = np.array([p for walk in all_walks for p in walk], np.int32)
    offsets = offsets_from(np.array([len(walk) for walk in all_walks]))
    at = np.arange(len(location), dtype=np.int64) * 60_000_000
    return Trajectories(offsets, location, at, np.zeros(len(all_walks), np.int64))


def with_one_less(walk: Walk) -> Iterator[Walk]:
    """Every walk that lacks one sample of this one."""
    for i in range(len(walk)):
        yield walk[:i] + walk[i + 1 :]


def test_tf() -> None:
    """Any two short trajectories, any candidates: one incidence moves TF by 1."""
    most = 0
    for left, right in product(walks(3), walks(2)):
        here = count_frequencies(world_of((left, right)), PLACES)
        for place in set(left):
            there = count_frequencies(
                world_of((tuple(p for p in left if p != place), right)), PLACES
            )
            for chosen in product([False, True], repeat=PLACES):
                listed = np.array(chosen)
                quiet = [Dealt(np.zeros(sum(chosen), np.int64)) for _ in range(2)]
                moved = np.abs(
                    perturb_tf(here.tf, 2, listed, EPSILON, quiet[0]).target.astype(np.int64)
                    - perturb_tf(there.tf, 2, listed, EPSILON, quiet[1]).target
                ).sum()
                most = max(most, int(moved))
    assert most == tf_mechanism(EPSILON).sensitivity == 1


def under_the_noise(size: int, pf: tuple[int, ...], first: tuple[int, ...]) -> Ints:
    """The vector that stage 2's noise is added to, in steps of the lattice.

    It is read off the mechanism's own targets. For whole u and m, Hermite's identity says that the
    sum of floor((u + k) / m + 1/2) over k = 0 to m - 1 is u + floor(m / 2).
    """
    places = len(pf)
    frequencies = Frequencies(
        np.array([0, places]), np.arange(places, dtype=np.int32), np.array(pf, np.int32),
        np.ones(places, np.int32),
    )  # fmt: skip
    ranking = Signatures(np.arange(places), size, np.ones(places, np.bool_))
    far = 1000 * size  # above 0, where nothing is cut off
    total = np.zeros(places - size, np.int64)
    for step in range(size):
        noise = np.full(places - size, far + step, np.int64)
        targets = perturb_pf(frequencies, ranking, EPSILON, Dealt(np.array(first), noise))
        total += targets.target[size:]
    return total - far - size // 2


@pytest.mark.parametrize(
    ("size", "places", "most_often"), [(1, 2, 5), (2, 3, 3), (2, 4, 3), (3, 4, 2)]
)
def test_pf(size: int, places: int, most_often: int) -> None:
    """Any counts, any stage-1 noise, any listed place: one occurrence moves stage 2 by m steps."""
    found = set()
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], Ints] = {}

    def vector(pf: tuple[int, ...], first: tuple[int, ...]) -> Ints:
        if (pf, first) not in known:
            known[pf, first] = under_the_noise(size, pf, first)
        return known[pf, first]

    for pf in product(range(1, most_often + 1), repeat=places):
        for place in range(places):
            more = tuple(count + (i == place) for i, count in enumerate(pf))
            for first in product((-1, 0, 2), repeat=size):
                moved = np.abs(vector(pf, first) - vector(more, first))
                found.add(int(moved.sum()))
                # an occurrence of stage 2 moves one component, one of stage 1 all of them alike
                expected = {0, size} if place >= size else {1}
                assert set(moved.tolist()) <= expected
    assert max(found) == pf_mechanism(EPSILON, size).sensitivity == size


def test_stage_1_does_not_see_the_counts() -> None:
    for pf in product(range(1, 4), repeat=3):
        frequencies = Frequencies(
            np.array([0, 3]), np.arange(3, dtype=np.int32), np.array(pf, np.int32),
            np.ones(3, np.int32),
        )  # fmt: skip
        ranking = Signatures(np.arange(3), 2, np.ones(3, np.bool_))
        source = Dealt(np.array([4, -4]), np.array([0]))
        assert perturb_pf(frequencies, ranking, EPSILON, source).target[:2].tolist() == [4, 0]


def test_one_occurrence_reaches_one_vector_of_lg() -> None:
    """After the local step TF has learnt nothing of a listed place, and of others 1 at most."""
    request = Request.parse(method="lg", signature=1)
    grid = np.arange(PLACES, dtype=np.float64)
    places, clock = Locations(100 * grid, 0 * grid), Clock(1_000_000, 60_000_000)
    step = LocalStep()
    options = options_of(step, request.values)
    moved: dict[str, set[int]] = {"listed": set(), "unlisted": set()}

    def tf_after(world: Trajectories, targets: PfTargets) -> Ints:
        surroundings = StepContext(Build(world, places, clock, srid=32631, source_srid=4326))
        before = WorkingSet(world, places, np.arange(2))
        _, after = step.carry_out(surroundings, before, targets, options)
        return after.frequencies.tf.astype(np.int64)

    for left in walks(3)[4::2]:
        right = (0, 1)
        world = world_of((left, right))
        frequencies = count_frequencies(world, PLACES)
        drawn = perturb_pf(
            frequencies,
            rank_places(frequencies, 1),
            EPSILON,
            Dealt(np.array([1, 0]), np.zeros(_second_stage(frequencies), np.int64)),
        )
        listed = set(drawn.location[drawn.trajectory == 0].tolist())
        for shorter in with_one_less(left):
            (gone,) = _difference(left, shorter)
            if gone in listed and gone not in shorter:
                continue  # every listed count stays at least 1
            there = world_of((shorter, right))
            # the same lists and the same output of the local step, as somebody sees them who asks
            # which of the two worlds they came from
            pf = np.array([shorter.count(p) if t == 0 else right.count(p)
                           for t, p in zip(drawn.trajectory, drawn.location, strict=True)])  # fmt: skip
            same = replace(drawn, pf=pf.astype(np.int32))
            change = np.abs(tf_after(world, drawn) - tf_after(there, same)).sum()
            moved["listed" if gone in listed else "unlisted"].add(int(change))
    assert moved["listed"] == {0} and max(moved["unlisted"]) == 1


def _second_stage(frequencies: Frequencies) -> int:
    return int((np.minimum(np.diff(frequencies.offsets), 2) - 1).clip(0).sum())


def _difference(longer: Walk, shorter: Walk) -> list[int]:
    left = list(longer)
    for place in shorter:
        left.remove(place)
    return left
