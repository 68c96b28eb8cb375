"""DPT (He et al., PVLDB 2015) with a guarantee for one object with all its data.

Trips are written in grids of several sizes (reference systems), each trip in the one that fits its
speed. For each grid, prefix trees of moves are counted to height 3: starts; moves or the end, by cell;
moves or the end, by cell and last heading. Epsilon is split evenly over the heights. Children of nodes
that do not stand out of the noise are pruned. Trips are walked from the noisy trees until the end is
drawn.

Repairs, against the published text:
- the grids lie over the public region; their sizes are public, not chosen from the data;
- no exact count is read for pruning or model selection: the noisy counts decide;
- the unit is one object: all its paths weigh 1 together at each height;
- the number of trips is `--size`, or the noisy mass of the starts (objects with trips);
- noise is discrete Laplace, exact.

Input: all trips. Protected change: one object. Sensitivity: 1 in L1 at each of the three heights.
Guarantee: epsilon-DP, by composition.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_each
from freqdp_db.methods.synthesis.plan import (
    HEADING_X,
    HEADING_Y,
    HEADINGS,
    Grids,
    NoisyDraw,
)
from freqdp_db.methods.synthesis.public import Period, Region
from freqdp_db.methods.synthesis.sampling import Parts, emit_samples, lattice, on_lattice
from freqdp_db.methods.synthesis.trips import Trips
from freqdp_db.methods.synthesis.vectors import cell_trips
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_from, owners
from freqdp_db.model.kernels import SEED_WORDS, derived, key, longer, stream, uniform
from freqdp_db.paper.cell_counts import (
    Released,
    noisy_sum,
    per_object,
    positive,
    steps_of,
    uniform_model,
)
from freqdp_db.privacy.noise import RandomSource

SIDES = (16, 8, 4)
"""Cells along the region's sides, for slow, middling and fast trips."""
SPEED_EDGES_M_PER_S = (3.0, 8.0)
HEIGHTS = 3
CHOICES = HEADINGS + 1
"""Eight headings, or the end."""
LONGEST = 200


@dataclass(frozen=True)
class Draw(NoisyDraw):
    """Noisy counts of the trees, grid after grid in one column."""

    starts: Ints
    moves: Ints
    turns: Ints
    seed: Ints


def sizes() -> list[Ints]:
    """Where each grid begins in the three columns."""
    cells = np.array([side * side for side in SIDES], np.int64)
    return [offsets_from(cells * each) for each in (1, CHOICES, HEADINGS * CHOICES)]


def _level(trips: Trips) -> Ints:
    """The grid of each trip, by its own mean speed."""
    metres = np.hypot(np.diff(trips.x), np.diff(trips.y))
    metres[trips.offsets[1:-1] - 1] = 0.0
    total = np.add.reduceat(np.append(metres, 0.0), trips.offsets[:-1])
    seconds = (trips.at[trips.offsets[1:] - 1] - trips.at[trips.offsets[:-1]]) / 1e6
    speed = total / np.maximum(seconds, 1.0)
    return np.searchsorted(SPEED_EDGES_M_PER_S, speed).astype(np.int64)


def totals(trips: Trips, region: Region) -> list[Ints]:
    """The clipped sums at each height; each moves by at most SCALE in L1 for one object."""
    begin = sizes()
    if len(trips) == 0:
        return [np.zeros(b[-1], np.int64) for b in begin]
    level = _level(trips)
    found: list[list[tuple[Ids, Ints]]] = [[], [], []]
    for number, side in enumerate(SIDES):
        cells = cell_trips(trips, region, side)
        mine = level == number
        owner = owners(cells.by_object)
        first, last = cells.cells[cells.offsets[:-1]], cells.cells[cells.offsets[1:] - 1]
        found[0].append((owner[mine], begin[0][number] + first[mine]))
        trip, move = steps_of(cells)
        cell, heading = np.divmod(move, HEADINGS)
        keep = mine[trip]
        found[1].append(
            (owner[trip[keep]], begin[1][number] + cell[keep] * CHOICES + heading[keep])
        )
        found[1].append((owner[mine], begin[1][number] + last[mine] * CHOICES + HEADINGS))
        # by last heading: moves that follow a move of the same trip, and ends after a move
        follows = np.flatnonzero((trip[1:] == trip[:-1]) & keep[1:]) + 1
        state = cell[follows] * HEADINGS + heading[follows - 1]
        found[2].append(
            (owner[trip[follows]], begin[2][number] + state * CHOICES + heading[follows])
        )
        ends = np.flatnonzero(np.append(trip[1:] != trip[:-1], True) & keep) if len(trip) else trip
        state = last[trip[ends]] * HEADINGS + heading[ends]
        found[2].append((owner[trip[ends]], begin[2][number] + state * CHOICES + HEADINGS))
    result = []
    for pairs, offsets in zip(found, begin, strict=True):
        owner, entry = (np.concatenate(column) for column in zip(*pairs, strict=True))
        result.append(per_object(owner, entry, int(offsets[-1])))
    return result


def draw(trips: Trips, region: Region, epsilon: Fraction, source: RandomSource) -> Draw:
    starts, moves, turns = (
        noisy_sum(total, epsilon / HEIGHTS, source) for total in totals(trips, region)
    )
    return Draw(starts, moves, turns, source.uniform_words(SEED_WORDS) & 0xFFFFFFFF)


@njit(nogil=True, cache=True)
def _walk(first, last, number, purpose, start_running, moves, turns, threshold, side):  # type: ignore[no-untyped-def]
    """Walk until the end is drawn: by cell and heading where that node is kept, else by cell."""
    path = np.empty((last - first) * 16 + LONGEST + 2, np.int64)
    lengths = np.zeros(last - first, np.int64)
    k = 0
    weights = np.empty(CHOICES)
    for t in range(first, last):
        state = stream(purpose, number + t)
        cell = np.searchsorted(start_running, uniform(state) * start_running[-1], side="right")
        cell = min(cell, side * side - 1)
        heading, length = -1, 0
        if k + LONGEST + 2 > len(path):
            path = longer(path, k + LONGEST + 2)
        while True:
            path[k] = cell
            k += 1
            length += 1
            if length > LONGEST:
                break
            known = False
            if heading >= 0:
                known = turns[cell, heading].sum() > threshold
            total = 0.0
            for c in range(CHOICES):
                w = turns[cell, heading, c] if known else moves[cell, c]
                if c < HEADINGS:
                    nx, ny = cell % side + HEADING_X[c], cell // side + HEADING_Y[c]
                    if nx < 0 or ny < 0 or nx >= side or ny >= side:
                        w = 0.0
                weights[c] = w
                total += w
            if total <= 0.0:
                break
            aim, chosen = uniform(state) * total, CHOICES - 1
            for c in range(CHOICES):
                if weights[c] > 0.0:
                    chosen = c
                    aim -= weights[c]
                    if aim < 0.0:
                        break
            if chosen == HEADINGS:
                break
            cell += HEADING_Y[chosen] * side + HEADING_X[chosen]
            heading = chosen
        lengths[t - first] = length
    return lengths, path[:k]


def levels(drawn: Draw) -> Metres:
    """Share of each grid, by the noisy starts."""
    begin = sizes()[0]
    mass = np.maximum(np.add.reduceat(drawn.starts, begin[:-1]), 1).astype(np.float64)
    share: Metres = mass / mass.sum()
    return share


def walks(
    drawn: Draw, level: int, count: int, first: int, epsilon: Fraction, purpose: np.uint64
) -> tuple[Ints, Ints]:
    """Offsets and cells of `count` walks in one grid."""
    begin, side = sizes(), SIDES[level]
    starts, moves, turns = (
        positive(column[b[level] : b[level + 1]])
        for column, b in zip((drawn.starts, drawn.moves, drawn.turns), begin, strict=True)
    )
    threshold = 2.0 * HEIGHTS / float(epsilon) * CHOICES
    parts = map_each(
        _walk, count, first, purpose, np.cumsum(starts), moves.reshape(-1, CHOICES),
        turns.reshape(-1, HEADINGS, CHOICES), threshold, side,
    )  # fmt: skip
    lengths, path = joined(parts)
    return offsets_from(lengths), path


def make_trips(
    drawn: Draw, region: Region, period: Period, epsilon: Fraction, count: int, every_us: int
) -> Released:
    purpose = key(drawn.seed, "dpt")
    bounds = np.floor(np.cumsum(levels(drawn)) * count + 0.5).astype(np.int64)
    parts: Parts = []
    first = 0
    for level, last in enumerate(bounds.tolist()):
        offsets, path = walks(drawn, level, last - first, first, epsilon, derived(purpose, 0))
        grids = Grids(region, SIDES[level], SIDES[level], 1, 1)
        walked = (offsets, path, np.full(last - first, -1.0))
        model = uniform_model(grids, period)
        parts += emit_samples(model, grids, period, every_us, walked, first, derived(purpose, 1))
        first = last
    return on_lattice(parts, lattice(grids, every_us))


def objects(drawn: Draw) -> Ints:
    """Noisy counts whose sum is the number of objects."""
    return drawn.starts
