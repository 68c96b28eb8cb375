"""`freqdp demo`: the commands of a first session, one after the other, on a generated city."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

import freqdp_db
from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number
from freqdp_db.errors import FreqdpError, Interrupted

_NAME = "city"


def register(app: typer.Typer, run: Callable[[Sequence[str]], int]) -> None:
    """`run` is the command line itself: the demo types what a person would."""

    @command(app, "demo")
    def demo(
        session: Session,
        objects: Annotated[int, whole_number("--objects", "How many people and taxis.")] = 200,
        days: Annotated[int, whole_number("--days", "Days to record.")] = 7,
        seed: Annotated[int, whole_number("--seed", "Which city; the noise has none.")] = 1,
        report: Annotated[
            Path | None, typer.Option("--report", help="Its report. Default: NAME.report.html")
        ] = None,
    ) -> None:
        """Make up a city, anonymize it, verify and measure it, and report what came of it."""

        def step(why: str, *arguments: str) -> None:
            session.say(f"\n# {why}\n$ freqdp {shlex.join(arguments)}")
            # with --json the steps' answers are talk: the document is the last release's
            with redirect_stdout(sys.stderr) if session.json else nullcontext():
                code = run([*arguments, *_connection_options(session)])
            if code == Interrupted.exit_code:
                raise Interrupted
            if code != 0:
                raise FreqdpError(f"the demo stopped at: freqdp {shlex.join(arguments)}")

        size = ["--objects", str(objects), "--days", str(days), "--seed", str(seed)]
        step("Create freqdp's schemas", "init")
        step("Make up a city, for want of a table of your own", "load", "demo", *size, "--replace")
        if not any(d.name == _NAME for d in freqdp_db.datasets(session.target)):
            step(
                "Register the table: which column is what",
                *("dataset", "add", _NAME, "--from", "demo.city", "--object", "object_id"),
                *("--time", "at", "--geom", "geom"),
            )
        step("Clean it, snap it to places, file its segments", "dataset", "build", _NAME)
        step("What would a release spend and edit? (spends nothing)", "plan", _NAME)
        step("Anonymize and publish", "anonymize", _NAME, "--epsilon", "1")
        newest = freqdp_db.release(session.target, _newest(session))
        step("Prove that the table is what the log says", "release", "verify", newest.name)
        step("What has been spent", "budget", _NAME)
        roads = ("--roads", "demo.roads")
        step("How private, how useful, how recoverable?", "evaluate", newest.name, *roads)
        page = (report or _folder() / f"{newest.name}.report.html").resolve()
        step(
            "The report: all of it at a glance",
            *("release", "report", newest.name, *roads, "--out", str(page), "--force"),
        )

        def show() -> None:
            session.print("\n" + "=" * 78)
            session.print_all([*newest.lines(), ""])
            session.print("Analysts query it with SQL:      freqdp db psql")
            session.print(
                f"  SELECT * FROM {session.settings.release_schema}.{newest.name} LIMIT 5;"
            )
            session.print(f"  SELECT * FROM {session.settings.release_schema}.catalog;")
            session.print("Stop the embedded server:        freqdp db stop")
            session.print(f"Open the report in a browser:    {page}")

        session.answer({**newest.document(), "report": str(page)}, show)


def _newest(session: Session) -> str:
    return [r.name for r in freqdp_db.releases(session.target) if r.published_at][-1]


def _folder() -> Path:
    """Where the report goes: here, or where anybody may write."""
    here = Path.cwd()
    return here if os.access(here, os.W_OK) else Path(tempfile.gettempdir())


def _connection_options(session: Session) -> list[str]:
    settings = session.settings
    options = ["--schema", settings.schema, "--release-schema", settings.release_schema]
    return [*options, "--dsn", settings.dsn] if settings.dsn else options
