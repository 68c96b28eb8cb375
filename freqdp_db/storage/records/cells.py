"""The grid and the search, through the stored functions: one routine a wrapper, columns back.

What a search asks for while it runs (`cell_path`, `cell_children`, `cell_segments`), and whole
queries (`nearest_segments`, `nearest_trajectories`). All rows have a fixed width, so they come by
binary COPY. Positions count from 0 here and from 1 in the tables (`seq`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.columns.edits import MM_PER_M
from freqdp_db.storage.connection.engine import Database, driver
from freqdp_db.storage.copy.layout import ColumnType, Layout, point_bytes, read_arrays

_BOX = ("x_min", "y_min", "x_max", "y_max")


@dataclass(frozen=True)
class CellPath:
    """A cell and its ancestors, finest first; the last is the root."""

    cell: Ints
    level: NDArray[np.int16]
    segments: Ids
    tree_segments: Ids
    box: Metres
    """Tight x_min, y_min, x_max, y_max of the cell's own segments (min > max: none)."""
    tree_box: Metres
    """The same for the cell and all below it."""


@dataclass(frozen=True)
class Cells:
    """All cells of a build's grid, in order of their ids."""

    cell: Ints
    segments: Ids
    box: Metres
    tree_box: Metres


@dataclass(frozen=True)
class CellChildren:
    """Occupied children of some cells, in order of their ids."""

    cell: Ints
    parent: Ints
    segments: Ids
    tree_segments: Ids
    mindist_m: Metres
    """MINdist to the child's own segments; infinite if it has none."""
    tree_mindist_m: Metres
    """MINdist to all segments in the child and below it."""


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


@dataclass(frozen=True)
class NearestSegments:
    """The nearest segments of a trajectory, in order of (loss, position)."""

    position: Ids
    tail: Ids
    head: Ids
    occurrences: Ids
    loss_mm: Ints


@dataclass(frozen=True)
class NearestTrajectories:
    """The nearest trajectories with their nearest segments, in order of (loss, trajectory)."""

    trajectory: Ids
    position: Ids
    loss_mm: Ints


def _call(
    connection: sa.Connection,
    database: Database,
    routine: str,
    arguments: Sequence[sql.Composable],
    columns: Sequence[tuple[str, ColumnType]],
) -> dict[str, NDArray[Any]]:
    layout = Layout(columns)
    query = sql.SQL("SELECT {} FROM {}({})").format(
        sql.SQL(", ").join(map(sql.Identifier, layout.names)),
        sql.Identifier(database.settings.schema, routine),
        sql.SQL(", ").join(arguments),
    )
    return read_arrays(driver(connection), query, layout)


def _cells(cells: Ints) -> sql.Composable:
    return sql.SQL("{}::bigint[]").format(sql.Literal("{" + ",".join(map(str, cells)) + "}"))


def _point(x: float, y: float, srid: int) -> sql.Composable:
    # an untyped literal becomes what the routine takes, wherever PostGIS keeps that type
    return sql.Literal(point_bytes(np.array([x]), np.array([y]), srid).tobytes().hex())


def _stack(rows: dict[str, NDArray[Any]], prefix: str) -> Metres:
    return np.stack([rows[prefix + name] for name in _BOX], axis=1)


def all_cells(connection: sa.Connection, database: Database, build_id: int) -> Cells:
    """The directory of a build's grid: what a search keeps in memory to page the segments by."""
    boxes: list[tuple[str, ColumnType]] = [(p + n, "float8") for p in ("", "tree_") for n in _BOX]
    layout = Layout([("cell_id", "int8"), ("segments", "int4"), *boxes])
    query = sql.SQL("SELECT {} FROM {} WHERE build_id = {} ORDER BY cell_id").format(
        sql.SQL(", ").join(map(sql.Identifier, layout.names)),
        sql.Identifier(database.settings.schema, "grid_cell"),
        sql.Literal(build_id),
    )
    rows = read_arrays(driver(connection), query, layout)
    return Cells(rows["cell_id"], rows["segments"], _stack(rows, ""), _stack(rows, "tree_"))


def cell_path(connection: sa.Connection, database: Database, build_id: int, cell: int) -> CellPath:
    """The cell and its ancestors, as far as they are occupied."""
    boxes: list[tuple[str, ColumnType]] = [(p + n, "float8") for p in ("", "tree_") for n in _BOX]
    rows = _call(
        connection,
        database,
        "cell_path",
        [sql.Literal(build_id), sql.Literal(cell)],
        [
            ("cell_id", "int8"),
            ("level", "int2"),
            ("segments", "int4"),
            ("tree_segments", "int4"),
            *boxes,
        ],
    )
    return CellPath(
        rows["cell_id"],
        rows["level"],
        rows["segments"],
        rows["tree_segments"],
        _stack(rows, ""),
        _stack(rows, "tree_"),
    )


def cell_children(
    connection: sa.Connection, database: Database, build_id: int, cells: Ints, x: float, y: float
) -> CellChildren:
    """The occupied children of these cells, with their MINdist from a point in the build's metres."""
    rows = _call(
        connection,
        database,
        "cell_children",
        [sql.Literal(build_id), _cells(cells), sql.Literal(x), sql.Literal(y)],
        [
            ("cell_id", "int8"),
            ("parent_id", "int8"),
            ("segments", "int4"),
            ("tree_segments", "int4"),
            ("mindist_m", "float8"),
            ("tree_mindist_m", "float8"),
        ],
    )
    return CellChildren(*rows.values())


def cell_segments(
    connection: sa.Connection, database: Database, build_id: int, cells: Ints
) -> CellSegments:
    """The segments filed in these cells."""
    rows = _call(
        connection,
        database,
        "cell_segments",
        [sql.Literal(build_id), _cells(cells)],
        [
            ("cell_id", "int8"),
            ("trajectory_id", "int4"),
            ("seq", "int4"),
            ("from_location", "int4"),
            ("to_location", "int4"),
        ],
    )
    return CellSegments(
        rows["cell_id"],
        rows["trajectory_id"],
        rows["seq"] - 1,
        rows["from_location"],
        rows["to_location"],
    )


def nearest_segments(
    connection: sa.Connection,
    database: Database,
    dataset: str,
    trajectory: int,
    x: float,
    y: float,
    srid: int,
    k: int,
) -> NearestSegments:
    """The K nearest segments of one trajectory, of the dataset's current build."""
    rows = _call(
        connection,
        database,
        "nearest_segments",
        [sql.Literal(dataset), sql.Literal(trajectory), _point(x, y, srid), sql.Literal(k)],
        [
            ("seq", "int4"),
            ("from_location", "int4"),
            ("to_location", "int4"),
            ("occurrences", "int4"),
            ("loss_m", "float8"),
        ],
    )
    return NearestSegments(
        rows["seq"] - 1,
        rows["from_location"],
        rows["to_location"],
        rows["occurrences"],
        _millimetres(rows["loss_m"]),
    )


def nearest_trajectories(
    connection: sa.Connection,
    database: Database,
    dataset: str,
    x: float,
    y: float,
    srid: int,
    k: int,
    *,
    skip_containing: bool = True,
) -> NearestTrajectories:
    """The K nearest trajectories of the dataset's current build, each with its nearest segment."""
    rows = _call(
        connection,
        database,
        "nearest_trajectories",
        [sql.Literal(dataset), _point(x, y, srid), sql.Literal(k), sql.Literal(skip_containing)],
        [("trajectory_id", "int4"), ("seq", "int4"), ("loss_m", "float8")],
    )
    return NearestTrajectories(rows["trajectory_id"], rows["seq"] - 1, _millimetres(rows["loss_m"]))


def _millimetres(loss_m: Metres) -> Ints:
    return np.rint(loss_m * MM_PER_M).astype(np.int64)
