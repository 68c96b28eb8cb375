"""Waiting for the server in the middle of a COPY: with many open files, and when it goes away."""

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
from psycopg import sql

from freqdp_db.db.connection import driver
from freqdp_db.db.copy import Layout, read_arrays, write_records
from freqdp_db.errors import ConnectionFailed

LAYOUT = Layout([("n", "int4")])
TABLE = sql.Identifier("public", "filled")
CHUNK = 1 << 20


def chunks(count: int) -> Iterator[Any]:
    """Ten megabytes each: more than any socket takes at once."""
    for _ in range(count):
        yield LAYOUT.pack(n=np.arange(CHUNK, dtype=np.int32))


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
        raw = driver(connection)
        assert raw.pgconn.socket > 1023
        raw.execute(sql.SQL("CREATE TABLE {} (n int4)").format(TABLE))
        write_records(raw, TABLE, LAYOUT.names, chunks(2))
        slow = sql.SQL("SELECT n FROM {}, pg_sleep(0.1) LIMIT 1000").format(TABLE)
        assert len(read_arrays(raw, slow, LAYOUT)["n"]) == 1000


@pytest.mark.timeout(60)
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
            raw = driver(connection)
            raw.execute(sql.SQL("CREATE TABLE {} (n int4)").format(TABLE))
            write_records(raw, TABLE, LAYOUT.names, until_gone(raw.info.backend_pid))
    assert made < 10
