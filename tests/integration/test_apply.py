"""`freqdp apply`: what a file says comes about, once, and `--plan` only shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from world import freqdp, query, written

CITY = """
[datasets.city]
from = "demo.city"
object = "object_id"
time = "at"
geom = "geom"
"""
MORE = """
[datasets.town]
from = "demo.city"
object = "object_id"
time = "at"
geom = "geom"
snap = "grid:200"
where = "at < '2030-01-01'"
timezone = "Europe/Brussels"
budget = 4
region = "4.2,50.7,4.5,51.0"
period = "2024-03-01/2024-03-09"
max_exposure = "5%"

[datasets.town.schedule]
at = "0 3 * * *"
method = "lg+swap"
epsilon = 0.5
time_step = "60s"
keep = 7
"""


def _apply(url: str, folder: Path, text: str, *options: str) -> Any:
    file = folder / "freqdp.toml"
    file.write_text(text)
    return freqdp(url, "apply", "--file", str(file), *options)


def test_it_comes_about_once(city: str, tmp_path: Path) -> None:
    before = written(city)
    planned = _apply(city, tmp_path, CITY + MORE, "--plan").succeeded()
    assert planned["applied"] is False
    assert [c["what"].split()[0] for c in planned["changes"]] == ["add", "schedule"]
    assert written(city) == before

    done = _apply(city, tmp_path, CITY + MORE).succeeded()
    assert (done["applied"], done["changes"]) == (True, planned["changes"])
    town = freqdp(city, "dataset", "show", "town").succeeded()
    assert (town["snap"], town["max_exposure"]) == ("grid:200", 0.05)
    assert town["region"] == "4.2,50.7,4.5,51"
    (row,) = query(
        city,
        "SELECT cron, timezone, request ->> 'method', request ->> 'keep', request ->> 'time_step' "
        "FROM freqdp.schedule",
    )
    assert row == ("0 3 * * *", "Europe/Brussels", "lg+swap", "7", "60")

    now = written(city)
    assert _apply(city, tmp_path, CITY + MORE).succeeded()["changes"] == []
    assert written(city) == now


def test_what_the_file_changes_is_changed_and_nothing_else(city: str, tmp_path: Path) -> None:
    _apply(city, tmp_path, CITY + MORE).succeeded()
    other = (
        MORE.replace('"5%"', '"none"').replace("budget = 4", "budget = 4.5")
        .replace("keep = 7", "keep = 8").replace("2024-03-09", "2024-03-10")
    )  # fmt: skip
    changes = _apply(city, tmp_path, other).succeeded()
    assert changes["not_in_file"] == ["city"]
    said = [c["what"] for c in changes["changes"]]
    assert [text.partition(" (")[0] for text in said] == [
        "set period to 2024-03-01/2024-03-10",
        "set max_exposure to none",
        "raise the budget by 0.5 to 4.5",
        "end schedule 1",
        "schedule lg+swap at 0 3 * * *",
    ]
    assert _apply(city, tmp_path, other).succeeded()["changes"] == []
    # a schedule that the file no longer has ends; its dataset stays
    ended = _apply(city, tmp_path, other.partition("[datasets.town.schedule]")[0]).succeeded()
    assert [c["what"].split()[0] for c in ended["changes"]] == ["end"]
    assert query(city, "SELECT count(*) FROM freqdp.schedule WHERE ended_at IS NULL") == [(0,)]


NIGHTLY = "[datasets.city.schedule]\nat = '@daily'\nmethod = 'lg'\n"
FLEET = """
[datasets.fleet]
from = "demo.Fleet"
object = "o"
time = "at"
x = "X"
y = "yy"
srid = 32631
"""


def test_columns_of_projected_numbers_are_compared_too(city: str, tmp_path: Path) -> None:
    query(city, 'CREATE TABLE demo."Fleet" (o text, at timestamptz, "X" float8, yy float8)')
    query(city, "CREATE TABLE demo.fleet (o text, at timestamptz, x float8, yy float8)")
    _apply(city, tmp_path, FLEET).succeeded()
    same = FLEET.replace('"X"', "'\"X\"'").replace('"yy"', '"YY"')
    for text in (FLEET, same, FLEET.replace("demo.Fleet", 'demo.\\"Fleet\\"')):
        assert _apply(city, tmp_path, text).succeeded()["changes"] == []


def test_populations_are_named_once(city: str, tmp_path: Path) -> None:
    named = CITY + 'persons = "citizens"\n'
    done = _apply(city, tmp_path, named).succeeded()
    assert [c["what"] for c in done["changes"]] == ["set persons to citizens (was not set)"]
    assert _apply(city, tmp_path, named).succeeded()["changes"] == []
    town = (
        named
        + MORE.replace("budget = 4\n", 'persons = "citizens"\n').split(
            "\n[datasets.town.schedule]"
        )[0]
    )
    _apply(city, tmp_path, town).succeeded()
    shown = freqdp(city, "dataset", "show", "town").succeeded()["budget"]
    assert (shown["population"], shown["granted"]) == ("citizens", "4")


def test_a_schedule_of_unlinked_releases_is_told_what_it_needs(city: str, tmp_path: Path) -> None:
    """From the second night on each would be refused beside the one before."""
    nightly = CITY + "[datasets.city.schedule]\nat = '@daily'\nmethod = 'cut'\n"
    (change,) = _apply(city, tmp_path, nightly, "--plan").succeeded()["changes"]
    assert "keep = 1" in change["note"]
    (change,) = _apply(city, tmp_path, nightly + "keep = 1\n").succeeded()["changes"]
    assert change["note"] is None
