"""Progress for people: a bar on a terminal, plain lines elsewhere. Both on stderr."""

from __future__ import annotations

import math
import threading
import time

import rich.progress as bars
from rich.console import Console

from freqdp_db.model.documents import printable
from freqdp_db.progress import Progress, Stage

# How much longer: an estimate that is said only once it has settled.


_FIRST_SECONDS = 3.0
_LEAST_DONE = 0.02
_SETTLED = math.log(1.5)
"""How far the newest guess may be from those before it."""
_MEMORY_SECONDS = 20.0


class TimeLeft:
    """Guesses the whole duration from the share that is done.

    Guesses are averaged over the last while; what is left is said only if the newest agrees.
    """

    def __init__(self) -> None:
        self._guess: float | None = None
        """Logarithm of the averaged duration."""
        self._at = 0.0
        self._done, self._moved = 0.0, 0.0
        """What was done last, and when."""

    def seconds(self, done: float, total: float | None, elapsed: float) -> float | None:
        """What is left, or None if nobody can tell; told again and again, with growing `elapsed`."""
        if not total or not 0 < done < total or elapsed < _FIRST_SECONDS:
            return None
        if done != self._done:
            self._done, self._moved = done, elapsed
        newest = math.log(elapsed * total / done)
        if self._guess is None:
            self._guess, self._at = newest, elapsed
            return None
        weight = 1 - math.exp(-(elapsed - self._at) / _MEMORY_SECONDS)
        self._guess += weight * (newest - self._guess)
        self._at = elapsed
        if abs(newest - self._guess) > _SETTLED or done < _LEAST_DONE * total:
            return None
        # of a few large pieces, the one in hand takes longer than others did: nobody can tell how long
        if elapsed - self._moved > max(elapsed / done, _FIRST_SECONDS):
            return None
        return max(math.exp(self._guess) - elapsed, 0.0)


def in_words(seconds: float) -> str:
    """`about 40 s left`, in steps as coarse as the guess is."""
    if seconds < 10:
        return "a few seconds left"
    if seconds < 90:
        return f"about {round(seconds / 10) * 10} s left"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} min left"
    return f"about {seconds / 3600:.1f} h left"


_SECONDS_BETWEEN_LINES = 10.0
_BYTES = "bytes"


def _shown(amount: float, unit: str) -> str:
    """A number of the unit; bytes are shown as megabytes."""
    return f"{amount / 1e6:,.1f}" if unit == _BYTES else f"{amount:,.0f}"


def _rate(per_second: float, unit: str) -> str:
    """So many a second; nothing where that would be a nought."""
    shown = _shown(per_second, unit)
    return f"{shown}/s" if float(shown.replace(",", "")) else ""


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
            bars.TextColumn("{task.fields[left]}"),
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
        self._console.print(printable(text), markup=False)


class _Bar:
    def __init__(self, progress: bars.Progress, name: str, total: int | None, unit: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=total, amount="", rate="", left="")
        self._unit = unit
        self._left = TimeLeft()

    def advance(self, amount: int) -> None:
        self._progress.advance(self._task, amount)
        self._show()

    def total(self, amount: int) -> None:
        self._progress.update(self._task, total=amount)

    def finish(self) -> None:
        done = self._progress.tasks[self._task].completed
        total = self._progress.tasks[self._task].total
        self._progress.update(
            self._task, total=total or done or 1, completed=total or done or 1, left=""
        )

    def _show(self) -> None:
        task = self._progress.tasks[self._task]
        of = "" if task.total is None else f"/{_shown(task.total, self._unit)}"
        left = self._left.seconds(task.completed, task.total, task.elapsed or 0.0)
        self._progress.update(
            self._task,
            amount=f"{_shown(task.completed, self._unit)}{of} {_name_of(self._unit)}",
            rate=_rate(task.speed, self._unit) if task.speed else "",
            left="" if left is None else in_words(left),
        )


class PlainProgress(Progress):
    """One line when a stage ends, and one every ten seconds while any runs, however it gets on."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._open: list[_Line] = []
        self._ended = threading.Event()
        self._telling = threading.Lock()
        """Nothing is said of a stage after its last line."""

    def open(self, name: str, total: int | None, unit: str) -> Stage:
        line = _Line(self._console, name, total, unit)
        self._open.append(line)
        if len(self._open) == 1:
            self._ended = threading.Event()
            threading.Thread(target=self._tell, args=(self._ended,), daemon=True).start()
        return line

    def close(self, stage: Stage) -> None:
        if isinstance(stage, _Line):
            with self._telling:
                self._open.remove(stage)
                if not self._open:
                    self._ended.set()
                stage.finish()

    def _tell(self, ended: threading.Event) -> None:
        """Say how far the innermost stage is, until the last one has ended."""
        while not ended.wait(_SECONDS_BETWEEN_LINES):
            self.tell_innermost()

    def tell_innermost(self) -> None:
        with self._telling:
            for line in self._open[-1:]:
                line.tell()

    def note(self, text: str) -> None:
        self._console.print(printable(text), markup=False, soft_wrap=True)


class _Line:
    def __init__(self, console: Console, name: str, total: int | None, unit: str) -> None:
        self._console = console
        self._name = name
        self._total = total
        self._unit = unit
        self._done = 0
        self._left = TimeLeft()
        self._start = time.monotonic()

    def advance(self, amount: int) -> None:
        self._done += amount
        self._left.seconds(self._done, self._total, time.monotonic() - self._start)

    def total(self, amount: int) -> None:
        self._total = amount

    def tell(self) -> None:
        elapsed = time.monotonic() - self._start
        self._print(elapsed, self._so_far(elapsed))

    def finish(self) -> None:
        self._print(time.monotonic() - self._start, "")

    def _so_far(self, elapsed: float) -> str:
        left = self._left.seconds(self._done, self._total, elapsed)
        of = f" of {_shown(self._total, self._unit)}" if self._total and self._done else ""
        said = "still at it" if left is None else in_words(left)
        return f"{of}, {said}" if self._done else f" {said}"

    def _print(self, elapsed: float, so_far: str) -> None:
        text = f"{self._name:<22}"
        if self._done:
            done, rate = self._done, self._done / max(elapsed, 1e-9)
            text += f" {_shown(done, self._unit):>12} {_name_of(self._unit)}"
            text += f" {_rate(rate, self._unit):>14}".rstrip()
        text += f"{so_far} {elapsed:8.2f} s"
        self._console.print(text, markup=False, soft_wrap=True)
