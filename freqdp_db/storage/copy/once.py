"""Tables that several sessions fill in parts, each part once.

A part is noted in the transaction that writes it. Whoever is told to write a part that is noted already
has nothing to do; who comes while another is at it waits for that one. So it does not matter how often a
worker is lost and its work given to another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql

from freqdp_db.storage.connection.engine import Database, driver
from freqdp_db.storage.schema.grants import hand_over


def create_notes(connection: sa.Connection, database: Database, notes: sql.Identifier) -> None:
    """The table in which parts are noted."""
    driver(connection).execute(sql.SQL("CREATE TABLE {} (part int PRIMARY KEY)").format(notes))
    hand_over(connection, database, notes)


@contextmanager
def writing_once(
    database: Database, notes: sql.Identifier, part: int
) -> Iterator[psycopg.Connection[Any] | None]:
    """A transaction to write a part in; None: that was done before."""
    with database.begin() as connection:
        raw = driver(connection)
        mine = raw.execute(
            sql.SQL("INSERT INTO {} VALUES ({}) ON CONFLICT DO NOTHING RETURNING part").format(
                notes, sql.Literal(part)
            )
        ).fetchone()
        yield None if mine is None else raw


def drop_notes(database: Database, notes: sql.Identifier) -> None:
    with database.begin() as connection:
        driver(connection).execute(sql.SQL("DROP TABLE {}").format(notes))
