"""The methods of the paper, and what they guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from freqdp_db.methods.contract import AnyStep, Method
from freqdp_db.methods.frequency.steps import GlobalStep, LocalStep
from freqdp_db.methods.kinds import plain
from freqdp_db.privacy.accounting import Mechanism
from freqdp_db.privacy.guarantee import (
    NOTHING_CLAIMED,
    TABLE_NOT_DP,
    Declare,
    Guarantee,
    ProtectedUnit,
)

# What the paper's methods guarantee: each mechanism for its own vector, nothing for the table.


_NEIGHBOURING = "added or removed; moved counts as two"
ASSUMED_PUBLIC = (
    "the locations that can occur, and which of them are candidates or listed",
    "the number of objects",
    "the parameters of the release",
)
NOT_PROTECTED = (
    "untouched samples, with their times and the gaps that deletions leave",
    "which locations are candidates or listed: they are chosen from the data",
    "the number of objects, and which samples an edit fell on",
    "the join of several releases of one source through their untouched samples",
)
TABLE = "The table of trajectories"
_LISTS = "the lists of places taken as fixed: they are chosen from the data, without noise"
_TITLES = {
    "tf_vector": "How many objects visit each signature place (TF)",
    "pf_vectors": "How often each object visits its listed places (PF)",
    "both_vectors": "Both of these together",
    "trajectories": TABLE,
}
PAPER = (
    "Method: F. Jin, W. Hua, B. Ruan, X. Zhou, Frequency-based Randomization for Guaranteeing "
    "Differential Privacy in Spatial Trajectories, ICDE 2022. What is claimed here is narrower "
    "than that title."
)


def _artefact(mechanism: Mechanism, epsilon: Decimal) -> dict[str, Any]:
    """What one mechanism guarantees for its vector: all of the epsilon that it was given."""
    number = plain(epsilon)
    return {
        "unit": mechanism.unit,
        "neighbouring": _NEIGHBOURING,
        "claimed_epsilon": number,
        "accounted_epsilon": number,
        "assumes": mechanism.assumes,
        "whole_user": f"{number} times {mechanism.whole_user}",
    }


def frequency_guarantee(*, global_held: bool = False) -> Declare:
    """`global_held`: the local step reads the global one's output, which has to be held fixed."""

    def declare(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
        from freqdp_db.methods.frequency.perturbation import pf_mechanism, tf_mechanism

        for_global, for_local = values.get("epsilon_global"), values.get("epsilon_local")
        artefacts: dict[str, dict[str, Any]] = {}
        parts = []
        if for_global is not None:
            artefacts["tf_vector"] = _artefact(tf_mechanism(Fraction(for_global)), for_global)
            parts.append(
                f"how many objects visit each signature place was perturbed with epsilon "
                f"{plain(for_global)} per (object, place) incidence"
            )
        if for_local is not None:
            # neither the unit nor the words depend on m
            local = _artefact(pf_mechanism(Fraction(for_local), 1), for_local)
            held = ""
            if global_held:
                local["accounted_epsilon"] = None
                local["assumes"] += "; the output of the global step is held fixed"
                held = ", the global step's output held fixed"
            artefacts["pf_vectors"] = local
            parts.append(
                f"how often each object visits its listed places was perturbed with epsilon "
                f"{plain(for_local)} per occurrence{held}"
            )
        if for_global is not None and for_local is not None:
            artefacts["both_vectors"] = {
                "unit": "one occurrence of a location in one trajectory",
                "neighbouring": _NEIGHBOURING,
                "claimed_epsilon": plain(for_global + for_local),
                "accounted_epsilon": None if global_held else plain(max(for_global, for_local)),
                "assumes": "all lists and the number of objects are fixed and every listed count stays at "
                "least 1",
            }
        artefacts["trajectories"] = NOTHING_CLAIMED
        sentence = " and ".join(parts)
        nothing = Decimal(0)
        return Guarantee(
            plain=[f"{sentence[0].upper()}{sentence[1:]}, {_LISTS}.", TABLE_NOT_DP],
            artefacts=artefacts,
            titles=_TITLES,
            assumed_public=ASSUMED_PUBLIC,
            not_protected=NOT_PROTECTED,
            noise="discrete Laplace, exact, from the operating system's randomness",
            spends={
                "epsilon": plain((for_global or nothing) + (for_local or nothing)),
                "epsilon_global": plain(for_global or nothing),
                "epsilon_local": plain(for_local or nothing),
            },
            origin=PAPER,
        )

    return declare


def _method(name: str, summary: str, *steps: AnyStep, global_held: bool = False) -> Method:
    return Method(
        name,
        summary,
        steps,
        kind="edited",
        guarantee=frequency_guarantee(global_held=global_held),
        unit="occurrence",
    )


FREQUENCY = (
    _method(
        "lg", "local PF randomization, then global TF randomization", LocalStep(), GlobalStep()
    ),
    _method(
        "gl",
        "global TF randomization, then local PF randomization",
        GlobalStep(),
        LocalStep(),
        global_held=True,
    ),
    _method("pure-g", "global TF randomization only", GlobalStep()),
    _method("pure-l", "local PF randomization only", LocalStep()),
)
