"""Where and when there are many, how fast they go there, and from which cell to which they move."""

from __future__ import annotations

import numpy as np

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.evaluation.pair import Pair, hours_of_day
from freqdp_db.evaluation.utility.divergence import jensen_shannon
from freqdp_db.evaluation.utility.journeys import inside, step_lengths

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
