"""Builds and releases on Dask while its workers, its scheduler and the command itself are killed.

    PYTHONPATH=tests python tests/crash/dask_kills.py [--workers 20] [--schedulers 5] [--drivers 5]

Each time one process is killed at a random moment of a build or a release. The command has to end
well, or to be refused clearly and to go on when it is given again; builds and releases have to be those
that threads make, each spend has to be booked once, and nothing may be left over.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stage import ROOT, own_server, reckon, say
from world import freqdp, query

_OBJECTS, _DAYS = 300, 4
_ASKED = ("--method", "gl", "--epsilon", "1", "--seed", "5")
_DIGESTS = (
    "SELECT digest FROM freqdp.release_step JOIN freqdp.release USING (release_id) "
    "WHERE name = %s ORDER BY step"
)
_FINGERPRINT = "SELECT fingerprint FROM freqdp.build ORDER BY build_id DESC LIMIT 1"


class Cluster:
    """A scheduler and two workers, as a user would start them."""

    def __init__(self, url: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.scheduler = self._start(
            url, "scheduler", "--host", "127.0.0.1", "--port", self.address.partition(":")[2]
        )
        self.workers = [
            self._start(
                url, "worker", f"tcp://{self.address}", "--nthreads", "1", "--death-timeout", "30"
            )
            for _ in range(2)
        ]

    def _start(self, url: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments,
             "--dashboard-address", "127.0.0.1:0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT,
            env={**os.environ, "DATABASE_URL": url},
        )  # fmt: skip

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.terminate()
        for process in (*self.workers, self.scheduler):
            process.wait(timeout=60)


def _below(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found + [below for child in found for below in _below(child)]


def _workers_of(pid: int) -> list[int]:
    found = []
    for child in _below(pid):
        with suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


def _command(url: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "freqdp_db", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url},
    )  # fmt: skip


@contextmanager
def _engine(url: str, what: str) -> Iterator[tuple[tuple[str, ...], Cluster | None]]:
    if what != "scheduler":
        yield ("--engine", "dask", "--workers", "2"), None
        return
    cluster = Cluster(url)
    try:
        time.sleep(4)
        yield ("--engine", f"dask://{cluster.address}"), cluster
    finally:
        cluster.stop()


def _strike(what: str, process: subprocess.Popen[str], cluster: Cluster | None) -> bool:
    """Kill one; False if there was nothing to kill."""
    if what == "scheduler":
        assert cluster is not None
        cluster.scheduler.kill()
        return True
    if what == "driver":
        process.kill()
        return True
    workers = _workers_of(process.pid)
    if not workers:
        return False
    os.kill(random.choice(workers), 9)
    return True


def _gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, f"processes are left: {pids}"
        time.sleep(0.1)


def run(url: str, what: str, job: tuple[str, ...], seconds: float, ends: Counter[str]) -> None:
    """One command, with one kill at a random moment; again without a kill if it did not end well."""
    with _engine(url, what) as (engine, cluster):
        process = _command(url, *job, *engine)
        moment = time.monotonic() + random.uniform(0.3, 1.0) * seconds
        while time.monotonic() < moment and process.poll() is None:
            time.sleep(0.02)
        started = _below(process.pid)
        struck = process.poll() is None and _strike(what, process, cluster)
        said = process.communicate(timeout=600)
    _gone(started)
    if process.returncode == 0:
        ends[f"{what}: ended well" if struck else f"{what}: too late"] += 1
        return
    assert "Traceback" not in said[1], said[1]
    refused = [line for line in said[1].splitlines() if line.startswith("freqdp: ")]
    assert what == "driver" or refused, said[1]
    ends[f"{what}: " + (refused[0] if refused else "killed")] += 1
    freqdp(url, *job).succeeded()


def main() -> None:
    parser = argparse.ArgumentParser()
    for what in ("workers", "schedulers", "drivers"):
        parser.add_argument(f"--{what}", type=int, default=20 if what == "workers" else 5)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random.seed(given.seed)
    kills = [w for w in ("worker", "scheduler", "driver") for _ in range(vars(given)[f"{w}s"])]
    random.shuffle(kills)
    ends: Counter[str] = Counter()
    with own_server() as (_, url):
        freqdp(url, "load", "demo", "--objects", str(_OBJECTS), "--days", str(_DAYS)).succeeded()
        freqdp(
            url, "dataset", "add", "city", "--from", "demo.city", "--object", "object_id",
            "--time", "at", "--geom", "geom", "--budget", "1000",
        ).succeeded()  # fmt: skip
        freqdp(url, "dataset", "build", "city").succeeded()
        freqdp(url, "anonymize", "city", "--method", "lg", *_ASKED, "--as", "threads").succeeded()
        expected = query(url, _DIGESTS, "threads"), query(url, _FINGERPRINT)
        begun = time.monotonic()
        freqdp(url, "anonymize", "city", "--method", "lg", *_ASKED, "--as", "dask", "--new-draw",
                "--engine", "dask", "--workers", "2").succeeded()  # fmt: skip
        seconds = time.monotonic() - begun + 2
        for number, what in enumerate(kills):
            name = f"r{number}"
            job: tuple[str, ...] = ("dataset", "build", "city")
            if number % 4:
                # a time step of its own makes each a request of its own: given again, it goes on
                job = (
                    "anonymize",
                    "city",
                    "--method",
                    "lg",
                    *_ASKED,
                    "--as",
                    name,
                    "--time-step",
                    f"{number + 1}s",
                )
            run(url, what, job, seconds, ends)
            found: Any = query(url, _FINGERPRINT)
            assert found == expected[1], found
            if number % 4:
                assert query(url, _DIGESTS, name) == expected[0], name
        say(kills=len(kills), **ends, **reckon(url))


if __name__ == "__main__":
    main()
