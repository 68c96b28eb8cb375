"""`freqdp experiment --paper`: the paper's summary table and its two figures, on one's own data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property

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
from freqdp_db.methods.registry import find_method
from freqdp_db.progress import Progress
from freqdp_db.release.request import Request
from freqdp_db.roads.network import Network
from freqdp_db.storage.connection.engine import Database

FIGURE_EPSILONS = ("0.1", "1", "10")
Searches = Callable[[Database, Trajectories, Locations], dict[str, float]]
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


@dataclass
class PaperRuns:
    """The runs of the table and of the figures; nothing is published and nothing spent."""

    database: Database
    build: Build
    network: Network
    design: PaperDesign
    prepared: Prepared
    searches: Searches

    @cached_property
    def _original(self) -> Build:
        """The objects of the table."""
        size = max(self.design.sizes)
        return replace(self.build, trajectories=some_objects(self.build.trajectories, size))

    @cached_property
    def _truth(self) -> Truth:
        build = self._original
        return Truth.of(self.network, build.trajectories, build.locations, Progress())

    def run(self, row: PaperRow, epsilon: str, seed: int) -> Run | str:
        """A run of the table or of the figure of epsilon; text: why it cannot be run."""
        original = self._original
        try:
            request = self.design.request(row, epsilon, seed)
            require_possible(request, original.trajectories)
            request, world = self.prepared(request)
        except BadInput as error:
            return refusal(error)
        state, seconds = run_trial(request, world, seed, original.trajectories)
        case = Case.of(original, state, request.values)
        pair = aligned(case, state)
        found = paper_metrics(case, state, pair, seed)
        if not is_nobodys(state):
            found |= self._truth.recovered(pair, Progress())
        values = {name: found[name] for name in COLUMNS.values() if name in found}
        shown = epsilon if request.method.unit else None
        return Run(row.title, shown, len(original.trajectories), seed, None, seconds, values)

    def time(self, count: int) -> StepTimes:
        """GL by step, in memory, and the searches of its global step."""
        row = next(row for row in ROWS if row.title == "GL")
        original = some_objects(self.build.trajectories, count)
        request, world = self.prepared(self.design.request(row, EPSILON, self.design.seeds[0]))
        shown = Progress()
        run_trial(request, world, self.design.seeds[0], original, shown)
        steps = {
            name: sum(shown.seconds.get(f"{name} {part}", 0.0) for part in ("draw", "work"))
            for name in (step.name for step in request.method.steps)
        }
        searched = self.searches(self.database, original, self.build.locations)
        return StepTimes(count, steps, searched)


def mean_of(runs: Sequence[Run], title: str, epsilon: str, metric: str) -> float | None:
    """Over the seeds; None: it was not measured."""
    found = [
        run.values[metric]
        for run in runs
        if run.method == title and run.epsilon in (None, epsilon) and metric in run.values
    ]
    return float(np.mean(found)) if found else None
