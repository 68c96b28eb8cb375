"""`freqdp load` as a person runs it: tables complete or absent, refusals with a way out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import world
from world import Answer, freqdp

Run = Callable[..., Answer]
Query = Callable[..., list[tuple[Any, ...]]]
CSV_COLUMNS = ("--object", "car", "--time", "when", "--lon", "x", "--lat", "y")


@pytest.fixture
def query(database_url: str) -> Query:
    return partial(world.query, database_url)


@pytest.fixture
def run(database_url: str) -> Run:
    """A command on the test's database."""
    return partial(freqdp, database_url)


@pytest.fixture
def cars(tmp_path: Path) -> Path:
    path = tmp_path / "cars.csv"
    path.write_text(
        "car,when,x,y\na,2024-01-01 12:00:00,4.5,50.5\nb,2024-01-01 12:00:01,4.6,50.6\n"
    )
    return path


def test_demo(run: Run, query: Query) -> None:
    small = ("load", "demo", "--objects", "30", "--days", "2")
    answer = run(*small).succeeded()
    assert query("SELECT count(*) FROM demo.city") == [(answer["rows"],)]
    assert query("SELECT count(*) FROM demo.roads") == [(answer["roads"],)]
    assert query("SELECT count(*) FROM demo.poi") == [(answer["points"],)]
    ((nulls, no_time, objects),) = query(
        "SELECT count(*) FILTER (WHERE geom IS NULL), count(*) FILTER (WHERE at IS NULL),"
        " count(DISTINCT object_id) FROM demo.city"
    )
    assert nulls == answer["unusable"]["no place"]
    assert no_time == answer["unusable"]["no time"]
    assert objects == 30
    assert answer["next"].startswith("freqdp dataset add city --from demo.city")

    fingerprint = "SELECT md5(string_agg(c::text, '|')) FROM demo.city c"
    before = query(fingerprint)
    run(*small, "--replace").succeeded()
    assert query(fingerprint) == before
    assert query("SELECT obj_description('demo.city'::regclass) LIKE 'Made-up%'") == [(True,)]
    indexes = query("SELECT indexname FROM pg_indexes WHERE schemaname = 'demo' ORDER BY 1")
    expected = ["poi_geom_idx", "poi_pkey", "roads_geom_idx", "roads_pkey"]
    assert [name for (name,) in indexes] == expected


def test_demo_roads_are_a_graph_of_their_lines(run: Run, query: Query) -> None:
    run("load", "demo", "--objects", "1", "--days", "1").succeeded()
    assert query(
        "SELECT count(*) FROM demo.roads a JOIN demo.roads b ON a.target = b.source"
        " WHERE NOT ST_Equals(ST_EndPoint(a.geom), ST_StartPoint(b.geom))"
    ) == [(0,)]
    ((worst,),) = query(
        "SELECT max(abs(length_m / ST_Length(geom::geography) - 1)) FROM demo.roads"
    )
    assert worst < 0.002


def test_demo_points_of_interest_lie_at_roads(run: Run, query: Query) -> None:
    run("load", "demo", "--objects", "12", "--days", "1").succeeded()
    ((points, categories, roadside),) = query(
        "SELECT count(*), count(DISTINCT category), count(*) FILTER (WHERE EXISTS (SELECT FROM "
        "demo.roads r WHERE ST_DWithin(r.geom, p.geom, 0.01))) FROM demo.poi p"
    )
    assert (points, categories) == (roadside, 8)


def test_every_option_that_names_a_table_reads_it_as_from_does(city: str) -> None:
    """As typed, if there is one, else folded."""
    for table in ("poi", "roads"):
        world.query(city, f'ALTER TABLE demo.{table} RENAME TO "{table.title()}"')
    klt = ("anonymize", "city", "--method", "klt", "--k", "3", "--poi", "demo.Poi")
    freqdp(city, *klt, "--category", "CATEGORY").succeeded()
    freqdp(city, "match", "city", "--roads", "demo.Roads", "--into", "demo.matched").succeeded()
    world.query(city, 'ALTER TABLE demo."Poi" RENAME COLUMN geom TO place')
    world.add_city(city, "anchored", "--snap", "anchors:demo.Poi")
    freqdp(city, "dataset", "build", "anchored").succeeded()


def test_csv(run: Run, query: Query, cars: Path) -> None:
    load = ("load", "csv", str(cars), *CSV_COLUMNS, "--timezone", "Asia/Shanghai")
    target = '"My Schema"."t.x"'
    answer = run(*load, "--into", target).succeeded()
    assert answer["rows"] == 2
    rows = f"SELECT object_id, at AT TIME ZONE 'UTC', ST_AsText(geom) FROM {target} ORDER BY 1"
    assert [(r[0], str(r[1]), r[2]) for r in query(rows)] == [
        ("a", "2024-01-01 04:00:00", "POINT(4.5 50.5)"),
        ("b", "2024-01-01 04:00:01", "POINT(4.6 50.6)"),
    ]
    run(*load, "--into", target, "--append").succeeded()
    assert query(f"SELECT count(*) FROM {target}") == [(4,)]
    run(*load, "--into", target, "--replace").succeeded()
    assert query(f"SELECT count(*) FROM {target}") == [(2,)]


def test_bad_rows_leave_nothing_unless_skipped(run: Run, query: Query, cars: Path) -> None:
    with cars.open("a") as file:
        file.write("secret,never,4,50\n")
    load = ("load", "csv", str(cars), *CSV_COLUMNS, "--into", "mine.t")
    refused = run(*load).refused()
    assert "line 4" in refused["message"]
    assert "secret" not in refused["message"]
    assert query("SELECT to_regclass('mine.t'), to_regnamespace('mine')") == [(None, None)]
    answer = run(*load, "--skip-bad").succeeded()
    assert (answer["rows"], answer["skipped"]) == (2, {"no such time": 1})


def test_a_refused_replacement_keeps_the_old_table(run: Run, query: Query, cars: Path) -> None:
    load = ("load", "csv", str(cars), *CSV_COLUMNS, "--into", "mine.t")
    run(*load).succeeded()
    query("CREATE VIEW mine.v AS SELECT * FROM mine.t")
    assert "depend" in run(*load, "--replace").refused()["message"]
    query("DROP VIEW mine.v")
    cars.write_text("car,when,x,y\na,never,1,2\n")
    run(*load, "--replace").refused()
    assert query("SELECT count(*) FROM mine.t") == [(2,)]
    assert query("SELECT relname FROM pg_class WHERE relnamespace = 'mine'::regnamespace") == [
        ("t",)
    ]


def test_the_object_from_the_file_or_a_column(run: Run, query: Query, tmp_path: Path) -> None:
    (tmp_path / "bus 7.csv").write_text("when,x,y\n2024-01-01 12:00:00,4.5,50.5\n")
    load = ("load", "csv", str(tmp_path), "--into", "mine.t", "--time", "when", "--lon", "x",
            "--lat", "y")  # fmt: skip
    run(*load, "--object-from-file").succeeded()
    assert query("SELECT object_id FROM mine.t") == [("bus 7",)]


def test_tdrive_and_geolife(run: Run, query: Query, tmp_path: Path) -> None:
    for taxi in (1, 2):
        line = f"{taxi},2008-02-02 15:36:08,116.51172,39.92123\n"
        (tmp_path / f"{taxi}.txt").write_text(line * taxi)
    answer = run("load", "tdrive", str(tmp_path), "--into", "td.taxi").succeeded()
    assert answer["rows"] == 3
    assert query(
        "SELECT taxi_id, to_char(at AT TIME ZONE 'Asia/Shanghai', 'HH24:MI:SS'), ST_SRID(geom)"
        " FROM td.taxi WHERE taxi_id = 1"
    ) == [(1, "15:36:08", 4326)]

    place = tmp_path / "Data" / "007" / "Trajectory"
    place.mkdir(parents=True)
    row = "39.9,116.3,0,-777,40097.5,2009-10-11,14:04:30\n"
    (place / "a.plt").write_text("header\n" * 6 + row)
    run("load", "geolife", str(tmp_path), "--into", "gl.t").succeeded()
    assert query("SELECT user_id, altitude, ST_X(geom) FROM gl.t") == [("007", None, 116.3)]


def test_roads(run: Run, query: Query, tmp_path: Path) -> None:
    nodes, edges = tmp_path / "n.csv", tmp_path / "e.csv"
    nodes.write_text("node_id,lon,lat\n1,4,50\n2,4.01,50\n3,4.02,50\n")
    edges.write_text(
        "edge_id,u,v,length_m,wkt\n"
        '1,1,2,717,"LINESTRING(4 50,4.01 50)"\n'
        '2,2,1,717,"LINESTRING(4.01 50,4 50)"\n'
        '3,2,3,717,"LINESTRING(4.01 50,4.02 50)"\n'
    )
    made = ("--vertices-into", "r.anchors", "--every", "100")
    files = (str(nodes), str(edges))
    answer = run("load", "roads", *files, "--into", "r.roads", *made).succeeded()
    # Three junctions, and seven points on each of two streets: both directions give one set.
    assert (answer["rows"], answer["vertices"]) == (3, 3 + 2 * 7)
    assert query("SELECT count(DISTINCT geom), count(DISTINCT id) FROM r.anchors") == [(17, 17)]

    query(
        "CREATE TABLE r.ways AS SELECT id AS gid, source, target, 'x' AS street,"
        " '50'::text AS maxspeed, 1 AS one_way, ST_Multi(ST_Transform(geom, 3857)) AS the_geom"
        " FROM r.roads"
    )
    answer = run("load", "roads", "--from", "r.ways", "--into", "r.copy").succeeded()
    assert (answer["rows"], answer["left_out"]) == (3, 0)
    assert query("SELECT name, speed_kmh, oneway, round(length_m) FROM r.copy WHERE id = 1") == [
        ("x", 50.0, True, 717.0)
    ]


def test_postgis_in_another_schema_and_missing(empty_database_url: str, cars: Path) -> None:
    load = ("load", "csv", str(cars), *CSV_COLUMNS, "--into", "mine.t")
    elsewhere = empty_database_url
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("DROP EXTENSION postgis CASCADE")
        assert "CREATE EXTENSION postgis" in freqdp(elsewhere, *load).refused()["remedy"]
        connection.execute("CREATE SCHEMA gis")
        connection.execute("CREATE EXTENSION postgis SCHEMA gis")
    freqdp(elsewhere, *load).succeeded()
    roads = ("--objects", "1", "--days", "1")
    freqdp(elsewhere, "load", "demo", *roads).succeeded()
    made = ("--into", "r.roads", "--vertices-into", "r.v", "--every", "500")
    freqdp(elsewhere, "load", "roads", "--from", "demo.roads", *made).succeeded()
