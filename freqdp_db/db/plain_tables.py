"""Plain tables of the user's own, filled in one transaction: there completely, or not at all."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.db.connection import Connection, column_list
from freqdp_db.db.copy import POSTGRES_EPOCH_US, encode_columns, point_bytes, write_records
from freqdp_db.db.names import format_relation, geometry_type
from freqdp_db.db.source import columns_of, definition_of, is_table, relation_exists, schema_exists
from freqdp_db.db.source_maps import select_roads
from freqdp_db.errors import AlreadyExists, BadInput, FreqdpError
from freqdp_db.model.arrays import Flags

T = TypeVar("T")
Mode = Literal["create", "replace", "append"]
Kind = Literal["int4", "int8", "float8", "bool", "text", "timestamptz", "point", "line"]
Chunk = Mapping[str, Any]
"""Columns by name. Times are microseconds since 1970 UTC; a text is UTF-8 bytes or None; a point is a row
of an (n, 2) array, a line an array of such rows."""

_NO_TIME = np.iinfo(np.int64).min
_SHAPES = {"point": "Point", "line": "LineString"}


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind
    comment: str


@dataclass(frozen=True)
class PlainTable:
    """A table to be made: its name, its columns, and what `\\d+` will say about it."""

    relation: tuple[str, str]
    columns: tuple[Column, ...]
    comment: str
    srid: int = 4326
    key: str | None = None
    """Column of the primary key; such a table also gets a spatial index."""

    @property
    def label(self) -> str:
        return format_relation(*self.relation)


def load_table(
    connection: Connection,
    table: PlainTable,
    mode: Mode,
    chunks: Iterable[Chunk],
    on_rows: Callable[[int], None] | None = None,
) -> int:
    """Make the table (or add to it) and stream the chunks in; returns how many rows."""
    rows = 0

    def encoded() -> Iterable[NDArray[Any]]:
        nonlocal rows
        sized = ((len(next(iter(chunk.values()))), chunk) for chunk in chunks)
        # a block whose rows were all unreadable is empty
        for count, records in _ahead((size, encode(table, chunk)) for size, chunk in sized if size):
            yield records
            rows += count
            if on_rows is not None:
                on_rows(count)

    with _filling(connection, table, mode) as place:
        names = [c.name for c in table.columns]
        write_records(connection.driver, sql.Identifier(*place), names, encoded())
    return rows


def _ahead(items: Iterable[T]) -> Iterator[T]:
    """The same items, the next one made in a thread while this one is being sent."""
    iterator = iter(items)
    end = object()
    with ThreadPoolExecutor(1) as pool:
        coming: Future[Any] = pool.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, iterator, end)
            yield item


def encode(table: PlainTable, chunk: Chunk) -> NDArray[np.uint8]:
    """Rows of binary COPY."""
    columns: dict[str, Any] = {}
    present: dict[str, Flags] = {}
    for name, kind in (kinds := [(column.name, column.kind) for column in table.columns]):
        values = chunk[name]
        if kind == "line":
            values = [_line(line, table.srid) for line in values]
        elif kind == "point":
            present[name] = np.isfinite(values).all(axis=1)
            values = point_bytes(values[:, 0], values[:, 1], table.srid)
        elif kind == "timestamptz":
            present[name] = values != _NO_TIME
            values = np.where(present[name], values, POSTGRES_EPOCH_US) - POSTGRES_EPOCH_US
        elif kind == "float8":
            present[name] = ~np.isnan(values)
        columns[name] = values
    return encode_columns(kinds, columns, present)


def _line(points: NDArray[np.float64], srid: int) -> bytes:
    """EWKB, little-endian."""
    corners = np.ascontiguousarray(points, "<f8")
    return struct.pack("<BIII", 1, 0x20000002, srid, len(corners)) + corners.tobytes()


@contextmanager
def _filling(connection: Connection, table: PlainTable, mode: Mode) -> Iterator[tuple[str, str]]:
    """Yield the relation to fill. On leaving it gets its name, comments, key and statistics.

    A table that is replaced stays readable while its successor fills: the old one is dropped and
    the new one renamed only at the end, so the exclusive lock is short.
    """
    exists = check_target(connection, table, mode)
    definition_of(connection, table.srid, "[[srid]]")
    target, place = sql.Identifier(*table.relation), table.relation
    adding = mode == "append" and exists
    if adding:
        _check_columns(connection, table)
    else:
        if exists:
            place = (table.relation[0], f".freqdp loading {connection.driver.info.backend_pid}")
        _create(connection, place, table)
    yield place
    if place != table.relation:
        try:
            connection.execute("DROP TABLE {target}", target=target)
        except psycopg.errors.DependentObjectsStillExist:
            raise FreqdpError(
                f"the table {table.label} cannot be replaced: views or keys depend on it",
                remedy="drop those first, or load into another name",
            ) from None
        name = sql.Identifier(table.relation[1])
        filled = sql.Identifier(*place)
        connection.execute("ALTER TABLE {filled} RENAME TO {name}", filled=filled, name=name)
    if not adding:
        _describe(connection, table)
    connection.execute("ANALYZE {target}", target=target)


def check_target(connection: Connection, table: PlainTable, mode: Mode) -> bool:
    """Whether the table is there; refuses what must not be written to. Cheap: call it first."""
    schema = table.relation[0]
    ours = connection.schema, connection.release_schema
    if schema in (*ours, "information_schema"):
        raise BadInput(
            f"{table.label} lies in a schema that is not for loading",
            remedy="load into a schema of your own",
        )
    if not relation_exists(connection, *table.relation):
        return False
    if not is_table(connection, table.relation):
        raise AlreadyExists(
            f"{table.label} is there already, and is not a table", remedy="load into another name"
        )
    if mode == "create":
        raise AlreadyExists(
            f"the table {table.label} is there already",
            remedy="load into another name, or say [[replace]] to drop it first",
        )
    return True


def _create(connection: Connection, place: tuple[str, str], table: PlainTable) -> None:
    # IF NOT EXISTS asks for the right to create a schema even where it exists
    if not schema_exists(connection, place[0]):
        connection.execute("CREATE SCHEMA {name}", name=sql.Identifier(place[0]))
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(
            sql.Identifier(c.name),
            geometry_type(connection.postgis, _SHAPES[c.kind], table.srid)
            if c.kind in _SHAPES
            else sql.SQL(c.kind),
        )
        for c in table.columns
    )
    try:
        named = sql.Identifier(*place)
        connection.execute("CREATE TABLE {named} ({columns})", named=named, columns=columns)
    except psycopg.errors.DuplicateTable:
        raise AlreadyExists(f"somebody else just made the table {table.label}") from None


def _describe(connection: Connection, table: PlainTable) -> None:
    """The key, spatial indexes and comments of a table."""
    target = sql.Identifier(*table.relation)
    if table.key is not None:
        key = sql.Identifier(table.key)
        connection.execute("ALTER TABLE {target} ADD PRIMARY KEY ({key})", target=target, key=key)
    connection.comment_on("TABLE", target, table.comment)
    for column in table.columns:
        if table.key is not None and column.kind in _SHAPES:
            shape = sql.Identifier(column.name)
            index = "CREATE INDEX ON {target} USING gist ({shape})"
            connection.execute(index, target=target, shape=shape)
        connection.comment_on(
            "COLUMN", sql.Identifier(*table.relation, column.name), column.comment
        )


def _check_columns(connection: Connection, table: PlainTable) -> None:
    """Rows can be added only to a table that has our columns, in our types."""
    found = columns_of(connection, table.relation)
    for column in table.columns:
        wanted = "geometry" if column.kind in _SHAPES else column.kind
        if column.name not in found or found[column.name].type != wanted:
            raise BadInput(
                f"the table {table.label} has no column {column.name} of type {wanted}",
                remedy="[[append]] adds to tables that this command made; load into another name",
            )


# Roads, from an edge table of anybody's, and the points along them.


_ROAD_COLUMNS = (
    Column("id", "int8", "Number of the road."),
    Column("source", "int8", "Junction where it starts."),
    Column("target", "int8", "Junction where it ends."),
    Column("name", "text", "Name, if known."),
    Column("kind", "text", "Kind of road, if known."),
    Column("length_m", "float8", "Length in metres."),
    Column("speed_kmh", "float8", "Usual or allowed speed, if known."),
    Column("oneway", "bool", "Whether it may be driven from source to target only."),
    Column("geom", "line", "Its course from source to target, WGS 84."),
)
_ANCHOR_COLUMNS = (
    Column("id", "int8", "Number of the junction; points along the roads are numbered after them."),
    Column("geom", "point", "Where it is, WGS 84."),
)


def roads_table(relation: tuple[str, str], comment: str) -> PlainTable:
    return PlainTable(relation, _ROAD_COLUMNS, comment, key="id")


def anchors_table(relation: tuple[str, str], roads: tuple[str, str]) -> PlainTable:
    comment = (
        f"Junctions and points along {format_relation(*roads)}, loaded by freqdp; "
        "to snap samples to."
    )
    return PlainTable(relation, _ANCHOR_COLUMNS, comment, key="id")


def copy_roads(
    connection: Connection,
    table: PlainTable,
    mode: Mode,
    origin: tuple[str, str],
    mapping: Mapping[str, str],
) -> tuple[int, int]:
    """Fill a roads table from an edge table; returns rows taken and rows that are no line."""
    roads = select_roads(connection, origin, table.srid, mapping)
    names = column_list(column.name for column in table.columns)
    with _filling(connection, table, mode) as place:
        there = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(*origin))
        rows = int(connection.one_value(there))
        insert = sql.SQL("INSERT INTO {} ({n}) SELECT {n} FROM ({}) r ORDER BY id")
        taken = connection.driver.execute(insert.format(sql.Identifier(*place), roads, n=names))
    return taken.rowcount, rows - taken.rowcount


def make_anchors(
    connection: Connection,
    table: PlainTable,
    mode: Mode,
    roads: tuple[str, str],
    every_m: float | None,
) -> int:
    """Fill a table of junctions from a roads table, and points every so many metres between."""
    with _filling(connection, table, mode) as place:
        names = {"place": sql.Identifier(*place), "roads": sql.Identifier(*roads)}
        junctions = connection.text(
            "INSERT INTO {place} (id, geom) SELECT DISTINCT ON (id) id, geom FROM ("
            "SELECT source AS id, {st_startpoint}(geom) AS geom FROM {roads} UNION ALL "
            "SELECT target, {st_endpoint}(geom) FROM {roads}) ends ORDER BY id",
            **names,
        )
        count = connection.execute(junctions).rowcount
        if every_m is not None:
            # the two directions of a street are two rows of the same length: one gives its points
            between = connection.text(
                "INSERT INTO {place} (id, geom) SELECT (SELECT max(id) FROM {place})"
                " + row_number() OVER (ORDER BY road.id, part), {st_lineinterpolatepoint}(road.geom,"
                " part / parts) FROM (SELECT DISTINCT ON (least(source, target),"
                " greatest(source, target), round(length_m::numeric, 1)) id, geom,"
                " ceil(length_m / {every}) AS parts FROM {roads}"
                " ORDER BY least(source, target),"
                " greatest(source, target), round(length_m::numeric, 1), id) road,"
                " generate_series(1, road.parts::int8 - 1) part",
                every=every_m,
                **names,
            )
            count += connection.execute(between).rowcount
    return count
