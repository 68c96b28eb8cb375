"""`strict`, and what any synthetic method is: one draw that sees the data, and trips made from it alone."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

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
    LARGEST_DELTA,
    MOST_ROWS,
    USUAL_TRIP_US,
    StrictOptions,
    SyntheticOptions,
)
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.privacy.guarantee import Declare, Guarantee, ProtectedUnit
from freqdp_db.privacy.noise import RandomSource

if TYPE_CHECKING:
    from freqdp_db.methods.synthesis.roads import RoadNet

_FEW_OBJECTS = 50
_SMALL = 100
"""delta is to be at most a hundredth of one over the number of objects."""
_NOTHING_LEFT = 1000
"""Thousandths: as large as the number itself."""
_DEGREE_M = 111_320.0
_WIDEST_STEP_M_PER_S = 8.0


class SyntheticStep(Step[Any, Any, Any]):
    """A step whose result is a function of its draw and of public facts."""

    words = "trips that are made up from noisy counts"
    checked: ClassVar[dict[str, str]] = {
        "trips": "trips inside the region and the period",
        "samples": "samples in the rhythm that was asked for",
        "segments": "segments below 110 km/h",
    }
    # 0.4.0 measures trips by one vector more, and samples them in another way
    not_replayable = frozenset({"0.3.0"})

    @abstractmethod
    def released(
        self, world: StepContext, drawn: Any, logged: Any, options: Any
    ) -> tuple[Any, Any]:
        """Trips and their places, from the draw alone."""

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
        """How many objects have trips, with the noise of the draw."""

    def warnings(self, options: Any, counts: Counts) -> list[str]:
        # by the noisy number: in the exact one a single person would show
        objects = counts.get("noisy_objects")
        if objects is None or objects >= _FEW_OBJECTS:
            return []
        return [
            f"By their noisy number {int(objects):,} objects have trips inside the region and the "
            "period: hardly anything but noise came out. It takes hundreds to be useful."
        ]

    def require_possible(self, options: SyntheticOptions, objects: int, samples: int) -> None:
        if options.region is not None:
            _require_rhythm(box_of(options.region), options.every)
        _require_room(options)

    def require_inputs(
        self, options: SyntheticOptions, inputs: Mapping[str, Any], facts: Facts
    ) -> None:
        """Refuse a region in which no sample could lie, before anything is drawn and paid for."""
        from freqdp_db.methods.synthesis.plan import Grids
        from freqdp_db.methods.synthesis.sampling import lattice

        region, _ = facts(options.region, options.period)
        if region.outline is not None:
            lattice(Grids(region, 1, 1, 1, 1), options.every)


def _state_of(trajectories: Trajectories, places: Locations) -> WorkingSet:
    # numbers from 1: all trips are drawn alike, so their order says nothing
    key = np.arange(1, len(trajectories) + 1, dtype=np.int64)
    return WorkingSet(trajectories, places, key, owner=np.full(trajectories.samples, -1, np.int32))


def _require_room(options: SyntheticOptions) -> None:
    """A size and a rhythm that are public must not ask for more rows than anybody can use."""
    rows = (options.size or 0) * (USUAL_TRIP_US // options.every + 1)
    if rows > MOST_ROWS:
        fits = MOST_ROWS // (USUAL_TRIP_US // options.every + 1)
        raise BadInput(
            f"[[size]] {options.size:,} with a sample every {plain(Decimal(options.every) / US_PER_S)} s "
            f"would be some {rows:,} rows",
            remedy=f"give [[size]] {fits} or less, or a longer [[every]]",
        )


def _require_rhythm(box: Box, every: int) -> None:
    """Places of a wide region lie so far apart that short steps would be fast."""
    from freqdp_db.methods.synthesis.sampling import MOST_PLACES

    middle = math.radians(float(box.south + box.north) / 2)
    wide = float(box.east - box.west) * _DEGREE_M * math.cos(middle)
    apart = math.sqrt(wide * float(box.north - box.south) * _DEGREE_M / MOST_PLACES)
    if apart > _WIDEST_STEP_M_PER_S * every / US_PER_S:
        least = math.ceil(apart / _WIDEST_STEP_M_PER_S)
        raise BadInput(
            f"[[every]] {every // US_PER_S}s is too short for a region of this size",
            remedy=f"give [[every]] {least}s or more, or a smaller [[region]]",
        )


class StrictStep(SyntheticStep):
    name = "strict"
    options = StrictOptions

    def require_possible(self, options: Any, objects: int, samples: int) -> None:
        super().require_possible(options, objects, samples)
        if options.accounting == "zcdp" and options.delta > LARGEST_DELTA:
            raise BadInput(
                f"[[delta]] {plain(options.delta)} is more than {plain(LARGEST_DELTA)}",
                remedy="it is how often the guarantee may fail altogether: give [[delta]] 0.000001",
            )

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

        facts = world.public_facts(options.region, options.period)
        logged, made = carry_out(drawn, *facts, options.parameters, _roads(world, options))
        return logged, _state_of(made.trajectories, made.places)

    def released(
        self, world: StepContext, drawn: Any, logged: Any, options: StrictOptions
    ) -> tuple[Any, Any]:
        from freqdp_db.methods.synthesis.strict import replay

        facts = world.public_facts(options.region, options.period)
        made = replay(drawn, logged, *facts, options.parameters, _roads(world, options))
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
        if counts["trips_error"] >= _NOTHING_LEFT:
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
        found = super().warnings(options, counts)
        if options.accounting == "zcdp" and options.delta * objects * _SMALL > 1:
            found.append(
                f"[[delta]] {plain(options.delta)} times the noisy number of objects ({objects:,}) is "
                f"{float(options.delta * objects):.2g}: that is no longer small. Take a [[delta]] of "
                f"{plain(Decimal(1).scaleb(-len(str(_SMALL * objects))))} or less."
            )
        return found

    def check(self, done: CompletedStep[StrictOptions, Any, Any]) -> dict[str, int]:
        from freqdp_db.methods.synthesis.strict import Synthetic, check

        facts = done.world.public_facts(done.options.region, done.options.period)
        made = Synthetic(done.after.trajectories, done.after.places)
        return check(
            done.drawn,
            done.logged,
            made,
            *facts,
            done.options.parameters,
            _roads(done.world, done.options),
        )

    def require_inputs(
        self, options: SyntheticOptions, inputs: Mapping[str, Any], facts: Facts
    ) -> None:
        from freqdp_db.methods.synthesis.roads import road_net

        super().require_inputs(options, inputs, facts)
        if "roads" in inputs:
            road_net(inputs["roads"], facts(options.region, options.period)[0], options.every)


def _roads(world: StepContext, options: StrictOptions) -> RoadNet | None:
    """The roads that were asked for, as the sampling reads them."""
    from freqdp_db.methods.synthesis.roads import road_net

    if "roads" not in world.inputs:
        return None
    region, _ = world.public_facts(options.region, options.period)
    return road_net(world.inputs["roads"], region, options.every)


# --- What they guarantee: differential privacy for one object with all its data ---

_STRICT_ORIGIN = (
    "Method: noisy counts of trips under zero-concentrated differential privacy (Bun and Steinke 2016; "
    "discrete Gaussian noise by Canonne, Kamath and Steinke 2020)."
)
_BOOKED = 10**12
_ASSUMES = (
    "the region, the period and the parameters do not depend on the data, nor do tables that they "
    "name (roads)",
    "whether a row is in the source depends on the rows of its own object{when} and on public numbers "
    "alone",
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
    return Decimal(math.ceil(parameters.rho * Fraction(1_000_001, 1_000_000) * _BOOKED)) / _BOOKED


def object_guarantee(
    options: type[Any],
    origin: str,
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
