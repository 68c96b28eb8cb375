"""A release's tables, written in parts by several sessions at once, each part once.

A part is noted in the transaction that writes it. Whoever is told to write a part that is noted already
has nothing to do; who comes while another is at it waits for that one. So it does not matter how often a
worker is lost and its work given to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from psycopg import sql

from freqdp_db.storage.connection.engine import Database, driver
from freqdp_db.storage.copy.layout import write_records
from freqdp_db.storage.published.staging import (
    LINE_COLUMNS,
    POINTS,
    create_lines,
    create_points,
    index_lines,
    index_points,
    staged_relations,
    staging_names,
)
from freqdp_db.storage.schema.grants import hand_over


def _noted(database: Database, release_id: int) -> sql.Identifier:
    return sql.Identifier(database.settings.schema, staging_names(release_id)[2])


def create_staging(database: Database, release_id: int, srid: int) -> None:
    """Empty tables, for all to see."""
    points, lines = staged_relations(database, release_id)
    noted = _noted(database, release_id)
    with database.begin() as connection:
        create_points(connection, database, points, srid, POINTS)
        create_lines(connection, database, lines, srid)
        driver(connection).execute(sql.SQL("CREATE TABLE {} (part int PRIMARY KEY)").format(noted))
        hand_over(connection, database, noted)


def write_part(
    database: Database,
    release_id: int,
    part: int,
    points: Iterable[Any],
    lines: Callable[[], Iterable[Any]],
) -> None:
    """Write a part, unless that was done before."""
    relation, line_relation = staged_relations(database, release_id)
    with database.begin() as connection:
        raw = driver(connection)
        mine = raw.execute(
            sql.SQL("INSERT INTO {} VALUES ({}) ON CONFLICT DO NOTHING RETURNING part").format(
                _noted(database, release_id), sql.Literal(part)
            )
        ).fetchone()
        if mine is not None:
            write_records(raw, relation, POINTS.names, points)
            write_records(raw, line_relation, LINE_COLUMNS, lines())


def finish_staging(database: Database, release_id: int) -> None:
    """Index what the parts have filled."""
    relation, line_relation = staged_relations(database, release_id)

    def lines() -> None:
        with database.begin() as connection:
            index_lines(connection, line_relation)

    index_points(database, relation, POINTS, lines)
    with database.begin() as connection:
        driver(connection).execute(sql.SQL("DROP TABLE {}").format(_noted(database, release_id)))
