"""The first engine: threads of this process, on all cores. Kernels release the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

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
    """Threads that share the arguments: nothing is copied on the way to them."""

    @property
    def parts(self) -> int:
        return cores() * _RANGES_PER_CORE

    def run(
        self,
        function: Callable[..., Any],
        ranges: list[tuple[int, int]],
        arguments: tuple[Any, ...],
    ) -> Iterator[Any]:
        if len(ranges) == 1:
            yield function(*ranges[0], *arguments)
            return
        with ThreadPoolExecutor(cores()) as pool:
            yield from pool.map(lambda part: function(*part, *arguments), ranges)


class SingleThread:
    """The thread that asks does it all, in one range: for work so small that threads cost more."""

    parts = 1

    def run(
        self,
        function: Callable[..., Any],
        ranges: list[tuple[int, int]],
        arguments: tuple[Any, ...],
    ) -> Iterator[Any]:
        for part in ranges:
            yield function(*part, *arguments)
