"""The cheapest pair of rows merges, again and again; whoever has k objects leaves.

Exact: the order of merges is that of a search through all pairs. Each row answers for the pairs
with rows that are older than it, and knows its cheapest few partners among them. When all of them
have left, what the last one cost stays a lower bound, so others are looked for only when that bound
is the least of all.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.methods.k_anonymity.boxes import Boxes
from freqdp_db.methods.k_anonymity.merging import merge_rows
from freqdp_db.methods.k_anonymity.pool import Pool
from freqdp_db.progress import Told, as_shares, nobody

_FIRST_SEARCH = 0.5
"""How much of the work it is, about, to find the cheapest partners of all rows at the start."""


class Shaping(Protocol):
    """What is done to a merged row before it goes on."""

    def __call__(self, bounds: Ids) -> Ids: ...


@dataclass(frozen=True)
class Merges:
    """Rows that became one, in order: the n-th merge made row `rows + n`."""

    first: Ints
    second: Ints

    def __len__(self) -> int:
        return len(self.first)


@dataclass
class _Run:
    """What is known of rows by number: theirs and the merged ones'."""

    boxes: Boxes
    shaping: Shaping | None
    members: list[Ids]
    """Objects of each row, sorted; emptied when it is merged."""
    merged: dict[int, Ids]
    first: list[int]
    second: list[int]

    def bounds(self, row: int) -> Ids:
        return self.boxes.row(row) if row < len(self.boxes) else self.merged[row]

    def merge(self, a: int, b: int) -> tuple[Ids, Ids]:
        """Both rows made one: its boxes, and its objects."""
        members = np.union1d(self.members[a], self.members[b])
        bounds = merge_rows(
            self.bounds(a), self.bounds(b), len(self.members[a]), len(self.members[b])
        )
        if self.shaping is not None:
            bounds = self.shaping(bounds)
        self.first.append(a)
        self.second.append(b)
        for row in (a, b):
            self.merged.pop(row, None)
        self.merged[len(self.members)] = bounds
        self.members.append(members)
        return bounds, members


class _Queue:
    """Which two rows are the cheapest to merge, whoever has left."""

    def __init__(self, pool: Pool, told: Told) -> None:
        self._pool = pool
        costs, partners = pool.nearest_of_all(told)
        self._known = [
            _cheapest_last(cost, partner) for cost, partner in zip(costs, partners, strict=True)
        ]
        """Partners of each row that were not taken yet, the cheapest last; -1: there are no more."""
        self._heap: list[tuple[float, int, int]] = []
        for row in range(len(self._known)):
            self._push(row)

    def add(self, row: int) -> None:
        """Whoever comes in, in the order of their numbers."""
        self._known.append(_cheapest_last(*self._pool.nearest(row)))
        self._push(row)

    def skip(self) -> None:
        """A number that takes no part."""
        self._known.append([])

    def cheapest(self) -> tuple[int, int] | None:
        """The older and the younger row; None: nobody has a partner."""
        while self._heap:
            _, partner, row = heapq.heappop(self._heap)
            if not self._pool.alive(row):
                continue
            if self._pool.alive(partner):
                return partner, row
            if not self._known[row]:
                self._known[row] = _cheapest_last(*self._pool.nearest(row))
            self._push(row)
        return None

    def _push(self, row: int) -> None:
        """The cheapest that is still there; or the last that was known, which no other undercuts."""
        known = self._known[row]
        while known:
            cost, partner = known.pop()
            if partner < 0:
                return
            if self._pool.alive(partner) or not known:
                heapq.heappush(self._heap, (cost, partner, row))
                return


def _cheapest_last(cost: NDArray[np.float64], partner: Ints) -> list[tuple[float, int]]:
    return list(zip(cost.tolist(), partner.tolist(), strict=True))[::-1]


def group_rows(
    boxes: Boxes,
    objects: Ids,
    k: int,
    shaping: Shaping | None = None,
    told: Told = nobody,
    *,
    join: bool = True,
    alone: bool = False,
) -> Merges:
    """Merge rows, none of them empty, until all have k objects; `objects`: each row's.

    Fewer than k at the end join the nearest row that has k (`join`), or are left as they are.
    """
    count = len(boxes)
    run = _Run(boxes, shaping, [objects[i : i + 1] for i in range(count)], {}, [], [])
    finished: list[int] = []
    if count > 1 and k > 1:
        pool = Pool(boxes, np.ones(count, np.int64), alone=alone)
        queue = _Queue(pool, lambda share: told(share * _FIRST_SEARCH))
        most = count - count // (2 * k)
        while (pair := queue.cheapest()) is not None:
            bounds, members = run.merge(*pair)
            told(_FIRST_SEARCH + (1 - _FIRST_SEARCH) * len(run.first) / most)
            for row in pair:
                pool.leave(row)
            row = pool.add(bounds, len(members))
            if len(members) >= k:
                pool.leave(row)
                finished.append(row)
                queue.skip()
            else:
                queue.add(row)
        left = pool.left().tolist()
        if join and left and finished:
            for row in left:
                _join_nearest(run, finished, row)
    return Merges(np.array(run.first, np.int64), np.array(run.second, np.int64))


def _join_nearest(run: _Run, finished: list[int], row: int) -> None:
    """Merge a row that found too few with the finished one that costs it least."""
    rows = [run.bounds(f) for f in finished] + [run.bounds(row)]
    sizes = np.array([len(run.members[f]) for f in finished] + [len(run.members[row])])
    offsets = np.concatenate([[0], np.cumsum([r.shape[1] for r in rows])])
    pool = Pool(Boxes(offsets, np.concatenate(rows, axis=1), run.boxes.origin), sizes, alone=True)
    nearest = int(pool.nearest(len(finished))[1][0])
    run.merge(finished[nearest], row)
    finished[nearest] = len(run.members) - 1


@dataclass(frozen=True)
class Group:
    """Rows that became one."""

    bounds: Ids
    objects: Ids
    key: int
    """The smallest of theirs."""


def replay_merges(
    boxes: Boxes,
    objects: Ids,
    keys: Ints,
    merges: Merges,
    shaping: Shaping | None = None,
    told: Told = nobody,
) -> list[Group]:
    """Every row that was not merged into another, in order of their numbers."""
    count = len(boxes)
    run = _Run(boxes, shaping, [objects[i : i + 1] for i in range(count)], {}, [], [])
    key = keys.tolist()
    advance = as_shares(told, len(merges))
    for a, b in zip(merges.first.tolist(), merges.second.tolist(), strict=True):
        run.merge(a, b)
        key.append(min(key[a], key[b]))
        advance(1)
    gone = np.zeros(count + len(merges), np.bool_)
    gone[merges.first] = gone[merges.second] = True
    kept = np.flatnonzero(~gone).tolist()
    return [Group(run.bounds(row), run.members[row], key[row]) for row in kept]
