"""What a release is to be good for, as one number from 0 to 1: all definitions in one place.

0 is "nothing in common with the original", 1 is "the same". They compare methods on one dataset and
are no scores to quote. A divergence (JSD, at most ln 2) becomes 1 - sqrt(JSD / ln 2): the root makes
a distance of it, and keeps small losses visible.

- `density`: 1 - sqrt(JSD / ln 2) of samples by 500 m cell and hour of the day (metric `density`).
- `flows`: mean of F1 and of 1 - relative error (at most 1) of the 100 largest flows (`flow.f1`, `flow`).
- `trips`: mean of 1 - sqrt(JSD / ln 2) of trip lengths, durations, and moves between cells of 1 km
  (`length`, `duration`, `transitions`).
- `histories`: share of each object's visits that stays its own (1 - `inf.sym`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import KINDS, Kind

_WORDS = ((0.9, "nearly as before"), (0.7, "well"), (0.5, "roughly"), (0.25, "poorly"))
"""From this number on; what is below the last is hardly kept."""


@dataclass(frozen=True)
class Purpose:
    """One use of a release, and how well it serves it."""

    name: str
    asks: str
    """What its analysts want to know."""
    counted: str
    """What the number counts, in a sentence."""
    score: Callable[[Mapping[str, float]], float]
    kinds: frozenset[Kind] = field(default_factory=lambda: frozenset(KINDS))
    """Releases of these kinds can serve it at all."""


def kept(divergence: float) -> float:
    """A divergence as a number from 0 (nothing in common) to 1 (the same)."""
    return 1.0 - math.sqrt(min(max(divergence / math.log(2.0), 0.0), 1.0))


def _flows(values: Mapping[str, float]) -> float:
    return (values["flow.f1"] + 1.0 - min(values["flow"], 1.0)) / 2


def _trips(values: Mapping[str, float]) -> float:
    return sum(kept(values[name]) for name in ("length", "duration", "transitions")) / 3


PURPOSES = {
    purpose.name: purpose
    for purpose in (
        Purpose(
            "density",
            "where and when there are many",
            "How alike the counts by place (cells of 500 m) and hour of the day are.",
            lambda values: kept(values["density"]),
        ),
        Purpose(
            "flows",
            "how many travel from where to where",
            "How many of the 100 largest flows between areas of 1 km are found again, and how right "
            "their sizes are.",
            _flows,
        ),
        Purpose(
            "trips",
            "how far, how long and which way trips go",
            "How alike lengths and durations of trips and moves between areas of 1 km are.",
            _trips,
        ),
        Purpose(
            "histories",
            "what one object does over time",
            "How much of each object's visits stays its own, of all that is then under its name.",
            lambda values: 1.0 - values["inf.sym"],
            frozenset({"edited"}),
        ),
    )
}


def find_purpose(name: str) -> Purpose:
    if name not in PURPOSES:
        raise BadInput(
            f"[[purpose]] {name!r} is not known", remedy="use one of " + ", ".join(PURPOSES)
        )
    return PURPOSES[name]


def in_words(usefulness: float) -> str:
    """How well it is kept."""
    return next((words for least, words in _WORDS if usefulness >= least), "hardly")
