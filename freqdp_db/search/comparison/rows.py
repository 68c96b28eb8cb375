"""SegmentRows of segments to be scanned from end to end: what all strategies but the default one file.

Equal segments of one trajectory are kept once. Coordinates are kept column by column. The linear
scan goes row by row; cells are first compared in blocks and in single precision, which the compiler
turns into instructions that do eight segments at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.search.best import limit_of, offer
from freqdp_db.search.distance import squared_distance, to_mm
from freqdp_db.search.segments import distinct_segments

BLOCK = 64
_TINY = 1e-300
_ZERO, _ONE, _TINY_SINGLE = np.float32(0.0), np.float32(1.0), np.float32(1e-30)
_SKETCH_ERROR = 4e-6


class SegmentRows(NamedTuple):
    """Distinct segments of trajectories, as columns."""

    ax: Metres
    ay: Metres
    bx: Metres
    by: Metres
    owner: Ids
    position: Ids
    """Trajectory of each segment, and where in it the segment begins."""

    def take(self, order: Ints) -> SegmentRows:
        return SegmentRows(
            self.ax[order],
            self.ay[order],
            self.bx[order],
            self.by[order],
            self.owner[order],
            self.position[order],
        )


def distinct_rows(trajectories: Trajectories, locations: Locations) -> SegmentRows:
    """Every distinct segment, trajectory by trajectory."""
    segments = distinct_segments(trajectories)
    return SegmentRows(
        locations.x[segments.tail],
        locations.y[segments.tail],
        locations.x[segments.head],
        locations.y[segments.head],
        segments.trajectory,
        segments.position,
    )


@njit(cache=True, inline="always")
def rough_squared_distance(px, py, ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """`squared_distance` but for its last bits: to compare with a limit, which has half a
    millimetre to spare.

    Without branches: half of the segments have length 0 and most points project beyond an end, by
    no rule that a processor could guess, and a wrong guess costs as much as the arithmetic.
    """
    dx, dy = bx - ax, by - ay
    ux, uy = px - ax, py - ay
    length2 = dx * dx + dy * dy
    t = max(0.0, min(ux * dx + uy * dy, length2)) / max(length2, _TINY)
    ex, ey = ux - t * dx, uy - t * dy
    return ex * ex + ey * ey


@njit(cache=True)
def scan_rows(  # type: ignore[no-untyped-def]
    ax, ay, bx, by, owner, position, px, py,
    best_t, best_p, best_d, skipped, listed, slot, rank, q, held,
):  # fmt: skip
    """Offer rows to the list of query q; how many it holds then.

    They are handed over as slices: an index that begins at 0 cannot be negative, so that the
    compiler need not care for counting from the end.
    """
    limit2 = limit_of(best_d, held)
    for s in range(len(ax)):
        # the limit before anything else
        if rough_squared_distance(px, py, ax[s], ay[s], bx[s], by[s]) > limit2:
            continue
        if skipped[owner[s]] != q:
            loss = to_mm(squared_distance(px, py, ax[s], ay[s], bx[s], by[s]))
            held = offer(
                best_t, best_p, best_d, listed, slot, rank, q, held, owner[s], position[s], loss
            )
            limit2 = limit_of(best_d, held)
    return held


class Sketch(NamedTuple):
    """The same segments in single precision, from an origin nearby: half the memory to read."""

    ends: NDArray[np.float32]
    """[coordinate, row]: ax, ay, bx, by."""
    reach: float
    """No coordinate is further from the origin."""


def sketch(rows: SegmentRows, x: float, y: float) -> Sketch:
    """From the origin (x, y)."""
    ends = np.stack([rows.ax - x, rows.ay - y, rows.bx - x, rows.by - y])
    return Sketch(ends.astype(np.float32), float(np.abs(ends).max(initial=0.0)))


@njit(cache=True)
def scan_blocks(  # type: ignore[no-untyped-def]
    ends, origin_x, origin_y, reach, begin, end, ax, ay, bx, by, owner, position, px, py,
    best_t, best_p, best_d, skipped, listed, slot, rank, q, held,
):  # fmt: skip
    """The same for rows begin to end - 1, and first ask of each block whether anything is near."""
    limit2 = limit_of(best_d, held)
    x, y = np.float32(px - origin_x), np.float32(py - origin_y)
    # what rounding to single precision can make of a distance at most
    slack = _SKETCH_ERROR * (reach + abs(px - origin_x) + abs(py - origin_y)) + 0.01
    enough = np.float32((math.sqrt(limit2) + slack) ** 2)
    for first in range(begin, end, BLOCK):
        last = min(first + BLOCK, end)
        if _near_rows(
            ends[0, first:last], ends[1, first:last], ends[2, first:last], ends[3, first:last],
            x, y, enough,
        ):  # fmt: skip
            held = scan_rows(
                ax[first:last], ay[first:last], bx[first:last], by[first:last],
                owner[first:last], position[first:last], px, py,
                best_t, best_p, best_d, skipped, listed, slot, rank, q, held,
            )  # fmt: skip
            limit2 = limit_of(best_d, held)
            enough = np.float32((math.sqrt(limit2) + slack) ** 2)
    return held


@njit(cache=True, fastmath={"reassoc", "nsz"})
def _near_rows(ax, ay, bx, by, x, y, enough):  # type: ignore[no-untyped-def]
    """How many rows are near, in single precision throughout.

    A sum of ones is exact in any order, which is all that the compiler may change.
    """
    near = _ZERO
    for s in range(len(ax)):
        near += _ONE if rough_single(x, y, ax[s], ay[s], bx[s], by[s]) <= enough else _ZERO
    return near


@njit(cache=True, inline="always")
def rough_single(x, y, ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """`rough_squared_distance` in single precision."""
    dx, dy = bx - ax, by - ay
    ux, uy = x - ax, y - ay
    length2 = dx * dx + dy * dy
    t = max(_ZERO, min(ux * dx + uy * dy, length2)) / max(length2, _TINY_SINGLE)
    ex, ey = ux - t * dx, uy - t * dy
    return ex * ex + ey * ey
