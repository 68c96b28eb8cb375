"""Who is at work: rows of the table `lock`, locked by a transaction that stays open beside the work.

Rows, because only our roles can lock them: an advisory lock can be taken by whoever may connect. When a
process dies its connection goes, and the lock with it; that is how leftovers of a dead run are told from
work in progress. Transactions only: what belongs to a session strands behind PgBouncer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from psycopg import sql

from freqdp_db.db.connection import Connection, Database
from freqdp_db.db.statements import execute
from freqdp_db.errors import Busy

_MAKE = "INSERT INTO {p}.lock (kind, number) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_TAKE = "SELECT FROM {p}.lock WHERE kind = %s AND number = %s FOR UPDATE"
_TRY = _TAKE + " SKIP LOCKED"
# Who locks a row writes the number of its transaction there. Of sessions of other users, only their
# number and name can be read.
_HOLDER = (
    "SELECT a.pid, a.usename, a.application_name, a.xact_start FROM {p}.lock l "
    "JOIN pg_catalog.pg_locks t ON t.locktype = 'transactionid' AND t.transactionid = l.xmax "
    "AND t.granted JOIN pg_catalog.pg_stat_activity a ON a.pid = t.pid "
    "WHERE l.kind = %s AND l.number = %s"
)
_SECONDS_BETWEEN = 0.5


@contextmanager
def hold(
    database: Database, kind: str, number: int, what: str, *, wait: bool = False
) -> Iterator[None]:
    """Hold the lock while the block runs; refuse at once, naming the holder, if somebody has it.

    `wait`: ask again until it is free. No connection is kept meanwhile: many who wait behind a pooler
    must not take all of its connections from the one who works.
    """
    with database.begin() as connection:
        execute(connection, _MAKE, [kind, number])
    while True:
        with database.begin() as connection:
            connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            if execute(connection, _TRY, [kind, number]).fetchone() is not None:
                yield
                return
            holder = execute(connection, _HOLDER, [kind, number]).fetchone()
        if not wait:
            by = _named(*holder) if holder else "another session"
            raise Busy(f"{what} is being worked on by {by}", remedy="wait until it has finished")
        time.sleep(_SECONDS_BETWEEN)


def is_free(connection: Connection, kind: str, number: int) -> bool:
    """Take the lock until the end of this transaction, if nobody holds it."""
    execute(connection, _MAKE, [kind, number])
    return execute(connection, _TRY, [kind, number]).fetchone() is not None


def wait_for(connection: Connection, kind: str, number: int = 0) -> None:
    """Take the lock until the end of this transaction, after whoever has it."""
    execute(connection, _MAKE, [kind, number])
    execute(connection, _TAKE, [kind, number])


def _named(*holder: object) -> str:
    pid, user, application, since = holder
    known = [application, f"user {user}"]
    if isinstance(since, datetime):
        known.append(f"since {since:%Y-%m-%d %H:%M:%S %Z}")
    return f"process {pid} ({', '.join(str(k) for k in known if k)})"


def limit_waiting(connection: Connection, longest: str) -> None:
    """In this transaction, rather fail than wait longer for a lock: whoever waits holds others up."""
    execute(connection, "SET LOCAL lock_timeout = {longest}", longest=sql.Literal(longest))


# Tables of ours that are called by a number: which there are.


def numbers_left(database: Database, pattern: re.Pattern[str]) -> list[int]:
    """The numbers in the names of standalone tables of the private schema: the group `number`."""
    query = (
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relkind = 'r' AND NOT c.relispartition"
    )
    with database.begin() as connection:
        names = execute(connection, query, [database.settings.schema])
        return sorted({int(m["number"]) for (name,) in names if (m := pattern.fullmatch(name))})
