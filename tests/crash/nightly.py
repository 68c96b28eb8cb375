"""A real pg_cron drives three runs one minute apart, while 20 readers poll <dataset>_current.

    PYTHONPATH=tests python tests/crash/nightly.py [--runs 3] [--readers 20]

Needs pg_cron for the server's version (Debian: postgresql-15-cron). The recipe is the one of
docker/OPERATING.md, every minute instead of every night.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from stage import make_dataset, own_server, reckon, say, start_worker, stop_workers
from world import query

from freqdp_db.server.embedded import EmbeddedServer

_PAGE = Path(__file__).parent.parent.parent / "docker" / "OPERATING.md"

# other data for the next run
_CHANGE = (
    "INSERT INTO world.d SELECT object, at + %s * interval '1 day', geom FROM world.d "
    "WHERE at < '2024-01-01 00:10+00'"
)
_GAPS = (
    "SELECT round(extract(epoch FROM asked_at - lag(asked_at) OVER (ORDER BY job_id))) "
    "FROM freqdp.job ORDER BY job_id OFFSET 2"
)


def recipe() -> str:
    """The statement of the page for operators."""
    (found,) = (b for b in _PAGE.read_text("utf-8").split("```") if "cron.schedule(" in b[:60])
    return found.removeprefix("sql\n")


@contextmanager
def cron_server() -> Iterator[tuple[EmbeddedServer, str]]:
    """A server with pg_cron, and a login `nightly` that may run and schedule."""
    with own_server() as (server, url):
        name = str(conninfo_to_dict(url)["dbname"])
        # its own settings are known once the library is loaded
        _restart_with(server, url, {"shared_preload_libraries": "pg_cron"})
        # background workers: the server's account has no login of its own on this socket
        own = {"cron.database_name": name, "cron.use_background_workers": "on"}
        _restart_with(server, url, own)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION pg_cron")
            connection.execute("CREATE ROLE nightly LOGIN")
            connection.execute("GRANT freqdp_runner TO nightly")
            connection.execute("GRANT USAGE ON SCHEMA cron TO nightly")
        yield server, url


def _restart_with(server: EmbeddedServer, url: str, settings: dict[str, str]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for name, value in settings.items():
            connection.execute(
                sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.SQL(name), sql.Literal(value))
            )
    server.stop()
    server.ensure_running()


def schedule(url: str, dataset: str, at: str) -> None:
    """The recipe, as `nightly`, for this dataset and these minutes."""
    statement = recipe().replace("'vans'", f"'{dataset}'").replace("0 3 * * *", at)
    query(make_conninfo(url, options="-c role=nightly"), statement)


def nightly(runs: int, readers: int) -> None:
    with cron_server() as (_, url), tempfile.TemporaryDirectory() as folder:
        make_dataset(url, "d")
        worker = start_worker(url, Path(folder) / "worker.log")
        query(url, "SELECT freqdp.request_release('d', 'lg', 1.0, '{\"keep\": 7}')")
        while query(url, "SELECT count(*) FROM freqdp_release.catalog") != [(1,)]:
            time.sleep(0.2)
        query(url, _CHANGE, 99)
        schedule(url, "d", "* * * * *")
        seen: set[int] = set()
        waits: list[float] = []
        reads, faults, ended = [0] * readers, list[str](), threading.Event()

        def read(n: int) -> None:
            with psycopg.connect(make_conninfo(url, options="-c role=freqdp_analyst")) as reader:
                while not ended.is_set():
                    start = time.monotonic()
                    try:
                        row = reader.execute(
                            "SELECT count(*) FROM freqdp_release.d_current"
                        ).fetchone()
                        reader.commit()
                    except psycopg.Error as error:
                        faults.append(str(error))
                        return
                    assert row is not None
                    seen.add(row[0])
                    waits.append(time.monotonic() - start)
                    reads[n] += 1
                    time.sleep(0.05)

        threads = [threading.Thread(target=read, args=(n,)) for n in range(readers)]
        for thread in threads:
            thread.start()
        start, done = time.monotonic(), 1
        try:
            while done < 1 + runs:
                assert time.monotonic() - start < 60 * (runs + 2), "pg_cron does not ask"
                time.sleep(1)
                known, done = (
                    done,
                    query(url, "SELECT count(*) FROM freqdp.job WHERE state = 'done'")[0][0],
                )
                if known != done:
                    query(url, _CHANGE, done)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        stop_workers([worker])
        whole = {rows for (rows,) in query(url, "SELECT rows FROM freqdp.release")}
        runs_of_cron = query(url, "SELECT status, count(*) FROM cron.job_run_details GROUP BY 1")
        gaps = query(url, _GAPS)
        say(runs=done - 1, cron=runs_of_cron, seconds_apart=[int(g[0]) for g in gaps], reads=sum(reads),
            different_counts=len(seen), longest_read_s=round(max(waits), 2), faults=faults[:3],
            **reckon(url))  # fmt: skip
        assert not faults, "a reader found the view missing"
        assert seen <= whole, f"a reader saw a release that is not whole: {seen - whole}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--readers", type=int, default=20)
    options = parser.parse_args()
    nightly(options.runs, options.readers)


if __name__ == "__main__":
    main()
