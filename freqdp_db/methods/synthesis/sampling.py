"""From the model to samples with places and times. Sees the noisy vectors' model and public inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from scipy.spatial import cKDTree

from freqdp_db.columns.arrays import Flags, Ids, Ints, Metres
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.streams import derived, normal, pick, stream, uniform
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.ranges import map_ranges
from freqdp_db.errors import BadInput
from freqdp_db.methods.synthesis.estimation import Model
from freqdp_db.methods.synthesis.fitting import planned
from freqdp_db.methods.synthesis.layout import DAYPARTS, Grids
from freqdp_db.methods.synthesis.lines import MOST_POINTS, in_order, line
from freqdp_db.methods.synthesis.public import MINUTE_US, Period
from freqdp_db.methods.synthesis.walks import walk

FASTEST_M_PER_S = 110 / 3.6
SLOWEST_M_PER_S = 1.5
LEAST_M = 1000.0
_SLOWER = 1.139
"""Trips of different speeds take longer together than all at their mean: by the mean of one over that."""
LATTICE_M = 50.0
"""Samples lie on the centres of a public lattice, so that they share places."""
_DAY_US = 24 * 60 * MINUTE_US
_BATCH = 50_000
_MOST_PLACES = 2**30
MOST_OPEN = 2**26
"""Places of a region with an outline: each is looked at."""


@dataclass(frozen=True)
class SquareCentres:
    """Centres of small squares over the region."""

    columns: int
    rows: int
    x_min: float
    y_min: float
    dx: float
    dy: float
    open: Flags
    """Which of them lie in the region; empty: all."""
    anchor: Ints
    """For each cell of a grid, one that does; empty: not needed."""


@lru_cache(maxsize=2)
def lattice(grids: Grids, every_us: int) -> SquareCentres:
    """Fine enough that moving to the nearest centre adds little to a speed."""
    region = grids.region
    side = min(LATTICE_M, every_us / 1e6)
    most = _MOST_PLACES if region.outline is None else MOST_OPEN
    side = max(side, math.sqrt(region.width * region.height / most))
    columns, rows = math.ceil(region.width / side), math.ceil(region.height / side)
    dx, dy = region.width / columns, region.height / rows
    shape = columns, rows, region.x_min, region.y_min, dx, dy
    if region.outline is None:
        return SquareCentres(*shape, np.zeros(0, np.bool_), np.zeros(0, np.int64))
    x: Metres = region.x_min + (np.arange(columns, dtype=np.float64) + 0.5) * dx
    y: Metres = region.y_min + (np.arange(rows, dtype=np.float64) + 0.5) * dy
    inside = region.outline.hold_rows(x, y).ravel()
    if not inside.any():
        raise BadInput(
            "--region is too thin: no place of it is left",
            remedy="give an area that is wider than some tens of metres",
        )
    return SquareCentres(*shape, inside, _anchors(grids, columns, rows, np.flatnonzero(inside)))


def _anchors(grids: Grids, columns: int, rows: int, inside: Ints) -> Ints:
    """For each cell a place in the region: one of its own, else of the nearest cell that has one."""
    row, column = np.divmod(inside, columns)
    x = ((column + 0.5) / columns * grids.cells_x).astype(np.int64)
    y = ((row + 0.5) / rows * grids.cells_y).astype(np.int64)
    cells, first = np.unique(y * grids.cells_x + x, return_index=True)
    middle = np.column_stack(grids.cell_centres())
    _, near = cKDTree(middle[cells]).query(middle)
    anchors: Ints = inside[first[near]].astype(np.int64)
    return anchors


@njit(nogil=True, cache=True)
def timed(state, total, fastest, laws, period, every):  # type: ignore[no-untyped-def]
    """When a trip of so many metres begins, how many legs it has, and metres per leg.

    `laws`: running weights of hours and days, and the speeds by part of the day.
    """
    hours, days, speeds = laws
    begin, end, offset = period
    hour = pick(state, hours, 0, 24)
    day = pick(state, days, 0, len(days))
    speed = speeds[hour // (24 // DAYPARTS)] * _SLOWER
    speed *= min(max(1.0 + 0.35 * normal(state), 0.4), 2.0)
    speed = min(max(speed, SLOWEST_M_PER_S), fastest)
    legs = math.ceil(total / (speed * every / 1e6))
    legs = max(1, min(legs, (end - 1 - begin) // every))
    start = ((begin + offset) // _DAY_US + day) * _DAY_US - offset
    start += np.int64((hour * 60 + uniform(state) * 60) * 60) * 1_000_000
    start = min(max(start, begin), end - 1 - legs * every)
    start -= (start - begin) % 1_000_000
    return start, legs, speed * every / 1e6


@njit(nogil=True, cache=True)
def longer(column, size):  # type: ignore[no-untyped-def]
    """The same column with room for at least so many."""
    bigger = np.empty(max(2 * len(column), size), column.dtype)
    bigger[: len(column)] = column
    return bigger


@njit(nogil=True, cache=True)
def wanted_metres(bend, cells, cell_m):  # type: ignore[no-untyped-def]
    """How long a trip through so many cells is to be; below 0: as its points fall."""
    return max(bend * cell_m * (cells - 0.3), LEAST_M) if bend >= 0 else -1.0


@njit(nogil=True, cache=True)
def _emit(  # type: ignore[no-untyped-def]
    first, last, offsets, path, number, bends, purpose, laws, running, of_cell, grid, box, period,
    every, net, opened, anchor, cell_m,
):  # fmt: skip
    """Samples of the trips in a range: how many of each, their places on the lattice, their times.

    `opened`, `anchor`: as the lattice has them.
    """
    columns, rows, dx, dy = net
    fastest = FASTEST_M_PER_S - 1.4143 * max(dx, dy) / (every / 1e6)
    size = max(1024, (last - first) * 128)
    place, at = np.empty(size, np.int64), np.empty(size, np.int64)
    counts = np.zeros(last - first, np.int64)
    raw_x, raw_y = np.empty(MOST_POINTS + 2), np.empty(MOST_POINTS + 2)
    x, y = np.empty(MOST_POINTS + 2), np.empty(MOST_POINTS + 2)
    after = np.empty(MOST_POINTS + 2, np.int64)
    home = np.empty(MOST_POINTS + 2, np.int64)
    k = 0
    for t in range(first, last):
        state = stream(purpose, number + t)
        way = path[offsets[t] : offsets[t + 1]]
        wanted = wanted_metres(bends[t], len(way), cell_m)
        total = line(state, way, wanted, running, of_cell, grid, box, raw_x, raw_y, after, home)
        points = in_order(raw_x, raw_y, after, x, y)
        start, legs, step = timed(state, total, fastest, laws, period, every)
        if k + legs + 2 > len(place):
            place, at = longer(place, k + legs + 2), longer(at, k + legs + 2)
        i, gone, begun = 0, 0.0, k  # metres before point i
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
            if len(opened) and not opened[row * columns + column]:
                if k > begun:
                    break  # a trip ends where it would leave the region
                continue
            place[k], at[k] = row * columns + column, start + leg * every
            k += 1
        if k == begun:  # never inside: at the place nearest to where it begins
            place[k], at[k] = anchor[way[0]], start
            k += 1
        if k == begun + 1:
            place[k], at[k] = place[k - 1], at[k - 1] + every
            if at[k] >= period[1]:
                at[k - 1], at[k] = at[k - 1] - every, at[k - 1]
            k += 1
        counts[t - first] = k - begun
    return counts, place[:k], at[:k]


Parts = list[tuple[Ints, Ids, Ints]]
"""Of each range: samples of each trip, their places on the lattice, their times."""


def laws_of(model: Model) -> tuple[Metres, Metres, Metres]:
    """Running weights of hours and days, and the speeds by part of the day."""
    return np.cumsum(model.hours), np.cumsum(model.days), model.speeds


def line_laws(model: Model, grids: Grids) -> tuple[Any, ...]:
    """By what points are drawn: running weights of fine cells, their order, the grid, the box."""
    of_cell = np.argsort(grids.cell_of_fine(), kind="stable").astype(np.int64)
    region = grids.region
    return (
        np.cumsum(model.fine[of_cell]), of_cell,
        (grids.cells_x, grids.cells_y, grids.fine_x, grids.fine_y, grids.per_cell),
        (region.x_min, region.y_min, region.width, region.height),
    )  # fmt: skip


def emitted(
    model: Model,
    grids: Grids,
    period: Period,
    every_us: int,
    walks: tuple[Ints, Ints, Metres],
    first: int,
    purpose: np.uint64,
) -> Parts:
    """Samples of walks, given as offsets, cells and bends; the first has number `first`."""
    net = lattice(grids, every_us)
    offsets, path, bends = walks
    parts = map_ranges(
        _emit, offsets, offsets, path, first, bends, purpose, laws_of(model),
        *line_laws(model, grids), (period.begin, period.end, period.offset_us), every_us,
        (net.columns, net.rows, net.dx, net.dy), net.open, net.anchor, grids.cell_m,
    )  # fmt: skip
    return [(counts, place.astype(np.int32), at) for counts, place, at in parts]


def walks_of(
    model: Model, grids: Grids, count: int, purpose: np.uint64
) -> Iterator[tuple[int, tuple[Ints, Ints, Metres]]]:
    """So many walks, a batch at a time: the number of its first, and offsets, cells and bends."""
    for first in range(0, count, _BATCH):
        size = min(_BATCH, count - first)
        plans = planned(model, grids, first, size, derived(purpose, 0))
        offsets, path = walk(
            grids, plans.start, plans.zone, plans.steps, model.moves, model.turns, model.ends,
            derived(derived(purpose, 1), first),
        )  # fmt: skip
        yield first, (offsets, path, plans.bend if model.bent else np.full(size, -1.0))


def sampled(
    model: Model, grids: Grids, period: Period, count: int, every_us: int, purpose: np.uint64
) -> tuple[Trajectories, Locations]:
    """`count` trips with a sample every `every_us`; the places are those of the lattice that occur."""
    parts: Parts = []
    for first, walks in walks_of(model, grids, count, purpose):
        parts += emitted(model, grids, period, every_us, walks, first, derived(purpose, 2))
    return joined(parts, lattice(grids, every_us))


def joined(parts: Parts, net: SquareCentres) -> tuple[Trajectories, Locations]:
    """All parts in one, with the places that occur."""
    trajectories, used = numbered(parts, net.columns * net.rows)
    row, column = np.divmod(used, net.columns)
    x: Metres = net.x_min + (column + 0.5) * net.dx
    y: Metres = net.y_min + (row + 0.5) * net.dy
    return trajectories, Locations(x, y)


def numbered(parts: Parts, places: int) -> tuple[Trajectories, Ints]:
    """All parts in one, and which of so many places occur: those are numbered anew."""
    offsets = offsets_from(np.concatenate([*(part[0] for part in parts), np.zeros(0, np.int64)]))
    place = np.concatenate([*(part[1] for part in parts), np.zeros(0, np.int32)])
    at = np.concatenate([*(part[2] for part in parts), np.zeros(0, np.int64)])
    occurs = np.zeros(places, np.bool_)
    occurs[place] = True
    used = np.flatnonzero(occurs).astype(np.int64)
    new = np.zeros(places, np.int32)
    new[used] = np.arange(len(used), dtype=np.int32)
    return Trajectories(offsets, new[place], at, at[offsets[:-1]]), used
