"""What unlinking guarantees: nothing that is proved; what it does is checked and measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from freqdp_db.methods.guarantee import NOTHING_CLAIMED, Declare, Guarantee
from freqdp_db.methods.protected_unit import ProtectedUnit


def unlinking_guarantee(what: str) -> Declare:
    """`what`: a sentence on what was done to the trajectories."""

    def declare(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
        return Guarantee(
            plain=[
                what,
                "Nothing about it is proved: how much of an object somebody learns who knows a few "
                "samples of it is measured (freqdp evaluate).",
            ],
            artefacts={"trajectories": NOTHING_CLAIMED},
            titles={"trajectories": "The table of trajectories"},
            assumed_public=["the parameters of the release"],
            not_protected=[
                "single samples: they are published with their place, and their time on the clock",
                "that somebody was at a place, for whoever watches the place",
                "objects that seldom meet others: what goes on under one id may all be theirs",
                "the join with another release of the same source through its true samples",
                *(
                    f"the unlinking, from whoever has {other} as well: true samples join the two, "
                    "which was accepted"
                    for other in accepted_beside(values)
                ),
            ],
        )

    return declare


def accepted_beside(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Releases beside which this one may stand although true samples join them (`--beside`)."""
    return tuple(name.strip() for name in (values.get("beside") or "").split(",") if name.strip())
