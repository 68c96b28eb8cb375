"""One budget for the same rows, whatever they are called and however they are reached."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import psycopg
import pytest
from synthetic_world import rough_fits
from world import Answer, freqdp, query, serve, value

FLEET = """
CREATE SCHEMA fleet;
CREATE SCHEMA depot;
CREATE TABLE fleet.ping (van int, driver int, at timestamptz, lon float8, lat float8)
    PARTITION BY RANGE (van);
CREATE TABLE fleet.ping_low PARTITION OF fleet.ping FOR VALUES FROM (0) TO (55);
CREATE TABLE fleet.ping_high PARTITION OF fleet.ping FOR VALUES FROM (55) TO (99);
INSERT INTO fleet.ping SELECT i % 60, 100 + i % 60, timestamptz '2024-01-01' + i * interval '10 s',
    4.3 + 0.001 * (i % 37), 50.8 + 0.001 * (i % 41) FROM generate_series(1, 1200) i;
CREATE TABLE fleet.epoch AS SELECT van, extract(epoch FROM at)::bigint AS t, lon, lat FROM fleet.ping;
CREATE TABLE fleet.shift AS SELECT DISTINCT van, at::date AS day FROM fleet.ping;
CREATE TABLE fleet.other AS SELECT van, driver, at, lon, lat FROM fleet.ping;
CREATE VIEW fleet.v AS SELECT van, driver, at, lon, lat FROM fleet.ping;
CREATE TABLE fleet.district (id int, name text, outline geometry);
CREATE VIEW fleet.around AS SELECT id, timestamptz '2024-01-01' AS at, 4.3 AS lon, 50.8 AS lat
    FROM fleet.district;
CREATE TABLE fleet.secret (van int, at timestamptz, lon float8, lat float8);
CREATE VIEW fleet.of_epoch AS SELECT van, to_timestamp(t) AS at, lon, lat FROM fleet.epoch;
"""
_SPENT = "SELECT * FROM freqdp.spend ORDER BY account_id, entry"
PUBLIC = ("--region", "4.2,50.7,4.5,51", "--period", "2024-01-01/2024-01-02")
STRICT = ("--method", "strict", "--epsilon", "4", "--size", "20", "--new-draw")

# How rows that were published once come back: the source then, what is done to it, the source now.
AGAIN = {
    "renamed": ("fleet.ping", "ALTER TABLE fleet.ping RENAME TO pong", "fleet.pong"),
    "moved": ("fleet.other", "ALTER TABLE fleet.other SET SCHEMA depot", "depot.other"),
    "detached": (
        "fleet.ping",
        "ALTER TABLE fleet.ping DETACH PARTITION fleet.ping_low",
        "fleet.ping_low",
    ),
    "dropped view": (
        "fleet.v",
        "DROP VIEW fleet.v; CREATE VIEW fleet.w AS SELECT * FROM fleet.ping",
        "fleet.w",
    ),
    "renamed view": ("fleet.v", "ALTER VIEW fleet.v RENAME TO w", "fleet.w"),
    "joined with a dated table": (
        "fleet.of_epoch",
        "CREATE VIEW fleet.w AS SELECT e.van, to_timestamp(e.t) AS at, e.lon, e.lat "
        "FROM fleet.epoch e JOIN fleet.shift s USING (van)",
        "fleet.w",
    ),
    "made anew": (
        "fleet.other",
        "CREATE TABLE fleet.kept AS TABLE fleet.other; DROP TABLE fleet.other; "
        "CREATE TABLE fleet.other AS TABLE fleet.kept",
        "fleet.other",
    ),
    "renamed, then dropped and made anew": (
        "fleet.other",
        "ALTER TABLE fleet.other RENAME TO kept; CREATE TABLE fleet.other AS TABLE fleet.kept; "
        "DROP TABLE fleet.kept",
        "fleet.other",
    ),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the releases are worth does not matter here."""
    rough_fits(monkeypatch)


def _add(url: str, name: str, source: str, *more: str, object_: str = "van") -> Answer:
    return freqdp(
        url, "dataset", "add", name, "--from", source, "--object", object_, "--time", "at",
        "--lon", "lon", "--lat", "lat", *PUBLIC, *more,
    )  # fmt: skip


def _build(url: str, name: str) -> Answer:
    return freqdp(url, "dataset", "build", name)


def _strict(url: str, name: str) -> Answer:
    return freqdp(url, "anonymize", name, "--method", "lg", *STRICT)


def _not_allowed(url: str, name: str, whose: str, by: str = "") -> None:
    """Nothing is left of the budget for these, and the refusal says whose it is."""
    spent = query(url, _SPENT)
    refused = _strict(url, name).refused(
        f"the budget for {whose} does not allow this (rho): ", f"; spent by {by}"
    )
    assert refused["error"] == "BudgetExceeded"
    assert query(url, _SPENT) == spent


def _publish(url: str, name: str, source: str, *more: str, object_: str = "van") -> Any:
    """Registered, built and released at epsilon 4, which is all of the budget for persons."""
    _add(url, name, source, *more, object_=object_).succeeded()
    _build(url, name).succeeded()
    return _strict(url, name).succeeded()


def _persons(url: str, name: str) -> dict[str, Any]:
    found = freqdp(url, "budget", name).succeeded()
    (persons,) = [b for b in (found, *found["other_units"]) if b["unit"] == "person"]
    return dict(persons)


@pytest.mark.parametrize("way", AGAIN)
def test_the_same_rows_are_not_published_twice(database_url: str, way: str) -> None:
    first, change, second = AGAIN[way]
    query(database_url, FLEET)
    _publish(database_url, "one", first)
    query(database_url, change)
    _add(database_url, "two", second).succeeded()
    _build(database_url, "two").succeeded()
    # it is called by what it was opened for
    _not_allowed(database_url, "two", f"one van (column van of {first})")
    assert value(database_url, "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'") == 1
    freqdp(database_url, "ledger", "verify").succeeded()


@pytest.mark.parametrize("when", ["before its build", "before a worker's build", "after its build"])
def test_a_view_that_was_redefined(database_url: str, when: str) -> None:
    """Two budgets; then the second one's view reads what the first has spent everything on."""
    query(database_url, FLEET)
    query(database_url, "CREATE VIEW fleet.w AS SELECT * FROM fleet.other")
    _add(database_url, "two", "fleet.w").succeeded()
    if when == "after its build":
        _build(database_url, "two").succeeded()
    _publish(database_url, "one", "fleet.ping")
    query(database_url, "CREATE OR REPLACE VIEW fleet.w AS SELECT * FROM fleet.ping")
    builds = query(database_url, "SELECT count(*) FROM freqdp.build")
    if when == "after its build":
        _strict(database_url, "two").refused("another budget")
    elif when == "before its build":
        refused = _build(database_url, "two").refused("fleet.w", "fleet.ping", "another budget")
        assert "--persons" in refused["remedy"]
    else:
        query(
            database_url,
            "SELECT freqdp.request_release('two', 'strict', 4, '{\"rebuild\": true, \"size\": 20}')",
        )
        served = serve(database_url)
        assert (served.done, served.refused, served.failed) == (0, 1, 0)
        assert "another budget" in value(database_url, "SELECT error FROM freqdp.job")
    assert query(database_url, "SELECT count(*) FROM freqdp.build") == builds
    assert value(database_url, "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'") == 1


_OF_A_BUILD = """
CREATE OR REPLACE VIEW fleet.w AS
SELECT t.object_key::int AS van, 0 AS driver, s.at, public.ST_X(l.geom) AS lon, public.ST_Y(l.geom) AS lat
FROM freqdp.sample s JOIN freqdp.trajectory t USING (build_id, trajectory_id)
JOIN freqdp.location l USING (build_id, location_id)
"""


def test_what_freqdp_has_made_is_no_source(database_url: str) -> None:
    """Builds are copies of rows that have a budget, and so are releases."""
    query(database_url, FLEET)
    _publish(database_url, "one", "fleet.ping")
    query(database_url, "CREATE VIEW fleet.w AS SELECT van, driver, at, lon, lat FROM fleet.other")
    _add(database_url, "two", "fleet.w").succeeded()
    query(database_url, _OF_A_BUILD)
    _build(database_url, "two").refused("freqdp has made", "freqdp.location")
    freqdp(database_url, "dataset", "drop", "two").succeeded()
    _add(database_url, "three", "fleet.w").refused("freqdp has made", "freqdp.location")
    freqdp(
        database_url, "dataset", "add", "four", "--from", "freqdp_release.one_1", "--object",
        "trajectory_id", "--time", "sampled_at", "--geom", "geom",
    ).refused("freqdp has made", "freqdp_release.one_1")  # fmt: skip
    assert value(database_url, "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'") == 1


def test_a_build_is_booked_for_what_it_has_read(database_url: str) -> None:
    """The view is put back after the build; the build still has the other table's rows."""
    query(database_url, FLEET)
    query(database_url, "CREATE VIEW fleet.w AS SELECT * FROM fleet.other")
    _add(database_url, "two", "fleet.w").succeeded()
    query(database_url, "CREATE OR REPLACE VIEW fleet.w AS SELECT * FROM fleet.ping")
    _build(database_url, "two").succeeded()
    query(database_url, "CREATE OR REPLACE VIEW fleet.w AS SELECT * FROM fleet.other")
    _strict(database_url, "two").succeeded()
    # ping was met by that build alone
    _add(database_url, "one", "fleet.ping").succeeded()
    _build(database_url, "one").succeeded()
    _not_allowed(database_url, "one", "one van (column van of fleet.w)")


def test_one_budget_for_each_name_across_tables_and_columns(database_url: str) -> None:
    query(database_url, FLEET)
    _publish(database_url, "one", "fleet.ping", "--persons", "drivers", object_="driver")
    added = _add(database_url, "two", "fleet.other", "--persons", "drivers", object_="driver")
    assert added.succeeded()["budget_is_new"] is False
    _build(database_url, "two").succeeded()
    _not_allowed(database_url, "two", "one person of drivers (column driver of fleet.ping)")
    # what else is read from either table is theirs too, named or not
    query(database_url, "ALTER TABLE fleet.other RENAME TO another")
    assert (
        _add(database_url, "three", "fleet.another").succeeded()["budget"]["population"]
        == "drivers"
    )
    shown = freqdp(database_url, "dataset", "show", "three", in_words=True).out
    assert "drivers" in shown


def test_drivers_and_vans_of_one_table_are_two_only_by_name(database_url: str) -> None:
    query(database_url, FLEET)
    _publish(database_url, "one", "fleet.ping", "--persons", "drivers", object_="driver")
    unnamed = _add(database_url, "two", "fleet.ping").succeeded()
    assert not unnamed["budget_is_new"]
    freqdp(database_url, "dataset", "drop", "two").succeeded()
    # the column van has counted for the drivers: it cannot be called otherwise any more
    _add(database_url, "two", "fleet.ping", "--persons", "vans").refused("'van'", "'drivers'")
    query(database_url, "CREATE TABLE fleet.fresh AS TABLE fleet.ping")
    _add(database_url, "three", "fleet.fresh", "--persons", "clerks", object_="driver").succeeded()
    vans = _add(database_url, "four", "fleet.fresh", "--persons", "carts").succeeded()
    assert vans["budget_is_new"]
    (note,) = vans["budget_notes"]
    assert "'clerks'" in note and "fleet.fresh" in note
    for name in ("three", "four"):
        _build(database_url, name).succeeded()
        _strict(database_url, name).succeeded()
    _add(database_url, "five", "fleet.fresh").refused("several budgets", "clerks", "carts")


@pytest.mark.parametrize("persons", [(), ("--persons", "vans")])
def test_another_column_is_not_what_the_budget_is_for(
    database_url: str, persons: tuple[str, ...]
) -> None:
    """A van may have many drivers: what was spent for one of them bounds nothing for the van."""
    query(database_url, FLEET)
    _publish(database_url, "one", "fleet.other", *persons)
    query(database_url, "CREATE VIEW fleet.w AS SELECT van AS cart, at, lon, lat FROM fleet.other")
    for name, source, column in (("two", "fleet.other", "driver"), ("three", "fleet.w", "cart")):
        _add(database_url, name, source, object_=column).succeeded()
        _build(database_url, name).succeeded()
        if persons:
            _not_allowed(database_url, name, "one person of vans (column van of fleet.other)")
        else:
            refused = _strict(database_url, name).refused(f"one {column}", "one van")
            assert "--persons" in refused["remedy"]
            # in SQL at once, not by a worker hours later
            with pytest.raises(psycopg.Error, match=f"for one {column}, and the budget"):
                query(
                    database_url,
                    "SELECT freqdp.request_release(%s, 'strict', 1, '{\"new_draw\": true}')",
                    name,
                )
            assert query(database_url, "SELECT * FROM freqdp.job_queue") == []


# How the rows of one window are those of another: what the two datasets say of the time.
READ_OTHERWISE = {
    "another column": (("--time", "at"), ("--time", "arrived")),
    "another unit of numbers": (
        ("--time", "t", "--time-unit", "s"),
        ("--time", "t", "--time-unit", "ms"),
    ),
    "another clock of local times": (
        ("--time", "local", "--timezone", "Pacific/Honolulu"),
        ("--time", "local", "--timezone", "Pacific/Kiritimati"),
    ),
}
COUNTS = ("--method", "counts", "--epsilon", "4", "--zones", "grid:5km", "--tables", "visits")


@pytest.mark.parametrize("way", READ_OTHERWISE)
def test_times_that_are_read_otherwise_renew_no_budget(database_url: str, way: str) -> None:
    """A window is paid for by its time: the same rows would be paid for in two windows."""
    query(
        database_url,
        "CREATE SCHEMA fleet; CREATE TABLE fleet.ping AS SELECT van, at, at + interval '1 day' AS arrived, "
        "extract(epoch FROM at)::bigint AS t, at AT TIME ZONE 'Pacific/Honolulu' AS local, "
        "4.3 AS lon, 50.8 AS lat FROM generate_series(1, 20) AS van, "
        "generate_series(timestamptz '2024-01-02', '2024-01-05', '1 h') AS at",
    )
    day = "1970-01-20" if way == "another unit of numbers" else "2024-01-04"
    first, second = READ_OTHERWISE[way]
    for name, times, window in (("one", first, "2024-01-03"), ("two", second, day)):
        freqdp(
            database_url, "dataset", "add", name, "--from", "fleet.ping", "--object", "van", *times,
            "--lon", "lon", "--lat", "lat", "--region", "4.2,50.7,4.5,51", "--unit", "person-day",
        ).succeeded()  # fmt: skip
        asked = freqdp(database_url, "anonymize", name, "--window", window, *COUNTS)
        if name == "one":
            asked.succeeded()
    refused = asked.refused("would lie in two windows", "'one_1'")
    assert "reads their times as that one does" in refused["remedy"]
    assert value(database_url, "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'") == 1
    # read as before, it is another window of the same budget
    freqdp(
        database_url, "dataset", "add", "three", "--from", "fleet.ping", "--object", "van", *first,
        "--lon", "lon", "--lat", "lat",
    ).succeeded()  # fmt: skip
    freqdp(database_url, "dataset", "set", "three", "--region", "4.2,50.7,4.5,51").succeeded()
    freqdp(database_url, "anonymize", "three", "--window", "2024-01-03", *COUNTS).refused(
        "does not allow"
    )
    freqdp(database_url, "anonymize", "three", "--window", "2024-01-04", *COUNTS).succeeded()


def test_merging_keeps_the_windows_that_were_paid_for(database_url: str) -> None:
    query(database_url, FLEET)
    for name, source in (("one", "fleet.ping"), ("two", "fleet.other")):
        _add(database_url, name, source, "--unit", "person-day", "--timezone", "UTC").succeeded()
        for day in (1, 2, 3):
            query(
                database_url,
                "SELECT freqdp.append_entry(%s, 'merge', 0.01, NULL, 'as from a window', "
                f"tstzrange('2024-01-0{day}Z', '2024-01-0{day + 1}Z'))",
                _persons(database_url, name)["account_id"],
            )
        freqdp(database_url, "dataset", "set", name, "--persons", "vans").succeeded()
    merged = _persons(database_url, "one")
    assert (Decimal(merged["spent"]), Decimal(merged["together"])) == (
        Decimal("0.02"),
        Decimal("0.06"),
    )
    assert merged["windows"] == 3
    words = freqdp(database_url, "budget", "one", in_words=True).out
    assert "all 3 windows" in " ".join(words.split())
    freqdp(database_url, "ledger", "verify").succeeded()


def test_a_unit_that_comes_with_a_name_is_that_of_the_name(database_url: str) -> None:
    query(database_url, FLEET)
    _add(database_url, "one", "fleet.ping", "--persons", "vans").succeeded()
    _add(database_url, "two", "fleet.other").succeeded()
    told = ("dataset", "set", "two", "--persons", "vans", "--unit", "person-day")
    assert freqdp(database_url, *told).succeeded()["unit"] == "person-day"
    assert freqdp(database_url, "dataset", "show", "one").succeeded()["unit"] == "person-day"


def test_a_view_of_a_named_population_cannot_be_pointed_at_another(database_url: str) -> None:
    query(database_url, FLEET)
    query(database_url, "CREATE VIEW fleet.w AS SELECT * FROM fleet.other")
    _add(database_url, "two", "fleet.w", "--persons", "vans").succeeded()
    _publish(database_url, "one", "fleet.ping", "--persons", "carts")
    query(database_url, "CREATE OR REPLACE VIEW fleet.w AS SELECT * FROM fleet.ping")
    _build(database_url, "two").refused("another budget", "'carts'")


def test_naming_merges_and_loses_no_spend(database_url: str) -> None:
    query(database_url, FLEET)
    for name, source in (("one", "fleet.ping"), ("two", "fleet.other")):
        _publish(database_url, name, source)
    before = {name: _persons(database_url, name) for name in ("one", "two")}
    assert before["one"]["account_id"] != before["two"]["account_id"]
    freqdp(database_url, "dataset", "set", "one", "--persons", "vans").succeeded()
    freqdp(database_url, "dataset", "set", "two", "--persons", "vans").succeeded()
    after = _persons(database_url, "two")
    assert after == _persons(database_url, "one")
    spent = Decimal(before["one"]["spent"]) + Decimal(before["two"]["spent"])
    assert (Decimal(after["spent"]), after["granted"]) == (spent, before["one"]["granted"])
    assert after["population"] == "vans"
    assert [entry["kind"] for entry in after["ledger"]] == ["grant", "spend", "merge"]
    freqdp(database_url, "ledger", "verify").succeeded()
    # neither a new name, nor the name of before, opens another one
    freqdp(database_url, "dataset", "set", "two", "--persons", "carts").succeeded()
    assert _persons(database_url, "one")["spent"] == after["spent"]
    _add(database_url, "three", "fleet.other", "--persons", "vans").refused("'carts'")
    for name in ("one", "two"):
        _not_allowed(
            database_url,
            name,
            "one person of carts (column van of fleet.ping)",
            "a budget that was merged with it (0.311065266006), one_1 (0.311065266006)",
        )


def test_two_budgets_of_one_table_from_before_are_refused_until_named(database_url: str) -> None:
    """As earlier versions opened them: one for the drivers and one for the vans of a table."""
    query(database_url, FLEET)
    _add(database_url, "one", "fleet.ping", object_="driver").succeeded()
    _add(database_url, "two", "fleet.other").succeeded()
    query(database_url, "UPDATE freqdp.dataset SET source_relation = 'ping' WHERE name = 'two'")
    for name in ("one", "two"):
        query(database_url, "INSERT INTO freqdp.population_source SELECT p.population_id, database_key, "
              "relation_oid, source_schema, source_relation, '' FROM freqdp.population_source s, "
              "freqdp.population p WHERE s.source_relation LIKE 'ping%' ON CONFLICT DO NOTHING"
        )  # fmt: skip
        _build(database_url, name).refused("another budget")
    freqdp(database_url, "dataset", "set", "one", "--persons", "drivers").succeeded()
    freqdp(database_url, "dataset", "set", "two", "--persons", "vans").succeeded()
    for name in ("one", "two"):
        _build(database_url, name).succeeded()
        _strict(database_url, name).succeeded()


def test_oids_of_another_database_say_nothing(database_url: str) -> None:
    """A restored database has other OIDs: what is known by them is known by its name only."""
    query(database_url, FLEET)
    _add(database_url, "one", "fleet.ping").succeeded()
    query(
        database_url,
        "UPDATE freqdp.population_source SET database_key = 'elsewhere', "
        "relation_oid = 'fleet.other'::regclass::oid::bigint WHERE source_relation = 'ping'",
    )
    assert _add(database_url, "two", "fleet.other").succeeded()["budget_is_new"]
    assert _add(database_url, "three", "fleet.ping").succeeded()["budget_is_new"] is False


# --- Views, partitions and materialized views share the budget of the tables behind them.


SAME = [
    "CREATE VIEW fleet.s AS SELECT * FROM fleet.ping",
    "CREATE VIEW fleet.s AS SELECT * FROM fleet.v WHERE van > 1",
    "CREATE MATERIALIZED VIEW fleet.s AS SELECT * FROM fleet.ping",
    "CREATE VIEW fleet.s AS SELECT p.* FROM fleet.ping_low p, fleet.district d",
    "CREATE VIEW fleet.s AS SELECT * FROM fleet.other UNION ALL SELECT * FROM fleet.ping",
]


def _budget(answer: Answer) -> tuple[str, bool, Any]:
    said = answer.succeeded()
    account = said["budget"]
    return account["source_relation"], said["budget_is_new"], account["granted"]


@pytest.mark.parametrize(
    ("made", "first"),
    [*((made, "fleet.ping") for made in SAME), *((made, "fleet.s") for made in SAME[-2:])],
)
def test_one_budget_for_what_reads_the_same(database_url: str, made: str, first: str) -> None:
    query(database_url, FLEET)
    query(database_url, made)
    other = "fleet.s" if first == "fleet.ping" else "fleet.ping"
    for name, source, is_new in (("one", first, True), ("two", other, False)):
        added = _add(database_url, name, source, "--budget", "3" if is_new else "9")
        assert _budget(added) == (first[6:], is_new, "3")
    assert freqdp(database_url, "budget", "two").succeeded()["granted"] == "3"


def test_partitions_and_views_of_one_table(database_url: str) -> None:
    query(database_url, FLEET)
    query(database_url, "CREATE VIEW fleet.s AS SELECT van AS who, at, lon, lat FROM fleet.ping")
    for name, column in (("ping_low", "van"), ("ping_high", "van"), ("s", "who")):
        found = _budget(_add(database_url, name, f"fleet.{name}", object_=column))
        assert found[:2] == ("ping_low", name == "ping_low")


def test_views_that_read_one_table_share_its_budget_unless_they_are_named(
    database_url: str,
) -> None:
    """No table is taken for one that is only looked up: the owner says so, by names."""
    query(database_url, FLEET)
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
    query(database_url, FLEET)
    query(database_url, "CREATE VIEW fleet.both AS SELECT * FROM fleet.ping UNION ALL "
          "SELECT * FROM fleet.other")  # fmt: skip
    _add(database_url, "one", "fleet.ping").succeeded()
    _add(database_url, "two", "fleet.other").succeeded()
    refused = _add(database_url, "both", "fleet.both").refused("several budgets", "fleet.other")
    assert "--persons" in refused["remedy"]
    assert len(freqdp(database_url, "dataset", "list").succeeded()) == 2


def test_what_cannot_be_traced_is_said(database_url: str) -> None:
    query(database_url, FLEET)
    _add(database_url, "one", "fleet.ping").succeeded()
    query(database_url, "CREATE TABLE fleet.copy AS SELECT * FROM fleet.ping")
    said = _add(database_url, "copy", "fleet.copy").succeeded()
    assert said["budget_is_new"]
    assert any("fleet.ping" in what for what in said["untraced"])

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
