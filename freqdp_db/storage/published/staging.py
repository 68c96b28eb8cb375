"""A release's tables: staged in the private schema, published by one short transaction, withdrawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from psycopg import sql

from freqdp_db.errors import AlreadyExists, Busy
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.connection.leftovers import drop_tables, numbers_left
from freqdp_db.storage.connection.locks import is_free, limit_waiting
from freqdp_db.storage.connection.postgis import geometry_type, postgis_schema
from freqdp_db.storage.connection.statements import comment_on, listed
from freqdp_db.storage.copy.layout import Layout, write_records
from freqdp_db.storage.published.current import next_version, show_newest
from freqdp_db.storage.published.granting import grant_to_analysts
from freqdp_db.storage.published.naming import INDEXES, PRIMARY, rename_indexes, whole
from freqdp_db.storage.published.relations import columns_of, srid_of
from freqdp_db.storage.published.trips import TRIP_COLUMNS, show_trips
from freqdp_db.storage.published.waiting import LOCK_TIMEOUT, patient
from freqdp_db.storage.records.datasets import table
from freqdp_db.storage.schema.grants import hand_over

POINTS = Layout(
    [("trajectory_id", "int8"), ("seq", "int4"), ("at", "timestamptz"), ("geom", "point")]
)
AREAS = Layout([*POINTS.columns, ("area", "box"), ("during", "tstzrange")])
"""Of a generalised release: where and when each sample may have been."""
_STAGING = re.compile(r"staging_(?P<number>\d+)(_line|_part)?")
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
        drop_tables(connection, database, staging_names(release_id))


def sweep_staging(database: Database) -> None:
    """Drop the staging tables of runs that no longer live."""
    for release_id in numbers_left(database, _STAGING):
        # what is busy is left to the next run
        with suppress(Busy), database.begin() as connection:
            if is_free(connection, database, "release", release_id):
                limit_waiting(connection, LOCK_TIMEOUT)
                drop_tables(connection, database, staging_names(release_id))


def write_points(
    database: Database, release_id: int, srid: int, layout: Layout, points: Iterable[Any]
) -> None:
    """Create the table of samples and fill it; its indexes follow."""
    with database.begin() as connection:
        # created and filled in one transaction: a server with wal_level = minimal need not log it
        relation = staged(database, release_id)[0]
        create_points(connection, database, relation, srid, layout)
        write_records(driver(connection), relation, layout.names, points, created_here=True)


def write_lines(database: Database, release_id: int, srid: int, lines: Iterable[Any]) -> None:
    """Create the table of lines, fill it and index it."""
    with database.begin() as connection:
        relation = staged(database, release_id)[1]
        create_lines(connection, database, relation, srid)
        write_records(driver(connection), relation, LINE_COLUMNS, lines, created_here=True)
        index_lines(connection, relation)


def create_points(
    connection: Connection, database: Database, relation: sql.Identifier, srid: int, layout: Layout
) -> None:
    raw, postgis = driver(connection), postgis_schema(connection)
    raw.execute(
        sql.SQL(
            "CREATE TABLE {} (trajectory_id bigint NOT NULL, seq int NOT NULL, "
            "at timestamptz NOT NULL, geom {} NOT NULL)"
        ).format(relation, geometry_type(postgis, "Point", srid))
    )
    if layout is AREAS:
        raw.execute(
            sql.SQL(
                "ALTER TABLE {} ADD COLUMN area {} NOT NULL, ADD COLUMN during tstzrange NOT NULL"
            ).format(relation, geometry_type(postgis, "Polygon", srid))
        )
    hand_over(connection, database, relation)


def create_lines(
    connection: Connection, database: Database, relation: sql.Identifier, srid: int
) -> None:
    raw, postgis = driver(connection), postgis_schema(connection)
    raw.execute(
        sql.SQL(
            "CREATE TABLE {} (trajectory_id bigint NOT NULL, day date NOT NULL, geom {} NOT NULL)"
        ).format(relation, geometry_type(postgis, "LineStringM", srid))
    )
    raw.execute(sql.SQL("ALTER TABLE {} ALTER COLUMN geom SET STORAGE EXTERNAL").format(relation))
    hand_over(connection, database, relation)


def index_lines(connection: Connection, relation: sql.Identifier) -> None:
    raw = driver(connection)
    raw.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(relation, listed(LINE_KEY)))
    raw.execute(sql.SQL("CREATE INDEX ON {} USING gist (geom)").format(relation))
    raw.execute(sql.SQL("ANALYZE {}").format(relation))


def start_indexes(
    database: Database, release_id: int, layout: Layout, start: Callable[..., Future[None]]
) -> tuple[Future[None], list[Future[None]]]:
    """Index the samples, one statement a call of `start`; the index of the key, and the others."""
    relation = staged(database, release_id)[0]
    others = ["(at)"]
    if layout is AREAS:
        others += ["USING gist (area)", "USING gist (during)"]

    def index(columns: str, kind: str = "INDEX") -> None:
        with database.begin() as connection:
            raw = driver(connection)
            # the GiST index takes longest and knows no workers: others leave it its processor
            raw.execute("SET LOCAL max_parallel_maintenance_workers = 0")
            raw.execute(sql.SQL(f"CREATE {kind} ON {{}} {columns}").format(relation))

    longest = start(index, "USING gist (geom)")
    key = start(index, f"({', '.join(KEY)})", "UNIQUE INDEX")
    return key, [longest, *(start(index, columns) for columns in others)]


def finish_indexes(database: Database, release_id: int) -> None:
    """The unique index becomes the primary key."""
    relation = staged(database, release_id)[0]
    with database.begin() as connection:
        raw = driver(connection)
        unique = raw.execute(
            sql.SQL(
                "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
                "WHERE i.indrelid = {}::regclass AND i.indisunique"
            ).format(sql.Literal(relation.as_string(None)))
        ).fetchone()
        assert unique is not None
        raw.execute(
            sql.SQL("ALTER TABLE {} ADD PRIMARY KEY USING INDEX {}").format(
                relation, sql.Identifier(unique[0])
            )
        )
        raw.execute(sql.SQL("ANALYZE {}").format(relation))


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
            remedy="choose another name with --as, or withdraw that release",
        )


@patient
def publish(
    database: Database,
    release_id: int,
    name: str,
    dataset_id: int,
    comments: dict[str, str],
    catalog: dict[str, Any],
) -> None:
    """Move the staged tables into the release schema: all or nothing, and never waiting for long."""
    schema, released = database.settings.schema, database.settings.release_schema
    releases = table(database, "release")
    with database.begin() as connection:
        raw = driver(connection)
        limit_waiting(connection, LOCK_TIMEOUT)
        require_free_name(connection, database, name)
        version = next_version(connection, database, dataset_id)
        for staged_name, final in zip(
            staging_names(release_id)[:2], (name, f"{name}_line"), strict=True
        ):
            raw.execute(
                sql.SQL("ALTER TABLE {} SET SCHEMA {}").format(
                    sql.Identifier(schema, staged_name), sql.Identifier(released)
                )
            )
            raw.execute(
                sql.SQL("ALTER TABLE {} RENAME TO {}").format(
                    sql.Identifier(released, staged_name), sql.Identifier(final)
                )
            )
            rename_indexes(raw, released, final)
        present = columns_of(connection, (released, name))
        if columns_to_come(areas="area" in present)["_trip"]:
            srid = srid_of(connection, (released, name))
            show_trips(connection, database, name, srid, comments["trip"])
        if catalog["granted"]:
            grant_to_analysts(connection, database, name)
        for target, comment in comments.items():
            kind, _, column = target.partition(".")
            final = name if kind == "points" else f"{name}_line"
            if kind == "trip" or (kind == "points" and column and column not in present):
                continue
            named = (released, final, column) if column else (released, final)
            comment_on(connection, "COLUMN" if column else "TABLE", sql.Identifier(*named), comment)
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
            show_newest(connection, database, dataset_id)
