"""The large tables of a build, samples and segments, written in ranges by several sessions at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.statements import call, own
from freqdp_db.storage.copy.layout import Layout, write_records
from freqdp_db.storage.copy.once import create_notes, drop_notes, writing_once
from freqdp_db.storage.records.builds import part_name

LARGE = ("sample", "segment")
Chunks = tuple[Layout, Iterable[NDArray[Any]]]


def _notes(database: Database, build_id: int) -> sql.Identifier:
    return own(database, f"sample_{build_id}_part")


def create_large(database: Database, build_id: int) -> int:
    """Empty tables, for all to see; the number of the run that fills them."""
    with database.begin() as connection:
        for part in LARGE:
            call(connection, database, "create_build_table", build_id, part)
        return create_notes(connection, database, "build", build_id)


def write_range(
    database: Database, build_id: int, run: int, number: int, samples: Chunks, segments: Chunks
) -> None:
    """Write a range, unless that was done before."""
    with writing_once(database, _notes(database, build_id), run, number) as raw:
        if raw is None:
            return
        for part, (layout, chunks) in zip(LARGE, (samples, segments), strict=True):
            relation = own(database, part_name(part, build_id))
            write_records(raw, relation, layout.names, chunks)


def finish_large(database: Database, build_id: int) -> None:
    """Give both tables their keys, in two sessions."""

    def index(part: str) -> None:
        with database.begin() as connection:
            call(connection, database, "finish_build_table", build_id, part)

    with database.side_by_side(len(LARGE)) as start:
        for part in LARGE:
            start(index, part)
    drop_notes(database, "build", build_id)
