"""Public roads as what trips may drive on: junctions, the roads between them, and places on these.

Roads are public, so all of this is post-processing. Trips keep to the largest part of the network in
which every junction reaches every other. A sample lies at a junction, or at one of a road's own places:
so many, evenly along it, that they are about 10 m apart.
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from freqdp_db.columns.arrays import Flags, Ints, Metres
from freqdp_db.columns.ragged import offsets_from, offsets_of, within
from freqdp_db.columns.trajectories import Locations
from freqdp_db.errors import BadInput
from freqdp_db.methods.synthesis.public import Region
from freqdp_db.roads.graph import RoadGraph, largest_part, make_graph
from freqdp_db.roads.network import Network

STEP_M = 10.0
_SQUARE_M = 500.0
_LEAST_JUNCTIONS = 10
_LEAST_COVER = 0.5
_DIGEST_WORDS = 4
_DENSE_M = 10.0
_NEAREST = 12
_ON_ROAD_M = 0.01


class JunctionSquares(NamedTuple):
    """Junctions by squares of a grid over the region, to find the nearest."""

    offsets: Ints
    """Junctions of square b are junction[offsets[b]] to junction[offsets[b + 1] - 1]."""
    junction: Ints
    columns: int
    rows: int
    dx: float
    dy: float
    """Sides of a square."""
    x_min: float
    y_min: float


class RoadNet(NamedTuple):
    """Roads to drive on, and where samples may lie on them."""

    graph: RoadGraph
    squares: JunctionSquares
    steps: Ints
    """Into so many parts a road is cut; its places lie between them."""
    first: Ints
    """Number of a road's first place; junctions have the numbers before all of them."""
    piece_of: Ints
    """Straight pieces of road r are piece_of[r] to piece_of[r + 1] - 1."""
    piece: NDArray[np.float64]

    def digest(self) -> Ints:
        """Tells networks apart: what was sampled on one cannot be replayed on another."""
        told = hashlib.blake2b(digest_size=8 * _DIGEST_WORDS)
        graph = self.graph
        for ends in (graph.arc_from, graph.arc_to):
            told.update(ends.astype(np.int64).tobytes())
        for column in (graph.length[graph.arc_road], self.piece):
            told.update(np.ascontiguousarray(column).tobytes())
        words: Ints = np.frombuffer(told.digest(), "<i8").astype(np.int64)
        return words

    def places(self, number: Ints) -> Locations:
        """Where places lie, by their numbers."""
        junctions = len(self.graph.x)
        x, y = np.empty(len(number)), np.empty(len(number))
        at = number < junctions
        x[at], y[at] = self.graph.x[number[at]], self.graph.y[number[at]]
        inner = number[~at] - junctions
        road = np.searchsorted(self.first, inner, side="right") - 1
        share = (inner - self.first[road] + 1) / self.steps[road]
        last = self.piece_of[road + 1] - 1
        aim = share * (self.piece[last, 4] + self.piece[last, 5])
        # pieces begin so many metres along their road: one column that rises over all roads
        longest = float((self.piece[:, 4] + self.piece[:, 5]).max(initial=0.0)) + 1.0
        owner = np.repeat(np.arange(len(self.steps)), np.diff(self.piece_of))
        found = np.searchsorted(owner * longest + self.piece[:, 4], road * longest + aim) - 1
        found = np.clip(found, self.piece_of[road], last)
        part = (aim - self.piece[found, 4]) / np.maximum(self.piece[found, 5], 1e-9)
        part = np.clip(part, 0.0, 1.0)
        for column, out in ((0, x), (1, y)):
            low, high = self.piece[found, column], self.piece[found, column + 2]
            out[~at] = low + part * (high - low)
        return Locations(x, y)

    def off_road(self, places: Locations) -> int:
        """How many of these places are further from all roads than rounding explains.

        By another way than `places`: the nearest of many points on the pieces, then its piece.
        """
        parts = np.maximum(np.ceil(self.piece[:, 5] / _DENSE_M), 1).astype(np.int64)
        owner = np.repeat(np.arange(len(parts)), parts)
        share = (within(offsets_from(parts)) + 0.5) / parts[owner]
        dense = self.piece[owner, :2] + share[:, None] * (
            self.piece[owner, 2:4] - self.piece[owner, :2]
        )
        points = np.column_stack([places.x, places.y])
        _, near = cKDTree(dense).query(points, k=_NEAREST)
        least = np.full(len(points), np.inf)
        for column in np.minimum(near, len(dense) - 1).reshape(len(points), -1).T:
            a, b = self.piece[owner[column], :2], self.piece[owner[column], 2:4]
            along = ((points - a) * (b - a)).sum(axis=1) / np.maximum(
                ((b - a) ** 2).sum(axis=1), 1e-12
            )
            foot = a + np.clip(along, 0.0, 1.0)[:, None] * (b - a)
            least = np.minimum(least, np.hypot(*(points - foot).T))
        return int((least > _ON_ROAD_M).sum())


def road_net(roads: Network, region: Region, every_us: int) -> RoadNet:
    """The part of the roads inside the region in which every junction reaches every other."""
    graph = roads.graph
    inside = region.holds(graph.x, graph.y)
    # a road that leaves the region between its ends is none of it
    outside = ~(
        region.holds(roads.piece[:, 0], roads.piece[:, 1])
        & region.holds(roads.piece[:, 2], roads.piece[:, 3])
    )
    usable = np.bincount(roads.piece_road[outside], minlength=len(roads)) == 0
    usable &= _held(roads, region)
    usable &= inside[graph.source] & inside[graph.target] & (graph.source != graph.target)
    joined = largest_part(
        graph.source[usable], graph.target[usable], graph.oneway[usable], len(graph.x)
    )
    _require_cover(graph, joined, region)
    usable &= joined[graph.source] & joined[graph.target]
    kept = np.flatnonzero(usable)
    new = np.cumsum(joined) - 1
    piece_kept = usable[roads.piece_road]
    number = np.cumsum(usable) - 1
    steps = _steps(graph.length[kept], every_us)
    x, y = graph.x[joined], graph.y[joined]
    return RoadNet(
        make_graph(
            x, y, new[graph.source[kept]], new[graph.target[kept]], graph.oneway[kept],
            graph.length[kept],
        ),
        _squares(x, y, region),
        steps,
        offsets_from(steps - 1)[:-1],
        offsets_of(number[roads.piece_road[piece_kept]], len(kept)),
        roads.piece[piece_kept],
    )  # fmt: skip


def _held(roads: Network, region: Region) -> Flags:
    """Roads that lie in the region all along: between two corners of theirs an outline may be crossed."""
    held = np.ones(len(roads), np.bool_)
    if region.outline is None:
        return held
    parts = np.maximum(np.ceil(roads.piece[:, 5] / _DENSE_M), 1).astype(np.int64) + 1
    owner = np.repeat(np.arange(len(parts)), parts)
    share = (within(offsets_from(parts)) / (parts[owner] - 1))[:, None]
    points = roads.piece[owner, :2] * (1 - share) + roads.piece[owner, 2:4] * share
    out = ~region.holds(points[:, 0], points[:, 1])
    held[roads.piece_road[owner[out]]] = False
    return held


def step_m(every_us: int) -> float:
    """Places of a road are about so far apart: moving to the nearest must not make a sample fast."""
    return min(STEP_M, every_us / 1e6)


def _steps(length: Metres, every_us: int) -> Ints:
    return np.maximum(np.floor(length / step_m(every_us) + 0.5), 1.0).astype(np.int64)


def _require_cover(graph: RoadGraph, joined: Flags, region: Region) -> None:
    """Trips of all the region would crowd where its only roads are."""
    if int(joined.sum()) < _LEAST_JUNCTIONS:
        raise BadInput(
            "--roads: the roads do not connect inside the region",
            remedy="give a road table that covers the region, with the junctions of its roads in "
            "source and target; or leave --roads out",
        )
    x, y = graph.x[joined], graph.y[joined]
    cover = float(np.ptp(x) * np.ptp(y)) / (region.width * region.height)
    if cover < _LEAST_COVER:
        raise BadInput(
            f"--roads: the roads that connect cover {cover:.0%} of the region",
            remedy="give roads of all of it, or say a --region that the roads cover",
        )


def _squares(x: Metres, y: Metres, region: Region) -> JunctionSquares:
    columns = max(1, math.ceil(region.width / _SQUARE_M))
    rows = max(1, math.ceil(region.height / _SQUARE_M))
    column = np.minimum((x - region.x_min) / region.width * columns, columns - 1).astype(np.int64)
    row = np.minimum((y - region.y_min) / region.height * rows, rows - 1).astype(np.int64)
    square = row * columns + column
    order = np.argsort(square, kind="stable").astype(np.int64)
    return JunctionSquares(
        offsets_of(square[order], columns * rows), order,
        columns, rows, region.width / columns, region.height / rows, region.x_min, region.y_min,
    )  # fmt: skip
