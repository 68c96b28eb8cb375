"""What a request for a synthetic release says, checked."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from freqdp_db.errors import BadInput
from freqdp_db.mechanisms.accounting import pure_cost, rho_for
from freqdp_db.methods.synthesis.public import SECOND_US

Accounting = Literal["zcdp", "pure"]

LEAST_EPSILON, LARGEST_EPSILON = Fraction(1, 100), Fraction(20)
LEAST_DELTA, LARGEST_DELTA = Fraction(1, 10**12), Fraction(1, 1000)
LARGEST_SIZE = 5_000_000
LEAST_EVERY_US, LARGEST_EVERY_US = SECOND_US, 3600 * SECOND_US


@dataclass(frozen=True)
class Parameters:
    """Budget, size and rhythm of a release."""

    epsilon: Fraction = Fraction(2)
    delta: Fraction = Fraction(1, 10**6)
    """Not used by pure accounting."""
    accounting: Accounting = "zcdp"
    size: int | None = None
    """Trips; without it, their noisy number."""
    every_us: int = 60 * SECOND_US

    def __post_init__(self) -> None:
        _within("--epsilon", self.epsilon, LEAST_EPSILON, LARGEST_EPSILON)
        _within("--delta", self.delta, LEAST_DELTA, LARGEST_DELTA)
        if self.accounting not in ("zcdp", "pure"):
            raise BadInput(f"--accounting {self.accounting} is unknown", remedy="give zcdp or pure")
        if self.size is not None and not 1 <= self.size <= LARGEST_SIZE:
            raise BadInput(
                f"--size {self.size} is not between 1 and {LARGEST_SIZE:,}",
                remedy="leave it out for the noisy number of trips",
            )
        if not LEAST_EVERY_US <= self.every_us <= LARGEST_EVERY_US:
            raise BadInput(
                f"--every {self.every_us / SECOND_US:g}s is not between 1s and 1h",
                remedy="the default is 60s",
            )
        if self.every_us % SECOND_US:
            raise BadInput("--every is not a whole number of seconds", remedy="give whole seconds")

    @property
    def pure(self) -> bool:
        return self.accounting == "pure"

    @property
    def rho(self) -> Fraction:
        """What the ledger for persons books."""
        return pure_cost(self.epsilon) if self.pure else rho_for(self.epsilon, self.delta)

    @property
    def whole(self) -> Fraction:
        """What the shares are shares of: rho, or epsilon for pure accounting."""
        return self.epsilon if self.pure else self.rho


def _within(option: str, value: Fraction, least: Fraction, largest: Fraction) -> None:
    if not least <= value <= largest:
        raise BadInput(
            f"{option} {float(value):g} is out of range",
            remedy=f"give a number from {float(least):g} to {float(largest):g}",
        )
