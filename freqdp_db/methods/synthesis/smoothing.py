"""From noisy counts to the counts behind them: a smooth log-intensity under known noise.

The true counts are exp(g); g is a Gaussian field over the positions of the cells (zones, classes,
hours), exponential in the distance, around a given shape. The noise's width is public. The most
likely g is found by Newton's method; the field's width and reach are those under which the noisy
counts are most likely (Laplace's approximation). Post-processing: reads noisy counts only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky

from freqdp_db.columns.arrays import Metres

_ROUNDS = 20
_LARGE = 500
SMALLEST_PART = 5_000
_LEVEL_SPREAD = 3.0
"""How far the level of the whole field may lie from the given shape's, in logs."""


@dataclass(frozen=True)
class Fit:
    counts: Metres
    """The most likely counts."""
    evidence: float
    spread: float
    reach: float


def smoothed(
    noisy: Metres,
    sigma: float,
    points: Metres,
    shape: Metres | None = None,
    *,
    spreads: tuple[float, ...] = (0.3, 0.6, 1.2, 2.0),
    reaches: tuple[float, ...] = (0.7, 2.0, 5.0),
) -> Fit:
    """The best fit over the widths and reaches; `points` has a row of coordinates for each count."""
    total = max(float(noisy.sum()), sigma * math.sqrt(len(noisy)), 1e-9)
    shape = np.ones(len(noisy)) if shape is None else np.maximum(shape, 1e-9 * shape.max())
    mean = np.log(shape * (total / shape.sum()))
    if len(noisy) > _LARGE:  # every trial costs the cube; wide fields fit large grids
        spreads, reaches = spreads[-2:], reaches[-1:]
    apart = np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2))
    fits = [
        _fitted(noisy, sigma, mean, apart, spread, reach) for reach in reaches for spread in spreads
    ]
    return max(fits, key=lambda fit: fit.evidence)


def _fitted(
    noisy: Metres, sigma: float, mean: Metres, apart: Metres, spread: float, reach: float
) -> Fit:
    prior = spread**2 * np.exp(-apart / reach) + _LEVEL_SPREAD**2
    prior[np.diag_indices_from(prior)] += 1e-6 * spread**2
    count = len(noisy)
    g, pull = mean.copy(), np.zeros(count)  # g = mean + prior @ pull
    value = _loss(noisy, sigma, g, g - mean, pull)
    for _ in range(_ROUNDS):
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
    # the most likely counts: means would be pulled up by what the noise leaves open
    return Fit(np.exp(g), evidence, spread, reach)


def _loss(noisy: Metres, sigma: float, g: Metres, away: Metres, pull: Metres) -> float:
    if g.max() > 60:
        return math.inf
    return float(((noisy - np.exp(g)) ** 2).sum() / (2 * sigma**2) + away @ pull / 2)


def with_tail_cut(counts: Metres, noisy: Metres, sigma: float) -> Metres:
    """Estimated counts of classes in order, without what noise alone leaves in the far ones.

    From the largest on, classes are kept as long as they stand out of the noise: by themselves, or
    with the next one. Each after those holds at most a quarter of the one before it, and one that
    would hold less than a 5,000th of all holds nothing.
    """
    kept = counts.copy()
    least = counts.sum() / SMALLEST_PART
    last = int(np.argmax(counts))
    while last + 1 < len(counts) and _stands_out(noisy[last + 1 : last + 3], sigma):
        last += 1
    for j in range(last + 1, len(kept)):
        kept[j] = min(kept[j], kept[j - 1] / 4)
        if kept[j] < least:
            kept[j] = 0.0
    return kept


def _stands_out(next_two: Metres, sigma: float) -> bool:
    together = float(next_two.sum()) > 3 * sigma * math.sqrt(len(next_two))
    return float(next_two[0]) > 2 * sigma or together


def likeliest(kappas: tuple[float, ...], expected: Metres, off: Metres, sigma: float) -> float:
    """The width, in proportion to what is expected, that makes it most likely to be off so far."""

    def likely(kappa: float) -> float:
        variance = (kappa * expected) ** 2 + sigma**2
        return -0.5 * float((np.log(variance) + off**2 / variance).sum())

    return max(kappas, key=likely)


def shrunk(noisy: Metres, sigma: float, prior: Metres, least: float = 0.03) -> Metres:
    """Empirical Bayes, count by count: towards `prior` as far as the noise asks.

    The true count is taken as normal around the prior, with a width of kappa times the prior; kappa
    is the one that makes the noisy counts most likely.
    """
    kappas = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.4, 2.0, 3.0)
    width2 = (likeliest(kappas, prior, noisy - prior, sigma) * prior) ** 2
    result = prior + width2 / (width2 + sigma**2) * (noisy - prior)
    floored: Metres = np.maximum(result, least * prior)
    return floored
