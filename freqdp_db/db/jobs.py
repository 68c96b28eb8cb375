"""The queue of jobs, claimed under a lease, and the workers that hold it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from freqdp_db.db.connection import (
    Connection,
    Database,
    Session,
    as_json,
    from_json,
    pinned,
    translated,
)
from freqdp_db.errors import AlreadyExists, BudgetExceeded, Busy

# Rebuilds of a dataset, and equal requests, would only find each other busy. `now()` is the time of
# the statement here: a transaction of one statement. A worker that asks holds nothing: if a job is its
# own, it was not told that it has it, because the connection broke.
_CLAIM = """
UPDATE {p}.job_queue AS j SET
    state = 'running', worker_id = %(worker)s, attempts = least(attempts, 999999) + 1,
    lease_until = clock_timestamp() + %(lease)s * interval '1 second',
    started_at = coalesce(started_at, clock_timestamp())
FROM (
    SELECT q.job_id AS id, q.state AS was FROM {p}.job_queue q
    WHERE (
        q.state = 'waiting' AND q.due_at <= now()
        OR q.state = 'running' AND (q.lease_until < now() OR q.worker_id = %(worker)s)
    )
    AND NOT EXISTS (
        SELECT FROM {p}.job_queue r WHERE r.dataset_id = q.dataset_id AND r.job_id <> q.job_id
        AND r.state = 'running' AND r.lease_until >= now() AND (
            r.request = q.request OR 'true' IN (r.request ->> 'rebuild', q.request ->> 'rebuild')
        )
    )
    ORDER BY q.due_at, q.job_id LIMIT 1 FOR UPDATE OF q SKIP LOCKED
) chosen
WHERE j.job_id = chosen.id
RETURNING job_id, worker_id, dataset_id, schedule_id, request::text, attempts, build_id, release_id,
    asked_at, cancel_asked_by IS NOT NULL AS cancelled, chosen.was = 'running' AS taken_over, asked_by,
    (SELECT s.created_by FROM {p}.schedule s WHERE s.schedule_id = j.schedule_id) AS scheduled_by
"""
_MOST_TOLD = 4000


@dataclass(frozen=True)
class JobRow:
    """A job that a worker holds."""

    job_id: int
    worker_id: int
    dataset_id: int
    schedule_id: int | None
    request: str
    """What is asked for: a JSON document, which whoever may write jobs may have written."""
    attempts: int
    build_id: int | None
    release_id: int | None
    asked_at: datetime
    cancelled: bool
    taken_over: bool
    asked_by: str
    scheduled_by: str | None
    """Who made its schedule."""

    @property
    def wanted(self) -> dict[str, Any]:
        """What is asked for. Numbers are exact. Raises BadInput."""
        document: dict[str, Any] = from_json(self.request)
        return document

    @property
    def askers(self) -> list[str]:
        """Whose rights count, besides those of the worker."""
        return [self.asked_by] if self.scheduled_by is None else [self.asked_by, self.scheduled_by]

    def holding(self, **values: Any) -> dict[str, Any]:
        """Values of a statement about this job, if its worker still holds it (`_change`)."""
        return {"job": self.job_id, "worker": self.worker_id, **values}


@dataclass(frozen=True)
class JobView:
    """A row of the view `job`."""

    job_id: int
    dataset: str
    method: str
    epsilon: Decimal
    options: dict[str, Any]
    state: str
    asked_by: str
    asked_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    due_at: datetime
    attempts: int
    error: str | None
    release: str | None
    note: str | None
    schedule_id: int | None
    worker: str | None
    phase: str | None
    done: int | None
    total: int | None


def request_release(
    connection: Connection, dataset: str, document: dict[str, Any], schedule_id: int | None = None
) -> int:
    """Ask, or be refused, as anybody does in SQL."""
    job_id = int(connection.call("request_release", *_arguments(dataset, document)))
    if schedule_id is not None:
        query = "UPDATE {p}.job_queue SET schedule_id = %s WHERE job_id = %s"
        connection.execute(query, [schedule_id, job_id])
    return job_id


def require_accepted(database: Database, dataset: str, document: dict[str, Any]) -> None:
    """Refuse what `request_release` would refuse now, if it is not the budget or a release of that name."""
    with suppress(AlreadyExists, BudgetExceeded), database.begin() as connection:
        connection.call("check_request", *_arguments(dataset, document))


def _arguments(dataset: str, document: dict[str, Any]) -> tuple[Any, ...]:
    """Those of the SQL functions that take a request."""
    options = {key: value for key, value in document.items() if key != "method"}
    return dataset, document["method"], None, Jsonb(options, as_json)


def cancel_job(database: Database, job_id: int) -> str:
    """Cancel, or be refused; returns `cancelled` or `cancelling`."""
    return str(database.one_value("SELECT {p}.cancel_job(%s::bigint)", [job_id]))


def claim(database: Database, worker_id: int, lease_s: float) -> JobRow | None:
    """Take the next job that is due, or whose worker has not been heard of for its lease."""
    found = database.rows_as(JobRow, _CLAIM, {"worker": worker_id, "lease": lease_s})
    return found[0] if found else None


def seconds_to_next(database: Database) -> float | None:
    """Until a job is due again, a lease runs out or a schedule asks; None: nothing is planned."""
    query = (
        "SELECT extract(epoch FROM min(at) - now())::float8 FROM ("
        "SELECT min(due_at) AS at FROM {p}.job_queue WHERE state = 'waiting' AND due_at > now() "
        "UNION ALL SELECT min(lease_until) FROM {p}.job_queue "
        "WHERE state = 'running' AND lease_until > now() "
        "UNION ALL SELECT min(next_at) FROM {p}.schedule WHERE ended_at IS NULL) times"
    )
    seconds = database.one_value(query)
    return None if seconds is None else max(0.0, float(seconds))


def record_release(connection: Connection, job: JobRow, release_id: int) -> None:
    """In the transaction that books the spend: one release a job, whoever carries it to its end."""
    if _change(connection, "release_id = %(release)s", job.holding(release=release_id)) != 1:
        raise Busy(
            f"job {job.job_id} was taken over by another worker", remedy="that one goes on with it"
        )


def release_of(database: Database, job_id: int) -> int | None:
    """The release that a job has recorded so far."""
    query = "SELECT release_id FROM {p}.job_queue WHERE job_id = %s"
    found: int | None = database.one_value(query, [job_id])
    return found


def record_build(database: Database, job: JobRow, build_id: int) -> None:
    _change(database, "build_id = %(build)s", job.holding(build=build_id))


def finish(
    database: Database,
    job: JobRow,
    state: str,
    *,
    error: str | None = None,
    note: str | None = None,
    release_id: int | None = None,
) -> bool:
    """End a job; False if it is no longer ours."""
    return _leave(
        database,
        "state = %(state)s, ended_at = clock_timestamp(), error = %(error)s, note = %(note)s, "
        "release_id = coalesce(%(release)s, release_id)",
        job.holding(state=state, error=_short(error), note=_short(note), release=release_id),
    )


def retry_later(
    database: Database, job: JobRow, seconds: float, *, error: str | None, counted: bool
) -> bool:
    """Give a job back, for any worker to begin in so many seconds; False if it is no longer ours."""
    return _leave(
        database,
        "state = 'waiting', error = coalesce(%(error)s, error), attempts = attempts - %(uncount)s, "
        "due_at = clock_timestamp() + %(seconds)s * interval '1 second'",
        job.holding(seconds=seconds, error=_short(error), uncount=0 if counted else 1),
    )


def _short(text: str | None) -> str | None:
    """What people can read of a text that may quote any value."""
    return None if text is None else text[:_MOST_TOLD]


def _change(session: Session, change: LiteralString, values: dict[str, Any]) -> int:
    """Change a job, if its worker still holds it; how many jobs that are: one or none."""
    statement = (
        "UPDATE {p}.job_queue SET {change} "
        "WHERE job_id = %(job)s AND worker_id = %(worker)s AND state = 'running'"
    )
    return session.execute(statement, values, change=sql.SQL(change)).rowcount


def _leave(database: Database, change: LiteralString, values: dict[str, Any]) -> bool:
    with database.begin() as connection:
        if _change(connection, "lease_until = NULL, " + change, values) != 1:
            return False
        connection.execute("DELETE FROM {p}.job_progress WHERE job_id = %(job)s", values)
        connection.call("wake_workers")
    return True


def list_jobs(database: Database, limit: int, job_id: int | None = None) -> list[JobView]:
    """The newest jobs first, with the phase of those that run."""
    query = (
        "SELECT j.*, g.phase, g.done, g.total FROM {p}.job j LEFT JOIN {p}.progress g USING (job_id) "
        "WHERE %(job)s::bigint IS NULL OR j.job_id = %(job)s "
        "ORDER BY (j.state IN ('waiting', 'running', 'cancelling')) DESC, j.job_id DESC LIMIT %(limit)s"
    )
    return database.rows_as(JobView, query, {"job": job_id, "limit": limit})


def kept_releases(
    database: Database, dataset_id: int, series: str | None, *, held: bool
) -> list[int]:
    """Published releases that were asked for with `keep`, newest first: granted or held ones.

    Of a series, those of the newest windows first, whenever they were published.
    """
    query = (
        "SELECT r.release_id FROM {p}.release r JOIN {p}.build b USING (build_id) "
        "WHERE r.dataset_id = %s AND r.state = 'published' AND r.series IS NOT DISTINCT FROM %s "
        "AND r.grantable AND r.held = %s AND EXISTS (SELECT FROM {p}.job_queue q "
        "WHERE q.release_id = r.release_id AND q.request ? 'keep') "
        "ORDER BY CASE WHEN r.series IS NOT NULL THEN b.window_begin END DESC, r.version DESC"
    )
    return database.first_column(query, [dataset_id, series, held])


def count_jobs(database: Database) -> dict[str, Any]:
    """Numbers for whoever watches: jobs by state, how long the oldest waits, live workers."""
    states = "SELECT state, count(*) FROM {p}.job_queue GROUP BY state"
    rest = (
        "SELECT coalesce(extract(epoch FROM now() - min(q.due_at)), 0)::float8 AS waiting_s, "
        "(SELECT count(*) FROM {p}.schedule WHERE ended_at IS NULL) AS schedules, "
        "(SELECT count(*) FROM {p}.schedule WHERE ended_reason LIKE 'the budget%%') AS exhausted "
        "FROM {p}.job_queue q WHERE q.state = 'waiting' AND q.due_at <= now()"
    )
    with database.begin() as connection:
        by_state = dict(connection.execute(states).fetchall())
        (others,) = connection.rows_as(dict[str, Any], rest, ())
    return {"states": by_state, **others}


# Workers in the database: who serves, who lives, and the line that keeps a job's lease.


@dataclass(frozen=True)
class WorkerRow:
    """A process that serves jobs."""

    worker_id: int
    host: str
    pid: int
    software: str
    listening: bool
    started_at: datetime
    seen_at: datetime
    quiet_s: float
    job_id: int | None


@dataclass(frozen=True)
class HeartbeatReply:
    """What a sign of life was answered with."""

    held: bool
    cancelled: bool


def register_worker(database: Database, host: str, pid: int, software: str, listening: bool) -> int:
    insert = (
        "INSERT INTO {p}.worker (host, pid, software, listening) VALUES (%s, %s, %s, %s) "
        "RETURNING worker_id"
    )
    with database.begin() as connection:
        connection.execute("DELETE FROM {p}.worker WHERE seen_at < now() - interval '7 days'")
        return int(connection.one_value(insert, [host, pid, software, listening]))


def show_life(database: Database, worker_id: int, *, stopped: bool = False) -> None:
    query = (
        "UPDATE {p}.worker SET seen_at = clock_timestamp(), "
        "stopped_at = CASE WHEN %s THEN clock_timestamp() END WHERE worker_id = %s"
    )
    database.execute(query, [stopped, worker_id])


def list_workers(database: Database) -> list[WorkerRow]:
    """Workers that have not said that they stop, the last heard of first."""
    query = (
        "SELECT w.worker_id, w.host, w.pid, w.software, w.listening, w.started_at, w.seen_at, "
        "extract(epoch FROM clock_timestamp() - w.seen_at)::float8 AS quiet_s, "
        "(SELECT q.job_id FROM {p}.job_queue q "
        "WHERE q.worker_id = w.worker_id AND q.state = 'running') AS job_id "
        "FROM {p}.worker w WHERE w.stopped_at IS NULL ORDER BY w.seen_at DESC"
    )
    return database.rows_as(WorkerRow, query)


_BEAT: LiteralString = (
    "WITH alive AS (UPDATE {p}.worker SET seen_at = clock_timestamp() WHERE worker_id = %(worker)s) "
    "UPDATE {p}.job_queue SET lease_until = clock_timestamp() + %(lease)s * interval '1 second' "
    "WHERE job_id = %(job)s AND worker_id = %(worker)s AND state = 'running' "
    "RETURNING cancel_asked_by IS NOT NULL"
)
_PROGRESS = """
INSERT INTO {p}.job_progress (job_id, phase, done, total, unit, phase_at, updated_at)
VALUES (%(job)s, %(phase)s, %(done)s, %(total)s, %(unit)s,
    clock_timestamp() - %(seconds)s * interval '1 second', clock_timestamp())
ON CONFLICT (job_id) DO UPDATE SET phase = excluded.phase, done = excluded.done,
    total = excluded.total, unit = excluded.unit, phase_at = excluded.phase_at,
    updated_at = excluded.updated_at
"""


class LeaseConnection:
    """A connection of its own that renews a job's lease and writes its progress.

    Each sign of life is a transaction: what it writes is seen at once, while those of the work are open.
    """

    def __init__(self, database: Database, job: JobRow, lease_s: float) -> None:
        self._database = database
        self._values = job.holding(lease=lease_s)
        self._connection: psycopg.Connection[Any] | None = None

    def beat(self, progress: dict[str, Any] | None) -> HeartbeatReply:
        """Renew the lease. Raises ConnectionFailed if the server cannot be reached.

        progress: columns of `job_progress`, and the seconds since the phase began.
        """
        with translated():
            if self._connection is None or self._connection.closed:
                self._connection = self._database.open_connection(autocommit=True)
            with pinned(self._connection) as connection:
                row = connection.execute(self._in_schema(_BEAT), self._values).fetchone()
                if row is not None and progress is not None:
                    connection.execute(self._in_schema(_PROGRESS), self._values | progress)
        return HeartbeatReply(held=row is not None, cancelled=row is not None and bool(row[0]))

    def _in_schema(self, statement: LiteralString) -> sql.Composed:
        return sql.SQL(statement).format(p=sql.Identifier(self._database.settings.schema))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
