"""Tails of the noise: probabilities between rigorous bounds, and positions with the exact law."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from freqdp_db.privacy.noise import RandomSource, SecureSource, SeededSource, Tail

TAILS = [
    Tail(1, sigma2=Fraction(1, 2)), Tail(7, sigma2=Fraction(9)), Tail(400, sigma2=Fraction(10_001)),
    Tail(1, scale=0.7), Tail(30, scale=11.5),
]  # fmt: skip


def summed(tail: Tail) -> float:
    z = np.arange(-20_000, 20_001)
    if tail.sigma2 is not None:
        weight = np.exp(-(z.astype(float) ** 2) / (2 * float(tail.sigma2)))
    else:
        assert tail.scale is not None
        weight = np.exp(-np.abs(z) / tail.scale)
    return float(weight[z >= tail.least].sum() / weight.sum())


@pytest.mark.parametrize("tail", TAILS)
def test_bounds_hold_the_probability(tail: Tail) -> None:
    low, high = tail.bounds(30)
    assert 0 < low < high < 1 and (high - low) / low < Fraction(1, 10**29)
    assert math.isclose(float(low), summed(tail), rel_tol=1e-11)
    closer = tail.bounds(60)
    assert low <= closer[0] < closer[1] <= high


@pytest.mark.parametrize("source", [SecureSource(), SeededSource(3)], ids=["secure", "seeded"])
@pytest.mark.parametrize("tail", TAILS)
def test_as_many_as_of_numbers_that_were_all_drawn(source: RandomSource, tail: Tail) -> None:
    count, trials = 2_000, 400
    p = tail.probability()
    found = [source.exceeding(tail, count) for _ in range(trials)]
    for positions in found:
        assert (np.diff(positions) > 0).all()
        assert not len(positions) or (positions[0] >= 0 and positions[-1] < count)
    sizes = np.array([len(positions) for positions in found])
    spread = (count * p * (1 - p)) ** 0.5
    assert abs(sizes.mean() - count * p) < 6 * spread / trials**0.5
    # the variance of a sample of such numbers is off by its kurtosis, which is near that of a normal law
    assert abs(sizes.var() / spread**2 - 1) < 6 * (2.5 / trials) ** 0.5 + 1 / (count * p)
    where = np.bincount(np.concatenate(found) * 10 // count, minlength=10)
    error = (where.sum() * 0.09) ** 0.5
    assert np.abs(where - where.sum() / 10).max() < 6 * error + 1


@pytest.mark.parametrize("source", [SecureSource(), SeededSource(3)], ids=["secure", "seeded"])
@pytest.mark.parametrize(
    "tail",
    [Tail(least, sigma2=Fraction(16)) for least in (36, 37, 160)] + [Tail(900, scale=1.0)],
)
def test_a_thin_tail_picks_nothing(source: RandomSource, tail: Tail) -> None:
    """One number in 10^18 or fewer: none of a billion, and at once."""
    assert not len(source.exceeding(tail, 10**9))


def test_a_wrong_tail_is_found() -> None:
    """The test above can fail: with a threshold that is one too low."""
    tail, lower = Tail(7, sigma2=Fraction(9)), Tail(6, sigma2=Fraction(9))
    sizes = [len(SecureSource().exceeding(lower, 2_000)) for _ in range(400)]
    spread = (2_000 * tail.probability()) ** 0.5
    assert abs(np.mean(sizes) - 2_000 * tail.probability()) > 6 * spread / 20


def test_what_is_no_tail_is_refused() -> None:
    for arguments in (
        {"least": 0, "scale": 1.0},
        {"least": 1},
        {"least": 1, "scale": 1.0, "sigma2": Fraction(1)},
    ):
        with pytest.raises(ValueError):
            Tail(**arguments)  # type: ignore[arg-type]
