"""The step `global`: how many objects visit each signature place (Alg. 1)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import Edits, TfTargets
from freqdp_db.engines.ranges import either
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods.contract import State, World
from freqdp_db.methods.frequency.editing import EditingStep, finished, reached_tf
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
        from freqdp_db.mechanisms.global_tf import perturb_tf
        from freqdp_db.methods.frequency.parts import candidates_of, rank

        ranked = state.parts.then(rank, state.parts.share(state.known), options.signature)
        candidates = either(list(ranked.each(candidates_of)))
        return perturb_tf(
            state.known.frequencies(), candidates, Fraction(options.epsilon_global), source
        )

    def carry_out(
        self, world: World, state: State, drawn: TfTargets, options: GlobalOptions
    ) -> tuple[Edits, State]:
        from freqdp_db.edits import deletion, insertion
        from freqdp_db.methods.frequency import parts

        held, places = state.parts, state.shared_places
        ranges, rank = held.ranges, held.share(state.rank)
        own_rank = parts.column_of(state.rank, ranges)
        drop = held.share(deletion.to_drop(drawn, len(state.places)))
        carriers = held.then(parts.carriers_of, places, drop, own_rank).fold(
            deletion.merge_carriers, drop, rank
        )
        thin = held.then(parts.thin, places, parts.share_of(carriers, ranges))
        search = world.search or insertion.search_in_memory
        wanted, more = held.share(drawn), held.share(insertion.growth(drawn)[1])
        takers = thin.then(parts.takers_of, places, wanted, own_rank, search).fold(
            insertion.merge_takers, more, rank
        )
        runs = insertion.insertions_into(takers, drawn, state.rank)
        done = thin.then(parts.thicken, places, parts.runs_of(runs, ranges), world.clock)
        return finished(state, done)

    def reached(self, state: State, drawn: TfTargets) -> Ints:
        return reached_tf(state, drawn)

    def was_and_target(self, drawn: TfTargets) -> tuple[Ids, Ids]:
        return drawn.tf, drawn.target

    def user_level(
        self, state: State, drawn: TfTargets, options: GlobalOptions
    ) -> dict[str, float]:
        from freqdp_db.methods.frequency.parts import visits_of

        candidate = np.zeros(len(state.places), np.bool_)
        candidate[drawn.location] = True
        visited = np.concatenate(list(state.parts.each(visits_of, state.parts.share(candidate))))
        return user_costs("candidates", visited, options.epsilon_global)
