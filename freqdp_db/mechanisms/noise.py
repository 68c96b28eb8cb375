"""The one random source of the product.

Everything random in a release comes from a `RandomSource` that is handed down: the noise, the
uniform picks of the point lists, the released ids. `SecureSource` draws from the operating system
and is exact: no float takes part in a draw. `SeededSource` is reproducible and therefore not
private: whoever knows the seed subtracts the noise.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

from freqdp_db.columns.arrays import Flags, Ints
from freqdp_db.mechanisms.coins import Coin, Words
from freqdp_db.mechanisms.gaussian import discrete_gaussian, exact_toss, keep_probability


class RandomSource(Protocol):
    """Where randomness comes from."""

    def discrete_laplace(self, scale: float, count: int) -> Ints:
        """Two-sided geometric noise: P(z) proportional to exp(-|z| / scale), exact."""

    def discrete_gaussian(self, sigma2: Fraction, count: int) -> Ints:
        """Gaussian noise on the integers: P(z) proportional to exp(-z^2 / (2 sigma2)), exact."""

    def uniform_words(self, count: int) -> Ints:
        """Uniform integers from 0 to 2**63 - 1."""


class SecureSource:
    """The operating system's randomness."""

    def discrete_laplace(self, scale: float, count: int) -> Ints:
        # the difference of two geometric numbers of one law is two-sided geometric
        return self._geometric(scale, count) - self._geometric(scale, count)

    def discrete_gaussian(self, sigma2: Fraction, count: int) -> Ints:
        return discrete_gaussian(
            sigma2,
            count,
            self.discrete_laplace,
            lambda size, spread, scale: exact_toss(size, spread, scale, _words),
        )

    def uniform_words(self, count: int) -> Ints:
        return (_words(count) >> np.uint64(1)).astype(np.int64)

    def _geometric(self, scale: float, count: int) -> Ints:
        """P(g) proportional to exp(-g / scale).

        The law is a product over the binary digits of g: P(g) is proportional to the product of
        exp(-2**j / scale) over the digits j that are 1. So the digits are independent, each with
        odds of exp(-2**j / scale) to 1. This gives the lower digits. What is above them is again
        geometric, with a mean below 1, and is counted up toss by toss.
        """
        lower, above = _geometric_coins(scale)
        result = np.zeros(count, np.int64)
        for digit, coin in enumerate(lower):
            result += coin.toss(_words(count), _words).astype(np.int64) << digit
        going = np.arange(count)
        while len(going):
            going = going[above.toss(_words(len(going)), _words)]
            result[going] += 1 << len(lower)
        return result


def _words(count: int) -> Words:
    return np.frombuffer(os.urandom(8 * count), np.uint64)


@lru_cache(maxsize=64)
def _geometric_coins(scale: float) -> tuple[tuple[Coin, ...], Coin]:
    """Coins for the lower digits, and for going on beyond them."""
    step = 1 / Fraction(scale)
    digits = 0
    while 2**digits * step < 1:
        digits += 1
    return (
        tuple(Coin(2**digit * step, odds=True) for digit in range(digits)),
        Coin(2**digits * step, odds=False),
    )


class SeededSource:
    """A reproducible stand-in for tests and experiments. Never private."""

    def __init__(self, seed: int, stream: int = 0) -> None:
        """`stream` separates the draws of one seed, so that they do not depend on their order."""
        self._generator = np.random.default_rng([seed, stream])

    def discrete_laplace(self, scale: float, count: int) -> Ints:
        stop = -math.expm1(-1.0 / scale)
        up = self._generator.geometric(stop, count)
        down = self._generator.geometric(stop, count)
        return (up - down).astype(np.int64)

    def discrete_gaussian(self, sigma2: Fraction, count: int) -> Ints:
        def toss(size: Ints, spread: Fraction, scale: int) -> Flags:
            heads: Flags = self._generator.random(len(size)) < keep_probability(size, spread, scale)
            return heads

        return discrete_gaussian(sigma2, count, self.discrete_laplace, toss)

    def uniform_words(self, count: int) -> Ints:
        return self._generator.integers(0, 2**63 - 1, count, dtype=np.int64, endpoint=True)


def privacy_loss(sensitivity: int, scale: float) -> Fraction:
    """What noise of this scale costs where the input moves by `sensitivity` in L1: exact."""
    return sensitivity / Fraction(scale)


def scale_for(sensitivity: int, epsilon: Fraction) -> float:
    """The smallest scale whose privacy loss, at this sensitivity, is at most epsilon."""
    scale = float(sensitivity / epsilon)
    while privacy_loss(sensitivity, scale) > epsilon:
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
