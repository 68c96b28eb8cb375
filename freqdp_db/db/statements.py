"""Short forms for statements of ours: the names in them, and what they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, LiteralString, TypeAlias, TypeVar

from psycopg import sql
from psycopg.abc import Params
from psycopg.rows import kwargs_row

from freqdp_db.db.connection import Connection, Database, driver

T = TypeVar("T")
Query: TypeAlias = LiteralString | sql.SQL | sql.Composed


def private_name(database: Database, name: str) -> sql.Identifier:
    """A relation or a function of the private schema."""
    return sql.Identifier(database.settings.schema, name)


def column_list(names: Iterable[str]) -> sql.Composed:
    """Columns, as they stand in a list."""
    return sql.SQL(", ").join(map(sql.Identifier, names))


def in_range(column: str, ends: tuple[int | None, int | None]) -> list[sql.Composable]:
    """Conditions: from the first end on, and before the second. None: no limit there."""
    return [
        sql.SQL("{} {} {}").format(sql.Identifier(column), sql.SQL(sign), sql.Literal(end))
        for sign, end in zip((">=", "<"), ends, strict=True)
        if end is not None
    ]


def select_own(
    database: Database,
    name: str,
    columns: Iterable[str],
    *order: str,
    part: tuple[int | None, int | None] = (None, None),
    **equal: Any,
) -> sql.Composed:
    """Columns of a table of ours, of the rows with these values. part: of these trajectories."""
    conditions: list[sql.Composable] = [
        sql.SQL("{} = {}").format(sql.Identifier(column), value) for column, value in equal.items()
    ]
    query = sql.SQL("SELECT {} FROM {} WHERE {}").format(
        column_list(columns),
        private_name(database, name),
        sql.SQL(" AND ").join(conditions + in_range("trajectory_id", part)),
    )
    return query + sql.SQL(" ORDER BY ") + column_list(order) if order else query


def as_written(connection: Connection) -> None:
    """In this transaction, scans give rows in the order in which they were written."""
    # one worker, and no joining of scans that run
    driver(connection).execute("SET LOCAL synchronize_seqscans = off")
    driver(connection).execute("SET LOCAL max_parallel_workers_per_gather = 0")


def comment_on(
    connection: Connection, kind: LiteralString, target: sql.Identifier, text: str
) -> None:
    """Say what a TABLE, a VIEW or a COLUMN is."""
    driver(connection).execute(
        sql.SQL("COMMENT ON {} {} IS {}").format(sql.SQL(kind), target, text)
    )


def one_value(connection: Connection, query: Query, values: Params | None = None) -> Any:
    """Of a query that always gives a row: its first column."""
    row = driver(connection).execute(query, values).fetchone()
    assert row is not None
    return row[0]


def call(connection: Connection, database: Database, function: str, *arguments: Any) -> Any:
    """What a function of ours gives."""
    slots = sql.SQL(", ").join([sql.Placeholder()] * len(arguments))
    query = sql.SQL("SELECT {}({})").format(private_name(database, function), slots)
    return one_value(connection, query, arguments)


def rows_as(
    kind: Callable[..., T], connection: Connection, query: Query, values: Params | None = None
) -> list[T]:
    """The rows of a query, each as one of these: its columns are called as the fields."""
    with driver(connection).cursor(row_factory=kwargs_row(kind)) as cursor:
        return cursor.execute(query, values).fetchall()
