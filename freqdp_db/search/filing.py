"""Filing: segments in the order of the grid, with its directory.

A segment goes to the finest level whose cells are at least as long as it, into the cell of its
midpoint; inside a cell, segments that lie along each other stand together (see `bundles`). For the
search, very long segments are cut and filed in pieces: whole, they would be near every query. Each
piece stands for its whole segment; only where it is filed follows from the piece.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.ranges import joined, map_each
from freqdp_db.search.grid import Frame, Grid, build_directory, choose_frame, interleave, piece_of
from freqdp_db.search.segments import Segments, distinct_segments

_LONGEST_CELLS = 128
_MOST_PIECES = 64
# Direction and offset of a segment's line take so many bits each; with the cell id they fill 63.
_LINE_BITS = 7


@dataclass(frozen=True)
class Filed:
    """Rows in the order of the grid: each is a segment, or a piece of a long one."""

    grid: Grid
    segments: Segments
    row: Ids
    """Which of the segments a row is."""
    part: NDArray[np.int16]
    """Which piece of how many."""
    ends: Metres
    """ax, ay, bx, by of the whole segment of each row."""

    def __len__(self) -> int:
        return len(self.row)


def file_trajectories(trajectories: Trajectories, locations: Locations, *, cut: bool) -> Filed:
    """File every distinct segment: whole, as a build stores them, or cut, as the search wants them."""
    used = np.bincount(trajectories.location, minlength=len(locations))
    frame = choose_frame(locations, used)
    return file_segments(distinct_segments(trajectories), locations, frame, cut=cut)


def file_segments(segments: Segments, locations: Locations, frame: Frame, *, cut: bool) -> Filed:
    """File these segments in the cells of a frame."""
    plane = (segments.tail, segments.head, locations.x, locations.y)
    longest = frame.side / 2**frame.levels * _LONGEST_CELLS if cut else math.inf
    row, part = joined(map_each(_cut_up, len(segments), *plane, longest))
    box = (frame.x, frame.y, frame.side, frame.levels)
    (key,) = joined(map_each(_keys, len(row), row, part, *plane, *box))
    order = np.argsort(key, kind="stable")
    filed_row, filed_part, ends = joined(map_each(_lay_out, len(row), order, row, part, *plane))
    cell = key[order] >> (2 * _LINE_BITS)
    return Filed(
        build_directory(frame, cell, ends, filed_part), segments, filed_row, filed_part, ends
    )


@njit(nogil=True, cache=True)
def _cut_up(first, last, tail, head, x, y, longest):  # type: ignore[no-untyped-def]
    """Segments in pieces that are not too long: which segment, and which piece of how many."""
    count = np.ones(last - first, np.int16)
    total = 0
    for i in range(first, last):
        extent = max(abs(x[tail[i]] - x[head[i]]), abs(y[tail[i]] - y[head[i]]))
        if extent > longest:
            count[i - first] = min(math.ceil(extent / longest), _MOST_PIECES)
        total += count[i - first]
    row, part = np.empty(total, np.int32), np.empty((total, 2), np.int16)
    k = 0
    for i in range(first, last):
        for piece in range(count[i - first]):
            row[k], part[k, 0], part[k, 1] = i, piece, count[i - first]
            k += 1
    return row, part


@njit(cache=True)
def clamp(share, steps):  # type: ignore[no-untyped-def]
    """Which of so many steps a share from 0 to 1 falls into."""
    return min(max(np.int64(share * steps), 0), steps - 1)


@njit(nogil=True, cache=True)
def _keys(  # type: ignore[no-untyped-def]
    first, last, row, part, tail, head, x, y, frame_x, frame_y, side, levels
):
    """Cell id, then direction and offset of the line by turns of their bits."""
    key = np.empty(last - first, np.int64)
    steps = 1 << _LINE_BITS
    for i in range(first, last):
        a, b = tail[row[i]], head[row[i]]
        ax, ay, bx, by = piece_of(x[a], y[a], x[b], y[b], part[i, 0], part[i, 1])
        extent = max(abs(ax - bx), abs(ay - by))
        level = levels
        size = side / (1 << levels)
        while level > 0 and size < extent:
            level -= 1
            size *= 2.0
        # the far edges of the square, and what lies outside, belong to the cells at its border
        mx, my = (ax + bx) / 2 - frame_x, (ay + by) / 2 - frame_y
        u, v = clamp(mx / side, 1 << level), clamp(my / side, 1 << level)
        cell = (np.int64(1) << (2 * level)) | interleave(u, v)
        # the line, seen from the middle of the cell
        mx -= (u + 0.5) * size
        my -= (v + 0.5) * size
        dx, dy = bx - ax, by - ay
        if dx < 0.0 or (dx == 0.0 and dy < 0.0):
            dx, dy = -dx, -dy
        length = math.sqrt(dx * dx + dy * dy)
        if length > 0.0:
            turn = math.atan2(dy, dx) / math.pi + 0.5
            across = (my * dx - mx * dy) / length
        else:
            # a stay has no direction: by its place, then
            turn = mx / (1.5 * size) + 0.5
            across = my
        p = clamp(turn, steps)
        q = clamp(across / (1.5 * size) + 0.5, steps)
        z = np.int64(0)
        for bit in range(_LINE_BITS - 1, -1, -1):
            z = (z << 2) | (((q >> bit) & 1) << 1) | ((p >> bit) & 1)
        key[i - first] = (cell << (2 * _LINE_BITS)) | z
    return (key,)


@njit(nogil=True, cache=True)
def _lay_out(first, last, order, row, part, tail, head, x, y):  # type: ignore[no-untyped-def]
    size = last - first
    out_row, out_part = np.empty(size, np.int32), np.empty((size, 2), np.int16)
    ends = np.empty((size, 4), np.float64)
    for r in range(size):
        i = order[first + r]
        s = row[i]
        out_row[r] = s
        out_part[r, 0], out_part[r, 1] = part[i, 0], part[i, 1]
        a, b = tail[s], head[s]
        ends[r, 0], ends[r, 1], ends[r, 2], ends[r, 3] = x[a], y[a], x[b], y[b]
    return out_row, out_part, ends


def cells_of(filed: Filed) -> Ints:
    """Cell id of each row."""
    return np.repeat(filed.grid.cell, np.diff(filed.grid.segment_offsets))
