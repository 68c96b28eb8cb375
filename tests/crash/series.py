"""A year of nights on the demo's city: a schedule with a window, kills, missed nights, two workers at once.

    PYTHONPATH=tests python tests/crash/series.py [--nights 365] [--kills 50] [--method lg+cut]
        [--objects 30] [--seed 1]

The city moves for as many days as there are nights. The clock of windows is ours: `find_window` is told
what time it is. In the end every window has to be there once, paid for once, in one table; the budget must
never have run out; the ledger has to verify, and no table may be left over. Every thirty nights it says
what a night takes: the last has to cost what the first did.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from library import opened
from stage import OPEN, own_server, reckon, say, start_worker, wait_for_jobs
from world import freqdp as run
from world import query

import freqdp_db
from freqdp_db.db.schema import render, resource
from freqdp_db.db.tables import Names
from freqdp_db.evaluation.evaluate import approve_within_limit
from freqdp_db.jobs.worker import Worker
from freqdp_db.loading.city import START

_MISSED = 7
_OPTIONS = {
    "counts": ("--epsilon", "0.5", "--zones", "grid:2000m", "--bins", "hour"),
    "strict": ("--epsilon", "0.5", "--every", "10min", "--size", "40"),
    "lg+cut": ("--epsilon", "0.5", "--signature", "2"),
}


def tell_the_time(url: str) -> None:
    """Windows end by the clock of world.clock, which only this script moves."""
    query(
        url,
        "CREATE SCHEMA IF NOT EXISTS world; CREATE TABLE world.clock (now timestamptz NOT NULL)",
    )
    query(url, "INSERT INTO world.clock VALUES (%s); GRANT USAGE ON SCHEMA world TO PUBLIC; "
               "GRANT SELECT ON world.clock TO PUBLIC".replace("%s", f"'{START.isoformat()}'"))  # fmt: skip
    (file,) = resource("sql").rglob("*_find_window.function.sql")
    text = render(file.read_text("utf-8"), Names("freqdp", "freqdp_release"))
    query(url, text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").replace(
        "now()", "(SELECT c.now FROM world.clock AS c)"))  # fmt: skip


def night(url: str, at: datetime) -> None:
    """It is that night, and the schedule is due."""
    query(url, f"UPDATE world.clock SET now = '{at.isoformat()}'")
    query(url, "UPDATE freqdp.schedule SET next_at = now()")


def serve(url: str) -> None:
    """What a worker does that is not disturbed."""
    with opened(url) as database:
        Worker(database, approve_within_limit).serve(once=True)


def struck(url: str, draw: random.Random, log: Path, seconds: float) -> str:
    """A worker is killed at a moment of the work. Says what it was doing."""
    before = query(url, "SELECT count(*) FROM freqdp.job_queue")
    worker = start_worker(url, log, "--once", "--lease", "1")
    while query(url, "SELECT count(*) FROM freqdp.job_queue") == before and worker.poll() is None:
        time.sleep(0.01)
    time.sleep(draw.uniform(0.0, seconds))
    phase = query(url, "SELECT phase FROM freqdp.job_progress LIMIT 1")
    ended = worker.poll() is not None
    worker.kill()
    worker.wait()
    return "too late" if ended else phase[0][0] if phase else "before the work"


def race(url: str, log: Path) -> None:
    """Two workers on the same night."""
    workers = [start_worker(url, log, "--once") for _ in range(2)]
    for worker in workers:
        assert worker.wait(timeout=300) in (0, 6), "a worker failed"


def nights(count: int, kills: int, method: str, seed: int, objects: int) -> dict[str, Any]:
    draw = random.Random(seed)
    with own_server() as (_, url), tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "workers.log"
        with freqdp_db.connect(url) as freqdp:
            freqdp.load_city(objects=objects, days=count)
            query(url, "CREATE INDEX ON demo.city (at)")
            freqdp.add_dataset(
                "city", "demo.city", object="object_id", time="at", geom="geom",
                timezone="Europe/Brussels", unit="person-day", region="4.2,50.7,4.5,51.0", budget=1,
            )  # fmt: skip
        tell_the_time(url)
        run(
            url, "schedule", "add", "city", "--method", method, "--at", "0 3 * * *", "--window", "day",
            "--since", "2024-03-04", *_OPTIONS[method],
        ).succeeded()  # fmt: skip
        missed = range(count // 2, min(count // 2 + _MISSED, count - 1))
        killed = set(draw.sample([n for n in range(count) if n not in missed], kills))
        raced = set(draw.sample(range(count), max(count // 20, 1))) - set(missed)
        phases: Counter[str] = Counter()
        start, took = time.monotonic(), []
        for n in range(count):
            if n % 30 == 0 and took:
                say(night=n, median=round(_median(took[-30:], 0.0), 2))
            if n in missed:
                continue
            night(url, START.astimezone(UTC) + timedelta(days=n + 1, hours=3))
            began = time.monotonic()
            if n in killed:
                phases[struck(url, draw, log, _median(took, 0.7))] += 1
                time.sleep(1.1)  # the lease
            if n in raced:
                race(url, log)
            serve(url)
            wait_for_jobs(url)
            if n not in killed | raced:
                took.append(time.monotonic() - began)
        found = _checked(url, count)
        return {
            "nights": count, "method": method, "seed": seed, "kills": dict(phases), "raced": len(raced),
            "missed and caught up": len(missed), "minutes": round((time.monotonic() - start) / 60, 1),
            "median seconds of a night": round(_median(took, 0.0), 2),
            "first and last ten": [round(sum(t) / len(t), 2) for t in (took[:10], took[-10:])],
            **found,
        }  # fmt: skip


def _median(seconds: list[float], default: float) -> float:
    return sorted(seconds)[len(seconds) // 2] if seconds else default


def _checked(url: str, count: int) -> dict[str, Any]:
    """Every window once, one spend each, one table."""
    days = [(START + timedelta(hours=1, days=n)).date() for n in range(count)]
    # counts have no table that is called as the series alone
    ((table,),) = query(url, "SELECT relations[1] FROM freqdp_release.series")
    there = query(url, f"SELECT DISTINCT window_start FROM freqdp_release.{table} ORDER BY 1")
    attached = query(
        url,
        "SELECT count(*) FROM pg_inherits WHERE inhparent = %s::regclass",
        f"freqdp_release.{table}",
    )
    assert attached == [(count,)], attached
    assert {day for (day,) in there} <= set(days)
    windows = query(
        url, "SELECT time_window, count(*) FROM freqdp_release.catalog GROUP BY 1 ORDER BY 1"
    )
    assert windows == [(str(day), 1) for day in days], "a window is missing, or there twice"
    spends = query(
        url, "SELECT count(*), count(DISTINCT release_id) FROM freqdp.spend WHERE kind = 'spend'"
    )
    assert spends == [(count, count)], spends
    refused = query(url, "SELECT state, error FROM freqdp.job WHERE state <> 'done'")
    assert not refused, refused
    assert query(url, OPEN) == [(0,)]
    rows = query(url, f"SELECT count(*) FROM freqdp_release.{table}")
    budget = query(url, "SELECT unit, spent, granted, together FROM freqdp.budget WHERE spent > 0")
    assert all(spent <= granted for _, spent, granted, _ in budget)
    return {"rows": rows[0][0], "budget": budget, **reckon(url)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--method", default="lg+cut", choices=sorted(_OPTIONS))
    parser.add_argument("--objects", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    say(**nights(given.nights, given.kills, given.method, given.seed, given.objects))


if __name__ == "__main__":
    main()
