"""Whether a worker lives: for health checks of containers and services."""

from __future__ import annotations

import socket

from freqdp_db.errors import NotFound
from freqdp_db.jobs.worker import IDLE_S
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.workers import WorkerRow, list_workers

_MOST_QUIET_S = 3 * IDLE_S


def living_workers(database: Database) -> list[WorkerRow]:
    return [w for w in list_workers(database) if w.quiet_s <= _MOST_QUIET_S]


def require_worker_here(database: Database) -> WorkerRow:
    """The worker of this machine or container that was heard of last, or a refusal."""
    host = socket.gethostname()
    for worker in living_workers(database):
        if worker.host == host:
            return worker
    raise NotFound(
        f"no worker on {host} was heard of in the last {_MOST_QUIET_S:.0f} s",
        remedy="start one: freqdp worker",
    )
