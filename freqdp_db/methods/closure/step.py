"""The step `closure`: each object's signature goes, and with a radius what lies near it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import EditLog, PfTargets
from freqdp_db.engines.ranges import joined
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods.contract import State, World
from freqdp_db.methods.frequency.editing import EditingStep, edit_locally, reached_pf
from freqdp_db.methods.frequency.shared import SIGNATURE
from freqdp_db.methods.kinds import WIDEST_M, Number
from freqdp_db.methods.parameters import parameter


@dataclass(frozen=True)
class ClosureOptions:
    signature: int = parameter(*SIGNATURE)

    @property
    def radius_m(self) -> float:
        return 0.0


@dataclass(frozen=True)
class RadiusOptions(ClosureOptions):
    radius: Decimal = parameter(
        Number(WIDEST_M, "500", unit="metres"),
        "Metres around the dropped places.",
        Decimal(1000),
    )

    @property
    def radius_m(self) -> float:
        return float(self.radius)


class ClosureStep(EditingStep[ClosureOptions, PfTargets]):
    name = "closure"
    words = "the signatures"
    draws = PfTargets

    def __init__(self, options: type[ClosureOptions]) -> None:
        self.options = options

    def draw(
        self, world: World, state: State, options: ClosureOptions, source: RandomSource
    ) -> PfTargets:
        from freqdp_db.methods.frequency.ranking import closed_of, rank_signatures

        targets = rank_signatures(state, options.signature).map(closed_of, options.radius_m)
        columns = joined([[getattr(t, f.name) for f in fields(PfTargets)] for t in targets])
        return PfTargets(*columns)

    def carry_out(
        self, world: World, state: State, drawn: PfTargets, options: ClosureOptions
    ) -> tuple[EditLog, State]:
        from freqdp_db.edits.insertion import PAPER_SPREAD_MM

        # every target is 0: nothing is inserted
        return edit_locally(world, state, drawn, PAPER_SPREAD_MM)

    def reached(self, state: State, drawn: PfTargets) -> Ints:
        return reached_pf(state, drawn)

    def was_and_target(self, drawn: PfTargets) -> tuple[Ids, Ids]:
        return drawn.pf, drawn.target
