"""Methods tried in memory, for the curator.

Publishes nothing and spends nothing: the noise is seeded, and no anonymized trajectory leaves the
process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from freqdp_db.db.builds import BuildRow
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import StepContext, WorkingSet, options_of
from freqdp_db.methods.loop import Trial, run_steps
from freqdp_db.model.trajectories import Build, Trajectories
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import DEFAULT_MEMORY, make_world, search_within
from freqdp_db.release.request import Request

Prepared: TypeAlias = Callable[[Request], tuple[Request, StepContext]]
"""A request with what is public filled in, and what its method may read."""


def preparing(database: Database, dataset: DatasetRow, row: BuildRow, build: Build) -> Prepared:
    """How requests for a dataset are prepared."""
    search = search_within(database, row.build_id, build, DEFAULT_MEMORY)

    def prepared(request: Request) -> tuple[Request, StepContext]:
        known = request.with_facts(dataset, row)
        return known, make_world(database, build, known.method, known.values, search)

    return prepared


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
