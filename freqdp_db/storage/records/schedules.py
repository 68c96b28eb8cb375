"""Rows of `schedule`: when workers ask for releases by themselves."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from freqdp_db.errors import AlreadyExists, FreqdpError, NotFound
from freqdp_db.storage.connection.engine import Connection, Database, driver, translated
from freqdp_db.storage.connection.exact_json import as_json, from_json
from freqdp_db.storage.records.jobs import request_release

_COLUMNS = (
    "s.schedule_id, s.dataset_id, d.name AS dataset, s.request::text, s.cron, s.timezone, s.next_at, "
    "s.last_at, s.created_at, s.created_by, s.ended_at, s.ended_reason"
)


@dataclass(frozen=True)
class ScheduleRow:
    """A schedule and its dataset."""

    schedule_id: int
    dataset_id: int
    dataset: str
    request: str
    cron: str
    timezone: str
    next_at: datetime
    last_at: datetime | None
    created_at: datetime
    created_by: str
    ended_at: datetime | None
    ended_reason: str | None

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = from_json(self.request)
        return document


def _names(database: Database) -> dict[str, sql.Composable]:
    schema = database.settings.schema
    return {
        "schedule": sql.Identifier(schema, "schedule"),
        "queue": sql.Identifier(schema, "job_queue"),
        "dataset": sql.Identifier(schema, "dataset"),
        "wake": sql.Identifier(schema, "wake_workers"),
        "columns": sql.SQL(_COLUMNS),
    }


def _select(
    connection: Connection, database: Database, condition: LiteralString, *values: Any
) -> list[ScheduleRow]:
    query = sql.SQL(
        "SELECT {columns} FROM {schedule} s JOIN {dataset} d USING (dataset_id) {condition}"
    ).format(condition=sql.SQL(condition), **_names(database))
    with driver(connection).cursor(row_factory=class_row(ScheduleRow)) as cursor:
        return cursor.execute(query, values).fetchall()


def server_time(database: Database) -> datetime:
    with database.begin() as connection:
        return transaction_time(connection)


def transaction_time(connection: Connection) -> datetime:
    row = driver(connection).execute("SELECT now()").fetchone()
    assert row is not None and isinstance(row[0], datetime)
    return row[0]


def insert_schedule(
    database: Database,
    dataset_id: int,
    dataset: str,
    document: dict[str, Any],
    cron: str,
    timezone: str,
    next_at: datetime,
) -> int:
    """Record a schedule; a dataset has one at a time."""
    options = {k: v for k, v in document.items() if k not in ("method", "epsilon")}
    statement = sql.SQL(
        "INSERT INTO {schedule} (dataset_id, request, cron, timezone, next_at) "
        "VALUES (%s, {check}(%s, %s::numeric, %s::jsonb), %s, %s, %s) RETURNING schedule_id"
    ).format(check=sql.Identifier(database.settings.schema, "request_document"), **_names(database))
    values = [
        dataset_id, document["method"], document.get("epsilon"), as_json(options), cron, timezone,
        next_at,
    ]  # fmt: skip
    with database.begin() as connection:
        raw = driver(connection)
        try:
            row = raw.execute(statement, values).fetchone()
        except psycopg.errors.UniqueViolation:
            raise AlreadyExists(
                f"dataset {dataset!r} has a schedule already",
                remedy=f"end it first: freqdp schedule drop {shlex.quote(dataset)}",
            ) from None
        raw.execute(sql.SQL("SELECT {wake}()").format(**_names(database)))
    assert row is not None
    return int(row[0])


def list_schedules(database: Database) -> list[ScheduleRow]:
    with database.begin() as connection:
        return _select(connection, database, "ORDER BY s.ended_at IS NOT NULL, s.schedule_id")


def due_schedule(connection: Connection, database: Database) -> ScheduleRow | None:
    """A schedule that is due, locked; those that another worker looks after are left to it."""
    found = _select(
        connection,
        database,
        "WHERE s.ended_at IS NULL AND s.next_at <= now() ORDER BY s.next_at LIMIT 1 "
        "FOR UPDATE OF s SKIP LOCKED",
    )
    return found[0] if found else None


def has_open_job(connection: Connection, database: Database, schedule_id: int) -> bool:
    return (
        driver(connection)
        .execute(
            sql.SQL(
                "SELECT 1 FROM {queue} WHERE schedule_id = %s AND state IN ('waiting', 'running') LIMIT 1"
            ).format(**_names(database)),
            [schedule_id],
        )
        .fetchone()
        is not None
    )


def ask(connection: Connection, database: Database, schedule: ScheduleRow) -> int:
    """Ask for the release of a schedule, or raise why not, leaving the transaction usable."""
    with translated(), driver(connection).transaction():
        return request_release(
            connection, database, schedule.dataset, schedule.document, schedule.schedule_id
        )


def advance(
    connection: Connection, database: Database, schedule_id: int, next_at: datetime
) -> None:
    driver(connection).execute(
        sql.SQL(
            "UPDATE {schedule} SET next_at = %s, last_at = now() WHERE schedule_id = %s"
        ).format(**_names(database)),
        [next_at, schedule_id],
    )


def end_schedule(connection: Connection, database: Database, schedule_id: int, reason: str) -> None:
    """End it for good, with a reason that everybody can read."""
    driver(connection).execute(
        sql.SQL(
            "UPDATE {schedule} SET ended_at = clock_timestamp(), ended_reason = %s "
            "WHERE schedule_id = %s AND ended_at IS NULL"
        ).format(**_names(database)),
        [reason, schedule_id],
    )


def record_refusal(
    connection: Connection, database: Database, schedule: ScheduleRow, error: FreqdpError
) -> None:
    """A refused job, so that the refusal stands where people look for jobs."""
    raw, names = driver(connection), _names(database)
    row = raw.execute(
        sql.SQL(
            "INSERT INTO {queue} (dataset_id, request) VALUES (%s, %s::jsonb) RETURNING job_id"
        ).format(**names),
        [schedule.dataset_id, schedule.request],
    ).fetchone()
    assert row is not None
    raw.execute(
        sql.SQL(
            "UPDATE {queue} SET state = 'refused', ended_at = clock_timestamp(), schedule_id = %s, "
            "error = %s WHERE job_id = %s"
        ).format(**names),
        [schedule.schedule_id, error.message, row[0]],
    )


def drop_schedule(database: Database, dataset: str) -> ScheduleRow:
    """End the schedule of a dataset; its record stays."""
    with database.begin() as connection:
        found = _select(
            connection,
            database,
            "WHERE d.name = %s AND s.ended_at IS NULL FOR UPDATE OF s",
            dataset,
        )
        if not found:
            raise NotFound(
                f"dataset {dataset!r} has no schedule",
                remedy="`freqdp schedule list` shows what there is",
            )
        row = driver(connection).execute("SELECT session_user").fetchone()
        assert row is not None
        end_schedule(connection, database, found[0].schedule_id, f"ended by {row[0]}")
    return found[0]
