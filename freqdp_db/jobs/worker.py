"""The worker: claims jobs one at a time, under a lease that it renews while it lives."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import FrameType

import freqdp_db
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.errors import BadInput, BudgetExceeded, Busy, FreqdpError, VerificationFailed
from freqdp_db.jobs import work
from freqdp_db.jobs.log import LOG, place_of
from freqdp_db.jobs.pulse import JobProgress, Pulse, Reason, WorkInterrupted
from freqdp_db.jobs.schedule import fire_due
from freqdp_db.progress import Progress
from freqdp_db.release.withdrawing import finish_late
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.listening import Listener
from freqdp_db.storage.records import jobs, schedules, workers
from freqdp_db.storage.records.jobs import JobRow
from freqdp_db.storage.records.workers import LifeLine
from freqdp_db.storage.schema.upgrade import require_current

DEFAULT_LEASE_S = 60.0
DEFAULT_GRACE_S = 20.0
POLL_S = 5.0
IDLE_S = 30.0
"""Between two signs of life of a worker that has nothing to do."""
MAX_ATTEMPTS = 20
_MOST_BACK_OFF_S = 300.0
_MOST_RECONNECT_S = 30.0


@dataclass
class Served:
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
    gate: work.Gate
    lease_s: float = DEFAULT_LEASE_S
    grace_s: float = DEFAULT_GRACE_S
    engine: Callable[[Database, Progress], AbstractContextManager[Engine]] = _local
    """Around the work of a job: what does it."""
    served: Served = field(default_factory=Served)
    _stopping: bool = False
    _waiting: bool = False
    _pulse: Pulse | None = None
    _listener: Listener | None = None
    _worker_id: int | None = None
    _silent_since: float | None = None
    """Since when the database has not answered (of the monotonic clock)."""

    def serve(self, *, once: bool) -> Served:
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
        finish_late(self.database)
        if once:
            return False
        planned = jobs.seconds_to_next(self.database)
        self._pause(lambda: self._wait(IDLE_S if planned is None else min(IDLE_S, planned + 0.05)))
        workers.show_life(self.database, worker_id)
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
            self._worker_id = workers.register_worker(
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
        if self._pulse is not None:
            self._pulse.stop_at = time.monotonic() + (0.0 if again else self.grace_s)

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
                workers.show_life(self.database, self._worker_id, stopped=True)
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
        pulse = Pulse(LifeLine(own, job, self.lease_s), progress, self.lease_s)
        try:
            with pulse:
                self._pulse = pulse
                if self._stopping:  # told in the moment before
                    pulse.stop_at = time.monotonic() + self.grace_s
                with self.engine(own, progress) as engine:
                    done = work.perform(own, job, progress, self.gate, engine)
        except WorkInterrupted:
            return self._interrupted(job, pulse.reason)
        except FreqdpError as error:
            return self._unsuccessful(job, error)
        except Exception as error:
            what = f"a fault in freqdp: {place_of(error)}"
            return self._ended(job, "failed", what)
        finally:
            self._pulse = None
        LOG.info(
            "done", job=job.job_id, release=done.release.name, resumed=done.resumed, note=done.note,
            phases={name: round(seconds, 3) for name, seconds in progress.seconds.items()},
        )  # fmt: skip
        return self._ended(job, "done", note=done.note, release_id=done.release.release_id)

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
                self._end_schedule(job.schedule_id, error)
            state = "failed" if isinstance(error, VerificationFailed) else "refused"
            return self._ended(job, state, error.told)
        # a lock of somebody else's is no fault of the job: it waits for it as long as it takes
        busy = isinstance(error, Busy)
        if job.attempts >= MAX_ATTEMPTS and not busy:
            text = f"given up after {job.attempts} attempts: {error.told}"
            return self._ended(job, "failed", text)
        self.served.put_off += 1
        seconds = back_off(job.attempts)
        LOG.warning("put off", job=job.job_id, error=error.message, in_seconds=seconds)
        counted = not busy or job.attempts < MAX_ATTEMPTS // 2
        return lambda: jobs.put_off(
            self.database, job, seconds, error=error.message, counted=counted
        )

    def _end_schedule(self, schedule_id: int, error: FreqdpError) -> None:
        def end() -> None:
            with self.database.begin() as connection:
                schedules.end_schedule(connection, self.database, schedule_id, error.told)

        self._report(end)
        LOG.warning("schedule", schedule=schedule_id, refused=error.told)

    def _interrupted(self, job: JobRow, reason: Reason | None) -> Callable[[], object]:
        if reason is Reason.CANCELLED:
            return lambda: self._cancel(job)
        self.served.put_off += 1
        LOG.info("put off", job=job.job_id, reason=None if reason is None else reason.value)
        # not counted: nothing is wrong with the job
        return lambda: jobs.put_off(self.database, job, 0.0, error=None, counted=False)

    def _cancel(self, job: JobRow) -> None:
        published = work.give_up(self.database, job)
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
