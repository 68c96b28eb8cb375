"""A connection that is cut while rows are read: an error, never fewer rows than there are."""

from __future__ import annotations

import pytest
from library import opened
from proxy import Proxy
from psycopg import sql

from freqdp_db.db.connection import driver
from freqdp_db.db.copy import Layout, read_arrays
from freqdp_db.errors import ConnectionFailed

ROWS = 40
QUERY = sql.SQL("SELECT n, n::float8 AS x FROM generate_series(1, {}) AS n").format(ROWS)
LAYOUT = Layout([("n", "int4"), ("x", "float8")])


def test_cut_at_every_length(database_url: str) -> None:
    proxy = Proxy(database_url)
    failed, whole = 0, 0
    try:
        for most in range(500, 2600, 23):
            proxy.most_bytes = most
            with opened(proxy.url) as database:
                try:
                    with database.begin() as connection:
                        read = len(read_arrays(driver(connection), QUERY, LAYOUT)["n"])
                except ConnectionFailed:
                    failed += 1
                    continue
            assert read == ROWS, f"cut after {most} bytes, {read} of {ROWS} rows passed for all"
            whole += 1
    finally:
        proxy.close()
    assert failed > 25 and whole > 5


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_are_whole(database_url: str, rows: int) -> None:
    query = sql.SQL("SELECT n, n::float8 AS x FROM generate_series(1, {}) AS n").format(rows)
    with opened(database_url) as database, database.begin() as connection:
        assert len(read_arrays(driver(connection), query, LAYOUT)["n"]) == rows
