"""AdaTrace (Gursoy et al., CCS 2018) with a guarantee for one object with all its data.

Four parts, with the published shares of epsilon: density on a grid (.05), a Markov chain of moves
(.35), the matrix of first and last cells (.50), lengths (.10).

Repairs, against the published text and code:
- the grid lies over the public region, not over the box of the data;
- the second level of the grid is not cut by the exact density; by its rule on the noisy one, a cell of
  these sizes is hardly ever cut, and points are uniform in a cell either way;
- the family of the law of lengths is not chosen on the exact data: the noisy histogram of lengths, by
  distance of the ends, is the law;
- the number of trips released is not the exact one: it is `--size`, or the noisy mass of the pairs
  (objects with trips);
- the "attack resilience" filters, which read the data again, are left out;
- the unit is one object: its trips weigh 1 together in each part;
- noise is discrete Laplace, exact.

Input: all trips. Protected change: one object. Sensitivity: 1 in L1 for each of the four vectors.
Guarantee: epsilon-DP, by composition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from freqdp_db.methods.synthesis.estimation import Model
from freqdp_db.methods.synthesis.plan import (
    BENDS,
    HEADINGS,
    REACH_OF_DISTANCE,
    REACHES,
    STEP_CLASSES,
    STEP_EDGES,
    Grids,
    NoisyDraw,
)
from freqdp_db.methods.synthesis.public import Period, Region
from freqdp_db.methods.synthesis.sampling import sample
from freqdp_db.methods.synthesis.trips import Trips
from freqdp_db.methods.synthesis.vectors import CellTrips, cell_trips
from freqdp_db.model.arrays import Ints, owners
from freqdp_db.model.kernels import SEED_WORDS, key
from freqdp_db.paper.cell_counts import (
    Released,
    noisy_sum,
    per_object,
    positive,
    steps_of,
    uniform_model,
)
from freqdp_db.privacy.noise import RandomSource

SIDE = 6
SHARES = {
    "density": Fraction(5, 100),
    "moves": Fraction(35, 100),
    "pairs": Fraction(50, 100),
    "lengths": Fraction(10, 100),
}
CUT_FACTOR = 5
"""A cell is cut into about CUT_FACTOR times its share of the objects, over epsilon, along each side."""


@dataclass(frozen=True)
class Draw(NoisyDraw):
    density: Ints
    moves: Ints
    pairs: Ints
    lengths: Ints
    seed: Ints


def totals(trips: CellTrips, grids: Grids) -> dict[str, Ints]:
    """The clipped sums; each moves by at most SCALE in L1 for one object."""
    cells, owner = SIDE * SIDE, owners(trips.by_object)
    lengths = np.diff(trips.offsets)
    of_sample = np.repeat(owner, lengths)
    trip_of_move, move = steps_of(trips)
    first, last = trips.cells[trips.offsets[:-1]], trips.cells[trips.offsets[1:] - 1]
    pair = first * cells + last
    length_class = np.searchsorted(STEP_EDGES[1:-1], lengths - 1, side="right")
    length = REACH_OF_DISTANCE[grids.zone_distance_class()[pair]] * STEP_CLASSES + length_class
    return {
        "density": per_object(of_sample, trips.cells, cells),
        "moves": per_object(owner[trip_of_move], move, cells * HEADINGS),
        "pairs": per_object(owner, pair, cells * cells),
        "lengths": per_object(owner, length, REACHES * STEP_CLASSES),
    }


def draw(trips: Trips, region: Region, epsilon: Fraction, source: RandomSource) -> Draw:
    exact = totals(cell_trips(trips, region, SIDE), Grids(region, SIDE, SIDE, 1, 1))
    noisy = {name: noisy_sum(exact[name], epsilon * SHARES[name], source) for name in SHARES}
    return Draw(**noisy, seed=source.uniform_words(SEED_WORDS) & 0xFFFFFFFF)


def model_of(drawn: Draw, region: Region, period: Period, epsilon: Fraction) -> tuple[Model, Grids]:
    """The law that trips are sampled from: pairs, lengths, moves; points uniform in what is cut."""
    density = positive(drawn.density)
    # the published rule for the second level, on the noisy density; one cut for all keeps it a grid
    cuts = int(np.ceil(CUT_FACTOR * density.max() / density.sum() / float(epsilon)))
    grids = Grids(region, SIDE, SIDE, 1, max(1, min(cuts, 8)))
    moves = positive(drawn.moves).reshape(-1, HEADINGS)
    rows = moves.sum(axis=1, keepdims=True)
    model = replace(
        uniform_model(grids, period),
        flows=positive(drawn.pairs),
        lengths=np.repeat(positive(drawn.lengths) + 1e-9, BENDS),
        moves=np.where(rows > 0, moves / np.maximum(rows, 1e-300), 1 / HEADINGS) + 1e-9,
        visits=density,
    )
    return model, grids


def make_trips(
    drawn: Draw, region: Region, period: Period, epsilon: Fraction, count: int, every_us: int
) -> Released:
    model, grids = model_of(drawn, region, period, epsilon)
    return sample(model, grids, period, count, every_us, key(drawn.seed, "adatrace"))


def objects(drawn: Draw) -> Ints:
    """Noisy counts whose sum is the number of objects."""
    return drawn.pairs
