"""Methods tried in memory, for the curator.

Publishes nothing and spends nothing: the noise is seeded, and no anonymized trajectory leaves the
process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property

from freqdp_db.db.builds import BuildRow
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import StepContext, WorkingSet, options_of
from freqdp_db.methods.frequency.insertion import Search
from freqdp_db.methods.loop import Trial, run_steps
from freqdp_db.model.trajectories import Build, Trajectories
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import DEFAULT_MEMORY, make_world, search_within
from freqdp_db.release.request import Request


def require_possible(request: Request, original: Trajectories) -> None:
    """Refuse what makes no sense for data of this size; raises BadInput."""
    for step in request.method.steps:
        step.require_possible(options_of(step, request.values), len(original), original.samples)


def refusal(error: BadInput) -> str:
    """Why something cannot be tried, and what would help."""
    said = error.as_options()
    return f"{said['message']}; {said['remedy']}"


def run_trial(
    request: Request,
    world: StepContext,
    seed: int,
    original: Trajectories | None = None,
    progress: Progress | None = None,
) -> tuple[WorkingSet, float]:
    """What `anonymize --seed` would publish, before times are coarsened; and the seconds it took.

    `original`: other trajectories than the build's.
    """
    started = time.perf_counter()
    trial = Trial(lambda number: SeededSource(seed, number))
    shown = progress or Progress()
    state = run_steps(request.method, request.values, world, trial, shown, original)
    return state, time.perf_counter() - started


@dataclass(frozen=True)
class TrialResult:
    """What a request gave."""

    request: Request
    """With what is public filled in."""
    state: WorkingSet
    seconds: float


@dataclass
class Trials:
    """Trials of any requests on the objects of one build, or on some of them."""

    database: Database
    dataset: DatasetRow
    row: BuildRow
    build: Build

    @cached_property
    def _search(self) -> Search:
        return search_within(self.database, self.row.build_id, self.build, DEFAULT_MEMORY)

    def run(
        self,
        request: Request,
        seed: int,
        on: Build,
        progress: Progress | None = None,
        *,
        alone: bool = False,
    ) -> TrialResult:
        """Run a request on the objects of `on`.

        alone: as if there were no others. Else they are some of the build's, and what a method counts
        in the source (who shares a place with whom) it counts among all of the build's.
        """
        known = request.with_facts(self.dataset, self.row)
        world = make_world(self.database, self.build, known.method, known.values, self._search)
        if alone:
            world = replace(world, build=on)
        state, seconds = run_trial(known, world, seed, on.trajectories, progress)
        return TrialResult(known, state, seconds)
