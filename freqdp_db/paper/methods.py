"""The methods that only reproduce the literature: what the registry takes from this room.

`adatrace` and `dpt` are here, repaired, at the unit of a person: to compare `strict` with.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import CompletedStep, EmptyLog, StepContext, StoredStep, WorkingSet
from freqdp_db.methods.synthesis.public import SyntheticOptions
from freqdp_db.methods.synthesis.steps import SyntheticStep, synthetic_method
from freqdp_db.paper.closure import CLOSURE
from freqdp_db.paper.klt import KLT
from freqdp_db.paper.w4m import W4M
from freqdp_db.privacy.noise import RandomSource

__all__ = ["CLOSURE", "COMPARED"]


class BaselineStep(SyntheticStep):
    """A published method, repaired, at the unit of a person: to compare with."""

    options = SyntheticOptions
    logs = EmptyLog

    @property
    def _module(self) -> Any:
        """Of its name: `Draw`, `draw`, `make_trips` and `objects`. It has compiled kernels."""
        return import_module(f"freqdp_db.paper.{self.name}")

    @property
    def draws(self) -> type:  # type: ignore[override]
        found: type = self._module.Draw
        return found

    def noisy_objects(self, drawn: Any) -> int:
        from freqdp_db.methods.synthesis.plan import SCALE

        return int(self._module.objects(drawn).sum()) // SCALE

    def draw(
        self, world: StepContext, state: WorkingSet, options: SyntheticOptions, source: RandomSource
    ) -> Any:
        from freqdp_db.methods.synthesis.trips import cut_trips

        region, period = world.public_facts(options.region, options.period)
        trips = cut_trips(state.trajectories, state.places, region, period)
        return self._module.draw(trips, region, options.parameters.epsilon, source)

    def released(
        self, world: StepContext, drawn: Any, logged: Any, options: SyntheticOptions
    ) -> tuple[Any, Any]:
        from freqdp_db.paper.cell_counts import noisy_size

        facts = world.public_facts(options.region, options.period)
        count = options.size or noisy_size(self._module.objects(drawn), options.every)
        epsilon = options.parameters.epsilon
        trips, places = self._module.make_trips(drawn, *facts, epsilon, count, options.every)
        return trips, places

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: Any, options: SyntheticOptions
    ) -> tuple[EmptyLog, WorkingSet]:
        return EmptyLog(), self.replay(StoredStep(world, state, drawn, EmptyLog(), options))

    def check(self, done: CompletedStep[SyntheticOptions, Any, Any]) -> dict[str, int]:
        from freqdp_db.methods.synthesis.strict import Synthetic, check_trips

        if int(done.drawn.seed.min()) < 0 or int(done.drawn.seed.max()) >= 2**32:
            raise VerificationFailed("the seed is not 256 bits")
        facts = done.world.public_facts(done.options.region, done.options.period)
        made = Synthetic(done.after.trajectories, done.after.places)
        return check_trips(made, len(made.trajectories), *facts, done.options.parameters)


class AdaTraceStep(BaselineStep):
    name = "adatrace"


class DptStep(BaselineStep):
    name = "dpt"


COMPARED = (
    *CLOSURE,
    KLT,
    W4M,
    synthetic_method(
        "AdaTrace at the unit of an object, to compare with strict",
        AdaTraceStep(),
        "Method: after AdaTrace (Gursoy, Liu, Truex, Yu, Wei, CCS 2018), at the unit of an object and "
        "without its free reads of the data.",
    ),
    synthetic_method(
        "DPT at the unit of an object, to compare with strict",
        DptStep(),
        "Method: after DPT (He, Cormode, Machanavajjhala, Procopiuc, Srivastava, PVLDB 2015), at the "
        "unit of an object and without free reads of the data.",
    ),
)
