"""The discrete Gaussian law, by rejection from the discrete Laplace law; exact for exact tosses.

P(z) is proportional to exp(-z^2 / (2 sigma^2)) on the integers. With t = floor(sigma) + 1 a proposal
y of the discrete Laplace law of scale t is kept with probability
exp(-(|y| - sigma^2 / t)^2 / (2 sigma^2)): the product of the two is the law above, up to a constant
(Canonne, Kamath, Steinke 2020, Algorithm 3). Fewer than two proposals are needed for each value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Flags, Ints
from freqdp_db.mechanisms.coins import Coin, Words

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
