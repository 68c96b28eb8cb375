"""A few of the nights of `series.py`; a year is run by hand."""

from __future__ import annotations

from series import nights


def test_some_nights() -> None:
    found = nights(5, kills=1, method="lg+cut", seed=1, objects=20)
    assert (found["releases"], found["verified"]) == (5, 5)
    assert found["missed and caught up"] == 2
