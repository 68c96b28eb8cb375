"""Series: a schedule with a window, and one table that grows by a partition each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from servers import SharedServer, cloned
from world import as_role, freqdp, query, serve, value, verify, withdraw

LG = ("--method", "lg", "--epsilon", "1", "--signature", "2")
CUT = ("--method", "lg+cut", "--epsilon", "1", "--signature", "2")
NIGHTLY = ("--at", "0 3 * * *", "--window", "day")
DAYS = ["2024-03-04", "2024-03-05", "2024-03-06", "2024-03-07"]


@pytest.fixture
def city(shared_server: SharedServer, city_db: str) -> Iterator[str]:
    with cloned(shared_server.get(), city_db) as url:
        query(url, "CREATE INDEX ON demo.city (at)")
        yield url


def _named(day: str, series: str = "city_daily") -> str:
    return f"{series}_{day.replace('-', '_')}"


def _windows(url: str, relation: str = "city_daily") -> list[str]:
    found = query(
        url, f"SELECT DISTINCT window_start::text FROM freqdp_release.{relation} ORDER BY 1"
    )
    return [day for (day,) in found]


def _partitions(url: str, relation: str = "city_daily") -> list[str]:
    found = query(
        url,
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass ORDER BY 1",
        f"freqdp_release.{relation}",
    )
    return [name.removeprefix("freqdp_release.") for (name,) in found]


def _as_analyst(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(as_role(url, "analyst"))


def _make(url: str, day: str, *options: str) -> Any:
    asked = ("anonymize", "city", "--window", day, "--series", "city_daily", *(options or LG))
    return freqdp(url, *asked).succeeded()


def test_a_series_is_one_table_with_a_partition_for_each_window(city: str) -> None:
    for day in DAYS[:2]:
        assert _make(city, day)["name"] == _named(day)
    for suffix in ("", "_line", "_trip"):
        assert _partitions(city, f"city_daily{suffix}") == [_named(d) + suffix for d in DAYS[:2]]
        assert _windows(city, f"city_daily{suffix}") == DAYS[:2]
        with _as_analyst(city) as reader:
            (whole,) = reader.execute(
                f"SELECT count(*) FROM freqdp_release.city_daily{suffix}".encode()
            )
            parts = [
                reader.execute(f"SELECT count(*) FROM freqdp_release.{_named(d)}{suffix}".encode())
                for d in DAYS[:2]
            ]
        assert whole[0] == sum(part.fetchone()[0] for part in parts)  # type: ignore[index]
    assert query(
        city, "SELECT name, dataset, every, method, relations FROM freqdp_release.series"
    ) == [("city_daily", "city", "day", "lg", ["city_daily", "city_daily_line", "city_daily_trip"])]
    assert query(city, "SELECT time_window, series FROM freqdp_release.catalog ORDER BY 1") == [
        (day, "city_daily") for day in DAYS[:2]
    ]
    # one partition is read for one window
    plan = query(
        city, "EXPLAIN SELECT * FROM freqdp_release.city_daily WHERE window_start = '2024-03-05'"
    )
    assert "2024_03_04" not in str(plan)
    for day in DAYS[:2]:
        verify(city, _named(day))
        freqdp(city, "evaluate", _named(day)).succeeded()


def test_a_held_window_is_in_no_series_until_it_is_approved(city: str) -> None:
    _make(city, DAYS[0])
    _make(city, DAYS[1], *LG, "--hold")
    assert _partitions(city) == [_named(DAYS[0])]
    verify(city, _named(DAYS[1]))
    freqdp(city, "release", "approve", _named(DAYS[1])).succeeded()
    assert _windows(city) == DAYS[:2]
    # what was never for analysts is not in it either
    _make(city, DAYS[2], *LG, "--seed", "1")
    assert _windows(city) == DAYS[:2]


def test_a_window_is_withdrawn_by_itself(city: str, tmp_path: Path) -> None:
    for day in DAYS[:2]:
        _make(city, day)
    out = tmp_path / "day.csv"
    freqdp(
        city, "release", "export", _named(DAYS[0]), "--format", "csv", "--out", str(out)
    ).succeeded()
    rows = value(city, f"SELECT count(*) FROM freqdp_release.{_named(DAYS[0])}")
    assert len(out.read_text().splitlines()) == rows + 1
    withdraw(city, _named(DAYS[0]))
    assert _partitions(city) == [_named(DAYS[1])]
    assert query(city, "SELECT to_regclass(%s)", f"freqdp_release.{_named(DAYS[0])}") == [(None,)]
    # it can be made again, which costs again
    assert _make(city, DAYS[0])["existed"] is False
    assert _windows(city) == DAYS[:2]


def test_a_reader_puts_off_that_a_window_goes_and_nobody_else_reads_it(city: str) -> None:
    for day in DAYS[:2]:
        _make(city, day)
    with _as_analyst(city) as reader:
        reader.execute("SELECT count(*) FROM freqdp_release.city_daily")
        # publishing waits for no reader
        _make(city, DAYS[2])
        gone = withdraw(city, _named(DAYS[0]))
        assert gone["waits_for"] is not None
        with _as_analyst(city) as other, pytest.raises(psycopg.errors.InsufficientPrivilege):
            other.execute("SELECT FROM freqdp_release.city_daily")
    withdraw(city, _named(DAYS[0]))
    with _as_analyst(city) as reader:
        reader.execute("SELECT FROM freqdp_release.city_daily")
    assert _partitions(city) == [_named(day) for day in DAYS[1:3]]


def test_a_schedule_releases_each_window_once_and_catches_up(city: str) -> None:
    added = freqdp(city, "schedule", "add", "city", *LG, *NIGHTLY).succeeded()
    today = value(city, "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')")
    assert (added["series"], added["next_window"], added["renews"]) == ("city_daily", today, True)
    said = freqdp(city, "schedule", "list", in_words=True).out
    assert "active" in said
    freqdp(city, "schedule", "drop", "city").succeeded()
    # nobody was awake for a month: as many windows wait as have ended
    ago = value(
        city, "SELECT to_char((now() AT TIME ZONE 'UTC') - interval '3 days', 'YYYY-MM-DD')"
    )
    words = freqdp(
        city, "schedule", "add", "city", *LG, *NIGHTLY, "--since", ago, in_words=True
    ).out
    assert f"Each day from {ago} on" in words and "the schedule never runs out" in words
    query(city, "UPDATE freqdp.schedule SET next_at = now() WHERE ended_at IS NULL")
    done = serve(city)
    assert (done.done, done.refused, done.failed) == (3, 0, 0)
    assert len(_partitions(city)) == 3  # without a row: a release too
    assert value(city, "SELECT next_window FROM freqdp.schedule WHERE ended_at IS NULL") == today
    query(city, "UPDATE freqdp.schedule SET next_at = now() WHERE ended_at IS NULL")
    assert serve(city).done == 0
    assert value(city, "SELECT max(spent) FROM freqdp.budget") == 1


def test_a_window_that_cannot_be_released_ends_no_schedule(city: str) -> None:
    """It is refused by itself, with a reason, and the next ones are released."""
    ago = [
        value(
            city,
            "SELECT to_char((now() AT TIME ZONE 'UTC') - %s * interval '1 day', 'YYYY-MM-DD')",
            n,
        )
        for n in (3, 2, 1)
    ]
    for _ in range(4):
        freqdp(city, "anonymize", "city", *LG, "--window", ago[0], "--new-draw").succeeded()
    _make(city, ago[1])
    freqdp(city, "schedule", "add", "city", *LG, *NIGHTLY, "--since", ago[0]).succeeded()
    query(city, "UPDATE freqdp.schedule SET next_at = now()")
    done = serve(city)
    assert (done.done, done.failed) == (1, 0)
    assert query(city, "SELECT options ->> 'window', state FROM freqdp.job ORDER BY 1") == [
        (ago[0], "refused"), (ago[1], "refused"), (ago[2], "done"),
    ]  # fmt: skip
    assert query(city, "SELECT ended_at FROM freqdp.schedule") == [(None,)]


def test_a_schedule_waits_for_a_table_that_is_gone(city: str) -> None:
    """What names a table that is not there is refused at once; a schedule goes on when it is back."""
    freqdp(
        city, "dataset", "set", "city", "--unit", "person-day", "--region", "4.2,50.7,4.5,51.0"
    ).succeeded()
    query(
        city,
        "CREATE TABLE demo.areas AS "
        "SELECT 'west' AS name, ST_MakeEnvelope(4.2, 50.7, 4.35, 51, 4326) AS geom "
        "UNION ALL SELECT 'east', ST_MakeEnvelope(4.35, 50.7, 4.5, 51, 4326)",
    )
    counts = (
        "--method",
        "counts",
        "--epsilon",
        "0.5",
        "--bins",
        "day",
        "--zone",
        "name",
        "--zones",
    )
    freqdp(city, "schedule", "add", "city", *counts, "demo.gone", *NIGHTLY).refused("demo.gone")
    for name in ("demo.gone", "demo.areas; --", "no.such.demo.areas", "elsewhere.demo.areas"):
        with pytest.raises(psycopg.Error, match="there is no table"):
            query(
                city,
                "SELECT freqdp.request_release('city', 'counts', 0.5, "
                "jsonb_build_object('zones', %s::text, 'window', 'yesterday'))",
                name,
            )
    ago = value(
        city, "SELECT to_char((now() AT TIME ZONE 'UTC') - interval '2 days', 'YYYY-MM-DD')"
    )
    freqdp(
        city, "schedule", "add", "city", *counts, "demo.areas", *NIGHTLY, "--since", ago
    ).succeeded()
    query(city, "ALTER TABLE demo.areas RENAME TO areas_2")
    query(city, "UPDATE freqdp.schedule SET next_at = now()")
    assert serve(city).done == 0
    ((state, error),) = query(city, "SELECT state, error FROM freqdp.job")
    assert state == "refused" and "there is no table 'demo.areas'" in error
    assert query(city, "SELECT next_window, ended_at FROM freqdp.schedule") == [(ago, None)]
    query(city, "ALTER TABLE demo.areas_2 RENAME TO areas")
    query(city, "UPDATE freqdp.schedule SET next_at = now()")
    assert serve(city).done == 2
    assert len(_partitions(city, "city_daily_visits")) == 2
    # nor is a second table made under the name of a series
    query(city, "ALTER TABLE freqdp_release.city_daily_visits RENAME TO mine")
    asked = ("anonymize", "city", "--window", DAYS[0], "--series", "city_daily")
    freqdp(city, *asked, *counts, "demo.areas").refused("city_daily_visits", "renamed by hand")


def test_keep_drops_the_oldest_windows_whenever_they_were_made(city: str) -> None:
    for day in (DAYS[2], DAYS[0], DAYS[3], DAYS[1]):
        query(
            city,
            "SELECT freqdp.request_release('city', 'lg', 1, jsonb_build_object('window', %s::text, "
            "'series', 'city_daily', 'keep', 2, 'signature', 2))",
            day,
        )
    assert serve(city).done == 4
    assert _partitions(city) == [_named(DAYS[2]), _named(DAYS[3])]
    assert value(city, "SELECT count(*) FROM freqdp.build WHERE dropped_at IS NULL "
                 "AND time_window IS NOT NULL AND time_window < '2024-03-05'") == 0  # fmt: skip


def test_requests_in_sql(city: str) -> None:
    ask = "SELECT freqdp.request_release('city', 'lg', 1, %s::jsonb)"
    (job,) = query(city, ask, '{"window": "yesterday", "series": "s", "signature": 2}')
    day = value(city, "SELECT options ->> 'window' FROM freqdp.job WHERE job_id = %s", job[0])
    assert day == value(city, "SELECT (now() AT TIME ZONE 'UTC' - interval '1 day')::date::text")
    assert serve(city).done == 1
    assert _partitions(city, "s") == [_named(day, "s")]


def test_schedules_with_windows_in_freqdp_toml(city: str, tmp_path: Path) -> None:
    file = tmp_path / "freqdp.toml"
    file.write_text(
        "[datasets.city]\n"
        'from = "demo.city"\nobject = "object_id"\ntime = "at"\ngeom = "geom"\nunit = "person-day"\n'
        '[datasets.city.schedule]\nat = "0 3 * * *"\nmethod = "lg"\nepsilon = "1"\nwindow = "day"\n'
        "keep = 30\n"
    )
    done = freqdp(city, "apply", "--file", str(file)).succeeded()
    assert {change["what"].split()[0] for change in done["changes"]} == {"set", "schedule"}
    assert value(city, "SELECT request ->> 'series' FROM freqdp.schedule") == "city_daily"
    assert freqdp(city, "dataset", "show", "city").succeeded()["unit"] == "person-day"
    assert freqdp(city, "apply", "--file", str(file)).succeeded()["changes"] == []


def test_a_series_in_the_database_for_analysts(city: str, shared_server: SharedServer) -> None:
    for day in DAYS[:2]:
        _make(city, day)
    with cloned(shared_server.get(), shared_server.template(schema=False)) as other:

        def publish() -> Any:
            return freqdp(city, "release", "publish", "--all", "--to", other).succeeded()

        assert publish()["copied"] == [_named(day) for day in DAYS[:2]]
        for suffix in ("", "_line", "_trip"):
            assert _partitions(other, f"city_daily{suffix}") == _partitions(
                city, f"city_daily{suffix}"
            )
            rows = f"SELECT t::text FROM freqdp_release.city_daily{suffix} AS t ORDER BY 1"
            assert query(other, rows) == query(city, rows)
        listed = "SELECT name, dataset, every, relations, created_at FROM freqdp_release.series"
        assert query(other, listed) == query(city, listed)
        with _as_analyst(other) as reader:
            reader.execute("SELECT FROM freqdp_release.city_daily")
        _make(city, DAYS[2])
        withdraw(city, _named(DAYS[0]))
        done = publish()
        assert (done["copied"], done["removed"]) == ([_named(DAYS[2])], [_named(DAYS[0])])
        assert _partitions(other) == [_named(day) for day in DAYS[1:3]]
        assert publish()["copied"] == []
        with _as_analyst(other) as reader:
            reader.execute("SELECT FROM freqdp_release.city_daily")


def test_a_series_of_counts(city: str) -> None:
    """Tables of another method, whose guarantee is for a person and day; one window has no rows."""
    freqdp(
        city, "dataset", "set", "city", "--unit", "person-day", "--region", "4.2,50.7,4.5,51.0"
    ).succeeded()
    counts = ("--method", "counts", "--epsilon", "0.5", "--zones", "grid:2000m", "--bins", "hour")
    for day in (DAYS[0], "2020-02-29"):
        made = _make(city, day, *counts)
        assert made["guarantee"]["unit"] == "person-day"
        verify(city, made["name"])
    (relations,) = query(city, "SELECT relations FROM freqdp_release.series")[0]
    assert {"city_daily_visits", "city_daily_flows", "city_daily_zone"} <= set(relations)
    assert _windows(city, "city_daily_visits") == ["2020-02-29", DAYS[0]]
    assert value(city, "SELECT remaining > 0 FROM freqdp.budget WHERE unit = 'person'")
