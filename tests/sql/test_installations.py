"""Installations of all kinds: other schema names, another PostGIS, fewer rights."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from installed import OURS, POINTS, check_tables, query, roles_dropped, whole_job
from library import METRIC_SRID, make_points, opened
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from servers import SharedServer, cloned
from world import freqdp

from freqdp_db import errors
from freqdp_db.db import schema


def test_postgis_in_another_schema(shared_server: SharedServer) -> None:
    with cloned(shared_server.get(), "template0") as url:
        query(url, "CREATE SCHEMA gis")
        query(url, "CREATE EXTENSION postgis SCHEMA gis")
        relation = make_points(url, "points", POINTS, postgis="gis")
        with opened(url) as database:
            assert schema.upgrade(database).created
            check_tables(database)
            whole_job(database, relation)
            assert not schema.upgrade(database).changed
        near = "SELECT count(*) FROM freqdp.nearest_trajectories('job', gis.ST_SetSRID(%s, %s), 3, false)"
        place = "gis.ST_MakePoint(500000, 4000000)"
        assert query(url, near % (place, METRIC_SRID)) == [(3,)]


def test_other_schema_names(empty_database_url: str) -> None:
    names = ('we"ird :x $1 \\', "semi;colon' -- {}")
    own = {"schema": names[0], "release_schema": names[1]}
    relation = make_points(empty_database_url, "points", POINTS)
    with opened(empty_database_url, **own) as database, roles_dropped(database):
        assert schema.upgrade(database).created
        schema.require_current(database)
        whole_job(database, relation)
        assert not schema.upgrade(database).changed
        # two installations live side by side
        with opened(empty_database_url) as other:
            assert schema.upgrade(other).created
            whole_job(other, relation)
        schema.require_current(database)
    found = query(
        empty_database_url,
        "SELECT count(*) FROM pg_namespace n WHERE " + OURS,
        private=names[0],
        release=names[1],
    )
    assert found == [(2,)]


def test_two_at_once(empty_database_url: str) -> None:
    """The second waits for the first, and finds nothing to do: without a lock that others could take."""
    with (
        opened(empty_database_url) as first,
        opened(empty_database_url) as second,
        ThreadPoolExecutor(2) as pool,
    ):
        for made in (1, 0):
            found = list(pool.map(schema.upgrade, (first, second)))
            assert sum(result.created for result in found) == made
        query(empty_database_url, "UPDATE freqdp.sql_object SET hash = 'older'")
        found = list(pool.map(schema.upgrade, (first, second)))
        assert sum(bool(result.objects_changed) for result in found) == 1
        schema.require_current(first)


@pytest.fixture
def owner_url(shared_server: SharedServer, empty_database_url: str) -> Iterator[str]:
    """A database whose owner may do anything in it, but create no roles."""
    role = "freqdp_test_owner"
    name = conninfo_to_dict(empty_database_url)["dbname"]
    # roles are the whole server's: this one and those of the schema `alone` are one test's at a time
    with shared_server.locked(role):
        query(empty_database_url, f"DROP ROLE IF EXISTS {role}")
        query(empty_database_url, f"CREATE ROLE {role} NOLOGIN")
        query(empty_database_url, f'ALTER DATABASE "{name}" OWNER TO {role}')
        try:
            yield make_conninfo(empty_database_url, options=f"-c role={role}")
        finally:
            query(empty_database_url, f"DROP OWNED BY {role}")
            query(empty_database_url, f'ALTER DATABASE "{name}" OWNER TO CURRENT_USER')
            query(empty_database_url, f"DROP ROLE {role}")


def test_without_the_right_to_create_roles(owner_url: str) -> None:
    """The job works; the roles are named as missing; insisting on them is refused with a way out."""
    roles = [f"alone_{kind}" for kind in ("admin", "runner", "analyst", "auditor")]
    with opened(owner_url, schema="alone", release_schema="alone_release") as database:
        result = schema.upgrade(database)
        assert result.created and result.roles_missing == roles and not result.roles_created
        schema.require_current(database)
        again = schema.upgrade(database)
        assert not again.changed and again.roles_missing == roles
        with pytest.raises(errors.PermissionMissing) as caught:
            schema.upgrade(database, require_roles=True)
        assert "alone_analyst" in caught.value.message
        assert "init --sql" in (caught.value.remedy or "")
        whole_job(database, make_points(owner_url, "points", POINTS))
        ((usable,),) = query(
            owner_url,
            "SELECT count(*) FROM pg_namespace n, aclexplode(n.nspacl) a "
            "WHERE nspname LIKE 'alone%' AND a.grantee = 0",
        )
        assert usable == 0, "what is private is nobody else's all the same"


def test_roles_come_later(shared_server: SharedServer, empty_database_url: str) -> None:
    """Once somebody may create them, `init` makes and grants the roles that were missing."""
    own = {"schema": "later", "release_schema": "later_release"}
    with opened(empty_database_url, **own) as database, roles_dropped(database):
        created = schema.upgrade(database)
        assert len(created.roles_created) == 4
        query(empty_database_url, "DROP OWNED BY later_auditor")
        query(empty_database_url, "DROP ROLE later_auditor")
        result = schema.upgrade(database)
        assert result.changed and result.roles_created == ["later_auditor"]
        ((may,),) = query(
            empty_database_url,
            "SELECT has_table_privilege('later_auditor', 'later.spend', 'SELECT')",
        )
        assert may


def _owners(url: str) -> set[str]:
    """Whose the relations and functions of both schemas are."""
    rows = query(
        url,
        "SELECT DISTINCT pg_get_userbyid(o.owner)::text FROM ("
        "SELECT relowner, relnamespace FROM pg_class UNION ALL "
        "SELECT proowner, pronamespace FROM pg_proc UNION ALL SELECT nspowner, oid FROM pg_namespace"
        ") AS o (owner, schema) WHERE o.schema IN ('alone'::regnamespace, 'alone_release'::regnamespace)",
    )
    return {owner for (owner,) in rows}


def _printed(url: str, *options: str) -> str:
    names = ("--schema", "alone", "--release-schema", "alone_release")
    return freqdp(url, *names, "init", "--sql", *options, in_words=True).out


def _doctor(url: str) -> list[dict[str, Any]]:
    names = ("--schema", "alone", "--release-schema", "alone_release")
    findings: list[dict[str, Any]] = freqdp(url, *names, "doctor").document["findings"]
    return findings


def _may(url: str, role: str) -> bool:
    ((may,),) = query(url, f"SELECT has_table_privilege('alone_{role}', 'alone.release', 'SELECT')")
    return bool(may)


@pytest.mark.parametrize("options", [("--roles",), ()])
def test_a_dba_makes_the_roles_of_somebody_elses_schema(
    owner_url: str, empty_database_url: str, options: tuple[str, ...]
) -> None:
    """By the script of the roles, or by the whole one: all stays the owner's, whose `init` goes on."""
    own = {"schema": "alone", "release_schema": "alone_release"}
    with opened(owner_url, **own) as database:
        assert schema.upgrade(database).roles_missing
        script = _printed(owner_url, *options)
        assert ("CREATE FUNCTION" in script) == (not options)
        with roles_dropped(database, empty_database_url):
            query(empty_database_url, script)
            assert _owners(owner_url) == {"freqdp_test_owner"}
            assert _may(owner_url, "runner") == (not options)
            assert schema.upgrade(database).roles_missing == []
            assert _may(owner_url, "runner") and _may(owner_url, "auditor")
            assert not schema.upgrade(database).changed
            # again, and by `init` of the DBA's
            query(empty_database_url, _printed(owner_url, *options))
            with opened(empty_database_url, **own) as by_dba:
                query(owner_url, "UPDATE alone.sql_object SET hash = 'old' WHERE position = 0")
                assert schema.upgrade(by_dba, require_roles=True).changed
            assert _owners(owner_url) == {"freqdp_test_owner"}
            schema.require_current(database)
            query(owner_url, "UPDATE alone.sql_object SET hash = 'old' WHERE position = 0")
            assert schema.upgrade(database).changed
            whole_job(database, make_points(owner_url, "points", POINTS))
            assert _owners(owner_url) == {"freqdp_test_owner"}


def test_what_others_took_comes_back(owner_url: str, empty_database_url: str) -> None:
    """Functions that a DBA's script of an older version made, and tables that runners owned."""
    own = {"schema": "alone", "release_schema": "alone_release"}
    with opened(owner_url, **own) as database, opened(empty_database_url, **own) as by_dba:
        schema.upgrade(database)
        with roles_dropped(database, empty_database_url):
            query(empty_database_url, _printed(owner_url, "--roles"))
            schema.upgrade(database)
            whole_job(database, make_points(owner_url, "points", POINTS))
            for relation in ("alone.sample", "alone.sample_1", "alone_release.job_1"):
                query(empty_database_url, f"ALTER TABLE {relation} OWNER TO alone_runner")
            query(empty_database_url, "ALTER FUNCTION alone.book_spend OWNER TO CURRENT_USER")
            query(empty_database_url, "ALTER VIEW alone.budget OWNER TO CURRENT_USER")
            assert len(_owners(owner_url)) == 3
            (told,) = [f for f in _doctor(owner_url) if "alone.sample_1" in f["what"]]
            assert not told["ok"] and "alone.book_spend(integer,text)" in told["what"]
            with pytest.raises(errors.PermissionMissing, match="alone_runner"):
                schema.upgrade(database)
            query(empty_database_url, "ALTER TABLE alone.sample ALTER COLUMN seq SET DEFAULT 1")
            with pytest.raises(errors.BadInput, match=r"alone\.sample\S* has a"):
                schema.upgrade(by_dba)
            query(empty_database_url, "ALTER TABLE alone.sample ALTER COLUMN seq DROP DEFAULT")
            assert schema.upgrade(by_dba).changed
            assert _owners(owner_url) == {"freqdp_test_owner"}
            assert not schema.upgrade(database).changed
            assert all("belong to others" not in f["what"] for f in _doctor(owner_url))


def test_init_by_a_stranger_is_refused(owner_url: str, empty_database_url: str) -> None:
    own = {"schema": "alone", "release_schema": "alone_release"}
    with opened(owner_url, **own) as database:
        schema.upgrade(database)
    query(empty_database_url, "CREATE ROLE freqdp_test_stranger NOLOGIN")
    try:
        query(empty_database_url, "GRANT USAGE ON SCHEMA alone TO freqdp_test_stranger")
        query(
            empty_database_url, "GRANT SELECT ON ALL TABLES IN SCHEMA alone TO freqdp_test_stranger"
        )
        query(owner_url, "UPDATE alone.sql_object SET hash = 'old' WHERE position = 0")
        stranger = make_conninfo(empty_database_url, options="-c role=freqdp_test_stranger")
        with opened(stranger, **own) as database, pytest.raises(errors.PermissionMissing) as caught:
            schema.upgrade(database)
        assert "freqdp_test_owner" in caught.value.message + (caught.value.remedy or "")
    finally:
        query(empty_database_url, "DROP OWNED BY freqdp_test_stranger")
        query(empty_database_url, "DROP ROLE freqdp_test_stranger")


def test_no_postgis_is_refused(shared_server: SharedServer) -> None:
    with cloned(shared_server.get(), "template0") as url, opened(url) as database:
        with pytest.raises(errors.PermissionMissing) as caught:
            schema.upgrade(database)
        assert "CREATE EXTENSION postgis" in (caught.value.remedy or "")
        assert query(url, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'freqdp%'") == [
            (0,)
        ]
