"""Releases that are asked for in SQL or by a schedule, and the workers that make them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from freqdp_db.documents import Document, aside
from freqdp_db.engines.choice import choose_engine
from freqdp_db.errors import BadInput, NotFound
from freqdp_db.interface.connecting import Connection, Value, reached
from freqdp_db.interface.engines import use_engine
from freqdp_db.jobs import schedule as scheduling
from freqdp_db.jobs.document import JobRequest, check_keep, parse
from freqdp_db.jobs.health import living_workers, require_worker_here
from freqdp_db.jobs.log import json_lines
from freqdp_db.jobs.schedule import (
    REPEATED,
    REPEATED_SYNTHETIC,
    REPEATED_UNLINKED,
    TELLS_NO_CHANGE,
    Planned,
)
from freqdp_db.jobs.worker import DEFAULT_GRACE_S, DEFAULT_LEASE_S, Worker
from freqdp_db.methods.protected_unit import ProtectedUnit
from freqdp_db.methods.registry import DEFAULT_METHOD
from freqdp_db.release.request import Request
from freqdp_db.storage.records import jobs as records
from freqdp_db.storage.records import schedules as schedule_records
from freqdp_db.storage.records.datasets import find_dataset, get_dataset
from freqdp_db.storage.records.jobs import JobView
from freqdp_db.storage.records.schedules import ScheduleRow
from freqdp_db.storage.records.workers import WorkerRow

EXIT_REFUSED, EXIT_FAILED, EXIT_PUT_OFF = 4, 5, 6


@dataclass(frozen=True, kw_only=True)
class Scheduled(Planned, Document):
    """A schedule that was made just now."""

    dataset: str
    warning: str
    price: str = aside()


@dataclass(frozen=True)
class Schedule(ScheduleRow, Document):
    """When workers ask for releases of a dataset by themselves, and for what."""

    protected: ProtectedUnit = aside()

    @property
    def price(self) -> str:
        """What each release costs, in words."""
        return self.asked.request.price(self.protected)

    @property
    def asked(self) -> JobRequest:
        """What is asked for, read."""
        return parse(self.request)


@dataclass(frozen=True)
class EndedSchedule(Document):
    schedule_id: int
    dataset: str
    ended: bool


@dataclass(frozen=True)
class CancelledJob(Document):
    job_id: int
    state: str


@dataclass(frozen=True)
class Worked(Document):
    """What a worker has done."""

    done: int
    refused: int
    failed: int
    put_off: int
    cancelled: int
    seconds: float

    @property
    def exit_code(self) -> int:
        """How `worker --once` ends: whoever started it wants to know what became of the jobs."""
        if self.failed:
            return EXIT_FAILED
        if self.refused:
            return EXIT_REFUSED
        return EXIT_PUT_OFF if self.put_off else 0


def schedule(
    connection: Connection,
    dataset: str,
    at: str,
    method: str = DEFAULT_METHOD,
    *,
    timezone: str = "UTC",
    keep: int | None = None,
    hold: bool = False,
    new_draw: bool = False,
    **parameters: Value,
) -> Scheduled:
    """Rebuild a dataset and publish a new release of it, again and again. A worker does it.

    at: five cron fields, or @hourly, @daily, @weekly, @monthly, read in the time zone.
    keep: withdraw all but so many of the schedule's releases; None: keep all.
    hold: each release is for curators only, until it is approved.
    new_draw: publish and pay also when nothing has changed; otherwise a time without a new version
    tells exactly that.
    """
    request = Request.parse(method, **parameters)
    check_keep(keep)
    asked = JobRequest(request, None, new_draw=new_draw, rebuild=True, keep=keep, hold=hold)
    with reached(connection) as database:
        row = find_dataset(database, dataset)
        made = scheduling.add_schedule(database, row, asked, at, timezone)
    warning = REPEATED
    if request.method.kind == "synthetic":
        warning = REPEATED_SYNTHETIC + ("" if new_draw else TELLS_NO_CHANGE)
    elif request.method.kind == "unlinked":
        warning = REPEATED_UNLINKED
    return Scheduled(
        **vars(made), dataset=dataset, warning=warning, price=request.price(row.protected)
    )


def schedules(connection: Connection = None) -> list[Schedule]:
    """Schedules: when they ask, for what, and why those that ended have ended."""
    with reached(connection) as database:
        return [
            Schedule(**vars(row), protected=get_dataset(database, row.dataset_id).protected)
            for row in schedule_records.list_schedules(database)
        ]


def drop_schedule(connection: Connection, dataset: str) -> EndedSchedule:
    """End the schedule of a dataset, or the one of this number. Its releases stay."""
    with reached(connection) as database:
        ended = schedule_records.drop_schedule(database, dataset)
    return EndedSchedule(ended.schedule_id, ended.dataset, True)


def jobs(
    connection: Connection = None, *, job: int | None = None, limit: int = 20
) -> list[JobView]:
    """How jobs stand and what came of them: one, or so many: open ones, then the newest."""
    if limit < 1:
        raise BadInput(f"--limit {limit} is not above 0", remedy="for example --limit 20")
    with reached(connection) as database:
        found = records.list_jobs(database, limit, job)
        if job is not None and not found:
            raise NotFound(f"there is no job {job}", remedy="`freqdp jobs` shows what there is")
        return found


def workers(connection: Connection = None) -> list[WorkerRow]:
    """The workers that live, on any machine."""
    with reached(connection) as database:
        return living_workers(database)


def cancel_job(connection: Connection, job: int) -> CancelledJob:
    """Cancel a job, or ask its worker to."""
    with reached(connection) as database:
        return CancelledJob(job, records.cancel_job(database, job))


def living_worker(connection: Connection = None) -> WorkerRow:
    """The worker of this machine that was heard of last; refused if none lives."""
    with reached(connection) as database:
        return require_worker_here(database)


def work(
    connection: Connection = None,
    *,
    once: bool = True,
    lease: float | str = DEFAULT_LEASE_S,
    grace: float | str = DEFAULT_GRACE_S,
    metrics: int | None = None,
    metrics_address: str = "127.0.0.1",
    engine: str | None = None,
    workers: int | None = None,
    log: bool = False,
) -> Worked:
    """Do the jobs that were asked for, and the schedules. For the main thread: it minds signals.

    once: do what is due, then end; else until SIGTERM or SIGINT.
    lease: seconds without a sign of life after which others take a job over.
    grace: seconds to finish the job in hand after a signal; then it is given back.
    metrics: a port to serve numbers for Prometheus on. engine, workers: as for `anonymize`; workers of
    its own are started for each job, and stopped after it. log: write JSON lines to stderr.
    """
    # here: only who works waits for them
    from freqdp_db.evaluation.gate import approve_within_limit
    from freqdp_db.jobs.metrics import exposed

    lease_s, grace_s = _seconds("--lease", lease), _seconds("--grace", grace)
    chosen = partial(use_engine, choose_engine(engine, workers))
    with reached(connection) as database, ExitStack() as around:
        worker = Worker(
            database, approve_within_limit, lease_s=lease_s, grace_s=grace_s, engine=chosen
        )
        if log:
            around.enter_context(json_lines())
        around.enter_context(exposed(database, worker.served, metrics, metrics_address))
        return Worked(**vars(worker.serve(once=once)))


def _seconds(option: str, given: float | str) -> float:
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 1 <= value <= 86_400:
        raise BadInput(
            f"{option} {given} is not between 1 and 86,400 seconds",
            remedy=f"for example {option} 60",
        )
    return value
