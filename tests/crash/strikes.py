"""A command at work, and one bad thing that happens to it or to the server at a random moment.

    PYTHONPATH=tests python tests/crash/strikes.py [--trials 1000] [--seed 1]

Each trial starts a build, a release or a worker with a job, waits for a random while, and strikes:
the client is killed or interrupted, its sessions are ended, a backend is killed (the server then
restarts by itself), the server is restarted, or the server is killed. The command has to end in time
and with a documented code. When it is run again its work has to come to an end: nothing lost, nothing
half, nothing twice, nothing left over.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from harness import Driver, Run
from stage import own_server, reckon, say
from witness import leftovers
from world import ADD_CITY, freqdp, query, verify, withdraw

from freqdp_db.server.embedded import EmbeddedServer

_MOST_SECONDS = 300.0
_LEASE_S = 2
_ENDED = {0, 1, 130, -signal.SIGKILL}
_ANONYMIZE = "anonymize city --method lg --epsilon 0.1 --signature 3 --new-draw"
_COMMANDS: dict[str, tuple[tuple[str, ...], set[int]]] = {
    "build": (("dataset", "build", "city"), _ENDED),
    "anonymize": (tuple(_ANONYMIZE.split()), _ENDED),
    "worker": (("worker", "--once", "--lease", str(_LEASE_S)), _ENDED | {4, 5, 6}),
}
_REQUEST = """SELECT freqdp.request_release('city', 'lg', 0.1,
    '{"signature": 3, "rebuild": true, "new_draw": true}')"""
_SESSIONS = (
    "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'freqdp %' "
    "AND datname = current_database()"
)
_RELEASES = "SELECT name, state FROM freqdp.release ORDER BY release_id"
_NOT_DONE = "SELECT job_id, state, error FROM freqdp.job WHERE state <> 'done'"
_NOT_PAID_ONCE = """
    SELECT r.name, count(s.*) FROM freqdp.release r LEFT JOIN freqdp.spend s USING (release_id)
    GROUP BY r.release_id HAVING count(s.*) <> 1"""


class Weather:
    """Strikes a command, or the server under it."""

    def __init__(self, server: EmbeddedServer, url: str, draw: random.Random) -> None:
        self.server, self.url, self.draw = server, url, draw
        self.kinds: dict[str, Callable[[Run], None]] = {
            "kill the client": lambda run: run.signal(signal.SIGKILL),
            "interrupt the client": lambda run: run.signal(signal.SIGINT),
            "end its sessions": lambda run: self._end_sessions(),
            "kill a backend": lambda run: self._kill_a_backend(),
            "restart the server": lambda run: self._restart(),
            "kill the server": lambda run: self._kill_the_server(),
        }

    def strike(self, kind: str, run: Run) -> None:
        # it may have ended, and a server that restarts answers nobody
        with suppress(ProcessLookupError, psycopg.OperationalError):
            self.kinds[kind](run)
        self.wait_for_server()

    def _end_sessions(self) -> None:
        query(self.url, _SESSIONS.replace("pid", "pg_terminate_backend(pid)", 1))

    def _kill_a_backend(self) -> None:
        backends = [pid for (pid,) in query(self.url, _SESSIONS)]
        if backends:
            struck = self.draw.choice(backends)
            os.kill(struck, signal.SIGKILL)
            # until the server has seen it, it still answers as if nothing had happened
            while Path(f"/proc/{struck}").exists():
                time.sleep(0.01)

    def _restart(self) -> None:
        self.server.stop()
        self.server.ensure_running()

    def _kill_the_server(self) -> None:
        pid = self.server.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self.server.ensure_running()

    def wait_for_server(self) -> None:
        deadline = time.monotonic() + _MOST_SECONDS
        while True:
            try:
                self.server.ensure_running()
                query(self.url, "SELECT 1")
                return
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, "the server does not come back"
                time.sleep(0.1)


class Trials:
    """Commands that are struck, one after the other, and what has to hold after each."""

    def __init__(self, server: EmbeddedServer, url: str, folder: Path, seed: int) -> None:
        self.url, self.draw = url, random.Random(seed)
        self.weather = Weather(server, url, self.draw)
        freqdp(url, "load", "demo", "--objects", "20", "--days", "1").succeeded()
        freqdp(url, *ADD_CITY, "--budget", "1000").succeeded()
        freqdp(url, "dataset", "build", "city").succeeded()
        self.driver = Driver(url, folder)
        self.counts: Counter[str] = Counter()
        self.longest = 0.0
        self.seconds = {what: self._undisturbed(what) for what in _COMMANDS}

    def _undisturbed(self, what: str) -> float:
        """How long a command takes if nothing happens to it."""
        before, start = query(self.url, _RELEASES), time.monotonic()
        run = self._start(what)
        self._wait(run, what)
        assert run.end() == 0, run.err
        taken = time.monotonic() - start
        self._finish(what, before)
        return taken

    def _start(self, what: str) -> Run:
        if what == "worker":
            query(self.url, _REQUEST)
        return self.driver.start(self.url, *_COMMANDS[what][0])

    def _wait(self, run: Run, what: str) -> None:
        start = time.monotonic()
        while run.alive():
            taken = time.monotonic() - start
            assert taken < _MOST_SECONDS, f"{what} hangs: {run.err}"
            time.sleep(0.01)
        self.longest = max(self.longest, time.monotonic() - start)

    def trial(self, what: str, kind: str) -> None:
        """Start, strike, run again, and look."""
        before = query(self.url, _RELEASES)
        run = self._start(what)
        time.sleep(self.draw.uniform(0.0, 1.1 * self.seconds[what]))
        struck = run.alive()
        self.weather.strike(kind, run)
        self._wait(run, what)
        code, said = run.end(), run.err
        label = f"{what}, {kind}: exit {code}: {said}"
        assert code in _COMMANDS[what][1], label
        assert "Traceback" not in said, label
        self.counts[f"{what}: exit {code}"] += 1
        self.counts["struck while at work" if struck else "struck afterwards"] += 1
        self._finish(what, before)

    def _finish(self, what: str, before: list[tuple[Any, ...]]) -> None:
        """Run what is left of the work, then require all of it, once."""
        if what == "build":
            freqdp(self.url, "dataset", "build", "city").succeeded()
        elif what == "worker":
            self._serve()
        else:
            self._complete(len(before))
        made = query(self.url, _RELEASES)
        expected = len(before) + (what != "build")
        assert len(made) == expected, f"{what}: {len(made)} releases, not {expected}"
        assert query(self.url, _NOT_PAID_ONCE) == []
        for name, state in made:
            assert state in ("published", "withdrawn"), (name, state)
            if state == "published":
                verify(self.url, name)
                withdraw(self.url, name)
        assert leftovers(self.url) == []

    def _serve(self) -> None:
        """Other workers take the job over, once its lease has run out."""
        deadline = time.monotonic() + _MOST_SECONDS
        while left := query(self.url, _NOT_DONE):
            assert time.monotonic() < deadline, left
            run = self.driver.start(self.url, *_COMMANDS["worker"][0])
            self._wait(run, "the worker after it")
            time.sleep(_LEASE_S / 4)

    def _complete(self, before: int) -> None:
        """Go on with the release that was begun, or begin it."""
        found = query(self.url, _RELEASES)
        if len(found) == before:
            freqdp(self.url, *_COMMANDS["anonymize"][0]).succeeded()
        for name, state in found[before:]:
            if state == "running":
                freqdp(self.url, "release", "resume", name).succeeded()


def strikes(trials: int, seed: int) -> dict[str, Any]:
    """So many trials, each with a random command and strike; what came of them."""
    start = time.monotonic()
    with own_server() as (server, url), tempfile.TemporaryDirectory() as folder:
        scene = Trials(server, url, Path(folder), seed)
        kinds = list(scene.weather.kinds)
        try:
            for number in range(trials):
                # every pair of command and strike comes up as often, in any order
                pair = number % (len(_COMMANDS) * len(kinds))
                if pair == 0:
                    order = [(what, kind) for what in _COMMANDS for kind in kinds]
                    scene.draw.shuffle(order)
                scene.trial(*order[pair])
                if number % 100 == 99:
                    say(trials=number + 1, seconds=round(time.monotonic() - start, 1))
        finally:
            scene.driver.close()
        return {
            "trials": trials,
            "seed": seed,
            "seconds": round(time.monotonic() - start, 1),
            "longest_wait_s": round(scene.longest, 1),
            **dict(sorted(scene.counts.items())),
            **reckon(url),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    say(**strikes(options.trials, options.seed))


if __name__ == "__main__":
    main()
