"""Databases that let nobody in, missing rights, odd names and full disks. Words: tests/wording."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from servers import clone_of
from sources import BUILT, GOOD
from world import anonymize, freqdp, login, query, verify, withdraw, written

from freqdp_db.db.connection import translate, unreachable
from freqdp_db.errors import ServerRefused

ROOT = Path(__file__).parents[2]


sources = clone_of("sources_db", scope="module")
"""Tables and datasets that nothing in this module changes."""


ADD = ("dataset", "add", *BUILT)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m"])
def test_names_that_a_terminal_would_obey(sources: str, name: str) -> None:
    asked = ("anonymize", "built", "--method", "lg", "--as", name)
    freqdp(sources, *asked).refused("--as", repr(name), "no file")


def test_bytes_that_are_no_text(sources: str) -> None:
    arguments = [a.encode() for a in (*ADD, "CAF-")]
    done = subprocess.run(
        [sys.executable, "-m", "freqdp_db", *(a.replace(b"CAF-", b"caf\xe9") for a in arguments)],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": sources},
        check=False,
    )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"UTF-8" in done.stderr


PASSWORD = "Secr3t-pw"


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/db",
        f"postgresql+psycopg://u:{PASSWORD}@127.0.0.1:1/db",
        f"postgresql://u:{PASSWORD}@no-such-host.invalid/db",
        f"host=/no/such/place password={PASSWORD}",
        f"host=127.0.0.1 port=1 password='{PASSWORD}'",
        f"host=127.0.0.1 port=70000 password={PASSWORD}",
        f"host=127.0.0.1 frobnicate=yes password={PASSWORD}",
        f"password={PASSWORD} and more",
        f"{PASSWORD}",
        f"mysql://u:{PASSWORD}@127.0.0.1/db",
        f"postgresql://u:{PASSWORD}@127.0.0.1:port/db",
        f"postgresql://u:x@{PASSWORD}@127.0.0.1:1/db",
        f"postgresql://u:x/{PASSWORD}@127.0.0.1:1/db",
        f"postgresql://u:{PASSWORD}/x@127.0.0.1:1/db",
        f"postgresql://u:{PASSWORD}?x@127.0.0.1:1/db",
        f"postgresql://u:x:{PASSWORD}@127.0.0.1:1/db",
        f"postgresql://u:{PASSWORD}#x@127.0.0.1:1/db",
        f"postgresql://u:{PASSWORD}%zz@127.0.0.1:1/db",
        f"postgresql://u:{PASSWORD}@[::1/db",
        f"postgresql://u:{PASSWORD}@127.0.0.1:1/db?frobnicate=1",
    ],
)
def test_connections_that_cannot_be(dsn: str) -> None:
    answer = freqdp(dsn, "dataset", "list")
    answer.refused()
    assert "cr3t" not in answer.out + answer.err


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ('password authentication failed for user "ann"', "user and password"),
        ('Peer authentication failed for user "ann"', "run the command as ann"),
        ('role "ann" does not exist', "CREATE ROLE ann"),
        ('no pg_hba.conf entry for host "1.2.3.4", user "ann"', "pg_hba.conf"),
        ("sorry, too many clients already", "max_connections"),
        ("the database system is starting up", "try again"),
        ("etwas anderes", "check --dsn"),
    ],
)
def test_remedies_for_who_is_not_let_in(said: str, remedy: str) -> None:
    for text in (
        f'connection failed: connection to server at "::1", port 5432 failed: FATAL:  {said}',
        'connection failed: connection to server at "::1", port 5432 failed: Connection refused\n'
        "\tIs the server running on that host and accepting TCP/IP connections?\n"
        f'connection to server at "127.0.0.1", port 5432 failed: FATAL:  {said}\n',
    ):
        told = unreachable(text).as_options()
        assert told["message"] == f"the server refused the connection: {said}"
        assert remedy in str(told["remedy"])
    told = unreachable(
        'connection to server at "::1", port 5432 failed: fe_sendauth: no password supplied'
    ).as_options()
    assert told["message"] == "the server refused the connection: fe_sendauth: no password supplied"


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql:///db?host=/no/such/place&user=a@b",
        "postgresql://one.invalid:5432,two.invalid:5433/db",
        "postgresql://user@[::1]:1/db",
        "postgresql://user:p%40ss@127.0.0.1:1/db?connect_timeout=1",
        "postgresql://127.0.0.1:1",
        "host=/no/such/place dbname='a b'",
    ],
)
def test_connection_strings_that_are_right(dsn: str) -> None:
    """They reach libpq, which does not reach a server."""
    assert (
        freqdp(dsn, "dataset", "list").refused("cannot be reached")["error"] == "ConnectionFailed"
    )


def test_wrong_database_and_wrong_user(sources: str) -> None:
    absent = freqdp(make_conninfo(sources, dbname="absent"), "dataset", "list").refused(
        "the server refused the connection", 'database "absent" does not exist'
    )
    assert "createdb absent" in absent["remedy"] and "server runs" not in absent["remedy"]
    changed = make_conninfo(sources, user="nobody_here", password=PASSWORD)
    answer = freqdp(changed, "dataset", "list")
    answer.refused("nobody_here")
    assert PASSWORD not in answer.out + answer.err


@contextmanager
def _somebody(url: str, *groups: str) -> Iterator[str]:
    """The URL of the same database for a login of its own, a member of these roles."""
    with login(url, *groups) as name:
        yield make_conninfo(url, options=f"-c role={name}")


def test_no_permission_on_the_source(sources: str) -> None:
    before = written(sources)
    with _somebody(sources, "freqdp_admin") as url:
        answer = freqdp(url, *ADD, "new")
        refusal = answer.refused("src.good")
        assert refusal["error"] == "PermissionMissing"
        assert 'GRANT USAGE ON SCHEMA "src"' in refusal["remedy"]
        assert 'GRANT SELECT ON "src"."good"' in refusal["remedy"]
        refusal = freqdp(url, "dataset", "build", "unbuilt").refused("src.good")
        assert refusal["error"] == "PermissionMissing"
    assert written(sources) == before


def test_no_permission_on_our_schema(sources: str) -> None:
    before = written(sources)
    with _somebody(sources) as url:
        for command in (
            ("dataset", "list"),
            ("anonymize", "built", "--method", "lg"),
            (*ADD, "new"),
        ):
            assert freqdp(url, *command).refused("freqdp")["remedy"]
    with _somebody(sources, "freqdp_analyst") as url:
        for command in (("dataset", "list"), ("anonymize", "built", "--method", "lg")):
            assert freqdp(url, *command).refused("freqdp")["remedy"]
        # an analyst sees what is published, and nothing else
        assert [r["name"] for r in freqdp(url, "release", "list").succeeded()] == ["taken"]
    assert written(sources) == before


def test_no_permission_to_create_schemas(empty_database_url: str) -> None:
    before = written(empty_database_url)
    with _somebody(empty_database_url) as url:
        refusal = freqdp(url, "init").refused("'freqdp'")
        assert refusal["error"] == "PermissionMissing"
        assert "GRANT CREATE ON DATABASE" in refusal["remedy"]
        assert "freqdp init --sql" in refusal["remedy"]
        assert freqdp(url, "dataset", "list").refused("'freqdp'")["error"] == "SchemaMissing"
    assert written(empty_database_url) == before


ODD = [
    'He said "hi" %s %(name)s {} :bound $1 \\n a.b',
    "Ünï 北京 🚕 x'; DROP SCHEMA freqdp CASCADE; --",
]


@pytest.mark.parametrize("odd", ODD)
def test_odd_names_work_everywhere(database_url: str, odd: str) -> None:
    """Schema, relation and columns may be called anything; dataset and release, as a file can be."""
    quoted = '"' + odd.replace('"', '""') + '"'
    names = {key: sql.Identifier(f"{odd} {key}"[:60]) for key in ("who", "at", "geom")}
    statement = sql.SQL(
        "CREATE SCHEMA {s}; CREATE TABLE {s}.{s} AS SELECT 'object ' || o AS {who}, "
        "timestamptz '2024-05-01' + make_interval(secs => 60 * i + o) AS {at}, ST_SetSRID("
        "ST_MakePoint(116.39 + 0.001 * (i * o % 30), 39.9 + 0.001 * (i % 20)), 4326) AS {geom} "
        "FROM generate_series(1, 4) o, generate_series(1, 30) i"
    ).format(s=sql.Identifier(odd), **names)
    with psycopg.connect(database_url, options="-c search_path=public") as connection:
        connection.execute(statement)
    called = odd.replace("\\", "")
    columns = [f"{odd} {key}"[:60] for key in ("who", "at", "geom")]
    freqdp(
        database_url, "dataset", "add", "--from", f"{quoted}.{quoted}", "--object", columns[0],
        "--time", columns[1], "--geom", columns[2], "--", called,
    ).succeeded()  # fmt: skip
    freqdp(database_url, "dataset", "build", "--", called).succeeded()
    assert freqdp(database_url, "plan", called, "--method", "lg").succeeded()["dataset"] == called
    release = anonymize(database_url, called, "lg", "--signature", "3", "--as", called)
    assert (release["name"], release["state"]) == (called, "published")
    assert verify(database_url, called)["verified"] is True
    assert freqdp(database_url, "release", "show", called).succeeded()["name"] == called
    with psycopg.connect(database_url) as connection:
        for relation in (called, f"{called}_line"):
            found = connection.execute(
                sql.SQL("SELECT count(*) FROM {}").format(
                    sql.Identifier("freqdp_release", relation)
                )
            ).fetchone()
            assert found is not None and found[0] > 0
    # the default name follows the dataset's, and what is said to a person holds it too
    assert anonymize(database_url, called, "pure-g")["name"] == (f"{called}_1")
    assert freqdp(database_url, "budget", called).succeeded()["source_schema"] == odd
    withdraw(database_url, called)
    freqdp(database_url, "dataset", "drop", called).succeeded()


def test_longest_names(database_url: str) -> None:
    """55 bytes for a release, 63 for the rest; index names that would be longer are cut off."""
    relation, release = "r" * 63, "é" * 27 + "x"
    query(database_url, GOOD.partition("CREATE TABLE src.empty")[0])
    query(database_url, f"ALTER TABLE src.good RENAME TO {relation}")
    more = ("--object", "who", "--time", "at", "--geom", "geom")
    freqdp(database_url, "dataset", "add", "d" * 63, "--from", f"src.{relation}", *more).succeeded()
    freqdp(database_url, "dataset", "build", "d" * 63).succeeded()
    refusal = freqdp(database_url, "anonymize", "d" * 63, "--method", "lg").refused("d" * 63)
    assert "--as" in refusal["remedy"]
    for name in (release, "y" * 55):
        asked = ("anonymize", "d" * 63, "--method", "lg", "--as", name, "--signature", "2")
        freqdp(database_url, *asked, "--new-draw").succeeded()
        verify(database_url, name)


def test_disk_full_is_told(database_url: str) -> None:
    """The server's own error, by its SQLSTATE."""
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute("COPY (SELECT repeat('x', 100000)) TO '/dev/full'")
    assert caught.value.sqlstate == "53100"
    told = translate(caught.value)
    assert isinstance(told, ServerRefused)
    assert "disk" in told.message
    assert told.remedy is not None and "free space" in told.remedy
