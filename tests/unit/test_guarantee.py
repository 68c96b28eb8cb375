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
from freqdp_db.evaluation.audit.audit import Audit, AuditFinding
from freqdp_db.mechanisms.accounting import (
    best_guess_pure,
    epsilon_of,
    percent_at_most,
    rounded_down,
    rounded_up,
)
from freqdp_db.mechanisms.global_tf import tf_mechanism
from freqdp_db.mechanisms.local_pf import pf_mechanism
from freqdp_db.methods.contract import KINDS
from freqdp_db.methods.guarantee import SAME_DATABASE
from freqdp_db.methods.protected_unit import ProtectedUnit
from freqdp_db.methods.registry import METHODS
from freqdp_db.methods.relations import TRAJECTORIES
from freqdp_db.release.export.notice import readme
from freqdp_db.release.persons import in_words
from freqdp_db.release.pipeline import said_of
from freqdp_db.release.request import Request
from freqdp_db.release.summary import whole_user

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


@pytest.mark.parametrize("name", ["glove", "klt"])
def test_areas_are_not_said_to_hold_everybody(name: str) -> None:
    """Every sample of k objects is in an area; not that every area has a sample of k objects."""
    values = {"poi": "demo.poi"} if name == "klt" else {}
    for more in ({}, {"widest": "6km/2h"}, {"pieces": "30min"}):
        request = Request.parse(name, k=5, **values, **more)
        found = request.guarantee(BIKE)
        said = " ".join([found["plain"], *found["not_protected"], request.method.for_analysts])
        assert "stands for at least 5 objects" in found["plain"]
        assert "that was not left out lies in one of its areas" in found["plain"]
        assert "some of them only" in found["plain"]
        for false in ("all of them were", "each of them was", "that of at least", "all of them have",
                      "Count objects"):  # fmt: skip
            assert false not in said


def test_the_notice_does_not_take_back_what_it_says() -> None:
    request = Request.parse("glove", k=3)
    columns = {"area": "", "during_begin": ""}
    said = " ".join(
        readme(
            {
                "name": "r", "version": 1, "dataset": "d", "published_at": "now", "rows": 1,
                "method": "glove", "granted": True, "parameters": {}, "guarantee": request.guarantee(BIKE),
                "file": {"name": "r.csv", "format": "csv", "columns": list(columns),
                         "srid": 4326,
                         "reference_system": "WGS 84", "software": "freqdp", "sha256": "0"},
            },
            1,
            columns,
        ).split()
    )  # fmt: skip
    assert "stands for at least 3 objects" in said
    assert "each for at least 3 objects, as said above; no epsilon is claimed for it." in said
    assert "nothing is claimed" not in said and " 1 areas. Method glove" in said


# artefact: (claimed, accounted)
CLAIMS: dict[str, dict[str, tuple[str | None, str | None]]] = {
    "pure-g": {"tf_vector": ("0.25", "0.25")},
    "pure-l": {"pf_vectors": ("0.75", "0.75")},
    "lg": {
        "tf_vector": ("0.25", "0.25"),
        "pf_vectors": ("0.75", "0.75"),
        "both_vectors": ("1", "0.75"),
    },
    "gl": {
        "tf_vector": ("0.25", "0.25"),
        "pf_vectors": ("0.75", None),
        "both_vectors": ("1", None),
    },
    "sc": {},
    "rsc": {},
}


@pytest.mark.parametrize("name", CLAIMS)
def test_claims(name: str) -> None:
    found = made(name)["artefacts"]
    assert {
        key: (artefact["claimed_epsilon"], artefact["accounted_epsilon"])
        for key, artefact in found.items()
    } == {**CLAIMS[name], "trajectories": (None, None)}
    for key, artefact in found.items():
        assert artefact["unit"] and artefact["neighbouring"] and artefact["assumes"]
        # the formula, without a number from the data
        if key in ("tf_vector", "pf_vectors"):
            assert re.fullmatch(r"0\.\d+ times the [^\d]+", artefact["whole_user"])
    assert ("held fixed" in found.get("pf_vectors", {}).get("assumes", "")) == (name == "gl")


@pytest.mark.parametrize("name", CLAIMS)
def test_words(name: str) -> None:
    document = made(name)
    assert document["assumed_public"] and document["not_protected"]
    plain = document["plain"]
    # an epsilon is no end of a sentence
    assert len(re.findall(r"\.(?= |$)", plain)) == 3
    assert plain.endswith(" An object is one bike (column bike of fleet.ride).")
    assert "not differentially private" in plain
    steps = {step.name for step in METHODS[name].steps}
    assert ("incidence" in plain) == ("global" in steps)
    assert ("occurrence" in plain) == ("local" in steps)
    assert not re.search(r"(epsilon|ε|\d)-(DP|differential)", json.dumps(document))
    said = said_of("r", document, KINDS["edited"])
    table = TRAJECTORIES[0].comments(said, "UTC")[""]
    assert "whole user: ." not in table
    assert plain in table
    for artefact in document["artefacts"].values():
        assert artefact.get("whole_user", "") in table


def test_seeded_is_said_first() -> None:
    document = made("lg", seed=7)
    assert document["seeded"] is True and "seeded" in document["noise"]
    assert document["plain"].startswith("The noise was seeded and can be subtracted")


def test_seeded_noise_accounts_for_nothing() -> None:
    """Whoever knows the seed subtracts the noise: what is claimed otherwise does not hold then."""
    for name in ("lg", "strict", "adatrace"):
        document = made(name, seed=7)
        assert "Nothing is guaranteed. Without the seed this would hold: " in document["plain"]
        for artefact in document["artefacts"].values():
            assert artefact["accounted_epsilon"] is None
    assert "would hold" not in made("swap", seed=7)["plain"]


def test_unlinking_promises_no_more_than_it_does() -> None:
    """Who meets nobody is not mixed; pieces can be joined by place and time."""
    assert "met nobody is its own" in made("swap")["plain"]
    assert "most" not in made("swap")["plain"].split(), "how many are pieced together is counted"
    assert not METHODS["swap"].for_analysts.startswith("Each trajectory is pieced together")
    assert "No id says which pieces belong together; places and times may" in (
        METHODS["cut"].for_analysts
    )


def test_the_unit_is_one_value_of_the_object_column() -> None:
    """A bike is not a person: persons are there only where the owner said so."""
    document = Request.parse("strict", epsilon="2").guarantee(BIKE)
    assert document["plain"] == (
        "The table is differentially private for one bike (column bike of fleet.ride) with all its "
        "data in the region and the period: epsilon 2, delta 0.000001. Starting from even odds and "
        "knowing everybody else's data, nobody can guess from this table alone whether a given object "
        "is in the data and be right more than 60.5 % of the time, or which of two objects is in it "
        "more than 64.9 % of the time."
    )
    assert document["object"] == "one bike (column bike of fleet.ride)"
    assert document["artefacts"]["trajectories"]["unit"] == (
        "one bike (column bike of fleet.ride) with all its data"
    )
    assert "person" not in json.dumps({**document, "unit": None})
    drivers = ProtectedUnit("driver", "fleet.ride", "fleet-drivers")
    said = Request.parse("strict", epsilon="2").guarantee(drivers)["plain"]
    assert "for one person of fleet-drivers (column driver of fleet.ride) with all" in said
    assert "whether a given person is in the data" in said and "which of two persons" in said


@pytest.mark.parametrize("name", METHODS)
def test_no_method_speaks_of_persons_by_itself(name: str) -> None:
    request = Request.parse(name, **_NEEDED.get(name, {}))
    document = {**request.guarantee(BIKE), "unit": None}
    assert "person" not in json.dumps(document)
    assert document["object"] == "one bike (column bike of fleet.ride)"
    assert "person" not in request.method.summary


def test_several_objects_of_one_person() -> None:
    """Group privacy: k^2 rho, so two phones at epsilon 2 are 4.29, not twice 2."""
    not_protected = made("strict")["not_protected"]
    assert (
        "somebody who is several objects (two phones, a changed id): k objects cost k^2 times rho; two "
        "are epsilon 4.291 at delta 0.000001"
    ) in not_protected
    pure = Request.parse("strict", accounting="pure", epsilon="2").guarantee(BIKE)["not_protected"]
    assert any(what.endswith("k objects cost k times epsilon; two are epsilon 4") for what in pure)


def test_what_the_ledger_adds_up() -> None:
    assert any(
        "adds up the synthetic (differentially private) ones of the same source; releases with true "
        "samples (edited, unlinked, generalised) are in no such sum" in what
        for what in made("strict")["not_protected"]
    )


@pytest.mark.parametrize("name", ["lg", "gl", "pure-g", "pure-l"])
def test_the_published_sentence_has_its_assumption(name: str) -> None:
    """The claim holds for fixed lists, and they are not: that belongs into the sentence itself."""
    claim = made(name)["plain"].partition(" The table of trajectories itself")[0]
    assert claim.endswith(
        ", the lists of places taken as fixed: they are chosen from the data, without noise."
    )


def test_all_assumptions_are_published() -> None:
    assumed = made("strict")["artefacts"]["trajectories"]["assumes"]
    for what in (
        "the region, the period and the parameters do not depend on the data, nor do tables that they "
        "name (roads)",
        "whether a row is in the source depends on the rows of its own object and on public numbers",
        "places are snapped by a public rule, in a projection that was not chosen from the data",
        "the unit of times that are numbers was declared",
        "the noise has no seed",
    ):
        assert what in assumed
    both = made("lg")["artefacts"]["both_vectors"]["assumes"]
    assert "number of objects" in both and "every listed count stays at least 1" in both


@pytest.mark.parametrize(
    ("epsilon", "there", "which"),
    [("1", "55.6", "57.9"), ("2", "60.5", "64.9"), ("4", "69.8", "77.9")],
)
def test_a_bound_is_rounded_up(epsilon: str, there: str, which: str) -> None:
    """0.5552 may not be said as `at most 0.555`."""
    asked = Request.parse("strict", epsilon=epsilon)
    for said in (asked.guarantee(BIKE)["plain"], in_words(BIKE, asked.spend)):
        assert f"right more than {there} % of the time, or which of two objects" in said
        assert f"is in it more than {which} % of the time." in said


def test_a_sum_in_words() -> None:
    """What was spent for one object; pure releases cost more where one stands in for another."""
    rho = Request.parse("strict", epsilon="2").spend
    assert in_words(BIKE, rho) == (
        "Together they are differentially private for one bike (column bike of fleet.ride) with all "
        "its data: epsilon 2.001 at delta 0.000001. Starting from even odds and knowing everybody "
        "else's data, nobody can guess from these releases alone whether a given object is in the data "
        "and be right more than 60.5 % of the time, or which of two objects is in it more than 64.9 % "
        "of the time. Somebody who is k objects costs k^2 times rho: for two, epsilon 4.291. What is "
        "added up here is synthetic (differentially private) releases; releases with true samples of "
        "the same objects are not in this sum."
    )
    pure = in_words(BIKE, Decimal(0), rho)
    assert "more than 60.5 %" in pure and "in it more than 71 %" in pure
    assert in_words(BIKE, Decimal(0)) == (
        "Nothing has been spent for one bike (column bike of fleet.ride) yet."
    )


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


def test_whole_users_are_rounded_up() -> None:
    cost = {"epsilon_per_user_mean": 123.74, "epsilon_per_user_max": 1174.01}
    assert whole_user(cost) == "epsilon 123.7 on average and 1,174.1 at most"
    assert whole_user({**cost, "epsilon_per_user_max": 174.0}).endswith("174.0 at most")


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
    assert document["artefacts"]["trajectories"]["title"]
    for artefact in document["artefacts"].values():
        assert artefact["unit"] and artefact["neighbouring"] and artefact["assumes"]
        claimed = artefact["claimed_epsilon"]
        assert (claimed is None) == (artefact["neighbouring"] == "none")
    claims = document["artefacts"]["trajectories"]["claimed_epsilon"] is not None
    assert claims == (request.method.unit == "person")
    assert ("is differentially private" in document["plain"]) == claims
    json.dumps(document)
    assert request.method.for_analysts
