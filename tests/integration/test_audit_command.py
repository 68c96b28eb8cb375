"""`freqdp audit` on a city: what it says, and that it writes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers import SharedServer, cloned
from world import city_template, freqdp, written

from freqdp_db.evaluation.audit import audit
from freqdp_db.privacy import accounting as mechanism
from freqdp_db.privacy.noise import SeededSource, scale_for


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
