"""The queue of a best-first search: cells to visit, nearest first."""

from __future__ import annotations

import numpy as np
from numba import njit

ROOM = 256
"""Places of a fresh queue. Who pushes sees to it that there is room (`grown`): handing a queue back
with every push would count a reference each time, with an atomic operation."""


@njit(cache=True)
def grown(places):  # type: ignore[no-untyped-def]
    """The same with twice the room."""
    larger = np.empty(2 * len(places), places.dtype)
    for i in range(len(places)):
        larger[i] = places[i]
    return larger


@njit(cache=True, inline="always")
def _before(d_a, n_a, d_b, n_b):  # type: ignore[no-untyped-def]
    """Order of visits: by distance; then nodes >= 0 first; then the one further from 0.

    Nodes are numbered from the root on, so that of equally near ones (0 for all cells around q)
    subtrees (n >= 0) come before segments (n < 0) and fine cells before coarse: a tight bound is
    found before the long segments are looked at.
    """
    if d_a != d_b:
        return d_a < d_b
    if (n_a >= 0) != (n_b >= 0):
        return n_a >= 0
    return n_a > n_b if n_a >= 0 else n_a < n_b


@njit(cache=True)
def push(queue_d, queue_n, size, distance2, node):  # type: ignore[no-untyped-def]
    """Add to the queue (a heap, first to visit on top); how many wait now."""
    i = size
    while i > 0:
        up = (i - 1) // 2
        if not _before(distance2, node, queue_d[up], queue_n[up]):
            break
        queue_d[i], queue_n[i] = queue_d[up], queue_n[up]
        i = up
    queue_d[i], queue_n[i] = distance2, node
    return size + 1


@njit(cache=True)
def pop(queue_d, queue_n, size):  # type: ignore[no-untyped-def]
    """Take the first from the queue, which the caller has read at 0; how many wait now."""
    size -= 1
    distance2, node = queue_d[size], queue_n[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and _before(
            queue_d[child + 1], queue_n[child + 1], queue_d[child], queue_n[child]
        ):
            child += 1
        if not _before(queue_d[child], queue_n[child], distance2, node):
            break
        queue_d[i], queue_n[i] = queue_d[child], queue_n[child]
        i = child
    queue_d[i], queue_n[i] = distance2, node
    return size
