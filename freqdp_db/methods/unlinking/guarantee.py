"""What unlinking guarantees: nothing that is proved; what it does is checked and measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from freqdp_db.methods.guarantee import NOTHING_CLAIMED, Guarantee


def unlinking_guarantee(what: str) -> Callable[[Mapping[str, Any]], Guarantee]:
    """`what`: a sentence on what was done to the trajectories."""

    def declare(values: Mapping[str, Any]) -> Guarantee:
        return Guarantee(
            plain=[
                what,
                "Nothing about it is proved: how much of a person somebody learns who knows a few "
                "samples is measured (freqdp evaluate).",
            ],
            artefacts={"trajectories": NOTHING_CLAIMED},
            titles={"trajectories": "The table of trajectories"},
            assumed_public=["the parameters of the release"],
            not_protected=[
                "single samples: they are published as they are, with their place and time",
                "that somebody was at a place, for whoever watches the place",
                "objects that seldom meet others: what goes on under one id may all be theirs",
                "the join with another release of the same source through its true samples",
            ],
        )

    return declare
