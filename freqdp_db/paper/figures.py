"""The two figures of an experiment: metrics against epsilon, and time against size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from freqdp_db.evaluation.figures import save_svg
from freqdp_db.paper.runs import Run
from freqdp_db.paper.summary_table import FIGURE, StepTimes, mean_of

# Each panel: a metric and what is good. Markers and dashes tell the methods apart without colour.
_PANELS = (
    ("la_s.a.10", "LA_s, 10 strongest (lower is more private)"),
    ("la_s.a.full", "LA_s, all places (lower is more private)"),
    ("la_x.4", "LA_x, 4 known samples (lower is more private)"),
    ("inf", "INF (lower is more useful)"),
    ("ffp", "FFP (higher is more useful)"),
    ("recovery.f", "recovery F (lower is more private)"),
    ("trip.te", "TE of trips (lower is more useful)"),
    ("trip.de", "DE of trips (lower is more useful)"),
    ("trip.length", "lengths of trips (lower is more useful)"),
    ("trip.density", "density of trips (lower is more useful)"),
    ("trip.kendall", "Kendall of trips (higher is more useful)"),
    ("trip.query", "queries on trips (lower is more useful)"),
    ("trip.ffp", "FFP of trips (higher is more useful)"),
)
# The panels of the paper's figure "The impact of epsilon", in its order.
_PAPER_PANELS = (
    ("la_s.a.10", "LA_s"),
    ("inf", "INF"),
    ("de", "DE"),
    ("te.trip", "TE"),
    ("ffp", "FFP"),
    ("recovery.f", "F-score"),
    ("recovery.rmf", "RMF"),
    ("recovery.accuracy", "Accuracy"),
)
_MARKERS = "osD^vPX*"
_DASHES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
_COLOURS = ("#0b3c5d", "#c8102e", "#1d8a5f", "#8a5a00", "#6b3fa0", "#444444")


def draw_epsilon(runs: Sequence[Run], path: Path) -> None:
    """Mean of each metric against epsilon, for the largest size; methods without noise are level."""
    size = max(run.objects for run in runs)
    finest = runs[0].time_step_s
    largest = [r for r in runs if r.objects == size and r.time_step_s == finest]
    panels = [panel for panel in _PANELS if any(panel[0] in run.values for run in largest)]
    figure, axes = _figure(len(panels))
    epsilons = sorted({float(r.epsilon) for r in largest if r.epsilon is not None}) or [1.0]
    for axis, (metric, title) in zip(axes, panels, strict=False):
        for number, method in enumerate(dict.fromkeys(run.method for run in largest)):
            mine = [r for r in largest if r.method == method]
            if mine[0].epsilon is None:
                level = float(np.mean([r.values[metric] for r in mine]))
                ends = [min(epsilons) * 0.8, max(epsilons) * 1.25]
                axis.plot(ends, [level, level], **_style(number, method), markevery=[1])
                continue
            points = [
                (e, float(np.mean([r.values[metric] for r in mine if float(r.epsilon or 0) == e])))
                for e in epsilons
            ]
            axis.plot(*zip(*points, strict=True), **_style(number, method))
        _against_epsilon(axis, title, epsilons)
    _legend(figure, axes[0])
    save_svg(figure, path)


def draw_size(runs: Sequence[Run], path: Path) -> None:
    """Seconds to draw and edit, in memory, against the number of objects."""
    figure, axes = _figure(1)
    axis = axes[0]
    finest = runs[0].time_step_s
    for number, method in enumerate(dict.fromkeys(run.method for run in runs)):
        mine = [r for r in runs if r.method == method and r.time_step_s == finest]
        sizes = sorted({r.objects for r in mine})
        took = [float(np.mean([r.seconds for r in mine if r.objects == size])) for size in sizes]
        axis.plot(sizes, took, **_style(number, method))
    axis.set_xlabel("objects", fontsize=9)
    axis.set_ylabel("seconds", fontsize=9)
    axis.set_ylim(bottom=0)
    axis.set_title("Time to draw and edit", fontsize=9, loc="left")
    _legend(figure, axis)
    save_svg(figure, path)


def draw_paper_epsilon(runs: Sequence[Run], path: Path) -> None:
    """The paper's figure: its eight metrics against epsilon, for its three methods."""
    figure, axes = _figure(len(_PAPER_PANELS), columns=4)
    mine = [run for run in runs if run.method in FIGURE and run.epsilon is not None]
    epsilons = sorted({run.epsilon for run in mine if run.epsilon is not None}, key=float)
    for axis, (metric, title) in zip(axes, _PAPER_PANELS, strict=True):
        for number, method in enumerate(FIGURE):
            found = [(float(e), mean_of(mine, method, e, metric)) for e in epsilons]
            points = [point for point in found if point[1] is not None]
            if points:
                axis.plot(*zip(*points, strict=True), **_style(number, method))
        _against_epsilon(axis, title, [float(e) for e in epsilons])
    _legend(figure, axes[0])
    save_svg(figure, path)


def draw_efficiency(times: Sequence[StepTimes], path: Path) -> None:
    """The paper's other figure: the ways to search, and local against global, by size."""
    figure, (search, steps) = _figure(2)
    sizes = [str(t.objects) for t in times]
    for axis, series, title, unit in (
        (search, [t.searches for t in times], "One query of the global step", "microseconds"),
        (steps, [t.steps for t in times], "Steps of GL", "seconds"),
    ):
        names = list(series[0])
        width = 0.8 / max(len(names), 1)
        for number, name in enumerate(names):
            at = [i + (number - (len(names) - 1) / 2) * width for i in range(len(sizes))]
            colour = _COLOURS[number % len(_COLOURS)]
            values = [found[name] for found in series]
            axis.bar(at, values, width * 0.9, label=name, color=colour)
        axis.set_xticks(range(len(sizes)), sizes)
        axis.set_yscale("log")
        axis.set_title(title, fontsize=9, loc="left")
        axis.set_xlabel("objects", fontsize=9)
        axis.set_ylabel(f"{unit} (log scale)", fontsize=9)
        axis.legend(frameon=False, fontsize=8)
    save_svg(figure, path)


def _figure(panels: int, columns: int = 3) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    columns = min(panels, columns)
    rows = -(-panels // columns)
    figure = Figure(figsize=(3.6 * columns + 1.4, 2.9 * rows + 0.7), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes[panels:]:
        axis.set_visible(False)
    for axis in axes[:panels]:
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        axis.tick_params(labelsize=8)
        axis.grid(axis="y", color="#e2e6ea", linewidth=0.6)
    return figure, axes


def _against_epsilon(axis: Any, title: str, epsilons: Sequence[float]) -> None:
    axis.set_xscale("log")
    axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    axis.minorticks_off()
    axis.set_title(title, fontsize=9, loc="left")
    axis.set_xlabel("epsilon", fontsize=9)
    axis.set_ylim(bottom=0)


def _style(number: int, method: str) -> dict[str, Any]:
    return {
        "label": method,
        "color": _COLOURS[number % len(_COLOURS)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "markersize": 4,
        "linewidth": 1.2,
    }


def _legend(figure: Any, axis: Any) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
