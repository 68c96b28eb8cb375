"""Maps of a report: heat maps, and ways and places over roads; metres, the north above, with a scale."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from freqdp_db.evaluation.figures import (
    ACCENT,
    FONT,
    INK,
    PAPER,
    ROAD,
    TRUTH,
    as_svg,
    new_figure,
    scale_bar,
)
from freqdp_db.evaluation.pair import CellBox
from freqdp_db.model.arrays import Ints, Metres

WIDTH = 380.0
_FLATTEST, _STEEPEST = 0.5, 1.15
"""How high a map is drawn, as a share of its width: the shape of what it shows, within these."""
_LEAST_M = 300.0
_APART = 5.0
"""Marks in one square of so many pixels are drawn once."""
SAME_NAME = 12.0
"""Names nearer than this lie on each other: a number's width."""
_LETTER = 8.4
"""Width of a letter of a name, generously."""
_MOST_ROADS = 6_000
"""More of them in a picture are a grey wash and megabytes."""
_LIGHT, _DARK = (0.91, 0.93, 0.95), (0.03, 0.19, 0.37)
_CELLS = 140
"""Of a square heat map along its side, at most."""
_PIXELS = 640
_NARROWEST = 0.4
"""A heat map's shorter side, as a share of the longer one, at least."""
_EDGE_PERCENT = 0.5
_MOST_PERCENT = (95, 90, 80)
_MUCH_FARTHER, _AROUND = 8, 1.5


@dataclass(frozen=True)
class Raster:
    """Square cells that a heat map counts in."""

    west: float
    south: float
    cell: float
    columns: int
    rows: int

    @classmethod
    def over(cls, box: CellBox, pitch: float | None) -> Raster:
        """Over a box. `pitch`: places lie on a grid of so many metres, from 0; a cell then has
        whole cells of that grid, or it would have now more and now fewer of them: stripes."""
        wide, high = box.east - box.west, box.north - box.south
        longer = max(wide, high, pitch or 0.0, 1.0)
        # a long thin coast is not drawn as a line, and has more cells along it
        x, y = (max(_NARROWEST * longer - side, 0.0) / 2 for side in (wide, high))
        area = (wide + 2 * x) * (high + 2 * y)
        cell = max(math.sqrt(area) / _CELLS, longer / (2 * _CELLS))
        if pitch:
            cell = math.ceil(cell / pitch - 1e-9) * pitch
        west = math.floor((box.west - x) / cell) * cell
        south = math.floor((box.south - y) / cell) * cell
        columns = math.floor((box.east + x - west) / cell) + 1
        rows = math.floor((box.north + y - south) / cell) + 1
        return cls(west, south, cell, columns, rows)

    def counts(self, x: Metres, y: Metres) -> Ints:
        """How many lie in each cell, rows from the south; what lies outside is not counted."""
        column = np.floor((x - self.west) / self.cell).astype(np.int64)
        row = np.floor((y - self.south) / self.cell).astype(np.int64)
        inside = (column >= 0) & (column < self.columns) & (row >= 0) & (row < self.rows)
        cell = row[inside] * self.columns + column[inside]
        return np.bincount(cell, minlength=self.rows * self.columns).reshape(self.rows, -1)


def heat_png(counts: Ints, most: float) -> str:
    """A grid of counts (rows from the south) as a data URI; log scale, dark is many, white is none."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.image import imsave

    share: Metres = np.log1p(counts.astype(np.float64)) / max(math.log1p(most), 1e-9)
    # cells of several pixels, each as many: a browser that scales single ones makes some wider
    times = max(1, -(-_PIXELS // max(counts.shape)))
    share = share.repeat(times, axis=0).repeat(times, axis=1)
    ramp = LinearSegmentedColormap.from_list("heat", [_LIGHT, _DARK]).with_extremes(under="white")
    data = io.BytesIO()
    imsave(data, np.where(share > 0, share, -1), vmin=0, vmax=1, cmap=ramp, origin="lower",
           format="png", metadata={"Software": "freqdp"})  # fmt: skip
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()


class Heat(NamedTuple):
    """A picture of how many samples lie where."""

    title: str
    source: str
    alt: str
    of: int
    """How many samples there are, on the map or not."""
    outside: int
    """How many of them are not on it."""


class Heats(NamedTuple):
    """Pictures on one scale."""

    pictures: list[Heat]
    most: int
    """The upper end of the scale."""
    cell_m: float

    @property
    def cell(self) -> str:
        """How wide a cell is, as it is read: coordinates in degrees make no round metres."""
        return f"{self.cell_m:,.0f} m" if self.cell_m >= 10 else f"{self.cell_m:.2g} m"


def heat_maps(
    sides: Sequence[tuple[str, Metres, Metres]], box: CellBox, pitch: float | None
) -> Heats:
    """Samples by cell for each named column of positions.

    `pitch`: positions lie on a grid of so many metres; None: anywhere.
    """
    raster = Raster.over(box, pitch)
    grids = [raster.counts(x, y) for _, x, y in sides]
    most = int(max((grid.max(initial=0) for grid in grids), default=0))
    pictures = [
        Heat(
            name,
            heat_png(grid, most),
            f"Heat map, {name}: {int(grid.sum()):,} samples, busiest cell {int(grid.max()):,}",
            len(x),
            len(x) - int(grid.sum()),
        )
        for (name, x, _), grid in zip(sides, grids, strict=True)
    ]
    return Heats(pictures, most, raster.cell)


def box_of(x: Metres, y: Metres) -> CellBox:
    """The area that maps of these positions show: where most are.

    From their 0.5 to their 99.5 percentile. But people travel: where most are much nearer to the
    middle than the others, the map shows that part.
    """
    box = CellBox.around(x, y, _EDGE_PERCENT)
    if not len(x):
        return box
    middle_x, middle_y = float(np.median(x)), float(np.median(y))
    away = np.maximum(np.abs(x - middle_x), np.abs(y - middle_y))
    for reach in np.percentile(away, _MOST_PERCENT).tolist():
        if _MUCH_FARTHER * 2 * reach < max(box.east - box.west, box.north - box.south):
            around = _AROUND * reach
            box = CellBox(
                max(box.west, middle_x - around), max(box.south, middle_y - around),
                min(box.east, middle_x + around), min(box.north, middle_y + around),
            )  # fmt: skip
    return box


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


class Map:
    """A piece of the world, drawn on from back to front: metres, over a whole figure."""

    def __init__(self, box: CellBox) -> None:
        longer = max(box.east - box.west, box.north - box.south, _LEAST_M)
        wide, high = (box.east - box.west) + 0.12 * longer, (box.north - box.south) + 0.12 * longer
        high = max(high, _FLATTEST * wide)
        wide = max(wide, high / _STEEPEST)
        x, y = (box.west + box.east) / 2, (box.south + box.north) / 2
        self.box = CellBox(x - wide / 2, y - high / 2, x + wide / 2, y + high / 2)
        self.scale = WIDTH / wide
        """Pixels of a metre."""
        self.height = high * self.scale
        """In pixels."""
        self.figure = new_figure(WIDTH, round(self.height))
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(self.box.west, self.box.east), ylim=(self.box.south, self.box.north))
        self.axes.axis("off")

    @classmethod
    def around(cls, x: Metres, y: Metres) -> Map:
        """All of these points; but a far one does not make a dot of all others."""
        west, east, south, north = x.min(), x.max(), y.min(), y.max()
        inner = [*np.percentile(x, [2, 98]), *np.percentile(y, [2, 98])]
        widest = max(inner[1] - inner[0], inner[3] - inner[2], _LEAST_M)
        if max(east - west, north - south) > 2 * widest:
            west, east, south, north = inner
        return cls(CellBox(float(west), float(south), float(east), float(north)))

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a place is in the picture: pixels from its upper left corner."""
        return (x - self.box.west) * self.scale, (self.box.north - y) * self.scale

    def roads(self, roads: RoadLines) -> bool:
        """Draw them, unless they are too many to tell apart."""
        seen = roads.within(self.box)
        if not 0 < len(seen) <= _MOST_ROADS:
            return False
        # one line with gaps: a line for each road would be megabytes
        parts = [slice(roads.offsets[r], roads.offsets[r + 1]) for r in seen]
        x, y = (
            np.concatenate([np.append(side[part], np.nan) for part in parts])
            for side in (roads.x, roads.y)
        )
        self.way(x, y, ROAD, width=1.1)
        return True

    def way(
        self, x: Metres, y: Metres, colour: str = INK, dash: str = "solid", width: float = 1.3
    ) -> None:
        """A line through these places."""
        self.axes.plot(x, y, color=colour, linestyle=dash, linewidth=width)

    def truth(self, x: Metres, y: Metres) -> None:
        """Where somebody really was."""
        self.axes.plot(x, y, color=TRUTH, linewidth=5, alpha=0.75, solid_capstyle="round")

    def crosses(self, x: Metres, y: Metres) -> None:
        self._marks(x, y, _APART, marker="x", ms=8, mec=ACCENT, mew=1.8)

    def rings(self, x: Metres, y: Metres) -> None:
        self._marks(x, y, _APART, marker="o", ms=7.2, mfc=PAPER, mec=INK, mew=1.6)

    def dots(self, x: Metres, y: Metres, colour: str, radius: float) -> None:
        self._marks(x, y, radius, marker="o", ms=2 * radius, mfc=colour, mew=0)

    def star(self, x: float, y: float) -> None:
        """One place that matters most."""
        self.axes.plot([x], [y], marker="*", ms=20, mfc=ACCENT, mec=PAPER, mew=1.5, zorder=4)

    def box_of(
        self, west: float, south: float, east: float, north: float, *, wrong: bool = False
    ) -> None:
        """An area; one that is wrong is dashed."""
        from matplotlib.colors import to_rgba
        from matplotlib.patches import Rectangle

        look = (
            {"fc": "none", "ec": ACCENT, "ls": "--"}
            if wrong
            else {"fc": to_rgba(INK, 0.06), "ec": INK}
        )
        size = (max(side, 2 / self.scale) for side in (east - west, north - south))
        self.axes.add_patch(Rectangle((west, south), *size, lw=1.4, zorder=3, **look))

    def name(self, x: float, y: float, words: str, dx: float = 7.0, dy: float = -6.0) -> None:
        """Words at a place, inside the picture."""
        u, v = self.at(x, y)
        u = min(max(u + dx, 4.0), WIDTH - len(words) * _LETTER - 2)
        v = min(max(v + dy, 13.0), self.height - 34.0)  # the scale is below
        self._words(u, v, words)

    def _words(self, u: float, v: float, words: str) -> None:
        box = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.8, "pad": 0.6}
        self.axes.text(u / WIDTH, 1 - v / self.height, words, transform=self.axes.transAxes,
                       color=INK, fontsize=FONT, weight="bold", bbox=box, zorder=5)  # fmt: skip

    def picture(self, title: str) -> Markup:
        """All of it, with a scale."""
        metres, label = scale_bar(self.box.east - self.box.west)
        end = 12 + metres * self.scale
        u, v = np.array([12, 12, end, end]) / WIDTH, np.array([18, 12, 12, 18]) / self.height
        self.axes.plot(u, v, color=INK, linewidth=1, transform=self.axes.transAxes)
        self._words(6 + end, self.height - 10, label)
        return as_svg(self.figure, title)

    def _marks(self, x: Metres, y: Metres, apart: float, **look: Any) -> None:
        """A mark at each place; of those that would lie on each other, one."""
        kept: dict[tuple[int, int], tuple[float, float]] = {}
        for a, b in np.unique(np.column_stack([x, y]), axis=0).tolist():
            u, v = self.at(a, b)
            kept.setdefault((math.floor(u / apart), math.floor(v / apart)), (a, b))
        if kept:
            self.axes.plot(*zip(*kept.values(), strict=True), linestyle="none", **look)
