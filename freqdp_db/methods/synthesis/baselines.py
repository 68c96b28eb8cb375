"""The baselines' draws made into trips. Sees the noisy counts and public inputs only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from freqdp_db.methods.synthesis import adatrace, dpt
from freqdp_db.methods.synthesis.options import LARGEST_SIZE, MOST_ROWS, USUAL_TRIP_US
from freqdp_db.methods.synthesis.plan import SCALE
from freqdp_db.methods.synthesis.public import Period, Region
from freqdp_db.methods.synthesis.sampling import Parts, emitted, joined, lattice, sampled
from freqdp_db.model.arrays import Ints
from freqdp_db.model.kernels import derived, key
from freqdp_db.model.trajectories import Locations, Trajectories

Released = tuple[Trajectories, Locations]


def noisy_size(noisy: Ints, every_us: int) -> int:
    """How many trips are released unless somebody says: the noisy number of objects."""
    most = MOST_ROWS // (USUAL_TRIP_US // every_us + 1)
    return min(max(int(noisy.sum()) // SCALE, 1), LARGEST_SIZE, most)


def adatrace_trips(
    drawn: adatrace.AdaTraceDraw,
    region: Region,
    period: Period,
    epsilon: Fraction,
    count: int,
    every_us: int,
) -> Released:
    model, grids = adatrace.model_of(drawn, region, period, epsilon)
    return sampled(model, grids, period, count, every_us, key(drawn.seed, "adatrace"))


def dpt_trips(
    drawn: dpt.DptDraw, region: Region, period: Period, epsilon: Fraction, count: int, every_us: int
) -> Released:
    purpose = key(drawn.seed, "dpt")
    bounds = np.floor(np.cumsum(dpt.levels(drawn)) * count + 0.5).astype(np.int64)
    parts: Parts = []
    first = 0
    for level, last in enumerate(bounds.tolist()):
        offsets, path = dpt.walks(drawn, level, last - first, first, epsilon, derived(purpose, 0))
        model, grids = dpt.model_of(region, period, level)
        bends = np.full(last - first, -1.0)
        parts += emitted(
            model, grids, period, every_us, (offsets, path, bends), first, derived(purpose, 1)
        )
        first = last
    return joined(parts, lattice(grids, every_us))


@dataclass(frozen=True)
class Baseline:
    """A published method: what it draws, and how trips are made of it."""

    draws: type
    draw: Callable[..., Any]
    trips: Callable[..., Released]
    objects: Callable[[Any], Ints]
    """Noisy counts whose sum is the number of objects."""


ADATRACE = Baseline(adatrace.AdaTraceDraw, adatrace.draw, adatrace_trips, lambda d: d.pairs)
DPT = Baseline(dpt.DptDraw, dpt.draw, dpt_trips, lambda d: d.starts)
