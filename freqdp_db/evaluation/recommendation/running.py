"""Try a grid within the time that there is: how many objects, what is left out, and why."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, field

import numpy as np

from freqdp_db.columns.build import Build
from freqdp_db.dataset.facts import facts_of
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.recommendation.choosing import Candidate, judged
from freqdp_db.evaluation.recommendation.grid import HEAVIEST, MethodToTry, grid_for
from freqdp_db.evaluation.recommendation.timing import (
    Allowance,
    expected,
    how_long,
    objects_of_trial,
    objects_within,
)
from freqdp_db.evaluation.recommendation.trying import Halves, chosen, split, try_out
from freqdp_db.evaluation.recommendation.wishes import Wishes
from freqdp_db.evaluation.trials import refusal, require_possible
from freqdp_db.methods.contract import World
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import make_world
from freqdp_db.release.request import Request
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.builds import BuildRow
from freqdp_db.storage.records.datasets import DatasetRow

_NO_TIME = "no time was left; give it more --minutes, or fewer --objects"


@dataclass(frozen=True)
class Tried:
    """What was tried, on whom, and what was not."""

    halves: Halves
    candidates: list[Candidate] = field(default_factory=list)
    left_out: list[tuple[MethodToTry, str]] = field(default_factory=list)
    """Each with the reason."""
    seconds: float = 0.0


def try_all(
    database: Database,
    dataset: DatasetRow,
    row: BuildRow,
    build: Build,
    wishes: Wishes,
    progress: Progress,
) -> Tried:
    """Every candidate that is possible and fits into the time, in the order of the grid."""
    asked, left_out = _possible(dataset, row, wishes)
    plain = World(build, facts=facts_of(build))
    # roads are read once, and first: a wrong name is refused before the long work
    on_roads = next((r for _, r in asked if "roads" in r.values), None)
    with_roads = plain
    if on_roads is not None:
        with progress.stage("read roads"):
            with_roads = make_world(database, build, on_roads.method, on_roads.values)
    halves, allowance = _prepare(plain, [v for v, _ in asked], wishes, progress)
    candidates: list[Candidate] = []
    with progress.stage("recommend", len(asked), "candidates") as stage:
        for variant, request in asked:
            try:
                require_possible(request, halves.members)
            except BadInput as error:
                left_out.append((variant, refusal(error)))
                continue
            # the first is tried however little time there is: else there is nothing to say
            if candidates and not allowance.allows(variant):
                left_out.append((variant, _NO_TIME))
                continue
            started = time.monotonic()
            world = with_roads if "roads" in request.values else plain
            values = try_out(world, halves, request, wishes.seed)
            took = time.monotonic() - started
            allowance.took(variant, took)
            # without the dataset's public facts: anonymize fills them in itself
            command = f"freqdp anonymize {shlex.quote(dataset.name)} {variant.request().command()}"
            candidates.append(
                judged(
                    variant, request, values, wishes.purpose, wishes.risk, command, round(took, 2)
                )
            )
            stage.advance(1)
    return Tried(halves, candidates, left_out, allowance.used)


def _possible(
    dataset: DatasetRow, row: BuildRow, wishes: Wishes
) -> tuple[list[tuple[MethodToTry, Request]], list[tuple[MethodToTry, str]]]:
    """What can be asked for, in its order; what needs public facts that were not said is left out."""
    asked: list[tuple[MethodToTry, Request]] = []
    left_out: list[tuple[MethodToTry, str]] = []
    for variant in grid_for(wishes.purpose, wishes.roads):
        try:
            asked.append((variant, variant.request().with_facts(dataset, row)))
        except BadInput as error:
            left_out.append((variant, refusal(error)))
    return asked, left_out


def _prepare(
    world: World, variants: list[MethodToTry], wishes: Wishes, progress: Progress
) -> tuple[Halves, Allowance]:
    """Find out how long it takes, how many objects fit into the time, and say so."""
    build = world.build
    in_all = len(build.trajectories)
    # of the members among one object, two, and so on: half of them, the first ones
    members = np.cumsum(build.trajectories.lengths[chosen(in_all, wishes.seed)])
    samples = members[np.arange(in_all) // 2]
    few = objects_of_trial(samples[: wishes.objects])
    seconds = 0.0
    with progress.stage("get ready", 2, "trials") as stage:
        for _ in range(2):  # the first one loads the kernels, or compiles them
            started = time.monotonic()
            trial = split(build.trajectories, few, wishes.seed)
            try_out(world, trial, HEAVIEST.request(), wishes.seed)
            seconds = time.monotonic() - started
            stage.advance(1)
    per_weight, allowed = seconds / HEAVIEST.weight, 60 * wishes.minutes
    trials = allowed / max(expected(variants, per_weight), 1e-9)
    objects = wishes.objects or objects_within(trials, samples, few)
    per_weight *= float(samples[objects - 1] / samples[few - 1])
    halves = split(build.trajectories, objects, wishes.seed)
    progress.note(
        f"Trying {len(variants)} candidates on {len(halves.members):,} objects, "
        f"{len(halves.controls):,} others held out (of {in_all:,}): "
        f"{how_long(expected(variants, per_weight), allowed)}."
    )
    return halves, Allowance(allowed, per_weight)
