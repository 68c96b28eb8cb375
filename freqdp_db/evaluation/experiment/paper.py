"""`freqdp experiment --paper`: the paper's summary table and its two figures, on one's own data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

import numpy as np

from freqdp_db.columns.build import Build
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.attacks.exposure.case import Case
from freqdp_db.evaluation.attacks.recovery import Truth
from freqdp_db.evaluation.experiment.aligned import aligned, is_nobodys, paper_metrics
from freqdp_db.evaluation.experiment.published import COLUMNS, EPSILON, FIGURE, ROWS, PaperRow
from freqdp_db.evaluation.experiment.runs import Run, some_objects
from freqdp_db.evaluation.trials import Prepared, refusal, require_possible, run_trial
from freqdp_db.methods.contract import World
from freqdp_db.methods.registry import find_method
from freqdp_db.progress import Progress
from freqdp_db.release.request import Request
from freqdp_db.roads.network import Network

FIGURE_EPSILONS = ("0.1", "1", "10")
Searches = Callable[[Trajectories, Locations], dict[str, float]]
"""Microseconds that each way to search takes for a query of the global step."""


@dataclass(frozen=True)
class PaperDesign:
    """What is run: the table for the largest size, the times for all."""

    sizes: Sequence[int]
    epsilons: Sequence[str]
    seeds: Sequence[int]
    poi: tuple[str, str | None] | None
    """A table of points of interest and its column of categories."""

    def request(self, row: PaperRow, epsilon: str, seed: int) -> Request:
        given = dict(row.given)
        known = {p.name for p in find_method(row.method).parameters}
        if find_method(row.method).unit is not None:
            given["epsilon"] = f"{Decimal(epsilon) / row.share:f}"
        if "poi" in known and self.poi is not None:
            given["poi"] = self.poi[0]
            if self.poi[1] is not None:
                given["category"] = self.poi[1]
        return Request.parse(row.method, seed=str(seed), **given)

    def asked(self) -> list[tuple[PaperRow, str, int]]:
        """Every run of the table, then those that only the figure of epsilon needs."""
        table = [
            (row, EPSILON, seed)
            for row in ROWS
            for seed in (self.seeds if find_method(row.method).unit else self.seeds[:1])
        ]
        figure = [
            (row, epsilon, self.seeds[0])
            for row in ROWS
            if row.title in FIGURE
            for epsilon in self.epsilons
            if Decimal(epsilon) != Decimal(EPSILON)
        ]
        return table + figure


@dataclass(frozen=True)
class StepTimes:
    """How long the steps of GL take, and a query of each search, for one number of objects."""

    objects: int
    steps: dict[str, float]
    """Seconds."""
    searches: dict[str, float]
    """Microseconds."""


@dataclass(frozen=True)
class PaperResult:
    runs: list[Run]
    """`method` is the title of the paper."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Rows that could not be run, and what would help."""
    times: list[StepTimes] = field(default_factory=list)


def run_paper(
    build: Build,
    network: Network,
    design: PaperDesign,
    progress: Progress,
    prepared: Prepared,
    searches: Searches,
) -> PaperResult:
    """The table and what the figures show; nothing is published and nothing spent."""
    size = max(design.sizes)
    world = replace(build, trajectories=some_objects(build.trajectories, size))
    truth = Truth.of(network, world.trajectories, world.locations, progress)
    result = PaperResult([])
    asked = design.asked()
    with progress.stage("paper", len(asked) + len(design.sizes), "runs") as stage:
        for row, epsilon, seed in asked:
            if row.title not in result.left_out:
                try:
                    request = design.request(row, epsilon, seed)
                    require_possible(request, world.trajectories)
                    request, inputs = prepared(request)
                except BadInput as error:
                    result.left_out[row.title] = refusal(error)
                else:
                    values, seconds = _measured(world, truth, request, inputs, seed)
                    shown = epsilon if request.method.unit else None
                    result.runs.append(Run(row.title, shown, size, seed, None, seconds, values))
            stage.advance(1)
        for count in sorted(design.sizes):
            result.times.append(_timed(build, count, design, prepared, searches))
            stage.advance(1)
    return result


def _measured(
    build: Build, truth: Truth, request: Request, world: World, seed: int
) -> tuple[dict[str, float], float]:
    state, seconds = run_trial(request, world, seed, build.trajectories)
    case = Case.of(build, state, None)
    pair = aligned(case, state)
    values = paper_metrics(case, state, pair, seed)
    if not is_nobodys(state):
        values |= truth.recovered(pair, Progress())
    return {name: values[name] for name in COLUMNS.values() if name in values}, seconds


def _timed(
    build: Build, count: int, design: PaperDesign, prepared: Prepared, searches: Searches
) -> StepTimes:
    """GL by step, in memory, and the searches of its global step."""
    row = next(row for row in ROWS if row.title == "GL")
    original = some_objects(build.trajectories, count)
    request, world = prepared(design.request(row, EPSILON, design.seeds[0]))
    shown = Progress()
    run_trial(request, world, design.seeds[0], original, shown)
    steps = {
        name: sum(shown.seconds.get(f"{name} {part}", 0.0) for part in ("draw", "work"))
        for name in (step.name for step in request.method.steps)
    }
    return StepTimes(count, steps, searches(original, build.locations))


def mean_of(runs: Sequence[Run], title: str, epsilon: str, metric: str) -> float | None:
    """Over the seeds; None: it was not measured."""
    found = [
        run.values[metric]
        for run in runs
        if run.method == title and run.epsilon in (None, epsilon) and metric in run.values
    ]
    return float(np.mean(found)) if found else None
