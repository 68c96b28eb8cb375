"""An experiment from a dataset's name to its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import freqdp_db
from freqdp_db.columns.build import Build
from freqdp_db.dataset.facts import facts_of
from freqdp_db.dataset.memory import load_build
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.experiment.figures import draw_epsilon, draw_size
from freqdp_db.evaluation.experiment.on_trips import run_on_trips
from freqdp_db.evaluation.experiment.runs import Design, Run, Variant, check_design, run_experiment
from freqdp_db.evaluation.experiment.tables import as_csv, as_json, as_markdown
from freqdp_db.methods.areas import LonLatArea
from freqdp_db.methods.contract import World
from freqdp_db.methods.parameters import RELEASE
from freqdp_db.methods.places_and_times import TimeStretch
from freqdp_db.methods.registry import METHODS
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import make_world
from freqdp_db.release.request import Request
from freqdp_db.roads.tables import RoadTable
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.builds import find_build
from freqdp_db.storage.records.datasets import DatasetRow, find_dataset

if TYPE_CHECKING:
    from freqdp_db.methods.synthesis.public import Period, Region

_FILES = ("results.csv", "results.md", "results.json", "epsilon.svg", "size.svg")
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
        if not 1 <= self.seeds <= _MOST_SEEDS:
            raise BadInput(
                f"--seeds {self.seeds} is not between 1 and {_MOST_SEEDS:,}", remedy="for example 5"
            )
        steps = [
            None if text == "none" else _TIME_STEP.parse(text, text=True)
            for text in self.time_steps or ["none"]
        ]
        return Design(
            variants=[Variant.parse(text) for text in self.methods or _PAPERS],
            epsilons=self.epsilons or ["1"],
            sizes=self.sizes or [objects],
            seeds=range(1, self.seeds + 1),
            time_steps_us=steps,
            signature=self.signature,
            trips=self.trips,
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


def experiment_on(
    database: Database, name: str, wishes: ExperimentWishes, progress: Progress
) -> WrittenTables:
    """Run the design on the current build of a dataset and write its files."""
    dataset = find_dataset(database, name)
    build = find_build(database, dataset.require_build())
    wishes.require_possible()
    design = wishes.design(build.trajectories)
    check_design(design, build.trajectories)
    files = files_in(wishes.out or Path(f"experiment_{name}"), overwrite=wishes.overwrite)
    network = None if wishes.roads is None else wishes.roads.network(database, build.srid, progress)
    loaded = load_build(database, build.build_id, progress)

    def prepared(request: Request) -> tuple[Request, World]:
        known = request.with_facts(dataset, build)
        return known, make_world(database, loaded, known.method, known.values)

    if design.trips:
        facts = _facts(dataset, loaded)
        runs = run_on_trips(loaded, design, facts, progress, prepared)
    else:
        runs = run_experiment(loaded, network, design, progress, prepared)
    about = {
        "dataset": name,
        "snap": build.snap,
        "build": build.build_id,
        "signature": design.signature,
        "seeds": list(design.seeds),
        "software": freqdp_db.__version__,
    }
    files[0].parent.mkdir(parents=True, exist_ok=True)
    markdown = as_markdown(runs, about)
    _write(files, runs, markdown, as_json(runs, about))
    return WrittenTables(files, markdown, len(runs))


def _facts(dataset: DatasetRow, build: Build) -> tuple[Region, Period]:
    """What is public of the dataset: trips are cut by it."""
    if dataset.region is None or dataset.period is None:
        raise BadInput(
            f"--trips: the region and the period of {dataset.name} are not known",
            remedy=f"say them: freqdp dataset set {dataset.name} --region ... --period ...",
        )
    return facts_of(build)(
        LonLatArea().from_text(dataset.region), TimeStretch().from_text(dataset.period)
    )


def files_in(folder: Path, *, overwrite: bool) -> list[Path]:
    """What will be written; refused if something is in the way."""
    files = [folder / file for file in _FILES]
    there = [file for file in files if file.exists()]
    if there and not overwrite:
        raise BadInput(
            f"{there[0]} is there already", remedy="name another folder with --out, or say --force"
        )
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--out {folder} is not a folder", remedy="name a folder")
    return files


def _write(files: Sequence[Path], runs: Sequence[Run], markdown: str, document: str) -> None:
    table, words, data, epsilon, size = files
    table.write_text(as_csv(runs), "utf-8")
    words.write_text(markdown, "utf-8")
    data.write_text(document, "utf-8")
    draw_epsilon(runs, epsilon)
    draw_size(runs, size)
