"""Windows: units of a person and a time, builds of one window, budgets that renew, claims that say it."""

from __future__ import annotations

import math
from typing import Any

import psycopg
import pytest
from world import freqdp, query, value, verify, withdraw

from freqdp_db.privacy.guarantee import WINDOWS_TOGETHER

REGION = ("--region", "4.2,50.7,4.5,51.0")
STRICT = ("--method", "strict", "--every", "10min", "--size", "20", "--epsilon", "1")
LG = ("--method", "lg", "--epsilon", "1", "--signature", "2")
CUT = ("--method", "cut", "--ends", "1")
MONDAY, TUESDAY, WEDNESDAY = "2024-03-04", "2024-03-05", "2024-03-06"


def _by_day(url: str, unit: str = "person-day") -> None:
    freqdp(url, "dataset", "set", "city", "--unit", unit, *REGION).succeeded()


def _release(url: str, window: str, *options: str) -> Any:
    return freqdp(url, "anonymize", "city", "--window", window, *options).succeeded()


def _epsilon_by_hand(rho: float, delta: float) -> float:
    """zCDP to (epsilon, delta), over a fine grid of orders; Canonne, Kamath and Steinke, Prop. 12."""
    orders = (1 + math.exp(step / 2000) for step in range(-12_000, 20_000))
    return min(
        a * rho + (math.log(1 / delta) + (a - 1) * math.log1p(-1 / a) - math.log(a)) / (a - 1)
        for a in orders
    )


def _rho_by_hand(epsilon: float, delta: float) -> float:
    low, high = 0.0, epsilon
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _epsilon_by_hand(middle, delta) <= epsilon else (low, middle)
    return low


@pytest.mark.parametrize("unit", ["person-day", "person-week", "person-month"])
def test_a_claim_names_its_unit_and_what_many_windows_come_to(city: str, unit: str) -> None:
    _by_day(city, unit)
    stretch = unit.removeprefix("person-")
    said = _release(city, MONDAY, *STRICT)["guarantee"]
    words = f"one object_id and {stretch} (column object_id of demo.city; {stretch}s in UTC)"
    assert said["unit"] == unit and said["object"] == words
    assert (
        f"differentially private for {words} with all its data of that {stretch}" in said["plain"]
    )
    windows = WINDOWS_TOGETHER[stretch]
    together = float(said["together"]["epsilon"])
    by_hand = _epsilon_by_hand(windows * _rho_by_hand(1.0, 1e-6), 1e-6)
    # said to three digits, rounded up, from a rho of six digits, rounded up
    assert by_hand <= together <= by_hand + 0.002
    assert (
        f"all of {windows} {stretch}s that are released so, epsilon {together:g} at"
        in said["plain"]
    )
    assert said["plain"] in value(
        city, "SELECT obj_description('freqdp_release.city_1'::regclass, 'pg_class')"
    )


def test_a_pure_guarantee_adds_up_plainly_where_that_is_less(city: str) -> None:
    _by_day(city, "person-month")
    pure = (*STRICT[:-1], "0.1", "--accounting", "pure")
    assert _release(city, "2024-03", *pure)["guarantee"]["together"]["epsilon"] == "1.2"
    _release(city, "2024-02", *pure)
    said = " ".join(freqdp(city, "budget", "city", in_words=True).out.split())
    assert "in all 2 windows that were released: epsilon 0.2 at delta" in said


def test_the_budget_is_there_again_for_each_window_and_only_once_in_one(city: str) -> None:
    _by_day(city)
    for window in (MONDAY, TUESDAY, WEDNESDAY):
        _release(city, window, *STRICT[:-1], "4")
    refused = freqdp(
        city, "anonymize", "city", "--window", TUESDAY, *STRICT, "--new-draw"
    ).refused()
    assert f"days in UTC) in {TUESDAY} does not allow this" in refused["message"]
    shown = freqdp(city, "budget", "city").succeeded()
    (persons,) = shown["other_units"]
    assert (persons["windows"], persons["stretch"]) == (3, "day")
    rho = float(persons["spent"])
    assert float(persons["together"]) == pytest.approx(3 * rho)
    together = _epsilon_by_hand(3 * rho, 1e-6)
    words = freqdp(city, "budget", "city", in_words=True).out
    epsilon = float(words.split("3 windows that were released: epsilon ")[1].split()[0])
    assert together <= epsilon <= together + 0.002
    freqdp(city, "ledger", "verify").succeeded()


def test_a_window_is_booked_on_the_unit_that_holds_it(city: str) -> None:
    """Also where a unit's clock shows midnight twice, as in Havana, and the window is by another clock."""
    _by_day(city)
    held = 0
    for of_units, of_windows in (
        ("America/Havana", "America/New_York"), ("America/New_York", "America/Havana"),
        ("Asia/Beirut", "Europe/Bucharest"), ("Pacific/Honolulu", "Pacific/Kiritimati"),
        ("Atlantic/Azores", "UTC"),
    ):  # fmt: skip
        query(city, "UPDATE freqdp.population SET timezone = %s", of_units)
        for first in ("2024-03-08", "2024-03-29", "2024-10-26", "2024-11-02"):
            for day in range(4):
                window = ("freqdp.find_window((%s::date + %s)::text, %s)", (first, day, of_windows))
                try:
                    ((holds,),) = query(
                        city,
                        "SELECT units_of @> tstzrange(window_begin, window_end) FROM "
                        f"{window[0]} w, freqdp.units_of(1, 'person', window_begin, window_end)",
                        *window[1],
                    )
                except psycopg.Error as error:
                    assert "does not lie in one of them" in str(error)
                    continue
                assert holds, (of_units, of_windows, first, day)
                held += 1
    assert held > 20


def test_days_of_one_week_add_up_where_the_unit_is_a_week(city: str) -> None:
    _by_day(city, "person-week")
    _release(city, MONDAY, *STRICT[:-1], "4")
    freqdp(city, "anonymize", "city", "--window", TUESDAY, *STRICT).refused("does not allow")
    _release(city, "2024-03-03", *STRICT[:-1], "4")  # the Sunday before


def test_windows_add_up_where_a_person_counts_with_all_data(city: str) -> None:
    freqdp(city, "dataset", "set", "city", *REGION).succeeded()
    said = _release(city, MONDAY, *STRICT[:-1], "4")["guarantee"]
    assert said["unit"] == "person" and "together" not in said
    freqdp(city, "anonymize", "city", "--window", TUESDAY, *STRICT).refused("does not allow")


def test_epsilon_for_an_occurrence_renews_too(city: str) -> None:
    for window in (MONDAY, TUESDAY):
        _release(city, window, "--method", "lg", "--epsilon", "4", "--signature", "2")
        freqdp(city, "anonymize", "city", "--window", window, *LG, "--new-draw").refused(
            f"in {window}"
        )
    freqdp(city, "anonymize", "city", *LG).refused("does not allow")
    freqdp(city, "ledger", "verify").succeeded()


def test_a_changed_window_in_the_ledger_is_found(city: str) -> None:
    _release(city, MONDAY, *LG)
    query(city, "UPDATE freqdp.spend SET during = during + tstzrange(upper(during), upper(during) + "
          "interval '1 day') WHERE during IS NOT NULL")  # fmt: skip
    assert freqdp(city, "ledger", "verify").code == 3


def test_all_windows_together_have_every_row_once(city: str) -> None:
    """Whatever the type of the time: an aware one, a local one, a date, numbers."""
    query(
        city,
        "CREATE SCHEMA w; CREATE TABLE w.t AS SELECT object_id, at AS aware, "
        "at AT TIME ZONE 'Europe/Brussels' AS local, (at AT TIME ZONE 'Europe/Brussels')::date AS day, "
        "extract(epoch FROM at)::float8 AS s, (extract(epoch FROM at) * 1000)::bigint AS ms, geom "
        "FROM demo.city WHERE at IS NOT NULL",
    )
    whole = value(city, "SELECT count(*) FROM w.t")
    by_day = {
        str(day): rows
        for day, rows in query(
            city,
            "SELECT (aware AT TIME ZONE 'Europe/Brussels')::date, count(*) FROM w.t GROUP BY 1",
        )
    }
    assert len(by_day) == 2 and sum(by_day.values()) == whole
    for column, unit in (("aware", None), ("local", None), ("day", None), ("s", "s"), ("ms", "ms")):
        options = () if unit is None else ("--time-unit", unit)
        freqdp(
            city, "dataset", "add", column, "--from", "w.t", "--object", "object_id", "--time", column,
            "--geom", "geom", "--timezone", "Europe/Brussels", *options,
        ).succeeded()  # fmt: skip
        for day, rows in by_day.items():
            built = freqdp(city, "dataset", "build", column, "--window", day).succeeded()
            assert (built["rows"], built["time_window"]) == (rows, day), column
        assert freqdp(city, "dataset", "show", column).succeeded()["current_build"] is None


def test_a_window_is_found_by_an_index_and_its_lack_is_said(city: str) -> None:
    warned = freqdp(city, "dataset", "build", "city", "--window", MONDAY).succeeded()["findings"]
    assert any("CREATE INDEX ON demo.city (at)" in text for text in warned["warnings"])
    query(city, "CREATE VIEW demo.seen AS SELECT * FROM demo.city; CREATE INDEX ON demo.city (at)")
    freqdp(city, "dataset", "add", "seen", "--from", "demo.seen", "--object", "object_id", "--time",
           "at", "--geom", "geom").succeeded()  # fmt: skip
    for name in ("city", "seen"):
        found = freqdp(city, "dataset", "build", name, "--window", MONDAY).succeeded()["findings"]
        assert not any("INDEX" in text for text in found["warnings"])


def test_words_are_read_in_the_zone_of_the_dataset(city: str) -> None:
    """Whatever the time is, these two zones are on different days."""
    for zone in ("Pacific/Kiritimati", "Etc/GMT+12"):
        for word, before, written_as in (
            ("yesterday", "1 day", "YYYY-MM-DD"),
            ("last-week", "7 days", 'IYYY-"W"IW'),
            ("last-month", "1 month", "YYYY-MM"),
        ):
            local = value(
                city,
                "SELECT to_char(date_trunc(%s, now() AT TIME ZONE %s) - %s::interval, %s)",
                before.split()[1].rstrip("s") if word != "last-week" else "week",
                zone, before, written_as,
            )  # fmt: skip
            found = query(
                city, "SELECT time_window, ended FROM freqdp.find_window(%s, %s)", word, zone
            )
            assert found == [(local, True)]
    edges = query(
        city,
        "SELECT window_end - window_begin FROM unnest(ARRAY['2024-03-31', '2024-10-27', '2024-03-30']) "
        "WITH ORDINALITY AS d (day, place), freqdp.find_window(day, 'Europe/Brussels') ORDER BY place",
    )
    # Samoa left out a day
    apia = "SELECT following FROM freqdp.find_window('2011-12-29', 'Pacific/Apia')"
    assert query(city, apia) == [("2011-12-31",)]
    with pytest.raises(psycopg.Error, match="no such day"):
        query(city, apia.replace("29", "30"))
    assert [str(length) for (length,) in edges] == ["23:00:00", "1 day, 1:00:00", "1 day, 0:00:00"]


def test_a_guarantee_for_a_day_does_not_speak_of_other_days(city: str) -> None:
    _by_day(city)
    _release(city, MONDAY, *LG)
    beside = _release(city, MONDAY, *STRICT)
    assert any("true samples of the same objects" in what for what in beside["not_covered"])
    assert _release(city, TUESDAY, *STRICT)["not_covered"] == []


def test_a_window_is_closed_when_it_is_released(city: str) -> None:
    query(city, "CREATE INDEX ON demo.city (at)")
    first = _release(city, MONDAY, *LG)
    query(city, "INSERT INTO demo.city SELECT * FROM demo.city WHERE at >= '2024-03-04 12:00+00' "
          "AND at < '2024-03-04 12:20+00'")  # fmt: skip
    late = value(city, "SELECT count(*) / 2 FROM demo.city WHERE at >= '2024-03-04 12:00+00' "
                 "AND at < '2024-03-04 12:20+00'")  # fmt: skip
    assert late > 0
    again = _release(city, MONDAY, *LG)
    assert (again["name"], again["existed"]) == (first["name"], True)
    plan = freqdp(city, "plan", "city", "--window", MONDAY, *LG)
    assert plan.succeeded()["late_rows"] == late
    # read again, it is other data: a further release, which costs again
    query(city, "UPDATE demo.city SET at = at + interval '1 s' WHERE at = (SELECT max(at) FROM demo.city "
          "WHERE at < '2024-03-04 13:00+00')")  # fmt: skip
    freqdp(city, "dataset", "build", "city", "--window", MONDAY).succeeded()
    further = _release(city, MONDAY, *LG)
    assert (further["existed"], further["name"] != first["name"]) == (False, True)
    assert value(city, "SELECT spent FROM freqdp.budget WHERE unit = 'occurrence'") == 2


@pytest.mark.parametrize("method", ["strict", "gl", "lg+swap+cut", "glove"])
def test_a_window_without_data_is_a_release_too(city: str, method: str) -> None:
    _by_day(city)
    name = _release(city, "2020-02-29", "--method", method)["name"]
    verify(city, name)
    other = _release(city, "2020-03-01", "--method", method)
    assert not other["existed"]


def test_current_views_show_no_window(city: str) -> None:
    _release(city, MONDAY, *LG)
    assert query(city, "SELECT to_regclass('freqdp_release.city_current')") == [(None,)]
    freqdp(city, "anonymize", "city", *LG).succeeded()
    _release(city, TUESDAY, *LG)
    assert "now city_2," in value(
        city, "SELECT obj_description('freqdp_release.city_current'::regclass, 'pg_class')"
    )


def test_builds_of_windows_are_swept(city: str) -> None:
    for window in (MONDAY, TUESDAY, WEDNESDAY):
        freqdp(city, "plan", "city", "--window", window, *LG).succeeded()
    live = "SELECT time_window FROM freqdp.build WHERE dropped_at IS NULL ORDER BY 1"
    assert query(city, live) == [(WEDNESDAY,), (None,)]
    name = _release(city, MONDAY, *LG)["name"]
    freqdp(city, "plan", "city", "--window", TUESDAY, *LG).succeeded()
    assert query(city, live) == [(MONDAY,), (TUESDAY,), (None,)]
    withdraw(city, name)
    assert query(city, live) == [(TUESDAY,), (None,)]
