"""Bulk rows in and out: binary COPY by psycopg, straight between the wire and NumPy record arrays.

A row whose columns are all NOT NULL and of fixed width has a fixed width on the wire, so a whole
message stream is one record array. NULLs would shift every later field: queries must exclude
them, and the length fields are checked.

Reading in blocks is our own, because psycopg's iterator over the rows of a COPY costs five times the CPU,
and ADBC's driver opens connections of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.adapt import Dumper
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from freqdp_db.db.connection import Connection, Database, column_list
from freqdp_db.errors import BadData
from freqdp_db.model.arrays import Flags, Ints, Metres, offsets_from, rows_of
from freqdp_db.model.trajectories import (
    MM_PER_M,
    Codes,
    EditRuns,
    KeptColumns,
    KeptValue,
    Operation,
)

ColumnType: TypeAlias = str
"""A key of `WIRE`."""
# What a column of this type is on the wire, big-endian; its width follows.
WIRE: dict[ColumnType, str] = {
    "char": "S1",
    "bool": "u1",
    "int2": ">i2",
    "int4": ">i4",
    "int8": ">i8",
    "float8": ">f8",
    "timestamptz": ">i8",  # microseconds since 2000-01-01 UTC
    "date": ">i4",  # days since 2000-01-01
    "point": "V25",  # EWKB with SRID: see `point_bytes`
    "line": "V45",  # EWKB with SRID, two points: see `line_bytes`
    "box": "V97",  # EWKB with SRID, a polygon of four corners: see `box_bytes`
    "tstzrange": "V25",  # from a time to another, the end not in it: see `range_bytes`
}
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_NO_BYTES = np.zeros(0, np.uint8)

BLOCK = 8 << 20
"""Bytes of rows that are given out at a time, about."""
_PIECE = 1 << 18
"""Bytes that are handed to libpq at a time."""
_AT_ONCE = (1,) * 1024
"""So many rows are asked of libpq at a time, each without waiting for it."""

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
    """The columns of a fixed-width row, and the record type that the wire has for it.

    columns: names and types, as in `seq int4, at timestamptz`.
    """

    def __init__(self, columns: str) -> None:
        self.columns = columns
        named = [column.split() for column in columns.split(",")]
        self.names = [name for name, _ in named]
        fields: list[tuple[str, str]] = [("_count", ">i2")]
        for name, kind in named:
            fields += [(f"_len_{name}", ">i4"), (name, WIRE[kind])]
        self.dtype = np.dtype(fields)
        self._frame = np.zeros(1, self.dtype)
        self._frame["_count"] = len(named)
        for name in self.names:
            self._frame[f"_len_{name}"] = self.dtype[name].itemsize

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


POINTS = Layout("trajectory_id int8, seq int4, sampled_at timestamptz, geom point")
"""Rows of released samples."""
AREAS = Layout(f"{POINTS.columns}, area box, during tstzrange")
"""Of a generalised release: where and when each sample may have been."""


def _ewkb(
    rows: int, layout: np.dtype[Any], kind: int, srid: int, **fields: Any
) -> NDArray[np.void]:
    """Geometries as PostGIS sends and receives them, one fixed-width blob each."""
    blobs = np.empty(rows, layout)
    blobs["order"], blobs["type"], blobs["srid"] = 1, 0x20000000 | kind, srid
    for name, values in fields.items():
        blobs[name] = values
    return blobs.view(f"V{layout.itemsize}")


def point_bytes(x: Metres, y: Metres, srid: int) -> NDArray[np.void]:
    """EWKB points."""
    return _ewkb(len(x), _POINT, 1, srid, x=x, y=y)


def line_bytes(ends: Metres, srid: int) -> NDArray[np.void]:
    """EWKB lines of two points, from rows of ax, ay, bx, by."""
    return _ewkb(len(ends), _LINE, 2, srid, points=2, ends=ends)


def box_bytes(
    x_min: Metres, y_min: Metres, x_max: Metres, y_max: Metres, srid: int
) -> NDArray[np.void]:
    """EWKB polygons: boxes, their corners from the south-west, around by the east."""
    x = np.stack([x_min, x_max, x_max, x_min, x_min], axis=1)
    y = np.stack([y_min, y_min, y_max, y_max, y_min], axis=1)
    corners = np.stack([x, y], axis=2)
    return _ewkb(len(x_min), _BOX, 3, srid, rings=1, points=5, corners=corners)


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


def box_coordinates(blobs: NDArray[np.void]) -> tuple[Metres, Metres, Metres, Metres]:
    """x_min, y_min, x_max, y_max of a column of boxes, as `box_bytes` makes them."""
    corners = np.ascontiguousarray(blobs).view(_BOX)["corners"]
    sides = (corners[:, 0, 0], corners[:, 0, 1], corners[:, 2, 0], corners[:, 2, 1])
    west, south, east, north = (side.astype(np.float64) for side in sides)
    return west, south, east, north


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


def native(records: NDArray[Any], layout: Layout) -> dict[str, NDArray[Any]]:
    """The columns of records, each an array of its own in the machine's byte order."""
    return {
        name: records[name].astype(layout.dtype[name].newbyteorder("=")) for name in layout.names
    }


def read_arrays(
    connection: psycopg.Connection[Any], query: sql.Composable, layout: Layout
) -> dict[str, NDArray[Any]]:
    """All rows of a query as one native array per column."""
    parts = [native(records, layout) for records in read_records(connection, query, layout)]
    parts = parts or [native(np.zeros(0, layout.dtype), layout)]
    return {name: np.concatenate([part[name] for part in parts]) for name in layout.names}


def copy_bytes(
    connection: psycopg.Connection[Any],
    query: sql.Composable,
    counted: Callable[[int], None] | None = None,
) -> Generator[NDArray[np.uint8], None, None]:
    """The rows of a binary COPY, many at a time, without the stream's header and trailer.

    Whatever ends the reading early cancels the query and leaves a usable connection.
    counted: is told in the end how many rows there were.
    """
    pgconn = connection.pgconn
    if pgconn.transaction_status == TransactionStatus.IDLE:
        connection.execute("SELECT 1")  # lets psycopg open its transaction
    statement = sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)").format(query).as_bytes(connection)
    try:
        started = connection.wait(_start(pgconn, statement))
        if started is None:
            raise _cut_off()
        if started.status != ExecStatus.COPY_OUT:
            raise psycopg.errors.error_from_result(started, connection.info.encoding)
        begin, ended = len(_HEADER), False
        while not ended:
            rows, ended = connection.wait(_read_block(pgconn))
            end = len(rows)
            if ended:
                outcome = _read_to_the_end(pgconn)
                if outcome is not None and outcome.status != ExecStatus.COMMAND_OK:
                    raise psycopg.errors.error_from_result(outcome, connection.info.encoding)
                if not rows.endswith(_TRAILER):
                    raise _cut_off()
                end -= len(_TRAILER)
                if counted is not None and outcome is not None:
                    counted(outcome.command_tuples or 0)
            if end > begin:
                yield np.frombuffer(rows, np.uint8)[begin:end]
            begin = 0
    finally:
        if pgconn.transaction_status == TransactionStatus.ACTIVE:
            connection.cancel_safe()
            _read_to_the_end(pgconn)


def _cut_off() -> psycopg.OperationalError:
    """The rows stop without the stream's trailer: fewer than there are must not pass for all."""
    return psycopg.OperationalError("the connection was lost while rows were read")


def _start(pgconn: PGconn, statement: bytes) -> PQGen[PGresult | None]:
    """Send a COPY TO STDOUT and wait for its first result; for `Connection.wait`.

    Not `Cursor.copy`: interrupted before the first row, it leaves a connection that is still copying.
    """
    pgconn.send_query(statement)
    yield from _send_all(pgconn)
    while pgconn.is_busy():
        while not (yield Wait.R):
            pass
        pgconn.consume_input()
    return pgconn.get_result()


def _read_block(pgconn: PGconn) -> PQGen[tuple[bytearray, bool]]:
    """Whole rows of a running COPY TO STDOUT, and whether they are the last; for `Connection.wait`."""
    rows = bytearray()
    # what looks like the trailer may be a row: only the next message tells
    while len(rows) < BLOCK or rows.endswith(_TRAILER):
        for size, row in map(pgconn.get_copy_data, _AT_ONCE):
            if size <= 0:
                break
            rows += row
        if size < 0:
            return rows, True
        if size == 0:
            while not (yield Wait.R):
                pass
            pgconn.consume_input()
    return rows, False


def _read_to_the_end(pgconn: PGconn) -> PGresult | None:
    """Take what the server still sends for the statement; what it ended with."""
    last = None
    while (outcome := pgconn.get_result()) is not None:
        if outcome.status == ExecStatus.COPY_OUT:
            while pgconn.get_copy_data(0)[0] > 0:
                pass
        else:
            last = outcome
    return last


def write_records(
    connection: psycopg.Connection[Any],
    relation: sql.Composable,
    columns: Sequence[str],
    chunks: Iterable[NDArray[Any]],
    *,
    created_here: bool = False,
) -> None:
    """COPY binary rows into a relation. Each chunk holds whole rows, framed for the wire.

    created_here: the transaction created the table, so its rows can be written as what they will be
    once it commits, visible to all; otherwise the first reader writes every page a second time.
    """
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary{})").format(
        relation, column_list(columns), sql.SQL(", FREEZE" if created_here else "")
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(_HEADER)
        for chunk in chunks:
            data = chunk.view(np.uint8).data
            for begin in range(0, len(data), _PIECE):
                copy.write(data[begin : begin + _PIECE])
                connection.wait(_send_all(connection.pgconn))
        copy.write(_TRAILER)


def _send_all(pgconn: PGconn) -> PQGen[None]:
    """Wait until the server has taken what was written; for `Connection.wait`.

    Else libpq collects it, and moves all that it has when the server takes a little. What the server sends
    meanwhile is taken too: that it has gone, or a notice that it waits to be rid of.
    """
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()


# Rows of variable width for binary COPY: the edit log's arrays and the release's lines.
#
# Our own, because psycopg and the Arrow drivers make such rows from one Python object a value.


RUN_COLUMNS = ["trajectory_id", "location_id", "seq", "loss_m"]
RUN_HEADS = Layout("trajectory_id int4, location_id int4, edits int4")
_RUN = Layout("release_id int4, step int2, operation char, trajectory_id int4, location_id int4")
_RUNS = 1 << 16
"""Runs that are encoded at a time."""
_ARRAY = np.dtype(
    [("size", ">i4"), ("dimensions", ">i4"), ("nulls", ">i4"), ("type", ">i4"), ("length", ">i4"),
     ("lower", ">i4")]
)  # fmt: skip
_OIDS = {"int4": 23, "int8": 20, "float8": 701}
_LINE_HEAD = np.dtype(
    [("size", ">i4"), ("order", "u1"), ("type", "<u4"), ("srid", "<u4"), ("points", "<u4")]
)

Piece = tuple[NDArray[Any], Ints]
"""Records of all rows, one row after the other, and how many of them each row has."""


def join_pieces(*pieces: Piece) -> NDArray[np.uint8]:
    """The bytes of rows that consist of these pieces: row 0 of each piece, then row 1, ..."""
    from freqdp_db.model.kernels import spread_bytes

    sizes, begins = _places_of([counts * records.itemsize for records, counts in pieces])
    joined = np.empty(sizes.sum(), np.uint8)
    for k, (records, _) in enumerate(pieces):
        spread_bytes(records.view(np.uint8), sizes[k], begins[k], joined)
    return joined


def split_pieces(
    data: NDArray[np.uint8], kinds: Sequence[tuple[np.dtype[Any], Ints]]
) -> list[NDArray[Any]]:
    """The records of each piece, of this type and so many in each row: undoes `join_pieces`."""
    from freqdp_db.model.kernels import gather_bytes

    sizes, begins = _places_of([counts * dtype.itemsize for dtype, counts in kinds])
    if sizes.sum() != len(data):
        raise BadData("the server sent rows of another width than declared")
    return [
        gather_bytes(data, sizes[k], begins[k]).view(dtype) for k, (dtype, _) in enumerate(kinds)
    ]


def _places_of(sizes: list[Ints]) -> tuple[Ints, Ints]:
    """[piece, row]: how many bytes it has, and where among those of all rows it begins."""
    by_row = np.column_stack(sizes).astype(np.int64)
    begins = np.cumsum(by_row).reshape(by_row.shape) - by_row
    return np.ascontiguousarray(by_row.T), np.ascontiguousarray(begins.T)


def encode_runs(runs: EditRuns, release_id: int, step: int) -> Iterator[NDArray[np.uint8]]:
    """Rows of `edit_run`: positions become seq (from 1), millimetres become metres."""
    for begin in range(0, len(runs), _RUNS):
        part = slice(begin, begin + _RUNS)
        offsets = runs.offsets[begin : begin + _RUNS + 1]
        edits = slice(offsets[0], offsets[-1])
        heads = _RUN.pack(
            release_id=release_id,
            step=step,
            operation=runs.operation,
            trajectory_id=runs.trajectory[part],
            location_id=runs.location[part],
        )
        heads["_count"] += 2  # the arrays
        counts = np.diff(offsets)
        yield join_pieces(
            (heads, np.ones_like(counts)),
            *_arrays("int4", counts, runs.position[edits] + 1),
            *_arrays("float8", counts, runs.loss_mm[edits] / MM_PER_M),
        )


def _arrays(kind: str, counts: Ints, values: NDArray[Any]) -> tuple[Piece, Piece]:
    """A column of arrays without NULLs: what stands before each, and the items of all."""
    items = np.empty(len(values), _item(kind))
    items["size"], items["value"] = items.dtype["value"].itemsize, values
    heads = np.empty(len(counts), _ARRAY)
    heads["size"] = _ARRAY.itemsize - 4 + counts * items.itemsize
    heads["dimensions"], heads["nulls"], heads["type"] = 1, 0, _OIDS[kind]
    heads["length"], heads["lower"] = counts, 1
    return (heads, np.ones_like(counts)), (items, counts)


def _item(kind: str) -> np.dtype[Any]:
    return np.dtype([("size", ">i4"), ("value", WIRE[kind])])


@dataclass(frozen=True)
class ArrayOf:
    """Numbers as a parameter of a statement, an array of the server's: not one Python object each."""

    kind: ColumnType
    values: NDArray[Any]


class ArrayDumper(Dumper):
    """How psycopg sends an `ArrayOf`."""

    format = Format.BINARY

    def dump(self, obj: ArrayOf) -> bytes:
        (heads, _), (items, _) = _arrays(obj.kind, np.array([len(obj.values)]), obj.values)
        return heads.tobytes()[4:] + items.tobytes()


def array_from(kind: ColumnType, data: bytes) -> NDArray[Any]:
    """The values of an array without NULLs, from what the server sends of it in binary."""
    begin, items = _ARRAY.itemsize - 4, np.zeros(0, _item(kind))
    if len(data) > begin:
        items = np.frombuffer(data, items.dtype, offset=begin)
    if not np.array_equal(items["size"], np.full(len(items), items.dtype["value"].itemsize)):
        raise BadData("the server sent an array with a NULL, or of another type than declared")
    return items["value"].astype(np.dtype(WIRE[kind]).newbyteorder("="))


def read_runs(
    connection: psycopg.Connection[Any], runs: sql.Composable, operation: Operation
) -> EditRuns:
    """Runs, from a query for `RUN_COLUMNS` of `edit_run`, in the order of their ids.

    As arrays: a row for each edit would take ten times as long.
    """
    ordered = sql.SQL("SELECT {} FROM ({}) AS r ORDER BY trajectory_id, location_id")
    heads = sql.SQL("trajectory_id, location_id, cardinality(seq)")
    found = read_arrays(connection, ordered.format(heads, runs), RUN_HEADS)
    arrays = copy_bytes(connection, ordered.format(sql.SQL("seq, loss_m"), runs))
    return decode_runs(found, np.concatenate([_NO_BYTES, *arrays]), operation)


def decode_runs(
    heads: dict[str, NDArray[Any]], data: NDArray[np.uint8], operation: Operation
) -> EditRuns:
    """Runs from rows of `RUN_HEADS`, and from the bytes of rows (seq, loss_m).

    Raises BadData if an array holds a NULL or another number of values than the other.
    """
    counts = heads["edits"].astype(np.int64)
    one = np.ones_like(counts)
    kinds: list[tuple[np.dtype[Any], Ints]] = [(np.dtype(">i2"), one)]
    for kind in ("int4", "float8"):
        kinds += [(_ARRAY, one), (_item(kind), counts)]
    found = split_pieces(data, kinds)
    seq, loss = found[2]["value"], found[4]["value"]
    fields: Piece = (np.full(len(counts), 2, ">i2"), one)
    expected = (fields, *_arrays("int4", counts, seq), *_arrays("float8", counts, loss))
    for one_piece, (records, _) in zip(found, expected, strict=True):
        if not np.array_equal(one_piece.view(np.uint8), records.view(np.uint8)):
            raise BadData("the server sent an array with a NULL, or of another size than declared")
    return EditRuns(
        operation,
        heads["trajectory_id"],
        heads["location_id"],
        offsets_from(counts),
        seq.astype(np.int32) - 1,
        np.rint(loss * MM_PER_M).astype(np.int64),
    )


def encode_lines(
    rows: NDArray[Any], count: Ints, x: Metres, y: Metres, srid: int, at: Ints | None = None
) -> NDArray[np.uint8]:
    """Rows with a line as one more column.

    rows: packed by their layout. count: the vertices of each line. at: the times of the vertices; then M is
    the time in epoch seconds.
    """
    rows["_count"] += 1
    axes = ("x", "y") if at is None else ("x", "y", "m")
    vertices = np.empty(len(x), [(axis, "<f8") for axis in axes])
    vertices["x"], vertices["y"] = x, y
    if at is not None:
        vertices["m"] = (at + POSTGRES_EPOCH_US) / 1e6
    lines = np.empty(len(rows), _LINE_HEAD)
    lines["size"] = _LINE_HEAD.itemsize - 4 + count * vertices.itemsize
    lines["order"], lines["srid"], lines["points"] = 1, srid, count
    lines["type"] = 0x20000002 if at is None else 0x60000002
    one = np.ones_like(count)
    return join_pieces((rows, one), (lines, one), (vertices, count))


def encode_columns(
    kinds: Sequence[tuple[str, str]],
    columns: Mapping[str, Any],
    present: Mapping[str, Flags] | None = None,
) -> NDArray[np.uint8]:
    """Rows of columns: arrays of what `WIRE` has, lists of text, lists of geometries (EWKB).

    NULL is None in a list; present: of an array with NULLs, which rows have a value.
    """
    rows = len(columns[kinds[0][0]])
    if not rows:
        return np.zeros(0, np.uint8)
    one = np.ones(rows, np.int64)
    pieces: list[Piece] = [(np.full(rows, len(kinds), ">i2"), one)]
    for name, kind in kinds:
        if kind not in WIRE:
            there = np.array([v is not None for v in columns[name]])
            given = (v for v in columns[name] if v is not None)
            texts = [v.encode() if isinstance(v, str) else bytes(v) for v in given]
            sizes = np.full(rows, -1)
            sizes[there] = [len(text) for text in texts]
            joined = np.frombuffer(bytearray().join(texts), "u1")
            pieces += [(sizes.astype(">i4"), one), (joined, np.maximum(sizes, 0))]
            continue
        items = np.empty(rows, _item(kind))
        items["size"], items["value"] = items.dtype["value"].itemsize, columns[name]
        known = None if present is None else present.get(name)
        if known is None or known.all():
            pieces.append((items, one))
        else:
            sizes = np.where(known, items["size"], -1)
            pieces += [(sizes.astype(">i4"), one), (items["value"][known], known.astype(np.int64))]
    if all(counts is one for _, counts in pieces):
        return np.concatenate([p.view("u1").reshape(rows, -1) for p, _ in pieces], axis=1).ravel()
    return join_pieces(*pieces)


@dataclass(frozen=True)
class CarriedValues:
    """Columns with few combinations of values: of each code, the bytes of all columns."""

    columns: int
    bytes: NDArray[np.uint8]
    offsets: Ints

    def append_to(self, rows: NDArray[Any], codes: Codes) -> NDArray[np.uint8]:
        """Packed rows with these columns after their own."""
        rows["_count"] += self.columns
        at, offsets = rows_of(self.offsets, codes.astype(np.int64))
        return join_pieces((rows, np.ones(len(rows), np.int64)), (self.bytes[at], np.diff(offsets)))


def encode_values(kept: KeptColumns) -> CarriedValues:
    """The values of columns that are carried along, as COPY has them."""
    parts = []
    for values in kept.values:
        fields = (
            _field(value, kind) for value, (_, kind) in zip(values, kept.columns, strict=True)
        )
        parts.append(b"".join(fields))
    return CarriedValues(
        len(kept.columns),
        np.frombuffer(b"".join(parts), np.uint8),
        offsets_from(np.array([len(part) for part in parts])),
    )


def _field(value: KeptValue, kind: str) -> bytes:
    if value is None:
        return (-1).to_bytes(4, "big", signed=True)
    if isinstance(value, str):
        data = value.encode()
    elif kind == "bool":
        data = bytes([value])
    else:
        data = value.to_bytes(int(kind[-1]), "big", signed=True)
    return len(data).to_bytes(4, "big") + data


# Tables that several sessions fill in parts, each part once.
#
# A part is noted in the transaction that writes it. Whoever is told to write a part that is noted already
# has nothing to do; who comes while another is at it waits for that one. So it does not matter how often a
# worker is lost and its work given to another. A worker that a dead command has left at work is refused by
# the notes of the next one, even if its tables have the same names.


@contextmanager
def writing_once(
    database: Database, notes: str, run: int, part: int
) -> Iterator[Connection | None]:
    """A transaction to write a part in; None: that was done before. notes: the table of them."""
    insert = sql.SQL("INSERT INTO {} VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING part")
    with database.begin() as connection:
        noted = insert.format(connection.private_name(notes))
        mine = connection.driver.execute(noted, [part, run]).fetchone()
        yield None if mine is None else connection
