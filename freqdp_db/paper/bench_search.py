"""`freqdp bench search`: the strategies on the queries of a real job, beside PostGIS's own index.

The queries are those of the first global step: every candidate whose TF must grow asks for that many
nearest trajectories that do not contain it. All strategies answer the same sample of them, each on
one core (a slow one every so-manieth of them), and the answers are compared.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np

from freqdp_db.db.bench import GistIndex, gist_index
from freqdp_db.db.connection import Database
from freqdp_db.engines.ranges import one_core
from freqdp_db.errors import BadInput
from freqdp_db.methods.frequency.counts import count_frequencies, rank_places
from freqdp_db.methods.frequency.deletion import delete_globally
from freqdp_db.methods.frequency.insertion import Search, growing_places
from freqdp_db.methods.frequency.partition import partitions_of
from freqdp_db.methods.frequency.perturbation import perturb_tf
from freqdp_db.model.arrays import Ints, offsets_from, rows_of
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.paper.grid_searches import SegmentRows, distinct_rows, search_linear
from freqdp_db.paper.strategies import STRATEGIES, Strategy, index_bytes
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.progress import Progress
from freqdp_db.release.paging import DEFAULT_MEMORY
from freqdp_db.release.request import Request
from freqdp_db.search.best import Nearest, Queries
from freqdp_db.search.stored import INDEX_BYTES

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

    Distances of GiST are the rows that the cursor gave.
    """

    name: str
    us_per_query: float
    distances_per_query: float
    cells_per_query: float | None
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
class Answers:
    """What a strategy found, and for which of the queries."""

    queries: Ints
    found: Nearest


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

    def document(self) -> dict[str, object]:
        return asdict(self)


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
        rows = distinct_rows(work.trajectories, locations)
    measured, answers = [], []
    for strategy in (STRATEGIES[name] for name in names if name != GIST):
        with progress.stage(f"search {strategy.name}"):
            result, found = _measure(strategy, work, locations)
        measured.append(result)
        answers.append(found)
    if GIST in names:
        ends = np.stack([rows.ax, rows.ay, rows.bx, rows.by], 1)
        with (
            gist_index(database, rows.owner, ends) as index,
            progress.stage(f"search {GIST}", len(work.queries), "queries") as stage,
        ):
            result, found = _measure_gist(index, rows, work, stage.advance)
        measured.append(result)
        answers.append(found)
    stored = []
    if search is not None:
        for memory in (None, len(rows.owner) * INDEX_BYTES // _SHARE_OF_MEMORY):
            with progress.stage("search stored grid"):
                took, found = _measure_stored(search, memory, work, locations)
            stored.append(took)
            answers.append(found)
    return SearchRun(
        len(trajectories),
        len(rows.owner),
        len(work.queries),
        _agree(answers),
        measured,
        stored,
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
            index_mb=index_bytes(index) / 1e6,
            queries=len(chosen),
        ),
        Answers(chosen, found),
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
    return StoredSearch(held, seconds, asked), Answers(np.arange(asked), found)


def _affordable(count: int, ask: Callable[[Ints], object]) -> Ints:
    """Of so many queries those that a strategy has time for: all, or every so-manieth."""
    few = np.arange(0, count, max(count // _TRIAL, 1))[:_TRIAL]
    ask(few[:1])
    start = time.perf_counter()
    ask(few)
    each = (time.perf_counter() - start) / max(len(few), 1)
    return np.arange(0, count, max(math.ceil(count * each / _MOST_S), 1))


def _measure_gist(
    index: GistIndex, rows: SegmentRows, work: Workload, advance: Callable[[int], None]
) -> tuple[Measured, Answers]:
    """The cursor's time; what it read is then ranked as every strategy ranks."""

    def ask(few: Ints) -> list[Ints]:
        asked = work.queries.take(few)
        skip = np.split(asked.skip, asked.skip_offsets[1:-1])
        return [
            index.nearest(float(asked.x[i]), float(asked.y[i]), int(asked.k[i]), skip[i])
            for i in range(len(few))
        ]

    chosen = _affordable(len(work.queries), ask)
    seconds, near = 0.0, []
    for q in chosen:
        start = time.perf_counter()
        near += ask(np.array([q]))
        seconds += time.perf_counter() - start
        advance(1)
    parts = []
    for q, read in zip(chosen, near, strict=True):
        asked = work.queries.take(np.array([q]))
        parts.append(search_linear(rows.take(read), asked, work.rank))
    each, given = max(len(chosen), 1), sum(len(read) for read in near)
    return (
        Measured(
            GIST,
            us_per_query=1e6 * seconds / each,
            distances_per_query=given / each,
            cells_per_query=None,
            build_s=index.build_s,
            index_mb=index.bytes / 1e6,
            queries=len(chosen),
        ),
        Answers(
            chosen,
            Nearest(
                offsets_from(work.queries.k[chosen]),
                np.concatenate([np.zeros(0, np.int32), *(part.trajectory for part in parts)]),
                np.concatenate([np.zeros(0, np.int32), *(part.position for part in parts)]),
                np.concatenate([np.zeros(0, np.int64), *(part.loss_mm for part in parts)]),
                given,
            ),
        ),
    )


def _agree(answers: list[Answers]) -> bool:
    """Whether all give the same to the queries that they have in common, ties included."""
    most = max(answers, key=lambda given: len(given.queries))
    return all(_same(most, other) for other in answers)


def _same(all_: Answers, some: Answers) -> bool:
    common = np.isin(some.queries, all_.queries, assume_unique=True)
    rows_one, one = rows_of(some.found.offsets, np.flatnonzero(common))
    rows_other, other = rows_of(
        all_.found.offsets, np.searchsorted(all_.queries, some.queries[common])
    )
    return np.array_equal(one, other) and all(
        np.array_equal(getattr(some.found, c)[rows_one], getattr(all_.found, c)[rows_other])
        for c in ("trajectory", "position", "loss_mm")
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
