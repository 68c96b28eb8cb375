"""Rows of `schedule`: when workers ask for releases by themselves."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

import psycopg

from freqdp_db.db.connection import Connection, Database, Session, as_json, from_json, translated
from freqdp_db.db.jobs import request_release
from freqdp_db.errors import AlreadyExists, FreqdpError, NotFound

_SELECT: LiteralString = (
    "SELECT s.schedule_id, s.name, s.dataset_id, d.name AS dataset, s.request::text, s.cron, s.timezone, "
    "s.next_at, s.last_at, s.created_at, s.created_by, s.ended_at, s.ended_reason, s.next_window, "
    "d.timezone AS window_timezone "
    "FROM {p}.schedule s JOIN {p}.dataset d USING (dataset_id) "
)


@dataclass(frozen=True)
class ScheduleRow:
    """A schedule and its dataset."""

    schedule_id: int
    name: str
    """That of its dataset, or one of its own."""
    dataset_id: int
    dataset: str
    request: dict[str, Any]
    """What is asked for. Numbers are exact."""
    cron: str
    timezone: str
    next_at: datetime
    last_at: datetime | None
    created_at: datetime
    created_by: str
    ended_at: datetime | None
    ended_reason: str | None
    next_window: str | None
    """The window that is asked for next, once it has ended; None: releases of all data."""
    window_timezone: str
    """Of the dataset: whose days, weeks and months windows are."""


def _row(request: str, **columns: Any) -> ScheduleRow:
    return ScheduleRow(request=from_json(request), **columns)


def _select(session: Session, condition: LiteralString, *values: Any) -> list[ScheduleRow]:
    return session.rows_as(_row, _SELECT + condition, values)


def server_time(session: Session) -> datetime:
    """When the transaction began."""
    now: datetime = session.one_value("SELECT now()")
    return now


def insert_schedule(
    database: Database,
    dataset_id: int,
    dataset: str,
    name: str,
    document: dict[str, Any],
    cron: str,
    timezone: str,
    next_at: datetime,
    next_window: str | None,
) -> int:
    """Record a schedule; there is one of a name at a time."""
    options = {k: v for k, v in document.items() if k not in ("method", "epsilon")}
    statement = (
        "INSERT INTO {p}.schedule (dataset_id, name, request, cron, timezone, next_at, next_window) "
        "VALUES (%s, %s, {p}.request_document(%s, %s::numeric, %s::jsonb), %s, %s, %s, %s) "
        "RETURNING schedule_id"
    )
    values = [
        dataset_id, name, document["method"], document.get("epsilon"), as_json(options), cron, timezone,
        next_at, next_window,
    ]  # fmt: skip
    with database.begin() as connection:
        try:
            schedule_id = int(connection.one_value(statement, values))
        except psycopg.errors.UniqueViolation:
            raise AlreadyExists(
                f"there is a schedule {name!r} already",
                remedy=f"end it first (freqdp schedule drop {shlex.quote(name)}), or give this one a "
                f"name of its own: freqdp schedule add {shlex.quote(dataset)} --name NAME",
            ) from None
        connection.call("wake_workers")
    return schedule_id


def is_taken(connection: Connection, name: str) -> bool:
    """Whether a series is called so, or an active schedule."""
    query = (
        "SELECT EXISTS (SELECT FROM {p}.release WHERE series = %(name)s "
        "AND state IN ('running', 'published', 'withdrawing')) "
        "OR EXISTS (SELECT FROM {p}.schedule WHERE name = %(name)s AND ended_at IS NULL)"
    )
    return bool(connection.one_value(query, {"name": name}))


def list_schedules(database: Database) -> list[ScheduleRow]:
    return _select(database, "ORDER BY s.ended_at IS NOT NULL, s.schedule_id")


def due_schedule(connection: Connection) -> ScheduleRow | None:
    """A schedule that is due, locked; those that another worker looks after are left to it."""
    found = _select(
        connection,
        "WHERE s.ended_at IS NULL AND s.next_at <= now() ORDER BY s.next_at LIMIT 1 "
        "FOR UPDATE OF s SKIP LOCKED",
    )
    return found[0] if found else None


def has_open_job(connection: Connection, schedule_id: int) -> bool:
    query = (
        "SELECT EXISTS (SELECT FROM {p}.job_queue "
        "WHERE schedule_id = %s AND state IN ('waiting', 'running'))"
    )
    return bool(connection.one_value(query, [schedule_id]))


def ask(connection: Connection, schedule: ScheduleRow, window: str | None = None) -> int:
    """Ask for the release of a schedule, or raise why not, leaving the transaction usable.

    window: the one that it is to be of.
    """
    request = schedule.request if window is None else {**schedule.request, "window": window}
    with translated(), connection.savepoint():
        return request_release(connection, schedule.dataset, request, schedule.schedule_id)


def advance(
    connection: Connection, schedule_id: int, next_at: datetime, next_window: str | None
) -> None:
    query = (
        "UPDATE {p}.schedule SET next_at = %s, next_window = %s, last_at = now() "
        "WHERE schedule_id = %s"
    )
    connection.execute(query, [next_at, next_window, schedule_id])


def end_schedule(session: Session, schedule_id: int, reason: str) -> None:
    """End it for good, with a reason that everybody can read."""
    query = (
        "UPDATE {p}.schedule SET ended_at = clock_timestamp(), ended_reason = %s "
        "WHERE schedule_id = %s AND ended_at IS NULL"
    )
    session.execute(query, [reason, schedule_id])


def record_refusal(
    connection: Connection, schedule: ScheduleRow, error: FreqdpError, window: str | None = None
) -> None:
    """A refused job, so that the refusal stands where people look for jobs."""
    request = schedule.request if window is None else {**schedule.request, "window": window}
    insert = (
        "INSERT INTO {p}.job_queue (dataset_id, request) VALUES (%s, %s::jsonb) RETURNING job_id"
    )
    job_id = connection.one_value(insert, [schedule.dataset_id, as_json(request)])
    refuse = (
        "UPDATE {p}.job_queue SET state = 'refused', ended_at = clock_timestamp(), schedule_id = %s, "
        "error = %s WHERE job_id = %s"
    )
    connection.execute(refuse, [schedule.schedule_id, error.with_remedy, job_id])


def drop_schedule(database: Database, which: str) -> ScheduleRow:
    """End the schedule of this name, or else the one of this number; its record stays."""
    with database.begin() as connection:
        found = _select(
            connection,
            "WHERE s.ended_at IS NULL AND (s.name = %s OR s.schedule_id::text = %s) "
            "ORDER BY s.name = %s DESC FOR UPDATE OF s",
            *[which] * 3,
        )
        if not found:
            raise NotFound(
                f"there is no active schedule of the name or number {which!r}",
                remedy="`freqdp schedule list` shows what there is",
            )
        user = connection.one_value("SELECT session_user")
        end_schedule(connection, found[0].schedule_id, f"ended by {user}")
    return found[0]
