"""Methods that make k objects alike."""

from __future__ import annotations

from freqdp_db.methods.contract import Method, Need
from freqdp_db.methods.k_anonymity.glove import GloveStep
from freqdp_db.methods.k_anonymity.guarantee import glove_guarantee, klt_guarantee, w4m_guarantee
from freqdp_db.methods.k_anonymity.klt import KltStep
from freqdp_db.methods.k_anonymity.w4m import W4mStep

_SHARED = (
    "Each trajectory stands for at least k objects: wherever these were, it was in one of its areas, "
    "in that area's interval. An area may hold samples of some of them only, so do not count objects "
    "by it; see where and when groups were, coarsely, and do not read the points as positions."
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
    Method(
        "klt",
        "as glove, with areas that hold a mix of points of interest",
        (KltStep(),),
        kind="generalised",
        guarantee=klt_guarantee,
        explains=_SHARED,
        needs=(Need("poi", "points", {"category": "category"}),),
    ),
    Method(
        "w4m",
        "moves the objects of a cluster until they are near each other at all times",
        (W4mStep(),),
        kind="generalised",
        guarantee=w4m_guarantee,
        explains="Each trajectory is one object's, moved in place and time until others are near it "
        "at all times: moved, not coarse, and not k-anonymous. Count places and flows coarsely; do "
        "not read the points as positions.",
    ),
)
