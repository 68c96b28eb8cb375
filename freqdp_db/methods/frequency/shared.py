"""What the steps `local` and `global` declare alike."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from numpy.typing import NDArray

from freqdp_db.methods.kinds import Number, Whole
from freqdp_db.methods.parameters import MAX_EPSILON

# a half of a total has one decimal more
EPSILON_SHARE = Number(MAX_EPSILON, "0.5", decimals=10)
SIGNATURE = (Whole(1, 10_000, "10"), "m: size of a signature.", 10)


def user_costs(what: str, per_user: NDArray[Any], epsilon: Decimal) -> dict[str, float]:
    """What a whole user costs: epsilon for each unit that is the user's."""
    mean, most = float(per_user.mean()), int(per_user.max(initial=0))
    return {
        f"{what}_per_user_mean": mean,
        f"{what}_per_user_max": most,
        "epsilon_per_user_mean": float(epsilon) * mean,
        "epsilon_per_user_max": float(epsilon) * most,
    }
