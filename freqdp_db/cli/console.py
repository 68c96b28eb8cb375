"""What every command shares: the common options, the two ways to answer, progress, exit codes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, is_dataclass
from datetime import date
from functools import cached_property
from typing import Annotated, Any

import typer
from rich.console import Console

from freqdp_db.api import Freqdp
from freqdp_db.cli.progress import PlainProgress, TerminalProgress
from freqdp_db.errors import BadInput, Interrupted, in_options
from freqdp_db.model.documents import json_text, plain, printable
from freqdp_db.progress import Progress
from freqdp_db.settings import Settings, load_settings

# typer carries its own copy of click in newer versions: take the classes from typer.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
ClickException: type[Exception] = UsageError.__bases__[0]

PROGRAM = "freqdp"
_GAP = 2
"""Spaces between the columns of a table."""
_ROOT: dict[str, Any] = {}
"""Common options given before the command's name; those given after it win."""


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

    def print(self, text: str) -> None:
        """A line of the answer. A terminal gets it broken between words, but for commands to copy."""
        text = in_options(text)
        whole = not self.out.is_terminal or PROGRAM + " " in text
        self.out.print(printable(text), markup=False, soft_wrap=whole)

    def print_all(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.print(line)

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
    if isinstance(value, int | float):
        return f"{value:,}"
    return printable(str(value), one_line=True)


_COMMON = {
    "dsn": (
        str | None,
        typer.Option(
            "--dsn",
            help="Database to use: URL or libpq string. Default: DATABASE_URL, then PG* variables, "
            "then the embedded server.",
            rich_help_panel="Every command",
        ),
    ),
    "json_": (
        bool,
        typer.Option(
            "--json", help="Answer with one JSON document.", rich_help_panel="Every command"
        ),
    ),
    "schema": (
        str | None,
        typer.Option(
            "--schema",
            help="Private schema (FREQDP_SCHEMA; default freqdp).",
            rich_help_panel="Every command",
        ),
    ),
    "release_schema": (
        str | None,
        typer.Option(
            "--release-schema",
            help="Schema of releases (FREQDP_RELEASE_SCHEMA; default freqdp_release).",
            rich_help_panel="Every command",
        ),
    ),
}


def remember_root(**options: Any) -> None:
    """Keep the common options that stand before the command's name."""
    _ROOT.clear()
    _ROOT.update({k: v for k, v in options.items() if v})


def add_command(
    app: typer.Typer,
    name: str,
    do: Callable[[Session, dict[str, Any]], None],
    parameters: Sequence[inspect.Parameter],
    help: str,
    **typer_options: Any,
) -> None:
    """Register a command with these parameters and the common ones; `do` gets its arguments."""
    # the root has the program's name, which every session carries anyway
    group = app.info.name if app.info.name != PROGRAM else None

    def run(**arguments: Any) -> None:
        common = {key: arguments.pop(key) or _ROOT.get(key) for key in _COMMON}
        session = Session(
            settings=load_settings(
                dsn=common["dsn"],
                schema=common["schema"],
                release_schema=common["release_schema"],
            ),
            json=bool(common["json_"]),
            command=f"{group} {name}" if isinstance(group, str) else name,
        )
        try:
            with session.freqdp:
                do(session, arguments)
        except KeyboardInterrupt:
            # typer would end without a word
            raise Interrupted from None

    options = [
        parameter(key, kind, option, False if kind is bool else None)
        for key, (kind, option) in _COMMON.items()
    ]
    signature = inspect.Signature([*parameters, *options])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    app.command(name, help=help, **typer_options)(run)


def parameter(name: str, kind: Any, declared: Any, default: Any) -> inspect.Parameter:
    """A parameter of a command, for typer; `declared`: a typer.Option or a typer.Argument."""
    annotation = Annotated[kind, declared]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


def whole_number(option: str, help: str) -> Any:
    """An option that takes a number, and refuses in our own words: typer's leave out the value."""
    return typer.Option(option, help=help, parser=integer_of(option))


def integer_of(option: str) -> Callable[[str | int], int]:
    """Reads the value of an option."""

    def integer(text: str | int) -> int:
        try:
            return int(text)
        except ValueError:
            raise BadInput(
                f"{option} {text!r} is not a whole number", remedy="write digits only"
            ) from None

    return integer


def command(
    app: typer.Typer, name: str, **typer_options: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command that is written by hand: a function whose first parameter is a `Session`."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(function, eval_str=True).parameters.values()
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        add_command(
            app,
            name,
            lambda session, arguments: function(session, **arguments),
            parameters,
            inspect.getdoc(function) or "",
            **typer_options,
        )
        return function

    return register
