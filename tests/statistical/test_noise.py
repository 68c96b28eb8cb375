"""Laws of the noise. Every test has a twin with a wrong law, which it must reject.

Draws from the operating system cannot be repeated, so their tests reject at p < 1e-8: one false
alarm in some million runs. Sizes are such that a scale wrong by a tenth is never missed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from numpy.typing import NDArray
from scipy import stats

from freqdp_db.methods.frequency.counts import Frequencies, rank_places
from freqdp_db.methods.frequency.perturbation import perturb_pf
from freqdp_db.methods.synthesis.plan import FIRST_ROUND, SCALE, Statistic, second_round
from freqdp_db.methods.synthesis.public import Parameters
from freqdp_db.methods.synthesis.trips import Trips
from freqdp_db.methods.synthesis.vectors import size_counts, vectors_of, with_noise
from freqdp_db.model.arrays import Ints
from freqdp_db.privacy.accounting import sigma2_for
from freqdp_db.privacy.noise import (
    Coin,
    RandomSource,
    SecureSource,
    SeededSource,
    discrete_gaussian,
    exact_toss,
    keep_probability,
    privacy_loss,
    released_ids,
    scale_for,
)
from tests.synthetic_world import PERIOD, REGION, best_guess

pytestmark = pytest.mark.statistical


FALSE_ALARM = 1e-8
DRAWS = 40_000
# 1/eps for eps = 2, 1, 0.5 and 0.1, and m/eps on the lattice of stage 2 for m = 10, eps = 0.5
SCALES = [0.5, 1.0, 2.0, 10.0, 20.0]
SOURCES: dict[str, Callable[[], RandomSource]] = {
    "secure": SecureSource,
    "seeded": lambda: SeededSource(20_220_501),
}


def _pmf(z: Ints, scale: float) -> NDArray[np.float64]:
    """P(z) = (1 - p)/(1 + p) p^|z| with p = exp(-1/scale)."""
    p = math.exp(-1 / scale)
    return (1 - p) / (1 + p) * p ** np.abs(z)


def chi_square(draws: Ints, scale: float) -> float:
    """p-value of a chi-square test over all values that are expected often, and the two tails."""
    reach = 0
    while len(draws) * float(_pmf(np.array([reach + 1]), scale)[0]) >= 25:
        reach += 1
    inner = np.arange(-reach, reach + 1)
    probability = _pmf(inner, scale)
    tail = (1 - probability.sum()) / 2
    expected = len(draws) * np.array([tail, *probability, tail])
    seen = np.bincount(np.clip(draws, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
    return float(stats.chisquare(seen, expected).pvalue)


def tail_test(draws: Ints, scale: float, scales: float = 3) -> float:
    """p-value of the number of draws beyond so many scales."""
    p = math.exp(-1 / scale)
    beyond = max(1, round(scales * scale))
    probability = 2 * p**beyond / (1 + p)
    hits = int((np.abs(draws) >= beyond).sum())
    return float(stats.binomtest(hits, len(draws), probability).pvalue)


def symmetry_test(draws: Ints) -> float:
    """p-value of as many draws above 0 as below."""
    up, down = int((draws > 0).sum()), int((draws < 0).sum())
    return float(stats.binomtest(up, up + down, 0.5).pvalue)


def serial_test(draws: Ints) -> float:
    """p-value of no correlation between a draw and the next."""
    size = np.abs(draws)
    r = np.array(
        [
            np.corrcoef(draws[:-1], draws[1:])[0, 1],
            np.corrcoef(size[:-1], size[1:])[0, 1],
        ]
    )
    return float(2 * stats.norm.sf(np.abs(r).max() * math.sqrt(len(draws))))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("scale", SCALES)
def test_discrete_laplace(source: str, scale: float) -> None:
    draws = SOURCES[source]().discrete_laplace(scale, DRAWS)
    assert draws.dtype == np.int64 and len(draws) == DRAWS
    assert chi_square(draws, scale) > FALSE_ALARM
    assert tail_test(draws, scale) > FALSE_ALARM
    assert tail_test(draws, scale, scales=7) > FALSE_ALARM
    assert symmetry_test(draws) > FALSE_ALARM
    assert serial_test(draws) > FALSE_ALARM


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_wrong_scale_is_rejected(source: str, scale: float, factor: float) -> None:
    """The twin: the same tests, noise of a scale that is off by a tenth."""
    draws = SOURCES[source]().discrete_laplace(factor * scale, DRAWS)
    assert chi_square(draws, scale) < FALSE_ALARM
    assert tail_test(draws, scale) < FALSE_ALARM


@pytest.mark.parametrize("scale", SCALES)
def test_other_laws_are_rejected(scale: float) -> None:
    """Rounded continuous Laplace, a Gaussian of the same spread, and half a law."""
    generator = np.random.default_rng(1)
    rounded = np.rint(generator.laplace(0, scale, 4 * DRAWS)).astype(np.int64)
    spread = float(np.sqrt(2)) * scale
    gaussian = np.rint(generator.normal(0, spread, DRAWS)).astype(np.int64)
    right = SeededSource(1).discrete_laplace(scale, DRAWS)
    if scale <= 2:  # at wide scales rounding hardly shows
        assert chi_square(rounded, scale) < FALSE_ALARM
    assert chi_square(gaussian, scale) < FALSE_ALARM
    assert symmetry_test(np.abs(right)) < FALSE_ALARM
    assert serial_test(np.repeat(right[: DRAWS // 2], 2)) < FALSE_ALARM


def test_sources() -> None:
    """The operating system's never repeats; a seed always does."""
    left, right = SecureSource(), SecureSource()
    assert (left.discrete_laplace(10.0, 200) != right.discrete_laplace(10.0, 200)).any()
    assert (left.uniform_words(10) != right.uniform_words(10)).any()
    for draw in ("discrete_laplace", "uniform_words"):
        arguments = (10.0, 50) if draw == "discrete_laplace" else (50,)
        first = getattr(SeededSource(5), draw)(*arguments)
        assert (first == getattr(SeededSource(5), draw)(*arguments)).all()
        assert (first != getattr(SeededSource(6), draw)(*arguments)).any()
    for source in (left, SeededSource(1)):
        assert len(source.discrete_laplace(1.0, 0)) == len(source.uniform_words(0)) == 0


def opendp_laplace(scale: float) -> Any:
    """The same mechanism, by somebody else."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_laplace(*space, scale=scale)


def same_law(left: Ints, right: Ints) -> float:
    """p-value of two samples being of one law."""
    table = np.array([np.bincount(np.clip(x + 60, 0, 120), minlength=121) for x in (left, right)])
    rare = table.sum(axis=0) < 40
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    return float(stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)


@pytest.mark.parametrize("scale", [0.5, 2.0, 20.0])
def test_as_opendp_draws(scale: float) -> None:
    theirs = np.asarray(opendp_laplace(scale)([0] * 20_000), np.int64)
    assert same_law(SecureSource().discrete_laplace(scale, DRAWS), theirs) > FALSE_ALARM
    assert same_law(SecureSource().discrete_laplace(0.8 * scale, DRAWS), theirs) < FALSE_ALARM


@pytest.mark.parametrize("scale", [1e-3, 1 / 3, 7.25, 1e4 / 3, 1e13])
def test_any_scale(scale: float) -> None:
    """Also scales whose law needs no lower digits, or many."""
    draws = SecureSource().discrete_laplace(scale, DRAWS)
    p = math.exp(-1 / scale)
    # the sizes of the two halves, and of what lies beyond the median size
    assert symmetry_test(draws) > FALSE_ALARM if scale > 0.1 else (draws == 0).all()
    beyond = math.ceil(scale * math.log(2))
    probability = 2 * p**beyond / (1 + p)
    hits = int((np.abs(draws) >= beyond).sum())
    assert stats.binomtest(hits, DRAWS, probability).pvalue > FALSE_ALARM


def exponential(x: Fraction, terms: int = 400) -> tuple[Fraction, Fraction]:
    """exp(x) between two rationals, by its series."""
    term = total = Fraction(1)
    for n in range(1, terms):
        term *= x / n
        total += term
    assert 2 * x < terms
    return total, total + 2 * term  # what is left is less than a geometric series of ratio 1/2


@pytest.mark.parametrize("x", [Fraction(1, 2), Fraction(1), Fraction(10, 7), Fraction(55, 2)])
@pytest.mark.parametrize("odds", [True, False])
def test_digits_of_a_coin(x: Fraction, odds: bool) -> None:
    coin = Coin(x, odds=odds)
    for bits in (64, 128, 300):
        bounds = [1 / (1 + e if odds else e) for e in exponential(x)]
        assert {math.floor(p * 2**bits) for p in bounds} == {coin.digits(bits)}


def test_a_coin_that_is_not_decided_by_64_digits() -> None:
    """Words that equal the first digits go on to the next ones, for as long as it takes."""
    coin = Coin(Fraction(1, 3), odds=True)
    first = coin.digits(64)
    second = coin.digits(128) - (first << 64)
    third = coin.digits(192) - (coin.digits(128) << 64)

    def dealer(*words: int) -> Callable[[int], NDArray[np.uint64]]:
        left = list(words)
        return lambda count: np.array([left.pop(0) for _ in range(count)], np.uint64)

    words = np.array([first - 1, first, first + 1], np.uint64)
    for later, heads in (
        ((second - 1,), True),
        ((second + 1,), False),
        ((second, third - 1), True),
        ((second, third + 1), False),
    ):
        assert coin.toss(words, dealer(*later)).tolist() == [True, heads, False]


@pytest.mark.parametrize("sensitivity", [1, 3, 10])
def test_scale_is_the_smallest_that_keeps_the_budget(sensitivity: int) -> None:
    """The privacy loss at this scale is at most epsilon; at the next smaller, it is not."""
    generator = np.random.default_rng(2)
    epsilons = [Fraction(n, d) for n, d in [(1, 2), (1, 1), (1, 10), (1, 3), (7, 9), (1000, 1)]]
    epsilons += [Fraction(int(n), 10**9) for n in generator.integers(1, 10**10, 40)]
    for epsilon in epsilons:
        scale = scale_for(sensitivity, epsilon)
        assert privacy_loss(sensitivity, scale) <= epsilon
        assert privacy_loss(sensitivity, math.nextafter(scale, 0)) > epsilon
        # OpenDP's map rounds up where it must round
        mapped = Fraction(opendp_laplace(scale).map(sensitivity))
        assert 0 <= mapped - privacy_loss(sensitivity, scale) <= epsilon * Fraction(1, 2**50)


# --- ids and picks ------------------------------------------------------------------------------


def uniform_test(values: Ints, low: int, high: int, bins: int = 64) -> float:
    seen = np.histogram(values, bins=np.linspace(low, high, bins + 1))[0]
    return float(stats.chisquare(seen).pvalue)


@pytest.mark.parametrize("source", SOURCES)
def test_words_are_uniform(source: str) -> None:
    words = SOURCES[source]().uniform_words(DRAWS)
    assert words.min() >= 0
    assert uniform_test(words, 0, 2**63) > FALSE_ALARM
    # every bit, also the lowest
    for bit in range(63):
        ones = int(((words >> bit) & 1).sum())
        assert stats.binomtest(ones, DRAWS, 0.5).pvalue > FALSE_ALARM / 63
    # twins: a generator that stops a tenth short, and one whose lowest bit leans
    assert uniform_test((words * 0.9).astype(np.int64), 0, 2**63) < FALSE_ALARM


@pytest.mark.parametrize("source", SOURCES)
def test_released_ids(source: str) -> None:
    low, high = 10**11, 10**12
    ids = released_ids(SOURCES[source](), DRAWS)
    assert len(np.unique(ids)) == len(ids) == DRAWS
    assert ids.min() >= low and ids.max() < high
    assert uniform_test(ids, low, high) > FALSE_ALARM
    remainder = np.bincount(ids % 97, minlength=97)
    assert stats.chisquare(remainder).pvalue > FALSE_ALARM
    # the order says nothing: neither rising nor near its neighbour
    assert stats.spearmanr(np.arange(DRAWS), ids).pvalue > FALSE_ALARM
    assert serial_test(ids - int(ids.mean())) > FALSE_ALARM
    # twins
    assert stats.spearmanr(np.arange(DRAWS), np.sort(ids)).pvalue < FALSE_ALARM
    assert uniform_test((ids * 0.95).astype(np.int64), low, high) < FALSE_ALARM


class _Repeating:
    """Deals the same few words again and again: ids must come out distinct all the same."""

    def __init__(self) -> None:
        self._source = SeededSource(3)
        self._calls = 0

    def discrete_laplace(self, scale: float, count: int) -> Ints:
        raise AssertionError

    def uniform_words(self, count: int) -> Ints:
        self._calls += 1
        words = self._source.uniform_words(count)
        words[: count // 2] = 7  # repeats, within a deal and from deal to deal
        words[-1] = 2**63 - 1  # beyond the last whole multiple of the range
        return words


def test_released_ids_are_distinct_whatever_is_dealt() -> None:
    ids = released_ids(_Repeating(), 1000)
    assert len(np.unique(ids)) == 1000
    assert 10**11 + 7 in ids
    assert 10**11 + (2**63 - 1) % (9 * 10**11) not in ids
    assert len(released_ids(SecureSource(), 0)) == 0


def test_point_lists_pick_uniformly() -> None:
    """Where the rest of a list is picked, every place has the same chance."""
    places, size, rounds = 30, 3, 4000
    # Many copies of one trajectory with a heavy signature, and a |D| that makes no other place
    # known: each list is the signature and three of the 27 others.
    location = np.tile(np.arange(places, dtype=np.int32), rounds)
    pf = np.tile(np.where(np.arange(places) < size, 100, 1).astype(np.int32), rounds)
    offsets = np.arange(rounds + 1, dtype=np.int64) * places
    tf = np.full(places, rounds // 2, np.int32)
    frequencies = Frequencies(offsets, location, pf, tf)
    targets = perturb_pf(frequencies, rank_places(frequencies, size), Fraction(1), SeededSource(11))
    picked = targets.location[targets.stage == 2]
    assert len(picked) == rounds * size
    seen = np.bincount(picked, minlength=places)
    assert (seen[:size] == 0).all()
    # without replacement: the counts vary less than a multinomial's, so this errs on the safe side
    assert stats.chisquare(seen[size:]).pvalue > FALSE_ALARM
    biased = seen[size:].copy()
    biased[0] += 300
    assert stats.chisquare(biased).pvalue < FALSE_ALARM


# --- The discrete Gaussian law, and what an observer of the noisy vectors can tell.


WIDE_DRAWS = 60_000
SIGMA2 = [Fraction(1, 10), Fraction(1), Fraction(7, 3), Fraction(40), Fraction(10**5, 7)]
GAUSSIANS: dict[str, RandomSource] = {"secure": SecureSource(), "seeded": SeededSource(5)}


def law_test(values: Ints, sigma2: float) -> float:
    """Chi-square of the values against the law of this variance parameter."""
    width = int(8 * math.sqrt(sigma2)) + 3
    z = np.arange(-width, width + 1)
    p = np.exp(-(z**2) / (2 * sigma2))
    p /= p.sum()
    # bins of about equal chance, at least 200 expected in each
    bins = np.floor(np.cumsum(p) * min(len(z), WIDE_DRAWS / 200) - 1e-9).astype(int)
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
@pytest.mark.parametrize("source", GAUSSIANS)
def test_law(source: str, sigma2: Fraction) -> None:
    values = GAUSSIANS[source].discrete_gaussian(sigma2, WIDE_DRAWS)
    assert len(values) == WIDE_DRAWS and values.dtype == np.int64
    assert law_test(values, float(sigma2)) > FALSE_ALARM
    if sigma2 >= 1:  # the test has power: a fifth more or less is told
        assert law_test(values, float(sigma2) * 1.2) < FALSE_ALARM
        assert law_test(values, float(sigma2) * 0.8) < FALSE_ALARM


@pytest.mark.parametrize("sigma2", SIGMA2[1:], ids=str)
def test_gaussians_are_as_opendp_draws(sigma2: Fraction) -> None:
    """A second opinion: OpenDP's own sampler gives the same law."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = dp.m.make_gaussian(*space, scale=math.sqrt(float(sigma2)))
    other = np.array(theirs([0] * WIDE_DRAWS), np.int64)
    ours = SecureSource().discrete_gaussian(sigma2, WIDE_DRAWS)
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
