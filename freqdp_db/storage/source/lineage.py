"""Where the rows of a relation come from: the tables behind views, and what partitions belong to.

PostgreSQL records what a view reads. It does not record what a foreign table, a function or a copy
was made from: the first two are named, the last looks like any other table.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from freqdp_db.storage.connection.engine import Connection, driver

# Views lead to what they read, partitions and children to their parents; what belongs to an
# extension, such as spatial_ref_sys, is nobody's data.
_BEHIND = sql.SQL(
    """
    WITH RECURSIVE behind (oid) AS (
        SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %(schema)s AND c.relname = %(name)s
      UNION
        SELECT next.oid FROM behind, LATERAL (
            SELECT d.refobjid FROM pg_class v
            JOIN pg_rewrite w ON w.ev_class = v.oid
            JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
                AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> v.oid
            WHERE v.oid = behind.oid AND v.relkind IN ('v', 'm')
              UNION ALL
            SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = behind.oid
        ) AS next (oid)
    )
    """
)
_TABLES = _BEHIND + sql.SQL(
    """
    SELECT c.oid, EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND NOT a.attisdropped
            AND a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype)
    ) AS has_times
    FROM behind JOIN pg_class c USING (oid)
    WHERE c.relkind IN ('r', 'p', 'f') AND c.relnamespace <> 'pg_catalog'::regnamespace
        AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_class'::regclass
            AND e.objid = c.oid AND e.deptype = 'e')
    """
)
_UNTRACED = _BEHIND + sql.SQL(
    """
    SELECT 'the foreign table ' || c.oid::regclass AS what
    FROM behind JOIN pg_class c USING (oid) WHERE c.relkind = 'f'
      UNION
    SELECT 'the function ' || p.oid::regprocedure
    FROM behind
    JOIN pg_rewrite w ON w.ev_class = behind.oid
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
        AND d.refclassid = 'pg_proc'::regclass
    JOIN pg_proc p ON p.oid = d.refobjid
    WHERE p.pronamespace <> 'pg_catalog'::regnamespace
        AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass
            AND e.objid = p.oid AND e.deptype = 'e')
    ORDER BY 1
    """
)


@dataclass(frozen=True)
class Lineage:
    """The tables that a relation's rows come from, by their numbers."""

    tables: frozenset[int]

    def meets(self, other: Lineage) -> bool:
        return bool(self.tables & other.tables)


def lineage(connection: Connection, schema: str, name: str) -> Lineage:
    """The tables behind a relation.

    Tables without a time, such as districts or kinds of vehicles, hold no trajectories; they count
    only if there is no other.
    """
    found = driver(connection).execute(_TABLES, {"schema": schema, "name": name}).fetchall()
    timed = frozenset(oid for oid, has_times in found if has_times)
    return Lineage(timed or frozenset(oid for oid, _ in found))


def untraced(connection: Connection, schema: str, name: str) -> list[str]:
    """What the relation reads that leads no further, in words."""
    found = driver(connection).execute(_UNTRACED, {"schema": schema, "name": name})
    return [what for (what,) in found]
