"""The cheapest pair of rows merges, again and again; whoever has k objects leaves.

Exact: the order of merges is that of a search through all pairs. Each row answers for the pairs
with rows that are older than it. What its cheapest partner cost stays a lower bound after the
partner has left, so it is looked for again only when that bound is the least of all.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.methods.k_anonymity.boxes import Boxes
from freqdp_db.methods.k_anonymity.merging import merge_rows
from freqdp_db.methods.k_anonymity.pool import Pool


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


def group_rows(
    boxes: Boxes,
    objects: Ids,
    k: int,
    shaping: Shaping | None = None,
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
        heap = list(zip(*pool.nearest_of_all(), range(count), strict=True))[1:]
        heapq.heapify(heap)
        while heap:
            _, partner, row = heapq.heappop(heap)
            if not pool.alive(row):
                continue
            if pool.alive(partner):
                bounds, members = run.merge(partner, row)
                pool.leave(partner)
                pool.leave(row)
                row = pool.add(bounds, len(members))
                if len(members) >= k:
                    pool.leave(row)
                    finished.append(row)
                    continue
            cost, partner = pool.nearest(row)
            if partner >= 0:
                heapq.heappush(heap, (cost, partner, row))
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
    _, nearest = pool.nearest(len(finished))
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
    boxes: Boxes, objects: Ids, keys: Ints, merges: Merges, shaping: Shaping | None = None
) -> list[Group]:
    """Every row that was not merged into another, in order of their numbers."""
    count = len(boxes)
    run = _Run(boxes, shaping, [objects[i : i + 1] for i in range(count)], {}, [], [])
    key = keys.tolist()
    for a, b in zip(merges.first.tolist(), merges.second.tolist(), strict=True):
        run.merge(a, b)
        key.append(min(key[a], key[b]))
    gone = np.zeros(count + len(merges), np.bool_)
    gone[merges.first] = gone[merges.second] = True
    kept = np.flatnonzero(~gone).tolist()
    return [Group(run.bounds(row), run.members[row], key[row]) for row in kept]
