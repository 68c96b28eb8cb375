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
    MINUTE_CLASSES,
    MINUTE_EDGES,
    PACE_EDGES,
    PACES,
    REACH_OF_DISTANCE,
    REACHES,
    STEP_CLASSES,
    STEP_EDGES,
    Grids,
)
from freqdp_db.methods.synthesis.noisy import Noisy
from freqdp_db.methods.synthesis.smoothing import SMALLEST_PART, smoothed, with_tail_cut

_ROUNDS = 30
_FEWER = 2.0
"""Where noise hides it, so many times fewer trips are taken to be in each further class."""
_USUAL_MINUTES = 4
"""Up to this class (8 to 11 minutes) durations are taken as alike."""


def grid_points(columns: int, rows: int) -> Metres:
    row, column = np.divmod(np.arange(columns * rows), columns)
    return np.stack([column, row], axis=1).astype(np.float64)


def estimated_metres(noisy: Noisy) -> Metres:
    """Share of each class of lengths."""
    return _classes(noisy, "metres", np.power(_FEWER, -np.arange(METRE_CLASSES, dtype=np.float64)))


def estimated_minutes(noisy: Noisy) -> Metres:
    """Share of each class of durations."""
    far = np.maximum(np.arange(MINUTE_CLASSES) - _USUAL_MINUTES, 0)
    return _classes(noisy, "minutes", np.power(_FEWER, -far.astype(np.float64)))


def _classes(noisy: Noisy, name: str, shape: Metres) -> Metres:
    """A histogram with its tail cut; where noise hides all of it, the public `shape`."""
    line = np.arange(len(shape), dtype=np.float64)[:, None]
    values, sigma = noisy.values[name], noisy.sigma[name]
    counts = np.where(shape * SMALLEST_PART < shape.sum(), 0.0, shape)
    if (
        np.convolve(values, np.ones(4), "valid").max() > 3 * sigma * 2
    ):  # some four neighbours stand out
        counts = with_tail_cut(smoothed(values, sigma, line, shape).counts, values, sigma)
    share: Metres = counts / counts.sum()
    return share


def estimated_lengths(noisy: Noisy, grids: Grids, flows: Metres, metres: Metres) -> Metres:
    """Weights of (reach, step class, bend) that also give these lengths in metres."""
    steps = _table(noisy, "steps", REACHES, STEP_CLASSES, _possible_steps(grids))
    bends = _table(noisy, "bends", BEND_GROUPS, BENDS).reshape(BEND_GROUPS, BENDS)
    bends = bends / bends.sum(axis=1, keepdims=True)
    of_reach = np.bincount(REACH_OF_DISTANCE[grids.zone_distance_class()], flows, minlength=REACHES)
    weights = steps.reshape(REACHES, STEP_CLASSES, 1) * bends[BEND_GROUP_OF_STEPS][None, :, :]
    weights = weights.reshape(REACHES, -1)
    gives = _metre_classes(grids.cell_m)
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
    """Smooth over both classes of a table; the tail of each row is cut."""
    values, sigma = noisy.values[name], noisy.sigma[name]
    counts = smoothed(
        values,
        sigma,
        grid_points(columns, rows),
        shape,
        spreads=(0.8, 1.6, 3.0),
        reaches=(1.5, 4.0),
    ).counts
    table, measured = counts.reshape(rows, columns), values.reshape(rows, columns)
    return np.stack(
        [with_tail_cut(*row, sigma) for row in zip(table, measured, strict=True)]
    ).ravel()


def estimated_paces(metres: Metres, minutes: Metres, speed: float) -> Metres:
    """Weights of paces for each class of lengths, under which durations have the estimated shares.

    `speed`: of all trips, in metres per second.
    """
    gives = _minute_classes(speed)
    paces = np.tile(usual_paces(), (METRE_CLASSES, 1))
    for _ in range(_ROUNDS):
        weights = metres[:, None] * paces / paces.sum(axis=1, keepdims=True)
        now = (weights[:, :, None] * gives).sum(axis=(0, 1))
        factor = np.clip(minutes / np.maximum(now, 1e-12), 0.2, 5.0)
        paces = paces / paces.max(axis=1, keepdims=True) * (gives * factor).sum(axis=2)
        paces = np.maximum(paces, 1e-12)
    flat: Metres = paces.ravel()
    return flat


def usual_paces() -> Metres:
    """A public law: about normal around the speed of the part of the day, a third of it wide."""
    middle = (PACE_EDGES[1:] + PACE_EDGES[:-1]) / 2
    weights: Metres = np.exp(-(((middle - 1.0) / 0.35) ** 2) / 2) * np.diff(PACE_EDGES)
    return weights + 1e-6


def _minute_classes(speed: float) -> Metres:
    """For each class of lengths and pace, the law of the class of the duration."""
    within = (np.arange(8) + 0.5) / 8
    gives = np.zeros((METRE_CLASSES, PACES, MINUTE_CLASSES))
    for m in range(METRE_CLASSES):
        metres = METRE_EDGES[m] + within * (METRE_EDGES[m + 1] - METRE_EDGES[m])
        for p in range(PACES):
            pace = PACE_EDGES[p] + within * (PACE_EDGES[p + 1] - PACE_EDGES[p])
            minutes = (metres[:, None] / (speed * pace[None, :]) / 60.0).ravel()
            found = np.searchsorted(MINUTE_EDGES[1:-1], minutes, side="right")
            gives[m, p] = np.bincount(found, minlength=MINUTE_CLASSES) / found.size
    return gives
