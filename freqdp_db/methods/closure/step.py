"""The step `closure`: each object's signature goes, and with a radius what lies near it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import Edits, PfTargets
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods.contract import State, World
from freqdp_db.methods.frequency.editing import EditingStep, edited, reached_pf
from freqdp_db.methods.frequency.shared import SIGNATURE
from freqdp_db.methods.kinds import WIDEST_M, Number
from freqdp_db.methods.parameters import parameter

if TYPE_CHECKING:
    from freqdp_db.frequency.counts import Frequencies


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
        from freqdp_db.frequency.signatures import rank_places
        from freqdp_db.mechanisms.closure import close_signatures

        signatures = rank_places(state.frequencies, options.signature)
        return close_signatures(state.frequencies, signatures, state.places, options.radius_m)

    def carry_out(
        self, world: World, state: State, drawn: PfTargets, options: ClosureOptions
    ) -> tuple[Edits, State]:
        from freqdp_db.edits.applying import delete, insert
        from freqdp_db.edits.deletion import delete_locally
        from freqdp_db.edits.insertion import PAPER_SPREAD_MM, insert_locally

        deletions = delete_locally(state.trajectories, state.places, drawn)
        thinned = delete(state.trajectories, deletions)
        # every target is 0: nothing is inserted
        none = insert_locally(thinned, state.places, drawn, world.clock, PAPER_SPREAD_MM)
        after = insert(thinned, none, state.places, world.clock, None)
        return Edits(deletions, none), edited(state, after)

    def reached(self, frequencies: Frequencies, drawn: PfTargets) -> Ints:
        return reached_pf(frequencies, drawn)

    def was_and_target(self, drawn: PfTargets) -> tuple[Ids, Ids]:
        return drawn.pf, drawn.target
