"""One object's rows never change what a build, or a release, makes of the rows of others."""

from __future__ import annotations

from typing import Any

import pytest
from library import opened
from world import anonymize, freqdp, query, value

from freqdp_db.dataset.building import build
from freqdp_db.db.datasets import find_dataset
from freqdp_db.engines.dask import local_cluster
from freqdp_db.errors import BadData
from freqdp_db.progress import Progress

_HOSTILE = [
    "1e12", "-2e12", "9.99e20", "1.7976931348623157e308", "-1.7976931348623157e308", "'Infinity'",
    "'-Infinity'", "'NaN'", "5e-324", "-5e-324", "1e8", "100000000.00000001", "180", "181", "0",
    "-1e8", "6.5e6", "2.5",
]  # fmt: skip
_HOSTILE_TIMES = [
    "'infinity'", "'-infinity'", "'294276-12-31 23:59:59+00'", "'4713-01-01 00:00:00+00 BC'",
    "'1970-01-01 00:00:00+00'", "'2199-01-01 00:00:00+00'", "'2024-05-01 08:00:00.000001+00'",
]  # fmt: skip
_HOME = {4326: (2.35, 48.85, 0.0005), 2154: (652e3, 6.862e6, 40), 3857: (261e3, 6.25e6, 60),
         32631: (452e3, 5.41e6, 40)}  # fmt: skip
_REGION = "2.0,48.5,2.8,49.2"


def _table(url: str, srid: int) -> None:
    x, y, step = _HOME[srid]
    query(
        url,
        "CREATE TABLE w AS SELECT 'p' || o AS who, timestamptz '2024-05-01 08:00+00' "
        f"+ make_interval(secs => 30 * i) AS at, {x}::float8 + {step} * (i + o * 1.7) AS x, "
        f"{y}::float8 + {step} * (o * 3.1 - i * 0.6) AS y "
        "FROM generate_series(1, 8) o, generate_series(1, 30) i",
    )


def _add(url: str, srid: int, snap: str, *more: str) -> None:
    position = ("--lon", "x", "--lat", "y") if srid == 4326 else ("--x", "x", "--y", "y",
                                                                  "--srid", str(srid))  # fmt: skip
    freqdp(
        url, "dataset", "add", "d", "--from", "public.w", "--object", "who", "--time", "at",
        *position, "--snap", snap, *more,
    ).succeeded()  # fmt: skip


def _others(url: str) -> list[tuple[Any, ...]]:
    """Every sample of every object but the one that came: its time and place, to the bit."""
    return query(
        url,
        "SELECT t.object_key, s.seq, s.at, float8send(l.x_m), float8send(l.y_m), l.geom::text "
        "FROM freqdp.sample s JOIN freqdp.trajectory t USING (build_id, trajectory_id) "
        "JOIN freqdp.location l USING (build_id, location_id) "
        "JOIN freqdp.dataset d ON d.current_build = build_id "
        "WHERE t.object_key <> 'p4 hostile' ORDER BY 1, 2",
    )


def _add_hostile(url: str) -> None:
    values = ", ".join(f"{v}::float8" for v in _HOSTILE)
    query(
        url,
        "INSERT INTO w SELECT 'p4 hostile', timestamptz '2024-05-01 08:00+00' "
        "+ make_interval(secs => row_number() OVER ()), x, y "
        f"FROM unnest(ARRAY[{values}]) x, unnest(ARRAY[{values}]) y",
    )
    times = ", ".join(f"timestamptz {t}" for t in _HOSTILE_TIMES)
    query(
        url,
        "INSERT INTO w SELECT 'p4 hostile', at, x, y FROM (SELECT x, y FROM w LIMIT 1) o, "
        f"unnest(ARRAY[{times}]) at",
    )


@pytest.mark.parametrize(
    ("srid", "region", "snap"),
    [
        # every system with two ways to snap at least, every way with three systems at least
        (4326, True, "grid:100"),
        (4326, True, "exact"),
        (4326, True, "anchors:public.anchor"),
        (2154, False, "grid:0.01"),
        (2154, False, "anchors:public.anchor"),
        (2154, True, "grid:100"),
        (2154, True, "exact"),
        (3857, True, "grid:0.01"),
        (3857, True, "anchors:public.anchor"),
        (32631, False, "grid:100"),
        (32631, False, "grid:0.01"),
        (32631, False, "exact"),
    ],
)
def test_others_are_built_to_the_bit(database_url: str, srid: int, region: bool, snap: str) -> None:
    url = database_url
    _table(url, srid)
    query(
        url,
        "CREATE TABLE anchor AS SELECT ST_Transform(ST_SetSRID(ST_MakePoint(x, y), "
        f"{srid}), 32631)::geometry(Point, 32631) AS geom FROM w WHERE who = 'p3'",
    )
    _add(url, srid, snap, *(("--region", _REGION) if region else ()))
    freqdp(url, "dataset", "build", "d").succeeded()
    before = _others(url)
    assert len(before) == 240
    _add_hostile(url)
    built = freqdp(url, "dataset", "build", "d").succeeded()
    assert built["excluded"]["bad_position"] > 0 and built["excluded"]["bad_time"] > 0
    assert _others(url) == before


def test_others_are_built_to_the_bit_by_workers(database_url: str) -> None:
    url, srid = database_url, 2154
    _table(url, srid)
    _add(url, srid, "grid:0.01", "--region", _REGION)
    freqdp(url, "dataset", "build", "d").succeeded()
    before = _others(url)
    _add_hostile(url)
    with local_cluster(2, {"DATABASE_URL": url}) as cluster, opened(url) as database:
        build(database, find_dataset(database, "d"), Progress(), cluster)
    assert _others(url) == before


def test_numbers_that_no_float_holds(database_url: str) -> None:
    """Numeric columns and dates: what a cast would refuse is left out, row by row."""
    url = database_url
    query(
        url,
        "CREATE TABLE w AS SELECT o AS who, date '2024-05-01' + i AS at, (4.35 + 0.001 * i)::numeric AS x, "
        "(50.85 + 0.001 * o)::numeric AS y FROM generate_series(1, 8) o, generate_series(1, 30) i",
    )
    _add(url, 4326, "grid:100")
    freqdp(url, "dataset", "build", "d").succeeded()
    before = _others(url)
    for x, day in [("1e400", "2024-05-01"), ("1e-400", "2024-05-02"), ("'NaN'", "2024-05-03"),
                   ("4.4", "5000000-01-01"), ("4.4", "infinity"), ("4.4", "4713-01-01 BC")]:  # fmt: skip
        query(url, f"INSERT INTO w VALUES (99, '{day}', {x}, 50.9)")
    excluded = freqdp(url, "dataset", "build", "d").succeeded()["excluded"]
    assert (excluded["bad_position"], excluded["bad_time"]) == (3, 3)
    assert _others(url) == before


def test_other_geometries_are_left_out(database_url: str) -> None:
    """No single geometry decides whether there is a build, or which SRID it is read in."""
    url = database_url
    query(
        url,
        "CREATE TABLE w AS SELECT o AS who, "
        "timestamptz '2024-05-01' + make_interval(secs => 30 * i) AS at, "
        "ST_SetSRID(ST_MakePoint(4.35 + 0.001 * i, 50.85 + 0.001 * o), 4326) AS geom "
        "FROM generate_series(1, 8) o, generate_series(1, 30) i",
    )
    odd = ["SRID=4326;LINESTRING(4 50, 5 51)", "SRID=3857;POINT(1 1)", "POINT(4 50)",
           "SRID=4326;POINT EMPTY", "SRID=4326;GEOMETRYCOLLECTION EMPTY", None]  # fmt: skip
    add = (
        "dataset", "add", "d", "--from", "public.w", "--object", "who", "--time", "at", "--geom", "geom",
    )  # fmt: skip
    freqdp(url, *add).succeeded()
    for geometry in odd:
        query(url, "INSERT INTO w VALUES (99, '2024-05-02', %s)", geometry)
    # whoever has many rows of another SRID must not decide which are read
    freqdp(url, *add[:2], "e", *add[3:]).refused("--geom 'geom'", "different ones")
    built = freqdp(url, "dataset", "build", "d").succeeded()
    assert (built["trajectories"], built["samples"]) == (8, 240)
    left = {reason: n for reason, n in built["excluded"].items() if n}
    assert left == {"null_position": 1, "not_a_point": 2, "other_srid": 2, "bad_position": 1}


PERSONS = """
CREATE TABLE w AS SELECT 'p' || o AS who,
    timestamptz '2024-05-01 08:00+00' + make_interval(mins => i + 200 * trip) AS at,
    ST_SetSRID(ST_MakePoint(640000 + 37 * (o * 7 % 300) + 250.0 * i * cos(o + trip),
        6860000 + 41 * (o * 11 % 200) + 250.0 * i * sin(o + trip)), 2154)::geometry(Point, 2154) AS geom
FROM generate_series(1, 400) o, generate_series(0, 2) trip, generate_series(1, 20) i
"""


FAR_PERSON = "INSERT INTO w VALUES ('p500', '2024-05-01 09:00+00', 'SRID=2154;POINT(-2e12 1e12)')"


def _strict(url: str, name: str) -> list[tuple[Any, ...]]:
    freqdp(url, "dataset", "build", "d").succeeded()
    anonymize(url, "d", "strict", "--epsilon", "2", "--seed", "7", "--as", name, "--new-draw")
    return query(url, f"SELECT * FROM freqdp_release.{name} ORDER BY 1, 2")


def test_a_far_person_does_not_change_a_synthetic_release(database_url: str) -> None:
    url = database_url
    query(url, PERSONS)
    freqdp(
        url, "dataset", "add", "d", "--from", "public.w", "--object", "who", "--time", "at",
        "--geom", "geom", "--srid", "2154", "--region", _REGION, "--period", "2024-05-01/2024-05-03",
    ).succeeded()  # fmt: skip
    before = _strict(url, "before")
    assert len({row[0] for row in before}) > 100, "trips"
    query(url, FAR_PERSON)
    assert _strict(url, "after") == before
    # none of its rows can be used: nothing of it is in the build either
    assert value(url, "SELECT count(*) FROM freqdp.trajectory WHERE object_key = 'p500'") == 0


_EQUAL = {
    "numeric": ("'7'", "'7.0'", "'7.00'"),
    "float8": ("'0'", "'-0'", "'0.0'"),
    "citext": ("'Ada'", "'ada'", "'ADA'"),
    "plate": ("'Ada'", "'ada'", "'ADA'"),
    "amount": ("'7'", "'7.0'", "'7.00'"),
    "text COLLATE alike": ("'Ada'", "'ada'", "'ADA'"),
    "char(5)": ("'ada'", "'ada '", "'ada  '"),
}


@pytest.mark.parametrize("type_", _EQUAL)
def test_values_that_are_equal_are_one_object(database_url: str, type_: str) -> None:
    """A guarantee for one object is for all rows that `WHERE who = ...` finds."""
    query(database_url, "CREATE EXTENSION IF NOT EXISTS citext")
    query(
        database_url,
        "CREATE COLLATION alike (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    )
    query(database_url, "CREATE DOMAIN plate AS citext; CREATE DOMAIN whole AS numeric")
    query(database_url, "CREATE DOMAIN amount AS whole CHECK (VALUE >= 0)")
    query(database_url, f"CREATE TABLE w (who {type_}, at timestamptz, x float8, y float8)")
    for n, equal in enumerate(_EQUAL[type_]):
        query(
            database_url,
            f"INSERT INTO w SELECT {equal}, timestamptz '2024-05-01 08:00+00' "
            f"+ make_interval(mins => 3 * i + {n}), 2.35, 48.85 + 0.001 * i FROM generate_series(1, 5) i",
        )
    query(database_url, "INSERT INTO w SELECT '99', at, x, y FROM w WHERE y < 48.8515")
    assert value(database_url, f"SELECT count(*) FROM w WHERE who = {_EQUAL[type_][0]}") == 15
    _add(database_url, 4326, "grid:50")
    freqdp(database_url, "dataset", "build", "d").succeeded()
    assert query(database_url, "SELECT samples FROM freqdp.trajectory ORDER BY samples") == [
        (3,),
        (15,),
    ]


def test_equal_texts_are_not_dealt_out_as_several_objects(database_url: str) -> None:
    """Workers find objects by the bytes of their keys: what they would take apart is refused."""
    url = database_url
    query(
        url,
        "CREATE COLLATION alike (provider = icu, locale = 'und-u-ks-level2', deterministic = false); "
        "CREATE TABLE v AS SELECT who COLLATE alike AS who, "
        "timestamptz '2024-05-01 08:00+00' + make_interval(mins => 6 * i + n::int) AS at, 2.35 AS x, "
        "48.85 + 0.001 * i AS y FROM generate_series(1, 9) i, "
        "unnest(ARRAY['Ada', 'ADA', 'Bob', 'Lea', 'ada', 'mia']) WITH ORDINALITY AS o (who, n); "
        # a view has no blocks that could be dealt out instead
        "CREATE VIEW w AS SELECT * FROM v",
    )
    _add(url, 4326, "grid:50")
    freqdp(url, "dataset", "build", "d").succeeded()
    samples = "SELECT samples FROM freqdp.trajectory ORDER BY samples DESC"
    assert query(url, samples) == [(27,), (9,), (9,), (9,)]
    with (
        local_cluster(2, {"DATABASE_URL": url}) as cluster,
        opened(url) as database,
        pytest.raises(BadData, match="different texts that are equal"),
    ):
        build(database, find_dataset(database, "d"), Progress(), cluster)
