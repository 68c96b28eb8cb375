"""The command `freqdp`: the tree of commands and the exit codes."""

from __future__ import annotations

import errno
import logging
import signal
import sys
from collections.abc import Sequence
from functools import cache
from types import FrameType
from typing import Any

import typer

from freqdp_db import __version__
from freqdp_db.api import Freqdp
from freqdp_db.cli import commands
from freqdp_db.cli.console import PROGRAM
from freqdp_db.cli.db import Server
from freqdp_db.cli.demo import Demo
from freqdp_db.errors import BadInput, ConnectionFailed, FreqdpError, Interrupted
from freqdp_db.model.documents import json_text, printable

EXIT_REFUSED = 1
EXIT_USAGE = 2
_SHOWN_OF_PATH = 60
_SECONDS_TO_INTERRUPT_AGAIN = 0.05

GROUPS = {
    "db": "The embedded server. FREQDP_DATA_DIR says where its files are.",
    "load": "Load files into plain tables.",
    "dataset": "Register and build datasets.",
    "release": "Look after releases.",
    "ledger": "The ledger of privacy budgets.",
    "schedule": "Releases that workers ask for by themselves.",
    "bench": "Measure the search and the whole job.",
}
app = typer.Typer(
    name=PROGRAM,
    help="Anonymize trajectories that sit in PostgreSQL/PostGIS and publish them as versioned tables.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"freqdp {__version__}\n")
        raise typer.Exit


_received: list[int] = []
"""The signals that have interrupted the command that runs."""


def interrupt(signum: int, frame: FrameType | None) -> None:
    _received.append(signum)
    raise KeyboardInterrupt


def interrupt_again(ignored: Any) -> None:
    """An interrupt that came inside of a finaliser, where Python ignores every exception, comes again.

    By the clock: a finaliser may run anywhere, so that nothing that takes a lock may be done here.
    """
    if ignored.exc_type is KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, _SECONDS_TO_INTERRUPT_AGAIN)
    else:
        sys.__unraisablehook__(ignored)


def _require_text(arguments: Sequence[str]) -> None:
    """Refuse bytes that are not UTF-8: no name in the database could be meant by them."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise BadInput(
                f"the argument {argument!a} is not valid UTF-8",
                remedy="check the encoding of the terminal or the script",
            ) from None


@cache
def _tree() -> Any:
    """The commands, with flags that are shown as flags: without the type of a value."""
    tree = typer.main.get_command(app)
    waiting: list[Any] = [tree]
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        helps = command.get_help_option(typer.Context(command, help_option_names=["-h", "--help"]))
        for parameter in (*command.params, helps):
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
    return tree


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code: 0 done, 1 refused, 2 usage, 3 not verified."""
    as_json = "--json" in arguments
    _received.clear()
    try:
        _require_text(arguments)
        result: Any = _tree()(args=list(arguments), standalone_mode=False)
        return result if isinstance(result, int) else 0
    except FreqdpError as error:
        # an interrupt can leave a connection amid a statement: what then fails comes of the interrupt
        if _received and isinstance(error, ConnectionFailed):
            return _interrupted(as_json)
        _show_error(error.as_options(), as_json)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):  # outside of a command: they turn it into our own
        return _interrupted(as_json)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        _show_error(_too_long(str(error.filename)).as_options(), as_json)
        return EXIT_REFUSED
    except commands.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # it has shown the help
            return 0
        unacceptable = (
            isinstance(error, typer.BadParameter) and "Missing" not in type(error).__name__
        )
        text = error.format_message() if hasattr(error, "format_message") else str(error)
        _show_error(
            {"error": type(error).__name__, "message": text, "remedy": "see --help"}, as_json
        )
        return EXIT_REFUSED if unacceptable else EXIT_USAGE
    except Exception as error:
        if not _comes_of_an_interrupt(error):
            raise
        return _interrupted(as_json)


def _interrupted(as_json: bool) -> int:
    _show_error(Interrupted().as_options(), as_json)
    return Interrupted.exit_code


def _comes_of_an_interrupt(error: BaseException | None) -> bool:
    """A module that is interrupted while it is imported says that it cannot be."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


_groups = {
    name: typer.Typer(name=name, help=text, no_args_is_help=True) for name, text in GROUPS.items()
}
commands.add_commands(app, _groups, Freqdp, lambda session: session.freqdp)
commands.add_commands(app, _groups, Server, Server)
commands.add_commands(app, _groups, Demo, Demo)
_root = commands.as_function(
    lambda version, **common: commands.remember_root(**common),
    [
        commands.parameter(
            "version",
            bool,
            typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
            False,
        ),
        *commands.common_options(hidden=True),
    ],
)
app.callback()(_root)
for _group in _groups.values():
    app.add_typer(_group)


def _too_long(path: str) -> BadInput:
    begin = path if len(path) <= _SHOWN_OF_PATH else path[:_SHOWN_OF_PATH] + "..."
    return BadInput(
        f"the file name {begin!r} is too long ({len(path.encode()):,} bytes)",
        remedy="give a shorter one: file systems take 255 bytes for each part of a path",
    )


def _show_error(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json_text(document) + "\n")
    sys.stderr.write(printable(f"freqdp: {document['message']}\n"))
    if document.get("remedy"):
        sys.stderr.write(printable(f"  -> {document['remedy']}\n"))


def main() -> None:
    # what drivers log, with tracebacks, when a connection breaks is said by our own errors
    logging.basicConfig(handlers=[logging.NullHandler()])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        # a shell ignores interrupts of what it starts in the background
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    sys.unraisablehook = interrupt_again
    sys.exit(run(sys.argv[1:]))
