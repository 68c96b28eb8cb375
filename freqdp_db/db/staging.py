"""A release's tables: staged in the private schema, published by one short transaction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from psycopg import sql
from psycopg.types.json import Jsonb

from freqdp_db.db.connection import Connection, Database, DatabaseRef, is_free, numbers_left
from freqdp_db.db.copy import write_records, writing_once
from freqdp_db.db.published import LOCK_TIMEOUT, next_version, retry_on_lock_timeout, show_newest
from freqdp_db.db.releases import ReleaseRow
from freqdp_db.db.source import relations_of
from freqdp_db.db.tables import insert_rows
from freqdp_db.errors import AlreadyExists, BadInput, Busy
from freqdp_db.methods.relations import Blocks, Relation
from freqdp_db.settings import MAX_IDENTIFIER_BYTES

_STAGING = re.compile(r"staging_(?P<number>\d+)(_[a-z_]+)?")


@dataclass(frozen=True)
class Staging:
    """The tables of a release that is being written: private, and of the owner's."""

    reach: DatabaseRef
    release_id: int
    method: str
    srid: int

    @property
    def database(self) -> Database:
        """In a worker, its own."""
        return self.reach.database()

    def name_of(self, relation: Relation) -> tuple[str, str]:
        """The schema and the name of a staged table."""
        return self.database.settings.schema, f"staging_{self.release_id}{relation.suffix}"

    def write(self, relation: Relation, blocks: Blocks) -> None:
        """Create a table and fill it; its indexes follow."""
        with self.database.begin() as connection:
            # created and filled in one transaction: a server with wal_level = minimal need not log it
            self._create(connection, relation)
            self._fill(connection.driver, relation, blocks, created_here=True)

    def _create(self, connection: Connection, relation: Relation) -> None:
        arguments = (self.release_id, self.method, relation.suffix, self.srid)
        connection.call("create_staging", *arguments)

    def _fill(self, raw: Any, relation: Relation, blocks: Blocks, **how: bool) -> None:
        name = sql.Identifier(*self.name_of(relation))
        write_records(raw, name, relation.names, blocks, **how)

    def index(self, relation: Relation, column: str | None) -> None:
        """Make one index of a table. column: None, the key."""
        with self.database.begin() as connection:
            # others are made meanwhile: without workers, which would take their processors
            connection.driver.execute("SET LOCAL max_parallel_maintenance_workers = 0")
            arguments = (self.release_id, self.method, relation.suffix, column)
            connection.call("index_staging", *arguments)

    def finish_indexes(self, relation: Relation) -> None:
        """The unique index becomes the primary key."""
        self.database.call("finish_staging", self.release_id, relation.suffix)

    def index_whole(self, relation: Relation) -> None:
        """Make all indexes of a table, one after the other."""
        for column in (None, *relation.indexes):
            self.index(relation, column)
        self.finish_indexes(relation)

    def create_for_parts(self, relations: list[Relation]) -> int:
        """Empty tables that several sessions fill in parts; the number of the run that fills them."""
        with self.database.begin() as connection:
            for relation in relations:
                self._create(connection, relation)
            run = connection.call("create_notes", "release", self.release_id)
            return int(run)

    def write_part(self, run: int, part: int, tables: Mapping[Relation, Blocks]) -> None:
        """Write a part of some tables, unless that was done before."""
        notes = f"staging_{self.release_id}_part"
        with writing_once(self.database, notes, run, part) as connection:
            if connection is not None:
                for relation, blocks in tables.items():
                    self._fill(connection.driver, relation, blocks)

    def forget_parts(self) -> None:
        """All parts are written."""
        self.database.call("drop_notes", "release", self.release_id)


def drop_staging(database: Database, release_id: int) -> None:
    """For the holder of the release's lock."""
    # without a timeout: the server may still be at the last statement of a killed run
    database.call("drop_staging", release_id)


def sweep_staging(database: Database) -> None:
    """Drop the staging tables of runs that no longer live."""
    for release_id in numbers_left(database, _STAGING):
        # what is busy is left to the next run
        with suppress(Busy), database.begin() as connection:
            if is_free(connection, "release", release_id):
                connection.limit_waiting(LOCK_TIMEOUT)
                connection.call("drop_staging", release_id)


def require_free_name(connection: Connection, name: str, relations: tuple[Relation, ...]) -> None:
    """Refuse a name if a relation of the release schema has that of a relation or an index of it."""
    wanted = []
    for relation in relations:
        named = name + relation.suffix
        if len(named.encode()) > MAX_IDENTIFIER_BYTES:
            raise BadInput(
                f"{named!r} is too long for a name in PostgreSQL",
                remedy="choose a shorter name for the release with [[name]]",
            )
        wanted.append(named)
        if relation.view is None:
            indexes = (f"_{column}_idx" for column in relation.indexes)
            wanted += [_cut_off(named + suffix) for suffix in ("_pkey", *indexes)]
    schema = connection.release_schema
    if taken := relations_of(connection, schema, wanted):
        raise AlreadyExists(
            f"{schema} has a relation {taken[0].name!r} already",
            remedy="choose another name with [[name]], or withdraw that release",
        )


def _cut_off(name: str) -> str:
    """A name as PostgreSQL keeps it: up to its last whole character."""
    return name.encode()[:MAX_IDENTIFIER_BYTES].decode(errors="ignore")


def publish(
    database: Database,
    release: ReleaseRow,
    relations: tuple[Relation, ...],
    comments: dict[str, dict[str, str]],
    catalog: dict[str, Any],
) -> None:
    """Move the staged tables into the release schema: all or nothing, and never waiting for long.

    comments: of each suffix; see `Relation.comments`.
    """
    published = (
        "UPDATE {p}.release SET state = 'published', published_at = now(), rows = %s, version = %s "
        "WHERE release_id = %s RETURNING published_at"
    )

    def attempt(show: bool) -> None:
        with database.begin() as connection:
            connection.limit_waiting(LOCK_TIMEOUT)
            require_free_name(connection, release.name, relations)
            version = next_version(connection, release.dataset_id)
            connection.call("publish_tables", release.release_id, Jsonb(comments))
            parts = [release.name + relation.suffix for relation in relations]
            row = {"name": release.name, "version": version, "relations": parts, **catalog}
            values = [catalog["rows"], version, release.release_id]
            published_at = connection.one_value(published, values)
            insert_rows(connection, "catalog", row | {"published_at": published_at})
            if release.granted:
                connection.call("grant_release", release.release_id)
                if show and release.window is None:
                    show_newest(connection, release.dataset_id, release.series)

    retry_on_lock_timeout(attempt)
