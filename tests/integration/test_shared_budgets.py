"""Views, partitions and materialized views share the budget of the tables behind them."""

from __future__ import annotations

from typing import Any

import pytest
from world import Answer, freqdp, query

PINGS = """
CREATE SCHEMA fleet;
CREATE TABLE fleet.ping (van int, at timestamptz, lon float8, lat float8) PARTITION BY LIST (van);
CREATE TABLE fleet.ping_low PARTITION OF fleet.ping FOR VALUES IN (0, 1, 2);
CREATE TABLE fleet.ping_high PARTITION OF fleet.ping FOR VALUES IN (3, 4, 5);
INSERT INTO fleet.ping SELECT i % 6, timestamptz '2024-01-01' + i * interval '1 min',
    4.3 + 0.001 * i, 50.8 + 0.001 * (i % 7) FROM generate_series(1, 60) i;
CREATE TABLE fleet.district (id int, name text, outline geometry);
CREATE VIEW fleet.around AS SELECT id, timestamptz '2024-01-01' AS at, 4.3 AS lon, 50.8 AS lat
    FROM fleet.district;
CREATE TABLE fleet.other (van int, at timestamptz, lon float8, lat float8);
CREATE TABLE fleet.secret (van int, at timestamptz, lon float8, lat float8);
"""
SAME = [
    "CREATE VIEW fleet.s AS SELECT * FROM fleet.ping",
    "CREATE VIEW fleet.v AS SELECT * FROM fleet.ping; "
    "CREATE VIEW fleet.s AS SELECT * FROM fleet.v WHERE van > 1",
    "CREATE MATERIALIZED VIEW fleet.s AS SELECT * FROM fleet.ping",
    "CREATE VIEW fleet.s AS SELECT p.* FROM fleet.ping_low p, fleet.district d",
    "CREATE VIEW fleet.s AS SELECT van, at, lon, lat FROM fleet.other UNION ALL "
    "SELECT * FROM fleet.ping",
]


def _add(url: str, name: str, source: str, *more: str, object_: str = "van") -> Answer:
    return freqdp(
        url, "dataset", "add", name, "--from", source, "--object", object_, "--time", "at",
        "--lon", "lon", "--lat", "lat", *more,
    )  # fmt: skip


def _budget(answer: Answer) -> tuple[str, bool, Any]:
    said = answer.succeeded()
    account = said["budget"]
    return account["source_relation"], said["budget_is_new"], account["granted"]


@pytest.mark.parametrize("made", SAME)
@pytest.mark.parametrize("first", ["fleet.ping", "fleet.s"])
def test_one_budget_for_what_reads_the_same(database_url: str, made: str, first: str) -> None:
    query(database_url, PINGS)
    query(database_url, made)
    other = "fleet.s" if first == "fleet.ping" else "fleet.ping"
    assert _budget(_add(database_url, "one", first, "--budget", "3")) == (first[6:], True, "3")
    assert _budget(_add(database_url, "two", other, "--budget", "9")) == (first[6:], False, "3")
    assert freqdp(database_url, "budget", "two").succeeded()["granted"] == "3"


def test_partitions_and_views_of_one_table(database_url: str) -> None:
    query(database_url, PINGS)
    query(database_url, "CREATE VIEW fleet.v AS SELECT van AS who, at, lon, lat FROM fleet.ping")
    assert _budget(_add(database_url, "low", "fleet.ping_low"))[:2] == ("ping_low", True)
    assert _budget(_add(database_url, "high", "fleet.ping_high"))[:2] == ("ping_low", False)
    assert _budget(_add(database_url, "v", "fleet.v", object_="who"))[:2] == ("ping_low", False)


def test_views_that_read_one_table_share_its_budget_unless_they_are_named(
    database_url: str,
) -> None:
    """No table is taken for one that is only looked up: the owner says so, by names."""
    query(database_url, PINGS)
    for name in ("ping", "other"):
        query(
            database_url,
            f"CREATE VIEW fleet.{name}_in AS SELECT p.* FROM fleet.{name} p, fleet.district d",
        )
    assert _budget(_add(database_url, "one", "fleet.ping_in", "--persons", "vans"))[1]
    assert not _budget(_add(database_url, "shared", "fleet.around", object_="id"))[1]
    cars = _add(database_url, "two", "fleet.other_in", "--persons", "cars").succeeded()
    assert cars["budget_is_new"] and cars["budget"]["population"] == "cars"
    (note,) = cars["budget_notes"]
    assert "'vans'" in note and "fleet.district" in note
    opening = freqdp(database_url, "budget", "two").succeeded()["ledger"][0]["reason"]
    assert "fleet.district" in opening, "the ledger keeps what was declared different"
    assert _budget(_add(database_url, "three", "fleet.ping"))[1] is False
    _add(database_url, "four", "fleet.other_in").refused("several budgets", "vans", "cars")


def test_several_budgets_are_refused(database_url: str) -> None:
    query(database_url, PINGS)
    query(database_url, "CREATE VIEW fleet.both AS SELECT * FROM fleet.ping UNION ALL "
          "SELECT * FROM fleet.other")  # fmt: skip
    _add(database_url, "one", "fleet.ping").succeeded()
    _add(database_url, "two", "fleet.other").succeeded()
    refused = _add(database_url, "both", "fleet.both").refused("several budgets", "fleet.other")
    assert "--persons" in refused["remedy"]
    assert len(freqdp(database_url, "dataset", "list").succeeded()) == 2


def test_what_cannot_be_traced_is_said(database_url: str) -> None:
    query(database_url, PINGS)
    _add(database_url, "one", "fleet.ping").succeeded()
    query(database_url, "CREATE TABLE fleet.copy AS SELECT * FROM fleet.ping")
    said = _add(database_url, "copy", "fleet.copy").succeeded()
    assert said["budget_is_new"]
    assert any("copy of that" in what and "fleet.ping" in what for what in said["untraced"])

    query(database_url, "CREATE FUNCTION fleet.hidden() RETURNS SETOF fleet.secret LANGUAGE plpgsql "
          "AS 'BEGIN RETURN QUERY SELECT * FROM fleet.secret; END'; "
          "CREATE VIEW fleet.f AS SELECT van AS who, at, lon, lat FROM fleet.hidden()")  # fmt: skip
    said = _add(database_url, "f", "fleet.f", object_="who").succeeded()
    assert any("fleet.hidden()" in what for what in said["untraced"])

    query(
        database_url,
        "CREATE EXTENSION postgres_fdw; CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw; "
        "CREATE FOREIGN TABLE fleet.far (car int, at timestamptz, lon float8, lat float8) SERVER far",
    )
    said = _add(database_url, "far", "fleet.far", object_="car").succeeded()
    assert any("foreign table fleet.far" in what for what in said["untraced"])
