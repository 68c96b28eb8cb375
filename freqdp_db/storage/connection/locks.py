"""Who is at work: advisory locks, held by an open transaction for as long as the work lasts.

Transaction-level only: session locks strand behind PgBouncer. The transaction does nothing else,
so it holds back no vacuum. When a process dies its connection goes, and the lock with it; that is
how leftovers of a dead run are told from work in progress.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from psycopg import sql

from freqdp_db.errors import Busy
from freqdp_db.storage.connection.engine import Database, driver

_TRY = sa.text("SELECT pg_try_advisory_xact_lock(hashtext(:kind), :number)")
# pg_locks shows the two int4 of a lock as oids, and those of every database of the server.
_HOLDER = sa.text(
    "SELECT a.pid, a.usename, a.application_name, a.xact_start FROM pg_locks l "
    "JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND l.classid = hashtext(:kind)::oid AND l.objid = CAST(:number AS int4)::oid"
)
_SECONDS_BETWEEN = 0.5


def _key(database: Database, kind: str, number: int) -> dict[str, str | int]:
    return {"kind": f"freqdp {database.settings.schema} {kind}", "number": number}


@contextmanager
def hold(
    database: Database, kind: str, number: int, what: str, *, wait: bool = False
) -> Iterator[None]:
    """Hold the lock while the block runs; refuse at once, naming the holder, if somebody has it.

    `wait`: ask again until it is free. No connection is kept meanwhile: many who wait behind a pooler
    must not take all of its connections from the one who works.
    """
    while True:
        with database.begin() as connection:
            connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            if connection.execute(_TRY, _key(database, kind, number)).scalar():
                yield
                return
            holder = connection.execute(_HOLDER, _key(database, kind, number)).first()
        if not wait:
            by = (
                f"process {holder.pid} ({holder.application_name}, user {holder.usename}, "
                f"since {holder.xact_start:%Y-%m-%d %H:%M:%S %Z})"
                if holder is not None
                else "another session"
            )
            raise Busy(f"{what} is being worked on by {by}", remedy="wait until it has finished")
        time.sleep(_SECONDS_BETWEEN)


def is_free(connection: sa.Connection, database: Database, kind: str, number: int) -> bool:
    """Take the lock until the end of this transaction, if nobody holds it."""
    return bool(connection.execute(_TRY, _key(database, kind, number)).scalar())


def limit_waiting(connection: sa.Connection, longest: str) -> None:
    """In this transaction, rather fail than wait longer for a lock: whoever waits holds others up."""
    driver(connection).execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(longest)))
