"""The step `global`: how many objects visit each signature place (Alg. 1)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import Edits, TfTargets
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods.contract import State, World
from freqdp_db.methods.frequency.editing import EditingStep, edited, key_of, reached_tf
from freqdp_db.methods.frequency.shared import EPSILON_SHARE, SIGNATURE, user_costs
from freqdp_db.methods.parameters import parameter

if TYPE_CHECKING:
    from freqdp_db.frequency.counts import Frequencies


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
        from freqdp_db.frequency.signatures import rank_places
        from freqdp_db.mechanisms.global_tf import perturb_tf

        candidates = rank_places(state.frequencies, options.signature).candidates
        return perturb_tf(state.frequencies, candidates, Fraction(options.epsilon_global), source)

    def carry_out(
        self, world: World, state: State, drawn: TfTargets, options: GlobalOptions
    ) -> tuple[Edits, State]:
        from freqdp_db.edits.applying import delete, insert
        from freqdp_db.edits.deletion import delete_globally
        from freqdp_db.edits.insertion import insert_globally, search_in_memory

        before = state.trajectories
        deletions = delete_globally(before, state.places, state.frequencies, drawn, state.rank)
        thinned = delete(before, deletions)
        insertions = insert_globally(
            thinned, state.places, drawn, state.rank, world.clock, world.search or search_in_memory
        )
        after = insert(thinned, insertions, state.places, world.clock, key_of(drawn))
        return Edits(deletions, insertions), edited(state, after)

    def reached(self, frequencies: Frequencies, drawn: TfTargets) -> Ints:
        return reached_tf(frequencies, drawn)

    def was_and_target(self, drawn: TfTargets) -> tuple[Ids, Ids]:
        return drawn.tf, drawn.target

    def user_level(
        self, state: State, drawn: TfTargets, options: GlobalOptions
    ) -> dict[str, float]:
        frequencies = state.frequencies
        candidate = np.zeros(len(frequencies.tf), np.bool_)
        candidate[drawn.location] = True
        visited = np.add.reduceat(
            np.append(candidate[frequencies.location], False).astype(np.int64),
            frequencies.offsets[:-1],
        )
        visited[np.diff(frequencies.offsets) == 0] = 0
        return user_costs("candidates", visited, options.epsilon_global)
