"""Compare a stored table with the rows that it should hold, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from freqdp_db.errors import VerificationFailed
from freqdp_db.progress import Stage
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.published.relations import table_bytes

Relations = tuple[tuple[str, str], tuple[str, str]]
"""The table of samples and the table of lines, each as (schema, name)."""
Ids = tuple[int | None, int | None]
"""Released ids from one on, and before another; None: no limit."""


def compare_tables(
    database: Database, relations: Relations, table: Any, stage: Stage, ids: Ids = (None, None)
) -> None:
    """Compare the rows of both relations with those of a `ReleasedTable`, in one snapshot."""
    points, lines = relations
    with database.begin(snapshot=True) as connection:
        rows = (chunk.view(np.uint8) for chunk in table.points())
        for advanced in _compare(
            connection, points, table.layout.names, ["trajectory_id", "seq"], rows, ids
        ):
            stage.advance(advanced // table.layout.dtype.itemsize)
        rows = (np.frombuffer(chunk, np.uint8) for chunk in table.lines())
        for _ in _compare(
            connection, lines, ["trajectory_id", "geom"], ["trajectory_id"], rows, ids
        ):
            pass


def _compare(
    connection: Connection,
    relation: tuple[str, str],
    columns: list[str],
    order: list[str],
    expected: Iterator[Any],
    ids: Ids,
) -> Iterator[int]:
    """Compare a table with the bytes that COPY would send for the expected rows."""
    found = table_bytes(connection, relation, columns, order, ids)
    left = right = np.zeros(0, np.uint8)
    while True:
        left = left if len(left) else next(found, left)
        right = right if len(right) else next(expected, right)
        size = min(len(left), len(right))
        if size == 0 and len(left) == len(right):
            return
        if size == 0 or not np.array_equal(left[:size], right[:size]):
            found.close()
            raise VerificationFailed(
                f"{relation[0]}.{relation[1]} does not hold the rows that its edit log gives",
                remedy="withdraw it; if nobody changed the table, report this as a fault of freqdp",
            )
        left, right = left[size:], right[size:]
        yield size
