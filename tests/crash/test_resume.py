"""When an interrupted release must not be continued, and who may be at work on one."""

from __future__ import annotations

import psycopg
import pytest
from harness import Driver
from witness import draws, leftovers, require_whole, scene, spends
from world import freqdp, query, value, wait_for, withdraw

import freqdp_db

ANONYMIZE = ("anonymize", "city", "--method", "lg")


def _killed(url: str, driver: Driver, moment: str) -> None:
    run = driver.start(url, *ANONYMIZE, stop=moment)
    run.reach()
    run.kill()


def _refuses_both_ways(url: str, *words: str) -> None:
    before, committed, spent = scene(url), draws(url), spends(url)
    for command in (ANONYMIZE, ("release", "resume", "city_1")):
        refusal = freqdp(url, *command).refused(*words)
        assert refusal["error"] == "ResumeRefused"
        assert "freqdp release withdraw city_1" in refusal["remedy"]
    assert require_whole(url, before) == before
    assert (draws(url), spends(url)) == (committed, spent)
    assert value(url, "SELECT state FROM freqdp.release") == "running"


def _can_be_given_up(url: str) -> None:
    """The record and the spend stay; the same request is a new draw, under another name."""
    assert withdraw(url, "city_1")["was"] == "running"
    assert leftovers(url) == []
    answer = freqdp(url, *ANONYMIZE).succeeded()
    assert (answer["name"], answer["resumed"]) == ("city_2", False)
    assert len(spends(url)) == 2


def test_other_software(city: str, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    _killed(city, driver, "targets: first")
    with monkeypatch.context() as other:
        other.setattr(freqdp_db, "__version__", "99.0")
        _refuses_both_ways(city, "'city_1'", freqdp_db.__version__, "99.0")
    # with the software that drew them it goes on
    assert freqdp(city, *ANONYMIZE).succeeded()["resumed"] is True


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE freqdp.release_step SET digest = md5('x')",
        "UPDATE freqdp.release_step SET counts = counts - 'deletions'",
        "UPDATE freqdp.release_step SET counts = counts - 'insertions'",
        "UPDATE freqdp.release_step SET drawn = drawn + 1",
        "UPDATE freqdp.pf_target SET target = target + 1 WHERE (trajectory_id, rank) = (7, 1)",
        "DELETE FROM freqdp.pf_target WHERE (trajectory_id, rank) = (7, 1)",
        "UPDATE freqdp.sample SET location_id = 0 WHERE (trajectory_id, seq) = (7, 1)",
    ],
)
def test_what_was_stored_is_not_what_comes_out(city: str, driver: Driver, tampering: str) -> None:
    _killed(city, driver, "targets: first edits logged")
    query(city, tampering)
    _refuses_both_ways(city, "'city_1'", "step 1")
    _can_be_given_up(city)


@pytest.mark.parametrize(
    "tampering",
    [
        "DELETE FROM freqdp.pf_target WHERE (trajectory_id, rank) = (7, 1)",
        "DELETE FROM freqdp.release_key WHERE trajectory_id = 7",
        "DELETE FROM freqdp.release_key",
    ],
)
def test_draws_that_are_no_longer_whole(city: str, driver: Driver, tampering: str) -> None:
    """Also before any edit was recorded that could be compared."""
    _killed(city, driver, "targets: first")
    query(city, tampering)
    _refuses_both_ways(city, "'city_1'")
    _can_be_given_up(city)


def test_second_run_of_a_release_is_refused(city: str, driver: Driver) -> None:
    first = driver.start(city, *ANONYMIZE, stop="holding the release")
    first.reach()
    holder = value(
        city,
        "SELECT p.pid FROM freqdp.lock l JOIN pg_locks p ON p.transactionid = l.xmax AND p.granted "
        "WHERE l.kind = 'release'",
    )
    for command in (("release", "resume", "city_1"), ("release", "withdraw", "city_1")):
        refusal = freqdp(city, *command).refused("'city_1'", str(holder), "freqdp anonymize")
        assert refusal["error"] == "Busy"
    # an equal request is no second run: it waits for the first
    second = driver.start(city, *ANONYMIZE, stop="waiting for another")
    second.reach()
    first.go_on()
    assert first.end() == 0
    second.go_on()
    assert second.end() == 0
    assert first.document["verified"]["rows"] > 0
    assert (second.document["existed"], second.document["resumed"]) == (True, False)
    assert len(spends(city)) == 1


def test_an_equal_request_takes_over_from_a_dead_one(city: str, driver: Driver) -> None:
    first = driver.start(city, *ANONYMIZE, stop="holding the release")
    first.reach()
    second = driver.start(city, *ANONYMIZE, stop="waiting for another")
    second.reach()
    first.kill()
    second.go_on()
    assert second.end() == 0
    assert (second.document["existed"], second.document["resumed"]) == (False, True)
    assert len(spends(city)) == 1


def test_equal_requests_queue_for_the_record(city: str, driver: Driver) -> None:
    """Held up before the first has committed its record, the second finds it."""
    with psycopg.connect(city) as blocker:
        # the ledger writes under this row's lock, in the transaction that makes the record
        blocker.execute("SELECT FROM freqdp.account FOR UPDATE")
        runs = [driver.start(city, *ANONYMIZE) for _ in range(2)]
        wait_for(
            lambda: value(
                city,
                "SELECT count(*) = 2 FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name = 'freqdp anonymize' AND wait_event_type = 'Lock'",
            ),
            "both to wait",
        )
        blocker.rollback()
    assert [run.end() for run in runs] == [0, 0]
    assert query(city, "SELECT name, state FROM freqdp.release") == [("city_1", "published")]
    assert len(spends(city)) == 1


def test_different_requests_at_once(city: str, driver: Driver) -> None:
    """Names are given one after the other, and nobody sweeps what another is writing."""
    methods = ("lg", "gl", "pure-l")
    runs = [driver.start(city, *ANONYMIZE, "--method", method) for method in methods]
    for run in runs:
        assert run.end() == 0, run.err
    assert sorted(run.document["name"] for run in runs) == ["city_1", "city_2", "city_3"]
    assert len(spends(city)) == 3
    assert leftovers(city) == []
    require_whole(city, scene(city))


def test_a_run_in_progress_is_not_swept(city: str, driver: Driver) -> None:
    first = driver.start(city, *ANONYMIZE, stop="publish: verified")
    first.reach()
    assert leftovers(city) == ["staging_1", "staging_1_line", "staging_1_trip"]
    freqdp(city, *ANONYMIZE, "--method", "pure-g").succeeded()
    assert leftovers(city) == ["staging_1", "staging_1_line", "staging_1_trip"]
    first.go_on()
    assert first.end() == 0, first.err
    assert leftovers(city) == []


def test_leftovers_of_another_release_are_swept(city: str, driver: Driver) -> None:
    _killed(city, driver, "publish: verified")
    assert leftovers(city) == ["staging_1", "staging_1_line", "staging_1_trip"]
    freqdp(city, *ANONYMIZE, "--method", "pure-g").succeeded()
    assert leftovers(city) == []
    assert freqdp(city, "release", "resume", "city_1").succeeded()["resumed"] is True


def test_build_is_kept_for_an_unfinished_release(city: str, driver: Driver) -> None:
    """A rebuild between the kill and the resume: the release goes on from its own build."""
    _killed(city, driver, "targets: first")
    query(city, "DELETE FROM demo.city WHERE object_id = (SELECT min(object_id) FROM demo.city)")
    assert freqdp(city, "dataset", "build", "city").succeeded()["build_id"] == 2
    assert query(city, "SELECT build_id FROM freqdp.build WHERE dropped_at IS NULL") == [(1,), (2,)]
    answer = freqdp(city, "release", "resume", "city_1").succeeded()
    assert (answer["build_id"], answer["resumed"]) == (1, True)
    # the same words now mean another request: the data is another
    assert freqdp(city, *ANONYMIZE).succeeded()["name"] == "city_2"
    assert len(spends(city)) == 2
    assert leftovers(city) == []
