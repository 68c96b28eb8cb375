"""The grid of a build, as a paged search reads it: its directory, and the segments of some cells.

All rows have a fixed width, so they come by binary COPY. Positions count from 0 here and from 1 in
the tables (`seq`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.storage.connection.engine import Database, driver
from freqdp_db.storage.connection.statements import listed, own, select_own
from freqdp_db.storage.copy.layout import ColumnType, Layout, read_arrays

_BOX = ("x_min", "y_min", "x_max", "y_max")


@dataclass(frozen=True)
class Cells:
    """All cells of a build's grid, in order of their ids."""

    cell: Ints
    segments: Ids
    box: Metres
    tree_box: Metres


@dataclass(frozen=True)
class CellSegments:
    """Segments of some cells, in order of their cells; of one cell, as they were filed."""

    cell: Ints
    trajectory: Ids
    position: Ids
    tail: Ids
    head: Ids

    def __len__(self) -> int:
        return len(self.cell)


def _stack(rows: dict[str, NDArray[Any]], prefix: str) -> Metres:
    return np.stack([rows[prefix + name] for name in _BOX], axis=1)


def all_cells(connection: sa.Connection, database: Database, build_id: int) -> Cells:
    """The directory of a build's grid: what a search keeps in memory to page the segments by."""
    boxes: list[tuple[str, ColumnType]] = [(p + n, "float8") for p in ("", "tree_") for n in _BOX]
    layout = Layout([("cell_id", "int8"), ("segments", "int4"), *boxes])
    query = select_own(database, "grid_cell", layout.names, "cell_id", build_id=build_id)
    rows = read_arrays(driver(connection), query, layout)
    return Cells(rows["cell_id"], rows["segments"], _stack(rows, ""), _stack(rows, "tree_"))


def cell_segments(
    connection: sa.Connection, database: Database, build_id: int, cells: Ints
) -> CellSegments:
    """The segments filed in these cells."""
    layout = Layout(
        [
            ("cell_id", "int8"),
            ("trajectory_id", "int4"),
            ("seq", "int4"),
            ("from_location", "int4"),
            ("to_location", "int4"),
        ]
    )
    query = sql.SQL("SELECT {} FROM {}({}, {}::bigint[])").format(
        listed(layout.names),
        own(database, "cell_segments"),
        sql.Literal(build_id),
        sql.Literal("{" + ",".join(map(str, cells)) + "}"),
    )
    rows = read_arrays(driver(connection), query, layout)
    return CellSegments(
        rows["cell_id"],
        rows["trajectory_id"],
        rows["seq"] - 1,
        rows["from_location"],
        rows["to_location"],
    )
