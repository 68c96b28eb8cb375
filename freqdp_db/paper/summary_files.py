"""The paper's table from a dataset's name to its files, beside the published values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from freqdp_db.dataset.memory import load_build
from freqdp_db.dataset.road_tables import RoadTable
from freqdp_db.dataset.text_values import file_called
from freqdp_db.db.builds import BuildRow, find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import find_dataset
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.dealing import deal_out
from freqdp_db.evaluation.figures import files_in
from freqdp_db.evaluation.trials import preparing
from freqdp_db.paper.experiment import RESULT_FILES, WrittenTables, about_run, as_csv
from freqdp_db.paper.figures import draw_efficiency, draw_paper_epsilon
from freqdp_db.paper.runs import Run, check_sizes, seeds_of
from freqdp_db.paper.summary_table import (
    COLUMNS,
    EPSILON,
    FIGURE_EPSILONS,
    OBJECTS,
    ROWS,
    PaperDesign,
    PaperResult,
    PaperRow,
    PaperRuns,
    Searches,
    StepTimes,
    mean_of,
)
from freqdp_db.progress import Progress

_MOST_SEEDS = 100
NOTES = (
    "The paper leaves several formulas out; ours are fixed once and for all methods. So look at the "
    "order of the methods and at the size of the numbers, not at their digits.",
    "LA: the 10 strongest signatures of each side, over the whole period, as in the paper. An attacker "
    "who uses all places links far more; freqdp evaluate says how many.",
    "PureG and PureL are one of the two mechanisms of GL each, with half of its epsilon. PureL and GL "
    "insert by the paper's own rule (--spread paper).",
    "A trajectory of GLOVE or KLT stands beside each object of its group, at the middle of its areas. "
    "Trips of DPT and AdaTrace are nobody's and dealt out to objects by number, so what is linked is "
    "chance; DE, TE and FFP compare trips with trips; their epsilon is for a whole person, which the "
    "published ones are not.",
)
"""What is counted otherwise than a reader may think."""


@dataclass(frozen=True)
class PaperOptions:
    """What the command was asked for; None: the default."""

    sizes: Sequence[int] | None
    epsilons: Sequence[str] | None
    seeds: int
    poi: str | None
    category: str | None
    roads: RoadTable | None
    out: Path | None
    overwrite: bool

    def design(self, objects: int) -> PaperDesign:
        if self.category is not None and self.poi is None:
            raise BadInput(
                "[[category]] is given without [[poi]]", remedy="name the table: [[poi]]"
            )
        size = min(objects, OBJECTS)
        sizes = self.sizes or sorted({max(size // 4, 1), max(size // 2, 1), size})
        check_sizes(sizes, objects)
        poi = None if self.poi is None else (self.poi, self.category)
        seeds = seeds_of(self.seeds, _MOST_SEEDS)
        design = PaperDesign(sizes, self.epsilons or FIGURE_EPSILONS, seeds, poi)
        for row, epsilon, seed in design.asked():
            design.request(row, epsilon, seed)  # refuses a bad epsilon before anything runs
        return design


_Piece: TypeAlias = tuple[PaperRow, str, int] | int
"""A run, or a number of objects to take times for."""


@dataclass(frozen=True)
class _PaperAsked:
    dataset: str
    build_id: int
    options: PaperOptions
    searches: Searches


def _made(database: Database, asked: _PaperAsked, progress: Progress) -> PaperRuns:
    """What the runs need, read from the database."""
    options, build = asked.options, find_build(database, asked.build_id)
    assert options.roads is not None
    network = options.roads.network(database, build.srid, progress)
    loaded = load_build(database, build.build_id, progress)
    prepared = preparing(database, find_dataset(database, asked.dataset), build, loaded)
    design = options.design(build.trajectories)
    return PaperRuns(database, loaded, network, design, prepared, asked.searches)


def _run(runs: PaperRuns, piece: _Piece, _: Progress) -> Run | StepTimes | str:
    return runs.time(piece) if isinstance(piece, int) else runs.run(*piece)


def _result(
    engine: Engine,
    database: Database,
    build: BuildRow,
    asked: _PaperAsked,
    design: PaperDesign,
    progress: Progress,
) -> PaperResult:
    result = PaperResult([])
    pieces: list[_Piece] = [*design.asked(), *sorted(design.sizes)]
    with progress.stage("paper", len(pieces), "runs") as stage:
        dealt = deal_out(engine, database, build, _made, asked, _run, pieces, progress)
        for piece, found in zip(pieces, dealt, strict=True):
            if isinstance(found, Run):
                result.runs.append(found)
            elif isinstance(found, StepTimes):
                result.times.append(found)
            elif not isinstance(piece, int):
                result.left_out[piece[0].title] = found
            stage.advance(1)
    return result


def paper_on(
    database: Database,
    name: str,
    options: PaperOptions,
    progress: Progress,
    searches: Searches,
    engine: Engine = LOCAL,
) -> WrittenTables:
    """Run the paper's comparison on the current build of a dataset and write its files."""
    build = find_build(database, find_dataset(database, name).require_build())
    design = options.design(build.trajectories)
    if options.roads is None:
        raise BadInput(
            "[[paper]] needs [[roads]]: five of its columns are a recovery attack",
            remedy="name an edge table: [[roads]] schema.table (freqdp load roads makes one)",
        )
    files = files_in(
        options.out or file_called(f"experiment_{name}", ""),
        RESULT_FILES,
        overwrite=options.overwrite,
    )
    asked = _PaperAsked(name, build.build_id, options, searches)
    result = _result(engine, database, build, asked, design, progress)
    about = about_run(name, build, design.seeds, objects=max(design.sizes))
    files[0].parent.mkdir(parents=True, exist_ok=True)
    markdown = paper_markdown(result, about)
    table, words, data, epsilon, efficiency = files
    table.write_text(as_csv(result.runs), "utf-8")
    words.write_text(markdown, "utf-8")
    data.write_text(_as_json(result, about), "utf-8")
    draw_paper_epsilon(result.runs, epsilon)
    draw_efficiency(result.times, efficiency)
    return WrittenTables(files, markdown, len(result.runs))


def _as_json(result: PaperResult, about: dict[str, Any]) -> str:
    published = {row.title: dict(zip(COLUMNS.values(), row.values, strict=True)) for row in ROWS}
    return json.dumps({**about, "published": published, **asdict(result)}, indent=1) + "\n"


def paper_markdown(result: PaperResult, about: dict[str, Any]) -> str:
    """For each method what was measured, and below it what the paper has."""
    lines = [
        f"The paper's table on {about['dataset']} ({about['snap']}), {about['objects']:,} objects, "
        f"epsilon {EPSILON}, {len(about['seeds'])} seed(s), freqdp {about['software']}; below each "
        f"line what the paper has ({OBJECTS:,} taxis of T-Drive). Seeded noise, nothing published, "
        "nothing spent.",
        "",
        "| method | | " + " | ".join(COLUMNS) + " |",
        "|---|---" + "|---:" * len(COLUMNS) + "|",
    ]
    for row in ROWS:
        mine = [mean_of(result.runs, row.title, EPSILON, name) for name in COLUMNS.values()]
        what = "not run" if row.title in result.left_out else "here"
        lines.append(f"| {row.title} | {what} | " + " | ".join(map(_cell, mine)) + " |")
        lines.append("| | paper | " + " | ".join(map(_cell, row.values)) + " |")
    lines.append("")
    lines += [f"- Not run, {title}: {why}." for title, why in result.left_out.items()]
    lines += [f"- {note}" for note in NOTES]
    return "\n".join(lines) + "\n"


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
