"""What the synthetic methods guarantee: differential privacy for a person with all data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any

from freqdp_db.methods.guarantee import Guarantee
from freqdp_db.methods.kinds import plain
from freqdp_db.methods.synthesis.options import SyntheticOptions

if TYPE_CHECKING:
    from freqdp_db.methods.synthesis.parameters import Parameters

_ORIGINS = {
    "strict": "Method: noisy counts of trips under zero-concentrated differential privacy "
    "(Bun and Steinke 2016; discrete Gaussian noise by Canonne, Kamath and Steinke 2020).",
    "adatrace": "Method: after AdaTrace (Gursoy, Liu, Truex, Yu, Wei, CCS 2018), at the unit of a "
    "person and without its free reads of the data.",
    "dpt": "Method: after DPT (He, Cormode, Machanavajjhala, Procopiuc, Srivastava, PVLDB 2015), at "
    "the unit of a person and without free reads of the data.",
}


_BOOKED = 10**12


def _given(options: type[SyntheticOptions], values: Mapping[str, Any]) -> Parameters:
    given: dict[str, Any] = {f: values.get(f) for f in options.__dataclass_fields__}
    return options(**given).parameters


def booked_rho(options: type[SyntheticOptions], values: Mapping[str, Any]) -> Decimal:
    """What the ledger for persons books: rounded up, as `rho_of` in SQL does."""
    parameters = _given(options, values)
    if parameters.pure:
        return Decimal(values["epsilon"]) ** 2 / 2
    return Decimal(ceil(parameters.rho * Fraction(1_000_001, 1_000_000) * _BOOKED)) / _BOOKED


def person_guarantee(
    name: str, options: type[SyntheticOptions]
) -> Callable[[Mapping[str, Any]], Guarantee]:
    def declare(values: Mapping[str, Any]) -> Guarantee:
        from freqdp_db.mechanisms.accounting import at_most, best_guess_any, best_guess_pure

        parameters = _given(options, values)
        epsilon = plain(values["epsilon"])
        pure = parameters.pure
        guess = best_guess_pure(parameters.epsilon) if pure else best_guess_any(parameters.rho)
        stated = f"epsilon {epsilon}" if pure else f"epsilon {epsilon}, delta {values['delta']:f}"
        return Guarantee(
            plain=[
                f"The table is differentially private for one person with all data in the period: "
                f"{stated}.",
                "Whoever thought both equally likely, and guesses from it whether a person was in the "
                f"data, is right with probability at most {at_most(guess)} (a coin: 0.5).",
            ],
            artefacts={
                "trajectories": {
                    "unit": "one object with all its data in the build",
                    "neighbouring": "added or removed",
                    "claimed_epsilon": epsilon,
                    "accounted_epsilon": epsilon,
                    "delta": None if pure else format(values["delta"], "f"),
                    "rho": _readable(parameters.rho),
                    "assumes": "the region, the period and the parameters do not depend on the data",
                }
            },
            titles={"trajectories": "The table of trajectories"},
            assumed_public=["the region and the period", "the parameters of the release"],
            not_protected=[
                "that the source exists and a release of it was made, and when",
                "other releases of the same persons: the ledger for persons adds them up",
                "a person who is several objects of the source: each object counts by itself",
            ],
            noise=("discrete Laplace" if pure else "discrete Gaussian")
            + ", exact, from the operating system's randomness",
            spends={"epsilon": epsilon, "rho": _readable(parameters.rho)},
            origin=_ORIGINS[name],
        )

    return declare


def _readable(rho: Fraction) -> str:
    """With six digits, rounded up."""
    rounded = Context(prec=6, rounding=ROUND_CEILING)
    return plain(rounded.divide(Decimal(rho.numerator), Decimal(rho.denominator)))
