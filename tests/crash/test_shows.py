"""A few of the trials of `strikes.py` and of the nights of `series.py`; many are run by hand."""

from __future__ import annotations

from series import nights
from strikes import strikes


def test_some_strikes() -> None:
    found = strikes(trials=3, seed=1)
    assert found["trials"] == 3
    assert found["releases"] >= 2


def test_some_nights() -> None:
    found = nights(5, kills=1, method="lg+cut", seed=1, objects=20)
    assert (found["releases"], found["verified"]) == (5, 5)
    assert found["missed and caught up"] == 2
