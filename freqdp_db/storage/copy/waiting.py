"""Waiting for the server so that an interrupt gets through, and a lost connection is an error."""

from __future__ import annotations

from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector

from psycopg.pq.abc import PGconn


def take_more(connection: PGconn) -> None:
    """Wait until the server has sent something, and take it."""
    _ready(connection, EVENT_READ)
    connection.consume_input()


def send_all(connection: PGconn) -> None:
    """Wait until the server has taken what was written.

    What it sends meanwhile is taken too: that it has gone, or a notice that it waits to be rid of.
    """
    while connection.flush():
        if _ready(connection, EVENT_READ | EVENT_WRITE) & EVENT_READ:
            connection.consume_input()


def _ready(connection: PGconn, events: int) -> int:
    """Wait for one of these; which there are. Not select.select: it knows no file above number 1023."""
    with DefaultSelector() as selector:
        selector.register(connection.socket, events)
        return selector.select()[0][1]
