"""One invocation of the command: its settings, and how it talks and answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, is_dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any

from rich.console import Console

from freqdp_db.api import Freqdp
from freqdp_db.cli.progress import PlainProgress, TerminalProgress
from freqdp_db.errors import in_options
from freqdp_db.model.documents import json_text, plain, printable
from freqdp_db.progress import Progress
from freqdp_db.settings import Settings

PROGRAM = "freqdp"
_GAP = 2
"""Spaces between the columns of a table."""


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

    def print(self, *lines: str) -> None:
        """Lines of the answer. A terminal gets them broken between words, but for commands to copy."""
        for line in map(in_options, lines):
            whole = not self.out.is_terminal or PROGRAM + " " in line
            self.out.print(printable(line), markup=False, soft_wrap=whole)

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table on stdout, numbers to the right; where a terminal is too narrow, a block for each row."""
        cells = [[_cell(value) for value in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
        if self.out.is_terminal and sum(widths) + _GAP * (len(widths) - 1) > self.out.width:
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
            filled = [
                cell.rjust(width) if to_right else cell.ljust(width)
                for cell, width, to_right in zip(row, widths, right, strict=True)
            ]
            line = (" " * _GAP).join(filled).rstrip()
            style = "bold" if row == list(headers) else None
            self.out.print(line, markup=False, soft_wrap=True, style=style)

    def pairs(self, rows: Sequence[tuple[str, Any]]) -> None:
        """Aligned `name  value` lines on stdout."""
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            self.print(f"{name.ljust(width)}  {_cell(value)}")


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
