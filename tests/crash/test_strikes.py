"""A few of the trials of `strikes.py`; a thousand are run by hand."""

from __future__ import annotations

from strikes import strikes


def test_some_strikes() -> None:
    found = strikes(trials=3, seed=1)
    assert found["trials"] == 3
    assert found["struck while at work"] >= 1
    assert found["releases"] >= 2
