"""Distances, as every kernel computes them: no fastmath, losses in whole millimetres."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# mypy cannot see through numba's decorators; the kernels below take and return scalars.


@njit(cache=True)
def common_direction(ends, lo, hi):  # type: ignore[no-untyped-def]
    """The direction of length 1 that these segments have on the whole; none counts as pointing left."""
    ux, uy = 0.0, 0.0
    for s in range(lo, hi):
        dx, dy = ends[s, 2] - ends[s, 0], ends[s, 3] - ends[s, 1]
        if dx < 0.0 or (dx == 0.0 and dy < 0.0):
            dx, dy = -dx, -dy
        ux += dx
        uy += dy
    length = math.sqrt(ux * ux + uy * uy)
    if length > 0.0:
        return ux / length, uy / length
    return 1.0, 0.0


@njit(cache=True)
def squared_distance(px, py, ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """Squared distance in metres from a point to the segment from a to b."""
    dx = bx - ax
    dy = by - ay
    length2 = dx * dx + dy * dy
    t = 0.0
    if length2 > 0.0:
        t = ((px - ax) * dx + (py - ay) * dy) / length2
        if t < 0.0:
            t = 0.0
        elif t > 1.0:
            t = 1.0
    ex = px - (ax + t * dx)
    ey = py - (ay + t * dy)
    return ex * ex + ey * ey


@njit(cache=True)
def to_mm(squared_m):  # type: ignore[no-untyped-def]
    """Loss in whole millimetres from a squared distance in metres."""
    return np.int64(math.floor(math.sqrt(squared_m) * 1000.0 + 0.5))


@njit(cache=True)
def projection(px, py, ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """Where on the segment the point falls, from 0 to 1; 1/2 on a segment of length 0."""
    dx = bx - ax
    dy = by - ay
    length2 = dx * dx + dy * dy
    if length2 == 0.0:
        return 0.5
    t = ((px - ax) * dx + (py - ay) * dy) / length2
    return min(1.0, max(0.0, t))


@njit(cache=True)
def box_squared_distance(px, py, x_min, y_min, x_max, y_max):  # type: ignore[no-untyped-def]
    """MINdist (paper, Def. "Point-Grid Cell Distance"), squared."""
    dx = max(x_min - px, 0.0, px - x_max)
    dy = max(y_min - py, 0.0, py - y_max)
    return dx * dx + dy * dy
