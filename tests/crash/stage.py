"""What the shows share: a server of their own, small datasets, worker processes, and the reckoning.

Shows are scripts: `PYTHONPATH=tests python tests/crash/strikes.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from library import build_points, make_points, opened
from servers import destroy
from witness import leftovers
from world import freqdp, query, verify, wait_for

from freqdp_db.db.schema import upgrade
from freqdp_db.server.embedded import EmbeddedServer, connection_url

ROOT = Path(__file__).parent.parent.parent
OPEN = "SELECT count(*) FROM freqdp.job_queue WHERE state IN ('waiting', 'running')"


@contextmanager
def own_server() -> Iterator[tuple[EmbeddedServer, str]]:
    """A throw-away cluster; what it writes is synced, as on any server."""
    directory = Path(tempfile.mkdtemp(prefix="freqdp-show-"))
    directory.chmod(0o711)
    server = EmbeddedServer(directory / "server")
    try:
        url = connection_url(server.ensure_running())
        with opened(url) as database:
            upgrade(database)
        yield server, url
    finally:
        destroy(server)
        shutil.rmtree(directory, ignore_errors=True)


def make_dataset(url: str, name: str, *, objects: int = 8, samples: int = 60) -> None:
    """A small dataset of its own source, with a budget of 1000."""
    shift = sum(name.encode())
    points = [
        (f"o{o}", 60.0 * n, 41.0 * ((n * 7 + o * shift) % 60), 53.0 * ((n * 3 + o) % 40))
        for o in range(objects)
        for n in range(samples)
    ]
    with opened(url) as database:
        build_points(database, name, make_points(url, name, points))


def start_worker(url: str, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    with log.open("ab") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "freqdp_db", "worker", *arguments],
            stdout=subprocess.DEVNULL, stderr=stream, cwd=ROOT,
            env={**os.environ, "DATABASE_URL": url},
        )  # fmt: skip


def wait_for_jobs(url: str) -> None:
    wait_for(lambda: query(url, OPEN) == [(0,)], "the jobs to end")


def reckon(url: str) -> dict[str, Any]:
    """Every job ended; one spend and one release each; all verify; nothing is left lying about."""
    jobs = query(url, "SELECT state, count(*) FROM freqdp.job GROUP BY 1 ORDER BY 1")
    clear = query(url, "SELECT job_id, error FROM freqdp.job WHERE state NOT IN ('done', 'cancelled') "
                       "AND coalesce(error, '') = ''")  # fmt: skip
    assert not clear, f"no reason is given for {clear}"
    assert query(url, OPEN) == [(0,)]
    wrong = query(
        url,
        "SELECT r.name, r.state, count(s.*) FROM freqdp.release r LEFT JOIN freqdp.spend s "
        "ON s.release_id = r.release_id AND s.amount = (freqdp.spend_of(r.method, r.parameters)).amount "
        "GROUP BY r.release_id HAVING count(s.*) <> 1 OR r.state NOT IN ('published', 'withdrawn')",
    )
    assert not wrong, f"not booked exactly once, or not finished: {wrong}"
    releases = query(url, "SELECT count(*) FROM freqdp.release")[0][0]
    doubled = query(url, "SELECT release, count(*) FROM freqdp.job WHERE (options ->> 'new_draw')::boolean "
                         "GROUP BY 1 HAVING count(*) > 1")  # fmt: skip
    assert not doubled, f"more than one job for {doubled}"
    versions = query(url, "SELECT dataset_id, version FROM freqdp.release WHERE version IS NOT NULL "
                          "GROUP BY 1, 2 HAVING count(*) > 1")  # fmt: skip
    assert not versions, f"a version was given twice: {versions}"
    orphans = leftovers(url) + query(
        url,
        "SELECT relname FROM pg_class WHERE relnamespace = 'freqdp_release'::regnamespace "
        "AND relkind = 'r' AND relname NOT IN ('catalog', 'series') "
        "AND NOT EXISTS (SELECT FROM freqdp_release.catalog "
        "WHERE relname = ANY(relations))",
    )
    assert not orphans, f"orphan tables: {orphans}"
    verified = 0
    for (name,) in query(url, "SELECT name FROM freqdp_release.catalog ORDER BY 1"):
        verify(url, name)
        verified += 1
    freqdp(url, "ledger", "verify").succeeded()
    return {"jobs": dict(jobs), "releases": releases, "verified": verified}


def say(**figures: Any) -> None:
    print(json.dumps(figures, default=str), flush=True)
