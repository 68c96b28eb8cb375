"""Numbers for Prometheus and the health of workers: they speak of jobs, never of data."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from freqdp_db.db.connection import Database
from freqdp_db.db.jobs import WorkerRow, count_jobs, list_workers
from freqdp_db.errors import BadInput, FreqdpError, NotFound
from freqdp_db.jobs.worker import IDLE_S, WorkerStats

LOOPBACK = "127.0.0.1"
_STATES = ("waiting", "running", "done", "refused", "failed", "cancelled")
_GAUGES = (
    ("oldest_due_job_seconds", "waiting_s", "How long the oldest job that is due has waited."),
    ("schedules", "schedules", "Schedules that ask for releases."),
    ("schedules_out_of_budget", "exhausted", "Schedules that the budget has ended."),
)
_MOST_WAIT_S = 5.0


class _Numbers(Collector):
    """Asks the database when Prometheus asks."""

    def __init__(self, database: Database, served: WorkerStats) -> None:
        self._database, self._served = database, served
        # however many look, one question at a time: a database that hangs hangs one of them
        self._asking = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        counted = self._counted()
        up = float(counted is not None)
        yield GaugeMetricFamily("freqdp_up", "Whether the database answers.", value=up)
        if counted is not None:
            jobs = GaugeMetricFamily("freqdp_jobs", "Jobs by state.", labels=["state"])
            for state in _STATES:
                jobs.add_metric([state], counted["states"].get(state, 0))
            yield jobs
            for name, key, what in _GAUGES:
                yield GaugeMetricFamily(f"freqdp_{name}", what, value=counted[key])
        own = vars(self._served).copy()
        busy = "Time that this worker has spent on jobs."
        yield CounterMetricFamily("freqdp_worker_busy_seconds", busy, value=own.pop("seconds"))
        ended = "What this worker has done."
        results = CounterMetricFamily("freqdp_worker_jobs", ended, labels=["result"])
        for result, count in own.items():
            results.add_metric([result], count)
        yield results

    def _counted(self) -> dict[str, Any] | None:
        if not self._asking.acquire(timeout=_MOST_WAIT_S):
            return None
        try:
            return count_jobs(self._database)
        except FreqdpError:
            return None
        finally:
            self._asking.release()


@contextmanager
def exposed(
    database: Database, served: WorkerStats, port: int | None, address: str = LOOPBACK
) -> Iterator[int | None]:
    """Serve /metrics on a port of this address while the block runs; None: nowhere.

    Gives the port: 0 asks for any that is free.
    """
    if port is None:
        yield None
        return
    # a database of its own: the worker's is in use, and in other hands
    own = Database(database.conninfo, database.settings, "worker metrics")
    registry = CollectorRegistry()
    registry.register(_Numbers(own, served))
    try:
        server, thread = start_http_server(port, address, registry)
    except (OSError, OverflowError):
        raise BadInput(
            f"[[metrics]] {port} is not a port that is free on {address}",
            remedy="give another, such as 9187, or another [[metrics_address]]",
        ) from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        own.close()


# Whether a worker lives: for health checks of containers and services.


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
