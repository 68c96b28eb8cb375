"""Utility for every kind of release: density, flows, extents, speeds and moves between cells.

Density is counted on samples, everything else on trips that both sides are cut into.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from freqdp_db.evaluation.pair import CellBox, Pair, hours_of_day
from freqdp_db.evaluation.utility.losses import (
    binned_divergence,
    diameter_error,
    frequent_patterns,
    in_trips,
    inside,
    jensen_shannon,
    query_error,
    same_members,
    same_order,
    side_by_side,
    step_lengths,
    trip_error,
)
from freqdp_db.methods.frequency.counts import count_frequencies
from freqdp_db.model.arrays import Ints, Metres
from freqdp_db.model.trajectories import Locations, Trajectories

DENSITY_CELL_M = 500.0
MOVE_CELL_M = 1_000.0
BUSIEST = 100
_HOURS = 24
_FEW_CODES = 1 << 24
"""Up to so many are counted in a table of all; more are sorted."""
_LEAST_MOVES = 20
_KM_H = 3_600.0


def numbered_cells(places: Locations, side_m: float) -> tuple[Ints, Ints, Ints]:
    """Number of each place's cell, and column and row of each place: only cells with places."""
    column = np.floor(places.x / side_m).astype(np.int64)
    row = np.floor(places.y / side_m).astype(np.int64)
    south, north = (int(row.min()), int(row.max())) if len(row) else (0, 0)
    _, number = np.unique(column * (north - south + 1) + (row - south), return_inverse=True)
    return number.astype(np.int64), column, row


def counts_alike(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """How often each code occurs on both sides, over the codes of either."""
    most = max(int(a.max(initial=-1)), int(b.max(initial=-1))) + 1
    if most > _FEW_CODES:
        # number the codes that there are, in their order
        codes, number = np.unique(np.concatenate([a, b]), return_inverse=True)
        a, b, most = number[: len(a)], number[len(a) :], len(codes)
    before, after = (np.bincount(side, minlength=most).astype(np.int64) for side in (a, b))
    there = (before > 0) | (after > 0)
    return before[there], after[there]


def largest_errors(name: str, before: Ints, after: Ints) -> dict[str, float]:
    """Mean relative error of the 100 largest counts of D, as counts and as shares of the whole."""
    top = np.argsort(-before, kind="stable")[:BUSIEST]
    top = top[before[top] > 0]
    if not len(top):
        return {f"{name}.counts": 0.0, f"{name}.shares": 0.0}
    scale = before.sum() / after.sum() if after.sum() else 0.0
    return {
        f"{name}.counts": float((np.abs(after[top] - before[top]) / before[top]).mean()),
        f"{name}.shares": float((np.abs(scale * after[top] - before[top]) / before[top]).mean()),
    }


def density_error(pair: Pair) -> dict[str, float]:
    """`density` by (cell of 500 m, hour of the day) and `density.map` by cell: divergences.

    Beside each the mean relative error of the 100 busiest, as counts and as shares.
    """
    cell, _, _ = numbered_cells(pair.locations, DENSITY_CELL_M)
    where = [cell[side.location] for side in (pair.original, pair.released)]
    when = [hours_of_day(side.at, pair.timezone) for side in (pair.original, pair.released)]
    found: dict[str, float] = {}
    for name, codes in (
        ("density", [c * _HOURS + h for c, h in zip(where, when, strict=True)]),
        ("density.map", where),
    ):
        before, after = counts_alike(*codes)
        found[name] = jensen_shannon(before, after)
        found |= largest_errors(f"{name}.busiest", before, after)
    return found


def speed_error(trips: Pair) -> dict[str, float]:
    """`speed`: median error, in km/h, of the mean speed by cell of 500 m with enough moves."""
    cell, _, _ = numbered_cells(trips.locations, DENSITY_CELL_M)
    size = int(cell.max(initial=-1)) + 1
    speeds, enough = [], np.ones(size, np.bool_)
    for side in (trips.original, trips.released):
        step = inside(side)
        step = step[side.at[step + 1] > side.at[step]]
        at = cell[side.location[step]]
        metres = np.bincount(at, step_lengths(side, trips.locations, step), minlength=size)
        time = np.bincount(at, (side.at[step + 1] - side.at[step]).astype(np.float64), size)
        enough &= np.bincount(at, minlength=size) >= _LEAST_MOVES
        speeds.append(metres / np.maximum(time, 1.0) * _KM_H * 1_000.0)
    if not enough.any():
        return {}
    return {"speed": float(np.median(np.abs(speeds[1] - speeds[0])[enough]))}


def transition_error(trips: Pair) -> dict[str, float]:
    """`transitions`: divergence of the moves between neighbouring cells of 1 km."""
    number, column, row = numbered_cells(trips.locations, MOVE_CELL_M)
    cells = int(number.max(initial=-1)) + 1

    def moves(side: Trajectories) -> Ints:
        step = inside(side)
        a, b = side.location[step], side.location[step + 1]
        wide, high = np.abs(column[b] - column[a]), np.abs(row[b] - row[a])
        beside = np.maximum(wide, high) == 1
        codes: Ints = number[a[beside]] * cells + number[b[beside]]
        return codes

    return {
        "transitions": jensen_shannon(*counts_alike(moves(trips.original), moves(trips.released)))
    }


_TAIL_PERCENT = 99.0
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
    return same_members(*tops)


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
        # a bogus position must not stretch the bins
        top = float(np.percentile(values[0], _TAIL_PERCENT)) if len(values[0]) else 0.0
        found[name] = binned_divergence(values[0], values[1], top)
    return found


def _durations(side: Trajectories) -> Metres:
    lasting: Metres = (side.at[side.offsets[1:] - 1] - side.at[side.offsets[:-1]]) / 1e6
    return lasting


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
        count_frequencies(replace(s, location=cells[s.location]), size).tf
        for s in (trips.original, trips.released)
    ]
    return same_order(*touched)


def usefulness(
    pair: Pair, released_places: Locations, rng: np.random.Generator
) -> dict[str, float]:
    """Every metric of this kind. `pair.released` counts its places in `released_places`."""
    both = side_by_side(pair, released_places)
    trips = in_trips(both)
    return {
        **density_error(both),
        **flow_error(trips),
        **extent_errors(trips),
        **speed_error(trips),
        **transition_error(trips),
        **as_published(trips, rng),
    }
