"""When inserted samples are, so that their times look like their neighbours' own."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from freqdp_db.columns.streams import uniform
from freqdp_db.search.distance import to_mm

_DRIVING_M_PER_S = 15


@njit(cache=True)
def free_steps(a, b, step):  # type: ignore[no-untyped-def]
    """How many multiples of the time step lie strictly between two times."""
    return max((b - 1) // step - a // step, 0)


@njit(cache=True)
def detour(px, py, ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """How long it takes to drive from a to b by way of p."""
    # in whole millimetres, so that it is the same number wherever it is computed
    way = to_mm((px - ax) ** 2 + (py - ay) ** 2) + to_mm((bx - px) ** 2 + (by - py) ** 2)
    return way * 1000 // _DRIVING_M_PER_S


@njit(cache=True)
def own_gaps(at, lo, hi, usual):  # type: ignore[no-untyped-def]
    """The times between a trajectory's samples, ascending; where it has none, the data's usual one."""
    gaps = np.empty(max(hi - lo - 1, 1), np.int64)
    n = 0
    for i in range(lo, hi - 1):
        if at[i + 1] > at[i]:
            gaps[n] = at[i + 1] - at[i]
            n += 1
    if n == 0:
        gaps[0] = usual
        n = 1
    return np.sort(gaps[:n])


@njit(cache=True)
def fill_times(out, a, b, ways, own, step, state):  # type: ignore[no-untyped-def]
    """Times between a and b: gaps drawn from the trajectory's own, long enough for their ways."""
    count, gap = len(out), b - a
    # gaps that leave room for another one; in a short one, the shortest
    fit = max(np.searchsorted(own, gap // 2, side="right"), 1)
    wanted = np.empty(count + 1, np.float64)
    total = 0.0
    for j in range(count + 1):
        drawn = float(own[int(uniform(state) * fit)])
        wanted[j] = max(drawn, ways[j] * 1e6 / _DRIVING_M_PER_S)
        total += wanted[j]
    if total >= gap:
        for j in range(count + 1):
            wanted[j] *= gap / total
    else:
        wanted[int(uniform(state) * (count + 1))] += gap - total
    first = (a // step + 1) * step
    last = (b - 1) // step * step
    free = free_steps(a, b, step)
    since = 0.0
    for j in range(count):
        since += wanted[j]
        exact = a + np.int64(math.floor(since + 0.5))
        if free >= count:
            low, high = first + j * step, last - (count - 1 - j) * step
            if j > 0:
                low = max(low, out[j - 1] + step)
            out[j] = min(max((exact + step // 2) // step * step, low), high)
        elif free > 0:
            out[j] = min(max((exact + step // 2) // step * step, first), last)
        else:
            # finer than the step: a gap of one microsecond or none leaves no time between its ends
            out[j] = min(max(exact, a + 1), max(b - 1, a))


@njit(cache=True)
def free_of(at, lo, hi, step):  # type: ignore[no-untyped-def]
    """How many free time steps each segment of a trajectory has."""
    free = np.zeros(max(hi - lo - 1, 1), np.int64)
    for i in range(hi - lo - 1):
        free[i] = free_steps(at[lo + i], at[lo + i + 1], step)
    return free
