"""From the noisy vectors to a model of trips. Post-processing: it reads noisy numbers only.

Visits, origins, destinations, lengths, hours and days become smooth positive tables. The flows between
zones are a gravity model that is fitted to its noisy margins. The weights of moves begin as the estimated
moves; `sampling.fit_walks` adjusts them until simulated walks have the estimated visits and moves.

`smoothed` estimates counts from noisy ones. The true counts are modelled as exp(g), where g is a Gaussian
field over the positions of the counts with an exponential covariance and a given mean; the variance of the
noise is known. The most likely g is found by Newton's method, the spread and the reach of the field by
maximizing the likelihood (Laplace's approximation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky

from freqdp_db.methods.synthesis.plan import (
    BEND_EDGES,
    BEND_GROUP_OF_STEPS,
    BEND_GROUPS,
    BENDS,
    DAYPARTS,
    DISTANCE_CLASSES,
    HEADING_X,
    HEADING_Y,
    HEADINGS,
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
    Noisy,
)
from freqdp_db.model.arrays import Ints, Metres

# --- Estimating counts from noisy counts ---


_NEWTON_ROUNDS = 20
_MANY_COUNTS = 500
"""From here on only the widest fields are tried: each trial takes time cubic in the number of counts."""
SMALLEST_PART = 5_000
"""Tails are cut below 1 / SMALLEST_PART of the total."""
_LEVEL_SPREAD = 3.0
"""Standard deviation of the common level of the field, in logs."""


def smoothed(
    noisy: Metres,
    sigma: float,
    points: Metres,
    shape: Metres | None = None,
    *,
    spreads: tuple[float, ...] = (0.3, 0.6, 1.2, 2.0),
    reaches: tuple[float, ...] = (0.7, 2.0, 5.0),
) -> Metres:
    """The most likely counts.

    sigma: deviation of the noise. points: coordinates of each count, in rows. shape: numbers to which
    counts are expected to be proportional. spreads, reaches: standard deviations and ranges of the field
    to try.
    """
    total = max(float(noisy.sum()), sigma * math.sqrt(len(noisy)), 1e-9)
    shape = np.ones(len(noisy)) if shape is None else np.maximum(shape, 1e-9 * shape.max())
    mean = np.log(shape * (total / shape.sum()))
    if len(noisy) > _MANY_COUNTS:
        spreads, reaches = spreads[-2:], reaches[-1:]
    apart = np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2))
    fits = [
        _fit_field(noisy, sigma, mean, apart, spread, reach)
        for reach in reaches
        for spread in spreads
    ]
    return max(fits, key=lambda fit: fit[0])[1]


def _fit_field(
    noisy: Metres, sigma: float, mean: Metres, apart: Metres, spread: float, reach: float
) -> tuple[float, Metres]:
    """Log-likelihood of the noisy counts under this field, and the most likely counts."""
    prior = spread**2 * np.exp(-apart / reach) + _LEVEL_SPREAD**2
    prior[np.diag_indices_from(prior)] += 1e-6 * spread**2
    count = len(noisy)
    g, pull = mean.copy(), np.zeros(count)  # g = mean + prior @ pull
    value = _loss(noisy, sigma, g, g - mean, pull)
    for _ in range(_NEWTON_ROUNDS):
        rate = np.exp(g)
        weight = rate / sigma
        root = cholesky(
            np.eye(count) + weight[:, None] * prior * weight[None, :], lower=True,
            check_finite=False,
        )  # fmt: skip
        slope = rate * (noisy - rate) / sigma**2
        # Newton's step (Gauss-Newton curvature), in a form that needs no inverse of the prior
        aim = weight**2 * (g - mean) + slope
        new_pull = aim - weight * cho_solve(
            (root, True), weight * (prior @ aim), check_finite=False
        )
        step, better = 1.0, False
        while step > 1e-3:
            tried_pull = pull + step * (new_pull - pull)
            away = prior @ tried_pull
            tried = _loss(noisy, sigma, mean + away, away, tried_pull)
            if tried < value:
                better = value - tried > 1e-5 * (1 + abs(value))
                g, pull, value = mean + away, tried_pull, tried
                break
            step /= 2
        if not better:
            break
    evidence = -value - float(np.log(np.diag(root)).sum())
    # the mode: means of exp(g) would grow with the uncertainty of g
    return evidence, np.exp(g)


def _loss(noisy: Metres, sigma: float, g: Metres, away: Metres, pull: Metres) -> float:
    """Negative log posterior of a field g = mean + away, with away = prior @ pull."""
    if g.max() > 60:
        return math.inf
    return float(((noisy - np.exp(g)) ** 2).sum() / (2 * sigma**2) + away @ pull / 2)


def with_tail_cut(counts: Metres, noisy: Metres, sigma: float) -> Metres:
    """Estimated counts of ordered classes, with the upper tail cut where it is noise.

    From the largest class on, classes are kept as long as they are significant, alone or with the next one.
    Each class after those gets at most a quarter of the one before it, and 0 below a 5,000th of the total.
    """
    kept = counts.copy()
    least = counts.sum() / SMALLEST_PART
    last = int(np.argmax(counts))
    while last + 1 < len(counts) and _is_significant(noisy[last + 1 : last + 3], sigma):
        last += 1
    for j in range(last + 1, len(kept)):
        kept[j] = min(kept[j], kept[j - 1] / 4)
        if kept[j] < least:
            kept[j] = 0.0
    return kept


def _is_significant(next_two: Metres, sigma: float) -> bool:
    together = float(next_two.sum()) > 3 * sigma * math.sqrt(len(next_two))
    return float(next_two[0]) > 2 * sigma or together


def likeliest(kappas: tuple[float, ...], expected: Metres, off: Metres, sigma: float) -> float:
    """The relative scatter around what is expected that makes the differences `off` most likely."""

    def likely(kappa: float) -> float:
        variance = (kappa * expected) ** 2 + sigma**2
        return -0.5 * float((np.log(variance) + off**2 / variance).sum())

    return max(kappas, key=likely)


def shrunk(noisy: Metres, sigma: float, prior: Metres, least: float = 0.03) -> Metres:
    """Counts shrunk towards `prior` (empirical Bayes).

    The true count is modelled as normal around the prior, with a standard deviation of kappa times the
    prior, for the kappa that makes the noisy counts most likely.
    """
    kappas = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.4, 2.0, 3.0)
    width2 = (likeliest(kappas, prior, noisy - prior, sigma) * prior) ** 2
    result = prior + width2 / (width2 + sigma**2) * (noisy - prior)
    floored: Metres = np.maximum(result, least * prior)
    return floored


def towards_none(
    noisy: Metres, sigma: float, expected: Metres, kappas: tuple[float, ...]
) -> Metres:
    """Differences shrunk towards 0 (empirical Bayes); their scatter is proportional to `expected`."""
    width2 = (likeliest(kappas, expected, noisy, sigma) * expected) ** 2
    differences: Metres = noisy * width2 / (width2 + sigma**2)
    return differences


# --- Steps and lengths of trips, by the distance of their ends ---


_FITTING_ROUNDS = 30
_DECAY = 2.0
"""Factor by which classes decrease, if the noise hides a whole histogram."""
_USUAL_MINUTES = 4
"""In that case, classes of duration are equal up to this one (8 to 11 minutes)."""


def grid_points(columns: int, rows: int) -> Metres:
    """Column and row of each cell of a grid."""
    row, column = np.divmod(np.arange(columns * rows), columns)
    return np.stack([column, row], axis=1).astype(np.float64)


def estimated_classes(noisy: Noisy, name: str, usual: int) -> Metres:
    """Shares of the classes of lengths or durations, with their tail cut.

    If the noise hides the whole histogram, classes are equal up to `usual` and then decrease.
    """
    number = np.arange(len(noisy.values[name]))
    shape = np.power(_DECAY, -np.maximum(number - usual, 0).astype(np.float64))
    line = number.astype(np.float64)[:, None]
    values, sigma = noisy.values[name], noisy.sigma[name]
    counts = np.where(shape * SMALLEST_PART < shape.sum(), 0.0, shape)
    # four neighbours are significant
    if np.convolve(values, np.ones(4), "valid").max() > 3 * sigma * 2:
        counts = with_tail_cut(smoothed(values, sigma, line, shape), values, sigma)
    share: Metres = counts / counts.sum()
    return share


def estimated_lengths(noisy: Noisy, grids: Grids, flows: Metres, metres: Metres) -> Metres:
    """Weights of (reach, step class, bend), fitted so that they also give these shares of lengths."""
    steps = _table(noisy, "steps", REACHES, STEP_CLASSES, _possible_steps(grids))
    bends = _table(noisy, "bends", BEND_GROUPS, BENDS).reshape(BEND_GROUPS, BENDS)
    bends = bends / bends.sum(axis=1, keepdims=True)
    of_reach = np.bincount(REACH_OF_DISTANCE[grids.zone_distance_class()], flows, minlength=REACHES)
    weights = steps.reshape(REACHES, STEP_CLASSES, 1) * bends[BEND_GROUP_OF_STEPS][None, :, :]
    weights = weights.reshape(REACHES, -1)
    gives = _metre_classes(grids.cell_m)
    for _ in range(_FITTING_ROUNDS):
        weights *= (of_reach / weights.sum(axis=1))[:, None]
        weights /= weights.sum()
        now = (weights.sum(axis=0)[:, None] * gives).sum(axis=0)
        factor = np.clip(metres / np.maximum(now, 1e-12), 0.2, 5.0)
        weights = weights * (gives * factor[None, :]).sum(axis=1)[None, :]
    flat: Metres = weights.ravel()
    return flat


def _class_shares(values: Metres, edges: Metres) -> Metres:
    """Share of the values in each class; the first and the last class are open."""
    found = np.searchsorted(edges[1:-1], values.ravel(), side="right")
    shares: Metres = np.bincount(found, minlength=len(edges) - 1) / found.size
    return shares


def _metre_classes(cell_m: float) -> Metres:
    """[step class and bend, class of length]: distribution of the length."""
    gives = np.zeros((STEP_CLASSES, BENDS, METRE_CLASSES))
    within = (np.arange(8) + 0.5) / 8
    for c in range(STEP_CLASSES):
        low, high = STEP_EDGES[c], STEP_EDGES[c + 1]
        parts = np.concatenate([within, within**2])
        steps = low + np.floor(parts * (high - low))
        for b in range(BENDS):
            bend = BEND_EDGES[b] + within * (BEND_EDGES[b + 1] - BEND_EDGES[b])
            metres = np.maximum(bend[:, None] * cell_m * (steps[None, :] + 0.7), METRE_EDGES[0])
            gives[c, b] = _class_shares(metres, METRE_EDGES)
    return gives.reshape(STEP_CLASSES * BENDS, METRE_CLASSES)


def _possible_steps(grids: Grids) -> Metres:
    """Public shape of the table of reaches and steps: near 0 where the zones are too far for the steps."""
    fewest = np.array([0.0, 0.05, 0.6, 1.8, 2.1, 3.1]) * grids.per_zone
    most = STEP_EDGES[1:] - 1.0
    return np.where(most[None, :] < fewest[:, None], 1e-3, 1.0).ravel()


def _table(noisy: Noisy, name: str, rows: int, columns: int, shape: Metres | None = None) -> Metres:
    """A table, smoothed over rows and columns, with the tail of each row cut."""
    values, sigma = noisy.values[name], noisy.sigma[name]
    counts = smoothed(
        values, sigma, grid_points(columns, rows), shape,
        spreads=(0.8, 1.6, 3.0), reaches=(1.5, 4.0),
    )  # fmt: skip
    table, measured = counts.reshape(rows, columns), values.reshape(rows, columns)
    return np.concatenate([with_tail_cut(*row, sigma) for row in zip(table, measured, strict=True)])


def estimated_paces(metres: Metres, minutes: Metres, speed: float) -> Metres:
    """Weights of (class of length, pace), fitted to the estimated shares of durations.

    speed: mean speed of all trips in metres per second.
    """
    gives = _minute_classes(speed)
    paces = np.tile(usual_paces(), (METRE_CLASSES, 1))
    for _ in range(_FITTING_ROUNDS):
        weights = metres[:, None] * paces / paces.sum(axis=1, keepdims=True)
        now = (weights[:, :, None] * gives).sum(axis=(0, 1))
        factor = np.clip(minutes / np.maximum(now, 1e-12), 0.2, 5.0)
        paces = paces / paces.max(axis=1, keepdims=True) * (gives * factor).sum(axis=2)
        paces = np.maximum(paces, 1e-12)
    flat: Metres = paces.ravel()
    return flat


def usual_paces() -> Metres:
    """Public distribution of paces: about normal around 1, with a standard deviation of a third."""
    middle = (PACE_EDGES[1:] + PACE_EDGES[:-1]) / 2
    weights: Metres = np.exp(-(((middle - 1.0) / 0.35) ** 2) / 2) * np.diff(PACE_EDGES)
    return weights + 1e-6


def _minute_classes(speed: float) -> Metres:
    """[class of length, pace, class of duration]: distribution of the duration."""
    within = (np.arange(8) + 0.5) / 8
    gives = np.zeros((METRE_CLASSES, PACES, MINUTE_CLASSES))
    for m in range(METRE_CLASSES):
        metres = METRE_EDGES[m] + within * (METRE_EDGES[m + 1] - METRE_EDGES[m])
        for p in range(PACES):
            pace = PACE_EDGES[p] + within * (PACE_EDGES[p + 1] - PACE_EDGES[p])
            gives[m, p] = _class_shares(
                metres[:, None] / (speed * pace[None, :]) / 60.0, MINUTE_EDGES
            )
    return gives


# --- The model ---


_IPF_ROUNDS = 80
SLOWEST_ON_AVERAGE, FASTEST_ON_AVERAGE = 0.8, 28.0
"""Limits of the mean speed of all trips, in metres per second."""
USUAL_M_PER_S = 6.0
"""Mean speed if the noise hides it."""
_DIAGONAL = 0.3
"""Expected frequency of diagonal moves, relative to moves across a side."""


@dataclass(frozen=True)
class Tables:
    """The tables that trips are sampled from."""

    flows: Metres
    """Weight of (zone of origin, zone of destination), flattened."""
    starts: Metres
    """[cell]: its share in the trips that begin in its zone."""
    ends: Metres
    """[cell]: its share in the trips that end in its zone."""
    lengths: Metres
    """Weight of (reach, step class, bend), flattened."""
    moves: Metres
    """[cell, heading]: weight of a move."""
    turns: Metres
    """[change of heading]: factor of a move's weight."""
    visits: Metres
    """[cell]."""
    fine: Metres
    """[fine cell]: weight of its points."""
    hours: Metres
    days: Metres
    speeds: Metres
    """Mean speed in metres per second, by part of the day."""
    paces: Metres
    """Weight of (class of length, pace), flattened."""
    longest: Metres
    """Longest duration of a trip in minutes, in an array of one."""


@dataclass(frozen=True)
class Model(Tables):
    """The tables, and how to use them."""

    bent: bool = True
    """Whether lengths of trips are prescribed; else they follow from their points."""


def estimated_visits(noisy: Noisy, grids: Grids) -> Metres:
    return smoothed(
        noisy.values["visits"], noisy.sigma["visits"], grid_points(grids.cells_x, grids.cells_y),
        spreads=(0.6, 1.2, 2.0), reaches=(2.0, 5.0),
    )  # fmt: skip


def estimated_fine(noisy: Noisy, grids: Grids, visits: Metres) -> Metres:
    """Visits of fine cells, shrunk towards an interpolation of the visits of cells."""
    cell_of = grids.cell_of_fine()
    prior = _interpolated(visits, grids)
    prior *= (visits / np.bincount(cell_of, prior, minlength=grids.cells))[cell_of]
    if not np.isfinite(noisy.sigma["fine"]):
        return prior
    prior *= max(noisy.values["fine"].sum(), 1.0) / prior.sum()
    return shrunk(noisy.values["fine"], noisy.sigma["fine"], prior)


def _interpolated(visits: Metres, grids: Grids) -> Metres:
    """Visits at the centres of fine cells: bilinear interpolation of logarithms between cells."""
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
    """[cell, heading]: the cell that the move leads to; -1: outside the grid."""
    row, column = np.divmod(np.arange(grids.cells), grids.cells_x)
    x = column[:, None] + HEADING_X[None, :]
    y = row[:, None] + HEADING_Y[None, :]
    inside = (x >= 0) & (y >= 0) & (x < grids.cells_x) & (y < grids.cells_y)
    return np.where(inside, y * grids.cells_x + x, -1).astype(np.int64)


def estimated_moves(noisy: Noisy, grids: Grids, visits: Metres) -> Metres:
    """Weights of moves: both directions together are shrunk towards the visits, their difference towards
    0."""
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
    differ = towards_none(differ, sigma, both, (0.02, 0.05, 0.1, 0.2, 0.4))
    result = np.zeros_like(shape)
    result[inside] = np.maximum(both + differ, 0.03 * both)
    return result


def estimated_ends(noisy: Noisy, grids: Grids, visits: Metres) -> tuple[Metres, Metres]:
    """Origins and destinations by zone: their mean is smoothed, their difference shrunk towards 0."""
    by_visits = np.bincount(grids.zone_of_cell(), visits, minlength=grids.zones)
    origins, destinations = noisy.values["origins"], noisy.values["destinations"]
    sigma = noisy.sigma["origins"] / np.sqrt(2)
    points = grid_points(grids.zones_x, grids.zones_y)
    mean = smoothed((origins + destinations) / 2, sigma, points, by_visits.astype(np.float64))
    differ = towards_none((origins - destinations) / 2, sigma, mean, (0.01, 0.03, 0.1, 0.3))
    return np.maximum(mean + differ, 0.03 * mean), np.maximum(mean - differ, 0.03 * mean)


def gravity(
    origins: Metres, destinations: Metres, same: Metres, distances: Metres, classes: Ints
) -> Metres:
    """Flows with these margins, by iterative proportional fitting from independence.

    All margins are scaled to shares of 1. The diagonal (`same`) is also the class of distance 0, and is
    scaled to it.
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


def estimated(noisy: Noisy, grids: Grids) -> Model:
    """The model before `fit_walks`: weights of moves are the estimated moves."""
    values, sigma = noisy.values, noisy.sigma
    visits = estimated_visits(noisy, grids)
    origins, destinations = estimated_ends(noisy, grids, visits)
    zone_points = grid_points(grids.zones_x, grids.zones_y)
    same = smoothed(
        values["same_zone"], sigma["same_zone"], zone_points, (origins + destinations) ** 1.5,
        spreads=(0.3, 0.8, 1.5), reaches=(0.7, 2.0),
    )  # fmt: skip
    line = np.arange(DISTANCE_CLASSES, dtype=np.float64)[:, None]
    distances = smoothed(values["distances"], sigma["distances"], line)
    flows = gravity(origins, destinations, same, distances, grids.zone_distance_class()).ravel()
    if np.isfinite(sigma["flows"]):
        # measured directly: shrunk towards the gravity model
        total = max(float(values["flows"].sum()), 1.0)
        flows = shrunk(values["flows"], sigma["flows"], flows * (total / flows.sum()))
    zone_of = grids.zone_of_cell()
    within = visits / np.bincount(zone_of, visits, minlength=grids.zones)[zone_of]
    turns = np.maximum(values["turns"], sigma["turns"])
    turns = (turns + turns[-np.arange(HEADINGS) % HEADINGS]) / 2  # left as often as right
    speed, speeds = _speeds(values["pace"], sigma["pace"])
    metres = estimated_classes(noisy, "metres", 0)
    minutes = estimated_classes(noisy, "minutes", _USUAL_MINUTES)
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
        hours=smoothed(values["hours"], sigma["hours"], circle),
        days=smoothed(values["days"], sigma["days"], days),
        speeds=speeds,
        paces=estimated_paces(metres, minutes, speed),
        longest=MINUTE_EDGES[[np.flatnonzero(minutes)[-1] + 1]],
    )


def _speeds(pace: Metres, sigma: float) -> tuple[float, Metres]:
    """Mean speed of all trips, and speeds by part of the day, which are shrunk towards the mean."""
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
