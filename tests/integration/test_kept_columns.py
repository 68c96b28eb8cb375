"""Columns that samples carry along: from the source through a build into releases, and what is refused."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pyogrio
import pytest
from servers import SharedServer, clone_of, cloned
from world import anonymize, freqdp, query, report, value, verify

from freqdp_db.methods.registry import METHODS, find_method

# Ninety riders, each to and fro on one of five streets. Forty have a cargo bike, four a recumbent, which is
# rare, and the others a city bike. Fares change from ride to ride. A third says nothing of a membership.
RIDES = """
CREATE SCHEMA fleet;
CREATE TYPE fleet.bike AS ENUM ('city', 'cargo', 'recumbent');
CREATE TABLE fleet.ride AS
SELECT 'rider ' || o AS rider,
    timestamptz '2024-05-06 06:00+00' + make_interval(secs => 60 * i + o % 7) AS at,
    ST_SetSRID(ST_MakePoint(4.3 + 0.0014 * abs((i + o) % 40 - 20), 50.8 + 0.002 * (o % 5)), 4326)
        ::geometry(Point, 4326) AS geom,
    (CASE WHEN o <= 4 THEN 'recumbent' WHEN o <= 50 THEN 'city' ELSE 'cargo' END)::fleet.bike AS bike,
    (1 + (i / 60 + o) % 3)::int2 AS "Fare",
    CASE WHEN o % 3 > 0 THEN o % 3 = 1 END AS member,
    'rider ' || o || ' of the fleet' AS note, repeat('x', 65 + o % 3) AS long
FROM generate_series(1, 90) o, generate_series(1, 240) i;
CREATE INDEX ON fleet.ride (at);
CREATE TABLE fleet.hire AS
SELECT rider, min(at) AS begin_at, max(at) AS end_at, bike::text AS "time",
    (array_agg(geom ORDER BY at))[1]::geometry(Point, 4326) AS a,
    (array_agg(geom ORDER BY at DESC))[1]::geometry(Point, 4326) AS b
FROM fleet.ride WHERE bike <> 'recumbent' GROUP BY rider, bike, date_trunc('hour', at);
"""
# who has too few beside them: the recumbents, and thirteen others, so that NULL does not tell these
LEFT_OUT = """(s.bike = 'recumbent' OR (s.bike, s."Fare", s.member) = ('cargo', 1, false))"""
ADD = ("--from", "fleet.ride", "--object", "rider", "--time", "at", "--geom", "geom")
KEPT = ("--keep-columns", 'bike, "Fare",member')
# the value that the source has where and when a released sample is: the clock moves no time further
TRUE = """
SELECT count(*), count(*) FILTER (WHERE EXISTS (
    SELECT FROM fleet.ride AS s
    WHERE s.at BETWEEN r.sampled_at - interval '30 s' AND r.sampled_at + interval '30 s'
        AND ST_DWithin(s.geom::geography, r.geom::geography, 80)
        AND (s.bike::text, s."Fare", s.member) IS NOT DISTINCT FROM (r.bike, r."Fare", r.member)
)) FROM freqdp_release.{} AS r WHERE r."Fare" IS NOT NULL
"""


@pytest.fixture(scope="module")
def fleet_db(shared_server: SharedServer, template_db: str) -> Iterator[str]:
    """The rides, registered and built."""
    with cloned(shared_server.get(), template_db) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(RIDES.encode())
        freqdp(url, "dataset", "add", "rides", *ADD, *KEPT, "--budget", "50").succeeded()
        built = freqdp(url, "dataset", "build", "rides").succeeded()
        assert built["kept"]["left_out"] == {"combinations": 10, "samples": 1753}
        yield str(value(url, "SELECT current_database()::text"))


fleet = clone_of("fleet_db")


def _columns(url: str, relation: str) -> dict[str, str]:
    return dict(
        query(
            url,
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
            relation,
        )
    )


def test_a_build_has_them(fleet: str) -> None:
    rows = query(
        fleet,
        f"""
        SELECT count(*), count(*) FILTER (WHERE v.found IS NOT DISTINCT FROM CASE
            WHEN {LEFT_OUT} THEN '[null, null, null]'::jsonb
            ELSE jsonb_build_array(s.bike, s."Fare", s.member) END)
        FROM freqdp.sample AS b
        JOIN freqdp.trajectory AS t USING (build_id, trajectory_id)
        JOIN fleet.ride AS s ON s.rider = t.object_key AND s.at = b.at
        JOIN freqdp.build USING (build_id)
        CROSS JOIN LATERAL (SELECT build.kept -> 'values' -> b.kept::int AS found) AS v
        """,
    )
    assert rows == [(21_600, 21_600)]
    assert value(fleet, "SELECT kept -> 'columns' FROM freqdp.build") == [
        ["bike", "text"],
        ["Fare", "int2"],
        ["member", "bool"],
    ]
    said = freqdp(fleet, "dataset", "show", "rides", in_words=True).out
    assert "bike, Fare, member" in said


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("points", ()),
        ("cut", ("--pieces", "20min", "--quiet", "5min")),
        ("cut", ("--pieces", "20min", "--crowd", "5", "--samples", "ends")),
        ("cut", ("--dates", "hour-of-day")),
        ("lg+cut", ("--epsilon", "1", "--signature", "2")),
        ("lg", ("--epsilon", "1", "--signature", "2")),
    ],
)
def test_releases_carry_what_the_source_has(
    fleet: str, method: str, options: tuple[str, ...]
) -> None:
    anonymize(fleet, "rides", method, *options, "--as", "out")
    assert _columns(fleet, "freqdp_release.out") == {
        "trajectory_id": "bigint",
        "seq": "integer",
        "sampled_at": "timestamp with time zone",
        "geom": "geometry(Point,4326)",
        "bike": "text",
        "Fare": "smallint",
        "member": "boolean",
    }
    ((rows, right),) = query(fleet, TRUE.format("out"))
    # an inserted sample has the values of the one before it
    assert rows > 100
    assert right == rows if "lg" not in method else right > rows / 2
    assert query(fleet, "SELECT DISTINCT bike FROM freqdp_release.out ORDER BY 1") == [
        ("cargo",),
        ("city",),
        (None,),
    ]
    # of a rare bike, nothing is said at all
    assert query(
        fleet,
        "SELECT count(*) FROM freqdp_release.out "
        'WHERE bike IS NULL AND num_nonnulls("Fare", member) > 0',
    ) == [(0,)]
    verify(fleet, "out")
    assert value(
        fleet,
        "SELECT col_description('freqdp_release.out'::regclass, 5) = "
        "col_description('freqdp_release.rides_current'::regclass, 5)",
    )
    assert "Fare" in _columns(fleet, "freqdp_release.rides_current")
    notes = value(fleet, "SELECT guarantee -> 'notes' FROM freqdp_release.catalog")
    assert any("bike, Fare, member: values of the source" in note for note in notes)


def test_methods_that_cannot_carry_them_are_without(fleet: str) -> None:
    able = {name for name in METHODS if find_method(name).keeps_columns}
    assert able == {"lg", "gl", "pure-g", "pure-l", "cut", "points", "sc", "rsc"}
    assert find_method("lg+cut").keeps_columns and not find_method("lg+swap+cut").keeps_columns
    done = freqdp(
        fleet, "anonymize", "rides", "--method", "swap", "--as", "out", "--hold", in_words=True
    )
    assert done.code == 0, done.err
    said = "method swap cannot carry bike, Fare, member along: the release is without."
    assert said in done.out + done.err
    assert "bike" not in _columns(fleet, "freqdp_release.out")
    verify(fleet, "out")
    plan = freqdp(fleet, "plan", "rides", "--method", "swap").succeeded()
    assert any("cannot carry bike" in note for note in plan["notes"])


def test_a_changed_value_is_found(fleet: str) -> None:
    anonymize(fleet, "rides", "points", "--share", "20", "--as", "out")
    verify(fleet, "out")
    change = "UPDATE freqdp_release.out SET bike = {} WHERE trajectory_id = (SELECT min(trajectory_id) {})"
    query(fleet, change.format("NULL", "FROM freqdp_release.out WHERE bike IS NOT NULL"))
    assert freqdp(fleet, "release", "verify", "out").code == 3


def test_files_have_them(fleet: str, tmp_path: Path) -> None:
    query(fleet, "ALTER TABLE fleet.ride ALTER bike TYPE text")
    query(fleet, "UPDATE fleet.ride SET bike = 'city, \"old\"' WHERE bike = 'city'")
    freqdp(fleet, "dataset", "build", "rides").succeeded()
    anonymize(fleet, "rides", "cut", "--pieces", "20min", "--as", "out")
    expected = query(
        fleet,
        'SELECT trajectory_id, seq, bike, "Fare", member FROM freqdp_release.out ORDER BY 1, 2',
    )
    assert {row[2] for row in expected} == {None, "cargo", 'city, "old"'}
    for form in ("csv", "geoparquet", "gpkg", "mfjson"):
        out = str(tmp_path / f"out.{form}")
        freqdp(
            fleet, "release", "export", "out", "--format", form, "--out", out, "--srid", "3035"
        ).succeeded()
        notice = (tmp_path / f"out.{form}.README.txt").read_text("utf-8")
        assert ("- Fare: Of the source" in notice) == (form != "mfjson")
        assert "bike, Fare, member: values of the source." in " ".join(notice.split())
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = [
            (int(r["trajectory_id"]), int(r["seq"]), r["bike"], r["Fare"], r["member"])
            for r in csv.DictReader(file)
        ]
    shown = {None: "", True: "true", False: "false"}
    assert rows == [
        (t, n, bike or "", str(fare or ""), shown[member]) for t, n, bike, fare, member in expected
    ]
    columns = ["trajectory_id", "seq", "bike", "Fare", "member"]
    table = pq.read_table(tmp_path / "out.geoparquet", columns=columns)
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == expected
    assert [str(field.type) for field in table.schema][2:] == ["string", "int16", "bool"]
    _, layer = pyogrio.read_arrow(tmp_path / "out.gpkg", layer="samples", columns=columns)
    named = layer.select(columns).to_pydict()
    assert sorted(zip(*named.values(), strict=True)) == expected


def test_the_page_for_an_assessment_names_them(fleet: str, tmp_path: Path) -> None:
    anonymize(fleet, "rides", "points", "--share", "20", "--as", "out")
    page = report(fleet, "out", tmp_path, "--evidence")
    assert "bike, Fare, member: values of the source" in page


def test_copies_for_analysts_have_them(fleet: str, empty_database_url: str) -> None:
    anonymize(fleet, "rides", "points", "--share", "20", "--as", "out")
    freqdp(fleet, "release", "publish", "out", "--to", empty_database_url).succeeded()
    columns = [_columns(url, "freqdp_release.rides_current") for url in (fleet, empty_database_url)]
    assert columns[0] == columns[1]
    rows = "SELECT t::text FROM freqdp_release.out AS t ORDER BY 1"
    assert query(fleet, rows) == query(empty_database_url, rows)


def test_trip_records_carry_them(fleet: str) -> None:
    """Also where a column is called as a part of the query that takes trips apart."""
    trips = ("--object", "rider", "--time", "begin_at,end_at", "--geom", "a,b")
    freqdp(
        fleet, "dataset", "add", "hires", "--from", "fleet.hire", *trips, "--keep-columns", "time"
    ).succeeded()
    freqdp(fleet, "dataset", "build", "hires").succeeded()
    rows = query(
        fleet,
        """
        SELECT count(*), count(*) FILTER (WHERE v.found = h."time") FROM freqdp.sample AS b
        JOIN freqdp.dataset AS d ON d.current_build = b.build_id AND d.name = 'hires'
        JOIN freqdp.trajectory AS t USING (build_id, trajectory_id)
        JOIN fleet.hire AS h ON h.rider = t.object_key AND b.at IN (h.begin_at, h.end_at)
        JOIN freqdp.build AS n USING (build_id)
        CROSS JOIN LATERAL (SELECT n.kept -> 'values' -> b.kept::int ->> 0 AS found) AS v
        """,
    )
    assert rows[0][0] == rows[0][1] > 500


def test_a_series_has_them_and_keeps_its_columns(fleet: str) -> None:
    query(fleet, "INSERT INTO fleet.ride SELECT rider, at + interval '1 day', geom, bike, "
          '"Fare", member, note, long FROM fleet.ride')  # fmt: skip
    window = ("cut", "--pieces", "20min", "--series", "daily", "--window")
    anonymize(fleet, "rides", *window, "2024-05-06")
    assert list(_columns(fleet, "freqdp_release.daily"))[-3:] == ["bike", "Fare", "member"]
    freqdp(fleet, "dataset", "set", "rides", "--keep-columns", "bike").succeeded()
    refused = freqdp(fleet, "anonymize", "rides", "--method", *window, "2024-05-07")
    assert "bike, Fare, member, and this window would have" in refused.refused()["message"]
    freqdp(fleet, "dataset", "set", "rides", "--keep-columns", "bike,Fare,member").succeeded()
    freqdp(fleet, "dataset", "build", "rides", "--window", "2024-05-07").succeeded()
    anonymize(fleet, "rides", *window, "2024-05-07")
    assert query(
        fleet, "SELECT DISTINCT window_start::text, bike FROM freqdp_release.daily ORDER BY 1, 2"
    ) == [(f"2024-05-0{day}", bike) for day in (6, 7) for bike in ("cargo", "city", None)]


def test_a_file_says_them(fleet: str, tmp_path: Path) -> None:
    path = tmp_path / "freqdp.toml"
    text = (
        "[datasets.rides]\nfrom = 'fleet.ride'\nobject = 'rider'\ntime = 'at'\ngeom = 'geom'\n"
        "keep_columns = {}\n"
    )
    path.write_text(text.format("['bike', 'fare', 'member']"), "utf-8")
    apply = ("apply", "--file", str(path))
    freqdp(fleet, *apply, "--plan").refused("'fare'", "no such column")
    path.write_text(text.format("['BIKE', 'Fare', 'member']"), "utf-8")
    assert freqdp(fleet, *apply, "--plan").succeeded()["changes"] == []
    path.write_text(text.format("'bike'"), "utf-8")
    (change,) = freqdp(fleet, *apply).succeeded()["changes"]
    assert change["what"] == "set keep_columns to bike (was bike, Fare, member)"
    assert value(fleet, "SELECT keep_columns FROM freqdp.dataset") == ["bike"]
    path.write_text(text.format("'none'"), "utf-8")
    freqdp(fleet, *apply).succeeded()
    assert value(fleet, "SELECT keep_columns FROM freqdp.dataset") is None


def test_a_window_without_a_row_is_a_release_too(fleet: str) -> None:
    """Whether there is one must not hang on a single object."""
    public = ("--region", "4.2,50.7,4.5,51", "--unit", "person-day")
    freqdp(fleet, "dataset", "set", "rides", *public).succeeded()
    for method in (("cut", "--pieces", "20min"), ("strict", "--size", "20")):
        made = anonymize(fleet, "rides", *method, "--window", "2024-05-01")
        verify(fleet, made["name"])
