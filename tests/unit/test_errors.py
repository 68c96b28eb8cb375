"""Errors in two spellings: options for the command line, keys for Python and SQL."""

from __future__ import annotations

import ast
import io
import json
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from freqdp_db import errors
from freqdp_db.api import Freqdp
from freqdp_db.cli import main
from freqdp_db.cli.console import PlainProgress, Session
from freqdp_db.cli.main import interrupt, interrupt_again
from freqdp_db.commands import commands_of, parameters_of
from freqdp_db.errors import BadInput, Interrupted, ServerRefused
from freqdp_db.jobs.log import LOG, json_lines
from freqdp_db.methods.parameters import RELEASE, TOTALS
from freqdp_db.methods.registry import METHODS
from freqdp_db.model.documents import plain
from freqdp_db.settings import Settings

(STEP,) = (p for p in RELEASE if p.name == "time_step")


HOSTILE = "a\x1b]0;owned\x07\x1b[2Jb\x9b31mc\u202ed\re"


def test_a_terminal_obeys_nothing_that_is_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(settings=Settings(), json=False, command="tests")
    session.print(HOSTILE)
    session.say(HOSTILE)
    session.pairs([("name", HOSTILE)])
    session.table(["a"], [[HOSTILE + "\nnext"]])
    PlainProgress(session.talk).note(HOSTILE)
    main._show_error({"error": "BadInput", "message": HOSTILE, "remedy": HOSTILE}, as_json=True)
    Session(settings=Settings(), json=True, command="tests").answer(
        {"reason": HOSTILE}, lambda: None
    )
    shown = "".join(capsys.readouterr())
    assert set(shown) & set("\x1b\x07\x9b\u202e\r") == set()
    assert shown.count("\\x1b]0;owned\\x07") >= 6 and "\\nnext" in shown
    lines = io.StringIO()
    with json_lines(lines):
        LOG.warning("failed", error=HOSTILE)
    assert set(lines.getvalue()) & set("\x1b\x07\x9b\u202e\r") == set()
    assert json.loads(lines.getvalue())["error"] == HOSTILE


def test_both_spellings() -> None:
    with pytest.raises(BadInput) as caught:
        STEP.parse("0s", text=True)
    told = caught.value.as_options()
    assert str(told["message"]).startswith("--time-step 0s is not ")
    assert str(told["remedy"]).startswith("for example --time-step ")
    assert str(caught.value) == caught.value.message
    assert caught.value.message.startswith("time_step 0s is not ")
    assert str(caught.value.remedy).startswith("for example time_step ")
    assert caught.value.parameter == "time_step"


@pytest.mark.parametrize(
    ("written", "options", "parameter"),
    [
        ("[[map]] is given without [[roads]]", "--map is given without --roads", "map"),
        ("say it: freqdp init --sql", "say it: freqdp init --sql", None),
        ("[[where]] 'a --b' is wrong", "--where 'a --b' is wrong", "where"),
        ("the dataset's name: [[name]] 'x'", "the dataset's name: --as 'x'", "name"),
        ("[[source]] and [[into]] are the same", "--from and --into are the same", "source"),
        ("[[1, 2], [3, 4]] and [a[[b c]]]", "[[1, 2], [3, 4]] and [a[[b c]]]", None),
        ("[[time_step]] 0s is too short", "--time-step 0s is too short", "time_step"),
    ],
)
def test_each_face_spells_parameters_in_its_way(
    written: str, options: str, parameter: str | None
) -> None:
    error = BadInput(written, remedy=written)
    keys = written if parameter is None else written.replace("[[", "").replace("]]", "")
    assert (str(error), error.remedy, error.parameter) == (keys, keys, parameter)
    assert error.as_options() == {"error": "BadInput", "message": options, "remedy": options}


def test_messages_name_parameters_that_there_are() -> None:
    known = {"dsn", "schema", "release_schema", "no_header"}
    known |= {p.name for method in METHODS.values() for p in method.parameters} | set(TOTALS)
    for name, _ in commands_of(Freqdp):
        known |= {p.name for p in parameters_of(getattr(Freqdp, name))[0]}
    package = Path(main.__file__).parent.parent
    found = {
        (path.name, key)
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for key in re.findall(r"\[\[(\w+)\]\]", node.value)
    }
    assert {(file, key) for file, key in found if key not in known} == set()


def test_no_message_spells_an_option() -> None:
    """Which is the command line's alone: only commands to type are written so."""
    classes = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    package = Path(main.__file__).parent.parent
    wrong = []
    for path in sorted(package.rglob("*.py")):
        if path.is_relative_to(package / "cli"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in classes:
                continue
            for text in (*node.args, *(keyword.value for keyword in node.keywords)):
                said = ast.unparse(text)
                if re.search(r"(?<![\w-])--[a-z]", said) and not re.search(
                    "freqdp [a-z]|dask ", said
                ):
                    wrong.append(f"{path.name}:{node.lineno}: {said}")
    assert wrong == []


def test_findings_and_warnings_spell_no_option() -> None:
    package = Path(main.__file__).parent.parent
    wrong = []
    for path in (*package.glob("dataset/*.py"), *package.glob("methods/synthesis/*.py")):
        tree = ast.parse(path.read_text())
        docstrings = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        wrong += [
            f"{path.name}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
            and re.search(r"(?<![\w-])--[a-z]", node.value)
            and not re.search("freqdp |^ --", node.value)  # a command to type, and what follows one
        ]
    assert wrong == []


def test_a_remark_is_spelled_for_each_face() -> None:
    remark = errors.Remark("check [[time_step]]")
    assert str(remark) == plain([remark])[0] == "check time_step"
    assert errors.in_options(f"Warning: {remark.text}") == "Warning: check --time-step"


def test_a_parameter_may_be_given() -> None:
    assert ServerRefused("no", parameter="memory").parameter == "memory"
    assert ServerRefused().message == "The database server refused the statement."


def test_an_interrupt_inside_of_a_finaliser_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python ignores every exception there, the one of Ctrl-C too."""

    class Finalised:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "unraisablehook", interrupt_again)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            Finalised()
            time.sleep(600)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), ValueError("another reason")])
def test_an_interrupt_inside_of_an_import_is_one(
    monkeypatch: pytest.MonkeyPatch, cause: BaseException
) -> None:
    """A module that is written in C makes an ImportError of it."""

    def imports(**arguments: object) -> None:
        raise ImportError("initialization failed") from cause

    monkeypatch.setattr(main, "_tree", lambda: imports)
    if isinstance(cause, KeyboardInterrupt):
        assert main.run(["doctor"]) == Interrupted.exit_code
    else:
        with pytest.raises(ImportError):
            main.run(["doctor"])
