"""A release's tables, written in parts by several sessions at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from psycopg import sql

from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.statements import call, own
from freqdp_db.storage.copy.layout import write_records
from freqdp_db.storage.copy.once import create_notes, drop_notes, writing_once
from freqdp_db.storage.published.staging import (
    LINE_COLUMNS,
    POINTS,
    staged,
    staging_names,
)


def _notes(database: Database, release_id: int) -> sql.Identifier:
    return own(database, staging_names(release_id)[2])


def create_staging(database: Database, release_id: int, srid: int) -> int:
    """Empty tables, for all to see; the number of the run that fills them."""
    with database.begin() as connection:
        for kind in ("points", "lines"):
            call(connection, database, "create_staging", release_id, kind, srid)
        return create_notes(connection, database, "release", release_id)


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
        call(connection, database, "index_staging", release_id, "lines")
    drop_notes(database, "release", release_id)
