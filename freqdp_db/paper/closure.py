"""The two methods of signature closure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

from freqdp_db.engines.ranges import joined
from freqdp_db.methods.contract import Method, StepContext, WorkingSet
from freqdp_db.methods.frequency.family import ASSUMED_PUBLIC, NOT_PROTECTED, PAPER, TABLE
from freqdp_db.methods.frequency.steps import SIGNATURE, EditingStep, edit_locally, reached_pf
from freqdp_db.methods.kinds import WIDEST_M, Number
from freqdp_db.methods.parameters import parameter
from freqdp_db.model.arrays import Ids, Ints
from freqdp_db.model.edits import EditLog, PfTargets
from freqdp_db.privacy.guarantee import NOTHING_CLAIMED, TABLE_NOT_DP, Guarantee, ProtectedUnit
from freqdp_db.privacy.noise import RandomSource

# --- The step `closure`: each object's signature goes, and with a radius what lies near it ---


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
        self, world: StepContext, state: WorkingSet, options: ClosureOptions, source: RandomSource
    ) -> PfTargets:
        from freqdp_db.methods.frequency.ranking import closed_of, rank_signatures

        ranked = rank_signatures(state, world.tf_of(state), options.signature)
        targets = ranked.map(closed_of, options.radius_m)
        columns = joined([[getattr(t, f.name) for f in fields(PfTargets)] for t in targets])
        return PfTargets(*columns)

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: PfTargets, options: ClosureOptions
    ) -> tuple[EditLog, WorkingSet]:
        from freqdp_db.methods.frequency.insertion import PAPER_SPREAD_MM

        # every target is 0: nothing is inserted
        return edit_locally(world, state, drawn, PAPER_SPREAD_MM)

    def reached(self, state: WorkingSet, drawn: PfTargets) -> Ints:
        return reached_pf(state, drawn)

    def was_and_target(self, drawn: PfTargets) -> tuple[Ids, Ids]:
        return drawn.pf, drawn.target


# --- What signature closure guarantees: nothing ---


def closure_guarantee(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
    """A heuristic, whatever it hides."""
    return Guarantee(
        plain=[
            "This method guarantees nothing; it is a heuristic, for comparison: the most telling "
            "places of each object were dropped, without noise.",
            TABLE_NOT_DP,
        ],
        artefacts={"trajectories": NOTHING_CLAIMED},
        titles={"trajectories": TABLE},
        assumed_public=ASSUMED_PUBLIC,
        not_protected=[
            "where samples are missing: what was dropped was chosen from the data, without noise",
            *NOT_PROTECTED,
        ],
        origin=PAPER,
    )


# --- The two methods of signature closure ---


def _method(name: str, summary: str, options: type[ClosureOptions]) -> Method:
    return Method(
        name,
        summary,
        (ClosureStep(options),),
        kind="edited",
        guarantee=closure_guarantee,
        grantable=False,
        explains="Each trajectory is one object's, edited: samples were taken out, none were put in. "
        "Count places, times and flows; do not look for persons.",
    )


CLOSURE = (
    _method("sc", "signature closure, for comparison: drops each signature", ClosureOptions),
    _method(
        "rsc",
        "signature closure with a radius, for comparison: drops what lies near as well",
        RadiusOptions,
    ),
)
