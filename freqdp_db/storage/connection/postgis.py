"""Where PostGIS is: its functions and types are always named with their schema."""

from __future__ import annotations

import sqlalchemy as sa
from psycopg import sql

from freqdp_db.errors import PermissionMissing


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


def geometry_type(postgis: str, kind: str, srid: int) -> sql.Composed:
    """The type of a column of such geometries: Point, LineString, ..."""
    return sql.SQL("{}({}, {})").format(
        sql.Identifier(postgis, "geometry"), sql.SQL(kind), sql.Literal(srid)
    )
