"""A world to test in: a built city to clone, the command line in this process, and what to look at.

`freqdp` runs the real command tree without the second or two that a new process takes to import
it; tests of signals, kills and streams start processes of their own.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from freqdp_db.cli import main
from freqdp_db.db.connection import Database
from freqdp_db.evaluation.evaluate import approve_within_limit
from freqdp_db.evaluation.recommendation import choosing
from freqdp_db.jobs.worker import Worker, WorkerStats
from freqdp_db.settings import Settings

ADD_CITY = ("dataset", "add", "city", "--from", "demo.city", "--object", "object_id",
            "--time", "at", "--geom", "geom")  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What a command said, and how it ended."""

    arguments: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout; anything beside it is a fault."""
        return json.loads(self.out)

    def succeeded(self) -> Any:
        assert self.code == 0, f"{self.arguments}: {self.out}{self.err}"
        return self.document

    def refused(self, *words: str) -> dict[str, Any]:
        """Exit 1 with a message that holds these words, a remedy, and no traceback."""
        assert self.code == 1, f"{self.arguments}: exit {self.code}: {self.out}{self.err}"
        assert "Traceback" not in self.out + self.err
        document: dict[str, Any] = self.document
        assert set(document) == {"error", "message", "remedy"}, document
        for word in words:
            assert word in document["message"], document
        assert document["remedy"], document
        assert f"freqdp: {document['message']}\n  -> {document['remedy']}\n" in self.err
        return document


def freqdp(url: str | None, *arguments: str, in_words: bool = False) -> Answer:
    """Run a command on this database, with --json unless its words are what matters.

    url: None for the database that the environment names.
    """
    common = [*([] if in_words else ["--json"]), *([] if url is None else ["--dsn", url])]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main.run([*common, *arguments])
    return Answer(arguments, code, out.getvalue(), err.getvalue())


def add_city(url: str, name: str, *options: str) -> dict[str, Any]:
    """Register the city under this name; what was said about it."""
    return dict(freqdp(url, *ADD_CITY[:2], name, *ADD_CITY[3:], *options).succeeded())


def anonymize(url: str, dataset: str, method: str, *options: str) -> dict[str, Any]:
    """Release a dataset; what was said about it."""
    answer = freqdp(url, "anonymize", dataset, "--method", method, *options).succeeded()
    return dict(answer)


def withdraw(url: str, release: str) -> dict[str, Any]:
    return dict(freqdp(url, "release", "withdraw", release).succeeded())


def verify(url: str, release: str) -> dict[str, Any]:
    found = freqdp(url, "release", "verify", release).succeeded()
    assert found["verified"] is True
    return dict(found)


def serve(url: str) -> WorkerStats:
    """Do the jobs that are due, in this process."""
    database = Database(url, Settings(dsn=url), "tests")
    try:
        return Worker(database, approve_within_limit).serve(once=True)
    finally:
        database.close()


def as_role(url: str, kind: str, *options: str) -> str:
    """The URL of the same database for one of our group roles, such as analyst."""
    return make_conninfo(url, options=" ".join((f"-c role=freqdp_{kind}", *options)))


def report(url: str, release: str, folder: Path, *options: str) -> str:
    """The page that `release report` writes."""
    out = folder / f"{release}.html"
    asked = ("release", "report", release, "--out", str(out), "--force", *options)
    freqdp(url, *asked).succeeded()
    return out.read_text("utf-8")


def try_only(monkeypatch: pytest.MonkeyPatch, *labels: str) -> None:
    """Let `recommend` try these of its candidates: the others take as long and show nothing else."""
    ladders = [*choosing.LADDERS.items(), ("", choosing._HISTORIES)]
    chosen = {
        name: [method for method in ladder if method.label in labels] for name, ladder in ladders
    }
    monkeypatch.setattr(choosing, "_HISTORIES", chosen.pop(""))
    monkeypatch.setattr(choosing, "LADDERS", chosen)


def query(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    # the embedded server's user is called as our schema is: "$user" would come before public
    with psycopg.connect(url, autocommit=True, options="-c search_path=public") as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def same_rows(url: str, one: str, other: str) -> bool:
    """Whether two tables hold the same rows, each as often: EXCEPT both ways, nothing folded."""
    (found,) = query(
        url,
        f"SELECT NOT EXISTS (TABLE {one} EXCEPT ALL TABLE {other}) "
        f"AND NOT EXISTS (TABLE {other} EXCEPT ALL TABLE {one})",
    )
    return bool(found[0])


def value(url: str, statement: str, *values: Any) -> Any:
    ((found,),) = query(url, statement, *values)
    return found


def wait_for(done: Callable[[], Any], what: str) -> Any:
    """Until it gives something that is true; a busy machine may take its time."""
    deadline = time.monotonic() + 300
    while not (found := done()):
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.05)
    return found


def make_city(url: str) -> None:
    """A small city, registered and built."""
    for command in (
        ("load", "demo", "--objects", "40", "--days", "2"),
        (*ADD_CITY, "--budget", "4"),
        ("dataset", "build", "city"),
    ):
        freqdp(url, *command).succeeded()


def release_city(url: str) -> None:
    anonymize(url, "city", "lg", "--as", "r")


def written(url: str, *, schemas: Sequence[str] = ("freqdp", "freqdp_release")) -> dict[str, Any]:
    """All relations of the database, and the rows of ours: what "nothing written" compares."""
    with psycopg.connect(url, autocommit=True) as connection:
        relations = connection.execute(
            "SELECT n.nspname, c.relname, c.relkind FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1, 2"
        ).fetchall()
        found: dict[str, Any] = {"relations": relations}
        for schema, name, kind in relations:
            # which rows there are to be locked is nobody's data
            if schema in schemas and kind in ("r", "p") and name != "lock":
                statement = sql.SQL(
                    "SELECT count(*), md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {} t"
                ).format(sql.Identifier(schema, name))
                found[f"{schema}.{name}"] = connection.execute(statement).fetchone()
    return found


def fingerprint(url: str, relation: str) -> tuple[Any, ...]:
    """A user's table: its rows where they lie, who wrote them, and what was counted of writing."""
    rows = query(
        url,
        f"SELECT count(*), md5(string_agg(concat(t.xmin, t.ctid, t::text), '|' ORDER BY t.ctid)) "
        f"FROM {relation} t",
    )
    counted = query(
        url,
        "SELECT n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_all_tables WHERE relid = %s::regclass",
        relation,
    )
    return (*rows, *counted)


@contextmanager
def login(url: str, *groups: str) -> Iterator[str]:
    """A login that is a member of these roles, while the block lasts; its name."""
    name = f"somebody_{uuid4().hex[:8]}"
    role = sql.Identifier(name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = pg_catalog")
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
        for group in groups:
            connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(group), role))
        yield name
        connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(role))
        connection.execute(sql.SQL("DROP ROLE {}").format(role))


@contextmanager
def session_of(url: str, *groups: str) -> Iterator[psycopg.Connection[Any]]:
    """A session of such a login."""
    with login(url, *groups) as name, psycopg.connect(url, autocommit=True) as session:
        session.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(name)))
        yield session
