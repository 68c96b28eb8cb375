"""Random numbers of the sampling: a stream for each trip, from the committed seed and its number.

The guarantee does not rest on them: whatever is made of the noisy vectors, by any rule or dice that
do not look at the data, costs nothing. They must only be the same again, whatever the ranges.

Our own (SplitMix64), because a kernel starts a stream for every trip, and NumPy's generators can only be
started outside of kernels, at some 10 us each.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numba import njit

from freqdp_db.model.arrays import Ints

SEED_WORDS = 8
"""A seed is 256 bits, in words of 32."""

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def key(seed: Ints, purpose: str) -> np.uint64:
    """A key of its own for each purpose."""
    told = seed.astype("<u4").tobytes() + purpose.encode()
    return np.uint64(int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little"))


def derived(purpose: np.uint64, number: int) -> np.uint64:
    """A key for part `number` of a purpose."""
    return np.uint64(splitmix64(np.uint64((int(purpose) + (number + 1) * int(_GAMMA)) % 2**64)))


@njit(nogil=True, cache=True)
def splitmix64(z):  # type: ignore[no-untyped-def]
    """The output function of SplitMix64: a bijection of 64 bits (Steele, Lea, Flood 2014)."""
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@njit(nogil=True, cache=True)
def stream(purpose, number):  # type: ignore[no-untyped-def]
    """The state of one trip's stream: an array of one, that drawing moves on."""
    state = np.empty(1, np.uint64)
    state[0] = splitmix64(purpose ^ splitmix64(np.uint64(number) * _GAMMA + np.uint64(1)))
    return state


@njit(nogil=True, cache=True)
def uniform(state):  # type: ignore[no-untyped-def]
    """Between 0 and 1, 53 bits."""
    state[0] += _GAMMA
    return float(splitmix64(state[0]) >> np.uint64(11)) * 2.0**-53


@njit(nogil=True, cache=True)
def pick(state, running, first, last):  # type: ignore[no-untyped-def]
    """A position from `first` to `last` - 1, by the running sums of the weights (none before first)."""
    before = running[first - 1] if first > 0 else 0.0
    aim = before + uniform(state) * (running[last - 1] - before)
    lo, hi = first, last - 1
    while lo < hi:
        middle = (lo + hi) // 2
        if running[middle] > aim:
            hi = middle
        else:
            lo = middle + 1
    return lo


@njit(nogil=True, cache=True)
def whole(state, below):  # type: ignore[no-untyped-def]
    return min(math.floor(uniform(state) * below), below - 1)


@njit(nogil=True, cache=True)
def uniform_block(purpose, first, count, columns):  # type: ignore[no-untyped-def]
    """The first `columns` numbers of the streams `first` to `first + count` - 1."""
    result = np.empty((count, columns))
    for i in range(count):
        state = stream(purpose, first + i)
        for j in range(columns):
            result[i, j] = uniform(state)
    return result


# Sorting and finding inside kernels, by NumPy's functions.
#
# They have names here because numba takes seconds to compile a sort, and does it once for each
# function that holds one: so all kernels share these.


@njit(nogil=True, cache=True)
def stable_order(key):  # type: ignore[no-untyped-def]
    """Positions that sort an array; equal keys keep their order."""
    return np.argsort(key, kind="mergesort")


@njit(nogil=True, cache=True)
def find(keys, lo, hi, key):  # type: ignore[no-untyped-def]
    """Position of key in the ascending keys[lo:hi], or -1."""
    at = lo + np.searchsorted(keys[lo:hi], key)
    return at if at < hi and keys[at] == key else -1


@njit(nogil=True, cache=True)
def longer(column, size):  # type: ignore[no-untyped-def]
    """The same column with room for at least so many."""
    bigger = np.empty(max(2 * len(column), size), column.dtype)
    bigger[: len(column)] = column
    return bigger


@njit(nogil=True, cache=True)
def spread_bytes(data, sizes, begins, out):  # type: ignore[no-untyped-def]
    """Copy each row's bytes to where they begin in `out`."""
    k = 0
    for row in range(len(sizes)):
        for i in range(sizes[row]):
            out[begins[row] + i] = data[k + i]
        k += sizes[row]


@njit(nogil=True, cache=True)
def gather_bytes(data, sizes, begins):  # type: ignore[no-untyped-def]
    """The bytes of all rows, one after the other, from where each row's begin."""
    out = np.empty(sizes.sum(), np.uint8)
    k = 0
    for row in range(len(sizes)):
        for i in range(sizes[row]):
            out[k + i] = data[begins[row] + i]
        k += sizes[row]
    return out
