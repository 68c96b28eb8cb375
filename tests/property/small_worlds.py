"""Hypothesis strategies: small worlds that are mostly corner.

Places lie on a few grid points, so that distances tie; trajectories may have one sample or none;
gaps may be zero, shorter than the time step or just as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from freqdp_db.engines.partitions import Partitions
from freqdp_db.methods.frequency.counts import Frequencies, count_frequencies
from freqdp_db.methods.frequency.partition import Partition, partitions_of
from freqdp_db.model.arrays import Ints, offsets_from
from freqdp_db.model.trajectories import Clock, Locations, PfTargets, TfTargets, Trajectories

thorough = settings(derandomize=True, deadline=None, max_examples=100, database=None)
quick = settings(derandomize=True, deadline=None, max_examples=40, database=None)


@dataclass(frozen=True)
class SmallWorld:
    """Trajectories, their places, the clock, and the order of the released ids."""

    trajectories: Trajectories
    locations: Locations
    clock: Clock
    rank: Ints

    @property
    def frequencies(self) -> Frequencies:
        return count_frequencies(self.trajectories, len(self.locations))

    @property
    def partitions(self) -> Partitions[Partition]:
        return partitions_of(self.trajectories, self.locations)


def as_lists(trajectories: Trajectories) -> list[list[tuple[int, int]]]:
    """(location, time) of every sample, trajectory by trajectory."""
    return [
        [
            (int(trajectories.location[i]), int(trajectories.at[i]))
            for i in range(trajectories.offsets[t], trajectories.offsets[t + 1])
        ]
        for t in range(len(trajectories))
    ]


@st.composite
def places(draw: st.DrawFn) -> Locations:
    """Up to ten distinct points: all on one line, on a small square, or anywhere."""
    shape = draw(st.sampled_from(["line", "square", "anywhere"]))
    reach = st.integers(-50_000, 50_000) if shape == "anywhere" else st.integers(0, 4)
    height = st.just(0) if shape == "line" else reach
    most = {"line": 5, "square": 10, "anywhere": 10}[shape]
    points = draw(st.lists(st.tuples(reach, height), min_size=1, max_size=most, unique=True))
    x, y = np.array(points, np.float64).T
    # metres with a fraction, as a grid of 0.25 m would give
    return Locations(x / 4 if shape == "anywhere" else 100 * x, y / 4)


@st.composite
def worlds(draw: st.DrawFn, *, allow_empty: bool = False) -> SmallWorld:
    locations = draw(places())
    step = draw(st.sampled_from([1, 10, 1000]))
    gap = st.sampled_from([0, 1, step - 1, step, step + 1, 2 * step, 7 * step + 3, 1000 * step])
    place = st.integers(0, len(locations) - 1)
    sample = st.tuples(place, gap)
    samples = st.one_of(st.lists(sample, min_size=1, max_size=12), st.tuples(sample).map(list))
    if allow_empty:
        samples = st.one_of(samples, st.just([]))
    walks = draw(st.lists(samples, min_size=1, max_size=6))
    # times before 2000 are negative
    starts = draw(
        st.lists(
            st.integers(-50, 50).map(lambda n: n * step), min_size=len(walks), max_size=len(walks)
        )
    )
    location = np.array([p for walk in walks for p, _ in walk], np.int32)
    at = np.concatenate(
        [
            s + np.cumsum([0, *(g for _, g in w)][: len(w)])
            for s, w in zip(starts, walks, strict=True)
        ]
    ).astype(np.int64)
    offsets = offsets_from(np.array([len(walk) for walk in walks]))
    rank = np.array(draw(st.permutations(range(len(walks)))), np.int64)
    return SmallWorld(
        Trajectories(offsets, location, at, np.array(starts, np.int64)),
        locations,
        Clock(step, step * draw(st.sampled_from([1, 3, 60]))),
        rank,
    )


@st.composite
def tf_targets(draw: st.DrawFn, world: SmallWorld) -> TfTargets:
    """Any target for any places: nobody's noise has to explain them."""
    chosen = sorted(draw(st.sets(st.integers(0, len(world.locations) - 1))))
    size = len(world.trajectories)
    amount = st.one_of(st.integers(0, size), st.integers(max(size - 2, 0), size))
    target = [draw(amount) for _ in chosen]
    location = np.array(chosen, np.int32)
    return TfTargets(location, world.frequencies.tf[location], np.array(target, np.int32))


@st.composite
def pf_targets(draw: st.DrawFn, world: SmallWorld) -> PfTargets:
    """Any target for any of the places that a trajectory has."""
    frequencies = world.frequencies
    owner = np.repeat(np.arange(len(world.trajectories)), np.diff(frequencies.offsets))
    listed = sorted(draw(st.sets(st.integers(0, len(owner) - 1)))) if len(owner) else []
    amount = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 40))
    rows: list[tuple[Any, ...]] = []
    for entry in listed:
        t, place, pf = int(owner[entry]), frequencies.location[entry], frequencies.pf[entry]
        rank = sum(row[0] == t for row in rows) + 1
        rows.append((t, place, 1, rank, pf, draw(amount)))
    columns = np.array(rows, np.int64).reshape(-1, 6).T
    kinds = (np.int32, np.int32, np.int16, np.int16, np.int32, np.int32)
    return PfTargets(*(c.astype(kind) for c, kind in zip(columns, kinds, strict=True)))  # type: ignore[arg-type]


@st.composite
def world_with_tf_targets(draw: st.DrawFn) -> tuple[SmallWorld, TfTargets]:
    world = draw(worlds(allow_empty=True))
    return world, draw(tf_targets(world))


@st.composite
def world_with_pf_targets(draw: st.DrawFn) -> tuple[SmallWorld, PfTargets]:
    world = draw(worlds(allow_empty=True))
    return world, draw(pf_targets(world))
