"""A heap of costs and what they are for, the least on top: for searches inside kernels.

Our own, because Python's heapq inside a kernel needs a list of tuples and breaks ties by the node, which
would choose other routes. The two arrays are the caller's, with room for all that is ever put on.
"""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True)
def push(costs, nodes, size, cost, node):  # type: ignore[no-untyped-def]
    """Put on; the new size."""
    i = size
    while i > 0:
        up = (i - 1) >> 1
        if costs[up] <= cost:
            break
        costs[i], nodes[i] = costs[up], nodes[up]
        i = up
    costs[i], nodes[i] = cost, node
    return size + 1


@njit(nogil=True, cache=True)
def pop(costs, nodes, size):  # type: ignore[no-untyped-def]
    """Take the top off, which the caller has read at 0; the new size."""
    size -= 1
    cost, node = costs[size], nodes[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and costs[child + 1] < costs[child]:
            child += 1
        if costs[child] >= cost:
            break
        costs[i], nodes[i] = costs[child], nodes[child]
        i = child
    costs[i], nodes[i] = cost, node
    return size
