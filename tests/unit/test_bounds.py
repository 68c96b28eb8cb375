"""How long a connection waits, where nobody says so."""

from __future__ import annotations

import pytest

from freqdp_db.db.connection import _BOUNDS, _bounds


@pytest.mark.parametrize(
    ("conninfo", "environ", "left_alone"),
    [
        ("", {}, set()),
        ("postgresql://u@h/d", {}, set()),
        ("host=h connect_timeout=3", {}, {"connect_timeout"}),
        ("postgresql://u@h/d?keepalives_idle=5", {}, {"keepalives_idle"}),
        ("", {"PGCONNECT_TIMEOUT": "9"}, {"connect_timeout"}),
        ("service=here", {}, set(_BOUNDS)),
        ("", {"PGSERVICE": "here"}, set(_BOUNDS)),
    ],
)
def test_what_is_given_stays(conninfo: str, environ: dict[str, str], left_alone: set[str]) -> None:
    assert set(_BOUNDS) - set(_bounds(conninfo, environ)) == left_alone
