"""kill -9, at least three times in every phase of a build and of a release."""

from __future__ import annotations

from typing import Any

import pytest
from harness import Driver, gate
from library import opened
from witness import draws, leftovers, require_whole, resumed, scene, sessions, spends
from world import fingerprint, freqdp, query, value, wait_for

from freqdp_db.db import builds

BUILD = ("dataset", "build", "city")
ANONYMIZE = ("anonymize", "city", "--method", "lg")

KEY = r"^CREATE UNIQUE INDEX"
GIST = r"^CREATE INDEX ON .*staging_1 USING gist"
LINE_KEY = r"^ALTER TABLE .*staging_1_line ADD PRIMARY KEY"
LINE_GIST = r"^CREATE INDEX ON .*staging_1_line USING gist"


def _change_source(url: str) -> None:
    """So that the next build is another one than the first."""
    gone = "SELECT n_tup_del FROM pg_stat_all_tables WHERE relid = 'demo.city'::regclass"
    before = value(url, gone)
    query(url, "DELETE FROM demo.city WHERE object_id = (SELECT min(object_id) FROM demo.city)")
    # a session counts what it wrote when it ends, which nobody waits for
    wait_for(lambda: value(url, gone) > before, "the count of deleted rows")


def _next_build_succeeds(url: str, before: int) -> None:
    built = freqdp(url, *BUILD).succeeded()
    assert built["trajectories"] == 39
    assert value(url, "SELECT current_build FROM freqdp.dataset") == built["build_id"] > before
    assert leftovers(url) == []
    # no release needs the first build, so it goes with the leftovers
    assert query(url, "SELECT build_id FROM freqdp.build WHERE dropped_at IS NULL") == [
        (built["build_id"],)
    ]
    assert query(
        url,
        "SELECT count(DISTINCT object_key), count(*) FROM freqdp.trajectory",
    ) == [(39, 39)]


@pytest.mark.parametrize(
    "moment",
    [
        "reading: rows counted",
        "reading: some rows",
        "reading: all rows",
        "writing: amid the samples",
        "writing: amid the segments",
        "writing: all parts",
        "attaching: before",
    ],
)
def test_killed_build_shows_the_old_one(city: str, driver: Driver, moment: str) -> None:
    _change_source(city)
    before = scene(city)
    run = driver.start(city, *BUILD, stop=moment)
    run.reach()
    run.kill()
    assert require_whole(city, before) == before
    if moment in ("writing: all parts", "attaching: before"):
        assert len(leftovers(city)) == 5
    _next_build_succeeds(city, before.current_build)
    assert scene(city).source == before.source


@pytest.mark.parametrize("moment", ["start", "end"])
@pytest.mark.parametrize("part", ["trajectory", "grid_cell"])
def test_killed_build_amid_attaching(city: str, driver: Driver, part: str, moment: str) -> None:
    _change_source(city)
    before = scene(city)
    with gate(city, f"ATTACH PARTITION .*{part}_", moment) as attaching:
        run = driver.start(city, *BUILD)
        attaching.reach(run)
        run.kill()
        assert require_whole(city, before) == before
        attaching.open()
    wait_for(lambda: not sessions(city), "the end of its sessions")
    assert require_whole(city, before) == before
    assert len(leftovers(city)) == 5
    _next_build_succeeds(city, before.current_build)


def test_killed_after_attaching_the_build_is_there(city: str, driver: Driver) -> None:
    _change_source(city)
    before = scene(city)
    run = driver.start(city, *BUILD, stop="attaching: after")
    run.reach()
    run.kill()
    now = require_whole(city, before)
    assert now.current_build > before.current_build
    assert now.views != before.views
    _next_build_succeeds(city, now.current_build)


def test_a_build_attached_while_leftovers_are_looked_for_stays(
    city: str, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep has listed its parts; before it asks for the lock, the build is done."""
    run = driver.start(city, *BUILD, stop="attaching: before")
    run.reach()
    ask = builds.is_free

    def ask_late(*arguments: Any) -> bool:
        if run.marker.exists():
            run.go_on()
            assert run.end() == 0
        return ask(*arguments)

    monkeypatch.setattr(builds, "is_free", ask_late)
    with opened(city) as database:
        swept = builds.sweep_builds(database)
    built = run.document
    assert built["build_id"] not in swept
    samples = "SELECT count(*) FROM freqdp.sample WHERE build_id = %s"
    assert value(city, samples, built["build_id"]) == built["samples"]


def _finish(url: str, number: int) -> None:
    """The same command again, or `release resume`: one spend, the same draws, nothing left over."""
    before = scene(url)
    command = ANONYMIZE if number % 2 else ("release", "resume", "city_1")
    assert resumed(url, *command)["name"] == "city_1"
    spent = spends(url)
    after = require_whole(url, before)
    assert after.catalog == [("city_1",)]
    assert freqdp(url, "ledger", "verify").succeeded()["valid"] is True
    assert freqdp(url, *ANONYMIZE).succeeded()["existed"] is True
    assert spends(url) == spent


# How many sets of draws (the key, the targets of each step) are committed at each moment. Logs are
# written while the work goes on: at that of the first step, the second may have drawn or not.
BEFORE_PUBLISHING: dict[str, int | tuple[int, ...]] = {
    "spent: before the lock": 0,
    "spent: before reading": 0,
    "spent: frequencies": 0,
    "drawn: first": 0,
    "drawn: amid its commit": 0,
    "drawn: second": 2,
    "targets: first": 2,
    "targets: first edits logged": (2, 3),
    "targets: second": 3,
    "copy: first rows": 3,
    "copy: more rows": 3,
    "copy: lines": 3,
    "publish: before verifying": 3,
    "publish: before": 3,
}


@pytest.mark.parametrize("moment", BEFORE_PUBLISHING)
def test_killed_release_is_resumed(city: str, driver: Driver, moment: str) -> None:
    before = scene(city)
    run = driver.start(city, *ANONYMIZE, stop=moment)
    run.reach()
    run.kill()
    assert require_whole(city, before) == before
    expected = BEFORE_PUBLISHING[moment]
    assert len(draws(city)) in (expected if isinstance(expected, tuple) else (expected,))
    _finish(city, list(BEFORE_PUBLISHING).index(moment))


@pytest.mark.parametrize(
    ("number", "pattern", "moment"),
    [
        (1, KEY, "start"),
        (2, KEY, "end"),
        (3, LINE_KEY, "end"),
        (4, GIST, "start"),
        (5, GIST, "end"),
        (6, LINE_GIST, "end"),
        (7, "SET SCHEMA", "start"),
        (8, "SET SCHEMA", "end"),
        (9, "RENAME TO .*city_1_line$", "end"),
    ],
)
def test_killed_inside_a_statement(
    city: str, driver: Driver, number: int, pattern: str, moment: str
) -> None:
    before = scene(city)
    with gate(city, pattern, moment) as waiting:
        run = driver.start(city, *ANONYMIZE)
        waiting.reach(run)
        run.kill()
        assert require_whole(city, before) == before
        # the server is still at the statement of the dead process: the next run gets past it
        waiting.open()
    assert len(draws(city)) == 3
    _finish(city, number)


@pytest.mark.parametrize(
    "moment",
    ["published: still locked", "published: before sweeping", "published: before the answer"],
)
def test_killed_after_publishing_the_release_is_there(
    city: str, driver: Driver, moment: str
) -> None:
    before = scene(city)
    run = driver.start(city, *ANONYMIZE, stop=moment)
    run.reach()
    run.kill()
    (spent,) = spends(city)
    now = require_whole(city, before)
    assert now.catalog == [("city_1",)]
    again = freqdp(city, *ANONYMIZE).succeeded()
    assert (again["name"], again["existed"], again["resumed"]) == ("city_1", True, False)
    assert freqdp(city, "release", "resume", "city_1").code == 1
    assert spends(city) == [spent]
    assert leftovers(city) == []


PUBLIC = ("--region", "4.26,50.79,4.44,50.91", "--period", "2024-03-01/2024-03-20")
METHODS: dict[str, tuple[str, ...]] = {
    "strict": ("--epsilon", "1", "--size", "200"),
    "lg+swap+cut": (),
    "glove": ("--k", "3"),
    "klt": ("--k", "3", "--poi", "demo.poi"),
    "w4m": ("--k", "3"),
}
# before the draw is committed, between draw and work, after the work, and in all that follows
PHASES = (
    "drawn: first",
    "targets: first",
    "targets: first edits logged",
    "copy: first rows",
    "publish: before verifying",
    "publish: before",
)


@pytest.mark.parametrize("method", METHODS)
def test_killed_in_every_phase(city: str, driver: Driver, method: str) -> None:
    """One release, killed once in each: one spend, and what was drawn first is released."""
    command = ("anonymize", "city", "--method", method, *METHODS[method])
    if method == "strict":
        freqdp(city, "dataset", "set", "city", *PUBLIC).succeeded()
    before = scene(city)
    committed: dict[str, object] = {}
    spent: list[object] = []
    for number, moment in enumerate(PHASES):
        run = driver.start(city, *command, stop=moment)
        run.reach()
        run.kill()
        assert require_whole(city, before) == before
        now = draws(city)
        assert {name: now[name] for name in committed} == committed
        assert bool(now) == (number > 0)
        committed = dict(now)
        assert spends(city) == (spent or spends(city))
        spent = list(spends(city))
    resumed(city, *command)
    ((_, amount, _),) = spends(city)
    assert (amount > 0) == (method in ("lg+swap+cut", "strict"))
    assert require_whole(city, before).catalog == [("city_1",)]


@pytest.mark.parametrize("moment", ["reading: rows counted", "reading: some rows"])
def test_writers_go_on_and_are_not_seen(city: str, driver: Driver, moment: str) -> None:
    """A build sees one snapshot and locks nobody out."""
    first = freqdp(city, "dataset", "show", "city").succeeded()["build"]
    run = driver.start(city, "dataset", "build", "city", stop=moment)
    run.reach()
    assert query(
        city,
        "SELECT DISTINCT mode FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
        "WHERE a.application_name = 'freqdp dataset build' AND l.relation = 'demo.city'::regclass "
        "AND a.datname = current_database()",
    ) == [("AccessShareLock",)]
    assert query(
        city,
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'freqdp dataset build' "
        "AND datname = current_database()",
    ) > [(1,)]
    query(city, "UPDATE demo.city SET geom = ST_Translate(geom, 0.01, 0)")
    query(city, "DELETE FROM demo.city WHERE object_id = (SELECT min(object_id) FROM demo.city)")
    query(city, "INSERT INTO demo.city SELECT * FROM demo.city LIMIT 100")
    query(city, "VACUUM ANALYZE demo.city")
    query(city, "CREATE INDEX ON demo.city (object_id)")
    written = fingerprint(city, "demo.city")
    run.go_on()
    assert run.end() == 0, run.err
    # the snapshot is the city as it was; what was written since is for the next build
    assert run.document["fingerprint"] == first["fingerprint"]
    assert run.document["rows"] == first["rows"]
    assert fingerprint(city, "demo.city") == written
    assert freqdp(city, "dataset", "build", "city").succeeded()["trajectories"] == 39
