"""Relations of the release schema and staged ones: whether they are there, and their rows as bytes."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.errors import VerificationFailed
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.copy.layout import copy_bytes


def relation_exists(connection: Connection, schema: str, relation: str) -> bool:
    found = connection.execute(
        sa.text(
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = :schema AND c.relname = :relation"
        ),
        {"schema": schema, "relation": relation},
    )
    return found.scalar() is not None


def table_bytes(
    connection: Connection, relation: tuple[str, str], columns: list[str], order: list[str]
) -> Generator[NDArray[np.uint8], None, None]:
    """The rows of a release's table as COPY sends them, in this order; none: as they were written."""
    raw = driver(connection)
    if not relation_exists(connection, *relation):
        raise VerificationFailed(
            f"{relation[0]}.{relation[1]} is not there: it was dropped or renamed by hand",
            remedy="rename it back, or withdraw the release",
        )
    raw.execute("SET LOCAL synchronize_seqscans = off")
    raw.execute("SET LOCAL max_parallel_workers_per_gather = 0")
    query: sql.Composable = sql.SQL("SELECT {} FROM {}").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)), sql.Identifier(*relation)
    )
    if order:
        query += sql.SQL(" ORDER BY ") + sql.SQL(", ").join(map(sql.Identifier, order))
    return copy_bytes(raw, query)


def role_exists(connection: Connection, database: Database, kind: str) -> bool:
    found = connection.execute(
        sa.text("SELECT 1 FROM pg_roles WHERE rolname = :role"),
        {"role": database.settings.role(kind)},
    )
    return found.scalar() is not None
