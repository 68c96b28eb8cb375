"""The figures of experiments: metrics against epsilon, and time against size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from freqdp_db.evaluation.figures import save_svg

if TYPE_CHECKING:
    from freqdp_db.paper.experiment import Run

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
_COLOURS = ("#0b3c5d", "#c8102e", "#1d8a5f", "#8a5a00", "#6b3fa0", "#444444")


@dataclass(frozen=True)
class StepTimes:
    """How long the steps of GL take, and a query of each search, for one number of objects."""

    objects: int
    steps: dict[str, float]
    """Seconds."""
    searches: dict[str, float]
    """Microseconds."""


def draw_epsilon(
    runs: Sequence[Run], metrics: Mapping[str, str], path: Path, columns: int = 3
) -> None:
    """Mean of each metric against epsilon; methods without noise are level.

    metrics: their titles; those that no run has are left out.
    """
    panels = {name: title for name, title in metrics.items() if any(name in r.values for r in runs)}
    figure, axes = _figure(len(panels), columns)
    epsilons = sorted({float(run.epsilon) for run in runs if run.epsilon is not None}) or [1.0]
    for axis, (metric, title) in zip(axes, panels.items(), strict=False):
        for number, method in enumerate(dict.fromkeys(run.method for run in runs)):
            found: dict[float | None, list[float]] = {}
            for run in runs:
                if run.method == method and metric in run.values:
                    at = None if run.epsilon is None else float(run.epsilon)
                    found.setdefault(at, []).append(run.values[metric])
            means = {at: float(np.mean(values)) for at, values in found.items()}
            if None in means:
                ends = [min(epsilons) * 0.8, max(epsilons) * 1.25]
                axis.plot(ends, [means[None]] * 2, **_style(number, method), markevery=[1])
            elif means:
                points = [(e, means[e]) for e in epsilons if e in means]
                axis.plot(*zip(*points, strict=True), **_style(number, method))
        axis.set_xscale("log")
        axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axis.minorticks_off()
        axis.set_title(title, fontsize=9, loc="left")
        axis.set_xlabel("epsilon", fontsize=9)
        axis.set_ylim(bottom=0)
    _legend(figure, axes[0])
    save_svg(figure, path)


def draw_size(runs: Sequence[Run], path: Path) -> None:
    """Seconds to draw and edit, in memory, against the number of objects."""
    figure, (axis,) = _figure(1)
    for number, method in enumerate(dict.fromkeys(run.method for run in runs)):
        mine = [r for r in runs if r.method == method]
        sizes = sorted({r.objects for r in mine})
        took = [float(np.mean([r.seconds for r in mine if r.objects == size])) for size in sizes]
        axis.plot(sizes, took, **_style(number, method))
    axis.set_xlabel("objects", fontsize=9)
    axis.set_ylabel("seconds", fontsize=9)
    axis.set_ylim(bottom=0)
    axis.set_title("Time to draw and edit", fontsize=9, loc="left")
    _legend(figure, axis)
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
