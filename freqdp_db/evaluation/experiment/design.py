"""An experiment from a dataset's name to its files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import freqdp_db
from freqdp_db.dataset.facts import facts_of
from freqdp_db.dataset.file_names import file_called
from freqdp_db.dataset.memory import load_build
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.dealing import deal_out
from freqdp_db.evaluation.experiment.figures import draw_epsilon, draw_size
from freqdp_db.evaluation.experiment.on_trips import OnTrips, pieces_on_trips
from freqdp_db.evaluation.experiment.runs import (
    Design,
    OnObjects,
    Run,
    Variant,
    check_sizes,
    seeds_of,
)
from freqdp_db.evaluation.experiment.tables import as_csv, as_json, as_markdown
from freqdp_db.evaluation.pages import files_in
from freqdp_db.evaluation.trials import preparing
from freqdp_db.methods.areas import LonLatArea
from freqdp_db.methods.parameters import RELEASE
from freqdp_db.methods.places_and_times import TimeStretch
from freqdp_db.methods.registry import METHODS
from freqdp_db.progress import Progress
from freqdp_db.roads.tables import RoadTable
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.builds import BuildRow, find_build
from freqdp_db.storage.records.datasets import DatasetRow, find_dataset

RESULT_FILES = ("results.csv", "results.md", "results.json", "epsilon.svg", "size.svg")
_MOST_SEEDS = 1_000
# What is run unless somebody says: those that need nothing but the build, and keep objects apart.
_PAPERS = [m.name for m in METHODS.values() if m.kind == "edited"]
_TIME_STEP = next(p for p in RELEASE if p.name == "time_step")


@dataclass(frozen=True)
class ExperimentWishes:
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
            raise BadInput("--each-trip is given without --trips", remedy="give both")
        if self.trips and (self.roads is not None or self.time_steps):
            raise BadInput(
                "--trips measures neither recovery nor coarse times",
                remedy="leave out --roads, --map and --time-step",
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
    wishes: ExperimentWishes


def _made(database: Database, asked: _ExperimentAsked, progress: Progress) -> OnObjects | OnTrips:
    """What the runs need, read from the database."""
    wishes, dataset = asked.wishes, find_dataset(database, asked.dataset)
    build, roads = find_build(database, asked.build_id), wishes.roads
    network = None if roads is None else roads.network(database, build.srid, progress)
    loaded = load_build(database, build.build_id, progress)
    prepared = preparing(database, dataset, build, loaded)
    design = wishes.design(build.trajectories)
    if wishes.trips:
        region, period = _require_facts(dataset)
        known = facts_of(loaded)(LonLatArea().from_text(region), TimeStretch().from_text(period))
        return OnTrips(loaded, known, design, prepared)
    return OnObjects(loaded, network, design, prepared)


def _run(made: OnObjects | OnTrips, piece: Any, progress: Progress) -> list[Run]:
    return made.run(piece, progress)


def experiment_on(
    database: Database,
    name: str,
    wishes: ExperimentWishes,
    progress: Progress,
    engine: Engine = LOCAL,
) -> WrittenTables:
    """Run the design on the current build of a dataset and write its files."""
    dataset = find_dataset(database, name)
    build = find_build(database, dataset.require_build())
    wishes.require_possible()
    if wishes.trips:
        _require_facts(dataset)
    design = wishes.design(build.trajectories)
    check_sizes(design.sizes, build.trajectories)
    list(design.requests())  # refuses a bad value before anything runs
    files = files_in(
        wishes.out or file_called(f"experiment_{name}", ""),
        RESULT_FILES,
        overwrite=wishes.overwrite,
    )
    pieces: Sequence[Any] = pieces_on_trips(design) if wishes.trips else design.pieces
    runs: list[Run] = []
    asked = _ExperimentAsked(name, build.build_id, wishes)
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
            f"--trips: the region and the period of {dataset.name} are not known",
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
