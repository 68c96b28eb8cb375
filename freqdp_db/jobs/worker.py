"""The worker: claims jobs one at a time, under a lease that it renews while it lives."""

from __future__ import annotations

import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from types import FrameType
from typing import Any, TypeAlias

import freqdp_db
from freqdp_db.dataset.building import build
from freqdp_db.db import jobs, schedules
from freqdp_db.db.builds import ended_window, find_build, window_build
from freqdp_db.db.connection import Connection, Database, Listener
from freqdp_db.db.datasets import DatasetRow, get_dataset, living_dataset
from freqdp_db.db.jobs import JobRow, LeaseConnection
from freqdp_db.db.releases import ReleaseRow, get_release
from freqdp_db.db.schema import require_current
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.errors import (
    BadInput,
    BudgetExceeded,
    Busy,
    FreqdpError,
    NotFound,
    TooExposed,
    VerificationFailed,
)
from freqdp_db.jobs.log import LOG, place_of
from freqdp_db.jobs.schedule import fire_due, renews, replaced_releases
from freqdp_db.progress import Progress, Stage
from freqdp_db.release.approving import finish_pending, withdraw
from freqdp_db.release.inputs import require_readable
from freqdp_db.release.pipeline import Outcome, anonymize, run
from freqdp_db.release.request import JobRequest, parse_job
from freqdp_db.release.verification import Replayed

# While a job is worked on: its lease renewed, its progress written, and a reason to stop noticed.


_MOST_SECONDS = 1.0
"""Between two signs of life; also how old the progress that people see can be."""
_SECONDS_BETWEEN_INTERRUPTS = 5.0
_MOST_SECONDS_TO_END = 5.0


class WorkInterrupted(KeyboardInterrupt):
    """The work in hand has to stop. Drivers and kernels treat it as Ctrl-C: statements are cancelled."""


class Reason(Enum):
    CANCELLED = "cancelled"
    LOST = "another worker has taken it over"
    STOPPED = "this worker is told to stop"


@dataclass
class _Phase:
    """A stage of the work, as people see it."""

    phase: str
    of: int | None
    unit: str
    done: int = 0
    start: float = field(default_factory=time.monotonic)

    def advance(self, amount: int) -> None:
        self.done += amount

    def total(self, amount: int) -> None:
        self.of = amount

    def columns(self) -> dict[str, Any]:
        """As the heartbeat writes them."""
        seconds = time.monotonic() - self.start
        own = {"phase": self.phase, "done": self.done, "total": self.of, "unit": self.unit}
        return own | {"seconds": seconds}


class JobProgress(Progress):
    """Remembers where the work is, for the heartbeat to write."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[_Phase] = []
        self._last: _Phase | None = None

    def open(self, name: str, total: int | None, unit: str) -> Stage:
        self._last = _Phase(name, total, unit)
        self._open.append(self._last)
        return self._last

    def close(self, stage: Stage) -> None:
        self._open = [phase for phase in self._open if phase is not stage]

    def columns(self) -> dict[str, Any] | None:
        """Of the newest phase that is open, else of the last one."""
        phase = self._open[-1] if self._open else self._last
        return None if phase is None else phase.columns()


class Heartbeat:
    """Beside the work, which is in the main thread and is interrupted by a signal: two threads.

    One renews the lease, the other watches the clock: a beat that hangs on a dead connection must not
    keep the work from being stopped.
    """

    def __init__(self, line: LeaseConnection, progress: JobProgress, lease_s: float) -> None:
        self._line, self._progress, self._lease_s = line, progress, lease_s
        self._every = min(_MOST_SECONDS, lease_s / 4)
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=run, name="heartbeat", daemon=True)
            for run in (self._beat, self._watch)
        ]
        self._renewed = time.monotonic()
        self._interrupted_at = -math.inf
        self.reason: Reason | None = None
        self.stop_at: float | None = None
        """When to interrupt the work because the worker stops (of the monotonic clock)."""

    def __enter__(self) -> Heartbeat:
        self._before = signal.signal(signal.SIGUSR1, self._on_signal)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        # a beat that hangs on a dead connection is left behind
        for thread in self._threads:
            thread.join(timeout=min(self._lease_s, _MOST_SECONDS_TO_END))
        if not any(thread.is_alive() for thread in self._threads):
            signal.signal(signal.SIGUSR1, self._before)

    def _on_signal(self, signum: int, frame: object) -> None:
        if not self._ended.is_set():
            raise WorkInterrupted

    def _beat(self) -> None:
        with closing(self._line):
            while not self._ended.wait(self._every):
                now = time.monotonic()
                try:
                    beat = self._line.beat(self._progress.columns())
                except FreqdpError:
                    # the server may be back in a moment; the work has a connection of its own
                    continue
                self._renewed = now
                if not beat.held:
                    self._interrupt(Reason.LOST)
                elif beat.cancelled:
                    self._interrupt(Reason.CANCELLED)

    def _watch(self) -> None:
        while not self._ended.wait(self._every):
            now = time.monotonic()
            if self.stop_at is not None and now >= self.stop_at:
                self._interrupt(Reason.STOPPED)
            if now - self._renewed > self._lease_s:
                self._interrupt(Reason.LOST)

    def _interrupt(self, reason: Reason) -> None:
        now = time.monotonic()
        if now - self._interrupted_at >= _SECONDS_BETWEEN_INTERRUPTS:
            self.reason, self._interrupted_at = self.reason or reason, now
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


# One job from beginning to end: build if asked to, release, retire old releases.


_SECONDS_FOR_LOCKS = 10.0
Gate: TypeAlias = Callable[
    [Database, ReleaseRow, Progress, Collection[str], Engine, Replayed | None], object
]
"""Grants a release that is held because its dataset has a limit, or raises why not.

The collection: the releases that are withdrawn as soon as it is granted. Last: what was verified of it
just now.
"""


def perform(
    database: Database, job: JobRow, progress: Progress, gate: Gate, engine: Engine = LOCAL
) -> tuple[Outcome, str | None]:
    """Do a job, from wherever an earlier attempt left it; and what is to be noted of it."""
    asked = parse_job(job.wanted)
    require_readable(database, asked.request.method, asked.request.values, job.askers)
    if job.release_id is None:
        made = _begin(database, job, asked, progress, engine)
    elif (release := get_release(database, job.release_id)).state == "running":
        made = run(database, release, progress, engine=engine)
    elif release.state == "published":
        made = Outcome(release, existed=False, resumed=True)
    else:
        raise NotFound(
            f"release {release.name!r} was taken back while the job was under way",
            remedy="ask for a new one",
        )
    release = made.release
    try:
        if release.held and not asked.hold:
            replaced = replaced_releases(database, release.dataset_id, asked)
            gate(database, release, progress, replaced, engine, made.replayed)
    except TooExposed:
        _retire(database, release.dataset_id, asked)
        raise
    return made, _retire(database, release.dataset_id, asked)


def _begin(
    database: Database, job: JobRow, asked: JobRequest, progress: Progress, engine: Engine
) -> Outcome:
    dataset = _dataset(database, job.dataset_id)
    build_id = None
    if asked.window is not None:
        build_id = _build_window(database, job, dataset, asked, progress, engine)
    elif asked.rebuild and job.build_id is None:
        read = dataset.current_build
        if read is None or not _is_fresh(database, job, read):
            read = build(database, dataset, progress, engine).build_id
        jobs.record_build(database, job, read)
        dataset = _dataset(database, job.dataset_id)

    def recorded(connection: Connection, release: ReleaseRow) -> None:
        jobs.record_release(connection, job, release.release_id)

    return anonymize(
        database,
        dataset,
        asked,
        progress,
        recorded=recorded,
        replaces=() if asked.hold else replaced_releases(database, dataset.dataset_id, asked),
        engine=engine,
        build_id=build_id,
    )


def _build_window(
    database: Database,
    job: JobRow,
    dataset: DatasetRow,
    asked: JobRequest,
    progress: Progress,
    engine: Engine,
) -> int:
    """The build of the window that is asked for: what an earlier attempt has read, or read now."""
    if job.build_id is not None and find_build(database, job.build_id).dropped_at is None:
        return job.build_id
    assert asked.window is not None, "a window is asked for"
    ended = ended_window(database, asked.window, dataset.mapping.timezone)
    made = window_build(database, dataset.dataset_id, ended.time_window)
    if made is None or (asked.rebuild and not _is_fresh(database, job, made)):
        made = build(database, dataset, progress, engine, ended).build_id
    jobs.record_build(database, job, made)
    return made


def _is_fresh(database: Database, job: JobRow, build_id: int) -> bool:
    """Whether a build was read after the job was asked for: jobs of several schedules share it."""
    return find_build(database, build_id).snapshot_at >= job.asked_at


def _dataset(database: Database, dataset_id: int) -> DatasetRow:
    dataset = living_dataset(database, dataset_id)
    if dataset is None:
        raise NotFound(
            "the dataset was dropped after the release was asked for",
            remedy="register it again, and ask again",
        )
    return dataset


def _retire(database: Database, dataset_id: int, asked: JobRequest) -> str | None:
    """Withdraw all but the newest; says which ones have to stay for now.

    Those that are held are counted apart: what nobody approved must not push out what analysts read.
    """
    if asked.keep is None:
        return None
    left = []
    for held in (False, True):
        for old in jobs.kept_releases(database, dataset_id, asked.series, held=held)[asked.keep :]:
            release = get_release(database, old)
            try:
                waits_for = withdraw(database, release)
            except FreqdpError as error:
                left.append(f"release {release.name} stays for now: {error.message}")
            else:
                if waits_for is not None:
                    what = f"release {release.name} is withdrawn, but not dropped yet: {waits_for}"
                    left.append(what)
    return "; ".join(left) or None


def give_up(database: Database, job: JobRow) -> ReleaseRow | None:
    """Abandon what a cancelled job has begun; returns its release if it was published before."""
    release_id = jobs.release_of(database, job.job_id)
    if release_id is None:
        return None
    until = time.monotonic() + _SECONDS_FOR_LOCKS
    while True:
        release = get_release(database, release_id)
        if release.state != "running":
            return release if release.state == "published" else None
        try:
            withdraw(database, release)
        except Busy:
            # the server may still be ending the sessions of the interrupted work
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


DEFAULT_LEASE_S = 60.0
DEFAULT_GRACE_S = 20.0
POLL_S = 5.0
IDLE_S = 30.0
"""Between two signs of life of a worker that has nothing to do."""
MAX_ATTEMPTS = 20
_MOST_BACK_OFF_S = 300.0
_MOST_RECONNECT_S = 30.0


@dataclass
class WorkerStats:
    """What a worker has done so far."""

    done: int = 0
    refused: int = 0
    failed: int = 0
    put_off: int = 0
    cancelled: int = 0
    seconds: float = 0.0


def back_off(attempts: int) -> float:
    """Seconds until the next attempt: 1, 2, 4, ... up to five minutes."""
    return float(min(_MOST_BACK_OFF_S, 2.0 ** (min(attempts, MAX_ATTEMPTS) - 1)))


def parse_seconds(option: str, given: float | str) -> float:
    """A lease or a grace; raises BadInput."""
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


class _Stop(KeyboardInterrupt):
    """Ends the wait of a worker that has nothing to do."""


def _local(database: Database, progress: Progress) -> AbstractContextManager[Engine]:
    """Nothing has to be started for threads of this process."""
    return nullcontext(LOCAL)


@dataclass
class Worker:
    """One process that serves jobs."""

    database: Database
    gate: Gate
    lease_s: float = DEFAULT_LEASE_S
    grace_s: float = DEFAULT_GRACE_S
    engine: Callable[[Database, Progress], AbstractContextManager[Engine]] = _local
    """Around the work of a job: what does it."""
    served: WorkerStats = field(default_factory=WorkerStats)
    _stopping: bool = False
    _waiting: bool = False
    _heartbeat: Heartbeat | None = None
    _listener: Listener | None = None
    _worker_id: int | None = None
    _silent_since: float | None = None
    """Since when the database has not answered (of the monotonic clock)."""

    def serve(self, *, once: bool) -> WorkerStats:
        """Serve until told to stop; `once`: until nothing is due.

        Who waits for the end of `once` does not wait for a database that is gone: it is raised when it
        has not answered for the length of a lease, after which others may have the job.
        """
        before = {s: signal.signal(s, self._on_stop) for s in (signal.SIGTERM, signal.SIGINT)}
        failures = 0
        try:
            while not self._stopping:
                try:
                    if not self._round(once):
                        break
                    failures = 0
                    self._silent_since = None
                except FreqdpError as error:
                    if not error.can_pass or (once and self._is_silent()):
                        raise
                    failures += 1
                    self._start_anew()
                    seconds = min(_MOST_RECONNECT_S, back_off(failures))
                    LOG.warning("reconnect", error=error.message, in_seconds=seconds)
                    self._pause(lambda seconds=seconds: time.sleep(seconds))  # type: ignore[misc]
        except _Stop:
            pass
        finally:
            self._leave()
            for number, handler in before.items():
                signal.signal(number, handler)
        return self.served

    def _round(self, once: bool) -> bool:
        """Do what is due, or wait for it; False if there is nothing to wait for."""
        require_current(self.database)
        worker_id = self._register(once)
        for fired in fire_due(self.database):
            self.served.refused += fired.ended
            say = LOG.warning if fired.refused else LOG.info
            say("schedule", schedule=fired.schedule_id, dataset=fired.dataset, job=fired.job_id,
                refused=fired.refused, next_at=fired.next_at)  # fmt: skip
        job = jobs.claim(self.database, worker_id, self.lease_s)
        if job is not None:
            self._serve_job(job)
            return True
        finish_pending(self.database)
        if once:
            return False
        planned = jobs.seconds_to_next(self.database)
        self._pause(lambda: self._wait(IDLE_S if planned is None else min(IDLE_S, planned + 0.05)))
        jobs.show_life(self.database, worker_id)
        return True

    def _register(self, once: bool) -> int:
        if self._listener is None and not once:
            self._listener = Listener(self.database)
            if not self._listener.hears:
                LOG.warning(
                    "poll",
                    every_seconds=POLL_S,
                    reason="the connection goes through a pooler, where notifications get lost",
                )
        if self._worker_id is None:
            hears = self._listener is not None and self._listener.hears
            self._worker_id = jobs.register_worker(
                self.database, socket.gethostname(), os.getpid(), freqdp_db.__version__, hears
            )
            LOG.info("start", worker=self._worker_id, listening=hears)
        return self._worker_id

    def _wait(self, seconds: float) -> None:
        if self._listener is not None and self._listener.hears:
            self._listener.wait(seconds)
        else:
            time.sleep(min(seconds, POLL_S))

    def _pause(self, wait: Callable[[], None]) -> None:
        """Wait, until a signal to stop ends it."""
        self._waiting = True
        try:
            if not self._stopping:
                wait()
        finally:
            self._waiting = False

    def _on_stop(self, signum: int, frame: FrameType | None) -> None:
        """The first time: take no more jobs, and finish the one in hand within the grace period."""
        again, self._stopping = self._stopping, True
        if self._waiting:
            raise _Stop
        if self._heartbeat is not None:
            self._heartbeat.stop_at = time.monotonic() + (0.0 if again else self.grace_s)

    def _is_silent(self) -> bool:
        """Whether the database has not answered for the length of a lease."""
        now = time.monotonic()
        self._silent_since = self._silent_since or now
        return now - self._silent_since >= self.lease_s

    def _start_anew(self) -> None:
        self.database.close()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _leave(self) -> None:
        try:
            if self._worker_id is not None:
                jobs.show_life(self.database, self._worker_id, stopped=True)
        except FreqdpError as error:
            LOG.warning("stop", error=error.message)
        if self._listener is not None:
            self._listener.close()
        LOG.info("stop", **vars(self.served))

    def _serve_job(self, job: JobRow) -> None:
        start = time.monotonic()
        LOG.info(
            "begin", job=job.job_id, attempt=job.attempts, taken_over=job.taken_over or None,
            asked_by=job.asked_by,
        )  # fmt: skip
        own = Database(self.database.conninfo, self.database.settings, f"worker job {job.job_id}")
        try:
            end = self._attempt(own, job)
        finally:
            own.close()
        self._report(end)
        self.served.seconds += time.monotonic() - start
        LOG.info("end", job=job.job_id, seconds=round(time.monotonic() - start, 3))

    def _attempt(self, own: Database, job: JobRow) -> Callable[[], object]:
        """Do the job; returns what there is to report of it, to be called until it succeeds."""
        if job.cancelled:
            return lambda: self._cancel(job)
        if job.attempts > MAX_ATTEMPTS:
            what = f"given up after {MAX_ATTEMPTS} attempts; the last worker vanished"
            return self._ended(job, "failed", what)
        progress = JobProgress()
        heartbeat = Heartbeat(LeaseConnection(own, job, self.lease_s), progress, self.lease_s)
        try:
            with heartbeat:
                self._heartbeat = heartbeat
                if self._stopping:  # told in the moment before
                    heartbeat.stop_at = time.monotonic() + self.grace_s
                with self.engine(own, progress) as engine:
                    done, note = perform(own, job, progress, self.gate, engine)
        except WorkInterrupted:
            return self._interrupted(job, heartbeat.reason)
        except FreqdpError as error:
            return self._unsuccessful(job, error)
        except Exception as error:
            what = f"a fault in freqdp: {place_of(error)}"
            return self._ended(job, "failed", what)
        finally:
            self._heartbeat = None
        LOG.info(
            "done", job=job.job_id, release=done.release.name, resumed=done.resumed, note=note,
            phases={name: round(seconds, 3) for name, seconds in progress.seconds.items()},
        )  # fmt: skip
        return self._ended(job, "done", note=note, release_id=done.release.release_id)

    def _ended(
        self,
        job: JobRow,
        state: str,
        error: str | None = None,
        *,
        note: str | None = None,
        release_id: int | None = None,
    ) -> Callable[[], object]:
        setattr(self.served, state, getattr(self.served, state) + 1)
        if error is not None:
            LOG.warning(state, job=job.job_id, error=error)
        return lambda: jobs.finish(
            self.database, job, state, error=error, note=note, release_id=release_id
        )

    def _unsuccessful(self, job: JobRow, error: FreqdpError) -> Callable[[], object]:
        """Try again later what can pass; say why about what cannot."""
        if not error.can_pass:
            if isinstance(error, BudgetExceeded) and job.schedule_id is not None:
                dataset = get_dataset(self.database, job.dataset_id)
                if not renews(dataset, parse_job(job.wanted)):
                    self._end_schedule(job.schedule_id, error)
            state = "failed" if isinstance(error, VerificationFailed) else "refused"
            return self._ended(job, state, error.with_remedy)
        # a lock of somebody else's is no fault of the job: it waits for it as long as it takes
        busy = isinstance(error, Busy)
        if job.attempts >= MAX_ATTEMPTS and not busy:
            text = f"given up after {job.attempts} attempts: {error.with_remedy}"
            return self._ended(job, "failed", text)
        self.served.put_off += 1
        seconds = back_off(job.attempts)
        LOG.warning("put off", job=job.job_id, error=error.message, in_seconds=seconds)
        counted = not busy or job.attempts < MAX_ATTEMPTS // 2
        return lambda: jobs.retry_later(
            self.database, job, seconds, error=error.message, counted=counted
        )

    def _end_schedule(self, schedule_id: int, error: FreqdpError) -> None:
        self._report(lambda: schedules.end_schedule(self.database, schedule_id, error.with_remedy))
        LOG.warning("schedule", schedule=schedule_id, refused=error.with_remedy)

    def _interrupted(self, job: JobRow, reason: Reason | None) -> Callable[[], object]:
        if reason is Reason.CANCELLED:
            return lambda: self._cancel(job)
        self.served.put_off += 1
        LOG.info("put off", job=job.job_id, reason=None if reason is None else reason.value)
        # not counted: nothing is wrong with the job
        return lambda: jobs.retry_later(self.database, job, 0.0, error=None, counted=False)

    def _cancel(self, job: JobRow) -> None:
        published = give_up(self.database, job)
        if published is None:
            self.served.cancelled += 1
            LOG.info("cancelled", job=job.job_id)
            jobs.finish(self.database, job, "cancelled")
        else:
            self.served.done += 1
            note = "was published before it could be cancelled"
            jobs.finish(self.database, job, "done", note=note)

    def _report(self, report: Callable[[], object]) -> None:
        """Say it until it is heard; after the lease another worker finds out by itself."""
        while True:
            try:
                report()
                self._silent_since = None
                return
            except FreqdpError as error:
                if not error.can_pass or self._is_silent():
                    LOG.warning("report", error=error.message)
                    return
                self.database.close()
                time.sleep(0.5)
