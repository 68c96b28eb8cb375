"""What PostGIS tells of tables to those who may not read them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from library import make_points
from servers import clone_of, filled_once
from world import anonymize, freqdp, query, session_of, verify

POINTS = [(f"o{i % 6}", 60.0 * i, 100.0 * (i * 7 % 23), 100.0 * (i * 5 % 11)) for i in range(600)]
ADD = ("dataset", "add", "d", "--from", "world.points", "--object", "object", "--time", "at",
       "--geom", "geom", "--snap", "grid:100")  # fmt: skip
# tables of ours with a geometry: of builds, of a release that is held, of one that is granted
PRIVATE = ["freqdp.location_1", "freqdp.segment_1", "freqdp.location", "freqdp.segment"]
HELD = ["freqdp_release.d_1", "freqdp_release.d_1_line"]
GRANTED = ["freqdp_release.d_2", "freqdp_release.d_2_line"]
_BOX = "public.ST_MakeEnvelope(500000, 4000000, 501000, 4000500, 32631)"


def _release(url: str) -> None:
    make_points(url, "points", POINTS)
    query(url, "CREATE INDEX ON world.points USING gist (geom)")
    query(url, "ANALYZE world.points")
    freqdp(url, *ADD).succeeded()
    freqdp(url, "dataset", "build", "d").succeeded()
    anonymize(url, "d", "lg", "--signature", "2", "--hold")
    anonymize(url, "d", "lg", "--signature", "2", "--new-draw")
    # as autovacuum would
    for relation in (*PRIVATE, *HELD, *GRANTED):
        query(url, f"ANALYZE {relation}")


estimated_db = filled_once("estimated", _release)
world = clone_of("estimated_db")


@pytest.fixture(params=[("freqdp_analyst",), ()])
def outsider(world: str, request: pytest.FixtureRequest) -> Iterator[psycopg.Connection]:
    """An analyst, and a login without any right."""
    with session_of(world, *request.param) as session:
        yield session


def _told(session: psycopg.Connection, relation: str) -> list[str]:
    """Which of PostGIS's functions tell something about a table; its number is nobody's secret."""
    schema, name = relation.split(".")
    row = session.execute(
        "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = %s",
        [schema, name],
    ).fetchone()
    assert row is not None
    told = []
    for call in (
        f"_postgis_selectivity({row[0]}::regclass, 'geom', {_BOX})",
        f"_postgis_stats({row[0]}::regclass, 'geom')",
        f"_postgis_index_extent({row[0]}::regclass, 'geom')",
        f"ST_EstimatedExtent('{schema}', '{name}', 'geom')",
    ):
        try:
            found = session.execute(f"SELECT public.{call}".encode()).fetchone()
        except (psycopg.errors.InternalError, psycopg.errors.InsufficientPrivilege) as error:
            # "stats for ... do not exist", or the function was revoked
            assert "regclass" not in str(error) and "schema" not in str(error), error
            continue
        if found is not None and found[0] is not None:
            told.append(call.partition("(")[0])
    return told


EVERYTHING = [
    "_postgis_selectivity", "_postgis_stats", "_postgis_index_extent", "ST_EstimatedExtent"
]  # fmt: skip
EXTENT = EVERYTHING[2:]


def test_private_tables_and_held_releases_have_no_statistics(outsider: psycopg.Connection) -> None:
    assert _told(outsider, "world.points") == EVERYTHING, "these functions tell nothing at all here"
    for relation in PRIVATE:
        assert _told(outsider, relation) == [], relation
    for relation in HELD:
        # the extent is told by its GiST index; where rows lie inside of it is not
        assert _told(outsider, relation) == EXTENT, relation
    for relation in GRANTED:
        assert _told(outsider, relation) == EVERYTHING, relation


def test_approval_makes_statistics(world: str) -> None:
    statistics = (
        "SELECT count(*) FROM pg_stats WHERE schemaname = 'freqdp_release' AND tablename = 'd_1' "
        "AND attname = 'geom'"
    )
    assert query(world, statistics) == [(0,)]
    freqdp(world, "release", "approve", "d_1").succeeded()
    assert query(world, statistics) == [(1,)]


def test_what_init_prints_closes_it(world: str, outsider: psycopg.Connection) -> None:
    found = freqdp(world, "doctor").document["findings"]
    (told,) = [f for f in found if f["advice"]]
    assert "_postgis_selectivity" in told["what"] and "init --sql" in told["remedy"]
    script = freqdp(world, "init", "--sql", in_words=True).out
    optional = script.rpartition("COMMIT;")[2]
    assert optional.count("REVOKE") == 1
    statement = "\n".join(line.removeprefix("-- ") for line in optional.splitlines())
    query(world, "DO" + statement.partition("\nDO")[2])
    for relation in ("world.points", *PRIVATE, *HELD, *GRANTED):
        assert _told(outsider, relation) == []
    assert not any(f["advice"] for f in freqdp(world, "doctor").document["findings"])
    # planning, and all that we do, goes on
    anonymize(world, "d", "lg", "--signature", "2", "--new-draw")
    verify(world, "d_3")
