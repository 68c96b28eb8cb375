"""A few of the trials of `chaos.strikes`; a thousand are run by hand."""

from __future__ import annotations

from chaos.strikes import strikes


def test_some_strikes() -> None:
    found = strikes(trials=12, seed=1)
    assert found["trials"] == 12
    assert found["struck while at work"] >= 4
    assert found["releases"] >= 8
