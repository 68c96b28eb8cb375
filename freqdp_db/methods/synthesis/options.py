"""What the synthetic methods can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from freqdp_db.methods.kinds import (
    US_PER_S,
    Box,
    Choice,
    Duration,
    LonLatArea,
    Name,
    Number,
    Outline,
    Stretch,
    TimeStretch,
    Whole,
)
from freqdp_db.methods.parameters import parameter
from freqdp_db.methods.synthesis.public import SECOND_US
from freqdp_db.privacy.accounting import pure_cost, rho_for

if TYPE_CHECKING:
    pass


_EPSILON = Number(Decimal(20), "2", low=Decimal("0.01"))
LARGEST_SIZE = 5_000_000
LARGEST_DELTA = Decimal("0.00001")
MOST_ROWS = 200_000_000
"""Of a synthetic release: what would be more is refused, or cut to it."""
USUAL_TRIP_US = 20 * 60 * US_PER_S
"""A public guess, by which a size that was asked for is judged."""


@dataclass(frozen=True)
class SyntheticOptions:
    epsilon: Decimal = parameter(_EPSILON, "For one object with all its data.", Decimal(2))
    size: int | None = parameter(
        Whole(1, LARGEST_SIZE, "10000"), "How many trips. Default: their noisy number."
    )
    every: int = parameter(Duration("60s"), "Time between two samples.", 60 * US_PER_S)
    region: Box | Outline | None = parameter(
        LonLatArea(), "Public: where the data may lie. Default: the dataset's."
    )
    period: Stretch | None = parameter(
        TimeStretch(), "Public: when the data may lie. Default: the dataset's."
    )

    @property
    def parameters(self) -> Parameters:
        """What the mechanism reads; pure epsilon."""

        return Parameters(Fraction(self.epsilon), accounting="pure", size=self.size,
                          every_us=self.every)  # fmt: skip


@dataclass(frozen=True)
class StrictOptions(SyntheticOptions):
    delta: Decimal = parameter(
        Number(LARGEST_DELTA, "0.000001", decimals=12, recorded=Decimal("0.001")),
        "With zcdp: how seldom epsilon may not hold; much less than 1 / objects.",
        Decimal("0.000001"),
    )
    accounting: str = parameter(
        Choice(("zcdp", "pure")), "zcdp (epsilon and delta), or pure (epsilon alone).", "zcdp"
    )
    roads: str | None = parameter(
        Name("public.roads"), "Public table of roads that trips keep to. Default: straight lines."
    )

    @property
    def parameters(self) -> Parameters:

        return Parameters(
            Fraction(self.epsilon),
            Fraction(self.delta),
            "pure" if self.accounting == "pure" else "zcdp",
            self.size,
            self.every,
        )


# Budget, size and rhythm of a synthetic release, as the mechanism reads them.


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
