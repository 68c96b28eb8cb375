"""Progress for people: a bar on a terminal, plain lines elsewhere. Both on stderr."""

from __future__ import annotations

import threading
import time

import rich.progress as bars
from rich.console import Console

from freqdp_db.progress import Progress, Stage

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_OF_SILENCE = 30.0


class TerminalProgress(Progress):
    """Bars with rate and time left."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._bars = bars.Progress(
            bars.TextColumn("{task.description:<22}"),
            bars.BarColumn(bar_width=28),
            bars.MofNCompleteColumn(),
            bars.TextColumn("{task.fields[unit]}"),
            bars.TextColumn("{task.fields[rate]}"),
            bars.TimeElapsedColumn(),
            bars.TimeRemainingColumn(),
            console=console,
            transient=False,
        )
        self._open = 0

    def open(self, name: str, total: int | None, unit: str) -> Stage:
        if self._open == 0:
            self._bars.start()
        self._open += 1
        return _Bar(self._bars, self._bars.add_task(name, total=total, unit=unit, rate=""))

    def close(self, stage: Stage) -> None:
        if isinstance(stage, _Bar):
            stage.finish()
        self._open -= 1
        if self._open == 0:
            self._bars.stop()

    def note(self, text: str) -> None:
        self._console.print(text, markup=False)


class _Bar:
    def __init__(self, progress: bars.Progress, task: bars.TaskID) -> None:
        self._progress = progress
        self._task = task

    def advance(self, amount: int) -> None:
        self._progress.advance(self._task, amount)
        speed = self._progress.tasks[self._task].speed
        if speed:
            self._progress.update(self._task, rate=f"{speed:,.0f}/s")

    def total(self, amount: int) -> None:
        self._progress.update(self._task, total=amount)

    def finish(self) -> None:
        done = self._progress.tasks[self._task].completed
        total = self._progress.tasks[self._task].total
        self._progress.update(self._task, total=total or done or 1, completed=total or done or 1)


class PlainProgress(Progress):
    """One line when a stage ends, one every ten seconds while it tells how far it is, and one every
    half minute while it does not: nobody waits for minutes without a word."""

    def __init__(self, console: Console, patience: float = _SECONDS_OF_SILENCE) -> None:
        super().__init__()
        self._console = console
        self._patience = patience
        self._open: list[_Line] = []
        self._idle = threading.Event()

    def open(self, name: str, total: int | None, unit: str) -> Stage:
        line = _Line(self._console, name, total, unit)
        self._open.append(line)
        if len(self._open) == 1:
            self._idle = threading.Event()
            watch = threading.Thread(target=self._watch, args=(self._idle,), daemon=True)
            watch.start()
        return line

    def close(self, stage: Stage) -> None:
        if isinstance(stage, _Line):
            self._open.remove(stage)
            stage.finish()
        if not self._open:
            self._idle.set()

    def _watch(self, idle: threading.Event) -> None:
        """Speak for the innermost stage while it says nothing itself."""
        while not idle.wait(self._patience / 3):
            inner = self._open[-1:]
            if inner and not any(line.spoke_within(self._patience) for line in self._open):
                inner[0].still_running()

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)


class _Line:
    def __init__(self, console: Console, name: str, total: int | None, unit: str) -> None:
        self._console = console
        self._name = name
        self._total = total
        self._unit = unit
        self._done = 0
        self._start = self._last = time.monotonic()

    def spoke_within(self, seconds: float) -> bool:
        return time.monotonic() - self._last < seconds

    def still_running(self) -> None:
        self._last = time.monotonic()
        self._print(self._last, running=True)

    def advance(self, amount: int) -> None:
        self._done += amount
        now = time.monotonic()
        if now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            self._print(now, running=True)

    def total(self, amount: int) -> None:
        self._total = amount

    def finish(self) -> None:
        self._print(time.monotonic(), running=False)

    def _print(self, now: float, *, running: bool) -> None:
        elapsed = now - self._start
        text = f"{self._name:<22}"
        if self._done:
            rate = self._done / max(elapsed, 1e-9)
            text += f" {self._done:>12,} {self._unit} {rate:>12,.0f}/s"
            if running and self._total:
                left = (self._total - self._done) / max(rate, 1e-9)
                text += f" of {self._total:,}, about {left:.0f} s left"
        text += f" {elapsed:8.2f} s"
        if running and not self._done:
            text += " so far"
        self._console.print(text, markup=False, soft_wrap=True)
