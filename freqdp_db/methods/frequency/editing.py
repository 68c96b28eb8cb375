"""Steps that edit trajectories until targets of frequencies hold: what they share."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import EditLog, Edits, EditTotals, PfTargets, TfTargets
from freqdp_db.columns.trajectories import Clock
from freqdp_db.engines.partitions import Partitions
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import (
    Columns,
    Counts,
    Drawn,
    Options,
    State,
    Step,
    World,
    falling_times,
    require_none_falling,
)

if TYPE_CHECKING:
    from freqdp_db.edits.applying import Edited
    from freqdp_db.frequency.partition import Partition

_EVEN_TIMES = frozenset({"0.1.0", "0.2.0"})
"""Software that spread inserted samples evenly: its releases are replayed so."""


def finished(state: State, edited: Partitions[Edited]) -> tuple[EditLog, State]:
    """What a step did, and the state after it."""
    from freqdp_db.frequency.partition import trajectories_in

    after = trajectories_in(edited.map(_after_of))
    return log_of(edited.map(_edits_of)), State(after, state.places, state.key)


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
    world: World, state: State, targets: PfTargets, spread_mm: int
) -> tuple[EditLog, State]:
    """Edit every trajectory until its own targets hold."""
    from freqdp_db.edits.deletion import delete_locally
    from freqdp_db.edits.insertion import insert_locally

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
    def reached(self, state: State, drawn: Drawn) -> Ints:
        """The frequency of each place that has a target."""

    @abstractmethod
    def was_and_target(self, drawn: Drawn) -> tuple[Ids, Ids]:
        """Each frequency that a target was drawn from, and the target."""

    def replay(
        self, world: World, state: State, drawn: Drawn, logged: EditLog, options: Options
    ) -> State:
        from freqdp_db.frequency.partition import trajectories_in

        key = None if world.drawn_by in _EVEN_TIMES else key_of(drawn)
        after = state.partitions.map(_replay, logged.partitions, world.clock, key)
        return State(trajectories_in(after), state.places, state.key)

    def check(
        self,
        world: World,
        before: State,
        drawn: Drawn,
        logged: EditLog,
        after: State,
        options: Options,
    ) -> dict[str, int]:
        missed = int((self.reached(after, drawn) != self.was_and_target(drawn)[1]).sum())
        if missed:
            raise VerificationFailed(f"{missed:,} of {len(drawn):,} targets do not hold")
        require_none_falling(sum(after.partitions.map(_falling_of)))
        return {
            "edits": logged.deletions.edits + logged.insertions.edits,
            "targets": len(drawn),
        }

    def require_drawn_from(self, world: World, state: State, drawn: Drawn) -> None:
        if not (self.reached(state, drawn) == self.was_and_target(drawn)[0]).all():
            raise VerificationFailed("its targets were drawn from other data")

    def counts(
        self, drawn: Drawn, logged: EditLog, before: State, after: State, options: Options
    ) -> Counts:
        return {
            "deletions": logged.deletions.edits,
            "insertions": logged.insertions.edits,
            "deletion_loss_m": logged.deletions.loss_m,
            "insertion_loss_m": logged.insertions.loss_m,
        }

    def describe(self, drawn: int, counts: Counts) -> str:
        parts = []
        for name, verb in (("deletion", "deleted"), ("insertion", "inserted")):
            count, loss = int(counts[f"{name}s"]), counts[f"{name}_loss_m"]
            mean = f" at {loss / count:,.0f} m mean loss" if count else ""
            parts.append(f"{count:,} samples {verb}{mean}")
        return f"{drawn:,} targets, {', '.join(parts)}"


def reached_tf(state: State, targets: TfTargets) -> Ints:
    """TF of each location of the targets; -1 for a location that does not exist."""
    tf = state.tf
    known = (targets.location >= 0) & (targets.location < len(tf))
    place = np.where(known, targets.location, 0)
    return np.where(known, tf[place], -1).astype(np.int64)


def reached_pf(state: State, targets: PfTargets) -> Ints:
    """PF of each (trajectory, location) of the targets; 0 where it is absent."""
    from freqdp_db.edits.applying import split

    partitions = state.partitions
    found = np.zeros(len(targets), np.int64)
    pf_of_each = partitions.map(_pf_of, split(targets, partitions.ranges))
    for (first, last), pf in zip(partitions.ranges, pf_of_each, strict=True):
        lo, hi = np.searchsorted(targets.trajectory, [first, last])
        found[lo:hi] = pf
    return found


def _pf_of(partition: Partition, targets: PfTargets) -> Ints:
    from freqdp_db.methods.frequency.possible import reached_pf

    return reached_pf(partition.frequencies, targets)


def _falling_of(partition: Partition) -> int:
    return falling_times(partition.trajectories)


def _replay(partition: Partition, edits: Edits, clock: Clock, key: np.uint64 | None) -> Partition:
    """The partition after edits that were stored; raises VerificationFailed if they cannot be."""
    from freqdp_db.edits.applying import apply_edits
    from freqdp_db.methods.frequency.possible import require_possible

    own = edits.shifted(-partition.first)
    require_possible(partition.trajectories, own, len(partition.places))
    return apply_edits(partition, own, clock, key)
