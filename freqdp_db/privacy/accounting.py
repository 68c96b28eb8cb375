"""What noise costs one object: zero-concentrated differential privacy, in exact fractions.

A release is rho-zCDP when its Renyi divergence of every order a above 1, between two neighbouring
inputs, is at most a rho (Bun, Steinke 2016). Costs add up. Gaussian noise of variance sigma^2 on
integers that move by at most d in L2 costs d^2 / (2 sigma^2); what is epsilon-DP costs at most
epsilon^2 / 2. A rho is stated as (epsilon, delta) by the tight conversion of Canonne, Kamath and
Steinke (2020, Proposition 12): for every a above 1

    delta <= exp((a - 1)(a rho - epsilon)) / (a - 1) * (1 - 1/a)^a.

Any a gives a valid bound. Floats look for a good one; the bound itself is then computed with fifty
digits and rounded to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from freqdp_db.model.arrays import Ints
from freqdp_db.privacy.noise import RandomSource, Tail, privacy_loss, scale_for

_DIGITS = 50
_STEP = Decimal(10) ** -15
"""Stated values are multiples of this."""
_SLACK = Decimal(10) ** -30
"""More than the rounding of some ten operations with fifty digits."""


def gaussian_cost(bound2: int, sigma2: Fraction) -> Fraction:
    """rho of discrete Gaussian noise on integers whose squared L2 change is at most `bound2`."""
    return Fraction(bound2) / (2 * sigma2)


def sigma2_for(bound2: int, rho: Fraction) -> Fraction:
    """The variance that costs exactly rho."""
    _above_zero("rho", rho)
    return Fraction(bound2) / (2 * rho)


def pure_cost(epsilon: Fraction) -> Fraction:
    """rho of what is epsilon-DP."""
    return epsilon * epsilon / 2


def pure_epsilon(rho: Fraction) -> Fraction:
    """The epsilon of what is epsilon-DP and costs this rho, to 15 digits and rounded up."""
    with localcontext() as context:
        context.prec = _DIGITS
        epsilon = (2 * _decimal(rho)).sqrt().quantize(_STEP)
        return Fraction(epsilon if epsilon * epsilon >= 2 * _decimal(rho) else epsilon + _STEP)


@lru_cache
def rho_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho, to 15 digits and rounded down, that is (epsilon, delta)-DP."""
    _above_zero("epsilon", epsilon)
    _is_delta(delta)

    def at(order: Decimal, e: Decimal, d: Decimal) -> Decimal:
        return (e + (d.ln() + _rest(order)) / (order - 1)) / order

    order = _best_order(
        lambda a: -(float(epsilon) + (math.log(delta) + _rest_float(a)) / (a - 1)) / a
    )
    with localcontext() as context:
        context.prec = _DIGITS
        rho = at(Decimal(order), _decimal(epsilon), _decimal(delta)) - _SLACK
        rho = max(rho, Decimal(0)).quantize(_STEP, rounding=ROUND_FLOOR)
    return Fraction(rho)


def epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    """The smallest epsilon, to 15 digits and rounded up, for which rho gives (epsilon, delta)."""
    _is_delta(delta)
    if rho < 0:
        raise ValueError("rho must not be below 0")
    if rho == 0:
        return Fraction(0)
    order = _best_order(lambda a: a * float(rho) - (math.log(delta) + _rest_float(a)) / (a - 1))
    with localcontext() as context:
        context.prec = _DIGITS
        a = Decimal(order)
        epsilon = a * _decimal(rho) - (_decimal(delta).ln() + _rest(a)) / (a - 1) + _SLACK
        epsilon = max(epsilon, Decimal(0)).quantize(_STEP, rounding=ROUND_CEILING)
    return Fraction(epsilon)


def best_guess_any(rho: Fraction) -> Fraction:
    """How often the best test for "was this object in it?" is right, of whatever is rho-zCDP.

    By Pinsker's inequality. Rounded up; a coin is right half of the time.
    """
    if rho >= 2:
        return Fraction(1)
    with localcontext() as context:
        context.prec = _DIGITS
        return Fraction((1 + (_decimal(rho) / 2).sqrt()) / 2 + _SLACK)


def best_guess_pure(epsilon: Fraction) -> Fraction:
    """The same against what is epsilon-DP: e^epsilon / (1 + e^epsilon). Rounded up."""
    with localcontext() as context:
        context.prec = _DIGITS
        return min(Fraction(1), Fraction(1 / (1 + (-_decimal(epsilon)).exp()) + _SLACK))


def cost_of_several(rho: Fraction, objects: int) -> Fraction:
    """rho for whoever is so many objects at once: the Renyi divergences of a chain of neighbours.

    Bun and Steinke (2016), Proposition 1.9. What is epsilon-DP is so many times epsilon then, which
    is the same square.
    """
    return objects * objects * rho


def epsilon_together(
    rho: Fraction, windows: int, delta: Fraction, pure: Fraction | None = None
) -> Fraction:
    """The epsilon, at delta, of an object that is in so many windows, each released at rho.

    Each window reads its own rows alone, so that the costs add up. pure: what each window is epsilon-DP
    at; then so many times that holds too, without a delta. Rounded up.
    """
    stated = epsilon_of(windows * rho, delta)
    return stated if pure is None else min(stated, windows * pure)


def cost_of_replacing(gaussian: Fraction, pure: Fraction = Fraction(0)) -> Fraction:
    """rho for "was it A or B?": one object's data in the place of another's.

    Two contributions of whole numbers, none below 0 and none longer than B in L2, differ by at most
    sqrt(2) B, as the angle between them is at most a right one: Gaussian noise costs twice its rho.
    In L1 they differ by up to 2 B: what is epsilon-DP costs four times its epsilon^2 / 2.
    """
    return 2 * gaussian + 4 * pure


def rounded_up(value: Fraction | Decimal | float, decimals: int = 3) -> str:
    """An upper bound as it is said: never smaller than it is, without zeros at the end."""
    return _rounded(value, decimals, math.ceil)


def rounded_down(value: Fraction | Decimal | float, decimals: int = 3) -> str:
    """A lower bound as it is said: never larger than it is."""
    return _rounded(value, decimals, math.floor)


def percent_at_most(probability: Fraction) -> str:
    """`60.5 %`: an upper bound of a probability, in words."""
    return f"{rounded_up(100 * min(probability, Fraction(1)), 1)} %"


def _rounded(value: Fraction | Decimal | float, decimals: int, whole: Callable[..., int]) -> str:
    text = f"{Decimal(whole(Fraction(value) * 10**decimals)).scaleb(-decimals):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _rest(order: Decimal) -> Decimal:
    """ln(a - 1) - a ln(1 - 1/a)."""
    return (order - 1).ln() - order * (1 - 1 / order).ln()


def _rest_float(order: float) -> float:
    return math.log(order - 1) - order * math.log1p(-1 / order)


def _best_order(loss: Callable[[float], float]) -> float:
    """The order above 1 with the least loss; the search is over the log of a - 1."""
    from scipy.optimize import minimize_scalar  # slow to import: most commands state nothing

    found = minimize_scalar(
        lambda log_a: loss(1 + math.exp(log_a)), bounds=(-12.0, 25.0), method="bounded",
        options={"xatol": 1e-10},
    )  # fmt: skip
    return 1 + math.exp(float(found.x))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / value.denominator


def _above_zero(name: str, value: Fraction) -> None:
    if value <= 0:
        raise ValueError(f"{name} must be above 0")


def _is_delta(delta: Fraction) -> None:
    if not 0 < delta < 1:
        raise ValueError("delta must lie between 0 and 1")


# What a release may cost one object, and the noise on a vector that costs a part of it.


@dataclass(frozen=True)
class PrivacyBudget:
    """What a release may cost one object with all its data."""

    epsilon: Fraction = Fraction(2)
    delta: Fraction = Fraction(1, 10**6)
    """Not used by pure accounting."""
    pure: bool = False
    """Whether the release is epsilon-DP. Else it is rho-zCDP, with the rho that gives (epsilon, delta)."""

    @property
    def rho(self) -> Fraction:
        """What the ledger for objects books."""
        return pure_cost(self.epsilon) if self.pure else rho_for(self.epsilon, self.delta)

    @property
    def whole(self) -> Fraction:
        """What measurements get shares of: rho, or epsilon with pure accounting."""
        return self.epsilon if self.pure else self.rho


@dataclass(frozen=True, kw_only=True)
class VectorNoise:
    """Independent noise on each entry of a vector of whole numbers that objects add up to.

    Discrete Gaussian noise for zCDP, discrete Laplace noise for pure accounting.
    """

    bound: int
    """The squared L2 norm of an object's vector is at most this; with pure accounting, its L1 norm."""
    amount: Fraction
    """Its share of the budget: rho, or epsilon with pure accounting."""
    pure: bool

    @property
    def sigma2(self) -> Fraction:
        """Variance of the discrete Gaussian noise, which costs exactly `amount`."""
        return sigma2_for(self.bound, self.amount)

    @property
    def scale(self) -> float:
        """Scale of the discrete Laplace noise, which costs at most `amount`."""
        return scale_for(self.bound, self.amount)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(2) * self.scale if self.pure else math.sqrt(self.sigma2)

    @property
    def cost(self) -> Fraction:
        """What it costs one object: rho, or epsilon with pure accounting."""
        if self.pure:
            return privacy_loss(self.bound, self.scale)
        return gaussian_cost(self.bound, self.sigma2)

    def tail(self, least: int) -> Tail:
        """The event that the noise is at least this large."""
        if self.pure:
            return Tail(least, scale=self.scale)
        return Tail(least, sigma2=self.sigma2)

    def noise(self, source: RandomSource, count: int) -> Ints:
        """Draw this many independent numbers of noise."""
        if self.pure:
            return source.discrete_laplace(self.scale, count)
        return source.discrete_gaussian(self.sigma2, count)


# A mechanism as a value: what it reads, what it protects, and what that costs.


@dataclass(frozen=True)
class Mechanism:
    """Discrete Laplace noise on a vector of counts."""

    artefact: str
    """What comes out, as the guarantee calls it."""
    input: str
    unit: str
    """The protected change: neighbouring inputs differ by one of these, added or removed."""
    assumes: str
    whole_user: str
    """What epsilon is multiplied with for all that one user contributes."""
    sensitivity: int
    """How far one unit moves the input: in L1, in steps of the lattice of the noise."""
    epsilon: Fraction

    @property
    def scale(self) -> float:
        """Scale of the noise, in steps of its lattice."""
        return scale_for(self.sensitivity, self.epsilon)

    def privacy_loss(self, units: int = 1) -> Fraction:
        """The epsilon of so many units, at the scale that is really drawn."""
        return privacy_loss(units * self.sensitivity, self.scale)
