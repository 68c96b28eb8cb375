"""How fast the search and the whole job are, on a dataset or a generated city."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from freqdp_db.dataset.building import build
from freqdp_db.dataset.memory import load_build
from freqdp_db.dataset.registration import DEFAULT_SNAP, Registration, register
from freqdp_db.db import bench as floor
from freqdp_db.db import schema
from freqdp_db.db.bench import measure_floor
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow, find_dataset
from freqdp_db.db.names import format_relation
from freqdp_db.db.source import Mapping
from freqdp_db.errors import BadInput
from freqdp_db.load import make_city
from freqdp_db.paper.bench_search import SearchRun, bench_search, parse_names, part_of
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import search_within
from freqdp_db.release.pipeline import anonymize
from freqdp_db.release.request import Request

# A throwaway installation for benchmarks: the product itself, in schemas of its own.
#
# They are dropped at the end. Nothing is published, no budget of anybody's is touched, and the source
# of a dataset is read only.


Fill = Callable[[Database, tuple[str, str], int], None]
"""fill(database, relation, objects): make a table of so many objects up."""
CITY = Mapping("object_id", "at", "geom", lon=None, lat=None, timezone="UTC", filter=None)


@dataclass(frozen=True)
class Workbench:
    """An empty installation, and where its data comes from."""

    database: Database
    dataset: DatasetRow | None
    """None: `make` makes a table up."""
    make: Fill

    def register(self, objects: int, seed: int) -> DatasetRow:
        """A dataset of so many objects: a random part of the dataset, or a made-up city."""
        name = f"size_{objects}"
        relation = (source_schema(self.database), name)
        if self.dataset is None:
            mapping, srid, snap = CITY, None, DEFAULT_SNAP
            self.make(self.database, relation, objects)
        else:
            mapping, srid, snap = self.dataset.mapping, self.dataset.srid, self.dataset.snap
            source = (self.dataset.source_schema, self.dataset.source_relation)
            floor.copy_objects(self.database, source, mapping.object, relation, objects, seed)
        x = y = None
        if self.dataset is not None and mapping.geom is None and self.dataset.source_srid != 4326:
            x, y, srid = mapping.lon, mapping.lat, self.dataset.source_srid
        register(
            self.database,
            Registration(
                name=name,
                source=format_relation(*relation),
                object=mapping.object,
                time=mapping.time,
                geom=mapping.geom,
                lon=None if x else mapping.lon,
                lat=None if y else mapping.lat,
                x=x,
                y=y,
                snap=snap,
                srid=srid,
                timezone=mapping.timezone,
                filter=mapping.filter,
                budget="1000",
            ),
        )
        return find_dataset(self.database, name)


def source_schema(database: Database) -> str:
    return f"{database.settings.schema}_source"


@contextmanager
def workbench(database: Database, dataset: DatasetRow | None, make: Fill) -> Iterator[Workbench]:
    """Create the schemas, and drop them in the end."""
    settings = replace(
        database.settings,
        schema=f"freqdp_bench_{os.getpid()}",
        release_schema=f"freqdp_bench_{os.getpid()}_release",
    )
    bench = Database(database.conninfo, settings, "bench")
    try:
        schema.upgrade(bench, create_roles=False)
        yield Workbench(bench, dataset, make)
    finally:
        floor.drop_schemas(bench, source_schema(bench))
        bench.close()


@contextmanager
def some_build(
    database: Database, dataset: DatasetRow | None, make: Fill, objects: int, progress: Progress
) -> Iterator[tuple[Database, int]]:
    """A build to read: the dataset's, or one of a made-up city; and the database it is in."""
    if dataset is not None:
        yield database, dataset.require_build()
        return
    with workbench(database, None, make) as bench:
        yield bench.database, build(bench.database, bench.register(objects, 0), progress).build_id


def parse_sizes(text: str) -> list[int]:
    """`1000,2000,5000`: numbers of objects, in ascending order."""
    try:
        sizes = sorted({int(part) for part in text.split(",")})
    except ValueError:
        sizes = []
    if not sizes or sizes[0] < 1:
        raise BadInput(
            f"[[sizes]] {text!r} is not a list of numbers from 1 on",
            remedy="write [[sizes]] 1000,2000",
        )
    return sizes


# `freqdp bench pipeline`: build and anonymize by stage, beside the copy floor, in one run.


@dataclass(frozen=True)
class PipelineRun:
    """One size."""

    trajectories: int
    samples: int
    floor_s: float
    floor_parts: dict[str, float]
    build_s: float
    build_stages: dict[str, float]
    anonymize_s: float
    """From start to published, with the check, which goes on beside the indexes."""
    anonymize_stages: dict[str, float]
    peak_rss_mb: float
    """Of this process so far."""

    @property
    def ratios(self) -> dict[str, float]:
        """Against the copy floor."""
        return {
            "build": self.build_s / self.floor_s,
            "anonymize_and_verify": self.anonymize_s / self.floor_s,
        }

    def document(self) -> dict[str, object]:
        return {**asdict(self), "ratios": self.ratios}


def bench_pipeline(
    bench: Workbench, size: int, request: Request, seed: int, progress: Callable[[], Progress]
) -> PipelineRun:
    """Build and anonymize so many objects."""
    database = bench.database
    preparing = progress()
    with preparing.stage(f"take {size:,} objects"):
        dataset = bench.register(size, seed)
    building = progress()
    start = time.perf_counter()
    built = build(database, dataset, building)
    build_s = time.perf_counter() - start
    with preparing.stage("copy floor"):
        measured = measure_floor(database, built.build_id)
    releasing = progress()
    start = time.perf_counter()
    anonymize(database, find_dataset(database, dataset.name), request, releasing)
    seconds = time.perf_counter() - start
    row = find_build(database, built.build_id)
    return PipelineRun(
        trajectories=row.trajectories,
        samples=row.samples,
        floor_s=measured.total_s,
        floor_parts=asdict(measured),
        build_s=build_s,
        build_stages=building.seconds,
        anonymize_s=seconds,
        anonymize_stages=releasing.seconds,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def growth_exponent(runs: list[PipelineRun]) -> float | None:
    """Slope of log(seconds) over log(trajectories); None for fewer than two sizes."""
    sizes = np.array([run.trajectories for run in runs], np.float64)
    if len(set(sizes.tolist())) < 2:
        return None
    seconds = np.array([run.anonymize_s for run in runs])
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


_CITY_DAYS = 2


@dataclass(frozen=True)
class SearchBench:
    """Time per query of every strategy, for each size."""

    dataset: str | None
    runs: list[SearchRun]

    @property
    def answers_equal(self) -> bool:
        return all(run.answers_equal for run in self.runs)

    def document(self) -> dict[str, Any]:
        runs = [run.document() for run in self.runs]
        return {
            "dataset": self.dataset,
            **runs[-1],
            "answers_equal": self.answers_equal,
            "runs": runs,
        }


@dataclass(frozen=True)
class PipelineBench:
    """Build, anonymize and verify by stage, for each size."""

    dataset: str | None
    runs: list[PipelineRun]
    growth_exponent: float | None

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
    progress: Progress,
) -> SearchBench:
    """Ask the queries that `request` would ask, of every strategy."""
    wanted = parse_sizes(sizes)
    if queries < 1:
        raise BadInput(f"[[queries]] {queries} is not positive", remedy="ask at least one")
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
                search=partial(search_within, where, number, build) if size == known else None,
            )
            for size in sorted({min(size, known) for size in wanted})
        ]
    return SearchBench(dataset, runs)


def bench_pipelines(
    database: Database,
    dataset: str | None,
    sizes: str,
    request: Request,
    seed: int,
    progress: Callable[[], Progress],
) -> PipelineBench:
    """Run the whole job once for each size; `progress` makes one for each run."""
    wanted = parse_sizes(sizes)
    row = None if dataset is None else find_dataset(database, dataset)
    with workbench(database, row, _city(seed, progress())) as bench:
        runs = [bench_pipeline(bench, size, request, seed, progress) for size in wanted]
    return PipelineBench(dataset, runs, growth_exponent(runs))


def _city(seed: int, progress: Progress) -> Fill:
    def make(database: Database, relation: tuple[str, str], objects: int) -> None:
        make_city(database, relation, objects, _CITY_DAYS, seed, progress)

    return make
