"""Errors in two spellings: options for the command line, keys for Python and SQL."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from freqdp_db.cli import main
from freqdp_db.cli.main import interrupt, interrupt_again
from freqdp_db.errors import BadInput, Interrupted, ServerRefused
from freqdp_db.methods.parameters import RELEASE

(STEP,) = (p for p in RELEASE if p.name == "time_step")


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
