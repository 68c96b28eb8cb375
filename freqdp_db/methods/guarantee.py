"""What a release guarantees: as data, and in two sentences. Formulas only, no count from the data."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from freqdp_db.methods.registry import Method

_INCIDENCE = "one (object, location) incidence added or removed"
_OCCURRENCE = "one occurrence of a listed location in one trajectory added or removed"
_TABLE_NOT_DP = (
    "The table of trajectories itself is not differentially private: samples that were not edited "
    "are published as they are, with their place and time."
)
_NOT_PROTECTED = [
    "untouched samples, with their times and the gaps that deletions leave",
    "which locations are candidates or listed: they are chosen from the data",
    "the number of objects, and which samples an edit fell on",
    "the join of several releases of one source through their untouched samples",
]


def _number(value: Decimal) -> str:
    return format(value.normalize(), "f")


def guarantee(
    method: Method, epsilon_global: Decimal, epsilon_local: Decimal, *, private: bool
) -> dict[str, Any]:
    """Unit, neighbouring relation, claimed and accounted epsilon for each artefact."""
    total = epsilon_global + epsilon_local
    eg, el = _number(epsilon_global), _number(epsilon_local)
    artefacts: dict[str, dict[str, Any]] = {}
    if "global" in method.steps:
        artefacts["tf_vector"] = {
            "unit": _INCIDENCE,
            "claimed_epsilon": eg,
            "accounted_epsilon": eg,
            "assumes": "the candidate locations are fixed",
            "whole_user": f"{eg} times the number of candidates that the user visits",
        }
    if "local" in method.steps:
        held = method.name == "gl"
        artefacts["pf_vectors"] = {
            "unit": _OCCURRENCE,
            "claimed_epsilon": el,
            "accounted_epsilon": None if held else el,
            "assumes": "the point lists are fixed and every listed count stays at least 1"
            + ("; the output of the global step is held fixed" if held else ""),
            "whole_user": f"{el} times the listed occurrences of the user, which is unbounded",
        }
    if len(method.steps) == 2:
        artefacts["both_vectors"] = {
            "unit": _OCCURRENCE,
            "claimed_epsilon": _number(total),
            "accounted_epsilon": _number(max(epsilon_global, epsilon_local))
            if method.name == "lg"
            else None,
            "assumes": "all lists are fixed",
        }
    artefacts["trajectories"] = {
        "unit": "none",
        "claimed_epsilon": None,
        "accounted_epsilon": None,
        "assumes": "nothing is claimed for the table of trajectories",
    }
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
        "not_protected": _NOT_PROTECTED,
        "plain": plain_words(method, eg, el, private),
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
