"""Plain tables of the user's own, filled in one transaction: there completely, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import psycopg
import sqlalchemy as sa
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.db.connection import driver
from freqdp_db.db.copy import (
    POSTGRES_EPOCH_US,
    WIRE,
    Layout,
    Piece,
    join_pieces,
    point_bytes,
    write_records,
)
from freqdp_db.db.names import format_relation, geometry_type, identifier, postgis_schema
from freqdp_db.db.statements import comment_on
from freqdp_db.errors import AlreadyExists, BadInput, FreqdpError
from freqdp_db.settings import Settings

T = TypeVar("T")
Mode = Literal["create", "replace", "append"]
Kind = Literal["int4", "int8", "float8", "bool", "text", "timestamptz", "point", "line"]
Chunk = Mapping[str, NDArray[Any]]
"""Columns by name. Times are microseconds since 1970 UTC; a point is an (n, 2) array."""

_NO_TIME = np.iinfo(np.int64).min


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
    connection: sa.Connection,
    settings: Settings,
    table: PlainTable,
    mode: Mode,
    chunks: Iterable[Chunk],
    on_rows: Callable[[int], None] | None = None,
) -> int:
    """Make the table (or add to it) and stream the chunks in; returns how many rows."""
    raw = driver(connection)
    rows = 0

    def encoded() -> Iterable[NDArray[Any]]:
        nonlocal rows
        # A block whose rows were all unreadable is empty.
        filled = ((_size(chunk), chunk) for chunk in chunks if _size(chunk))
        for count, records in _ahead((size, encode(table, chunk)) for size, chunk in filled):
            yield records
            rows += count
            if on_rows is not None:
                on_rows(count)

    with filling(connection, settings, table, mode) as place:
        write_records(raw, identifier(place), [c.name for c in table.columns], encoded())
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


def _size(chunk: Chunk) -> int:
    return len(next(iter(chunk.values())))


@contextmanager
def filling(
    connection: sa.Connection, settings: Settings, table: PlainTable, mode: Mode
) -> Iterator[tuple[str, str]]:
    """Yield the relation to fill. On leaving it gets its name, comments, key and statistics.

    A table that is replaced stays readable while its successor fills: the old one is dropped and
    the new one renamed only at the end, so the exclusive lock is short.
    """
    raw = driver(connection)
    exists = check_target(connection, settings, table, mode)
    gis = postgis_schema(connection)
    _check_srid(raw, gis, table.srid)
    if mode == "append" and exists:
        _check_columns(raw, table)
        place = table.relation
    else:
        _create_schema(raw, table.relation[0])
        place = (table.relation[0], f".freqdp loading {raw.info.backend_pid}")
        if not exists:
            place = table.relation
        _create(raw, place, table, gis)
    yield place
    if place != table.relation:
        _swap(raw, place, table)
    if not (mode == "append" and exists):
        _describe(connection, table)
    raw.execute(sql.SQL("ANALYZE {}").format(identifier(table.relation)))


def check_target(
    connection: sa.Connection, settings: Settings, table: PlainTable, mode: Mode
) -> bool:
    """Whether the table is there; refuses what must not be written to. Cheap: call it first."""
    schema, name = table.relation
    if schema in (settings.schema, settings.release_schema) or schema == "information_schema":
        raise BadInput(
            f"{table.label} lies in a schema that is not for loading",
            remedy="load into a schema of your own",
        )
    row = (
        driver(connection)
        .execute(
            "SELECT c.relkind FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
            "ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
            (schema, name),
        )
        .fetchone()
    )
    if row is None:
        return False
    if row[0] not in ("r", "p"):
        raise AlreadyExists(
            f"{table.label} is there already, and is not a table", remedy="load into another name"
        )
    if mode == "create":
        raise AlreadyExists(
            f"the table {table.label} is there already",
            remedy="load into another name, or say [[replace]] to drop it first",
        )
    return True


def encode(table: PlainTable, chunk: Chunk) -> NDArray[Any]:
    """Rows of binary COPY. Without text and NULLs every row has one width: a record array."""
    values = {c.name: _wire(c, chunk[c.name], table.srid) for c in table.columns}
    plain = all(present is None for _, present in values.values())
    if plain and all(c.kind != "text" for c in table.columns):
        layout = Layout([(c.name, c.kind) for c in table.columns])
        return layout.pack(**{name: column for name, (column, _) in values.items()})
    return _encode_ragged(table, values)


def _wire(
    column: Column, values: NDArray[Any], srid: int
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """A column as the wire has it, and which rows have a value (None: all of them)."""
    present: NDArray[np.bool_] | None = None
    if column.kind == "point":
        present = np.isfinite(values).all(axis=1)
        wire: NDArray[Any] = point_bytes(values[:, 0], values[:, 1], srid)
    elif column.kind == "timestamptz":
        present = values != _NO_TIME
        wire = np.where(present, values, POSTGRES_EPOCH_US) - POSTGRES_EPOCH_US
    elif column.kind == "float8":
        present = ~np.isnan(values)
        wire = values
    else:
        wire = values
    return wire, None if present is None or present.all() else present


def _encode_ragged(
    table: PlainTable, values: Mapping[str, tuple[NDArray[Any], NDArray[np.bool_] | None]]
) -> NDArray[np.uint8]:
    """Rows with text or NULLs: each field's length, and its value where it has one."""
    rows = len(next(iter(values.values()))[0])
    one = np.ones(rows, np.int64)
    pieces: list[Piece] = [(np.full(rows, len(table.columns), ">i2"), one)]
    for column in table.columns:
        wire, present = values[column.name]
        if column.kind == "text":
            lengths = np.strings.str_len(wire).astype(np.int64)
            field: Piece = (np.frombuffer(b"".join(wire.tolist()), np.uint8), lengths)
        else:
            there = np.ones(rows, np.bool_) if present is None else present
            items = wire[there].astype(WIRE[column.kind])
            lengths = np.where(there, items.itemsize, -1)
            field = (items, there.astype(np.int64))
        pieces += [(lengths.astype(">i4"), one), field]
    return join_pieces(*pieces)


def _create_schema(raw: psycopg.Connection[Any], schema: str) -> None:
    # CREATE SCHEMA IF NOT EXISTS asks for the right to create one even where it exists.
    found = raw.execute(
        "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", (schema,)
    ).fetchone()
    if found is None:
        raw.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))


def _create(
    raw: psycopg.Connection[Any], place: tuple[str, str], table: PlainTable, gis: str
) -> None:
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(c.name), _type(c, table, gis)) for c in table.columns
    )
    try:
        raw.execute(sql.SQL("CREATE TABLE {} ({})").format(identifier(place), columns))
    except psycopg.errors.DuplicateTable:
        raise AlreadyExists(f"somebody else just made the table {table.label}") from None


def _type(column: Column, table: PlainTable, gis: str) -> sql.Composable:
    if column.kind in ("point", "line"):
        shape = "Point" if column.kind == "point" else "LineString"
        return geometry_type(gis, shape, table.srid)
    return sql.SQL(column.kind)


def _swap(raw: psycopg.Connection[Any], place: tuple[str, str], table: PlainTable) -> None:
    try:
        raw.execute(sql.SQL("DROP TABLE {}").format(identifier(table.relation)))
    except psycopg.errors.DependentObjectsStillExist:
        raise FreqdpError(
            f"the table {table.label} cannot be replaced: views or keys depend on it",
            remedy="drop those first, or load into another name",
        ) from None
    raw.execute(
        sql.SQL("ALTER TABLE {} RENAME TO {}").format(
            identifier(place), sql.Identifier(table.relation[1])
        )
    )


def _describe(connection: sa.Connection, table: PlainTable) -> None:
    raw = driver(connection)
    target = identifier(table.relation)
    if table.key is not None:
        raw.execute(
            sql.SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(target, sql.Identifier(table.key))
        )
        for column in table.columns:
            if column.kind in ("point", "line"):
                raw.execute(
                    sql.SQL("CREATE INDEX ON {} USING gist ({})").format(
                        target, sql.Identifier(column.name)
                    )
                )
    comment_on(connection, "TABLE", target, table.comment)
    for column in table.columns:
        named = sql.Identifier(*table.relation, column.name)
        comment_on(connection, "COLUMN", named, column.comment)


def _check_srid(raw: psycopg.Connection[Any], gis: str, srid: int) -> None:
    known = raw.execute(
        sql.SQL("SELECT 1 FROM {} WHERE srid = %s").format(sql.Identifier(gis, "spatial_ref_sys")),
        (srid,),
    ).fetchone()
    if known is None:
        raise BadInput(
            f"[[srid]] {srid} is not known to this database",
            remedy="give a code from spatial_ref_sys, such as 4326",
        )


def column_types(raw: psycopg.Connection[Any], relation: tuple[str, str]) -> dict[str, str]:
    """Names and types of a relation's columns; nothing if it is not there."""
    return dict(
        raw.execute(
            "SELECT a.attname::text, t.typname::text FROM pg_catalog.pg_attribute a "
            "JOIN pg_catalog.pg_type t ON t.oid = a.atttypid "
            "JOIN pg_catalog.pg_class c ON c.oid = a.attrelid "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped",
            relation,
        ).fetchall()
    )


def _check_columns(raw: psycopg.Connection[Any], table: PlainTable) -> None:
    """Rows can be added only to a table that has our columns, in our types."""
    found = column_types(raw, table.relation)
    for column in table.columns:
        wanted = "geometry" if column.kind in ("point", "line") else column.kind
        if found.get(column.name) != wanted:
            raise BadInput(
                f"the table {table.label} has no column {column.name} of type {wanted}",
                remedy="[[append]] adds to tables that this command made; load into another name",
            )
