"""The report of a release of counts: a map for each time bin, the largest flows, and how sure they are.

All pictures are drawn from the released tables, so that the report for curators and the one for the public
show the same; the first has what was measured besides.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.db.connection import Database
from freqdp_db.db.published_counts import Columns, PublishedCounts, ZoneRows, read_counts
from freqdp_db.evaluation.figures import (
    ACCENT,
    INK,
    LINE,
    QUIET,
    Picture,
    in_page_style,
    new_figure,
    number,
)
from freqdp_db.progress import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_MAPS = 24
_ACROSS = 6
_MAP = 190
"""Pixels of one small map."""
_FLOWS = 60
_ASIDE = 0.008
"""How far to its right a flow is drawn, as a share of the width of the map."""
_LARGEST = 15
_ROADS = 10_000
"""So many roads are drawn, the busiest."""
_ENOUGH = 20
"""So many flows between zones stand out of the noise, or those between districts are shown."""
_OF_ROADS = (
    ("The busiest roads", ": passages in all bins together", "value", "margin"),
    ("Mean speed on these roads", " in km/h", "mean_kmh", "mean_margin"),
)
_TOP_SHARE = 99.0
"""Percentile of the values that has the darkest colour."""


def count_pictures(database: Database, name: str, progress: Progress) -> dict[str, Any]:
    """What the page shows besides words."""
    with database.begin(snapshot=True) as connection, progress.stage("read release"):
        found = read_counts(connection, name)
    with progress.stage("draw maps"):
        charts: list[Picture] = []
        shown: dict[str, Any] = {"hours": None, "flows": None, "roads": None, "most_flows": _FLOWS}
        if found.visits is not None:
            shown["hours"] = _maps_by_bin(found)
            charts += [_city_by_bin(found), _busiest(found, found.visits)]
        if found.flows is not None:
            largest = _largest_flows(found.zones, found.flows)
            flows = _taken(found.flows, largest[:_FLOWS])
            shown["flows"] = _flow_map("The largest flows as lines", found.zones, flows)
            charts.append(_largest(found, _taken(found.flows, largest[:_LARGEST])))
        if found.roads is not None:
            all_bins = (found.roads["road"] <= len(found.road_names)) & (found.roads["bin"] == 0)
            roads = _taken(found.roads, np.flatnonzero(all_bins))
            busiest = np.argsort(-roads["value"], kind="stable")
            drawn_roads = _taken(roads, busiest[:_ROADS])
            shown["roads"] = _road_map("Passages of roads", found, drawn_roads)
            top = _taken(roads, busiest[:_LARGEST])
            names = [found.road_names[road - 1] for road in top["road"]]
            for title, words, value, margin in _OF_ROADS:
                drawn = _rows(title, names, top[value], top[margin])
                charts.append((f"{title}{words}, with 95 % intervals.", drawn))
        return shown | {"charts": [chart for chart in charts if chart[1]]}


def _taken(table: Columns, rows: NDArray[Any]) -> Columns:
    return {name: column[rows] for name, column in table.items()}


def _polygons(zones: ZoneRows, wanted: NDArray[Any]) -> list[Any]:
    from matplotlib.path import Path

    corners = zones.corners
    begin, end = (np.searchsorted(corners["zone"], wanted + 1, side) for side in ("left", "right"))
    paths = []
    for a, b in zip(begin, end, strict=True):
        ring = corners["ring"][a:b]
        codes = np.full(b - a, Path.LINETO, np.uint8)
        codes[np.r_[True, ring[1:] != ring[:-1]]] = Path.MOVETO
        paths.append(Path(np.stack([corners["x"][a:b], corners["y"][a:b]], axis=1), codes))
    return paths


def _maps_by_bin(found: PublishedCounts) -> dict[str, Any]:
    """A small map for each bin; of many bins, those with most visits."""
    import matplotlib
    from matplotlib.collections import PathCollection

    level = found.finest_level
    estimate = found.visits_of(level, "estimate")[:, 1:]
    bins = np.arange(estimate.shape[1])
    if len(bins) > _MOST_MAPS:
        bins = np.sort(np.argsort(estimate.sum(axis=0))[-_MOST_MAPS:])
    most = max(float(np.percentile(estimate, _TOP_SHARE)), 1.0)
    paths = _polygons(found.zones, found.zones.numbers(level))
    corners = found.zones.corners
    width, height = np.ptp(corners["x"]), np.ptp(corners["y"])
    across = min(_ACROSS, len(bins))
    down = -(-len(bins) // across)
    with matplotlib.rc_context({"font.size": 10}):
        figure = new_figure(across * _MAP, down * (_MAP * height / width + 22))
        figure.set_facecolor("white")
        axes = figure.subplots(down, across, squeeze=False, gridspec_kw={"wspace": 0.04})
        figure.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.96)
        for place in axes.flat:
            place.set_axis_off()
        for place, bin in zip(axes.flat, bins, strict=False):
            drawn = PathCollection(paths, array=estimate[:, bin] ** 0.5, cmap="Blues", lw=0)
            drawn.set_clim(0, most**0.5)
            place.add_collection(drawn)
            place.set(
                xlim=(corners["x"].min(), corners["x"].max()),
                ylim=(corners["y"].min(), corners["y"].max()),
                aspect="equal",
            )
            place.set_title(found.bins[bin + 1], fontsize=10, pad=2)
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=110)
    source = "data:image/png;base64," + base64.b64encode(image.getvalue()).decode()
    some = f" The busiest {len(bins)} of {estimate.shape[1]} bins."
    of = "" if len(bins) == estimate.shape[1] else some
    return {
        "source": source,
        "alt": f"{len(bins)} maps of the {level}s, one for each time bin, darker where there are more",
        "most": number(most),
        "caption": f"Visits by {level} in each time bin (column estimate).{of}",
    }


def _city_by_bin(found: PublishedCounts) -> Picture:
    value, margin = (found.visits_of("city", column)[0, 1:] for column in ("value", "margin"))
    drawn = _with_bars("Visits of all zones by time bin", value, margin, "time bin", "visits")
    return "Visits of all zones, by time bin, with 95 % intervals.", drawn


def _busiest(found: PublishedCounts, visits: Columns) -> Picture:
    zones = found.zones.numbers("zone") + 1
    cells = np.flatnonzero(np.isin(visits["zone"], zones) & (visits["bin"] > 0))
    top = _taken(visits, cells[np.argsort(visits["value"][cells])[::-1][:_LARGEST]])
    names = [
        f"{found.zones.name[zone - 1]}, {found.bins[bin]}"
        for zone, bin in zip(top["zone"], top["bin"], strict=True)
    ]
    drawn = _rows("The busiest zones and bins", names, top["value"], top["margin"])
    return f"The {len(names)} busiest zones and bins, with 95 % intervals.", drawn


def _largest_flows(zones: ZoneRows, flows: Columns) -> NDArray[Any]:
    """Rows of flows between two areas that stand out of the noise, the largest first.

    Between zones, or, where few of those stand out, between districts in all bins together.
    """
    chosen = np.zeros(0, np.int64)
    apart = flows["origin"] != flows["destination"]
    for level, in_bin in (("zone", flows["bin"] > 0), ("district", flows["bin"] == 0)):
        areas = zones.numbers(level) + 1
        between = np.isin(flows["origin"], areas) & np.isin(flows["destination"], areas)
        sure = flows["estimate"] > flows["margin"]
        chosen = np.flatnonzero(between & apart & in_bin & sure)
        if len(chosen) >= _ENOUGH:
            break
    return chosen[np.argsort(flows["estimate"][chosen])[::-1]]


def _largest(found: PublishedCounts, flows: Columns) -> Picture:
    name = found.zones.name
    names = [
        f"{name[origin - 1]} → {name[destination - 1]}, {found.bins[bin]}"
        for origin, destination, bin in zip(
            flows["origin"], flows["destination"], flows["bin"], strict=True
        )
    ]
    drawn = _rows("The largest flows", names, flows["value"], flows["margin"])
    return f"The {len(names)} largest of these flows, with 95 % intervals.", drawn


def _over_districts(zones: ZoneRows) -> tuple[Figure, Axes]:
    """An empty map with the borders of the districts."""
    from matplotlib.collections import PathCollection

    x, y = zones.corners["x"], zones.corners["y"]
    figure = new_figure(560, 560 * np.ptp(y) / np.ptp(x))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(x.min(), x.max()), ylim=(y.min(), y.max()))
    axes.set_axis_off()
    axes.set_aspect("equal")
    districts = _polygons(zones, zones.numbers("district"))
    axes.add_collection(PathCollection(districts, fc="none", ec=LINE, lw=1))
    return figure, axes


@in_page_style
def _road_map(found: PublishedCounts, roads: Columns) -> Any:
    """Roads, the busiest first: thicker and darker where there are more passages, over the districts."""
    from matplotlib.collections import LineCollection

    lines = found.road_corners
    figure, axes = _over_districts(found.zones)
    corners = np.stack([lines["x"], lines["y"]], axis=1)
    # the busiest last, on top
    rows = roads["road"][::-1]
    begin, end = (np.searchsorted(lines["zone"], rows, side) for side in ("left", "right"))
    estimate = roads["estimate"][::-1]
    share = np.clip(estimate / max(estimate.max(), 1.0), 0, 1)
    axes.add_collection(
        LineCollection(
            [corners[a:b] for a, b in zip(begin, end, strict=True)],
            array=share**0.5, cmap="Blues", lw=0.3 + 3 * share, clim=(-0.2, 1),
        )
    )  # fmt: skip
    return figure


@in_page_style
def _with_bars(value: NDArray[Any], margin: NDArray[Any], x_label: str, y_label: str) -> Any:
    figure = new_figure(420, 240, layout="constrained")
    axes = figure.add_subplot(xlabel=x_label, ylabel=y_label)
    bins = np.arange(1, len(value) + 1)
    axes.errorbar(bins, value, yerr=margin, color=INK, ecolor=ACCENT, capsize=2, lw=1.6)
    axes.set_ylim(bottom=min(0.0, float((value - margin).min())))
    axes.grid(axis="y")
    return figure


@in_page_style
def _rows(names: list[str], value: NDArray[Any], margin: NDArray[Any]) -> Any:
    """Values below each other, each with its interval."""
    if not names:
        return None
    figure = new_figure(520, 44 + 22 * len(names), layout="constrained")
    axes = figure.add_subplot(ylim=(len(names) - 0.5, -0.5))
    rows = np.arange(len(names))
    axes.errorbar(value, rows, xerr=margin, fmt="o", color=INK, ecolor=ACCENT, capsize=3, lw=1.6)
    axes.set_yticks(rows, names, fontsize=9)
    axes.axvline(0, color=QUIET, lw=1)
    axes.set_xlim(left=min(0.0, float((value - margin).min())))
    axes.grid(axis="x")
    return figure


@in_page_style
def _flow_map(zones: ZoneRows, flows: Columns) -> Any:
    """Lines between the middles of zones, thicker where there are more trips, over the districts."""
    from matplotlib.collections import LineCollection

    figure, axes = _over_districts(zones)
    if not len(flows["bin"]):
        return figure
    middles = np.stack([zones.x, zones.y], axis=1)
    begin, end = (middles[flows[column] - 1] for column in ("origin", "destination"))
    # a little to the right, so that those back do not cover those there
    away = end - begin
    aside = np.stack([away[:, 1], -away[:, 0]], axis=1) / np.hypot(*away.T)[:, None]
    aside *= _ASIDE * np.ptp(zones.corners["x"])
    begin, end = begin + aside, end + aside
    thick = 1 + 5 * np.sqrt(flows["estimate"] / flows["estimate"].max())
    # half a line each way: the dark half leads to the destination
    middle = (begin + end) / 2
    for a, b, colour in ((begin, middle, QUIET), (middle, end, ACCENT)):
        lines = list(np.stack([a, b], axis=1))
        axes.add_collection(LineCollection(lines, colors=colour, lw=thick, alpha=0.8))
    return figure
