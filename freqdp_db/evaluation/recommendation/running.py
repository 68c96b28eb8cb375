"""Try candidates in memory within the time given: on how many objects, and which are left out, and why.

Half of the objects make a trial release, the others are held out.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from freqdp_db.dataset.facts import facts_of
from freqdp_db.db.builds import BuildRow
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.engines.ranges import SingleThread, use
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.attacks.exposure import (
    measure_exposure,
    measure_membership,
)
from freqdp_db.evaluation.counts import measure_trial
from freqdp_db.evaluation.pair import Case
from freqdp_db.evaluation.recommendation.choosing import TRIALS, Candidate, contender, judged
from freqdp_db.evaluation.recommendation.grid import HEAVIEST, MethodToTry, grid_for
from freqdp_db.evaluation.recommendation.options import RecommendOptions
from freqdp_db.evaluation.trials import refusal, require_possible, run_trial
from freqdp_db.evaluation.utility import information_loss, usefulness
from freqdp_db.methods.contract import StepContext
from freqdp_db.model.arrays import Ints
from freqdp_db.model.trajectories import Build, Trajectories
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import make_world, require_public_inputs
from freqdp_db.release.request import Request

_USED = 0.8
"""Of the time, what is planned for: what was measured on few objects is a guess for many."""
_FEW = 20
_TRIAL_OBJECTS = 40
_TRIAL_SAMPLES = 1_000_000


@dataclass
class TimeBudget:
    """The time that there is, and what has been learnt of how long a candidate takes."""

    seconds: float
    per_weight: float
    """Seconds for a candidate of weight 1."""
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def used(self) -> float:
        return self.clock() - self.started

    def allows(self, variant: MethodToTry) -> bool:
        """Whether it will end in time, by what is known so far."""
        return self.used + self.per_weight * variant.weight <= self.seconds

    def took(self, variant: MethodToTry, seconds: float) -> None:
        """Learn from one: halfway from what was thought to what was seen."""
        self.per_weight = (self.per_weight + seconds / variant.weight) / 2


def expected(variants: Sequence[MethodToTry], per_weight: float) -> float:
    """Seconds for all of these."""
    return per_weight * sum(variant.weight for variant in variants)


def objects_within(trials: float, samples: Ints, trial: int) -> int:
    """How many objects fit, if there is time for so many trials; a round, even number.

    samples: for one object, for two, and so on. They are what takes time, and objects may differ in
    them a thousandfold. trial: how many objects it had.
    """
    most = len(samples)
    fitting = int(np.searchsorted(samples, _USED * trials * samples[trial - 1], side="right"))
    if fitting < most:
        step = 10 ** max(len(str(fitting)) - 2, 0)
        fitting = max(fitting // step * step, min(_FEW, most))
    return fitting - fitting % 2


def objects_of_trial(samples: Ints) -> int:
    """How many objects show in seconds how long all will take."""
    fitting = int(np.searchsorted(samples, _TRIAL_SAMPLES, side="right"))
    return min(max(fitting, _FEW), _TRIAL_OBJECTS, len(samples))


def how_long(needed: float, allowed: float) -> str:
    """What to expect: the time it takes, or that what does not fit is left out."""
    if needed > allowed:
        return (
            f"about {span(needed)} for all of them; those that do not fit into {span(allowed)} "
            "(--minutes) are left out and listed"
        )
    return f"about {span(needed)}, at most {span(allowed)}"


def span(seconds: float) -> str:
    """So long, in words."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min"


_UTILITY_STREAM = 100
_FEW_SAMPLES = 400_000
"""Up to so many, one thread is quicker than many that each count all places."""


@dataclass(frozen=True)
class Halves:
    """Objects that the method sees, and others that it does not."""

    members: Trajectories
    controls: Trajectories


def chosen(objects: int, seed: int) -> Ints:
    """The order in which objects are taken for a trial."""
    return np.random.default_rng([seed, objects]).permutation(objects)


def split(trajectories: Trajectories, objects: int, seed: int) -> Halves:
    """Two halves of a random choice of objects, without one in both; the same seed, the same ones."""
    order = chosen(len(trajectories), seed)
    half = objects // 2
    return Halves(
        trajectories.take(np.sort(order[:half])),
        trajectories.take(np.sort(order[half : 2 * half])),
    )


def try_out(world: StepContext, halves: Halves, request: Request, seed: int) -> dict[str, float]:
    """Run a method on the members, and measure what attackers learn and what analysts keep."""
    few = halves.members.samples <= _FEW_SAMPLES
    with use(SingleThread()) if few else nullcontext():
        return _tried(world, halves, request, seed)


def _tried(world: StepContext, halves: Halves, request: Request, seed: int) -> dict[str, float]:
    build, members = world.build, halves.members
    state, _ = run_trial(request, world, seed, members)
    if request.method.kind == "counts":
        return measure_trial(world, members, halves.controls, state.made, request, seed)
    case = Case.of(build.with_trajectories(members), state, request.values)
    found = measure_exposure(case, seed) | measure_membership(case, seed, halves.controls)
    rng = np.random.default_rng([seed, _UTILITY_STREAM])
    found |= usefulness(replace(case.pair, released=state.trajectories), state.places, rng)
    if request.method.kind == "edited":
        found |= information_loss(case.pair)
    return found


_AGAIN = 2
"""So many candidates are planned to be tried again."""
_NO_TIME = "no time left; allow more --minutes, or fewer --objects"


@dataclass(frozen=True)
class TrialResults:
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
    options: RecommendOptions,
    progress: Progress,
) -> TrialResults:
    """Every candidate that is possible and fits into the time, in the order of the grid."""
    possible, left_out = _possible(dataset, row, options)
    asked = []
    with database.begin() as connection:
        for variant, request in possible:
            try:
                require_public_inputs(connection, database, dataset, row, request)
                asked.append((variant, request))
            except BadInput as error:
                left_out.append((variant, refusal(error)))
    plain = StepContext(build, facts=facts_of(build))
    # roads are read once, and first: a wrong name is refused before the long work
    on_roads = next((r for _, r in asked if "roads" in r.values), None)
    with_roads = plain
    if on_roads is not None:
        with progress.stage("read roads"):
            with_roads = make_world(database, build, on_roads.method, on_roads.values)
    zoned = {
        variant.label: make_world(database, build, request.method, request.values)
        for variant, request in asked
        if request.method.kind == "counts"
    }
    halves, budget = _prepare(plain, [v for v, _ in asked], options, progress)
    trials = _Trials(dataset, options, plain, with_roads, zoned, halves, budget)
    with progress.stage("recommend", len(asked), "candidates") as stage:
        for variant, request in asked:
            try:
                require_possible(request, halves.members)
            except BadInput as error:
                left_out.append((variant, refusal(error)))
                continue
            # the first with a guarantee and the first without one are tried however little time there
            # is: else there is nothing to say
            if trials.has_one_like(variant) and not budget.allows(variant):
                left_out.append((variant, _NO_TIME))
                continue
            trials.add(variant, request)
            stage.advance(1)
    trials.repeat(progress)
    return TrialResults(halves, trials.candidates, left_out, budget.used)


@dataclass
class _Trials:
    """What was measured so far of each candidate."""

    dataset: DatasetRow
    options: RecommendOptions
    plain: StepContext
    with_roads: StepContext
    zoned: dict[str, StepContext]
    """With the zones of counts, by the label of what is tried."""
    halves: Halves
    budget: TimeBudget
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
        seed, halves = self.options.seed, self.halves
        if found:
            seed += len(found)
            objects = 2 * len(halves.members)
            halves = split(self.plain.build.trajectories, objects, seed)
        started = time.monotonic()
        world = self.with_roads if "roads" in request.values else self.plain
        world = self.zoned.get(variant.label, world)
        found.append(try_out(world, halves, request, seed))
        took = time.monotonic() - started
        self.budget.took(variant, took)
        self._seconds[variant.label] = self._seconds.get(variant.label, 0.0) + took

    def repeat(self, progress: Progress) -> None:
        """Try what would be recommended again, as long as there is time and it is not sure."""
        with progress.stage("try again"):
            while (best := contender(self.candidates, self.options.risk)) is not None:
                variant, request = self._asked[best.label]
                if not self.budget.allows(variant):
                    return
                self.add(variant, request)

    @property
    def candidates(self) -> list[Candidate]:
        return [self._judged(*asked) for asked in self._asked.values()]

    def _judged(self, variant: MethodToTry, request: Request) -> Candidate:
        # without the dataset's public facts: anonymize fills them in itself
        command = f"freqdp anonymize {shlex.quote(self.dataset.name)} {variant.request().command()}"
        return judged(
            variant, request, self._found[variant.label], self.options.purpose, self.options.risk,
            command, round(self._seconds[variant.label], 2), self.dataset.protected,
        )  # fmt: skip


def _possible(
    dataset: DatasetRow, row: BuildRow, options: RecommendOptions
) -> tuple[list[tuple[MethodToTry, Request]], list[tuple[MethodToTry, str]]]:
    """What can be asked for, in its order; what needs public facts that were not said is left out."""
    asked: list[tuple[MethodToTry, Request]] = []
    left_out: list[tuple[MethodToTry, str]] = []
    for variant in grid_for(options.purpose, options.roads):
        try:
            asked.append((variant, variant.request().with_facts(dataset, row)))
        except BadInput as error:
            left_out.append((variant, refusal(error)))
    return asked, left_out


def _prepare(
    world: StepContext, variants: list[MethodToTry], options: RecommendOptions, progress: Progress
) -> tuple[Halves, TimeBudget]:
    """Find out how long it takes, how many objects fit into the time, and say so."""
    build = world.build
    in_all = len(build.trajectories)
    # of the members among one object, two, and so on: half of them, the first ones
    members = np.cumsum(build.trajectories.lengths[chosen(in_all, options.seed)])
    samples = members[np.arange(in_all) // 2]
    few = objects_of_trial(samples[: options.objects])
    seconds = 0.0
    with progress.stage("get ready", 2, "trials") as stage:
        for _ in range(2):  # the first one loads the kernels, or compiles them
            started = time.monotonic()
            trial = split(build.trajectories, few, options.seed)
            try_out(world, trial, HEAVIEST.request(), options.seed)
            seconds = time.monotonic() - started
            stage.advance(1)
    per_weight, allowed = seconds / HEAVIEST.weight, 60 * options.minutes
    # what is recommended is tried again, and perhaps another one or two after it
    again = [HEAVIEST] * (_AGAIN * (TRIALS - 1))
    trials = allowed / max(expected([*variants, *again], per_weight), 1e-9)
    objects = options.objects or objects_within(trials, samples, few)
    per_weight *= float(samples[objects - 1] / samples[few - 1])
    halves = split(build.trajectories, objects, options.seed)
    progress.note(
        f"Trying {len(variants)} candidates on {len(halves.members):,} objects, "
        f"{len(halves.controls):,} others held out (of {in_all:,}): "
        f"{how_long(expected([*variants, *again], per_weight), allowed)}."
    )
    return halves, TimeBudget(allowed, per_weight)
