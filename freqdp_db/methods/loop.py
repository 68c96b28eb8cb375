"""The loop over the steps of a method, and the journal that stores draws and logs.

`anonymize` stores draws and logs in the database, `verify` reads them from there, and trial runs
(`plan`, `experiment`, `audit`) store nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from freqdp_db.methods.contract import (
    AnyStep,
    CompletedStep,
    Counts,
    Method,
    StepContext,
    WorkingSet,
    options_of,
)
from freqdp_db.model.arrays import Ints
from freqdp_db.model.trajectories import Trajectories
from freqdp_db.privacy.noise import RandomSource, released_ids
from freqdp_db.progress import Progress, Stage


@dataclass(frozen=True)
class StepRun:
    """One step of a run: its number from 1, and its options."""

    number: int
    step: AnyStep
    options: Any


class Journal(Protocol):
    """Where a run takes stored draws from, and where it stores what it does."""

    def key(self) -> Ints | None:
        """The released ids, if they were drawn before."""

    def drawn(self, run: StepRun, world: StepContext, state: WorkingSet) -> Any | None:
        """The stored draw of a step, if any; raises VerificationFailed if it was drawn from other data."""

    def source(self, number: int) -> RandomSource:
        """The random source of a step. Each step has its own stream, so that a resumed run draws the
        same."""

    def commit(self, run: StepRun, drawn: Any, key: Ints | None) -> None:
        """Store a draw before it is used, and the released ids with the first one (else None)."""

    def carry_out(
        self, run: StepRun, world: StepContext, state: WorkingSet, drawn: Any
    ) -> WorkingSet:
        """Carry a step out, or replay it; returns the state after it."""


def run_steps(
    method: Method,
    values: Mapping[str, Any],
    world: StepContext,
    journal: Journal,
    progress: Progress,
    originals: Trajectories | None = None,
) -> WorkingSet:
    """Run all steps, from the build to what is released.

    originals: trajectories to start from instead of the build's.
    """
    trajectories = world.build.trajectories if originals is None else originals
    if not method.keeps_columns and trajectories.kept is not None:
        trajectories = replace(trajectories, kept=None)
    key = journal.key()
    state = WorkingSet(trajectories, world.locations, np.zeros(0, np.int64) if key is None else key)
    for number, step in enumerate(method.steps, start=1):
        run = StepRun(number, step, options_of(step, values))
        with progress.stage(f"{step.name} draw", state.samples) as stage:
            drawn = journal.drawn(run, world, state)
            if drawn is None:
                source = journal.source(number)
                first = number == 1
                if first:
                    state = replace(state, key=released_ids(source, len(trajectories)))
                drawn = step.draw(world, state, run.options, source)
                journal.commit(run, drawn, state.key if first else None)
            stage.advance(state.samples)
        with progress.stage(f"{step.name} work", state.samples) as stage:
            bar = _SampleProgress(stage, state.samples)
            state = journal.carry_out(run, replace(world, report_progress=bar.report), state, drawn)
            bar.report(1.0)
    time_step = values.get("time_step")
    if time_step is None:
        return state
    coarse = replace(state, trajectories=_coarsen_times(state, time_step))
    if state.areas is None:
        return coarse
    # ends are rounded up, so that an interval still contains its samples
    until = -(-state.areas.until // time_step) * time_step
    return replace(coarse, areas=replace(state.areas, until=until))


@dataclass
class _SampleProgress:
    """Turns the share of the work that a step reports into samples of a progress stage."""

    stage: Stage
    samples: int
    done: int = 0

    def report(self, share: float) -> None:
        newly_done = int(share * self.samples) - self.done
        if newly_done > 0:
            self.done += newly_done
            self.stage.advance(newly_done)


def _coarsen_times(state: WorkingSet, step_us: int) -> Trajectories:
    from freqdp_db.methods.frequency.applying import coarsen
    from freqdp_db.methods.frequency.partition import trajectories_in

    return trajectories_in(state.partitions.map(coarsen, step_us))


@dataclass(frozen=True)
class StepSummary:
    """What one step of a trial run did."""

    step: AnyStep
    drawn: int
    counts: Counts
    user_level: dict[str, float]


@dataclass
class Trial:
    """The journal of a trial run. It stores nothing but, if asked for, a summary of each step."""

    sources: Callable[[int], RandomSource]
    counted: bool = False
    """Whether to summarize what the steps do."""
    summaries: list[StepSummary] = field(default_factory=list)

    def key(self) -> Ints | None:
        return None

    def drawn(self, run: StepRun, world: StepContext, state: WorkingSet) -> Any | None:
        return None

    def source(self, number: int) -> RandomSource:
        return self.sources(number)

    def commit(self, run: StepRun, drawn: Any, key: Ints | None) -> None:
        return None

    def carry_out(
        self, run: StepRun, world: StepContext, state: WorkingSet, drawn: Any
    ) -> WorkingSet:
        step, options = run.step, run.options
        logged, after = step.carry_out(world, state, drawn, options)
        if self.counted:
            counts = step.counts(CompletedStep(world, state, drawn, logged, options, after))
            costs = step.user_level(state, drawn, options)
            self.summaries.append(StepSummary(step, len(drawn), counts, costs))
        return after
