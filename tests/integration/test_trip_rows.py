"""Sources with one row a trip give the same build as the samples that they are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from servers import clone_of, filled_once
from world import freqdp, query

SAMPLES = """
CREATE SCHEMA fleet;
CREATE TABLE fleet.ping AS
SELECT 'v' || van AS van, trip, i, t AS at,
    ST_SetSRID(ST_MakePoint(lon, lat), 4326)::geometry(Point, 4326) AS geom
FROM (
    SELECT van, trip, i,
        timestamptz '2024-05-06 06:00+00' + make_interval(mins => 90 * trip + i, secs => van) AS t,
        4.3 + 0.001 * ((van * 7 + trip * 5 + i * 3) % 50) AS lon,
        50.8 + 0.001 * ((van * 5 + trip * 3 + i * 2) % 40) AS lat
    FROM generate_series(1, 6) van, generate_series(1, 3) trip, generate_series(1, 20) i
) AS walk;
CREATE TABLE fleet.line AS
SELECT van, trip,
    ST_MakeLine(ST_SetSRID(ST_MakePointM(ST_X(geom), ST_Y(geom), extract(epoch FROM at)), 4326)
        ORDER BY i)::geometry(LineStringM, 4326) AS way,
    ST_MakeLine(ST_SetSRID(ST_MakePoint(ST_X(geom), ST_Y(geom), 0, extract(epoch FROM at)), 4326)
        ORDER BY i)::geometry(LineStringZM, 4326) AS high_way,
    ST_MakeLine(geom ORDER BY i)::geometry(LineString, 4326) AS flat,
    ST_MakeLine(geom ORDER BY i)::geography(LineString, 4326) AS round,
    ST_MakeLine(ST_SetSRID(ST_MakePointM(ST_X(geom), ST_Y(geom), extract(epoch FROM at)), 4326)
        ORDER BY i) AS any_way,
    array_agg(at ORDER BY i) AS times,
    array_agg((1000 * extract(epoch FROM at))::int8 ORDER BY i) AS stamps
FROM fleet.ping GROUP BY van, trip;
CREATE TABLE fleet."Ride" AS
SELECT van, min(at) AS "Start", max(at) AS "End",
    (array_agg(geom ORDER BY i))[1]::geometry(Point, 4326) AS start_geom,
    (array_agg(geom ORDER BY i DESC))[1]::geometry(Point, 4326) AS end_geom,
    (array_agg(ST_X(geom) ORDER BY i))[1] AS slon, (array_agg(ST_Y(geom) ORDER BY i))[1] AS slat,
    (array_agg(ST_X(geom) ORDER BY i DESC))[1] AS elon, (array_agg(ST_Y(geom) ORDER BY i DESC))[1] AS elat
FROM fleet.ping GROUP BY van, trip;
"""
OBJECT = ("--object", "van")
BUILT = """
SELECT t.object_key, s.seq, s.at, ST_AsText(l.geom)
FROM freqdp.sample AS s
JOIN freqdp.trajectory AS t USING (build_id, trajectory_id)
JOIN freqdp.location AS l USING (build_id, location_id)
JOIN freqdp.dataset AS d ON d.current_build = s.build_id
WHERE d.name = %s
ORDER BY 1, 2
"""


def _make_fleet(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SAMPLES.encode())
    _built(url, "pings", "fleet.ping", "--time", "at", "--geom", "geom")


fleet_db = filled_once("fleet", _make_fleet)
fleet = clone_of("fleet_db", scope="module")


def _built(url: str, name: str, source: str, *columns: str) -> list[tuple[Any, ...]]:
    freqdp(url, "dataset", "add", name, "--from", source, *OBJECT, *columns).succeeded()
    freqdp(url, "dataset", "build", name).succeeded()
    return query(url, BUILT, name)


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("zm", ("--geom", "high_way")),
        ("untyped", ("--geom", "any_way", "--time", "any_way")),
        ("stamps", ("--geom", "flat", "--time", "stamps", "--time-unit", "ms")),
        ("geography", ("--geom", "round", "--time", "times")),
    ],
)
def test_lines(fleet: str, name: str, columns: tuple[str, ...]) -> None:
    assert _built(fleet, name, "fleet.line", *columns) == query(fleet, BUILT, "pings")


def test_a_condition_is_on_trips(fleet: str) -> None:
    some = _built(
        fleet, "some", "fleet.line", "--geom", "way", "--where", "trip < 3 -- not the third"
    )
    assert len(some) == 240


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("ends", ("--geom", "start_geom,end_geom")),
        ("degrees", ("--lon", "slon,elon", "--lat", "slat, elat")),
    ],
)
def test_both_ends_are_samples(fleet: str, name: str, columns: tuple[str, ...]) -> None:
    built = _built(fleet, name, 'fleet."Ride"', "--time", "Start,End", *columns)
    ends = query(
        fleet,
        "SELECT van, row_number() OVER (PARTITION BY van ORDER BY at)::int, at FROM fleet.ping "
        "WHERE i IN (1, 20) ORDER BY 1, 2",
    )
    assert [row[:3] for row in built] == ends


def test_what_has_no_time_is_counted(fleet: str) -> None:
    """Arrays that are too short or too long, lines that are NULL."""
    query(
        fleet,
        "CREATE TABLE fleet.odd AS SELECT van, CASE WHEN trip < 3 THEN flat END AS flat, "
        "CASE trip WHEN 1 THEN times[:18] WHEN 2 THEN times || now() ELSE times END AS times "
        "FROM fleet.line WHERE van = 'v1' OR trip = 1",
    )
    add = ("dataset", "add", "odd", "--from", "fleet.odd", *OBJECT)
    freqdp(fleet, *add, "--geom", "flat", "--time", "times").succeeded()
    built = freqdp(fleet, "dataset", "build", "odd").succeeded()
    # two points of six lines have no time; one time and twenty times of a missing line have no point
    assert built["excluded"]["null_time"] == 12
    assert built["excluded"]["null_position"] == 21


def test_a_file_says_the_same(fleet: str, tmp_path: Path) -> None:
    file = tmp_path / "freqdp.toml"
    file.write_text(
        '[datasets.said]\nfrom = "fleet.\\"Ride\\""\nobject = "van"\ntime = "Start,End"\n'
        'geom = "start_geom,end_geom"\n'
        '[datasets.lines]\nfrom = "fleet.line"\nobject = "van"\ngeom = "way"\n'
    )
    freqdp(fleet, "apply", "--file", str(file)).succeeded()
    again = freqdp(fleet, "apply", "--file", str(file)).succeeded()
    assert again["changes"] == []
