"""A release's tables: staged in the private schema, published by one short transaction, withdrawn."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from psycopg import sql

from freqdp_db.errors import AlreadyExists, Busy
from freqdp_db.settings import MAX_IDENTIFIER_BYTES
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.connection.locks import is_free
from freqdp_db.storage.copy.layout import Layout, write_records
from freqdp_db.storage.published.current import next_version, show_newest
from freqdp_db.storage.published.relations import role_exists
from freqdp_db.storage.records.datasets import table
from freqdp_db.storage.schema.grants import hand_over
from freqdp_db.storage.schema.upgrade import names_of

POINTS = Layout(
    [("trajectory_id", "int8"), ("seq", "int4"), ("at", "timestamptz"), ("geom", "point")]
)
AREAS = Layout([*POINTS.columns, ("area", "box"), ("during", "tstzrange")])
"""Of a generalised release: where and when each sample may have been."""
_STAGING = re.compile(r"^staging_(\d+)(_line)?$")
KEY = ["trajectory_id", "seq"]
"""Of the table of samples: its primary key, and the order in which its rows are written."""
_INDEXES = {"at": "_at_idx", "geom": "_geom_idx", "area": "_area_idx", "during": "_during_idx"}
"""Of the columns that have one, besides the primary key."""
_PRIMARY = "_pkey"
_LOCK_TIMEOUT = "2s"
_ATTEMPTS = 15
_SECONDS_BETWEEN = 1.0


def staging_names(release_id: int) -> tuple[str, str]:
    return f"staging_{release_id}", f"staging_{release_id}_line"


def drop_staging(database: Database, release_id: int) -> None:
    """For the holder of the release's lock."""
    with database.begin() as connection:
        # without a timeout: the server may still be at the last statement of a killed run
        _drop_staged(connection, database, release_id)


def _drop_staged(connection: Connection, database: Database, release_id: int) -> None:
    for name in staging_names(release_id):
        driver(connection).execute(
            sql.SQL("DROP TABLE IF EXISTS {}").format(
                sql.Identifier(database.settings.schema, name)
            )
        )


def sweep_staging(database: Database) -> list[int]:
    """Drop the staging tables of runs that no longer live."""
    with database.begin() as connection:
        names = connection.execute(
            sa.text(
                "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                "WHERE n.nspname = :schema AND c.relkind = 'r'"
            ),
            {"schema": database.settings.schema},
        ).scalars()
        left = {int(m[1]) for name in names if (m := _STAGING.match(name))}
    swept = []
    for release_id in sorted(left):
        # what is busy is left to the next run
        with suppress(Busy), database.begin() as connection:
            if is_free(connection, database, "release", release_id):
                limit_waiting(connection)
                _drop_staged(connection, database, release_id)
                swept.append(release_id)
    return swept


def limit_waiting(connection: Connection) -> None:
    """Rather fail than hold others up."""
    driver(connection).execute(
        sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(_LOCK_TIMEOUT))
    )


def write_points(
    database: Database, release_id: int, srid: int, layout: Layout, points: Iterable[Any]
) -> None:
    """Create the table of samples and fill it; its indexes follow."""
    relation = _staged(database, release_id)[0]
    with database.begin() as connection:
        raw = driver(connection)
        postgis = names_of(connection, database).postgis
        # created and filled in one transaction: a server with wal_level = minimal need not log it
        raw.execute(
            sql.SQL(
                "CREATE TABLE {} (trajectory_id bigint NOT NULL, seq int NOT NULL, "
                "at timestamptz NOT NULL, geom {} NOT NULL)"
            ).format(relation, _geometry(postgis, "Point", srid))
        )
        if layout is AREAS:
            raw.execute(
                sql.SQL(
                    "ALTER TABLE {} ADD COLUMN area {} NOT NULL, "
                    "ADD COLUMN during tstzrange NOT NULL"
                ).format(relation, _geometry(postgis, "Polygon", srid))
            )
        hand_over(connection, database, relation)
        write_records(raw, relation, layout.names, points, created_here=True)


def write_lines(database: Database, release_id: int, srid: int, lines: Iterable[Any]) -> None:
    """Create the table of lines, fill it and index it."""
    relation = _staged(database, release_id)[1]
    with database.begin() as connection:
        raw = driver(connection)
        postgis = names_of(connection, database).postgis
        raw.execute(
            sql.SQL("CREATE TABLE {} (trajectory_id bigint NOT NULL, geom {} NOT NULL)").format(
                relation, _geometry(postgis, "LineStringM", srid)
            )
        )
        raw.execute(
            sql.SQL("ALTER TABLE {} ALTER COLUMN geom SET STORAGE EXTERNAL").format(relation)
        )
        hand_over(connection, database, relation)
        write_records(raw, relation, ["trajectory_id", "geom"], lines, created_here=True)
        raw.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (trajectory_id)").format(relation))
        raw.execute(sql.SQL("CREATE INDEX ON {} USING gist (geom)").format(relation))
        raw.execute(sql.SQL("ANALYZE {}").format(relation))


def start_indexes(
    database: Database, release_id: int, layout: Layout, start: Callable[..., Future[None]]
) -> list[Future[None]]:
    """Index the samples: one statement a call of `start`, the longest first."""
    relation = _staged(database, release_id)[0]
    indexed = ["USING gist (geom)", "(at)"]
    if layout is AREAS:
        indexed += ["USING gist (area)", "USING gist (during)"]
    statements = [
        *(f"CREATE INDEX ON {{}} {columns}" for columns in indexed),
        f"CREATE UNIQUE INDEX ON {{}} ({', '.join(KEY)})",
    ]

    def index(statement: str) -> None:
        with database.begin() as connection:
            raw = driver(connection)
            # the GiST index takes longest and knows no workers: others leave it its processor
            raw.execute("SET LOCAL max_parallel_maintenance_workers = 0")
            raw.execute(sql.SQL(statement).format(relation))

    return [start(index, statement) for statement in statements]


def finish_indexes(database: Database, release_id: int) -> None:
    """The unique index becomes the primary key."""
    relation = _staged(database, release_id)[0]
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


def _staged(database: Database, release_id: int) -> tuple[sql.Identifier, sql.Identifier]:
    points, lines = staging_names(release_id)
    schema = database.settings.schema
    return sql.Identifier(schema, points), sql.Identifier(schema, lines)


def _geometry(postgis: str, kind: str, srid: int) -> sql.Composed:
    return sql.SQL("{}({}, {})").format(
        sql.Identifier(postgis, "geometry"),
        sql.SQL(kind),
        sql.Literal(srid),
    )


def require_free_name(connection: Connection, database: Database, name: str) -> None:
    """Refuse a name if a relation of the release schema has it, or that of a table or index of it."""
    wanted = [
        _whole(relation + suffix)
        for relation in (name, f"{name}_line")
        for suffix in ("", _PRIMARY, *_INDEXES.values())
    ]
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


def publish(
    database: Database,
    release_id: int,
    name: str,
    dataset_id: int,
    comments: dict[str, str],
    catalog: dict[str, Any],
) -> None:
    """Move the staged tables into the release schema: all or nothing, and never waiting for long."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _publish_once(database, release_id, name, dataset_id, comments, catalog)
            return
        except Busy:
            if attempt == _ATTEMPTS:
                raise
            time.sleep(_SECONDS_BETWEEN)


def _publish_once(
    database: Database,
    release_id: int,
    name: str,
    dataset_id: int,
    comments: dict[str, str],
    catalog: dict[str, Any],
) -> None:
    schema, released = database.settings.schema, database.settings.release_schema
    releases = table(database, "release")
    with database.begin() as connection:
        raw = driver(connection)
        limit_waiting(connection)
        require_free_name(connection, database, name)
        version = next_version(connection, database, dataset_id)
        granted = catalog["granted"] and role_exists(connection, database, "analyst")
        for staged, final in zip(staging_names(release_id), (name, f"{name}_line"), strict=True):
            raw.execute(
                sql.SQL("ALTER TABLE {} SET SCHEMA {}").format(
                    sql.Identifier(schema, staged), sql.Identifier(released)
                )
            )
            raw.execute(
                sql.SQL("ALTER TABLE {} RENAME TO {}").format(
                    sql.Identifier(released, staged), sql.Identifier(final)
                )
            )
            _rename_indexes(raw, released, final)
            if granted:
                raw.execute(
                    sql.SQL("GRANT SELECT ON {} TO {}").format(
                        sql.Identifier(released, final),
                        sql.Identifier(database.settings.role("analyst")),
                    )
                )
        present = set(_columns(raw, released, name))
        for target, comment in comments.items():
            kind, _, column = target.partition(".")
            final = name if kind == "points" else f"{name}_line"
            if kind == "points" and column and column not in present:
                continue
            raw.execute(
                sql.SQL("COMMENT ON {} {} IS {}").format(
                    sql.SQL("COLUMN" if column else "TABLE"),
                    sql.Identifier(released, final, column)
                    if column
                    else sql.Identifier(released, final),
                    sql.Literal(comment),
                )
            )
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


def _rename_indexes(raw: Any, schema: str, relation: str) -> None:
    """Give the indexes the names that they would have had if the table had never been staged."""
    rows = raw.execute(
        sql.SQL(
            "SELECT c.relname, i.indisprimary, a.attname FROM pg_index i "
            "JOIN pg_class c ON c.oid = i.indexrelid "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
            "WHERE i.indrelid = {}::regclass"
        ).format(sql.Literal(sql.Identifier(schema, relation).as_string(None)))
    ).fetchall()
    for index, primary, column in rows:
        final = _whole(relation + (_PRIMARY if primary else _INDEXES[column]))
        raw.execute(
            sql.SQL("ALTER INDEX {} RENAME TO {}").format(
                sql.Identifier(schema, index), sql.Identifier(final)
            )
        )


def _columns(raw: Any, schema: str, relation: str) -> list[str]:
    return [
        column
        for (column,) in raw.execute(
            sql.SQL(
                "SELECT attname FROM pg_attribute WHERE attrelid = {}::regclass AND attnum > 0"
            ).format(sql.Literal(sql.Identifier(schema, relation).as_string(None)))
        )
    ]


def _whole(name: str) -> str:
    """A name as PostgreSQL keeps it: cut off after its last whole character."""
    return name.encode()[:MAX_IDENTIFIER_BYTES].decode(errors="ignore")
