"""Methods that unlink: the samples stay true, the trajectories do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from freqdp_db.methods.contract import Kind, Method, Need
from freqdp_db.methods.unlinking.steps import CutStep, PointsStep, SwapStep
from freqdp_db.privacy.guarantee import NOTHING_CLAIMED, Declare, Guarantee, ProtectedUnit

# --- What unlinking guarantees: nothing that is proved; what it does is checked and measured ---


def unlinking_guarantee(what: str, remains: str, table: str = "trajectories") -> Declare:
    """`what`: a sentence on what was done. `remains`: whose samples can still be told apart.

    table: what its rows are.
    """

    def declare(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
        return Guarantee(
            plain=[
                what,
                *left_out(values, protected),
                "Nothing about it is proved. How much of an object an attacker learns who knows a few of "
                "its samples is measured (freqdp evaluate).",
            ],
            artefacts={
                "trajectories": {
                    **NOTHING_CLAIMED,
                    "assumes": f"nothing is claimed for the table of {table}",
                }
            },
            titles={"trajectories": f"The table of {table}"},
            assumed_public=["the parameters of the release"],
            not_protected=[
                "single samples: they are published with their place, and their time on the clock",
                "that somebody was at a place, for whoever watches the place",
                remains,
                "the join with another release of the same source through its true samples",
                *(
                    f"the unlinking, from whoever has {other} as well: true samples join the two, "
                    "which was accepted"
                    for other in accepted_beside(values)
                ),
            ],
        )

    return declare


_WHEN = {"ever": "", "hour": ", in the same hour of some day", "day": ", on the same day"}

_TIMES = {
    "hour-of-week": "the weekday, hour and minute, all in one week",
    "hour-of-day": "the hour and minute, all on one day",
}


def left_out(values: Mapping[str, Any], protected: ProtectedUnit) -> list[str]:
    """What the crowd rule and the dates mean, for who reads the table."""
    said = []
    if values.get("crowd") is not None:
        when = _WHEN[values.get("crowd_within") or "ever"]
        said.append(
            f"Only samples at places where at least {values['crowd']:,} {protected.noun}s of the data were"
            f"{when}, are in it; this is no differential privacy."
        )
    if values.get("roads") is not None:
        said.append(
            "Nothing of a trip is in it until it is 500 m in a straight line, 650 m by road and 8 "
            "junctions from where it begins, at the latest 2,500 m, nor from there on before it ends."
        )
    if values.get("samples") == "ends":
        said.append("Of each piece only the first and the last sample are in it.")
    if values.get("share") is not None:
        said.append(f"A random {values['share']:f} % of the samples are in it.")
    if values.get("dominance") is not None:
        said.append(
            f"Of its samples of a place and hour of the day, at most {values['dominance']:f} % are one "
            f"{protected.noun}'s; this is no differential privacy."
        )
    if values.get("dates") is not None:
        said.append(
            f"Dates were left out: times are {_TIMES[values['dates']]}, which is not when they happened."
        )
    return said


def accepted_beside(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Releases beside which this one may stand although true samples join them (`--beside`)."""
    return tuple(name.strip() for name in (values.get("beside") or "").split(",") if name.strip())


# --- Methods that unlink: the samples stay true, the trajectories do not ---


_EDITED: frozenset[Kind] = frozenset({"edited"})

UNLINKING = (
    Method(
        "swap",
        "where paths cross, shuffles which object continues along which",
        (SwapStep(),),
        kind="unlinked",
        guarantee=unlinking_guarantee(
            "Where objects met, it was drawn which of them continues along which path; an object that "
            "met no other keeps its own path.",
            "objects that seldom meet others: all samples under one id may be theirs",
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
        needs=(Need("roads", "roads", optional=True),),
        guarantee=unlinking_guarantee(
            "Trips were cut into pieces, each with an id of its own. Stays were left out, and some minutes "
            "between two pieces.",
            "a whole piece, from anyone who knows one of its samples; and pieces that few others could "
            "continue",
        ),
        after=_EDITED | {"unlinked"},
        explains="Each trajectory is a piece of a trip, without stays, with times on one clock for all. "
        "Count places, times and flows within pieces. No id says which pieces belong together; "
        "places and times may.",
    ),
    Method(
        "points",
        "publishes single samples without trajectories",
        (PointsStep(),),
        kind="unlinked",
        guarantee=unlinking_guarantee(
            "Every row is one sample, with an id of its own; no id joins two of them.",
            "objects that few others are near: the samples that follow each other in place and time may "
            "all be theirs",
            "single samples",
        ),
        after=_EDITED,
        explains="Each row is a single sample, with its time on one clock for all: there are no "
        "trajectories. Count places and times. No id says which samples belong together; places and times "
        "may.",
    ),
)
