"""Bundles: inside a cell, segments that lie along each other are laid out together.

A query passes near few of the long segments of its surroundings, but inside the axis-parallel box
of nearly all of them. So the segments of a cell are ordered by the line they lie on (direction and
offset), and every eight of them are a bundle with a box turned into their direction: a strip, for
long segments. The distance to that box bounds the distance to each of them from below. Every eight
bundles of a cell are a sheaf, every eight sheaves a larger one, until one holds the whole cell.

The numbers of eight neighbours stand side by side (all first ends' x, then all y, ...), so that
the processor compares several at once; places that no member fills are infinitely far away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.model import Ids, Ints, Metres, offsets_from
from freqdp_db.parallel import over_ranges
from freqdp_db.search.filing import Filed
from freqdp_db.search.grid import piece_of
from freqdp_db.search.rows import rough_squared_distance

SIZE = 8
NO_RANK = np.iinfo(np.int64).max
"""Worse than every rank."""
_SLACK_M = 1e-6  # for the rounding of turned coordinates


@dataclass(frozen=True)
class Bundles:
    """The segments of all cells in bundles, and these in sheaves."""

    top: Ints
    """The sheaf, or the only bundle, that holds all of a cell (-1: the cell has no segments)."""
    height: NDArray[np.int8]
    """How many sheaves are above a bundle of the cell; 0: the cell is one bundle."""
    ends: Metres
    """[bundle, coordinate, place]: ax, ay, bx, by of whole segments."""
    owner: Ids
    position: Ids
    """[bundle, place]: trajectory of the segment (-1: none), and where in it the segment begins."""
    member: Ints
    """[sheaf]: its first bundle, or its first smaller sheaf; the others follow."""
    strip: Metres
    """[sheaf, bound, place]: direction (x, y), then the bounds along it and across it."""
    level: Ints
    """Sheaves level[h - 1] to level[h] - 1 are those of height h; the members come first."""


def tie_bundles(filed: Filed, owner: Ids, position: Ids) -> Bundles:
    """Cut each cell's rows into bundles, gather them in sheaves and fit the boxes."""
    rows = filed.grid.segment_offsets
    bundles = -(-np.diff(rows) // SIZE)
    first_bundle = offsets_from(bundles)
    ends = np.full((first_bundle[-1], 4, SIZE), np.inf)
    bundled_owner = np.full((first_bundle[-1], SIZE), -1, np.int32)
    bundled_position = np.full((first_bundle[-1], SIZE), -1, np.int32)
    over_ranges(
        _lay_out, rows, rows, first_bundle, filed.ends, owner, position,
        ends, bundled_owner, bundled_position,
    )  # fmt: skip
    top = np.where(bundles > 0, first_bundle[:-1], -1)
    height = np.zeros(len(bundles), np.int8)
    level, member, begin, end = [0], [], [], []
    below, h, width = first_bundle[:-1], 0, SIZE
    while (high := np.flatnonzero(bundles > SIZE**h)).size:
        # members of a sheaf of height h + 1 have `width` rows each
        sheaves = -(-bundles[high] // SIZE ** (h + 1))
        nth = np.arange(sheaves.sum()) - np.repeat(np.cumsum(sheaves) - sheaves, sheaves)
        cell = np.repeat(high, sheaves)
        first = np.zeros(len(bundles), np.int64)
        first[high] = level[-1] + np.cumsum(sheaves) - sheaves
        member.append(below[cell] + nth * SIZE)
        begin.append(rows[cell] + nth * width * SIZE)
        end.append(rows[cell + 1])
        top[high], height[high] = first[high], h + 1
        level.append(level[-1] + int(sheaves.sum()))
        below, h, width = first, h + 1, width * SIZE
    strip = np.empty((level[-1], 6, SIZE))
    for h in range(len(member)):
        part = strip[level[h] : level[h + 1]]
        everything = np.arange(len(part) + 1) * SIZE ** (h + 2)
        over_ranges(
            _fit, everything, begin[h], end[h], SIZE ** (h + 1), filed.ends, filed.part, part
        )
    members = np.concatenate(member) if member else np.zeros(0, np.int64)
    return Bundles(
        top, height, ends, bundled_owner, bundled_position, members, strip, np.array(level)
    )


@njit(nogil=True, cache=True)
def _lay_out(  # type: ignore[no-untyped-def]
    first, last, rows, first_bundle, ends, owner, position, out_ends, out_owner, out_position
):
    for cell in range(first, last):
        for r in range(rows[cell], rows[cell + 1]):
            nth = r - rows[cell]
            b, place = first_bundle[cell] + nth // SIZE, nth % SIZE
            for i in range(4):
                out_ends[b, i, place] = ends[r, i]
            out_owner[b, place] = owner[r]
            out_position[b, place] = position[r]


@njit(cache=True, inline="always")
def _forward(ax, ay, bx, by):  # type: ignore[no-untyped-def]
    """The vector of a segment, turned so that it does not point left."""
    dx, dy = bx - ax, by - ay
    if dx < 0.0 or (dx == 0.0 and dy < 0.0):
        return -dx, -dy
    return dx, dy


@njit(nogil=True, cache=True)
def _fit(first, last, begin, end, width, ends, part, strip):  # type: ignore[no-untyped-def]
    """Boxes of the members of each sheaf: `width` rows each, the last one what is left."""
    for sheaf in range(first, last):
        for place in range(SIZE):
            lo = begin[sheaf] + place * width
            hi = min(lo + width, end[sheaf])
            ux, uy = 0.0, 0.0
            for s in range(lo, hi):
                dx, dy = _forward(ends[s, 0], ends[s, 1], ends[s, 2], ends[s, 3])
                ux += dx
                uy += dy
            length = math.sqrt(ux * ux + uy * uy)
            if length > 0.0:
                ux, uy = ux / length, uy / length
            else:
                ux, uy = 1.0, 0.0
            along_min = across_min = np.inf
            along_max = across_max = -np.inf
            for s in range(lo, hi):
                ax, ay, bx, by = piece_of(
                    ends[s, 0], ends[s, 1], ends[s, 2], ends[s, 3], part[s, 0], part[s, 1]
                )
                for px, py in ((ax, ay), (bx, by)):
                    along, across = px * ux + py * uy, py * ux - px * uy
                    along_min, along_max = min(along_min, along), max(along_max, along)
                    across_min, across_max = min(across_min, across), max(across_max, across)
            strip[sheaf, 0, place], strip[sheaf, 1, place] = ux, uy
            strip[sheaf, 2, place] = along_min - _SLACK_M
            strip[sheaf, 3, place] = along_max + _SLACK_M
            strip[sheaf, 4, place] = across_min - _SLACK_M
            strip[sheaf, 5, place] = across_max + _SLACK_M


def lowest_ranks(bundles: Bundles, rank: Ints) -> Ints:
    """[sheaf, place]: the best rank of the trajectories behind each member."""
    of_bundle = np.empty(len(bundles.owner), np.int64)
    over_ranges(_lowest_of_bundles, np.arange(len(of_bundle) + 1), bundles.owner, rank, of_bundle)
    of_member = np.full((len(bundles.member), SIZE), NO_RANK)
    _lowest_of_members(bundles.level, bundles.member, bundles.strip, of_bundle, of_member)
    return of_member


@njit(nogil=True, cache=True)
def _lowest_of_bundles(first, last, owner, rank, lowest):  # type: ignore[no-untyped-def]
    for b in range(first, last):
        lowest[b] = NO_RANK
        for place in range(SIZE):
            if owner[b, place] >= 0:
                lowest[b] = min(lowest[b], rank[owner[b, place]])


@njit(cache=True)
def _lowest_of_members(level, member, strip, of_bundle, of_member):  # type: ignore[no-untyped-def]
    for h in range(1, len(level)):
        for sheaf in range(level[h - 1], level[h]):
            for place in range(SIZE):
                if strip[sheaf, 2, place] == np.inf:
                    break
                below = member[sheaf] + place
                if h == 1:
                    of_member[sheaf, place] = of_bundle[below]
                else:
                    for i in range(SIZE):
                        of_member[sheaf, place] = min(of_member[sheaf, place], of_member[below, i])


# The loops below run to the length of an axis, not to SIZE: a compiler that knows the length
# unrolls the loop instead of doing four places in one instruction.


@njit(cache=True)
def near_members(px, py, strip, sheaf, limit2, lowest, worst_rank):  # type: ignore[no-untyped-def]
    """Which members of a sheaf may hold something for the list, as bits.

    By distance; and where the list is full of losses 0, by rank: a trajectory that ranks behind
    all of the list cannot enter it.
    """
    near = np.int64(0)
    for place in range(strip.shape[2]):
        ux, uy = strip[sheaf, 0, place], strip[sheaf, 1, place]
        along, across = px * ux + py * uy, py * ux - px * uy
        u = max(strip[sheaf, 2, place] - along, 0.0, along - strip[sheaf, 3, place])
        v = max(strip[sheaf, 4, place] - across, 0.0, across - strip[sheaf, 5, place])
        hit = (u * u + v * v <= limit2) & (lowest[sheaf, place] <= worst_rank)
        near |= np.int64(hit) << place
    return near


@njit(cache=True)
def near_segments(px, py, ends, bundle, limit2):  # type: ignore[no-untyped-def]
    """Which segments of a bundle are within the limit, as bits."""
    near = np.int64(0)
    for place in range(ends.shape[2]):
        d2 = rough_squared_distance(
            px, py,
            ends[bundle, 0, place], ends[bundle, 1, place],
            ends[bundle, 2, place], ends[bundle, 3, place],
        )  # fmt: skip
        near |= np.int64(d2 <= limit2) << place
    return near
