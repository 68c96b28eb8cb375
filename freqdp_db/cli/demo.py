"""`freqdp demo`: the commands of a first session, one after the other, on a generated city."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freqdp_db.cli import answers
from freqdp_db.cli.console import Session, command, whole_number
from freqdp_db.errors import FreqdpError, Interrupted

if TYPE_CHECKING:
    from freqdp_db.evaluation.recommendation.choosing import Recommendation
    from freqdp_db.release.summary import Anonymized
    from freqdp_db.results import Evaluated

_NAME = "city"
_ROADS = "demo.roads"
# The made-up city lies here, and its record begins on this day: public, as it is made up.
_REGION = "4.26,50.79,4.44,50.91"
_BEGINS = date(2024, 3, 3)
_TRIED = 120
_FEWEST = 4
_RISK = 0.05
_RISKS = (0.1, 0.2, 0.5, 1.0)


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
        """Make up a city, find out what protects it, anonymize it so, verify, measure and report."""
        stage = _Stage(session, run)
        size = ["--objects", str(objects), "--days", str(days), "--seed", str(seed)]
        stage.types("Create freqdp's schemas", "init")
        stage.types(
            "Make up a city, for want of a table of your own",
            *("load", "demo", *size, "--replace"),
        )
        if not any(d.name == _NAME for d in session.freqdp.datasets()):
            period = f"{_BEGINS}/{_BEGINS + timedelta(days=days + 2)}"
            stage.types(
                "Register the table: which column is what, and what everybody may know",
                *("dataset", "add", _NAME, "--from", "demo.city", "--object", "object_id"),
                *("--time", "at", "--geom", "geom", "--region", _REGION, "--period", period),
            )
        stage.types("Clean it, snap it to places, file its segments", "dataset", "build", _NAME)
        advice = stage.recommends()
        options = _options(advice)
        made = stage.anonymizes(stage.plans(options))
        stage.types("Prove that the table is what the log says", "release", "verify", made.name)
        stage.types("What has been spent", "budget", _NAME)
        measured = stage.evaluates(made.name)
        page = (report or _folder() / f"{made.name}.report.html").resolve()
        stage.types(
            "The report: all of it at a glance",
            *("release", "report", made.name, "--roads", _ROADS, "--out", str(page), "--force"),
        )
        newest = session.freqdp.release(made.name)
        schema = session.settings.schema
        answer = _answer(made.name, schema, advice, measured)

        def show() -> None:
            published = session.settings.release_schema
            session.print("\n" + "=" * 78)
            session.print_all([*newest.lines(), ""])
            session.print("Analysts query it with SQL:      freqdp db psql")
            session.print(f"  SELECT * FROM {published}.{made.name} LIMIT 5;")
            session.print(f"  SELECT * FROM {published}.catalog;")
            session.print("Stop the embedded server:        freqdp db stop")
            if advice is not None:
                session.print(f"Why this method, in a picture:   {advice.file}")
            session.print(f"Open the report in a browser:    {page}")
            session.print(f"\n{answer}")

        document = {
            **newest.document(),
            "report": str(page),
            "recommendation": None if advice is None else str(advice.file),
            "answer": answer,
        }
        session.answer(document, show)


@dataclass(frozen=True)
class _Stage:
    """Says each command, and does it."""

    session: Session
    run: Callable[[Sequence[str]], int]

    def says(self, why: str, *arguments: str) -> None:
        self.session.say(f"\n# {why}\n$ freqdp {shlex.join(arguments)}")

    def talk(self) -> AbstractContextManager[Any]:
        """With --json the steps' answers are talk: the document is the release's."""
        return redirect_stdout(sys.stderr) if self.session.json else nullcontext()

    def types(self, why: str, *arguments: str) -> None:
        """A command whose answer nothing here depends on."""
        self.says(why, *arguments)
        with self.talk():
            code = self.run([*arguments, *_connection_options(self.session)])
        if code == Interrupted.exit_code:
            raise Interrupted
        if code != 0:
            raise FreqdpError(f"the demo stopped at: freqdp {shlex.join(arguments)}")

    def recommends(self) -> Recommendation | None:
        """What to use; None: there are too few to find out."""
        session = self.session
        build = session.freqdp.dataset(_NAME).build
        if build is None or build.trajectories < _FEWEST:
            return None
        objects, out = min(_TRIED, build.trajectories), _folder() / f"recommend_{_NAME}"
        self.says(
            "Which method protects these people, and still shows where and when there are many?",
            *("recommend", _NAME, "--objects", str(objects), "--minutes", "2"),
            *("--out", str(out), "--force"),
        )
        found = session.freqdp.recommend(_NAME, objects=objects, minutes=2, out=out, force=True)
        with self.talk():
            answers.show(session, "recommend", found, {})
        return found

    def plans(self, options: Sequence[str]) -> Sequence[str]:
        """The options, and what it takes to publish beside what an earlier demo has published."""
        session = self.session
        self.says(
            "What would that release spend and edit? (spends nothing)", "plan", _NAME, *options
        )
        planned = session.freqdp.plan(_NAME, **_parameters(options))
        with self.talk():
            session.print_all(planned.lines())
        if planned.refused is None or planned.request.method.kind != "unlinked":
            return options
        # of a made-up city: nobody is harmed by what true samples join
        return [*options, "--beside", f"{_NAME}_current"]

    def anonymizes(self, options: Sequence[str]) -> Anonymized:
        session = self.session
        self.says("Anonymize with that, and publish", "anonymize", _NAME, *options)
        made = session.freqdp.anonymize(_NAME, **_parameters(options))
        with self.talk():
            session.print_all(made.lines())
        return made

    def evaluates(self, name: str) -> Evaluated:
        session = self.session
        self.says("How private, how useful, how recoverable?", "evaluate", name, "--roads", _ROADS)
        found = session.freqdp.evaluate(name, roads=_ROADS)
        with self.talk():
            answers.show(session, "evaluate", found, {})
        return found


def _options(advice: Recommendation | None) -> list[str]:
    """What to ask `anonymize` for: the recommended command without `freqdp anonymize NAME`."""
    if advice is None or advice.command is None:
        return ["--method", "lg", "--epsilon", "1"]
    return shlex.split(advice.command)[3:]


def _parameters(options: Sequence[str]) -> dict[str, Any]:
    """Options of a command as parameters of a function."""
    found: dict[str, Any] = {}
    name = ""
    for word in options:
        if word.startswith("--"):
            name = word.removeprefix("--").replace("-", "_")
            found[name] = "true"
        else:
            found[name] = word
    return found


def _answer(name: str, schema: str, advice: Recommendation | None, measured: Evaluated) -> str:
    """May it be handed out? What an owner can act on."""
    learnt, limit = measured.verdicts[0].value or 0.0, _RISK if advice is None else advice.risk
    what = (
        f"the best of all attackers learns {learnt:.1%} of a person's samples, and {limit:.0%} were "
        "accepted"
    )
    if learnt <= limit:
        return (
            f"Answer: {name} may be handed out: {what}. As a file: freqdp release export {name} "
            f"--format csv; on a server that others can reach: GRANT {schema}_analyst TO their_login;"
        )
    more = next((risk for risk in _RISKS if risk >= learnt), _RISKS[-1])
    return (
        f"Answer: do not hand {name} out: {what}. Withdraw it (freqdp release withdraw {name}), or "
        f"accept more and ask again: freqdp recommend {_NAME} --risk {more:.0%} --force"
    )


def _folder() -> Path:
    """Where pages go: here, or where anybody may write."""
    here = Path.cwd()
    return here if os.access(here, os.W_OK) else Path(tempfile.gettempdir())


def _connection_options(session: Session) -> list[str]:
    settings = session.settings
    options = ["--schema", settings.schema, "--release-schema", settings.release_schema]
    return [*options, "--dsn", settings.dsn] if settings.dsn else options
