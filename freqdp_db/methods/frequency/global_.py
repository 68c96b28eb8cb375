"""The step `global`: how many objects visit each signature place (Alg. 1)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import EditLog, TfTargets
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods.contract import State, World
from freqdp_db.methods.frequency.editing import EditingStep, finished, key_of, reached_tf
from freqdp_db.methods.frequency.shared import EPSILON_SHARE, SIGNATURE, user_costs
from freqdp_db.methods.parameters import parameter


@dataclass(frozen=True)
class GlobalOptions:
    epsilon_global: Decimal = parameter(
        EPSILON_SHARE, "For the trajectory frequencies.", share_of="epsilon"
    )
    signature: int = parameter(*SIGNATURE)


class GlobalStep(EditingStep[GlobalOptions, TfTargets]):
    name = "global"
    words = "how many objects visit each signature place"
    options = GlobalOptions
    draws = TfTargets

    def draw(
        self, world: World, state: State, options: GlobalOptions, source: RandomSource
    ) -> TfTargets:
        """Alg. 1, lines 1-6: perturb the TF of every place that is in a signature."""
        from freqdp_db.mechanisms.global_tf import perturb_tf
        from freqdp_db.methods.frequency.ranking import candidates_in, rank_signatures

        candidates = candidates_in(rank_signatures(state, options.signature))
        epsilon = Fraction(options.epsilon_global)
        return perturb_tf(state.tf, len(state.trajectories), candidates, epsilon, source)

    def carry_out(
        self, world: World, state: State, drawn: TfTargets, options: GlobalOptions
    ) -> tuple[EditLog, State]:
        """Alg. 1, line 7 (GlobalEdit): delete where TF must fall, then insert where it must grow."""
        from freqdp_db.edits.deletion import delete_globally
        from freqdp_db.edits.insertion import insert_globally, search_in_memory

        search = world.search or search_in_memory
        thinned = delete_globally(state.partitions, drawn, state.rank)
        edited = insert_globally(thinned, drawn, state.rank, world.clock, key_of(drawn), search)
        return finished(state, edited)

    def reached(self, state: State, drawn: TfTargets) -> Ints:
        return reached_tf(state, drawn)

    def was_and_target(self, drawn: TfTargets) -> tuple[Ids, Ids]:
        return drawn.tf, drawn.target

    def user_level(
        self, state: State, drawn: TfTargets, options: GlobalOptions
    ) -> dict[str, float]:
        from freqdp_db.methods.frequency.ranking import visits_of

        candidate = np.zeros(len(state.places), np.bool_)
        candidate[drawn.location] = True
        visited = np.concatenate(list(state.partitions.map(visits_of, candidate)))
        return user_costs("candidates", visited, options.epsilon_global)
