"""Sampling of trips, with places and times, from a model and public inputs.

A trip is first a walk from cell to cell, with a given number of steps and a given zone of destination. A
step from cell i in direction k after heading h has the weight moves[i, k] * turns[k - h]. For each zone of
destination, onward[s, cell, h] is the total weight of all ways of s steps that end in the zone, summed
backwards. Each step is then drawn in proportion to its weight times the onward weight after it. Walks thus
have exactly the distribution of the weights, given their start, length and zone of destination.

A walk then becomes a line in metres. A point is drawn in each of its cells, by the density of fine cells.
A line that is shorter than the length drawn for the trip gets additional points in the cells of the walk;
the points of a line that is longer are pulled towards their neighbours, each within its cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from scipy.spatial import cKDTree

from freqdp_db.engines.ranges import add, joined, map_ranges, merged
from freqdp_db.errors import BadInput
from freqdp_db.methods.synthesis.estimation import Model, neighbours
from freqdp_db.methods.synthesis.plan import (
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
    heading_of,
)
from freqdp_db.methods.synthesis.public import MINUTE_US, Period, Runs
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_from, offsets_of, rows_of
from freqdp_db.model.kernels import derived, longer, pick, stream, uniform, uniform_block, whole
from freqdp_db.model.trajectories import Locations, Trajectories

# --- Walks from cell to cell ---


MOST_STEPS = 200
"""Largest number of steps of a walk."""


@njit(nogil=True, cache=True)
def _onward(longest, moves, turns, ends, ahead):  # type: ignore[no-untyped-def]
    """[steps, cell, heading]: total weight of the ways to a zone, whose cells end a way with weight `ends`.

    Each number of steps is scaled to a maximum of 1.
    """
    cells = len(ahead)
    result = np.zeros((longest + 1, cells, HEADINGS))
    for c in range(cells):
        for h in range(HEADINGS):
            result[0, c, h] = ends[c]
    for s in range(1, longest + 1):
        largest = 0.0
        for c in range(cells):
            for k in range(HEADINGS):
                if ahead[c, k] < 0:
                    continue
                weight = moves[c, k] * result[s - 1, ahead[c, k], k]
                if weight == 0.0:
                    continue
                for h in range(HEADINGS):
                    result[s, c, h] += weight * turns[(k - h) % HEADINGS]
            for h in range(HEADINGS):
                largest = max(largest, result[s, c, h])
        if largest > 0.0:
            for c in range(cells):
                for h in range(HEADINGS):
                    result[s, c, h] /= largest
    return result


@njit(nogil=True, cache=True)
def _walk(  # type: ignore[no-untyped-def]
    first, last, by_zone, order, start, steps, purpose, moves, turns, ends, zone_of, ahead, more
):
    """Numbers of cells, and the cells, of the walks to zones `first` to `last` - 1, ordered by zone.

    ahead: the cell that each heading leads to. more: a walk that cannot reach its zone in the number of
    steps drawn gets up to this many more steps.
    """
    begin = by_zone[first]
    lengths = np.empty(by_zone[last] - begin, np.int64)
    path, size = np.empty(max(1024, 16 * len(lengths)), np.int64), 0
    weights = np.empty(HEADINGS)
    for zone in range(first, last):
        lo, hi = by_zone[zone], by_zone[zone + 1]
        if lo == hi:
            continue
        longest = 0
        for n in range(lo, hi):
            longest = max(longest, steps[order[n]])
        longest = min(longest + more, MOST_STEPS)
        here_ends = np.where(zone_of == zone, ends, 0.0)
        onward = _onward(longest, moves, turns, here_ends, ahead)
        for n in range(lo, hi):
            i = order[n]
            state = stream(purpose, i)
            cell, heading = start[i], -1
            left = min(steps[i], longest)
            reachable = False
            while True:
                if left == 0:
                    reachable = onward[0, cell, 0] > 0
                else:
                    for k in range(HEADINGS):
                        to = ahead[cell, k]
                        if to >= 0 and moves[cell, k] * onward[left - 1, to, k] > 0:
                            reachable = True
                if reachable or left >= longest:
                    break
                left += 1
            if not reachable:
                left = 0
            lengths[n - begin] = left + 1
            if size + left + 1 > len(path):
                path = longer(path, size + left + 1)
            path[size] = cell
            size += 1
            while left > 0:
                total = 0.0
                for k in range(HEADINGS):
                    weights[k] = 0.0
                    if ahead[cell, k] < 0:
                        continue
                    turn = 1.0 if heading < 0 else turns[(k - heading) % HEADINGS]
                    weights[k] = moves[cell, k] * turn * onward[left - 1, ahead[cell, k], k]
                    total += weights[k]
                aim = uniform(state) * total
                chosen = -1
                for k in range(HEADINGS):
                    if weights[k] > 0.0:
                        chosen = k
                        aim -= weights[k]
                        if aim < 0.0:
                            break
                cell, heading = ahead[cell, chosen], chosen
                left -= 1
                path[size] = cell
                size += 1
    return lengths, path[:size]


def walk(
    grids: Grids,
    start: Ints,
    zone: Ints,
    steps: Ints,
    moves: Metres,
    turns: Metres,
    ends: Metres,
    purpose: np.uint64,
) -> tuple[Ints, Ints]:
    """Offsets and cells of walks with these start cells, zones of destination and numbers of steps."""
    order = np.argsort(zone, kind="stable").astype(np.int64)
    by_zone = offsets_of(zone[order], grids.zones)
    parts = map_ranges(
        _walk, by_zone, by_zone, order, start, steps, purpose, moves.reshape(-1, HEADINGS), turns,
        ends, grids.zone_of_cell(), neighbours(grids), grids.cells_x + grids.cells_y,
    )  # fmt: skip
    lengths, path = joined(parts)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    rows, offsets = rows_of(offsets_from(lengths), back)
    return offsets, path[rows]


@njit(nogil=True, cache=True)
def count_walks(first, last, offsets, path, cells_x, cells):  # type: ignore[no-untyped-def]
    """Visits of cells, moves and turns of the walks in a range, counted as `vectors` does."""
    visits = np.zeros(cells, np.int64)
    moves = np.zeros(cells * HEADINGS, np.int64)
    turns = np.zeros(HEADINGS, np.int64)
    last_visit = np.full(cells, -1, np.int64)
    for i in range(first, last):
        heading = -1
        for at in range(offsets[i], offsets[i + 1]):
            c = path[at]
            if last_visit[c] != i:
                last_visit[c] = i
                visits[c] += 1
            if at + 1 < offsets[i + 1]:
                dx = path[at + 1] % cells_x - c % cells_x
                dy = path[at + 1] // cells_x - c // cells_x
                k = heading_of(dx, dy)
                moves[c * HEADINGS + k] += 1
                if heading >= 0:
                    turns[(k - heading) % HEADINGS] += 1
                heading = k
    return visits, moves, turns


# --- Lines in metres: a point for each cell of a walk, at a given length ---


MOST_POINTS = 1500
"""Largest number of points of a line."""
_PULLS = 12
"""Rounds in which the points of a long line are pulled together."""


@njit(nogil=True, cache=True)
def _point(state, cell, running, of_cell, per_cell, fine_x, box, shape):  # type: ignore[no-untyped-def]
    """A random point of a cell: a fine cell by its weight, then a uniform point in it."""
    at = pick(state, running, cell * per_cell * per_cell, (cell + 1) * per_cell * per_cell)
    fine = of_cell[at]
    x = box[0] + (fine % fine_x + uniform(state)) * box[2] / shape[0]
    y = box[1] + (fine // fine_x + uniform(state)) * box[3] / shape[1]
    return x, y


@njit(nogil=True, cache=True)
def _line_length(x, y, after):  # type: ignore[no-untyped-def]
    total, i = 0.0, 0
    while after[i] >= 0:
        j = after[i]
        total += math.sqrt((x[j] - x[i]) ** 2 + (y[j] - y[i]) ** 2)
        i = j
    return total


@njit(nogil=True, cache=True)
def _pull(n, x, y, cells, cells_x, width, height, box):  # type: ignore[no-untyped-def]
    """Move each point half way to the midpoint of its neighbours, within its cell."""
    for i in range(n):
        if i == 0:
            mx, my = x[1], y[1]
        elif i == n - 1:
            mx, my = x[n - 2], y[n - 2]
        else:
            mx, my = (x[i - 1] + x[i + 1]) / 2, (y[i - 1] + y[i + 1]) / 2
        left = box[0] + (cells[i] % cells_x) * width
        low = box[1] + (cells[i] // cells_x) * height
        x[i] = min(max((x[i] + mx) / 2, left + 0.02 * width), left + 0.98 * width)
        y[i] = min(max((y[i] + my) / 2, low + 0.02 * height), low + 0.98 * height)


@njit(nogil=True, cache=True)
def unlink_points(x, y, after, out_x, out_y):  # type: ignore[no-untyped-def]
    """Write the points of a linked list in order; returns their number."""
    i, n = 0, 0
    while i >= 0:
        out_x[n], out_y[n] = x[i], y[i]
        n += 1
        i = after[i]
    return n


@njit(nogil=True, cache=True)
def draw_line(state, path, metres, running, of_cell, grid, box, x, y, after, home):  # type: ignore[no-untyped-def]
    """Draw the points of one trip as a list linked by `after` (-1: last); returns the length of the line.

    metres: the wanted length; below 0 the line is not adjusted. grid: number of cells and of fine cells
    along x and y, and of fine cells along a cell. home: set to the cell of each point.
    """
    cells_x, cells_y, fine_x, fine_y, per_cell = grid
    shape = (fine_x, fine_y)
    width, height = box[2] / cells_x, box[3] / cells_y
    n = len(path)
    for i in range(n):
        x[i], y[i] = _point(state, path[i], running, of_cell, per_cell, fine_x, box, shape)
        home[i] = path[i]
    if n == 1:
        x[1], y[1] = _point(state, path[0], running, of_cell, per_cell, fine_x, box, shape)
        home[1] = path[0]
        n = 2
    for i in range(n):
        after[i] = i + 1 if i + 1 < n else -1
    now = _line_length(x, y, after)
    if metres < 0:
        return now
    if now > metres:
        if len(path) == 1:
            share = metres / now
            x[1], y[1] = x[0] + (x[1] - x[0]) * share, y[0] + (y[1] - y[0]) * share
            return metres
        for _ in range(_PULLS):
            _pull(n, x, y, home, cells_x, width, height, box)
            now = _line_length(x, y, after)
            if now <= metres:
                break
        return now
    while now < metres and n < MOST_POINTS:
        i = whole(state, n)
        if after[i] < 0:
            continue
        j = after[i]
        px, py = _point(state, home[i], running, of_cell, per_cell, fine_x, box, shape)
        x[n], y[n], home[n] = px, py, home[i]
        direct = math.sqrt((x[j] - x[i]) ** 2 + (y[j] - y[i]) ** 2)
        around = math.sqrt((px - x[i]) ** 2 + (py - y[i]) ** 2)
        around += math.sqrt((x[j] - px) ** 2 + (y[j] - py) ** 2)
        if now + around - direct > metres and around > 0:
            # the last point moves inward until the length fits
            share = (metres - now) / (around - direct + 1e-9)
            mx, my = (x[i] + x[j]) / 2, (y[i] + y[j]) / 2
            x[n], y[n] = mx + (px - mx) * share, my + (py - my) * share
            around = math.sqrt((x[n] - x[i]) ** 2 + (y[n] - y[i]) ** 2)
            around += math.sqrt((x[j] - x[n]) ** 2 + (y[j] - y[n]) ** 2)
            after[n], after[i] = j, n
            n += 1
            now += around - direct
            break
        after[n], after[i] = j, n
        n += 1
        now += around - direct
    return now


# --- Weights of moves with which walks have the measured visits: simulate, compare, correct ---


ROUNDS = 12
SIMULATED = 20_000
"""Walks that are simulated in each round."""
FIRST_POWER = 0.2
"""Exponent of the correction factors in the first round."""


@dataclass(frozen=True)
class TripPlans:
    """What is drawn for each trip before its walk."""

    start: Ints
    """First cell."""
    zone: Ints
    """Zone of destination."""
    steps: Ints
    bend: Metres
    """Length in relation to the number of steps (see BEND_EDGES); below 0: not prescribed."""


def _choose(running: Metres, uniforms: Metres) -> Ints:
    """Random positions, given the running sums of their weights and uniform numbers."""
    found = np.searchsorted(running, uniforms * running[-1], side="right")
    chosen: Ints = np.minimum(found, len(running) - 1).astype(np.int64)
    return chosen


def _choose_columns(table: Metres, group: Ints, uniforms: Metres) -> Ints:
    """For each row number in `group`, a random column by the weights of that row."""
    running = np.cumsum(table, axis=1)
    running /= np.maximum(running[:, -1:], 1e-300)  # no row of zeros is chosen from
    rows = len(table)
    flat = (running + np.arange(rows)[:, None]).ravel()
    at = np.searchsorted(flat, group + uniforms, side="right")
    columns: Ints = np.clip(at - group * table.shape[1], 0, table.shape[1] - 1).astype(np.int64)
    return columns


def plan_trips(model: Model, grids: Grids, first: int, count: int, purpose: np.uint64) -> TripPlans:
    """Plans of trips `first` to `first + count` - 1, each from its own stream of random numbers."""
    dice = uniform_block(purpose, first, count, 6)
    pair = _choose(np.cumsum(model.flows), dice[:, 0])
    origin, zone = np.divmod(pair, grids.zones)
    start = _start_cells(model, grids, origin, dice[:, 1])
    far = REACH_OF_DISTANCE[grids.zone_distance_class()[pair]]
    shape = _choose_columns(model.lengths.reshape(REACHES, -1), far, dice[:, 2])
    step_class, bend = np.divmod(shape, BENDS)
    low, high = STEP_EDGES[step_class], STEP_EDGES[step_class + 1]
    # low numbers of a class are more likely: an even mixture of a uniform number and its square
    part = np.where(dice[:, 4] < 0.5, dice[:, 3], dice[:, 3] * dice[:, 3])
    steps = low + (part * (high - low)).astype(np.int64)
    factor = BEND_EDGES[bend] + dice[:, 5] * (BEND_EDGES[bend + 1] - BEND_EDGES[bend])
    return TripPlans(start, zone.astype(np.int64), steps, factor)


def _start_cells(model: Model, grids: Grids, origin: Ints, uniforms: Metres) -> Ints:
    zone_of = grids.zone_of_cell()
    order = np.argsort(zone_of, kind="stable")
    table = model.starts[order].reshape(grids.zones, -1)
    column = _choose_columns(table, origin, uniforms)
    cells: Ints = order[origin * table.shape[1] + column].astype(np.int64)
    return cells


def fit_walks(model: Model, grids: Grids, purpose: np.uint64, rounds: int = ROUNDS) -> Model:
    """Adjust the weights of moves and turns until simulated walks have the estimated visits and moves.

    A correction affects every step of a walk, so it is applied with an exponent below 1. A correction that
    increases the error is discarded, and the exponent is halved.
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
        error = _share_distance(model.visits, simulated[0])
        error += _share_distance(model.moves, simulated[1])
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
    """Visits, moves and turns of SIMULATED walks of this model."""
    plans = plan_trips(model, grids, 0, SIMULATED, derived(purpose, 0))
    offsets, path = walk(
        grids, plans.start, plans.zone, plans.steps, model.moves, model.turns, model.ends,
        derived(purpose, 1),
    )  # fmt: skip
    parts = map_ranges(count_walks, offsets, offsets, path, grids.cells_x, grids.cells)
    visits, moves, turns = merged(parts, add, add, add)
    return visits, moves.reshape(-1, HEADINGS), turns


def _share_distance(target: Metres, simulated: Metres) -> float:
    """Half the L1 distance between both, as shares."""
    return float(np.abs(target / target.sum() - simulated / simulated.sum()).sum()) / 2


def _factor(target: Metres, simulated: Metres) -> Metres:
    """Correction factor of each count: target over simulated, both as shares; near 1 for small counts."""
    share = target * (simulated.sum() / target.sum())
    floor = 5.0
    factor: Metres = np.clip((share + floor) / (simulated + floor), 0.4, 2.5)
    return factor


# --- Samples: places of a public lattice, and times ---


FASTEST_M_PER_S = 110 / 3.6
SLOWEST_M_PER_S = 0.5
LEAST_M = 1000.0
"""Shortest length of a trip."""
LATTICE_M = 50.0
"""Spacing of the public lattice whose points are the places of samples."""
_DAY_US = 24 * 60 * MINUTE_US
_BATCH = 50_000
"""Trips that are sampled at a time."""
MOST_PLACES = 2**30
"""Largest number of lattice points; in larger regions their spacing grows."""


@dataclass(frozen=True)
class SquareCentres:
    """The lattice: centres of small squares that cover the box of the region."""

    columns: int
    rows: int
    x_min: float
    y_min: float
    dx: float
    dy: float
    runs: Runs | None
    """The points that lie in the region; None: all."""
    anchor: Ints
    """For each cell of the grid a point in the region; empty if all points are in the region."""


@lru_cache(maxsize=2)
def lattice(grids: Grids, every_us: int) -> SquareCentres:
    """The lattice for an interval between samples: so fine that rounding hardly changes speeds."""
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


def intersect_runs(runs: Runs, columns: int, parts: int) -> tuple[Ints, Ints]:
    """[run, part]: first column and length of the intersection of runs with equal parts of the columns."""
    # a column belongs to the part that contains its middle
    edge = np.ceil(np.arange(parts + 1) * (columns / parts) - 0.5).astype(np.int64)
    edge[0], edge[-1] = 0, columns
    first = np.maximum(runs.first[:, None], edge[None, :-1])
    last = np.minimum(runs.last[:, None], edge[None, 1:])
    return first, np.maximum(last - first, 0)


def rows_to_parts(runs: Runs, rows: int, parts: int) -> Ints:
    """The part that each run lies in, if the rows are divided into equal parts."""
    part: Ints = ((runs.row + 0.5) / rows * parts).astype(np.int64)
    return part


def _anchors(grids: Grids, columns: int, rows: int, runs: Runs) -> Ints:
    """For each cell a lattice point in the region: in the cell, or in the nearest cell that has one."""
    first, length = intersect_runs(runs, columns, grids.cells_x)
    run, x = np.nonzero(length)
    own = rows_to_parts(runs, rows, grids.cells_y)[run] * grids.cells_x + x
    cells, one = np.unique(own, return_index=True)
    middle = np.column_stack(grids.cell_centres())
    _, near = cKDTree(middle[cells]).query(middle)
    chosen = one[near]
    anchors: Ints = (runs.row[run] * columns + first[run, x])[chosen]
    return anchors


def restrict_to_region(model: Model, grids: Grids, every_us: int) -> Model:
    """The model with weight 0 outside the region, and less in fine cells that are partly outside."""
    if grids.region.outline is None:
        return model
    share = _share_in_region(grids, lattice(grids, every_us))
    cell_of, zone_of = grids.cell_of_fine(), grids.zone_of_cell()
    opened = np.bincount(cell_of, share, minlength=grids.cells) > 0
    zones = np.bincount(zone_of, opened, minlength=grids.zones) > 0
    ahead = neighbours(grids)
    passable = opened[:, None] & (ahead >= 0) & opened[np.maximum(ahead, 0)]
    starts = np.where(opened, model.starts, 0.0)
    whole = np.bincount(zone_of, starts, minlength=grids.zones)
    starts = starts / np.maximum(whole, 1e-300)[zone_of]
    return replace(
        model,
        flows=model.flows * np.outer(zones, zones).ravel(),
        starts=starts,
        ends=starts.copy(),
        moves=np.where(passable, model.moves, 0.0),
        visits=np.where(opened, model.visits, 0.0),
        fine=model.fine * share,
    )


def _share_in_region(grids: Grids, net: SquareCentres) -> Metres:
    """Share of the lattice points of each fine cell that lie in the region."""
    assert net.runs is not None
    whole = Runs(
        np.arange(net.rows + 1), np.zeros(net.rows, np.int64), np.full(net.rows, net.columns)
    )

    def count_points(runs: Runs) -> Metres:
        _, length = intersect_runs(runs, net.columns, grids.fine_x)
        row = rows_to_parts(runs, net.rows, grids.fine_y)
        table = np.zeros((grids.fine_y, grids.fine_x))
        np.add.at(table, row, length)
        return table.ravel()

    share: Metres = count_points(net.runs) / np.maximum(count_points(whole), 1.0)
    return share


@njit(nogil=True, cache=True)
def _in_runs(runs, row, column):  # type: ignore[no-untyped-def]
    """Whether a lattice point lies in the region."""
    offsets, first, last = runs
    inside = False
    for i in range(offsets[row], offsets[row + 1]):
        inside |= first[i] <= column < last[i]
    return inside


@njit(nogil=True, cache=True)
def choose_times(state, total, fastest, laws, period, every):  # type: ignore[no-untyped-def]
    """Begin, number of segments and metres per segment of a trip of `total` metres.

    laws: the result of `laws_of`. A trip that cannot be finished within the longest duration is cut off.
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
def wanted_metres(bend, cells, cell_m):  # type: ignore[no-untyped-def]
    """Wanted length of a trip through this many cells; below 0: not prescribed."""
    return max(bend * cell_m * (cells - 0.3), LEAST_M) if bend >= 0 else -1.0


@njit(nogil=True, cache=True)
def _emit(  # type: ignore[no-untyped-def]
    first, last, offsets, path, number, bends, purpose, laws, running, of_cell, grid, box, period,
    every, net, runs, anchor, cell_m,
):  # fmt: skip
    """Samples of the trips in a range: their number for each trip, lattice points, and times.

    runs, anchor: those of the lattice; without anchors every point lies in the region.
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
        total = draw_line(
            state, way, wanted, running, of_cell, grid, box, raw_x, raw_y, after, home
        )
        points = unlink_points(raw_x, raw_y, after, x, y)
        start, legs, step = choose_times(state, total, fastest, laws, period, every)
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
                    break  # a trip ends where it leaves the region
                continue
            place[k], at[k] = row * columns + column, start + leg * every
            k += 1
        if k == begun:  # never inside: one sample at the anchor of its first cell
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
"""For each range: the number of samples of each trip, their places and their times."""


def laws_of(model: Model) -> tuple[Metres, Metres, Metres, Metres, float]:
    """What `choose_times` reads: running weights of hours and of days, speeds by part of the day, running
    weights of paces by class of length, longest duration in minutes."""
    return (
        np.cumsum(model.hours), np.cumsum(model.days), model.speeds, np.cumsum(model.paces),
        float(model.longest[0]),
    )  # fmt: skip


def line_laws(model: Model, grids: Grids) -> tuple[Any, ...]:
    """What `draw_line` reads: running weights of fine cells, their order by cell, the grid, the box."""
    of_cell = np.argsort(grids.cell_of_fine(), kind="stable").astype(np.int64)
    region = grids.region
    return (
        np.cumsum(model.fine[of_cell]), of_cell,
        (grids.cells_x, grids.cells_y, grids.fine_x, grids.fine_y, grids.per_cell),
        (region.x_min, region.y_min, region.width, region.height),
    )  # fmt: skip


def emit_samples(
    model: Model,
    grids: Grids,
    period: Period,
    every_us: int,
    walks: tuple[Ints, Ints, Metres],
    first: int,
    purpose: np.uint64,
) -> Parts:
    """Samples of walks, which are given as offsets, cells and bends. first: number of the first trip."""
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
    """Draw walks in batches: the number of the first one, and offsets, cells and bends of all."""
    for first in range(0, count, _BATCH):
        size = min(_BATCH, count - first)
        plans = plan_trips(model, grids, first, size, derived(purpose, 0))
        offsets, path = walk(
            grids, plans.start, plans.zone, plans.steps, model.moves, model.turns, model.ends,
            derived(derived(purpose, 1), first),
        )  # fmt: skip
        yield first, (offsets, path, plans.bend if model.bent else np.full(size, -1.0))


def sample(
    model: Model, grids: Grids, period: Period, count: int, every_us: int, purpose: np.uint64
) -> tuple[Trajectories, Locations]:
    """Sample `count` trips with a sample every `every_us`. Places are the lattice points that occur."""
    parts: Parts = []
    for first, walks in walks_of(model, grids, count, purpose):
        parts += emit_samples(model, grids, period, every_us, walks, first, derived(purpose, 2))
    return on_lattice(parts, lattice(grids, every_us))


def on_lattice(parts: Parts, net: SquareCentres) -> tuple[Trajectories, Locations]:
    """Join parts; places are the lattice points that occur."""
    trajectories, used = number_places(parts)
    row, column = np.divmod(used, net.columns)
    x: Metres = net.x_min + (column + 0.5) * net.dx
    y: Metres = net.y_min + (row + 0.5) * net.dy
    return trajectories, Locations(x, y)


def number_places(parts: Parts) -> tuple[Trajectories, Ints]:
    """Join parts and renumber the places that occur; returns their original numbers, too."""
    offsets = offsets_from(np.concatenate([*(part[0] for part in parts), np.zeros(0, np.int64)]))
    place = np.concatenate([*(part[1] for part in parts), np.zeros(0, np.int32)])
    at = np.concatenate([*(part[2] for part in parts), np.zeros(0, np.int64)])
    used, number = np.unique(place, return_inverse=True)
    trajectories = Trajectories(offsets, number.astype(np.int32), at, at[offsets[:-1]])
    return trajectories, used.astype(np.int64)
