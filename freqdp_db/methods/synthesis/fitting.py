"""Weights of moves under which walks visit what was measured: simulate, compare, correct."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.columns.streams import derived, uniform_block
from freqdp_db.engines.ranges import add, map_ranges, merged
from freqdp_db.methods.synthesis.estimation import Model, neighbours
from freqdp_db.methods.synthesis.layout import (
    BEND_EDGES,
    BENDS,
    HEADINGS,
    REACH_OF_DISTANCE,
    REACHES,
    STEP_EDGES,
    Grids,
)
from freqdp_db.methods.synthesis.walks import counted, walk

ROUNDS = 12
SIMULATED = 20_000
FIRST_POWER = 0.2


@dataclass(frozen=True)
class TripPlans:
    """What is drawn of each trip before its way: start cell, zone of destination, steps."""

    start: Ints
    zone: Ints
    steps: Ints
    bend: Metres
    """How long it is for its steps; below 0: as its points fall."""


def _chosen(running: Metres, uniforms: Metres) -> Ints:
    """Positions by the running sums of weights."""
    found = np.searchsorted(running, uniforms * running[-1], side="right")
    chosen: Ints = np.minimum(found, len(running) - 1).astype(np.int64)
    return chosen


def _chosen_in(table: Metres, group: Ints, uniforms: Metres) -> Ints:
    """A column for each row number in `group`, by that row's weights."""
    running = np.cumsum(table, axis=1)
    running /= np.maximum(running[:, -1:], 1e-300)  # a row of nothing is never chosen from
    rows = len(table)
    flat = (running + np.arange(rows)[:, None]).ravel()
    at = np.searchsorted(flat, group + uniforms, side="right")
    columns: Ints = np.clip(at - group * table.shape[1], 0, table.shape[1] - 1).astype(np.int64)
    return columns


def planned(model: Model, grids: Grids, first: int, count: int, purpose: np.uint64) -> TripPlans:
    """Trips `first` to `first + count` - 1, each from its own random numbers."""
    dice = uniform_block(purpose, first, count, 6)
    pair = _chosen(np.cumsum(model.flows), dice[:, 0])
    origin, zone = np.divmod(pair, grids.zones)
    start = _start_cells(model, grids, origin, dice[:, 1])
    far = REACH_OF_DISTANCE[grids.zone_distance_class()[pair]]
    shape = _chosen_in(model.lengths.reshape(REACHES, -1), far, dice[:, 2])
    step_class, bend = np.divmod(shape, BENDS)
    low, high = STEP_EDGES[step_class], STEP_EDGES[step_class + 1]
    # shorter ones of a class are likelier: the mean of one uniform and the smaller of two
    part = np.where(dice[:, 4] < 0.5, dice[:, 3], dice[:, 3] * dice[:, 3])
    steps = low + (part * (high - low)).astype(np.int64)
    factor = BEND_EDGES[bend] + dice[:, 5] * (BEND_EDGES[bend + 1] - BEND_EDGES[bend])
    return TripPlans(start, zone.astype(np.int64), steps, factor)


def _start_cells(model: Model, grids: Grids, origin: Ints, uniforms: Metres) -> Ints:
    zone_of = grids.zone_of_cell()
    order = np.argsort(zone_of, kind="stable")
    table = model.starts[order].reshape(grids.zones, -1)
    column = _chosen_in(table, origin, uniforms)
    cells: Ints = order[origin * table.shape[1] + column].astype(np.int64)
    return cells


def fitted(model: Model, grids: Grids, purpose: np.uint64, rounds: int = ROUNDS) -> Model:
    """Correct the weights of moves and turns, round by round, as long as that helps.

    A correction acts on every step of a walk, so its full size would overshoot; one that makes things
    worse is taken back, and the next is half as large.
    """
    to = neighbours(grids)
    inside = to >= 0
    ahead = np.where(inside, to, 0)
    targets = (model.visits, model.moves, model.turns)
    weights = model.moves / np.maximum(model.moves.sum(axis=1, keepdims=True), 1e-300)
    tried = best = replace(model, moves=weights)
    power, least, factors = FIRST_POWER, np.inf, None
    for number in range(rounds):
        simulated = _simulated(tried, grids, derived(purpose, number))
        error = _apart(model.visits, simulated[0]) + _apart(model.moves, simulated[1])
        if error < least or factors is None:
            best, least = tried, error
            factors = [_factor(t, s) for t, s in zip(targets, simulated, strict=True)]
        else:
            power /= 2
        visits, moves, turns = factors
        weights = best.moves * moves**power * np.where(inside, visits[ahead], 1.0) ** (power * 0.7)
        turned = best.turns * turns ** min(2 * power, 0.5)
        tried = replace(
            best, moves=weights / weights.sum(axis=1).mean(), turns=turned / turned.mean()
        )
    return best


def _simulated(model: Model, grids: Grids, purpose: np.uint64) -> tuple[Metres, Metres, Metres]:
    """Visits, moves and turns of some walks of this model."""
    plans = planned(model, grids, 0, SIMULATED, derived(purpose, 0))
    offsets, path = walk(
        grids, plans.start, plans.zone, plans.steps, model.moves, model.turns, model.ends,
        derived(purpose, 1),
    )  # fmt: skip
    parts = map_ranges(counted, offsets, offsets, path, grids.cells_x, grids.cells)
    visits, moves, turns = merged(parts, add, add, add)
    return visits, moves.reshape(-1, HEADINGS), turns


def _apart(target: Metres, simulated: Metres) -> float:
    """Half the L1 distance of the shares."""
    return float(np.abs(target / target.sum() - simulated / simulated.sum()).sum()) / 2


def _factor(target: Metres, simulated: Metres) -> Metres:
    """How much more is wanted than was simulated; both as shares, small counts left alone."""
    share = target * (simulated.sum() / target.sum())
    floor = 5.0
    factor: Metres = np.clip((share + floor) / (simulated + floor), 0.4, 2.5)
    return factor
