"""From the model to samples with places and times. Sees the noisy vectors' model and public inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.streams import derived, normal, pick, stream, uniform
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.ranges import map_ranges
from freqdp_db.methods.synthesis.estimation import Model
from freqdp_db.methods.synthesis.fitting import planned
from freqdp_db.methods.synthesis.layout import DAYPARTS, Grids
from freqdp_db.methods.synthesis.lines import MOST_POINTS, in_order, line
from freqdp_db.methods.synthesis.public import MINUTE_US, Period, Region
from freqdp_db.methods.synthesis.roads import DETOUR, MOST_ROUTE, Graph, along_roads, road_scratch
from freqdp_db.methods.synthesis.walks import walk

FASTEST_M_PER_S = 110 / 3.6
SLOWEST_M_PER_S = 1.5
LEAST_M = 1000.0
LATTICE_M = 50.0
"""Samples lie on the centres of a public lattice, so that they share places."""
ROAD_LATTICE_M = 5.0
_DAY_US = 24 * 60 * MINUTE_US
_BATCH = 50_000
_NONE, _NOWHERE = np.zeros(1, np.int64), np.zeros(1)
_NO_ROADS: Graph = (_NONE, _NONE, _NOWHERE, _NOWHERE, _NOWHERE, _NONE, _NONE, (1, 1, 1.0, 1.0))


@dataclass(frozen=True)
class Lattice:
    """Centres of small squares over the region."""

    columns: int
    rows: int
    x_min: float
    y_min: float
    dx: float
    dy: float


def lattice(region: Region, every_us: int, *, on_roads: bool = False) -> Lattice:
    """Fine enough that moving to the nearest centre adds little to a speed, or leaves no road."""
    side = min(ROAD_LATTICE_M if on_roads else LATTICE_M, every_us / 1e6)
    side = max(side, math.sqrt(region.width * region.height / 2**30))
    columns, rows = math.ceil(region.width / side), math.ceil(region.height / side)
    return Lattice(
        columns, rows, region.x_min, region.y_min, region.width / columns, region.height / rows
    )


@njit(nogil=True, cache=True)
def _emit(  # type: ignore[no-untyped-def]
    first, last, offsets, path, number, bends, purpose, hours, days, speeds,
    running, of_cell, grid, box, period, every, net, cell_m, roaded, graph,
):  # fmt: skip
    """Samples of the trips in a range: how many of each, their places on the lattice, their times."""
    begin, end, offset = period
    columns, rows, dx, dy = net
    fastest = FASTEST_M_PER_S - 1.4143 * max(dx, dy) / (every / 1e6)
    size = max(1024, (last - first) * 128)
    place, at = np.empty(size, np.int64), np.empty(size, np.int64)
    counts = np.zeros(last - first, np.int64)
    raw_x, raw_y = np.empty(MOST_POINTS + 2), np.empty(MOST_POINTS + 2)
    most = MOST_ROUTE if roaded else MOST_POINTS + 2
    x, y = np.empty(most), np.empty(most)
    scratch = road_scratch(graph)
    after = np.empty(MOST_POINTS + 2, np.int64)
    home = np.empty(MOST_POINTS + 2, np.int64)
    k = 0
    first_day = (begin + offset) // _DAY_US
    for t in range(first, last):
        state = stream(purpose, number + t)
        wanted = -1.0
        if bends[t] >= 0:
            wanted = max(bends[t] * cell_m * (offsets[t + 1] - offsets[t] - 0.3), LEAST_M)
        way = path[offsets[t] : offsets[t + 1]]
        if roaded and wanted > 0:
            wanted /= DETOUR
        total = line(state, way, wanted, running, of_cell, grid, box, raw_x, raw_y, after, home)
        points = in_order(raw_x, raw_y, after, x, y)
        if roaded:
            raw_x[:points], raw_y[:points] = x[:points], y[:points]
            salt = state[0]
            points = along_roads(raw_x, raw_y, points, salt, graph, scratch, (box[0], box[1]), x, y)
            total = 0.0
            for j in range(1, points):
                total += math.sqrt((x[j] - x[j - 1]) ** 2 + (y[j] - y[j - 1]) ** 2)
        hour = pick(state, hours, 0, 24)
        day = pick(state, days, 0, len(days))
        speed = speeds[hour // (24 // DAYPARTS)] * min(max(1.0 + 0.35 * normal(state), 0.4), 2.0)
        speed = min(max(speed, SLOWEST_M_PER_S), fastest)
        legs = math.ceil(total / (speed * every / 1e6))
        legs = max(1, min(legs, (end - 1 - begin) // every))
        start = (first_day + day) * _DAY_US - offset
        start += np.int64((hour * 60 + uniform(state) * 60) * 60) * 1_000_000
        start = min(max(start, begin), end - 1 - legs * every)
        start -= (start - begin) % 1_000_000
        if k + legs + 1 > len(place):
            bigger = max(2 * len(place), k + legs + 1)
            more_place, more_at = np.empty(bigger, np.int64), np.empty(bigger, np.int64)
            more_place[:k], more_at[:k] = place[:k], at[:k]
            place, at = more_place, more_at
        step = speed * every / 1e6
        i, gone = 0, 0.0  # metres before point i
        for leg in range(legs + 1):
            goal = min(leg * step, total)
            while i + 1 < points:
                piece = math.sqrt((x[i + 1] - x[i]) ** 2 + (y[i + 1] - y[i]) ** 2)
                if gone + piece >= goal:
                    break
                gone += piece
                i += 1
            px, py = x[i], y[i]
            if i + 1 < points:
                piece = math.sqrt((x[i + 1] - x[i]) ** 2 + (y[i + 1] - y[i]) ** 2)
                share = (goal - gone) / piece if piece > 0 else 0.0
                px, py = x[i] + (x[i + 1] - x[i]) * share, y[i] + (y[i + 1] - y[i]) * share
            column = min(max(int((px - box[0]) / dx), 0), columns - 1)
            row = min(max(int((py - box[1]) / dy), 0), rows - 1)
            place[k], at[k] = row * columns + column, start + leg * every
            k += 1
        counts[t - first] = legs + 1
    return counts, place[:k], at[:k]


Parts = list[tuple[Ints, Ids, Ints]]
"""Of each range: samples of each trip, their places on the lattice, their times."""


def emitted(
    model: Model,
    grids: Grids,
    period: Period,
    every_us: int,
    walks: tuple[Ints, Ints, Metres],
    first: int,
    purpose: np.uint64,
    graph: Graph | None = None,
) -> Parts:
    """Samples of walks, given as offsets, cells and bends; the first has number `first`."""
    net = lattice(grids.region, every_us, on_roads=graph is not None)
    of_cell = np.argsort(grids.cell_of_fine(), kind="stable").astype(np.int64)
    region = grids.region
    offsets, path, bends = walks
    parts = map_ranges(
        _emit, offsets, offsets, path, first, bends, purpose,
        np.cumsum(model.hours),
        np.cumsum(model.days),
        model.speeds,
        np.cumsum(model.fine[of_cell]),
        of_cell,
        (grids.cells_x, grids.cells_y, grids.fine_x, grids.fine_y, grids.per_cell),
        (region.x_min, region.y_min, region.width, region.height),
        (period.begin, period.end, period.offset_us),
        every_us,
        (net.columns, net.rows, net.dx, net.dy),
        grids.cell_m,
        graph is not None,
        _NO_ROADS if graph is None else graph,
    )  # fmt: skip
    return [(counts, place.astype(np.int32), at) for counts, place, at in parts]


def sampled(
    model: Model,
    grids: Grids,
    period: Period,
    count: int,
    every_us: int,
    purpose: np.uint64,
    graph: Graph | None = None,
) -> tuple[Trajectories, Locations]:
    """`count` trips with a sample every `every_us`; the places are those of the lattice that occur."""
    parts: Parts = []
    for first in range(0, count, _BATCH):
        size = min(_BATCH, count - first)
        plans = planned(model, grids, first, size, derived(purpose, 0))
        offsets, path = walk(
            grids, plans.start, plans.zone, plans.steps, model.moves, model.turns, model.ends,
            derived(derived(purpose, 1), first),
        )  # fmt: skip
        bends = plans.bend if model.bent else np.full(size, -1.0)
        walks = (offsets, path, bends)
        parts += emitted(model, grids, period, every_us, walks, first, derived(purpose, 2), graph)
    return joined(parts, lattice(grids.region, every_us, on_roads=graph is not None))


def joined(parts: Parts, net: Lattice) -> tuple[Trajectories, Locations]:
    """All parts in one, with the places that occur."""
    offsets = offsets_from(np.concatenate([*(part[0] for part in parts), np.zeros(0, np.int64)]))
    place = np.concatenate([*(part[1] for part in parts), np.zeros(0, np.int32)])
    at = np.concatenate([*(part[2] for part in parts), np.zeros(0, np.int64)])
    occurs = np.zeros(net.columns * net.rows, np.bool_)
    occurs[place] = True
    used = np.flatnonzero(occurs)
    new = np.zeros(len(occurs), np.int32)
    new[used] = np.arange(len(used), dtype=np.int32)
    row, column = np.divmod(used, net.columns)
    x: Metres = net.x_min + (column + 0.5) * net.dx
    y: Metres = net.y_min + (row + 0.5) * net.dy
    start = at[offsets[:-1]]
    return Trajectories(offsets, new[place], at, start), Locations(x, y)
