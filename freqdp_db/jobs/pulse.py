"""While a job is worked on: its lease renewed, its progress written, and a reason to stop noticed."""

from __future__ import annotations

import signal
import threading
import time
from enum import Enum
from types import TracebackType

from freqdp_db.errors import FreqdpError
from freqdp_db.progress import Progress, Stage
from freqdp_db.storage.records.workers import LifeLine, PhaseProgress

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


class JobProgress(Progress):
    """Remembers where the work is, for the pulse to write."""

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

    def step(self) -> PhaseProgress | None:
        """The newest phase that is open, else the last one."""
        phase = self._open[-1] if self._open else self._last
        return None if phase is None else phase.step()


class _Phase:
    def __init__(self, name: str, total: int | None, unit: str) -> None:
        self._name, self._total, self._unit = name, total, unit
        self._done = 0
        self._start = time.monotonic()

    def advance(self, amount: int) -> None:
        self._done += amount

    def total(self, amount: int) -> None:
        self._total = amount

    def step(self) -> PhaseProgress:
        seconds = time.monotonic() - self._start
        return PhaseProgress(self._name, self._done, self._total, self._unit, seconds)


class Pulse:
    """Beside the work, which is in the main thread and is interrupted by a signal: two threads.

    One renews the lease, the other watches the clock: a beat that hangs on a dead connection must not
    keep the work from being stopped.
    """

    def __init__(self, line: LifeLine, progress: JobProgress, lease_s: float) -> None:
        self._line, self._progress, self._lease_s = line, progress, lease_s
        self._every = min(_MOST_SECONDS, lease_s / 4)
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=run, name="pulse", daemon=True)
            for run in (self._beat, self._watch)
        ]
        self._renewed = time.monotonic()
        self._interrupted_at: float | None = None
        self.reason: Reason | None = None
        self.stop_at: float | None = None
        """When to interrupt the work because the worker stops (of the monotonic clock)."""

    def __enter__(self) -> Pulse:
        self._before = signal.signal(signal.SIGUSR1, self._on_signal)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        with self._line:
            while not self._ended.wait(self._every):
                now = time.monotonic()
                try:
                    beat = self._line.beat(self._progress.step())
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
        if (
            self._interrupted_at is None
            or now - self._interrupted_at >= _SECONDS_BETWEEN_INTERRUPTS
        ):
            self.reason, self._interrupted_at = self.reason or reason, now
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
