"""Methods that publish trips which are nobody's, with a guarantee for one object."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import partial
from math import ceil
from typing import Any, Protocol

from freqdp_db.methods.contract import Method, Need
from freqdp_db.methods.kinds import plain
from freqdp_db.methods.synthesis.steps import AdaTraceStep, DptStep, StrictStep, SyntheticStep
from freqdp_db.privacy.guarantee import Declare, Guarantee, ProtectedUnit

# --- What the synthetic methods guarantee: differential privacy for one object with all its data ---


_ORIGINS = {
    "strict": "Method: noisy counts of trips under zero-concentrated differential privacy "
    "(Bun and Steinke 2016; discrete Gaussian noise by Canonne, Kamath and Steinke 2020).",
    "adatrace": "Method: after AdaTrace (Gursoy, Liu, Truex, Yu, Wei, CCS 2018), at the unit of an "
    "object and without its free reads of the data.",
    "dpt": "Method: after DPT (He, Cormode, Machanavajjhala, Procopiuc, Srivastava, PVLDB 2015), at "
    "the unit of an object and without free reads of the data.",
    "counts": "Method: noisy counts at several levels, combined by least squares, under zero-concentrated "
    "differential privacy (Bun and Steinke 2016; discrete Gaussian noise by Canonne, Kamath and "
    "Steinke 2020).",
}


_BOOKED = 10**12
_ASSUMES = (
    "the region, the period and the parameters do not depend on the data, nor do tables that they "
    "name (roads)",
    "whether a row is in the source depends on the rows of its own object and on public numbers alone",
    "places are snapped by a public rule, in a projection that was not chosen from the data",
    "the unit of times that are numbers was declared, not told from the data",
    "the noise has no seed",
)


class Costs(Protocol):
    """What a guarantee says of the budget of a release."""

    @property
    def epsilon(self) -> Fraction: ...

    @property
    def delta(self) -> Fraction: ...

    @property
    def pure(self) -> bool: ...

    @property
    def rho(self) -> Fraction: ...


def _given(options: type[Any], values: Mapping[str, Any]) -> Costs:
    given: dict[str, Any] = {f: values.get(f) for f in options.__dataclass_fields__}
    found: Costs = options(**given).parameters
    return found


def booked_rho(options: type[Any], values: Mapping[str, Any]) -> Decimal:
    """What the ledger for objects books: rounded up, as `rho_of` in SQL does."""
    parameters = _given(options, values)
    if parameters.pure:
        return Decimal(values["epsilon"]) ** 2 / 2
    return Decimal(ceil(parameters.rho * Fraction(1_000_001, 1_000_000) * _BOOKED)) / _BOOKED


def object_guarantee(
    name: str,
    options: type[Any],
    artefact: str = "trajectories",
    title: str = "The table of trajectories",
) -> Declare:
    """What holds of all that a release publishes. options: have the budget as `parameters`."""
    table, this = ("The table is", "this table alone")
    if artefact != "trajectories":
        table, this = (f"{title} are", "them alone")

    def declare(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
        from freqdp_db.privacy.accounting import (
            best_guess_any,
            best_guess_pure,
            cost_of_replacing,
            percent_at_most,
        )

        parameters = _given(options, values)
        epsilon, one = plain(values["epsilon"]), protected.noun
        pure = parameters.pure
        if pure:
            stated = f"epsilon {epsilon}"
            there, which = (best_guess_pure(n * parameters.epsilon) for n in (1, 2))
        else:
            stated = f"epsilon {epsilon}, delta {values['delta']:f}"
            replaced = cost_of_replacing(parameters.rho)
            there, which = (best_guess_any(rho) for rho in (parameters.rho, replaced))
        return Guarantee(
            plain=[
                f"{table} differentially private for {protected.words} with all its data in the "
                f"region and the period: {stated}.",
                "Starting from even odds and knowing everybody else's data, nobody can guess from "
                f"{this} whether a given {one} is in the data and be right more than "
                f"{percent_at_most(there)} of the time, or which of two {one}s is in it more than "
                f"{percent_at_most(which)} of the time.",
            ],
            artefacts={
                artefact: {
                    "unit": f"{protected.words} with all its data",
                    "neighbouring": "added or removed",
                    "claimed_epsilon": epsilon,
                    "accounted_epsilon": epsilon,
                    "delta": None if pure else format(values["delta"], "f"),
                    "rho": _readable(parameters.rho),
                    "assumes": "; ".join(_ASSUMES),
                }
            },
            titles={artefact: title},
            assumed_public=[
                "the region and the period",
                "the parameters of the release, and tables that they name",
                "the rule by which samples are snapped, the projection, the time zone and the unit of "
                "time of the source",
            ],
            not_protected=[
                "that the source exists and a release of it was made, and when",
                "what other releases tell of the same objects: the ledger adds up the synthetic "
                "(differentially private) ones of the same source; releases with true samples "
                "(edited, unlinked, generalised) are in no such sum",
                _several(values, parameters),
            ],
            noise=("discrete Laplace" if pure else "discrete Gaussian")
            + ", exact, from the operating system's randomness",
            spends={"epsilon": epsilon, "rho": _readable(parameters.rho)},
            origin=_ORIGINS[name],
        )

    return declare


def _several(values: Mapping[str, Any], parameters: Costs) -> str:
    """What somebody who is two objects costs, by group privacy."""
    from freqdp_db.privacy.accounting import cost_of_several, epsilon_of, rounded_up

    if parameters.pure:
        cost, two = "k objects cost k times epsilon", f"epsilon {plain(2 * values['epsilon'])}"
    else:
        epsilon = epsilon_of(cost_of_several(parameters.rho, 2), parameters.delta)
        cost = "k objects cost k^2 times rho"
        two = f"epsilon {rounded_up(epsilon)} at delta {values['delta']:f}"
    return f"somebody who is several objects (two phones, a changed id): {cost}; two are {two}"


def _readable(rho: Fraction) -> str:
    """With six digits, rounded up."""
    rounded = Context(prec=6, rounding=ROUND_CEILING)
    return plain(rounded.divide(Decimal(rho.numerator), Decimal(rho.denominator)))


# --- Methods that publish trips which are nobody's, with a guarantee for one object ---


def _method(summary: str, step: SyntheticStep, needs: tuple[Need, ...] = ()) -> Method:
    return Method(
        step.name,
        summary,
        (step,),
        kind="synthetic",
        guarantee=object_guarantee(step.name, step.options),
        unit="person",
        needs=needs,
        books=partial(booked_rho, step.options),
    )


SYNTHESIS = (
    _method(
        "synthetic trips with a guarantee for one object with all its data",
        StrictStep(),
        (Need("roads", "roads", optional=True),),
    ),
    _method("AdaTrace at the unit of an object, to compare with strict", AdaTraceStep()),
    _method("DPT at the unit of an object, to compare with strict", DptStep()),
)
