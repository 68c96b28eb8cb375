"""Where a method may have changed identities, as an attacker who knows the method sees it.

At a swap: the stops that met. At a cut: for every piece, the piece that
goes on best by place, time and velocity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ints
from freqdp_db.engines.ranges import joined, map_each
from freqdp_db.evaluation.attacks.exposure.case import ReleaseSeen

_CELL_M = 1_000.0
_RINGS = 2
_LONGEST_US = 3 * 3_600_000_000
# Waiting costs as much as standing this far off for every second.
_SLOWEST_M_S = 0.5
# The last velocity says where somebody is for so long, and not much longer.
_MEMORY_S = 90.0
_TURN_S = 30.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Joints:
    """Choices of a follower."""

    group: Ints
    """The group of stops that each released sample is in; -1: none."""
    offsets: Ints
    stop: Ints
    after: Ints
    """First sample of the piece that goes on best from each trajectory; -1: none."""
    before: Ints
    """Last sample of the piece that comes before best; -1: none."""


def find_joints(release: ReleaseSeen) -> Joints:
    """All joints that the release's method may have made."""
    side = release.trajectories
    group = np.full(side.samples, -1, np.int64)
    offsets, stop = np.zeros(1, np.int64), np.zeros(0, np.int64)
    if release.groups is not None:
        offsets, stop = release.groups.offsets, release.groups.stop
        group[stop] = release.groups.of_members()
    after = before = np.full(len(side), -1, np.int64)
    if release.pieces:
        after, before = join_pieces(release)
    return Joints(group, offsets, stop, after, before)


def join_pieces(release: ReleaseSeen) -> tuple[Ints, Ints]:
    """For each piece the first sample of its best successor and the last of its best predecessor."""
    side = release.trajectories
    filled = np.flatnonzero(side.lengths > 0)
    head, tail = side.offsets[filled], side.offsets[filled + 1] - 1
    second, second_last = np.minimum(head + 1, tail), np.maximum(tail - 1, head)
    starts = (release.x[head], release.y[head], side.at[head], *_velocity(release, head, second))
    ends = (release.x[tail], release.y[tail], side.at[tail], *_velocity(release, second_last, tail))
    after, before = (np.full(len(side), -1, np.int64) for _ in range(2))
    nearest = _nearest_pieces(ends, starts)
    after[filled] = np.where(nearest >= 0, head[nearest], -1)
    # backwards in time the same question is asked from the other end
    nearest = _nearest_pieces(_reversed(starts), _reversed(ends))
    before[filled] = np.where(nearest >= 0, tail[nearest], -1)
    return after, before


Ends = tuple[Floats, Floats, Ints, Floats, Floats]


def _reversed(ends: Ends) -> Ends:
    x, y, at, vx, vy = ends
    return x, y, -at, -vx, -vy


def _velocity(release: ReleaseSeen, a: Ints, b: Ints) -> tuple[Floats, Floats]:
    """Metres a second from sample a to sample b; 0 for a piece of one sample."""
    seconds = np.maximum((release.trajectories.at[b] - release.trajectories.at[a]) / 1e6, 1.0)
    return (release.x[b] - release.x[a]) / seconds, (release.y[b] - release.y[a]) / seconds


def _nearest_pieces(ends: Ends, starts: Ends) -> Ints:
    """For each end the start that follows best, by number; -1: none within reach."""
    x, y, at = starts[:3]
    column, row = np.floor(x / _CELL_M).astype(np.int64), np.floor(y / _CELL_M).astype(np.int64)
    code = column * np.int64(2**31) + row
    order = np.lexsort((at, code))
    cells, begins = np.unique(code[order], return_index=True)
    begins = np.append(begins, len(order)).astype(np.int64)
    parts = map_each(
        _join, len(ends[0]), *ends, *(column_[order] for column_ in starts), order, cells, begins
    )
    (found,) = joined(parts)
    return found


@njit(nogil=True, cache=True)
def _join(  # type: ignore[no-untyped-def]
    first, last, ex, ey, et, evx, evy, sx, sy, st, svx, svy, order, cells, begins
):
    found = np.full(last - first, -1, np.int64)
    for e in range(first, last):
        column, row = int(np.floor(ex[e] / _CELL_M)), int(np.floor(ey[e] / _CELL_M))
        best = np.inf
        for c in range(column - _RINGS, column + _RINGS + 1):
            for r in range(row - _RINGS, row + _RINGS + 1):
                code = c * np.int64(2**31) + r
                k = np.searchsorted(cells, code)
                if k == len(cells) or cells[k] != code:
                    continue
                i = begins[k] + np.searchsorted(st[begins[k] : begins[k + 1]], et[e] + 1)
                while i < begins[k + 1] and st[i] - et[e] <= _LONGEST_US:
                    seconds = (st[i] - et[e]) / 1e6
                    if _SLOWEST_M_S * seconds > best:
                        break
                    ahead = min(seconds, _MEMORY_S)
                    off = np.hypot(sx[i] - ex[e] - evx[e] * ahead, sy[i] - ey[e] - evy[e] * ahead)
                    turn = np.hypot(svx[i] - evx[e], svy[i] - evy[e])
                    cost = off + _SLOWEST_M_S * seconds + _TURN_S * turn
                    if cost < best:
                        best = cost
                        found[e - first] = order[i]
                    i += 1
    return (found,)
