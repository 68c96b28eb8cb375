"""Sorting and finding inside kernels, by NumPy's functions.

They have names here because numba takes seconds to compile a sort, and does it once for each function that
holds one: so all kernels share these.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def stable_order(key):  # type: ignore[no-untyped-def]
    """Positions that sort an array; equal keys keep their order."""
    return np.argsort(key, kind="mergesort")


@njit(nogil=True, cache=True)
def find(keys, lo, hi, key):  # type: ignore[no-untyped-def]
    """Position of key in the ascending keys[lo:hi], or -1."""
    at = lo + np.searchsorted(keys[lo:hi], key)
    return at if at < hi and keys[at] == key else -1
