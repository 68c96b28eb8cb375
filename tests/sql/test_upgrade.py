"""Databases of versions 0.1.0 and 0.2.0, from dumps of them: releases, ledger, jobs, schedules go on."""

from __future__ import annotations

import gzip
import os
import subprocess
from pathlib import Path

import pytest
from library import opened
from world import freqdp, query

from freqdp_db.evaluation.gate import approve_within_limit
from freqdp_db.jobs.worker import Worker
from freqdp_db.server.binaries import find_binaries

_DUMPS = Path(__file__).parent
_RELEASES = ("vans_1", "seeded", "coarse", "pure_g", "pure_l", "closed", "radius", "vans_2")


def _upgraded(url: str, dump: str) -> str:
    """The dump restored and upgraded; the template has made the roles that it grants rights to."""
    done = subprocess.run(
        [find_binaries().program("psql"), "-q", "-v", "ON_ERROR_STOP=1", url],
        input=gzip.decompress((_DUMPS / dump).read_bytes()).decode(),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **find_binaries().relocation()},
    )
    assert done.returncode == 0, done.stderr
    heads = query(url, "SELECT account_id, entry, hash FROM freqdp.spend ORDER BY spend_id")
    freqdp(url, "init").succeeded()
    assert query(url, "SELECT account_id, entry, hash FROM freqdp.spend ORDER BY spend_id") == heads
    return url


@pytest.fixture
def upgraded(empty_database_url: str, template_db: str) -> str:
    return _upgraded(empty_database_url, "installed_0_1_0.sql.gz")


def test_everything_goes_on(upgraded: str) -> None:
    for name in _RELEASES:
        freqdp(upgraded, "release", "verify", name).succeeded()
        freqdp(upgraded, "release", "show", name).succeeded()
    freqdp(upgraded, "ledger", "verify").succeeded()
    assert freqdp(upgraded, "init").succeeded()["changed"] is False
    granted = query(upgraded, "SELECT name FROM freqdp_release.catalog WHERE granted ORDER BY 1")
    assert [name for (name,) in granted] == ["coarse", "pure_g", "pure_l", "vans_1", "vans_2"]


def test_budgets_know_their_tables(upgraded: str) -> None:
    """By OID, where the table is still there: it may be renamed afterwards."""
    query(upgraded, "ALTER TABLE fleet.ping RENAME TO pong")
    again = freqdp(
        upgraded, "dataset", "add", "again", "--from", "fleet.pong", "--object", "van", "--time", "ts",
        "--lon", "lon", "--lat", "lat",
    ).succeeded()  # fmt: skip
    assert again["budget_is_new"] is False
    freqdp(upgraded, "ledger", "verify").succeeded()


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (("--epsilon", "1", "--signature", "3"), "vans_1"),
        (("--epsilon", "1", "--signature", "3", "--seed", "7"), "seeded"),
        (
            ("--method", "gl", "--epsilon-global", "0.3", "--epsilon-local", "0.2", "--signature",
             "2", "--spread", "paper", "--time-step", "5min"),
            "coarse",
        ),
        (("--method", "pure-g", "--epsilon", "0.5", "--signature", "2"), "pure_g"),
        (("--method", "pure-l", "--epsilon", "0.5", "--signature", "2"), "pure_l"),
        (("--method", "sc", "--signature", "2"), "closed"),
        (("--method", "rsc", "--signature", "2", "--radius", "300"), "radius"),
    ],
)  # fmt: skip
def test_what_was_answered_is_not_drawn_again(
    upgraded: str, options: tuple[str, ...], answer: str
) -> None:
    spent = query(upgraded, "SELECT spent FROM freqdp.budget")
    found = freqdp(upgraded, "anonymize", "vans", "--method", "lg", *options).succeeded()
    assert (found["name"], found["existed"]) == (answer, True)
    assert query(upgraded, "SELECT spent FROM freqdp.budget") == spent


def test_the_waiting_job_and_the_schedule_are_served(upgraded: str) -> None:
    query(upgraded, "UPDATE freqdp.schedule SET next_at = now()")
    with opened(upgraded) as database:
        served = Worker(database, approve_within_limit).serve(once=True)
    assert (served.done, served.refused, served.failed) == (2, 0, 0)
    assert query(upgraded, "SELECT method, state FROM freqdp.job ORDER BY job_id") == [
        ("lg", "done"), ("pure-g", "done"), ("gl", "done"),
    ]  # fmt: skip
    freqdp(upgraded, "ledger", "verify").succeeded()


def test_from_0_2_0(empty_database_url: str, template_db: str, tmp_path: Path) -> None:
    """Its lines go over all days and it has no trips; what comes next is as it is now."""
    url = _upgraded(empty_database_url, "installed_0_2_0.sql.gz")
    for name in ("vans_1", "vans_2"):
        freqdp(url, "release", "verify", name).succeeded()
        assert freqdp(url, "release", "show", name).succeeded()["readers"] == "analysts"
    out = str(tmp_path / "vans.gpkg")
    freqdp(url, "release", "export", "vans_1", "--format", "gpkg", "--out", out).succeeded()
    answered = freqdp(
        url, "anonymize", "vans", "--method", "lg", "--epsilon", "1", "--signature", "3"
    ).succeeded()
    assert (answered["name"], answered["existed"]) == ("vans_1", True)
    query(url, "UPDATE freqdp.schedule SET next_at = now()")
    with opened(url) as database:
        served = Worker(database, approve_within_limit).serve(once=True)
    assert (served.done, served.refused, served.failed) == (2, 0, 0)
    # the views of the newest release are ours, and now there are three of them
    now = query(url, "SELECT obj_description('freqdp_release.vans_current'::regclass)")
    assert "that analysts may read of dataset vans: now vans_3" in now[0][0]
    assert query(url, "SELECT count(*) > 0 FROM freqdp_release.vans_current_trip") == [(True,)]
    for name in ("vans_3", "vans_2", "vans_1"):
        freqdp(url, "release", "withdraw", name).succeeded()
    freqdp(url, "ledger", "verify").succeeded()
    assert query(url, "SELECT count(*) FROM freqdp_release.catalog") == [(0,)]
