"""The strategies of K-nearest search behind one interface: all exact, all with the same answer.

`linear` looks at every segment and defines the answer; the others find it by looking at less. `extent`
is what a release uses. The uniform grid and the paper's hierarchical grid (section "Efficient
Hierarchical Grid Index") are here to compare with. They are written in plain NumPy, query by query: compare
how many distances they compute and how many cells they visit with those of `extent`, which is compiled, and
their times with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from functools import partial
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from freqdp_db.model.arrays import (
    Flags,
    Ids,
    Ints,
    Metres,
    offsets_from,
    offsets_of,
    owners,
    rows_of,
)
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.search.grid import ROOT, distinct_segments
from freqdp_db.search.nearest import Nearest, Queries, index_segments, nearest_trajectories

DEFAULT = "extent"
FINEST = 9
"""The finest level: 512 x 512 cells, also of the uniform grid."""
SIDE = 1 << FINEST
_CELLS = 4 ** (FINEST + 1)
_BLOCK = 1 << 14
"""So many segments are compared at once."""
_MOST_CELLS = 256
"""A segment that passes more cells of the uniform grid is always compared."""
_ANYWHERE = np.iinfo(np.int64).max
T = TypeVar("T")


class SegmentRows(NamedTuple):
    """Distinct segments of trajectories, as columns."""

    ax: Metres
    ay: Metres
    bx: Metres
    by: Metres
    owner: Ids
    position: Ids
    """Trajectory of each segment, and where in it the segment begins."""

    def take(self, chosen: NDArray[Any] | slice) -> SegmentRows:
        return SegmentRows._make(column[chosen] for column in self)


def distinct_rows(trajectories: Trajectories, locations: Locations) -> SegmentRows:
    segments = distinct_segments(trajectories)
    x, y, tail, head = locations.x, locations.y, segments.tail, segments.head
    ends = (x[tail], y[tail], x[head], y[head])
    return SegmentRows(*ends, segments.trajectory, segments.position)


class BestList:
    """The K nearest trajectories of one query so far: what the paper calls Q_s, with the limit theta_K.

    Nearest first. left_out: trajectories that the query is not about. rank: order of the trajectories among
    equals.
    """

    def __init__(self, x: float, y: float, k: int, left_out: Ids, rank: Ints) -> None:
        self.x, self.y, self.k, self.left_out, self._rank = x, y, k, left_out, rank
        self.trajectory, self.position = np.zeros(0, np.int32), np.zeros(0, np.int32)
        self.loss_mm = np.zeros(0, np.int64)
        self.distances = 0

    @property
    def _worst_mm(self) -> int:
        return int(self.loss_mm[-1]) if len(self.loss_mm) == self.k else _ANYWHERE

    @property
    def limit(self) -> float:
        """Squared metres beyond which nothing can enter the list: that of the K-th, and 1 mm."""
        return ((self._worst_mm + 1) / 1000) ** 2

    def compare(self, rows: SegmentRows) -> None:
        """Take these segments into the list where they are among the best."""
        for begin in range(0, len(rows.ax), _BLOCK):
            self._compare(rows.take(slice(begin, begin + _BLOCK)))

    def _compare(self, rows: SegmentRows) -> None:
        self.distances += len(rows.ax)
        loss = loss_mm(self.x, self.y, rows)
        near = np.flatnonzero(loss <= self._worst_mm)
        near = near[~np.isin(rows.owner[near], self.left_out)]
        if not len(near):
            return
        trajectory = np.append(self.trajectory, rows.owner[near])
        position = np.append(self.position, rows.position[near])
        loss = np.append(self.loss_mm, loss[near])
        # of each trajectory its nearest segment, ties by position; of these the K best, ties by rank
        order = np.lexsort((position, loss, trajectory))
        first = order[np.unique(trajectory[order], return_index=True)[1]]
        best = first[np.lexsort((self._rank[trajectory[first]], loss[first]))][: self.k]
        self.trajectory, self.position, self.loss_mm = trajectory[best], position[best], loss[best]


def loss_mm(x: float, y: float, rows: SegmentRows) -> Ints:
    """Distances from a point to segments in whole millimetres, as `search/nearest.py` computes them."""
    dx, dy = rows.bx - rows.ax, rows.by - rows.ay
    length2 = dx * dx + dy * dy
    along = (x - rows.ax) * dx + (y - rows.ay) * dy
    t = np.divide(along, length2, out=np.zeros_like(along), where=length2 > 0)
    t = np.clip(t, 0.0, 1.0)
    away_x, away_y = x - (rows.ax + t * dx), y - (rows.ay + t * dy)
    away = np.sqrt(away_x * away_x + away_y * away_y)
    return np.floor(away * 1000.0 + 0.5).astype(np.int64)


def answer(visit: Callable[[BestList], int], queries: Queries, rank: Ints) -> Nearest:
    """Answer queries one after the other. visit: compares segments; gives how many cells it visited."""
    offsets = offsets_from(queries.k)
    trajectory, position = np.full((2, offsets[-1]), -1, np.int32)
    loss = np.zeros(offsets[-1], np.int64)
    distances = cells = 0
    for q in np.flatnonzero(queries.k):
        left_out = queries.skip[queries.skip_offsets[q] : queries.skip_offsets[q + 1]]
        best = BestList(queries.x[q], queries.y[q], int(queries.k[q]), left_out, rank)
        cells += visit(best)
        distances += best.distances
        found = slice(offsets[q], offsets[q] + len(best.trajectory))
        trajectory[found], position[found] = best.trajectory, best.position
        loss[found] = best.loss_mm
    return Nearest(offsets, trajectory, position, loss, distances, cells)


def visit_all(rows: SegmentRows, best: BestList) -> int:
    """The linear scan: what all other strategies are measured by."""
    best.compare(rows)
    return 0


# Grids of a fixed size: the uniform one, and the paper's.


class GridBox(NamedTuple):
    """What a grid of fixed size covers."""

    x: float
    y: float
    width: float
    height: float

    def cells_at(self, x: Metres, y: Metres) -> tuple[Ints, Ints]:
        """Column and row of the finest cell at points; what is outside goes to the border's."""
        u = np.clip((x - self.x) / self.width, 0.0, None) * SIDE
        v = np.clip((y - self.y) / self.height, 0.0, None) * SIDE
        column, row = np.minimum((u, v), SIDE - 1.0).astype(np.int64)
        return column, row

    def cell_at(self, best: BestList) -> tuple[int, int]:
        """Column and row of the finest cell that a query is in."""
        u, v = self.cells_at(np.array([best.x]), np.array([best.y]))
        return int(u[0]), int(v[0])


def central_box(trajectories: Trajectories, locations: Locations) -> GridBox:
    """The box of the 0.1 to 99.9 percentiles of the samples."""
    if not trajectories.samples:
        return GridBox(0.0, 0.0, 1.0, 1.0)
    ends = [
        np.percentile(side[trajectories.location], (0.1, 99.9), method="inverted_cdf")
        for side in (locations.x, locations.y)
    ]
    (west, east), (south, north) = (side.tolist() for side in ends)
    return GridBox(west, south, max(east - west, 1.0), max(north - south, 1.0))


@dataclass(frozen=True)
class UniformGrid:
    """The segments, and which of them pass each of 512 x 512 cells.

    Cells at the border reach to infinity, so that nothing is outside.
    """

    box: GridBox
    rows: SegmentRows
    always: SegmentRows
    """Those that pass very many cells."""
    offsets: Ints
    """Cell [v, u] lists offsets[v * SIDE + u] to offsets[v * SIDE + u + 1] - 1."""
    listed: Ids


def file_uniformly(trajectories: Trajectories, locations: Locations) -> UniformGrid:
    """List every distinct segment in the cells that it passes."""
    box = central_box(trajectories, locations)
    rows = distinct_rows(trajectories, locations)
    # each row of cells that a segment passes, and the first and the last cell of it there
    v1, v2 = np.sort([box.cells_at(rows.ax, rows.ay)[1], box.cells_at(rows.bx, rows.by)[1]], axis=0)
    lines = offsets_from(v2 - v1 + 1)
    segment = owners(lines)
    v = np.arange(lines[-1]) - lines[:-1][segment] + v1[segment]
    ax, ay, bx, by, *_ = rows.take(segment)
    turned = ay > by
    ax, ay, bx, by = np.where(turned, (bx, by, ax, ay), (ax, ay, bx, by))
    low = np.where(v == 0, -np.inf, box.y + v * (box.height / SIDE))
    high = np.where(v == SIDE - 1, np.inf, box.y + (v + 1) * (box.height / SIDE))
    with np.errstate(divide="ignore", invalid="ignore"):
        x1 = np.where(ay >= low, ax, ax + (bx - ax) * ((low - ay) / (by - ay)))
        x2 = np.where(by <= high, bx, ax + (bx - ax) * ((high - ay) / (by - ay)))
    u1, u2 = np.sort([box.cells_at(x1, ay)[0], box.cells_at(x2, ay)[0]], axis=0)
    passed = np.bincount(segment, u2 - u1 + 1, minlength=len(rows.ax))
    few = passed[segment] <= _MOST_CELLS
    segment, v, u1, u2 = segment[few], v[few], u1[few], u2[few]
    cells = offsets_from(u2 - u1 + 1)
    of = owners(cells)
    cell = v[of] * SIDE + u1[of] + np.arange(cells[-1]) - cells[:-1][of]
    order = np.argsort(cell, kind="stable")
    always = rows.take(np.flatnonzero(passed > _MOST_CELLS))
    return UniformGrid(box, rows, always, offsets_of(cell[order], SIDE**2), segment[of][order])


def visit_rings(grid: UniformGrid, best: BestList) -> int:
    """Ring by ring of cells around the query."""
    box, cells = grid.box, 0
    edge_x = box.x + np.arange(SIDE + 1) * (box.width / SIDE)
    edge_y = box.y + np.arange(SIDE + 1) * (box.height / SIDE)
    edge_x[0] = edge_y[0] = -np.inf
    edge_x[-1] = edge_y[-1] = np.inf
    column, line = box.cell_at(best)
    for ring in range(SIDE):
        u, v = _ring(column, line, ring)
        dx = np.maximum(0.0, np.maximum(edge_x[u] - best.x, best.x - edge_x[u + 1]))
        dy = np.maximum(0.0, np.maximum(edge_y[v] - best.y, best.y - edge_y[v + 1]))
        near = dx * dx + dy * dy <= best.limit
        if not near.any():  # all that is further out lies behind this ring
            break
        cells += int(near.sum())
        found, _ = rows_of(grid.offsets, v[near] * SIDE + u[near])
        best.compare(grid.rows.take(grid.listed[found]))
        if ring == 0:
            best.compare(grid.always)
    return cells


def _ring(column: int, line: int, ring: int) -> tuple[Ints, Ints]:
    """Columns and rows of the cells so many steps from one, those of the grid."""
    along = np.arange(-ring, ring + 1)
    inner = along[1:-1]
    ends = np.full(len(along), ring), np.full(len(inner), ring)
    u = column + np.concatenate([along, along, -ends[1], ends[1]])
    v = line + np.concatenate([-ends[0], ends[0], inner, inner])
    there = (u >= 0) & (u < SIDE) & (v >= 0) & (v < SIDE)
    if ring == 0:
        there[1:] = False
    return u[there], v[there]


@dataclass(frozen=True)
class BestFitGrid:
    """The paper's grid: levels of 1 x 1 to 512 x 512 cells, each segment in its best-fit cell.

    Cells are numbered as in `search/grid.py`: the root is 1, the children of c are 4c to 4c + 3. A cell's
    bounds are those of the grid, and the root also holds what is outside.
    """

    box: GridBox
    rows: SegmentRows
    offsets: Ints
    """Rows of cell c are offsets[c] to offsets[c + 1] - 1."""
    occupied: Flags
    """Whether the cell or one below it has a segment."""


def file_best_fit(trajectories: Trajectories, locations: Locations) -> BestFitGrid:
    """Put every distinct segment into its best-fit cell."""
    box = central_box(trajectories, locations)
    rows = distinct_rows(trajectories, locations)
    cell = best_fit_cells(box, rows)
    order = np.argsort(cell, kind="stable")
    offsets = offsets_of(cell[order], _CELLS)
    occupied = np.diff(offsets) > 0
    for level in range(FINEST, 0, -1):
        children = occupied[4**level : 4 ** (level + 1)]
        occupied[4 ** (level - 1) : 4**level] |= children.reshape(-1, 4).any(axis=1)
    return BestFitGrid(box, rows.take(order), offsets, occupied)


def best_fit_cells(box: GridBox, rows: SegmentRows) -> Ints:
    """Paper, Def. "Best-fit Grid Cell": the finest that holds both ends; the root for what is outside."""
    ax, ay, bx, by, *_ = rows
    (u, v), (u2, v2) = box.cells_at(ax, ay), box.cells_at(bx, by)
    # so many levels up, both ends are in the same cell: the length of the largest number that differs
    up = np.frexp(np.maximum(u ^ u2, v ^ v2))[1].astype(np.int64)
    outside = (np.minimum(ax, bx) < box.x) | (np.maximum(ax, bx) > box.x + box.width)
    outside |= (np.minimum(ay, by) < box.y) | (np.maximum(ay, by) > box.y + box.height)
    return np.where(outside, ROOT, number_of(FINEST - up, u >> up, v >> up))


def number_of(level: Any, u: Any, v: Any) -> Any:
    """The number of cells by their level, column and row: their bits by turns, below a leading 1."""
    number = 1 << (2 * level)
    for bit in range(FINEST):
        number = number | ((u >> bit) & 1) << (2 * bit) | ((v >> bit) & 1) << (2 * bit + 1)
    return number


class Cell(NamedTuple):
    """A cell that waits to be visited, by its squared distance; of equal ones the finer first."""

    distance2: float
    order: int
    """Its number, negative."""
    level: int
    u: int
    v: int

    @classmethod
    def at(cls, box: GridBox, best: BestList, level: int, u: int, v: int) -> Cell:
        """A cell and its MINdist from the query."""
        if level == 0:
            return cls(0.0, -ROOT, 0, 0, 0)
        w, h = box.width / (1 << level), box.height / (1 << level)
        dx = max(box.x + u * w - best.x, 0.0, best.x - (box.x + (u + 1) * w))
        dy = max(box.y + v * h - best.y, 0.0, best.y - (box.y + (v + 1) * h))
        return cls(dx * dx + dy * dy, -number_of(level, u, v), level, u, v)

    @property
    def number(self) -> int:
        return -self.order


TOP_DOWN, BOTTOM_UP, BOTTOM_UP_DOWN = "hg-top-down", "hg-bottom-up", "hg-bottom-up-down"


def visit_best_fit(way: str, grid: BestFitGrid, best: BestList) -> int:
    """Algorithm 3, for trajectories.

    Top-down starts at the root with the queue; bottom-up keeps to the stack; bottom-up-down goes from the
    stack to the queue when it comes to the root.
    """
    visited: set[int] = set()
    stack, queue = list[Cell](), list[Cell]()
    root_access = way == TOP_DOWN
    if root_access:
        queue.append(Cell.at(grid.box, best, 0, 0, 0))
    else:  # lines 1-4
        u, v = grid.box.cell_at(best)
        stack.append(Cell(0.0, -number_of(FINEST, u, v), FINEST, u, v))
    while stack or queue:
        if not root_access:  # lines 9-12
            cell = stack.pop()
            if cell.distance2 > best.limit:
                continue
        else:  # lines 13-16
            cell = heappop(queue)
            if cell.distance2 > best.limit:
                break
        visited.add(cell.number)
        # lines 18-23: the cell's segments, and the limit
        best.compare(grid.rows.take(slice(*grid.offsets[cell.number : cell.number + 2])))
        # lines 24-29: the parent first, so that the children are looked at before it
        parent = Cell(0.0, -(cell.number >> 2), cell.level - 1, cell.u >> 1, cell.v >> 1)
        if not root_access and cell.level > 0 and parent.number not in visited:
            if parent.level == 0 and way == BOTTOM_UP_DOWN:
                root_access = True
                queue.append(parent)
            else:
                stack.append(parent)
        # lines 30-35
        for c in range(4) if cell.level < FINEST else ():
            child = 4 * cell.number + c
            if grid.occupied[child] and child not in visited:
                u, v = 2 * cell.u + (c & 1), 2 * cell.v + (c >> 1)
                below = Cell.at(grid.box, best, cell.level + 1, u, v)
                heappush(queue, below) if root_access else stack.append(below)
    return len(visited)


@dataclass(frozen=True)
class Strategy:
    """A way to the K nearest trajectories of a point."""

    name: str
    build: Callable[[Trajectories, Locations, Ints], Any]
    """build(trajectories, locations, rank): the index, whatever it is."""
    query: Callable[[Any, Queries], Nearest]
    """query(index, queries): the answers."""


def _plain(
    name: str, build: Callable[[Trajectories, Locations], T], visit: Callable[[T, BestList], int]
) -> Strategy:
    """One in plain NumPy. visit(index, best): compares segments; gives how many cells it visited."""
    return Strategy(
        name,
        lambda trajectories, locations, rank: (build(trajectories, locations), rank),
        lambda index, queries: answer(partial(visit, index[0]), queries, index[1]),
    )


STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        _plain("linear", distinct_rows, visit_all),
        _plain("uniform-grid", file_uniformly, visit_rings),
        *(
            _plain(way, file_best_fit, partial(visit_best_fit, way))
            for way in (TOP_DOWN, BOTTOM_UP, BOTTOM_UP_DOWN)
        ),
        Strategy(DEFAULT, index_segments, nearest_trajectories),
    )
}


def index_bytes(index: Any) -> int:
    """Memory that the arrays of an index take."""
    return sum({id(array): array.nbytes for array in _arrays(index)}.values())


def _arrays(part: Any) -> Iterator[NDArray[Any]]:
    if isinstance(part, np.ndarray):
        yield part
    elif isinstance(part, tuple) or is_dataclass(part):
        for member in part if isinstance(part, tuple) else vars(part).values():
            yield from _arrays(member)
