"""The paper's methods: the steps `global` (Alg. 1) and `local` (Alg. 2), and what they guarantee.

A step draws targets of frequencies, then edits trajectories until the targets hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from freqdp_db.engines.partitions import Partitions
from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.methods.contract import (
    AnyStep,
    Columns,
    CompletedStep,
    Counts,
    Drawn,
    Method,
    Options,
    Step,
    StepContext,
    StoredStep,
    WorkingSet,
    count_decreasing_times,
    require_ascending_times,
)
from freqdp_db.methods.kinds import WIDEST_M, Number, Whole, plain
from freqdp_db.methods.parameters import MAX_EPSILON, parameter
from freqdp_db.model.arrays import Flags, Ints, owners
from freqdp_db.model.trajectories import (
    MM_PER_M,
    Clock,
    EditLog,
    Edits,
    EditTotals,
    PfTargets,
    Targets,
    TfTargets,
)
from freqdp_db.privacy.accounting import Mechanism
from freqdp_db.privacy.guarantee import (
    NOTHING_CLAIMED,
    TABLE_NOT_DP,
    Declare,
    Guarantee,
    ProtectedUnit,
)
from freqdp_db.privacy.noise import RandomSource

if TYPE_CHECKING:
    from freqdp_db.methods.frequency.applying import Edited
    from freqdp_db.methods.frequency.partition import Partition

# a half of a total has one decimal more
_EPSILON_SHARE = Number(MAX_EPSILON, "0.5", decimals=10)
SIGNATURE = (Whole(1, 10_000, "10"), "m: size of a signature.", 10)


class EditingStep(Step[Options, Drawn, EditLog]):
    """A step whose draw is targets, and whose log is deletions and insertions."""

    logs = EditLog
    partitioned = True
    keeps_columns = True
    checked: ClassVar[dict[str, str]] = {
        "edits": "edits replayed",
        "targets": "targets hold exactly",
    }

    def replay(self, done: StoredStep[Options, Drawn, EditLog]) -> WorkingSet:
        from freqdp_db.methods.frequency.partition import trajectories_in

        after = done.before.partitions.map(
            _replay, done.logged.partitions, done.world.clock, key_of(done.drawn)
        )
        return WorkingSet(trajectories_in(after), done.before.places, done.before.key)

    def check(self, done: CompletedStep[Options, Drawn, EditLog]) -> dict[str, int]:
        targets: Any = done.drawn
        missed = int((_frequencies(done.after, targets) != targets.target).sum())
        if missed:
            raise VerificationFailed(f"{missed:,} of {len(targets):,} targets do not hold")
        require_ascending_times(sum(done.after.partitions.map(_falling)))
        return {"edits": len(done.logged), "targets": len(targets)}

    def require_drawn_from(self, world: StepContext, state: WorkingSet, drawn: Any) -> None:
        was = drawn.tf if isinstance(drawn, TfTargets) else drawn.pf
        if not (_frequencies(state, drawn) == was).all():
            raise VerificationFailed("its targets were drawn from other data")

    def counts(self, done: CompletedStep[Options, Drawn, EditLog]) -> Counts:
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


def _frequencies(state: WorkingSet, targets: Targets) -> Ints:
    """Current TF of each target's location (-1: no such location), or current PF (0: not in the
    trajectory)."""
    if isinstance(targets, TfTargets):
        tf = state.tf
        known = (targets.location >= 0) & (targets.location < len(tf))
        return np.where(known, tf[np.where(known, targets.location, 0)], -1).astype(np.int64)
    from freqdp_db.methods.frequency.applying import split

    partitions = state.partitions
    found = np.zeros(len(targets), np.int64)
    pf_of_each = partitions.map(_pf, split(targets, partitions.ranges))
    for (first, last), pf in zip(partitions.ranges, pf_of_each, strict=True):
        lo, hi = np.searchsorted(targets.trajectory, [first, last])
        found[lo:hi] = pf
    return found


def _pf(partition: Partition, targets: PfTargets) -> Ints:
    from freqdp_db.methods.frequency.applying import pf_of_targets

    return pf_of_targets(partition.frequencies, targets)


def _falling(partition: Partition) -> int:
    return count_decreasing_times(partition.trajectories)


def _replay(partition: Partition, edits: Edits, clock: Clock, key: np.uint64) -> Partition:
    """The partition after stored edits; raises VerificationFailed if they are impossible."""
    from freqdp_db.methods.frequency.applying import apply_edits, require_possible

    own = edits.shifted(-partition.first)
    require_possible(partition.trajectories, own, len(partition.places))
    return apply_edits(partition, own, clock, key)


def key_of(drawn: Columns) -> np.uint64:
    """Key of the times of inserted samples. Only those who know the whole draw can compute it."""
    hashed = hashlib.blake2b(digest_size=8)
    for field in fields(drawn):
        hashed.update(getattr(drawn, field.name).astype("<i8").tobytes())
    return np.uint64(int.from_bytes(hashed.digest(), "little"))


def result_of(state: WorkingSet, edited: Partitions[Edited]) -> tuple[EditLog, WorkingSet]:
    """The log of a step and the state after it."""
    from freqdp_db.methods.frequency.partition import trajectories_in

    after = trajectories_in(edited.map(attrgetter("after")))
    log = log_of(edited.map(attrgetter("edits")))
    return log, WorkingSet(after, state.places, state.key)


def log_of(edits: Partitions[Edits]) -> EditLog:
    """The log of edits that are kept in partitions."""
    deletions, insertions = (
        EditTotals(sum(t.edits for t in kind), sum(t.loss_mm for t in kind))
        for kind in zip(*edits.map(_totals), strict=True)
    )
    return EditLog(edits, deletions, insertions)


def _totals(edits: Edits) -> tuple[EditTotals, EditTotals]:
    return edits.deletions.totals(), edits.insertions.totals()


def edit_locally(
    world: StepContext, state: WorkingSet, targets: PfTargets, spread_mm: int
) -> tuple[EditLog, WorkingSet]:
    """Edit every trajectory until its own targets hold."""
    from freqdp_db.methods.frequency.deletion import delete_locally
    from freqdp_db.methods.frequency.insertion import insert_locally

    thinned = delete_locally(state.partitions, targets)
    return result_of(
        state, insert_locally(thinned, targets, spread_mm, world.clock, key_of(targets))
    )


def _user_costs(what: str, per_user: NDArray[Any], epsilon: Decimal) -> dict[str, float]:
    """What whole users cost: epsilon times the number of units of each user."""
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
        _EPSILON_SHARE, "For the trajectory frequencies.", share_of="epsilon"
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
        from freqdp_db.methods.frequency.perturbation import (
            candidates_in,
            perturb_tf,
            rank_signatures,
        )

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
        return result_of(state, edited)

    def user_level(
        self, state: WorkingSet, drawn: TfTargets, options: GlobalOptions
    ) -> dict[str, float]:
        candidate = np.zeros(len(state.places), np.bool_)
        candidate[drawn.location] = True
        visited = np.concatenate(list(state.partitions.map(_visits, candidate)))
        return _user_costs("candidates", visited, options.epsilon_global)


def _visits(partition: Partition, chosen: Flags) -> Ints:
    """Number of chosen places that each trajectory visits."""
    frequencies = partition.frequencies
    visitor = owners(frequencies.offsets)[chosen[frequencies.location]]
    return np.bincount(visitor, minlength=len(partition.trajectories))


# The step `local`: how often each object visits its listed places (Alg. 2).


_MANY_INSERTIONS = 10_000_000
_INSERTIONS_PER_SAMPLE = 50
"""Requests that would insert more than _MANY_INSERTIONS plus this many per sample are refused."""


@dataclass(frozen=True)
class LocalOptions:
    epsilon_local: Decimal = parameter(
        _EPSILON_SHARE, "For the point frequencies.", share_of="epsilon"
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
        from freqdp_db.methods.frequency.perturbation import (
            candidates_in,
            lists_of,
            perturb_lists,
            rank_signatures,
        )

        ranked = rank_signatures(state, world.tf_of(state), options.signature)
        # partitions are read one by one, so that only one list of candidates is in memory
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

    def user_level(
        self, state: WorkingSet, drawn: PfTargets, options: LocalOptions
    ) -> dict[str, float]:
        listed = np.bincount(drawn.trajectory, weights=drawn.pf, minlength=len(state.trajectories))
        return _user_costs("listed_occurrences", listed, options.epsilon_local)


# What the paper's methods guarantee: each mechanism for its own vector, nothing for the table.


_NEIGHBOURING = "added or removed; moved counts as two"
ASSUMED_PUBLIC = (
    "the locations that can occur, and which of them are candidates or listed",
    "the number of objects",
    "the parameters of the release",
)
NOT_PROTECTED = (
    "untouched samples, with their times and the gaps that deletions leave",
    "which locations are candidates or listed: they are chosen from the data",
    "the number of objects, and which samples an edit fell on",
    "the join of several releases of one source through their untouched samples",
)
TABLE = "The table of trajectories"
_LISTS = "the lists of places taken as fixed: they are chosen from the data, without noise"
_TITLES = {
    "tf_vector": "How many objects visit each signature place (TF)",
    "pf_vectors": "How often each object visits its listed places (PF)",
    "both_vectors": "Both of these together",
    "trajectories": TABLE,
}
PAPER = (
    "Method: F. Jin, W. Hua, B. Ruan, X. Zhou, Frequency-based Randomization for Guaranteeing "
    "Differential Privacy in Spatial Trajectories, ICDE 2022. What is claimed here is narrower "
    "than that title."
)


def _artefact(mechanism: Mechanism, epsilon: Decimal) -> dict[str, Any]:
    """The claim of one mechanism for its vector, at the epsilon that it was given."""
    number = plain(epsilon)
    return {
        "unit": mechanism.unit,
        "neighbouring": _NEIGHBOURING,
        "claimed_epsilon": number,
        "accounted_epsilon": number,
        "assumes": mechanism.assumes,
        "whole_user": f"{number} times {mechanism.whole_user}",
    }


def frequency_guarantee(*, global_held: bool = False) -> Declare:
    """The guarantee of the paper's methods.

    global_held: the local step reads the output of the global step, which the claim has to hold fixed.
    """

    def declare(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
        from freqdp_db.methods.frequency.perturbation import pf_mechanism, tf_mechanism

        for_global, for_local = values.get("epsilon_global"), values.get("epsilon_local")
        artefacts: dict[str, dict[str, Any]] = {}
        parts = []
        if for_global is not None:
            artefacts["tf_vector"] = _artefact(tf_mechanism(Fraction(for_global)), for_global)
            parts.append(
                f"how many objects visit each signature place was perturbed with epsilon "
                f"{plain(for_global)} per (object, place) incidence"
            )
        if for_local is not None:
            # neither the unit nor the words depend on m
            local = _artefact(pf_mechanism(Fraction(for_local), 1), for_local)
            held = ""
            if global_held:
                local["accounted_epsilon"] = None
                local["assumes"] += "; the output of the global step is held fixed"
                held = ", the global step's output held fixed"
            artefacts["pf_vectors"] = local
            parts.append(
                f"how often each object visits its listed places was perturbed with epsilon "
                f"{plain(for_local)} per occurrence{held}"
            )
        if for_global is not None and for_local is not None:
            artefacts["both_vectors"] = {
                "unit": "one occurrence of a location in one trajectory",
                "neighbouring": _NEIGHBOURING,
                "claimed_epsilon": plain(for_global + for_local),
                "accounted_epsilon": None if global_held else plain(max(for_global, for_local)),
                "assumes": "all lists and the number of objects are fixed and every listed count stays at "
                "least 1",
            }
        artefacts["trajectories"] = NOTHING_CLAIMED
        sentence = " and ".join(parts)
        nothing = Decimal(0)
        return Guarantee(
            plain=[f"{sentence[0].upper()}{sentence[1:]}, {_LISTS}.", TABLE_NOT_DP],
            artefacts=artefacts,
            titles=_TITLES,
            assumed_public=ASSUMED_PUBLIC,
            not_protected=NOT_PROTECTED,
            noise="discrete Laplace, exact, from the operating system's randomness",
            spends={
                "epsilon": plain((for_global or nothing) + (for_local or nothing)),
                "epsilon_global": plain(for_global or nothing),
                "epsilon_local": plain(for_local or nothing),
            },
            origin=PAPER,
        )

    return declare


def _method(name: str, summary: str, *steps: AnyStep, global_held: bool = False) -> Method:
    return Method(
        name,
        summary,
        steps,
        kind="edited",
        guarantee=frequency_guarantee(global_held=global_held),
        unit="occurrence",
    )


FREQUENCY = (
    _method(
        "lg", "local PF randomization, then global TF randomization", LocalStep(), GlobalStep()
    ),
    _method(
        "gl",
        "global TF randomization, then local PF randomization",
        GlobalStep(),
        LocalStep(),
        global_held=True,
    ),
    _method("pure-g", "global TF randomization only", GlobalStep()),
    _method("pure-l", "local PF randomization only", LocalStep()),
)
