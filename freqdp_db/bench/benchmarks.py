"""How fast the search and the whole job are, on a dataset or a made-up city."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freqdp_db.bench.installation import Fill, parse_sizes, some_build, workbench
from freqdp_db.bench.pictures import check_picture, draw_pipeline, draw_search
from freqdp_db.bench.pipeline import PipelineRun, bench_pipeline, growth_exponent
from freqdp_db.bench.search import SearchRun, bench_search, parse_names, part_of
from freqdp_db.dataset.memory import load_build
from freqdp_db.errors import BadInput
from freqdp_db.load import make_city
from freqdp_db.progress import Progress
from freqdp_db.release.request import Request
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.datasets import find_dataset

_CITY_DAYS = 2


@dataclass(frozen=True)
class SearchBench:
    """Time per query of every strategy, for each size."""

    dataset: str | None
    runs: list[SearchRun]
    picture: Path | None

    @property
    def answers_equal(self) -> bool:
        return all(run.answers_equal and run.local_answers_equal for run in self.runs)

    def document(self) -> dict[str, Any]:
        runs = [run.document() for run in self.runs]
        return {
            "dataset": self.dataset,
            **runs[-1],
            "answers_equal": self.answers_equal,
            "runs": runs,
            "picture": self.picture,
        }


@dataclass(frozen=True)
class PipelineBench:
    """Build, anonymize and verify by stage, for each size."""

    dataset: str | None
    runs: list[PipelineRun]
    growth_exponent: float | None
    picture: Path | None

    def document(self) -> dict[str, Any]:
        return {**vars(self), "runs": [run.document() for run in self.runs]}


def bench_searches(
    database: Database,
    dataset: str | None,
    sizes: str,
    queries: int,
    strategies: str | None,
    request: Request,
    seed: int,
    picture: str | None,
    progress: Progress,
) -> SearchBench:
    """Ask the queries that `request` would ask, of every strategy."""
    wanted = parse_sizes(sizes)
    if queries < 1:
        raise BadInput(f"[[queries]] {queries} is not positive", remedy="ask at least one")
    path = None if picture is None else check_picture(picture)
    names = parse_names(strategies)
    row = None if dataset is None else find_dataset(database, dataset)
    make = _city(seed, progress)
    with some_build(database, row, make, wanted[-1], progress) as (where, number):
        build = load_build(where, number, progress)
        known = len(build.trajectories)
        runs = [
            bench_search(
                where,
                part_of(build.trajectories, size, seed),
                build.locations,
                request,
                names,
                queries=queries,
                seed=seed,
                progress=progress,
            )
            for size in sorted({min(size, known) for size in wanted})
        ]
    if path is not None:
        draw_search(runs, path)
    return SearchBench(dataset, runs, path)


def bench_pipelines(
    database: Database,
    dataset: str | None,
    sizes: str,
    request: Request,
    seed: int,
    picture: str | None,
    progress: Callable[[], Progress],
) -> PipelineBench:
    """Run the whole job once for each size; `progress` makes one for each run."""
    wanted = parse_sizes(sizes)
    path = None if picture is None else check_picture(picture)
    row = None if dataset is None else find_dataset(database, dataset)
    with workbench(database, row, _city(seed, progress())) as bench:
        runs = [bench_pipeline(bench, size, request, seed, progress) for size in wanted]
    exponent = growth_exponent(runs)
    if path is not None:
        draw_pipeline(runs, exponent, path)
    return PipelineBench(dataset, runs, exponent, path)


def _city(seed: int, progress: Progress) -> Fill:
    def make(database: Database, relation: tuple[str, str], objects: int) -> None:
        make_city(database, relation, objects, _CITY_DAYS, seed, progress)

    return make
