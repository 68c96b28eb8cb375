"""`freqdp evaluate` on a release: what is stored, what may be published, what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from library import opened
from servers import SharedServer, clone_of, cloned, filled_once
from world import anonymize, freqdp, query, value, withdraw, written

from freqdp_db.dataset.memory import load_build
from freqdp_db.db.releases import find_release, load_columns, load_edits
from freqdp_db.evaluation import audit
from freqdp_db.evaluation.evaluate import PUBLISHABLE
from freqdp_db.evaluation.pair import load_case
from freqdp_db.evaluation.report.words import meaning_of
from freqdp_db.methods.frequency.applying import apply_edits, coarsen_times
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.methods.frequency.steps import key_of
from freqdp_db.model.trajectories import PfTargets, TfTargets
from freqdp_db.privacy import accounting as mechanism
from freqdp_db.privacy.noise import SeededSource, scale_for
from freqdp_db.progress import Progress

_STEP = "5min"
_STEP_US = 300_000_000


def _release(url: str) -> None:
    anonymize(url, "city", "lg", "--as", "r", "--time-step", _STEP)


coarse_db = filled_once("coarse", _release, "city_db")
released = clone_of("coarse_db")


def test_the_pair_is_what_the_log_gives(released: str) -> None:
    """The table, read back through the private key, is the replayed trajectories."""
    with opened(released) as database:
        release = find_release(database, "r")
        pair = load_case(database, release, Progress()).pair
        loaded = load_build(database, release.build_id, Progress())
        state = Partition(0, loaded.trajectories, loaded.locations)
        with database.begin() as connection:
            for step, drawn in ((1, PfTargets), (2, TfTargets)):
                of = (connection, release.release_id, step)
                edits = load_edits(*of)
                key = key_of(load_columns(*of, "draw", drawn))
                state = apply_edits(state, edits, loaded.clock, key)
        expected_side = coarsen_times(state.trajectories, _STEP_US)
    for found, expected in (
        (pair.released.offsets, expected_side.offsets),
        (pair.released.location, expected_side.location),
        (pair.released.at, expected_side.at),
    ):
        assert np.array_equal(found, expected)
    assert pair.time_step_us == _STEP_US


@pytest.fixture(scope="module")
def measured(shared_server: SharedServer, coarse_db: str) -> Iterator[tuple[str, Any]]:
    """A database in which the release was measured with roads, and what was said."""
    with cloned(shared_server.get(), coarse_db) as url:
        yield url, freqdp(url, "evaluate", "r", "--roads", "demo.roads").succeeded()


def test_metrics_are_stored_and_marked(measured: tuple[str, Any]) -> None:
    url, document = measured
    unsaid = [name for name in document["metrics"] if meaning_of(name).what == name]
    assert unsaid == [], "every metric has words"
    assert [v["question"][:5] for v in document["verdicts"]] == ["Could", "Is it", "Could"]
    # the same seed measures the same; without roads, what was recovered before stays on record
    again = freqdp(url, "evaluate", "r").succeeded()["metrics"]
    assert again.items() < document["metrics"].items()
    stored = query(url, "SELECT name, value, publishable, seed FROM freqdp.metric")
    assert {name: value for name, value, *_ in stored} == document["metrics"]
    assert {name for name, _, publishable, _ in stored if publishable} == PUBLISHABLE
    assert {seed for *_, seed in stored} == {1}
    shown = query(url, "SELECT release, name, value FROM freqdp.publishable_metric")
    assert {(r, n) for r, n, _ in shown} == {("r", name) for name in PUBLISHABLE}


def test_words_come_before_codes(
    measured: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    shown = freqdp(measured[0], "evaluate", "r", in_words=True)
    assert shown.code == 0
    lines = shown.out.splitlines()
    line = next(line for line in lines if line.endswith(" la"))
    assert line.startswith("linked to the right trajectory by the strongest attacker ")
    # answers first; a row ends where its words do
    assert [line.partition("?")[0] for line in lines[:3]] == [
        "Could someone be found in it",
        "Is it still good for analysis",
        "Could the original be put back together",
    ]
    assert lines[4].split() == ["what", "an", "attacker", "learns", "value", "metric"]
    assert not any(line.endswith(" ") for line in lines)
    assert any(line.startswith("May be published: plausibility.fast, ") for line in lines)
    assert any(re.fullmatch(r"\d+ more metrics: freqdp evaluate \w+ --json", x) for x in lines)
    # one line for each sort of attacker
    attackers = [line.split()[-1] for line in lines if line.startswith("learnt by one ")]
    assert len(attackers) == len({name.split(".")[1] for name in attackers}) < 10
    # no attacker leaves who waits without a line
    waited = (line.split() for line in shown.err.splitlines() if " attackers " in line)
    assert {name: int(count) for name, count, *_ in waited} == {
        "traces": 13,
        "likeness": 14,
        "habits": 1,
        "points": 2,
        "edits": 1,
    }


def test_recovery_over_roads_of_any_tool(measured: tuple[str, Any]) -> None:
    """Ours; and the usual columns of pgRouting, another reference system, one-part multilines."""
    url, document = measured
    ours = document["metrics"]
    precision, recall = ours["recovery.precision"], ours["recovery.recall"]
    assert 0.1 < precision < 1.0
    assert 0.1 < recall < 1.0
    assert ours["recovery.rmf"] == pytest.approx(recall / precision + 1 - 2 * recall)
    assert 0.0 < ours["recovery.accuracy"] < 1.0
    assert ours["recovery.matched"] > 0.9
    query(
        url,
        "CREATE TABLE demo.ways AS SELECT id AS gid, source, target, 1.0 AS cost, "
        "CASE WHEN oneway THEN -1.0 ELSE 1.0 END AS reverse_cost, "
        "ST_Multi(ST_Transform(geom, 3857)) AS the_geom FROM demo.roads",
    )
    theirs = freqdp(url, "evaluate", "r", "--roads", "demo.ways").succeeded()["metrics"]
    for name in ("precision", "recall", "accuracy"):
        assert theirs[f"recovery.{name}"] == pytest.approx(ours[f"recovery.{name}"], abs=0.01)


def test_a_withdrawn_release_shows_and_measures_nothing(
    shared_server: SharedServer, measured: tuple[str, Any]
) -> None:
    with cloned(shared_server.get(), value(measured[0], "SELECT current_database()")) as url:
        withdraw(url, "r")
        assert query(url, "SELECT name FROM freqdp.publishable_metric") == []
        freqdp(url, "evaluate", "r").refused("withdrawn")


def test_match_writes_the_road_of_each_sample(released: str) -> None:
    answer = freqdp(
        released, "match", "city", "--roads", "demo.roads", "--into", "mine.matched"
    ).succeeded()
    assert answer["rows"] > 0.9 * answer["samples"]
    ((rows, known, near),) = query(
        released,
        "SELECT count(*), count(s.location_id), count(*) FILTER (WHERE ST_DWithin(l.geom::geography, "
        "r.geom::geography, 101)) FROM mine.matched m JOIN demo.roads r ON r.id = m.road_id "
        "JOIN freqdp.sample s USING (trajectory_id, seq, at) JOIN freqdp.location l "
        "USING (build_id, location_id)",
    )
    assert rows == known == near == answer["rows"]
    again = ("match", "city", "--roads", "demo.roads", "--into", "mine.matched")
    freqdp(released, *again).refused("mine.matched")
    freqdp(released, *again, "--replace").succeeded()


# --- `freqdp audit` on a city: what it says, and that it writes nothing.


@pytest.fixture
def city(
    shared_server: SharedServer, city_db: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    monkeypatch.setattr(audit, "_WHOLE_RUNS", 10)
    # a bound that may miss once in a thousand audits would miss some day
    monkeypatch.setattr(audit, "SecureSource", lambda: SeededSource(4))
    with cloned(shared_server.get(), city_db) as url:
        yield url


def test_audit(city: str) -> None:
    before = written(city)
    answer = freqdp(city, "audit", "city", "--method", "lg", "--epsilon", "2").succeeded()
    assert written(city) == before
    held = [f for f in answer["findings"] if f["lists"] == "held equal"]
    assert {f["artefact"] for f in held} == {"tf_vector", "pf_vectors"}
    assert all(f["claimed_epsilon"] == "1" and f["within_claim"] for f in held)
    for artefact in ("tf_vector", "pf_vectors"):
        assert max(f["epsilon_at_least"] for f in held if f["artefact"] == artefact) >= 0.6
    table = answer["findings"][-1]
    assert (table["artefact"], table["claimed_epsilon"]) == ("trajectories", None)
    assert table["unbounded"] is True


def test_a_broken_mechanism_is_caught(city: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanism, "scale_for", lambda s, epsilon: scale_for(s, 2 * epsilon))
    answer = freqdp(city, "audit", "city", "--method", "pure-g")
    assert answer.code == 3
    assert answer.document["error"] == "VerificationFailed"
    assert "tf_vector: epsilon is at least" in answer.document["message"]
    assert "PRIVACY.md" in answer.document["remedy"]
