"""Bundles: inside a cell, segments that lie along each other are laid out together.

A query passes near few of the long segments of its surroundings, but inside the axis-parallel box
of nearly all of them. So the segments of a cell are ordered by the line they lie on (direction and
offset), and every eight of them get a box turned into their direction: a strip, for long
segments. The distance to that box bounds the distance to each of them from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.model import Ints, Metres, offsets_from
from freqdp_db.parallel import over_ranges
from freqdp_db.search.filing import Filed
from freqdp_db.search.grid import piece_of

SIZE = 8
_SLACK_M = 1e-6  # for the rounding of turned coordinates


@dataclass(frozen=True)
class Bundles:
    """Runs of segments, in filed order."""

    of_cell: Ints
    """Bundles of cell i are of_cell[i] to of_cell[i + 1] - 1."""
    offsets: Ints
    """Segments of bundle b are offsets[b] to offsets[b + 1] - 1."""
    strip: Metres
    """Direction (x, y), then the bounds along it and across it."""


@njit(cache=True)
def _forward(ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """The vector of a segment, turned so that it does not point left."""
    dx, dy = bx - ax, by - ay
    if dx < 0.0 or (dx == 0.0 and dy < 0.0):
        return -dx, -dy
    return dx, dy


@njit(nogil=True, cache=True)
def _strips(first, last, offsets, ends, part, strip):  # type: ignore[no-untyped-def]
    for b in range(first, last):
        ux, uy = 0.0, 0.0
        for s in range(offsets[b], offsets[b + 1]):
            dx, dy = _forward(ends[s, 0], ends[s, 1], ends[s, 2], ends[s, 3])
            ux += dx
            uy += dy
        length = math.sqrt(ux * ux + uy * uy)
        if length > 0.0:
            ux, uy = ux / length, uy / length
        else:
            ux, uy = 1.0, 0.0
        along_min = across_min = np.inf
        along_max = across_max = -np.inf
        for s in range(offsets[b], offsets[b + 1]):
            ax, ay, bx, by = piece_of(
                ends[s, 0], ends[s, 1], ends[s, 2], ends[s, 3], part[s, 0], part[s, 1]
            )
            for px, py in ((ax, ay), (bx, by)):
                along, across = px * ux + py * uy, py * ux - px * uy
                along_min, along_max = min(along_min, along), max(along_max, along)
                across_min, across_max = min(across_min, across), max(across_max, across)
        strip[b, 0], strip[b, 1] = ux, uy
        strip[b, 2], strip[b, 3] = along_min - _SLACK_M, along_max + _SLACK_M
        strip[b, 4], strip[b, 5] = across_min - _SLACK_M, across_max + _SLACK_M


@njit(cache=True)
def strip_squared_distance(px, py, strip, b):  # type: ignore[no-untyped-def]
    """Squared distance from a point to the turned box of bundle b."""
    along = px * strip[b, 0] + py * strip[b, 1]
    across = py * strip[b, 0] - px * strip[b, 1]
    u = max(strip[b, 2] - along, 0.0, along - strip[b, 3])
    v = max(strip[b, 4] - across, 0.0, across - strip[b, 5])
    return u * u + v * v


def tie_bundles(filed: Filed) -> Bundles:
    """Cut each cell's rows into bundles and fit their boxes."""
    cells = filed.grid.segment_offsets
    per_cell = -(-np.diff(cells) // SIZE)
    of_cell = offsets_from(per_cell)
    nth = np.arange(of_cell[-1]) - np.repeat(of_cell[:-1], per_cell)
    begin = np.repeat(cells[:-1], per_cell) + nth * SIZE
    offsets = np.append(begin, len(filed)).astype(np.int64)
    strip = np.empty((len(begin), 6))
    over_ranges(_strips, offsets, offsets, filed.ends, filed.part, strip)
    return Bundles(of_cell, offsets, strip)
