"""Ranges of whole trajectories: the unit of work of kernels, on the cores of one process.

A function of a range takes `first, last` before its own arguments, reads what it needs of them and
makes its partial result itself: a tuple of arrays and numbers. It writes into nothing that another
range could see. Partial results merge in the order of the ranges, so that the result is the same
for any number of ranges. Where work is by query, by cell or by place, ranges are of
these.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.model.arrays import Ints

# The first engine: threads of this process, on all cores. Kernels release the GIL.


_RANGES_PER_CORE = 8


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_core() -> Iterator[None]:
    """Keep to one core, to measure what a kernel takes on it (where the system allows that)."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Threads:
    """Runs functions of ranges on threads that share the arguments: nothing is copied to them."""

    @property
    def parts(self) -> int:
        """So many ranges keep it busy."""
        return cores() * _RANGES_PER_CORE

    def run(
        self,
        function: Callable[..., Any],
        ranges: list[tuple[int, int]],
        arguments: tuple[Any, ...],
    ) -> Iterator[Any]:
        """function(first, last, *arguments) of every range, in their order."""
        if len(ranges) == 1:
            yield function(*ranges[0], *arguments)
            return
        with ThreadPoolExecutor(cores()) as pool:
            yield from pool.map(lambda part: function(*part, *arguments), ranges)


class SingleThread(Threads):
    """The thread that asks does it all, in one range: for work so small that threads cost more."""

    @property
    def parts(self) -> int:
        return 1


# How many threads are at work changes no result, so it is no argument of what is computed.
_runner: ContextVar[Threads] = ContextVar("runner", default=Threads())  # noqa: B039


@contextmanager
def use(runner: Threads) -> Iterator[None]:
    """Have it run what the block maps."""
    before = _runner.set(runner)
    try:
        yield
    finally:
        _runner.reset(before)


def cut(offsets: Ints, parts: int) -> list[tuple[int, int]]:
    """Ranges of about equal size of groups (offsets as in `Trajectories`), none of them split.

    There is always one, if of no group: its result is empty, and of the right types.
    """
    groups = len(offsets) - 1
    cuts = np.searchsorted(offsets, np.linspace(0, offsets[-1], min(groups, parts) + 1)[1:-1])
    return _between(np.concatenate([[0], cuts, [groups]]))


def _between(edges: Ints) -> list[tuple[int, int]]:
    found = [(int(first), int(last)) for first, last in pairwise(np.unique(edges))]
    return found or [(0, 0)]


def map_ranges(
    function: Callable[..., Any],
    offsets: Ints,
    *arguments: Any,
    advance: Callable[[int], None] | None = None,
) -> list[Any]:
    """The partial results function(first, last, *arguments) of all ranges, in their order.

    advance(groups): so many more are done.
    """
    parts = []
    ranges = cut(offsets, _runner.get().parts)
    for done, part in zip(ranges, _runner.get().run(function, ranges, arguments), strict=True):
        parts.append(part)
        if advance is not None:
            advance(done[1] - done[0])
    return parts


def map_each(function: Callable[..., Any], count: int, *arguments: Any) -> list[Any]:
    """The same for so many things that are about as much work each."""
    parts = min(count, _runner.get().parts)
    ranges = _between(np.linspace(0, count, parts + 1).astype(np.int64))
    return list(_runner.get().run(function, ranges, arguments))


def joined(parts: list[Any]) -> tuple[NDArray[Any], ...]:
    """The columns of partial results, one range after the other. Empties the list of them."""
    return merged(parts, *[join] * len(parts[0]))


def merged(parts: list[Any], *ways: Callable[[list[Any]], Any]) -> tuple[Any, ...]:
    """Merge the columns of partial results, each in its way. Empties the list of them."""
    columns = [list(column) for column in zip(*parts, strict=True)]
    parts.clear()
    return tuple(way(column) for way, column in zip(ways, columns, strict=True))


def join(column: list[Any]) -> NDArray[Any]:
    """One part after the other. Each is let go as it is copied: memory never holds all twice."""
    if len(column) == 1:
        return np.asarray(column[0])
    rows = sum(len(part) for part in column)
    whole = np.empty((rows, *column[0].shape[1:]), column[0].dtype)
    begin = 0
    for i, part in enumerate(column):
        whole[begin : begin + len(part)] = part
        begin += len(part)
        column[i] = None
    return whole


def add(column: list[Any]) -> Any:
    """The sum of the parts: counts, of one thing or of each."""
    total = column[0]
    for part in column[1:]:
        total = total + part
    return total


def either(column: list[Any]) -> NDArray[np.bool_]:
    """What is true in any part."""
    found: NDArray[np.bool_] = np.logical_or.reduce(column)
    return found
