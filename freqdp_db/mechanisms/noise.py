"""The one random source of the product.

Everything random in a release comes from a `RandomSource` that is handed down: the noise, the
uniform picks of the point lists, the released ids. `SecureSource` draws from the operating system
(noise through OpenDP's exact sampler). `SeededSource` is reproducible and therefore not private:
whoever knows the seed subtracts the noise.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from freqdp_db.model import Ints


class RandomSource(Protocol):
    """Where randomness comes from."""

    @property
    def private(self) -> bool:
        """Whether nobody can draw the same values again."""

    def discrete_laplace(self, scale: float, count: int) -> Ints:
        """Two-sided geometric noise: P(z) proportional to exp(-|z| / scale), exact."""

    def uniform_words(self, count: int) -> Ints:
        """Uniform integers from 0 to 2**63 - 1."""


class SecureSource:
    """The operating system's randomness."""

    private = True

    def discrete_laplace(self, scale: float, count: int) -> Ints:
        if count == 0:
            return np.zeros(0, np.int64)
        return np.asarray(laplace_measurement(scale)([0] * count), np.int64)

    def uniform_words(self, count: int) -> Ints:
        return (np.frombuffer(os.urandom(8 * count), np.uint64) >> np.uint64(1)).astype(np.int64)


class SeededSource:
    """A reproducible stand-in for tests and experiments. Never private."""

    private = False

    def __init__(self, seed: int, stream: int = 0) -> None:
        """`stream` separates the draws of one seed, so that they do not depend on their order."""
        self._generator = np.random.default_rng([seed, stream])

    def discrete_laplace(self, scale: float, count: int) -> Ints:
        stop = -math.expm1(-1.0 / scale)
        up = self._generator.geometric(stop, count)
        down = self._generator.geometric(stop, count)
        return (up - down).astype(np.int64)

    def uniform_words(self, count: int) -> Ints:
        return self._generator.integers(0, 2**63 - 1, count, dtype=np.int64, endpoint=True)


def laplace_measurement(scale: float) -> Any:
    """OpenDP's discrete Laplace mechanism on a vector of integers."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_laplace(*space, scale=scale)


def scale_for(sensitivity: int, epsilon: Fraction) -> float:
    """The smallest scale whose own privacy map, at this sensitivity, is at most epsilon."""
    scale = float(sensitivity / epsilon)
    while Fraction(laplace_measurement(scale).map(sensitivity)) > epsilon:
        scale = math.nextafter(scale, math.inf)
    return scale


def released_ids(source: RandomSource, count: int) -> Ints:
    """Fresh, distinct, random ids of twelve digits: neither order nor gaps say anything."""
    low, high = 10**11, 10**12
    ids = np.zeros(0, np.int64)
    while len(ids) < count:
        # words beyond the last whole multiple of the range would favour small ids
        words = source.uniform_words(count - len(ids) + 64)
        words = words[words < (2**63 // (high - low)) * (high - low)]
        fresh = low + words % (high - low)
        _, first = np.unique(np.concatenate([ids, fresh]), return_index=True)
        ids = np.concatenate([ids, fresh])[np.sort(first)]
    return ids[:count]
