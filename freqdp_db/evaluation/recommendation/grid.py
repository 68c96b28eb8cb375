"""What is tried: methods and parameters, from cheap to expensive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from freqdp_db.evaluation.recommendation.purposes import Purpose
from freqdp_db.release.request import Request

_DOES = {
    "lg": "changes how often a person is at telling places, and how many are",
    "gl": "changes how many are at telling places, and how often a person is",
    "pure-l": "changes how often a person is at telling places",
    "swap": "deals out among those who meet what each does next",
    "cut": "cuts trips into pieces with ids of their own, and leaves stays out",
    "strict": "makes trips up from noisy counts",
}


@dataclass(frozen=True)
class Variant:
    """A method with parameters, and a name that a person can tell it by."""

    method: str
    twist: str = ""
    """What is not as by default, in words."""
    given: dict[str, str] = field(default_factory=dict)
    weight: float = 1.0
    """How long it takes to run and to measure, beside the others."""

    @property
    def label(self) -> str:
        return f"{self.method}, {self.twist}" if self.twist else self.method

    @property
    def does(self) -> str:
        """What it does to the data, in words."""
        return "; then ".join(_DOES[part] for part in self.method.split("+"))

    def request(self) -> Request:
        """What `anonymize` would be asked for."""
        return Request.parse(self.method, **self.given)


_SHORT = {"pieces": "30min", "quiet": "10min"}
_WIDE = {"meet": "1000m/15min"}
_COARSE = {"time_step": "5min"}

GRID: Sequence[Variant] = (
    Variant("lg"),
    Variant("lg+cut"),
    Variant("cut"),
    Variant("lg+cut", "short pieces", _SHORT),
    Variant("cut", "short pieces", _SHORT),
    Variant("lg", "times to 5 min", _COARSE),
    Variant("lg+swap", weight=1.2),
    Variant("swap", weight=1.2),
    Variant("lg+swap", "wide meetings", _WIDE, 1.2),
    Variant("swap", "wide meetings", _WIDE, 1.2),
    Variant("lg+swap", "wide meetings, times to 5 min", {**_WIDE, **_COARSE}, 1.2),
    Variant("lg+swap+cut", weight=1.4),
    Variant("lg+swap+cut", "short pieces", _SHORT, 1.4),
    Variant("strict", "epsilon 2", {"epsilon": "2"}, 3.0),
    Variant("strict", "epsilon 4", {"epsilon": "4"}, 3.0),
    Variant("strict", "epsilon 1", {"epsilon": "1"}, 3.0),
)
_HISTORIES: Sequence[Variant] = (
    Variant("lg"),
    Variant("lg", "epsilon 0.2", {"epsilon": "0.2"}),
    Variant("lg", "signature 30", {"signature": "30"}),
    Variant("lg", "times to 5 min", _COARSE),
    Variant("lg", "times to 1 h", {"time_step": "1h"}),
    Variant("gl"),
    Variant("pure-l"),
    # out, but they say what it costs that each trajectory must be one object's
    Variant("lg+cut"),
    Variant("lg+swap+cut", weight=1.4),
)
HEAVIEST = Variant("lg+swap+cut", weight=1.4)
"""Goes through every kernel: run first, to know how long the others will take."""


def grid_for(purpose: Purpose) -> Sequence[Variant]:
    """What is tried for a purpose."""
    whole = purpose.kinds == {"edited"}
    return _HISTORIES if whole else GRID
