"""The hierarchical grid: which cell a segment is filed in, and the directory of occupied cells.

A segment is filed by its extent: at the finest level whose cells are at least as long as it, in
the cell of its midpoint. Cells are numbered so that the root is 1 and the children of c are
4c .. 4c+3, along the Z-order curve. Every cell keeps the tight box of its own segments and of its
subtree, which is what the search prunes by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.model import Ints, Locations, Metres
from freqdp_db.parallel import over_ranges
from freqdp_db.search.segments import Segments

MAX_LEVEL = 14
_SEGMENTS_PER_CELL = 8
_PERCENTILES = (0.1, 99.9)
ROOT = 1


@dataclass(frozen=True)
class Frame:
    """The square that the grid divides. What lies outside is filed at the root."""

    x: float
    y: float
    side: float
    levels: int
    """Number of the finest level; the root is level 0."""


@dataclass(frozen=True)
class Grid:
    """The directory: occupied cells and their ancestors, in order of cell id."""

    frame: Frame
    cell: Ints
    """Cell ids, ascending."""
    segment_offsets: Ints
    """Segments of cell i, in filed order."""
    child_offsets: Ints
    """Children of cell i are cells child_offsets[i, 0] to child_offsets[i, 1] - 1."""
    box: Metres
    """Tight x_min, y_min, x_max, y_max of the cell's own segments (min > max: none)."""
    tree_box: Metres
    """The same for the cell and all below it."""
    tree_segments: Ints


def choose_frame(locations: Locations, used: Ints, segments: int) -> Frame:
    """The box of the 0.1 to 99.9 percentiles of the samples, as fine as the segments are dense.

    `used` counts the samples at each location.
    """
    x_low, x_high = _weighted_percentiles(locations.x, used)
    y_low, y_high = _weighted_percentiles(locations.y, used)
    side = max(x_high - x_low, y_high - y_low, 1.0)
    levels = math.ceil(math.log2(max(math.sqrt(segments / _SEGMENTS_PER_CELL), 1.0)))
    return Frame(
        x=(x_low + x_high - side) / 2,
        y=(y_low + y_high - side) / 2,
        side=side,
        levels=min(max(levels, 1), MAX_LEVEL),
    )


def _weighted_percentiles(values: Metres, weights: Ints) -> tuple[float, float]:
    if len(values) == 0:
        return 0.0, 0.0
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    at = np.searchsorted(total, np.asarray(_PERCENTILES) / 100 * total[-1])
    low, high = values[order[np.minimum(at, len(values) - 1)]]
    return float(low), float(high)


@njit(cache=True)
def interleave(ix, iy):  # type: ignore[no-untyped-def]
    """Z-order: the bits of x and y by turns."""
    z = np.int64(0)
    for bit in range(31):
        z |= ((ix >> bit) & 1) << (2 * bit)
        z |= ((iy >> bit) & 1) << (2 * bit + 1)
    return z


@njit(nogil=True, cache=True)
def _file(first, last, tail, head, x, y, frame_x, frame_y, side, levels, cell):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        ax, ay = x[tail[i]], y[tail[i]]
        bx, by = x[head[i]], y[head[i]]
        extent = max(abs(ax - bx), abs(ay - by))
        level = levels
        size = side / (1 << levels)
        while level > 0 and size < extent:
            level -= 1
            size *= 2.0
        u = math.floor(((ax + bx) / 2 - frame_x) / size)
        v = math.floor(((ay + by) / 2 - frame_y) / size)
        cells = 1 << level
        if u < 0 or v < 0 or u >= cells or v >= cells:
            cell[i] = ROOT
        else:
            cell[i] = (np.int64(1) << (2 * level)) | interleave(np.int64(u), np.int64(v))


def file_segments(segments: Segments, locations: Locations, frame: Frame) -> Ints:
    """Cell id of each segment."""
    cell = np.empty(len(segments), np.int64)
    over_ranges(
        _file,
        np.arange(len(segments) + 1),
        segments.tail,
        segments.head,
        locations.x,
        locations.y,
        frame.x,
        frame.y,
        frame.side,
        frame.levels,
        cell,
    )
    return cell


def build_grid(frame: Frame, filed: Ints, boxes: Metres) -> Grid:
    """The directory over segments in order of their cells; boxes: x_min, y_min, x_max, y_max each."""
    occupied, begin = np.unique(filed, return_index=True)
    cells = occupied
    parents = occupied
    while len(parents) and parents[-1] > ROOT:
        parents = np.unique(parents[parents > ROOT] >> 2)
        cells = np.union1d(cells, parents)
    if len(cells) == 0:
        cells = np.array([ROOT])
    at = np.searchsorted(cells, occupied)
    box = np.tile(np.array([np.inf, np.inf, -np.inf, -np.inf]), (len(cells), 1))
    if len(occupied):
        box[at, :2] = np.minimum.reduceat(boxes[:, :2], begin)
        box[at, 2:] = np.maximum.reduceat(boxes[:, 2:], begin)
    own = np.zeros(len(cells), np.int64)
    own[at] = np.diff(np.append(begin, len(filed)))
    tree_box, tree_segments = box.copy(), own.copy()
    # a parent's id is smaller than its children's: one pass from the end gathers all subtrees
    _gather(cells, np.searchsorted(cells, cells >> 2), tree_box, tree_segments)
    segment_offsets = np.zeros(len(cells) + 1, np.int64)
    np.cumsum(own, out=segment_offsets[1:])
    children = np.searchsorted(cells, np.stack([cells << 2, (cells << 2) + 4], axis=1))
    return Grid(
        frame, cells, segment_offsets, children.astype(np.int64), box, tree_box, tree_segments
    )


@njit(cache=True)
def _gather(cells, parent, tree_box, tree_segments):  # type: ignore[no-untyped-def]
    for i in range(len(cells) - 1, 0, -1):
        p = parent[i]
        tree_segments[p] += tree_segments[i]
        for k in range(2):
            tree_box[p, k] = min(tree_box[p, k], tree_box[i, k])
            tree_box[p, k + 2] = max(tree_box[p, k + 2], tree_box[i, k + 2])


def levels_of(cells: Ints) -> Ints:
    """Level of each cell id: half the position of its highest bit."""
    return (np.frexp(cells.astype(np.float64))[1] - 1) // 2
