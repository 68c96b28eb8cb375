"""Walks from cell to cell become lines in metres: a point for each cell, and a length to meet.

A walk's points are drawn in its cells by the density of fine cells. Where the line is shorter than the
length that was drawn for the trip, it wanders: more points of cells on its way. Where it is longer, its
points are pulled towards their neighbours, each within its cell.
"""

from __future__ import annotations

import math

from numba import njit

from freqdp_db.columns.streams import pick, uniform, whole

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
