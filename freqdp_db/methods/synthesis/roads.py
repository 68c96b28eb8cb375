"""Sampling of trips along public roads.

Roads are public, so this is post-processing. Trips use the largest strongly connected part of the network
inside the region. Samples lie at junctions, or at places that divide a road into equal parts of about 10 m.

The points of a walk's line are moved to the nearest junctions, which are then joined by cheapest routes. A
road costs its length and a random surcharge of up to a fifth, drawn for each trip, so that trips between
the same places take different routes. U-turns cost extra.
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.errors import BadInput
from freqdp_db.methods.synthesis.estimation import Model
from freqdp_db.methods.synthesis.plan import Grids
from freqdp_db.methods.synthesis.public import Period, Region
from freqdp_db.methods.synthesis.sampling import (
    FASTEST_M_PER_S,
    MOST_POINTS,
    Parts,
    choose_times,
    draw_line,
    laws_of,
    line_laws,
    number_places,
    unlink_points,
    walks_of,
    wanted_metres,
)
from freqdp_db.model.arrays import Flags, Ints, Metres, offsets_from, offsets_of, within
from freqdp_db.model.kernels import derived, longer, splitmix64, stream
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.roads.graph import RoadGraph, largest_part, make_graph
from freqdp_db.roads.network import Network, find_candidates
from freqdp_db.roads.router import Prices, make_scratch, search

STEP_M = 10.0
"""Largest distance between two places of a road."""
_SQUARE_M = 500.0
"""Side of the squares by which junctions are indexed."""
_MIN_JUNCTIONS = 10
_MIN_COVER = 0.5
"""Networks that cover less of the region, by bounding box, are refused."""
_DIGEST_WORDS = 4
_DENSE_M = 10.0
"""Roads are tested for leaving the region at points this far apart."""
_ON_ROAD_M = 0.01
"""Places within this distance of a road lie on it."""


class JunctionSquares(NamedTuple):
    """Index of junctions: squares of a grid over the region."""

    offsets: Ints
    """The junctions of square b are junction[offsets[b]] to junction[offsets[b + 1] - 1]."""
    junction: Ints
    columns: int
    rows: int
    dx: float
    dy: float
    """Sides of a square in metres."""
    x_min: float
    y_min: float


class RoadNet(NamedTuple):
    """The network that trips use, and the places of samples on it."""

    graph: RoadGraph
    squares: JunctionSquares
    steps: Ints
    """[road]: number of equal parts; the places of the road lie between them."""
    first: Ints
    """[road]: number of its first place, counted after all junctions."""
    piece_of: Ints
    """The straight pieces of road r are piece_of[r] to piece_of[r + 1] - 1."""
    piece: NDArray[np.float64]
    """As in `Network`."""
    network: Network
    """All roads of the table, also those that trips do not use."""

    def digest(self) -> Ints:
        """Hash of the network. Trips can be replayed only on the network that they were sampled on."""
        whole = hashlib.blake2b(digest_size=8 * _DIGEST_WORDS)
        graph = self.graph
        for ends in (graph.arc_from, graph.arc_to):
            whole.update(ends.astype(np.int64).tobytes())
        for column in (graph.length[graph.arc_road], self.piece):
            whole.update(np.ascontiguousarray(column).tobytes())
        words: Ints = np.frombuffer(whole.digest(), "<i8").astype(np.int64)
        return words

    def places(self, number: Ints) -> Locations:
        """Coordinates of places, given their numbers."""
        junctions = len(self.graph.x)
        x, y = np.empty(len(number)), np.empty(len(number))
        at = number < junctions
        x[at], y[at] = self.graph.x[number[at]], self.graph.y[number[at]]
        inner = number[~at] - junctions
        road = np.searchsorted(self.first, inner, side="right") - 1
        share = (inner - self.first[road] + 1) / self.steps[road]
        last = self.piece_of[road + 1] - 1
        aim = share * (self.piece[last, 4] + self.piece[last, 5])
        # metres along the road, plus a multiple of the road: ascending over all pieces
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
        """Number of places that do not lie on any road of the table, up to rounding."""
        near = find_candidates(self.network, places)
        return int(((near.road[:, 0] < 0) | (near.away[:, 0] > _ON_ROAD_M)).sum())


def road_net(roads: Network, region: Region, every_us: int) -> RoadNet:
    """The largest strongly connected part of the roads inside the region; raises BadInput if it is
    small."""
    graph = roads.graph
    inside = region.holds(graph.x, graph.y)
    usable = _inside_all_along(roads, region)
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
        roads,
    )  # fmt: skip


def _inside_all_along(roads: Network, region: Region) -> Flags:
    """Roads that lie in the region along their whole length, and not only at their corners."""
    inside = np.ones(len(roads), np.bool_)
    parts = np.maximum(np.ceil(roads.piece[:, 5] / _DENSE_M), 1).astype(np.int64) + 1
    owner = np.repeat(np.arange(len(parts)), parts)
    share = (within(offsets_from(parts)) / (parts[owner] - 1))[:, None]
    points = roads.piece[owner, :2] * (1 - share) + roads.piece[owner, 2:4] * share
    out = ~region.holds(points[:, 0], points[:, 1])
    inside[roads.piece_road[owner[out]]] = False
    return inside


def step_m(every_us: int) -> float:
    """Distance between the places of a road, so small that rounding to them hardly changes speeds."""
    return min(STEP_M, every_us / 1e6)


def _steps(length: Metres, every_us: int) -> Ints:
    return np.maximum(np.floor(length / step_m(every_us) + 0.5), 1.0).astype(np.int64)


def _require_cover(graph: RoadGraph, joined: Flags, region: Region) -> None:
    """Refuse a network that covers too little of the region: all trips would crowd there."""
    if int(joined.sum()) < _MIN_JUNCTIONS:
        raise BadInput(
            "[[roads]]: the roads do not connect inside the region",
            remedy="give a road table that covers the region, with the junctions of its roads in "
            "source and target; or leave [[roads]] out",
        )
    x, y = graph.x[joined], graph.y[joined]
    cover = float(np.ptp(x) * np.ptp(y)) / (region.width * region.height)
    if cover < _MIN_COVER:
        raise BadInput(
            f"[[roads]]: the roads that connect cover {cover:.0%} of the region",
            remedy="give roads of all of it, or say a [[region]] that the roads cover",
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


# --- From walks to routes, and from routes to samples ---


_DETOUR = 1.3
"""Usual length of a route in straight lines: the first guess."""
_MOST_ARCS = 30_000
"""Longer routes are cut off."""
_SURCHARGE = 0.2
"""Largest random surcharge on the length of a road."""
_U_TURN_M = 1000.0
"""Cost of a U-turn in metres."""
_TRIES = 7
"""Attempts to find a route of the wanted length."""
_LENGTH_TOLERANCE = 0.05
"""Relative deviation from the wanted length with which a route is accepted at once."""


@njit(nogil=True, cache=True)
def _nearest(px, py, graph, squares):  # type: ignore[no-untyped-def]
    """The nearest junction. Searches rings of squares around the point until no junction can be nearer."""
    columns, rows, dx, dy = squares.columns, squares.rows, squares.dx, squares.dy
    cx = min(max(int((px - squares.x_min) / dx), 0), columns - 1)
    cy = min(max(int((py - squares.y_min) / dy), 0), rows - 1)
    best, least = -1, np.inf
    for ring in range(max(columns, rows)):
        if best >= 0 and least <= (ring - 1) * min(dx, dy):
            break
        for by in range(max(cy - ring, 0), min(cy + ring, rows - 1) + 1):
            on_edge = by == cy - ring or by == cy + ring
            step = 1 if on_edge or ring == 0 else 2 * ring
            for bx in range(cx - ring, cx + ring + 1, step):
                if bx < 0 or bx >= columns:
                    continue
                square = by * columns + bx
                for k in range(squares.offsets[square], squares.offsets[square + 1]):
                    n = squares.junction[k]
                    far = math.sqrt((graph.x[n] - px) ** 2 + (graph.y[n] - py) ** 2)
                    if far < least:
                        best, least = n, far
    return best


@njit(nogil=True, cache=True)
def _route(start, goal, came_by, prices, graph, scratch, out, n):  # type: ignore[no-untyped-def]
    """Append the arcs of the cheapest route to out[n:]; returns the new n. came_by: the arc before, or
    -1."""
    goals = np.empty(1, np.int64)
    goals[0] = goal
    search(start, came_by, goals, 1, np.inf, prices, graph, scratch)
    count, at = 0, goal
    while at != start:
        count += 1
        at = graph.arc_from[scratch.came_by[at]]
    if n + count > len(out):
        return n
    at = goal
    for k in range(count):
        out[n + count - 1 - k] = scratch.came_by[at]
        at = graph.arc_from[scratch.came_by[at]]
    return n + count


@njit(nogil=True, cache=True)
def _along_roads(x, y, n, prices, graph, squares, scratch, out):  # type: ignore[no-untyped-def]
    """The route through the junctions nearest to n points: number of arcs (at least one), and metres."""
    last = _nearest(x[0], y[0], graph, squares)
    m = 0
    for i in range(1, n):
        to = _nearest(x[i], y[i], graph, squares)
        if to == last:
            continue
        longer = _route(last, to, out[m - 1] if m else -1, prices, graph, scratch, out, m)
        if longer == m:
            break
        m, last = longer, to
    if m == 0:  # all points are at one junction: take one of its roads
        out[0] = graph.arc_offsets[last]
        m = 1
    total = 0.0
    for k in range(m):
        total += graph.length[graph.arc_road[out[k]]]
    return m, total


@njit(nogil=True, cache=True)
def thin_points(x, y, points, stride):  # type: ignore[no-untyped-def]
    """Keep every `stride`-th point and the last one, at the front of x and y; returns their number."""
    if stride == 1:
        return points
    kept = 0
    for i in range(0, points - 1, stride):
        x[kept], y[kept] = x[i], y[i]
        kept += 1
    x[kept], y[kept] = x[points - 1], y[points - 1]
    return kept + 1


@njit(nogil=True, cache=True)
def _drive(  # type: ignore[no-untyped-def]
    first, last, offsets, path, number, bends, purpose, running, of_cell, grid, box, cell_m, graph,
    squares,
):  # fmt: skip
    """Routes of the trips in a range: the number of arcs of each, and the arcs.

    How much longer a route is than its line is known only afterwards. The line is therefore drawn again
    from the same random numbers, shorter, longer or through fewer points, until the route has about the
    wanted length.
    """
    counts = np.zeros(last - first, np.int64)
    arcs, k = np.empty(max(1024, (last - first) * 64), np.int32), 0
    raw_x, raw_y = np.empty(MOST_POINTS + 2), np.empty(MOST_POINTS + 2)
    x, y = np.empty(MOST_POINTS + 2), np.empty(MOST_POINTS + 2)
    after = np.empty(MOST_POINTS + 2, np.int64)
    home = np.empty(MOST_POINTS + 2, np.int64)
    scratch = make_scratch(graph)
    out, best = np.empty(_MOST_ARCS, np.int64), np.empty(_MOST_ARCS, np.int64)
    for t in range(first, last):
        way = path[offsets[t] : offsets[t + 1]]
        wanted = wanted_metres(bends[t], len(way), cell_m)
        aim = wanted / _DETOUR if wanted > 0 else wanted
        count, least, before, stride = 0, np.inf, np.inf, 1
        for _ in range(_TRIES if wanted > 0 else 1):
            state = stream(purpose, number + t)
            prices = Prices(_SURCHARGE, splitmix64(state[0]), _U_TURN_M)
            draw_line(state, way, aim, running, of_cell, grid, box, raw_x, raw_y, after, home)
            points = unlink_points(raw_x, raw_y, after, x, y)
            points = thin_points(x, y, points, stride)
            size, total = _along_roads(x, y, points, prices, graph, squares, scratch, out)
            off = abs(total / wanted - 1.0) if wanted > 0 else 0.0
            if off < least:
                count, least = size, off
                best[:size] = out[:size]
            if off < _LENGTH_TOLERANCE:
                break
            if total > wanted and total > 0.9 * before:
                stride += 1  # the line cannot get shorter with these points: use fewer of them
            before = total
            aim *= min(max(wanted / total, 0.5), 2.0)
        if k + count > len(arcs):
            arcs = longer(arcs, k + count)
        for j in range(count):
            arcs[k + j] = best[j]
        k += count
        counts[t - first] = count
    return counts, arcs[:k]


@njit(nogil=True, cache=True)
def _emit_on_roads(  # type: ignore[no-untyped-def]
    first, last, offsets, arcs, number, purpose, laws, period, every, apart, graph, steps, places
):
    """Samples of the routes in a range: their number for each trip, places and times.

    apart: largest distance between two places of a road. places: [road], number of its first place.
    """
    fastest = FASTEST_M_PER_S - apart / (every / 1e6)
    size = max(1024, (last - first) * 128)
    place, at = np.empty(size, np.int64), np.empty(size, np.int64)
    counts = np.zeros(last - first, np.int64)
    k = 0
    for t in range(first, last):
        state = stream(purpose, number + t)
        lo, hi = offsets[t], offsets[t + 1]
        total = 0.0
        for i in range(lo, hi):
            total += graph.length[graph.arc_road[arcs[i]]]
        start, legs, step = choose_times(state, total, fastest, laws, period, every)
        if k + legs + 1 > len(place):
            place, at = longer(place, k + legs + 1), longer(at, k + legs + 1)
        i, gone = lo, 0.0  # metres before arc i
        for leg in range(legs + 1):
            goal = min(leg * step, total)
            arc = arcs[i]
            road = graph.arc_road[arc]
            while i + 1 < hi and gone + graph.length[road] < goal:
                gone += graph.length[road]
                i += 1
                arc = arcs[i]
                road = graph.arc_road[arc]
            share = min(max((goal - gone) / max(graph.length[road], 1e-9), 0.0), 1.0)
            part = int(share * steps[road] + 0.5)
            if part == 0:
                place[k] = graph.arc_from[arc]
            elif part >= steps[road]:
                place[k] = graph.arc_to[arc]
            else:
                along = part if graph.forward[arc] else steps[road] - part
                place[k] = len(graph.x) + places[road] + along - 1
            at[k] = start + leg * every
            k += 1
        counts[t - first] = legs + 1
    return counts, place[:k], at[:k]


def drive(
    model: Model,
    grids: Grids,
    net: RoadNet,
    walks: tuple[Ints, Ints, Metres],
    first: int,
    purpose: np.uint64,
) -> tuple[Ints, Ints]:
    """Offsets and arcs of the routes of walks. first: number of the first trip."""
    offsets, path, bends = walks
    parts = map_ranges(
        _drive, offsets, offsets, path, first, bends, purpose, *line_laws(model, grids),
        grids.cell_m, net.graph, net.squares,
    )  # fmt: skip
    counts, arcs = joined(parts)
    return offsets_from(counts), arcs


def sample_on_roads(
    model: Model,
    grids: Grids,
    period: Period,
    count: int,
    every_us: int,
    purpose: np.uint64,
    net: RoadNet,
) -> tuple[Trajectories, Locations]:
    """Sample `count` trips on roads, with a sample every `every_us`."""
    found: Parts = []
    for first, walks in walks_of(model, grids, count, purpose):
        offsets, arcs = drive(model, grids, net, walks, first, derived(purpose, 2))
        parts = map_ranges(
            _emit_on_roads, offsets, offsets, arcs, first, derived(purpose, 3), laws_of(model),
            (period.begin, period.end, period.offset_us), every_us, 1.5 * step_m(every_us),
            net.graph, net.steps, net.first,
        )  # fmt: skip
        found += [(counts, place.astype(np.int32), at) for counts, place, at in parts]
    trajectories, used = number_places(found)
    return trajectories, net.places(used)
