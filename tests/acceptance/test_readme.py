"""The README's session, word for word, and its table of commands.

The SQL of the session is run too: the source's as its owner, everything about releases as an
analyst. Numbers are compared where no noise is in them.
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
from psycopg.conninfo import make_conninfo
from world import freqdp

from freqdp_db.cli.main import app

README = Path(__file__).parent.parent.parent / "README.md"
TEXT = README.read_text("utf-8")
_BLOCK = re.compile(r"^```(console|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d UTC)?")
_NUMBER = re.compile(r"\d[\d,]*(\.\d+)?")
# What these say does not depend on the draw.
_EXACT = ("freqdp init", "freqdp dataset", "freqdp budget")


@dataclass(frozen=True)
class Step:
    """A command and what the README says it says, or a piece of SQL."""

    command: str | None
    text: str


def _steps() -> Iterator[Step]:
    for kind, body in _BLOCK.findall(TEXT):
        if kind == "sql":
            yield Step(None, body)
            continue
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield Step(command, output)


def _lines(command: str, output: str, user: str = "freqdp") -> list[str]:
    """What was said, without moments, the widths of columns and, after a draw, numbers.

    The README's user is the embedded server's; roles belong to the whole server, where another
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


def test_session(empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    url, commands = empty_database_url, 0
    analyst = make_conninfo(url, options="-c role=freqdp_analyst")
    with psycopg.connect(url, autocommit=True) as owner:
        for step in _steps():
            if step.command is not None:
                program, *arguments = shlex.split(step.command)
                assert program == "freqdp"
                done = freqdp(url, *arguments, in_words=True)
                assert done.code == 0, (step.command, done.out + done.err)
                said = _lines(step.command, done.out, owner.info.user)
                assert said == _lines(step.command, step.text), step.command
                commands += 1
            elif "freqdp_release." in step.text:
                with psycopg.connect(analyst) as reader:
                    assert reader.execute(step.text.encode()).fetchall(), step.text
            else:
                owner.execute(step.text.encode())
    assert commands >= 8
    assert (tmp_path / "vans_1.parquet").is_file()


def test_python_example(empty_database_url: str, tmp_path: Path) -> None:
    section = TEXT.split("\n## From Python\n")[1].split("\n## ")[0]
    ((example,),) = [re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)]
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
    for row in re.findall(r"^\| (`freqdp .*?) \|", TEXT, re.MULTILINE):
        first, *others = re.findall(r"`([^`]+)`", row)
        words = first.split()[1:]
        yield " ".join(words)
        for other in others:
            yield " ".join((*words[:-1], other))


def test_every_command_is_documented() -> None:
    assert sorted(_documented()) == sorted(_commands(typer.main.get_command(app)))


@pytest.mark.parametrize("code", [0, 1, 2, 3, 130])
def test_exit_codes_are_documented(code: int) -> None:
    assert re.search(rf"^\| {code} \|", TEXT, re.MULTILINE)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (README.parent / target).is_file(), target
