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
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from freqdp_db.load import make_city
from freqdp_db.methods.frequency.counts import count_frequencies, rank_places
from freqdp_db.methods.frequency.deletion import delete_globally
from freqdp_db.methods.frequency.insertion import Search, growing_places
from freqdp_db.methods.frequency.partition import partitions_of
from freqdp_db.methods.frequency.perturbation import perturb_tf
from freqdp_db.model.arrays import Ints, offsets_from, rows_of
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.paper.strategies import (
    STRATEGIES,
    SegmentRows,
    Strategy,
    distinct_rows,
    index_bytes,
    search_linear,
)
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import DEFAULT_MEMORY, search_within
from freqdp_db.release.pipeline import anonymize
from freqdp_db.release.request import Request
from freqdp_db.search.nearest import Nearest, Queries
from freqdp_db.search.stored import INDEX_BYTES

CITY = Mapping("object_id", "at", "geom", lon=None, lat=None, timezone="UTC", filter=None)
_CITY_DAYS = 2
GIST = "gist"
_QUERIES_OF_THE_FIGURE = 500
_ENOUGH_S, _MOST_S = 1.0, 20.0
_MOST_ROUNDS = 10
_TRIAL = 10
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


Answers = tuple[Ints, Nearest]
"""Numbers of the queries that were asked, and what was found."""


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


@dataclass(frozen=True)
class Workload:
    """Queries for the nearest trajectories, and the trajectories that they run on."""

    trajectories: Trajectories
    queries: Queries
    rank: Ints


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
    segments = len(distinct_rows(work.trajectories, locations).owner)
    measured: list[Measured] = []
    stored: list[StoredSearch] = []
    answers: list[Answers] = []
    for name in names:
        with ExitStack() as stack, progress.stage(f"search {name}"):
            strategy = _gist(database, stack) if name == GIST else STRATEGIES[name]
            took, found = _measure(strategy, work, locations)
        measured.append(took)
        answers.append(found)
    if search is not None:
        for memory in (None, segments * INDEX_BYTES // _SHARE_OF_MEMORY):
            with progress.stage("search stored grid"):
                within, found = _measure_stored(search, memory, work, locations)
            stored.append(within)
            answers.append(found)
    return SearchRun(
        len(trajectories), segments, len(work.queries), _agree(answers), measured, stored
    )


def part_of(trajectories: Trajectories, size: int, seed: int) -> Trajectories:
    """So many of the trajectories, chosen at random."""
    if size >= len(trajectories):
        return trajectories
    chosen = np.sort(np.random.default_rng(seed).choice(len(trajectories), size, replace=False))
    return trajectories.take(chosen)


def _sample(count: int, wanted: int, seed: int) -> Ints:
    return np.sort(np.random.default_rng(seed).permutation(count)[:wanted])


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
    left, asked = thinned.partition, growing_places(thinned.partition, targets)
    return Workload(left.trajectories, asked.take(_sample(len(asked), queries, seed)), rank)


def _measure(strategy: Strategy, work: Workload, locations: Locations) -> tuple[Measured, Answers]:
    """Build the index, then ask the queries again and again until they took long enough."""
    with one_core():
        # compiles; not measured
        strategy.build(part_of(work.trajectories, 1, 0), locations, work.rank)
        start = time.perf_counter()
        index = strategy.build(work.trajectories, locations, work.rank)
        build_s = time.perf_counter() - start
        chosen = _affordable(
            len(work.queries), lambda few: strategy.query(index, work.queries.take(few)).distances
        )
        queries = work.queries.take(chosen)
        took: list[float] = []
        while not took or (sum(took) < _ENOUGH_S and len(took) < _MOST_ROUNDS):
            start = time.perf_counter()
            found = strategy.query(index, queries)
            took.append(time.perf_counter() - start)
    each = max(len(chosen), 1)
    return (
        Measured(
            strategy.name,
            us_per_query=1e6 * float(np.median(took)) / each,
            distances_per_query=found.distances / each,
            cells_per_query=found.cells / each,
            build_s=build_s,
            index_mb=(index[1].bytes if strategy.name == GIST else index_bytes(index)) / 1e6,
            queries=len(chosen),
        ),
        (chosen, found),
    )


def _measure_stored(
    search: Callable[[int], Search], memory: int | None, work: Workload, locations: Locations
) -> tuple[StoredSearch, Answers]:
    """Ask all queries at once, as a job does."""
    within = search(DEFAULT_MEMORY if memory is None else memory)
    start = time.perf_counter()
    found = within(work.trajectories, locations, work.rank, work.queries)
    seconds = time.perf_counter() - start
    held = None if memory is None else memory / 1e6
    asked = len(work.queries)
    return StoredSearch(held, seconds, asked), (np.arange(asked), found)


def _affordable(count: int, ask: Callable[[Ints], object]) -> Ints:
    """Of so many queries those that a strategy has time for: all, or every so-manieth."""
    few = np.arange(0, count, max(count // _TRIAL, 1))[:_TRIAL]
    ask(few[:1])
    start = time.perf_counter()
    ask(few)
    each = (time.perf_counter() - start) / max(len(few), 1)
    return np.arange(0, count, max(math.ceil(count * each / _MOST_S), 1))


def _gist(database: Database, stack: ExitStack) -> Strategy:
    """PostGIS's own index; what its cursor reads is then ranked as every strategy ranks."""

    def build_index(trajectories: Trajectories, locations: Locations, rank: Ints) -> Any:
        rows = distinct_rows(trajectories, locations)
        ends = np.stack([rows.ax, rows.ay, rows.bx, rows.by], 1)
        return rows, stack.enter_context(gist_index(database, rows.owner, ends)), rank

    def query(index: tuple[SegmentRows, GistIndex, Ints], queries: Queries) -> Nearest:
        rows, gist, rank = index
        parts, given = [search_linear(rows, queries.take(np.zeros(0, np.int64)), rank)], 0
        for i in range(len(queries)):
            one = queries.take(np.array([i]))
            read = gist.nearest(float(one.x[0]), float(one.y[0]), int(one.k[0]), one.skip)
            parts.append(search_linear(rows.take(read), one, rank))
            given += len(read)
        trajectory, position, loss = (
            np.concatenate(c) for c in zip(*map(_answer, parts), strict=True)
        )
        return Nearest(offsets_from(queries.k), trajectory, position, loss, given)

    return Strategy(GIST, build_index, query)


def _answer(found: Nearest) -> list[NDArray[Any]]:
    return [found.trajectory, found.position, found.loss_mm]


def _agree(answers: list[Answers]) -> bool:
    """Whether all give the same to the queries that they have in common, ties included."""
    most = max(answers, key=lambda given: len(given[0]))
    return all(_same(most, other) for other in answers)


def _same(one: Answers, other: Answers) -> bool:
    _, i, j = np.intersect1d(one[0], other[0], assume_unique=True, return_indices=True)
    mine, offsets = rows_of(one[1].offsets, i)
    theirs, others = rows_of(other[1].offsets, j)
    return np.array_equal(offsets, others) and all(
        np.array_equal(a[mine], b[theirs])
        for a, b in zip(_answer(one[1]), _answer(other[1]), strict=True)
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


# A throwaway installation: the product itself, in schemas of its own, which are dropped at the end. Nothing
# is published, no budget of anybody's is touched, and the source of a dataset is read only.


@dataclass(frozen=True)
class Workbench:
    """An empty installation, and where its data comes from."""

    database: Database
    dataset: DatasetRow | None
    """None: a city is made up."""
    seed: int

    def register(self, objects: int, progress: Progress) -> DatasetRow:
        """A dataset of so many objects: a random part of the dataset, or a made-up city."""
        name = f"size_{objects}"
        relation = (source_schema(self.database), name)
        if self.dataset is None:
            mapping, srid, snap = CITY, None, DEFAULT_SNAP
            make_city(self.database, relation, objects, _CITY_DAYS, self.seed, progress)
        else:
            mapping, srid, snap = self.dataset.mapping, self.dataset.srid, self.dataset.snap
            source = (self.dataset.source_schema, self.dataset.source_relation)
            floor.copy_objects(self.database, source, mapping.object, relation, objects, self.seed)
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
def workbench(database: Database, dataset: DatasetRow | None, seed: int) -> Iterator[Workbench]:
    """Create the schemas, and drop them in the end."""
    settings = replace(
        database.settings,
        schema=f"freqdp_bench_{os.getpid()}",
        release_schema=f"freqdp_bench_{os.getpid()}_release",
    )
    bench = Database(database.conninfo, settings, "bench")
    try:
        schema.upgrade(bench, create_roles=False)
        yield Workbench(bench, dataset, seed)
    finally:
        floor.drop_schemas(bench, source_schema(bench))
        bench.close()


@contextmanager
def some_build(
    database: Database, dataset: DatasetRow | None, seed: int, objects: int, progress: Progress
) -> Iterator[tuple[Database, int]]:
    """A build to read: the dataset's, or one of a made-up city; and the database it is in."""
    if dataset is not None:
        yield database, dataset.require_build()
        return
    with workbench(database, None, seed) as bench:
        registered = bench.register(objects, progress)
        yield bench.database, build(bench.database, registered, progress).build_id


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


def _run_pipeline(
    bench: Workbench, size: int, request: Request, progress: Callable[[], Progress]
) -> PipelineRun:
    """Build and anonymize so many objects."""
    database = bench.database
    preparing = progress()
    with preparing.stage(f"take {size:,} objects"):
        dataset = bench.register(size, preparing)
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
    with some_build(database, row, seed, wanted[-1], progress) as (where, number):
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
    with workbench(database, row, seed) as bench:
        runs = [_run_pipeline(bench, size, request, progress) for size in wanted]
    return PipelineBench(dataset, runs, growth_exponent(runs))
