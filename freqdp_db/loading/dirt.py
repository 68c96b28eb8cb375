"""Unusable rows in small known shares, so that a build of the demo has something to leave out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from freqdp_db.loading.rows import NO_TIME, SourceSamples

SHARES = {
    "no place": 0.002,
    "no time": 0.0005,
    "null island": 0.002,
    "out of range": 0.001,
    "exact repeat": 0.005,
    "same instant": 0.003,
}
"""Share of the clean rows that get a dirty row right after them, by kind of dirt."""


def soil(samples: SourceSamples, rng: np.random.Generator) -> tuple[SourceSamples, dict[str, int]]:
    """Put dirty rows in between. The clean ones all stay, so the truth stays complete."""
    clean = len(samples)
    draw = rng.random(clean)
    bounds = np.cumsum([0.0, *SHARES.values()])
    picks = [np.flatnonzero((draw >= a) & (draw < b)) for a, b in pairwise(bounds)]
    rows = np.concatenate([np.arange(clean), *picks])
    kind = np.concatenate(
        [np.zeros(clean, int), *(np.full(len(p), i + 1) for i, p in enumerate(picks))]
    )
    order = np.lexsort((kind, rows))
    mixed = samples.take(rows[order])
    kind = kind[order]
    at, x, y = mixed.at_us.copy(), mixed.x.copy(), mixed.y.copy()

    def of(name: str) -> NDArray[np.bool_]:
        wanted: NDArray[np.bool_] = kind == list(SHARES).index(name) + 1
        return wanted

    # A row that is dirty in its place has a time of its own: it must not also be a repeat.
    displaced = of("no place") | of("null island") | of("out of range")
    at[displaced] += 7_000_000
    x[of("no place")] = y[of("no place")] = np.nan
    at[of("no time")] = NO_TIME
    x[of("null island")] = y[of("null island")] = 0.0
    y[of("out of range")] += 90.0
    x[of("same instant")] += 0.0004
    counts = {name: len(pick) for name, pick in zip(SHARES, picks, strict=True)}
    return replace(mixed, at_us=at, x=x, y=y), counts
