"""Where PostGIS is: its functions and types are always named with their schema."""

from __future__ import annotations

import sqlalchemy as sa
from psycopg import sql

from freqdp_db.errors import PermissionMissing

_TRUSTED = sa.text(
    """
    WITH postgis AS (
        SELECT n.oid, n.nspname, n.nspacl, n.nspowner, e.extowner FROM pg_extension e
        JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'postgis'
    ), trusted AS (
        SELECT r.oid FROM pg_roles r, postgis p WHERE r.rolsuper OR r.oid IN (p.nspowner, p.extowner)
        OR r.oid = (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
    )
    SELECT p.nspname FROM postgis p
    WHERE NOT EXISTS (SELECT FROM aclexplode(coalesce(p.nspacl, acldefault('n', p.nspowner))) a
            WHERE a.privilege_type = 'CREATE' AND a.grantee NOT IN (SELECT oid FROM trusted))
        AND NOT EXISTS (SELECT FROM pg_proc f
            WHERE f.pronamespace = p.oid AND f.proowner NOT IN (SELECT oid FROM trusted))
        AND NOT EXISTS (SELECT FROM pg_operator o
            WHERE o.oprnamespace = p.oid AND o.oprowner NOT IN (SELECT oid FROM trusted))
    """
)


def find_postgis(connection: sa.Connection) -> str | None:
    """The schema that PostGIS is installed in."""
    found: str | None = connection.execute(
        sa.text(
            "SELECT n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n "
            "ON n.oid = e.extnamespace WHERE e.extname = 'postgis'"
        )
    ).scalar()
    return found


def postgis_schema(connection: sa.Connection) -> str:
    """The same, or a refusal."""
    found = find_postgis(connection)
    if found is None:
        raise PermissionMissing(
            "this database has no PostGIS",
            remedy="as a superuser or the database's owner: CREATE EXTENSION postgis",
        )
    return found


def trusted_postgis(connection: sa.Connection) -> str | None:
    """The schema of PostGIS, if nobody but superusers and owners makes functions and operators there.

    None: somebody else may, or did: what is called there without its schema could be theirs.
    """
    found: str | None = connection.execute(_TRUSTED).scalar()
    return found


def geometry_type(postgis: str, kind: str, srid: int) -> sql.Composed:
    """The type of a column of such geometries: Point, LineString, ..."""
    return sql.SQL("{}({}, {})").format(
        sql.Identifier(postgis, "geometry"), sql.SQL(kind), sql.Literal(srid)
    )
