"""What is held: published for curators only, until somebody approves it and its limit allows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from world import anonymize, as_role, freqdp, query, serve, value, verify

from freqdp_db.dataset import memory
from freqdp_db.errors import TooExposed
from freqdp_db.release import pipeline, verification
from freqdp_db.release.approving import Exposure

LITTLE = ("--epsilon", "0.5", "--signature", "3")


def _readable(url: str, relation: str) -> bool:
    with psycopg.connect(as_role(url, "analyst")) as reader:
        try:
            reader.execute(f"SELECT FROM freqdp_release.{relation} LIMIT 1".encode())
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable):
            return False
    return True


def _measured(url: str, name: str, share: float) -> None:
    """As if `evaluate` had found this: what attackers find in so small a city is chance."""
    query(
        url,
        "INSERT INTO freqdp.metric (release_id, name, value, seed) SELECT release_id, m, %s, 1 "
        "FROM freqdp.release, unnest(ARRAY['exposure', 'exposure.x.4', 'exposure.x.4.half']) m "
        "WHERE name = %s",
        share, name,
    )  # fmt: skip


def test_a_held_release_is_for_curators_until_it_is_approved(city: str) -> None:
    held = anonymize(city, "city", "lg", *LITTLE, "--hold")
    assert (held["state"], held["held"], held["readers"]) == ("published", True, "curators (held)")
    assert value(city, "SELECT granted FROM freqdp_release.catalog") is False
    for relation in ("city_1", "city_1_line", "city_current"):
        assert not _readable(city, relation)
    verify(city, "city_1")
    freqdp(city, "release", "report", "city_1", "--public").refused("city_1", "not granted")
    again = anonymize(city, "city", "lg", *LITTLE)
    assert (again["existed"], again["held"]) == (True, True)

    approved = freqdp(city, "release", "approve", "city_1").succeeded()
    assert approved["approved_by"] == value(city, "SELECT session_user::text")
    assert approved["exposure"] is None
    assert value(city, "SELECT granted FROM freqdp_release.catalog") is True
    for relation in ("city_1", "city_1_line", "city_current"):
        assert _readable(city, relation)
    freqdp(city, "release", "approve", "city_1").refused("city_1", "not held")


def test_an_analyst_is_sent_to_a_curator_and_never_given_a_way_round(
    city: str, tmp_path: Path
) -> None:
    anonymize(city, "city", "lg", *LITTLE, "--hold", "--as", "held")
    anonymize(city, "city", "lg", *LITTLE, "--seed", "1", "--as", "seeded")
    analyst = as_role(city, "analyst")
    out = str(tmp_path / "file")
    for command in (("export", "--format", "csv"), ("report", "--public")):
        verb, *options = command
        for name, words, way in (
            ("held", "is held", "ask a curator, who can approve it: freqdp release approve held"),
            ("seeded", "never granted to analysts", "ask a curator for one by another method"),
        ):
            refused = freqdp(analyst, "release", verb, name, *options, "--out", out).refused(
                name, words
            )
            assert way in refused["remedy"]
            assert "GRANT" not in refused["remedy"]
    assert not list(tmp_path.iterdir())
    auditor = as_role(city, "auditor")
    freqdp(city, "release", "approve", "held").succeeded()
    refused = freqdp(auditor, "release", "export", "held", "--format", "csv").refused("held")
    assert "GRANT freqdp_analyst TO" in refused["remedy"]


def test_an_older_release_that_is_approved_does_not_replace_the_newest(city: str) -> None:
    anonymize(city, "city", "lg", *LITTLE, "--hold")
    anonymize(city, "city", "lg", *LITTLE, "--new-draw")
    freqdp(city, "release", "approve", "city_1").succeeded()
    assert "now city_2" in value(
        city, "SELECT obj_description('freqdp_release.city_current'::regclass)"
    )


@pytest.mark.parametrize(
    "older",
    ["UPDATE freqdp.release SET software = '0.3.0'", "UPDATE freqdp.metric SET seed = 2"],
    ids=["by an earlier version", "with another seed"],
)
def test_a_limit_does_not_go_by_a_measurement_of_others(city: str, older: str) -> None:
    anonymize(city, "city", "lg", *LITTLE, "--hold")
    freqdp(city, "dataset", "set", "city", "--max-exposure", "5%").succeeded()
    _measured(city, "city_1", 0.0)
    query(city, f"SET session_replication_role = replica; {older}")
    freqdp(city, "release", "approve", "city_1").refused("city_1", "more than the dataset")


def test_a_limit_holds_every_release_and_approve_measures_it(city: str) -> None:
    limit = freqdp(city, "dataset", "set", "city", "--max-exposure", "5%").succeeded()
    assert limit["max_exposure"] == 0.05
    assert anonymize(city, "city", "lg", *LITTLE)["held"] is True
    refused = freqdp(city, "release", "approve", "city_1").refused(
        "city_1", "more than the dataset"
    )
    assert "--max-exposure" in refused["remedy"]
    # it was measured on the way, and that is what the list shows
    found = value(city, "SELECT value FROM freqdp.metric WHERE name = 'exposure'")
    (row,) = freqdp(city, "release", "list").succeeded()
    assert (row["exposure"], row["held"]) == (found, True)
    assert found > 0.05 and not _readable(city, "city_1")
    freqdp(city, "dataset", "set", "city", "--max-exposure", "100%").succeeded()
    approved = freqdp(city, "release", "approve", "city_1", in_words=True)
    assert approved.code == 0 and "(the limit is 100%)" in approved.out
    assert _readable(city, "city_1")


def test_the_limit_is_for_the_mean_and_for_the_share_of_exposed_persons() -> None:
    Exposure(0.05, 0.05).require_within("r", 0.05, "d")
    for found in (Exposure(0.051, 0.0), Exposure(0.0, 0.051)):
        with pytest.raises(TooExposed, match=r"5\.1%") as refused:
            found.require_within("r", 0.05, "my d")
        assert "freqdp recommend 'my d'" in str(refused.value.remedy)
        assert "freqdp dataset set 'my d' --max-exposure 6%" in str(refused.value.remedy)


def _ask(url: str, options: str = "{}") -> None:
    query(url, "SELECT freqdp.request_release('city', 'lg', 0.5, %s::jsonb || '{\"signature\": 3}')",
          options)  # fmt: skip


def test_jobs_are_approved_within_the_limit_and_refused_above_it(
    city: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    much = {"exposure": 0.9}
    monkeypatch.setattr("freqdp_db.evaluation.evaluate.evaluate", lambda *of, **options: much)
    freqdp(city, "dataset", "set", "city", "--max-exposure", "5%").succeeded()
    _ask(city, '{"keep": 1}')
    assert serve(city).refused == 1
    ((state, error, release),) = query(city, "SELECT state, error, release FROM freqdp.job")
    assert (state, release) == ("refused", "city_1")
    assert "more than the dataset allows (5% of a person)" in error
    assert not _readable(city, "city_1")
    # one that stays within it is granted; the refused one does not count against it
    anonymize(city, "city", "lg", *LITTLE, "--new-draw", "--as", "quiet")
    _measured(city, "quiet", 0.01)
    _ask(city, '{"keep": 1}')  # an equal request: answered by the newest that is there
    assert serve(city).done == 1
    assert _readable(city, "quiet")
    states = query(city, "SELECT name, state, held FROM freqdp.release ORDER BY release_id")
    assert states == [("city_1", "published", True), ("quiet", "published", False)]


def test_a_job_measures_what_it_has_just_verified(
    city: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build is read once, and the method runs twice: when it is made, and when it is verified."""
    calls: list[str] = []

    def counted(module: Any, name: str) -> None:
        real = getattr(module, name)

        def counting(*arguments: Any, **more: Any) -> Any:
            calls.append(name)
            return real(*arguments, **more)

        monkeypatch.setattr(module, name, counting)

    counted(memory, "load_trajectories")
    counted(pipeline, "run_steps")
    counted(verification, "run_steps")
    freqdp(city, "dataset", "set", "city", "--max-exposure", "100%").succeeded()
    _ask(city)
    assert serve(city).done == 1
    assert _readable(city, "city_1") and value(city, "SELECT count(*) FROM freqdp.metric") > 0
    assert sorted(calls) == ["load_trajectories", "run_steps", "run_steps"]


def test_a_job_that_asks_to_be_held_waits_for_a_person(city: str) -> None:
    freqdp(city, "dataset", "set", "city", "--max-exposure", "100%").succeeded()
    _ask(city, '{"hold": true}')
    assert serve(city).done == 1
    assert value(city, "SELECT held FROM freqdp.release") is True
    assert value(city, "SELECT count(*) FROM freqdp.metric") == 0
