"""Who travels from where to where, how far and how long: counted on trips of both sides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.evaluation.pair import CellBox, Pair, hours_of_day
from freqdp_db.evaluation.utility.crowding import (
    BUSIEST,
    MOVE_CELL_M,
    counts_alike,
    largest_errors,
    numbered_cells,
)
from freqdp_db.evaluation.utility.divergence import jensen_shannon
from freqdp_db.evaluation.utility.journeys import inside, step_lengths
from freqdp_db.evaluation.utility.losses import diameter_error, query_error, trip_error
from freqdp_db.evaluation.utility.patterns import frequent_patterns
from freqdp_db.frequency.counts import count_frequencies

_BINS = 20
_TAIL_PERCENT = 99.0
_HOURS = 24
_COVERAGE_SIDE = 15
_EDGE_PERCENT = 1.0
_QUERIES = 200


def flow_error(trips: Pair) -> dict[str, float]:
    """`flow` by (start cell, end cell) of 1 km, `flow.hour` with the hour of the start.

    The value is the mean relative error of the 100 largest of D as shares of all trips; beside it
    the same in counts, and `.f1`: how many of the 100 largest are the same.
    """
    cell, _, _ = numbered_cells(trips.locations, MOVE_CELL_M)
    cells = int(cell.max(initial=-1)) + 1
    codes, hours = [], []
    for side in (trips.original, trips.released):
        first, last = side.offsets[:-1], side.offsets[1:] - 1
        codes.append(cell[side.location[first]] * cells + cell[side.location[last]])
        hours.append(hours_of_day(side.at[first], trips.timezone))
    found: dict[str, float] = {}
    for name, both in (
        ("flow", codes),
        ("flow.hour", [c * _HOURS + h for c, h in zip(codes, hours, strict=True)]),
    ):
        before, after = counts_alike(*both)
        errors = largest_errors(name, before, after)
        found |= {
            name: errors[f"{name}.shares"],
            f"{name}.counts": errors[f"{name}.counts"],
            f"{name}.f1": _same_largest(before, after),
        }
    return found


def _same_largest(before: Ints, after: Ints) -> float:
    """F1 of the 100 largest of both sides; ties go to the lower code."""
    tops = []
    for counts in (before, after):
        top = np.argsort(-counts, kind="stable")[:BUSIEST]
        tops.append(top[counts[top] > 0])
    size = len(tops[0]) + len(tops[1])
    return 2 * len(np.intersect1d(tops[0], tops[1])) / size if size else 1.0


def trip_lengths(side: Trajectories, places: Locations) -> Metres:
    """Metres along each trip."""
    step = inside(side)
    metres: Metres = np.bincount(
        side.owner[step], weights=step_lengths(side, places, step), minlength=len(side)
    ).astype(np.float64)
    return metres


def extent_errors(trips: Pair) -> dict[str, float]:
    """`length` and `duration`: divergences over 20 bins up to the 99th percentile of D's trips."""
    found = {}
    for name, values in (
        ("length", [trip_lengths(s, trips.locations) for s in (trips.original, trips.released)]),
        ("duration", [_durations(s) for s in (trips.original, trips.released)]),
    ):
        found[name] = _binned_divergence(values[0], values[1])
    return found


def _durations(side: Trajectories) -> Metres:
    lasting: Metres = (side.at[side.offsets[1:] - 1] - side.at[side.offsets[:-1]]) / 1e6
    return lasting


def _binned_divergence(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """Equal bins from 0, the last one without end: a bogus position must not stretch them all."""
    top = float(np.percentile(before, _TAIL_PERCENT)) if len(before) else 0.0
    width = top / _BINS if top > 0 else 1.0

    def histogram(values: NDArray[np.float64]) -> Ints:
        bins = np.minimum(values // width, _BINS - 1).astype(np.int64)
        return np.bincount(bins, minlength=_BINS).astype(np.int64)

    return jensen_shannon(histogram(before), histogram(after))


def as_published(trips: Pair, rng: np.random.Generator) -> dict[str, float]:
    """As AdaTrace and PrivTrace count, with a trip as a trajectory: to compare with their tables.

    Mean relative error of 200 queries (at least 1 % of the trips below the line), Kendall's tau of
    how many trips touch each of 15 x 15 cells, F1 of patterns, and errors of trips and diameters.
    """
    found = query_error(trips, rng, queries=_QUERIES)
    return {
        "published.query": found["query_error.mean"],
        "published.kendall": _coverage(trips),
        "published.patterns": frequent_patterns(trips)["ffp"],
        "published.trips": trip_error(trips, rng)["te.trajectory"],
        "published.diameters": diameter_error(trips)["de"],
    }


def _coverage(trips: Pair) -> float:
    """Kendall's tau of the number of trips in each cell."""
    cells = CellBox.of(trips, _EDGE_PERCENT).cells(trips.locations, _COVERAGE_SIDE)
    size = _COVERAGE_SIDE * _COVERAGE_SIDE
    touched = [
        count_frequencies(Trajectories(s.offsets, cells[s.location], s.at, s.start), size).tf
        for s in (trips.original, trips.released)
    ]
    if np.ptp(touched[0]) == 0 or np.ptp(touched[1]) == 0:  # no order to keep
        return float(np.array_equal(touched[0], touched[1]))
    return float(kendalltau(touched[0], touched[1]).statistic)
