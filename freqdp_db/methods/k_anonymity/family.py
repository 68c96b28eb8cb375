"""Methods that make k objects alike."""

from __future__ import annotations

from freqdp_db.methods.contract import Method, Need
from freqdp_db.methods.k_anonymity.glove import GloveStep
from freqdp_db.methods.k_anonymity.guarantee import glove_guarantee, klt_guarantee, w4m_guarantee
from freqdp_db.methods.k_anonymity.klt import KltStep
from freqdp_db.methods.k_anonymity.w4m import W4mStep

_SHARED = (
    "Each trajectory stands for at least k objects: their samples, but for those left out, lie in its "
    "areas, at times in the intervals of these. An area may hold samples of some of them only: see "
    "where and when groups were, coarsely; do not count objects by areas, and do not read the points "
    "as positions."
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
        moves_objects=True,
        explains="Each trajectory is one object's, moved in place and time until others are near it "
        "at all times: moved, not coarse, and not k-anonymous. Count places and flows coarsely; do "
        "not read the points as positions.",
    ),
)
