"""Several schedules of one dataset: each has its releases, its newest and its retention."""

from __future__ import annotations

from pathlib import Path

from servers import SharedServer, clone_of, cloned
from world import freqdp, query, serve, value, withdraw

from freqdp_db.jobs.worker import WorkerStats

LG = ("--method", "lg", "--epsilon", "1", "--signature", "3")
PURE = ("--method", "pure-g", "--epsilon", "0.5", "--signature", "2")


url = clone_of("built")


def _night(url: str) -> WorkerStats:
    """All schedules are due, after the source has changed."""
    query(url, "UPDATE world.points SET at = at + interval '1 day' WHERE object = 'o1'")
    query(
        url, "UPDATE freqdp.schedule SET next_at = now() - interval '1 hour' WHERE ended_at IS NULL"
    )
    return serve(url)


def _shown(url: str, name: str) -> str | None:
    definition = value(url, f"SELECT pg_get_viewdef(to_regclass('freqdp_release.{name}_current'))")
    return None if definition is None else str(definition).split("freqdp_release.")[1].rstrip(";")


def _add(url: str, *options: str) -> None:
    freqdp(url, "schedule", "add", "d", "--at", "@daily", *options).succeeded()


def test_each_has_its_own_newest_and_keeps_its_own(url: str) -> None:
    _add(url, *LG, "--keep", "1")
    _add(url, *PURE, "--name", "open", "--keep", "2")
    before = value(url, "SELECT max(build_id) FROM freqdp.build")
    for night in range(1, 4):
        assert _night(url).done == 2
        # one reading of the source for both
        assert value(url, "SELECT max(build_id) FROM freqdp.build") == before + night
    assert (_shown(url, "d"), _shown(url, "open")) == ("d_3", "open_3")
    assert query(url, "SELECT name, series, state FROM freqdp.release ORDER BY 1") == [
        ("d_1", None, "withdrawn"), ("d_2", None, "withdrawn"), ("d_3", None, "published"),
        ("open_1", "open", "withdrawn"), ("open_2", "open", "published"), ("open_3", "open", "published"),
    ]  # fmt: skip
    assert query(url, "SELECT name, series FROM freqdp_release.catalog ORDER BY 1") == [
        ("d_3", None), ("open_2", "open"), ("open_3", "open"),
    ]  # fmt: skip
    comment = "SELECT obj_description('freqdp_release.open_current'::regclass)"
    assert "dataset d, series open: now open_3" in value(url, comment)
    for relation in ("open_current", "open_current_line"):
        granted = "SELECT has_table_privilege('freqdp_analyst', %s, 'SELECT')"
        assert value(url, granted, f"freqdp_release.{relation}") is True
    # by hand: the dataset's newest, not the series'
    assert freqdp(url, "anonymize", "d", *LG, "--new-draw").succeeded()["name"] == "d_4"
    assert (_shown(url, "d"), _shown(url, "open")) == ("d_4", "open_3")
    withdraw(url, "open_3")
    assert (_shown(url, "d"), _shown(url, "open")) == ("d_4", "open_2")
    withdraw(url, "open_2")
    assert _shown(url, "open") is None
    shown = freqdp(url, "schedule", "list").succeeded()
    assert [(s["name"], s["dataset"]) for s in shown] == [("d", "d"), ("open", "d")]
    assert freqdp(url, "schedule", "drop", "open").succeeded()["name"] == "open"
    assert _night(url).done == 1
    freqdp(url, "ledger", "verify").succeeded()


def test_copies_have_the_same_views(shared_server: SharedServer, url: str) -> None:
    freqdp(url, "anonymize", "d", *LG).succeeded()
    for signature in ("2", "4"):
        made = freqdp(url, "anonymize", "d", *PURE[:-1], signature, "--series", "open").succeeded()
    assert made["name"] == "open_2"
    with cloned(shared_server.get(), shared_server.template(schema=False)) as other:
        publish = ("release", "publish", "--all", "--to", other)
        assert freqdp(url, *publish).succeeded()["copied"] == ["d_1", "open_1", "open_2"]
        assert (_shown(other, "d"), _shown(other, "open")) == ("d_1", "open_2")
        withdraw(url, "open_2")
        freqdp(url, *publish).succeeded()
        assert (_shown(other, "d"), _shown(other, "open")) == ("d_1", "open_1")


def test_an_equal_request_is_answered_in_its_series(url: str) -> None:
    """Who asks for no series takes any release; a series has its own."""
    one = freqdp(url, "anonymize", "d", *LG, "--series", "open").succeeded()
    assert (one["name"], one["existed"]) == ("open_1", False)
    again = freqdp(url, "anonymize", "d", *LG, "--series", "open").succeeded()
    assert (again["name"], again["existed"]) == ("open_1", True)
    assert freqdp(url, "anonymize", "d", *LG).succeeded()["name"] == "open_1"
    assert (
        freqdp(url, "anonymize", "d", *LG, "--series", "closed").succeeded()["name"] == "closed_1"
    )
    assert "series open" in freqdp(url, "release", "show", "open_1", in_words=True).out


def test_windows_of_two_schedules_share_a_build(url: str) -> None:
    first = value(url, "SELECT to_char(min(at) AT TIME ZONE 'UTC', 'YYYY-MM-DD') FROM world.points")
    daily = ("--window", "day", "--since", first)
    _add(url, *LG, *daily)
    _add(url, *PURE, "--name", "open", *daily, "--keep", "1")
    # yesterday alone: all days since would be caught up
    query(url, "UPDATE freqdp.schedule SET next_at = now()")
    query(
        url,
        "UPDATE freqdp.schedule "
        "SET next_window = to_char(now() AT TIME ZONE 'UTC' - interval '1 day', 'YYYY-MM-DD')",
    )
    assert serve(url).done == 2
    assert value(url, "SELECT count(*) FROM freqdp.build WHERE time_window IS NOT NULL") == 1
    assert query(url, "SELECT name, dataset FROM freqdp_release.series ORDER BY 1") == [
        ("d_daily", "d"), ("open", "d"),
    ]  # fmt: skip


def test_requests_in_sql(url: str) -> None:
    ask = "SELECT freqdp.request_release('d', %s, %s::numeric, %s::jsonb)"
    query(url, ask, "lg", 1, '{"series": "open", "keep": 1}')
    assert serve(url).done == 1
    assert _shown(url, "open") == "open_1"
    withdraw(url, "open_1")
    # the same again is the same release
    for options in ('{"series": "open"}', "{}"):
        query(url, ask, "cut", None, options)
        assert serve(url).done == 1
    assert value(url, "SELECT array_agg(DISTINCT release) FROM freqdp.job WHERE job_id > 1") == [
        "open_2"
    ]


def test_schedules_in_a_file(url: str, tmp_path: Path) -> None:
    file = tmp_path / "freqdp.toml"

    def apply(*schedules: str) -> list[str]:
        text = (
            '[datasets.d]\nfrom = "world.points"\nobject = "object"\ntime = "at"\ngeom = "geom"\n'
        )
        file.write_text(text + "".join(schedules))
        return [
            change["what"]
            for change in freqdp(url, "apply", "--file", str(file)).succeeded()["changes"]
        ]

    own = '[datasets.d.schedule]\nat = "0 3 * * *"\nmethod = "lg"\nepsilon = 1\n'
    named = '[datasets.d.schedules.open]\nat = "0 3 * * *"\nmethod = "pure-g"\nepsilon = 0.5\n'
    assert apply(own) == ["schedule lg at 0 3 * * * (UTC)"]
    assert apply(own, named) == ["schedule open: pure-g at 0 3 * * * (UTC)"]
    assert apply(own, named) == []
    assert apply(own.replace("schedule]", "schedules.d]"), named) == []
    assert apply(own, named + "keep = 7\n") == [
        "end schedule 2 open (0 3 * * *, UTC)", "schedule open: pure-g at 0 3 * * * (UTC)",
    ]  # fmt: skip
    assert apply(named + "keep = 7\n") == ["end schedule 1 (0 3 * * *, UTC)"]
