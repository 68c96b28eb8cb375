"""The streets of a made-up city: a planar graph with side streets, avenues, rings and diagonals.

A jittered, warped grid loses its parks and most of its river crossings; then rings and diagonals
are laid over it one by one. Where one crosses a street, both get a junction, so that no two roads
cross without one and the graph stays planar.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from freqdp_db.roads.graph import RoadGraph, largest_part, make_graph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KINDS = ("street", "avenue", "ring", "diagonal")
SPEEDS_KMH = np.array([30.0, 50.0, 70.0, 50.0])

RADIUS_M = 6_000.0
_BLOCKS = 26
"""Blocks from the middle to the edge."""
_AVENUE_EVERY = 6
_SNAP_M = 28.0
"""A junction this close to a new road moves onto it: no slivers between them."""
_ONEWAY_SHARE = 0.18
_JUNCTION_S = 5.0
"""Slowing down and waiting at the end of each road."""

LON, LAT = 4.35, 50.85
# Metres per degree at that latitude, on the WGS 84 ellipsoid.
_M_PER_LON = 70_423.8
_M_PER_LAT = 111_245.4


def to_degrees(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Longitude and latitude of metres east and north of the middle of the city."""
    return LON + x / _M_PER_LON, LAT + y / _M_PER_LAT


@dataclass(frozen=True)
class StreetNetwork:
    """Junctions in metres around the middle, and the straight roads between them."""

    x: Floats
    y: Floats
    source: Ints
    target: Ints
    kind: Ints
    """Index into KINDS."""
    line: Ints
    """Number of the line that the road belongs to, which names it."""
    oneway: NDArray[np.bool_]

    @property
    def length_m(self) -> Floats:
        return np.hypot(
            self.x[self.target] - self.x[self.source], self.y[self.target] - self.y[self.source]
        )

    @property
    def speed_kmh(self) -> Floats:
        return SPEEDS_KMH[self.kind]

    @property
    def seconds(self) -> Floats:
        """How long driving each road takes where nobody else is under way."""
        driving: Floats = self.length_m / (self.speed_kmh / 3.6) + _JUNCTION_S
        return driving

    @property
    def graph(self) -> RoadGraph:
        """Its roads to drive on, with seconds for lengths."""
        return make_graph(self.x, self.y, self.source, self.target, self.oneway, self.seconds)

    def names(self) -> list[str]:
        """A name for each road: one per line of the plan."""
        words = ("Street", "Avenue", "Ring", "Diagonal")
        return [f"{words[k]} {n}" for k, n in zip(self.kind, self.line, strict=True)]


def make_network(rng: np.random.Generator) -> StreetNetwork:
    """Lay out the city. Every junction can be reached from every other one."""
    network = _grid(rng)
    for kind, line, path in _overlays(rng):
        network = _lay(network, path, kind, line)
    oneway = (network.kind == 0) & (rng.random(len(network.kind)) < _ONEWAY_SHARE)
    turned = oneway & (rng.random(len(oneway)) < 0.5)
    source = np.where(turned, network.target, network.source)
    target = np.where(turned, network.source, network.target)
    return _largest_component(replace(network, source=source, target=target, oneway=oneway))


def _grid(rng: np.random.Generator) -> StreetNetwork:
    """The street grid: finer in the middle, turned and bent a little, with parks and a river."""
    side = 2 * _BLOCKS + 1
    column, row = np.divmod(np.arange(side * side), side)
    avenue_x = column % _AVENUE_EVERY == _BLOCKS % _AVENUE_EVERY
    avenue_y = row % _AVENUE_EVERY == _BLOCKS % _AVENUE_EVERY
    jitter = np.clip(rng.normal(0, 0.13, (2, len(column))), -0.26, 0.26)
    # Avenues run straighter than side streets.
    u = column - _BLOCKS + jitter[0] * np.where(avenue_x, 0.25, 1.0)
    v = row - _BLOCKS + jitter[1] * np.where(avenue_y, 0.25, 1.0)
    u, v = u * RADIUS_M / _BLOCKS, v * RADIUS_M / _BLOCKS
    phase = rng.uniform(0, 2 * np.pi, 2)
    u, v = (
        u + 170 * np.sin(v / 1900 + phase[0]),
        v + 170 * np.sin(u / 2300 + phase[1]),
    )
    turn = rng.uniform(0.1, 0.35)
    shrink = 0.62 + 0.38 * np.minimum(np.hypot(u, v) / RADIUS_M, 1.4)
    x = shrink * (u * np.cos(turn) - v * np.sin(turn))
    y = shrink * (u * np.sin(turn) + v * np.cos(turn))

    node = np.arange(side * side).reshape(side, side)
    source = np.concatenate([node[:-1].ravel(), node[:, :-1].ravel()])
    target = np.concatenate([node[1:].ravel(), node[:, 1:].ravel()])
    along_row = np.arange(len(source)) < side * (side - 1)
    line = np.where(along_row, row[source], side + column[source])
    avenue = np.where(along_row, avenue_y[source], avenue_x[source])

    bearing = np.arctan2(y, x)
    edge = RADIUS_M * (0.9 + 0.07 * np.sin(3 * bearing + phase[0]) + 0.04 * np.sin(5 * bearing))
    built = np.hypot(x, y) < edge
    park = _in_parks(rng, x, y)
    keep = built[source] & built[target] & ~((park[source] | park[target]) & ~avenue)
    river = 1500 + 650 * np.sin(x / 1800 + phase[1]) - y
    keep &= (river[source] * river[target] > 0) | avenue
    # Some blocks were never cut through.
    keep &= avenue | (rng.random(len(source)) > 0.06)
    network = StreetNetwork(
        x,
        y,
        source[keep],
        target[keep],
        avenue[keep].astype(np.int64),
        line[keep] + 1,
        np.zeros(int(keep.sum()), bool),
    )
    return _largest_component(network)


def _in_parks(rng: np.random.Generator, x: Floats, y: Floats) -> NDArray[np.bool_]:
    inside = np.zeros(len(x), bool)
    for _ in range(5):
        distance, bearing = rng.uniform(1_200, 4_800), rng.uniform(0, 2 * np.pi)
        width, height = rng.uniform(260, 700, 2)
        px, py = distance * np.cos(bearing), distance * np.sin(bearing)
        inside |= ((x - px) / width) ** 2 + ((y - py) / height) ** 2 < 1
    return inside


def _overlays(rng: np.random.Generator) -> list[tuple[int, int, Floats]]:
    """Rings and diagonals as polylines: (kind, number, points)."""
    paths: list[tuple[int, int, Floats]] = []
    for number, radius in enumerate((1_700.0, 4_300.0), 1):
        bearing = np.linspace(0, 2 * np.pi, int(radius * 2 * np.pi / 160))
        wave = 1 + 0.05 * np.sin(2 * bearing + rng.uniform(0, 6))
        # The last point is the first, exactly, so that the ring closes.
        wave[-1], bearing[-1] = wave[0], 0.0
        points = np.column_stack([np.cos(bearing), np.sin(bearing)]) * (radius * wave)[:, None]
        paths.append((2, number, points))
    first = rng.uniform(0.75, 1.0)
    for number, bearing_of in enumerate((first, first + np.pi / 2 + rng.uniform(-0.2, 0.2)), 1):
        along = np.linspace(-0.8 * RADIUS_M, 0.8 * RADIUS_M, 60)
        aside = 120 * np.sin(along / 2_000 + rng.uniform(0, 6))
        c, s = np.cos(bearing_of), np.sin(bearing_of)
        points = np.column_stack([along * c - aside * s, along * s + aside * c])
        paths.append((3, number, points))
    return paths


def _lay(network: StreetNetwork, path: Floats, kind: int, line: int) -> StreetNetwork:
    """Lay one road over the others, with a junction at every crossing."""
    x, y = network.x.copy(), network.y.copy()
    start, step = path[:-1], np.diff(path, axis=0)
    span = np.hypot(step[:, 0], step[:, 1])
    reached = np.concatenate([[0.0], np.cumsum(span)])

    # Junctions close to the path move onto it.
    piece, t, distance = _nearest(x, y, start, step)
    used = np.zeros(len(x), bool)
    used[network.source] = used[network.target] = True
    on_path = used & (distance < _SNAP_M)
    x[on_path] = (start[piece, 0] + t * step[piece, 0])[on_path]
    y[on_path] = (start[piece, 1] + t * step[piece, 1])[on_path]
    place = (reached[piece] + t * span[piece])[on_path]
    nodes = np.flatnonzero(on_path)

    # A street between two such junctions would run beside the path.
    beside = on_path[network.source] & on_path[network.target]
    road, share, crossing = _crossings(network, x, y, start, step, on_path, ~beside)
    new = len(x) + np.arange(len(road))
    s, e = network.source[road], network.target[road]
    x = np.concatenate([x, x[s] + share * (x[e] - x[s])])
    y = np.concatenate([y, y[s] + share * (y[e] - y[s])])
    pieces = np.minimum(crossing.astype(np.int64), len(span) - 1)
    crossed_at = reached[pieces] + (crossing - pieces) * span[pieces]

    stops = np.concatenate([nodes, new])
    places = np.concatenate([place, crossed_at])
    bends = np.flatnonzero(
        np.abs(reached[:, None] - places[None, :]).min(axis=1, initial=np.inf) > 60
    )
    closed = bool(np.allclose(path[0], path[-1]))
    if closed:
        bends = bends[bends < len(path) - 1]
    bend_nodes = len(x) + np.arange(len(bends))
    x = np.concatenate([x, path[bends, 0]])
    y = np.concatenate([y, path[bends, 1]])
    stops = np.concatenate([stops, bend_nodes])
    stops = stops[np.argsort(np.concatenate([places, reached[bends]]), kind="stable")]
    if closed:
        stops = np.append(stops, stops[0])

    # Each crossed street becomes its pieces, in order from its source.
    keep = ~beside
    keep[road] = False
    chains_from, chains_to, parent = _split(network, road, share, new)
    source = np.concatenate([network.source[keep], chains_from, stops[:-1]])
    target = np.concatenate([network.target[keep], chains_to, stops[1:]])
    laid = len(stops) - 1
    return StreetNetwork(
        x,
        y,
        source,
        target,
        np.concatenate([network.kind[keep], network.kind[parent], np.full(laid, kind)]),
        np.concatenate([network.line[keep], network.line[parent], np.full(laid, line)]),
        np.zeros(len(source), bool),
    )


def _nearest(x: Floats, y: Floats, start: Floats, step: Floats) -> tuple[Ints, Floats, Floats]:
    """For each point the nearest piece of a polyline, where on it, and how far."""
    dx, dy = x[:, None] - start[:, 0], y[:, None] - start[:, 1]
    t = np.clip((dx * step[:, 0] + dy * step[:, 1]) / (step**2).sum(axis=1), 0, 1)
    distance = np.hypot(dx - t * step[:, 0], dy - t * step[:, 1])
    piece = distance.argmin(axis=1)
    rows = np.arange(len(x))
    return piece, t[rows, piece], distance[rows, piece]


def _crossings(
    network: StreetNetwork,
    x: Floats,
    y: Floats,
    start: Floats,
    step: Floats,
    on_path: NDArray[np.bool_],
    wanted: NDArray[np.bool_],
) -> tuple[Ints, Floats, Floats]:
    """Where roads cross a polyline: road, share of the road, and piece + share of the piece."""
    s, e = network.source, network.target
    ax, ay, bx, by = x[s], y[s], x[e] - x[s], y[e] - y[s]
    cross = bx[:, None] * step[:, 1] - by[:, None] * step[:, 0]
    dx, dy = start[:, 0] - ax[:, None], start[:, 1] - ay[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (dx * step[:, 1] - dy * step[:, 0]) / cross
        along = (dx * by[:, None] - dy * bx[:, None]) / cross
    hit = (share > 0) & (share < 1) & (along >= 0) & (along < 1) & wanted[:, None]
    # A road that ends on the path meets it there already.
    hit &= ~(on_path[s][:, None] & (share < 0.02)) & ~(on_path[e][:, None] & (share > 0.98))
    road, piece = np.nonzero(hit)
    return road, share[road, piece], piece + along[road, piece]


def _split(network: StreetNetwork, road: Ints, share: Floats, new: Ints) -> tuple[Ints, Ints, Ints]:
    """Cut roads at their new junctions: sources, targets and the road each piece came from."""
    order = np.lexsort((share, road))
    road, new = road[order], new[order]
    first = np.ones(len(road), bool)
    first[1:] = road[1:] != road[:-1]
    last = np.append(first[1:], True) if len(road) else first
    before = np.where(first, network.source[road], np.roll(new, 1))
    return (
        np.concatenate([before, new[last]]),
        np.concatenate([new, network.target[road[last]]]),
        np.concatenate([road, road[last]]),
    )


def _largest_component(network: StreetNetwork) -> StreetNetwork:
    """Keep the junctions that all reach each other, numbered anew."""
    keep = largest_part(network.source, network.target, network.oneway, len(network.x))
    number = np.cumsum(keep) - 1
    roads = keep[network.source] & keep[network.target] & (network.source != network.target)
    return StreetNetwork(
        network.x[keep],
        network.y[keep],
        number[network.source[roads]],
        number[network.target[roads]],
        network.kind[roads],
        network.line[roads],
        network.oneway[roads],
    )
