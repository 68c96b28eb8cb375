"""The frontier of risk against usefulness, as a picture. Shapes tell the kinds apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from freqdp_db.evaluation.figures import (
    ACCENT,
    GOOD,
    INK,
    LINE,
    PAPER,
    QUIET,
    ZONE,
    in_page_style,
    new_figure,
)
from freqdp_db.evaluation.recommendation.choosing import Candidate, frontier, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
_MARK = 10.0
_BESIDE, _BELOW, _ABOVE, _LINE = 66.0, 56.0, 14.0, 17.0
"""Pixels: left of the plot, below and above it; and the height of a label."""
SHAPES = {"edited": "o", "unlinked": "s", "generalised": "^", "synthetic": "D"}
"""matplotlib's markers."""
KIND_WORDS = {
    "edited": "one person's trajectory, edited",
    "unlinked": "true samples, trajectories cut up or mixed",
    "generalised": "areas that several people share",
    "synthetic": "synthetic, generated from noisy counts",
}


@dataclass(frozen=True)
class PictureFrame:
    """A picture's size in pixels; `labels`: how wide the column of labels to the right is."""

    width: float
    height: float
    labels: float


WIDE, NARROW = PictureFrame(860, 500, 330), PictureFrame(360, 400, 44)


@in_page_style
def draw_frontier(
    candidates: Sequence[Candidate],
    picked: Candidate | None,
    limit: float,
    frame: PictureFrame,
    useful_for: str,
) -> Figure:
    """Candidates by number (as in `candidates`, from 1), the limit, and the frontier.

    A wide picture names them too.
    """
    shown = [c for c in candidates if c.usefulness is not None]
    figure = new_figure(frame.width, frame.height)
    axes = figure.add_axes(
        (
            _BESIDE / frame.width,
            _BELOW / frame.height,
            (frame.width - _BESIDE - frame.labels) / frame.width,
            (frame.height - _BELOW - _ABOVE) / frame.height,
        )
    )
    _draw_scales(axes, shown, limit, narrow=frame is NARROW, useful_for=useful_for)
    best = frontier(shown)
    axes.step([_use(c) for c in best], [c.risk for c in best], where="pre", color=QUIET, ls=":")
    for c in shown:
        colour, face = (GOOD, GOOD) if c.meets else (INK, PAPER)
        axes.plot(_use(c), c.risk, SHAPES[c.kind], ms=_MARK, mfc=face, mec=colour, mew=1.8,
                  clip_on=False, zorder=4)  # fmt: skip
    if picked in shown and picked is not None:
        axes.plot(_use(picked), picked.risk, "o", ms=22, mfc="none", mec=GOOD, mew=2.4,
                  clip_on=False, zorder=3)  # fmt: skip
    numbers = {c.label: n for n, c in enumerate(candidates, start=1)}
    names = [f"{numbers[c.label]} {c.label}" if frame is WIDE else str(numbers[c.label])
             for c in shown]  # fmt: skip
    _draw_labels(axes, frame, shown, names, picked)
    return figure


def _use(candidate: Candidate) -> float:
    return candidate.usefulness or 0.0


def _root(risk: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sqrt(np.maximum(risk, 0.0))


def _draw_scales(
    axes: Axes, shown: Sequence[Candidate], limit: float, *, narrow: bool, useful_for: str
) -> None:
    """Risk upwards by its square root, because small risks are what it is about; the limit."""
    least = min((_use(c) for c in shown), default=0.0)
    low = max(min(math.floor(least * 10 - 1.5) / 10, 0.8), 0.0)
    most = max([limit * 1.5, *(c.risk * 1.05 for c in shown)])
    top = next((t for t in _TICKS if t >= most), 1.0)
    axes.set_yscale("function", functions=(_root, np.square))
    axes.set(xlim=(low, 1.0), ylim=(0.0, top))
    ticks = [tick for tick in _TICKS if tick <= top]
    axes.set_yticks(ticks, [percent(tick) for tick in ticks])
    steps = range(round(low * 10), 11, 2 if narrow else 1)
    axes.set_xticks([n / 10 for n in steps], [f"{n / 10:g}" for n in steps])
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", length=0, pad=10)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", color=LINE)
    axes.axhspan(0, limit, color=ZONE, zorder=0)
    axes.axhline(limit, color=ACCENT, lw=2, ls=(0, (4, 2)))
    axes.annotate(f"limit {percent(limit)}", (low, limit), (4, 3), textcoords="offset points",
                  color=ACCENT, weight="bold")  # fmt: skip
    along = "more useful" if narrow else f"more useful for {useful_for}"
    axes.set_xlabel(f"{along} →", color=QUIET, loc="right")
    up = "learnt by an attacker" if narrow else "what an attacker learns of a person"
    axes.set_ylabel(f"{up} (lower is safer)", color=QUIET)


def _draw_labels(
    axes: Axes,
    frame: PictureFrame,
    shown: Sequence[Candidate],
    names: Sequence[str],
    picked: Candidate | None,
) -> None:
    """Names in a column to the right of the plot, each on a line of its own, joined to its point.

    They are as high as their points if there is room: nothing ever overlaps, however points crowd.
    """
    points = [axes.transData.transform((_use(c), c.risk)) for c in shown]
    begins = frame.width - frame.labels + 18
    order = sorted(range(len(shown)), key=lambda n: (points[n][1], points[n][0]))
    line = min(_LINE, (frame.height - 4) / max(len(shown), 1))
    height = 0.0
    heights = []
    for n in order:
        height = max(points[n][1] - line / 2, height)
        heights.append(height)
        height += line
    # what would be above the picture moves down, and pushes what is below it
    below = frame.height - 2
    for k in range(len(order) - 1, -1, -1):
        below = heights[k] = min(heights[k], below - line)
    for n, height in zip(order, heights, strict=True):
        bold = shown[n] is picked
        axes.annotate(
            names[n],
            (_use(shown[n]), shown[n].risk),
            (begins, height + line / 2),
            textcoords="figure pixels",
            va="center",
            weight="bold" if bold else "normal",
            arrowprops={
                "arrowstyle": "-",
                "color": INK if bold else QUIET,
                "lw": 0.7,
                "shrinkB": 5,
            },
            annotation_clip=False,
        )


@in_page_style
def draw_mark(kind: str) -> Figure:
    """A point of a kind, for the legend."""
    figure = new_figure(18, 18)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    axes.plot(0, 0, SHAPES[kind], ms=_MARK, mfc=PAPER, mec=INK, mew=1.8)
    return figure


def legend(candidates: Sequence[Candidate]) -> list[tuple[Markup, str]]:
    """What the shapes of these stand for."""
    kinds = dict.fromkeys(c.kind for c in candidates if c.usefulness is not None)
    return [(draw_mark(KIND_WORDS[kind], kind), KIND_WORDS[kind]) for kind in kinds]
