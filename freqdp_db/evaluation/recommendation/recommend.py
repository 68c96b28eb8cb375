"""A recommendation from a dataset's name to a page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

import freqdp_db
from freqdp_db.dataset.memory import load_build
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow, find_dataset
from freqdp_db.db.releases import published_beside
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
    render,
)
from freqdp_db.evaluation.recommendation.choosing import (
    FOR_THE_CURATOR,
    Candidate,
    Chosen,
    LeftOut,
    Recommendation,
    choose,
    frontier,
    guaranteed,
    percent,
    price_of_histories,
    share,
)
from freqdp_db.evaluation.recommendation.grid import MethodToTry, never_tried
from freqdp_db.evaluation.recommendation.options import Purpose, RecommendOptions
from freqdp_db.evaluation.recommendation.running import TrialResults, span, try_all
from freqdp_db.privacy.guarantee import ProtectedUnit
from freqdp_db.progress import Progress
from freqdp_db.release.conflicts import joined_with

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# The frontier of risk against usefulness, as a picture. Shapes tell the kinds apart.


_TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
_MARK = 10.0
_BESIDE, _BELOW, _ABOVE, _LINE = 66.0, 56.0, 14.0, 17.0
"""Pixels: left of the plot, below and above it; and the height of a label."""
SHAPES = {"edited": "o", "unlinked": "s", "generalised": "^", "synthetic": "D", "counts": "P"}
"""matplotlib's markers."""
KIND_WORDS = {
    "edited": "one person's trajectory, edited",
    "unlinked": "true samples, trajectories cut up or mixed",
    "generalised": "areas that several people share",
    "synthetic": "synthetic, generated from noisy counts",
    "counts": "tables of noisy counts",
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


_FEW_MEMBERS = 100


def write_page(found: Recommendation, purpose: Purpose) -> None:
    """Write it where the recommendation says."""
    text = render("recommendation", "recommendation.html", _context(found, purpose))
    found.file.parent.mkdir(parents=True, exist_ok=True)
    found.file.write_text(text, "utf-8")


def _context(found: Recommendation, purpose: Purpose) -> dict[str, Any]:
    ordered = found.ordered()
    title = (
        f"Risk against usefulness of {len(ordered)} candidates for {found.dataset}; "
        f"{found.recommended or 'none'} is recommended"
    )

    wide, narrow = (
        draw_frontier(title, ordered, found.picked, found.risk, frame, purpose.asks)
        for frame in (WIDE, NARROW)
    )
    return {
        "found": found,
        "purpose": purpose,
        "ordered": ordered,
        "wide": wide,
        "narrow": narrow,
        "legend": legend(ordered),
        "percent": percent,
        "share": share,
        "took": span(found.seconds),
        "curator": FOR_THE_CURATOR,
        "software": freqdp_db.__version__,
    }


def recommend_on(
    database: Database, name: str, options: RecommendOptions, begin: Callable[[], Progress]
) -> Recommendation:
    """Try the grid on the current build of a dataset, choose, and write the page.

    begin: called when nothing is left to refuse; compiles what is not compiled yet.
    """
    dataset = find_dataset(database, name)
    row = find_build(database, dataset.require_build())
    options.require_possible(row.trajectories)
    file = options.page(name)
    progress = begin()
    build = load_build(database, row.build_id, progress)
    tried = try_all(database, dataset, row, build, options, progress)
    choice = choose(tried.candidates, options.risk)
    picked = choice.picked
    found = Recommendation(
        dataset=name,
        purpose=options.purpose.name,
        risk=options.risk,
        objects=len(tried.halves.members),
        objects_in_all=row.trajectories,
        seed=options.seed,
        minutes=options.minutes,
        seconds=round(tried.seconds, 1),
        recommended=choice.recommended.label if choice.recommended else None,
        nearest=choice.nearest.label if choice.nearest else None,
        why=choice.why,
        command=None if picked is None else picked.command,
        guarantee=_guarantee(tried, options.purpose, dataset.protected),
        candidates=tried.candidates,
        left_out=[
            *_by_reason(tried.left_out),
            *(LeftOut(names, why) for names, why in never_tried(options.purpose)),
        ],
        notes=_notes(database, dataset, choice, tried),
        file=file,
    )
    with progress.stage("draw"):
        write_page(found, options.purpose)
    return found


def _guarantee(tried: TrialResults, purpose: Purpose, protected: ProtectedUnit) -> str:
    """What can be had that is proved, and if nothing can, why."""
    best = guaranteed(tried.candidates)
    if best is not None:
        return (
            f"With a guarantee for {protected.words}: {best.label}. {best.guarantee} Usefulness "
            f"{share(best.usefulness)} ({best.use_words}). No measurement replaces a guarantee: "
            f"these numbers do not cover future attacks. {best.command}"
        )
    none = (
        f"None of these guarantees anything for {protected.words}, and no measurement replaces a "
        "guarantee."
    )
    if "synthetic" not in purpose.kinds:
        return f"{none} Methods that do (strict) generate synthetic trips, which keep nobody's history."
    reason = next((why for method, why in tried.left_out if method.is_for_an_object), None)
    return none if reason is None else f"{none} To include such a method: {reason}"


def _by_reason(left_out: list[tuple[MethodToTry, str]]) -> list[LeftOut]:
    """What was left out for the same reason, said once."""
    labels: dict[str, list[str]] = {}
    for method, why in left_out:
        labels.setdefault(why, []).append(method.label)
    return [LeftOut("; ".join(those), why) for why, those in labels.items()]


def _notes(
    database: Database, dataset: DatasetRow, choice: Chosen, tried: TrialResults
) -> list[str]:
    notes = []
    price = price_of_histories(tried.candidates)
    if price is not None:
        notes.append(price)
    members = len(tried.halves.members)
    if members < _FEW_MEMBERS:
        notes.append(
            f"Measured on only {members} objects: one object is {percent(1 / max(members, 1))} of them, so "
            "smaller differences mean nothing."
        )
    notes.append(
        "Trial releases use half of the objects. With all of them, methods that mix people (swap) or add "
        "noise (strict) do better."
    )
    if choice.picked is not None and choice.picked.kind == "unlinked":
        with database.begin() as connection:
            out = joined_with(published_beside(connection, database, dataset.account_id))
        if out:
            notes.append(
                f"{out[0].name} ({out[0].method}) is a published release of the same source: "
                "anyone who has both can join them by their true samples and undo the unlinking. Withdraw "
                "it first: "
                f"freqdp release withdraw {shlex.quote(out[0].name)}"
            )
    return notes
