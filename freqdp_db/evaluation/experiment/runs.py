"""Experiments: methods x epsilon x number of objects x seeds, measured in memory.

Publishes nothing and spends nothing: the noise is seeded, and no anonymized trajectory leaves the
process. What comes out are metrics of the original data, for the curator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from freqdp_db.columns.build import Build
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.edits.applying import coarsen_times
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.attacks.exposure.case import Case
from freqdp_db.evaluation.attacks.recovery import recovery_scores
from freqdp_db.evaluation.metrics import measure_release
from freqdp_db.mechanisms.noise import SeededSource
from freqdp_db.methods.contract import World
from freqdp_db.methods.loop import Trial, run_steps
from freqdp_db.methods.registry import find_method
from freqdp_db.progress import Progress
from freqdp_db.release.request import Request
from freqdp_db.roads.matching import Matched, match
from freqdp_db.roads.network import Candidates, Network, find_candidates

_SUBSET_SEED = 0
_ARGUMENTS = ("radius", "accounting", "spread")


@dataclass(frozen=True)
class Variant:
    """A method with what it takes besides epsilon: `rsc:500` (radius), `lg:paper` (spread),
    `strict:pure` (accounting)."""

    label: str
    method: str
    argument: str | None

    @classmethod
    def parse(cls, text: str) -> Variant:
        method, _, argument = text.partition(":")
        if not argument and ":" in text:
            raise BadInput(
                f"--method {text!r} is not known",
                remedy="a spread, radius or accounting follows the colon: lg:250, rsc:500, strict:pure",
            )
        find_method(method)
        return cls(text, method, argument or None)

    @property
    def draws_noise(self) -> bool:
        return find_method(self.method).unit is not None

    def request(
        self, epsilon: str | None, signature: int, seed: int, size: int | None = None
    ) -> Request:
        known = {p.name for p in find_method(self.method).parameters}
        given = {"epsilon": epsilon, "seed": str(seed)}
        if "signature" in known:
            given["signature"] = str(signature)
        if self.argument is not None:
            taken = [name for name in _ARGUMENTS if name in known]
            given[taken[0] if taken else _ARGUMENTS[-1]] = self.argument
        if size is not None and "size" in known:
            given["size"] = str(size)
        return Request.parse(self.method, **given)


@dataclass(frozen=True)
class Design:
    """What to run."""

    variants: Sequence[Variant]
    epsilons: Sequence[str]
    sizes: Sequence[int]
    seeds: Sequence[int]
    time_steps_us: Sequence[int | None]
    signature: int
    trips: bool = False
    """Whether to measure on trips alone, as synthetic methods are compared."""
    each_trip: bool = False
    """Whether every trip is taken for an object of its own."""
    size: int | None = None
    """How many trips synthetic methods make."""

    def requests(self) -> Iterator[tuple[Variant, str | None, int, Request]]:
        """Every run of one size; methods without noise need no epsilon and one seed."""
        for variant in self.variants:
            epsilons: Sequence[str | None] = self.epsilons if variant.draws_noise else [None]
            for epsilon in epsilons:
                for seed in self.seeds if variant.draws_noise else self.seeds[:1]:
                    asked = variant.request(epsilon, self.signature, seed, self.size)
                    yield variant, epsilon, seed, asked

    @property
    def runs(self) -> int:
        return len(self.sizes) * sum(1 for _ in self.requests())


@dataclass(frozen=True)
class Run:
    """One row of the result."""

    method: str
    epsilon: str | None
    objects: int
    seed: int
    time_step_s: float | None
    seconds: float
    """To draw and edit, in memory."""
    values: dict[str, float]


@dataclass(frozen=True)
class Truth:
    """D on the roads: matched once for all runs of a size."""

    network: Network
    candidates: Candidates
    matched: Matched


def run_experiment(
    build: Build,
    network: Network | None,
    design: Design,
    progress: Progress,
    prepared: Callable[[Request], tuple[Request, World]],
) -> list[Run]:
    """Run the whole design; rows in its order, smaller sizes first.

    `prepared`: a request with what is public filled in, and what its method may read.
    """
    locations = build.locations
    candidates = None if network is None else find_candidates(network, locations)
    found: list[Run] = []
    with progress.stage("experiment", design.runs, "runs") as stage:
        for size in sorted(design.sizes):
            original = some_objects(build.trajectories, size)
            truth = None
            if network is not None and candidates is not None:
                matched = match(
                    network, candidates, original, locations, progress, "match original"
                )
                truth = Truth(network, candidates, matched)
            for variant, epsilon, seed, asked in design.requests():
                request, world = prepared(asked)
                started = time.perf_counter()
                # what `anonymize --seed` would publish, before times are coarsened
                trial = Trial(lambda number, seed=seed: SeededSource(seed, number))  # type: ignore[misc]
                released = run_steps(
                    request.method, request.values, world, trial, Progress(), original
                )
                seconds = time.perf_counter() - started
                for step in design.time_steps_us:
                    state = released
                    if step is not None:
                        coarse = coarsen_times(released.trajectories, step)
                        state = replace(released, trajectories=coarse)
                    case = Case.of(replace(build, trajectories=original), state, step)
                    # progress of the single metrics would drown that of the runs
                    values = measure_release(case, request.method.kind, seed, Progress())
                    if truth is not None:
                        attack = match(
                            truth.network,
                            truth.candidates,
                            case.pair.released,
                            locations,
                            Progress(),
                        )
                        values |= recovery_scores(
                            case.pair, truth.network.length, truth.matched, attack
                        )
                    found.append(
                        Run(
                            variant.label,
                            epsilon,
                            size,
                            seed,
                            None if step is None else step / 1e6,
                            seconds,
                            values,
                        )
                    )
                stage.advance(1)
    return found


def some_objects(trajectories: Trajectories, count: int) -> Trajectories:
    """A random choice of objects, always the same; smaller choices are part of larger ones."""
    order = np.random.default_rng([_SUBSET_SEED, len(trajectories)]).permutation(len(trajectories))
    return trajectories.take(np.sort(order[:count]))


def check_design(design: Design, objects: int) -> None:
    """Refuse sizes and seeds that make no sense, before anything runs."""
    for size in design.sizes:
        if not 1 <= size <= objects:
            raise BadInput(
                f"--objects {size} is not possible: the dataset has {objects:,}",
                remedy=f"give a number from 1 to {objects}",
            )
    list(design.requests())
