"""Methods that make k objects alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from freqdp_db.methods.contract import Method, Need
from freqdp_db.methods.k_anonymity.glove import GloveStep
from freqdp_db.methods.k_anonymity.klt import KltStep
from freqdp_db.methods.k_anonymity.w4m import W4mStep
from freqdp_db.privacy.guarantee import Guarantee, ProtectedUnit

# --- What the k-anonymity methods guarantee, and what they do not ---


_PUBLIC = ["the parameters of the release"]
_NOT_DP = (
    "It is not differential privacy: it says nothing about somebody who knows what the others of "
    "a group did."
)
_NOT_PROTECTED = [
    "what the areas say of every object of a group: if it was recorded at a time of an interval, it "
    "was in that interval's area",
    "that an object is in the data, for whoever knows all its movements",
    "the join with another release of the same source, whose groups may differ",
]


def _artefact(k: Any, what: str) -> dict[str, Any]:
    return {
        "unit": "object",
        "neighbouring": "none",
        "claimed_epsilon": None,
        "accounted_epsilon": None,
        "k": k,
        "assumes": what,
    }


def glove_guarantee(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
    k = values["k"]
    plain = [
        f"Each trajectory stands for at least {k} objects: every sample of each of them that was not "
        "left out lies in one of its areas, at a time in that area's interval. It does not say which "
        "of them were in an area: it may have been some of them only.",
        _NOT_DP,
    ]
    if values.get("pieces") is not None:
        plain.insert(
            1,
            "This holds for each piece of a trip by itself: an object is in other groups with "
            "other objects before and after.",
        )
    if values.get("widest") is not None:
        plain.append(
            "Areas that would be too wide or too long were left out for the whole group, and with "
            "them the samples that only they held."
        )
    return Guarantee(
        plain=plain,
        artefacts={"trajectories": _artefact(k, "an object is one trajectory of the build")},
        titles={"trajectories": f"The table of trajectories, each for at least {k} objects"},
        assumed_public=_PUBLIC,
        not_protected=_NOT_PROTECTED,
        origin="Gramaglia, Fiore: Hiding mobile traffic fingerprints with GLOVE (CoNEXT 2015).",
    )


def klt_guarantee(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
    found = glove_guarantee(values, protected)
    return Guarantee(
        plain=[
            *found.plain,
            f"Every area holds points of interest of at least {values['l']} categories, whose "
            f"shares are within a divergence of {values['t']} of those of all points.",
        ],
        artefacts=found.artefacts,
        titles=found.titles,
        assumed_public=[*_PUBLIC, "the points of interest and their categories"],
        not_protected=found.not_protected,
        origin="Tu et al.: Protecting trajectory from semantic attack considering k-anonymity, "
        "l-diversity, and t-closeness (IEEE TNSM 2019).",
    )


def w4m_guarantee(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
    k, delta = values["k"], values["delta"]
    return Guarantee(
        plain=[
            f"At the time of each sample of a trajectory at least {k - 1} others have a sample too, "
            f"within {delta} m of it.",
            "That is not k-anonymity: each object keeps a trajectory of its own, and whoever looks "
            "for the nearest may well find it again.",
        ],
        artefacts={"trajectories": _artefact(None, "nothing is claimed for one trajectory")},
        titles={"trajectories": "One trajectory by itself"},
        assumed_public=_PUBLIC,
        not_protected=[
            "whose a trajectory is, for whoever knows about where an object was",
            "the join with another release of the same source",
        ],
        origin="Abul, Bonchi, Nanni: Anonymization of moving objects databases by clustering and "
        "perturbation (Information Systems 2010).",
    )


# --- Methods that make k objects alike ---


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
