"""Public roads as what trips may drive on: junctions, the roads between them, and places on these.

Roads are public, so all of this is post-processing. Trips keep to the largest part of the network in
which every junction reaches every other. A sample lies at a junction, or at one of a road's own places:
so many, evenly along it, that they are about 10 m apart.
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from freqdp_db.columns.arrays import Flags, Ids, Ints, Metres
from freqdp_db.columns.ragged import offsets_from, offsets_of, within
from freqdp_db.columns.trajectories import Locations
from freqdp_db.errors import BadInput
from freqdp_db.methods.synthesis.public import Region

STEP_M = 10.0
_BUCKET_M = 500.0
_LEAST_JUNCTIONS = 10
_LEAST_COVER = 0.5
_DIGEST_WORDS = 4
_DENSE_M = 10.0
_NEAREST = 12
_ON_ROAD_M = 0.01


class RoadNetwork(Protocol):
    """A road network, as `roads.network.Network` has it."""

    @property
    def source(self) -> Ids: ...
    @property
    def target(self) -> Ids: ...
    @property
    def oneway(self) -> Flags: ...
    @property
    def length(self) -> Metres: ...
    @property
    def x(self) -> Metres: ...
    @property
    def y(self) -> Metres: ...
    @property
    def piece_road(self) -> Ids: ...
    @property
    def piece(self) -> NDArray[np.float64]: ...


class Graph(NamedTuple):
    """What routes are searched in. Arcs lie in order of the junctions that they leave."""

    leaving: Ints
    """Arcs that leave junction n are leaving[n] to leaving[n + 1] - 1."""
    begin: Ints
    """Junction that an arc leaves."""
    end: Ints
    metres: Metres
    road: Ints
    forward: Flags
    """Whether an arc follows its road from source to target."""
    x: Metres
    y: Metres
    bucket: Ints
    """Junctions of square b are by_bucket[bucket[b]] to by_bucket[bucket[b + 1] - 1]."""
    by_bucket: Ints
    shape: tuple[int, int, float, float, float, float]
    """Columns and rows of squares, their sides, and the corner that they begin at."""


class RoadNet(NamedTuple):
    """Roads to drive on, and where samples may lie on them."""

    graph: Graph
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
        for column in (self.graph.begin, self.graph.end, self.graph.metres, self.piece):
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


def road_net(roads: RoadNetwork, region: Region, every_us: int) -> RoadNet:
    """The part of the roads inside the region in which every junction reaches every other."""
    inside = region.holds(roads.x, roads.y)
    # a road that leaves the region between its ends is none of it
    outside = ~(
        region.holds(roads.piece[:, 0], roads.piece[:, 1])
        & region.holds(roads.piece[:, 2], roads.piece[:, 3])
    )
    usable = np.bincount(roads.piece_road[outside], minlength=len(roads.source)) == 0
    usable &= _held(roads, region)
    usable &= inside[roads.source] & inside[roads.target] & (roads.source != roads.target)
    source, target = roads.source.astype(np.int64), roads.target.astype(np.int64)
    both = usable & ~roads.oneway
    begin = np.concatenate([source[usable], target[both]])
    end = np.concatenate([target[usable], source[both]])
    joined = _largest_part(begin, end, len(roads.x))
    _require_cover(roads, joined, region)
    usable &= joined[roads.source] & joined[roads.target]
    kept = np.flatnonzero(usable)
    new = np.cumsum(joined) - 1
    piece_kept = usable[roads.piece_road]
    number = np.cumsum(usable) - 1
    steps = _steps(roads.length[kept], every_us)
    return RoadNet(
        _graph(
            new[source[kept]], new[target[kept]], roads.length[kept], roads.oneway[kept],
            roads.x[joined], roads.y[joined], region,
        ),
        steps,
        offsets_from(steps - 1)[:-1],
        offsets_of(number[roads.piece_road[piece_kept]], len(kept)),
        roads.piece[piece_kept],
    )  # fmt: skip


def _held(roads: RoadNetwork, region: Region) -> Flags:
    """Roads that lie in the region all along: between two corners of theirs an outline may be crossed."""
    held = np.ones(len(roads.source), np.bool_)
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


def _largest_part(begin: Ints, end: Ints, junctions: int) -> Flags:
    matrix = coo_array((np.ones(len(begin)), (begin, end)), shape=(junctions, junctions))
    _, part = connected_components(matrix, directed=True, connection="strong")
    largest: Flags = part == np.bincount(part).argmax()
    if int(largest.sum()) < _LEAST_JUNCTIONS:
        raise BadInput(
            "[[roads]]: the roads do not connect inside the region",
            remedy="give a road table that covers the region, with the junctions of its roads in "
            "source and target; or leave [[roads]] out",
        )
    return largest


def _require_cover(roads: RoadNetwork, joined: Flags, region: Region) -> None:
    """Trips of all the region would crowd where its only roads are."""
    x, y = roads.x[joined], roads.y[joined]
    cover = float(np.ptp(x) * np.ptp(y)) / (region.width * region.height)
    if cover < _LEAST_COVER:
        raise BadInput(
            f"[[roads]]: the roads that connect cover {cover:.0%} of the region",
            remedy="give roads of all of it, or say a [[region]] that the roads cover",
        )


def _graph(
    source: Ints, target: Ints, length: Metres, oneway: Flags, x: Metres, y: Metres, region: Region
) -> Graph:
    number = np.arange(len(source))
    begin = np.concatenate([source, target[~oneway]])
    order = np.argsort(begin, kind="stable")
    end = np.concatenate([target, source[~oneway]])[order]
    road = np.concatenate([number, number[~oneway]])[order]
    columns = max(1, math.ceil(region.width / _BUCKET_M))
    rows = max(1, math.ceil(region.height / _BUCKET_M))
    column = np.minimum((x - region.x_min) / region.width * columns, columns - 1).astype(np.int64)
    row = np.minimum((y - region.y_min) / region.height * rows, rows - 1).astype(np.int64)
    bucket = row * columns + column
    by_bucket = np.argsort(bucket, kind="stable").astype(np.int64)
    return Graph(
        offsets_of(begin[order], len(x)), begin[order], end, length[road], road,
        order < len(source), x, y,
        offsets_of(bucket[by_bucket], columns * rows), by_bucket,
        (columns, rows, region.width / columns, region.height / rows, region.x_min, region.y_min),
    )  # fmt: skip
