"""Methods that make k objects alike."""

from __future__ import annotations

from freqdp_db.methods.contract import Method
from freqdp_db.methods.k_anonymity.glove import GloveStep
from freqdp_db.methods.k_anonymity.guarantee import glove_guarantee

_SHARED = (
    "Each trajectory is that of at least k objects, so coarse that all of them have it: they were "
    "somewhere in the area at some time in the interval. Count objects by area and time; do not "
    "read the points as positions."
)

K_ANONYMITY = (
    Method(
        "glove",
        "makes trajectories of at least k objects one, of areas and intervals",
        (GloveStep(),),
        kind="generalised",
        guarantee=glove_guarantee,
        explains=_SHARED,
    ),
)
