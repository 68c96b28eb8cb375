"""Sorting inside kernels.

numba's own sorts take seconds to compile for every type they meet; these serve all kernels, and
are compiled once. Kernels also avoid masks, slices on the left and fancy indexing: plain loops
compile in a fraction of the time and run as fast.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_RUN = 16
_DIGIT = 11


@njit(nogil=True, cache=True)
def stable_order(key):  # type: ignore[no-untyped-def]
    """Positions that sort an int64 array; equal keys keep their order (merge sort, bottom up)."""
    n = len(key)
    order = np.arange(n)
    for begin in range(0, n, _RUN):
        for i in range(begin + 1, min(begin + _RUN, n)):
            item = order[i]
            value = key[item]
            j = i - 1
            while j >= begin and key[order[j]] > value:
                order[j + 1] = order[j]
                j -= 1
            order[j + 1] = item
    merged = np.empty_like(order)
    width = _RUN
    while width < n:
        for begin in range(0, n, 2 * width):
            middle, end = min(begin + width, n), min(begin + 2 * width, n)
            left, right = begin, middle
            for k in range(begin, end):
                if left < middle and (right >= end or key[order[left]] <= key[order[right]]):
                    merged[k] = order[left]
                    left += 1
                else:
                    merged[k] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order


@njit(nogil=True, cache=True)
def sort_ids(ids):  # type: ignore[no-untyped-def]
    """Sort an array of ids (int32, from 0) in place: by digits of 11 bits."""
    n = len(ids)
    if n <= 4 * _RUN:
        for i in range(1, n):
            item = ids[i]
            j = i - 1
            while j >= 0 and ids[j] > item:
                ids[j + 1] = ids[j]
                j -= 1
            ids[j + 1] = item
        return
    largest = ids[0]
    for i in range(n):
        largest = max(largest, ids[i])
    buffer = np.empty_like(ids)
    count = np.empty((1 << _DIGIT) + 1, np.int64)
    shift = 0
    while (largest >> shift) > 0:
        for d in range(len(count)):
            count[d] = 0
        for i in range(n):
            count[((ids[i] >> shift) & ((1 << _DIGIT) - 1)) + 1] += 1
        for d in range(1 << _DIGIT):
            count[d + 1] += count[d]
        for i in range(n):
            digit = (ids[i] >> shift) & ((1 << _DIGIT) - 1)
            buffer[count[digit]] = ids[i]
            count[digit] += 1
        for i in range(n):
            ids[i] = buffer[i]
        shift += _DIGIT


@njit(nogil=True, cache=True)
def sortable(values):  # type: ignore[no-untyped-def]
    """int64 keys in the order of float64 values (numbers only)."""
    bits = values.view(np.int64)
    key = np.empty(len(bits), np.int64)
    for i in range(len(bits)):
        # the bits of negative numbers run backwards
        key[i] = bits[i] if bits[i] >= 0 else np.int64(-0x8000000000000000) - bits[i]
    return key


@njit(cache=True)
def find(keys, lo, hi, key):  # type: ignore[no-untyped-def]
    """Position of key in the ascending keys[lo:hi], or -1."""
    end = hi
    while lo < hi:
        middle = (lo + hi) // 2
        if keys[middle] < key:
            lo = middle + 1
        else:
            hi = middle
    return lo if lo < end and keys[lo] == key else -1
