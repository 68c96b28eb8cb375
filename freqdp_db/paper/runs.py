"""Experiments: methods x epsilon x number of objects x seeds, measured in memory.

What comes out are metrics of the original data, for the curator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from freqdp_db.errors import BadInput
from freqdp_db.evaluation.attacks.recovery import Truth
from freqdp_db.evaluation.metrics import measure_release
from freqdp_db.evaluation.pair import Case
from freqdp_db.evaluation.trials import Prepared, run_trial
from freqdp_db.methods.contract import WorkingSet
from freqdp_db.methods.frequency.applying import coarsen_times
from freqdp_db.methods.registry import find_method
from freqdp_db.model.trajectories import Build, Trajectories
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
                f"[[method]] {text!r} is not known",
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
class Asked:
    """A run of a design."""

    label: str
    epsilon: str | None
    seed: int
    request: Request

    def measured(
        self, values: dict[str, float], objects: int, step_us: int | None, seconds: float
    ) -> Run:
        step_s = None if step_us is None else step_us / 1e6
        return Run(self.label, self.epsilon, objects, self.seed, step_s, seconds, values)


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

    def requests(self) -> Iterator[Asked]:
        """Every run of one size; methods without noise need no epsilon and one seed."""
        for variant in self.variants:
            epsilons: Sequence[str | None] = self.epsilons if variant.draws_noise else [None]
            for epsilon in epsilons:
                for seed in self.seeds if variant.draws_noise else self.seeds[:1]:
                    request = variant.request(epsilon, self.signature, seed, self.size)
                    yield Asked(variant.label, epsilon, seed, request)

    @property
    def pieces(self) -> list[tuple[int, Asked]]:
        """All runs, smaller sizes first."""
        return [(size, asked) for size in sorted(self.sizes) for asked in self.requests()]


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


@dataclass
class OnObjects:
    """Runs by all metrics, against the objects that they ran on."""

    build: Build
    network: Network | None
    design: Design
    prepared: Prepared
    _sides: dict[int, tuple[Build, Truth | None]] = field(default_factory=dict)

    def run(self, piece: tuple[int, Asked], progress: Progress) -> list[Run]:
        """A run for each of the design's time steps."""
        size, asked = piece
        side, truth = self._side(size, progress)
        request, world = self.prepared(asked.request)
        released, seconds = run_trial(request, world, asked.seed, side.trajectories)
        return [
            asked.measured(
                self._values(side, truth, released, step, replace(asked, request=request)),
                size,
                step,
                seconds,
            )
            for step in self.design.time_steps_us
        ]

    def _side(self, size: int, progress: Progress) -> tuple[Build, Truth | None]:
        """One size is kept at a time."""
        if size not in self._sides:
            original = some_objects(self.build.trajectories, size)
            truth = None
            if self.network is not None:
                truth = Truth.of(self.network, original, self.build.locations, progress)
            self._sides = {size: (self.build.with_trajectories(original), truth)}
        return self._sides[size]

    @staticmethod
    def _values(
        side: Build, truth: Truth | None, state: WorkingSet, step: int | None, asked: Asked
    ) -> dict[str, float]:
        if step is not None:
            state = replace(state, trajectories=coarsen_times(state.trajectories, step))
        case = Case.of(side, state, {**asked.request.values, "time_step": step})
        values = measure_release(case, asked.request.method.kind, asked.seed)
        if truth is not None:
            values |= truth.recovered(case.pair, Progress())
        return values


def some_objects(trajectories: Trajectories, count: int) -> Trajectories:
    """A random choice of objects, always the same; smaller choices are part of larger ones."""
    order = np.random.default_rng([_SUBSET_SEED, len(trajectories)]).permutation(len(trajectories))
    return trajectories.take(np.sort(order[:count]))


def check_sizes(sizes: Sequence[int], objects: int) -> None:
    """Refuse sizes that make no sense, before anything runs."""
    for size in sizes:
        if not 1 <= size <= objects:
            raise BadInput(
                f"[[objects]] {size} is not possible: the dataset has {objects:,}",
                remedy=f"give a number from 1 to {objects}",
            )


def seeds_of(count: int, most: int) -> range:
    """The seeds of so many runs of each: 1, 2, ..."""
    if not 1 <= count <= most:
        raise BadInput(f"[[seeds]] {count} is not between 1 and {most:,}", remedy="for example 5")
    return range(1, count + 1)
