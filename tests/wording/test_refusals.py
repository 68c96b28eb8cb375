"""What people get wrong, word for word: each refused with a way out, nothing written, no row shown.

Files of this folder are sessions. `+` must succeed and `$` must be refused: what is said is written
below it. `!` is SQL, `?` is SQL that must be refused. `=` is the name of a file in TMP, a folder of the
test's own, and `|` is a line of it.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import psycopg
import pytest
from servers import clone_of
from snapshots import require_same
from sources import SECRETS
from world import freqdp, query, written

HERE = Path(__file__).parent


sources = clone_of("sources_db")


def test_on_tables_of_any_kind(sources: str, tmp_path: Path) -> None:
    """In this order: what a file registers is there in the next ones."""
    for name in ("add", "build", "requests", "commands"):
        _require_refused(sources, f"refused_{name}.txt", tmp_path)


@pytest.mark.parametrize(
    "name",
    ["city", "beside", "windows", "zones", "public", "kept_columns", "files", "names", "in_sql"],
)
def test_on_a_city(city: str, name: str, tmp_path: Path) -> None:
    _require_refused(city, f"refused_{name}.txt", tmp_path)


def _require_refused(url: str, name: str, folder: Path) -> None:
    said, refused, files = [], [], {}
    look = _but_builds if "windows" in name else written
    before = look(url)

    def require_nothing_written() -> None:
        assert not refused or look(url) == before, f"one of {refused} has written something"
        refused.clear()

    for line in (HERE / name).read_text("utf-8").splitlines():
        mark, _, command = line.partition(" ")
        if mark in ("#", "+", "!", "=", "|"):
            said.append(line)
            require_nothing_written()
        if mark == "+":
            freqdp(url, *shlex.split(command)).succeeded()
        elif mark == "!":
            query(url, command)
        elif mark == "=":
            for old in files:
                (folder / old).unlink()
            files = {command: ""}
        elif mark == "|":
            (name_of_file,) = files
            files[name_of_file] += f"{command}\n"
            (folder / name_of_file).write_text(files[name_of_file], "utf-8")
        if mark in ("+", "!"):
            before = look(url)
        elif mark in ("$", "?"):
            answer = _answer(url, command, folder) if mark == "$" else _answer_in_sql(url, command)
            said += [line, *answer, ""]
            refused.append(command)
            there = {file.name: file.read_text("utf-8") for file in folder.iterdir()}
            assert there == files, f"{command} has made a file"
    require_nothing_written()
    require_same(name, "\n".join(said))


_OF_BUILDS = re.compile(
    r"freqdp\.(build|build_source|population_source|sample|trajectory|location|segment|grid_cell)(_\d+)?"
)


def _but_builds(url: str) -> dict[str, object]:
    """A window is read before it is known what is refused, and stays for whoever asks next."""
    found = written(url)
    del found["relations"]
    return {what: rows for what, rows in found.items() if not _OF_BUILDS.fullmatch(what)}


def _answer(url: str, command: str, folder: Path) -> list[str]:
    answer = freqdp(url, *shlex.split(command.replace("TMP", str(folder))))
    if answer.code == 1:
        answer.refused()
    assert answer.code in (1, 2) and "Traceback" not in answer.err, (command, answer)
    for secret in SECRETS:
        assert secret in command or secret not in answer.out + answer.err, (command, answer)
    document = answer.document
    assert set(document) == {"error", "message", "remedy"}, (command, document)
    said = f"{document['error']}: {document['message']}\n  -> {document['remedy']}"
    return said.replace(str(folder), "TMP").splitlines()


def _answer_in_sql(url: str, statement: str) -> list[str]:
    with pytest.raises(psycopg.Error) as refused:
        query(url, statement)
        pytest.fail(f"accepted: {statement}")
    said = refused.value.diag
    return f"{said.sqlstate}: {said.message_primary}\n  -> {said.message_hint}".splitlines()
