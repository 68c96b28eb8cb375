"""How private and how useful: measured, compared, audited, reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from freqdp_db.bench.search import GIST, bench_search, parse_names
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.dataset.file_names import file_called
from freqdp_db.documents import Document, aside
from freqdp_db.engines.choice import choose_engine
from freqdp_db.errors import BadInput
from freqdp_db.evaluation import evaluate as evaluating
from freqdp_db.evaluation.audit import audit as auditing
from freqdp_db.evaluation.audit.audit import DEFAULT_RUNS, Audit
from freqdp_db.evaluation.experiment.design import ExperimentWishes, experiment_on
from freqdp_db.evaluation.experiment.paper_files import PaperWishes, paper_on
from freqdp_db.evaluation.experiment.published import EPSILON
from freqdp_db.evaluation.metrics import PUBLISHABLE
from freqdp_db.evaluation.report.public import write_public_report
from freqdp_db.evaluation.report.report import Reported, write_report
from freqdp_db.evaluation.report.verdicts import Verdict, verdicts_of
from freqdp_db.evaluation.report.words import BESIDE, by_group, meaning_of
from freqdp_db.interface.connecting import Connection, Value, reached, working
from freqdp_db.interface.engines import use_engine
from freqdp_db.methods.registry import DEFAULT_METHOD
from freqdp_db.progress import Progress
from freqdp_db.release.catalogue import require_readable
from freqdp_db.release.request import Request
from freqdp_db.roads.tables import found_roads, some_roads
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.datasets import find_dataset
from freqdp_db.storage.records.releases import find_release
from freqdp_db.storage.schema.upgrade import reads_private

_SIGNATURE = 10
_SEARCHED = 500
"""Queries that each way to search answers, for the paper's figure."""


@dataclass(frozen=True)
class Evaluated(Document):
    """A release against its originals."""

    release: str
    metrics: dict[str, float]
    publishable: list[str]
    """Which of them read nothing but the released table."""
    verdicts: list[Verdict]
    seed: int
    seconds: dict[str, float]

    def in_words(self) -> dict[str, list[tuple[str, float, str, bool]]]:
        """The main metrics by group: what each is, its value, its name, whether it may be published."""
        groups = by_group(self.metrics)
        return {
            group: [(meaning_of(n).what, self.metrics[n], n, n in self.publishable) for n in names]
            for group, names in groups.items()
            if group != BESIDE
        }

    @property
    def beside(self) -> int:
        """How many more metrics there are."""
        return len(by_group(self.metrics).get(BESIDE, ()))


@dataclass(frozen=True)
class Experiment(Document):
    """Methods side by side."""

    dataset: str
    files: list[Path]
    runs: int
    seconds: dict[str, float]
    markdown: str = aside()


def evaluate(
    connection: Connection,
    release: str,
    *,
    roads: str | None = None,
    map: Sequence[str] | None = None,
    seed: int = evaluating.DEFAULT_SEED,
    engine: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Evaluated:
    """Measure a release against its originals: attacks, utility, recovery. For the curator's eyes.

    roads: an edge table, for the recovery attack; map: which of its columns is which, such as
    `geom=the_geom`. seed: picks the samples, queries and resamples of the metrics.
    engine, workers: as for `anonymize`; each worker reads the whole release, and measures some of it.
    """
    chosen = choose_engine(engine, workers)
    evaluating.check_seed(seed)
    table, shown = some_roads(roads, map), working(progress)
    with reached(connection) as database, use_engine(chosen, database, shown) as running:
        row = find_release(database, release)
        values = evaluating.evaluate(
            database, row, shown, seed, found_roads(database, table), running
        )
    public = sorted(PUBLISHABLE & values.keys())
    return Evaluated(release, values, public, verdicts_of(row, values), seed, shown.seconds)


def experiment(
    connection: Connection,
    dataset: str,
    *,
    method: Sequence[str] | None = None,
    epsilon: Sequence[str] | None = None,
    objects: Sequence[int] | None = None,
    seeds: int = 5,
    signature: int = _SIGNATURE,
    time_step: Sequence[str] | None = None,
    roads: str | None = None,
    map: Sequence[str] | None = None,
    trips: bool = False,
    each_trip: bool = False,
    paper: bool = False,
    poi: str | None = None,
    category: str | None = None,
    out: Path | str | None = None,
    force: bool = False,
    engine: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Experiment:
    """Measure methods side by side: a table and two figures. Publishes and spends nothing.

    method, epsilon, objects, time_step: several of each; None: all methods, 1, all objects, "none".
    trips: measure on trips in the dataset's region alone, as synthetic methods are compared, with a
    resample of the objects beside them. each_trip: take every trip for an object of its own.
    paper: the paper's summary table beside its published values, and its two figures; it says the
    methods itself, takes epsilons for its figure, and the largest of objects for its table. poi,
    category: points of interest, for its klt.
    out: the folder to write; None: experiment_DATASET. force: overwrite existing files.
    engine, workers: as for `anonymize`; each worker reads the whole build, and does some of the runs.
    """
    chosen = choose_engine(engine, workers)
    table, folder, shown = (
        some_roads(roads, map),
        None if out is None else Path(out),
        working(progress),
    )
    if paper:
        _require_papers_own(method, time_step, signature)
        asked = PaperWishes(objects, epsilon, seeds, poi, category, table, folder, force)
        with reached(connection) as database, use_engine(chosen, database, shown) as running:
            asked = replace(asked, roads=found_roads(database, table))
            written = paper_on(database, dataset, asked, shown, _search_times, running)
    else:
        if poi is not None or category is not None:
            raise BadInput(
                "--poi and --category are for --paper", remedy="say --paper, or leave them out"
            )
        wishes = ExperimentWishes(
            methods=method,
            epsilons=epsilon,
            sizes=objects,
            seeds=seeds,
            signature=signature,
            time_steps=time_step,
            roads=table,
            out=folder,
            overwrite=force,
            trips=trips,
            each_trip=each_trip,
        )
        with reached(connection) as database, use_engine(chosen, database, shown) as running:
            wishes = replace(wishes, roads=found_roads(database, table))
            written = experiment_on(database, dataset, wishes, shown, running)
    return Experiment(
        dataset, written.files, written.runs, shown.seconds, markdown=written.markdown
    )


def _require_papers_own(
    method: Sequence[str] | None, time_step: Sequence[str] | None, signature: int
) -> None:
    asked = None if signature == _SIGNATURE else signature
    given = {"--method": method, "--time-step": time_step, "--signature": asked}
    for option, value in given.items():
        if value is not None:
            raise BadInput(f"{option} is not for --paper", remedy="the paper's own are taken")


def _search_times(
    database: Database, trajectories: Trajectories, locations: Locations
) -> dict[str, float]:
    """Microseconds of a query by each way to search, for the paper's figure."""
    found = bench_search(
        database, trajectories, locations, Request.parse("gl", epsilon=EPSILON),
        [name for name in parse_names(None) if name != GIST],
        queries=_SEARCHED, seed=1, progress=Progress(),
    )  # fmt: skip
    return {strategy.name: strategy.us_per_query for strategy in found.strategies}


def audit(
    connection: Connection,
    dataset: str,
    method: str = DEFAULT_METHOD,
    *,
    runs: int = DEFAULT_RUNS,
    progress: Progress | None = None,
    **parameters: Value,
) -> Audit:
    """Bound epsilon from below, by experiment. Publishes and spends nothing; for the curator.

    runs: in each of two neighbouring worlds. Raises VerificationFailed if a mechanism loses more than
    it claims.
    """
    request = Request.parse(method, **parameters)
    with reached(connection) as database:
        row = find_dataset(database, dataset)
        found = auditing.audit(database, row, request, working(progress), runs)
    found.require_within_claims()
    return found


def report(
    connection: Connection,
    name: str,
    *,
    public: bool = False,
    roads: str | None = None,
    map: Sequence[str] | None = None,
    out: Path | str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Reported:
    """Write one HTML file: what the release is, guarantees and loses, with pictures.

    public: only what the catalogue and the released table tell; analysts can ask for it, too.
    out: the file; None: NAME.report.html or NAME.public.html. force: overwrite an existing file.
    """
    table, shown = some_roads(roads, map), working(progress)
    suffix = ".public.html" if public else ".report.html"
    path = file_called(name, suffix) if out is None else Path(out)
    with reached(connection) as database:
        if public:
            if not reads_private(database):
                require_readable(database, name)
            return write_public_report(database, name, shown, out=path, overwrite=force)
        if not reads_private(database):
            raise BadInput(
                "the report for curators shows originals, which this login may not read",
                remedy="ask for the one that is for everybody, with --public",
            )
        row = find_release(database, name)
        found = found_roads(database, table)
        return write_report(database, row, shown, out=path, overwrite=force, roads=found)
