"""Compare a stored table with the rows that it should hold, byte by byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from freqdp_db.errors import VerificationFailed
from freqdp_db.progress import Stage
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.published.relations import table_bytes
from freqdp_db.storage.published.staging import KEY, LINE_COLUMNS, LINE_KEY

Ids = tuple[int | None, int | None]
"""Released ids from one on, and before another; None: no limit."""


@dataclass(frozen=True)
class Relations:
    """The table of samples and the table of lines, each as (schema, name)."""

    points: tuple[str, str]
    lines: tuple[str, str]
    lines_written: Callable[[], Any] = lambda: None
    """Waits until the table of lines is there."""
    in_order: bool = False
    """Whether the rows stand in the order of their key: written once, and never changed."""


def compare_tables(
    database: Database, relations: Relations, table: Any, stage: Stage, ids: Ids = (None, None)
) -> None:
    """Compare the rows of both relations with those of a `ReleasedTable`."""
    rows = (chunk.view(np.uint8) for chunk in table.points())
    order = [] if relations.in_order else KEY
    for size in _compare(database, relations.points, table.layout.names, order, rows, ids):
        stage.advance(size // table.layout.dtype.itemsize)
    relations.lines_written()
    for _ in _compare(database, relations.lines, LINE_COLUMNS, LINE_KEY, table.lines(), ids):
        pass


def _compare(
    database: Database,
    relation: tuple[str, str],
    columns: list[str],
    order: list[str],
    expected: Iterator[Any],
    ids: Ids,
) -> Iterator[int]:
    """Compare a table with the bytes that COPY would send for the expected rows."""
    with database.begin(snapshot=True) as connection:
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
