"""The step `strict`, the base of all synthetic steps, and the guarantee for one object with all its data.

The draw of a synthetic step reads the data; the trips are made from the draw alone.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import (
    CompletedStep,
    Counts,
    Facts,
    Method,
    Need,
    Step,
    StepContext,
    StoredStep,
    WorkingSet,
)
from freqdp_db.methods.kinds import US_PER_S, Box, box_of, plain
from freqdp_db.methods.synthesis.public import (
    MOST_ROWS,
    USUAL_TRIP_US,
    Parameters,
    Period,
    Region,
    StrictOptions,
    SyntheticOptions,
    delta_warnings,
    require_small_delta,
)
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.privacy.accounting import PrivacyBudget
from freqdp_db.privacy.guarantee import Declare, Guarantee, ProtectedUnit
from freqdp_db.privacy.noise import RandomSource

if TYPE_CHECKING:
    from freqdp_db.methods.synthesis.roads import RoadNet

_FEW_OBJECTS = 50
"""Below this noisy number of objects the curator is warned that the trips are mostly noise."""
_MAX_ERROR_PER_MILLE = 1000
"""An error of this many thousandths is as large as the number itself."""
_DEGREE_M = 111_320.0
"""Metres in a degree of latitude."""
_MAX_ROUNDING_M_PER_S = 8.0
"""Speed that rounding to the lattice of places may add to a segment."""


class SyntheticStep(Step[Any, Any, Any]):
    """A step whose result is a function of its draw and of public inputs."""

    words = "trips that are made up from noisy counts"
    checked: ClassVar[dict[str, str]] = {
        "trips": "trips inside the region and the period",
        "samples": "samples in the rhythm that was asked for",
        "segments": "segments below 110 km/h",
    }
    # 0.4.0 added a measurement and changed the sampling
    not_replayable = frozenset({"0.3.0"})

    @abstractmethod
    def released(
        self, world: StepContext, drawn: Any, logged: Any, options: Any
    ) -> tuple[Any, Any]:
        """The trips and their places, from the draw and the log."""

    def replay(self, done: StoredStep[Any, Any, Any]) -> WorkingSet:
        return _state_of(*self.released(done.world, done.drawn, done.logged, done.options))

    def counts(self, done: CompletedStep[Any, Any, Any]) -> Counts:
        return {
            "trips": len(done.after.trajectories),
            "rows": done.after.samples,
            "noisy_objects": max(self.noisy_objects(done.drawn), 0),
        }

    def describe(self, drawn: int, counts: Counts) -> str:
        return (
            f"{drawn:,} noisy numbers; {int(counts['trips']):,} trips of "
            f"{int(counts['rows']):,} samples were made from them"
        )

    @abstractmethod
    def noisy_objects(self, drawn: Any) -> int:
        """Noisy number of objects that have trips."""

    def warnings(self, options: Any, counts: Counts) -> list[str]:
        # the noisy number: the exact one would reveal a single person
        objects = counts.get("noisy_objects")
        if objects is None or objects >= _FEW_OBJECTS:
            return []
        return [
            f"By their noisy number {int(objects):,} objects have trips inside the region and the "
            "period: hardly anything but noise came out. It takes hundreds to be useful."
        ]

    def require_possible(self, options: SyntheticOptions, objects: int, samples: int) -> None:
        if options.region is not None:
            _require_interval(box_of(options.region), options.every)
        _require_room(options)

    def require_inputs(
        self, options: SyntheticOptions, inputs: Mapping[str, Any], facts: Facts
    ) -> None:
        """Refuse a region in which no sample could lie, before anything is drawn and booked."""
        from freqdp_db.methods.synthesis.plan import Grids
        from freqdp_db.methods.synthesis.sampling import lattice

        region, _ = facts(options.region, options.period)
        if region.outline is not None:
            lattice(Grids(region, 1, 1, 1, 1), options.every)


def _state_of(trajectories: Trajectories, places: Locations) -> WorkingSet:
    # ids from 1: trips are independent draws of one law, so that their order reveals nothing
    key = np.arange(1, len(trajectories) + 1, dtype=np.int64)
    return WorkingSet(trajectories, places, key, owner=np.full(trajectories.samples, -1, np.int32))


def _require_room(options: SyntheticOptions) -> None:
    """Refuse a size and an interval that would give more than MOST_ROWS rows."""
    rows = (options.size or 0) * (USUAL_TRIP_US // options.every + 1)
    if rows > MOST_ROWS:
        fits = MOST_ROWS // (USUAL_TRIP_US // options.every + 1)
        raise BadInput(
            f"[[size]] {options.size:,} with a sample every {plain(Decimal(options.every) / US_PER_S)} s "
            f"would be some {rows:,} rows",
            remedy=f"give [[size]] {fits} or less, or a longer [[every]]",
        )


def _require_interval(box: Box, every: int) -> None:
    """Refuse an interval that is too short for the lattice of a wide region.

    The places of a wide region are far apart, and rounding to them would make short segments fast.
    """
    from freqdp_db.methods.synthesis.sampling import MOST_PLACES

    middle = math.radians(float(box.south + box.north) / 2)
    wide = float(box.east - box.west) * _DEGREE_M * math.cos(middle)
    spacing = math.sqrt(wide * float(box.north - box.south) * _DEGREE_M / MOST_PLACES)
    if spacing > _MAX_ROUNDING_M_PER_S * every / US_PER_S:
        least = math.ceil(spacing / _MAX_ROUNDING_M_PER_S)
        raise BadInput(
            f"[[every]] {every // US_PER_S}s is too short for a region of this size",
            remedy=f"give [[every]] {least}s or more, or a smaller [[region]]",
        )


class StrictStep(SyntheticStep):
    name = "strict"
    options = StrictOptions

    def require_possible(self, options: Any, objects: int, samples: int) -> None:
        super().require_possible(options, objects, samples)
        require_small_delta(options.accounting, options.delta)

    @property
    def draws(self) -> type:  # type: ignore[override]
        from freqdp_db.methods.synthesis.plan import Draw

        return Draw

    @property
    def logs(self) -> type:  # type: ignore[override]
        from freqdp_db.methods.synthesis.strict import Log

        return Log

    def noisy_objects(self, drawn: Any) -> int:
        from freqdp_db.methods.synthesis.plan import SCALE

        return int(drawn.objects[0]) // SCALE

    def draw(
        self, world: StepContext, state: WorkingSet, options: StrictOptions, source: RandomSource
    ) -> Any:
        from freqdp_db.methods.synthesis.vectors import draw

        facts = world.public_facts(options.region, options.period)
        return draw(state.trajectories, state.places, *facts, options.parameters, source)

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: Any, options: StrictOptions
    ) -> tuple[Any, WorkingSet]:
        from freqdp_db.methods.synthesis.strict import carry_out

        logged, made = carry_out(drawn, *_public(world, options))
        return logged, _state_of(made.trajectories, made.places)

    def released(
        self, world: StepContext, drawn: Any, logged: Any, options: StrictOptions
    ) -> tuple[Any, Any]:
        from freqdp_db.methods.synthesis.strict import replay

        made = replay(drawn, logged, *_public(world, options))
        return made.trajectories, made.places

    def counts(self, done: CompletedStep[Any, Any, Any]) -> Counts:
        trips, zones, hours = done.logged.errors.tolist()
        return {
            **super().counts(done),
            "trips_error": trips,
            "zones_error": zones,
            "hours_error": hours,
        }

    def errors(self, options: StrictOptions, counts: Counts) -> str:
        if "trips_error" not in counts:  # recorded by an earlier version
            return ""
        trips = f"the number of trips by {counts['trips_error'] / 10:g} %, "
        if counts["trips_error"] >= _MAX_ERROR_PER_MILLE:
            trips = "the number of trips by as much as it is, "
        return (
            "With 95 % confidence noise moves "
            + (trips if options.size is None else "")
            + "the share of trips that begin in one of the zones (six along the region) by "
            f"{counts['zones_error'] / 10:g} points, and in an hour of the day by "
            f"{counts['hours_error'] / 10:g}."
            + ("" if options.size is None else " The number of trips was asked for.")
        )

    def warnings(self, options: StrictOptions, counts: Counts) -> list[str]:
        objects = int(counts.get("noisy_objects", 0))
        return [
            *super().warnings(options, counts),
            *delta_warnings(options.accounting, options.delta, objects),
        ]

    def check(self, done: CompletedStep[StrictOptions, Any, Any]) -> dict[str, int]:
        from freqdp_db.methods.synthesis.strict import Synthetic, check

        made = Synthetic(done.after.trajectories, done.after.places)
        return check(done.drawn, done.logged, made, *_public(done.world, done.options))

    def require_inputs(
        self, options: SyntheticOptions, inputs: Mapping[str, Any], facts: Facts
    ) -> None:
        from freqdp_db.methods.synthesis.roads import road_net

        super().require_inputs(options, inputs, facts)
        if "roads" in inputs:
            road_net(inputs["roads"], facts(options.region, options.period)[0], options.every)


def _public(
    world: StepContext, options: StrictOptions
) -> tuple[Region, Period, Parameters, RoadNet | None]:
    """What trips are made from besides the draw; the network is that which they keep to, if any."""
    from freqdp_db.methods.synthesis.roads import road_net

    region, period = world.public_facts(options.region, options.period)
    roads = world.inputs.get("roads")
    net = None if roads is None else road_net(roads, region, options.every)
    return region, period, options.parameters, net


# --- The guarantee: differential privacy for one object with all its data ---

_STRICT_ORIGIN = (
    "Method: noisy counts of trips under zero-concentrated differential privacy (Bun and Steinke 2016; "
    "discrete Gaussian noise by Canonne, Kamath and Steinke 2020)."
)
_BOOKED_UNITS = 10**12
"""The ledger books multiples of 1 / _BOOKED_UNITS."""
_ASSUMES = (
    "the region, the period and the parameters do not depend on the data, nor do tables that they "
    "name (roads)",
    "whether a row is in the source depends on the rows of its own object{when} and on public numbers "
    "alone",
    "places are snapped by a public rule, in a projection that was not chosen from the data",
    "the unit of times that are numbers was declared, not told from the data",
    "the noise has no seed",
)


def _budget_of(options: type[Any], values: Mapping[str, Any]) -> PrivacyBudget:
    given: dict[str, Any] = {f: values.get(f) for f in options.__dataclass_fields__}
    found: PrivacyBudget = options(**given).parameters
    return found


def booked_rho(options: type[Any], values: Mapping[str, Any]) -> Decimal:
    """What the ledger for objects books: rho, rounded up as the SQL function `rho_of` does."""
    parameters = _budget_of(options, values)
    if parameters.pure:
        return Decimal(values["epsilon"]) ** 2 / 2
    return (
        Decimal(math.ceil(parameters.rho * Fraction(1_000_001, 1_000_000) * _BOOKED_UNITS))
        / _BOOKED_UNITS
    )


def object_guarantee(
    options: type[Any],
    origin: str,
    artefact: str = "trajectories",
    title: str = "The table of trajectories",
) -> Declare:
    """The guarantee of a method whose whole release is differentially private.

    options: the class of its options, whose property `parameters` is the budget. artefact, title: what is
    published, as a key and in words.
    """
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

        parameters = _budget_of(options, values)
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
                f"{table} differentially private for {protected.words} with {protected.extent} in "
                f"the region and the period: {stated}.",
                "Starting from even odds and knowing everybody else's data, nobody can guess from "
                f"{this} whether a given {one} is in the data and be right more than "
                f"{percent_at_most(there)} of the time, or which of two {one}s is in it more than "
                f"{percent_at_most(which)} of the time.",
            ],
            artefacts={
                artefact: {
                    "unit": f"{protected.words} with {protected.extent}",
                    "neighbouring": "added or removed",
                    "claimed_epsilon": epsilon,
                    "accounted_epsilon": epsilon,
                    "delta": None if pure else format(values["delta"], "f"),
                    "rho": _readable(parameters.rho),
                    "assumes": "; ".join(_ASSUMES).format(
                        when=f" in the same {protected.stretch}" if protected.stretch else ""
                    ),
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
            origin=origin,
        )

    return declare


def _several(values: Mapping[str, Any], parameters: PrivacyBudget) -> str:
    """What a person who is several objects costs, by group privacy."""
    from freqdp_db.privacy.accounting import cost_of_several, epsilon_of, rounded_up

    if parameters.pure:
        cost, two = "k objects cost k times epsilon", f"epsilon {plain(2 * values['epsilon'])}"
    else:
        epsilon = epsilon_of(cost_of_several(parameters.rho, 2), parameters.delta)
        cost = "k objects cost k^2 times rho"
        two = f"epsilon {rounded_up(epsilon)} at delta {values['delta']:f}"
    return f"somebody who is several objects (two phones, a changed id): {cost}; two are {two}"


def _readable(rho: Fraction) -> str:
    """Six digits, rounded up."""
    rounded = Context(prec=6, rounding=ROUND_CEILING)
    return plain(rounded.divide(Decimal(rho.numerator), Decimal(rho.denominator)))


def synthetic_method(
    summary: str, step: SyntheticStep, origin: str, needs: tuple[Need, ...] = ()
) -> Method:
    return Method(
        step.name,
        summary,
        (step,),
        kind="synthetic",
        guarantee=object_guarantee(step.options, origin),
        unit="person",
        needs=needs,
        books=partial(booked_rho, step.options),
    )


STRICT = synthetic_method(
    "synthetic trips with a guarantee for one object with all its data",
    StrictStep(),
    _STRICT_ORIGIN,
    (Need("roads", "roads", optional=True),),
)
