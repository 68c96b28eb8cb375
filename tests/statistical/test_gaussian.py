"""The discrete Gaussian law, and what an observer of the noisy vectors can tell."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from freqdp_db.methods.synthesis.options import Parameters
from freqdp_db.methods.synthesis.plan import FIRST_ROUND, SCALE, Statistic, second_round
from freqdp_db.methods.synthesis.trips import Trips
from freqdp_db.methods.synthesis.vectors import size_counts, vectors_of, with_noise
from freqdp_db.model.arrays import Ints
from freqdp_db.privacy.accounting import best_guess, sigma2_for
from freqdp_db.privacy.noise import (
    RandomSource,
    SecureSource,
    SeededSource,
    discrete_gaussian,
    exact_toss,
    keep_probability,
)
from tests.synthetic_world import PERIOD, REGION

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-8
DRAWS = 60_000
SIGMA2 = [Fraction(1, 10), Fraction(1), Fraction(7, 3), Fraction(40), Fraction(10**5, 7)]
SOURCES: dict[str, RandomSource] = {"secure": SecureSource(), "seeded": SeededSource(5)}


def law_test(values: Ints, sigma2: float) -> float:
    """Chi-square of the values against the law of this variance parameter."""
    width = int(8 * math.sqrt(sigma2)) + 3
    z = np.arange(-width, width + 1)
    p = np.exp(-(z**2) / (2 * sigma2))
    p /= p.sum()
    # bins of about equal chance, at least 200 expected in each
    bins = np.floor(np.cumsum(p) * min(len(z), DRAWS / 200) - 1e-9).astype(int)
    _, bins = np.unique(bins, return_inverse=True)
    expected = np.bincount(bins, p) * len(values)
    seen = np.bincount(bins[np.clip(values, -width, width) + width], minlength=len(expected))
    rare = expected < 20
    expected = np.append(expected[~rare], expected[rare].sum() + 1e-9)
    seen = np.append(seen[~rare], seen[rare].sum())
    keep = expected > 1
    statistic = float(((seen - expected)[keep] ** 2 / expected[keep]).sum())
    return float(stats.chi2.sf(statistic, max(int(keep.sum()) - 1, 1)))


@pytest.mark.parametrize("sigma2", SIGMA2, ids=str)
@pytest.mark.parametrize("source", SOURCES)
def test_law(source: str, sigma2: Fraction) -> None:
    values = SOURCES[source].discrete_gaussian(sigma2, DRAWS)
    assert len(values) == DRAWS and values.dtype == np.int64
    assert law_test(values, float(sigma2)) > FALSE_ALARM
    if sigma2 >= 1:  # the test has power: a tenth more or less is told
        assert law_test(values, float(sigma2) * 1.1) < FALSE_ALARM
        assert law_test(values, float(sigma2) * 0.9) < FALSE_ALARM


@pytest.mark.parametrize("sigma2", SIGMA2[1:], ids=str)
def test_as_opendp_draws(sigma2: Fraction) -> None:
    """A second opinion: OpenDP's own sampler gives the same law."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = dp.m.make_gaussian(*space, scale=math.sqrt(float(sigma2)))
    other = np.array(theirs([0] * DRAWS), np.int64)
    ours = SecureSource().discrete_gaussian(sigma2, DRAWS)
    assert law_test(other, float(sigma2)) > FALSE_ALARM
    assert stats.ks_2samp(ours, other).pvalue > FALSE_ALARM
    # and the same price: d^2 / (2 sigma^2)
    assert theirs.map(3.0) == pytest.approx(9 / (2 * float(sigma2)), rel=1e-9)


def test_exact_tosses_agree_with_floats() -> None:
    """The same words, decided by exact digits throughout, give the same tosses."""
    sigma2 = Fraction(123457, 1000)
    size = np.abs(SeededSource(1).discrete_laplace(12.0, 400))
    drawn = np.random.default_rng(2).integers(0, 2**64, 400, dtype=np.uint64)

    def words(count: int) -> np.typing.NDArray[np.uint64]:
        return drawn[:count]

    by_floats = exact_toss(size, sigma2, 12, words)
    by_digits = exact_toss(size, sigma2, 12, words, sure=2.0)
    assert (by_floats == by_digits).all()
    assert by_floats.mean() == pytest.approx(keep_probability(size, sigma2, 12).mean(), abs=0.1)


def test_large_draws_are_quick_and_wide() -> None:
    """Ten thousand values at the widths of a release: no overflow, the right spread."""
    sigma2 = sigma2_for((547 * SCALE) ** 2, Fraction(1, 400))
    values = SecureSource().discrete_gaussian(sigma2, 10_000)
    assert values.std() == pytest.approx(math.sqrt(sigma2), rel=0.06)
    with pytest.raises(ValueError, match="above 0"):
        discrete_gaussian(
            Fraction(0), 1, SeededSource(1).discrete_laplace, lambda *_: np.ones(1, bool)
        )


# --- worlds with and without a planted object -----------------------------------------------------

RUNS = 20_000


def planted() -> Trips:
    """One object: sixty trips between two far corners."""
    trips, samples = 60, 12
    x = np.tile(np.linspace(500, 23_000, samples), trips)
    y = np.tile(np.linspace(500, 17_000, samples), trips)
    at = np.arange(trips * samples, dtype=np.int64) * 200_000_000
    return Trips(
        np.array([0, trips]), np.arange(trips + 1, dtype=np.int64) * samples, x, y,
        at % (PERIOD.end - 1),
    )  # fmt: skip


def told_apart(
    parameters: Parameters, *, noise: Fraction = Fraction(1), clip: int = 1
) -> tuple[float, float]:
    """Lower bound on rho by the best linear statistic, and how often its best guess is right.

    The other objects' sums are the same in both worlds and subtracted by whoever knows them, so only
    noise is drawn, and only where the planted object's vectors are not 0. `noise` and `clip` break
    the mechanism on purpose.
    """
    sizes = np.zeros(24, np.int64)
    sizes[4] = 300
    plan = second_round(REGION, PERIOD, 300, sizes, parameters.whole, pure=False)
    trips = planted()
    loose = [Statistic(s.name, s.size, s.share, s.bound * clip) for s in plan.statistics]
    vectors = vectors_of(trips, type(plan)(plan.grids, plan.period, loose), 0, pure=False)
    count, classes = size_counts(trips)
    vectors = [np.array([count]) * SCALE, classes * SCALE, *vectors]
    source = SeededSource(9)
    scores = np.zeros((2, RUNS))
    for statistic, vector in zip([*FIRST_ROUND, *plan.statistics], vectors, strict=True):
        own = vector[vector != 0]
        if not statistic.share or not len(own):
            continue
        for world in range(2):
            total = np.tile(own * world, RUNS)
            drawn = with_noise(total, statistic, parameters, source) - total
            seen = total + (drawn * noise.numerator) // noise.denominator
            weight = own * (statistic.share / statistic.bound**2)
            scores[world] += seen.reshape(RUNS, -1).astype(np.float64) @ weight
    spread = math.sqrt((scores[0].var() + scores[1].var()) / 2)
    apart = (scores[1].mean() - scores[0].mean()) / spread
    lower = apart - 5 * math.sqrt(2 / RUNS)
    middle = scores.mean()
    right = ((scores[0] < middle).mean() + (scores[1] >= middle).mean()) / 2
    return max(lower, 0.0) ** 2 / 2, float(right)


@pytest.mark.parametrize("epsilon", [1, 2])
def test_audit_stays_under_the_claim_and_has_power(epsilon: int) -> None:
    parameters = Parameters(epsilon=Fraction(epsilon))
    lower, right = told_apart(parameters)
    rho = float(parameters.rho)
    assert 0.3 * rho < lower <= rho
    assert right < best_guess(parameters.rho) + 5 * 0.5 / math.sqrt(2 * RUNS)


def test_audit_catches_a_broken_mechanism() -> None:
    parameters = Parameters(epsilon=Fraction(1))
    rho = float(parameters.rho)
    assert told_apart(parameters, noise=Fraction(1, 2))[0] > rho
    assert told_apart(parameters, clip=64)[0] > rho
