"""Zones from a table, a grid or H3: read as they are meant, or refused with a reason."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import shapely
from world import query

from freqdp_db.db import source_zones
from freqdp_db.db.connection import Database
from freqdp_db.db.source_zones import read_zones
from freqdp_db.errors import BadInput
from freqdp_db.methods.counts.zones import OUTSIDE, Zones
from freqdp_db.methods.kinds import Box, HexagonGrid, LonLatArea, SquareGrid

REGION = Box(*map(Decimal, ("2.2", "48.8", "2.5", "48.95")))
METRES = 32631
_TABLE = "CREATE TABLE {name} (id {kind} PRIMARY KEY, part text, geom {geometry})"
# 6 by 4 boxes that fill the region, numbered from the south-west, row by row
_BOXES = (
    "INSERT INTO {name} SELECT 10 * (4 * i + j), 'row ' || j / 2, ST_Transform(ST_MakeEnvelope("
    "2.2 + 0.05 * i, 48.8 + 0.0375 * j, 2.25 + 0.05 * i, 48.8375 + 0.0375 * j, 4326), {srid}) "
    "FROM generate_series(0, 5) i, generate_series(0, 3) j"
)


def _boxes(
    url: str, name: str = "areas", srid: int = 4326, kind: str = "int", geometry: str = "geometry"
) -> None:
    query(url, _TABLE.format(name=name, kind=kind, geometry=geometry))
    query(url, _BOXES.format(name=name, srid=srid))


def _read(
    db: Database, zoning: Any, region: Any = REGION, source: int = 4326, **columns: Any
) -> Zones:
    with db.begin(snapshot=True) as connection:
        return read_zones(connection, zoning, region, METRES, source, later=db.begin, **columns)


def _shapes(zones: Zones) -> list[shapely.Geometry]:
    return [shapely.from_wkb(bytes(shape)) for block in zones.shapes() for shape in block]


def _located(url: str, zones: Zones, lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """The zones of places in degrees."""
    moved = query(
        url,
        "SELECT ST_X(g), ST_Y(g) FROM unnest(%s::float8[], %s::float8[]) WITH ORDINALITY p (x, y, n), "
        "LATERAL (SELECT ST_Transform(ST_SetSRID(ST_MakePoint(x, y), 4326), 32631) AS g) t ORDER BY n",
        lon.tolist(),
        lat.tolist(),
    )
    return zones.locate(*np.array(moved).T)


def _held(url: str, zones: Zones, places: int = 4000) -> None:
    """Every place is in the zone whose published shape holds it, by PostGIS."""
    rng = np.random.default_rng(1)
    lon, lat = rng.uniform(2.15, 2.55, places), rng.uniform(48.75, 49.0, places)
    found, shapes = _located(url, zones, lon, lat), _shapes(zones)
    expected = np.full(places, OUTSIDE)
    for number, shape in enumerate(shapes[: len(zones)]):
        expected[shapely.contains_xy(shape, lon, lat)] = number
    # sides that are straight in degrees are nearly so in metres
    assert (found != expected).sum() <= places // 1000
    assert (found >= 0).sum() > places // 5


@pytest.mark.parametrize("srid", [4326, 32631, 3857, 2154])
def test_a_table_in_whatever_srid(db: Database, database_url: str, srid: int) -> None:
    _boxes(database_url, srid=srid)
    zones = _read(db, "public.areas")
    assert len(zones) == 24 and zones.name[:3] == ("0", "10", "20")
    assert zones.name[-1] == "230", "numbers in the order of numbers"
    _held(database_url, zones)
    shapes = _shapes(zones)
    assert {shape.geom_type for shape in shapes} == {"MultiPolygon"}
    assert {shapely.get_srid(shape) for shape in shapes} == {4326}
    assert all(shape.is_valid for shape in shapes)
    assert shapes[-1].area == pytest.approx(0.3 * 0.15, rel=1e-3)
    assert 2 <= zones.districts <= 12
    for district in range(zones.districts):
        mine = np.flatnonzero(zones.district == district)
        parts = sum(shapes[z].area for z in mine)
        assert shapes[24 + district].area == pytest.approx(parts, rel=1e-6)


def test_columns_of_a_view(db: Database, database_url: str) -> None:
    """Any column may identify a zone; capitals and other geometry names are found."""
    _boxes(database_url)
    query(
        database_url,
        'CREATE VIEW "Quarters" AS SELECT \'z\' || id AS "Code", part AS "Row", '
        "ST_Multi(geom)::geometry(MultiPolygon, 4326) AS shape FROM areas",
    )
    zones = _read(db, 'public."Quarters"', zone="Code", district="Row", source=METRES)
    assert zones.name[:3] == ("z0", "z10", "z100")
    assert zones.district_name == ("row 0", "row 1")
    assert np.bincount(zones.district).tolist() == [12, 12]
    assert {shapely.get_srid(shape) for shape in _shapes(zones)} == {METRES}


_HOLE_AND_ISLAND = (
    "UPDATE areas SET geom = ST_Difference(geom, ST_Buffer(ST_Centroid(geom), 0.01)) WHERE id = 0;"
    "UPDATE areas SET geom = ST_Union(geom, (SELECT ST_Difference(ST_MakeEnvelope(2.2, 48.8, 2.25, "
    "48.8375, 4326), geom) FROM areas WHERE id = 0)) WHERE id = 110"
)


@pytest.mark.parametrize(
    ("geometry", "changed", "places"),
    [
        ("geography", "SELECT 1", 4000),
        ("geometry", "UPDATE areas SET geom = ST_Force3D(geom)", 4000),
        ("geometry", _HOLE_AND_ISLAND, 20_000),
    ],
    ids=["geography", "heights", "holes"],
)
def test_shapes(db: Database, database_url: str, geometry: str, changed: str, places: int) -> None:
    _boxes(database_url, geometry=geometry)
    query(database_url, changed)
    zones = _read(db, "public.areas")
    assert not any(shapely.has_z(shape) for shape in _shapes(zones))
    _held(database_url, zones, places)


def test_a_grid(db: Database, database_url: str) -> None:
    zones = _read(db, SquareGrid(Decimal(1000)))
    assert 22 * 17 <= len(zones) <= 24 * 20
    _held(database_url, zones)
    assert _shapes(zones)[-1].covers(shapely.box(2.2, 48.8, 2.5, 48.95).buffer(-1e-9))
    assert zones.name[0].endswith("N") and len(set(zones.name)) == len(zones)
    wide = [np.ptp(zones.x[zones.district == d]) for d in range(zones.districts)]
    assert max(wide) == 4000.0, "districts are blocks of 5 km"


def test_districts_of_a_metropolitan_region(db: Database) -> None:
    """180 x 190 km have 1,400 blocks of 5 km: too many for flows between them."""
    region = LonLatArea().from_text("1.1,47.9,3.5,49.6")
    zones = _read(db, SquareGrid(Decimal(1000)), region)
    assert 30_000 < len(zones) < 40_000
    # a block more in each direction, where the region does not begin with one
    assert 250 <= zones.districts <= 600
    wide = [np.ptp(zones.x[zones.district == d]) for d in range(zones.districts)]
    assert max(wide) > 5000.0 and max(wide) % 1000 == 0, "blocks of whole squares"


def test_districts_of_many_hexagons(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    import h3

    usual = _read(db, HexagonGrid(8)).districts
    monkeypatch.setattr(source_zones, "_MOST_DISTRICTS", usual - 1)
    zones = _read(db, HexagonGrid(8))
    assert zones.districts < usual
    assert {h3.get_resolution(cell) for cell in zones.district_name} == {5}


def test_a_grid_over_an_outline(db: Database, database_url: str) -> None:
    """Only squares that meet it, and not its hole."""
    text = (
        "MULTIPOLYGON(((2.2 48.8, 2.5 48.8, 2.2 48.95, 2.2 48.8)), "
        "((2.25 48.82, 2.33 48.82, 2.25 48.86, 2.25 48.82)))"
    )
    zones = _read(db, SquareGrid(Decimal(500)), LonLatArea().from_text(text))
    city = _shapes(zones)[-1]
    assert city.area == pytest.approx(0.3 * 0.15 / 2 - 0.08 * 0.04 / 2, rel=0.2)
    assert not city.contains(shapely.Point(2.27, 48.83))


def test_hexagons(db: Database, database_url: str) -> None:
    import h3

    zones = _read(db, HexagonGrid(8))
    assert all(h3.get_resolution(cell) == 8 for cell in zones.name)
    assert all(h3.get_resolution(cell) == 6 for cell in zones.district_name)
    _held(database_url, zones)
    assert [h3.cell_to_parent(cell, 6) for cell in zones.name] == [
        zones.district_name[d] for d in zones.district
    ]
    rng = np.random.default_rng(2)
    lon, lat = rng.uniform(2.21, 2.49, 3000), rng.uniform(48.81, 48.94, 3000)
    located = _located(database_url, zones, lon, lat)
    cells = [h3.latlng_to_cell(b, a, 8) for a, b in zip(lon, lat, strict=True)]
    same = sum(zones.name[z] == cell for z, cell in zip(located, cells, strict=True))
    assert same >= 2998, "H3's own answer, but for places within centimetres of an edge"


def test_far_from_the_dataset(db: Database, database_url: str) -> None:
    """Zones of another continent, and coordinates that are no degrees."""
    _boxes(database_url)
    query(database_url, "UPDATE areas SET geom = ST_Translate(geom, 0, 500) WHERE id = 0")
    with pytest.raises(BadInput) as refused:
        _read(db, "public.areas")
    assert "cannot transform" in refused.value.text or "outside" in refused.value.text
