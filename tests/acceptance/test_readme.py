"""The sessions of the README and of the pages, word for word, and the table of commands.

The SQL of the sessions is run too: the source's as its owner, everything about releases as an
analyst. Numbers are compared where no noise is in them. A line `...` stands for any output.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import typer
from world import as_role, freqdp, query, try_only

from freqdp_db.cli.main import app

ROOT = Path(__file__).parent.parent.parent
README, QUICKSTART, NIGHTLY, QUERY, PYTHON, OVERVIEW = (
    (ROOT / path).read_text("utf-8")
    for path in (
        "README.md",
        "docs/quickstart.md",
        "docs/howto/nightly.md",
        "docs/howto/query.md",
        "docs/howto/python.md",
        "docs/reference/overview.md",
    )
)
_BLOCK = re.compile(r"^```(console|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
(SOURCE,) = (body for kind, body in _BLOCK.findall(QUICKSTART) if "TABLE fleet.ping" in body)
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d UTC)?")
_NUMBER = re.compile(r"\d[\d,]*(\.\d+)?")
# What these say does not depend on the draw.
_EXACT = ("freqdp init", "freqdp dataset", "freqdp budget")
_LEFT_OUT = "..."


@dataclass(frozen=True)
class Step:
    """A command and what the page says it prints, or a piece of SQL."""

    command: str | None
    text: str


def _steps(text: str) -> Iterator[Step]:
    for kind, body in _BLOCK.findall(text):
        if kind == "sql":
            yield Step(None, body)
            continue
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield Step(command, output)


def _lines(command: str, output: str, user: str = "freqdp") -> list[str]:
    """What was said, without moments, the widths of columns and, after a draw, numbers.

    The pages' user is the embedded server's; roles belong to the whole server, where another
    test may have made them.
    """
    lines = []
    for line in output.splitlines():
        line = _TIME.sub("TIME", line)
        if not command.startswith(_EXACT):
            line = _NUMBER.sub("#", line)
        line = " ".join(line.split()).replace(f" {user} TIME", " USER TIME")
        if line and not line.startswith("Created roles:"):
            lines.append(line)
    return lines


def _agree(said: list[str], shown: list[str]) -> bool:
    """Whether the shown lines are what was said, but for what `...` leaves out."""
    if _LEFT_OUT not in shown:
        return said == shown
    cut = shown.index(_LEFT_OUT)
    rest = shown[cut + 1 :]
    return said[:cut] == shown[:cut] and any(
        _agree(said[begin:], rest) for begin in range(cut, len(said) + 1)
    )


def test_what_is_left_out() -> None:
    said = ["a", "b", "c"]
    for shown in (["a", "b", "c"], ["..."], ["a", "..."], ["...", "c"], ["a", "...", "c"]):
        assert _agree(said, shown)
    for shown in (["a", "b"], ["b", "..."], ["...", "b"], ["a", "...", "d"], []):
        assert not _agree(said, shown)


def _run(url: str, *pages: str) -> list[str]:
    """Type what the pages show, one after the other; gives back the commands."""
    commands: list[str] = []
    recommended = None
    analyst = as_role(url, "analyst")
    with psycopg.connect(url, autocommit=True) as owner:
        for step in (step for page in pages for step in _steps(page)):
            if step.command is not None:
                program, *arguments = shlex.split(step.command)
                assert program == "freqdp"
                done = freqdp(url, *arguments, in_words=True)
                assert done.code == 0, (step.command, done.out + done.err)
                said = _lines(step.command, done.out, owner.info.user)
                shown = _lines(step.command, step.text)
                assert _agree(said, shown), (step.command, said, shown)
                commands.append(step.command)
                if arguments[0] == "recommend":
                    recommended = done.out
                elif recommended and arguments[0] == "anonymize":
                    # the page goes on with a method that is within the risk
                    method = arguments[arguments.index("--method") + 1]
                    assert re.search(
                        rf"^[* ] {re.escape(method)}, .* yes$", recommended, re.MULTILINE
                    )
                    recommended = None
            elif "freqdp_release." in step.text:
                with psycopg.connect(analyst) as reader:
                    assert reader.execute(step.text.encode()).fetchall(), step.text
            else:
                owner.execute(step.text.encode())
    return commands


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    # the pages go on with this one, and leave out what is said of the others
    try_only(monkeypatch, "lg+swap+cut, short pieces")
    return tmp_path


def test_session_of_the_readme(empty_database_url: str, terminal: Path) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as owner:
        owner.execute(SOURCE.encode())
    assert len(_run(empty_database_url, README)) == 7
    ((held,),) = query(empty_database_url, "SELECT held FROM freqdp.release WHERE name = 'vans_1'")
    assert not held


def test_session_of_the_pages(empty_database_url: str, terminal: Path) -> None:
    assert len(_run(empty_database_url, QUICKSTART, QUERY, NIGHTLY)) >= 16
    assert (terminal / "vans_1.parquet").is_file()


def test_python_example(empty_database_url: str, tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PYTHON, re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "DATABASE_URL": empty_database_url},
    )
    assert done.returncode == 0, done.stderr
    made, left, refused = done.stdout.splitlines()
    assert made.startswith("freqdp_release.town_1 ")
    assert float(left) == 3
    assert refused.startswith("time_step; time_step 0s is not ")


def _commands(group: Any, *above: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, *above, name)
        else:
            yield " ".join((*above, name))


def _documented() -> Iterator[str]:
    for row in re.findall(r"^\| (`freqdp .*?) \|", OVERVIEW, re.MULTILINE):
        first, *others = re.findall(r"`([^`]+)`", row)
        words = first.split()[1:]
        yield " ".join(words)
        for other in others:
            yield " ".join((*words[:-1], other))


def test_every_command_is_documented() -> None:
    assert sorted(_documented()) == sorted(_commands(typer.main.get_command(app)))


def test_exit_codes_are_documented() -> None:
    for code in (0, 1, 2, 3, 4, 5, 6, 130):
        assert re.search(rf"^\| {code} \|", OVERVIEW, re.MULTILINE), code


def test_links_lead_somewhere() -> None:
    folders = (".", "docs", "docs/*", "docker", "recipes")
    pages = [page for folder in folders for page in ROOT.glob(f"{folder}/*.md")]
    assert len(pages) > 25
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
            assert "://" in target or (page.parent / target).is_file(), (page, target)


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150
    assert len(README.encode()) <= 8_000
    assert "\nmake demo " in README
    assert "\nmake test " in README
