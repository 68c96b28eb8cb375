"""The recipe of docker/OPERATING.md, with a real pg_cron (Debian: postgresql-15-cron)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from stage import ROOT, make_dataset, own_server
from world import query

from freqdp_db.server.binaries import find_binaries
from freqdp_db.server.embedded import EmbeddedServer


def _has_pg_cron() -> bool:
    said = subprocess.run(
        [find_binaries().program("pg_config"), "--sharedir"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return (Path(said.stdout.strip()) / "extension" / "pg_cron.control").is_file()


@contextmanager
def cron_server() -> Iterator[str]:
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
        yield url


def _restart_with(server: EmbeddedServer, url: str, settings: dict[str, str]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for name, value in settings.items():
            connection.execute(
                sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.SQL(name), sql.Literal(value))
            )
    server.stop()
    server.ensure_running()


@pytest.mark.skipif(not _has_pg_cron(), reason="pg_cron is not installed (postgresql-15-cron)")
def test_pg_cron_takes_the_recipe() -> None:
    page = (ROOT / "docker" / "OPERATING.md").read_text("utf-8")
    (recipe,) = (block for block in page.split("```") if "cron.schedule(" in block[:60])
    with cron_server() as url:
        make_dataset(url, "d")
        nightly = make_conninfo(url, options="-c role=nightly")
        query(nightly, recipe.removeprefix("sql\n").replace("'vans'", "'d'"))
        ((user, at, command),) = query(url, "SELECT username, schedule, command FROM cron.job")
        assert (user, at) == ("nightly", "0 3 * * *")
        assert query(nightly, command) == [(1,)]
        assert query(
            url, "SELECT dataset, options ->> 'rebuild', options ->> 'keep' FROM freqdp.job"
        ) == [("d", "true", "7")]
