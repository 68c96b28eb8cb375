"""Tables that several sessions fill in parts, each part once.

A part is noted in the transaction that writes it. Whoever is told to write a part that is noted already
has nothing to do; who comes while another is at it waits for that one. So it does not matter how often a
worker is lost and its work given to another. A worker that a dead command has left at work is refused by
the notes of the next one, even if its tables have the same names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql

from freqdp_db.storage.connection.engine import Database, driver
from freqdp_db.storage.connection.statements import call


def create_notes(connection: sa.Connection, database: Database, kind: str, number: int) -> int:
    """Make the table in which the parts of a build or a release are noted; the number of this run."""
    return int(call(connection, database, "create_notes", kind, number))


@contextmanager
def writing_once(
    database: Database, notes: sql.Identifier, run: int, part: int
) -> Iterator[psycopg.Connection[Any] | None]:
    """A transaction to write a part in; None: that was done before."""
    with database.begin() as connection:
        raw = driver(connection)
        mine = raw.execute(
            sql.SQL("INSERT INTO {} VALUES ({}, {}) ON CONFLICT DO NOTHING RETURNING part").format(
                notes, sql.Literal(part), sql.Literal(run)
            )
        ).fetchone()
        yield None if mine is None else raw


def drop_notes(database: Database, kind: str, number: int) -> None:
    with database.begin() as connection:
        call(connection, database, "drop_notes", kind, number)
