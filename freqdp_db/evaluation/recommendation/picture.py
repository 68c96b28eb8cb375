"""The frontier of risk against usefulness, as a picture: SVG as text, coloured by the page.

Shapes tell the kinds apart, so that it survives black and white.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from freqdp_db.evaluation.recommendation.choosing import Candidate, frontier, percent
from freqdp_db.evaluation.recommendation.labels import (
    LETTER,
    LINE,
    Label,
    Labels,
    PictureFrame,
    TakenSpace,
)
from freqdp_db.evaluation.report.drawing import svg

_TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
_MARK = 6.0
_RING = 11.0
SHAPES = {
    "edited": "circle",
    "unlinked": "square",
    "generalised": "triangle",
    "synthetic": "diamond",
}
KIND_WORDS = {
    "edited": "one person's trajectory, edited",
    "unlinked": "true samples, trajectories cut up or mixed",
    "generalised": "areas that several persons share",
    "synthetic": "made up from noisy counts: nobody's",
}


WIDE, NARROW = PictureFrame(800, 500), PictureFrame(360, 400, left=62, right=12)


def mark(kind: str, x: float, y: float, size: float = _MARK, more: str = "") -> str:
    """A point of a kind."""
    shape, named = SHAPES[kind], f'class="mark{more}"'
    if shape == "circle":
        return f'<circle {named} cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}"/>'
    corners = {
        "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        "triangle": [(0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
        "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
    }[shape]
    points = " ".join(f"{x + a * size:.1f},{y + b * size:.1f}" for a, b in corners)
    return f'<polygon {named} points="{points}"/>'


@dataclass(frozen=True)
class _Scales:
    frame: PictureFrame
    low: float
    top: float

    @classmethod
    def of(cls, frame: PictureFrame, shown: Sequence[Candidate], limit: float) -> _Scales:
        least = min((c.usefulness or 0.0 for c in shown), default=0.0)
        low = max(min(math.floor(least * 10 - 1.5) / 10, 0.8), 0.0)
        most = max([limit * 1.5, *(c.risk * 1.05 for c in shown)])
        return cls(frame, low, next((t for t in _TICKS if t >= most), 1.0))

    def x(self, usefulness: float) -> float:
        room = self.frame.width - self.frame.left - self.frame.right
        return self.frame.left + (usefulness - self.low) / (1 - self.low) * room

    def y(self, risk: float) -> float:
        """By the square root: small risks are what it is about."""
        base = self.frame.height - self.frame.bottom
        return base - math.sqrt(min(risk / self.top, 1.0)) * (base - self.frame.top)


def draw_frontier(
    candidates: Sequence[Candidate], picked: Candidate | None, limit: float, frame: PictureFrame,
    title: str, useful_for: str,
) -> str:  # fmt: skip
    """Candidates by number (as in `candidates`, from 1), the limit, and the frontier.

    A wide picture names them too.
    """
    shown = [c for c in candidates if c.usefulness is not None]
    scales = _Scales.of(frame, shown, limit)
    corners = _corners(scales, frontier(shown))
    points = {c.label: (scales.x(c.usefulness or 0.0), scales.y(c.risk)) for c in shown}
    line = scales.y(limit)
    labels = Labels(frame, list(points.values()), _MARK)
    # the limit and its words stand there already
    said = _limit_words(scales, limit, list(points.values()))
    labels.words.append(said)
    parts = [*_ground(scales, limit, said), _stairs(corners)]
    labels.taken.append(TakenSpace(frame.left, line - 1, frame.width - frame.left, 2))
    labels.taken.extend(
        TakenSpace(min(x, to_x), min(y, to_y), abs(to_x - x), abs(to_y - y))
        for (x, y), (to_x, to_y) in pairwise(corners)
    )
    numbers = {c.label: n for n, c in enumerate(candidates, start=1)}
    if picked is not None and picked.label in points:
        x, y = points[picked.label]
        labels.taken.append(TakenSpace(x - _RING, y - _RING, 2 * _RING, 2 * _RING))
        parts.append(f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="{_RING}"/>')
    # the picked one names itself first, and is drawn last
    names, marks = [], []
    for c in sorted(shown, key=lambda c: (c is not picked, c.risk)):
        x, y = points[c.label]
        marks.append(
            f"<g>{mark(c.kind, x, y, more=' within' if c.meets else '')}<title>{escape(c.label)}: "
            f"risk {percent(c.risk)}, at most {percent(c.risk_high)}, usefulness {c.usefulness:.2f}"
            "</title></g>"
        )
        text = str(numbers[c.label]) + (f" {c.label}" if frame is WIDE else "")
        names.append(Label(text, (x, y), _RING if c is picked else _MARK, bold=c is picked))
    put = labels.put_all(names)
    parts += [*(lead for lead, _ in put), *reversed(marks), *(words for _, words in put)]
    parts.append(_axes(scales, useful_for))
    return svg(title, frame.width, frame.height, "".join(parts))


def _limit_words(
    scales: _Scales, limit: float, points: Sequence[tuple[float, float]]
) -> TakenSpace:
    """Where the limit says its name: along its line, where no point is."""
    frame, line = scales.frame, scales.y(limit)
    wide = (len(f"limit {percent(limit)}") + 1) * LETTER
    last = frame.width - frame.right - wide
    places = [
        TakenSpace(x, y, wide, LINE)
        for y in (line - LINE - 3, line + 3)
        for x in (*range(int(frame.left), int(last), 10), last)
    ]
    room = _RING + 4
    marks = [TakenSpace(x - room, y - room, 2 * room, 2 * room) for x, y in points]
    return next((p for p in places if not any(p.touches(m) for m in marks)), places[0])


def _ground(scales: _Scales, limit: float, said: TakenSpace) -> Iterator[str]:
    """What is within the limit, the lines of the scale, and the limit itself."""
    frame = scales.frame
    base, right, line = frame.height - frame.bottom, frame.width - frame.right, scales.y(limit)
    yield (
        f'<rect class="zone" x="{frame.left}" y="{line:.1f}" width="{right - frame.left:.1f}" '
        f'height="{base - line:.1f}"/>'
    )
    for tick in _TICKS:
        if tick > scales.top:
            continue
        y = scales.y(tick)
        yield (
            f'<line class="grid" x1="{frame.left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{frame.left - 6}" y="{y + 4:.1f}" text-anchor="end">{percent(tick)}</text>'
        )
    yield (
        f'<line class="limit" x1="{frame.left}" x2="{right}" y1="{line:.1f}" y2="{line:.1f}"/>'
        f'<text class="limit-words" x="{said.x + 5:.1f}" y="{said.y + LINE - 2:.1f}">'
        f"limit {percent(limit)}</text>"
    )


def _corners(scales: _Scales, best: Sequence[Candidate]) -> list[tuple[float, float]]:
    """Of the frontier: what is the least risk at each usefulness."""
    if not best:
        return []
    points = [(scales.x(best[0].usefulness or 0.0), scales.y(best[0].risk))]
    for c in best[1:]:
        x, y = scales.x(c.usefulness or 0.0), scales.y(c.risk)
        points += [(points[-1][0], y), (x, y)]
    return points


def _stairs(corners: Sequence[tuple[float, float]]) -> str:
    through = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return f'<polyline class="frontier" points="{through}"/>' if corners else ""


def _axes(scales: _Scales, useful_for: str) -> str:
    frame = scales.frame
    base, right = frame.height - frame.bottom, frame.width - frame.right
    steps = range(round(scales.low * 10), 11, 2 if frame is NARROW else 1)
    ticks = "".join(
        f'<text x="{scales.x(n / 10):.1f}" y="{base + 16:.1f}" text-anchor="middle">{n / 10:g}</text>'
        for n in steps
    )
    middle = (frame.top + base) / 2
    along = "more useful" if frame is NARROW else f"more useful for {useful_for}"
    up = "learnt by an attacker" if frame is NARROW else "what an attacker learns of a person"
    return (
        f'<line class="axis" x1="{frame.left}" x2="{right}" y1="{base}" y2="{base}"/>{ticks}'
        f'<text class="axis-words" x="{right}" y="{base + 38:.1f}" text-anchor="end">'
        f"{escape(along)} →</text>"
        f'<text class="axis-words" transform="translate(13,{middle:.1f}) rotate(-90)" '
        f'text-anchor="middle">{escape(up)} (lower is safer)</text>'
    )
