"""How many steps a trip takes, and how long it is for its steps, by how far apart its ends are."""

from __future__ import annotations

import numpy as np

from freqdp_db.columns.arrays import Metres
from freqdp_db.methods.synthesis.layout import (
    BEND_EDGES,
    BEND_GROUP_OF_STEPS,
    BEND_GROUPS,
    BENDS,
    METRE_CLASSES,
    METRE_EDGES,
    REACH_OF_DISTANCE,
    REACHES,
    STEP_CLASSES,
    STEP_EDGES,
    Grids,
)
from freqdp_db.methods.synthesis.noisy import Noisy
from freqdp_db.methods.synthesis.smoothing import smoothed

_ROUNDS = 30


def grid_points(columns: int, rows: int) -> Metres:
    row, column = np.divmod(np.arange(columns * rows), columns)
    return np.stack([column, row], axis=1).astype(np.float64)


def estimated_lengths(noisy: Noisy, grids: Grids, flows: Metres) -> Metres:
    """Weights of (reach, step class, bend) that also give the measured lengths in metres."""
    steps = _table(noisy, "steps", REACHES, STEP_CLASSES, _possible_steps(grids))
    bends = _table(noisy, "bends", BEND_GROUPS, BENDS).reshape(BEND_GROUPS, BENDS)
    bends = bends / bends.sum(axis=1, keepdims=True)
    line = np.arange(METRE_CLASSES, dtype=np.float64)[:, None]
    metres = smoothed(noisy.values["metres"], noisy.sigma["metres"], line).counts
    of_reach = np.bincount(REACH_OF_DISTANCE[grids.zone_distance_class()], flows, minlength=REACHES)
    weights = steps.reshape(REACHES, STEP_CLASSES, 1) * bends[BEND_GROUP_OF_STEPS][None, :, :]
    weights = weights.reshape(REACHES, -1)
    gives = _metre_classes(grids.cell_m)
    metres = metres / metres.sum()
    for _ in range(_ROUNDS):
        weights *= (of_reach / weights.sum(axis=1))[:, None]
        weights /= weights.sum()
        now = (weights.sum(axis=0)[:, None] * gives).sum(axis=0)
        factor = np.clip(metres / np.maximum(now, 1e-12), 0.2, 5.0)
        weights = weights * (gives * factor[None, :]).sum(axis=1)[None, :]
    flat: Metres = weights.ravel()
    return flat


def _metre_classes(cell_m: float) -> Metres:
    """For each (step class, bend), the law of the class of the length in metres."""
    gives = np.zeros((STEP_CLASSES, BENDS, METRE_CLASSES))
    within = (np.arange(8) + 0.5) / 8
    for c in range(STEP_CLASSES):
        low, high = STEP_EDGES[c], STEP_EDGES[c + 1]
        parts = np.concatenate([within, within**2])
        steps = low + np.floor(parts * (high - low))
        for b in range(BENDS):
            bend = BEND_EDGES[b] + within * (BEND_EDGES[b + 1] - BEND_EDGES[b])
            metres = np.maximum(bend[:, None] * cell_m * (steps[None, :] + 0.7), METRE_EDGES[0])
            found = np.searchsorted(METRE_EDGES[1:-1], metres.ravel(), side="right")
            gives[c, b] = np.bincount(found, minlength=METRE_CLASSES) / found.size
    return gives.reshape(STEP_CLASSES * BENDS, METRE_CLASSES)


def _possible_steps(grids: Grids) -> Metres:
    """No trip reaches another zone in fewer steps than lie between them: a public shape."""
    fewest = np.array([0.0, 0.05, 0.6, 1.8, 2.1, 3.1]) * grids.per_zone
    most = STEP_EDGES[1:] - 1.0
    return np.where(most[None, :] < fewest[:, None], 1e-3, 1.0).ravel()


def _table(noisy: Noisy, name: str, rows: int, columns: int, shape: Metres | None = None) -> Metres:
    """Smooth over both classes of a table."""
    return smoothed(
        noisy.values[name], noisy.sigma[name], grid_points(columns, rows), shape,
        spreads=(0.8, 1.6, 3.0), reaches=(1.5, 4.0),
    ).counts  # fmt: skip
