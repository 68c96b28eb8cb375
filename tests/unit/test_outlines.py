"""Regions with an outline: what is said of them, and that trips keep to them."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyproj
import pytest
import shapely

from freqdp_db.dataset.facts import facts_in
from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.methods.kinds import (
    Box,
    LonLatArea,
    NotAcceptable,
    Outline,
    TimeStretch,
    outline_in_geojson,
)
from freqdp_db.methods.synthesis import strict
from freqdp_db.methods.synthesis.options import Parameters, SyntheticOptions
from freqdp_db.methods.synthesis.public import Corners, Region
from freqdp_db.methods.synthesis.sampling import lattice
from freqdp_db.methods.synthesis.trips import cut_trips
from freqdp_db.methods.synthesis.vectors import draw
from freqdp_db.model.arrays import Metres
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.paper import adatrace, dpt
from freqdp_db.paper.synthesis import AdaTraceStep
from freqdp_db.privacy.noise import SeededSource
from tests.synthetic_world import PERIOD, REGION, small_city

TRIANGLE = "POLYGON((116.2 39.7, 116.6 39.7, 116.4 40.1, 116.2 39.7))"
# a horseshoe with a hole: straight ways between its parts leave it
_RINGS = [
    [(1, 1), (23, 1), (23, 17), (15, 17), (15, 6), (9, 6), (9, 17), (1, 17), (1, 1)],
    [(3, 2), (3, 4), (5, 4), (5, 2), (3, 2)],
]
HORSESHOE = Corners(
    np.array([1000.0 * x for ring in _RINGS for x, _ in ring]),
    np.array([1000.0 * y for ring in _RINGS for _, y in ring]),
    np.array([0, 9, 14]),
)
AREA = Region(1_000.0, 1_000.0, 23_000.0, 17_000.0, HORSESHOE)
SMALL = Parameters(epsilon=Fraction(4), size=300)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("4.2,50.7,4.5,51", "4.2,50.7,4.5,51"),
        (TRIANGLE, "MULTIPOLYGON(((116.2 39.7, 116.6 39.7, 116.4 40.1, 116.2 39.7)))"),
        ("polygon ((1 1,2 1,2 2))", "MULTIPOLYGON(((1 1, 2 1, 2 2, 1 1)))"),
        (
            "MULTIPOLYGON(((1 1,2 1,2 2,1 1),(1.5 1.2,1.6 1.2,1.6 1.3,1.5 1.2)),((5 5,6 5,6 6,5 5)))",
            "MULTIPOLYGON(((1 1, 2 1, 2 2, 1 1)), ((1.5 1.2, 1.6 1.2, 1.6 1.3, 1.5 1.2)), "
            "((5 5, 6 5, 6 6, 5 5)))",
        ),
    ],
)
def test_what_is_said_is_kept(text: str, kept: str) -> None:
    kind = LonLatArea()
    assert kind.show(kind.from_text(text)) == kept
    assert kind.show(kind.from_text(kept)) == kept


@pytest.mark.parametrize(
    "text",
    [
        "POLYGON((1 1, 2 2))", "POLYGON((1 1, 2 1, x 2, 1 1))", "POLYGON", "POLYGON((1 1, 1 2, 1 3, 1 1))",
        "POLYGON((1 1, 200 1, 200 2, 1 1))", "LINESTRING(1 1, 2 2)", "1,2,3",
    ],
)  # fmt: skip
def test_what_is_no_area_is_refused(text: str) -> None:
    with pytest.raises(NotAcceptable):
        LonLatArea().from_text(text)


def test_geojson() -> None:
    ring = [[116.2, 39.7], [116.6, 39.7], [116.4, 40.1], [116.2, 39.7]]
    polygon = {"type": "Polygon", "coordinates": [ring]}
    feature = {"type": "Feature", "properties": {}, "geometry": polygon}
    for document in (polygon, feature, {"type": "FeatureCollection", "features": [feature]}):
        assert outline_in_geojson(json.dumps(document)) == LonLatArea().from_text(TRIANGLE)
    for wrong in ("[]", "{}", "nothing", '{"type": "Polygon", "coordinates": [[1]]}'):
        with pytest.raises(NotAcceptable):
            outline_in_geojson(wrong)


def test_inside_and_outside() -> None:
    points = {
        (2, 15): True, (12, 15): False, (20, 15): True, (12, 3): True, (4, 3): False, (0, 0): False,
        (24, 3): False,
    }  # fmt: skip
    x, y = (np.array([1000.0 * p[i] + 7 for p in points]) for i in range(2))
    assert AREA.holds(x, y).tolist() == list(points.values())
    columns, rows = np.arange(0.5, 24_000, 97.0), np.arange(0.25, 18_000, 113.0)
    all_x, all_y = (side.ravel() for side in np.meshgrid(columns, rows))
    runs = HORSESHOE.runs((0.5, 97.0, len(columns)), (0.25, 113.0, len(rows)))
    found = np.zeros((len(rows), len(columns)), bool)
    for row, first, last in zip(runs.row, runs.first, runs.last, strict=True):
        found[row, first:last] = True
    assert (found.ravel() == HORSESHOE.holds(all_x, all_y)).all()
    outline = LonLatArea().from_text(TRIANGLE)
    assert isinstance(outline, Outline)
    assert outline.box == Box(*map(Fraction, ("116.2", "39.7", "116.6", "40.1")))


@pytest.mark.parametrize("every", [5_000_000, 60_000_000])
def test_trips_keep_to_the_area(every: int) -> None:
    parameters = replace(SMALL, every_us=every)
    trajectories, places = small_city(150, 3)
    trips = cut_trips(trajectories, places, AREA, PERIOD)
    assert AREA.holds(trips.x, trips.y).all()
    assert len(trips.x) < len(cut_trips(trajectories, places, REGION, PERIOD).x)
    drawn = draw(trajectories, places, AREA, PERIOD, parameters, SeededSource(1))
    log, released = strict.carry_out(drawn, AREA, PERIOD, parameters)
    strict.check(drawn, log, released, AREA, PERIOD, parameters)
    assert released.trajectories.lengths.min() >= 2
    assert np.median(released.trajectories.lengths) > 5


def test_baselines_keep_to_the_area() -> None:
    trajectories, places = small_city(150, 3)
    trips, epsilon, source = (
        cut_trips(trajectories, places, AREA, PERIOD),
        Fraction(1),
        SeededSource(2),
    )
    for method in (adatrace, dpt):
        drawn = method.draw(trips, AREA, epsilon, source)
        made = method.make_trips(drawn, AREA, PERIOD, epsilon, 200, SMALL.every_us)
        strict.check_trips(strict.Synthetic(*made), 200, AREA, PERIOD, SMALL)


def test_steps_too_short_for_a_wide_area_are_refused() -> None:
    outline = LonLatArea().from_text("POLYGON((100 30, 120 30, 120 45, 100 30))")
    options = SyntheticOptions(
        epsilon=Decimal(1), size=None, every=1_000_000, region=outline, period=None
    )
    with pytest.raises(BadInput, match="every 1s is too short"):
        AdaTraceStep().require_possible(options, 100, 1000)
    AdaTraceStep().require_possible(replace(options, every=60_000_000), 100, 1000)


def test_an_area_without_room_is_refused() -> None:
    from freqdp_db.methods.synthesis.layout import Grids

    sliver = Corners(
        np.array([0.0, 20_000.0, 20_000.0, 0.0, 0.0]),
        9_000.0 + np.array([0.0, 0.0, 0.001, 0.001, 0.0]),
        np.array([0, 5]),
    )  # fmt: skip
    with pytest.raises(BadInput, match="too thin"):
        lattice(Grids(Region(0.0, 0.0, 20_000.0, 18_000.0, sliver), 6, 5, 1, 3), 60_000_000)


# --- what the owner said, in degrees ---------------------------------------------------------------

SAID = [
    "9.0,59.0,11.5,60.2",  # wide and far north: parallels bend by hundreds of metres
    "POLYGON((9 59, 11.5 59.1, 11 60.2, 10.2 59.6, 9.3 60.1, 9 59))",
]


def said(text: str) -> Region:
    """A region as releases see it, in UTM zone 32."""
    area, stretch = LonLatArea().from_text(text), TimeStretch().from_text("2000-01-01/2000-01-04")
    return facts_in(32632, "EPSG:32632", "UTC")(area, stretch)[0]


def degrees_outside(text: str, x: Metres, y: Metres) -> int:
    """How many places lie outside of what was said, by shapely in degrees."""
    lon, lat = pyproj.Transformer.from_crs(32632, 4326, always_xy=True).transform(x, y)
    area = LonLatArea().from_text(text)
    shape = (
        shapely.box(*map(float, area))
        if isinstance(area, Box)
        else shapely.Polygon([tuple(map(float, c)) for c in area.rings[0]])
    )
    return int((~shapely.contains_xy(shape, lon, lat)).sum())


@pytest.mark.parametrize("text", SAID)
def test_a_region_is_what_was_said_and_not_the_box_around_it_in_metres(text: str) -> None:
    """Input outside is dropped, also where the box around the region in metres would hold it."""
    region = said(text)
    rng = np.random.default_rng(1)
    x = rng.uniform(region.x_min, region.x_max, 20_000)
    y = rng.uniform(region.y_min, region.y_max, 20_000)
    held = region.holds(x, y)
    assert degrees_outside(text, x[held], y[held]) == 0
    assert degrees_outside(text, x[~held], y[~held]) == (~held).sum() > 100
    outline = region.outline
    assert outline is not None
    # the outline in metres says the same but for the very edge
    assert (outline.holds(x, y) != held).sum() <= 1


@pytest.mark.parametrize(
    ("text", "every"), [(SAID[0], 60_000_000), (SAID[1], 60_000_000), (SAID[1], 5_000_000)]
)
def test_every_sample_lies_inside_of_what_was_said(text: str, every: int) -> None:
    region = said(text)
    parameters = replace(SMALL, every_us=every)
    trajectories, places = small_city(150, 3)
    wide = Locations(
        region.x_min + places.x / REGION.width * region.width,
        region.y_min + places.y / REGION.height * region.height,
    )
    drawn = draw(trajectories, wide, region, PERIOD, parameters, SeededSource(1))
    log, released = strict.carry_out(drawn, region, PERIOD, parameters)
    strict.check(drawn, log, released, region, PERIOD, parameters)
    assert degrees_outside(text, released.places.x, released.places.y) == 0
    epsilon, source = Fraction(1), SeededSource(2)
    trips = cut_trips(trajectories, wide, region, PERIOD)
    for method in (adatrace, dpt):
        drawn = method.draw(trips, region, epsilon, source)
        made = method.make_trips(drawn, region, PERIOD, epsilon, 200, every)
        assert degrees_outside(text, made[1].x, made[1].y) == 0


def test_a_sample_outside_of_what_was_said_is_found() -> None:
    """The middle of the north edge of the box in metres lies north of the parallel."""
    region = said(SAID[0])
    trajectories = Trajectories(
        np.array([0, 2]), np.zeros(2, np.int32), np.array([0, 60_000_000]), np.zeros(1, np.int64)
    )
    middle = (region.x_min + region.x_max) / 2
    inside = Locations(np.array([middle]), np.array([(region.y_min + region.y_max) / 2]))
    outside = Locations(np.array([middle]), np.array([region.y_max - 1.0]))
    one = replace(SMALL, size=1)
    strict.check_trips(strict.Synthetic(trajectories, inside), 1, region, PERIOD, one)
    with pytest.raises(VerificationFailed, match="1 places lie outside the region"):
        strict.check_trips(strict.Synthetic(trajectories, outside), 1, region, PERIOD, one)
