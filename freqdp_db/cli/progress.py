"""Progress for people: a bar on a terminal, plain lines elsewhere. Both on stderr."""

from __future__ import annotations

import time

import rich.progress as bars
from rich.console import Console

from freqdp_db.progress import Progress, Stage

_SECONDS_BETWEEN_LINES = 10.0
_BYTES = "bytes"


def _shown(amount: float, unit: str) -> str:
    """A number of the unit; bytes are shown as megabytes."""
    return f"{amount / 1e6:,.1f}" if unit == _BYTES else f"{amount:,.0f}"


def _name_of(unit: str) -> str:
    return "MB" if unit == _BYTES else unit


class TerminalProgress(Progress):
    """Bars with rate and time left."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._bars = bars.Progress(
            bars.TextColumn("{task.description:<22}"),
            bars.BarColumn(bar_width=28),
            bars.TextColumn("{task.fields[amount]}"),
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
        return _Bar(self._bars, name, total, unit)

    def close(self, stage: Stage) -> None:
        if isinstance(stage, _Bar):
            stage.finish()
        self._open -= 1
        if self._open == 0:
            self._bars.stop()

    def note(self, text: str) -> None:
        self._console.print(text, markup=False)


class _Bar:
    def __init__(self, progress: bars.Progress, name: str, total: int | None, unit: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=total, amount="", rate="")
        self._unit = unit

    def advance(self, amount: int) -> None:
        self._progress.advance(self._task, amount)
        self._show()

    def total(self, amount: int) -> None:
        self._progress.update(self._task, total=amount)

    def finish(self) -> None:
        done = self._progress.tasks[self._task].completed
        total = self._progress.tasks[self._task].total
        self._progress.update(self._task, total=total or done or 1, completed=total or done or 1)

    def _show(self) -> None:
        task = self._progress.tasks[self._task]
        of = "" if task.total is None else f"/{_shown(task.total, self._unit)}"
        self._progress.update(
            self._task,
            amount=f"{_shown(task.completed, self._unit)}{of} {_name_of(self._unit)}",
            rate=f"{_shown(task.speed, self._unit)}/s" if task.speed else "",
        )


class PlainProgress(Progress):
    """One line when a stage ends, and one every ten seconds while it runs."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def open(self, name: str, total: int | None, unit: str) -> Stage:
        return _Line(self._console, name, total, unit)

    def close(self, stage: Stage) -> None:
        if isinstance(stage, _Line):
            stage.finish()

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
            shown, total = (_shown(n, self._unit) for n in (self._done, self._total or 0))
            text += f" {shown:>12} {_name_of(self._unit)} {_shown(rate, self._unit):>12}/s"
            if running and self._total:
                left = (self._total - self._done) / max(rate, 1e-9)
                text += f" of {total}, about {left:.0f} s left"
        text += f" {elapsed:8.2f} s"
        self._console.print(text, markup=False, soft_wrap=True)
