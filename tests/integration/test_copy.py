"""The rows of a COPY, in blocks of any size; what ends it early leaves a usable connection."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import psycopg
import pytest
from library import opened
from proxy import Proxy
from psycopg import sql

from freqdp_db.db import copy as layout
from freqdp_db.db.copy import Layout, copy_bytes, read_arrays, write_records
from freqdp_db.errors import ConnectionFailed

LAYOUT = Layout("n int4, x float8, at timestamptz")
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


# --- A connection that is cut while rows are read: an error, never fewer rows than there are.


FEW_ROWS = 40
QUERY = sql.SQL("SELECT n, n::float8 AS x FROM generate_series(1, {}) AS n").format(FEW_ROWS)
NARROW = Layout("n int4, x float8")


def test_cut_at_every_length(database_url: str) -> None:
    proxy = Proxy(database_url)
    failed, whole = 0, 0
    try:
        for most in range(500, 2600, 23):
            proxy.most_bytes = most
            with opened(proxy.url) as database:
                try:
                    with database.begin() as connection:
                        read = len(read_arrays(connection.driver, QUERY, NARROW)["n"])
                except ConnectionFailed:
                    failed += 1
                    continue
            assert read == FEW_ROWS, (
                f"cut after {most} bytes, {read} of {FEW_ROWS} rows passed for all"
            )
            whole += 1
    finally:
        proxy.close()
    assert failed > 25 and whole > 5


# --- Waiting for the server in the middle of a COPY: with many open files, and when it goes away.


WAITING = Layout("n int4")
TABLE = sql.Identifier("public", "filled")
CHUNK = 1 << 20


def chunks(count: int) -> Iterator[Any]:
    """Ten megabytes each: more than any socket takes at once."""
    for _ in range(count):
        yield WAITING.pack(n=np.arange(CHUNK, dtype=np.int32))


@pytest.fixture
def many_files() -> Iterator[None]:
    """All numbers of files below 1024 are taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    with ExitStack() as stack:
        while stack.enter_context(socket.socket()).fileno() < 1100:
            pass
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_files_above_1023(database_url: str, many_files: None) -> None:
    with opened(database_url) as database, database.begin() as connection:
        raw = connection.driver
        assert raw.pgconn.socket > 1023
        raw.execute(sql.SQL("CREATE TABLE {} (n int4)").format(TABLE))
        write_records(raw, TABLE, WAITING.names, chunks(2))
        slow = sql.SQL("SELECT n FROM {}, pg_sleep(0.1) LIMIT 1000").format(TABLE)
        assert len(read_arrays(raw, slow, WAITING)["n"]) == 1000


def test_server_goes_while_rows_are_sent(database_url: str) -> None:
    """An error, and soon: what follows is not made in vain."""
    made = 0

    def until_gone(process: int) -> Iterator[Any]:
        nonlocal made
        for made, chunk in enumerate(chunks(100), 1):
            if made == 3:
                with psycopg.connect(database_url) as other:
                    other.execute("SELECT pg_terminate_backend(%s, 10000)", [process])
            yield chunk

    with opened(database_url) as database, pytest.raises(ConnectionFailed):  # noqa: SIM117
        with database.begin() as connection:
            raw = connection.driver
            raw.execute(sql.SQL("CREATE TABLE {} (n int4)").format(TABLE))
            write_records(raw, TABLE, WAITING.names, until_gone(raw.info.backend_pid))
    assert made < 10
