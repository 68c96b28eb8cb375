"""What `adatrace` and `dpt` share: whole-object weights, noise, and plain straight trips.

The unit of both as published is one trajectory. Here it is one object with all its data: an object's
trips weigh 1 together (a whole number over 2**16 each), so that it moves every vector by at most 1 in
L1, as in their texts. Trips come from the same map as those of `strict`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from freqdp_db.methods.synthesis.estimation import Model, usual_paces
from freqdp_db.methods.synthesis.plan import (
    DAYPARTS,
    HEADING_X,
    HEADING_Y,
    HEADINGS,
    METRE_CLASSES,
    MINUTE_EDGES,
    SCALE,
    Grids,
)
from freqdp_db.methods.synthesis.public import LARGEST_SIZE, MOST_ROWS, USUAL_TRIP_US, Period
from freqdp_db.methods.synthesis.vectors import CellTrips
from freqdp_db.model.arrays import Ids, Ints, Metres, owners
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.privacy.noise import RandomSource, scale_for

SPEED_M_PER_S = 8.0
"""Neither published method has times: a public speed, and starts spread evenly."""
Released = tuple[Trajectories, Locations]


def per_object(owner: Ids, entry: Ints, size: int) -> Ints:
    """Sum over objects of floor(SCALE / |c|_1) * c, where c counts an object's entries.

    One object moves the sum by at most SCALE in L1.
    """
    pairs, counts = np.unique(owner.astype(np.int64) * size + entry, return_counts=True)
    total = np.zeros(size, np.int64)
    np.add.at(total, pairs % size, SCALE // np.bincount(owner)[pairs // size] * counts)
    return total


def noisy_sum(total: Ints, epsilon: Fraction, source: RandomSource) -> Ints:
    """Discrete Laplace noise for a change of SCALE in L1."""
    return total + source.discrete_laplace(scale_for(SCALE, epsilon), len(total))


def positive(noisy: Ints) -> Metres:
    """Noisy sums in objects, nothing below 0; a flat law where nothing is left."""
    kept = np.maximum(noisy, 0) / SCALE
    return kept if kept.sum() > 0 else np.ones(len(kept))


def steps_of(trips: CellTrips) -> tuple[Ids, Ints]:
    """Each move of each trip: its trip, and (cell it leaves, heading) as cell * 8 + heading."""
    trip = owners(trips.offsets)
    same = trip[1:] == trip[:-1]
    a, b = trips.cells[:-1][same], trips.cells[1:][same]
    dx, dy = b % trips.side - a % trips.side, b // trips.side - a // trips.side
    code = np.full(9, -1, np.int64)
    code[(HEADING_Y + 1) * 3 + HEADING_X + 1] = np.arange(HEADINGS)
    return trip[1:][same], a * HEADINGS + code[(dy + 1) * 3 + dx + 1]


def uniform_model(grids: Grids, period: Period) -> Model:
    """Points uniform in cells, starts spread evenly, a public speed; no law of flows, lengths, moves."""
    none, cells = np.zeros(0), np.ones(grids.cells)
    return Model(
        flows=none,
        starts=cells,
        ends=cells,
        lengths=none,
        moves=none,
        turns=np.ones(HEADINGS),
        visits=cells,
        fine=np.ones(grids.fine),
        hours=np.ones(24),
        days=np.ones(period.days),
        speeds=np.full(DAYPARTS, SPEED_M_PER_S),
        paces=np.tile(usual_paces(), METRE_CLASSES),
        longest=MINUTE_EDGES[-1:],
        bent=False,
    )


def noisy_size(noisy: Ints, every_us: int) -> int:
    """How many trips are released unless somebody says: the noisy number of objects."""
    most = MOST_ROWS // (USUAL_TRIP_US // every_us + 1)
    return min(max(int(noisy.sum()) // SCALE, 1), LARGEST_SIZE, most)
