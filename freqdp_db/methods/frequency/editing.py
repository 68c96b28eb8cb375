"""Steps that edit trajectories until targets of frequencies hold: what they share."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import EditRuns, Edits, PfTargets, TfTargets
from freqdp_db.columns.ragged import owners
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import (
    Columns,
    Counts,
    Drawn,
    Options,
    State,
    Step,
    World,
    require_ordered,
)

if TYPE_CHECKING:
    from freqdp_db.frequency.counts import Frequencies


_EVEN_TIMES = frozenset({"0.1.0"})
"""Software that spread inserted samples evenly: its releases are replayed so."""


def edited(state: State, trajectories: Trajectories) -> State:
    """The state with other samples in the same trajectories."""
    return State(trajectories, state.places, state.key)


def key_of(drawn: Columns) -> np.uint64:
    """Picks the times of inserted samples: nobody knows it who does not know all that was drawn."""
    told = hashlib.blake2b(digest_size=8)
    for field in fields(drawn):
        told.update(getattr(drawn, field.name).astype("<i8").tobytes())
    return np.uint64(int.from_bytes(told.digest(), "little"))


class EditingStep(Step[Options, Drawn, Edits]):
    """A step whose log is deletions and insertions, and whose draw is targets."""

    logs = Edits
    checked: ClassVar[dict[str, str]] = {
        "edits": "edits replayed",
        "targets": "targets hold exactly",
    }

    @abstractmethod
    def reached(self, frequencies: Frequencies, drawn: Drawn) -> Ints:
        """The frequency of each place that has a target."""

    @abstractmethod
    def was_and_target(self, drawn: Drawn) -> tuple[Ids, Ids]:
        """Each frequency that a target was drawn from, and the target."""

    def replay(
        self, world: World, state: State, drawn: Drawn, logged: Edits, options: Options
    ) -> State:
        from freqdp_db.edits.applying import apply_edits

        require_possible(state.trajectories, logged, len(state.places))
        key = None if world.drawn_by in _EVEN_TIMES else key_of(drawn)
        after = apply_edits(state.trajectories, logged, state.places, world.clock, key)
        return edited(state, after)

    def check(
        self,
        world: World,
        before: State,
        drawn: Drawn,
        logged: Edits,
        after: State,
        options: Options,
    ) -> dict[str, int]:
        missed = int(
            (self.reached(after.frequencies, drawn) != self.was_and_target(drawn)[1]).sum()
        )
        if missed:
            raise VerificationFailed(f"{missed:,} of {len(drawn):,} targets do not hold")
        require_ordered(after)
        return {
            "edits": logged.deletions.edits + logged.insertions.edits,
            "targets": len(drawn),
        }

    def require_drawn_from(self, world: World, state: State, drawn: Drawn) -> None:
        if not (self.reached(state.frequencies, drawn) == self.was_and_target(drawn)[0]).all():
            raise VerificationFailed("its targets were drawn from other data")

    def counts(self, drawn: Drawn, logged: Edits, before: State, after: State) -> Counts:
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


def reached_tf(frequencies: Frequencies, targets: TfTargets) -> Ints:
    """TF of each location of the targets; -1 for a location that does not exist."""
    known = (targets.location >= 0) & (targets.location < len(frequencies.tf))
    place = np.where(known, targets.location, 0)
    return np.where(known, frequencies.tf[place], -1).astype(np.int64)


def reached_pf(frequencies: Frequencies, targets: PfTargets) -> Ints:
    """PF of each (trajectory, location) of the targets; 0 where it is absent."""
    places = len(frequencies.tf)
    known = owners(frequencies.offsets).astype(np.int64) * places + frequencies.location
    wanted = targets.trajectory.astype(np.int64) * places + targets.location
    if len(known) == 0:
        return np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, frequencies.pf[at], 0).astype(np.int64)


def require_possible(state: Trajectories, edits: Edits, places: int) -> None:
    """Every deletion names a sample that is at its place; every insertion goes between samples.

    The kernels that apply the edits take this for granted.
    """
    for runs in (edits.deletions, edits.insertions):
        known = (runs.trajectory >= 0) & (runs.trajectory < len(state))
        known &= (runs.location >= 0) & (runs.location < places)
        if not known.all():
            raise VerificationFailed("the log names trajectories or places of no build")
    owner, place, position = _one_by_one(edits.deletions)
    if not ((position >= 0) & (position < state.lengths[owner])).all():
        raise VerificationFailed("the log deletes samples that do not exist")
    at = state.offsets[owner] + position
    keep = np.ones(state.samples + 1, np.bool_)
    keep[at] = False
    gone = len(keep) - np.count_nonzero(keep)
    if not (state.location[at] == place).all() or gone != len(at):
        raise VerificationFailed("the log deletes samples of other places, or twice")
    left = state.lengths - np.bincount(owner, minlength=len(state))
    # the last sample that is left ends no segment, unless it is the only one
    last = np.flatnonzero(keep)[np.cumsum(left) - 1] - state.offsets[:-1]
    owner, place, position = _one_by_one(edits.insertions)
    inside = (position >= 0) & (position < state.lengths[owner])
    survives = keep[np.where(inside, state.offsets[owner] + position, state.samples)]
    follows = inside & survives & ((position != last[owner]) | (left[owner] == 1))
    if not np.where(left[owner] == 0, position == -1, follows).all():
        raise VerificationFailed("the log inserts after samples that are not there")


def _one_by_one(runs: EditRuns) -> tuple[Ids, Ids, Ids]:
    """Trajectory, location and position of each edit."""
    counts = np.diff(runs.offsets)
    return np.repeat(runs.trajectory, counts), np.repeat(runs.location, counts), runs.position
