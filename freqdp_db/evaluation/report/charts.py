"""Charts of a report. Legends stand above the curves, margins are as wide as what stands in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from freqdp_db.evaluation.report.drawing import LETTER, svg, text

_WIDTH, _HEIGHT = 420.0, 240.0
_RIGHT, _TOP, _BOTTOM = 14.0, 34.0, 42.0
_LEGEND_Y = 16.0
_AXIS_WORDS = 20.0


@dataclass(frozen=True)
class Curve:
    """One curve of a chart."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False


def number(value: float) -> str:
    """As short as it can be read: 0.25, 40, 12,500, 32 M."""
    if abs(value) >= 1e7:
        return f"{value / 1e6:,.10g} M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ticks(low: float, high: float, log: bool) -> list[float]:
    """Round values from low to high, two at least where there is room for two."""
    if not log:
        step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)))
        step *= next(part for part in (0.2, 0.5, 1, 2) if (high - low) / (step * part) <= 6)
        return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for parts in ((1,), (1, 2, 5), range(1, 10)):
        # every decade, every third, ...: never more than fit
        every = max(1, (last - first) // 6)
        found = [p * 10.0**e for e in range(first, last + 1, every) for p in parts]
        found = [v for v in found if low * 0.999 <= v <= high * 1.001]
        if len(found) >= 3:
            break
    return found


@dataclass(frozen=True)
class _Plot:
    """Where values lie on the paper."""

    left: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float
    log: bool

    def _share(self, value: float, low: float, high: float) -> float:
        if self.log:
            value, low, high = math.log10(max(value, low)), math.log10(low), math.log10(high)
        return (value - low) / max(high - low, 1e-12)

    def x(self, value: float) -> float:
        return self.left + self._share(value, self.x_low, self.x_high) * (
            _WIDTH - _RIGHT - self.left
        )

    def y(self, value: float) -> float:
        base = _HEIGHT - _BOTTOM
        return base - self._share(value, self.y_low, self.y_high) * (base - _TOP)


def _left_margin(labels: Sequence[str]) -> float:
    """Room for the words of the axis and the longest of these."""
    return _AXIS_WORDS + max((len(label) for label in labels), default=0) * LETTER + 8


def line_chart(
    title: str, lines: Sequence[Curve], x_label: str, y_label: str, *, log: bool = False
) -> str:
    """Curves over common axes; `log` makes both logarithmic."""
    xs = [v for line in lines for v in line.x]
    ys = [v for line in lines for v in line.y if v > 0 or not log]
    if not xs or not ys:
        return ""
    y_low = min(ys) if log else 0.0
    y_high = max(max(ys), y_low * 1.1, 1e-9)
    up = ticks(y_low, y_high, log)
    plot = _Plot(
        _left_margin([number(t) for t in up]),
        min(xs),
        max(max(xs), min(xs) + 1),
        y_low,
        y_high,
        log,
    )
    parts = [_rule(plot.left, plot.y(tick), number(tick)) for tick in up]
    parts += _along([(plot.x(t), number(t)) for t in ticks(plot.x_low, plot.x_high, log)])
    for line in lines:
        points = " ".join(
            f"{plot.x(x):.1f},{plot.y(y):.1f}"
            for x, y in zip(line.x, line.y, strict=True)
            if y > 0 or not log
        )
        parts.append(f'<polyline points="{points}" class="{_line_class(line)}"/>')
    at = plot.left
    for line in lines:
        parts.append(
            f'<line x1="{at:.1f}" x2="{at + 26:.1f}" y1="{_LEGEND_Y}" y2="{_LEGEND_Y}" '
            f'class="{_line_class(line)}"/>' + text(at + 31, _LEGEND_Y + 4, line.name)
        )
        at += 31 + len(line.name) * LETTER + 22
    return svg(title, _WIDTH, _HEIGHT, "".join(parts) + _labels(plot.left, x_label, y_label))


def _line_class(line: Curve) -> str:
    return "curve accent dashed" if line.dashed else "curve ink"


def bar_chart(
    title: str, names: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], x_label: str,
    y_label: str,
) -> str:  # fmt: skip
    """Bars side by side; the first series is full, the second an outline."""
    most = max((v for _, values in series for v in values), default=0.0)
    if most <= 0:
        return ""
    up = ticks(0, most, log=False)
    left = _left_margin([number(t) for t in up])
    base, room = _HEIGHT - _BOTTOM, (_WIDTH - left - _RIGHT) / max(len(names), 1)
    parts = [_rule(left, base - tick / most * (base - _TOP), number(tick)) for tick in up]
    wide, at = room * 0.8 / max(len(series), 1), left
    for n, (label, values) in enumerate(series):
        kind = "bar" if n == 0 else "bar outline"
        for i, value in enumerate(values):
            high = value / most * (base - _TOP)
            x = left + i * room + room * 0.1 + n * wide
            parts.append(
                f'<rect x="{x:.1f}" y="{base - high:.1f}" width="{max(wide - 1, 1):.1f}" '
                f'height="{high:.1f}" class="{kind}"/>'
            )
        parts.append(
            f'<rect x="{at:.1f}" y="{_LEGEND_Y - 6}" width="14" height="10" class="{kind}"/>'
            + text(at + 19, _LEGEND_Y + 4, label)
        )
        at += 19 + len(label) * LETTER + 22
    parts += _along([(left + (i + 0.5) * room, name) for i, name in enumerate(names)])
    return svg(title, _WIDTH, _HEIGHT, "".join(parts) + _labels(left, x_label, y_label))


def _rule(left: float, y: float, label: str) -> str:
    """A line of the scale, and its value."""
    return (
        f'<line x1="{left:.1f}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        + text(left - 6, y + 4, label, "end")
    )


def _along(labels: Sequence[tuple[float, str]]) -> list[str]:
    """Values below the axis: none over the edge, none over its neighbour."""
    parts, free = [], 0.0
    for x, label in labels:
        half = len(label) * LETTER / 2
        middle = min(x, _WIDTH - 2 - half)
        if middle - half >= free:
            parts.append(text(middle, _HEIGHT - _BOTTOM + 16, label, "middle"))
            free = middle + half + 4
    return parts


def _labels(left: float, x_label: str, y_label: str) -> str:
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    return (
        text((left + _WIDTH - _RIGHT) / 2, _HEIGHT - 7, x_label, "middle")
        + f'<text transform="translate(13,{middle:.1f}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )


@dataclass(frozen=True)
class Share:
    """One bar of a panel: a share, and another one that is marked on it."""

    name: str
    value: float
    mark: float | None = None
    worst: bool = False


_PANEL, _ROW, _BAR, _FOOT = 300.0, 40.0, 12.0, 20.0


def share_panel(title: str, shares: Sequence[Share]) -> str:
    """Bars from 0 to 100 %, the same scale in every panel: a small multiple."""
    parts = []
    base = 4 + len(shares) * _ROW
    for share in (0.0, 0.5, 1.0):
        x = 2 + share * (_PANEL - 4)
        anchor = {0.0: "start", 0.5: "middle", 1.0: "end"}[share]
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="18" y2="{base:.1f}" class="grid"/>'
            + text(x, base + 14, f"{share:.0%}", anchor, "quiet")
        )
    for n, bar in enumerate(shares):
        y = 4 + n * _ROW
        kind = "bar worst" if bar.worst else "bar"
        weight = "strong" if bar.worst else ""
        parts.append(
            text(2, y + 12, bar.name, named=weight)
            + text(_PANEL - 2, y + 12, f"{bar.value:.1%}", "end", weight)
            + f'<rect x="2" y="{y + 18}" width="{_PANEL - 4}" height="{_BAR}" class="track"/>'
            f'<rect x="2" y="{y + 18}" width="{max(bar.value, 0) * (_PANEL - 4):.1f}" '
            f'height="{_BAR}" class="{kind}"/>'
        )
        if bar.mark is not None:
            x = 2 + bar.mark * (_PANEL - 4)
            parts.append(
                f'<path d="M{x:.1f},{y + 15}v{_BAR + 6}" class="tick-under"/>'
                f'<path d="M{x:.1f},{y + 15}v{_BAR + 6}" class="tick"/>'
            )
    return svg(title, _PANEL, base + _FOOT, "".join(parts))


@dataclass(frozen=True)
class Span:
    """One row of a chart of intervals."""

    name: str
    begin: float
    end: float
    note: str


def span_chart(title: str, spans: Sequence[Span], ends: tuple[str, str]) -> str:
    """Intervals below each other over one time axis; `ends`: what its ends are called."""
    low, high = min(s.begin for s in spans), max(s.end for s in spans)
    width, row = 380.0, 30.0
    left = 8 + max(len(s.name) for s in spans) * LETTER + 6
    note = max(len(s.note) for s in spans) * LETTER + 6
    room = width - left - note - 6
    base, parts = 10 + len(spans) * row, []
    for n, s in enumerate(spans):
        y = 10 + n * row
        x = left + (s.begin - low) / max(high - low, 1e-9) * room
        wide = max((s.end - s.begin) / max(high - low, 1e-9) * room, 2.0)
        parts.append(
            text(left - 6, y + 16, s.name, "end", "strong")
            + f'<line x1="{left:.1f}" x2="{left + room:.1f}" y1="{y + 12}" y2="{y + 12}" class="grid"/>'
            f'<rect x="{x:.1f}" y="{y + 4}" width="{wide:.1f}" height="16" class="bar outline"/>'
            + text(width - 6, y + 16, s.note, "end")
        )
    # below each other: both may be as wide as the axis
    end = max(left + room, 6 + len(ends[1]) * LETTER)
    parts.append(text(left, base + 16, ends[0]) + text(end, base + 32, ends[1], "end"))
    return svg(title, width, base + 42, "".join(parts))
