"""Ctrl-C and SIGTERM: exit 130, no traceback, nothing running on the server, nothing partial.

And the server that goes away in the middle: one sentence, exit 1, and everything as after a kill.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest
import stage
from harness import ROOT, Driver, Gate, Run, gate, reading_gate
from servers import SharedServer
from witness import leftovers, require_whole, resumed, scene, sessions
from world import add_city, freqdp, query, value, verify, wait_for

from freqdp_db.server.embedded import EmbeddedServer, connection_url

BUILD = ("dataset", "build", "city")
ANONYMIZE = ("anonymize", "city", "--method", "lg")


TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name LIKE 'freqdp %%' AND datname = current_database()"
)


def _told(run: Run) -> None:
    """The server went away in the middle: one sentence, exit 1."""
    assert run.end() == 1, run.err
    assert "Traceback" not in run.err
    document = json.loads(run.out)
    assert document["error"] == "ConnectionFailed", document
    assert document["remedy"]


def _end_sessions(url: str, run: Run) -> None:
    query(url, TERMINATE)
    run.marker.unlink(missing_ok=True)
    _told(run)


def _signal(number: int) -> Callable[[str, Run], None]:
    def strike(url: str, run: Run) -> None:
        run.signal(number)
        assert run.end() == 130, run.err
        assert "Traceback" not in run.err
        assert run.document["error"] == "Interrupted"
        assert run.document["remedy"]
        # the process is gone, and what it was waiting for was cancelled: gates are still closed
        wait_for(lambda: not sessions(url), "the end of its sessions")

    return strike


STRIKES = {
    "SIGINT": _signal(signal.SIGINT),
    "SIGTERM": _signal(signal.SIGTERM),
    "sessions ended": _end_sessions,
}


def struck_at(name: str, interrupted: Sequence[str], ended: Sequence[str] = ()) -> Any:
    """Ctrl-C at each of these, SIGTERM at the first (it takes the same way from there on); the others
    lose their sessions there."""
    cases = [("SIGINT", v) for v in interrupted] + [("SIGTERM", v) for v in interrupted[:1]]
    cases += [("sessions ended", v) for v in ended]
    return pytest.mark.parametrize(("how", name), cases, ids=[f"{how} {v}" for how, v in cases])


def _struck_at_gate(
    url: str, driver: Driver, how: str, closed: Gate, command: tuple[str, ...]
) -> None:
    run = driver.start(url, *command)
    closed.reach(run)
    STRIKES[how](url, run)
    if how != "sessions ended":
        assert closed.waiting() == []


@struck_at("statement", ["^COPY .*TO STDOUT", "^SELECT count"])
def test_build_struck_while_reading(city: str, driver: Driver, how: str, statement: str) -> None:
    before = scene(city)
    with reading_gate(city, statement, "demo.city") as reading:
        query(city, "UPDATE freqdp.dataset SET source_schema = 'public', source_relation = 'gated'")
        _struck_at_gate(city, driver, how, reading, BUILD)
    assert require_whole(city, before) == before
    assert leftovers(city) == []
    assert freqdp(city, *BUILD).succeeded()["trajectories"] == 40


@struck_at(
    "statement",
    ["^ALTER TABLE .*sample_2 ADD PRIMARY KEY", "^CREATE INDEX ON .*segment_2", "ATTACH"],
)
def test_build_struck_while_writing(city: str, driver: Driver, how: str, statement: str) -> None:
    before = scene(city)
    with gate(city, statement, "end") as writing:
        _struck_at_gate(city, driver, how, writing, BUILD)
    assert require_whole(city, before) == before
    freqdp(city, *BUILD).succeeded()
    assert leftovers(city) == []


@pytest.mark.parametrize(
    "moment", ["reading: some rows", "writing: amid the samples", "attaching: before"]
)
def test_sessions_ended_in_a_build(city: str, driver: Driver, moment: str) -> None:
    before = scene(city)
    run = driver.start(city, *BUILD, stop=moment)
    run.reach()
    _end_sessions(city, run)
    assert require_whole(city, before) == before
    freqdp(city, *BUILD).succeeded()
    assert leftovers(city) == []


GIST, KEY, MOVE = "^CREATE INDEX .*staging_1 USING gist", "^CREATE UNIQUE INDEX", "SET SCHEMA"


@struck_at("statement", [GIST, KEY, "ADD PRIMARY KEY USING INDEX", MOVE], ended=[KEY, GIST, MOVE])
def test_release_struck_on_the_server(city: str, driver: Driver, how: str, statement: str) -> None:
    before = scene(city)
    with gate(city, statement, "end") as writing:
        _struck_at_gate(city, driver, how, writing, ANONYMIZE)
    assert require_whole(city, before) == before
    resumed(city, *ANONYMIZE)


@struck_at(
    "moment",
    ["copy: more rows", "drawn: first", "targets: first"],
    ended=["spent: before reading", "drawn: first", "targets: first", "copy: more rows",
           "publish: before"],
)  # fmt: skip
def test_release_struck_at_work(city: str, driver: Driver, how: str, moment: str) -> None:
    before = scene(city)
    run = driver.start(city, *ANONYMIZE, stop=moment)
    run.reach()
    STRIKES[how](city, run)
    assert require_whole(city, before) == before
    resumed(city, *ANONYMIZE)


def test_a_process_of_its_own(city: str) -> None:
    """The same without the driver: `freqdp` as it is installed."""

    def hear_interrupts() -> None:
        """Whoever runs the tests in the background has it ignore them."""
        signal.signal(signal.SIGINT, signal.default_int_handler)

    with gate(city, "^CREATE INDEX .*staging_1 USING gist", "end") as writing:
        process = subprocess.Popen(
            [sys.executable, "-m", "freqdp_db", *ANONYMIZE],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": city},
            preexec_fn=hear_interrupts,
        )
        wait_for(lambda: bool(writing.waiting()), "the index")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert process.returncode == 130
        assert out == ""
        assert "Traceback" not in err
        assert "freqdp: interrupted; nothing partial is visible" in err
        assert writing.waiting() == []
    assert value(city, "SELECT count(*) FROM freqdp_release.catalog") == 0
    assert freqdp(city, "release", "resume", "city_1").succeeded()["resumed"] is True


@pytest.fixture
def own_server(shared_server: SharedServer) -> Iterator[EmbeddedServer]:
    """A server for one test to stop and kill; durable, as the shared one is not."""
    if shared_server.get().data_dir is None:
        pytest.skip("the tests run on a given server: there may be no PostgreSQL on this machine")
    with stage.own_server() as (server, _):
        yield server


def test_server_killed(own_server: EmbeddedServer, driver: Driver) -> None:
    """kill -9 of the server itself, twice: in a build, and in a release."""
    url = connection_url(own_server.conninfo())
    freqdp(url, "load", "demo", "--objects", "15", "--days", "1").succeeded()
    add_city(url, "city")
    run = driver.start(url, *BUILD, stop="writing: amid the samples")
    run.reach()
    _kill(own_server)
    run.go_on()
    _told(run)
    own_server.ensure_running()
    assert value(url, "SELECT current_build FROM freqdp.dataset") is None
    freqdp(url, *BUILD).succeeded()
    assert leftovers(url) == []

    before = scene(url)
    run = driver.start(url, *ANONYMIZE, "--signature", "3", stop="publish: before verifying")
    run.reach()
    _kill(own_server)
    run.go_on()
    _told(run)
    assert freqdp(url, "release", "list").refused("cannot be reached")
    own_server.ensure_running()
    # the counters of writing do not survive a crash; the rows and who wrote them do
    assert scene(url).source[0] == before.source[0]
    answer = resumed(url, *ANONYMIZE, "--signature", "3")
    assert verify(url, answer["name"])["verified"] is True


def _kill(server: EmbeddedServer) -> None:
    pid = server.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    def gone() -> bool:
        try:
            psycopg.connect(server.conninfo()).close()
        except psycopg.OperationalError:
            return True
        return False

    wait_for(gone, "the end of the server")
