"""Maps of a report: ways and places in metres, the north above, with a scale and roads behind."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from freqdp_db.columns.arrays import Flags, Ints, Metres
from freqdp_db.evaluation.pair import CellBox
from freqdp_db.evaluation.report.drawing import LETTER, svg, text

WIDTH = 380.0
_FLATTEST, _STEEPEST = 0.5, 1.15
"""How high a map is drawn, as a share of its width: the shape of what it shows, within these."""
_LEAST_M = 300.0
_APART = 5.0
"""Marks in one square of so many pixels are drawn once."""
SAME_NAME = 12.0
"""Names nearer than this lie on each other: a number's width."""
_MOST_ROADS = 6_000
"""More of them in a picture are a grey wash and megabytes."""


@dataclass(frozen=True)
class RoadLines:
    """Lines to draw behind a map."""

    x: Metres
    y: Metres
    offsets: Ints

    @classmethod
    def none(cls) -> RoadLines:
        return cls(np.zeros(0), np.zeros(0), np.zeros(1, np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def within(self, box: CellBox) -> Ints:
        """Those that may touch a box."""
        if not len(self):
            return np.zeros(0, np.int64)
        begins = self.offsets[:-1]
        touching = (
            (np.maximum.reduceat(self.x, begins) > box.west)
            & (np.minimum.reduceat(self.x, begins) < box.east)
            & (np.maximum.reduceat(self.y, begins) > box.south)
            & (np.minimum.reduceat(self.y, begins) < box.north)
        )
        return np.flatnonzero(touching)


@dataclass
class Map:
    """A piece of the world, drawn on from back to front."""

    left: float
    top: float
    wide: float
    high: float
    parts: list[str] = field(default_factory=list)

    @classmethod
    def around(cls, x: Metres, y: Metres) -> Map:
        """All of these points; but a far one does not make a dot of all others."""
        west, east, south, north = x.min(), x.max(), y.min(), y.max()
        inner = [*np.percentile(x, [2, 98]), *np.percentile(y, [2, 98])]
        widest = max(inner[1] - inner[0], inner[3] - inner[2], _LEAST_M)
        if max(east - west, north - south) > 2 * widest:
            west, east, south, north = inner
        return cls.over(CellBox(float(west), float(south), float(east), float(north)))

    @classmethod
    def over(cls, box: CellBox) -> Map:
        longer = max(box.east - box.west, box.north - box.south, _LEAST_M)
        wide, high = (box.east - box.west) + 0.12 * longer, (box.north - box.south) + 0.12 * longer
        high = max(high, _FLATTEST * wide)
        wide = max(wide, high / _STEEPEST)
        x, y = (box.west + box.east) / 2, (box.south + box.north) / 2
        return cls(x - wide / 2, y + high / 2, wide, high)

    @property
    def scale(self) -> float:
        return WIDTH / self.wide

    @property
    def height(self) -> float:
        """On the paper."""
        return self.high * self.scale

    @property
    def box(self) -> CellBox:
        return CellBox(self.left, self.top - self.high, self.left + self.wide, self.top)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a place is on the paper."""
        return (x - self.left) * self.scale, (self.top - y) * self.scale

    def points(self, x: Metres, y: Metres) -> str:
        u, v = (x - self.left) * self.scale, (self.top - y) * self.scale
        # places outside of the picture may be on the other side of the globe
        u, v = np.clip(u, -9_999, 9_999), np.clip(v, -9_999, 9_999)
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(u, v, strict=True))

    def roads(self, roads: RoadLines) -> bool:
        """Draw them, unless they are too many to tell apart."""
        seen = roads.within(self.box)
        if not 0 < len(seen) <= _MOST_ROADS:
            return False
        ways = []
        for r in seen:
            part = slice(roads.offsets[r], roads.offsets[r + 1])
            ways.append("M" + self.points(roads.x[part], roads.y[part]).replace(" ", "L"))
        self.parts.append(f'<path d="{" ".join(ways)}" class="road"/>')
        return True

    def way(self, x: Metres, y: Metres, named: str) -> None:
        """A line through these places."""
        self.parts.append(f'<polyline points="{self.points(x, y)}" class="{named}"/>')

    def crosses(self, x: Metres, y: Metres) -> None:
        for u, v in self._distinct(x, y):
            self.parts.append(f'<path d="M{u - 4:.1f},{v - 4:.1f}l8,8m0,-8l-8,8" class="cross"/>')

    def rings(self, x: Metres, y: Metres, radius: float = 3.6, named: str = "ring") -> None:
        for u, v in self._distinct(x, y, min(_APART, radius)):
            self.parts.append(f'<circle cx="{u:.1f}" cy="{v:.1f}" r="{radius}" class="{named}"/>')

    def star(self, x: float, y: float) -> None:
        """One place that matters most."""
        u, v = self.at(x, y)
        turns = [(-90 + 36 * k) * math.pi / 180 for k in range(10)]
        corners = " ".join(
            f"{u + r * math.cos(t):.1f},{v + r * math.sin(t):.1f}"
            for t, r in zip(turns, (11, 4.6) * 5, strict=True)
        )
        self.parts.append(f'<polygon points="{corners}" class="star"/>')

    def box_of(
        self, west: float, south: float, east: float, north: float, named: str = "area"
    ) -> None:
        """An area."""
        u, v = self.at(west, north)
        wide, high = max((east - west) * self.scale, 2), max((north - south) * self.scale, 2)
        self.parts.append(
            f'<rect x="{u:.1f}" y="{v:.1f}" width="{wide:.1f}" height="{high:.1f}" '
            f'class="{named}"/>'
        )

    def name(self, x: float, y: float, words: str, dx: float = 7.0, dy: float = -6.0) -> None:
        """Words at a place, inside the picture."""
        u, v = self.at(x, y)
        wide = len(words) * LETTER * 1.1
        u = min(max(u + dx, 4.0), WIDTH - wide - 2)
        v = min(max(v + dy, 13.0), self.height - 26.0)
        self.parts.append(text(u, v, words, named="name"))

    def picture(self, title: str) -> str:
        """All of it, with a scale."""
        metres = 10.0 ** math.floor(math.log10(self.wide / 3))
        metres *= 5 if metres * 5 < self.wide / 3 else 2 if metres * 2 < self.wide / 3 else 1
        label = f"{metres / 1000:g} km" if metres >= 1000 else f"{metres:g} m"
        ground = f'<rect width="{WIDTH:g}" height="{self.height:.1f}" class="ground"/>'
        ruler = (
            f'<path d="M12,{self.height - 18:.1f}v6h{metres * self.scale:.1f}v-6" class="ruler"/>'
            + text(18 + metres * self.scale, self.height - 10, label, named="name")
        )
        return svg(title, WIDTH, round(self.height), ground + "".join(self.parts) + ruler)

    def _distinct(self, x: Metres, y: Metres, apart: float = _APART) -> list[tuple[float, float]]:
        """Where marks go: of those that would lie on each other, one."""
        kept: dict[tuple[int, int], tuple[float, float]] = {}
        for a, b in np.unique(np.column_stack([x, y]), axis=0):
            u, v = self.at(float(a), float(b))
            kept.setdefault((math.floor(u / apart), math.floor(v / apart)), (u, v))
        return list(kept.values())


@dataclass(frozen=True)
class EditedWay:
    """A trajectory before and after, with the samples that were taken out and put in."""

    before_x: Metres
    before_y: Metres
    after_x: Metres
    after_y: Metres
    deleted: Flags
    """Of the samples before."""
    inserted: Flags
    """Of the samples after."""


def trajectory_map(title: str, path: EditedWay, roads: RoadLines) -> str:
    """One trajectory before (broad) and after (thin), deleted samples crossed out, inserted ringed."""
    drawn = Map.around(
        np.concatenate([path.before_x, path.after_x]), np.concatenate([path.before_y, path.after_y])
    )
    drawn.roads(roads)
    drawn.way(path.before_x, path.before_y, "truth")
    drawn.way(path.after_x, path.after_y, "way ink")
    drawn.crosses(path.before_x[path.deleted], path.before_y[path.deleted])
    drawn.rings(path.after_x[path.inserted], path.after_y[path.inserted])
    return drawn.picture(title)
