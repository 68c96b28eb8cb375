"""Walks from cell to cell that end in a given zone after a given number of steps.

A step from cell i in direction k, after heading h, weighs moves[i, k] * turns[k - h]. What a state can
still become is summed up backwards once for each zone of destination: onward[s, cell, h] is the weight
of all ways of s steps from there that end in the zone. Forward, each step is drawn in proportion to
its weight times what is onward from it: so walks have exactly the law of the weights, given their
start, length and zone of destination.

Walks from cell to cell become lines in metres: a point for each cell, and a length to meet.

A walk's points are drawn in its cells by the density of fine cells. Where the line is shorter than the
length that was drawn for the trip, it wanders: more points of cells on its way. Where it is longer, its
points are pulled towards their neighbours, each within its cell.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.methods.synthesis.layout import HEADING_X, HEADING_Y, HEADINGS, Grids, heading_of
from freqdp_db.model.arrays import Ints, Metres, offsets_from, offsets_of, rows_of
from freqdp_db.model.kernels import pick, stream, uniform, whole

MOST_STEPS = 200


@njit(nogil=True, cache=True)
def _onward(longest, moves, turns, ends, cells_x, cells_y):  # type: ignore[no-untyped-def]
    """Weights of all ways to the zone whose cells weigh `ends`; row 0 is for no step."""
    cells = cells_x * cells_y
    result = np.zeros((longest + 1, cells, HEADINGS))
    for c in range(cells):
        for h in range(HEADINGS):
            result[0, c, h] = ends[c]
    for s in range(1, longest + 1):
        largest = 0.0
        for c in range(cells):
            cx, cy = c % cells_x, c // cells_x
            for k in range(HEADINGS):
                nx, ny = cx + HEADING_X[k], cy + HEADING_Y[k]
                if nx < 0 or ny < 0 or nx >= cells_x or ny >= cells_y:
                    continue
                ahead = moves[c, k] * result[s - 1, ny * cells_x + nx, k]
                if ahead == 0.0:
                    continue
                for h in range(HEADINGS):
                    result[s, c, h] += ahead * turns[(k - h) % HEADINGS]
            for h in range(HEADINGS):
                largest = max(largest, result[s, c, h])
        if largest > 0.0:
            for c in range(cells):
                for h in range(HEADINGS):
                    result[s, c, h] /= largest
    return result


@njit(nogil=True, cache=True)
def _walk(  # type: ignore[no-untyped-def]
    first, last, by_zone, order, start, steps, purpose, moves, turns, ends, zone_of, cells_x,
    cells_y,
):  # fmt: skip
    """Lengths and cells of the trips of zones `first` to `last` - 1, in their order by zone."""
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
        # a way that cannot be gone in the steps that were drawn takes more of them
        longest = min(longest + cells_x + cells_y, MOST_STEPS)
        here_ends = np.where(zone_of == zone, ends, 0.0)
        onward = _onward(longest, moves, turns, here_ends, cells_x, cells_y)
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
                        nx, ny = cell % cells_x + HEADING_X[k], cell // cells_x + HEADING_Y[k]
                        if nx < 0 or ny < 0 or nx >= cells_x or ny >= cells_y:
                            continue
                        if moves[cell, k] * onward[left - 1, ny * cells_x + nx, k] > 0:
                            reachable = True
                if reachable or left >= longest:
                    break
                left += 1
            if not reachable:
                left = 0
            lengths[n - begin] = left + 1
            if size + left + 1 > len(path):
                more = np.empty(max(2 * len(path), size + left + 1), np.int64)
                more[:size] = path[:size]
                path = more
            path[size] = cell
            size += 1
            while left > 0:
                total = 0.0
                for k in range(HEADINGS):
                    weights[k] = 0.0
                    nx, ny = cell % cells_x + HEADING_X[k], cell // cells_x + HEADING_Y[k]
                    if nx < 0 or ny < 0 or nx >= cells_x or ny >= cells_y:
                        continue
                    turn = 1.0 if heading < 0 else turns[(k - heading) % HEADINGS]
                    weights[k] = moves[cell, k] * turn * onward[left - 1, ny * cells_x + nx, k]
                    total += weights[k]
                aim = uniform(state) * total
                chosen = -1
                for k in range(HEADINGS):
                    if weights[k] > 0.0:
                        chosen = k
                        aim -= weights[k]
                        if aim < 0.0:
                            break
                cell += HEADING_Y[chosen] * cells_x + HEADING_X[chosen]
                heading = chosen
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
    """Offsets and cells of the walks, one for each start cell, zone of destination and length."""
    order = np.argsort(zone, kind="stable").astype(np.int64)
    by_zone = offsets_of(zone[order], grids.zones)
    parts = map_ranges(
        _walk, by_zone, by_zone, order, start, steps, purpose, moves.reshape(-1, HEADINGS), turns,
        ends, grids.zone_of_cell(), grids.cells_x, grids.cells_y,
    )  # fmt: skip
    lengths, path = joined(parts)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    rows, offsets = rows_of(offsets_from(lengths), back)
    return offsets, path[rows]


@njit(nogil=True, cache=True)
def counted(first, last, offsets, path, cells_x, cells):  # type: ignore[no-untyped-def]
    """Distinct visits of cells, moves and turns of the walks in a range, as the vectors count them."""
    visits = np.zeros(cells, np.int64)
    moves = np.zeros(cells * HEADINGS, np.int64)
    turns = np.zeros(HEADINGS, np.int64)
    seen = np.full(cells, -1, np.int64)
    for i in range(first, last):
        heading = -1
        for at in range(offsets[i], offsets[i + 1]):
            c = path[at]
            if seen[c] != i:
                seen[c] = i
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


# --- Walks from cell to cell become lines in metres: a point for each cell, and a length to meet ---


MOST_POINTS = 1500
_PULLS = 12


@njit(nogil=True, cache=True)
def _point(state, cell, running, of_cell, per_cell, fine_x, box, shape):  # type: ignore[no-untyped-def]
    """A point of a cell: a fine cell by its weight, then anywhere in it."""
    at = pick(state, running, cell * per_cell * per_cell, (cell + 1) * per_cell * per_cell)
    fine = of_cell[at]
    x = box[0] + (fine % fine_x + uniform(state)) * box[2] / shape[0]
    y = box[1] + (fine // fine_x + uniform(state)) * box[3] / shape[1]
    return x, y


@njit(nogil=True, cache=True)
def _length(x, y, after):  # type: ignore[no-untyped-def]
    total, i = 0.0, 0
    while after[i] >= 0:
        j = after[i]
        total += math.sqrt((x[j] - x[i]) ** 2 + (y[j] - y[i]) ** 2)
        i = j
    return total


@njit(nogil=True, cache=True)
def _pull(n, x, y, cells, cells_x, width, height, box):  # type: ignore[no-untyped-def]
    """Each point half way to the middle of its neighbours, but not out of its cell."""
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
def in_order(x, y, after, out_x, out_y):  # type: ignore[no-untyped-def]
    """The linked points one after another; how many."""
    i, n = 0, 0
    while i >= 0:
        out_x[n], out_y[n] = x[i], y[i]
        n += 1
        i = after[i]
    return n


@njit(nogil=True, cache=True)
def line(state, path, metres, running, of_cell, grid, box, x, y, after, home):  # type: ignore[no-untyped-def]
    """Points of one trip, as a list linked by `after` (-1 ends it); the length of the line.

    Below 0 metres the line stays as it is. `grid`: cells and fine cells along x and y, and fine
    cells along the side of a cell.
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
    now = _length(x, y, after)
    if metres < 0:
        return now
    if now > metres:
        if len(path) == 1:
            share = metres / now
            x[1], y[1] = x[0] + (x[1] - x[0]) * share, y[0] + (y[1] - y[0]) * share
            return metres
        for _ in range(_PULLS):
            _pull(n, x, y, home, cells_x, width, height, box)
            now = _length(x, y, after)
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
            # only as far out as the length allows
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
