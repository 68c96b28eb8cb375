"""Datasets over whatever people have: types, names, SRIDs, snaps; what a build keeps and drops."""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from library import opened
from world import ADD_CITY, add_city, fingerprint, freqdp, query, value, verify, wait_for, withdraw

from freqdp_db.db import builds
from freqdp_db.db.connection import hold
from freqdp_db.db.datasets import find_dataset
from freqdp_db.progress import Progress
from freqdp_db.release.pipeline import anonymize
from freqdp_db.release.request import JobRequest, Request

# Six objects, forty samples each, half a minute apart, on a few streets of Beijing.
WALKS = """
CREATE TABLE {table} AS
SELECT {object} AS who, {time} AS at, {position}
FROM (
    SELECT o, i, timestamptz '2024-05-01 08:00+00' + make_interval(secs => 30 * i + o) AS t,
        116.3 + 0.001 * ((o * 7 + i * 3) % 50) AS lon, 39.9 + 0.001 * ((o * 5 + i * 2) % 40) AS lat
    FROM generate_series(1, 6) o, generate_series(1, 40) i
) walk
"""
POINT = "ST_SetSRID(ST_MakePoint(lon, lat), 4326)"
INSTANTS = "SELECT DISTINCT at FROM freqdp.sample ORDER BY at"


def _walks(
    url: str,
    *,
    table: str = "walks",
    object_: str = "'person ' || o",
    time: str = "t",
    position: str = f"{POINT}::geometry(Point, 4326) AS geom",
) -> None:
    query(url, WALKS.format(table=table, object=object_, time=time, position=position))


def _add(url: str, *more: str, source: str = "public.walks", name: str = "d") -> dict[str, Any]:
    position = () if {"--lon", "--x"} & {*more} else ("--geom", "geom")
    if "--time" not in more:
        more = ("--time", "at", *more)
    answer: dict[str, Any] = freqdp(
        url, "dataset", "add", name, "--from", source, "--object", "who", *position, *more
    ).succeeded()
    return answer


def _build(url: str, name: str = "d") -> dict[str, Any]:
    answer: dict[str, Any] = freqdp(url, "dataset", "build", name).succeeded()
    return answer


EPOCH = "extract(epoch FROM t)"
DAY = "date '2024-03-01' + i"


@pytest.mark.parametrize(
    ("expression", "options", "plain"),
    [
        (
            "(t AT TIME ZONE 'America/New_York')::timestamp(0)",
            ("--timezone", "america/new_york"),
            "t",
        ),
        (f"{EPOCH}::int8", (), "t"),
        (f"{EPOCH}::numeric(20, 3)", (), "t"),
        (f"({EPOCH} * 1000)::int8", (), "t"),
        (f"({EPOCH} * 1000000)::int8", (), "t"),
        # fractions of seconds survive
        (f"{EPOCH}::float8 + 0.125 * i", (), "t + i * interval '125 ms'"),
        # days begin at midnight in the zone that was given, also where summer time begins
        (
            DAY,
            ("--timezone", "Europe/Brussels"),
            f"({DAY})::timestamp AT TIME ZONE 'Europe/Brussels'",
        ),
    ],
)
def test_times(database_url: str, expression: str, options: tuple[str, ...], plain: str) -> None:
    _walks(database_url, time=expression)
    _walks(database_url, table="plain", time=plain)
    _add(database_url, *options)
    built = _build(database_url)
    assert built["samples"] == built["rows"] == 240
    assert query(database_url, INSTANTS) == query(
        database_url, "SELECT DISTINCT at FROM plain ORDER BY at"
    )
    if plain == "t":
        assert (built["time_step_us"], built["median_gap_us"]) == (1_000_000, 30_000_000)


@pytest.mark.parametrize(
    ("position", "options", "source_srid", "srid"),
    [
        (f"{POINT}::geometry AS geom", (), 4326, 32650),
        (f"{POINT}::geography(Point, 4326) AS geom", (), 4326, 32650),
        (f"ST_Force3DZ({POINT}, 55)::geometry(PointZ, 4326) AS geom", (), 4326, 32650),
        (f"ST_Transform({POINT}, 3857) AS geom", (), 3857, 32650),
        (f"ST_Transform({POINT}, 32650)::geometry(Point, 32650) AS geom", (), 32650, 32650),
        (f"ST_Transform({POINT}, 32649)::geometry(Point, 32649) AS geom", (), 32649, 32649),
        (f"ST_Transform({POINT}, 4490) AS geom", (), 4490, 32650),
        ("lon::numeric(9, 6) AS x, lat AS y", ("--lon", "x", "--lat", "y"), 4326, 32650),
        ('lon::float8 AS "X", lat AS "Y"', ("--lon", "X", "--lat", '"Y"'), 4326, 32650),
    ],
)
def test_positions(
    database_url: str, position: str, options: tuple[str, ...], source_srid: int, srid: int
) -> None:
    _walks(database_url, position=position)
    assert _add(database_url, *options)["source_srid"] == source_srid
    built = _build(database_url)
    assert (built["samples"], built["source_srid"], built["srid"]) == (240, source_srid, srid)
    # each sample is in the cell of its place, and the release would show that cell's centre
    _walks(database_url, table="plain")
    apart = query(
        database_url,
        """
        SELECT count(*), count(DISTINCT l.location_id),
            max(abs(ST_X(p.m) - l.x_m)), max(abs(ST_Y(p.m) - l.y_m)),
            max(ST_Distance(ST_Transform(l.geom, %s), ST_SetSRID(ST_MakePoint(l.x_m, l.y_m), %s))),
            bool_and(ST_SRID(l.geom) = %s)
        FROM freqdp.sample s
        JOIN freqdp.trajectory t USING (trajectory_id)
        JOIN freqdp.location l USING (location_id)
        JOIN plain w ON w.who = t.object_key AND w.at = s.at
        CROSS JOIN LATERAL (SELECT ST_Transform(w.geom, %s) AS m) p
        """,
        srid,
        srid,
        source_srid,
        srid,
    )
    ((rows, places, dx, dy, moved, same),) = apart
    assert (rows, same) == (240, True)
    assert places == built["locations"] > 50
    # to the tenth of a millimetre: PostGIS and pyproj need not agree in the last bits
    assert max(dx, dy) < 50.0001
    assert moved < 1e-4


@pytest.mark.parametrize(
    "key",
    [
        "(o - 3)::int4",
        "md5(o::text)::uuid",
        "'Ünïcödé \" '' \\ ' || o",
        "(o || '.5')::numeric",
        "o % 2 = 0",
    ],
)
def test_object_keys(database_url: str, key: str) -> None:
    """Every key is one trajectory, found again by its text; none gets lost in numbering."""
    _walks(database_url, object_=key)
    _add(database_url)
    built = _build(database_url)
    keys = query(database_url, "SELECT who::text FROM walks GROUP BY who ORDER BY who")
    assert query(
        database_url, "SELECT object_key FROM freqdp.trajectory ORDER BY object_key"
    ) == sorted(keys)
    assert built["trajectories"] == len(keys)
    assert built["samples"] + sum(built["excluded"].values()) == 240
    found = freqdp(database_url, "release", "find", "--object", keys[0][0]).succeeded()
    assert [(f["dataset"], f["build_id"]) for f in found] == [("d", 1)]
    assert query(
        database_url,
        "SELECT count(*) FROM freqdp.sample s JOIN freqdp.trajectory t USING (trajectory_id) "
        "JOIN walks w ON w.at = s.at AND w.who::text = t.object_key",
    ) == [(built["samples"],)]


_RELATIONS = {
    "materialized": "CREATE MATERIALIZED VIEW materialized AS SELECT * FROM walks",
    "joined": "CREATE VIEW joined AS SELECT w.* FROM walks w JOIN (VALUES ('person 1'), ('person 2'), "
    "('person 3'), ('person 4'), ('person 5'), ('person 6')) k (who) USING (who)",
    "partitioned": "CREATE TABLE partitioned (LIKE walks) PARTITION BY LIST (who); "
    "CREATE TABLE v_1 PARTITION OF partitioned FOR VALUES IN ('person 1'); "
    "CREATE TABLE v_2 PARTITION OF partitioned DEFAULT; INSERT INTO partitioned SELECT * FROM walks",
    "computed": "CREATE VIEW computed AS SELECT (string_to_array(who, ' '))[2]::int AS who, at, "
    "geom::geometry AS geom FROM walks",
}


def test_relations(database_url: str) -> None:
    _walks(database_url)
    for name, statement in _RELATIONS.items():
        query(database_url, statement)
        _add(database_url, source=name, name=name)
        built = _build(database_url, name)
        assert (built["trajectories"], built["samples"]) == (6, 240), name


_CONDITIONS = {
    "who LIKE 'person%' AND who <> '100%'": 6,
    "who IN ('person 1', 'person 2') -- only these": 2,
    "who = 'person 1' OR who = 'person 6'": 2,
    "who ~ '^person [1-5]$' /* and {not} the :sixth */": 5,
    "EXISTS (SELECT FROM generate_series(1, 2) g WHERE walks.who = 'person ' || g)": 2,
}


def test_where(database_url: str) -> None:
    _walks(database_url)
    for n, (condition, objects) in enumerate(_CONDITIONS.items()):
        _add(database_url, "--where", condition, name=f"d{n}")
        built = _build(database_url, f"d{n}")
        assert (built["trajectories"], built["rows"]) == (objects, 40 * objects), condition


def test_cleaning_counts_every_reason_once(database_url: str) -> None:
    query(
        database_url,
        """
        CREATE TABLE walks (who text, at timestamptz, x float8, y float8);
        -- fifty good rows of two objects
        INSERT INTO walks SELECT 'a', timestamptz '2024-05-01' + i * interval '1 min',
            116.3 + 0.001 * i, 39.9 FROM generate_series(1, 30) i;
        INSERT INTO walks SELECT 'b', timestamptz '2024-05-01' + i * interval '1 min',
            116.3, 39.9 + 0.001 * i FROM generate_series(1, 20) i;
        INSERT INTO walks VALUES
            (NULL, '2024-05-02', 116.3, 39.9), (NULL, NULL, NULL, NULL),
            ('a', NULL, 116.3, 39.9), ('a', NULL, NULL, NULL), ('b', NULL, 0, 0),
            ('a', '2024-05-02 01:00', NULL, 39.9), ('a', '2024-05-02 02:00', 116.3, NULL),
            ('a', '2024-05-02 03:00', NULL, NULL), ('a', 'infinity', NULL, 1),
            ('a', 'infinity', 116.3, 39.9), ('a', '-infinity', 116.3, 39.9),
            ('a', '1850-01-01', 116.3, 39.9), ('a', '2300-01-01', 500, 39.9),
            ('a', '1850-01-01', 0, 0),
            ('a', '2024-05-03 01:00', 181, 39.9), ('a', '2024-05-03 02:00', 116.3, -90.5),
            ('a', '2024-05-03 03:00', 'NaN', 39.9), ('a', '2024-05-03 04:00', 116.3, 'Infinity'),
            ('a', '2024-05-03 05:00', 'NaN', 'NaN'),
            ('b', '2024-05-03 06:00', 0, 0), ('b', '2024-05-03 07:00', -0.0, 0),
            -- a quarter of the Earth away: Beijing's UTM zone has no place for it
            ('b', '2024-05-03 08:00', 27, 0.1);
        -- three rows of one instant: p, p, q; four of another: all the same; and one instant of a, of b
        INSERT INTO walks VALUES
            ('b', '2024-05-04 01:00', 116.35, 39.95), ('b', '2024-05-04 01:00', 116.35, 39.95),
            ('b', '2024-05-04 01:00', 116.36, 39.95),
            ('b', '2024-05-04 02:00', 116.35, 39.95), ('b', '2024-05-04 02:00', 116.35, 39.95),
            ('b', '2024-05-04 02:00', 116.35, 39.95), ('b', '2024-05-04 02:00', 116.35, 39.95),
            ('a', '2024-05-04 03:00', 116.35, 39.95), ('b', '2024-05-04 03:00', 116.35, 39.95);
        """,
    )
    _add(database_url, "--lon", "x", "--lat", "y")
    built = _build(database_url)
    assert built["excluded"] == {
        "null_object": 2,
        "null_time": 3,
        "null_position": 4,
        "not_a_point": 0,
        "other_srid": 0,
        "bad_time": 5,
        "bad_position": 5,
        "null_island": 2,
        "outside_projection": 1,
        "repeat": 4,
        "same_instant": 1,
    }
    assert built["samples"] == 50 + 4
    assert built["rows"] == built["samples"] + sum(built["excluded"].values())
    assert built["rows"] == value(database_url, "SELECT count(*) FROM walks")
    # of an instant with several positions the same one is kept on every build: the smallest
    kept = query(
        database_url,
        "SELECT l.x_m FROM freqdp.sample s JOIN freqdp.location l USING (build_id, location_id) "
        "JOIN freqdp.trajectory t USING (build_id, trajectory_id) "
        "WHERE s.at = '2024-05-04 01:00' AND t.object_key = 'b'",
    )
    smallest = value(
        database_url,
        "SELECT floor(ST_X(ST_Transform(ST_SetSRID(ST_MakePoint(116.35, 39.95), 4326), 32650)) / 100)",
    )
    assert kept == [(smallest * 100 + 50,)]


def _metric(url: str, *points: tuple[str, float, float]) -> None:
    """A table of points in metres: EPSG:3413, where coordinates can be negative."""
    query(url, "CREATE TABLE walks (who text, at timestamptz, geom geometry(Point, 3413))")
    for second, (who, x, y) in enumerate(points):
        query(
            url,
            "INSERT INTO walks VALUES (%s, timestamptz '2024-05-01' + make_interval(secs => %s), "
            "ST_SetSRID(ST_MakePoint(%s, %s), 3413))",
            who, second, x, y,
        )  # fmt: skip


PLACES = (
    "SELECT t.object_key, s.seq, l.x_m, l.y_m, ST_X(l.geom), ST_Y(l.geom) FROM freqdp.sample s "
    "JOIN freqdp.trajectory t USING (build_id, trajectory_id) "
    "JOIN freqdp.location l USING (build_id, location_id) ORDER BY 1, 2"
)


@pytest.mark.parametrize("metres", [100.0, 0.5])
def test_snap_grid(database_url: str, metres: float) -> None:
    """Cells are multiples of the metres; a border belongs to the cell above it."""
    points = [(0.01, 0.99), (1.0, 2.5), (-0.01, -1.0), (-3.25, 17.5), (12.0, -0.3)]
    _metric(database_url, *(("a", x * metres, y * metres) for x, y in points))
    _add(database_url, "--snap", f"grid:{metres:g}")
    built = _build(database_url)
    assert built["srid"] == 3413
    centres = [(0.5, 0.5), (1.5, 2.5), (-0.5, -0.5), (-3.5, 17.5), (12.5, -0.5)]
    expected = [
        ("a", seq, x * metres, y * metres, x * metres, y * metres)
        for seq, (x, y) in enumerate(centres, start=1)
    ]
    assert query(database_url, PLACES) == expected


def test_snap_anchors(database_url: str) -> None:
    """The nearest anchor in metres, shown with its own coordinates; others are no locations."""
    query(database_url, 'CREATE TABLE "Road Nodes" (name text, "Place" geometry(Point, 3413))')
    anchors = {"a": (0.125, 0.0), "b": (1000.0, 0.0), "c": (1000.0, 50.0), "d": (-5000.0, 5000.0)}
    for name, (x, y) in anchors.items():
        query(
            database_url,
            'INSERT INTO "Road Nodes" VALUES (%s, ST_SetSRID(ST_MakePoint(%s, %s), 3413))',
            name, x, y,
        )  # fmt: skip
    _metric(
        database_url,
        ("t", 499.0, 7.0),
        ("t", 501.0, 7.0),
        ("t", 1000.0, 24.0),
        ("t", 1000.0, 26.0),
        ("t", 400.0, -300.0),
    )
    _add(database_url, "--snap", 'anchors:public."Road Nodes"')
    assert _build(database_url)["locations"] == 3
    expected = [
        ("t", seq, *anchors[name], *anchors[name])
        for seq, name in enumerate(("a", "b", "b", "c", "a"), start=1)
    ]
    assert query(database_url, PLACES) == expected


def test_snap_anchors_of_another_srid(database_url: str) -> None:
    _walks(database_url)
    query(
        database_url,
        "CREATE TABLE nodes AS SELECT ST_Transform(ST_SetSRID(ST_MakePoint(116.3 + 0.005 * i, "
        "39.9 + 0.005 * j), 4326), 3857) AS geom FROM generate_series(0, 12) i, generate_series(0, 9) j",
    )
    _add(database_url, "--snap", "anchors:nodes")
    _build(database_url)
    # against PostGIS: the nearest node in UTM metres
    wrong = value(
        database_url,
        """
        SELECT count(*) FROM freqdp.sample s JOIN freqdp.trajectory t USING (build_id, trajectory_id)
        JOIN freqdp.location l USING (build_id, location_id)
        JOIN walks w ON w.who = t.object_key AND w.at = s.at
        CROSS JOIN LATERAL (
            SELECT min(ST_Distance(ST_Transform(n.geom, 32650), ST_Transform(w.geom, 32650))) AS d
            FROM nodes n
        ) nearest
        WHERE abs(nearest.d - ST_Distance(
            ST_SetSRID(ST_MakePoint(l.x_m, l.y_m), 32650), ST_Transform(w.geom, 32650))) > 0.001
        """,
    )
    assert wrong == 0
    assert value(database_url, "SELECT count(*) FROM freqdp.sample") == 240


def test_snap_exact_keeps_every_bit(database_url: str) -> None:
    """Coordinates are copied, not computed: what was not edited is in the release as it was."""
    _walks(
        database_url,
        position="ST_SetSRID(ST_MakePoint(lon + random() / 3e4, lat + pi() / 1e5), 4326) AS geom",
    )
    _add(database_url, "--snap", "exact")
    _build(database_url)
    freqdp(
        database_url, "anonymize", "d", "--method", "lg", "--signature", "2", "--as", "r"
    ).succeeded()
    found = query(
        database_url,
        "SELECT count(*), count(*) FILTER (WHERE ST_AsEWKB(r.geom) IN "
        "(SELECT ST_AsEWKB(geom) FROM walks)) FROM freqdp_release.r",
    )
    ((rows, known),) = found
    assert rows == known > 100


def _hundred(url: str, lon: str, lat: str) -> None:
    query(
        url,
        "CREATE TABLE walks AS SELECT 'x' || (i % 5) AS who, now() + i * interval '1 s' AS at, "
        f"ST_SetSRID(ST_MakePoint({lon}, {lat}), 4326) AS geom FROM generate_series(1, 100) i",
    )


def test_across_the_date_line(database_url: str) -> None:
    """179.9 and -179.9 are neighbours in zone 1 or 60; the median of degrees does not know."""
    _hundred(database_url, "CASE WHEN i % 3 = 0 THEN 179.9 ELSE -179.9 END", "-17 + 0.001 * i")
    _add(database_url)
    built = _build(database_url)
    assert (built["srid"], built["samples"]) == (32701, 100)
    assert value(database_url, "SELECT max(x_m) - min(x_m) FROM freqdp.location") < 30_000


def test_rebuild_swaps_and_keeps_what_a_release_needs(city: str) -> None:
    source = fingerprint(city, "demo.city")
    freqdp(city, "anonymize", "city", "--method", "lg", "--as", "first").succeeded()
    assert fingerprint(city, "demo.city") == source
    query(city, "DELETE FROM demo.city WHERE object_id = (SELECT min(object_id) FROM demo.city)")
    second = _build(city, "city")
    assert (second["build_id"], second["trajectories"]) == (2, 39)
    assert value(city, "SELECT count(DISTINCT trajectory_id) FROM freqdp.point_frequency") == 39
    assert _alive(city) == [1, 2]
    verify(city, "first")

    # nobody needs the second one when the third is there
    assert _build(city, "city")["build_id"] == 3
    assert _alive(city) == [1, 3]

    withdraw(city, "first")
    assert _alive(city) == [3]
    assert (
        query(
            city,
            "SELECT relname FROM pg_class WHERE relnamespace = 'freqdp'::regnamespace "
            "AND relname ~ '^(trajectory|location|sample|segment|grid_cell)_[12]$'",
        )
        == []
    )
    # the records stay
    assert query(city, "SELECT build_id FROM freqdp.build ORDER BY 1") == [(1,), (2,), (3,)]


def _alive(url: str) -> list[int]:
    found = query(url, "SELECT build_id FROM freqdp.build WHERE dropped_at IS NULL ORDER BY 1")
    in_tables = query(url, "SELECT DISTINCT build_id FROM freqdp.sample ORDER BY 1")
    assert found == in_tables
    return [row[0] for row in found]


def test_drop_keeps_the_budget(city: str) -> None:
    freqdp(
        city, "anonymize", "city", "--method", "lg", "--epsilon", "1.5", "--as", "kept"
    ).succeeded()
    dropped = freqdp(city, "dataset", "drop", "city").succeeded()
    # the release is published: its build stays
    assert dropped == {"dropped": "city", "builds_removed": [], "releases_published": 1}
    freqdp(city, "dataset", "show", "city").refused("'city'")
    verify(city, "kept")
    again = freqdp(city, *ADD_CITY, "--budget", "100").succeeded()
    assert again["budget_is_new"] is False
    assert _left(again["budget"]) == (4, Decimal("2.5"))
    # so does another dataset on the same objects, whatever else it says
    other = add_city(city, "other", "--snap", "exact", "--where", "object_id <> ''")
    assert _left(other["budget"]) == (4, Decimal("2.5"))
    withdraw(city, "kept")
    assert _alive(city) == []
    assert _left(freqdp(city, "budget", "city").succeeded()) == (4, Decimal("2.5"))


def _left(budget: dict[str, Any]) -> tuple[Decimal, Decimal]:
    return Decimal(budget["granted"]), Decimal(budget["remaining"])


def test_second_build_at_once_is_refused(city: str) -> None:
    with opened(city) as database, hold(database, "dataset", 1, "dataset 'city'"):
        holder = value(
            city,
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'freqdp tests' "
            "AND datname = current_database()",
        )
        for command in ("build", "drop"):
            refusal = freqdp(city, "dataset", command, "city").refused(
                "'city'", str(holder), "tests"
            )
            assert refusal["error"] == "Busy"
    assert _build(city, "city")["build_id"] > 1


def test_a_reader_of_the_old_build_fails_nobody(city: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new build is there at once; the old one goes when nobody looks at it any more."""
    monkeypatch.setattr(builds, "_LOCK_TIMEOUT", "100ms")
    with psycopg.connect(city) as reader:
        reader.execute("SELECT count(*) FROM freqdp.sample")
        assert _build(city, "city")["build_id"] == 2
        assert _alive(city) == [1, 2]
    _build(city, "city")
    assert _alive(city) == [3]


def test_a_release_that_is_being_asked_for_keeps_its_build(city: str) -> None:
    """Recorded but not committed yet: the sweep of a rebuild waits for it, and leaves the build."""
    with opened(city) as database, psycopg.connect(city) as blocker:
        # the ledger writes under this row's lock, after the record and in the same transaction
        blocker.execute("SELECT FROM freqdp.account FOR UPDATE")
        answers: list[Any] = []
        asking = threading.Thread(target=lambda: answers.append(_anonymize(city)))
        asking.start()
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND wait_event_type = 'Lock' AND query LIKE %s"
        )
        wait_for(lambda: value(city, waiting, "%record_release%") == 1, "the request")
        query(city, "UPDATE freqdp.dataset SET current_build = NULL")
        sweeping = threading.Thread(target=builds.sweep_builds, args=(database,))
        sweeping.start()
        wait_for(lambda: value(city, waiting, "%FOR UPDATE%") == 1, "the sweep")
        blocker.rollback()
        asking.join()
        sweeping.join()
    assert answers == ["published"]
    assert _alive(city) == [1]


def _anonymize(url: str) -> str:
    """`anonymize` as a library call: two threads cannot both redirect stdout."""
    with opened(url) as database:
        dataset = find_dataset(database, "city")
        return anonymize(
            database, dataset, JobRequest(Request.parse("lg")), Progress()
        ).release.state


def _brussels(url: str, time: str = "t") -> None:
    query(
        url,
        f"CREATE TABLE vans AS SELECT o AS who, {time} AS at, 4.35 + 0.001 * i AS lon, "
        "50.85 + 0.001 * o AS lat FROM generate_series(1, 6) o, generate_series(1, 40) i, "
        "LATERAL (SELECT timestamptz '2024-05-01 08:00+00' + make_interval(secs => 30 * i) AS t) x",
    )


def test_a_build_says_where_and_when(database_url: str) -> None:
    _brussels(database_url, time="(1000 * extract(epoch FROM t))::bigint")
    _add(database_url, "--lon", "lon", "--lat", "lat", source="public.vans")
    found = _build(database_url)["findings"]
    # outwards, to hundredths of a degree
    assert found["extent"] == {"west": 4.35, "south": 50.85, "east": 4.40, "north": 50.86}
    assert found["near"] == "Europe/Brussels"
    assert found["epoch_unit"] == "milliseconds"
    assert found["first_at"].startswith("2024-05-01T08:00:30")
    assert found["warnings"] == []


POSITION = ("--lon", "lon", "--lat", "lat")
SWAPPED = ("--lon", "lat", "--lat", "lon")


@pytest.mark.parametrize(
    ("changed", "options", "said"),
    [
        # the columns say what they hold, and were given the wrong way round
        ("", SWAPPED, ["called the other way round"]),
        # the data themselves are swapped
        ("SET lon = lat, lat = lon", POSITION, ["longitude and latitude look swapped"]),
        ("SET lon = lat, lat = lon", (*POSITION, "--timezone", "Europe/Paris"), ["Europe/Paris"]),
        (
            "SET lon = lat, lat = lon",
            (*POSITION, "--region", "4,50,5,51"),
            ["swapped", "lie outside region 4,50,5,51, most of them inside if"],
        ),
        ("", (*POSITION, "--region", "4,50,4.37,51"), ["lie outside region 4,50,4.37,51"]),
        # people go on holidays
        (
            "SET lon = lon + 20 WHERE who = 1 AND lon > 4.38",
            POSITION,
            ["10 samples (4.2%) lie more than 6 degrees of longitude from the middle of UTM zone "
             "32631, up to 21: distances there are up to 3% too long. Leave"],
        ),
        (
            "SET lon = lon + 20 * who * who WHERE who < 3 AND lon > 4.38",
            POSITION,
            ["20 samples (8.3%) lie more than 6 degrees of longitude from the middle of UTM zone "
             "32631, up to 81: distances there are up to 3% too long, those of 10 beyond 30 degrees say "
             "nothing. Leave"],
        ),
        (
            "SET at = at + CASE WHEN lon > 4.38 THEN interval '90 years' WHEN lon < 4.355 "
            "THEN interval '-50 years' ELSE '0' END",
            POSITION,
            ["60 samples lie in the future", "24 samples are older than 1980"],
        ),
    ],
)  # fmt: skip
def test_a_build_warns(
    database_url: str, changed: str, options: tuple[str, ...], said: list[str]
) -> None:
    _brussels(database_url)
    if changed:
        query(database_url, f"UPDATE vans {changed}")
    _add(database_url, *options, source="public.vans")
    warnings = _build(database_url)["findings"]["warnings"]
    assert len(warnings) == len(said)
    assert all(words in warning for words, warning in zip(said, warnings, strict=True)), warnings


def test_a_build_warns_of_an_object_that_is_too_many(database_url: str) -> None:
    _brussels(database_url)
    query(
        database_url,
        "INSERT INTO vans SELECT 0, at + make_interval(days => d), lon, lat FROM vans, "
        "generate_series(1, 20) d WHERE who = 1",
    )
    _add(database_url, *POSITION, source="public.vans")
    (warning,) = _build(database_url)["findings"]["warnings"]
    assert warning.startswith("one of 7 objects has 77% of all samples: check that object")


@pytest.mark.parametrize(
    ("source", "column"),
    [
        ('"Fleet"."Ping"', '"When"'),
        # as SQL reads them
        ("FLEET.OTHER", "WHEN"),
    ],
)
def test_names_fold_by_one_rule(database_url: str, source: str, column: str) -> None:
    for schema, table, when in (('"Fleet"', '"Ping"', '"When"'), ("fleet", "other", '"when"')):
        query(
            database_url,
            f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.{table} AS SELECT 1 AS who, now() AS "
            f"{when}, 4.5 AS lon, 50.5 AS lat",
        )
    _add(database_url, "--lon", "LON", "--lat", "lat", "--time", column, source=source)
    listed = _lines(database_url, "dataset", "list")[1].split()[1]
    assert listed == ('"Fleet"."Ping"' if "Ping" in source else "fleet.other")
    freqdp(database_url, "dataset", "drop", "d").succeeded()
    _add(database_url, "--lon", "lon", "--lat", "lat", "--time", column, source=listed)
    assert f"source    {listed}" in _lines(database_url, "dataset", "show", "d")
    assert _lines(database_url, "budget", "d")[0].startswith(
        f"Budget for one occurrence (objects: column who of {listed}): epsilon 0 of 10 spent"
    )


def test_show_says_what_is_public_and_whose_budgets(database_url: str) -> None:
    query(database_url, "CREATE TABLE p AS SELECT 1 AS who, now() AS t, 4.5 AS lon, 50.5 AS lat")
    _add(database_url, "--lon", "lon", "--lat", "lat", "--time", "t", source="public.p")
    facts = ("--region", "4,50,5,51", "--period", "2024-01-01/2024-01-08")
    (said,) = _lines(database_url, "dataset", "set", "d", *facts)
    assert said.endswith("Next: freqdp dataset build d")
    shown = _lines(database_url, "dataset", "show", "d")
    assert "region    4,50,5,51" in shown
    assert "period    2024-01-01T00:00:00+00:00/2024-01-08T00:00:00+00:00" in shown
    budgets = [line for line in shown if line.startswith("budget")]
    assert [line.split(": ")[-2] for line in budgets] == [
        "column who of public.p)",
        "budget    for one who (column who of public.p)",
    ]


def _lines(url: str, *arguments: str) -> list[str]:
    """What a person reads."""
    return freqdp(url, *arguments, in_words=True).out.splitlines()


def test_projected_columns(database_url: str) -> None:
    srid = 3857
    for column, function in (("x", "ST_X"), ("y", "ST_Y")):
        query(database_url, f"CREATE FUNCTION p_{column}(lon float8, lat float8) RETURNS float8 "
              f"RETURN {function}(ST_Transform({POINT}, {srid}))")  # fmt: skip
    _walks(database_url, position="p_x(lon, lat) AS east, p_y(lon, lat) AS north")
    _walks(database_url, table="degrees")
    _add(database_url, "--x", "east", "--y", "north", "--srid", str(srid))
    built = _build(database_url)
    assert (built["source_srid"], built["srid"]) == (srid, 32650)
    assert built["findings"]["extent"]["west"] == pytest.approx(116.3, abs=0.01)
    _add(database_url, source="degrees", name="e")
    same = _build(database_url, "e")
    assert (built["locations"], built["samples"]) == (same["locations"], same["samples"])
    made = freqdp(database_url, "anonymize", "d", "--method", "swap").succeeded()
    assert value(database_url, f"SELECT ST_SRID(geom) FROM {made['table']} LIMIT 1") == srid


def test_builds_by_size(city: str) -> None:
    (build,) = freqdp(city, "dataset", "builds").succeeded()
    assert (build["dataset"], build["current"], build["releases"]) == ("city", True, [])
    assert build["bytes"] == value(
        city,
        "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relkind = 'r' AND relname ~ "
        "'^(trajectory|location|sample|segment|grid_cell)_1$'",
    )
    assert build["bytes"] > 100_000
    assert "kept for" in freqdp(city, "dataset", "builds", in_words=True).out
