"""The frontier of risk against usefulness, as a picture: SVG as text, coloured by the page.

Shapes tell the kinds apart, so that it survives black and white. Labels are put where they touch
neither each other nor a point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from freqdp_db.evaluation.recommendation.choosing import Candidate, frontier, percent
from freqdp_db.evaluation.report.drawing import svg

_TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
_LETTER = 6.6
"""Width of a letter of a label, generously."""
_LINE = 15.0
_MARK = 6.0
_RING = 11.0
_WAYS = ((1, 0), (-1, 0), (0.7, -0.7), (0.7, 0.7), (-0.7, -0.7), (-0.7, 0.7), (0, -1), (0, 1))
"""Where a label may stand: to the right, to the left, and so on."""
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


@dataclass(frozen=True)
class PictureFrame:
    """A picture's size and margins."""

    width: float
    height: float
    left: float = 58
    right: float = 18
    top: float = 16
    bottom: float = 58


WIDE, NARROW = PictureFrame(800, 500), PictureFrame(360, 400, left=62, right=12)


@dataclass(frozen=True)
class TakenSpace:
    """A part of the picture that something stands on."""

    x: float
    y: float
    width: float
    height: float

    def touches(self, other: TakenSpace) -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )

    def inside(self, frame: PictureFrame) -> bool:
        return (
            self.x >= frame.left
            and self.x + self.width <= frame.width - 2
            and self.y >= 2
            and self.y + self.height <= frame.height - frame.bottom
        )


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
        low = max(min(math.floor(least * 10 - 0.5) / 10, 0.8), 0.0)
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
    parts = [*_ground(scales, limit), _stairs(corners)]
    points = {c.label: (scales.x(c.usefulness or 0.0), scales.y(c.risk)) for c in shown}
    taken = [TakenSpace(x - _MARK, y - _MARK, 2 * _MARK, 2 * _MARK) for x, y in points.values()]
    # the limit and its words stand there already
    line = scales.y(limit)
    taken.append(TakenSpace(frame.left, line - _LINE - 3, 12 * _LETTER, _LINE))
    taken.append(TakenSpace(frame.left, line - 1, frame.width - frame.left, 2))
    taken += [
        TakenSpace(min(x, to_x), min(y, to_y), abs(to_x - x), abs(to_y - y))
        for (x, y), (to_x, to_y) in pairwise(corners)
    ]
    numbers = {c.label: n for n, c in enumerate(candidates, start=1)}
    if picked is not None and picked.label in points:
        x, y = points[picked.label]
        taken.append(TakenSpace(x - _RING, y - _RING, 2 * _RING, 2 * _RING))
        parts.append(f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="{_RING}"/>')
    # the picked one names itself first, and is drawn last
    names, marks = [], []
    for c in sorted(shown, key=lambda c: (c is not picked, c.risk)):
        x, y = points[c.label]
        marks.append(
            f"<g>{mark(c.kind, x, y, more=' within' if c.meets else '')}<title>{escape(c.label)}: "
            f"risk {percent(c.risk)}, usefulness {c.usefulness:.2f}</title></g>"
        )
        text = str(numbers[c.label]) + (f" {c.label}" if frame is WIDE else "")
        others = [p for label, p in points.items() if label != c.label]
        names.append(_label(text, (x, y), others, taken, frame, bold=c is picked))
    parts += [*(lead for lead, _ in names), *reversed(marks), *(name for _, name in names)]
    parts.append(_axes(scales, useful_for))
    return svg(title, frame.width, frame.height, "".join(parts))


def _ground(scales: _Scales, limit: float) -> Iterator[str]:
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
        f'<text class="limit-words" x="{frame.left + 5}" y="{line - 5:.1f}">limit {percent(limit)}</text>'
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


@dataclass(frozen=True)
class _Spot:
    """A place for a label."""

    box: TakenSpace
    x: float
    y: float
    """Where the label is nearest to its point."""
    beside: bool
    """So near that it needs no line to its point."""

    def points_to(self, point: tuple[float, float], others: Sequence[tuple[float, float]]) -> bool:
        """Whether no other point is nearer than its own."""
        own = math.hypot(self.x - point[0], self.y - point[1])
        return all(math.hypot(self.x - x, self.y - y) >= own for x, y in others)


def _spots(point: tuple[float, float], reach: float, width: float) -> Iterator[_Spot]:
    """Places for a label of this width, the nearest first."""
    for away in (0.0, 12.0, 26.0, 42.0, 60.0, 82.0, 110.0, 145.0, 180.0):
        for dx, dy in _WAYS:
            x, y = point[0] + dx * (reach + 4 + away), point[1] + dy * (reach + 4 + away)
            left = x if dx > 0 else x - width if dx < 0 else x - width / 2
            yield _Spot(TakenSpace(left, y - _LINE / 2, width, _LINE), x, y, not away and not dy)


def _label(
    text: str,
    point: tuple[float, float],
    others: Sequence[tuple[float, float]],
    taken: list[TakenSpace],
    frame: PictureFrame,
    *,
    bold: bool,
) -> tuple[str, str]:
    """A line to the point if it is far, and the label, in the nearest place that is free."""
    reach, width = _RING if bold else _MARK, len(text) * _LETTER * (1.1 if bold else 1.0) + 2
    free = [
        spot
        for spot in _spots(point, reach, width)
        if spot.box.inside(frame) and not any(spot.box.touches(other) for other in taken)
    ]
    if not free:
        return "", ""  # no room: the table has it
    spot = next((spot for spot in free if spot.points_to(point, others)), free[0])
    taken.append(spot.box)
    lead = (
        f'<line class="lead" x1="{point[0]:.1f}" y1="{point[1]:.1f}" x2="{spot.x:.1f}" '
        f'y2="{spot.y:.1f}"/>'
    )
    named = "label picked" if bold else "label"
    # to the left of its point a label ends where the line does, however wide its letters are
    leftwards = spot.x > spot.box.x + spot.box.width / 2 + 1
    at, anchor = (spot.x - 1, "end") if leftwards else (spot.box.x + 1, "start")
    words = (
        f'<text class="{named}" x="{at:.1f}" y="{spot.y + 4:.1f}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )
    return "" if spot.beside else lead, words


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
