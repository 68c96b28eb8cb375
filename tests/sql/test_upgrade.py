"""A database of version 0.3.0, from a dump of one: releases, ledger, jobs and schedules go on.

It was made by that version: 60 objects, releases by lg, gl (seeded), swap and cut (held), strict (two), one
by a job, one withdrawn; a raised budget, a waiting job, a schedule that keeps two.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from installed import check_tables, psql
from library import opened
from servers import SharedServer, clone_of, cloned, filled_once
from world import anonymize, freqdp, query, report, serve, value, verify, withdraw

_DUMP = Path(__file__).parent / "installed_0_3_0.sql.xz"
_LEDGER = "SELECT account_id, entry, kind, amount, hash FROM freqdp.spend ORDER BY spend_id"


def _upgrade(url: str) -> None:
    """The dump restored and upgraded."""
    restore(url)
    before = query(url, _LEDGER)
    first = freqdp(url, "init").succeeded()
    assert (first["changed"], first["created"]) == (True, False)
    assert query(url, _LEDGER) == before
    with opened(url) as database:
        check_tables(database)  # the tables are those of a new installation
    assert freqdp(url, "init").succeeded()["changed"] is False


@pytest.fixture(scope="session")
def postgis_db(shared_server: SharedServer, template_db: str) -> str:
    """Nothing but PostGIS; the other template has made the roles that the dump grants rights to."""
    return shared_server.template(schema=False)


upgraded_db = filled_once("upgraded", _upgrade, "postgis_db")


def restore(url: str) -> None:
    done = psql(url, lzma.decompress(_DUMP.read_bytes()).decode())
    assert done.returncode == 0, done.stderr


upgraded = clone_of("upgraded_db")


def test_releases_verify(upgraded: str) -> None:
    for name in ("frequencies", "swapped", "pieces", "seeded", "by_job"):
        verify(upgraded, name)
        freqdp(upgraded, "release", "show", name).succeeded()
    freqdp(upgraded, "ledger", "verify").succeeded()
    assert query(upgraded, "SELECT name FROM freqdp_release.catalog WHERE granted ORDER BY 1") == [
        ("by_job",),
        ("frequencies",),
        ("made_up",),
        ("made_up_more",),
    ]
    assert query(upgraded, "SELECT name FROM freqdp.release WHERE state = 'withdrawn'") == [
        ("gone",)
    ]


def test_a_release_that_is_called_series_is_in_the_way(shared_server: SharedServer) -> None:
    """The table of that name came later: nothing is upgraded until the release is gone or renamed."""
    revision = "SELECT version_num FROM freqdp.schema_version"
    with cloned(shared_server.get(), shared_server.template(schema=False)) as url:
        restore(url)
        before = query(url, revision)
        query(url, "ALTER TABLE freqdp_release.frequencies RENAME TO series")
        refused = freqdp(url, "init").refused("freqdp_release.series is there")
        assert "freqdp release withdraw series" in refused["remedy"]
        assert query(url, revision) == before
        query(url, "ALTER TABLE freqdp_release.series RENAME TO frequencies")
        freqdp(url, "init").succeeded()


def test_the_script_upgrades_as_init_does(shared_server: SharedServer, upgraded: str) -> None:
    """Also what is computed from the rows that are there."""
    with cloned(shared_server.get(), shared_server.template(schema=False)) as url:
        restore(url)
        script = freqdp(url, "init", "--sql", in_words=True).out
        done = psql(url, script)
        assert done.returncode == 0, done.stderr
        assert freqdp(url, "init").succeeded()["changed"] is False
        for table in ("freqdp.release", "freqdp.step_column", "freqdp_release.catalog"):
            rows = f"SELECT t::text FROM {table} AS t ORDER BY 1"
            assert query(url, rows) == query(upgraded, rows), table


def test_tampering_shows_as_before(upgraded: str) -> None:
    query(upgraded, "UPDATE freqdp_release.frequencies SET at = at + interval '1 s' WHERE seq = 1")
    assert freqdp(upgraded, "release", "verify", "frequencies").code == 3


def test_samples_carry_columns_along_from_the_next_build_on(upgraded: str) -> None:
    query(upgraded, "ALTER TABLE demo.city ADD COLUMN shift int2 NOT NULL DEFAULT 1")
    query(upgraded, "UPDATE demo.city SET shift = 2 WHERE extract(hour FROM at) > 12")
    freqdp(upgraded, "dataset", "set", "city", "--keep-columns", "shift").succeeded()
    cut = ("anonymize", "city", "--method", "cut", "--ends", "1", "--hold", "--as")
    # the build that is there has none, and its samples have no value
    assert value(upgraded, "SELECT count(kept) FROM freqdp.sample") == 0
    freqdp(upgraded, "dataset", "build", "city").succeeded()
    freqdp(upgraded, *cut, "carries").succeeded()
    # the clock of the release moves no time by more than a minute
    wrong = (
        "SELECT count(*) FROM freqdp_release.carries "
        "WHERE shift <> 1 + (extract(hour FROM sampled_at) > 12)::int "
        "AND extract(minute FROM sampled_at) BETWEEN 1 AND 58"
    )
    assert value(upgraded, wrong) == 0
    assert query(upgraded, "SELECT DISTINCT shift FROM freqdp_release.carries ORDER BY 1") == [
        (1,), (2,),
    ]  # fmt: skip
    for name in ("carries", "frequencies", "pieces"):
        freqdp(upgraded, "release", "verify", name).succeeded()


def test_releases_keep_the_column_at(upgraded: str, tmp_path: Path) -> None:
    """Since 0.4.0 it is `sampled_at`. What is read of a release has one name, whichever its table has."""
    columns = (
        "SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute "
        "WHERE attrelid = 'freqdp_release.{}'::regclass AND attnum > 0"
    )
    newest = ["trajectory_id", "seq", "sampled_at", "geom"]
    assert value(upgraded, columns.format("frequencies"))[2] == "at"
    rows = value(upgraded, "SELECT count(*) FROM freqdp_release.frequencies")
    for form in ("csv", "geoparquet", "gpkg", "mfjson"):
        out = tmp_path / f"frequencies.{form}"
        freqdp(
            upgraded, "release", "export", "frequencies", "--format", form, "--out", str(out)
        ).succeeded()
    header, *lines = (tmp_path / "frequencies.csv").read_text("utf-8").splitlines()
    assert (header, len(lines)) == ("trajectory_id,seq,sampled_at,lon,lat", rows)
    report(upgraded, "frequencies", tmp_path, "--public")
    freqdp(upgraded, "evaluate", "frequencies").succeeded()
    # the view over the newest release has another column from the next one on
    query(upgraded, "CREATE VIEW public.mine AS SELECT at FROM freqdp_release.city_current")
    again = ("anonymize", "city", "--method", "lg", "--epsilon", "0.5", "--signature", "4")
    freqdp(upgraded, *again, "--as", "next").refused(
        "city_current has to be dropped", "public.mine"
    )
    query(upgraded, "DROP VIEW public.mine")
    freqdp(upgraded, *again, "--as", "next").succeeded()
    assert value(upgraded, columns.format("city_current")) == newest
    # and back
    withdraw(upgraded, "next")
    assert value(upgraded, columns.format("city_current"))[2] == "at"


def test_synthetic_releases_can_no_longer_be_replayed(upgraded: str) -> None:
    """They were sampled in another way; what can be said of them is said, and they stay."""
    for name in ("made_up", "made_up_more"):
        assert "differentially private" in str(
            freqdp(upgraded, "release", "show", name).succeeded()["guarantee"]
        )
        rows = value(upgraded, f"SELECT count(*) FROM freqdp_release.{name}")
        freqdp(upgraded, "release", "verify", name).refused(
            "drawn by freqdp 0.3.0", f"{rows:,} rows that are on record"
        )
    query(upgraded, "DELETE FROM freqdp_release.made_up WHERE trajectory_id = 1")
    assert freqdp(upgraded, "release", "verify", "made_up").code == 3


def test_budgets_count_what_was_spent_before(upgraded: str) -> None:
    units = query(upgraded, "SELECT unit, spent > 0 FROM freqdp.budget ORDER BY unit")
    assert units == [("occurrence", True), ("person", True)]
    # of epsilon 4 for an object 2.3 are gone: 3 more is too much; the build is of an earlier version
    freqdp(upgraded, "dataset", "build", "city").succeeded()
    strict = ("anonymize", "city", "--method", "strict", "--size", "20", "--every", "10min")
    assert "budget" in freqdp(upgraded, *strict, "--epsilon", "3.9").refused()["error"].lower()
    freqdp(upgraded, *strict, "--epsilon", "0.5", "--as", "new_one").succeeded()
    verify(upgraded, "new_one")
    # the same table under another name
    query(upgraded, "ALTER TABLE demo.city RENAME TO town")
    again = freqdp(
        upgraded, "dataset", "add", "again", "--from", "demo.town", "--object", "object_id",
        "--time", "at", "--geom", "geom",
    ).succeeded()  # fmt: skip
    assert again["budget_is_new"] is False
    freqdp(upgraded, "ledger", "verify").succeeded()


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (("--epsilon", "1", "--signature", "3"), "frequencies"),
        (("--method", "gl", "--epsilon", "0.5", "--signature", "2", "--seed", "7"), "seeded"),
        (("--method", "pure-l", "--epsilon", "0.5", "--signature", "2"), "by_job"),
    ],
)
def test_what_was_answered_is_not_drawn_again(
    upgraded: str, options: tuple[str, ...], answer: str
) -> None:
    spent = query(upgraded, "SELECT spent FROM freqdp.budget")
    found = anonymize(upgraded, "city", "lg", *options)
    assert (found["name"], found["existed"]) == (answer, True)
    assert query(upgraded, "SELECT spent FROM freqdp.budget") == spent


def test_the_waiting_job_and_the_schedule_are_served(upgraded: str) -> None:
    assert query(upgraded, "SELECT name, ended_at FROM freqdp.schedule") == [("city", None)]
    query(upgraded, "UPDATE freqdp.schedule SET next_at = now()")
    served = serve(upgraded)
    assert (served.done, served.refused, served.failed) == (2, 0, 0)
    assert query(upgraded, "SELECT method, state FROM freqdp.job ORDER BY job_id") == [
        ("pure-l", "done"), ("pure-g", "done"), ("lg", "done"),
    ]  # fmt: skip
    freqdp(upgraded, "release", "approve", "swapped").refused()
    for name in ("waiting", "frequencies", "made_up"):
        withdraw(upgraded, name)
    freqdp(upgraded, "ledger", "verify").succeeded()
