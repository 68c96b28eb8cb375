"""Columns that samples carry along: from the source through a build into releases, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from servers import SharedServer, clone_of, cloned
from world import anonymize, freqdp, query, value, verify

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
"""
# who has too few beside them: the recumbents, and thirteen others, so that NULL does not tell these
LEFT_OUT = """(s.bike = 'recumbent' OR (s.bike, s."Fare", s.member) = ('cargo', 1, false))"""
ADD = ("--from", "fleet.ride", "--object", "rider", "--time", "at", "--geom", "geom")
KEPT = ("--keep-columns", 'bike, "Fare",member')
# the value that the source has where and when a released sample is: the clock moves no time further
TRUE = """
SELECT count(*), count(*) FILTER (WHERE EXISTS (
    SELECT FROM fleet.ride AS s
    WHERE abs(extract(epoch FROM s.at - r.sampled_at)) <= 30
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
