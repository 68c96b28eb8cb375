"""Settings of a server, a database or a login change neither what is read nor what is released."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from library import make_points
from pooler import PROGRAM, pooled
from psycopg.conninfo import make_conninfo
from world import anonymize, freqdp, query, same_rows, value, verify

POINTS = [(f"o{i % 6}", 60.5 * i, 100.25 * (i * 7 % 23), 100.0 * (i * 5 % 11)) for i in range(300)]
ODD = {
    "DateStyle": "German, DMY",
    "IntervalStyle": "iso_8601",
    "TimeZone": "Asia/Kathmandu",
    "extra_float_digits": "-10",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "search_path": "nowhere",
}
ADD = [
    "--from",
    "world.points",
    "--object",
    "object",
    "--time",
    "at",
    "--geom",
    "geom",
    "--snap",
    "exact",
]


def _whole_job(url: str, name: str, files: Path) -> None:
    freqdp(url, "dataset", "add", name, *ADD).succeeded()
    freqdp(url, "dataset", "build", name).succeeded()
    seeded = ("--signature", "2", "--seed", "7", "--as", f"{name}_seeded")
    anonymize(url, name, "lg", *seeded)
    verify(url, f"{name}_seeded")
    target = str(files / f"{name}.csv")
    freqdp(
        url, "release", "export", f"{name}_seeded", "--format", "csv", "--out", target
    ).succeeded()
    freqdp(url, "evaluate", f"{name}_seeded").succeeded()
    freqdp(url, "release", "list").succeeded()
    freqdp(url, "dataset", "show", name).succeeded()
    freqdp(url, "jobs").succeeded()
    freqdp(url, "ledger", "verify").succeeded()


def test_settings_of_a_session_change_nothing(database_url: str, tmp_path: Path) -> None:
    make_points(database_url, "points", POINTS)
    _whole_job(database_url, "plain", tmp_path)
    options = " ".join(f"-c {key}={setting.replace(' ', '')}" for key, setting in ODD.items())
    _whole_job(make_conninfo(database_url, options=options), "odd", tmp_path)
    assert same_rows(database_url, "freqdp_release.plain_seeded", "freqdp_release.odd_seeded")
    assert value(database_url, "SELECT count(DISTINCT fingerprint) FROM freqdp.build") == 1
    assert (tmp_path / "plain.csv").read_bytes() == (tmp_path / "odd.csv").read_bytes()


@pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed")
def test_nothing_is_left_behind_at_a_pooler(database_url: str, tmp_path: Path) -> None:
    """Where a server's connection serves others next, it has its own settings again."""
    make_points(database_url, "points", POINTS)
    database = value(database_url, "SELECT current_database()")
    query(database_url, f'ALTER DATABASE "{database}" SET DateStyle = German')
    query(database_url, f'ALTER DATABASE "{database}" SET search_path = world')
    with pooled(database_url) as url:
        _whole_job(url, "pooled", tmp_path)
        for _ in range(20):
            with psycopg.connect(url) as connection:
                shown = connection.execute("SELECT current_setting('search_path')").fetchone()
                assert shown == ("world",)
