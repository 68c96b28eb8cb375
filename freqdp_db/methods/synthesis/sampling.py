"""From the model to samples with places and times. Sees the noisy vectors' model and public inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from scipy.spatial import cKDTree

from freqdp_db.engines.ranges import add, map_ranges, merged
from freqdp_db.errors import BadInput
from freqdp_db.methods.synthesis.estimation import Model, neighbours
from freqdp_db.methods.synthesis.layout import (
    BEND_EDGES,
    BENDS,
    DAYPARTS,
    HEADINGS,
    METRE_CLASSES,
    METRE_EDGES,
    PACE_EDGES,
    PACES,
    REACH_OF_DISTANCE,
    REACHES,
    STEP_EDGES,
    Grids,
)
from freqdp_db.methods.synthesis.public import MINUTE_US, Period, Runs
from freqdp_db.methods.synthesis.walks import MOST_POINTS, counted, in_order, line, walk
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_from
from freqdp_db.model.kernels import derived, pick, stream, uniform, uniform_block
from freqdp_db.model.trajectories import Locations, Trajectories

# Weights of moves under which walks visit what was measured: simulate, compare, correct.


ROUNDS = 12
SIMULATED = 20_000
FIRST_POWER = 0.2


@dataclass(frozen=True)
class TripPlans:
    """What is drawn of each trip before its way: start cell, zone of destination, steps."""

    start: Ints
    zone: Ints
    steps: Ints
    bend: Metres
    """How long it is for its steps; below 0: as its points fall."""


def _chosen(running: Metres, uniforms: Metres) -> Ints:
    """Positions by the running sums of weights."""
    found = np.searchsorted(running, uniforms * running[-1], side="right")
    chosen: Ints = np.minimum(found, len(running) - 1).astype(np.int64)
    return chosen


def _chosen_in(table: Metres, group: Ints, uniforms: Metres) -> Ints:
    """A column for each row number in `group`, by that row's weights."""
    running = np.cumsum(table, axis=1)
    running /= np.maximum(running[:, -1:], 1e-300)  # a row of nothing is never chosen from
    rows = len(table)
    flat = (running + np.arange(rows)[:, None]).ravel()
    at = np.searchsorted(flat, group + uniforms, side="right")
    columns: Ints = np.clip(at - group * table.shape[1], 0, table.shape[1] - 1).astype(np.int64)
    return columns


def planned(model: Model, grids: Grids, first: int, count: int, purpose: np.uint64) -> TripPlans:
    """Trips `first` to `first + count` - 1, each from its own random numbers."""
    dice = uniform_block(purpose, first, count, 6)
    pair = _chosen(np.cumsum(model.flows), dice[:, 0])
    origin, zone = np.divmod(pair, grids.zones)
    start = _start_cells(model, grids, origin, dice[:, 1])
    far = REACH_OF_DISTANCE[grids.zone_distance_class()[pair]]
    shape = _chosen_in(model.lengths.reshape(REACHES, -1), far, dice[:, 2])
    step_class, bend = np.divmod(shape, BENDS)
    low, high = STEP_EDGES[step_class], STEP_EDGES[step_class + 1]
    # shorter ones of a class are likelier: the mean of one uniform and the smaller of two
    part = np.where(dice[:, 4] < 0.5, dice[:, 3], dice[:, 3] * dice[:, 3])
    steps = low + (part * (high - low)).astype(np.int64)
    factor = BEND_EDGES[bend] + dice[:, 5] * (BEND_EDGES[bend + 1] - BEND_EDGES[bend])
    return TripPlans(start, zone.astype(np.int64), steps, factor)


def _start_cells(model: Model, grids: Grids, origin: Ints, uniforms: Metres) -> Ints:
    zone_of = grids.zone_of_cell()
    order = np.argsort(zone_of, kind="stable")
    table = model.starts[order].reshape(grids.zones, -1)
    column = _chosen_in(table, origin, uniforms)
    cells: Ints = order[origin * table.shape[1] + column].astype(np.int64)
    return cells


def fitted(model: Model, grids: Grids, purpose: np.uint64, rounds: int = ROUNDS) -> Model:
    """Correct the weights of moves and turns, round by round, as long as that helps.

    A correction acts on every step of a walk, so its full size would overshoot; one that makes things
    worse is taken back, and the next is half as large.
    """
    to = neighbours(grids)
    inside = to >= 0
    ahead = np.where(inside, to, 0)
    targets = (model.visits, model.moves, model.turns)
    weights = model.moves / np.maximum(model.moves.sum(axis=1, keepdims=True), 1e-300)
    tried = best = replace(model, moves=weights)
    power, least, factors = FIRST_POWER, np.inf, None
    for number in range(rounds):
        simulated = _simulated(tried, grids, derived(purpose, number))
        error = _apart(model.visits, simulated[0]) + _apart(model.moves, simulated[1])
        if error < least or factors is None:
            best, least = tried, error
            factors = [_factor(t, s) for t, s in zip(targets, simulated, strict=True)]
        else:
            power /= 2
        visits, moves, turns = factors
        weights = best.moves * moves**power * np.where(inside, visits[ahead], 1.0) ** (power * 0.7)
        turned = best.turns * turns ** min(2 * power, 0.5)
        tried = replace(
            best, moves=weights / weights.sum(axis=1).mean(), turns=turned / turned.mean()
        )
    return best


def _simulated(model: Model, grids: Grids, purpose: np.uint64) -> tuple[Metres, Metres, Metres]:
    """Visits, moves and turns of some walks of this model."""
    plans = planned(model, grids, 0, SIMULATED, derived(purpose, 0))
    offsets, path = walk(
        grids, plans.start, plans.zone, plans.steps, model.moves, model.turns, model.ends,
        derived(purpose, 1),
    )  # fmt: skip
    parts = map_ranges(counted, offsets, offsets, path, grids.cells_x, grids.cells)
    visits, moves, turns = merged(parts, add, add, add)
    return visits, moves.reshape(-1, HEADINGS), turns


def _apart(target: Metres, simulated: Metres) -> float:
    """Half the L1 distance of the shares."""
    return float(np.abs(target / target.sum() - simulated / simulated.sum()).sum()) / 2


def _factor(target: Metres, simulated: Metres) -> Metres:
    """How much more is wanted than was simulated; both as shares, small counts left alone."""
    share = target * (simulated.sum() / target.sum())
    floor = 5.0
    factor: Metres = np.clip((share + floor) / (simulated + floor), 0.4, 2.5)
    return factor


FASTEST_M_PER_S = 110 / 3.6
SLOWEST_M_PER_S = 0.5
LEAST_M = 1000.0
LATTICE_M = 50.0
"""Samples lie on the centres of a public lattice, so that they share places."""
_DAY_US = 24 * 60 * MINUTE_US
_BATCH = 50_000
_MANY_PLACES = 2**26
"""Beyond it, places that occur are sorted instead of ticked off in a list of all."""
MOST_PLACES = 2**30


@dataclass(frozen=True)
class SquareCentres:
    """Centres of small squares over the region."""

    columns: int
    rows: int
    x_min: float
    y_min: float
    dx: float
    dy: float
    runs: Runs | None
    """Which of them lie in the region; None: all."""
    anchor: Ints
    """For each cell of a grid, one that does; empty: not needed."""


@lru_cache(maxsize=2)
def lattice(grids: Grids, every_us: int) -> SquareCentres:
    """Fine enough that moving to the nearest centre adds little to a speed."""
    region = grids.region
    side = min(LATTICE_M, every_us / 1e6)
    side = max(side, math.sqrt(region.width * region.height / MOST_PLACES))
    columns, rows = math.ceil(region.width / side), math.ceil(region.height / side)
    dx, dy = region.width / columns, region.height / rows
    shape = columns, rows, region.x_min, region.y_min, dx, dy
    if region.outline is None:
        return SquareCentres(*shape, None, np.zeros(0, np.int64))
    runs = region.outline.runs(
        (region.x_min + dx / 2, dx, columns), (region.y_min + dy / 2, dy, rows)
    )
    if not len(runs.first):
        raise BadInput(
            "[[region]] is too thin: no place of it is left",
            remedy="give an area that is wider than some tens of metres",
        )
    return SquareCentres(*shape, runs, _anchors(grids, columns, rows, runs))


def parts_of_runs(runs: Runs, columns: int, parts: int) -> tuple[Ints, Ints]:
    """First column and length of the part of each run in each of so many equal parts of the columns."""
    # column c belongs to the part that its middle lies in
    edge = np.ceil(np.arange(parts + 1) * (columns / parts) - 0.5).astype(np.int64)
    edge[0], edge[-1] = 0, columns
    first = np.maximum(runs.first[:, None], edge[None, :-1])
    last = np.minimum(runs.last[:, None], edge[None, 1:])
    return first, np.maximum(last - first, 0)


def part_of_rows(runs: Runs, rows: int, parts: int) -> Ints:
    """In which of so many equal parts of the rows each run lies."""
    part: Ints = ((runs.row + 0.5) / rows * parts).astype(np.int64)
    return part


def _anchors(grids: Grids, columns: int, rows: int, runs: Runs) -> Ints:
    """For each cell a place in the region: one of its own, else of the nearest cell that has one."""
    first, length = parts_of_runs(runs, columns, grids.cells_x)
    run, x = np.nonzero(length)
    own = part_of_rows(runs, rows, grids.cells_y)[run] * grids.cells_x + x
    cells, one = np.unique(own, return_index=True)
    middle = np.column_stack(grids.cell_centres())
    _, near = cKDTree(middle[cells]).query(middle)
    chosen = one[near]
    anchors: Ints = (runs.row[run] * columns + first[run, x])[chosen]
    return anchors


@njit(nogil=True, cache=True)
def _in_runs(runs, row, column):  # type: ignore[no-untyped-def]
    offsets, first, last = runs
    inside = False
    for i in range(offsets[row], offsets[row + 1]):
        inside |= first[i] <= column < last[i]
    return inside


@njit(nogil=True, cache=True)
def timed(state, total, fastest, laws, period, every):  # type: ignore[no-untyped-def]
    """When a trip of so many metres begins, how many legs it has, and metres per leg.

    `laws`: running weights of hours and days, the speeds by part of the day, running weights of paces by
    class of length, and the longest duration. A trip that could not be gone in that time ends before.
    """
    hours, days, speeds, paces, longest = laws
    begin, end, offset = period
    hour = pick(state, hours, 0, 24)
    day = pick(state, days, 0, len(days))
    far = METRE_CLASSES - 1
    while far > 0 and total < METRE_EDGES[far]:
        far -= 1
    pace = pick(state, paces, far * PACES, (far + 1) * PACES) - far * PACES
    factor = PACE_EDGES[pace] + uniform(state) * (PACE_EDGES[pace + 1] - PACE_EDGES[pace])
    speed = speeds[hour // (24 // DAYPARTS)] * factor
    speed = min(max(speed, SLOWEST_M_PER_S), fastest)
    legs = max(int(total / (speed * every / 1e6) + 0.5), math.ceil(total / (fastest * every / 1e6)))
    legs = max(1, min(legs, int(longest * MINUTE_US) // every, (end - 1 - begin) // every))
    start = ((begin + offset) // _DAY_US + day) * _DAY_US - offset
    start += np.int64((hour * 60 + uniform(state) * 60) * 60) * 1_000_000
    start = min(max(start, begin), end - 1 - legs * every)
    start -= (start - begin) % 1_000_000
    return start, legs, min(total / legs, fastest * every / 1e6)


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
    every, net, runs, anchor, cell_m,
):  # fmt: skip
    """Samples of the trips in a range: how many of each, their places on the lattice, their times.

    `runs`, `anchor`: as the lattice has them; without anchors, every place lies in the region.
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
            if len(anchor) and not _in_runs(runs, row, column):
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


def laws_of(model: Model) -> tuple[Metres, Metres, Metres, Metres, float]:
    """By what trips are timed: running weights of hours, days and paces, speeds, the longest duration."""
    return (
        np.cumsum(model.hours), np.cumsum(model.days), model.speeds, np.cumsum(model.paces),
        float(model.longest[0]),
    )  # fmt: skip


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
        (net.columns, net.rows, net.dx, net.dy),
        tuple(net.runs or (np.zeros(0, np.int64),) * 3), net.anchor, grids.cell_m,
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
    if places > _MANY_PLACES:
        found, number = np.unique(place, return_inverse=True)
        used, renumbered = found.astype(np.int64), number.astype(np.int32)
    else:
        occurs = np.zeros(places, np.bool_)
        occurs[place] = True
        used = np.flatnonzero(occurs).astype(np.int64)
        new = np.zeros(places, np.int32)
        new[used] = np.arange(len(used), dtype=np.int32)
        renumbered = new[place]
    return Trajectories(offsets, renumbered, at, at[offsets[:-1]]), used
