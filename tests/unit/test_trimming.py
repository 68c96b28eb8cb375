"""Ends of trips are trimmed by the map: so far in a straight line, by road, and by junctions."""

from __future__ import annotations

import numpy as np
import pytest

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import WorkingSet
from freqdp_db.methods.trips import TripRuns
from freqdp_db.methods.unlinking.trimming import check_trimmed, trim_trips
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.roads.network import Network, RoadRows, make_network

MINUTE = 60_000_000


def streets(block_m: float, side: int = 60) -> Network:
    """A grid of streets: every crossing is a junction."""
    node = np.arange(side * side).reshape(side, side)
    source = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    target = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    x, y = block_m * (np.arange(side * side) % side), block_m * (np.arange(side * side) // side)
    ends = np.column_stack([source, target]).ravel()
    count = len(source)
    return make_network(RoadRows(
        np.arange(count), source, target, np.zeros(count, np.bool_), np.arange(count + 1) * 2,
        x[ends], y[ends],
    ))  # fmt: skip


def straight_on(metres: float, step: float = 100.0) -> WorkingSet:
    """One trip along the street in the south."""
    x = np.arange(0.0, metres + 1, step)
    count = len(x)
    at = np.arange(count) * MINUTE
    side = Trajectories(
        np.array([0, count]), np.arange(count, dtype=np.int32), at, np.zeros(1, np.int64)
    )
    return WorkingSet(side, Locations(x, np.zeros(count)), np.zeros(1, np.int64))


def trimmed(state: WorkingSet, network: Network) -> list[tuple[int, int]]:
    side = state.trajectories
    whole = TripRuns(np.array([0]), np.array([side.samples - 1]), np.zeros(1, np.int32))
    found = trim_trips(whole, side, state.places, network)
    rows = np.concatenate([np.arange(a, b + 1) for a, b in zip(found.first, found.last, strict=True)]
                          or [np.zeros(0, np.int64)])  # fmt: skip
    check_trimmed(state, whole, rows, network)
    return list(zip(found.first.tolist(), found.last.tolist(), strict=True))


def test_all_three_distances_are_passed() -> None:
    # blocks of 50 m: 8 junctions are 400 m, so that 650 m by road decide
    assert trimmed(straight_on(4_000.0, 50.0), streets(50.0, 90)) == [(14, 66)]
    # blocks of 200 m: 8 junctions are 1,600 m
    assert trimmed(straight_on(8_000.0, 200.0), streets(200.0)) == [(8, 32)]
    # blocks of 1 km: 8 junctions are too far, and 2,500 m have to do
    assert trimmed(straight_on(8_000.0), streets(1_000.0)) == [(26, 54)]


def test_without_a_map_the_straight_line_counts() -> None:
    state = straight_on(3_000.0)
    off = WorkingSet(
        state.trajectories, Locations(state.places.x, state.places.y - 90_000.0), state.key
    )
    assert trimmed(off, streets(50.0, 90)) == [(6, 24)]


def test_short_trips_have_nothing_left() -> None:
    assert trimmed(straight_on(1_200.0), streets(200.0)) == []


def test_a_sample_that_is_too_near_is_refused() -> None:
    state, network = straight_on(8_000.0, 200.0), streets(200.0)
    whole = TripRuns(
        np.array([0]), np.array([state.trajectories.samples - 1]), np.zeros(1, np.int32)
    )
    check_trimmed(state, whole, np.arange(8, 33), network)
    for rows in (np.arange(7, 33), np.arange(8, 34)):
        with pytest.raises(VerificationFailed, match="too near"):
            check_trimmed(state, whole, rows, network)
