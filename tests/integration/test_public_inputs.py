"""What a guarantee for persons takes as public: declared, checked before anything is spent, and told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from world import anonymize, freqdp, query, value

from freqdp_db.errors import Busy
from freqdp_db.methods.counts.family import CountsStep
from freqdp_db.release import pipeline

REGION, PERIOD = "2.0,48.5,2.8,49.2", "2024-05-01/2024-05-03"
_PERSONS = """
CREATE TABLE {table} AS SELECT 'p' || o AS who, {time} AS at,
    2.2 + 0.0005 * (o * 7 % 300) + 0.003 * i * cos(o + trip) AS lon,
    48.8 + 0.0005 * (o * 11 % 200) + 0.002 * i * sin(o + trip) AS lat
FROM generate_series(1, {objects}) o, generate_series(0, 2) trip, generate_series(1, 20) i,
    LATERAL (SELECT timestamptz '2024-05-01 08:00+00' + make_interval(mins => i + 200 * trip) AS t) x
"""


def _persons(url: str, table: str = "w", time: str = "t", objects: int = 60) -> None:
    query(url, _PERSONS.format(table=table, time=time, objects=objects))


def _add(url: str, *more: str, source: str = "public.w") -> Any:
    return freqdp(
        url, "dataset", "add", "d", "--from", source, "--object", "who", "--time", "at",
        "--lon", "lon", "--lat", "lat", *more,
    )  # fmt: skip


_FACTS = ("--region", REGION, "--period", PERIOD)
_STRICT = ("anonymize", "d", "--method", "strict", "--seed", "7")


def _spends(url: str) -> int:
    return int(value(url, "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'"))


_TIMES = (
    "SELECT t.object_key, s.seq, s.at FROM freqdp.sample s "
    "JOIN freqdp.trajectory t USING (build_id, trajectory_id) "
    "JOIN freqdp.dataset d ON d.current_build = build_id WHERE t.object_key <> 'p99' ORDER BY 1, 2"
)


def test_a_declared_unit_is_not_moved_by_anybody(database_url: str) -> None:
    """One object with most of the rows, in milliseconds, moves nobody's times."""
    url = database_url
    _persons(url, time="extract(epoch FROM t)::float8", objects=10)
    _add(url, "--time-unit", "s", *_FACTS).succeeded()
    freqdp(url, "dataset", "build", "d").succeeded()
    before = query(url, _TIMES)
    query(
        url,
        "INSERT INTO w SELECT 'p99', 1000 * extract(epoch FROM timestamptz '2024-05-01') + i, 2.3, 48.8 "
        "FROM generate_series(1, 2000) i",
    )
    built = freqdp(url, "dataset", "build", "d").succeeded()
    assert built["time_unit"] == "s" and built["excluded"]["bad_time"] == 2000
    assert query(url, _TIMES) == before


@pytest.mark.parametrize("unit", ["ms", "ns"])
def test_units(database_url: str, unit: str) -> None:
    url = database_url
    factor = {"ms": 1000, "ns": 1000000000}[unit]
    _persons(url, time=f"({factor} * extract(epoch FROM t))::int8", objects=3)
    _add(url, "--time-unit", unit).succeeded()
    freqdp(url, "dataset", "build", "d").succeeded()
    assert value(url, "SELECT min(at) = '2024-05-01 08:01+00' FROM freqdp.sample")
    shown = freqdp(url, "dataset", "show", "d", in_words=True).out
    assert f"epoch numbers in {unit}" in shown
    assert freqdp(url, "dataset", "show", "d").succeeded()["mapping"]["time_unit"] == unit


def test_a_guessed_unit_is_refused_for_persons(database_url: str) -> None:
    url = database_url
    _persons(url, time="(1000 * extract(epoch FROM t))::int8")
    _add(url, *_FACTS).succeeded()
    assert freqdp(url, "dataset", "build", "d").succeeded()["time_unit"] == "guessed"
    # guessing serves methods without a guarantee for persons
    freqdp(url, "plan", "d", "--method", "swap").succeeded()
    for command in (_STRICT, ("plan", "d", "--method", "strict")):
        refused = freqdp(url, *command).refused("epoch numbers", "guessed")
        assert "freqdp dataset set d --time-unit" in refused["remedy"]
    freqdp(url, "dataset", "set", "d", "--time-unit", "h").refused("--time-unit", "h")
    freqdp(url, "dataset", "set", "d", "--time-unit", "ms").succeeded()
    assert "dataset build d" in freqdp(url, *_STRICT).refused("--time-unit ms")["remedy"]
    assert _spends(url) == 0
    freqdp(url, "dataset", "build", "d").succeeded()
    freqdp(url, *_STRICT).succeeded()
    # another unit: the build was made under the first
    freqdp(url, "dataset", "set", "d", "--time-unit", "s").succeeded()
    freqdp(url, *_STRICT, "--new-draw").refused("--time-unit s")


def test_a_unit_is_for_numbers(database_url: str, tmp_path: Path) -> None:
    url = database_url
    _persons(url, objects=3)
    _add(url, "--time-unit", "ms").refused("--time-unit ms", "timestamp with time zone")
    _add(url).succeeded()
    freqdp(url, "dataset", "set", "d", "--time-unit", "ms").refused("--time-unit ms")
    _persons(url, "e", time="extract(epoch FROM t)::int8", objects=3)
    file = tmp_path / "freqdp.toml"
    text = (
        '[datasets.e]\nfrom = "public.e"\nobject = "who"\ntime = "at"\nlon = "lon"\nlat = "lat"\n'
    )
    file.write_text(text)
    freqdp(url, "apply", "--file", str(file)).succeeded()
    file.write_text(f'{text}time_unit = "fortnight"\n')
    freqdp(url, "apply", "--file", str(file)).refused("--time-unit fortnight")
    file.write_text(f'{text}time_unit = "s"\n')
    (change,) = freqdp(url, "apply", "--file", str(file)).succeeded()["changes"]
    assert "time_unit" in change["what"]
    assert freqdp(url, "apply", "--file", str(file)).succeeded()["changes"] == []


def test_a_build_of_an_earlier_version_is_refused_for_persons(database_url: str) -> None:
    url = database_url
    _persons(url)
    _add(url, *_FACTS).succeeded()
    freqdp(url, "dataset", "build", "d").succeeded()
    query(url, "UPDATE freqdp.build SET time_unit = NULL")
    assert "dataset build d" in freqdp(url, *_STRICT).refused("earlier version")["remedy"]
    assert _spends(url) == 0


def test_few_objects_are_told_by_the_noise(database_url: str) -> None:
    """The exact number of objects decides nothing: one person would show in a refusal."""
    url = database_url
    _persons(url, objects=5)
    _add(url, *_FACTS).succeeded()
    freqdp(url, "dataset", "build", "d").succeeded()
    (warned,) = freqdp(url, *_STRICT).succeeded()["warnings"]
    assert warned.startswith("By their noisy number ") and "hardly anything but noise" in warned
    assert freqdp(url, "release", "show", "d_1").succeeded()["warnings"] == [warned]
    planned = ("plan", "d", "--method", "strict")
    (expected,) = freqdp(url, *planned).succeeded()["warnings"]
    assert expected.startswith("By their noisy number ")
    for command in (planned, (*_STRICT, "--new-draw"), ("release", "show", "d_1")):
        shown = " ".join(freqdp(url, *command, in_words=True).out.split())
        assert "Warning: By their noisy number " in shown, command


_MADE_FROM_DATA = {
    "area": "CREATE VIEW area AS SELECT ST_Buffer(ST_ConvexHull(ST_Collect("
    "ST_SetSRID(ST_MakePoint(lon, lat), 4326))), 0.01) AS geom FROM w",
    "road": "CREATE MATERIALIZED VIEW road AS SELECT row_number() OVER () AS id, 1 AS source, "
    "2 AS target, ST_MakeLine(ST_SetSRID(ST_MakePoint(lon, lat), 4326)) AS geom FROM w GROUP BY who",
    "anchor": "CREATE VIEW anchor AS SELECT DISTINCT ST_SetSRID(ST_MakePoint(lon, lat), 4326)"
    "::geometry(Point, 4326) AS geom FROM w",
}


def test_public_inputs_are_not_made_from_the_data(database_url: str, tmp_path: Path) -> None:
    url = database_url
    _persons(url)
    for statement in _MADE_FROM_DATA.values():
        query(url, statement)
    _add(url, "--region", "public.area").refused("--region", "public.area", "public.w")
    _add(url, *_FACTS, "--snap", "anchors:public.anchor").succeeded()
    freqdp(url, "dataset", "set", "d", "--region", "public.area").refused("--region", "public.w")
    freqdp(url, "dataset", "build", "d").succeeded()
    freqdp(url, "plan", "d", "--method", "swap").succeeded()
    for command in (_STRICT, ("plan", "d", "--method", "strict")):
        freqdp(url, *command).refused("--snap anchors:", "public.anchor", "public.w")
    freqdp(url, "dataset", "drop", "d").succeeded()
    _add(url, *_FACTS).succeeded()
    freqdp(url, "dataset", "build", "d").succeeded()
    freqdp(url, *_STRICT, "--roads", "public.road").refused("--roads", "public.road", "public.w")
    audited = ("audit", "d", "--method", "strict", "--runs", "1000", "--roads", "public.road")
    freqdp(url, *audited).refused("--roads", "public.road", "public.w")
    tried = (
        "recommend",
        "d",
        "--roads",
        "public.road",
        "--minutes",
        "0.01",
        "--out",
        str(tmp_path),
    )
    left_out = freqdp(url, *tried).succeeded()["left_out"]
    assert "public.road" in str(left_out)
    assert _spends(url) == 0
    # a copy of the polygons cannot be traced, and a table of its own is fine
    query(url, "CREATE TABLE town AS SELECT geom FROM area")
    freqdp(url, "dataset", "set", "d", "--region", "public.town").succeeded()


def test_other_tables_of_the_same_persons_are_not_public(database_url: str) -> None:
    """Nor are a source that has another name since, and releases: they are the same persons' data."""
    url = database_url
    _persons(url)
    query(url, "CREATE TABLE trip AS SELECT * FROM w")
    _add(url, *_FACTS, "--persons", "riders").succeeded()
    freqdp(
        url, "dataset", "add", "t", "--from", "public.trip", "--object", "who", "--time", "at",
        "--lon", "lon", "--lat", "lat", "--persons", "riders", *_FACTS,
    ).succeeded()  # fmt: skip
    freqdp(url, "dataset", "build", "d").succeeded()
    box = "SELECT 1 AS id, ST_MakeEnvelope(2.1, 48.6, 2.7, least(49.1, max({})), 4326) AS geom FROM {}"
    query(url, f"CREATE VIEW zones AS {box.format('lat', 'w')}")
    query(url, f"CREATE VIEW others AS {box.format('lat', 'trip')}")
    anonymize(url, "d", "points", "--hold")
    query(url, f"CREATE VIEW held AS {box.format('ST_Y(geom)', 'freqdp_release.d_1')}")
    asked = ("anonymize", "d", "--method", "counts", "--zone", "id", "--bins", "day", "--zones")
    freqdp(url, *asked, "public.others").refused("--zones", "reads the rows of public.trip")
    freqdp(url, *asked, "public.held").refused("--zones", "reads the rows of freqdp_release.d_1")
    freqdp(url, "dataset", "set", "d", "--region", "public.others").refused("public.trip")
    # also of a dataset whose persons are named with the region
    query(url, "CREATE TABLE stray AS SELECT * FROM w")
    new = ("dataset", "add", "s", "--from", "public.stray", "--object", "who", "--time", "at")
    theirs = ("--persons", "riders", "--region", "public.others")
    freqdp(url, *new, "--lon", "lon", "--lat", "lat", *theirs).refused("public.trip")
    freqdp(url, *new, "--lon", "lon", "--lat", "lat").succeeded()
    freqdp(url, "dataset", "set", "s", *theirs).refused("public.trip")
    query(url, "ALTER TABLE w RENAME TO before")
    freqdp(url, *asked, "public.zones").refused("--zones", "reads the rows of public.before")
    query(url, "CREATE TABLE w AS SELECT * FROM before LIMIT 1")
    freqdp(url, *asked, "public.zones").refused("--zones", "reads the rows of public.before")
    # what a view of the same persons looks something up in may be public
    query(
        url,
        "CREATE TABLE place AS SELECT 1 AS id, ST_MakeEnvelope(2.1, 48.6, 2.7, 49.1, 4326) AS geom",
    )
    query(url, "CREATE VIEW placed AS SELECT b.* FROM before b, place")
    freqdp(url, "dataset", "drop", "t").succeeded()
    freqdp(
        url, "dataset", "add", "t", "--from", "public.placed", "--object", "who", "--time", "at",
        "--lon", "lon", "--lat", "lat", "--persons", "riders",
    ).succeeded()  # fmt: skip
    assert _spends(url) == 1  # of points, which is nothing
    freqdp(url, *asked, "public.place").succeeded()


def test_a_view_that_reads_the_data_when_the_release_is_resumed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database_url
    _persons(url)
    box = "SELECT 1 AS id, ST_MakeEnvelope(2.1, 48.6, {}, 49.1, 4326) AS geom"
    query(url, f"CREATE VIEW zones AS {box.format(2.7)}")
    _add(url, *_FACTS).succeeded()
    freqdp(url, "dataset", "build", "d").succeeded()
    with monkeypatch.context() as lost:
        lost.setattr(
            pipeline,
            "run_steps",
            lambda *_: (_ for _ in ()).throw(Busy("as if killed", remedy="go on")),
        )
        freqdp(
            url, "anonymize", "d", "--method", "counts", "--zones", "public.zones", "--zone", "id"
        ).refused("as if killed")
    query(url, f"CREATE OR REPLACE VIEW zones AS {box.format('(SELECT max(lon) FROM w)')}")
    freqdp(url, "release", "resume", "d_1").refused("--zones", "public.zones", "public.w")
    query(url, f"CREATE OR REPLACE VIEW zones AS {box.format(2.7)}")
    freqdp(url, "release", "resume", "d_1").succeeded()


def test_counts_are_not_carried_over_to_other_zones(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by a release that goes on after its draw, and not by one that is verified."""
    url = database_url
    _persons(url)
    query(
        url,
        "CREATE TABLE zones AS SELECT 2 * i + j AS id, ST_MakeEnvelope(2.1 + 0.2 * i, 48.6 + 0.2 * j, "
        "2.3 + 0.2 * i, 48.8 + 0.2 * j, 4326) AS geom "
        "FROM generate_series(0, 1) i, generate_series(0, 1) j",
    )
    _add(url, *_FACTS).succeeded()
    freqdp(url, "dataset", "build", "d").succeeded()
    asked = ("anonymize", "d", "--method", "counts", "--zones", "public.zones", "--zone", "id")
    with monkeypatch.context() as lost:
        lost.setattr(
            CountsStep,
            "carry_out",
            lambda *_: (_ for _ in ()).throw(Busy("as if killed", remedy="go on")),
        )
        freqdp(url, *asked).refused("as if killed")
    query(url, "CREATE TABLE before AS TABLE zones")
    others = (
        "DELETE FROM zones WHERE id = 1",
        "INSERT INTO zones SELECT 9, ST_MakeEnvelope(2.5, 48.6, 2.6, 48.7, 4326)",
        "UPDATE zones SET geom = ST_Translate(geom, 0.001, 0) WHERE id = 3",
        "UPDATE zones SET id = 7 WHERE id = 0",
    )
    for command in (("release", "resume", "d_1"), ("release", "verify", "d_1")):
        for change in others:
            query(url, change)
            found = freqdp(url, *command)
            assert found.code == 3 and "zones or roads" in found.document["message"], change
            assert "--zones" in found.document["remedy"]
            query(url, "TRUNCATE zones; INSERT INTO zones TABLE before")
        freqdp(url, *command).succeeded()


_SPOTS = (
    "CREATE OR REPLACE FUNCTION spots() RETURNS SETOF geometry LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY "
    "SELECT DISTINCT public.ST_SetSRID(public.ST_MakePoint(lon, lat), 4326) FROM {}; END $$"
)


def test_what_cannot_be_traced_is_said(database_url: str) -> None:
    url = database_url
    _persons(url)
    query(url, _SPOTS.format("w"))
    query(url, "CREATE VIEW spot AS SELECT s::geometry(Point, 4326) AS geom FROM spots() AS s")
    _add(url, *_FACTS, "--snap", "anchors:public.spot").succeeded()
    # nothing is found by the path of the session, which others may have a schema in
    refused = freqdp(url, "dataset", "build", "d").refused('relation "w" does not exist')
    assert "with its schema" in refused["remedy"]
    query(url, _SPOTS.format("public.w"))
    freqdp(url, "dataset", "build", "d").succeeded()
    notes = freqdp(url, "plan", "d", "--method", "strict").succeeded()["notes"]
    assert any("spots()" in note and "--snap anchors:" in note for note in notes)


_VIEWS = {
    "LIMIT": "SELECT * FROM w ORDER BY at LIMIT 5000",
    "window functions": "SELECT who, at, lon, lat FROM (SELECT *, row_number() OVER (ORDER BY at) AS n "
    "FROM w) x WHERE n < 5000",
    "aggregates": "SELECT * FROM w WHERE who IN (SELECT who FROM w GROUP BY who HAVING count(*) > 2)",
    "DISTINCT ON": "SELECT DISTINCT ON (at, lon) * FROM w",
    "a subquery": "SELECT * FROM w WHERE NOT EXISTS (SELECT FROM w o WHERE o.at = w.at AND o.who < w.who)",
    "EXCEPT": "SELECT * FROM w EXCEPT SELECT 'p1', at, lon, lat FROM w WHERE who = 'p2'",
    "RECURSIVE": "WITH RECURSIVE r AS (SELECT * FROM w WHERE who = 'p1' UNION SELECT w.* FROM w JOIN r "
    "ON w.at = r.at) SELECT * FROM r",
    "a join": "SELECT w.* FROM w JOIN w AS o ON o.at = w.at AND o.who < w.who",
    "same table": "SELECT w.* FROM w CROSS JOIN LATERAL (SELECT o.who FROM w AS o WHERE o.at = w.at) AS x",
    "others of": "SELECT w.* FROM w JOIN plain AS o ON o.at = w.at AND o.who < w.who",
    "rows with": "WITH c AS (SELECT * FROM w) SELECT c.* FROM c JOIN c AS o USING (who, at)",
}


def test_views_that_choose_by_other_rows(database_url: str) -> None:
    url = database_url
    _persons(url)
    query(url, "CREATE VIEW plain AS SELECT * FROM w")
    for number, (word, view) in enumerate(_VIEWS.items()):
        query(url, f"CREATE VIEW inner_{number} AS {view}")
        query(url, f"CREATE VIEW chosen_{number} AS SELECT * FROM inner_{number} WHERE lat > 0")
        if number:
            freqdp(url, "dataset", "drop", "d").succeeded()
        (warning,) = _add(url, *_FACTS, source=f"public.chosen_{number}").succeeded()["warnings"]
        assert f"inner_{number}" in warning and word in warning and "persons" in warning
    built = freqdp(url, "dataset", "build", "d", in_words=True)
    assert warning in built.out
    planned = freqdp(url, "plan", "d", "--method", "strict").succeeded()
    assert any(warning in note for note in planned["notes"])
    assert freqdp(url, "plan", "d", "--method", "swap").succeeded()["notes"] == []
    assert warning in freqdp(url, *_STRICT).err


def test_plain_views_are_not_warned_of(database_url: str) -> None:
    url = database_url
    _persons(url)
    query(
        url,
        "CREATE VIEW plain AS SELECT who, at, lon, lat FROM w WHERE lat > 0 AND lon BETWEEN 1 AND 3",
    )
    query(
        url,
        "CREATE VIEW ends AS SELECT p.who, at, lon, lat FROM plain AS p JOIN pg_class ON oid = 1259 "
        'UNION ALL SELECT w.who, at, lon, lat FROM w JOIN pg_class AS "{a}" ON oid = 1259',
    )
    for view in ("plain", "ends"):
        assert _add(url, source=f"public.{view}").succeeded()["warnings"] == []
        freqdp(url, "dataset", "drop", "d").succeeded()
    (warning,) = _add(url, "--where", "who IN (SELECT who FROM w LIMIT 3)").succeeded()["warnings"]
    assert "where has a subquery" in warning


def test_the_curator_is_told_how_much_lies_inside(database_url: str) -> None:
    url = database_url
    _persons(url)
    _add(url).succeeded()
    said = freqdp(url, "dataset", "build", "d", in_words=True).out
    assert "Where: longitude" in said and "must not be taken from it" in said
    freqdp(url, "dataset", "set", "d", *_FACTS).succeeded()
    said = freqdp(url, "dataset", "build", "d", in_words=True).out
    assert "must not be taken from it" not in said
    assert "3,600 of 3,600 samples (100.0%) lie inside the region and the period." in said
    # swapped numbers, and a period that ends before the newest data
    freqdp(url, "dataset", "set", "d", "--region", "48.5,2.0,49.2,2.8").succeeded()
    query(url, "UPDATE freqdp.dataset SET srid = (SELECT srid FROM freqdp.build LIMIT 1)")
    built = freqdp(url, "dataset", "build", "d").succeeded()
    assert built["coverage"] == {"samples": 3600, "inside": 0}
    assert "Warning: 0 of 3,600 samples (0.0%) lie inside" in (
        freqdp(url, "plan", "d", "--method", "strict", in_words=True).out
    )
    assert "Warning: 0 of 3,600 samples (0.0%) lie inside" in freqdp(url, *_STRICT).err
    freqdp(
        url, "dataset", "set", "d", "--region", REGION, "--period", "2024-05-01/2024-05-01T08:05"
    ).succeeded()
    (note,) = freqdp(url, "plan", "d", "--method", "strict").succeeded()["notes"]
    assert note.startswith("Warning: 240 of 3,600 samples (6.7%) lie inside")
