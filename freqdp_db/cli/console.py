"""One invocation of the command: its settings, how it shows progress, talks and answers.

Progress goes to stderr: a bar on a terminal, plain lines elsewhere.
"""

from __future__ import annotations

import math
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, is_dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any

import rich.progress as bars
from rich.console import Console

from freqdp_db.api import Freqdp
from freqdp_db.errors import in_options
from freqdp_db.model.documents import json_text, plain, printable
from freqdp_db.progress import Progress, Stage
from freqdp_db.settings import Settings

_SECONDS_BETWEEN_LINES = 10.0
_BYTES = "bytes"

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
        """What is left, or None if nobody can tell; status again and again, with growing `elapsed`."""
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


class Count:
    """What a stage has done so far, in words."""

    def __init__(self, name: str, total: int | None, unit: str) -> None:
        self.name, self.unit = name, unit
        self.done, self.whole = 0, total
        self._left = TimeLeft()
        self._start = time.monotonic()

    def advance(self, amount: int) -> None:
        self.done += amount
        self.left()

    def total(self, amount: int) -> None:
        self.whole = amount

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._start

    def left(self) -> str | None:
        seconds = self._left.seconds(self.done, self.whole, self.elapsed)
        return None if seconds is None else in_words(seconds)

    def amount(self) -> str:
        """So many of so many."""
        of = f" of {self._shown(self.whole)}" if self.whole else ""
        return f"{self._shown(self.done)}{of} {'MB' if self.unit == _BYTES else self.unit}"

    def rate(self) -> str:
        """So many a second; nothing where that would be a nought."""
        shown = self._shown(self.done / max(self.elapsed, 1e-9))
        return f"{shown}/s" if float(shown.replace(",", "")) else ""

    def _shown(self, amount: float) -> str:
        return f"{amount / 1e6:,.1f}" if self.unit == _BYTES else f"{amount:,.0f}"


class TerminalProgress(Progress):
    """Bars with rate and time left."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._bars = bars.Progress(
            bars.TextColumn("{task.description:<22}"),
            bars.BarColumn(bar_width=28),
            bars.TextColumn("{task.fields[status]}"),
            bars.TimeElapsedColumn(),
            console=console,
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


class _Bar(Count):
    def __init__(self, progress: bars.Progress, name: str, total: int | None, unit: str) -> None:
        super().__init__(name, total, unit)
        self._bars = progress
        self._task = progress.add_task(name, total=total, status="")

    def advance(self, amount: int) -> None:
        super().advance(amount)
        status = [self.amount(), self.rate(), self.left() or ""]
        self._bars.update(
            self._task,
            completed=self.done,
            total=self.whole,
            status="  ".join(filter(None, status)),
        )

    def finish(self) -> None:
        whole = self.whole or self.done or 1
        status = "" if not self.done else f"{self.amount()}  {self.rate()}"
        self._bars.update(self._task, completed=whole, total=whole, status=status)


class PlainProgress(Progress):
    """One line when a stage ends, and one every ten seconds while any runs, however it gets on."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._open: list[Count] = []
        self._ended = threading.Event()
        self._telling = threading.Lock()
        """Nothing is said of a stage after its last line."""

    def open(self, name: str, total: int | None, unit: str) -> Stage:
        count = Count(name, total, unit)
        self._open.append(count)
        if len(self._open) == 1:
            self._ended = threading.Event()
            threading.Thread(target=self._tell, args=(self._ended,), daemon=True).start()
        return count

    def close(self, stage: Stage) -> None:
        if isinstance(stage, Count):
            with self._telling:
                self._open.remove(stage)
                if not self._open:
                    self._ended.set()
                self._line(stage, "")

    def _tell(self, ended: threading.Event) -> None:
        """Say how far the innermost stage is, until the last one has ended."""
        while not ended.wait(_SECONDS_BETWEEN_LINES):
            self.tell_innermost()

    def tell_innermost(self) -> None:
        with self._telling:
            for count in self._open[-1:]:
                self._line(count, count.left() or "working")

    def note(self, text: str) -> None:
        self._console.print(printable(text), markup=False, soft_wrap=True)

    def _line(self, count: Count, status: str) -> None:
        amount = f"{count.amount():>22} {count.rate():>12}" if count.done else ""
        line = f"{count.name:<22} {amount} {status} {count.elapsed:8.2f} s"
        self._console.print(line, markup=False, soft_wrap=True)


PROGRAM = "freqdp"
_GAP = 2
"""Spaces between the columns of a table."""
_LEAST_TEXT = 16
"""Characters of a column of text that is folded, at least."""


@dataclass
class Session:
    """One invocation: its settings, whether it answers in JSON, and where it talks."""

    settings: Settings
    json: bool
    command: str
    talk: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))
    out: Console = field(default_factory=lambda: Console(highlight=False))

    @cached_property
    def freqdp(self) -> Freqdp:
        """The verbs, for the database that the command speaks to."""
        return Freqdp(self.settings, command=self.command, progress=self.progress)

    def progress(self) -> Progress:
        """Shows how far the work is."""
        terminal = self.talk.is_terminal
        return TerminalProgress(self.talk) if terminal else PlainProgress(self.talk)

    def say(self, text: str) -> None:
        """Talk, on stderr: never part of the answer."""
        self.talk.print(printable(text), markup=False, soft_wrap=True)

    def answer(self, document: Any, show: Callable[[], None]) -> None:
        """The answer, on stdout: one JSON document, or what `show` prints."""
        if self.json:
            sys.stdout.write(json_text(document, _plain, indent=2) + "\n")
        else:
            show()

    def print(self, *lines: str, indent: int = 0) -> None:
        """Lines of the answer. A terminal gets them broken between words, but for commands to copy.

        indent: where what follows the first break begins.
        """
        for line in map(in_options, lines):
            shown = printable(line)
            if self.out.is_terminal:
                broken = (_broken(part, self.out.width, indent) for part in shown.split("\n"))
                shown = "\n".join(part for parts in broken for part in parts)
            self.out.print(shown, markup=False, soft_wrap=True)

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table on stdout, numbers to the right.

        Where a terminal is too narrow, the longest text is folded; if little room is left for it, there
        is a block for each row.
        """
        cells = [[_cell(value) for value in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
        excess = sum(widths) + _GAP * (len(widths) - 1) - self.out.width
        folded = widths.index(max(widths))
        if self.out.is_terminal and excess > 0 and widths[folded] - excess >= _LEAST_TEXT:
            widths[folded] -= excess
        elif self.out.is_terminal and excess > 0:
            for index, row in enumerate(rows):
                if index:
                    self.print("")
                self.pairs(list(zip(headers, row, strict=True)))
            return
        right = [
            bool(rows) and all(isinstance(v, int | float | None) for v in column)
            for column in zip(*rows, strict=True)
        ] or [False] * len(headers)
        for row in (list(headers), *cells):
            style = "bold" if row == list(headers) else None
            text, *more = _broken(row[folded], widths[folded]) or [""]
            lines = [[*row[:folded], text, *row[folded + 1 :]]]
            lines += [["" if n != folded else rest for n in range(len(row))] for rest in more]
            for line in lines:
                filled = [
                    cell.rjust(width) if to_right else cell.ljust(width)
                    for cell, width, to_right in zip(line, widths, right, strict=True)
                ]
                shown = (" " * _GAP).join(filled).rstrip()
                self.out.print(shown, markup=False, soft_wrap=True, style=style)

    def pairs(self, rows: Sequence[tuple[str, Any]]) -> None:
        """Aligned `name  value` lines on stdout."""
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            self.print(f"{name.ljust(width)}  {_cell(value)}", indent=width + _GAP)


def _broken(line: str, width: int, indent: int = 0) -> list[str]:
    """A line broken between words, but not in a command: from the program's name to a comma or an end."""
    if len(line) <= width:
        return [line]
    pieces: list[tuple[str, str]] = []
    command = False
    for space, word in re.findall(r"(\s*)(\S+)", line):
        if command:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + space + word)
        else:
            pieces.append((space, word))
        command = (command or word.lstrip("(`") == PROGRAM) and word[-1] not in ".,:;)`"
    first = pieces[0][0]
    lines, rest = [], first + pieces[0][1]
    for space, word in pieces[1:]:
        if len(rest + space + word) > width:
            lines.append(rest)
            rest = (" " * indent or first) + word
        else:
            rest += space + word
    return [*lines, rest]


def _plain(value: Any) -> Any:
    """What JSON has no word for: documents, moments, exact numbers, paths."""
    if hasattr(value, "document"):
        return value.document()
    if isinstance(value, date):  # a datetime is one, too
        return value.isoformat()
    return plain(value) if is_dataclass(value) else str(value)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return printable(str(value), one_line=True)
