"""Relations of the release schema and staged ones: whether they are there, and their rows as bytes."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.errors import VerificationFailed
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.connection.postgis import postgis_schema
from freqdp_db.storage.connection.statements import (
    as_written,
    in_range,
    listed,
    one_value,
    own,
    rows_as,
)
from freqdp_db.storage.copy.layout import copy_bytes

_OF_RELATION = (
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
)
_IS_RELATION = "WHERE n.nspname = :schema AND c.relname = :relation "


def relation_exists(connection: Connection, schema: str, relation: str) -> bool:
    found = connection.execute(
        sa.text(
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = :schema AND c.relname = :relation"
        ),
        {"schema": schema, "relation": relation},
    )
    return found.scalar() is not None


def may_read(connection: Connection, relation: tuple[str, str]) -> bool:
    """Whether this login may; of a relation that is not there, that is for others to say."""
    found = connection.execute(
        sa.text(
            "SELECT has_table_privilege(c.oid, 'SELECT') FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = :schema AND c.relname = :relation"
        ),
        {"schema": relation[0], "relation": relation[1]},
    ).scalar()
    return found is None or bool(found)


def gone(schema: str, name: str) -> str:
    """What is said of a relation of a release that is not there any more."""
    return f"{format_relation(schema, name)} is not there: it was dropped or renamed by hand"


def require_there(connection: Connection, relation: tuple[str, str]) -> None:
    """Refuse if a relation of a published release was dropped or renamed by hand."""
    if not relation_exists(connection, *relation):
        raise VerificationFailed(
            gone(*relation),
            remedy="rename it back, or withdraw the release",
        )


def dependants(connection: Connection, schema: str, relation: str) -> list[tuple[str, str, str]]:
    """Views of anybody's that hang on a relation: what each is, its schema and its name."""
    rows = connection.execute(
        sa.text(
            """
            SELECT DISTINCT
                CASE v.relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'VIEW' END,
                n.nspname::text, v.relname::text
            FROM pg_depend d
            JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
            JOIN pg_class v ON v.oid = r.ev_class
            JOIN pg_namespace n ON n.oid = v.relnamespace
            JOIN pg_class c ON c.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass
            JOIN pg_namespace s ON s.oid = c.relnamespace
            WHERE s.nspname = :schema AND c.relname = :relation AND v.oid <> c.oid
            ORDER BY 1, 2, 3
            """
        ),
        {"schema": schema, "relation": relation},
    )
    return [(kind, schema, name) for kind, schema, name in rows]


def missing_relations(connection: Connection, schema: str) -> list[str]:
    """Relations of releases that the catalogue has and that are not there."""
    rows = connection.execute(
        sa.text(
            sql.SQL(
                "SELECT part FROM {} AS r, unnest(r.relations) AS part "
                "WHERE NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n "
                "ON n.oid = c.relnamespace WHERE n.nspname = :schema AND c.relname = part) "
                "ORDER BY 1"
            )
            .format(sql.Identifier(schema, "catalog"))
            .as_string(None)
        ),
        {"schema": schema},
    )
    return [str(name) for (name,) in rows]


def columns_of(connection: Connection, relation: tuple[str, str]) -> dict[str, str]:
    """Names and types, in order; nothing if there is no such relation."""
    rows = connection.execute(
        sa.text(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod) "
            + _OF_RELATION
            + _IS_RELATION
            + "ORDER BY a.attnum"
        ),
        {"schema": relation[0], "relation": relation[1]},
    )
    return {row.attname: row.format_type for row in rows}


def count_rows(connection: Connection, relation: tuple[str, str]) -> int:
    require_there(connection, relation)
    query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(*relation))
    return int(one_value(connection, query))


def is_table(connection: Connection, relation: tuple[str, str]) -> bool:
    """Whether it is a table, not a view."""
    found = connection.execute(
        sa.text(
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = :schema AND c.relname = :relation AND c.relkind = 'r'"
        ),
        {"schema": relation[0], "relation": relation[1]},
    )
    return found.scalar() is not None


def key_of(connection: Connection, relation: tuple[str, str]) -> list[str]:
    """The columns of the primary key of a table, in order."""
    rows = connection.execute(
        sa.text(
            "SELECT a.attname::text "
            + _OF_RELATION
            + "JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary "
            "JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place) "
            "ON k.number = a.attnum " + _IS_RELATION + "ORDER BY k.place"
        ),
        {"schema": relation[0], "relation": relation[1]},
    )
    return list(rows.scalars())


def column_comments(connection: Connection, relation: tuple[str, str]) -> dict[str, str]:
    """What its columns say of themselves."""
    rows = connection.execute(
        sa.text(
            "SELECT a.attname::text, coalesce(col_description(c.oid, a.attnum), '') "
            + _OF_RELATION
            + _IS_RELATION
        ),
        {"schema": relation[0], "relation": relation[1]},
    )
    return {str(row[0]): str(row[1]) for row in rows}


def digest_of(connection: Connection, relation: tuple[str, str]) -> tuple[int, str]:
    """How many rows a table has, and a digest of them, whatever their order: in one scan.

    It finds what was changed by hand or by a fault. Nobody is kept from it who can also write down
    another digest.
    """
    require_there(connection, relation)
    columns = columns_of(connection, relation)
    # geometries have no hash of 64 bits: their bytes do
    hashed = [
        sql.SQL("{}::bytea" if "geometry(" in kind else "{}").format(sql.Identifier(name))
        for name, kind in columns.items()
    ]
    query = sql.SQL(
        "SELECT count(*), coalesce(sum(hash_record_extended(ROW({}), 0)), 0)::text FROM {}"
    ).format(sql.SQL(", ").join(hashed), sql.Identifier(*relation))
    row = driver(connection).execute(query).fetchone()
    assert row is not None
    return int(row[0]), str(row[1])


@dataclass(frozen=True)
class Check:
    """What `check_release` found: a row of it."""

    number: int
    what: str
    expected: int
    found: int
    ok: bool


def check_release(database: Database, name: str) -> list[Check]:
    """The checks of a published release that the server makes by itself."""
    with database.begin(snapshot=True) as connection:
        query = sql.SQL("SELECT * FROM {}(%s::text)").format(own(database, "check_release"))
        return rows_as(Check, connection, query, [name])


def srid_of(connection: Connection, relation: tuple[str, str]) -> int:
    """The SRID that the geometry columns of a relation declare; 0 if it has none."""
    postgis = postgis_schema(connection)
    query = sql.SQL(
        "SELECT coalesce(max({}(atttypmod)), 0) FROM pg_attribute WHERE attrelid = %s::regclass "
        "AND atttypid = {}::regtype AND attnum > 0 AND NOT attisdropped"
    ).format(
        sql.Identifier(postgis, "postgis_typmod_srid"),
        sql.Literal(sql.Identifier(postgis, "geometry").as_string(None)),
    )
    return int(one_value(connection, query, [sql.Identifier(*relation).as_string(None)]))


def table_bytes(
    connection: Connection,
    relation: tuple[str, str],
    columns: list[str],
    order: list[str],
    ids: tuple[int | None, int | None] = (None, None),
) -> Generator[NDArray[np.uint8], None, None]:
    """The rows of a release's table as COPY sends them, in this order; none: as they were written.

    ids: only those from this trajectory_id on, and before that one.
    """
    require_there(connection, relation)
    as_written(connection)
    query: sql.Composable = sql.SQL("SELECT {} FROM {}").format(
        listed(columns), sql.Identifier(*relation)
    )
    if limits := in_range("trajectory_id", ids):
        query += sql.SQL(" WHERE ") + sql.SQL(" AND ").join(limits)
    if order:
        query += sql.SQL(" ORDER BY ") + listed(order)
        # by the index of the key, whether or not there are statistics
        connection.execute(
            sa.text("SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off")
        )
    return copy_bytes(driver(connection), query)
