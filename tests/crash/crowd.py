"""200 requests on 20 datasets with four workers, and with one: each done once, and how much faster.

PYTHONPATH=tests python tests/crash/crowd.py [--requests 200] [--datasets 20]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from stage import (
    make_dataset,
    own_server,
    reckon,
    say,
    start_worker,
    stop_workers,
    wait_for_jobs,
)
from world import query

_ASK = "SELECT freqdp.request_release(%s, 'lg', 1, '{\"new_draw\": true, \"signature\": 4}')"


def crowd(requests: int, datasets: int, workers: int) -> float:
    """Ask for all of it, then serve it with so many workers; returns jobs per second."""
    with own_server() as (_, url), tempfile.TemporaryDirectory() as folder:
        for n in range(datasets):
            make_dataset(url, f"d{n}")
        serving = [start_worker(url, Path(folder) / f"{n}.log") for n in range(workers)]
        while query(url, "SELECT count(*) FROM freqdp.worker") != [(workers,)]:
            time.sleep(0.1)
        # the first jobs of a process load its kernels
        for n in range(4 * workers):
            query(url, _ASK, f"d{n % datasets}")
        wait_for_jobs(url, 1800)
        query(url, "SELECT pg_stat_reset()")
        start = time.monotonic()
        for n in range(requests):
            query(url, _ASK, f"d{n % datasets}")
        wait_for_jobs(url, 1800)
        seconds = time.monotonic() - start
        stop_workers(serving)
        begun = query(url, "SELECT count(*), max(attempts) FROM freqdp.job WHERE attempts > 1")
        deadlocks = query(
            url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        shares = query(
            url, "SELECT worker_id, count(*) FROM freqdp.job_queue GROUP BY 1 ORDER BY 1"
        )
        say(
            workers=workers,
            seconds=round(seconds, 1),
            jobs_per_second=round(requests / seconds, 2),
            begun_more_than_once=begun[0][0],
            deadlocks=deadlocks[0][0],
            shares=shares,
            **reckon(url),
        )
        assert deadlocks == [(0,)]
        assert query(url, "SELECT count(*) FROM freqdp.job WHERE state = 'done'") == [
            (requests + 4 * workers,)
        ]
        return requests / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--datasets", type=int, default=20)
    options = parser.parse_args()
    four = crowd(options.requests, options.datasets, 4)
    one = crowd(options.requests, options.datasets, 1)
    say(four_workers=round(four, 2), one_worker=round(one, 2), gain=round(four / one, 2))


if __name__ == "__main__":
    main()
