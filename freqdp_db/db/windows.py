"""Windows of a dataset: days, weeks and months of the calendar in its time zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from psycopg import sql

from freqdp_db.db.connection import Connection, Database, driver
from freqdp_db.db.names import format_name
from freqdp_db.db.statements import one_value, private_name, rows_as
from freqdp_db.errors import BadInput

EVERY = {"day": "daily", "week": "weekly", "month": "monthly"}
"""What a window can be, and what a series of such is called."""


@dataclass(frozen=True)
class Window:
    """One window, as SQL's `find_window` gives it."""

    time_window: str
    """2024-05-06, 2024-W19 or 2024-05."""
    every: str
    """day, week or month."""
    first_day: date
    window_begin: datetime
    window_end: datetime
    """Not in it."""
    following: str
    """What the next one is called."""
    ended: bool

    @property
    def times(self) -> tuple[datetime, datetime]:
        return self.window_begin, self.window_end


def find_window(connection: Connection, database: Database, word: str, timezone: str) -> Window:
    """The window that a word means now: `2024-05-06`, `yesterday`, ...; raises BadInput."""
    query = sql.SQL("SELECT * FROM {}(%s::text, %s::text)").format(
        private_name(database, "find_window")
    )
    (found,) = rows_as(Window, connection, query, [word, timezone])
    return found


def ended_window(database: Database, word: str, timezone: str) -> Window:
    """The same, of a window that is over: what is released is closed, and must be whole."""
    with database.begin() as connection:
        window = find_window(connection, database, word, timezone)
    if not window.ended:
        raise BadInput(
            f"[[window]] {window.time_window} has not ended in {timezone}: a release closes it",
            remedy="take one that is over, such as yesterday or last-week",
        )
    return window


def window_name(series: str, time_window: str) -> str:
    """The release of a window in a series; `record_release` refuses any other name."""
    return f"{series}_{time_window.replace('-', '_')}"


def missing_index(
    connection: Connection, database: Database, source: tuple[str, str], column: str
) -> str | None:
    """The statement that makes an index by which a window can be read alone; None: there is one.

    Of a view, any table behind it with a column of that name.
    """
    query = sql.SQL(
        """
        SELECT l.source_schema, l.source_relation, EXISTS (
            SELECT FROM pg_index AS i
            WHERE i.indrelid = a.attrelid AND i.indkey[0] = a.attnum AND i.indisvalid AND i.indpred IS NULL
        )
        FROM {}(%s::text, %s::text) AS l
        JOIN pg_attribute AS a ON a.attrelid = l.relation_oid::oid AND a.attname = %s AND NOT a.attisdropped
        WHERE l.relation_kind IN ('r', 'p', 'm')
        ORDER BY (l.source_schema, l.source_relation) = (%s::text, %s::text) DESC, 1, 2
        """
    ).format(private_name(database, "source_lineage"))
    found = driver(connection).execute(query, [*source, column, *source]).fetchall()
    if not found or any(indexed for *_, indexed in found):
        return None
    schema, relation, _ = found[0]
    return f"CREATE INDEX ON {format_name(schema)}.{format_name(relation)} ({format_name(column)})"


def window_build(database: Database, dataset_id: int, time_window: str) -> int | None:
    """The newest build of a window that is there."""
    query = sql.SQL(
        "SELECT max(build_id) FROM {} WHERE dataset_id = %s AND time_window = %s AND dropped_at IS NULL"
    ).format(private_name(database, "build"))
    with database.begin() as connection:
        found: int | None = one_value(connection, query, [dataset_id, time_window])
    return found
