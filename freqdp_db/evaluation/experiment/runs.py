"""Experiments: methods x epsilon x number of objects x seeds, measured in memory.

What comes out are metrics of the original data, for the curator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from freqdp_db.columns.build import Build
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.edits.applying import coarsen_times
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.attacks.exposure.case import Case
from freqdp_db.evaluation.attacks.recovery import Truth
from freqdp_db.evaluation.metrics import measure_release
from freqdp_db.evaluation.trials import Prepared, run_trial
from freqdp_db.methods.registry import find_method
from freqdp_db.progress import Progress
from freqdp_db.release.request import Request
from freqdp_db.roads.network import Network

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


def run_experiment(
    build: Build, network: Network | None, design: Design, progress: Progress, prepared: Prepared
) -> list[Run]:
    """Run the whole design; rows in its order, smaller sizes first."""
    found: list[Run] = []
    with progress.stage("experiment", design.runs, "runs") as stage:
        for size in sorted(design.sizes):
            original = some_objects(build.trajectories, size)
            part = replace(build, trajectories=original)
            truth = None
            if network is not None:
                truth = Truth.of(network, original, build.locations, progress)
            for variant, epsilon, seed, asked in design.requests():
                request, world = prepared(asked)
                released, seconds = run_trial(request, world, seed, original)
                for step in design.time_steps_us:
                    state = released
                    if step is not None:
                        coarse = coarsen_times(released.trajectories, step)
                        state = replace(released, trajectories=coarse)
                    case = Case.of(part, state, step)
                    # progress of the single metrics would drown that of the runs
                    values = measure_release(case, request.method.kind, seed, Progress())
                    if truth is not None:
                        values |= truth.recovered(case.pair, Progress())
                    step_s = None if step is None else step / 1e6
                    found.append(Run(variant.label, epsilon, size, seed, step_s, seconds, values))
                stage.advance(1)
    return found


def some_objects(trajectories: Trajectories, count: int) -> Trajectories:
    """A random choice of objects, always the same; smaller choices are part of larger ones."""
    order = np.random.default_rng([_SUBSET_SEED, len(trajectories)]).permutation(len(trajectories))
    return trajectories.take(np.sort(order[:count]))


def check_sizes(sizes: Sequence[int], objects: int) -> None:
    """Refuse sizes that make no sense, before anything runs."""
    for size in sizes:
        if not 1 <= size <= objects:
            raise BadInput(
                f"--objects {size} is not possible: the dataset has {objects:,}",
                remedy=f"give a number from 1 to {objects}",
            )


def seeds_of(count: int, most: int) -> range:
    """The seeds of so many runs of each: 1, 2, ..."""
    if not 1 <= count <= most:
        raise BadInput(f"--seeds {count} is not between 1 and {most:,}", remedy="for example 5")
    return range(1, count + 1)
