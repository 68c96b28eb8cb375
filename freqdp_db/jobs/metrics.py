"""Numbers for Prometheus, on the loopback interface only: they speak of jobs, never of data."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from freqdp_db.errors import BadInput, FreqdpError
from freqdp_db.jobs.worker import Served
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.jobs import count_jobs

_LOOPBACK = "127.0.0.1"
_STATES = ("waiting", "running", "done", "refused", "failed", "cancelled")


def exposition(database: Database, served: Served) -> str:
    """The text that Prometheus reads."""
    lines: list[str] = []

    def metric(name: str, kind: str, what: str, *samples: tuple[str, float]) -> None:
        lines.append(f"# HELP freqdp_{name} {what}")
        lines.append(f"# TYPE freqdp_{name} {kind}")
        lines.extend(f"freqdp_{name}{labels} {value:g}" for labels, value in samples)

    try:
        counted = count_jobs(database)
    except FreqdpError:
        counted = None
    metric("up", "gauge", "Whether the database answers.", ("", float(counted is not None)))
    if counted is not None:
        states = counted["states"]
        metric("jobs", "gauge", "Jobs by state.",
               *((f'{{state="{s}"}}', states.get(s, 0)) for s in _STATES))  # fmt: skip
        metric("oldest_due_job_seconds", "gauge", "How long the oldest job that is due has waited.",
               ("", counted["waiting_s"]))  # fmt: skip
        metric("schedules", "gauge", "Schedules that ask for releases.", ("", counted["schedules"]))
        metric("schedules_out_of_budget", "gauge", "Schedules that the budget has ended.",
               ("", counted["exhausted"]))  # fmt: skip
    own = {name: value for name, value in vars(served).items() if name != "seconds"}
    metric("worker_jobs_total", "counter", "What this worker has done.",
           *((f'{{result="{name}"}}', value) for name, value in own.items()))  # fmt: skip
    metric("worker_busy_seconds_total", "counter", "Time that this worker has spent on jobs.",
           ("", served.seconds))  # fmt: skip
    return "\n".join(lines) + "\n"


@contextmanager
def exposed(database: Database, served: Served, port: int | None) -> Iterator[int | None]:
    """Serve /metrics on a port of the loopback interface while the block runs; None: nowhere.

    Gives the port: 0 asks for any that is free.
    """
    if port is None:
        yield None
        return
    # a database of its own: the worker's is in use, and in other hands
    own = Database(database.conninfo, database.settings, "worker metrics")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/metrics"
            body = exposition(own, served).encode() if found else b"look at /metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Says nothing: the log is for jobs."""

    try:
        server = ThreadingHTTPServer((_LOOPBACK, port), Handler)
    except (OSError, OverflowError):
        raise BadInput(
            f"--metrics {port} is not a port that is free here", remedy="give another, such as 9187"
        ) from None
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        own.close()
