"""Steps that edit trajectories until targets of frequencies hold: what they share."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from dataclasses import fields
from typing import ClassVar

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import Edits, PfTargets, TfTargets
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.held import Held, Here
from freqdp_db.engines.spread import Spread, SpreadEdits, SpreadRuns
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import (
    Columns,
    Counts,
    Drawn,
    Options,
    State,
    Step,
    World,
    require_none_falling,
)


def edited(state: State, parts: Held) -> State:
    """The state with other samples in the same trajectories."""
    from freqdp_db.frequency.parts import lengths_of

    if isinstance(parts, Here):
        trajectories: Trajectories = parts.thing(0).trajectories
    else:
        lengths = np.concatenate(list(parts.each(lengths_of)))
        trajectories = Spread(offsets_from(lengths), parts, state.shared_places)
    return State(trajectories, state.places, state.key)


def logged_of(edits: Held) -> Edits:
    """The log of edits that are kept in parts; where there is one part, here, it is the edits."""
    from freqdp_db.methods.frequency.parts import totals_of

    if isinstance(edits, Here):
        whole: Edits = edits.thing(0)
        return whole
    totals = np.sum(list(edits.each(totals_of)), axis=0)
    deletions, insertions = (SpreadRuns(*map(int, row)) for row in totals)
    return SpreadEdits(deletions, insertions, edits)


def finished(state: State, done: Held) -> tuple[Edits, State]:
    """What a step did, and the state after it."""
    from freqdp_db.methods.frequency.parts import after_of, edits_of

    return logged_of(done.then(edits_of)), edited(state, done.then(after_of))


def carry_out_locally(
    world: World, state: State, drawn: PfTargets, spread_mm: int
) -> tuple[Edits, State]:
    """Edit every trajectory until its own targets hold."""
    from freqdp_db.methods.frequency.parts import edit_locally, share_of

    targets = share_of(drawn, state.parts.ranges)
    done = state.parts.then(
        edit_locally, state.shared_places, targets, world.clock, spread_mm, key_of(drawn)
    )
    return finished(state, done)


def key_of(drawn: Columns) -> np.uint64:
    """Picks the times of inserted samples: nobody knows it who does not know all that was drawn."""
    told = hashlib.blake2b(digest_size=8)
    for field in fields(drawn):
        told.update(getattr(drawn, field.name).astype("<i8").tobytes())
    return np.uint64(int.from_bytes(told.digest(), "little"))


class EditingStep(Step[Options, Drawn, Edits]):
    """A step whose log is deletions and insertions, and whose draw is targets."""

    logs = Edits
    spread = True
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
        self, world: World, state: State, drawn: Drawn, logged: Edits, options: Options
    ) -> State:
        from freqdp_db.methods.frequency.parts import replay

        edits: Held = logged.parts if isinstance(logged, SpreadEdits) else Here([], [logged])
        parts = state.parts.then(replay, edits, state.shared_places, world.clock, key_of(drawn))
        return edited(state, parts)

    def check(
        self,
        world: World,
        before: State,
        drawn: Drawn,
        logged: Edits,
        after: State,
        options: Options,
    ) -> dict[str, int]:
        missed = int((self.reached(after, drawn) != self.was_and_target(drawn)[1]).sum())
        if missed:
            raise VerificationFailed(f"{missed:,} of {len(drawn):,} targets do not hold")
        from freqdp_db.methods.frequency.parts import falling_of

        require_none_falling(sum(after.parts.each(falling_of)))
        return {
            "edits": logged.deletions.edits + logged.insertions.edits,
            "targets": len(drawn),
        }

    def require_drawn_from(self, world: World, state: State, drawn: Drawn) -> None:
        if not (self.reached(state, drawn) == self.was_and_target(drawn)[0]).all():
            raise VerificationFailed("its targets were drawn from other data")

    def counts(
        self, drawn: Drawn, logged: Edits, before: State, after: State, options: Options
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
    tf = state.known.tf
    known = (targets.location >= 0) & (targets.location < len(tf))
    place = np.where(known, targets.location, 0)
    return np.where(known, tf[place], -1).astype(np.int64)


def reached_pf(state: State, targets: PfTargets) -> Ints:
    """PF of each (trajectory, location) of the targets; 0 where it is absent."""
    from freqdp_db.methods.frequency.parts import pf_of, share_of

    ranges = state.parts.ranges
    found = np.zeros(len(targets), np.int64)
    shares = share_of(targets, ranges)
    for (first, last), pf in zip(ranges, state.parts.each(pf_of, shares), strict=True):
        lo, hi = np.searchsorted(targets.trajectory, [first, last])
        found[lo:hi] = pf
    return found
