"""The other side of the driver: start a command, wait for its moment, kill it; gates on the server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from world import wait_for

ROOT = Path(__file__).parents[2]


class Driver:
    """The process that forks the commands."""

    def __init__(self, url: str, directory: Path) -> None:
        """`url`: a database with the city, to warm up on."""
        self._directory = directory
        self._log = (directory / "driver.log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("driver.py")), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._statuses: dict[int, int] = {}
        self._started = 0
        self._read()  # ready

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the driver ended: " + (self._directory / "driver.log").read_text()
        document: dict[str, Any] = json.loads(line)
        return document

    def start(self, url: str, *arguments: str, stop: str | None = None) -> Run:
        """Start a command with --json on this database; `stop` is a moment of the driver."""
        self._started += 1
        output = self._directory / str(self._started)
        output.mkdir()
        request = {
            "arguments": [*arguments, "--json", "--dsn", url],
            "stop": stop,
            "marker": str(output / "marker"),
            "output": str(output),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        while True:
            answer = self._read()
            if "status" not in answer:
                # the system gives a number again: an earlier command of this one has ended
                self._statuses.pop(answer["pid"], None)
                return Run(self, answer["pid"], output)
            self._statuses[answer["pid"]] = answer["status"]

    def wait(self, pid: int) -> int:
        while pid not in self._statuses:
            answer = self._read()
            self._statuses[answer["pid"]] = answer["status"]
        return self._statuses[pid]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._log.close()


@dataclass(frozen=True)
class Run:
    """One command, running or ended."""

    driver: Driver
    pid: int
    output: Path

    @property
    def marker(self) -> Path:
        return self.output / "marker"

    @property
    def out(self) -> str:
        return (self.output / "out").read_text()

    @property
    def err(self) -> str:
        return (self.output / "err").read_text()

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    def alive(self) -> bool:
        """Whether it runs; a child that has ended and was not waited for yet does not."""
        with suppress(OSError):
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False

    def reach(self) -> None:
        """Wait until it has stopped at its moment."""
        wait_for(lambda: self.marker.exists() or not self.alive(), "the moment")
        assert self.marker.exists(), f"it ended before: {self.out}{self.err}"

    def go_on(self) -> None:
        self.marker.unlink()

    def end(self) -> int:
        return self.driver.wait(self.pid)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        assert self.end() == -signal.SIGKILL

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)
        # what waits is not always the thread that the signal interrupts
        self.marker.unlink(missing_ok=True)


class Gate:
    """Statements that match a pattern wait, inside the server, until the gate is opened."""

    def __init__(self, url: str, pattern: str, holder: psycopg.Connection[Any]) -> None:
        self._url = url
        self._pattern = pattern
        self._holder = holder

    def waiting(self) -> list[int]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
                "AND (classid::bigint << 32 | objid::bigint) = %s",
                [_GATE],
            )
            return [row[0] for row in rows]

    def reach(self, run: Run) -> None:
        wait_for(lambda: bool(self.waiting()) or not run.alive(), f"{self._pattern!r}")
        assert run.alive(), f"it ended before: {run.out}{run.err}"

    def open(self) -> None:
        self._holder.close()


_GATE = 7_460_001


@contextmanager
def gate(url: str, pattern: str, moment: str) -> Iterator[Gate]:
    """A gate at the start or the end of CREATE INDEX and ALTER TABLE statements of this pattern.

    Also of those that a function executes. At the end the work of the statement is done and its
    locks are held, but nothing is committed.
    """
    holder = psycopg.connect(url, autocommit=True)
    holder.execute("SELECT pg_advisory_lock(%s::bigint)", [_GATE])
    _make_gate(holder, pattern)
    holder.execute(
        sql.SQL(
            "CREATE EVENT TRIGGER test_gate ON {} WHEN TAG IN ('CREATE INDEX', 'ALTER TABLE') "
            "EXECUTE FUNCTION public.test_gate_event()"
        ).format(sql.SQL({"start": "ddl_command_start", "end": "ddl_command_end"}[moment]))
    )
    made = Gate(url, pattern, holder)
    try:
        yield made
    finally:
        made.open()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP EVENT TRIGGER test_gate")


@contextmanager
def reading_gate(url: str, pattern: str, relation: str) -> Iterator[Gate]:
    """A gate in public.gated, a view over this relation: for statements of this pattern."""
    holder = psycopg.connect(url, autocommit=True)
    holder.execute("SELECT pg_advisory_lock(%s::bigint)", [_GATE])
    _make_gate(holder, pattern)
    holder.execute(
        sql.SQL(
            "CREATE OR REPLACE VIEW public.gated AS SELECT * FROM {} WHERE public.test_gate()"
        ).format(sql.SQL(relation))
    )
    made = Gate(url, pattern, holder)
    try:
        yield made
    finally:
        made.open()


def _make_gate(connection: psycopg.Connection[Any], pattern: str) -> None:
    """`test_gate(statement)` waits if the statement matches."""
    connection.execute(
        sql.SQL(
            "CREATE OR REPLACE FUNCTION public.test_gate(statement text DEFAULT current_query()) "
            "RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN IF statement ~ {} THEN "
            "PERFORM pg_catalog.pg_advisory_xact_lock_shared({}); END IF; RETURN true; END $$"
        ).format(sql.Literal(pattern), sql.Literal(_GATE))
    )
    # the statement that fires it: that of the client, or the one that a function executes, which
    # is below the trigger's own line in the stack
    connection.execute(
        "CREATE OR REPLACE FUNCTION public.test_gate_event() RETURNS event_trigger "
        "LANGUAGE plpgsql AS $$ DECLARE stack text; BEGIN "
        "GET DIAGNOSTICS stack = PG_CONTEXT; "
        "PERFORM public.test_gate(coalesce("
        "substring(stack FROM '^[^\\n]*?\\nSQL statement \"(.*?)\"\\nPL/pgSQL function'), "
        "current_query())); END $$"
    )
