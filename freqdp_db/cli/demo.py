"""`freqdp demo`: the commands of a first session, one after the other, on a generated city."""

import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from freqdp_db.api import Freqdp
from freqdp_db.cli import answers
from freqdp_db.cli.console import Session
from freqdp_db.commands import Argument, Option, command, declaration_of, parameters_of
from freqdp_db.errors import option_of

if TYPE_CHECKING:
    from freqdp_db.evaluation.recommendation.choosing import Recommendation
    from freqdp_db.release.catalogue import Release
    from freqdp_db.results import Evaluated

_NAME = "city"
_ROADS = "demo.roads"
# The generated city lies here, and its record begins on this day: public, as nobody lives there.
_REGION = "4.26,50.79,4.44,50.91"
_BEGINS = date(2024, 3, 3)
_TRIED = 120
_FEWEST = 4
_RISK = 0.05
_RISKS = (0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class DemoResult:
    """The release that the demo made, and its pages."""

    release: "Release"
    report: Path
    recommendation: Path | None
    answer: str
    schema: str
    """Of releases."""

    def document(self) -> dict[str, Any]:
        page = None if self.recommendation is None else str(self.recommendation)
        more = {"report": str(self.report), "recommendation": page, "answer": self.answer}
        return {**self.release.document(), **more}

    def lines(self) -> list[str]:
        table = f"{self.schema}.{self.release.name}"
        lines = [
            "\n" + "=" * 78,
            *self.release.lines(),
            "",
            "Query it with SQL:               freqdp db psql",
            f"  SELECT * FROM {table} LIMIT 5;",
            f"  SELECT * FROM {self.schema}.catalog;",
            "Stop the embedded server:        freqdp db stop",
        ]
        if self.recommendation is not None:
            lines.append(f"Why this method:                 {self.recommendation}")
        return [*lines, f"Open the report in a browser:    {self.report}", f"\n{self.answer}"]


class Demo:
    """The command `demo`."""

    def __init__(self, session: Session) -> None:
        self._session, self._freqdp = session, session.freqdp

    @command("demo")
    def demo(
        self,
        objects: Annotated[int, Option("How many people and taxis.")] = 200,
        days: Annotated[int, Option("Days to record.")] = 7,
        seed: Annotated[int, Option("Which city; the noise has none.")] = 1,
        report: Annotated[
            Path | None, Option("Its report. Default: NAME.report.html", show_default=False)
        ] = None,
    ) -> DemoResult:
        """Generate a city, choose a method for it, anonymize, verify, evaluate and report."""
        self._do("Create freqdp's schemas", "init")
        self._do(
            "Generate a city, for want of a table of your own",
            "load_city",
            objects=objects,
            days=days,
            seed=seed,
            replace=True,
        )
        if _NAME not in self._freqdp.dataset_names():
            self._do(
                "Register the table: which column is what, and what everybody may know",
                "add_dataset",
                _NAME,
                "demo.city",
                object="object_id",
                time="at",
                geom="geom",
                region=_REGION,
                period=f"{_BEGINS}/{_BEGINS + timedelta(days=days + 2)}",
            )
        self._do("Clean it, snap it to places, index its segments", "build_dataset", _NAME)
        advice = self._recommend()
        options = _options(advice)
        plan = self._do(
            "What would that release spend and edit? (spends nothing)", "plan", _NAME, **options
        )
        if plan.refused is not None and plan.request.method.kind == "unlinked":
            # beside an earlier demo's release; of a generated city, so nobody is harmed by the join
            options["beside"] = f"{_NAME}_current"
        made = self._do("Anonymize with that, and publish", "anonymize", _NAME, **options)
        self._do("Prove that the table is what the log says", "verify", made.name)
        self._do("What has been spent", "budget", _NAME)
        measured = self._do(
            "How private, how useful, how recoverable?", "evaluate", made.name, roads=_ROADS
        )
        page = (report or _folder() / f"{made.name}.report.html").resolve()
        self._do(
            "All of it on one page", "report", made.name, roads=_ROADS, out=str(page), force=True
        )
        settings = self._session.settings
        return DemoResult(
            self._freqdp.release(made.name),  # type: ignore[arg-type]
            page,
            None if advice is None else advice.file,
            answer_of(made.name, settings.schema, advice, measured),
            settings.release_schema,
        )

    def _do(self, why: str, verb: str, *arguments: str, **options: Any) -> Any:
        """Print the command of a verb, run it and show its answer.

        With --json that is talk: the document is the release's.
        """
        session = self._session
        session.say(f"\n# {why}\n$ freqdp {shlex.join(_words(verb, arguments, options))}")
        found = getattr(self._freqdp, verb)(*arguments, **options)
        parameters, _ = parameters_of(getattr(Freqdp, verb))
        given = {p.name: None for p in parameters} | options
        with redirect_stdout(sys.stderr) if session.json else nullcontext():
            answers.show(session, verb, found, given)
        return found

    def _recommend(self) -> "Recommendation | None":
        """What to use; None: there are too few to find out."""
        build = self._freqdp.dataset(_NAME).build
        if build is None or build.trajectories < _FEWEST:
            return None
        found: Recommendation = self._do(
            "Which method protects these people, and still shows where and when there are many?",
            "recommend",
            _NAME,
            objects=min(_TRIED, build.trajectories),
            minutes=2,
            out=str(_folder() / f"recommend_{_NAME}"),
            force=True,
        )
        return found


def _words(verb: str, arguments: Sequence[str], options: dict[str, Any]) -> list[str]:
    """What a person types for a call of a verb."""
    declared, _ = parameters_of(getattr(Freqdp, verb))
    words = list(declaration_of(Freqdp, verb).path)
    for parameter, value in zip(declared, arguments, strict=False):
        words += [value] if isinstance(parameter.says, Argument) else [parameter.option, value]
    names = {parameter.name: parameter.option for parameter in declared}
    for name, value in options.items():
        flag = value in (True, "true")
        words += [names.get(name, option_of(name)), *([] if flag else [str(value)])]
    return words


def _options(advice: "Recommendation | None") -> dict[str, Any]:
    """What to ask `anonymize` for: the options of the recommended command, as parameters."""
    if advice is None or advice.command is None:
        return {"method": "lg", "epsilon": "1"}
    found: dict[str, Any] = {}
    name = ""
    for word in shlex.split(advice.command)[3:]:  # after `freqdp anonymize NAME`
        if word.startswith("--"):
            name = word.removeprefix("--").replace("-", "_")
            found[name] = "true"
        else:
            found[name] = word
    return found


def answer_of(
    name: str, schema: str, advice: "Recommendation | None", measured: "Evaluated"
) -> str:
    """May it be handed out? What an owner can act on."""
    learnt, limit = measured.verdicts[0].value or 0.0, _RISK if advice is None else advice.risk
    what = (
        f"the best attacker learns {learnt:.1%} of a person's samples, and {limit:.0%} was accepted"
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
