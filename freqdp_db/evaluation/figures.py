"""Pages that evaluation writes, and their figures: drawn by matplotlib, put into the page as SVG.

Text stays text, and colours are the page's own (CSS variables), so that a dark page has light lines.
Shapes and dashes tell things apart, so that figures survive black and white. The same numbers give
the same bytes: no date, and ids that depend on title and width alone. Widths and heights are in pixels.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias

from markupsafe import Markup, escape

from freqdp_db.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


INK, QUIET, LINE, PAPER, WASH = "#1b2733", "#56646f", "#d5dce1", "#fefefe", "#f5f7f9"
ACCENT, GOOD, ZONE, TRUTH, ROAD = "#b3261e", "#0b5d3b", "#e4f2ea", "#b4bfc8", "#dde4e9"
_VARIABLES = {
    INK: "ink", QUIET: "quiet", LINE: "line", PAPER: "paper", WASH: "wash", ACCENT: "accent",
    GOOD: "good", ZONE: "zone", TRUTH: "truth", ROAD: "road",
}  # fmt: skip
"""Colours, and the variables of the page that take their places."""
FONT = 12
PIXELS_PER_INCH = 72
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": FONT,
    "text.color": INK,
    "axes.facecolor": "none",
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": LINE,
    "legend.frameon": False,
}
_UNWANTED = {
    r' id="[\w.]+_\d+"': "",  # nothing refers to these, and they are the same in every figure
    r"<style.*?</style>": "",  # it would hold for the whole page
    r"font-family: [^;]*; ": "",  # the page's
    r"(\.\d\d)\d+(?=[\s\"])": r"\1",  # hundredths of a pixel are enough
    r"\s*\n\s*": "\n",
    r"xlink:href": "href",
}
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
P = ParamSpec("P")
Picture: TypeAlias = tuple[str, Markup]
"""Caption and SVG."""


def new_figure(width: float, height: float, **options: Any) -> Figure:
    from matplotlib.figure import Figure

    size = (width / PIXELS_PER_INCH, height / PIXELS_PER_INCH)
    return Figure(figsize=size, dpi=PIXELS_PER_INCH, facecolor="none", **options)


def save_svg(figure: Figure, path: Path) -> None:
    """A file of its own, as the figure is; the same figure gives the same bytes."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": path.name}):
        figure.savefig(path, format="svg", metadata={"Date": None})


def as_svg(figure: Figure, title: str) -> Markup:
    """SVG for a page, with a title for screen readers."""
    import matplotlib

    text = io.StringIO()
    salt = f"{title} {figure.get_figwidth()}"
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": salt}):
        figure.savefig(text, format="svg", metadata=_NO_METADATA)
    drawn = text.getvalue()
    begin = re.search(r'<svg[^>]*viewBox="([^"]*)"[^>]*>', drawn)
    assert begin is not None
    body = drawn[begin.end() :]
    for pattern, instead in _UNWANTED.items():
        body = re.sub(pattern, instead, body)
    for colour, name in _VARIABLES.items():
        body = body.replace(colour, f"var(--{name})")
    named = escape(title)
    return Markup(
        f'<svg viewBox="{begin[1]}" role="img" aria-label="{named}" '
        f'xmlns="http://www.w3.org/2000/svg" '
        'stroke-linejoin="round">'
        f"<title>{named}</title>{body}"
    )


def in_page_style(draw: Callable[P, Figure | None]) -> Callable[Concatenate[str, P], Markup]:
    """A function that draws a figure, as one of its title that gives SVG; empty if it drew none."""

    def drawn(title: str, /, *args: P.args, **kwargs: P.kwargs) -> Markup:
        import matplotlib

        with matplotlib.rc_context(_STYLE):
            figure = draw(*args, **kwargs)
            return Markup() if figure is None else as_svg(figure, title)

    drawn.__doc__ = draw.__doc__
    return drawn


def number(value: float) -> str:
    """As short as it can be read: 0.25, 40, 2,500, 12 k, 32 M."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:,.3g} M" if abs(value) < 1e9 else f"{value / 1e6:,.0f} M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.3g} k"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


@dataclass(frozen=True)
class Curve:
    name: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False


@in_page_style
def line_chart(
    lines: Sequence[Curve], x_label: str, y_label: str, *, log: bool = False
) -> Figure | None:
    """Curves over common axes; `log` makes both logarithmic."""
    if not any(v > 0 or not log for line in lines for v in line.y):
        return None
    figure = new_figure(420, 240, layout="constrained")
    axes = figure.add_subplot(xlabel=x_label, ylabel=y_label)
    for line in lines:
        # what is 0 has no place on a logarithmic axis
        points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y > 0 or not log]
        style = {"color": ACCENT, "linestyle": (0, (4, 2))} if line.dashed else {"color": INK}
        axes.plot(*zip(*points, strict=True), lw=2, label=line.name, **style)
    if log:
        axes.set(xscale="log", yscale="log")
    else:
        axes.set_ylim(bottom=0)
    for axis in (axes.xaxis, axes.yaxis):
        _few_ticks(axis, log=log)
    axes.grid(axis="y")
    figure.legend(loc="outside upper left", ncols=len(lines))
    return figure


def _few_ticks(axis: Axis, *, log: bool) -> None:
    """Round values, few enough to be read; on a logarithmic axis of less than a decade, too."""
    from matplotlib import ticker

    low, high = sorted(axis.get_view_interval())
    locator: ticker.Locator = ticker.MaxNLocator(5)
    if log and high > 10 * low:
        locator = ticker.LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,), numticks=6)
    axis.set_major_locator(locator)
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: number(value)))


def scale_bar(metres_across: float) -> tuple[float, str]:
    """A round length of less than a third of a map, and what it is called."""
    metres = 10.0 ** math.floor(math.log10(metres_across / 3))
    metres *= next(part for part in (5, 2, 1) if part == 1 or part * metres < metres_across / 3)
    return metres, f"{metres / 1000:g} km" if metres >= 1000 else f"{metres:g} m"


# Pages and files that evaluation writes: HTML that asks nobody for anything, and nothing in the way.


def render(template: str, context: dict[str, Any]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("freqdp_db.evaluation", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["whole_options"] = _whole_options
    return environment.get_template(template).render(**context)


def _whole_options(words: str) -> Markup:
    """Options are not broken at their hyphens."""
    return Markup(re.sub(r"--[\w-]+", r'<span class="option">\g<0></span>', str(escape(words))))


def files_in(
    folder: Path, names: Iterable[str], *, overwrite: bool, option: str = "[[out]]"
) -> list[Path]:
    """What will be written into the folder that `option` names; refused if something is in the way."""
    files = [folder / name for name in names]
    there = [file for file in files if file.exists()]
    if there and not overwrite:
        raise BadInput(
            f"{there[0]} is there already",
            remedy=f"name another folder with {option}, or say [[force]]",
        )
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{option} {folder} is not a folder", remedy="name a folder")
    return files
