"""The hierarchical grid: the segments that it files, the square it divides, the directory of its cells.

Cells are numbered so that the root is 1 and the children of c are 4c .. 4c+3, along the Z-order
curve. Every cell keeps the tight box of its own segments and of its subtree, which is what the
search prunes by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_each, map_ranges
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_from, owners, within
from freqdp_db.model.kernels import stable_order
from freqdp_db.model.trajectories import Locations, Trajectories

MAX_LEVEL = 24
_CROWDING = 1.5
ROOT = 1


@dataclass(frozen=True)
class Segments:
    """Equal segments of one trajectory are kept once, with their count.

    A trajectory of one sample has one segment of length 0; an empty one has none.
    """

    trajectory: Ids
    position: Ids
    """Where in its trajectory the first occurrence begins."""
    tail: Ids
    head: Ids
    """Locations that it goes from and to."""
    occurrences: Ids

    def __len__(self) -> int:
        return len(self.trajectory)

    def take(self, order: Ints) -> Segments:
        return Segments(*(column[order] for column in vars(self).values()))

    def then(self, others: Segments) -> Segments:
        """These, and others after them."""
        both = zip(vars(self).values(), vars(others).values(), strict=True)
        return Segments(*map(np.concatenate, both))


def distinct_segments(trajectories: Trajectories) -> Segments:
    """Segments in order of (trajectory, tail, head)."""
    parts = map_ranges(_group, trajectories.offsets, trajectories.offsets, trajectories.location)
    return Segments(*joined(parts))


@njit(nogil=True, cache=True)
def _group(first, last, offsets, location):  # type: ignore[no-untyped-def]
    """The columns of `Segments`."""
    room = offsets[last] - offsets[first]
    owner, position = np.empty(room, np.int32), np.empty(room, np.int32)
    tail, head = np.empty(room, np.int32), np.empty(room, np.int32)
    count = np.empty(room, np.int32)
    k = -1
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        if hi == lo:
            continue
        steps = max(hi - lo - 1, 1)
        key = np.empty(steps, np.int64)
        for i in range(steps):
            a, b = location[lo + i], location[min(lo + i + 1, hi - 1)]
            key[i] = (np.int64(a) << 32) | np.int64(b)
        # stable: the first of equal ones is the first occurrence
        order = stable_order(key)
        for j in range(steps):
            i = order[j]
            if j > 0 and key[i] == key[order[j - 1]]:
                count[k] += 1
                continue
            k += 1
            owner[k], position[k], count[k] = t, i, 1
            tail[k], head[k] = location[lo + i], location[min(lo + i + 1, hi - 1)]
    k += 1
    # copies, so that the room for repeats is free while other ranges are at work
    return (
        owner[:k].copy(), position[:k].copy(), tail[:k].copy(), head[:k].copy(), count[:k].copy()
    )  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """The square that the grid divides."""

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


def choose_frame(locations: Locations, used: Ints) -> Frame:
    """A square around all locations in use, divided until dividing helps no more.

    `used` counts the samples at each location. Far outliers stretch the square, so the finest
    level follows from the crowd and not from the square: cells are halved while that still thins
    out the cell that a typical sample is in.
    """
    seen = np.flatnonzero(used)
    if len(seen) == 0:
        return Frame(0.0, 0.0, 1.0, 1)
    px, py, weight = locations.x[seen], locations.y[seen], used[seen]
    x, y = float(px.min()), float(py.min())
    side = max(float(px.max()) - x, float(py.max()) - y, 1.0)
    alone = _crowding(np.arange(len(seen)), weight)
    levels = MAX_LEVEL
    while levels > 1:
        size = side / (1 << (levels - 1))
        u = ((px - x) / size).astype(np.int64)
        v = ((py - y) / size).astype(np.int64)
        if _crowding((u << 32) + v, weight) > _CROWDING * alone:
            break
        levels -= 1
    return Frame(x, y, side, levels)


def _crowding(cell: Ints, used: Ints) -> float:
    """How many samples share the cell of a sample, on average."""
    _, group = np.unique(cell, return_inverse=True)
    together = np.bincount(group, weights=used)
    return float((together**2).sum() / together.sum())


@njit(cache=True)
def piece_of(ax, ay, bx, by, nth, count):  # type: ignore[no-untyped-def]
    """The nth of `count` equal pieces of a segment."""
    if count == 1:
        return ax, ay, bx, by
    dx, dy = (bx - ax) / count, (by - ay) / count
    return ax + nth * dx, ay + nth * dy, ax + (nth + 1) * dx, ay + (nth + 1) * dy


@njit(cache=True)
def interleave(ix, iy):  # type: ignore[no-untyped-def]
    """Z-order: the bits of x and y by turns."""
    z = np.int64(0)
    for bit in range(31):
        z |= ((ix >> bit) & 1) << (2 * bit)
        z |= ((iy >> bit) & 1) << (2 * bit + 1)
    return z


def build_directory(frame: Frame, filed: Ints, ends: Metres, part: NDArray[np.int16]) -> Grid:
    """The directory over rows in order of their cells (`filed`)."""
    begin = np.flatnonzero(np.diff(filed, prepend=-1))
    occupied = filed[begin]
    # shifting keeps ascending ids ascending, so that repeats stand side by side
    generations = [np.array([ROOT]), occupied]
    while len(generations[-1]) and generations[-1][-1] > ROOT:
        parents = generations[-1][generations[-1] > ROOT] >> 2
        generations.append(parents[np.diff(parents, prepend=0) > 0])
    cells = np.unique(np.concatenate(generations))
    own = np.zeros(len(cells), np.int64)
    own[np.searchsorted(cells, occupied)] = np.diff(np.append(begin, len(filed)))
    segment_offsets = offsets_from(own)
    (box,) = joined(map_ranges(_boxes, segment_offsets, segment_offsets, ends, part))
    return _with_trees(frame, cells, own, box)


def merge_grids(one: Grid, other: Grid) -> Grid:
    """The directory of what is filed in either, in one frame."""
    cells = np.union1d(one.cell, other.cell)
    own = np.zeros(len(cells), np.int64)
    box = np.tile([np.inf, np.inf, -np.inf, -np.inf], (len(cells), 1))
    for grid in (one, other):
        at = np.searchsorted(cells, grid.cell)
        own[at] += np.diff(grid.segment_offsets)
        box[at, :2] = np.minimum(box[at, :2], grid.box[:, :2])
        box[at, 2:] = np.maximum(box[at, 2:], grid.box[:, 2:])
    return _with_trees(one.frame, cells, own, box)


def _with_trees(frame: Frame, cells: Ints, own: Ints, box: Metres) -> Grid:
    """The directory of cells that hold so many segments, in these boxes."""
    segment_offsets = offsets_from(own)
    tree_box, tree_segments = box.copy(), own.copy()
    # a parent's id is smaller than its children's: one pass from the end gathers all subtrees
    _gather(cells, np.searchsorted(cells, cells >> 2), tree_box, tree_segments)
    children = np.searchsorted(cells, np.stack([cells << 2, (cells << 2) + 4], axis=1))
    return Grid(
        frame, cells, segment_offsets, children.astype(np.int64), box, tree_box, tree_segments
    )


@njit(nogil=True, cache=True)
def _boxes(first, last, offsets, ends, part):  # type: ignore[no-untyped-def]
    box = np.empty((last - first, 4), np.float64)
    for c in range(first, last):
        x_min = y_min = np.inf
        x_max = y_max = -np.inf
        for s in range(offsets[c], offsets[c + 1]):
            ax, ay, bx, by = piece_of(
                ends[s, 0], ends[s, 1], ends[s, 2], ends[s, 3], part[s, 0], part[s, 1]
            )
            x_min, x_max = min(x_min, ax, bx), max(x_max, ax, bx)
            y_min, y_max = min(y_min, ay, by), max(y_max, ay, by)
        i = c - first
        box[i, 0], box[i, 1], box[i, 2], box[i, 3] = x_min, y_min, x_max, y_max
    return (box,)


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


# Filing: segments in the order of the grid, with its directory.
#
# A segment goes to the finest level whose cells are at least as long as it, into the cell of its
# midpoint; inside a cell, segments that lie along each other stand together. For the
# search, very long segments are cut and filed in pieces: whole, they would be near every query. Each
# piece stands for its whole segment; only where it is filed follows from the piece.


_LONGEST_CELLS = 64
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
    row, part = _cut_up(*plane, longest)
    box = (frame.x, frame.y, frame.side, frame.levels)
    (key,) = joined(map_each(_keys, len(row), row, part, *plane, *box))
    order = np.argsort(key, kind="stable")
    row, part = row[order], part[order]
    tail, head = segments.tail[row], segments.head[row]
    x, y = locations.x, locations.y
    ends = np.stack([x[tail], y[tail], x[head], y[head]], axis=1)
    grid = build_directory(frame, key[order] >> (2 * _LINE_BITS), ends, part)
    return Filed(grid, segments, row, part, ends)


def _cut_up(
    tail: Ids, head: Ids, x: Metres, y: Metres, longest: float
) -> tuple[Ids, NDArray[np.int16]]:
    """Segments in pieces that are not too long: which segment, and which piece of how many."""
    extent = np.maximum(np.abs(x[tail] - x[head]), np.abs(y[tail] - y[head]))
    count = np.clip(np.ceil(extent / longest), 1, _MOST_PIECES).astype(np.int16)
    offsets = offsets_from(count)
    row = owners(offsets)
    return row, np.stack([within(offsets).astype(np.int16), count[row]], axis=1)


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
        key[i - first] = (cell << (2 * _LINE_BITS)) | interleave(p, q)
    return (key,)


def cells_of(filed: Filed) -> Ints:
    """Cell id of each row."""
    return np.repeat(filed.grid.cell, np.diff(filed.grid.segment_offsets))
