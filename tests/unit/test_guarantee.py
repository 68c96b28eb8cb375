"""The guarantee says what may be claimed, in every method, and no more."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any

import pytest

from freqdp_db.mechanisms.global_tf import tf_mechanism
from freqdp_db.mechanisms.local_pf import pf_mechanism
from freqdp_db.methods.contract import KINDS
from freqdp_db.methods.registry import METHODS
from freqdp_db.release.export.notice import readme
from freqdp_db.release.persons import in_words
from freqdp_db.release.request import Request
from freqdp_db.release.table import comments

SHARES = {"epsilon_global": "0.25", "epsilon_local": "0.75"}


def made(name: str, seed: int | None = None) -> dict[str, Any]:
    known = {p.name for p in METHODS[name].parameters}
    given = {share: value for share, value in SHARES.items() if share in known}
    return Request.parse(name, seed=seed, **given).guarantee()


@pytest.mark.parametrize("name", ["glove", "klt"])
def test_areas_are_not_said_to_hold_everybody(name: str) -> None:
    """Every sample of k objects is in an area; not that every area has a sample of k objects."""
    values = {"poi": "demo.poi"} if name == "klt" else {}
    for more in ({}, {"widest": "6km/2h"}, {"pieces": "30min"}):
        request = Request.parse(name, k=5, **values, **more)
        found = request.guarantee()
        said = " ".join([found["plain"], *found["not_protected"], request.method.for_analysts])
        assert "stands for at least 5 objects" in found["plain"]
        assert "that was not left out lies in one of its areas" in found["plain"]
        assert "some of them only" in found["plain"]
        for false in ("all of them were", "each of them was", "that of at least", "all of them have",
                      "Count objects"):  # fmt: skip
            assert false not in said


def test_the_notice_does_not_take_back_what_it_says() -> None:
    request = Request.parse("glove", k=3)
    said = " ".join(
        readme(
            {
                "name": "r", "version": 1, "dataset": "d", "published_at": "now", "rows": 1,
                "method": "glove", "granted": True, "parameters": {}, "guarantee": request.guarantee(),
                "file": {"name": "r.csv", "format": "csv", "columns": ["area", "during_begin"],
                         "srid": 4326,
                         "reference_system": "WGS 84", "software": "freqdp", "sha256": "0"},
            }
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
    assert len(re.findall(r"\.(?= |$)", plain)) == 2
    assert "not differentially private" in plain
    steps = {step.name for step in METHODS[name].steps}
    assert ("incidence" in plain) == ("global" in steps)
    assert ("occurrence" in plain) == ("local" in steps)
    assert not re.search(r"(epsilon|ε|\d)-(DP|differential)", json.dumps(document))
    table = comments("r", document, KINDS["edited"])["points"]
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
    assert not METHODS["swap"].for_analysts.startswith("Each trajectory is pieced together")
    assert "No id says which pieces belong together; places and times may" in (
        METHODS["cut"].for_analysts
    )


def test_the_unit_of_a_person_is_one_object() -> None:
    assert any("several objects" in what for what in made("strict")["not_protected"])


@pytest.mark.parametrize(("epsilon", "most"), [("1", "0.556"), ("2", "0.605"), ("4", "0.698")])
def test_a_bound_is_rounded_up(epsilon: str, most: str) -> None:
    """0.5552 may not be said as `at most 0.555`."""
    plain = Request.parse("strict", epsilon=epsilon).guarantee()["plain"]
    assert f"at most {most} (a coin" in plain
    rho = Request.parse("strict", epsilon=epsilon).spend
    assert f"at most {most} (a coin" in in_words(rho)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1, 3), Fraction(7, 10)])
@pytest.mark.parametrize("size", [1, 7, 10])
def test_a_mechanism_knows_its_privacy_loss(epsilon: Fraction, size: int) -> None:
    for mechanism in (tf_mechanism(epsilon), pf_mechanism(epsilon, size)):
        assert epsilon * (1 - Fraction(1, 2**50)) <= mechanism.privacy_loss() <= epsilon
        assert mechanism.privacy_loss(3) == 3 * mechanism.privacy_loss()
        assert mechanism.scale == pytest.approx(float(mechanism.sensitivity / epsilon))


_NEEDED = {
    "strict": {"region": "4,50,5,51", "period": "2024-01-01/2024-02-01"},
    "klt": {"poi": "demo.poi", "category": "kind"},
}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_is(name: str) -> None:
    """A guarantee is never printed without its unit, nor a claim without an artefact."""
    request = Request.parse(name, **_NEEDED.get(name, {}))
    document = request.guarantee()
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
