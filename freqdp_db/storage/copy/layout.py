"""Bulk rows in and out: binary COPY straight between the wire and NumPy record arrays.

A row whose columns are all NOT NULL and of fixed width has a fixed width on the wire, so a whole
message stream is one record array. NULLs would shift every later field: queries must exclude
them, and the length fields are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from freqdp_db.errors import BadData
from freqdp_db.storage.connection.statements import listed
from freqdp_db.storage.copy.rows import row_stream
from freqdp_db.storage.copy.waiting import send_all, take_more

ColumnType = Literal[
    "int2", "int4", "int8", "float8", "timestamptz", "point", "line", "box", "tstzrange"
]

# What a column of this type is on the wire, big-endian; its width follows.
WIRE: dict[str, str] = {
    "int2": ">i2",
    "int4": ">i4",
    "int8": ">i8",
    "float8": ">f8",
    "timestamptz": ">i8",  # microseconds since 2000-01-01 UTC
    "point": "V25",  # EWKB with SRID: see `point_bytes`
    "line": "V45",  # EWKB with SRID, two points: see `line_bytes`
    "box": "V97",  # EWKB with SRID, a polygon of four corners: see `box_bytes`
    "tstzrange": "V25",  # from a time to another, the end not in it: see `range_bytes`
}
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"

# PostgreSQL counts time from 2000-01-01 UTC, in microseconds.
POSTGRES_EPOCH_US = 946_684_800_000_000

_HEAD = [("order", "u1"), ("type", "<u4"), ("srid", "<u4")]
_POINT = np.dtype([*_HEAD, ("x", "<f8"), ("y", "<f8")])
_LINE = np.dtype([*_HEAD, ("points", "<u4"), ("ends", "<f8", (4,))])
_BOX = np.dtype([*_HEAD, ("rings", "<u4"), ("points", "<u4"), ("corners", "<f8", (5, 2))])
_LOWER_IN = 2
_RANGE = np.dtype(
    [("flags", "u1"), ("begin_length", ">i4"), ("begin", ">i8"), ("end_length", ">i4"),
     ("end", ">i8")]
)  # fmt: skip


class Layout:
    """The columns of a fixed-width row, and the record type that the wire has for it."""

    def __init__(self, columns: Sequence[tuple[str, ColumnType]]) -> None:
        self.columns = list(columns)
        fields: list[tuple[str, str]] = [("_count", ">i2")]
        for name, kind in self.columns:
            fields += [(f"_len_{name}", ">i4"), (name, WIRE[kind])]
        self.dtype = np.dtype(fields)
        self._frame = np.zeros(1, self.dtype)
        self._frame["_count"] = len(self.columns)
        for name, _ in self.columns:
            self._frame[f"_len_{name}"] = self.dtype.fields[name][0].itemsize  # type: ignore[index]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    def pack(self, **arrays: Any) -> NDArray[Any]:
        """Rows for the wire. A scalar fills its column."""
        rows = next(len(a) for a in arrays.values() if np.ndim(a))
        records = np.repeat(self._frame, rows)
        for name in self.names:
            records[name] = arrays[name]
        return records

    def check(self, records: NDArray[Any]) -> None:
        """Refuse rows whose framing is not the declared one (a NULL, or another type)."""
        for field in ("_count", *(f"_len_{name}" for name in self.names)):
            if not (records[field] == self._frame[field]).all():
                raise BadData("the server sent a NULL or a value of another width than declared")


POINTS = Layout(
    [("trajectory_id", "int8"), ("seq", "int4"), ("at", "timestamptz"), ("geom", "point")]
)
"""Rows of released samples."""
AREAS = Layout([*POINTS.columns, ("area", "box"), ("during", "tstzrange")])
"""Of a generalised release: where and when each sample may have been."""


def point_bytes(x: NDArray[np.float64], y: NDArray[np.float64], srid: int) -> NDArray[np.void]:
    """EWKB points, as PostGIS sends and receives them, one fixed-width blob each."""
    points = np.empty(len(x), _POINT)
    points["order"] = 1
    points["type"] = 0x20000001
    points["srid"] = srid
    points["x"] = x
    points["y"] = y
    return points.view("V25")


def line_bytes(ends: NDArray[np.float64], srid: int) -> NDArray[np.void]:
    """EWKB lines of two points, from rows of ax, ay, bx, by."""
    lines = np.empty(len(ends), _LINE)
    lines["order"] = 1
    lines["type"] = 0x20000002
    lines["srid"] = srid
    lines["points"] = 2
    lines["ends"] = ends
    return lines.view("V45")


def box_bytes(
    x_min: NDArray[np.float64],
    y_min: NDArray[np.float64],
    x_max: NDArray[np.float64],
    y_max: NDArray[np.float64],
    srid: int,
) -> NDArray[np.void]:
    """EWKB polygons: boxes, their corners from the south-west, around by the east."""
    boxes = np.empty(len(x_min), _BOX)
    boxes["order"] = 1
    boxes["type"] = 0x20000003
    boxes["srid"] = srid
    boxes["rings"] = 1
    boxes["points"] = 5
    for corner, (x, y) in enumerate(
        [(x_min, y_min), (x_max, y_min), (x_max, y_max), (x_min, y_max), (x_min, y_min)]
    ):
        boxes["corners"][:, corner, 0] = x
        boxes["corners"][:, corner, 1] = y
    return boxes.view("V97")


def range_bytes(begin: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.void]:
    """Intervals as the server keeps them: the begin is in it, the end is not."""
    ranges = np.empty(len(begin), _RANGE)
    ranges["flags"] = _LOWER_IN
    ranges["begin_length"] = ranges["end_length"] = 8
    ranges["begin"], ranges["end"] = begin, end
    return ranges.view("V25")


def point_coordinates(blobs: NDArray[np.void]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The coordinates in a column of EWKB points."""
    points = np.ascontiguousarray(blobs).view(_POINT)
    return points["x"].astype(np.float64), points["y"].astype(np.float64)


def box_coordinates(blobs: NDArray[np.void]) -> tuple[NDArray[np.float64], ...]:
    """x_min, y_min, x_max, y_max of a column of boxes, as `box_bytes` makes them."""
    corners = np.ascontiguousarray(blobs).view(_BOX)["corners"]
    low, high = corners[:, 0], corners[:, 2]
    return tuple(side.astype(np.float64) for side in (low[:, 0], low[:, 1], high[:, 0], high[:, 1]))


def range_times(blobs: NDArray[np.void]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Begins and ends of a column of intervals, as `range_bytes` makes them."""
    ranges = np.ascontiguousarray(blobs).view(_RANGE)
    return ranges["begin"].astype(np.int64), ranges["end"].astype(np.int64)


def read_records(
    connection: psycopg.Connection[Any],
    query: sql.Composable,
    layout: Layout,
    on_rows: Callable[[int], None] | None = None,
) -> Iterator[NDArray[Any]]:
    """Run COPY (query) TO STDOUT and yield record arrays, some megabytes each."""
    width = layout.dtype.itemsize
    for data in copy_bytes(connection, query):
        if len(data) % width:
            raise BadData("the server sent a NULL or a value of another width than declared")
        records = data.view(layout.dtype)
        layout.check(records)
        if on_rows is not None:
            on_rows(len(records))
        yield records


def read_arrays(
    connection: psycopg.Connection[Any], query: sql.Composable, layout: Layout
) -> dict[str, NDArray[Any]]:
    """All rows of a query as one native array per column."""
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in layout.names}
    for records in read_records(connection, query, layout):
        for name in layout.names:
            column = records[name]
            parts[name].append(column.astype(column.dtype.newbyteorder("=")))
    empty = np.zeros(0, layout.dtype)
    return {
        name: np.concatenate(arrays)
        if arrays
        else empty[name].astype(layout.dtype[name].newbyteorder("="))
        for name, arrays in parts.items()
    }


def copy_bytes(
    connection: psycopg.Connection[Any], query: sql.Composable
) -> Generator[NDArray[np.uint8], None, None]:
    """The rows of a binary COPY, many at a time, without the stream's header and trailer.

    Whatever ends the reading early cancels the query and leaves a usable connection.
    """
    pgconn = connection.pgconn
    if pgconn.transaction_status == TransactionStatus.IDLE:
        connection.execute("SELECT 1")  # lets psycopg open its transaction
    statement = sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)").format(query)
    stream = row_stream(connection)
    try:
        _start_copy(connection, statement.as_bytes(connection))
        first, whole = True, False
        for rows in stream:
            if stream.ended:
                failed = _read_to_the_end(pgconn)
                if failed is not None:
                    raise psycopg.errors.error_from_result(failed, connection.info.encoding)
                if bytes(rows[-len(_TRAILER) :]) != _TRAILER:
                    raise _cut_off()
                whole = True
            # the header comes with the first row, the trailer is the last message
            begin = len(_HEADER) if first else 0
            end = len(rows) - (len(_TRAILER) if stream.ended else 0)
            first = False
            if end > begin:
                yield rows[begin:end]
    finally:
        if not stream.ended and pgconn.transaction_status == TransactionStatus.ACTIVE:
            connection.cancel_safe()
        failed = _read_to_the_end(pgconn)
        if failed is not None and stream.ended:
            raise psycopg.errors.error_from_result(failed, connection.info.encoding)
    if not whole:
        raise _cut_off()


def _cut_off() -> psycopg.OperationalError:
    """The rows stop without the stream's trailer: fewer than there are must not pass for all."""
    return psycopg.OperationalError("the connection was lost while rows were read")


def _start_copy(connection: psycopg.Connection[Any], statement: bytes) -> None:
    """Send a COPY TO STDOUT and wait for its first rows; whoever calls ends it.

    The server may take long to them, and pgconn.exec_ would let no interrupt through.
    """
    pgconn = connection.pgconn
    pgconn.send_query(statement)
    send_all(pgconn)
    while pgconn.is_busy():
        take_more(pgconn)
    result = pgconn.get_result()
    if result is None:
        raise _cut_off()
    if result.status != ExecStatus.COPY_OUT:
        _read_to_the_end(pgconn)
        raise psycopg.errors.error_from_result(result, connection.info.encoding)


def _read_to_the_end(pgconn: PGconn) -> PGresult | None:
    """Take what the server still sends for the statement; what it failed with, if it did."""
    failed = None
    while (outcome := pgconn.get_result()) is not None:
        if outcome.status == ExecStatus.COPY_OUT:
            while pgconn.get_copy_data(0)[0] > 0:
                pass
        elif outcome.status != ExecStatus.COMMAND_OK:
            failed = outcome
    return failed


_PIECE = 1 << 18
"""Bytes that are handed to libpq at a time."""


def write_records(
    connection: psycopg.Connection[Any],
    relation: sql.Composable,
    columns: Sequence[str],
    chunks: Iterable[bytes | memoryview | NDArray[Any]],
    *,
    created_here: bool = False,
) -> None:
    """COPY binary rows into a relation. Each chunk holds whole rows, framed for the wire.

    created_here: the transaction created the table, so its rows can be written as what they will be
    once it commits, visible to all; otherwise the first reader writes every page a second time.
    """
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary{})").format(
        relation,
        listed(columns),
        sql.SQL(", FREEZE" if created_here else ""),
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(_HEADER)
        for chunk in chunks:
            data = chunk.view(np.uint8).reshape(-1) if isinstance(chunk, np.ndarray) else chunk
            whole = memoryview(data)  # type: ignore[arg-type]
            for begin in range(0, len(whole), _PIECE):
                copy.write(whole[begin : begin + _PIECE])
                # else libpq collects it, and moves all that it has when the server takes a little
                send_all(connection.pgconn)
        copy.write(_TRAILER)
