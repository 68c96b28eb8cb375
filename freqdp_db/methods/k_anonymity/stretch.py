"""What it costs to make two rows of boxes alike: GLOVE's stretch, exactly, and no further than asked.

Two boxes cost what each must grow by to cover the other, weighted by how many objects are in each:
metres up to 20 km and time up to 8 h, half each. A row costs another the mean, over the boxes of
the longer, of the cheapest in the shorter. In cells and minutes, with N objects in both, a box costs

    12 min(S, 200 N) + 5 min(T, 480 N)      in parts of 4800 N

which is a whole number. Rows are looked through in chunks of consecutive boxes. The extremes of a
chunk's bounds say how little any box of one chunk can cost any of another: most are never compared,
and a pair whose least possible cost is too much is given up before its end.
"""

from __future__ import annotations

import numpy as np
from numba import njit

CHUNK = 16
FAR = 1e30
"""More than anything costs."""
FEW = 4
"""So many partners of a row are known at once: most of them leave before it is its turn."""
SPACE_WEIGHT, TIME_WEIGHT = 12, 5
MOST_CELLS, MOST_MINUTES = 200, 480
WHOLE = 4800.0
"""What a box costs at most, for each object of both rows."""
_MOST = 1 << 30
_short = np.int32


@njit(nogil=True, cache=True)
def fill_chunks(bounds, boxes, extremes, at):  # type: ignore[no-untyped-def]
    """Write a row's boxes into chunks, the last filled up with its last box, and their extremes."""
    count = bounds.shape[1]
    for chunk in range((count + CHUNK - 1) // CHUNK):
        for side in range(6):
            low = high = bounds[side, chunk * CHUNK]
            for i in range(CHUNK):
                value = bounds[side, min(chunk * CHUNK + i, count - 1)]
                boxes[at + chunk, side, i] = value
                low, high = min(low, value), max(high, value)
            extremes[at + chunk, 2 * side] = low
            extremes[at + chunk, 2 * side + 1] = high


@njit(nogil=True, cache=True)
def _apart(one, other, axis, n_one, n_other):  # type: ignore[no-untyped-def]
    """The least weighted growth along an axis of any box of one chunk and any of another."""
    low, high = 4 * axis, 4 * axis + 2
    grown = n_one * (max(one[low] - other[low + 1], 0) + max(other[high] - one[high + 1], 0))
    return grown + n_other * (
        max(other[low] - one[low + 1], 0) + max(one[high] - other[high + 1], 0)
    )


@njit(nogil=True, cache=True)
def _least(one, other, n_one, n_other, most_space, most_time):  # type: ignore[no-untyped-def]
    """The least cost of any box of one chunk and any of another."""
    space = _apart(one, other, 0, n_one, n_other) + _apart(one, other, 1, n_one, n_other)
    time = _apart(one, other, 2, n_one, n_other)
    return SPACE_WEIGHT * min(space, most_space) + TIME_WEIGHT * min(time, most_time)


@njit(nogil=True, cache=True)
def _at_least(one, other, way, n_one, n_other):  # type: ignore[no-untyped-def]
    """The least growth in time for that chunk and any further one: the begins of a row ascend."""
    if way == 0:
        return n_other * max(other[8] - one[9], 0)
    return n_one * max(one[8] - other[9], 0)


@njit(nogil=True, cache=True)
def _cheapest(chunk, x0, x1, y0, y1, t0, t1, n_one, n_other, most_space, most_time, least):  # type: ignore[no-untyped-def]
    """The least cost of a box and any of a chunk. Written so that it is computed side by side.

    n max(d, 0) + m max(-d, 0) summed over both bounds of an axis is n |d| + n |e| where d and e
    differ in sign, which is corrected by what is left: weights are halved sum and difference.
    """
    both, more = _short(n_one + n_other), _short(n_one - n_other)
    for j in range(CHUNK):
        a, b = _short(x0 - chunk[0, j]), _short(x1 - chunk[1, j])
        c, d = _short(y0 - chunk[2, j]), _short(y1 - chunk[3, j])
        e, f = _short(t0 - chunk[4, j]), _short(t1 - chunk[5, j])
        apart = _short(_short(abs(a) + abs(b)) + _short(abs(c) + abs(d)))
        shifted = _short(_short(a - b) + _short(c - d))
        # twice the growth, which is even
        space = _short(_short(both * apart) + _short(more * shifted)) >> 1
        time = _short(_short(both * _short(abs(e) + abs(f))) + _short(more * _short(e - f))) >> 1
        cost = _short(
            _short(_short(12) * min(_short(space), most_space))
            + _short(_short(5) * min(_short(time), most_time))
        )
        least = min(least, cost)
    return least


@njit(nogil=True, cache=True)
def stretch(boxes, extremes, at, length, size, a, b, limit, low, middle, likely, near):  # type: ignore[no-untyped-def]
    """The cost of rows a and b, or FAR as soon as it is sure to be at least `limit`.

    low, middle, likely: as many as a row has chunks; near: CHUNK. They are overwritten.
    """
    if length[a] < length[b] or (length[a] == length[b] and b < a):
        a, b = b, a
    n_a, n_b = size[a], size[b]
    most_space, most_time = MOST_CELLS * (n_a + n_b), MOST_MINUTES * (n_a + n_b)
    scale = float(length[a]) * float(n_a + n_b) * WHOLE
    count = (length[a] + CHUNK - 1) // CHUNK
    first_b, end_b = at[b], at[b] + (length[b] + CHUNK - 1) // CHUNK
    total = 0
    # the least that it can cost, chunk by chunk
    nearest = first_b
    for c in range(count):
        one = extremes[at[a] + c]
        while nearest + 1 < end_b and extremes[nearest + 1, 8] <= one[8]:
            nearest += 1
        best, where = _MOST, nearest
        for way in range(2):
            j = nearest if way == 0 else nearest - 1
            while first_b <= j < end_b:
                other = extremes[j]
                if TIME_WEIGHT * min(_at_least(one, other, way, n_a, n_b), most_time) >= best:
                    break
                cost = _least(one, other, n_a, n_b, most_space, most_time)
                if cost < best:
                    best, where = cost, j
                j += 1 if way == 0 else -1
        low[c], middle[c], likely[c] = best * min(CHUNK, length[a] - c * CHUNK), nearest, where
        total += low[c]
        if total / scale >= limit:
            return FAR
    # what it does cost
    for c in range(count):
        here = min(CHUNK, length[a] - c * CHUNK)
        total -= low[c]
        total += _chunk_cost(
            boxes, extremes, at[a] + c, here, first_b, end_b, middle[c], likely[c], n_a, n_b, near
        )
        if total / scale >= limit:
            return FAR
    return total / scale


@njit(nogil=True, cache=True)
def _chunk_cost(boxes, extremes, chunk, here, first_b, end_b, middle, likely, n_a, n_b, near):  # type: ignore[no-untyped-def]
    """What the boxes of a chunk cost a row: the likeliest of its chunks first, then outward in time."""
    most_space, most_time = MOST_CELLS * (n_a + n_b), MOST_MINUTES * (n_a + n_b)
    one = extremes[chunk]
    for i in range(here):
        near[i] = _MOST
    worst = _compare(boxes, chunk, here, likely, -1, n_a, n_b, near)
    for way in range(2):
        j = middle if way == 0 else middle - 1
        while first_b <= j < end_b:
            other = extremes[j]
            if TIME_WEIGHT * min(_at_least(one, other, way, n_a, n_b), most_time) >= worst:
                break
            if j != likely:
                least = _least(one, other, n_a, n_b, most_space, most_time)
                if least < worst:
                    worst = _compare(boxes, chunk, here, j, least, n_a, n_b, near)
            j += 1 if way == 0 else -1
    total = 0
    for i in range(here):
        total += near[i]
    return total


@njit(nogil=True, cache=True)
def _compare(boxes, chunk, here, other, least, n_a, n_b, near):  # type: ignore[no-untyped-def]
    """Lower `near` by what the boxes of another chunk cost; returns the largest of it."""
    one, others = boxes[chunk], boxes[other]
    most_space, most_time = _short(MOST_CELLS * (n_a + n_b)), _short(MOST_MINUTES * (n_a + n_b))
    worst = 0
    for i in range(here):
        if near[i] > least:
            near[i] = _cheapest(
                others, one[0, i], one[1, i], one[2, i], one[3, i], one[4, i], one[5, i],
                _short(n_a), _short(n_b), most_space, most_time, near[i],
            )  # fmt: skip
        worst = max(worst, near[i])
    return worst


@njit(nogil=True, cache=True)
def _search(row, others, cost, partner, longest, boxes, extremes, at, length, size):  # type: ignore[no-untyped-def]
    """Fill in the cheapest of some for a row, in order; of equal ones the first of `others`."""
    cost[:], partner[:] = FAR, -1
    low, near = np.empty(longest, np.int64), np.empty(CHUNK, np.int32)
    middle, likely = np.empty(longest, np.int64), np.empty(longest, np.int64)
    last = len(cost) - 1
    for other in others:
        found = stretch(
            boxes, extremes, at, length, size, other, row, cost[last], low, middle, likely, near
        )
        if found < cost[last]:
            i = last
            while i > 0 and found < cost[i - 1]:
                cost[i], partner[i] = cost[i - 1], partner[i - 1]
                i -= 1
            cost[i], partner[i] = found, other


@njit(nogil=True, cache=True)
def nearest_before(first, last, longest, boxes, extremes, at, length, size):  # type: ignore[no-untyped-def]
    """For each row of the range, the cheapest few of those before it, and what they cost."""
    cost, partner = np.empty((last - first, FEW)), np.empty((last - first, FEW), np.int64)
    others = np.arange(last)
    for row in range(first, last):
        i = row - first
        _search(
            row, others[:row], cost[i], partner[i], longest, boxes, extremes, at, length, size
        )  # fmt: skip
    return cost, partner


@njit(nogil=True, cache=True)
def nearest_among(first, last, row, others, longest, boxes, extremes, at, length, size):  # type: ignore[no-untyped-def]
    """The cheapest few for a row among some, which ascend."""
    cost, partner = np.empty(FEW), np.empty(FEW, np.int64)
    some = others[first:last]
    _search(row, some, cost, partner, longest, boxes, extremes, at, length, size)
    return cost, partner
