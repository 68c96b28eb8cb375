"""Kernels over ranges of whole trajectories, on all cores.

A kernel is a compiled function that releases the GIL and takes `first, last` before its own
arguments. Ranges hold about the same number of samples and do not depend on each other, so that
they could as well run in other processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from freqdp_db.columns.arrays import Ints

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


def ranges(offsets: Ints) -> list[tuple[int, int]]:
    """Split groups (offsets as in `Trajectories`) into ranges of about equal size."""
    groups = len(offsets) - 1
    parts = min(max(groups, 1), cores() * _RANGES_PER_CORE)
    cuts = np.searchsorted(offsets, np.linspace(0, offsets[-1], parts + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], cuts, [groups]]))
    return [(int(a), int(b)) for a, b in pairwise(edges)]


def over_ranges(kernel: Callable[..., Any], offsets: Ints, *arguments: Any) -> list[Any]:
    """Run kernel(first, last, *arguments) for every range; results in order of the ranges."""
    parts = ranges(offsets)
    if len(parts) <= 1:
        return [kernel(first, last, *arguments) for first, last in parts]
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(lambda part: kernel(part[0], part[1], *arguments), parts))
