"""A release's tables: staged in the private schema, published by one short transaction, withdrawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from psycopg.types.json import Jsonb

from freqdp_db.errors import AlreadyExists, Busy
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.connection.leftovers import numbers_left
from freqdp_db.storage.connection.locks import is_free, limit_waiting
from freqdp_db.storage.connection.statements import call
from freqdp_db.storage.copy.layout import Layout, write_records
from freqdp_db.storage.published.current import next_version, show_newest
from freqdp_db.storage.published.naming import INDEXES, PRIMARY, whole
from freqdp_db.storage.published.waiting import LOCK_TIMEOUT, patient
from freqdp_db.storage.records.datasets import table

POINTS = Layout(
    [("trajectory_id", "int8"), ("seq", "int4"), ("at", "timestamptz"), ("geom", "point")]
)
AREAS = Layout([*POINTS.columns, ("area", "box"), ("during", "tstzrange")])
"""Of a generalised release: where and when each sample may have been."""
_STAGING = re.compile(r"staging_(?P<number>\d+)(_line|_part)?")
TRIP_COLUMNS = [
    "trajectory_id", "trip", "start_at", "end_at", "length_m", "places", "start_geom", "end_geom", "geom",
]  # fmt: skip
"""Of the view of trips, which `create_trip_view` makes."""
KEY = ["trajectory_id", "seq"]
"""Of the table of samples: its primary key, and the order in which its rows are written."""
LINE_KEY = ["trajectory_id", "day"]
"""The same of the table of lines."""
LINE_COLUMNS = [*LINE_KEY, "geom"]


def columns_to_come(*, areas: bool) -> dict[str, list[str]]:
    """What the parts of a release will have, by what follows its name."""
    # the points of areas are only their middles: no way leads there
    return {
        "": (AREAS if areas else POINTS).names,
        "_line": LINE_COLUMNS,
        "_trip": [] if areas else TRIP_COLUMNS,
    }


def staging_names(release_id: int) -> tuple[str, str, str]:
    """The samples, the lines, and where workers note which parts of both they have written."""
    return f"staging_{release_id}", f"staging_{release_id}_line", f"staging_{release_id}_part"


def drop_staging(database: Database, release_id: int) -> None:
    """For the holder of the release's lock."""
    with database.begin() as connection:
        # without a timeout: the server may still be at the last statement of a killed run
        call(connection, database, "drop_staging", release_id)


def sweep_staging(database: Database) -> None:
    """Drop the staging tables of runs that no longer live."""
    for release_id in numbers_left(database, _STAGING):
        # what is busy is left to the next run
        with suppress(Busy), database.begin() as connection:
            if is_free(connection, database, "release", release_id):
                limit_waiting(connection, LOCK_TIMEOUT)
                call(connection, database, "drop_staging", release_id)


def write_points(
    database: Database, release_id: int, srid: int, layout: Layout, points: Iterable[Any]
) -> None:
    """Create the table of samples and fill it; its indexes follow."""
    with database.begin() as connection:
        # created and filled in one transaction: a server with wal_level = minimal need not log it
        relation = staged(database, release_id)[0]
        kind = "areas" if layout is AREAS else "points"
        call(connection, database, "create_staging", release_id, kind, srid)
        write_records(driver(connection), relation, layout.names, points, created_here=True)


def write_lines(database: Database, release_id: int, srid: int, lines: Iterable[Any]) -> None:
    """Create the table of lines, fill it and index it."""
    with database.begin() as connection:
        relation = staged(database, release_id)[1]
        call(connection, database, "create_staging", release_id, "lines", srid)
        write_records(driver(connection), relation, LINE_COLUMNS, lines, created_here=True)
        call(connection, database, "index_staging", release_id, "lines")


def start_indexes(
    database: Database, release_id: int, layout: Layout, start: Callable[..., Future[None]]
) -> tuple[Future[None], list[Future[None]]]:
    """Index the samples, one statement a call of `start`; the index of the key, and the others."""
    others = ["at"]
    if layout is AREAS:
        others += ["area", "during"]

    def index(what: str) -> None:
        with database.begin() as connection:
            # the GiST index takes longest and knows no workers: others leave it its processor
            driver(connection).execute("SET LOCAL max_parallel_maintenance_workers = 0")
            call(connection, database, "index_staging", release_id, what)

    longest = start(index, "geom")
    key = start(index, "key")
    return key, [longest, *(start(index, what) for what in others)]


def finish_indexes(database: Database, release_id: int) -> None:
    """The unique index becomes the primary key."""
    with database.begin() as connection:
        call(connection, database, "finish_staging", release_id)


def staged(database: Database, release_id: int) -> tuple[sql.Identifier, sql.Identifier]:
    """The staged samples and the staged lines."""
    points, lines, _ = staging_names(release_id)
    schema = database.settings.schema
    return sql.Identifier(schema, points), sql.Identifier(schema, lines)


def require_free_name(connection: Connection, database: Database, name: str) -> None:
    """Refuse a name if a relation of the release schema has it, or that of a table or index of it."""
    wanted = [
        whole(relation + suffix)
        for relation in (name, f"{name}_line")
        for suffix in ("", PRIMARY, *INDEXES.values())
    ]
    wanted.append(f"{name}_trip")
    taken = connection.execute(
        sa.text(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = :schema AND c.relname = ANY(:wanted)"
        ),
        {"schema": database.settings.release_schema, "wanted": wanted},
    ).first()
    if taken is not None:
        raise AlreadyExists(
            f"{database.settings.release_schema} has a relation {taken[0]!r} already",
            remedy="choose another name with [[name]], or withdraw that release",
        )


@patient
def publish(
    show: bool,
    database: Database,
    release_id: int,
    name: str,
    dataset_id: int,
    comments: dict[str, str],
    catalog: dict[str, Any],
) -> None:
    """Move the staged tables into the release schema: all or nothing, and never waiting for long.

    show: as the newest of its dataset, too.
    """
    releases = table(database, "release")
    with database.begin() as connection:
        limit_waiting(connection, LOCK_TIMEOUT)
        require_free_name(connection, database, name)
        version = next_version(connection, database, dataset_id)
        call(connection, database, "publish_tables", release_id, Jsonb(comments))
        published_at = connection.execute(sa.select(sa.func.now())).scalar_one()
        connection.execute(
            sa.insert(table(database, "catalog", released=True)).values(
                name=name, published_at=published_at, version=version, **catalog
            )
        )
        connection.execute(
            sa.update(releases)
            .where(releases.c.release_id == release_id)
            .values(
                state="published",
                published_at=published_at,
                rows=catalog["rows"],
                version=version,
            )
        )
        if catalog["granted"]:
            call(connection, database, "grant_release", release_id)
        if catalog["granted"] and show:
            show_newest(connection, database, dataset_id)
