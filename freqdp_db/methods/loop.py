"""The loop over a method's steps. It exists once; a journal says what is kept of it.

`anonymize` keeps draws and logs in the database, `verify` takes both from there, and whatever only
tries a method out (`plan`, `experiment`, `audit`) keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from freqdp_db.methods.contract import (
    AnyStep,
    Counts,
    Method,
    StepContext,
    Taken,
    WorkingSet,
    options_of,
)
from freqdp_db.model.arrays import Ints
from freqdp_db.model.trajectories import Trajectories
from freqdp_db.privacy.noise import RandomSource, released_ids
from freqdp_db.progress import Progress, Stage


@dataclass(frozen=True)
class Turn:
    """One step of a run: which it is, from 1 on, and its part of the request."""

    number: int
    step: AnyStep
    options: Any


class Journal(Protocol):
    """What is known of a run before it begins, and what is kept of it."""

    def key(self) -> Ints | None:
        """The released ids, if they are drawn already."""

    def drawn(self, turn: Turn, world: StepContext, state: WorkingSet) -> Any | None:
        """The draw of a step, if it was made before; refuses one that was made from other data."""

    def source(self, number: int) -> RandomSource:
        """A stream of its own for each step: a resumed run draws what it would have drawn."""

    def commit(self, turn: Turn, drawn: Any, key: Ints | None) -> None:
        """Keep a draw, before anything is done with it; with the first one, the released ids."""

    def carry_out(
        self, turn: Turn, world: StepContext, state: WorkingSet, drawn: Any
    ) -> WorkingSet:
        """The state after a step."""


def run_steps(
    method: Method,
    values: Mapping[str, Any],
    world: StepContext,
    journal: Journal,
    progress: Progress,
    originals: Trajectories | None = None,
) -> WorkingSet:
    """From the build to what is released. `originals`: other trajectories than the build's."""
    trajectories = world.build.trajectories if originals is None else originals
    if not method.keeps_columns and trajectories.kept is not None:
        trajectories = replace(trajectories, kept=None)
    key = journal.key()
    state = WorkingSet(trajectories, world.locations, np.zeros(0, np.int64) if key is None else key)
    for number, step in enumerate(method.steps, start=1):
        turn = Turn(number, step, options_of(step, values))
        with progress.stage(f"{step.name} draw", state.samples) as stage:
            drawn = journal.drawn(turn, world, state)
            if drawn is None:
                source = journal.source(number)
                fresh = number == 1
                if fresh:
                    state = replace(state, key=released_ids(source, len(trajectories)))
                drawn = step.draw(world, state, turn.options, source)
                journal.commit(turn, drawn, state.key if fresh else None)
            stage.advance(state.samples)
        with progress.stage(f"{step.name} work", state.samples) as stage:
            shown = _Shown(stage, state.samples)
            told = replace(world, told=shown.tell)
            state = journal.carry_out(turn, told, state, drawn)
            shown.tell(1.0)
    time_step = values.get("time_step")
    if time_step is None:
        return state
    coarse = replace(state, trajectories=_coarsened(state, time_step))
    if state.areas is None:
        return coarse
    # outward, so that what was in an interval still is
    until = -(-state.areas.until // time_step) * time_step
    return replace(coarse, areas=replace(state.areas, until=until))


@dataclass
class _Shown:
    """Shares of the work as samples of a stage."""

    stage: Stage
    samples: int
    done: int = 0

    def tell(self, share: float) -> None:
        further = int(share * self.samples) - self.done
        if further > 0:
            self.done += further
            self.stage.advance(further)


def _coarsened(state: WorkingSet, step_us: int) -> Trajectories:
    from freqdp_db.methods.frequency.applying import coarsen
    from freqdp_db.methods.frequency.partition import trajectories_in

    return trajectories_in(state.partitions.map(coarsen, step_us))


@dataclass(frozen=True)
class StepTaken:
    """What one step did, for the curator."""

    step: AnyStep
    drawn: int
    counts: Counts
    user_level: dict[str, float]


@dataclass
class Trial:
    """The journal of a run that is only tried: nothing is kept but what was counted."""

    sources: Callable[[int], RandomSource]
    counted: bool = False
    """Whether to count what the steps do."""
    taken: list[StepTaken] = field(default_factory=list)

    def key(self) -> Ints | None:
        return None

    def drawn(self, turn: Turn, world: StepContext, state: WorkingSet) -> Any | None:
        return None

    def source(self, number: int) -> RandomSource:
        return self.sources(number)

    def commit(self, turn: Turn, drawn: Any, key: Ints | None) -> None:
        return None

    def carry_out(
        self, turn: Turn, world: StepContext, state: WorkingSet, drawn: Any
    ) -> WorkingSet:
        step, options = turn.step, turn.options
        logged, after = step.carry_out(world, state, drawn, options)
        if self.counted:
            counts = step.counts(Taken(world, state, drawn, logged, options, after))
            costs = step.user_level(state, drawn, options)
            self.taken.append(StepTaken(step, len(drawn), counts, costs))
        return after
