"""From the noisy vectors to a model of trips. Post-processing: sees no data, costs nothing.

Visits, origins, destinations, lengths, hours and days become smooth positive tables; the matrix of
origin and destination is a gravity model fitted to its noisy margins; the weights of moves are set so
that simulated walks meet the estimated visits and moves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.methods.synthesis.layout import (
    DAYPARTS,
    DISTANCE_CLASSES,
    HEADING_X,
    HEADING_Y,
    HEADINGS,
    MINUTE_EDGES,
    Grids,
)
from freqdp_db.methods.synthesis.lengths import (
    estimated_lengths,
    estimated_metres,
    estimated_minutes,
    estimated_paces,
    grid_points,
)
from freqdp_db.methods.synthesis.noisy import Noisy
from freqdp_db.methods.synthesis.smoothing import likeliest, shrunk, smoothed

_IPF_ROUNDS = 80
SLOWEST_ON_AVERAGE, FASTEST_ON_AVERAGE = 0.8, 28.0
"""No mean speed of trips is taken to lie beyond these, in metres per second."""
USUAL_M_PER_S = 6.0
"""Where noise hides it."""
_DIAGONAL = 0.3
"""Moves across a corner are rarer than moves across a side."""


@dataclass(frozen=True)
class Tables:
    """The tables that trips are sampled from."""

    flows: Metres
    """Weight of (zone of origin, zone of destination), flattened."""
    starts: Metres
    """Weight of each cell as the first; of its zone's share."""
    ends: Metres
    lengths: Metres
    """Weight of (reach, step class, bend), flattened."""
    moves: Metres
    turns: Metres
    visits: Metres
    fine: Metres
    hours: Metres
    days: Metres
    speeds: Metres
    """Metres per second by part of the day."""
    paces: Metres
    """Weight of (class of length, pace in proportion to the speed), flattened."""
    longest: Metres
    """No trip lasts longer, in minutes."""


@dataclass(frozen=True)
class Model(Tables):
    """All that trips are sampled from."""

    bent: bool = True
    """Whether trips have the lengths that were drawn; else, as their points fall."""


def estimated_visits(noisy: Noisy, grids: Grids) -> Metres:
    return smoothed(
        noisy.values["visits"], noisy.sigma["visits"], grid_points(grids.cells_x, grids.cells_y),
        spreads=(0.6, 1.2, 2.0), reaches=(2.0, 5.0),
    ).counts  # fmt: skip


def estimated_fine(noisy: Noisy, grids: Grids, visits: Metres) -> Metres:
    """Fine visits: towards their cell's visits, spread between the cells around."""
    cell_of = grids.cell_of_fine()
    prior = _interpolated(visits, grids)
    prior *= (visits / np.bincount(cell_of, prior, minlength=grids.cells))[cell_of]
    if not np.isfinite(noisy.sigma["fine"]):
        return prior
    prior *= max(noisy.values["fine"].sum(), 1.0) / prior.sum()
    return shrunk(noisy.values["fine"], noisy.sigma["fine"], prior)


def _interpolated(visits: Metres, grids: Grids) -> Metres:
    """Visits at the fine cells' centres, bilinear between the centres of cells, in logs."""
    table = np.log(np.maximum(visits, 1e-6)).reshape(grids.cells_y, grids.cells_x)
    row = np.clip((np.arange(grids.fine_y) + 0.5) / grids.per_cell - 0.5, 0, grids.cells_y - 1)
    column = np.clip((np.arange(grids.fine_x) + 0.5) / grids.per_cell - 0.5, 0, grids.cells_x - 1)
    r0, c0 = row.astype(int), column.astype(int)
    r1, c1 = np.minimum(r0 + 1, grids.cells_y - 1), np.minimum(c0 + 1, grids.cells_x - 1)
    fr, fc = (row - r0)[:, None], (column - c0)[None, :]
    low = table[np.ix_(r0, c0)] * (1 - fc) + table[np.ix_(r0, c1)] * fc
    high = table[np.ix_(r1, c0)] * (1 - fc) + table[np.ix_(r1, c1)] * fc
    result: Metres = np.exp(low * (1 - fr) + high * fr).ravel()
    return result


def neighbours(grids: Grids) -> Ints:
    """The cell that each heading leads to from each cell, -1 outside the region."""
    row, column = np.divmod(np.arange(grids.cells), grids.cells_x)
    x = column[:, None] + HEADING_X[None, :]
    y = row[:, None] + HEADING_Y[None, :]
    inside = (x >= 0) & (y >= 0) & (x < grids.cells_x) & (y < grids.cells_y)
    return np.where(inside, y * grids.cells_x + x, -1).astype(np.int64)


def estimated_moves(noisy: Noisy, grids: Grids, visits: Metres) -> Metres:
    """Moves both ways together towards what the visits suggest; their difference towards none."""
    to = neighbours(grids)
    inside = to >= 0
    other = np.where(inside, to, 0)
    shape = np.sqrt(visits[:, None] * visits[other]) * inside
    shape[:, 1::2] *= _DIAGONAL
    if not np.isfinite(noisy.sigma["moves"]):
        return shape
    noisy_moves = noisy.values["moves"].reshape(-1, HEADINGS)
    back = noisy_moves[other, (np.arange(HEADINGS) + 4) % HEADINGS]
    sigma = noisy.sigma["moves"] / np.sqrt(2)
    total = max(float(noisy_moves[inside].sum()), 1.0)
    prior = shape * (total / shape.sum())
    both = shrunk(((noisy_moves + back) / 2)[inside], sigma, prior[inside])
    differ = (noisy_moves - back)[inside] / 2
    # one width for all differences, in proportion to the sum
    width2 = (likeliest((0.02, 0.05, 0.1, 0.2, 0.4), both, differ, sigma) * both) ** 2
    result = np.zeros_like(shape)
    result[inside] = np.maximum(both + differ * width2 / (width2 + sigma**2), 0.03 * both)
    return result


def estimated_ends(noisy: Noisy, grids: Grids, visits: Metres) -> tuple[Metres, Metres]:
    """Origins and destinations by zone: their mean is smooth, their difference is shrunk to none."""
    by_visits = np.bincount(grids.zone_of_cell(), visits, minlength=grids.zones)
    origins, destinations = noisy.values["origins"], noisy.values["destinations"]
    sigma = noisy.sigma["origins"] / np.sqrt(2)
    points = grid_points(grids.zones_x, grids.zones_y)
    mean = smoothed(
        (origins + destinations) / 2, sigma, points, by_visits.astype(np.float64)
    ).counts
    differ = (origins - destinations) / 2
    width2 = (likeliest((0.01, 0.03, 0.1, 0.3), mean, differ, sigma) * mean) ** 2
    differ = differ * width2 / (width2 + sigma**2)
    return np.maximum(mean + differ, 0.03 * mean), np.maximum(mean - differ, 0.03 * mean)


def gravity(
    origins: Metres, destinations: Metres, same: Metres, distances: Metres, classes: Ints
) -> Metres:
    """The matrix of flows with these margins that is nearest to independence.

    Scaled in turn to the distance classes, the diagonal, the origins and the destinations. All are
    shares of one; the diagonal also has a distance class of its own (0), and must fit it.
    """
    zones = len(origins)
    origins, destinations = origins / origins.sum(), destinations / destinations.sum()
    distances = distances / distances.sum()
    same = same * (distances[0] / same.sum())
    same = np.minimum(same, 0.95 * np.minimum(origins, destinations))
    flows = np.outer(origins, destinations)
    table = classes.reshape(zones, zones)
    for _ in range(_IPF_ROUNDS):
        now = np.bincount(table.ravel(), flows.ravel(), minlength=DISTANCE_CLASSES)
        factor = np.divide(distances, now, out=np.ones(DISTANCE_CLASSES), where=now > 0)
        flows *= factor[table]
        np.fill_diagonal(flows, same)
        flows *= (origins / np.maximum(flows.sum(axis=1), 1e-300))[:, None]
        flows *= (destinations / np.maximum(flows.sum(axis=0), 1e-300))[None, :]
    return flows


def corrected(noisy: Metres, sigma: float, flows: Metres) -> Metres:
    """The flows measured directly, drawn towards the gravity model as far as the noise asks."""
    return shrunk(noisy, sigma, flows * (max(float(noisy.sum()), 1.0) / flows.sum()))


def estimated(noisy: Noisy, grids: Grids) -> Model:
    """The model before walks are fitted: weights of moves are the estimated moves."""
    values, sigma = noisy.values, noisy.sigma
    visits = estimated_visits(noisy, grids)
    origins, destinations = estimated_ends(noisy, grids, visits)
    zone_points = grid_points(grids.zones_x, grids.zones_y)
    same = smoothed(
        values["same_zone"], sigma["same_zone"], zone_points, (origins + destinations) ** 1.5,
        spreads=(0.3, 0.8, 1.5), reaches=(0.7, 2.0),
    ).counts  # fmt: skip
    line = np.arange(DISTANCE_CLASSES, dtype=np.float64)[:, None]
    distances = smoothed(values["distances"], sigma["distances"], line).counts
    flows = gravity(origins, destinations, same, distances, grids.zone_distance_class()).ravel()
    if np.isfinite(sigma["flows"]):
        flows = corrected(values["flows"], sigma["flows"], flows)
    zone_of = grids.zone_of_cell()
    within = visits / np.bincount(zone_of, visits, minlength=grids.zones)[zone_of]
    turns = np.maximum(values["turns"], sigma["turns"])
    turns = (turns + turns[-np.arange(HEADINGS) % HEADINGS]) / 2  # left and right alike
    speed, speeds = _speeds(values["pace"], sigma["pace"])
    metres, minutes = estimated_metres(noisy), estimated_minutes(noisy)
    hours = np.arange(24) * (2 * np.pi / 24)
    circle = np.stack([np.cos(hours), np.sin(hours)], axis=1) * (24 / (2 * np.pi))
    days = np.arange(len(values["days"]), dtype=np.float64)[:, None]
    return Model(
        flows=flows,
        starts=within,
        ends=within.copy(),
        lengths=estimated_lengths(noisy, grids, flows, metres),
        moves=estimated_moves(noisy, grids, visits),
        turns=turns / turns.mean(),
        visits=visits,
        fine=estimated_fine(noisy, grids, visits),
        hours=smoothed(values["hours"], sigma["hours"], circle).counts,
        days=smoothed(values["days"], sigma["days"], days).counts,
        speeds=speeds,
        paces=estimated_paces(metres, minutes, speed),
        longest=MINUTE_EDGES[[np.flatnonzero(minutes)[-1] + 1]],
    )


def _speeds(pace: Metres, sigma: float) -> tuple[float, Metres]:
    """Of all trips, and by part of the day: drawn towards that of all as far as the noise asks."""
    minutes, metres = pace[:DAYPARTS] * 60.0, pace[DAYPARTS:] * 100.0
    noise_s, noise_m = sigma * 60.0, sigma * 100.0
    all_s, all_m, least = minutes.sum(), metres.sum(), 3 * math.sqrt(DAYPARTS)
    if all_s > least * noise_s and all_m > least * noise_m:
        speed = min(max(all_m / all_s, SLOWEST_ON_AVERAGE), FASTEST_ON_AVERAGE)
    else:
        speed = USUAL_M_PER_S
    seconds = np.maximum(minutes, 0.0) + 3 * noise_s
    parts = (np.maximum(metres, 0.0) + 3 * noise_s * speed) / seconds
    return speed, np.clip(parts, speed / 2, speed * 2)
