"""Attackers over a series: `evaluate SERIES`, the limit on exposure, the report, and one name for all."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import SharedServer, cloned
from world import freqdp, query, report, serve, value, withdraw

CUT = ("--method", "cut")
LG = ("--method", "lg", "--epsilon", "1", "--signature", "2")
COUNTS = ("--method", "counts", "--epsilon", "0.5", "--zones", "grid:2000m", "--bins", "hour")
DAYS = ["2024-03-03", "2024-03-04", "2024-03-05"]
"""The first one has no rows, nor has `EMPTY`."""
EMPTY = "2020-02-29"


@pytest.fixture
def city(shared_server: SharedServer, city_db: str) -> Iterator[str]:
    with cloned(shared_server.get(), city_db) as url:
        query(url, "CREATE INDEX ON demo.city (at)")
        freqdp(
            url, "dataset", "set", "city", "--unit", "person-day", "--region", "4.2,50.7,4.5,51.0"
        ).succeeded()
        yield url


def _named(day: str) -> str:
    return f"city_daily_{day.replace('-', '_')}"


def _make(url: str, day: str, *options: str) -> Any:
    return freqdp(
        url, "anonymize", "city", "--window", day, "--series", "city_daily", *options
    ).succeeded()


def _stored(url: str, day: str) -> dict[str, float]:
    return dict(
        query(
            url,
            "SELECT m.name, m.value FROM freqdp.metric m JOIN freqdp.release r USING (release_id) "
            "WHERE r.name = %s AND m.name LIKE 'series.%%'",
            _named(day),
        )
    )


def test_a_series_is_measured_by_how_many_windows_attackers_have(city: str, tmp_path: Path) -> None:
    for day in (EMPTY, *DAYS):
        _make(city, day, *CUT)
    found = freqdp(city, "evaluate", "city_daily").succeeded()
    assert [row["windows"] for row in found["windows"]] == [1, 2, 4]
    alone = freqdp(city, "evaluate", _named(DAYS[-1])).succeeded()["metrics"]
    assert found["windows"][0]["exposure"] == alone["exposure"] > 0
    assert 0 < found["windows"][-1]["exposure"] <= 1
    # habits need other days, which one window alone does not have
    assert "series.1.exposure.habits" not in found["metrics"]
    assert "series.4.exposure.habits" in found["metrics"]
    # kept with the newest window, and replaced by what is measured next
    assert _stored(city, DAYS[-1]) == found["metrics"]
    withdraw(city, _named(EMPTY))
    again = freqdp(city, "evaluate", "city_daily").succeeded()
    assert set(_stored(city, DAYS[-1])) == set(again["metrics"])
    assert not any(name.startswith("series.4.") for name in again["metrics"])
    assert "windows" in freqdp(city, "evaluate", "city_daily", in_words=True).out
    page = report(city, _named(DAYS[-1]), tmp_path)
    assert "From 3 windows of its series together, an attacker learns" in page
    assert "by how many of the newest windows it has" in page
    assert "series.3.exposure" not in page
    assert "was not measured with this one" in report(city, _named(DAYS[1]), tmp_path)


def test_a_limit_is_for_the_series_with_the_new_window(city: str) -> None:
    """The new night alone is within it, and together with the others it is not."""
    for day in DAYS[:2]:
        _make(city, day, *LG)
    query(city, "UPDATE freqdp.dataset SET max_exposure = 0.00001")
    _make(city, DAYS[2], *LG, "--hold")
    refused = freqdp(city, "release", "approve", _named(DAYS[2]))
    assert refused.code != 0 and "exposes more than the dataset allows" in refused.err
    alone = value(
        city,
        "SELECT value FROM freqdp.metric JOIN freqdp.release USING (release_id) "
        "WHERE release.name = %s AND metric.name = 'exposure'",
        _named(DAYS[2]),
    )
    measured = _stored(city, DAYS[2])
    together = max(measured["series.3.exposure"], measured["series.3.half"])
    # the numbers of the night alone, as if it exposed nothing
    query(
        city,
        "UPDATE freqdp.metric SET value = 0 WHERE (name LIKE 'exposure%%' OR name LIKE '%%.half') "
        "AND release_id = (SELECT release_id FROM freqdp.release WHERE name = %s)",
        _named(DAYS[2]),
    )
    assert alone > 0 and together > 0
    query(city, "UPDATE freqdp.dataset SET max_exposure = %s", together * 0.99)
    refused = freqdp(city, "release", "approve", _named(DAYS[2]))
    assert refused.code != 0
    assert f"{_named(DAYS[2])}' together with 2 more of its series exposes more" in refused.err
    query(city, "UPDATE freqdp.dataset SET max_exposure = %s", min(together * 1.01, 1.0))
    freqdp(city, "release", "approve", _named(DAYS[2])).succeeded()


def test_a_scheduled_window_is_judged_with_its_series(city: str) -> None:
    _make(city, DAYS[2], *CUT)
    query(city, "UPDATE freqdp.dataset SET max_exposure = 1")
    query(
        city,
        "SELECT freqdp.request_release('city', 'cut', NULL, "
        f'\'{{"window": "{DAYS[1]}", "series": "city_daily"}}\')',
    )
    assert serve(city).done == 1
    assert "series.2.exposure" in _stored(city, DAYS[1])


def test_membership_in_counts_adds_up_over_windows(city: str) -> None:
    for day in (*DAYS, EMPTY):
        _make(city, day, *COUNTS)
    found = freqdp(city, "evaluate", "city_daily").succeeded()
    assert [row["windows"] for row in found["windows"]] == [1, 2, 4]
    values = found["metrics"]
    # without noise, three days tell at least as much as two, and nearly all
    plain = [values[f"series.{n}.membership.auc.unprotected"] for n in (1, 4)]
    assert 0.9 < plain[1] <= 1.0 and plain[1] >= plain[0]
    # with noise, no more than the guarantee of all windows together allows; here hardly anything
    assert values["series.4.membership.auc"] < 0.8


def test_a_series_has_one_name(city: str, tmp_path: Path) -> None:
    for day in DAYS[1:]:
        _make(city, day, *CUT)
    shown = freqdp(city, "release", "show", "city_daily").succeeded()
    rows = value(city, "SELECT count(*) FROM freqdp_release.city_daily")
    assert (shown["rows"], shown["time_window"]) == (rows, f"{DAYS[1]} to {DAYS[2]}")
    in_words = freqdp(city, "release", "show", "city_daily", in_words=True).out
    assert "a series" in in_words and "Guarantee of each window" in in_words
    out = tmp_path / "all.csv"
    freqdp(
        city, "release", "export", "city_daily", "--format", "csv", "--out", str(out)
    ).succeeded()
    with out.open() as file:
        found = list(csv.DictReader(file))
    assert len(found) == rows and {row["window_start"] for row in found} == set(DAYS[1:])
    assert (tmp_path / "all_line.csv").exists()
    assert f"all windows from {DAYS[1]}" in (tmp_path / "all.csv.README.txt").read_text()
