"""The recipe of docker/OPERATING.md, with a real pg_cron. That it fires: `nightly.py`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from nightly import cron_server, schedule
from psycopg.conninfo import make_conninfo
from stage import make_dataset
from world import query

from freqdp_db.server.binaries import find_binaries


def _has_pg_cron() -> bool:
    said = subprocess.run(
        [find_binaries().program("pg_config"), "--sharedir"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return (Path(said.stdout.strip()) / "extension" / "pg_cron.control").is_file()


@pytest.mark.skipif(not _has_pg_cron(), reason="pg_cron is not installed (postgresql-15-cron)")
def test_pg_cron_takes_the_recipe() -> None:
    with cron_server() as (_, url):
        make_dataset(url, "d")
        schedule(url, "d", "0 3 * * *")
        ((user, at, command),) = query(url, "SELECT username, schedule, command FROM cron.job")
        assert (user, at) == ("nightly", "0 3 * * *")
        nightly = make_conninfo(url, options=f"-c role={user}")
        assert query(nightly, command) == [(1,)]
        assert query(
            url, "SELECT dataset, options ->> 'rebuild', options ->> 'keep' FROM freqdp.job"
        ) == [("d", "true", "7")]
