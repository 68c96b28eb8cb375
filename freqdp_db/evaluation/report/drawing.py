"""What pictures of a report are made of: SVG and PNG as text, nothing fetched.

Shapes and dashes tell things apart, so that they survive black and white; colours are the page's,
by class, so that a dark page has light lines; every picture has a title for screen readers.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from dataclasses import dataclass
from html import escape

import numpy as np

from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.evaluation.pair import CellBox

LETTER = 7.6
"""Width of a letter of a picture's text, generously."""
_LIGHT, _DARK = (246, 248, 250), (8, 48, 94)
_LEVELS = 64
_CELLS = 140
"""Of a square heat map along its side, at most."""
_PIXELS = 640
_NARROWEST = 0.4
"""A heat map's shorter side, as a share of the longer one, at least."""


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
    """A grid of counts (rows from the south) as a data URI; log scale, dark is many."""
    share = np.log1p(counts) / max(math.log1p(most), 1e-9)
    level = np.ceil(np.clip(share, 0, 1) * (_LEVELS - 1)).astype(np.uint8)[::-1]
    # cells of several pixels, each as many: a browser that scales single ones makes some wider
    times = max(1, -(-_PIXELS // max(level.shape)))
    level = np.repeat(np.repeat(level, times, axis=0), times, axis=1)
    ramp = np.linspace(0.08, 1, _LEVELS)[:, np.newaxis]
    palette = (np.array(_LIGHT) * (1 - ramp) + np.array(_DARK) * ramp).astype(np.uint8)
    palette[0] = 255  # nothing at all is white
    height, width = level.shape
    rows = np.zeros((height, width + 1), np.uint8)  # each row begins with its filter: none
    rows[:, 1:] = level
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in (
            (b"IHDR", header),
            (b"PLTE", palette.tobytes()),
            (b"IDAT", zlib.compress(rows.tobytes(), 9)),
            (b"IEND", b""),
        )
    )
    return "data:image/png;base64," + base64.b64encode(data).decode()


def svg(title: str, width: float, height: float, body: str) -> str:
    """A picture of its own, with words for who cannot see it."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>{body}</svg>'
    )


def text(x: float, y: float, words: str, anchor: str = "start", named: str = "") -> str:
    """Words in a picture."""
    kind = f' class="{named}"' if named else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
