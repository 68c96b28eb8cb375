"""The steps of the paper, `global` and `local`: draw targets of frequencies, edit until they hold."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from freqdp_db.engines.partitions import Partitions
from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.methods.contract import (
    Columns,
    Counts,
    Drawn,
    Options,
    Recorded,
    Step,
    StepContext,
    Taken,
    WorkingSet,
    count_decreasing_times,
    require_none_falling,
)
from freqdp_db.methods.kinds import WIDEST_M, Number, Whole
from freqdp_db.methods.parameters import MAX_EPSILON, parameter
from freqdp_db.model.arrays import Ids, Ints
from freqdp_db.model.edits import MM_PER_M, EditLog, Edits, EditTotals, PfTargets, TfTargets
from freqdp_db.model.trajectories import Clock
from freqdp_db.privacy.noise import RandomSource

if TYPE_CHECKING:
    from freqdp_db.methods.frequency.applying import Edited
    from freqdp_db.methods.frequency.partition import Partition


def finished(state: WorkingSet, edited: Partitions[Edited]) -> tuple[EditLog, WorkingSet]:
    """What a step did, and the state after it."""
    from freqdp_db.methods.frequency.partition import trajectories_in

    after = trajectories_in(edited.map(_after_of))
    return log_of(edited.map(_edits_of)), WorkingSet(after, state.places, state.key)


def _after_of(edited: Edited) -> Partition:
    return edited.after


def _edits_of(edited: Edited) -> Edits:
    return edited.edits


def log_of(edits: Partitions[Edits]) -> EditLog:
    """The log of edits that are kept in partitions."""
    totals = list(edits.map(_totals_of))
    deletions, insertions = (
        EditTotals(sum(t.edits for t in kind), sum(t.loss_mm for t in kind))
        for kind in zip(*totals, strict=True)
    )
    return EditLog(edits, deletions, insertions)


def _totals_of(edits: Edits) -> tuple[EditTotals, EditTotals]:
    return edits.deletions.totals(), edits.insertions.totals()


def edit_locally(
    world: StepContext, state: WorkingSet, targets: PfTargets, spread_mm: int
) -> tuple[EditLog, WorkingSet]:
    """Edit every trajectory until its own targets hold."""
    from freqdp_db.methods.frequency.deletion import delete_locally
    from freqdp_db.methods.frequency.insertion import insert_locally

    thinned = delete_locally(state.partitions, targets)
    return finished(
        state, insert_locally(thinned, targets, spread_mm, world.clock, key_of(targets))
    )


def key_of(drawn: Columns) -> np.uint64:
    """Picks the times of inserted samples: nobody knows it who does not know all that was drawn."""
    told = hashlib.blake2b(digest_size=8)
    for field in fields(drawn):
        told.update(getattr(drawn, field.name).astype("<i8").tobytes())
    return np.uint64(int.from_bytes(told.digest(), "little"))


class EditingStep(Step[Options, Drawn, EditLog]):
    """A step whose log is deletions and insertions, and whose draw is targets."""

    logs = EditLog
    partitioned = True
    checked: ClassVar[dict[str, str]] = {
        "edits": "edits replayed",
        "targets": "targets hold exactly",
    }

    @abstractmethod
    def reached(self, state: WorkingSet, drawn: Drawn) -> Ints:
        """The frequency of each place that has a target."""

    @abstractmethod
    def was_and_target(self, drawn: Drawn) -> tuple[Ids, Ids]:
        """Each frequency that a target was drawn from, and the target."""

    def replay(self, done: Recorded[Options, Drawn, EditLog]) -> WorkingSet:
        from freqdp_db.methods.frequency.partition import trajectories_in

        after = done.before.partitions.map(
            _replay, done.logged.partitions, done.world.clock, key_of(done.drawn)
        )
        return WorkingSet(trajectories_in(after), done.before.places, done.before.key)

    def check(self, done: Taken[Options, Drawn, EditLog]) -> dict[str, int]:
        missed = int(
            (self.reached(done.after, done.drawn) != self.was_and_target(done.drawn)[1]).sum()
        )
        if missed:
            raise VerificationFailed(f"{missed:,} of {len(done.drawn):,} targets do not hold")
        require_none_falling(sum(done.after.partitions.map(_falling_of)))
        return {
            "edits": done.logged.deletions.edits + done.logged.insertions.edits,
            "targets": len(done.drawn),
        }

    def require_drawn_from(self, world: StepContext, state: WorkingSet, drawn: Drawn) -> None:
        if not (self.reached(state, drawn) == self.was_and_target(drawn)[0]).all():
            raise VerificationFailed("its targets were drawn from other data")

    def counts(self, done: Taken[Options, Drawn, EditLog]) -> Counts:
        return {
            "deletions": done.logged.deletions.edits,
            "insertions": done.logged.insertions.edits,
            "deletion_loss_m": done.logged.deletions.loss_m,
            "insertion_loss_m": done.logged.insertions.loss_m,
        }

    def describe(self, drawn: int, counts: Counts) -> str:
        parts = []
        for name, verb in (("deletion", "deleted"), ("insertion", "inserted")):
            count, loss = int(counts[f"{name}s"]), counts[f"{name}_loss_m"]
            mean = f" at {loss / count:,.0f} m mean loss" if count else ""
            parts.append(f"{count:,} samples {verb}{mean}")
        return f"{drawn:,} targets, {', '.join(parts)}"


def reached_tf(state: WorkingSet, targets: TfTargets) -> Ints:
    """TF of each location of the targets; -1 for a location that does not exist."""
    tf = state.tf
    known = (targets.location >= 0) & (targets.location < len(tf))
    place = np.where(known, targets.location, 0)
    return np.where(known, tf[place], -1).astype(np.int64)


def reached_pf(state: WorkingSet, targets: PfTargets) -> Ints:
    """PF of each (trajectory, location) of the targets; 0 where it is absent."""
    from freqdp_db.methods.frequency.applying import split

    partitions = state.partitions
    found = np.zeros(len(targets), np.int64)
    pf_of_each = partitions.map(_pf_of, split(targets, partitions.ranges))
    for (first, last), pf in zip(partitions.ranges, pf_of_each, strict=True):
        lo, hi = np.searchsorted(targets.trajectory, [first, last])
        found[lo:hi] = pf
    return found


def _pf_of(partition: Partition, targets: PfTargets) -> Ints:
    from freqdp_db.methods.frequency.applying import pf_of_targets

    return pf_of_targets(partition.frequencies, targets)


def _falling_of(partition: Partition) -> int:
    return count_decreasing_times(partition.trajectories)


def _replay(partition: Partition, edits: Edits, clock: Clock, key: np.uint64) -> Partition:
    """The partition after edits that were stored; raises VerificationFailed if they cannot be."""
    from freqdp_db.methods.frequency.applying import apply_edits, require_possible

    own = edits.shifted(-partition.first)
    require_possible(partition.trajectories, own, len(partition.places))
    return apply_edits(partition, own, clock, key)


# What the steps `local` and `global` declare alike.


# a half of a total has one decimal more
EPSILON_SHARE = Number(MAX_EPSILON, "0.5", decimals=10)
SIGNATURE = (Whole(1, 10_000, "10"), "m: size of a signature.", 10)


def user_costs(what: str, per_user: NDArray[Any], epsilon: Decimal) -> dict[str, float]:
    """What a whole user costs: epsilon for each unit that is the user's."""
    mean, most = float(per_user.sum() / max(len(per_user), 1)), int(per_user.max(initial=0))
    return {
        f"{what}_per_user_mean": mean,
        f"{what}_per_user_max": most,
        "epsilon_per_user_mean": float(epsilon) * mean,
        "epsilon_per_user_max": float(epsilon) * most,
    }


# The step `global`: how many objects visit each signature place (Alg. 1).


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
        self, world: StepContext, state: WorkingSet, options: GlobalOptions, source: RandomSource
    ) -> TfTargets:
        """Alg. 1, lines 1-6: perturb the TF of every place that is in a signature."""
        from freqdp_db.methods.frequency.perturbation import perturb_tf
        from freqdp_db.methods.frequency.ranking import candidates_in, rank_signatures

        tf = world.tf_of(state)
        candidates = candidates_in(rank_signatures(state, tf, options.signature))
        epsilon = Fraction(options.epsilon_global)
        return perturb_tf(tf, len(state.trajectories), candidates, epsilon, source)

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: TfTargets, options: GlobalOptions
    ) -> tuple[EditLog, WorkingSet]:
        """Alg. 1, line 7 (GlobalEdit): delete where TF must fall, then insert where it must grow."""
        from freqdp_db.methods.frequency.deletion import delete_globally
        from freqdp_db.methods.frequency.insertion import insert_globally, search_in_memory

        search = world.search or search_in_memory
        thinned = delete_globally(state.partitions, drawn, state.rank)
        edited = insert_globally(thinned, drawn, state.rank, world.clock, key_of(drawn), search)
        return finished(state, edited)

    def reached(self, state: WorkingSet, drawn: TfTargets) -> Ints:
        return reached_tf(state, drawn)

    def was_and_target(self, drawn: TfTargets) -> tuple[Ids, Ids]:
        return drawn.tf, drawn.target

    def user_level(
        self, state: WorkingSet, drawn: TfTargets, options: GlobalOptions
    ) -> dict[str, float]:
        from freqdp_db.methods.frequency.ranking import visits_of

        candidate = np.zeros(len(state.places), np.bool_)
        candidate[drawn.location] = True
        visited = np.concatenate(list(state.partitions.map(visits_of, candidate)))
        return user_costs("candidates", visited, options.epsilon_global)


# The step `local`: how often each object visits its listed places (Alg. 2).


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
            from freqdp_db.methods.frequency.insertion import PAPER_SPREAD_MM

            return PAPER_SPREAD_MM
        return int(self.spread * int(MM_PER_M))


class LocalStep(EditingStep[LocalOptions, PfTargets]):
    name = "local"
    words = "how often each object visits its listed places"
    options = LocalOptions
    draws = PfTargets

    def draw(
        self, world: StepContext, state: WorkingSet, options: LocalOptions, source: RandomSource
    ) -> PfTargets:
        """Alg. 2, lines 1-18: perturb the PF of 2m places of every trajectory."""
        from freqdp_db.methods.frequency.perturbation import perturb_lists
        from freqdp_db.methods.frequency.ranking import candidates_in, lists_of, rank_signatures

        ranked = rank_signatures(state, world.tf_of(state), options.signature)
        # one partition after the other: what is picked from is never here all at once
        lists = ranked.map(lists_of, candidates_in(ranked))
        return perturb_lists(lists, options.signature, Fraction(options.epsilon_local), source)

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: PfTargets, options: LocalOptions
    ) -> tuple[EditLog, WorkingSet]:
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

    def reached(self, state: WorkingSet, drawn: PfTargets) -> Ints:
        return reached_pf(state, drawn)

    def was_and_target(self, drawn: PfTargets) -> tuple[Ids, Ids]:
        return drawn.pf, drawn.target

    def user_level(
        self, state: WorkingSet, drawn: PfTargets, options: LocalOptions
    ) -> dict[str, float]:
        listed = np.bincount(drawn.trajectory, weights=drawn.pf, minlength=len(state.trajectories))
        return user_costs("listed_occurrences", listed, options.epsilon_local)
