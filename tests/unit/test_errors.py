"""Errors in two spellings: options for the command line, keys for Python and SQL."""

from __future__ import annotations

import io
import json
import signal
import sys
import time

import pytest

from freqdp_db.cli import main
from freqdp_db.cli.console import Session
from freqdp_db.cli.main import interrupt, interrupt_again
from freqdp_db.cli.progress import PlainProgress
from freqdp_db.errors import BadInput, Interrupted, ServerRefused
from freqdp_db.jobs.log import LOG, json_lines
from freqdp_db.methods.parameters import RELEASE
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
    ("written", "keys", "parameter"),
    [
        ("--map is given without --roads", "map is given without roads", "map"),
        ("run `freqdp init --sql`", "run `freqdp init --sql`", None),
        ("--where 'a --b' is wrong", "where 'a --b' is wrong", "where"),
        ("the dataset's name: --as 'x'", "the dataset's name: name 'x'", "name"),
        ("--from and --into are the same", "source and into are the same", "source"),
        ("a -- b, and x--y", "a -- b, and x--y", None),
        ("--snap anchors: has none", "snap anchors: has none", "snap"),
    ],
)
def test_keys(written: str, keys: str, parameter: str | None) -> None:
    error = BadInput(written, remedy=written)
    assert (str(error), error.remedy, error.parameter) == (keys, keys, parameter)
    assert error.as_options() == {"error": "BadInput", "message": written, "remedy": written}


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
            time.sleep(10)
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
