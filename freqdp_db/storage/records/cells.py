"""The grid of a build, as the search reads it: its cells, and the segments of some or all of them.

All rows have a fixed width, so they come by binary COPY. Positions count from 0 here and from 1 in
the tables (`seq`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from psycopg import sql

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.storage.connection.engine import Database, driver
from freqdp_db.storage.connection.statements import as_written, listed, own, select_own
from freqdp_db.storage.copy.layout import Layout, read_arrays

_BOX = ("x_min", "y_min", "x_max", "y_max")


@dataclass(frozen=True)
class Cells:
    """All cells of a build's grid, in order of their ids."""

    cell: Ints
    segments: Ids
    """How many are filed in the cell itself."""
    box: Metres
    """Of the cell's own segments."""


def all_cells(connection: sa.Connection, database: Database, build_id: int) -> Cells:
    """What a search knows of the segments before it reads them."""
    layout = Layout([("cell_id", "int8"), ("segments", "int4"), *((n, "float8") for n in _BOX)])
    query = select_own(database, "grid_cell", layout.names, "cell_id", build_id=build_id)
    rows = read_arrays(driver(connection), query, layout)
    return Cells(rows["cell_id"], rows["segments"], np.stack([rows[name] for name in _BOX], axis=1))


def cell_segments(
    connection: sa.Connection, database: Database, build_id: int, cells: Ints | None
) -> tuple[Ids, Ids]:
    """Trajectory and position of the segments filed in these cells, or in all; mostly in filed order."""
    as_written(connection)
    layout = Layout([("trajectory_id", "int4"), ("seq", "int4")])
    wanted = None if cells is None else "{" + ",".join(map(str, cells)) + "}"
    query = sql.SQL("SELECT {} FROM {}({}, {}::bigint[])").format(
        listed(layout.names),
        own(database, "cell_segments"),
        sql.Literal(build_id),
        sql.Literal(wanted),
    )
    rows = read_arrays(driver(connection), query, layout)
    return rows["trajectory_id"], rows["seq"] - 1
