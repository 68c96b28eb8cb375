"""What the two published methods share here: whole-object weights, noise, and plain straight trips.

The unit of both as published is one trajectory. Here it is one object with all its data: an object's
trips weigh 1 together (a whole number over 2**16 each), so that it moves every vector by at most 1 in
L1, as in their texts. Trips come from the same map as those of `strict`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.methods.synthesis.layout import HEADING_X, HEADING_Y, HEADINGS
from freqdp_db.methods.synthesis.plan import SCALE
from freqdp_db.methods.synthesis.public import Region
from freqdp_db.methods.synthesis.trips import Trips
from freqdp_db.methods.synthesis.vectors import step_towards
from freqdp_db.model.arrays import Ints, Metres, offsets_from
from freqdp_db.privacy.noise import RandomSource, scale_for

SPEED_M_PER_S = 8.0
"""Neither published method has times: a public speed, and starts spread evenly."""


@dataclass(frozen=True)
class CellTrips:
    """Trips as sequences of cells of one square grid, filled along straight lines."""

    by_object: Ints
    offsets: Ints
    cells: Ints
    side: int
    """Cells along each side of the region."""


@njit(nogil=True, cache=True)
def _cell_sequences(first, last, offsets, x, y, box, side):  # type: ignore[no-untyped-def]
    lengths = np.zeros(last - first, np.int64)
    out = np.empty(4 * (offsets[last] - offsets[first]) + 16, np.int64)
    k = 0
    for t in range(first, last):
        cx, cy = 0, 0
        for i in range(offsets[t], offsets[t + 1]):
            to_x = min(np.int64((x[i] - box[0]) / box[2] * side), side - 1)
            to_y = min(np.int64((y[i] - box[1]) / box[3] * side), side - 1)
            if k + 2 * side > len(out):
                more = np.empty(2 * len(out) + 2 * side, np.int64)
                more[:k] = out[:k]
                out = more
            if i == offsets[t]:
                cx, cy = to_x, to_y
                out[k] = cy * side + cx
                k += 1
                lengths[t - first] += 1
                continue
            from_x, from_y = cx, cy
            while cx != to_x or cy != to_y:
                cx, cy = step_towards(cx, cy, to_x, to_y, from_x, from_y)
                out[k] = cy * side + cx
                k += 1
                lengths[t - first] += 1
    return lengths, out[:k]


def cell_trips(trips: Trips, region: Region, side: int) -> CellTrips:
    parts = map_ranges(
        _cell_sequences, trips.offsets, trips.offsets, trips.x, trips.y,
        (region.x_min, region.y_min, region.width, region.height), side,
    )  # fmt: skip
    lengths, cells = joined(parts)
    return CellTrips(trips.by_object, offsets_from(lengths), cells, side)


@njit(nogil=True, cache=True)
def whole_weights(counts_object, counts_at, counts, size):  # type: ignore[no-untyped-def]
    """Sum over objects of floor(SCALE / |c|_1) * c; entries are sorted by object.

    One object moves the sum by at most SCALE in L1.
    """
    total = np.zeros(size, np.int64)
    i = 0
    while i < len(counts_object):
        j, all_of_it = i, 0
        while j < len(counts_object) and counts_object[j] == counts_object[i]:
            all_of_it += counts[j]
            j += 1
        w = SCALE // all_of_it
        for k in range(i, j):
            total[counts_at[k]] += w * counts[k]
        i = j
    return total


def per_object(owner: Ints, entry: Ints, size: int) -> Ints:
    """The clipped sum of one count for each (object, entry) pair; repeats add up."""
    pairs, counts = np.unique(owner * size + entry, return_counts=True)
    total: Ints = whole_weights(pairs // size, pairs % size, counts.astype(np.int64), size)
    return total


def noisy_sum(total: Ints, epsilon: Fraction, source: RandomSource) -> Ints:
    """Discrete Laplace noise for a change of SCALE in L1."""
    return total + source.discrete_laplace(scale_for(SCALE, epsilon), len(total))


def owners(trips: CellTrips) -> Ints:
    """The object of each trip."""
    return np.repeat(np.arange(len(trips.by_object) - 1), np.diff(trips.by_object))


def positive(noisy: Ints) -> Metres:
    """Noisy sums in objects, nothing below 0; a flat law where nothing is left."""
    kept = np.maximum(noisy, 0) / SCALE
    return kept if kept.sum() > 0 else np.ones(len(kept))


def steps_of(trips: CellTrips) -> tuple[Ints, Ints]:
    """Each move of each trip: its trip, and (cell it leaves, heading) as cell * 8 + heading."""
    trip = np.repeat(np.arange(len(trips.offsets) - 1), np.diff(trips.offsets))
    same = trip[1:] == trip[:-1]
    a, b = trips.cells[:-1][same], trips.cells[1:][same]
    dx, dy = b % trips.side - a % trips.side, b // trips.side - a // trips.side
    code = np.full(9, -1, np.int64)
    code[(HEADING_Y + 1) * 3 + HEADING_X + 1] = np.arange(HEADINGS)
    return trip[1:][same], a * HEADINGS + code[(dy + 1) * 3 + dx + 1]
