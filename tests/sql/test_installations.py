"""Installations of all kinds: other schema names, another PostGIS, fewer rights."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from installed import OURS, POINTS, query, roles_dropped, whole_job
from library import make_points, opened
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from servers import SharedServer, cloned

from freqdp_db import errors
from freqdp_db.settings import load_settings
from freqdp_db.storage.schema import upgrade as schema


def test_postgis_in_another_schema(shared_server: SharedServer) -> None:
    with cloned(shared_server.get(), "template0") as url:
        query(url, "CREATE SCHEMA gis")
        query(url, "CREATE EXTENSION postgis SCHEMA gis")
        relation = make_points(url, "points", POINTS, postgis="gis")
        with opened(url) as database:
            assert schema.upgrade(database).created
            schema.check(database)
            whole_job(database, relation)
            assert not schema.upgrade(database).changed


@pytest.mark.parametrize(
    "names",
    [("privé", "Released Things"), ('we"ird :x $1 \\', "semi;colon' -- {}")],
    ids=["plain", "odd"],
)
def test_other_schema_names(empty_database_url: str, names: tuple[str, str]) -> None:
    own = {"schema": names[0], "release_schema": names[1]}
    relation = make_points(empty_database_url, "points", POINTS)
    with opened(empty_database_url, **own) as database, roles_dropped(database):
        assert schema.upgrade(database).created
        schema.require_current(database)
        if ":" not in names[0]:  # GeoAlchemy2's reflection reads it as a parameter
            schema.check(database)
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


@pytest.mark.parametrize("name", ["100%", "a%s", "public", "pg_mine", "x" * 55, "a\0b"])
def test_unusable_schema_names_are_refused(name: str) -> None:
    for variable in ("FREQDP_SCHEMA", "FREQDP_RELEASE_SCHEMA"):
        with pytest.raises(errors.BadInput) as caught:
            load_settings({variable: name})
        assert caught.value.remedy


@pytest.fixture
def owner_url(shared_server: SharedServer, empty_database_url: str) -> Iterator[str]:
    """A database whose owner may do anything in it, but create no roles."""
    role = "freqdp_test_owner"
    with psycopg.connect(shared_server.get().dsn, autocommit=True) as connection:
        connection.execute(f"DROP ROLE IF EXISTS {role}".encode())
        connection.execute(f"CREATE ROLE {role} NOLOGIN".encode())
    name = conninfo_to_dict(empty_database_url)["dbname"]
    query(empty_database_url, f'ALTER DATABASE "{name}" OWNER TO {role}')
    try:
        yield make_conninfo(empty_database_url, options=f"-c role={role}")
    finally:
        query(empty_database_url, f"DROP OWNED BY {role}")
        query(empty_database_url, f'ALTER DATABASE "{name}" OWNER TO CURRENT_USER')
        with psycopg.connect(shared_server.get().dsn, autocommit=True) as connection:
            connection.execute(f"DROP ROLE {role}".encode())


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


def test_no_postgis_is_refused(shared_server: SharedServer) -> None:
    with cloned(shared_server.get(), "template0") as url, opened(url) as database:
        with pytest.raises(errors.PermissionMissing) as caught:
            schema.upgrade(database)
        assert "CREATE EXTENSION postgis" in (caught.value.remedy or "")
        assert query(url, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'freqdp%'") == [
            (0,)
        ]
