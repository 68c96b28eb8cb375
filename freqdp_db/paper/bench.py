"""How fast the search and the whole job are, on a dataset or a generated city.

`freqdp bench search`: the strategies on the queries of a real job, beside PostGIS's own index. The queries
are those of the first global step: every candidate whose TF must grow asks for that many nearest
trajectories that do not contain it. All strategies answer the same sample of them, each on one core (a slow
one every so-manieth of them), and the answers are compared.

`freqdp bench pipeline`: build and anonymize by stage, beside the copy floor, in one run.
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import numpy as np

from freqdp_db.dataset.building import build
from freqdp_db.dataset.memory import load_build
from freqdp_db.dataset.registration import DEFAULT_SNAP, Registration, register
from freqdp_db.db import bench as floor
from freqdp_db.db import schema
from freqdp_db.db.bench import GistIndex, gist_index, measure_floor
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow, find_dataset
from freqdp_db.db.names import format_relation
from freqdp_db.db.source import Mapping
from freqdp_db.engines.ranges import one_core
from freqdp_db.errors import BadInput
from freqdp_db.load import Loader
from freqdp_db.methods.frequency.counts import count_frequencies, rank_places
from freqdp_db.methods.frequency.deletion import delete_globally
from freqdp_db.methods.frequency.insertion import Search, growing_places
from freqdp_db.methods.frequency.partition import partitions_of
from freqdp_db.methods.frequency.perturbation import perturb_tf
from freqdp_db.model.arrays import Ints, rows_of
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.paper.strategies import (
    STRATEGIES,
    BestList,
    SegmentRows,
    Strategy,
    answer,
    distinct_rows,
    index_bytes,
)
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import DEFAULT_MEMORY, search_within
from freqdp_db.release.pipeline import anonymize
from freqdp_db.release.request import JobRequest, Request
from freqdp_db.search.nearest import Nearest, Queries
from freqdp_db.search.stored import INDEX_BYTES

CITY = Mapping("object_id", "at", "geom", lon=None, lat=None, timezone="UTC", filter=None)
_CITY_DAYS = 2
GIST = "gist"
_QUERIES_OF_THE_FIGURE = 500
_ENOUGH_S, _MOST_S = 1.0, 20.0
_MOST_ROUNDS = 10
_TRIAL = 10
T = TypeVar("T")
_SHARE_OF_MEMORY = 10
"""The stored search is measured with all the memory that it wants, and with so manieth of it."""


@dataclass(frozen=True)
class Measured:
    """What one strategy took, on one core.

    GiST: distances are the rows that its cursor gave; it knows no cells.
    """

    name: str
    us_per_query: float
    distances_per_query: float
    cells_per_query: float
    build_s: float
    index_mb: float
    queries: int
    """How many it answered."""


@dataclass(frozen=True)
class StoredSearch:
    """What the search of a job took, over the grid in the database: all cores, reading included."""

    memory_mb: float | None
    """What it was allowed to hold; None: all segments."""
    seconds: float
    queries: int


@dataclass(frozen=True)
class SearchRun:
    """One number of trajectories."""

    trajectories: int
    segments: int
    """Distinct within their trajectory."""
    queries: int
    answers_equal: bool
    strategies: list[Measured]
    stored: list[StoredSearch]
    """Only of all trajectories: the build has no grid of a part of them."""


Answers = tuple[Ints, Nearest]
"""Numbers of the queries that were asked, and what was found."""
Workload = tuple[Trajectories, Queries, Ints]
"""Trajectories, queries for the nearest of them, and the order of the trajectories among equals."""


def parse_names(text: str | None) -> list[str]:
    """Names of strategies, with commas; all of them for want of a choice."""
    known = [*STRATEGIES, GIST]
    names = known if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise BadInput(
                f"[[strategies]]: there is no {name!r}", remedy=f"choose from {', '.join(known)}"
            )
    return names


def bench_search(
    database: Database,
    trajectories: Trajectories,
    locations: Locations,
    request: Request,
    names: list[str],
    *,
    queries: int,
    seed: int,
    progress: Progress,
    search: Callable[[int], Search] | None = None,
) -> SearchRun:
    """Measure the strategies on a sample of the job's queries.

    search: that of a job, within so many bytes; None: these are not all trajectories of a build.
    """
    with progress.stage(f"queries of {len(trajectories):,} trajectories"):
        work = _global_workload(trajectories, locations, request, queries, seed)
    segments = len(distinct_rows(work[0], locations).owner)
    measured, stored = list[Measured](), list[StoredSearch]()
    answers: list[Answers] = []
    for name in names:
        with ExitStack() as stack, progress.stage(f"search {name}"):
            strategy = _gist(database, stack) if name == GIST else STRATEGIES[name]
            took, found = _measure(strategy, work, locations)
        measured.append(took)
        answers.append(found)
    thinned, asked, rank = work
    # all queries at once, as a job does, with all the memory that it wants and with a part of it
    limits = () if search is None else (None, segments * INDEX_BYTES // _SHARE_OF_MEMORY)
    for memory in limits:
        assert search is not None
        with progress.stage("search stored grid"):
            within = search(DEFAULT_MEMORY if memory is None else memory)
            seconds, nearest = _timed(partial(within, thinned, locations, rank, asked))
        stored.append(StoredSearch(memory and memory / 1e6, seconds, len(asked)))
        answers.append((np.arange(len(asked)), nearest))
    most = max(answers, key=lambda given: len(given[0]))
    equal = all(_same(most, other) for other in answers)
    return SearchRun(len(trajectories), segments, len(asked), equal, measured, stored)


def part_of(trajectories: Trajectories, size: int, seed: int) -> Trajectories:
    """So many of the trajectories, chosen at random."""
    if size >= len(trajectories):
        return trajectories
    chosen = np.sort(np.random.default_rng(seed).choice(len(trajectories), size, replace=False))
    return trajectories.take(chosen)


def _global_workload(
    trajectories: Trajectories, locations: Locations, request: Request, queries: int, seed: int
) -> Workload:
    rank = np.random.default_rng(seed).permutation(len(trajectories)).astype(np.int64)
    frequencies = count_frequencies(trajectories, len(locations))
    candidates = rank_places(frequencies, request.values["signature"]).candidates
    epsilon = Fraction(request.values["epsilon_global"])
    source = SeededSource(seed, 1)
    targets = perturb_tf(frequencies.tf, len(trajectories), candidates, epsilon, source)
    (thinned,) = delete_globally(partitions_of(trajectories, locations), targets, rank)
    asked = growing_places(thinned.partition, targets)
    chosen = np.random.default_rng(seed).permutation(len(asked))[:queries]
    return thinned.partition.trajectories, asked.take(np.sort(chosen)), rank


def _measure(strategy: Strategy, work: Workload, locations: Locations) -> tuple[Measured, Answers]:
    """Build the index, then ask the queries again and again until they took long enough."""
    trajectories, queries, rank = work
    with one_core():
        strategy.build(part_of(trajectories, 1, 0), locations, rank)  # compiles; not measured
        build_s, index = _timed(lambda: strategy.build(trajectories, locations, rank))
        # all queries, or every so-manieth of them: as many as there is time for
        few = np.arange(0, len(queries), max(len(queries) // _TRIAL, 1))[:_TRIAL]
        strategy.query(index, queries.take(few[:1]))
        few_s, _ = _timed(lambda: strategy.query(index, queries.take(few)))
        all_s = len(queries) * few_s / max(len(few), 1)
        chosen = np.arange(0, len(queries), max(math.ceil(all_s / _MOST_S), 1))
        asked, took = queries.take(chosen), list[float]()
        while not took or (sum(took) < _ENOUGH_S and len(took) < _MOST_ROUNDS):
            seconds, found = _timed(lambda: strategy.query(index, asked))
            took.append(seconds)
    each = max(len(chosen), 1)
    measured = Measured(
        strategy.name,
        us_per_query=1e6 * float(np.median(took)) / each,
        distances_per_query=found.distances / each,
        cells_per_query=found.cells / each,
        build_s=build_s,
        index_mb=(index[1].bytes if strategy.name == GIST else index_bytes(index)) / 1e6,
        queries=len(chosen),
    )
    return measured, (chosen, found)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def _gist(database: Database, stack: ExitStack) -> Strategy:
    """PostGIS's own index; what its cursor reads is then ranked as every strategy ranks."""

    def build_index(trajectories: Trajectories, locations: Locations, rank: Ints) -> Any:
        rows = distinct_rows(trajectories, locations)
        ends = np.stack([rows.ax, rows.ay, rows.bx, rows.by], 1)
        return rows, stack.enter_context(gist_index(database, rows.owner, ends)), rank

    def query(index: tuple[SegmentRows, GistIndex, Ints], queries: Queries) -> Nearest:
        rows, gist, rank = index

        def visit(best: BestList) -> int:
            best.compare(rows.take(gist.nearest(best.x, best.y, best.k, best.left_out)))
            return 0

        return answer(visit, queries, rank)

    return Strategy(GIST, build_index, query)


def _same(one: Answers, other: Answers) -> bool:
    """Whether both give the same to the queries that they have in common, ties included."""
    _, i, j = np.intersect1d(one[0], other[0], assume_unique=True, return_indices=True)
    mine, offsets = rows_of(one[1].offsets, i)
    theirs, others = rows_of(other[1].offsets, j)
    return np.array_equal(offsets, others) and all(
        np.array_equal(getattr(one[1], column)[mine], getattr(other[1], column)[theirs])
        for column in ("trajectory", "position", "loss_mm")
    )


def search_times(
    database: Database, trajectories: Trajectories, locations: Locations, epsilon: str
) -> dict[str, float]:
    """Microseconds of a query by each strategy, for the paper's figure."""
    found = bench_search(
        database, trajectories, locations, Request.parse("gl", epsilon=epsilon),
        [name for name in parse_names(None) if name != GIST],
        queries=_QUERIES_OF_THE_FIGURE, seed=1, progress=Progress(),
    )  # fmt: skip
    return {strategy.name: strategy.us_per_query for strategy in found.strategies}


# The whole job, in an installation of its own: nothing is published, no budget of anybody's is touched, and
# the source of a dataset is only read.


@contextmanager
def workbench(database: Database) -> Iterator[Database]:
    """An empty installation in schemas of its own, which are dropped in the end."""
    name = f"freqdp_bench_{os.getpid()}"
    settings = replace(database.settings, schema=name, release_schema=f"{name}_release")
    bench = Database(database.conninfo, settings, "bench")
    try:
        schema.upgrade(bench, create_roles=False)
        yield bench
    finally:
        floor.drop_schemas(bench, f"{name}_source")
        bench.close()


def register_some(
    bench: Database, dataset: DatasetRow | None, objects: int, seed: int, progress: Progress
) -> DatasetRow:
    """A dataset of so many objects: a random part of one, or (None) a made-up city."""
    name = f"size_{objects}"
    relation = (f"{bench.settings.schema}_source", name)
    if dataset is None:
        Loader(bench, progress, "create").city_alone(relation, objects, _CITY_DAYS, seed)
        mapping, srid, snap, projected = CITY, None, DEFAULT_SNAP, False
    else:
        copied = (dataset.source_schema, dataset.source_relation)
        floor.copy_objects(bench, copied, dataset.mapping.object, relation, objects, seed)
        mapping, snap = dataset.mapping, dataset.snap
        projected = mapping.geom is None and dataset.source_srid != 4326
        srid = dataset.source_srid if projected else dataset.srid
    given = vars(mapping) | {"keep_columns": ",".join(mapping.keep_columns) or None}
    if projected:
        given |= {"x": mapping.lon, "y": mapping.lat, "lon": None, "lat": None}
    source = format_relation(*relation)
    register(
        bench, Registration(name=name, source=source, snap=snap, srid=srid, budget="1000", **given)
    )
    return find_dataset(bench, name)


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


@dataclass(frozen=True)
class PipelineRun:
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
    ratios: dict[str, float]
    """Against the copy floor."""


def _run_pipeline(
    bench: Database,
    dataset: DatasetRow | None,
    size: int,
    request: Request,
    seed: int,
    progress: Callable[[], Progress],
) -> PipelineRun:
    preparing, building, releasing = progress(), progress(), progress()
    with preparing.stage(f"take {size:,} objects"):
        part = register_some(bench, dataset, size, seed, preparing)
    build_s, built = _timed(lambda: build(bench, part, building))
    with preparing.stage("copy floor"):
        measured = measure_floor(bench, built.build_id)
    part = find_dataset(bench, part.name)
    anonymize_s, _ = _timed(lambda: anonymize(bench, part, JobRequest(request), releasing))
    row = find_build(bench, built.build_id)
    return PipelineRun(
        trajectories=row.trajectories,
        samples=row.samples,
        floor_s=measured.total_s,
        floor_parts=asdict(measured),
        build_s=build_s,
        build_stages=building.seconds,
        anonymize_s=anonymize_s,
        anonymize_stages=releasing.seconds,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        ratios={
            "build": build_s / measured.total_s,
            "anonymize_and_verify": anonymize_s / measured.total_s,
        },
    )


def growth_exponent(runs: list[PipelineRun]) -> float | None:
    """Slope of log(seconds) over log(trajectories); None for fewer than two sizes."""
    sizes = np.array([run.trajectories for run in runs], np.float64)
    if len(set(sizes.tolist())) < 2:
        return None
    seconds = np.array([run.anonymize_s for run in runs])
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@dataclass(frozen=True)
class SearchBench:
    """Time per query of every strategy, for each size."""

    dataset: str | None
    runs: list[SearchRun]

    @property
    def answers_equal(self) -> bool:
        return all(run.answers_equal for run in self.runs)

    def document(self) -> dict[str, Any]:
        runs = [asdict(run) for run in self.runs]
        equal = {"answers_equal": self.answers_equal}
        return {"dataset": self.dataset} | runs[-1] | equal | {"runs": runs}


@dataclass(frozen=True)
class PipelineBench:
    """Build, anonymize and verify by stage, for each size."""

    dataset: str | None
    runs: list[PipelineRun]
    growth_exponent: float | None

    def document(self) -> dict[str, Any]:
        return asdict(self)


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
    with ExitStack() as stack:
        if dataset is not None:
            where, number = database, find_dataset(database, dataset).require_build()
        else:
            where = stack.enter_context(workbench(database))
            city = register_some(where, None, wanted[-1], seed, progress)
            number = build(where, city, progress).build_id
        read = load_build(where, number, progress)
        known, runs = len(read.trajectories), []
        for size in sorted({min(size, known) for size in wanted}):
            part = part_of(read.trajectories, size, seed)
            search = partial(search_within, where, number, read) if size == known else None
            runs.append(
                bench_search(
                    where, part, read.locations, request, names, queries=queries, seed=seed,
                    progress=progress, search=search,
                )
            )  # fmt: skip
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
    with workbench(database) as bench:
        runs = [_run_pipeline(bench, row, size, request, seed, progress) for size in wanted]
    return PipelineBench(dataset, runs, growth_exponent(runs))
