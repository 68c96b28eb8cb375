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
_RELATIONS = _BEHIND + sql.SQL(
    """
    SELECT c.oid, n.nspname, c.relname, c.relkind IN ('r', 'p', 'f') AS is_table, EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND NOT a.attisdropped
            AND a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype)
    ) AS has_times
    FROM behind JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname <> 'pg_catalog'
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
    """Where a relation's rows come from."""

    relations: frozenset[tuple[str, str]]
    """Itself, the views that it reads through, and tables; schema and name."""
    tables: frozenset[int]

    def meets(self, other: Lineage) -> bool:
        """Whether both read a table."""
        return bool(self.tables & other.tables)


def lineage(connection: Connection, schema: str, name: str) -> Lineage:
    """What is behind a relation.

    Tables without a time, such as districts or kinds of vehicles, hold no trajectories; they count
    only if there is no other.
    """
    found = driver(connection).execute(_RELATIONS, {"schema": schema, "name": name}).fetchall()
    tables = {oid: has_times for oid, _, _, is_table, has_times in found if is_table}
    timed = frozenset(oid for oid, has_times in tables.items() if has_times)
    return Lineage(frozenset((row[1], row[2]) for row in found), timed or frozenset(tables))


def untraced(connection: Connection, schema: str, name: str) -> list[str]:
    """What the relation reads that leads no further, in words."""
    found = driver(connection).execute(_UNTRACED, {"schema": schema, "name": name})
    return [what for (what,) in found]
