"""What signature closure guarantees: nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from freqdp_db.methods.frequency.guarantee import ASSUMED_PUBLIC, NOT_PROTECTED, PAPER, TABLE
from freqdp_db.methods.guarantee import NOTHING_CLAIMED, TABLE_NOT_DP, Guarantee
from freqdp_db.methods.protected_unit import ProtectedUnit


def closure_guarantee(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
    """A heuristic, whatever it hides."""
    return Guarantee(
        plain=[
            "This method guarantees nothing; it is a heuristic, for comparison: the most telling "
            "places of each object were dropped, without noise.",
            TABLE_NOT_DP,
        ],
        artefacts={"trajectories": NOTHING_CLAIMED},
        titles={"trajectories": TABLE},
        assumed_public=ASSUMED_PUBLIC,
        not_protected=[
            "where samples are missing: what was dropped was chosen from the data, without noise",
            *NOT_PROTECTED,
        ],
        origin=PAPER,
    )
