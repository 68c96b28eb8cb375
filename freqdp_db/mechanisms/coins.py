"""Exact coins: heads with a probability that is given by a formula, not by a rounded number.

A coin is tossed by comparing a uniform binary fraction with its probability, digit by digit, 64 at
a time. All digits are exact: the probability is computed between two bounds until both agree. So a
toss is decided as an infinitely long comparison would decide it, and no float is involved.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Flags

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
