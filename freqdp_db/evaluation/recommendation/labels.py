"""Labels of points in a picture: where they touch neither each other, nor a point, nor a line.

A label that does not stand beside its point has a line to it. Such a line crosses no words, and is
never level: between two numbers it would read as a dash.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TypeAlias

LETTER = 6.6
"""Width of a letter of a label, generously."""
LINE = 15.0
_LEVEL = 4.0
"""A line that rises by less is level."""
_BETWEEN = 8.0
"""What is left free between two labels of one height: less reads as one."""
_AWAY = (0.0, 12.0, 26.0, 42.0, 60.0, 82.0, 110.0, 145.0, 180.0, 220.0, 270.0)
_WAYS = ((1, 0), (-1, 0), (0.7, -0.7), (0.7, 0.7), (-0.7, -0.7), (-0.7, 0.7), (0, -1), (0, 1))
"""Where a label may stand: to the right, to the left, and so on."""
_COLUMN, _ROWS = 30.0, 12
"""Where points crowd: labels below each other that begin (or end) at one of the columns so far
apart, at most so many lines above or below their points. No line to one crosses another."""
_CROSSED, _AMBIGUOUS = 150.0, 60.0
"""A line that crosses another, or a label nearer to another point, is as bad as one so much longer."""
_ROUNDS = 12
"""So often all labels are put anew, what found no room first."""

Point: TypeAlias = tuple[float, float]
_Lead: TypeAlias = tuple[Point, Point]


@dataclass(frozen=True)
class PictureFrame:
    """A picture's size and margins."""

    width: float
    height: float
    left: float = 58
    right: float = 18
    top: float = 16
    bottom: float = 58


@dataclass(frozen=True)
class TakenSpace:
    """A part of the picture that something stands on."""

    x: float
    y: float
    width: float
    height: float

    def touches(self, other: TakenSpace, between: float = 0.0) -> bool:
        return (
            self.x < other.x + other.width + between
            and other.x < self.x + self.width + between
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

    def crossed_by(self, begin: Point, end: Point) -> bool:
        """Whether a line passes through: what is left of it between all four sides."""
        first, last = 0.0, 1.0
        for low, high, a, b in (
            (self.x, self.x + self.width, begin[0], end[0]),
            (self.y, self.y + self.height, begin[1], end[1]),
        ):
            if a == b:
                if not low < a < high:
                    return False
                continue
            one, other = sorted(((low - a) / (b - a), (high - a) / (b - a)))
            first, last = max(first, one), min(last, other)
        return first < last


@dataclass(frozen=True)
class _Spot:
    """A place for a label."""

    box: TakenSpace
    x: float
    y: float
    """Where the label is nearest to its point."""
    beside: bool
    """So near that it needs no line to its point."""

    def points_to(self, point: Point, others: Sequence[Point]) -> bool:
        """Whether no other point is nearer than its own."""
        own = math.dist((self.x, self.y), point)
        return all(math.dist((self.x, self.y), other) >= own for other in others)


def _spots(label: Label, frame: PictureFrame) -> list[_Spot]:
    """Places for a label."""
    (u, v), width = label.point, label.width
    found = []
    for away in _AWAY:
        for dx, dy in _WAYS:
            if away and not dy:
                continue  # a level line
            x, y = (a + d * (label.reach + 4 + away) for a, d in ((u, dx), (v, dy)))
            left = x if dx > 0 else x - width if dx < 0 else x - width / 2
            # above or below its point, the line ends at its edge
            top = y - LINE / 2 if dx else y - LINE if dy < 0 else y
            found.append(_Spot(TakenSpace(left, top, width, LINE), x, y, not dy))
    for column in range(math.ceil(frame.left / _COLUMN), int(frame.width / _COLUMN) + 1):
        x = column * _COLUMN
        if abs(x - u) < label.reach + 4:
            continue
        left = x if x > u else x - width
        for row in range(-_ROWS, _ROWS + 1):
            y = (math.floor(v / (LINE + 1)) + row) * (LINE + 1)
            if abs(y - v) > _LEVEL:
                found.append(_Spot(TakenSpace(left, y - LINE / 2, width, LINE), x, y, False))
    return found


@dataclass(frozen=True)
class Label:
    """What a point is called."""

    text: str
    point: Point
    reach: float
    """From the point to the edge of its mark."""
    bold: bool = False

    @property
    def width(self) -> float:
        return len(self.text) * LETTER * (1.1 if self.bold else 1.0) + 2


@dataclass(frozen=True)
class Labels:
    """Puts one label after the other, each in the nearest place that is free."""

    frame: PictureFrame
    points: Sequence[Point]
    mark: float
    """Half of a point's width."""
    taken: list[TakenSpace] = field(default_factory=list)
    """What no label may stand on; a line may cross it."""
    words: list[TakenSpace] = field(default_factory=list)
    """What neither a label nor a line may touch."""
    leads: list[_Lead] = field(default_factory=list)

    def put_all(self, labels: Sequence[Label]) -> list[tuple[str, str]]:
        """Of each, a line to its point unless it is beside it, and the words; the first have the
        best places, unless another would find none. What finds none at all is in the table only."""
        order, best = list(labels), dict[Label, tuple[str, str]]()
        spots = {label: self._possible(label) for label in labels}
        for _ in range(_ROUNDS):
            tried = replace(self, words=[*self.words], leads=[*self.leads])
            found = {
                label: drawn
                for label in order
                if (drawn := tried._put(label, spots[label])) is not None
            }
            if len(found) > len(best):
                best = found
            if len(found) == len(labels):
                break
            order = sorted(order, key=lambda label: label in found)
        return [best[label] for label in labels if label in best]

    def _possible(self, label: Label) -> list[_Spot]:
        """Where it could stand if there were no other labels."""
        fixed = [*self.taken, *map(self._mark, self.points)]
        return [
            spot
            for spot in _spots(label, self.frame)
            if spot.box.inside(self.frame) and not any(spot.box.touches(other) for other in fixed)
        ]

    def _put(self, label: Label, spots: Sequence[_Spot]) -> tuple[str, str] | None:
        point = label.point
        others = [p for p in self.points if p != point]
        free = [spot for spot in spots if self._is_free(spot, point)]
        if not free:
            return None
        spot = min(free, key=lambda spot: self._cost(spot, point, others))
        self.words.append(spot.box)
        lead = ""
        if not spot.beside:
            self.leads.append((point, (spot.x, spot.y)))
            lead = (
                f'<line class="lead" x1="{point[0]:.1f}" y1="{point[1]:.1f}" x2="{spot.x:.1f}" '
                f'y2="{spot.y:.1f}"/>'
            )
        return lead, _words(label.text, spot, bold=label.bold)

    def _is_free(self, spot: _Spot, point: Point) -> bool:
        box = spot.box
        if any(box.touches(other, _BETWEEN) for other in self.words):
            return False
        if any(box.crossed_by(*lead) for lead in self.leads):
            return False
        here = (spot.x, spot.y)
        return spot.beside or not any(other.crossed_by(point, here) for other in self.words)

    def _cost(self, spot: _Spot, point: Point, others: Sequence[Point]) -> float:
        """How hard it is to see whose a label is: how far it is, and what is in between."""
        here = (spot.x, spot.y)
        away = 0.0 if spot.beside else math.dist(here, point)
        crossed = not spot.beside and (
            any(_cross((point, here), lead) for lead in self.leads)
            or any(
                self._mark(p).crossed_by(point, here)
                for p in others
                if not self._mark(p).touches(self._mark(point))
            )
        )
        return away + _CROSSED * crossed + _AMBIGUOUS * (not spot.points_to(point, others))

    def _mark(self, point: Point) -> TakenSpace:
        side = 2 * self.mark
        return TakenSpace(point[0] - self.mark, point[1] - self.mark, side, side)


def _words(text: str, spot: _Spot, *, bold: bool) -> str:
    named = "label picked" if bold else "label"
    # to the left of its point a label ends where the line does, however wide its letters are
    leftwards = spot.x > spot.box.x + spot.box.width / 2 + 1
    at, anchor = (spot.x - 1, "end") if leftwards else (spot.box.x + 1, "start")
    base = spot.box.y + LINE / 2 + 4
    return (
        f'<text class="{named}" x="{at:.1f}" y="{base:.1f}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _cross(one: _Lead, other: _Lead) -> bool:
    """Whether two lines cross; those that meet in a point of both do not."""

    def side(line: _Lead, point: Point) -> float:
        (x, y), (to_x, to_y) = line
        return (to_x - x) * (point[1] - y) - (to_y - y) * (point[0] - x)

    return (
        side(one, other[0]) * side(one, other[1]) < 0
        and side(other, one[0]) * side(other, one[1]) < 0
    )
