"""Scheduled runs back to back while workers are killed, the server restarts and connections are cut.

    PYTHONPATH=tests python tests/crash/storm.py [--runs 100] [--seed 1]

Every job has to end in done or a clear refusal, the ledger has to be exact, every release has to
verify, and no table may be left over.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import psycopg
from proxy import Proxy
from stage import (
    make_dataset,
    own_server,
    reckon,
    say,
    start_worker,
    stop_workers,
)
from world import freqdp, query

from freqdp_db.server.embedded import EmbeddedServer

_DATASETS, _WORKERS, _LEASE_S = 5, 3, 2
_CHANGE = (
    "INSERT INTO world.{0} SELECT object, at + (1 + {1}) * interval '1 day', geom FROM world.{0} "
    "WHERE object = 'o' || ({1} % 8) AND at < '2024-01-01 00:10+00'"
)

_ATTEMPTS = "SELECT count(*) FILTER (WHERE attempts > 1), max(attempts) FROM freqdp.job"
_NOT_DONE = "SELECT state, error, count(*) FROM freqdp.job WHERE state <> 'done' GROUP BY 1, 2"


class Storm:
    """Does one bad thing at a time."""

    def __init__(self, server: EmbeddedServer, url: str, draw: random.Random, folder: Path) -> None:
        self.server, self.draw, self.folder = server, draw, folder
        self.proxy = Proxy(url)
        self.counts: Counter[str] = Counter()
        self.workers = [self._start() for _ in range(_WORKERS)]

    def _start(self) -> subprocess.Popen[bytes]:
        log = self.folder / "workers.log"
        return start_worker(self.proxy.url, log, "--lease", str(_LEASE_S), "--grace", "1")

    def strike(self) -> None:
        what = self.draw.choices(["kill", "cut", "restart"], [6, 5, 1])[0]
        self.counts[what] += 1
        if what == "kill":
            n = self.draw.randrange(len(self.workers))
            self.workers[n].kill()
            self.workers[n].wait()
            self.workers[n] = self._start()
        elif what == "cut":
            self.proxy.drop_all()
        else:
            self.server.stop()
            self.server.ensure_running()

    def end(self) -> None:
        stop_workers(self.workers)
        self.proxy.close()


def storm(runs: int, seed: int) -> None:
    draw = random.Random(seed)
    with own_server() as (server, url), tempfile.TemporaryDirectory() as folder:
        names = [f"d{n}" for n in range(_DATASETS)]
        for name in names:
            make_dataset(url, name)
            # the last one runs out of budget on the way: a refusal that has to be clear
            epsilon = "150" if name == names[-1] else "1"
            freqdp(url, "schedule", "add", name, "--method", "lg", "--at", "0 3 * * *", "--keep", "2",
                    "--signature", "4", "--epsilon", epsilon).succeeded()  # fmt: skip
        start, made, weather = time.monotonic(), 0, Storm(server, url, draw, Path(folder))
        next_strike, begun = start, 0
        try:
            while True:
                try:
                    # a worker that has begun nothing since is not worth a strike
                    ((attempts,),) = query(url, "SELECT sum(attempts) FROM freqdp.job_queue")
                    if (attempts or 0) > begun and time.monotonic() > next_strike and made < runs:
                        time.sleep(draw.uniform(0.0, 1.5))
                        weather.strike()
                        begun, next_strike = attempts, time.monotonic() + draw.uniform(0.0, 4.0)
                    made += _make_due(url, made, runs)
                    busy = query(
                        url,
                        "SELECT count(*) FROM freqdp.job_queue WHERE state IN ('waiting', 'running')",
                    )
                    asking = query(
                        url,
                        "SELECT count(*) FROM freqdp.schedule WHERE ended_at IS NULL AND next_at <= now()",
                    )
                except psycopg.OperationalError:
                    continue  # in the middle of a restart
                if made >= runs and busy == asking == [(0,)]:
                    break
                assert time.monotonic() - start < 3000, "it does not come to an end"
                time.sleep(0.1)
        finally:
            weather.end()
        taken = query(url, _ATTEMPTS)
        say(
            seconds=round(time.monotonic() - start, 1),
            runs=made,
            seed=seed,
            **weather.counts,
            begun_more_than_once=taken[0][0],
            most_attempts=taken[0][1],
            not_done=query(url, _NOT_DONE),
        )
        say(**reckon(url))
        ended = query(
            url, "SELECT ended_reason FROM freqdp.schedule WHERE ended_reason LIKE 'the budget%'"
        )
        assert len(ended) == 1, "the schedule without budget has to end, and say so"


def _make_due(url: str, made: int, runs: int) -> int:
    """Change the data of every schedule that is idle, and make it due; returns how many."""
    idle = query(
        url,
        "SELECT s.schedule_id, d.name FROM freqdp.schedule s JOIN freqdp.dataset d USING (dataset_id) "
        "WHERE s.ended_at IS NULL AND s.next_at > now() AND NOT EXISTS (SELECT FROM freqdp.job_queue q "
        "WHERE q.schedule_id = s.schedule_id AND q.state IN ('waiting', 'running'))",
    )[: runs - made]
    for n, (schedule, name) in enumerate(idle):
        query(url, _CHANGE.format(name, made + n))
        query(url, "UPDATE freqdp.schedule SET next_at = now() WHERE schedule_id = %s", schedule)
    if idle:
        # workers know of schedules from the table; nobody has to wait for their next look
        query(url, "SELECT freqdp.wake_workers()")
    return len(idle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    storm(options.runs, options.seed)


if __name__ == "__main__":
    main()
