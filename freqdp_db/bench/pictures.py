"""Pictures of benchmarks: PNG or SVG, by the file's ending."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from freqdp_db.bench.pipeline import PipelineRun
from freqdp_db.bench.search import SearchRun
from freqdp_db.errors import BadInput
from freqdp_db.search.comparison.strategies import DEFAULT

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
