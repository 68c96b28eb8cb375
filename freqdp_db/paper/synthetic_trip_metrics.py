"""Metrics of synthetic trips: how alike two sets of trips are, over a public region.

To compare synthetic releases with each other: start and end (TE), diameter (DE), length, how many
trips pass each cell (density, Kendall), range queries, and frequent patterns (FFP). Between two samples
a trip goes straight, so that trips with many and with few samples compare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from freqdp_db.errors import BadInput
from freqdp_db.evaluation.pair import CellBox, Pair
from freqdp_db.evaluation.utility import (
    binned_divergence,
    cell_sequences,
    diameter_error,
    frequent_patterns,
    jensen_shannon,
    same_order,
    side_by_side,
    trip_error,
    trip_lengths,
)
from freqdp_db.methods.synthesis.trips import cut_trips
from freqdp_db.model.arrays import Ids, Ints, Metres, owners
from freqdp_db.model.trajectories import Locations, Trajectories

if TYPE_CHECKING:
    from freqdp_db.methods.synthesis.public import Period, Region


_COVERAGE_SIDE = 15
_QUERIES = 300
_SQUARES = 7
_QUERY_SIDES_M = (2_000.0, 18_000.0)
_QUERY_WIDEST = 1 / 3
_QUERY_FLOOR = 0.01
Trips = tuple[Trajectories, Locations]
"""Trips, each a trajectory of its own, and their places."""


def passing_squares(trips: Trajectories, places: Locations, squares: NDArray[np.float64]) -> Metres:
    """Share of the trips whose straight way touches each square."""
    trip = trips.owner
    first = np.maximum(np.arange(trips.samples) - 1, trips.offsets[:-1][trip])
    ax, ay = places.x[trips.location[first]], places.y[trips.location[first]]
    bx, by = places.x[trips.location], places.y[trips.location]
    found = np.zeros(len(squares))
    for number, (west, south, east, north) in enumerate(squares):
        near = (np.maximum(ax, bx) >= west) & (np.minimum(ax, bx) <= east)
        near &= (np.maximum(ay, by) >= south) & (np.minimum(ay, by) <= north)
        near = np.flatnonzero(near)
        # from which to which part of the step, 0 to 1, it is between west and east, and south and north
        low, high = np.zeros(len(near)), np.ones(len(near))
        for start, end, least, most in ((ax, bx, west, east), (ay, by, south, north)):
            move = (end - start)[near]
            goes = move != 0.0
            one, two = (
                np.divide(edge - start[near], move, out=np.zeros(len(near)), where=goes)
                for edge in (least, most)
            )
            low = np.where(goes, np.maximum(low, np.minimum(one, two)), low)
            high = np.where(goes, np.minimum(high, np.maximum(one, two)), high)
        found[number] = len(np.unique(trip[near[low <= high]]))
    return found / max(len(trips), 1)


def compare_trips(box: CellBox, original: Trips, released: Trips) -> dict[str, float]:
    """All metrics, and the mean beside the median of the range queries.

    The squares of these are the same in all experiments.
    """
    trips, places = original
    pair = side_by_side(Pair(trips, released[0], places), released[1])
    sides, places = (pair.original, pair.released), pair.locations
    rng = np.random.default_rng([_SQUARES, _QUERIES])
    widest = _QUERY_WIDEST * min(box.east - box.west, box.north - box.south)
    side = rng.uniform(min(_QUERY_SIDES_M[0], widest), min(_QUERY_SIDES_M[1], widest), _QUERIES)
    west = rng.uniform(box.west, box.east - side)
    south = rng.uniform(box.south, box.north - side)
    squares = np.column_stack([west, south, west + side, south + side])
    before, after = (passing_squares(side, places, squares) for side in sides)
    error = np.abs(after - before) / np.maximum(before, _QUERY_FLOOR)
    lengths = [trip_lengths(side, places) for side in sides]
    cells = box.columns_and_rows(places, _COVERAGE_SIDE)
    passing = [_passing(side, *cells) for side in sides]
    return {
        "trip.te": trip_error(pair, rng, box)["te.trajectory"],
        "trip.de": diameter_error(pair)["de"],
        "trip.length": binned_divergence(
            lengths[0], lengths[1], float(lengths[0].max(initial=0.0))
        ),
        "trip.density": jensen_shannon(*passing),
        "trip.kendall": same_order(*passing),
        "trip.query": float(np.median(error)),
        "trip.query.mean": float(error.mean()),
        "trip.ffp": frequent_patterns(pair, box)["ffp"],
    }


def _passing(side: Trajectories, column: Ids, row: Ids) -> Ints:
    """How many trips pass each cell of the coverage grid."""
    size = _COVERAGE_SIDE**2
    offsets, cells = cell_sequences(side, column, row, _COVERAGE_SIDE)
    once = np.unique(owners(offsets).astype(np.int64) * size + cells)
    return np.bincount(once % size, minlength=size)


MOST_COMPARED = 20_000
"""Of each side at most so many trips are compared, drawn at random."""


def as_trips(side: Trajectories, places: Locations, facts: tuple[Region, Period]) -> Trips:
    """Trips, each a trajectory of its own, with a place for each sample."""
    trips = cut_trips(side, places, *facts)
    if not len(trips):
        raise BadInput(
            "there is no trip in the region and the period",
            remedy="look at both: freqdp dataset show",
        )
    location = np.arange(len(trips.x), dtype=np.int32)
    start = trips.at[trips.offsets[:-1]]
    return Trajectories(trips.offsets, location, trips.at, start), Locations(trips.x, trips.y)


def compared_trips(
    side: Trajectories, places: Locations, facts: tuple[Region, Period], seed: int
) -> Trips:
    """The trips of one side that are compared."""
    trips, of = as_trips(side, places, facts)
    if len(trips) <= MOST_COMPARED:
        return trips, of
    chosen = np.random.default_rng([seed, MOST_COMPARED]).permutation(len(trips))[:MOST_COMPARED]
    return trips.take(np.sort(chosen)), of
