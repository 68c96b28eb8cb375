"""w4m's edits: members of a cluster are brought onto the pivot's times, and near each other.

A sample that is matched with one of the pivot's takes its time; the pivot's other times are given
to the member where it is at that share of its way; its own other samples are deleted. Then whoever
is outside the disc of half of delta round the cluster's centre moves onto its edge.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Flags, Ids, Ints, Metres
from freqdp_db.methods.k_anonymity.likeness import Likeness, alike, place_at

_ROUNDING_M = 0.005
"""Less than a coordinate of the table may be off by."""


def brought_near(
    likeness: Likeness, members: Ids, delta_m: float
) -> tuple[Metres, Metres, list[Flags]]:
    """x and y of each member at each of the pivot's times; which of these are matched samples."""
    offsets, x, y, at = likeness.offsets, likeness.x, likeness.y, likeness.at
    pivot = int(members[0])
    part = slice(int(offsets[pivot]), int(offsets[pivot + 1]))
    rows_x, rows_y, matched = [x[part]], [y[part]], [np.ones(len(at[part]), np.bool_)]
    for member in members[1:].tolist():
        pairs: Ints = (
            _matched_edr(
                offsets, x, y, at, pivot, member, likeness.tolerance_m, likeness.tolerance_us()
            )
            if likeness.edr
            else _matched_shares(offsets, at, pivot, member)
        )
        row_x, row_y = _places(offsets, x, y, at, pivot, member, pairs)
        rows_x.append(row_x)
        rows_y.append(row_y)
        matched.append(pairs >= 0)
    moved_x, moved_y = _onto_disc(
        np.array(rows_x), np.array(rows_y), max(delta_m / 2 - _ROUNDING_M, 0.0)
    )
    return moved_x, moved_y, matched


@njit(nogil=True, cache=True)
def _share_time(offsets, at, pivot, member, i):  # type: ignore[no-untyped-def]
    """The member's time at the share of time that the pivot's sample i has."""
    begin, end = at[offsets[pivot]], at[offsets[pivot + 1] - 1]
    share = (at[i] - begin) / (end - begin) if end > begin else 0.0
    first, last = at[offsets[member]], at[offsets[member + 1] - 1]
    return first + share * (last - first)


@njit(nogil=True, cache=True)
def _matched_shares(offsets, at, pivot, member):  # type: ignore[no-untyped-def]
    """For each sample of the pivot, the member's nearest in share, where each is the other's."""
    count = offsets[pivot + 1] - offsets[pivot]
    nearest, gap = np.empty(count, np.int64), np.empty(count)
    j = offsets[member]
    for c in range(count):
        when = _share_time(offsets, at, pivot, member, offsets[pivot] + c)
        while j + 1 < offsets[member + 1] and abs(at[j + 1] - when) < abs(at[j] - when):
            j += 1
        nearest[c], gap[c] = j, abs(at[j] - when)
    found = np.full(count, -1)
    begin = 0
    while begin < count:
        end, best = begin, begin
        while end < count and nearest[end] == nearest[begin]:
            if gap[end] < gap[best]:
                best = end
            end += 1
        found[best] = nearest[begin]
        begin = end
    return found


@njit(nogil=True, cache=True)
def _matched_edr(offsets, x, y, at, pivot, member, tolerance_m, tolerance_us):  # type: ignore[no-untyped-def]
    """For each sample of the pivot, the member's that the cheapest alignment gives it."""
    a, b = offsets[pivot], offsets[member]
    n, m = offsets[pivot + 1] - a, offsets[member + 1] - b
    cost = np.empty((n + 1, m + 1), np.int32)
    for i in range(n + 1):
        cost[i, 0] = i
    for j in range(m + 1):
        cost[0, j] = j
    for i in range(n):
        for j in range(m):
            same = 0 if alike(a + i, b + j, x, y, at, tolerance_m, tolerance_us) else 1
            cost[i + 1, j + 1] = min(cost[i, j] + same, cost[i, j + 1] + 1, cost[i + 1, j] + 1)
    found = np.full(n, -1)
    i, j = n, m
    while i > 0 and j > 0:
        same = alike(a + i - 1, b + j - 1, x, y, at, tolerance_m, tolerance_us)
        if same and cost[i, j] == cost[i - 1, j - 1]:
            found[i - 1] = b + j - 1
            i, j = i - 1, j - 1
        elif cost[i, j] == cost[i - 1, j - 1] + 1:
            i, j = i - 1, j - 1
        elif cost[i, j] == cost[i - 1, j] + 1:
            i -= 1
        else:
            j -= 1
    return found


@njit(nogil=True, cache=True)
def _places(offsets, x, y, at, pivot, member, pairs):  # type: ignore[no-untyped-def]
    found_x, found_y = np.empty(len(pairs)), np.empty(len(pairs))
    near = offsets[member]
    for c in range(len(pairs)):
        if pairs[c] >= 0:
            found_x[c], found_y[c] = x[pairs[c]], y[pairs[c]]
        else:
            when = _share_time(offsets, at, pivot, member, offsets[pivot] + c)
            found_x[c], found_y[c], near = place_at(offsets[member + 1], x, y, at, when, near)
    return found_x, found_y


def _onto_disc(x: Metres, y: Metres, radius: float) -> tuple[Metres, Metres]:
    """By member and time: nobody further than the radius from where all are in the mean."""
    centre_x, centre_y = x.mean(axis=0), y.mean(axis=0)
    dx, dy = x - centre_x, y - centre_y
    away = np.hypot(dx, dy)
    part = np.where(away > radius, radius / np.where(away > 0, away, 1.0), 1.0)
    return centre_x + part * dx, centre_y + part * dy
