"""Zones and time bins: every place in at most one zone, every time in one bin, also when clocks change."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest
import shapely
from numpy.typing import NDArray

from freqdp_db.dataset.facts import facts_in
from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import options_of
from freqdp_db.methods.counts.family import COUNTS, CountsStep
from freqdp_db.methods.counts.polygons import Polygons, index_polygons
from freqdp_db.methods.counts.zones import (
    OUTSIDE,
    BinKind,
    Bins,
    Squares,
    Zones,
    block_width,
    blocks_of,
)
from freqdp_db.methods.kinds import LonLatArea, TimeStretch
from freqdp_db.methods.synthesis.public import Period

_EPOCH = datetime.fromisoformat("2000-01-01T00:00:00+00:00")


def _us(text: str) -> int:
    return int((datetime.fromisoformat(text) - _EPOCH).total_seconds()) * 1_000_000


def _index(shapes: list[shapely.Geometry]) -> Polygons:
    zone, ring, x, y, rings = [], [], [], [], 0
    for number, shape in enumerate(shapes):
        for part in getattr(shape, "geoms", [shape]):
            for line in (part.exterior, *part.interiors):
                corners = np.array(line.coords)
                zone += [number] * len(corners)
                ring += [rings] * len(corners)
                x += corners[:, 0].tolist()
                y += corners[:, 1].tolist()
                rings += 1
    return index_polygons(
        np.array(zone), np.array(ring), np.array(x), np.array(y), zones=len(shapes)
    )


def _brute(shapes: list[shapely.Geometry], x: NDArray[np.float64], y: NDArray[np.float64]):  # type: ignore[no-untyped-def]
    found = np.full(len(x), OUTSIDE)
    for number, shape in reversed(list(enumerate(shapes))):
        found[shapely.contains_xy(shape, x, y)] = number
    return found


def _cover(seed: int, zones: int) -> list[shapely.Geometry]:
    """Polygons that touch each other and leave no gap, some with a hole or two parts."""
    rng = np.random.default_rng(seed)
    points = shapely.MultiPoint(rng.uniform(0, 30_000, (zones, 2)))
    cells = shapely.voronoi_polygons(points, extend_to=shapely.box(0, 0, 30_000, 30_000)).geoms
    shapes = [shapely.intersection(c, shapely.box(0, 0, 30_000, 30_000)) for c in cells]
    hole = shapes[0].centroid.buffer(np.sqrt(shapes[0].area) / 8)
    return [shapes[0].difference(hole), shapely.union(shapes[1], hole), *shapes[2:]]


@pytest.mark.parametrize(("seed", "zones"), [(1, 3), (2, 40), (3, 900)])
def test_places_are_in_the_polygon_that_holds_them(seed: int, zones: int) -> None:
    shapes = _cover(seed, zones)
    polygons = _index(shapes)
    x, y = np.random.default_rng(seed).uniform(-500, 30_500, (2, 60_000))
    assert (polygons.locate(x, y) == _brute(shapes, x, y)).all()


def test_corners_and_edges_belong_to_one_zone() -> None:
    shapes = [
        shapely.box(i * 10, j * 10, i * 10 + 10, j * 10 + 10) for i in range(9) for j in range(9)
    ]
    polygons = _index(shapes)
    x, y = (a.ravel() for a in np.meshgrid(np.arange(0, 90, 2.5), np.arange(0, 90, 2.5)))
    expected = (x // 10 * 9 + y // 10).astype(int)
    assert (polygons.locate(x, y) == expected).all()


def test_slanted_borders_leave_nobody_out() -> None:
    """Places on the very line between two zones: in one of them, always."""
    a, b = shapely.Polygon([(0, 0), (7, 0), (3, 9)]), shapely.Polygon([(7, 0), (9, 9), (3, 9)])
    t = np.random.default_rng(1).uniform(0.001, 0.999, 10_000)
    found = _index([a, b]).locate(7 + t * (3 - 7), t * 9)
    assert set(found.tolist()) <= {0, 1}


def test_overlaps_go_to_the_first() -> None:
    polygons = _index([shapely.box(0, 0, 10, 10), shapely.box(9.9, 0, 20, 10)])
    assert polygons.locate(np.array([9.95, 10.5, 5.0]), np.array([5.0] * 3)).tolist() == [0, 1, 0]


def test_what_is_no_place_is_outside() -> None:
    polygons = _index([shapely.box(0, 0, 10, 10)])
    x = np.array([np.nan, np.inf, -np.inf, 1e300, 5.0])
    assert polygons.locate(x, np.full(5, 5.0)).tolist() == [OUTSIDE] * 4 + [0]


def test_squares() -> None:
    zone = np.array([[0, 1], [OUTSIDE, 2]], np.int32)
    squares = Squares(500.0, 4, -1, zone)
    x = np.array([2000.0, 2499.9, 2500.0, 2000.0, 1999.0, 2500.0, np.nan])
    y = np.array([-500.0, -0.1, -1.0, 0.0, -1.0, 499.0, 0.0])
    assert squares.locate(x, y).tolist() == [0, 0, 1, OUTSIDE, OUTSIDE, 2, OUTSIDE]


def _zones() -> Zones:
    x, y = (a.ravel() for a in np.meshgrid(np.arange(4) * 1000.0, np.arange(3) * 1000.0))
    district, names = blocks_of(x, y, 2000.0)
    shapes = tuple(bytes([i]) for i in range(len(x) + len(names) + 1))
    squares = Squares(1000.0, 0, 0, np.arange(12, dtype=np.int32).reshape(3, 4))
    blocks = [shapes[:12], shapes[12:]]
    return Zones(tuple(f"z{i}" for i in range(12)), district, names, x, y, lambda: blocks, squares)


def test_rows_of_zones() -> None:
    zones = _zones()
    blocks = list(zones.rows())
    assert [len(block["zone"]) for block in blocks] == [12, 5], "as many as their shapes"
    rows = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    assert zones.districts == 4 and zones.city_id == 17
    assert rows["zone"].tolist() == list(range(1, 18))
    assert list(rows["level"]) == ["zone"] * 12 + ["district"] * 4 + ["city"]
    parent = rows["parent"]
    assert set(parent[:12].tolist()) == set(range(13, 17))
    assert (parent[12:16] == 17).all() and parent[16] == 0
    assert parent[0] == parent[1] != parent[2], "blocks of 2 km"
    assert len(rows["geom"]) == len(rows["name"]) == 17


def test_blocks_are_about_the_square_root() -> None:
    x, y = np.random.default_rng(4).uniform(0, 50_000, (2, 900))
    assert 20 <= len(blocks_of(x, y, block_width(x, y))[1]) <= 60
    assert len(blocks_of(x[:1], y[:1], block_width(x[:1], y[:1]))[1]) == 1


# --- Bins ---


def _bins(kind: BinKind, begin: str, end: str, zone: str = "Europe/Brussels") -> Bins:
    return Bins(kind, Period(_us(begin), _us(end)), zone)


_WEEK = ("2024-05-06T00:00+02:00", "2024-05-13T00:00+02:00")


def test_bins_of_the_clock() -> None:
    at = np.array([_us("2024-05-06T08:15+02:00"), _us("2024-05-12T23:59:59+02:00")])
    assert _bins("hour-of-day", *_WEEK).of(at).tolist() == [8, 23]
    assert _bins("hour-of-week", *_WEEK).of(at).tolist() == [8, 167]
    assert _bins("hour-of-week", *_WEEK).names[8] == "Monday 08:00-09:00"
    parts = _bins("parts-of-day", *_WEEK)
    assert [parts.names[i] for i in parts.of(at)] == ["morning 06:00-10:00", "evening 19:00-24:00"]


def test_bins_of_the_calendar() -> None:
    at = np.array([_us("2024-05-06T08:15+02:00"), _us("2024-05-12T23:59:59+02:00")])
    hours = _bins("hour", *_WEEK)
    assert len(hours) == 168 and hours.of(at).tolist() == [8, 167]
    assert hours.names[8] == "2024-05-06 08:00+02:00"
    assert len(_bins("15min", *_WEEK)) == 672 and _bins("15min", *_WEEK).of(at).tolist() == [
        33,
        671,
    ]
    assert len(_bins("day", *_WEEK)) == 7 and _bins("day", *_WEEK).names[6] == "2024-05-12"


def test_outside_the_period() -> None:
    begin, end = map(_us, _WEEK)
    for kind in ("hour", "day", "hour-of-day", "hour-of-week", "parts-of-day", "15min"):
        found = _bins(kind, *_WEEK).of(np.array([begin - 1, begin, end - 1, end]))  # type: ignore[arg-type]
        assert (found[[0, 3]] == OUTSIDE).all() and (found[[1, 2]] >= 0).all()


def test_the_hour_that_comes_twice() -> None:
    """2024-10-27, 03:00 becomes 02:00: the day has 25 hours and is one day."""
    day = ("2024-10-27T00:00+02:00", "2024-10-28T00:00+01:00")
    hours = _bins("hour", *day)
    assert len(hours) == 25 and len(_bins("day", *day)) == 1 and len(_bins("15min", *day)) == 100
    assert hours.names[2:4] == ["2024-10-27 02:00+02:00", "2024-10-27 02:00+01:00"]
    twice = np.array([_us("2024-10-27T02:30+02:00"), _us("2024-10-27T02:30+01:00")])
    assert hours.of(twice).tolist() == [2, 3]
    assert _bins("hour-of-day", *day).of(twice).tolist() == [2, 2]


def test_the_hour_that_is_left_out() -> None:
    day = ("2024-03-31T00:00+01:00", "2024-04-01T00:00+02:00")
    assert len(_bins("hour", *day)) == 23
    with pytest.raises(BadInput, match=r"into 1 of 24 bins \(02:00-03:00\)"):
        _bins("hour-of-day", *day).require_filled()


def test_no_night_is_refused_because_the_clock_is_changed() -> None:
    """A window of a day has all hours by the clock, if not all of them are seen; half a day has not."""
    facts = facts_in(32631, "EPSG:32631", "Europe/Brussels")
    region = LonLatArea().from_text("4.2,50.7,4.5,51.0")
    one, nought = Squares(1e6, 0, 0, np.zeros((1, 1), np.int32)), np.zeros(1)
    zones = Zones(("a",), np.zeros(1, np.int32), ("all",), nought, nought, list, one)

    def ask(period: str, bins: str = "hour-of-day") -> None:
        stretch = TimeStretch().from_text(period)
        values = {"zones": "grid:5km", "bins": bins, "region": region, "period": stretch}
        options = options_of(
            CountsStep(), {p.name: p.default for p in COUNTS[0].parameters} | values
        )
        CountsStep().require_inputs(options, {"zones": zones}, facts)

    for begin, end in (
        ("2024-03-31T00:00+01:00", "2024-04-01T00:00+02:00"),
        ("2024-10-27T00:00+02:00", "2024-10-28T00:00+01:00"),
        ("2024-05-06T00:00+02:00", "2024-05-07T00:00+02:00"),
    ):
        ask(f"{begin}/{end}")
        with pytest.raises(BadInput, match="of 168 bins"):
            ask(f"{begin}/{end}", "hour-of-week")
    ask("2024-03-25T00:00+01:00/2024-04-01T00:00+02:00", "hour-of-week")
    with pytest.raises(BadInput, match="into 1 of 24 bins"):
        ask("2024-05-06T00:00+02:00/2024-05-06T23:00+02:00")


def test_odd_zones_and_periods() -> None:
    """Half-hour changes (Lord Howe), and a period that begins within an hour."""
    bins = _bins("hour", "2024-04-06T13:20+00:00", "2024-04-06T16:10+00:00", "Australia/Lord_Howe")
    names = bins.names
    assert len(bins) == len(set(names)) and names[0] == "2024-04-07 00:20+11:00"
    edges = np.array([_us("2024-04-06T13:20+00:00"), _us("2024-04-06T16:09+00:00")])
    assert bins.of(edges).tolist() == [0, len(bins) - 1]


def test_empty_bins_and_too_many() -> None:
    short = ("2024-05-06T06:00+02:00", "2024-05-06T12:00+02:00")
    with pytest.raises(BadInput, match=r"18 of 24 bins \(00:00-01:00, \.\.\.\)"):
        _bins("hour-of-day", *short).require_filled()
    _bins("hour", *short).require_filled()
    _bins("hour-of-week", *_WEEK).require_filled()
    with pytest.raises(BadInput, match="more than 40,000"):
        _bins("15min", "2020-01-01T00:00+00:00", "2024-01-01T00:00+00:00").require_filled()


def test_rows_of_bins() -> None:
    (rows,) = _bins("hour", *_WEEK).rows()
    assert rows["bin"].tolist() == list(range(169))
    assert rows["name"][0] == "all" and rows["begins"][1] == "2024-05-06T00:00:00+02:00"
    assert rows["ends"][0] == "2024-05-13T00:00:00+02:00" == rows["ends"][168]
