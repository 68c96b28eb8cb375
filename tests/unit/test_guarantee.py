"""The guarantee says what may be claimed, in every method, and no more."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from freqdp_db.errors import VerificationFailed
from freqdp_db.evaluation.audit import Audit, AuditFinding
from freqdp_db.methods.frequency.perturbation import pf_mechanism, tf_mechanism
from freqdp_db.methods.registry import METHODS
from freqdp_db.privacy.accounting import (
    best_guess_pure,
    epsilon_of,
    percent_at_most,
    rounded_down,
    rounded_up,
)
from freqdp_db.privacy.guarantee import SAME_DATABASE, ProtectedUnit
from freqdp_db.release.budgets import in_words
from freqdp_db.release.request import Request

BIKE = ProtectedUnit("bike", "fleet.ride")
SHARES = {"epsilon_global": "0.25", "epsilon_local": "0.75"}

_NEEDED = {
    "strict": {"region": "4,50,5,51", "period": "2024-01-01/2024-02-01"},
    "klt": {"poi": "demo.poi", "category": "kind"},
}


def made(name: str, seed: int | None = None) -> dict[str, Any]:
    known = {p.name for p in METHODS[name].parameters}
    given = {share: value for share, value in SHARES.items() if share in known}
    return Request.parse(name, seed=seed, **given).guarantee(BIKE)


def test_every_release_says_what_a_login_beside_it_can_see() -> None:
    for method in METHODS:
        assert SAME_DATABASE in made(method)["not_protected"]


def test_seeded_noise_accounts_for_nothing() -> None:
    """Whoever knows the seed subtracts the noise: what is claimed otherwise does not hold then."""
    for name in ("lg", "strict", "adatrace"):
        document = made(name, seed=7)
        assert "Nothing is guaranteed. Without the seed this would hold: " in document["plain"]
        for artefact in document["artefacts"].values():
            assert artefact["accounted_epsilon"] is None
    assert "would hold" not in made("swap", seed=7)["plain"]


@pytest.mark.parametrize("name", METHODS)
def test_no_method_speaks_of_persons_by_itself(name: str) -> None:
    request = Request.parse(name, **_NEEDED.get(name, {}))
    document = {**request.guarantee(BIKE), "unit": None}
    assert "person" not in json.dumps(document)
    assert document["object"] == "one bike (column bike of fleet.ride)"
    assert "person" not in request.method.summary


@pytest.mark.parametrize("millionths", [1, 7, 88_152, 311_065, 1_999_999, 2_000_000, 9 * 10**6])
def test_no_upper_bound_is_said_smaller_than_it_is(millionths: int) -> None:
    rho = Fraction(millionths, 10**6)
    said = in_words(BIKE, Decimal(millionths) / 10**6)
    numbers = [Fraction(n) for n in re.findall(r"(?:epsilon|more than) (\d+(?:\.\d+)?)", said)]
    epsilon, there, which, two = numbers
    assert epsilon >= epsilon_of(rho, Fraction(1, 10**6))
    assert two >= epsilon_of(4 * rho, Fraction(1, 10**6))
    # squared, so that nothing is rounded: p <= (1 + sqrt(rho / 2)) / 2
    for percent, cost in ((there, rho), (which, 2 * rho)):
        assert percent == 100 or (2 * percent / 100 - 1) ** 2 >= cost / 2


def test_an_audit_says_no_more_than_it_found() -> None:
    """A lower bound is rounded down, and compared with the whole claim."""
    found = AuditFinding(
        "noisy_vectors", "none", "- 1 object", "0.7399999", 0.7399996, (0.7, 1), 9, False
    )
    audit = Audit("d", Request.parse("strict"), BIKE, [found])
    assert audit.rows()[0][4] == "0.739" and found.within_claim is True
    assert audit.document()["object"] == "one bike (column bike of fleet.ride)"
    with pytest.raises(VerificationFailed, match=r"epsilon is at least 0\.739 for - 1 object"):
        replace(audit, findings=[replace(found, claimed_epsilon="0.5")]).require_within_claims()


def test_bounds_are_rounded_to_the_safe_side() -> None:
    third = Fraction(1, 3)
    assert (rounded_up(third), rounded_down(third)) == ("0.334", "0.333")
    assert (rounded_up(Fraction(1, 2)), rounded_down(Decimal("2.000"))) == ("0.5", "2")
    # as a float of six figures it would be 123457
    assert rounded_up(Fraction(1234567, 10), 1) == "123456.7"
    assert percent_at_most(best_guess_pure(Fraction(100))) == "100 %"


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1, 3), Fraction(7, 10)])
@pytest.mark.parametrize("size", [1, 7, 10])
def test_a_mechanism_knows_its_privacy_loss(epsilon: Fraction, size: int) -> None:
    for mechanism in (tf_mechanism(epsilon), pf_mechanism(epsilon, size)):
        assert epsilon * (1 - Fraction(1, 2**50)) <= mechanism.privacy_loss() <= epsilon
        assert mechanism.privacy_loss(3) == 3 * mechanism.privacy_loss()
        assert mechanism.scale == pytest.approx(float(mechanism.sensitivity / epsilon))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_is(name: str) -> None:
    """A guarantee is never printed without its unit, nor a claim without an artefact."""
    request = Request.parse(name, **_NEEDED.get(name, {}))
    document = request.guarantee(BIKE)
    assert document["plain"].endswith(".") and document["kind"] == request.method.kind
    table = "counts" if document["kind"] == "counts" else "trajectories"
    assert document["artefacts"][table]["title"]
    for artefact in document["artefacts"].values():
        assert artefact["unit"] and artefact["neighbouring"] and artefact["assumes"]
        claimed = artefact["claimed_epsilon"]
        assert (claimed is None) == (artefact["neighbouring"] == "none")
    claims = document["artefacts"][table]["claimed_epsilon"] is not None
    assert claims == (request.method.unit == "person")
    verb = "are" if table == "counts" else "is"
    assert (f"{verb} differentially private" in document["plain"]) == claims
    json.dumps(document)
    assert request.method.for_analysts
