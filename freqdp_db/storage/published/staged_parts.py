"""A release's tables, written in parts by several sessions at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from psycopg import sql

from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.statements import own
from freqdp_db.storage.copy.layout import write_records
from freqdp_db.storage.copy.once import create_notes, drop_notes, writing_once
from freqdp_db.storage.published.staging import (
    LINE_COLUMNS,
    POINTS,
    create_lines,
    create_points,
    index_lines,
    staged,
    staging_names,
)


def _notes(database: Database, release_id: int) -> sql.Identifier:
    return own(database, staging_names(release_id)[2])


def create_staging(database: Database, release_id: int, srid: int) -> int:
    """Empty tables, for all to see; the number of the run that fills them."""
    with database.begin() as connection:
        points, lines = staged(database, release_id)
        create_points(connection, database, points, srid, POINTS)
        create_lines(connection, database, lines, srid)
        return create_notes(connection, database, _notes(database, release_id))


def write_part(
    database: Database,
    release_id: int,
    run: int,
    part: int,
    points: Iterable[Any],
    lines: Callable[[], Iterable[Any]],
) -> None:
    """Write a part, unless that was done before."""
    relation, line_relation = staged(database, release_id)
    with writing_once(database, _notes(database, release_id), run, part) as raw:
        if raw is not None:
            write_records(raw, relation, POINTS.names, points)
            write_records(raw, line_relation, LINE_COLUMNS, lines())


def finish_lines(database: Database, release_id: int) -> None:
    """Index the lines, and forget the notes: all parts are written."""
    with database.begin() as connection:
        index_lines(connection, staged(database, release_id)[1])
    drop_notes(database, _notes(database, release_id))
