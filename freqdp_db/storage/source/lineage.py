"""Where the rows of a relation come from: the tables behind views, and what partitions belong to.

PostgreSQL records what a view reads. It does not record what a foreign table, a function or a copy
was made from: the first two are named, the last looks like any other table. The SQL function
`source_lineage` has the query; the ledger books by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from psycopg import sql

from freqdp_db.errors import BadInput
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.connection.statements import own, rows_as

_LINEAGE = sql.SQL(
    "SELECT database_key, relation_oid, source_schema, source_relation FROM {}(%s::text, %s::text)"
)
_UNTRACED = sql.SQL(
    """
    WITH behind AS (SELECT l.relation_oid::oid AS oid, l.* FROM {}(%s::text, %s::text) AS l)
    SELECT 'the foreign table ' || oid::regclass AS what FROM behind WHERE relation_kind = 'f'
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

_DEFINITIONS = sql.SQL(
    """
    SELECT w.ev_class::regclass::text, w.ev_action::text
    FROM {}(%s::text, %s::text) AS l JOIN pg_rewrite w ON w.ev_class = l.relation_oid
    WHERE l.relation_kind IN ('v', 'm') AND w.ev_type = '1'
    ORDER BY 1
    """
)
# As PostgreSQL writes the parse tree of a view, with those of its subqueries inside.
_CHOOSING = {
    "LIMIT": re.compile(r":limitCount \{|:limitOffset \{"),
    "window functions": re.compile(r":hasWindowFuncs true"),
    "aggregates": re.compile(r":hasAggs true"),
    "DISTINCT ON": re.compile(r":hasDistinctOn true"),
    "TABLESAMPLE": re.compile(r"\{TABLESAMPLECLAUSE "),
}


@dataclass(frozen=True)
class SourceRelation:
    """A relation that rows come from or through."""

    database_key: str
    relation_oid: int
    source_schema: str
    source_relation: str


def lineage(
    connection: Connection, database: Database, schema: str, name: str
) -> list[SourceRelation]:
    """All that is behind a relation, itself with it."""
    query = _LINEAGE.format(own(database, "source_lineage"))
    return rows_as(SourceRelation, connection, query, [schema, name])


def require_not_from(
    connection: Connection,
    database: Database,
    option: str,
    relation: tuple[str, str],
    source: tuple[str, str],
) -> None:
    """Refuse a public input that reads what the rows of a source come from."""
    read = {found.relation_oid for found in lineage(connection, database, *relation)}
    if read & {found.relation_oid for found in lineage(connection, database, *source)}:
        raise BadInput(
            f"{option} {format_relation(*relation)} reads the rows of {format_relation(*source)}: what is "
            "made from the data is not public",
            remedy="name a table that was made without the data, such as a map",
        )


def choosing(
    connection: Connection, database: Database, schema: str, name: str, condition: str | None
) -> list[str]:
    """How a relation may choose rows by what other rows are, in words. Row by row choices are not named.

    condition: of `--where`.
    """
    query = _DEFINITIONS.format(own(database, "source_lineage"))
    found = driver(connection).execute(query, [schema, name]).fetchall()
    said = [
        f"the view {view} has {' and '.join(words)}"
        for view, tree in found
        if (words := [word for word, pattern in _CHOOSING.items() if pattern.search(tree)])
    ]
    if condition is not None and re.search(r"\bselect\b", condition, re.IGNORECASE):
        said.append("--where has a subquery")
    return said


def untraced(connection: Connection, database: Database, schema: str, name: str) -> list[str]:
    """What the relation reads that leads no further, in words."""
    query = _UNTRACED.format(own(database, "source_lineage"))
    return [what for (what,) in driver(connection).execute(query, [schema, name])]
