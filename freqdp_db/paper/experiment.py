"""`freqdp experiment` from a dataset's name to its files: CSV, Markdown, JSON and two figures."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import freqdp_db
from freqdp_db.dataset.facts import facts_of
from freqdp_db.dataset.memory import load_build
from freqdp_db.dataset.road_tables import RoadTable
from freqdp_db.dataset.text_values import file_called
from freqdp_db.db.builds import BuildRow, find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow, find_dataset
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.dealing import deal_out
from freqdp_db.evaluation.figures import files_in
from freqdp_db.evaluation.trials import preparing
from freqdp_db.methods.kinds import LonLatArea, TimeStretch
from freqdp_db.methods.parameters import RELEASE
from freqdp_db.methods.registry import METHODS
from freqdp_db.paper.figures import draw_epsilon, draw_size
from freqdp_db.paper.runs import (
    Design,
    OnObjects,
    Run,
    Variant,
    check_sizes,
    seeds_of,
)
from freqdp_db.paper.synthetic_trip_metrics import OnTrips, pieces_on_trips
from freqdp_db.progress import Progress

# The paper's table, column by column, then what it does not have.
COLUMNS = {
    "LA_s": "la_s.a.10",
    "LA_s full": "la_s.a.full",
    "LA_t": "la_t.a",
    "LA_st": "la_st.a.10",
    "LA_st full": "la_st.a.full",
    "LA_sq": "la_sq.a.10",
    "LA_sq full": "la_sq.a.full",
    "LA_x 1": "la_x.1",
    "LA_x 4": "la_x.4",
    "LA_x 10": "la_x.10",
    "MI": "mi",
    "INF": "inf",
    "INF sym": "inf.sym",
    "DE": "de",
    "TE": "te.trip",
    "FFP": "ffp",
    "fast": "plausibility.fast",
    "length": "plausibility.length_ratio",
    "query": "query_error",
    "hotspot": "hotspot",
    "Prec": "recovery.precision",
    "Rec": "recovery.recall",
    "F": "recovery.f",
    "RMF": "recovery.rmf",
    "Acc": "recovery.accuracy",
    "TE trips": "trip.te",
    "DE trips": "trip.de",
    "length trips": "trip.length",
    "density trips": "trip.density",
    "Kendall trips": "trip.kendall",
    "query trips": "trip.query",
    "query mean": "trip.query.mean",
    "FFP trips": "trip.ffp",
}
_SETTINGS = ("method", "epsilon", "objects", "time_step_s")


def grouped(runs: Sequence[Run]) -> list[tuple[tuple[Any, ...], list[Run]]]:
    """Runs that differ in their seed only, together."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(getattr(run, name) for name in _SETTINGS), []).append(run)
    return list(groups.items())


def as_csv(runs: Sequence[Run]) -> str:
    """One row a run, all metrics."""
    names = sorted({name for run in runs for name in run.values})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_SETTINGS, "seed", "seconds", *names])
    for run in runs:
        writer.writerow(
            [
                *(getattr(run, name) for name in _SETTINGS),
                run.seed,
                f"{run.seconds:.3f}",
                *(run.values.get(name, "") for name in names),
            ]
        )
    return text.getvalue()


def as_json(runs: Sequence[Run], about: dict[str, Any]) -> str:
    return json.dumps({**about, "runs": [asdict(run) for run in runs]}, indent=1) + "\n"


def as_markdown(runs: Sequence[Run], about: dict[str, Any]) -> str:
    """Mean and standard deviation over the seeds."""
    shown = {title: name for title, name in COLUMNS.items() if any(name in r.values for r in runs)}
    lines = [
        f"Dataset {about['dataset']} ({about['snap']}), signature {about['signature']}, "
        f"{len(about['seeds'])} seed(s), freqdp {about['software']}. Mean ± standard deviation over "
        "the seeds. Seeded noise, nothing published, nothing spent.",
        "",
        "| method | epsilon | objects | time step | " + " | ".join(shown) + " | seconds |",
        "|---" * 4 + "|---:" * (len(shown) + 1) + "|",
    ]
    for (method, epsilon, objects, step), same in grouped(runs):
        cells = [_spread([r.values[n] for r in same if n in r.values]) for n in shown.values()]
        seconds = _spread([r.seconds for r in same], 1)
        lines.append(
            f"| {method} | {epsilon or '-'} | {objects:,} | {'-' if step is None else f'{step:g} s'} | "
            + " | ".join(cells)
            + f" | {seconds} |"
        )
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float], digits: int = 3) -> str:
    if not values:
        return "-"
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


RESULT_FILES = ("results.csv", "results.md", "results.json", "epsilon.svg", "size.svg")
_MOST_SEEDS = 1_000
# What is run unless somebody says: those that need nothing but the build, and keep objects apart.
_PAPERS = [m.name for m in METHODS.values() if m.kind == "edited"]
_TIME_STEP = next(p for p in RELEASE if p.name == "time_step")


@dataclass(frozen=True)
class ExperimentOptions:
    """What the command was asked for; None: the default."""

    methods: Sequence[str] | None
    epsilons: Sequence[str] | None
    sizes: Sequence[int] | None
    seeds: int
    signature: int
    time_steps: Sequence[str] | None
    roads: RoadTable | None
    out: Path | None
    overwrite: bool
    trips: bool = False
    each_trip: bool = False

    def design(self, objects: int) -> Design:
        steps = [
            None if text == "none" else _TIME_STEP.parse(text, text=True)
            for text in self.time_steps or ["none"]
        ]
        return Design(
            variants=[Variant.parse(text) for text in self.methods or _PAPERS],
            epsilons=self.epsilons or ["1"],
            sizes=self.sizes or [objects],
            seeds=seeds_of(self.seeds, _MOST_SEEDS),
            time_steps_us=steps,
            signature=self.signature,
            each_trip=self.each_trip,
        )

    def require_possible(self) -> None:
        """Options that do not go together."""
        if self.each_trip and not self.trips:
            raise BadInput("[[each_trip]] is given without [[trips]]", remedy="give both")
        if self.trips and (self.roads is not None or self.time_steps):
            raise BadInput(
                "[[trips]] measures neither recovery nor coarse times",
                remedy="leave out [[roads]], [[map]] and [[time_step]]",
            )


@dataclass(frozen=True)
class WrittenTables:
    """What an experiment left behind."""

    files: list[Path]
    markdown: str
    runs: int


@dataclass(frozen=True)
class _ExperimentAsked:
    dataset: str
    build_id: int
    options: ExperimentOptions


def _made(database: Database, asked: _ExperimentAsked, progress: Progress) -> OnObjects | OnTrips:
    """What the runs need, read from the database."""
    options, dataset = asked.options, find_dataset(database, asked.dataset)
    build, roads = find_build(database, asked.build_id), options.roads
    network = None if roads is None else roads.network(database, build.srid, progress)
    loaded = load_build(database, build.build_id, progress)
    prepared = preparing(database, dataset, build, loaded)
    design = options.design(build.trajectories)
    if options.trips:
        region, period = _require_facts(dataset)
        known = facts_of(loaded)(LonLatArea().from_text(region), TimeStretch().from_text(period))
        return OnTrips(loaded, known, design, prepared)
    return OnObjects(loaded, network, design, prepared)


def _run(made: OnObjects | OnTrips, piece: Any, progress: Progress) -> list[Run]:
    return made.run(piece, progress)


def experiment_on(
    database: Database,
    name: str,
    options: ExperimentOptions,
    progress: Progress,
    engine: Engine = LOCAL,
) -> WrittenTables:
    """Run the design on the current build of a dataset and write its files."""
    dataset = find_dataset(database, name)
    build = find_build(database, dataset.require_build())
    options.require_possible()
    if options.trips:
        _require_facts(dataset)
    design = options.design(build.trajectories)
    check_sizes(design.sizes, build.trajectories)
    list(design.requests())  # refuses a bad value before anything runs
    files = files_in(
        options.out or file_called(f"experiment_{name}", ""),
        RESULT_FILES,
        overwrite=options.overwrite,
    )
    pieces: Sequence[Any] = pieces_on_trips(design) if options.trips else design.pieces
    runs: list[Run] = []
    asked = _ExperimentAsked(name, build.build_id, options)
    with progress.stage("experiment", len(pieces), "runs") as stage:
        for found in deal_out(engine, database, build, _made, asked, _run, pieces, progress):
            runs += found
            stage.advance(1)
    about = about_run(name, build, design.seeds, signature=design.signature)
    files[0].parent.mkdir(parents=True, exist_ok=True)
    markdown = as_markdown(runs, about)
    _write(files, runs, markdown, as_json(runs, about))
    return WrittenTables(files, markdown, len(runs))


def about_run(name: str, build: BuildRow, seeds: Sequence[int], **asked: int) -> dict[str, Any]:
    """What the files say they are of."""
    return {
        "dataset": name,
        "snap": build.snap,
        "build": build.build_id,
        **asked,
        "seeds": list(seeds),
        "software": freqdp_db.__version__,
    }


def _require_facts(dataset: DatasetRow) -> tuple[str, str]:
    """What is public of the dataset: trips are cut by it."""
    if dataset.region is None or dataset.period is None:
        raise BadInput(
            f"[[trips]]: the region and the period of {dataset.name} are not known",
            remedy=f"say them: freqdp dataset set {shlex.quote(dataset.name)} --region ... --period ...",
        )
    return dataset.region, dataset.period


def _write(files: Sequence[Path], runs: Sequence[Run], markdown: str, document: str) -> None:
    table, words, data, epsilon, size = files
    table.write_text(as_csv(runs), "utf-8")
    words.write_text(markdown, "utf-8")
    data.write_text(document, "utf-8")
    draw_epsilon(runs, epsilon)
    draw_size(runs, size)
