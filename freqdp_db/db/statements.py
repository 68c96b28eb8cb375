"""Short forms for statements of ours: the names in them, what they give, and JSON with exact numbers.

In the text of a statement `{p}` is our private schema, `{r}` that of the releases.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, LiteralString, TypeAlias, TypeVar

import psycopg
from psycopg import sql
from psycopg.abc import Params
from psycopg.rows import kwargs_row

from freqdp_db.db.connection import Connection, driver
from freqdp_db.errors import BadInput

T = TypeVar("T")
Query: TypeAlias = LiteralString | sql.SQL | sql.Composed
_MOST_DIGITS = 1000


def private_schema(connection: Connection) -> str:
    schema: str = connection.info["schemas"][0]
    return schema


def release_schema(connection: Connection) -> str:
    schema: str = connection.info["schemas"][1]
    return schema


def private_name(connection: Connection, name: str) -> sql.Identifier:
    """A relation or a function of the private schema."""
    return sql.Identifier(private_schema(connection), name)


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
    connection: Connection,
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
        private_name(connection, name),
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


def execute(
    connection: Connection, query: Query, values: Params | None = None, **parts: sql.Composable
) -> psycopg.Cursor[Any]:
    """Run a statement; further parts of its text by name."""
    return driver(connection).execute(_named(connection, query, **parts), values)


def one_value(connection: Connection, query: Query, values: Params | None = None) -> Any:
    """Of a query that always gives a row: its first column."""
    row = execute(connection, query, values).fetchone()
    assert row is not None
    return row[0]


def rows_as(
    kind: Callable[..., T], connection: Connection, query: Query, values: Params | None = None
) -> list[T]:
    """The rows of a query, each as one of these: its columns are called as the fields."""
    with driver(connection).cursor(row_factory=kwargs_row(kind)) as cursor:
        return cursor.execute(_named(connection, query), values).fetchall()


def _named(connection: Connection, query: Query, **parts: sql.Composable) -> sql.SQL | sql.Composed:
    """A text with the names of this installation in place."""
    if isinstance(query, sql.SQL | sql.Composed):
        return query
    private, release = connection.info["schemas"]
    return sql.SQL(query).format(p=sql.Identifier(private), r=sql.Identifier(release), **parts)


def call(connection: Connection, function: str, *arguments: Any) -> Any:
    """What a function of ours gives."""
    slots = sql.SQL(", ").join([sql.Placeholder()] * len(arguments))
    query = sql.SQL("SELECT {}({})").format(private_name(connection, function), slots)
    return one_value(connection, query, arguments)


# JSON whose numbers are exact: json makes floats of them, and a float is not what was asked for.


def as_json(value: Any) -> str:
    """A document as JSON text. Decimals are numbers, written out."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {as_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_json, value)) + "]"
    return json.dumps(value)


def _whole(digits: str) -> int | Decimal:
    # Python takes long numbers for an attack: converting them takes longer than their length
    return int(digits) if len(digits) <= _MOST_DIGITS else Decimal(digits)


def from_json(text: str) -> Any:
    """A document from JSON text: numbers are ints or Decimals. Raises BadInput."""
    try:
        return json.loads(text, parse_float=Decimal, parse_int=_whole)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise BadInput(
            f"a JSON document cannot be read ({type(error).__name__})",
            remedy="give one that is flat, with numbers of a usual size",
        ) from None
