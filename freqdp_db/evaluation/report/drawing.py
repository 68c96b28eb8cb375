"""Pictures inside a report: SVG and PNG as text, nothing fetched. Shapes and dashes tell things
apart, so that they survive black and white; every picture has a title for screen readers."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ints, Metres

INK, QUIET, ACCENT = "#1b2733", "#8796a3", "#b3261e"
_LIGHT, _DARK = (246, 248, 250), (8, 48, 94)
_LEVELS = 64
_WIDTH, _HEIGHT = 420, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 14, 40


def heat_png(counts: Ints, most: float) -> str:
    """A grid of counts (rows from the south) as a data URI; log scale, dark is many."""
    share = np.log1p(counts) / max(math.log1p(most), 1e-9)
    level = np.ceil(np.clip(share, 0, 1) * (_LEVELS - 1)).astype(np.uint8)[::-1]
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


@dataclass(frozen=True)
class Curve:
    """One curve of a chart."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _ticks(low: float, high: float, log: bool) -> list[float]:
    if log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        return [10.0**e for e in range(first, last + 1) if low * 0.999 <= 10.0**e <= high * 1.001]
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)))
    for part in (0.2, 0.5, 1, 2):
        if (high - low) / (step * part) <= 6:
            step *= part
            break
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def line_chart(
    title: str, lines: Sequence[Curve], x_label: str, y_label: str, *, log: bool = False
) -> str:
    """Curves over common axes; `log` makes both logarithmic."""
    xs = [v for line in lines for v in line.x]
    ys = [v for line in lines for v in line.y if v > 0 or not log]
    if not xs or not ys:
        return ""
    x_low, x_high = min(xs), max(max(xs), min(xs) + 1)
    y_low = min(ys) if log else 0.0
    y_high = max(max(ys), y_low * 1.1, 1e-9)

    def place(value: float, low: float, high: float, begin: float, end: float) -> float:
        if log:
            value, low, high = math.log10(max(value, low)), math.log10(low), math.log10(high)
        return begin + (value - low) / max(high - low, 1e-12) * (end - begin)

    def x_of(v: float) -> float:
        return place(v, x_low, x_high, _LEFT, _WIDTH - _RIGHT)

    def y_of(v: float) -> float:
        return place(v, y_low, y_high, _HEIGHT - _BOTTOM, _TOP)

    parts = []
    for tick in _ticks(y_low, y_high, log):
        y = y_of(tick)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e1e6ea"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
        )
    for tick in _ticks(x_low, x_high, log):
        x = x_of(tick)
        base = _HEIGHT - _BOTTOM
        parts.append(
            f'<text x="{x:.1f}" y="{base + 15}" text-anchor="middle">{_number(tick)}</text>'
        )
    for line in lines:
        points = " ".join(
            f"{x_of(x):.1f},{y_of(y):.1f}"
            for x, y in zip(line.x, line.y, strict=True)
            if y > 0 or not log
        )
        style = f'stroke="{ACCENT}" stroke-dasharray="5 3"' if line.dashed else f'stroke="{INK}"'
        parts.append(f'<polyline points="{points}" fill="none" stroke-width="2" {style}/>')
    for n, line in enumerate(lines):
        y = _TOP + 8 + 16 * n
        style = f'stroke="{ACCENT}" stroke-dasharray="5 3"' if line.dashed else f'stroke="{INK}"'
        parts.append(
            f'<line x1="{_WIDTH - 130}" x2="{_WIDTH - 104}" y1="{y}" y2="{y}" stroke-width="2" {style}/>'
            f'<text x="{_WIDTH - 98}" y="{y + 4}">{escape(line.name)}</text>'
        )
    return _svg(title, _WIDTH, _HEIGHT, "".join(parts) + _labels(x_label, y_label))


def bar_chart(
    title: str, names: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], x_label: str,
    y_label: str,
) -> str:  # fmt: skip
    """Bars side by side; the first series is dark, the second hatched."""
    most = max((v for _, values in series for v in values), default=0.0)
    if most <= 0:
        return ""
    base, room = _HEIGHT - _BOTTOM, (_WIDTH - _LEFT - _RIGHT) / max(len(names), 1)
    parts = [
        '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="5" height="5" fill="#fff"/>'
        f'<rect width="2.4" height="5" fill="{ACCENT}"/></pattern></defs>'
    ]
    for tick in _ticks(0, most, log=False):
        y = base - tick / most * (base - _TOP)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e1e6ea"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
        )
    wide = room * 0.8 / max(len(series), 1)
    for n, (label, values) in enumerate(series):
        fill = f'fill="{INK}"' if n == 0 else f'fill="url(#hatch)" stroke="{ACCENT}"'
        for i, value in enumerate(values):
            high = value / most * (base - _TOP)
            x = _LEFT + i * room + room * 0.1 + n * wide
            parts.append(
                f'<rect x="{x:.1f}" y="{base - high:.1f}" width="{wide:.1f}" height="{high:.1f}" {fill}/>'
            )
        y = _TOP + 2 + 16 * n
        parts.append(
            f'<rect x="{_WIDTH - 120}" y="{y}" width="14" height="10" {fill}/>'
            f'<text x="{_WIDTH - 100}" y="{y + 9}">{escape(label)}</text>'
        )
    for i, name in enumerate(names):
        x = _LEFT + (i + 0.5) * room
        parts.append(
            f'<text x="{x:.1f}" y="{base + 15}" text-anchor="middle">{escape(name)}</text>'
        )
    return _svg(title, _WIDTH, _HEIGHT, "".join(parts) + _labels(x_label, y_label))


@dataclass(frozen=True)
class Path:
    """A trajectory on a map, with the samples that were taken out and put in."""

    before_x: Metres
    before_y: Metres
    after_x: Metres
    after_y: Metres
    deleted: NDArray[np.bool_]
    """Of the samples before."""
    inserted: NDArray[np.bool_]
    """Of the samples after."""


def trajectory_map(
    title: str, path: Path, roads: Sequence[NDArray[np.float64]], size: int = 380
) -> str:
    """One trajectory before (grey) and after (dark), deleted samples crossed out, inserted ringed."""
    x = np.concatenate([path.before_x, path.after_x])
    y = np.concatenate([path.before_y, path.after_y])
    west, east, south, north = x.min(), x.max(), y.min(), y.max()
    inner = [*np.percentile(x, [2, 98]), *np.percentile(y, [2, 98])]
    if max(east - west, north - south) > 2 * max(inner[1] - inner[0], inner[3] - inner[2], 300.0):
        # one far sample must not make a dot of all others
        west, east, south, north = inner
    side = max(east - west, north - south, 300.0) * 1.12
    left, top = (west + east) / 2 - side / 2, (south + north) / 2 + side / 2
    scale = size / side

    def points(px: Metres, py: Metres) -> str:
        return " ".join(
            f"{(a - left) * scale:.1f},{(top - b) * scale:.1f}" for a, b in zip(px, py, strict=True)
        )

    parts = [f'<rect width="{size}" height="{size}" fill="#fbfcfd" stroke="#d5dce1"/>']
    seen = [
        r
        for r in roads
        if r[:, 0].max() > left
        and r[:, 0].min() < left + side
        and r[:, 1].max() > top - side
        and r[:, 1].min() < top
    ]
    if seen:
        ways = " ".join("M" + points(r[:, 0], r[:, 1]).replace(" ", "L") for r in seen)
        parts.append(f'<path d="{ways}" fill="none" stroke="#dde4e9" stroke-width="1.1"/>')
    parts.append(
        f'<polyline points="{points(path.before_x, path.before_y)}" fill="none" stroke="{QUIET}" '
        'stroke-width="3" stroke-opacity="0.6"/>'
        f'<polyline points="{points(path.after_x, path.after_y)}" fill="none" stroke="{INK}" '
        'stroke-width="1.2"/>'
    )
    for px, py in _distinct(path.before_x, path.before_y, path.deleted):
        u, v = (px - left) * scale, (top - py) * scale
        parts.append(
            f'<path d="M{u - 4:.1f},{v - 4:.1f}l8,8m0,-8l-8,8" stroke="{ACCENT}" stroke-width="1.8"/>'
        )
    for px, py in _distinct(path.after_x, path.after_y, path.inserted):
        u, v = (px - left) * scale, (top - py) * scale
        parts.append(
            f'<circle cx="{u:.1f}" cy="{v:.1f}" r="3.6" fill="#fff" stroke="{INK}" stroke-width="1.6"/>'
        )
    metres = 10.0 ** math.floor(math.log10(side / 3))
    metres *= 5 if metres * 5 < side / 3 else 2 if metres * 2 < side / 3 else 1
    end = 12 + metres * scale
    label = f"{metres / 1000:g} km" if metres >= 1000 else f"{metres:g} m"
    parts.append(
        f'<path d="M12,{size - 18}v6h{metres * scale:.1f}v-6" fill="none" stroke="{INK}"/>'
        f'<text x="{end + 6:.1f}" y="{size - 10}">{label}</text>'
    )
    return _svg(title, size, size, "".join(parts))


def _distinct(x: Metres, y: Metres, which: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.unique(np.column_stack([x[which], y[which]]), axis=0)


def _labels(x_label: str, y_label: str) -> str:
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    return (
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">'
        f"{escape(x_label)}</text>"
        f'<text transform="translate(12,{middle}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )


def _svg(title: str, width: int, height: int, body: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>{body}</svg>'
    )
