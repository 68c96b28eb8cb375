"""What is said of a run, at debug level and when it fails, repeats no coordinate and no object key.

And values that look like SQL, or like anything else, are values.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import psycopg
import pytest
from servers import SharedServer
from world import anonymize, freqdp, query, value

from freqdp_db.cli import main

KEYS = [
    "o'; DROP SCHEMA freqdp CASCADE; --",
    'He said "secret-1"',
    "%s %(key)s {0} :bound $1 \\N \\.",
    "北京🚕-secret-2",
    "x" * 3000 + "-secret-3",
    "NULL",
    "tab\there-secret-4\nand a line",
    "'' OR 1=1 -- secret-5",
]
# steps of 0.0013 and 0.0011 leave the last digits as they are, up to the rounding of floats
LON, LAT = 4.3170931, 50.8460273
RAW = re.compile(
    r"secret-\d|DROP SCHEMA freqdp|%\(key\)s|北京|OR 1=1|4\.3\d{3}93[01]|50\.8\d{3}27[23]"
)


@pytest.fixture
def source(database_url: str) -> str:
    with psycopg.connect(database_url, options="-c search_path=public") as connection:
        connection.execute(
            "CREATE SCHEMA s; CREATE TABLE s.t (k text, at timestamptz, lon float8, lat float8, "
            "label text)"
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO s.t SELECT %s, timestamptz '2024-05-01' + make_interval(secs => "
                "60 * i + %s), %s + 0.0013 * (i * %s %% 17), %s + 0.0011 * (i %% 13), %s "
                "FROM generate_series(1, 60) i",
                [(key, n, LON, n + 1, LAT, f"{LON} {key}") for n, key in enumerate(KEYS)],
            )
    return database_url


@contextmanager
def everything_logged() -> Iterator[io.StringIO]:
    """All loggers at debug level, in one text."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    root = logging.getLogger()
    loggers = [root, *(logging.getLogger(n) for n in ("sqlalchemy", "sqlalchemy.engine", "psycopg",
                                                      "alembic", "numba"))]  # fmt: skip
    before = [logger.level for logger in loggers]
    root.addHandler(handler)
    for logger in loggers:
        logger.setLevel(logging.INFO if logger.name == "numba" else logging.DEBUG)
    try:
        yield text
    finally:
        root.removeHandler(handler)
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


ADD = ("dataset", "add", "d", "--from", "s.t", "--object", "k", "--time", "at", "--lon", "lon",
       "--lat", "lat")  # fmt: skip
RUN = [
    ("init",),
    ADD,
    ("dataset", "build", "d"),
    ("dataset", "show", "d"),
    ("plan", "d", "--method", "lg", "--signature", "3"),
    ("anonymize", "d", "--method", "lg", "--signature", "3"),
    ("anonymize", "d", "--method", "lg", "--signature", "3"),
    ("release", "verify", "d_1"),
    ("release", "show", "d_1"),
    ("budget", "d"),
    ("ledger", "verify"),
]
# datasets whose rows cannot be computed, each for another reason: name, view, filter
BROKEN = [
    ("e", "t", "label::float8 > 0"),
    ("f", "t", "1 / (lon - lon) > 0"),
    ("v", "v", "true"),
    ("w", "w", "true"),
]


class ServerLog:
    """What the embedded server writes to its log from now on; nothing of other servers is known."""

    def __init__(self, data_dir: str | None) -> None:
        self._path = None if data_dir is None else Path(data_dir) / "server.log"
        self._begin = 0 if self._path is None else self._path.stat().st_size

    def text(self) -> str:
        if self._path is None:
            return ""
        return self._path.read_bytes()[self._begin :].decode(errors="replace")


def require_none(pattern: re.Pattern[str], text: str) -> None:
    leak = pattern.search(text)
    assert leak is None, text[max(0, leak.start() - 300) : leak.end() + 100]


def test_a_whole_run_at_debug_level(source: str, shared_server: SharedServer) -> None:
    server_log = ServerLog(shared_server.get().data_dir)
    said = io.StringIO()
    with everything_logged() as logged, redirect_stdout(said), redirect_stderr(said):
        for command in RUN:
            assert main.run([*command, "--dsn", source]) == 0, said.getvalue()
    assert "BEGIN" in logged.getvalue(), "the loggers are not what they were"
    for text in (said.getvalue(), logged.getvalue(), server_log.text()):
        require_none(RAW, text)


def test_errors_at_debug_level(source: str, shared_server: SharedServer) -> None:
    server_log = ServerLog(shared_server.get().data_dir)
    query(source, "CREATE VIEW s.v AS SELECT k, at, lon, lat FROM s.t")
    query(source, "CREATE VIEW s.w AS SELECT k, at, lon, lat FROM s.t")
    for name, view, where in BROKEN:
        add = (*ADD[:2], name, "--from", f"s.{view}", *ADD[5:], "--where", where)
        freqdp(source, *add).succeeded()
    query(
        source, "CREATE OR REPLACE VIEW s.v AS SELECT k, at, (label::float8) AS lon, lat FROM s.t"
    )
    query(
        source,
        "CREATE FUNCTION s.fail(x text) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'no number in %', x USING DETAIL = x, HINT = x; END $$; "
        "CREATE OR REPLACE VIEW s.w AS SELECT k, at, s.fail(label) AS lon, lat FROM s.t",
    )
    said = io.StringIO()
    with everything_logged() as logged, redirect_stdout(said), redirect_stderr(said):
        for name, *_ in BROKEN:
            assert main.run(["dataset", "build", name, "--dsn", source]) == 1, name
    assert said.getvalue().count("freqdp: ") == len(BROKEN)
    for text in (said.getvalue(), logged.getvalue()):
        require_none(RAW, text)
    # The server repeats what the user's own view or filter raised, as it must; but no row beside it.
    require_none(re.compile(r"DETAIL|CONTEXT|STATEMENT"), server_log.text())


def test_hostile_values_are_values(source: str) -> None:
    freqdp(source, *ADD).succeeded()
    built = freqdp(source, "dataset", "build", "d").succeeded()
    assert built["trajectories"] == len(KEYS)
    anonymize(source, "d", "lg", "--signature", "3")
    stored = {k for (k,) in query(source, "SELECT object_key FROM freqdp.trajectory")}
    assert stored == set(KEYS)
    for key in KEYS:
        found = freqdp(source, "release", "find", f"--object={key}").succeeded()
        assert [row["release"] for row in found] == ["d_1"], key
    reason = "because; DROP TABLE freqdp.spend; -- '%s' {} \\ 北京"
    budget = freqdp(source, "budget", "d", "--raise", "1", "--reason", reason).succeeded()
    assert budget["ledger"][-1]["reason"] == reason
    assert freqdp(source, "ledger", "verify").succeeded()["valid"] is True
    # the released table has no column that a key could be in
    columns = value(
        source,
        "SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute "
        "WHERE attrelid = 'freqdp_release.d_1'::regclass AND attnum > 0",
    )
    assert columns == ["trajectory_id", "seq", "sampled_at", "geom"]
