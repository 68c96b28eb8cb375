"""How fast the search and the whole job are, on a dataset or a generated city, with pictures."""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from freqdp_db.dataset.building import build
from freqdp_db.dataset.memory import load_build
from freqdp_db.dataset.registration import DEFAULT_SNAP, Registration, register
from freqdp_db.db import bench as floor
from freqdp_db.db import schema
from freqdp_db.db.bench import measure_floor
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow, find_dataset
from freqdp_db.db.names import format_relation
from freqdp_db.db.source import Mapping
from freqdp_db.errors import BadInput
from freqdp_db.load import make_city
from freqdp_db.paper.bench_search import SearchRun, bench_search, parse_names, part_of
from freqdp_db.paper.strategies import DEFAULT
from freqdp_db.progress import Progress
from freqdp_db.release.paging import search_within
from freqdp_db.release.pipeline import anonymize
from freqdp_db.release.request import Request

# A throwaway installation for benchmarks: the product itself, in schemas of its own.
#
# They are dropped at the end. Nothing is published, no budget of anybody's is touched, and the source
# of a dataset is read only.


Fill = Callable[[Database, tuple[str, str], int], None]
"""fill(database, relation, objects): make a table of so many objects up."""
CITY = Mapping("object_id", "at", "geom", lon=None, lat=None, timezone="UTC", filter=None)


@dataclass(frozen=True)
class Workbench:
    """An empty installation, and where its data comes from."""

    database: Database
    dataset: DatasetRow | None
    """None: `make` makes a table up."""
    make: Fill

    def register(self, objects: int, seed: int) -> DatasetRow:
        """A dataset of so many objects: a random part of the dataset, or a made-up city."""
        name = f"size_{objects}"
        relation = (source_schema(self.database), name)
        if self.dataset is None:
            mapping, srid, snap = CITY, None, DEFAULT_SNAP
            self.make(self.database, relation, objects)
        else:
            mapping, srid, snap = self.dataset.mapping, self.dataset.srid, self.dataset.snap
            source = (self.dataset.source_schema, self.dataset.source_relation)
            floor.copy_objects(self.database, source, mapping.object, relation, objects, seed)
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
def workbench(database: Database, dataset: DatasetRow | None, make: Fill) -> Iterator[Workbench]:
    """Create the schemas, and drop them in the end."""
    settings = replace(
        database.settings,
        schema=f"freqdp_bench_{os.getpid()}",
        release_schema=f"freqdp_bench_{os.getpid()}_release",
    )
    bench = Database(database.conninfo, settings, "bench")
    try:
        schema.upgrade(bench, create_roles=False)
        yield Workbench(bench, dataset, make)
    finally:
        floor.drop_schemas(bench, source_schema(bench))
        bench.close()


@contextmanager
def some_build(
    database: Database, dataset: DatasetRow | None, make: Fill, objects: int, progress: Progress
) -> Iterator[tuple[Database, int]]:
    """A build to read: the dataset's, or one of a made-up city; and the database it is in."""
    if dataset is not None:
        yield database, dataset.require_build()
        return
    with workbench(database, None, make) as bench:
        yield bench.database, build(bench.database, bench.register(objects, 0), progress).build_id


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


# `freqdp bench pipeline`: build and anonymize by stage, beside the copy floor, in one run.


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


def bench_pipeline(
    bench: Workbench, size: int, request: Request, seed: int, progress: Callable[[], Progress]
) -> PipelineRun:
    """Build and anonymize so many objects."""
    database = bench.database
    preparing = progress()
    with preparing.stage(f"take {size:,} objects"):
        dataset = bench.register(size, seed)
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


# Pictures of benchmarks: PNG or SVG, by the file's ending.


ENDINGS = (".png", ".svg")
_INK, _QUIET, _ACCENT = "#22303c", "#9aa7b1", "#c8102e"
_BLUES = ("#0b3c5d", "#1d6996", "#5aa5cf", "#a5d0e8", "#d8ebf5")
_SHOWN_STAGES = 6
_PLOT_POINTS, _LABEL_POINTS = 240.0, 11.0  # between the extremes of a plot; for a line of text


def check_picture(text: str) -> Path:
    """The path of a picture that can be written."""
    path = Path(text)
    if path.suffix.lower() not in ENDINGS:
        raise BadInput(
            f"[[picture]] {text!r} is neither PNG nor SVG", remedy="end the name in .png or .svg"
        )
    if not path.resolve().parent.is_dir():
        raise BadInput(f"[[picture]] {text!r}: there is no such folder", remedy="create it first")
    return path


def _canvas(width: float, height: float, panels: int = 1) -> tuple[Any, Any]:
    # the object-oriented way: no display, no global state
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, panels)
    for axis in [axes] if panels == 1 else axes:
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        axis.tick_params(colors=_INK, labelsize=9)
    return figure, axes


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 10 else f"{value:,.0f} s"


def _micro(us: float) -> str:
    return (
        f"{us:,.1f} us" if us < 10 else f"{us:,.0f} us" if us < 10_000 else f"{us / 1000:,.0f} ms"
    )


def draw_search(runs: list[SearchRun], path: Path) -> None:
    """Time per query of each strategy: bars for one size, lines over several."""
    figure, axis = _canvas(8, 4.5)
    if len(runs) == 1:
        found = sorted(runs[0].strategies, key=lambda s: -s.us_per_query)
        names = [s.name for s in found]
        took = [s.us_per_query for s in found]
        colours = [_ACCENT if name == DEFAULT else _BLUES[1] for name in names]
        axis.barh(names, took, color=colours)
        axis.set_xscale("log")
        for row, value in enumerate(took):
            axis.annotate(
                _micro(value), (value, row), (4, 0), textcoords="offset points", va="center",
                fontsize=9, color=_INK,
            )  # fmt: skip
        axis.margins(x=0.15)
        axis.set_xlabel("microseconds per query, one core (log scale)", color=_INK)
    else:
        last_values = {s.name: s.us_per_query for s in runs[-1].strategies}
        lifts = _lifts(last_values)
        for name in last_values:
            points = [
                (run.trajectories, s.us_per_query)
                for run in runs
                for s in run.strategies
                if s.name == name
            ]
            colour = _ACCENT if name == DEFAULT else _BLUES[1]
            axis.plot(*zip(*points, strict=True), marker="o", markersize=4, color=colour)
            axis.annotate(
                name, points[-1], (6, lifts[name]), textcoords="offset points", va="center",
                fontsize=9, color=colour,
            )  # fmt: skip
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.margins(x=0.12)
        axis.set_xlabel("trajectories", color=_INK)
        axis.set_ylabel("microseconds per query, one core", color=_INK)
        axis.grid(axis="y", color="#e6eaed", linewidth=0.6)
    last = runs[-1]
    axis.set_title(
        f"Nearest trajectories of a place: {last.queries:,} queries, {last.trajectories:,} "
        f"trajectories, {last.segments:,} segments",
        fontsize=10, color=_INK, loc="left",
    )  # fmt: skip
    figure.savefig(path, dpi=150)


def _lifts(values: dict[str, float]) -> dict[str, float]:
    """By how many points the label of each value is lifted, so that none covers another."""
    decades = math.log10(max(values.values()) / min(values.values())) or 1.0
    lifts: dict[str, float] = {}
    lowest = -math.inf
    for name in sorted(values, key=lambda name: values[name]):
        at = math.log10(values[name]) / decades * _PLOT_POINTS
        lowest = max(at, lowest + _LABEL_POINTS)
        lifts[name] = lowest - at
    return lifts


def draw_pipeline(runs: list[PipelineRun], exponent: float | None, path: Path) -> None:
    """The largest size by stage beside the copy floor; and how time grows, for several sizes."""
    several = len(runs) > 1
    figure, axes = _canvas(12 if several else 8.5, 3.8, 2 if several else 1)
    axis = axes[0] if several else axes
    run = runs[-1]
    bars = [
        ("copy floor", run.floor_parts, run.floor_s),
        ("dataset build", run.build_stages, run.build_s),
        ("anonymize", run.anonymize_stages, run.anonymize_s),
    ]
    for row, (_, stages, took) in enumerate(bars):
        # logs are written while other stages run
        _stack(axis, row, {n: s for n, s in stages.items() if not n.endswith(" log")}, took)
    axis.axvline(run.floor_s, color=_ACCENT, linewidth=1, linestyle=(0, (4, 3)))
    axis.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axis.invert_yaxis()
    axis.margins(x=0.12)
    axis.set_xlabel("seconds; dashed: the copy floor", color=_INK)
    axis.set_title(
        f"{run.trajectories:,} trajectories, {run.samples:,} samples",
        fontsize=10, color=_INK, loc="left",
    )  # fmt: skip
    if several:
        _growth(axes[1], runs, exponent)
    figure.savefig(path, dpi=150)


def _stack(axis: Any, row: int, stages: dict[str, float], took: float) -> None:
    largest = sorted(stages, key=lambda name: -stages[name])[:_SHOWN_STAGES]
    left = 0.0
    total = sum(stages.values())
    for number, (name, seconds) in enumerate(stages.items()):
        colour = _BLUES[number % len(_BLUES)]
        axis.barh(row, seconds, left=left, color=colour, edgecolor="white", linewidth=0.8)
        if name in largest and seconds > 0.07 * total:
            dark = number % len(_BLUES) < 2
            axis.text(
                left + seconds / 2, row, name.removesuffix("_s").replace(" ", "\n").replace("_", " "),
                ha="center", va="center", fontsize=7, color="white" if dark else _INK,
            )  # fmt: skip
        left += seconds
    axis.annotate(
        _seconds(took), (left, row), (4, 0), textcoords="offset points", va="center", fontsize=9,
        color=_INK,
    )  # fmt: skip


def _growth(axis: Any, runs: list[PipelineRun], exponent: float | None) -> None:
    sizes = [run.trajectories for run in runs]
    lines = [
        ("copy floor", [run.floor_s for run in runs], _QUIET),
        ("build", [run.build_s for run in runs], _BLUES[1]),
        ("anonymize and verify", [run.anonymize_s for run in runs], _ACCENT),
    ]
    for name, values, colour in lines:
        axis.plot(sizes, values, marker="o", markersize=4, color=colour, label=name)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.legend(frameon=False, fontsize=8)
    axis.set_xlabel("trajectories", color=_INK)
    axis.set_ylabel("seconds", color=_INK)
    if exponent is not None:
        axis.set_title(f"anonymize grows as n^{exponent:.2f}", fontsize=10, color=_INK, loc="left")


_CITY_DAYS = 2


@dataclass(frozen=True)
class SearchBench:
    """Time per query of every strategy, for each size."""

    dataset: str | None
    runs: list[SearchRun]
    picture: Path | None

    @property
    def answers_equal(self) -> bool:
        return all(run.answers_equal and run.local_answers_equal for run in self.runs)

    def document(self) -> dict[str, Any]:
        runs = [run.document() for run in self.runs]
        return {
            "dataset": self.dataset,
            **runs[-1],
            "answers_equal": self.answers_equal,
            "runs": runs,
            "picture": self.picture,
        }


@dataclass(frozen=True)
class PipelineBench:
    """Build, anonymize and verify by stage, for each size."""

    dataset: str | None
    runs: list[PipelineRun]
    growth_exponent: float | None
    picture: Path | None

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
    picture: str | None,
    progress: Progress,
) -> SearchBench:
    """Ask the queries that `request` would ask, of every strategy."""
    wanted = parse_sizes(sizes)
    if queries < 1:
        raise BadInput(f"[[queries]] {queries} is not positive", remedy="ask at least one")
    path = None if picture is None else check_picture(picture)
    names = parse_names(strategies)
    row = None if dataset is None else find_dataset(database, dataset)
    make = _city(seed, progress)
    with some_build(database, row, make, wanted[-1], progress) as (where, number):
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
    if path is not None:
        draw_search(runs, path)
    return SearchBench(dataset, runs, path)


def bench_pipelines(
    database: Database,
    dataset: str | None,
    sizes: str,
    request: Request,
    seed: int,
    picture: str | None,
    progress: Callable[[], Progress],
) -> PipelineBench:
    """Run the whole job once for each size; `progress` makes one for each run."""
    wanted = parse_sizes(sizes)
    path = None if picture is None else check_picture(picture)
    row = None if dataset is None else find_dataset(database, dataset)
    with workbench(database, row, _city(seed, progress())) as bench:
        runs = [bench_pipeline(bench, size, request, seed, progress) for size in wanted]
    exponent = growth_exponent(runs)
    if path is not None:
        draw_pipeline(runs, exponent, path)
    return PipelineBench(dataset, runs, exponent, path)


def _city(seed: int, progress: Progress) -> Fill:
    def make(database: Database, relation: tuple[str, str], objects: int) -> None:
        make_city(database, relation, objects, _CITY_DAYS, seed, progress)

    return make
