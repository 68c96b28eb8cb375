"""Try a grid within the time that there is: how many objects, what is left out, and why."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, field

import numpy as np

from freqdp_db.columns.build import Build
from freqdp_db.dataset.facts import facts_of
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.recommendation.choosing import TRIALS, Candidate, contender, judged
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
from freqdp_db.release.public_inputs import require_public_inputs
from freqdp_db.release.request import Request
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.builds import BuildRow
from freqdp_db.storage.records.datasets import DatasetRow

_AGAIN = 2
"""So many candidates are planned to be tried again."""
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
    possible, left_out = _possible(dataset, row, wishes)
    asked = []
    with database.begin() as connection:
        for variant, request in possible:
            try:
                require_public_inputs(connection, database, dataset, row, request)
                asked.append((variant, request))
            except BadInput as error:
                left_out.append((variant, refusal(error)))
    plain = World(build, facts=facts_of(build))
    # roads are read once, and first: a wrong name is refused before the long work
    on_roads = next((r for _, r in asked if "roads" in r.values), None)
    with_roads = plain
    if on_roads is not None:
        with progress.stage("read roads"):
            with_roads = make_world(database, build, on_roads.method, on_roads.values)
    halves, allowance = _prepare(plain, [v for v, _ in asked], wishes, progress)
    trials = _Trials(dataset, wishes, plain, with_roads, halves, allowance)
    with progress.stage("recommend", len(asked), "candidates") as stage:
        for variant, request in asked:
            try:
                require_possible(request, halves.members)
            except BadInput as error:
                left_out.append((variant, refusal(error)))
                continue
            # the first with a guarantee and the first without one are tried however little time there
            # is: else there is nothing to say
            if trials.has_one_like(variant) and not allowance.allows(variant):
                left_out.append((variant, _NO_TIME))
                continue
            trials.add(variant, request)
            stage.advance(1)
    trials.repeat(progress)
    return Tried(halves, trials.candidates, left_out, allowance.used)


@dataclass
class _Trials:
    """What was measured so far of each candidate."""

    dataset: DatasetRow
    wishes: Wishes
    plain: World
    with_roads: World
    halves: Halves
    allowance: Allowance
    _asked: dict[str, tuple[MethodToTry, Request]] = field(default_factory=dict)
    _found: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    _seconds: dict[str, float] = field(default_factory=dict)

    def has_one_like(self, variant: MethodToTry) -> bool:
        """Whether something was tried that guarantees as much, or as little."""
        known = (other for other, _ in self._asked.values())
        return any(other.is_for_an_object == variant.is_for_an_object for other in known)

    def add(self, variant: MethodToTry, request: Request) -> None:
        """One trial; the first of each on the same objects, each further one on others."""
        found = self._found.setdefault(variant.label, [])
        self._asked[variant.label] = variant, request
        seed, halves = self.wishes.seed, self.halves
        if found:
            seed += len(found)
            objects = 2 * len(halves.members)
            halves = split(self.plain.build.trajectories, objects, seed)
        started = time.monotonic()
        world = self.with_roads if "roads" in request.values else self.plain
        found.append(try_out(world, halves, request, seed))
        took = time.monotonic() - started
        self.allowance.took(variant, took)
        self._seconds[variant.label] = self._seconds.get(variant.label, 0.0) + took

    def repeat(self, progress: Progress) -> None:
        """Try what would be recommended again, as long as there is time and it is not sure."""
        with progress.stage("try again"):
            while (best := contender(self.candidates, self.wishes.risk)) is not None:
                variant, request = self._asked[best.label]
                if not self.allowance.allows(variant):
                    return
                self.add(variant, request)

    @property
    def candidates(self) -> list[Candidate]:
        return [self._judged(*asked) for asked in self._asked.values()]

    def _judged(self, variant: MethodToTry, request: Request) -> Candidate:
        # without the dataset's public facts: anonymize fills them in itself
        command = f"freqdp anonymize {shlex.quote(self.dataset.name)} {variant.request().command()}"
        return judged(
            variant, request, self._found[variant.label], self.wishes.purpose, self.wishes.risk,
            command, round(self._seconds[variant.label], 2), self.dataset.protected,
        )  # fmt: skip


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
    # what is recommended is tried again, and perhaps another one or two after it
    again = [HEAVIEST] * (_AGAIN * (TRIALS - 1))
    trials = allowed / max(expected([*variants, *again], per_weight), 1e-9)
    objects = wishes.objects or objects_within(trials, samples, few)
    per_weight *= float(samples[objects - 1] / samples[few - 1])
    halves = split(build.trajectories, objects, wishes.seed)
    progress.note(
        f"Trying {len(variants)} candidates on {len(halves.members):,} objects, "
        f"{len(halves.controls):,} others held out (of {in_all:,}): "
        f"{how_long(expected([*variants, *again], per_weight), allowed)}."
    )
    return halves, Allowance(allowed, per_weight)
