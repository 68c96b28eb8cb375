"""Both ways to read the rows of a COPY give the same bytes; the fast one only where it can be had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql

from freqdp_db.storage.copy import libpq
from freqdp_db.storage.copy.layout import Layout, copy_bytes, read_arrays
from freqdp_db.storage.copy.rows import PlainRows, row_stream

LAYOUT = Layout([("n", "int4"), ("x", "float8"), ("at", "timestamptz")])
ROWS = (
    "SELECT n::int4, sqrt(n::float8) AS x, timestamptz '2024-01-01+00' + n * interval '1 s' AS at "
    "FROM generate_series(1, 5000) AS n"
)


@pytest.fixture(params=["fast", "plain"])
def connection(
    request: pytest.FixtureRequest, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Any:
    if request.param == "plain":
        monkeypatch.setattr(libpq, "can_read", lambda _: False)
    with psycopg.connect(database_url) as found:
        assert isinstance(row_stream(found), PlainRows) == (request.param == "plain")
        yield found


@pytest.mark.parametrize("buffer", [1, 1000, 8 << 20])
def test_same_rows(connection: Any, buffer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fits a buffer, down to less than a row."""
    monkeypatch.setattr(libpq, "BUFFER", buffer)
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
        monkeypatch.setattr(libpq, "BUFFER", buffer)
        rows = b"".join(bytes(part) for part in copy_bytes(connection, query))
        wanted = (b"\0\1\0\0\0\4" + n.to_bytes(4, "big") for n in range(1, count + 1))
        assert rows == b"".join(wanted), buffer


def test_rows_of_any_width(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libpq, "BUFFER", 1 << 16)
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
    monkeypatch.setattr(libpq, "BUFFER", 1000)
    query = sql.SQL("SELECT n FROM generate_series(1, 500000) AS n")
    reading = copy_bytes(connection, query)
    next(reading)
    reading.close()
    connection.rollback()
    assert connection.execute("SELECT 1").fetchone() == (1,)


# --- which one -----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def looked_for_anew() -> Iterator[None]:
    caches = (libpq._library, libpq._functions)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def _is_plain(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return isinstance(row_stream(connection), PlainRows)


class _Without:
    """A library that lacks a symbol, or one whose structures are others."""

    def __init__(self, library: Any, name: str, value: Any = None) -> None:
        self._library, self._name, self._value = library, name, value

    def __getattr__(self, name: str) -> Any:
        if name != self._name:
            return getattr(self._library, name)
        if self._value is None:
            raise AttributeError(name)
        return self._value


@pytest.mark.parametrize("name", ["PQgetCopyData", "PQfreemem", "PQbackendPID"])
def test_plain_without_a_symbol(
    database_url: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    library = _Without(libpq._library(), name)
    monkeypatch.setattr(libpq, "_library", lambda: library)
    assert _is_plain(database_url)


def test_plain_where_another_copy_answers(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy to which the connection looks different: its rows would be nonsense."""

    class Elsewhere:
        def __call__(self, _: int) -> int:
            return 7

    library = _Without(libpq._library(), "PQsocket", Elsewhere())
    monkeypatch.setattr(libpq, "_library", lambda: library)
    assert _is_plain(database_url)


@pytest.mark.parametrize("copies", [0, 2])
def test_plain_where_the_copy_is_in_doubt(
    database_url: str, monkeypatch: pytest.MonkeyPatch, copies: int
) -> None:
    """Another package's libpq in the same process, or none that can be found."""
    text = "".join(f"7f00-7f01 r-xp 0 00:00 {n}  /lib/{n}/libpq.so.5\n" for n in range(copies))
    whole = Path.read_text
    monkeypatch.setattr(libpq.pq, "__impl__", "c")
    monkeypatch.setattr(
        Path, "read_text", lambda self, *a: text if self.name == "maps" else whole(self, *a)
    )
    assert _is_plain(database_url)


def test_fast_is_the_rule(database_url: str) -> None:
    assert not _is_plain(database_url)
