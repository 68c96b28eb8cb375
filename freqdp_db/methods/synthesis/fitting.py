"""Weights of moves under which walks visit what was measured: simulate, compare, correct."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from freqdp_db.methods.synthesis.estimation import Model, neighbours
from freqdp_db.methods.synthesis.layout import (
    HEADINGS,
    REACH_OF_DISTANCE,
    STEP_CLASSES,
    STEP_EDGES,
    Grids,
)
from freqdp_db.methods.synthesis.streams import derived, uniform_block
from freqdp_db.methods.synthesis.walks import counted, walk
from freqdp_db.model import Ints, Metres
from freqdp_db.parallel import over_ranges

ROUNDS = 8
SIMULATED = 20_000
MOVE_POWER = 0.15
VISIT_POWER = 0.1
TURN_POWER = 0.3


@dataclass(frozen=True)
class Plans:
    """What is drawn of each trip before its way: start cell, zone of destination, steps."""

    start: Ints
    zone: Ints
    steps: Ints
    step_class: Ints
    far: Ints


def _chosen(running: Metres, uniforms: Metres) -> Ints:
    """Positions by the running sums of weights."""
    found = np.searchsorted(running, uniforms * running[-1], side="right")
    return np.minimum(found, len(running) - 1).astype(np.int64)


def _chosen_in(table: Metres, group: Ints, uniforms: Metres) -> Ints:
    """A column for each row number in `group`, by that row's weights."""
    running = np.cumsum(table, axis=1)
    running /= running[:, -1:]
    rows = len(table)
    flat = (running + np.arange(rows)[:, None]).ravel()
    at = np.searchsorted(flat, group + uniforms, side="right")
    return np.clip(at - group * table.shape[1], 0, table.shape[1] - 1).astype(np.int64)


def planned(model: Model, grids: Grids, first: int, count: int, purpose: np.uint64) -> Plans:
    """Trips `first` to `first + count` - 1, each from its own random numbers."""
    dice = uniform_block(purpose, first, count, 5)
    pair = _chosen(np.cumsum(model.flows), dice[:, 0])
    origin, zone = np.divmod(pair, grids.zones)
    start = _start_cells(model, grids, origin, dice[:, 1])
    far = REACH_OF_DISTANCE[grids.zone_distance_class()[pair]]
    step_class = _chosen_in(model.steps.reshape(-1, STEP_CLASSES), far, dice[:, 2])
    low, high = STEP_EDGES[step_class], STEP_EDGES[step_class + 1]
    # shorter ones of a class are likelier: the mean of one uniform and the smaller of two
    part = np.where(dice[:, 4] < 0.5, dice[:, 3], dice[:, 3] * dice[:, 3])
    steps = low + (part * (high - low)).astype(np.int64)
    return Plans(start, zone.astype(np.int64), steps, step_class, far)


def _start_cells(model: Model, grids: Grids, origin: Ints, uniforms: Metres) -> Ints:
    zone_of = grids.zone_of_cell()
    order = np.argsort(zone_of, kind="stable")
    table = model.starts[order].reshape(grids.zones, -1)
    column = _chosen_in(table, origin, uniforms)
    cells: Ints = order[origin * table.shape[1] + column].astype(np.int64)
    return cells


def fitted(model: Model, grids: Grids, purpose: np.uint64, rounds: int = ROUNDS) -> Model:
    """Correct the weights of moves, and of start and end cells, round by round."""
    to = neighbours(grids)
    inside = to >= 0
    target_moves = model.moves.copy()
    target_visits = model.visits.copy()
    target_turns = model.turns.copy()
    out = np.where(inside, target_moves, 0.0)
    weights = out / np.maximum(out.sum(axis=1, keepdims=True), 1e-300)
    result = replace(model, moves=weights)
    for number in range(rounds):
        mine = derived(purpose, number)
        plans = planned(result, grids, 0, SIMULATED, derived(mine, 0))
        offsets, path = walk(
            grids, plans.start, plans.zone, plans.steps, result.moves, result.turns, result.ends,
            derived(mine, 1),
        )  # fmt: skip
        parts = over_ranges(counted, offsets, offsets, path, grids.cells_x, grids.cells)
        visits, moves, turns = (np.sum([part[i] for part in parts], axis=0) for i in range(3))
        visit_factor = _factor(target_visits, visits)
        move_factor = _factor(target_moves, moves.reshape(-1, HEADINGS))
        weights = result.moves * move_factor**MOVE_POWER
        weights *= np.where(inside, visit_factor[np.where(inside, to, 0)], 1.0) ** VISIT_POWER
        turned = result.turns * _factor(target_turns, turns) ** TURN_POWER
        result = replace(
            result, moves=weights / weights.sum(axis=1).mean(), turns=turned / turned.mean()
        )
    return result


def _factor(target: Metres, simulated: Metres) -> Metres:
    """How much more is wanted than was simulated; both as shares, small counts left alone."""
    share = target * (simulated.sum() / target.sum())
    floor = 5.0
    return np.clip((share + floor) / (simulated + floor), 0.4, 2.5)
