"""Methods that unlink: the samples stay true, the trajectories do not."""

from __future__ import annotations

from freqdp_db.methods.contract import Kind, Method
from freqdp_db.methods.unlinking.guarantee import unlinking_guarantee
from freqdp_db.methods.unlinking.steps import CutStep, SwapStep

_EDITED: frozenset[Kind] = frozenset({"edited"})

UNLINKING = (
    Method(
        "swap",
        "deals out among those who meet what each does next",
        (SwapStep(),),
        kind="unlinked",
        guarantee=unlinking_guarantee(
            "Wherever objects met, it was drawn who goes on as whom; the trajectory of an object that "
            "met nobody is its own."
        ),
        after=_EDITED,
        explains="Trajectories are pieced together from several objects wherever these met, at true "
        "places of theirs, with times on one clock for all. Count places, times and flows; do not follow "
        "one trajectory for long.",
    ),
    Method(
        "cut",
        "cuts trips into pieces with ids of their own",
        (CutStep(),),
        kind="unlinked",
        guarantee=unlinking_guarantee(
            "Trips were cut into pieces with ids of their own; stays, and a while between two "
            "pieces, were left out."
        ),
        after=_EDITED | {"unlinked"},
        explains="Each trajectory is a piece of a trip, without stays, with times on one clock for all. "
        "Count places, times and flows within pieces. No id says which pieces belong together; "
        "places and times may.",
    ),
)
