"""The steps of the synthetic methods: one draw that sees the data, and trips made from it alone."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods.areas import Outline
from freqdp_db.methods.contract import Counts, Facts, Nothing, State, Step, World
from freqdp_db.methods.kinds import US_PER_S
from freqdp_db.methods.synthesis.options import StrictOptions, SyntheticOptions

if TYPE_CHECKING:
    from freqdp_db.methods.synthesis.baselines import Baseline
    from freqdp_db.methods.synthesis.roads import RoadNet

_FEW_OBJECTS = 50
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

    @abstractmethod
    def released(self, world: World, drawn: Any, logged: Any, options: Any) -> tuple[Any, Any]:
        """Trips and their places, from the draw alone."""

    def replay(self, world: World, state: State, drawn: Any, logged: Any, options: Any) -> State:
        import numpy as np

        trajectories, places = self.released(world, drawn, logged, options)
        # numbers from 1: all trips are drawn alike, so their order says nothing
        key = np.arange(1, len(trajectories) + 1, dtype=np.int64)
        return State(trajectories, places, key, owner=np.full(trajectories.samples, -1, np.int32))

    def counts(self, drawn: Any, logged: Any, before: State, after: State) -> Counts:
        return {"trips": len(after.trajectories), "rows": after.samples}

    def describe(self, drawn: int, counts: Counts) -> str:
        return (
            f"{drawn:,} noisy numbers; {int(counts['trips']):,} trips of "
            f"{int(counts['rows']):,} samples were made from them"
        )

    def require_possible(self, options: SyntheticOptions, objects: int, samples: int) -> None:
        if objects < _FEW_OBJECTS:
            raise BadInput(
                f"--epsilon for a person hides all there is of {objects} objects: only noise would "
                "come out",
                remedy=f"it takes at least {_FEW_OBJECTS} objects, and hundreds to be useful",
            )
        if isinstance(options.region, Outline):
            _require_rhythm(options.region, options.every)


def _require_rhythm(region: Outline, every: int) -> None:
    """Places of a wide region with an outline lie so far apart that short steps would be fast."""
    from freqdp_db.methods.synthesis.sampling import MOST_OPEN

    box = region.box
    middle = math.radians(float(box.south + box.north) / 2)
    wide = float(box.east - box.west) * _DEGREE_M * math.cos(middle)
    apart = math.sqrt(wide * float(box.north - box.south) * _DEGREE_M / MOST_OPEN)
    if apart > _WIDEST_STEP_M_PER_S * every / US_PER_S:
        least = math.ceil(apart / _WIDEST_STEP_M_PER_S)
        raise BadInput(
            f"--every {every // US_PER_S}s is too short for a region of this size with an outline",
            remedy=f"give --every {least}s or more, or a box as --region",
        )


class StrictStep(SyntheticStep):
    name = "strict"
    options = StrictOptions

    @property
    def draws(self) -> type:  # type: ignore[override]
        from freqdp_db.methods.synthesis.noisy import Draw

        return Draw

    @property
    def logs(self) -> type:  # type: ignore[override]
        from freqdp_db.methods.synthesis.strict import Log

        return Log

    def draw(self, world: World, state: State, options: StrictOptions, source: RandomSource) -> Any:
        from freqdp_db.methods.synthesis.measuring import draw

        facts = world.public_facts(options.region, options.period)
        return draw(state.trajectories, state.places, *facts, options.parameters, source)

    def carry_out(
        self, world: World, state: State, drawn: Any, options: StrictOptions
    ) -> tuple[Any, State]:
        from freqdp_db.methods.synthesis.strict import modelled

        facts = world.public_facts(options.region, options.period)
        logged = modelled(drawn, *facts, options.parameters, _roads(world, options))
        return logged, self.replay(world, state, drawn, logged, options)

    def released(
        self, world: World, drawn: Any, logged: Any, options: StrictOptions
    ) -> tuple[Any, Any]:
        from freqdp_db.methods.synthesis.strict import replay

        facts = world.public_facts(options.region, options.period)
        made = replay(drawn, logged, *facts, options.parameters, _roads(world, options))
        return made.trajectories, made.places

    def check(
        self,
        world: World,
        before: State,
        drawn: Any,
        logged: Any,
        after: State,
        options: StrictOptions,
    ) -> dict[str, int]:
        from freqdp_db.methods.synthesis.strict import Synthetic, check

        facts = world.public_facts(options.region, options.period)
        made = Synthetic(after.trajectories, after.places)
        return check(drawn, logged, made, *facts, options.parameters, _roads(world, options))

    def require_inputs(
        self, options: StrictOptions, inputs: Mapping[str, Any], facts: Facts
    ) -> None:
        from freqdp_db.methods.synthesis.roads import road_net

        if "roads" in inputs:
            road_net(inputs["roads"], facts(options.region, options.period)[0], options.every)


def _roads(world: World, options: StrictOptions) -> RoadNet | None:
    """The roads that were asked for, as the sampling reads them."""
    from freqdp_db.methods.synthesis.roads import road_net

    if "roads" not in world.inputs:
        return None
    region, _ = world.public_facts(options.region, options.period)
    return road_net(world.inputs["roads"], region, options.every)


class BaselineStep(SyntheticStep):
    """A published method, repaired, at the unit of a person: to compare with."""

    options = SyntheticOptions
    logs = Nothing

    @abstractmethod
    def method(self) -> Baseline:
        """Its draw and its trips."""

    @property
    def draws(self) -> type:  # type: ignore[override]
        return self.method().draws

    def draw(
        self, world: World, state: State, options: SyntheticOptions, source: RandomSource
    ) -> Any:
        from freqdp_db.methods.synthesis.trips import cut_trips

        region, period = world.public_facts(options.region, options.period)
        trips = cut_trips(state.trajectories, state.places, region, period)
        return self.method().draw(trips, region, options.parameters.epsilon, source)

    def released(
        self, world: World, drawn: Any, logged: Any, options: SyntheticOptions
    ) -> tuple[Any, Any]:
        from freqdp_db.methods.synthesis.baselines import noisy_size

        facts = world.public_facts(options.region, options.period)
        count = options.size or noisy_size(self.method().objects(drawn))
        return self.method().trips(drawn, *facts, options.parameters.epsilon, count, options.every)

    def carry_out(
        self, world: World, state: State, drawn: Any, options: SyntheticOptions
    ) -> tuple[Nothing, State]:
        return Nothing(), self.replay(world, state, drawn, Nothing(), options)

    def check(
        self,
        world: World,
        before: State,
        drawn: Any,
        logged: Any,
        after: State,
        options: SyntheticOptions,
    ) -> dict[str, int]:
        from freqdp_db.methods.synthesis.strict import Synthetic, check_trips

        if int(drawn.seed.min()) < 0 or int(drawn.seed.max()) >= 2**32:
            raise VerificationFailed("the seed is not 256 bits")
        facts = world.public_facts(options.region, options.period)
        made = Synthetic(after.trajectories, after.places)
        return check_trips(made, len(made.trajectories), *facts, options.parameters)


class AdaTraceStep(BaselineStep):
    name = "adatrace"

    def method(self) -> Baseline:
        from freqdp_db.methods.synthesis.baselines import ADATRACE

        return ADATRACE


class DptStep(BaselineStep):
    name = "dpt"

    def method(self) -> Baseline:
        from freqdp_db.methods.synthesis.baselines import DPT

        return DPT
