"""What a release guarantees: as data, and in two sentences. Formulas only, no count from the data."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from freqdp_db.mechanisms.global_tf import tf_mechanism
from freqdp_db.mechanisms.local_pf import pf_mechanism
from freqdp_db.mechanisms.mechanism import Mechanism
from freqdp_db.methods.registry import Method

_TABLE_NOT_DP = (
    "The table of trajectories itself is not differentially private: samples that were not edited "
    "are published as they are, with their place and time."
)
_NEIGHBOURING = "added or removed; moved counts as two"
_ASSUMED_PUBLIC = [
    "the locations that can occur, and which of them are candidates or listed",
    "the number of objects",
    "the parameters of the release",
]
_NOTHING_CLAIMED = {
    "unit": "none",
    "neighbouring": "none",
    "claimed_epsilon": None,
    "accounted_epsilon": None,
    "assumes": "nothing is claimed for the table of trajectories",
}
_NOT_PROTECTED = [
    "untouched samples, with their times and the gaps that deletions leave",
    "which locations are candidates or listed: they are chosen from the data",
    "the number of objects, and which samples an edit fell on",
    "the join of several releases of one source through their untouched samples",
]


def _number(value: Decimal) -> str:
    return format(value.normalize(), "f")


def _artefact(mechanism: Mechanism, epsilon: str) -> dict[str, Any]:
    """What one mechanism guarantees for its vector: all of the epsilon that it was given."""
    return {
        "unit": mechanism.unit,
        "neighbouring": _NEIGHBOURING,
        "claimed_epsilon": epsilon,
        "accounted_epsilon": epsilon,
        "assumes": mechanism.assumes,
        "whole_user": f"{epsilon} times {mechanism.whole_user}",
    }


def guarantee(
    method: Method, epsilon_global: Decimal, epsilon_local: Decimal, *, private: bool
) -> dict[str, Any]:
    """Unit, neighbouring relation, claimed and accounted epsilon for each artefact."""
    if not method.draws_noise:
        return _no_guarantee(method)
    total = epsilon_global + epsilon_local
    eg, el = _number(epsilon_global), _number(epsilon_local)
    held = method.name == "gl"
    artefacts: dict[str, dict[str, Any]] = {}
    if "global" in method.steps:
        artefacts["tf_vector"] = _artefact(tf_mechanism(Fraction(epsilon_global)), eg)
    if "local" in method.steps:
        # neither the unit nor the words depend on m
        local = _artefact(pf_mechanism(Fraction(epsilon_local), 1), el)
        if held:
            local["accounted_epsilon"] = None
            local["assumes"] += "; the output of the global step is held fixed"
        artefacts["pf_vectors"] = local
    if len(method.steps) == 2:
        artefacts["both_vectors"] = {
            "unit": "one occurrence of a location in one trajectory",
            "neighbouring": _NEIGHBOURING,
            "claimed_epsilon": _number(total),
            "accounted_epsilon": None if held else _number(max(epsilon_global, epsilon_local)),
            "assumes": "all lists are fixed",
        }
    artefacts["trajectories"] = _NOTHING_CLAIMED
    return {
        "method": method.name,
        "epsilon": _number(total),
        "epsilon_global": eg,
        "epsilon_local": el,
        "noise": "discrete Laplace, exact, from the operating system's randomness"
        if private
        else "seeded: reproducible, therefore not private",
        "private": private,
        "artefacts": artefacts,
        "assumed_public": _ASSUMED_PUBLIC,
        "not_protected": _NOT_PROTECTED,
        "plain": plain_words(method, eg, el, private),
    }


def _no_guarantee(method: Method) -> dict[str, Any]:
    """For methods that draw nothing: a heuristic, whatever it hides."""
    return {
        "method": method.name,
        "epsilon": "0",
        "epsilon_global": "0",
        "epsilon_local": "0",
        "noise": "none",
        "private": False,
        "guarantee": "none; heuristic",
        "artefacts": {"trajectories": _NOTHING_CLAIMED},
        "assumed_public": _ASSUMED_PUBLIC,
        "not_protected": [
            "where samples are missing: what was dropped was chosen from the data, without noise",
            *_NOT_PROTECTED,
        ],
        "plain": "This method guarantees nothing; it is a heuristic, for comparison: the most telling "
        "places of each object were dropped, without noise. " + _TABLE_NOT_DP,
    }


def plain_words(method: Method, eg: str, el: str, private: bool) -> str:
    """The guarantee in two sentences (three for a release that is not private)."""
    parts = []
    if "global" in method.steps:
        parts.append(
            f"how many objects visit each signature place was perturbed with epsilon {eg} "
            "per (object, place) incidence"
        )
    if "local" in method.steps:
        parts.append(
            f"how often each object visits its listed places was perturbed with epsilon {el} "
            "per occurrence"
            + (", the global step's output held fixed" if method.name == "gl" else "")
        )
    first = " and ".join(parts)
    seeded = "" if private else "The noise was seeded and can be subtracted: do not publish. "
    return f"{seeded}{first[0].upper()}{first[1:]}. {_TABLE_NOT_DP}"
