"""Two rows of boxes made one that covers both.

Each box of the longer row joins its cheapest in the shorter; what is left of the shorter joins the
cheapest of what that gives. Where intervals overlap then, they are cut apart, and the time that
several boxes share has what covers them all. So a row has one box at any time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids
from freqdp_db.methods.k_anonymity.stretch import (
    MOST_CELLS,
    MOST_MINUTES,
    SPACE_WEIGHT,
    TIME_WEIGHT,
)

_MOST = 1 << 62


def merge_rows(a: Ids, b: Ids, size_a: int, size_b: int) -> Ids:
    """The row that covers rows a and b, of so many objects; of equally long ones the first is longer."""
    # parts of larger arrays are laid out otherwise: the kernels would be compiled for each
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    longer, shorter, n, m = (a, b, size_a, size_b)
    if a.shape[1] < b.shape[1]:
        longer, shorter, n, m = b, a, size_b, size_a
    partner = _cheapest_partners(longer, shorter, n, m)
    merged: Ids = _cut_apart(_unite(longer, shorter, partner, n, m))
    return merged


@njit(nogil=True, cache=True)
def _cost(one, i, other, j, n, m):  # type: ignore[no-untyped-def]
    """What box i of one row and box j of another cost each other, in parts of 4800 (n + m)."""
    space = _growth(one, 0, i, other, j, n, m) + _growth(one, 2, i, other, j, n, m)
    time = _growth(one, 4, i, other, j, n, m)
    return SPACE_WEIGHT * min(space, MOST_CELLS * (n + m)) + TIME_WEIGHT * min(
        time, MOST_MINUTES * (n + m)
    )


@njit(nogil=True, cache=True)
def _growth(one, low, i, other, j, n, m):  # type: ignore[no-untyped-def]
    """Along one axis, what each must grow by to cover the other, weighted."""
    a, b = one[low, i] - other[low, j], one[low + 1, i] - other[low + 1, j]
    return n * (max(a, 0) + max(-b, 0)) + m * (max(-a, 0) + max(b, 0))


@njit(nogil=True, cache=True)
def _cheapest_partners(longer, shorter, n, m):  # type: ignore[no-untyped-def]
    """For each box of the longer row, its cheapest in the shorter; of equal ones the earliest."""
    found = np.empty(longer.shape[1], np.int64)
    last = shorter.shape[1]
    nearest = 0
    for i in range(longer.shape[1]):
        begin = longer[4, i]
        while nearest + 1 < last and shorter[4, nearest + 1] <= begin:
            nearest += 1
        best, where = _MOST, -1
        # outward in time, until the time alone costs more; both bounds of a row ascend
        j = nearest
        while j < last:
            late = m * max(shorter[4, j] - begin, 0)
            if TIME_WEIGHT * min(late, MOST_MINUTES * (n + m)) >= best:
                break
            cost = _cost(longer, i, shorter, j, n, m)
            if cost < best:
                best, where = cost, j
            j += 1
        j = nearest - 1
        while j >= 0:
            early = n * max(begin - shorter[4, j], 0)
            if TIME_WEIGHT * min(early, MOST_MINUTES * (n + m)) > best:
                break
            cost = _cost(longer, i, shorter, j, n, m)
            if cost <= best:
                best, where = cost, j
            j -= 1
        found[i] = where
    return found


@njit(nogil=True, cache=True)
def _cover(found, at, row, i):  # type: ignore[no-untyped-def]
    for axis in range(3):
        found[2 * axis, at] = min(found[2 * axis, at], row[2 * axis, i])
        found[2 * axis + 1, at] = max(found[2 * axis + 1, at], row[2 * axis + 1, i])


@njit(nogil=True, cache=True)
def _unite(longer, shorter, partner, n, m):  # type: ignore[no-untyped-def]
    """Boxes of the shorter with all that joined them; then its boxes that nobody joined."""
    used = np.zeros(shorter.shape[1], np.bool_)
    for i in range(len(partner)):
        used[partner[i]] = True
    place = np.cumsum(used) - 1
    united = shorter[:, used].copy()
    for i in range(len(partner)):
        _cover(united, place[partner[i]], longer, i)
    joined = np.full(shorter.shape[1], -1)
    for j in range(shorter.shape[1]):
        if not used[j]:
            best = _MOST
            for i in range(united.shape[1]):
                cost = _cost(shorter, j, united, i, m, n + m)
                if cost < best:
                    best, joined[j] = cost, i
    for j in range(shorter.shape[1]):
        if not used[j]:
            _cover(united, joined[j], shorter, j)
    return united


@njit(nogil=True, cache=True)
def _cut_apart(boxes):  # type: ignore[no-untyped-def]
    """One box at any time: where several are, what covers them all."""
    cuts = np.unique(np.concatenate((boxes[4], boxes[5])))
    count = len(cuts) - 1
    found = np.empty((6, count), np.int32)
    covered, spanned = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    first = np.searchsorted(cuts, boxes[4])
    last = np.searchsorted(cuts, boxes[5])
    for b in range(boxes.shape[1]):
        for e in range(first[b], last[b]):
            if covered[e]:
                found[0, e], found[1, e] = (
                    min(found[0, e], boxes[0, b]),
                    max(found[1, e], boxes[1, b]),
                )
                found[2, e], found[3, e] = (
                    min(found[2, e], boxes[2, b]),
                    max(found[3, e], boxes[3, b]),
                )
            else:
                found[:4, e] = boxes[:4, b]
                covered[e] = True
            if e > first[b]:
                spanned[e] = True
    kept = 0
    for e in range(count):
        if not covered[e]:
            continue
        # a cut through a box that changes nothing is none
        whole = spanned[e] and kept > 0 and found[5, kept - 1] == cuts[e]
        for side in range(4):
            whole = whole and found[side, kept - 1] == found[side, e]
        if whole:
            found[5, kept - 1] = cuts[e + 1]
        else:
            found[:4, kept] = found[:4, e]
            found[4, kept], found[5, kept] = cuts[e], cuts[e + 1]
            kept += 1
    return found[:, :kept].copy()
