"""Releases in a database for analysts, which has nothing but them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from library import opened
from servers import SharedServer, clone_of, cloned, filled_once
from world import anonymize, as_role, freqdp, query, value, wait_for, withdraw, written

from freqdp_db.db import copying

PARTS = ("", "_line", "_trip")


def _release(url: str) -> None:
    """Releases of all kinds of readers."""
    query(url, "SELECT freqdp.grant_budget(1, 100, 'tests')")
    anonymize(url, "city", "lg", "--signature", "4", "--as", "s")
    anonymize(url, "city", "glove", "--as", "areas")
    anonymize(url, "city", "lg", "--signature", "5", "--as", "kept", "--hold")
    anonymize(url, "city", "lg", "--seed", "7", "--as", "seeded")


published_db = filled_once("published", _release, "city_r_db")
city = clone_of("published_db")


@pytest.fixture
def other(shared_server: SharedServer) -> Iterator[str]:
    """A database with PostGIS and nothing else."""
    with cloned(shared_server.get(), shared_server.template(schema=False)) as url:
        yield url


def _publish(city: str, other: str, *arguments: str) -> dict[str, Any]:
    done: dict[str, Any] = freqdp(city, "release", "publish", "--to", other, *arguments).succeeded()
    return done


def _rows(url: str, relation: str) -> list[Any]:
    return query(url, f"SELECT t::text FROM freqdp_release.{relation} t ORDER BY 1")


def _described(url: str, relation: str) -> list[Any]:
    """Columns, their types and comments; keys and indexes."""
    return query(
        url,
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, "
        "col_description(c.oid, a.attnum), obj_description(c.oid, 'pg_class') "
        "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
        "WHERE a.attnum > 0 AND c.oid = %s::regclass "
        "ORDER BY a.attnum",
        f"freqdp_release.{relation}",
    ) + query(
        url,
        "SELECT pg_get_indexdef(indexrelid), indisprimary FROM pg_index WHERE indrelid = %s::regclass "
        "ORDER BY 1",
        f"freqdp_release.{relation}",
    )


def _names(url: str) -> list[str]:
    return [name for (name,) in query(url, "SELECT name FROM freqdp_release.catalog ORDER BY 1")]


def test_all_that_analysts_may_read_is_copied(city: str, other: str) -> None:
    query(city, "CREATE INDEX by_place ON freqdp_release.r (sampled_at DESC)")
    query(city, "CLUSTER freqdp_release.r USING by_place; DROP INDEX freqdp_release.by_place")
    done = _publish(city, other, "--all")
    assert done == {"copied": ["r", "s", "areas"], "unchanged": [], "removed": [], "waiting": []}
    for name in ("r", "s", "areas", "city_current"):
        for part in PARTS[: 2 if name in ("areas", "city_current") else 3]:
            assert _rows(other, name + part) == _rows(city, name + part)
            assert _described(other, name + part) == _described(city, name + part)
    assert _rows(other, "catalog") == query(
        city, "SELECT c::text FROM freqdp_release.catalog c WHERE granted ORDER BY 1"
    )
    assert _described(other, "catalog") == _described(city, "catalog")
    # rows lie in the order of their key, whatever they did where they come from
    assert value(
        other,
        "SELECT bool_and((trajectory_id, seq) > before) FROM (SELECT trajectory_id, seq, "
        "lag((trajectory_id, seq)) OVER (ORDER BY ctid) AS before FROM freqdp_release.r) r",
    )
    # and nothing else is there
    assert {schema for schema, *_ in written(other)["relations"]} <= {"public", "freqdp_release"}
    with psycopg.connect(as_role(other, "analyst")) as analyst:
        for relation in ("r", "r_line", "r_trip", "city_current", "catalog"):
            assert analyst.execute(f"SELECT 1 FROM freqdp_release.{relation}".encode()).fetchone()
        counted = analyst.execute(
            "SELECT relname FROM pg_stat_all_tables WHERE schemaname = 'freqdp'"
        )
        assert counted.fetchall() == []


def test_what_analysts_do_works_there(city: str, other: str, tmp_path: Path) -> None:
    _publish(city, other, "--all")
    assert [row["name"] for row in freqdp(other, "release", "list").succeeded()] == [
        "r",
        "s",
        "areas",
    ]
    freqdp(other, "release", "show", "r").succeeded()
    freqdp(other, "doctor").succeeded()
    for form in ("csv", "gpkg"):
        out = str(tmp_path / f"r.{form}")
        freqdp(other, "release", "export", "r", "--format", form, "--out", out).succeeded()
    report = str(tmp_path / "r.html")
    freqdp(other, "release", "report", "r", "--public", "--out", report).succeeded()
    freqdp(other, "anonymize", "city", "--method", "lg").refused("no schema")


def test_again_it_changes_nothing(city: str, other: str) -> None:
    _publish(city, other, "--all")
    before = written(other)
    with psycopg.connect(as_role(other, "analyst")) as reader:
        reader.execute("SELECT * FROM freqdp_release.city_current LIMIT 1")
        done = _publish(city, other, "--all")
    assert done == {"copied": [], "unchanged": ["r", "s", "areas"], "removed": [], "waiting": []}
    assert written(other) == before


def test_what_was_withdrawn_goes(city: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "LOCK_TIMEOUT", "100ms")
    _publish(city, other, "--all")
    for name in ("areas", "s"):
        withdraw(city, name)
    freqdp(city, "release", "approve", "kept").succeeded()
    with psycopg.connect(as_role(other, "analyst"), autocommit=True) as keeper:
        keeper.execute("BEGIN")
        keeper.execute("SELECT * FROM freqdp_release.s LIMIT 1")
        done = _publish(city, other, "--all")
        assert (done["copied"], done["removed"]) == (["kept"], ["s", "areas"])
        assert any(what.startswith("s: ") for what in done["waiting"])
        keeper.execute("ROLLBACK")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            keeper.execute("SELECT * FROM freqdp_release.s LIMIT 1")
    assert _names(other) == ["kept", "r"]
    assert _publish(city, other, "--all")["waiting"] == []
    left = query(other, "SELECT relname FROM pg_class WHERE relname ~ '^(s|areas)(_line|_trip)?$'")
    assert left == []
    assert _rows(other, "city_current") == _rows(city, "kept")


def test_another_release_of_the_same_name_replaces_it(city: str, other: str) -> None:
    _publish(city, other, "r")
    assert _names(other) == ["r"]
    withdraw(city, "r")
    anonymize(city, "city", "lg", "--signature", "6", "--as", "r")
    done = _publish(city, other, "r")
    assert (done["copied"], done["removed"], done["waiting"]) == (["r"], ["r"], [])
    assert _rows(other, "r") == _rows(city, "r")


# The last thing that is made of a copy, when all of its rows are there: the connection is lost.
CUT_OFF = """
CREATE FUNCTION cut_off() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
    IF (SELECT count(*) FROM pg_index WHERE indrelid = to_regclass('freqdp_release.r_trip')) < 3 THEN
        RETURN;
    END IF;
    IF (SELECT count(*) = 0 FROM freqdp_release.r_trip) THEN
        RAISE EXCEPTION 'no rows yet';
    END IF;
    PERFORM pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid());
END $$;
CREATE EVENT TRIGGER cut_off ON ddl_command_end WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION cut_off();
"""


def test_a_copy_is_whole_or_not_there(city: str, other: str) -> None:
    query(other, CUT_OFF)
    refused = freqdp(city, "release", "publish", "r", "--to", other).refused("connection is lost")
    assert refused["error"] == "ConnectionFailed"
    assert _names(other) == []
    left = query(
        other,
        "SELECT relname FROM pg_class WHERE relnamespace = 'freqdp_release'::regnamespace "
        "AND relname !~ '^(catalog|series)'",
    )
    assert left == []
    query(other, "DROP EVENT TRIGGER cut_off; DROP FUNCTION cut_off")
    assert _publish(city, other, "r")["copied"] == ["r"]
    for part in PARTS:
        assert _rows(other, "r" + part) == _rows(city, "r" + part)


def test_an_analysts_rights_are_enough_here(city: str, other: str) -> None:
    """Whoever copies reads the release schema alone."""
    analyst = as_role(city, "analyst")
    assert _publish(analyst, other, "--all")["copied"] == ["r", "s", "areas"]


def test_refused(city: str, other: str) -> None:
    before = written(other)
    for arguments, words in (
        (("kept",), "not for analysts"),
        (("seeded",), "not for analysts"),
        (("none",), "no release 'none'"),
        ((), "give the name of a release, or --all"),
        (("r", "--all"), "give the name of a release, or --all"),
    ):
        freqdp(city, "release", "publish", "--to", other, *arguments).refused(words)
    assert written(other) == before


def test_databases_that_are_refused(city: str, other: str) -> None:
    freqdp(city, "release", "publish", "r", "--to", city).refused("has the schema freqdp")
    query(other, "DROP EXTENSION postgis CASCADE")
    freqdp(city, "release", "publish", "r", "--to", other).refused("no PostGIS")
    freqdp(city, "release", "publish", "r", "--to", "my secret").refused("--to is not a connection")


def test_one_session_at_a_time(city: str, other: str) -> None:
    """The second is refused in words, whether the other database is new or known."""
    schema = "CREATE SCHEMA freqdp_release"
    with psycopg.connect(other) as first, ThreadPoolExecutor(1) as pool:
        first.execute(schema)
        second = pool.submit(freqdp, city, "release", "publish", "--to", other, "--all")
        wait_for(
            lambda: value(
                other,
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND wait_event_type = 'Lock'",
            ),
            "a session",
        )
        first.commit()
        second.result().refused("another session is publishing")
    query(other, "DROP SCHEMA freqdp_release")
    _publish(city, other, "r")
    with opened(other) as target, copying.only_publisher(target):
        freqdp(city, "release", "publish", "--to", other, "--all").refused(
            "another session is publishing"
        )
    assert _publish(city, other, "--all")["copied"] == ["s", "areas"]
