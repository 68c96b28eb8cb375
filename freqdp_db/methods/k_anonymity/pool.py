"""Rows of boxes that are looked through again and again while some are merged and leave."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Flags, Ids, Ints
from freqdp_db.engines.ranges import map_each, map_ranges, merged
from freqdp_db.methods.k_anonymity.boxes import SIDES, Boxes
from freqdp_db.methods.k_anonymity.stretch import (
    CHUNK,
    FEW,
    fill_chunks,
    nearest_among,
    nearest_before,
)
from freqdp_db.progress import Told, as_shares

_ROOM = 1.25
_WORTH_SHARING = 4096
"""Chunks to look through, below which one core is quicker than several."""


class Pool:
    """Rows in chunks, in one array. What has left makes room for what is merged."""

    def __init__(self, boxes: Boxes, sizes: Ints, *, alone: bool) -> None:
        """`alone`: on this core only, because the others are busy with pools of their own."""
        count = len(boxes)
        lengths = np.diff(boxes.offsets)
        chunks = _chunks_of(lengths)
        self._alone = alone
        self._rows = count
        self._used = int(chunks.sum())
        room = int(self._used * _ROOM) + 8 * int(chunks.max(initial=1))
        self._boxes = np.empty((room, len(SIDES), CHUNK), np.int32)
        self._extremes = np.empty((room, 2 * len(SIDES)), np.int32)
        self._at = np.zeros(2 * count, np.int64)
        self._length = np.zeros(2 * count, np.int64)
        self._size = np.zeros(2 * count, np.int64)
        self._alive: Flags = np.zeros(2 * count, np.bool_)
        self._at[:count] = np.cumsum(chunks) - chunks
        self._length[:count], self._size[:count], self._alive[:count] = lengths, sizes, True
        for row in range(count):
            fill_chunks(boxes.row(row), self._boxes, self._extremes, self._at[row])

    def alive(self, row: int) -> bool:
        return bool(self._alive[row])

    def size(self, row: int) -> int:
        return int(self._size[row])

    def left(self) -> Ints:
        return np.flatnonzero(self._alive[: self._rows])

    def leave(self, row: int) -> None:
        self._alive[row] = False

    def add(self, bounds: Ids, size: int) -> int:
        """A row more; its number."""
        row, needed = self._rows, int(_chunks_of(bounds.shape[1]))
        if self._used + needed > len(self._boxes):
            self._make_room(needed)
        self._at[row], self._length[row], self._size[row] = self._used, bounds.shape[1], size
        fill_chunks(bounds, self._boxes, self._extremes, self._used)
        self._used += needed
        self._alive[row] = True
        self._rows += 1
        return row

    def _make_room(self, needed: int) -> None:
        """Move what is still there to the front; if that is not enough, to a larger array."""
        rows = self.left()
        rows = rows[np.argsort(self._at[rows])]
        chunks = _chunks_of(self._length[rows])
        begin = self._at[rows]
        self._used = int(chunks.sum())
        boxes, extremes = self._boxes, self._extremes
        if self._used + needed > len(boxes) // 2:
            room = int((self._used + needed) * _ROOM * _ROOM)
            boxes = np.empty((room, *boxes.shape[1:]), np.int32)
            extremes = np.empty((room, extremes.shape[1]), np.int32)
        to = 0
        for row, old, count in zip(rows, begin, chunks, strict=True):
            # never to the right of where they are, so that nothing is overwritten unread
            boxes[to : to + count] = self._boxes[old : old + count]
            extremes[to : to + count] = self._extremes[old : old + count]
            self._at[row] = to
            to += count
        self._boxes, self._extremes = boxes, extremes

    def _columns(self) -> tuple[Ids, Ids, Ints, Ints, Ints]:
        return self._boxes, self._extremes, self._at, self._length, self._size

    def _longest(self) -> int:
        return int(_chunks_of(self._length[: self._rows].max(initial=1)))

    def nearest_of_all(self, told: Told) -> tuple[NDArray[np.float64], Ints]:
        """For each row the cheapest few of those before it, and what they cost; -1: no more."""
        work = np.arange(self._rows + 1) * np.concatenate([[0], self._length[: self._rows]])
        arguments = (self._longest(), *self._columns())
        if self._alone:
            cost, partner = nearest_before(0, self._rows, *arguments)
        else:
            advance = as_shares(told, self._rows)
            parts = map_ranges(nearest_before, np.cumsum(work), *arguments, advance=advance)
            cost, partner = merged(parts, np.concatenate, np.concatenate)
        return cost, partner

    def nearest(self, row: int) -> tuple[NDArray[np.float64], Ints]:
        """The cheapest few of those before a row, and what they cost; -1: no more."""
        others = np.flatnonzero(self._alive[:row])
        arguments = (row, others, self._longest(), *self._columns())
        work = len(others) * _chunks_of(self._length[row])
        if self._alone or work < _WORTH_SHARING:
            return nearest_among(0, len(others), *arguments)  # type: ignore[no-any-return]
        parts = map_each(nearest_among, len(others), *arguments)
        cost, partner = merged(parts, np.concatenate, np.concatenate)
        # of equal ones the first: ranges ascend
        order = np.argsort(cost, kind="stable")[:FEW]
        return cost[order], partner[order]


def _chunks_of(lengths: Ints | int) -> Ints:
    return np.asarray((lengths + CHUNK - 1) // CHUNK)
