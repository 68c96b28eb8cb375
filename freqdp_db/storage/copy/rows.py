"""The rows of a running COPY TO STDOUT: by libpq's own functions, or else by psycopg's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import psycopg
from numpy.typing import NDArray

from freqdp_db.storage.copy import libpq
from freqdp_db.storage.copy.waiting import take_more


class RowStream(Protocol):
    """Buffers of whole rows. What ends the stream (an error too) is in the connection's results."""

    ended: bool
    """True from the last buffer on."""

    def __iter__(self) -> Iterator[NDArray[np.uint8]]: ...


class PlainRows:
    """By psycopg alone: the same buffers, at a Python object per row."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._pgconn = connection.pgconn
        self.ended = False

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        rows = bytearray()
        while not self.ended:
            row = self._next()
            if row is not None and len(rows) + len(row) <= libpq.BUFFER:
                rows += row
                continue
            # given out when the next row is known: the last buffer has to know that it is the last
            self.ended = row is None
            if rows:
                yield np.frombuffer(rows, np.uint8)
            rows = bytearray(row or b"")

    def _next(self) -> bytes | memoryview | None:
        """The next row; waits on the socket, so that an interrupt gets through."""
        while True:
            try:
                size, row = self._pgconn.get_copy_data(1)
            except psycopg.OperationalError:
                return None  # the connection's results say what it was
            if size:
                return row if size > 0 else None
            take_more(self._pgconn)


def row_stream(connection: psycopg.Connection[Any]) -> RowStream:
    return libpq.FastRows(connection) if libpq.can_read(connection) else PlainRows(connection)
