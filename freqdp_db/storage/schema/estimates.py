"""PostGIS's functions that tell what it knows of any table, without asking for a right on it.

The statistics of a geometry column are a histogram of where its rows lie, and the root of a GiST index is
their extent. Tables of ours that are not granted keep no such statistics. Those of the source are its
owner's: only the owner of PostGIS can close the functions.
"""

from __future__ import annotations

import sqlalchemy as sa

from freqdp_db.storage.connection.engine import Connection
from freqdp_db.storage.schema.objects import literal, render
from freqdp_db.storage.schema.tables import Names

_FUNCTIONS = (
    "_postgis_selectivity", "_postgis_join_selectivity", "_postgis_stats", "_postgis_index_extent",
    "st_estimatedextent",
)  # fmt: skip


def open_estimates(connection: Connection, postgis: str) -> list[str]:
    """The names of those of the functions that everybody may call."""
    found = connection.execute(
        sa.text(
            "SELECT DISTINCT p.proname::text FROM pg_proc p JOIN pg_namespace n "
            "ON n.oid = p.pronamespace WHERE n.nspname = :postgis AND p.proname = ANY(:names) "
            "AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a "
            "WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE') ORDER BY 1"
        ),
        {"postgis": postgis, "names": list(_FUNCTIONS)},
    )
    return list(found.scalars())


def estimates_closed(names: Names) -> str:
    """A statement that takes them from everybody, as a comment: whoever may run it decides."""
    text = """DO $close$
DECLARE
    item pg_catalog.regprocedure;
BEGIN
    FOR item IN
        SELECT p.oid FROM pg_catalog.pg_proc AS p
        JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
        WHERE n.nspname = ${postgis:name} AND p.proname IN (%s)
    LOOP
        EXECUTE pg_catalog.format('REVOKE EXECUTE ON FUNCTION %%s FROM PUBLIC', item);
    END LOOP;
END $close$;"""
    statement = render(text % ", ".join(map(literal, _FUNCTIONS)), names)
    return "\n".join(f"-- {line}" for line in statement.splitlines())
