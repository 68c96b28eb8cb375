"""The two methods of signature closure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from freqdp_db.engines.ranges import joined
from freqdp_db.methods.contract import Method, StepContext, WorkingSet
from freqdp_db.methods.frequency.steps import (
    ASSUMED_PUBLIC,
    NOT_PROTECTED,
    PAPER,
    SIGNATURE,
    TABLE,
    EditingStep,
    edit_locally,
)
from freqdp_db.methods.kinds import WIDEST_M, Number
from freqdp_db.methods.parameters import parameter
from freqdp_db.model.arrays import offsets_of, owners, within
from freqdp_db.model.trajectories import EditLog, Locations, PfTargets
from freqdp_db.privacy.guarantee import NOTHING_CLAIMED, TABLE_NOT_DP, Guarantee, ProtectedUnit
from freqdp_db.privacy.noise import RandomSource

if TYPE_CHECKING:
    from freqdp_db.methods.frequency.counts import Frequencies, Signatures
    from freqdp_db.methods.frequency.partition import Partition
    from freqdp_db.methods.frequency.perturbation import Ranked

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
        from freqdp_db.methods.frequency.perturbation import rank_signatures

        ranked = rank_signatures(state, world.tf_of(state), options.signature)
        targets = state.partitions.map(_close, ranked, options.radius_m)
        return PfTargets(*joined([list(vars(part).values()) for part in targets]))

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: PfTargets, options: ClosureOptions
    ) -> tuple[EditLog, WorkingSet]:
        from freqdp_db.methods.frequency.insertion import PAPER_SPREAD_MM

        # every target is 0: nothing is inserted
        return edit_locally(world, state, drawn, PAPER_SPREAD_MM)


def _close(partition: Partition, ranked: Ranked, radius_m: float) -> PfTargets:
    targets = close_signatures(ranked.frequencies, ranked.signatures, partition.places, radius_m)
    return replace(targets, trajectory=targets.trajectory + np.int32(partition.first))


def close_signatures(
    frequencies: Frequencies, signatures: Signatures, locations: Locations, radius_m: float
) -> PfTargets:
    """Target 0 for each trajectory's signature and for all its places within the radius (0: none).

    Input: PF and the signatures.
    Protected change: none. No noise is drawn: what is missing tells where it was.
    Sensitivity: not bounded.
    Guarantee: none; a heuristic.
    Paper: the methods SC and RSC of its comparison.
    """
    offsets, order = frequencies.offsets, signatures.order
    owner, place = owners(offsets), frequencies.location[order]
    stage = np.where(within(offsets) < signatures.size, 1, 0).astype(np.int16)
    rest = np.flatnonzero(stage == 0)
    x, y = locations.x[place], locations.y[place]
    for nth in range(signatures.size if radius_m > 0 and len(rest) else 0):
        # whoever has a rest has a whole signature
        telling = offsets[owner[rest]] + nth
        dx, dy = x[rest] - x[telling], y[rest] - y[telling]
        stage[rest[dx * dx + dy * dy <= radius_m * radius_m]] = 2
    closed = stage > 0
    trajectory = owner[closed]
    rank = within(offsets_of(trajectory, len(offsets) - 1)) + 1
    return PfTargets(
        trajectory=trajectory,
        location=place[closed],
        stage=stage[closed],
        rank=np.minimum(rank, np.iinfo(np.int16).max).astype(np.int16),
        pf=frequencies.pf[order][closed],
        target=np.zeros(len(trajectory), np.int32),
    )


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


CLOSURE = tuple(
    Method(
        name,
        summary,
        (ClosureStep(options),),
        kind="edited",
        guarantee=closure_guarantee,
        grantable=False,
        explains="Each trajectory is one object's, edited: samples were taken out, none were put in. "
        "Count places, times and flows; do not look for persons.",
    )
    for name, summary, options in (
        ("sc", "signature closure, for comparison: drops each signature", ClosureOptions),
        (
            "rsc",
            "signature closure with a radius, for comparison: drops what lies near as well",
            RadiusOptions,
        ),
    )
)
