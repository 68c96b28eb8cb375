"""The one random source of the product.

Everything random in a release comes from a `RandomSource` that is handed down: the noise, the
uniform picks of the point lists, the released ids. `SecureSource` draws from the operating system
and is exact: no float takes part in a draw. `SeededSource` is reproducible and therefore not
private: whoever knows the seed subtracts the noise.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from freqdp_db.model.arrays import Flags, Ints

# Exact coins: heads with a probability that is given by a formula, not by a rounded number.
#
# A coin is tossed by comparing a uniform binary fraction with its probability, digit by digit, 64 at
# a time. All digits are exact: the probability is computed between two bounds until both agree. So a
# toss is decided as an infinitely long comparison would decide it, and no float is involved.


Words = NDArray[np.uint64]
_WORD_BITS = 64


class Coin:
    """Heads with probability exp(-x), or odds exp(-x) to 1, for a rational x above 0."""

    def __init__(self, x: Fraction, *, odds: bool) -> None:
        """`odds`: the probability is exp(-x) / (1 + exp(-x)) instead of exp(-x)."""
        self._x = x
        self._odds = odds

    def toss(self, words: Words, more: Callable[[int], Words]) -> Flags:
        """One toss for each uniform word; `more` gives further words where the first do not decide."""
        first = np.uint64(self._first)
        heads = words < first
        for undecided in np.flatnonzero(words == first):  # once in 2**64 tosses
            heads[undecided] = self._decide(more)
        return heads

    @cached_property
    def _first(self) -> int:
        return self.digits(_WORD_BITS)

    def _decide(self, more: Callable[[int], Words]) -> bool:
        bits, known = _WORD_BITS, self._first
        while True:
            bits += _WORD_BITS
            longer = self.digits(bits)
            word, next_digits = int(more(1)[0]), longer - (known << _WORD_BITS)
            if word != next_digits:
                return word < next_digits
            known = longer

    def digits(self, bits: int) -> int:
        """The first binary digits of the probability: floor(2**bits * p).

        exp(x) is transcendental for rational x, so p is no binary fraction, and bounds that are
        close enough always agree.
        """
        precision = 40 + bits // 3
        while True:
            with localcontext() as context:
                context.prec = precision
                power = (Decimal(self._x.numerator) / self._x.denominator).exp()
                probability = Fraction(1 / (1 + power if self._odds else power))
            # Division and exp are each rounded right. The error of x is multiplied by x in exp's
            # exponent, that of the later steps adds a few units: 10 (x + 1) units are more than all.
            error = 10 * (self._x + 1) * Fraction(10) ** (1 - precision)
            low = int(probability * (1 - error) * 2**bits)
            high = int(probability * (1 + error) * 2**bits)
            if low == high:
                return low
            precision *= 2


class BoundedCoin(Coin):
    """Heads with a probability that can be bounded as closely as one likes."""

    def __init__(self, bounds: Callable[[int], tuple[Fraction, Fraction]]) -> None:
        """`bounds`: of the probability, about so many decimal digits apart."""
        self._bounds = bounds

    def digits(self, bits: int) -> int:
        precision = 20 + bits // 3
        while True:
            low, high = self._bounds(precision)
            digits = int(low * 2**bits)
            if digits == int(high * 2**bits):
                return digits
            precision *= 2


# The discrete Gaussian law, by rejection from the discrete Laplace law; exact for exact tosses.
#
# P(z) is proportional to exp(-z^2 / (2 sigma^2)) on the integers. With t = floor(sigma) + 1 a proposal
# y of the discrete Laplace law of scale t is kept with probability
# exp(-(|y| - sigma^2 / t)^2 / (2 sigma^2)): the product of the two is the law above, up to a constant
# (Canonne, Kamath, Steinke 2020, Algorithm 3). Fewer than two proposals are needed for each value.


_SURE = 2.0**-36
"""A toss nearer to its probability than this is decided exactly. The floats below are off by less
than 2**-48: |y| is exact; sigma^2 / t is off by half a unit in the last place, that is by less than
sigma 2**-52, which moves the exponent e = d^2 / (2 sigma^2) by less than 2**-51 sqrt(2 e); the
other operations add a few units in the last place of e; and exp(-e) multiplies all of that by
exp(-e), where e exp(-e) < 1 and sqrt(2 e) exp(-e) < 1. The word is rounded to 53 bits."""

Toss = Callable[[Ints, Fraction, int], Flags]


def discrete_gaussian(
    sigma2: Fraction, count: int, laplace: Callable[[float, int], Ints], toss: Toss
) -> Ints:
    """`count` values; `toss` says which proposals are kept, `laplace` proposes."""
    if sigma2 <= 0:
        raise ValueError("sigma^2 must be above 0")
    scale = math.isqrt(math.floor(sigma2)) + 1
    kept = np.zeros(0, np.int64)
    while len(kept) < count:
        missing = count - len(kept)
        proposed = laplace(float(scale), missing + missing // 2 + 16)
        kept = np.concatenate([kept, proposed[toss(np.abs(proposed), sigma2, scale)]])
    return kept[:count]


def keep_probability(size: Ints, sigma2: Fraction, scale: int) -> NDArray[np.float64]:
    """The probability of keeping a proposal of this size, in floats."""
    spread = float(sigma2)
    away = size.astype(np.float64) - spread / scale
    result: NDArray[np.float64] = np.exp(-(away * away) / (2.0 * spread))
    return result


def exact_toss(
    size: Ints, sigma2: Fraction, scale: int, words: Callable[[int], Words], sure: float = _SURE
) -> Flags:
    """Heads with exactly the probability of keeping; floats only where they leave no doubt.

    A uniform fraction u is compared with the probability p. Its first 64 bits are drawn. Where they
    are further from the float of p than all errors together, they decide. Elsewhere the exact digits
    of p are compared, as many as it takes: the same u, so the outcome is that of exact comparison.
    """
    drawn = words(len(size))
    probability = keep_probability(size, sigma2, scale)
    uniform = drawn.astype(np.float64) * 2.0**-64
    heads = uniform < probability
    for i in np.flatnonzero(np.abs(uniform - probability) <= sure):
        away = int(size[i]) - sigma2 / scale
        if away == 0:
            heads[i] = True  # probability 1
            continue
        coin = Coin(away * away / (2 * sigma2), odds=False)
        heads[i] = bool(coin.toss(drawn[i : i + 1], words)[0])
    return heads


# Tails: of many independent numbers, which are large. They are found without drawing the others.
#
# Each number is in the tail with the same probability p, independently. So the distances between
# neighbours that are, less 1, are independent and geometric: P(g) is proportional to (1 - p)^g. As in
# `_geometric`, the binary digits of such a number are independent coins.


@dataclass(frozen=True)
class Tail:
    """What of a law is at least `least`: of the discrete Gaussian, or of the discrete Laplace."""

    least: int
    """At least 1."""
    sigma2: Fraction | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.least < 1 or (self.sigma2 is None) == (self.scale is None):
            raise ValueError("a tail is that of one law, above 0")

    def probability(self) -> float:
        """As a float, for who plans."""
        low, high = self.bounds(20)
        return float((low + high) / 2)

    def bounds(self, digits: int) -> tuple[Fraction, Fraction]:
        """Two fractions with the probability between them, about so many digits apart in proportion."""
        if self.scale is not None:
            return _laplace_tail(1 / Fraction(self.scale), self.least, digits)
        assert self.sigma2 is not None
        return _gaussian_tail(self.sigma2, self.least, digits)


@lru_cache(maxsize=64)
def _laplace_tail(rate: Fraction, least: int, digits: int) -> tuple[Fraction, Fraction]:
    """exp(-least r) / (1 + exp(-r)): the sum of a geometric series over that of all."""
    with localcontext() as context:
        context.prec = digits + 20 + len(str(math.ceil(least * rate)))
        step = Decimal(rate.numerator) / rate.denominator
        value = Fraction((-least * step).exp() / (1 + (-step).exp()))
    error = Fraction(1, 10**digits)
    return value * (1 - error), value * (1 + error)


@lru_cache(maxsize=64)
def _gaussian_tail(sigma2: Fraction, least: int, digits: int) -> tuple[Fraction, Fraction]:
    """The sum of exp(-z^2 / (2 sigma^2)) over z from `least` on, over that of all integers.

    Each term is the one before times exp(-(2 z - 1) / (2 sigma^2)), and that factor falls by
    exp(-1 / sigma^2). After k terms rounding has moved a term by less than k (k + 3) units of the last
    place in proportion; twenty guard digits are more than that for ten million terms. What is left out at
    the end is less than its first term times (sigma^2 / z + 1), as the terms fall faster than a geometric
    series with that sum.
    """
    spread = float(sigma2)
    # the last term is so small that what follows does not show in the digits of the tail either
    last = math.ceil(math.sqrt(least * least + 2 * spread * 2.303 * (digits + 25))) + 2
    if last > 10**7:
        raise ValueError("the noise is too wide for its tail to be summed up")
    with localcontext() as context:
        context.prec = digits + 20
        falls = (-Decimal(sigma2.denominator) / sigma2.numerator).exp()
        factor = (-Decimal(sigma2.denominator) / (2 * sigma2.numerator)).exp()
        term, inner, outer = Decimal(1), Decimal(0), Decimal(0)
        for z in range(1, last + 1):
            term *= factor
            factor *= falls
            if z < least:
                inner += term
            else:
                outer += term
        value = Fraction(outer / (1 + 2 * (inner + outer)))
        rest = Fraction(term * factor / outer) * (math.ceil(spread / last) + 1)
    error = Fraction(1, 10**digits) + rest
    return value * (1 - error), value * (1 + error)


def _exceeding(
    tail: Tail, count: int, geometric: Callable[[tuple[Coin, ...], Coin, int, int], Ints]
) -> Ints:
    """Positions from 0 to below `count`; `geometric` draws the gaps between them.

    A gap of `count` or more ends the search, so that it need not be known any better.
    """
    coins = _gap_coins(tail, count.bit_length())
    likely = tail.probability()
    found, at = [np.zeros(0, np.int64)], -1
    while at < count:
        batch = min(int(1.2 * likely * (count - at)) + 16, 1 << 22)
        gaps = np.minimum(geometric(*coins, batch, count), count) + 1
        positions = at + np.cumsum(gaps)
        found.append(positions[positions < count])
        at = int(positions[-1])
    return np.concatenate(found)


_TAIL_DIGITS = 32
"""Tails are summed up to multiples of so many digits."""


@lru_cache(maxsize=16)
def _gap_coins(tail: Tail, most_digits: int) -> tuple[tuple[Coin, ...], Coin]:
    """Coins for the lower digits of a gap, so many at most, and for going on beyond them."""

    def power(doublings: int, digits: int, *, odds: bool) -> tuple[Fraction, Fraction]:
        """Bounds of (1 - p)^(2^doublings), or of odds of that to 1."""
        # more digits than needed, the same for most coins: summing up a tail takes long
        enough = -(-(digits + doublings) // _TAIL_DIGITS) * _TAIL_DIGITS
        low, high = (1 - bound for bound in reversed(tail.bounds(enough)))
        with localcontext() as context:
            context.prec = digits + 20 + doublings
            ends = []
            for end in (low, high):
                value = Decimal(end.numerator) / end.denominator
                for _ in range(doublings):
                    value *= value
                ends.append(Fraction(value))
        # each squaring doubles the error in proportion and adds a unit of the last place
        slack = Fraction(2 ** (doublings + 2), 10 ** (digits + 19 + doublings))
        low, high = ends[0] * (1 - slack), ends[1] * (1 + slack)
        return (low / (1 + low), high / (1 + high)) if odds else (low, high)

    likely = tail.probability()
    # of a tail so thin that its probability is no float, all digits that positions have
    doublings = min(math.ceil(-math.log2(likely)), most_digits) if likely else most_digits
    return (
        tuple(BoundedCoin(partial(power, digit, odds=True)) for digit in range(doublings)),
        BoundedCoin(partial(power, doublings, odds=False)),
    )


class RandomSource(Protocol):
    """Where randomness comes from."""

    def discrete_laplace(self, scale: float, count: int) -> Ints:
        """Two-sided geometric noise: P(z) proportional to exp(-|z| / scale), exact."""

    def discrete_gaussian(self, sigma2: Fraction, count: int) -> Ints:
        """Gaussian noise on the integers: P(z) proportional to exp(-z^2 / (2 sigma2)), exact."""

    def exceeding(self, tail: Tail, count: int) -> Ints:
        """Which of `count` independent numbers of a law lie in its tail: positions in order, exact."""

    def uniform_words(self, count: int) -> Ints:
        """Uniform integers from 0 to 2**63 - 1."""


class SecureSource:
    """The operating system's randomness."""

    def discrete_laplace(self, scale: float, count: int) -> Ints:
        return _in_pieces(partial(self._laplace, scale), count)

    def discrete_gaussian(self, sigma2: Fraction, count: int) -> Ints:
        return _in_pieces(partial(self._gaussian, sigma2), count)

    def _laplace(self, scale: float, count: int) -> Ints:
        # the difference of two geometric numbers of one law is two-sided geometric
        return self._geometric(scale, count) - self._geometric(scale, count)

    def _gaussian(self, sigma2: Fraction, count: int) -> Ints:
        return discrete_gaussian(
            sigma2,
            count,
            self._laplace,
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
        return self._by_digits(*_geometric_coins(scale), count)

    def exceeding(self, tail: Tail, count: int) -> Ints:
        return _exceeding(tail, count, self._by_digits)

    def _by_digits(
        self, lower: tuple[Coin, ...], above: Coin, count: int, enough: int | None = None
    ) -> Ints:
        """Geometric numbers, from the coins of their lower digits and that of going on beyond them.

        enough: numbers that are as large or larger are only known to be so.
        """
        result = np.zeros(count, np.int64)
        for digit, coin in enumerate(lower):
            result += coin.toss(_words(count), _words).astype(np.int64) << digit
        going = np.arange(count)
        while len(going):
            going = going[above.toss(_words(len(going)), _words)]
            result[going] += 1 << len(lower)
            if enough is not None:
                going = going[result[going] < enough]
        return result


_PIECE = 1 << 17
"""Numbers that are drawn at a time: what that takes stays in the processor's cache."""


def _in_pieces(draw: Callable[[int], Ints], count: int) -> Ints:
    """Independent numbers, many of them on all cores: most of the time is the system's randomness."""
    if count <= _PIECE:
        return draw(count)
    pieces = [min(_PIECE, count - begin) for begin in range(0, count, _PIECE)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.concatenate(list(pool.map(draw, pieces)))


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

    def exceeding(self, tail: Tail, count: int) -> Ints:
        chosen = self._generator.binomial(count, tail.probability())
        found = (
            np.unique(self._generator.integers(0, count, chosen)) if chosen else np.zeros(0, int)
        )
        while len(found) < chosen:
            more = self._generator.integers(0, count, chosen - len(found))
            found = np.unique(np.concatenate([found, more]))
        return found.astype(np.int64)

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
