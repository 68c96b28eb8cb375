"""What the mechanisms make of the noise: the law of the targets, at several means and scales.

As in test_noise, every law has twins with a scale that is wrong by a tenth, which must be rejected.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from test_noise import FALSE_ALARM, _pmf, chi_square, tail_test

from freqdp_db.methods.frequency.counts import Frequencies, Signatures
from freqdp_db.methods.frequency.perturbation import perturb_pf, perturb_tf
from freqdp_db.privacy.noise import RandomSource, SecureSource

pytestmark = pytest.mark.statistical

Ints = NDArray[np.int64]
RUNS = 60_000
OBJECTS = 1_000_000
"""So many that no target is clamped from above."""
EPSILONS = [Fraction(1, 2), Fraction(1), Fraction(2)]


class Scaled:
    """A source whose noise is too wide or too narrow."""

    def __init__(self, factor: float, source: RandomSource | None = None) -> None:
        self._factor = factor
        self._source = source or SecureSource()

    def discrete_laplace(self, scale: float, count: int) -> Ints:
        return self._source.discrete_laplace(self._factor * scale, count)

    def uniform_words(self, count: int) -> Ints:
        return self._source.uniform_words(count)


def tf_noise(tf: int, epsilon: Fraction, source: RandomSource) -> Ints:
    """Target minus TF, of so many candidates with this TF."""
    vector, listed = np.full(RUNS, tf, np.int32), np.ones(RUNS, np.bool_)
    targets = perturb_tf(vector, OBJECTS, listed, epsilon, source)
    return (targets.target - targets.tf).astype(np.int64)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("tf", [100, 5_000])
def test_tf_targets(tf: int, epsilon: Fraction) -> None:
    scale = float(1 / epsilon)
    right = tf_noise(tf, epsilon, SecureSource())
    assert chi_square(right, scale) > FALSE_ALARM
    assert tail_test(right, scale) > FALSE_ALARM
    for factor in (0.9, 1.1):
        wrong = tf_noise(tf, epsilon, Scaled(factor))
        assert min(chi_square(wrong, scale), tail_test(wrong, scale)) < FALSE_ALARM


def pf_p_values(size: int, pf: list[int], epsilon: Fraction, source: RandomSource) -> list[float]:
    """p-values of stage 1 and of each place of stage 2, over copies of one trajectory."""
    places = len(pf)
    copies = RUNS
    world = Frequencies(
        np.arange(copies + 1, dtype=np.int64) * places,
        np.tile(np.arange(places, dtype=np.int32), copies),
        np.tile(np.array(pf, np.int32), copies),
        np.ones(places, np.int32),
    )
    ranking = Signatures(np.arange(copies * places), size, np.ones(places, np.bool_))
    targets = perturb_pf(world, ranking, epsilon, source)
    target = targets.target.reshape(copies, places).astype(np.int64)
    first = target[:, :size]
    # stage 1 is max(0, noise): the whole law above 0, whatever the counts were
    found = [_above_zero(first.ravel()[:RUNS], float(1 / epsilon))]
    change = (first - np.array(pf[:size])).sum(axis=1)
    for place in range(size, places):
        centre = size * pf[place] - change
        found.append(_rounded(target[:, place], centre, size, float(size / epsilon)))
    return found


def _above_zero(draws: Ints, scale: float) -> float:
    reach = 1
    while len(draws) * float(_pmf(np.array([reach + 1]), scale)[0]) >= 25:
        reach += 1
    inner = _pmf(np.arange(1, reach + 1), scale)
    p = float(np.exp(-1 / scale))
    tail = p ** (reach + 1) / (1 + p)
    expected = len(draws) * np.array([1 - inner.sum() - tail, *inner, tail])
    seen = np.bincount(np.minimum(draws, reach + 1), minlength=reach + 2)
    return float(stats.chisquare(seen, expected).pvalue)


def _rounded(target: Ints, centre: Ints, size: int, scale: float) -> float:
    """Stage 2: the target is floor(x + 1/2) of (centre + noise) / m, the noise on the lattice."""
    whole, rest = np.divmod(centre, size)
    noise = np.arange(-int(60 * scale), int(60 * scale) + 1)
    reach = round(4 * scale / size) + 1
    expected = np.zeros(2 * reach + 1)
    for r, copies in enumerate(np.bincount(rest, minlength=size)):
        step = (2 * (r + noise) + size) // (2 * size)
        cell = np.clip(step, -reach, reach) + reach
        expected += copies * np.bincount(cell, _pmf(noise, scale), minlength=2 * reach + 1)
    seen = np.bincount(np.clip(target - whole, -reach, reach) + reach, minlength=2 * reach + 1)
    return float(stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(
    ("size", "pf"),
    [(3, [900, 40, 200, 100, 700, 301]), (10, [500] * 10 + [100, 333])],
    ids=["m=3", "m=10"],
)
def test_pf_targets(size: int, pf: list[int], epsilon: Fraction) -> None:
    """Means far from 0, so that nothing is cut off there; stage 2 lies on the lattice 1/m."""
    assert min(pf_p_values(size, pf, epsilon, SecureSource())) > FALSE_ALARM
    for factor in (0.9, 1.1):
        assert max(pf_p_values(size, pf, epsilon, Scaled(factor))) < FALSE_ALARM
