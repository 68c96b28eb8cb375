"""The rows of a COPY, in blocks of any size; what ends it early leaves a usable connection."""

from __future__ import annotations

from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from freqdp_db.db import copy as layout
from freqdp_db.db.copy import Layout, copy_bytes, read_arrays

LAYOUT = Layout([("n", "int4"), ("x", "float8"), ("at", "timestamptz")])
ROWS = (
    "SELECT n::int4, sqrt(n::float8) AS x, timestamptz '2024-01-01+00' + n * interval '1 s' AS at "
    "FROM generate_series(1, 5000) AS n"
)


@pytest.fixture
def connection(database_url: str) -> Any:
    with psycopg.connect(database_url) as found:
        yield found


@pytest.mark.parametrize("buffer", [1, 1000, 8 << 20])
def test_same_rows(connection: Any, buffer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fits a buffer, down to less than a row."""
    monkeypatch.setattr(layout, "BLOCK", buffer)
    found = read_arrays(connection, sql.SQL(ROWS), LAYOUT)
    n = np.arange(1, 5001)
    assert (found["n"] == n).all() and (found["x"] == np.sqrt(n)).all()
    assert (np.diff(found["at"]) == 1_000_000).all()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 40])
def test_buffers_that_end_anywhere(
    connection: Any, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also right before and right behind the trailer."""
    query = sql.SQL("SELECT n FROM generate_series(1, {}) AS n").format(count)
    for buffer in range(1, 60):
        monkeypatch.setattr(layout, "BLOCK", buffer)
        rows = b"".join(bytes(part) for part in copy_bytes(connection, query))
        wanted = (b"\0\1\0\0\0\4" + n.to_bytes(4, "big") for n in range(1, count + 1))
        assert rows == b"".join(wanted), buffer


def test_rows_of_any_width(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "BLOCK", 1 << 16)
    query = sql.SQL("SELECT repeat('x', n * n) FROM generate_series(0, 600, 7) AS n")
    rows = b"".join(bytes(part) for part in copy_bytes(connection, query))
    wanted = (n * n for n in range(0, 601, 7))
    assert rows == b"".join(b"\0\1" + w.to_bytes(4, "big") + b"x" * w for w in wanted)


def test_an_error_amid_the_rows(connection: Any) -> None:
    query = sql.SQL("SELECT 1 / (4000 - n) FROM generate_series(1, 5000) AS n")
    with pytest.raises(psycopg.errors.DivisionByZero):
        for _ in copy_bytes(connection, query):
            pass
    connection.rollback()
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_given_up_early(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "BLOCK", 1000)
    query = sql.SQL("SELECT n FROM generate_series(1, 500000) AS n")
    reading = copy_bytes(connection, query)
    next(reading)
    reading.close()
    connection.rollback()
    assert connection.execute("SELECT 1").fetchone() == (1,)
