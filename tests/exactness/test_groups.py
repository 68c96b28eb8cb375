"""glove, klt and w4m keep their promises in the table, and the check in SQL finds when they do not."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pyogrio
import pytest
from brute_groups import Promise, check_promise
from library import build_city, build_points, load_city, opened, release
from servers import clone_of, filled_once
from world import freqdp, query, verify

from freqdp_db.db.connection import Database

CASES: dict[str, dict[str, Any]] = {
    "week": {"method": "glove", "k": 3},
    "narrow": {"method": "glove", "k": 3, "widest": "3km/1h"},
    "pieces": {"method": "glove", "k": 2, "pieces": "30min", "widest": "6km/2h"},
    "alone": {"method": "glove", "k": 4, "leftovers": "suppress", "time_step": "5min"},
    "mixed": {"method": "klt", "k": 3, "l": 3, "t": "0.2", "poi": "world.poi"},
    "moved": {"method": "w4m", "k": 3},
    "edits": {"method": "w4m", "k": 3, "distance": "edr", "delta": 300, "trash": 20},
}


def _release(url: str) -> None:
    with opened(url) as database:
        load_city(url, objects=14, days=1)
        build_city(database, "city", "exact")
        query(
            url,
            "CREATE SCHEMA world; CREATE TABLE world.poi AS "
            "SELECT (ARRAY['school', 'shop', 'office', 'clinic', NULL])[1 + n %% 5] AS category, "
            "ST_SetSRID(ST_MakePoint(ST_X(geom) + n %% 7 * 0.001, ST_Y(geom)), 4326)::geography "
            "AS geom FROM (SELECT geom, row_number() OVER (ORDER BY at, object_id) AS n "
            "FROM demo.city) AS s WHERE n %% 3 = 0".replace("%%", "%"),
        )
        for name, options in CASES.items():
            release(database, "city", name, **options)


grouped_db = filled_once("grouped", _release)
url = clone_of("grouped_db", scope="module")


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with opened(url) as found:
        yield found


def promise(url: str, name: str) -> Promise:
    with psycopg.connect(url) as connection:
        found = check_promise(connection, name)
        connection.rollback()
    return found


@pytest.mark.parametrize("name", CASES)
def test_kept(url: str, name: str) -> None:
    found = promise(url, name)
    assert not any(found.wrong.values()), "\n".join(found.lines())
    assert all(
        count > 0 or what in ("samples of groups left out", "trash")
        for what, count in found.counted.items()
    ), found.lines()
    if name == "week":
        assert found.counted["samples inside"] == found.counted["samples"]
    verify(url, name)


def test_kept_where_positions_are_wrong(database: Database, url: str) -> None:
    """Receivers send positions on other continents: areas are then wider than projections are true."""
    query(
        url,
        "CREATE TABLE demo.lost AS SELECT object_id AS object, at, CASE WHEN n % 97 > 2 THEN geom ELSE "
        "ST_SetSRID(ST_MakePoint(n % 7 * 20, n % 5 * 12), 4326) END AS geom FROM (SELECT *, "
        "row_number() OVER (ORDER BY object_id, at) AS n FROM demo.city) AS s",
    )
    build_points(database, "lost", "demo.lost", "grid:100")
    release(database, "lost", "lost_week", method="glove", k=3)
    found = promise(url, "lost_week")
    assert not any(found.wrong.values()), "\n".join(found.lines())
    assert found.counted["samples inside"] == found.counted["samples"]
    verify(url, "lost_week")


@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        ("week", "UPDATE {t} SET area = ST_Translate(area, 0.01, 0), "
         "geom = ST_Translate(geom, 0.01, 0)", "samples in no area"),
        ("week", "UPDATE {t} SET trajectory_id = -1 WHERE seq = 1 AND "
            "trajectory_id = (SELECT min(trajectory_id) FROM {t})",
         "released trajectories of fewer than k objects"),
        ("week", "UPDATE {t} SET during = tstzrange(lower(during), lower(during) + '1 s')",
         "samples in no area"),
        ("mixed", "UPDATE {t} SET area = ST_Expand(geom, 0.0001) WHERE seq = 1",
         "areas that are not diverse"),
        ("moved", "UPDATE {t} SET geom = ST_Translate(geom, 0.02, 0) WHERE seq = 1 AND "
         "trajectory_id = (SELECT min(trajectory_id) FROM {t})", "pairs further apart than delta"),
        ("moved", "UPDATE {t} SET sampled_at = sampled_at + interval '1 s' WHERE seq = 2 AND "
         "trajectory_id = (SELECT min(trajectory_id) FROM {t})",
         "pairs that are not together at an instant"),
    ],
)  # fmt: skip
def test_found_out(url: str, name: str, change: str, what: str) -> None:
    with psycopg.connect(url, options="-c search_path=public") as connection:
        connection.execute(change.replace("{t}", f"freqdp_release.{name}").encode())
        found = check_promise(connection, name)
        connection.rollback()
    assert found.wrong[what] > 0, found.lines()


def test_areas_and_intervals_are_found_by_their_indexes(url: str) -> None:
    for condition, index in (
        ("area && ST_MakeEnvelope(4.34, 50.8, 4.35, 50.9, 4326)", "week_area_idx"),
        ("during @> timestamptz '2024-01-01 12:00:00+00'", "week_during_idx"),
    ):
        with psycopg.connect(url, options="-c search_path=public") as connection:
            connection.execute("SET enable_seqscan = off")
            plan = connection.execute(
                f"EXPLAIN SELECT count(*) FROM freqdp_release.week WHERE {condition}".encode()
            ).fetchall()
        assert index in str(plan)


def test_comments_say_what_a_point_is(url: str) -> None:
    def comment(table: str, column: str) -> str:
        ((found,),) = query(
            url,
            "SELECT col_description(attrelid, attnum) FROM pg_attribute "
            f"WHERE attrelid = 'freqdp_release.{table}'::regclass AND attname = '{column}'",
        )
        return str(found)

    assert comment("week", "geom").startswith("The middle of the area")
    assert comment("week", "area").startswith("Where samples of the group lie, of some or all of")
    assert comment("week", "during").startswith("When: the times of samples in the area lie in")
    assert comment("moved", "sampled_at") == "Time of the sample; days and hours are those of UTC."
    ((whole,),) = query(url, "SELECT obj_description('freqdp_release.moved'::regclass)")
    assert "not k-anonymous" in whole


@pytest.mark.parametrize("name", ["week", "moved"])
def test_exported(url: str, name: str, tmp_path: Path) -> None:
    areas = name == "week"
    for kind in ("csv", "geoparquet", "gpkg"):
        out = str(tmp_path / f"{name}.{kind}")
        freqdp(url, "release", "export", name, "--format", kind, "--out", out).succeeded()
        notice = Path(f"{out}.README.txt").read_text()
        assert ("Use the areas" in " ".join(notice.split())) is areas
    columns = "ST_XMin(area), ST_YMin(area), ST_XMax(area), ST_YMax(area), " if areas else ""
    ends = ", lower(during), upper(during)" if areas else ""
    expected = query(
        url,
        f"SELECT trajectory_id, seq, {columns}ST_X(geom), ST_Y(geom), sampled_at{ends} "
        f"FROM freqdp_release.{name} ORDER BY 1, 2",
    )
    with (tmp_path / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(expected)
    sides = ["lon_min", "lat_min", "lon_max", "lat_max"] if areas else []
    for row, found in zip(rows, expected, strict=True):
        assert [float(row[c]) for c in (*sides, "lon", "lat")] == pytest.approx(
            list(found[2 : 4 + len(sides)]), rel=1e-15
        )
    table = pq.read_table(tmp_path / f"{name}.geoparquet")
    assert table.num_rows == len(expected)
    described = json.loads((table.schema.metadata or {})[b"geo"])
    primary = described["columns"][described["primary_column"]]
    assert primary["geometry_types"] == ["Polygon" if areas else "Point"]
    with closing(sqlite3.connect(tmp_path / f"{name}.gpkg")) as file:
        layers = dict(
            file.execute("SELECT table_name, geometry_type_name FROM gpkg_geometry_columns")
        )
        assert layers.get("areas") == ("POLYGON" if areas else None)
        if areas:
            assert file.execute("SELECT count(*) FROM areas").fetchone() == (len(expected),)
            assert file.execute("SELECT rtreecheck('rtree_areas_geom')").fetchone() == ("ok",)
    if areas:
        ends = {(row[0], row[1]): row[-1] for row in expected}
        keys = zip(table["trajectory_id"].to_pylist(), table["seq"].to_pylist(), strict=True)
        assert table["during_end"].to_pylist() == [ends[key] for key in keys]
        box = (expected[0][2], expected[0][3], expected[0][4], expected[0][5])
        hit = pyogrio.raw.read(tmp_path / f"{name}.gpkg", layer="areas", bbox=box)
        assert len(hit[2]) >= 1


def test_areas_with_two_plain_times(url: str) -> None:
    assert query(url, "TABLE freqdp_release.week_area ORDER BY 1, 2") == query(
        url,
        "SELECT trajectory_id, seq, lower(during), upper(during), area FROM freqdp_release.week "
        "ORDER BY 1, 2",
    )
    freqdp(url, "release", "export", "week", "--format", "mfjson").refused("has areas")


def test_asked_for_in_sql(url: str) -> None:
    ((found,),) = query(
        url,
        'SELECT freqdp.request_parameters(\'glove\', \'{"widest": "6km/2h", "pieces": "30min"}\')',
    )
    assert found["widest"] == "6000m/7200s" and found["pieces"] == 1800 and found["k"] == 5
    for bad in ('{"widest": "6km"}', '{"k": 1}', '{"leftovers": "keep"}'):
        with pytest.raises(psycopg.Error):
            query(url, f"SELECT freqdp.request_parameters('glove', '{bad}')")
