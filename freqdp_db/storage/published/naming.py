"""Names of a release's columns and indexes."""

from __future__ import annotations

from typing import Any

from psycopg import sql

from freqdp_db.settings import MAX_IDENTIFIER_BYTES

INDEXES = {"at": "_at_idx", "geom": "_geom_idx", "area": "_area_idx", "during": "_during_idx"}
"""Of the columns that have one, besides the primary key."""
PRIMARY = "_pkey"


def rename_indexes(raw: Any, schema: str, relation: str) -> None:
    """Give the indexes the names that they would have had if the table had never been staged."""
    rows = raw.execute(
        sql.SQL(
            "SELECT c.relname, i.indisprimary, a.attname FROM pg_index i "
            "JOIN pg_class c ON c.oid = i.indexrelid "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
            "WHERE i.indrelid = {}::regclass"
        ).format(sql.Literal(sql.Identifier(schema, relation).as_string(None)))
    ).fetchall()
    for index, primary, column in rows:
        final = whole(relation + (PRIMARY if primary else INDEXES[column]))
        raw.execute(
            sql.SQL("ALTER INDEX {} RENAME TO {}").format(
                sql.Identifier(schema, index), sql.Identifier(final)
            )
        )


def whole(name: str) -> str:
    """A name as PostgreSQL keeps it: cut off after its last whole character."""
    return name.encode()[:MAX_IDENTIFIER_BYTES].decode(errors="ignore")
