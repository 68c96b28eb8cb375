"""Workers in the database: who serves, who lives, and the line that keeps a job's lease."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from freqdp_db.storage.connection.engine import Database, driver, pinned, translated
from freqdp_db.storage.connection.statements import one_value, own, rows_as
from freqdp_db.storage.records.jobs import JobRow

_FORGET = "7 days"


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
class PhaseProgress:
    """Where the work is: a phase, and how much of it is done."""

    phase: str
    done: int
    total: int | None
    unit: str
    seconds: float
    """Since the phase began."""


@dataclass(frozen=True)
class Beat:
    """What a sign of life was answered with."""

    held: bool
    cancelled: bool


def register_worker(database: Database, host: str, pid: int, software: str, listening: bool) -> int:
    with database.begin() as connection:
        worker = own(database, "worker")
        driver(connection).execute(
            sql.SQL("DELETE FROM {} WHERE seen_at < now() - {}::interval").format(
                worker, sql.Literal(_FORGET)
            )
        )
        insert = sql.SQL(
            "INSERT INTO {} (host, pid, software, listening) VALUES (%s, %s, %s, %s) "
            "RETURNING worker_id"
        ).format(worker)
        return int(one_value(connection, insert, [host, pid, software, listening]))


def show_life(database: Database, worker_id: int, *, stopped: bool = False) -> None:
    with database.begin() as connection:
        driver(connection).execute(
            sql.SQL(
                "UPDATE {} SET seen_at = clock_timestamp(), "
                "stopped_at = CASE WHEN %s THEN clock_timestamp() END WHERE worker_id = %s"
            ).format(own(database, "worker")),
            [stopped, worker_id],
        )


def list_workers(database: Database) -> list[WorkerRow]:
    """Workers that have not said that they stop, the last heard of first."""
    query = sql.SQL(
        "SELECT w.worker_id, w.host, w.pid, w.software, w.listening, w.started_at, w.seen_at, "
        "extract(epoch FROM clock_timestamp() - w.seen_at)::float8 AS quiet_s, "
        "(SELECT q.job_id FROM {} q WHERE q.worker_id = w.worker_id AND q.state = 'running') AS job_id "
        "FROM {} w WHERE w.stopped_at IS NULL ORDER BY w.seen_at DESC"
    ).format(own(database, "job_queue"), own(database, "worker"))
    with database.begin() as connection:
        return rows_as(WorkerRow, connection, query)


class LifeLine:
    """A connection of its own that renews a job's lease and writes its progress.

    Each sign of life is a transaction: what it writes is seen at once, while those of the work are open.
    """

    def __init__(self, database: Database, job: JobRow, lease_s: float) -> None:
        self._database = database
        self._values = job.holding(lease=lease_s)
        self._connection: psycopg.Connection[Any] | None = None

    def beat(self, step: PhaseProgress | None) -> Beat:
        """Renew the lease. Raises ConnectionFailed if the server cannot be reached."""
        with translated():
            if self._connection is None or self._connection.closed:
                self._connection = self._database.open_connection(autocommit=True)
            with pinned(self._connection) as connection:
                row = connection.execute(
                    sql.SQL(
                        "WITH alive AS (UPDATE {worker} SET seen_at = clock_timestamp() "
                        "WHERE worker_id = %(worker)s) "
                        "UPDATE {queue} SET lease_until = "
                        "clock_timestamp() + %(lease)s * interval '1 second' "
                        "WHERE job_id = %(job)s AND worker_id = %(worker)s AND state = 'running' "
                        "RETURNING cancel_asked_by IS NOT NULL"
                    ).format(
                        worker=own(self._database, "worker"),
                        queue=own(self._database, "job_queue"),
                    ),
                    self._values,
                ).fetchone()
                if row is not None and step is not None:
                    self._write(connection, step)
        return Beat(held=row is not None, cancelled=row is not None and bool(row[0]))

    def _write(self, connection: psycopg.Connection[Any], step: PhaseProgress) -> None:
        connection.execute(
            sql.SQL(
                "INSERT INTO {} AS p (job_id, phase, done, total, unit, phase_at, updated_at) "
                "VALUES (%(job)s, %(phase)s, %(done)s, %(total)s, %(unit)s, "
                "clock_timestamp() - %(seconds)s * interval '1 second', clock_timestamp()) "
                "ON CONFLICT (job_id) DO UPDATE SET phase = excluded.phase, done = excluded.done, "
                "total = excluded.total, unit = excluded.unit, phase_at = excluded.phase_at, "
                "updated_at = excluded.updated_at"
            ).format(own(self._database, "job_progress")),
            {**self._values, **vars(step)},
        )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
