"""`freqdp experiment`: methods x epsilon x number of objects x seeds, measured in memory, and its files.

What comes out are metrics of the original data, for the curator: CSV, Markdown, JSON and two figures.
With `--trips`, both sides are cut into trips by the rule of the synthetic methods, inside the public
region and period, and objects drawn with replacement stand beside the methods (`resampled`): no method
can be asked for less than what chance does.
"""

from __future__ import annotations

import csv
import json
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from operator import call
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import freqdp_db
from freqdp_db.dataset.facts import facts_of
from freqdp_db.dataset.memory import deal_out, load_build
from freqdp_db.dataset.road_tables import RoadTable
from freqdp_db.dataset.text_values import file_called
from freqdp_db.db.builds import BuildRow, find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow, find_dataset
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.attacks.recovery import Truth
from freqdp_db.evaluation.evaluate import measure_release, run_trial
from freqdp_db.evaluation.figures import files_in, save_svg
from freqdp_db.evaluation.pair import Case, CellBox, Pair
from freqdp_db.evaluation.utility import (
    binned_divergence,
    cell_sequences,
    diameter_error,
    frequent_patterns,
    jensen_shannon,
    same_order,
    side_by_side,
    trip_error,
    trip_lengths,
)
from freqdp_db.methods.contract import WorkingSet
from freqdp_db.methods.frequency.applying import coarsen_times
from freqdp_db.methods.frequency.insertion import Search
from freqdp_db.methods.kinds import LonLatArea, TimeStretch
from freqdp_db.methods.parameters import RELEASE
from freqdp_db.methods.registry import METHODS, find_method
from freqdp_db.methods.synthesis.trips import cut_trips
from freqdp_db.model.arrays import Ids, Ints, Metres, owners
from freqdp_db.model.trajectories import Build, Locations, Trajectories
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import DEFAULT_MEMORY, make_world, search_within
from freqdp_db.release.request import Request
from freqdp_db.results import Experiment
from freqdp_db.roads.network import Network

if TYPE_CHECKING:
    from freqdp_db.methods.synthesis.public import Period, Region

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
"""Of the Markdown table: the paper's, column by column, then what it does not have."""
METRICS = {
    "la_s.a.10": "LA_s, 10 strongest (lower is more private)",
    "la_s.a.full": "LA_s, all places (lower is more private)",
    "la_x.4": "LA_x, 4 known samples (lower is more private)",
    "inf": "INF (lower is more useful)",
    "ffp": "FFP (higher is more useful)",
    "recovery.f": "recovery F (lower is more private)",
    "trip.te": "TE of trips (lower is more useful)",
    "trip.de": "DE of trips (lower is more useful)",
    "trip.length": "lengths of trips (lower is more useful)",
    "trip.density": "density of trips (lower is more useful)",
    "trip.kendall": "Kendall of trips (higher is more useful)",
    "trip.query": "queries on trips (lower is more useful)",
    "trip.ffp": "FFP of trips (higher is more useful)",
}
"""Panels of an experiment's figure: metrics, and what is good."""
# markers and dashes tell the methods apart without colour
_MARKERS = "osD^vPX*"
_DASHES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
COLOURS = ("#0b3c5d", "#c8102e", "#1d8a5f", "#8a5a00", "#6b3fa0", "#444444")
RESULT_FILES = ("results.csv", "results.md", "results.json", "epsilon.svg", "size.svg")
RESAMPLED = "resampled"
_MOST_SEEDS = 1_000
_SUBSET_SEED = 0
_ARGUMENTS = ("radius", "accounting", "spread")
_SETTINGS = ("method", "epsilon", "objects", "time_step_s")
_PAPERS = [m.name for m in METHODS.values() if m.kind == "edited"]
"""What is run unless somebody says: those that need nothing but the build, and keep objects apart."""
_TIME_STEP = next(p for p in RELEASE if p.name == "time_step")


_COVERAGE_SIDE = 15
_QUERIES = 300
_SQUARES = 7
_QUERY_SIDES_M = (2_000.0, 18_000.0)
_QUERY_WIDEST = 1 / 3
_QUERY_FLOOR = 0.01
Trips = tuple[Trajectories, Locations]
"""Trips, each a trajectory of its own, and their places."""


@dataclass
class Trials:
    """Trials of any requests on the objects of one build, or on some of them."""

    database: Database
    dataset: DatasetRow
    row: BuildRow
    build: Build

    @cached_property
    def _search(self) -> Search:
        return search_within(self.database, self.row.build_id, self.build, DEFAULT_MEMORY)

    def network(self, roads: RoadTable | None, progress: Progress) -> Network | None:
        return None if roads is None else roads.network(self.database, self.row.srid, progress)

    def run(
        self,
        request: Request,
        seed: int,
        on: Build,
        progress: Progress | None = None,
        *,
        alone: bool = False,
    ) -> tuple[Request, WorkingSet, float]:
        """Run a request on the objects of `on`: with what is public filled in, its state, its seconds.

        alone: as if there were no others. Else they are some of the build's, and what a method counts
        in the source (who shares a place with whom) it counts among all of the build's.
        """
        known = request.with_facts(self.dataset, self.row)
        world = make_world(self.database, self.build, known.method, known.values, self._search)
        if alone:
            world = replace(world, build=on)
        return known, *run_trial(known, world, seed, on.trajectories, progress)


@dataclass(frozen=True)
class Run:
    method: str
    epsilon: str | None
    objects: int
    seed: int
    time_step_s: float | None
    seconds: float
    """To draw and edit, in memory."""
    values: dict[str, float]


@dataclass(frozen=True)
class PlannedRun:
    """One run of an experiment. Methods without noise have no epsilon."""

    objects: int
    seed: int
    variant: str | None = None
    """A method with what it takes besides epsilon: `rsc:500` (radius), `lg:paper` (spread), `strict:pure`
    (accounting). None: a resample of the objects."""
    epsilon: str | None = None

    def request(self, signature: int, size: int | None = None) -> Request:
        """size: how many trips a synthetic method makes."""
        assert self.variant is not None
        method, colon, argument = self.variant.partition(":")
        if colon and not argument:
            raise BadInput(
                f"[[method]] {self.variant!r} is not known",
                remedy="a spread, radius or accounting follows the colon: lg:250, rsc:500, strict:pure",
            )
        known = {p.name for p in find_method(method).parameters}
        given = {"epsilon": self.epsilon, "seed": str(self.seed)}
        if "signature" in known:
            given["signature"] = str(signature)
        if argument:
            taken = [name for name in _ARGUMENTS if name in known]
            given[taken[0] if taken else _ARGUMENTS[-1]] = argument
        if size is not None and "size" in known:
            given["size"] = str(size)
        return Request.parse(method, **given)

    def done(
        self, values: dict[str, float], seconds: float = 0.0, step_us: int | None = None
    ) -> Run:
        step_s = None if step_us is None else step_us / 1e6
        label = self.variant or RESAMPLED
        return Run(label, self.epsilon, self.objects, self.seed, step_s, seconds, values)


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
    """Whether every trip is taken for an object of its own."""

    @property
    def time_steps_us(self) -> list[int | None]:
        return [
            None if text == "none" else _TIME_STEP.parse(text, text=True)
            for text in self.time_steps or ["none"]
        ]

    def plan(self, dataset: DatasetRow, objects: int) -> list[PlannedRun]:
        """Every run, smaller sizes first; refuses what is not possible before anything runs."""
        if self.each_trip and not self.trips:
            raise BadInput("[[each_trip]] is given without [[trips]]", remedy="give both")
        if self.trips and (self.roads is not None or self.time_steps):
            raise BadInput(
                "[[trips]] measures neither recovery nor coarse times",
                remedy="leave out [[roads]], [[map]] and [[time_step]]",
            )
        if self.trips and (dataset.region is None or dataset.period is None):
            raise BadInput(
                f"[[trips]]: the region and the period of {dataset.name} are not known",
                remedy=f"say them: freqdp dataset set {shlex.quote(dataset.name)} --region ... "
                "--period ...",
            )
        sizes, seeds = self.sizes or [objects], seeds_of(self.seeds, _MOST_SEEDS)
        check_sizes(sizes, objects)
        runs = []
        for size in sorted(sizes):
            runs += [PlannedRun(size, seed) for seed in seeds if self.trips]
            for variant in self.methods or _PAPERS:
                # methods without noise need no epsilon and one seed
                noisy = find_method(variant.partition(":")[0]).unit is not None
                for epsilon in (self.epsilons or ["1"]) if noisy else [None]:
                    for seed in seeds if noisy else seeds[:1]:
                        runs.append(PlannedRun(size, seed, variant, epsilon))
        for run in runs:
            if run.variant is not None:
                run.request(self.signature)
        return runs

    def study(self, trials: Trials, progress: Progress) -> Study:
        """What makes runs, with what it needs read from the database."""
        if self.trips:
            region, period = str(trials.dataset.region), str(trials.dataset.period)
            known = facts_of(trials.build)
            facts = known(LonLatArea().from_text(region), TimeStretch().from_text(period))
            return _on_trips(trials, self, facts)
        return _on_objects(trials, self, trials.network(self.roads, progress), progress)


Study = Callable[[Any, Progress], Any]
"""Makes the runs of one piece of an experiment."""


def _on_objects(
    trials: Trials, options: ExperimentOptions, network: Network | None, progress: Progress
) -> Study:
    """Runs by all metrics, against the objects that they ran on."""

    @lru_cache(maxsize=1)
    def compared(size: int) -> tuple[Build, Truth | None]:
        build = some_objects(trials.build, size)
        if network is None:
            return build, None
        return build, Truth.of(network, build.trajectories, build.locations, progress)

    def run(piece: PlannedRun, _: Progress) -> list[Run]:
        """A run for each of the time steps."""
        build, truth = compared(piece.objects)
        request = piece.request(options.signature)
        known, state, seconds = trials.run(request, piece.seed, build)
        runs = []
        for step in options.time_steps_us:
            shown = state
            if step is not None:
                shown = replace(state, trajectories=coarsen_times(state.trajectories, step))
            case = Case.of(build, shown, {**known.values, "time_step": step})
            values = measure_release(case, known.method.kind, piece.seed)
            if truth is not None:
                values |= truth.recovered(case.pair, Progress())
            runs.append(piece.done(values, seconds, step))
        return runs

    return run


def _on_trips(trials: Trials, options: ExperimentOptions, facts: tuple[Region, Period]) -> Study:
    """Runs by the metrics on trips."""

    region, _ = facts
    box = CellBox(region.x_min, region.y_min, region.x_max, region.y_max)

    @lru_cache(maxsize=1)
    def compared(size: int) -> tuple[Build, Trips]:
        """The objects of runs of a size, and the trips that theirs are compared with."""
        build = some_objects(trials.build, size)
        if options.each_trip:
            build = build.with_trajectories(*as_trips(build.trajectories, build.locations, facts))
        return build, compared_trips(build.trajectories, build.locations, facts, 0)

    def run(piece: PlannedRun, _: Progress) -> list[Run]:
        build, original = compared(piece.objects)
        objects = len(build.trajectories)
        if piece.variant is None:
            chosen = np.random.default_rng([piece.seed, objects]).integers(0, objects, objects)
            made, places = build.trajectories.take(np.sort(chosen)), build.locations
            seconds = 0.0
        else:
            # synthetic methods make as many as are compared with: divergences depend on how many
            request = piece.request(options.signature, len(original[0]))
            state, seconds = trials.run(request, piece.seed, build, alone=True)[1:]
            made, places = state.trajectories, state.places
        released = compared_trips(made, places, facts, piece.seed)
        values = compare_trips(box, original, released)
        return [replace(piece, objects=objects).done(values, seconds)]

    return run


def some_objects(build: Build, count: int) -> Build:
    """A random choice of objects, always the same; smaller choices are part of larger ones."""
    objects = len(build.trajectories)
    order = np.random.default_rng([_SUBSET_SEED, objects]).permutation(objects)
    return build.with_trajectories(build.trajectories.take(np.sort(order[:count])))


def check_sizes(sizes: Sequence[int], objects: int) -> None:
    for size in sizes:
        if not 1 <= size <= objects:
            raise BadInput(
                f"[[objects]] {size} is not possible: the dataset has {objects:,}",
                remedy=f"give a number from 1 to {objects}",
            )


def seeds_of(count: int, most: int) -> range:
    """The seeds of so many runs of each: 1, 2, ..."""
    if not 1 <= count <= most:
        raise BadInput(f"[[seeds]] {count} is not between 1 and {most:,}", remedy="for example 5")
    return range(1, count + 1)


def run_pieces(
    engine: Engine,
    database: Database,
    dataset: str,
    build: BuildRow,
    options: Any,
    pieces: Sequence[Any],
    progress: Progress,
) -> Iterator[Any]:
    """What `options.study(...)` makes of each piece, here or on workers."""
    asked = (dataset, build.build_id, options)
    with progress.stage("experiment", len(pieces), "runs") as stage:
        for found in deal_out(engine, database, build, _study, asked, call, pieces, progress):
            yield found
            stage.advance(1)


def _study(database: Database, asked: tuple[str, int, Any], progress: Progress) -> Study:
    dataset, build_id, options = asked
    loaded = load_build(database, build_id, progress)
    row = find_build(database, build_id)
    trials = Trials(database, find_dataset(database, dataset), row, loaded)
    study: Study = options.study(trials, progress)
    return study


def experiment_on(
    database: Database,
    name: str,
    options: ExperimentOptions,
    progress: Progress,
    engine: Engine = LOCAL,
) -> Experiment:
    """Run all methods on the current build of a dataset and write the files."""
    dataset = find_dataset(database, name)
    build = find_build(database, dataset.require_build())
    pieces = options.plan(dataset, build.trajectories)
    files = result_files(name, options.out, options.overwrite)
    found = run_pieces(engine, database, name, build, options, pieces, progress)
    runs: list[Run] = [run for part in found for run in part]
    seeds = seeds_of(options.seeds, _MOST_SEEDS)
    about = about_run(name, build, seeds, signature=options.signature)
    markdown = as_markdown(runs, about)
    write_results(files, runs, markdown, {**about, "runs": [asdict(run) for run in runs]})
    first = runs[0].time_step_s
    largest = max(run.objects for run in runs)
    draw_epsilon(
        [run for run in runs if run.objects == largest and run.time_step_s == first],
        METRICS,
        files[3],
    )
    draw_size([run for run in runs if run.time_step_s == first], files[4])
    return Experiment(name, files, len(runs), progress.seconds, markdown=markdown)


def result_files(name: str, out: Path | None, overwrite: bool) -> list[Path]:
    """What will be written; refused if it is there."""
    return files_in(out or file_called(f"experiment_{name}", ""), RESULT_FILES, overwrite=overwrite)


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


def write_results(
    files: Sequence[Path], runs: Sequence[Run], markdown: str, document: dict[str, Any]
) -> None:
    """One row a run in CSV, with all metrics; Markdown; and JSON."""
    names = sorted({name for run in runs for name in run.values})
    files[0].parent.mkdir(parents=True, exist_ok=True)
    with files[0].open("w", encoding="utf-8", newline="") as table:
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow([*_SETTINGS, "seed", "seconds", *names])
        for run in runs:
            settings = [getattr(run, name) for name in _SETTINGS]
            values = [run.values.get(name, "") for name in names]
            writer.writerow([*settings, run.seed, f"{run.seconds:.3f}", *values])
    files[1].write_text(markdown, "utf-8")
    files[2].write_text(json.dumps(document, indent=1) + "\n", "utf-8")


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
    for (method, epsilon, objects, step), same in _by(runs, *_SETTINGS).items():
        cells = [_spread([r.values[n] for r in same if n in r.values]) for n in shown.values()]
        cells.append(_spread([r.seconds for r in same], 1))
        settings = f"{method} | {epsilon or '-'} | {objects:,} | "
        settings += "-" if step is None else f"{step:g} s"
        lines.append(f"| {settings} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _by(runs: Sequence[Run], *names: str) -> dict[tuple[Any, ...], list[Run]]:
    """Runs that have the same in these fields."""
    groups: dict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for run in runs:
        groups[tuple(getattr(run, name) for name in names)].append(run)
    return groups


def _spread(values: Sequence[float], digits: int = 3) -> str:
    if not values:
        return "-"
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


# Its figures: metrics against epsilon, and time against size.


def draw_epsilon(
    runs: Sequence[Run], metrics: Mapping[str, str], path: Path, columns: int = 3
) -> None:
    """Mean of each metric against epsilon; methods without noise are level.

    metrics: their titles; those that no run has are left out.
    """
    panels = {name: title for name, title in metrics.items() if any(name in r.values for r in runs)}
    figure, axes = figure_of(len(panels), columns)
    epsilons = sorted({float(run.epsilon) for run in runs if run.epsilon is not None}) or [1.0]
    for axis, (metric, title) in zip(axes, panels.items(), strict=False):
        for number, ((method,), mine) in enumerate(_by(runs, "method").items()):
            known = [run for run in mine if metric in run.values]
            means = {
                epsilon and float(epsilon): np.mean([run.values[metric] for run in same])
                for (epsilon,), same in _by(known, "epsilon").items()
            }
            if None in means:
                ends = [min(epsilons) * 0.8, max(epsilons) * 1.25]
                axis.plot(ends, [means[None]] * 2, **_style(number, method), markevery=[1])
            elif means:
                axis.plot(*zip(*sorted(means.items()), strict=True), **_style(number, method))
        axis.set_xscale("log")
        axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axis.minorticks_off()
        axis.set_title(title, fontsize=9, loc="left")
        axis.set_xlabel("epsilon")
        axis.set_ylim(bottom=0)
    _save_with_legend(figure, axes[0], path)


def draw_size(runs: Sequence[Run], path: Path) -> None:
    """Seconds to draw and edit, in memory, against the number of objects."""
    figure, (axis,) = figure_of(1)
    for number, ((method,), mine) in enumerate(_by(runs, "method").items()):
        took = [
            (n, np.mean([r.seconds for r in same])) for (n,), same in _by(mine, "objects").items()
        ]
        axis.plot(*zip(*sorted(took), strict=True), **_style(number, method))
    axis.set_title("Time to draw and edit", fontsize=9, loc="left")
    axis.set(xlabel="objects", ylabel="seconds")
    axis.set_ylim(bottom=0)
    _save_with_legend(figure, axis, path)


_STYLE: dict[Any, Any] = {
    "axes.labelsize": 9, "axes.grid": True, "axes.grid.axis": "y", "axes.spines.top": False,
    "axes.spines.right": False, "grid.color": "#e2e6ea", "grid.linewidth": 0.6,
}  # fmt: skip


def figure_of(panels: int, columns: int = 3) -> tuple[Any, list[Any]]:
    import matplotlib
    from matplotlib.figure import Figure

    columns = min(panels, columns)
    rows = -(-panels // columns)
    figure = Figure(figsize=(3.6 * columns + 1.4, 2.9 * rows + 0.7), layout="constrained")
    with matplotlib.rc_context(_STYLE):
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes:
        axis.tick_params(labelsize=8)
    for axis in axes[panels:]:
        axis.set_visible(False)
    return figure, axes


def _style(number: int, method: str) -> dict[str, Any]:
    return {
        "label": method,
        "color": COLOURS[number % len(COLOURS)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "markersize": 4,
        "linewidth": 1.2,
    }


def _save_with_legend(figure: Any, axis: Any, path: Path) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    save_svg(figure, path)


# Metrics of synthetic trips: how alike two sets of trips are, over a public region.
#
# To compare synthetic releases with each other: start and end (TE), diameter (DE), length, how many
# trips pass each cell (density, Kendall), range queries, and frequent patterns (FFP). Between two samples
# a trip goes straight, so that trips with many and with few samples compare.


def passing_squares(trips: Trajectories, places: Locations, squares: NDArray[np.float64]) -> Metres:
    """Share of the trips whose straight way touches each square."""
    trip = trips.owner
    first = np.maximum(np.arange(trips.samples) - 1, trips.offsets[:-1][trip])
    ax, ay = places.x[trips.location[first]], places.y[trips.location[first]]
    bx, by = places.x[trips.location], places.y[trips.location]
    found = np.zeros(len(squares))
    for number, (west, south, east, north) in enumerate(squares):
        near = (np.maximum(ax, bx) >= west) & (np.minimum(ax, bx) <= east)
        near &= (np.maximum(ay, by) >= south) & (np.minimum(ay, by) <= north)
        near = np.flatnonzero(near)
        # from which to which part of the step, 0 to 1, it is between west and east, and south and north
        low, high = np.zeros(len(near)), np.ones(len(near))
        for start, end, least, most in ((ax, bx, west, east), (ay, by, south, north)):
            move = (end - start)[near]
            goes = move != 0.0
            one, two = (
                np.divide(edge - start[near], move, out=np.zeros(len(near)), where=goes)
                for edge in (least, most)
            )
            low = np.where(goes, np.maximum(low, np.minimum(one, two)), low)
            high = np.where(goes, np.minimum(high, np.maximum(one, two)), high)
        found[number] = len(np.unique(trip[near[low <= high]]))
    return found / max(len(trips), 1)


def compare_trips(box: CellBox, original: Trips, released: Trips) -> dict[str, float]:
    """All metrics, and the mean beside the median of the range queries.

    The squares of these are the same in all experiments.
    """
    trips, places = original
    pair = side_by_side(Pair(trips, released[0], places), released[1])
    sides, places = (pair.original, pair.released), pair.locations
    rng = np.random.default_rng([_SQUARES, _QUERIES])
    widest = _QUERY_WIDEST * min(box.east - box.west, box.north - box.south)
    side = rng.uniform(min(_QUERY_SIDES_M[0], widest), min(_QUERY_SIDES_M[1], widest), _QUERIES)
    west = rng.uniform(box.west, box.east - side)
    south = rng.uniform(box.south, box.north - side)
    squares = np.column_stack([west, south, west + side, south + side])
    before, after = (passing_squares(side, places, squares) for side in sides)
    error = np.abs(after - before) / np.maximum(before, _QUERY_FLOOR)
    lengths = [trip_lengths(side, places) for side in sides]
    cells = box.columns_and_rows(places, _COVERAGE_SIDE)
    passing = [_passing(side, *cells) for side in sides]
    return {
        "trip.te": trip_error(pair, rng, box)["te.trajectory"],
        "trip.de": diameter_error(pair)["de"],
        "trip.length": binned_divergence(
            lengths[0], lengths[1], float(lengths[0].max(initial=0.0))
        ),
        "trip.density": jensen_shannon(*passing),
        "trip.kendall": same_order(*passing),
        "trip.query": float(np.median(error)),
        "trip.query.mean": float(error.mean()),
        "trip.ffp": frequent_patterns(pair, box)["ffp"],
    }


def _passing(side: Trajectories, column: Ids, row: Ids) -> Ints:
    """How many trips pass each cell of the coverage grid."""
    size = _COVERAGE_SIDE**2
    offsets, cells = cell_sequences(side, column, row, _COVERAGE_SIDE)
    once = np.unique(owners(offsets).astype(np.int64) * size + cells)
    return np.bincount(once % size, minlength=size)


MOST_COMPARED = 20_000
"""Of each side at most so many trips are compared, drawn at random."""


def as_trips(side: Trajectories, places: Locations, facts: tuple[Region, Period]) -> Trips:
    """Trips, each a trajectory of its own, with a place for each sample."""
    trips = cut_trips(side, places, *facts)
    if not len(trips):
        raise BadInput(
            "there is no trip in the region and the period",
            remedy="look at both: freqdp dataset show",
        )
    location = np.arange(len(trips.x), dtype=np.int32)
    start = trips.at[trips.offsets[:-1]]
    return Trajectories(trips.offsets, location, trips.at, start), Locations(trips.x, trips.y)


def compared_trips(
    side: Trajectories, places: Locations, facts: tuple[Region, Period], seed: int
) -> Trips:
    """The trips of one side that are compared."""
    trips, of = as_trips(side, places, facts)
    if len(trips) <= MOST_COMPARED:
        return trips, of
    chosen = np.random.default_rng([seed, MOST_COMPARED]).permutation(len(trips))[:MOST_COMPARED]
    return trips.take(np.sort(chosen)), of
