"""From trips to the draw: clipped vectors, their sums, and noise. The only part that sees data.

An object with the counts c of a statistic contributes the vector w c. The weight w is the largest whole
number up to 2**16 with w^2 |c|^2 <= bound^2 (zCDP) or w |c|_1 <= bound (pure accounting), where the bound
is 2**16 times the public clip. All of it is whole-number arithmetic: clips hold exactly, and sums do not
depend on the order of objects.

Input: all samples of the build, the public region and period, the parameters.
Protected change: one object with all its data, added or removed.
Sensitivity: each statistic's sum moves by that object's vector, at most its bound long (vectors.py).
Guarantee: rho-zCDP, rho from (epsilon, delta), by composition of the statistics' shares; with pure
accounting, epsilon-DP. The second round's plan depends on the first round's noisy numbers only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import add, joined, map_ranges, merged
from freqdp_db.methods.synthesis.plan import (
    BEND_EDGES,
    BEND_GROUP_OF_STEPS,
    BENDS,
    DAYPARTS,
    FIRST_ROUND,
    HEADINGS,
    LARGEST_BOUND,
    METRE_EDGES,
    MINUTE_EDGES,
    ORDER,
    REACH_OF_DISTANCE,
    SCALE,
    SIZE_CLASSES,
    SIZE_EDGES,
    STEP_CLASSES,
    STEP_EDGES,
    Draw,
    MeasurementPlan,
    Statistic,
    heading_of,
    noise_of,
    planned_from,
)
from freqdp_db.methods.synthesis.public import MINUTE_US, Parameters, Period, Region
from freqdp_db.methods.synthesis.trips import Trips, cut_trips
from freqdp_db.model.arrays import Ints, offsets_from
from freqdp_db.model.kernels import SEED_WORDS, longer
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.privacy.noise import RandomSource

MOST = 2**20
"""Largest count of an object, so that no sum of squares exceeds 64 bits."""

# positions of the statistics in `MeasurementPlan.statistics`
(
    TRIPS, ORIGINS, DESTINATIONS, SAME_ZONE, DISTANCES, VISITS, MOVES, TURNS, STEPS, BEND, METRES,
    MINUTES, HOURS, DAYS, PACE, FINE, FLOWS,
) = range(len(ORDER))  # fmt: skip

_DAY_US = 24 * 60 * MINUTE_US


@njit(nogil=True, cache=True)
def whole_root(n):  # type: ignore[no-untyped-def]
    """The largest whole number whose square is at most n. The float is only a first guess."""
    r = np.int64(math.sqrt(float(n)))
    while r * r > n:
        r -= 1
    while (r + 1) * (r + 1) <= n:
        r += 1
    return r


@njit(nogil=True, cache=True)
def weight(counts, used, bound, squares):  # type: ignore[no-untyped-def]
    """The largest weight up to SCALE with which counts[used] keep the bound."""
    size = np.int64(0)
    for k in range(len(used)):
        c = counts[used[k]]
        size += c * c if squares else c
    if size == 0:
        return np.int64(0)
    if squares:
        return min(np.int64(SCALE), whole_root((bound * bound) // size))
    return min(np.int64(SCALE), bound // size)


@njit(nogil=True, cache=True)
def _add(counters, statistic, entry, by):  # type: ignore[no-untyped-def]
    """Add to a count of the current object, and list the count as used."""
    counts, used, length, starts = counters
    if by <= 0:
        return
    at = starts[statistic] + entry
    if counts[at] == 0:
        used[statistic, length[statistic]] = at
        length[statistic] += 1
    counts[at] = min(counts[at] + by, MOST)


@njit(nogil=True, cache=True)
def step_towards(x, y, to_x, to_y, from_x, from_y):  # type: ignore[no-untyped-def]
    """The next cell on the straight way from (from_x, from_y): a move along the longer axis, or a diagonal
    one."""
    whole = max(abs(to_x - from_x), abs(to_y - from_y))
    done = max(abs(x - from_x), abs(y - from_y)) + 1
    # halves are rounded away from the start, in both directions alike
    part_x, part_y = abs(to_x - from_x), abs(to_y - from_y)
    next_x = (2 * part_x * done + whole) // (2 * whole)
    next_y = (2 * part_y * done + whole) // (2 * whole)
    return (
        from_x + next_x if to_x >= from_x else from_x - next_x,
        from_y + next_y if to_y >= from_y else from_y - next_y,
    )


@njit(nogil=True, cache=True)
def _class_of(value, edges):  # type: ignore[no-untyped-def]
    """The class of a value; the first and the last class are open."""
    j = len(edges) - 2
    while j > 0 and value < edges[j]:
        j -= 1
    return j


@njit(nogil=True, cache=True)
def sum_objects(  # type: ignore[no-untyped-def]
    first, last, by_object, offsets, x, y, at, box, shape, distance, clock, starts, bounds,
    squares,
):  # fmt: skip
    """Sum of the clipped vectors of objects `first` to `last` - 1, all statistics in one column.

    starts: position of each statistic in the column. squares: whether bounds are of L2 norms.
    """
    zones_x, zones_y, per_zone, per_cell = shape
    cells_x, cells_y = zones_x * per_zone, zones_y * per_zone
    fine_x, fine_y = cells_x * per_cell, cells_y * per_cell
    x_min, y_min, width, height = box
    cell_m = (width / cells_x + height / cells_y) / 2
    begin_day, offset_us = clock
    total = np.zeros(starts[-1], np.int64)
    counts = np.zeros(starts[-1], np.int64)
    statistics = len(starts) - 1
    used = np.empty((statistics, np.max(starts[1:] - starts[:-1])), np.int64)
    length = np.zeros(statistics, np.int64)
    counters = (counts, used, length, starts)
    seen_cell = np.full(cells_x * cells_y, -1, np.int64)
    seen_fine = np.full(fine_x * fine_y, -1, np.int64)
    for u in range(first, last):
        for t in range(by_object[u], by_object[u + 1]):
            lo, hi = offsets[t], offsets[t + 1]
            metres, steps, heading = 0.0, 0, -1
            cx, cy, fx, fy = -1, -1, -1, -1
            zone_from = 0
            for i in range(lo, hi):
                to_fx = min(np.int64((x[i] - x_min) / width * fine_x), fine_x - 1)
                to_fy = min(np.int64((y[i] - y_min) / height * fine_y), fine_y - 1)
                to_x, to_y = to_fx // per_cell, to_fy // per_cell
                if i == lo:
                    cx, cy, fx, fy = to_x, to_y, to_fx, to_fy
                    zone_from = (cy // per_zone) * zones_x + cx // per_zone
                    seen_cell[cy * cells_x + cx] = t
                    _add(counters, VISITS, cy * cells_x + cx, 1)
                    seen_fine[fy * fine_x + fx] = t
                    _add(counters, FINE, fy * fine_x + fx, 1)
                    continue
                metres += math.hypot(x[i] - x[i - 1], y[i] - y[i - 1])
                from_x, from_y = cx, cy
                while cx != to_x or cy != to_y:
                    nx, ny = step_towards(cx, cy, to_x, to_y, from_x, from_y)
                    turned = heading_of(nx - cx, ny - cy)
                    cell = cy * cells_x + cx
                    _add(counters, MOVES, cell * HEADINGS + turned, 1)
                    if heading >= 0:
                        _add(counters, TURNS, (turned - heading) % HEADINGS, 1)
                    heading = turned
                    cx, cy = nx, ny
                    steps += 1
                    cell = cy * cells_x + cx
                    if seen_cell[cell] != t:
                        seen_cell[cell] = t
                        _add(counters, VISITS, cell, 1)
                from_x, from_y = fx, fy
                while fx != to_fx or fy != to_fy:
                    fx, fy = step_towards(fx, fy, to_fx, to_fy, from_x, from_y)
                    cell = fy * fine_x + fx
                    if seen_fine[cell] != t:
                        seen_fine[cell] = t
                        _add(counters, FINE, cell, 1)
            zone_to = (cy // per_zone) * zones_x + cx // per_zone
            far = distance[zone_from * zones_x * zones_y + zone_to]
            step_class = _class_of(steps, STEP_EDGES)
            by_steps = REACH_OF_DISTANCE[far] * STEP_CLASSES + step_class
            bend = _class_of(metres / (cell_m * (steps + 0.7)), BEND_EDGES)
            by_bend = BEND_GROUP_OF_STEPS[step_class] * BENDS + bend
            local = at[lo] + offset_us
            hour = (local % _DAY_US) // (60 * MINUTE_US)
            day = local // _DAY_US - begin_day
            part = hour // (24 // DAYPARTS)
            lasts = (at[hi - 1] - at[lo]) / MINUTE_US
            _add(counters, TRIPS, 0, 1)
            _add(counters, ORIGINS, zone_from, 1)
            _add(counters, DESTINATIONS, zone_to, 1)
            if zone_from == zone_to:
                _add(counters, SAME_ZONE, zone_to, 1)
            _add(counters, DISTANCES, far, 1)
            _add(counters, STEPS, by_steps, 1)
            _add(counters, BEND, by_bend, 1)
            _add(counters, METRES, _class_of(metres, METRE_EDGES), 1)
            _add(counters, MINUTES, _class_of(lasts, MINUTE_EDGES), 1)
            _add(counters, HOURS, hour, 1)
            _add(counters, DAYS, day, 1)
            _add(counters, PACE, part, np.int64(lasts + 0.5))
            _add(counters, PACE, DAYPARTS + part, np.int64(metres / 100.0))
            _add(counters, FLOWS, zone_from * zones_x * zones_y + zone_to, 1)
        for f in range(statistics):
            mine = used[f, : length[f]]
            w = weight(counts, mine, bounds[f], squares)
            for k in range(len(mine)):
                total[mine[k]] += w * counts[mine[k]]
                counts[mine[k]] = 0
            length[f] = 0
        # seen_cell and seen_fine hold numbers of trips, which are unique: no need to reset them
    return (total,)


def summed(trips: Trips, plan: MeasurementPlan, *, pure: bool) -> list[Ints]:
    """The sum over objects of each statistic's clipped vector.

    Protected change: one object added or removed. It moves each sum by exactly that object's vector,
    whose L2 norm (L1 for pure) is at most the statistic's bound.
    """
    starts, arguments = _arguments(trips, plan, pure)
    parts = map_ranges(sum_objects, trips.by_object, trips.by_object, *arguments)
    (total,) = merged(parts, add)
    return [total[a:b] for a, b in pairwise(starts)]


def vectors_of(trips: Trips, plan: MeasurementPlan, one: int, *, pure: bool) -> list[Ints]:
    """The clipped vectors of the object with number `one`."""
    starts, arguments = _arguments(trips, plan, pure)
    (total,) = sum_objects(one, one + 1, trips.by_object, *arguments)
    return [total[a:b] for a, b in pairwise(starts)]


def _arguments(trips: Trips, plan: MeasurementPlan, pure: bool) -> tuple[Ints, tuple[Any, ...]]:
    grids, region, period = plan.grids, plan.grids.region, plan.period
    if tuple(statistic.name for statistic in plan.statistics) != ORDER:
        raise ValueError("the plan's statistics are not those that are counted")
    bounds = np.array([statistic.bound for statistic in plan.statistics], np.int64)
    if not 0 < bounds.min() <= bounds.max() <= LARGEST_BOUND:
        raise ValueError("a clip is out of range")
    starts = offsets_from(np.array(plan.sizes, np.int64))
    begin_day = (period.begin + period.offset_us) // _DAY_US
    return starts, (
        trips.offsets, trips.x, trips.y, trips.at,
        (region.x_min, region.y_min, region.width, region.height),
        (grids.zones_x, grids.zones_y, grids.per_zone, grids.per_cell),
        grids.zone_distance_class(),
        (begin_day, period.offset_us),
        starts, bounds, not pure,
    )  # fmt: skip


def size_counts(trips: Trips) -> tuple[int, Ints]:
    """Number of objects with trips, and the histogram of their numbers of trips.

    An object adds 1 to the first, and to one class of the second.
    """
    have = np.diff(trips.by_object)
    have = have[have > 0]
    classes = np.searchsorted(np.array(SIZE_EDGES[:-1], np.int64), have, side="right") - 1
    return len(have), np.bincount(classes, minlength=SIZE_CLASSES).astype(np.int64)


# --- The draw ---


def with_noise(
    total: Ints, statistic: Statistic, parameters: Parameters, source: RandomSource
) -> Ints:
    """A sum of clipped vectors with noise on every entry; zeros if the statistic is not measured."""
    if not statistic.share:
        return np.zeros(len(total), np.int64)
    return total + noise_of(parameters, statistic).noise(source, len(total))


def measured(
    trips: Trips, region: Region, period: Period, parameters: Parameters, source: RandomSource
) -> Draw:
    """Measure both rounds, given the trips of all objects."""
    objects, classes = size_counts(trips)
    first = [
        with_noise(total * SCALE, statistic, parameters, source)
        for total, statistic in zip(
            (np.array([objects], np.int64), classes), FIRST_ROUND, strict=True
        )
    ]
    plan = planned_from(first[0], first[1], region, period, parameters)
    totals = summed(trips, plan, pure=parameters.pure)
    second = {
        statistic.name: with_noise(total, statistic, parameters, source)
        for total, statistic in zip(totals, plan.statistics, strict=True)
    }
    seed = source.uniform_words(SEED_WORDS) & 0xFFFFFFFF
    return Draw(objects=first[0], sizes=first[1], **second, seed=seed)


def draw(
    trajectories: Trajectories,
    places: Locations,
    region: Region,
    period: Period,
    parameters: Parameters,
    source: RandomSource,
) -> Draw:
    """Everything random of a release: the noisy vectors, and the seed of the sampling."""
    return measured(
        cut_trips(trajectories, places, region, period), region, period, parameters, source
    )


# --- Trips as sequences of cells ---


@dataclass(frozen=True)
class CellTrips:
    """Trips as sequences of neighbouring cells of a square grid."""

    by_object: Ints
    offsets: Ints
    cells: Ints
    side: int
    """Cells along each side of the region."""


@njit(nogil=True, cache=True)
def _cell_sequences(first, last, offsets, x, y, box, side):  # type: ignore[no-untyped-def]
    lengths = np.zeros(last - first, np.int64)
    out = np.empty(4 * (offsets[last] - offsets[first]) + 16, np.int64)
    k = 0
    for t in range(first, last):
        cx, cy = 0, 0
        for i in range(offsets[t], offsets[t + 1]):
            to_x = min(np.int64((x[i] - box[0]) / box[2] * side), side - 1)
            to_y = min(np.int64((y[i] - box[1]) / box[3] * side), side - 1)
            if k + 2 * side > len(out):
                out = longer(out, k + 2 * side)
            if i == offsets[t]:
                cx, cy = to_x, to_y
                out[k] = cy * side + cx
                k += 1
                lengths[t - first] += 1
                continue
            from_x, from_y = cx, cy
            while cx != to_x or cy != to_y:
                cx, cy = step_towards(cx, cy, to_x, to_y, from_x, from_y)
                out[k] = cy * side + cx
                k += 1
                lengths[t - first] += 1
    return lengths, out[:k]


def cell_trips(trips: Trips, region: Region, side: int) -> CellTrips:
    """The cells that trips pass, on straight lines between their samples. side: cells along each axis."""
    parts = map_ranges(
        _cell_sequences, trips.offsets, trips.offsets, trips.x, trips.y,
        (region.x_min, region.y_min, region.width, region.height), side,
    )  # fmt: skip
    lengths, cells = joined(parts)
    return CellTrips(trips.by_object, offsets_from(lengths), cells, side)
