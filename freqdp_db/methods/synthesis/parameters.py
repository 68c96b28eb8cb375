"""Budget, size and rhythm of a synthetic release, as the mechanism reads them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from freqdp_db.mechanisms.accounting import pure_cost, rho_for
from freqdp_db.methods.synthesis.public import SECOND_US

Accounting = Literal["zcdp", "pure"]


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

    @property
    def pure(self) -> bool:
        return self.accounting == "pure"

    @property
    def rho(self) -> Fraction:
        """What the ledger for objects books."""
        return pure_cost(self.epsilon) if self.pure else rho_for(self.epsilon, self.delta)

    @property
    def whole(self) -> Fraction:
        """What the shares are shares of: rho, or epsilon for pure accounting."""
        return self.epsilon if self.pure else self.rho
