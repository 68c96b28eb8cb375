"""`freqdp experiment --paper`: the runs of the paper's summary table and figures, on your own data.

The paper compares trajectory t with object t. Trajectories that are several objects' stand beside each
of them. Those that are nobody's are dealt out to the objects by number: what is linked then is chance,
as it is in the paper.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from freqdp_db.dataset.road_tables import RoadTable
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import find_dataset
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.attacks.recovery import Truth
from freqdp_db.evaluation.evaluate import measure, refusal, require_possible
from freqdp_db.evaluation.figures import save_svg
from freqdp_db.evaluation.pair import Case, Pair, object_by_object
from freqdp_db.evaluation.utility import (
    diameter_error,
    frequent_patterns,
    in_trips,
    side_by_side,
    trip_error,
)
from freqdp_db.methods.registry import find_method
from freqdp_db.model.arrays import offsets_from
from freqdp_db.model.trajectories import Build, Trajectories
from freqdp_db.paper.bench import search_times
from freqdp_db.paper.experiment import (
    COLOURS,
    Run,
    Study,
    Trials,
    about_run,
    check_sizes,
    draw_epsilon,
    figure_of,
    result_files,
    run_pieces,
    seeds_of,
    some_objects,
    write_results,
)
from freqdp_db.progress import Progress
from freqdp_db.release.request import Request
from freqdp_db.results import Experiment

# The paper's summary table: what it compares, with which parameters, and the values it has.
#
# Jin, Hua, Ruan and Zhou, ICDE 2022, "A summary of effectiveness evaluation results": 1,000 taxis of
# T-Drive, epsilon 1. Its generated trajectories have no times and are on no roads, so that these two
# rows have gaps.


OBJECTS = 1000
EPSILON = "1"
COLUMNS = {
    "LA_s": "la_s.a.10",
    "LA_t": "la_t.a",
    "LA_st": "la_st.a.10",
    "LA_sq": "la_sq.a.10",
    "MI": "mi",
    "INF": "inf",
    "DE": "de",
    "TE": "te.trip",
    "FFP": "ffp",
    "Precision": "recovery.precision",
    "Recall": "recovery.recall",
    "F-score": "recovery.f",
    "RMF": "recovery.rmf",
    "Accuracy": "recovery.accuracy",
}
"""Titles of the paper, and what we call the same."""


@dataclass(frozen=True)
class PaperRow:
    """One method of the paper's table."""

    title: str
    method: str
    published: str
    """In the order of the columns."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Its parameters, besides epsilon."""
    share: int = 1
    """PureG and PureL are one of the two mechanisms of GL: they get half of its epsilon."""

    @property
    def values(self) -> list[float | None]:
        return [None if text == "-" else float(text) for text in self.published.split()]


_K = {"k": "5"}
_SPREAD = {"spread": "paper"}
ROWS = (
    PaperRow("SC", "sc",
         ".188 .206 .888 .206 .163 .656 .047 .385 .990 .610 .611 .611 .779 .162"),
    PaperRow("RSC-0.1", "rsc",
         ".146 .253 .889 .129 .162 .663 .050 .380 .988 .610 .605 .608 .782 .162",
         {"radius": "100"}),
    PaperRow("RSC-0.5", "rsc",
         ".098 .225 .869 .098 .158 .682 .064 .373 .983 .606 .578 .591 .798 .162",
         {"radius": "500"}),
    PaperRow("RSC-1.0", "rsc",
         ".081 .122 .846 .075 .156 .704 .082 .370 .977 .598 .540 .568 .823 .162",
         {"radius": "1000"}),
    PaperRow("RSC-3.0", "rsc",
         ".049 .068 .750 .043 .150 .784 .138 .333 .943 .561 .384 .456 .916 .160",
         {"radius": "3000"}),
    PaperRow("RSC-5.0", "rsc",
         ".033 .024 .584 .032 .148 .853 .243 .308 .929 .535 .251 .342 .967 .152",
         {"radius": "5000"}),
    PaperRow("W4M", "w4m",
         ".847 .164 .506 .860 .244 .285 .057 .330 .994 .276 .157 .179 .693 .035", _K),
    PaperRow("GLOVE", "glove",
         ".370 .005 .116 .350 .385 .912 .587 .657 .416 .498 .307 .380 .516 .250", _K),
    PaperRow("KLT", "klt",
         ".269 .002 .099 .324 .312 .929 .617 .686 .330 .435 .276 .338 .592 .218",
         {**_K, "l": "3", "t": "0.1"}),
    PaperRow("DPT", "dpt",
         ".006 - - .009 .097 .986 .297 .375 .373 - - - - -"),
    PaperRow("AdaTrace", "adatrace",
         ".000 - - .000 .057 .603 .291 .064 .908 - - - - -"),
    PaperRow("PureG", "pure-g",
         ".922 .211 .928 .975 .184 .495 .004 .225 .980 .378 .481 .423 1.310 .395", share=2),
    PaperRow("PureL", "pure-l",
         ".119 .028 .362 .026 .098 .635 .015 .365 .953 .307 .331 .318 1.342 .189", _SPREAD, 2),
    PaperRow("GL", "gl",
         ".016 .022 .337 .015 .095 .642 .014 .331 .956 .309 .339 .324 1.420 .008", _SPREAD),
)  # fmt: skip
FIGURE = ("PureG", "PureL", "GL")
"""What the figure of epsilon compares."""
FIGURE_EPSILONS = ("0.1", "1", "10")
PANELS = {
    COLUMNS[title]: title
    for title in ("LA_s", "INF", "DE", "TE", "FFP", "F-score", "RMF", "Accuracy")
}
"""Of the paper's figure "The impact of epsilon", in its order."""
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
_OF_OBJECTS = frozenset(
    {"linking attacks", "mutual information", "information loss", "diameters", "trips",
     "frequent patterns"}
)  # fmt: skip


def paper_metrics(case: Case, pair: Pair, seed: int) -> dict[str, float]:
    """The metrics of the paper's table that need no roads; `pair`: as `aligned` gives it.

    Whoever generates trips generates no weeks: how wide trajectories are, where they begin and end
    and how they go on is then compared trip by trip, on both sides.
    """
    found = measure(pair, seed, Progress(), _OF_OBJECTS)
    if case.made_up:
        as_released = replace(pair, released=case.release.trajectories)
        trips = in_trips(side_by_side(as_released, case.release.places))
        rng = np.random.default_rng(seed)
        found |= diameter_error(trips) | frequent_patterns(trips)
        found["te.trip"] = trip_error(trips, rng)["te.trajectory"]
    return found


def aligned(case: Case) -> Pair:
    """Both sides over the original places, object by object."""
    pair, objects = case.pair, len(case.original)
    if case.release.part_of is not None:
        nothing = np.zeros(objects, np.int64)
        released = object_by_object(pair.released, case.release.part_of, nothing)
        return replace(pair, released=released)
    if case.made_up:
        return replace(pair, released=_dealt(pair.released, objects))
    return pair


def _dealt(side: Trajectories, objects: int) -> Trajectories:
    """Trips to objects in turn, each object's in the order of their times."""
    owner = side.owner.astype(np.int64) % objects
    order = np.lexsort((side.at, owner))
    offsets = offsets_from(np.bincount(owner, minlength=objects))
    at = side.at[order]
    start = np.zeros(objects, np.int64)
    filled = offsets[1:] > offsets[:-1]
    start[filled] = at[offsets[:-1][filled]]
    return Trajectories(offsets, side.location[order], at, start)


@dataclass(frozen=True)
class PaperRun:
    """A run of the table or of the figure of epsilon."""

    row: PaperRow
    epsilon: str
    seed: int


@dataclass(frozen=True)
class PaperOptions:
    """What the command was asked for; None: the default."""

    sizes: Sequence[int] | None
    epsilons: Sequence[str] | None
    seeds: int
    poi: str | None
    """A table of points of interest."""
    category: str | None
    """Its column of categories."""
    roads: RoadTable | None
    out: Path | None
    overwrite: bool

    def objects(self, there: int) -> list[int]:
        """Sizes that times are taken for, ascending; the table is for the largest."""
        size = min(there, OBJECTS)
        return sorted(self.sizes or {max(size // 4, 1), max(size // 2, 1), size})

    def request(self, run: PaperRun) -> Request:
        method, given = find_method(run.row.method), dict(run.row.given)
        if method.unit is not None:
            given["epsilon"] = f"{Decimal(run.epsilon) / run.row.share:f}"
        if self.poi is not None and "poi" in {p.name for p in method.parameters}:
            given["poi"] = self.poi
            if self.category is not None:
                given["category"] = self.category
        return Request.parse(run.row.method, seed=str(run.seed), **given)

    def plan(self, objects: int) -> list[PaperRun]:
        """Runs of the table, then of the figure of epsilon; refuses what is not possible."""
        if self.category is not None and self.poi is None:
            raise BadInput(
                "[[category]] is given without [[poi]]", remedy="name the table: [[poi]]"
            )
        check_sizes(self.objects(objects), objects)
        seeds = seeds_of(self.seeds, _MOST_SEEDS)
        runs = [
            PaperRun(row, EPSILON, seed)
            for row in ROWS
            for seed in (seeds if find_method(row.method).unit else seeds[:1])
        ]
        runs += [
            PaperRun(row, epsilon, seeds[0])
            for row in ROWS
            if row.title in FIGURE
            for epsilon in self.epsilons or FIGURE_EPSILONS
            if Decimal(epsilon) != Decimal(EPSILON)
        ]
        for run in runs:
            self.request(run)
        return runs

    def study(self, trials: Trials, progress: Progress) -> Study:
        """What makes runs, or times for a number of objects; nothing is published and nothing spent."""
        network = trials.network(self.roads, progress)
        assert network is not None
        build = some_objects(trials.build, self.objects(len(trials.build.trajectories))[-1])
        truth = Truth.of(network, build.trajectories, build.locations, Progress())

        def work(piece: PaperRun | int, _: Progress) -> Run | StepTimes | str:
            if isinstance(piece, int):
                return _time(trials, self, piece)
            return _measure(trials, self, piece, build, truth)

        return work


@dataclass(frozen=True)
class StepTimes:
    """How long the steps of GL take, and a query of each search, for one number of objects."""

    objects: int
    steps: dict[str, float]
    """Seconds."""
    searches: dict[str, float]
    """Microseconds."""


def _measure(
    trials: Trials, options: PaperOptions, piece: PaperRun, build: Build, truth: Truth
) -> Run | str:
    """One run on the objects of the table; text: why it cannot be run."""
    try:
        request = options.request(piece)
        require_possible(request, build.trajectories)
        known, state, seconds = trials.run(request, piece.seed, build)
    except BadInput as error:
        return refusal(error)
    case = Case.of(build, state, known.values)
    pair = aligned(case)
    found = paper_metrics(case, pair, piece.seed)
    if not case.made_up:
        found |= truth.recovered(pair, Progress())
    values = {name: found[name] for name in COLUMNS.values() if name in found}
    epsilon = piece.epsilon if request.method.unit else None
    return Run(piece.row.title, epsilon, len(build.trajectories), piece.seed, None, seconds, values)


def _time(trials: Trials, options: PaperOptions, count: int) -> StepTimes:
    """GL by step, in memory, and the searches of its global step, for so many objects."""
    row = next(row for row in ROWS if row.title == "GL")
    request = options.request(PaperRun(row, EPSILON, seed=1))
    build, shown = some_objects(trials.build, count), Progress()
    trials.run(request, 1, build, shown)
    steps = {
        step.name: sum(shown.seconds.get(f"{step.name} {part}", 0.0) for part in ("draw", "work"))
        for step in request.method.steps
    }
    searched = search_times(trials.database, build.trajectories, build.locations, EPSILON)
    return StepTimes(count, steps, searched)


def paper_on(
    database: Database,
    name: str,
    options: PaperOptions,
    progress: Progress,
    engine: Engine = LOCAL,
) -> Experiment:
    """Run the paper's comparison on the current build of a dataset and write its files."""
    build = find_build(database, find_dataset(database, name).require_build())
    planned, sizes = options.plan(build.trajectories), options.objects(build.trajectories)
    if options.roads is None:
        raise BadInput(
            "[[paper]] needs [[roads]]: five of its columns are a recovery attack",
            remedy="name an edge table: [[roads]] schema.table (freqdp load roads makes one)",
        )
    files = result_files(name, options.out, options.overwrite)
    pieces: list[PaperRun | int] = [*planned, *sizes]
    found = list(run_pieces(engine, database, name, build, options, pieces, progress))
    runs = [part for part in found if isinstance(part, Run)]
    times = [part for part in found if isinstance(part, StepTimes)]
    left_out = {
        run.row.title: why for run, why in zip(planned, found, strict=False) if isinstance(why, str)
    }
    about = about_run(name, build, seeds_of(options.seeds, _MOST_SEEDS), objects=sizes[-1])
    markdown = paper_markdown(runs, left_out, about)
    document = {
        **about,
        "published": {
            row.title: dict(zip(COLUMNS.values(), row.values, strict=True)) for row in ROWS
        },
        "runs": [asdict(run) for run in runs],
        "left_out": left_out,
        "times": [asdict(taken) for taken in times],
    }
    write_results(files, runs, markdown, document)
    figure = [run for run in runs if run.method in FIGURE]
    draw_epsilon(figure, PANELS, files[3], columns=4)
    draw_efficiency(times, files[4])
    return Experiment(name, files, len(runs), progress.seconds, markdown=markdown)


def paper_markdown(runs: Sequence[Run], left_out: Mapping[str, str], about: dict[str, Any]) -> str:
    """For each method what was measured, and below it what the paper has.

    runs: `method` is the title of the paper. left_out: rows that could not be run, and what would help.
    """
    measured: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        if run.epsilon in (None, EPSILON):
            for metric, value in run.values.items():
                measured[run.method, metric].append(value)
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
        what = "not run" if row.title in left_out else "here"
        cells = [measured[row.title, metric] for metric in COLUMNS.values()]
        mine = [float(np.mean(values)) if values else None for values in cells]
        lines.append(f"| {row.title} | {what} | " + " | ".join(map(_cell, mine)) + " |")
        lines.append("| | paper | " + " | ".join(map(_cell, row.values)) + " |")
    lines.append("")
    lines += [f"- Not run, {title}: {why}." for title, why in left_out.items()]
    lines += [f"- {note}" for note in NOTES]
    return "\n".join(lines) + "\n"


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def draw_efficiency(times: Sequence[StepTimes], path: Path) -> None:
    """The paper's other figure: the ways to search, and local against global, by size."""
    figure, (search, steps) = figure_of(2)
    for axis, series, title, unit in (
        (search, [t.searches for t in times], "One query of the global step", "microseconds"),
        (steps, [t.steps for t in times], "Steps of GL", "seconds"),
    ):
        width, first = 0.8 / len(series[0]), (1 - len(series[0])) / 2
        for number, name in enumerate(series[0]):
            at = np.arange(len(times)) + (first + number) * width
            colour = COLOURS[number % len(COLOURS)]
            values = [found[name] for found in series]
            axis.bar(at, values, width * 0.9, label=name, color=colour)
        axis.set_xticks(range(len(times)), [str(t.objects) for t in times])
        axis.set_title(title, fontsize=9, loc="left")
        axis.set(yscale="log", xlabel="objects", ylabel=f"{unit} (log scale)")
        axis.legend(frameon=False, fontsize=8)
    save_svg(figure, path)
