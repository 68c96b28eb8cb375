"""Waiting for the database to say that there is work, where it can be heard."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from freqdp_db.storage.connection.engine import Database, pinned, translated


class Listener:
    """A connection that LISTENs.

    Behind a pooler that hands out server connections by the transaction, notifications go astray
    without an error. A pooler answers for the server when a connection is made, so the process
    number that it gave is not the one that the server names: then `hears` is False.
    """

    def __init__(self, database: Database) -> None:
        with translated():
            self._connection: psycopg.Connection[Any] = database.open_connection(autocommit=True)
            with pinned(self._connection):
                row = self._connection.execute("SELECT pg_backend_pid()").fetchone()
            self.hears = row is not None and row[0] == self._connection.info.backend_pid
            if self.hears:
                channel = sql.Identifier(f"{database.settings.schema}_job")
                self._connection.execute(sql.SQL("LISTEN {}").format(channel))
            else:
                self._connection.close()

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; True if something was heard."""
        with translated():
            return any(True for _ in self._connection.notifies(timeout=seconds, stop_after=1))

    def close(self) -> None:
        self._connection.close()
