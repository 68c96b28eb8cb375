"""`freqdp evaluate` on a release: what is stored, what may be published, what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import psycopg
import pytest
from library import opened
from servers import SharedServer, cloned
from world import city_template, freqdp, query, written

from freqdp_db.dataset.memory import load_build
from freqdp_db.db.draws import load_columns, load_edits
from freqdp_db.db.releases import find_release
from freqdp_db.evaluation import audit
from freqdp_db.evaluation.loading import load_case
from freqdp_db.evaluation.metrics import PUBLISHABLE
from freqdp_db.evaluation.report.words import meaning_of
from freqdp_db.methods.frequency.applying import apply_edits, coarsen_times
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.methods.frequency.steps import key_of
from freqdp_db.model.edits import PfTargets, TfTargets
from freqdp_db.privacy import accounting as mechanism
from freqdp_db.privacy.noise import SeededSource, scale_for
from freqdp_db.progress import Progress

_STEP = "5min"
_STEP_US = 300_000_000


@pytest.fixture(scope="module")
def released_template(shared_server: SharedServer, pytestconfig: pytest.Config) -> Iterator[str]:
    """The name of a database in which the city is released as `r`, with coarse times."""
    with cloned(shared_server.get(), city_template(shared_server, pytestconfig)) as url:
        freqdp(
            url, "anonymize", "city", "--method", "lg", "--as", "r", "--time-step", _STEP
        ).succeeded()
        yield str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


@pytest.fixture
def released(shared_server: SharedServer, released_template: str) -> Iterator[str]:
    with cloned(shared_server.get(), released_template) as url:
        yield url


def test_the_pair_is_what_the_log_gives(released: str) -> None:
    """The table, read back through the private key, is the replayed trajectories."""
    with opened(released) as database:
        release = find_release(database, "r")
        pair = load_case(database, release, Progress()).pair
        loaded = load_build(database, release.build_id, Progress())
        state = Partition(0, loaded.trajectories, loaded.locations)
        with database.begin() as connection:
            for step, drawn in ((1, PfTargets), (2, TfTargets)):
                of = (connection, database, release.release_id, step)
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


def test_metrics_are_stored_and_marked(released: str) -> None:
    document = freqdp(released, "evaluate", "r").succeeded()
    stored = query(released, "SELECT name, value, publishable, seed FROM freqdp.metric")
    assert {name: value for name, value, *_ in stored} == document["metrics"]
    assert {name for name, _, publishable, _ in stored if publishable} == PUBLISHABLE
    assert {seed for *_, seed in stored} == {1}
    shown = query(released, "SELECT release, name, value FROM freqdp.publishable_metric")
    assert {(r, n) for r, n, _ in shown} == {("r", name) for name in PUBLISHABLE}
    assert [v["question"][:5] for v in document["verdicts"]] == ["Could", "Is it", "Could"]
    again = freqdp(released, "evaluate", "r").succeeded()
    assert again["metrics"] == document["metrics"], "the same seed measures the same"
    assert len(query(released, "SELECT name FROM freqdp.metric")) == len(stored)


def test_words_come_before_codes(released: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    measured = freqdp(released, "evaluate", "r", "--roads", "demo.roads").succeeded()["metrics"]
    unsaid = [name for name in measured if meaning_of(name).what == name]
    assert unsaid == [], "every metric has words"
    shown = freqdp(released, "evaluate", "r", in_words=True)
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
        "traces": 15,
        "likeness": 14,
        "habits": 1,
        "points": 1,
        "edits": 1,
    }


def test_a_withdrawn_release_shows_and_measures_nothing(released: str) -> None:
    freqdp(released, "evaluate", "r", "--seed", "2").succeeded()
    freqdp(released, "release", "withdraw", "r").succeeded()
    assert query(released, "SELECT name FROM freqdp.publishable_metric") == []
    freqdp(released, "evaluate", "r").refused("withdrawn")


def test_recovery_over_the_citys_roads(released: str) -> None:
    found = freqdp(released, "evaluate", "r", "--roads", "demo.roads").succeeded()["metrics"]
    precision, recall = found["recovery.precision"], found["recovery.recall"]
    assert 0.1 < precision < 1.0
    assert 0.1 < recall < 1.0
    assert found["recovery.rmf"] == pytest.approx(recall / precision + 1 - 2 * recall)
    assert 0.0 < found["recovery.accuracy"] < 1.0
    assert found["recovery.matched"] > 0.9
    # measured without roads, what was recovered before stays on record
    freqdp(released, "evaluate", "r").succeeded()
    kept = query(released, "SELECT value FROM freqdp.metric WHERE name = 'recovery.f'")
    assert kept == [(found["recovery.f"],)]


def test_roads_of_pgrouting(released: str) -> None:
    """The usual columns of another tool, another reference system, one-part multilines."""
    query(
        released,
        "CREATE TABLE demo.ways AS SELECT id AS gid, source, target, 1.0 AS cost, "
        "CASE WHEN oneway THEN -1.0 ELSE 1.0 END AS reverse_cost, "
        "ST_Multi(ST_Transform(geom, 3857)) AS the_geom FROM demo.roads",
    )
    ours = freqdp(released, "evaluate", "r", "--roads", "demo.roads").succeeded()["metrics"]
    theirs = freqdp(released, "evaluate", "r", "--roads", "demo.ways").succeeded()["metrics"]
    for name in ("precision", "recall", "accuracy"):
        assert theirs[f"recovery.{name}"] == pytest.approx(ours[f"recovery.{name}"], abs=0.01)


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


def test_a_changed_table_is_noticed(released: str) -> None:
    query(released, "UPDATE freqdp_release.r SET trajectory_id = trajectory_id + 1 WHERE seq = 1")
    answer = freqdp(released, "evaluate", "r")
    assert answer.code == 3
    assert query(released, "SELECT name FROM freqdp.metric") == []


# --- `freqdp audit` on a city: what it says, and that it writes nothing.


@pytest.fixture
def city(
    shared_server: SharedServer, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    monkeypatch.setattr(audit, "_WHOLE_RUNS", 10)
    # a bound that may miss once in a thousand audits would miss some day
    monkeypatch.setattr(audit, "SecureSource", lambda: SeededSource(4))
    with cloned(shared_server.get(), city_template(shared_server, pytestconfig)) as url:
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
