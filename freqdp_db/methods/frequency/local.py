"""The step `local`: how often each object visits its listed places (Alg. 2)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import MM_PER_M, EditLog, PfTargets
from freqdp_db.errors import BadInput
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods.contract import State, World
from freqdp_db.methods.frequency.editing import EditingStep, edit_locally, reached_pf
from freqdp_db.methods.frequency.shared import EPSILON_SHARE, SIGNATURE, user_costs
from freqdp_db.methods.kinds import WIDEST_M, Number
from freqdp_db.methods.parameters import parameter

_MANY_INSERTIONS = 10_000_000
_INSERTIONS_PER_SAMPLE = 50


@dataclass(frozen=True)
class LocalOptions:
    epsilon_local: Decimal = parameter(
        EPSILON_SHARE, "For the point frequencies.", share_of="epsilon"
    )
    signature: int = parameter(*SIGNATURE)
    spread: Decimal | str = parameter(
        Number(WIDEST_M, "500", unit="metres", words=("paper",)),
        "Metres within which a place is inserted, or `paper`.",
        Decimal(500),
    )

    @property
    def spread_mm(self) -> int:
        if isinstance(self.spread, str):
            from freqdp_db.edits.insertion import PAPER_SPREAD_MM

            return PAPER_SPREAD_MM
        return int(self.spread * int(MM_PER_M))


class LocalStep(EditingStep[LocalOptions, PfTargets]):
    name = "local"
    words = "how often each object visits its listed places"
    options = LocalOptions
    draws = PfTargets

    def draw(
        self, world: World, state: State, options: LocalOptions, source: RandomSource
    ) -> PfTargets:
        """Alg. 2, lines 1-18: perturb the PF of 2m places of every trajectory."""
        from freqdp_db.mechanisms.local_pf import perturb_lists
        from freqdp_db.methods.frequency.ranking import candidates_in, lists_of, rank_signatures

        ranked = rank_signatures(state, options.signature)
        # one partition after the other: what is picked from is never here all at once
        lists = ranked.map(lists_of, candidates_in(ranked))
        return perturb_lists(lists, options.signature, Fraction(options.epsilon_local), source)

    def carry_out(
        self, world: World, state: State, drawn: PfTargets, options: LocalOptions
    ) -> tuple[EditLog, State]:
        """Alg. 2, line 20 (LocalEdit): delete where PF must fall, then insert where it must grow."""
        return edit_locally(world, state, drawn, options.spread_mm)

    def require_possible(self, options: LocalOptions, objects: int, samples: int) -> None:
        """Refuse noise so wide that the samples to insert would dwarf the data many times over."""
        # up to 2m points of a trajectory, and max(0, Laplace(1/eps)) is 1/(2 eps) on average
        listed = min(2 * options.signature * objects, samples)
        insertions = listed / (2 * options.epsilon_local)
        most = _MANY_INSERTIONS + _INSERTIONS_PER_SAMPLE * samples
        if insertions > most:
            least = Decimal(listed) / (2 * most)
            raise BadInput(
                f"[[epsilon_local]] (or its share of [[epsilon]]) of {options.epsilon_local:f} would "
                f"insert about {insertions:,.0f} samples into {samples:,}",
                remedy=f"with [[signature]] {options.signature} it takes at least {least:.1g}",
            )

    def reached(self, state: State, drawn: PfTargets) -> Ints:
        return reached_pf(state, drawn)

    def was_and_target(self, drawn: PfTargets) -> tuple[Ids, Ids]:
        return drawn.pf, drawn.target

    def user_level(self, state: State, drawn: PfTargets, options: LocalOptions) -> dict[str, float]:
        listed = np.bincount(drawn.trajectory, weights=drawn.pf, minlength=len(state.trajectories))
        return user_costs("listed_occurrences", listed, options.epsilon_local)
