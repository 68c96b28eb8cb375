"""What is tried: methods and parameters, the first with a guarantee first, then the cheap ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from freqdp_db.evaluation.recommendation.options import Purpose
from freqdp_db.methods.registry import find_method
from freqdp_db.release.request import Request

_DOES = {
    "lg": "changes how often each person, and how many people, appear at revealing places",
    "gl": "changes how many people, and how often each person, appear at revealing places",
    "pure-l": "changes how often each person appears at revealing places",
    "swap": "where paths cross, shuffles who continues along which",
    "cut": "cuts trips into pieces with ids of their own and leaves out stays",
    "points": "publishes single samples without trajectories",
    "strict": "generates synthetic trips from noisy counts",
    "counts": "publishes noisy counts by zone and hour with margins, and no trajectories",
}


@dataclass(frozen=True)
class MethodToTry:
    """A method with parameters, and a name that a person can tell it by."""

    method: str
    variant_name: str = ""
    """What is not as by default, in words."""
    given: dict[str, str] = field(default_factory=dict)
    weight: float = 1.0
    """How long it takes to run and to measure, beside the others."""

    @property
    def label(self) -> str:
        return f"{self.method}, {self.variant_name}" if self.variant_name else self.method

    @property
    def does(self) -> str:
        """What it does to the data, in words."""
        return "; then ".join(_DOES[part] for part in self.method.split("+"))

    @property
    def is_for_an_object(self) -> bool:
        """Whether it guarantees something for one object with all its data."""
        return find_method(self.method).unit == "person"

    def on_roads(self, roads: str | None) -> MethodToTry:
        """The same where trips keep to roads, if this one makes trips."""
        if roads is None or find_method(self.method).kind != "synthetic":
            return self
        return replace(
            self, given={**self.given, "roads": roads}, weight=_DEARER_ON_ROADS * self.weight
        )

    def request(self) -> Request:
        """What `anonymize` would be asked for."""
        return Request.parse(self.method, **self.given)


_DEARER_ON_ROADS = 4.0
_SHORT = {"pieces": "30min", "quiet": "10min"}
_WIDE = {"meet": "1000m/15min"}
_COARSE = {"time_step": "5min"}
_UNDATED = {"dates": "hour-of-week"}
_OF_DAY = {"dates": "hour-of-day"}
_CROWD = {"crowd": "10"}
_BRIEF = {"pieces": "10min", "quiet": "10min"}
_TRIP_ENDS = {"pieces": "24h", "quiet": "0s", "silence": "apart", "samples": "ends", "clock": "60s"}
"""Whole trips, of which only the ends are shown: what flows are counted by."""
_CELLS = {"grain": "500"}
_FIFTH = {"share": "20"}

GRID: Sequence[MethodToTry] = (
    # first, so that there is always time for the line with a guarantee
    MethodToTry("strict", "epsilon 2", {"epsilon": "2"}, 3.0),
    MethodToTry("lg"),
    MethodToTry("lg+cut"),
    MethodToTry("cut"),
    MethodToTry("lg+cut", "short pieces", _SHORT),
    MethodToTry("cut", "short pieces", _SHORT),
    # from most to least of what is shown: first what vehicles need, then what persons do
    MethodToTry("cut", "ends of trips", {**_TRIP_ENDS, "ends": "3"}),
    MethodToTry("cut", "ends of trips, hour of day only", {**_TRIP_ENDS, **_OF_DAY}),
    MethodToTry("points", "hour of day only", _OF_DAY),
    MethodToTry("points", "20 % of the samples, hour of day only", {**_FIFTH, **_OF_DAY}),
    MethodToTry("points", "5 % of the samples, hour of day only", {"share": "5", **_OF_DAY}),
    MethodToTry("points", "1 % of the samples, hour of day only", {"share": "1", **_OF_DAY}),
    MethodToTry(
        "points", "20 % in cells of 500 m, hour of day only", {**_FIFTH, **_CELLS, **_OF_DAY}
    ),
    MethodToTry("cut", "10 min pieces, no dates", {**_BRIEF, **_UNDATED}),
    MethodToTry("points", "crowds of 10, no dates", {**_CROWD, **_UNDATED}),
    MethodToTry(
        "points", "5 % of the samples, crowds of 10, no dates", {"share": "5", **_CROWD, **_UNDATED}
    ),
    MethodToTry("cut", "10 min pieces, crowds of 10, no dates", {**_BRIEF, **_CROWD, **_UNDATED}),
    MethodToTry("lg", "times to 5 min", _COARSE),
    MethodToTry("lg+swap", weight=1.2),
    MethodToTry("swap", weight=1.2),
    MethodToTry("lg+swap", "wide meetings", _WIDE, 1.2),
    MethodToTry("swap", "wide meetings", _WIDE, 1.2),
    MethodToTry("lg+swap", "wide meetings, times to 5 min", {**_WIDE, **_COARSE}, 1.2),
    MethodToTry("lg+swap+cut", weight=1.4),
    MethodToTry("lg+swap+cut", "short pieces", _SHORT, 1.4),
    MethodToTry("strict", "epsilon 4", {"epsilon": "4"}, 3.0),
    MethodToTry("strict", "epsilon 1", {"epsilon": "1"}, 3.0),
)
_TRIMMED: Sequence[MethodToTry] = (
    MethodToTry("cut", "short pieces, ends trimmed by the map", _SHORT, 1.5),
    MethodToTry(
        "cut", "10 min pieces, ends trimmed by the map, no dates", {**_BRIEF, **_UNDATED}, 1.5
    ),
)
"""Tried where there are roads."""
_HISTORIES: Sequence[MethodToTry] = (
    MethodToTry("lg"),
    MethodToTry("lg", "epsilon 0.2", {"epsilon": "0.2"}),
    MethodToTry("lg", "signature 30", {"signature": "30"}),
    MethodToTry("lg", "times to 5 min", _COARSE),
    MethodToTry("lg", "times to 1 h", {"time_step": "1h"}),
    MethodToTry("gl"),
    MethodToTry("pure-l"),
    # out, but they say what it costs that each trajectory must be one object's
    MethodToTry("lg+cut"),
    MethodToTry("lg+swap+cut", weight=1.4),
)
_NEVER: Sequence[tuple[tuple[str, ...], str]] = (
    (
        ("gl", "pure-g", "pure-l"),
        "like lg, they leave each trajectory one person's, and people are found in them about as often or "
        "more: lg stands for them",
    ),
    (
        ("glove",),
        "each trajectory stands for k people, which does not bound what an attacker learns, and its areas "
        "have no trips or flows to compare. Ask for it by name if you need k-anonymity",
    ),
    (("klt",), "like glove; it also needs points of interest (--poi)"),
    (
        ("w4m",),
        "each trajectory stays one person's, slightly moved, with no bound on re-identification; it "
        "compares all pairs of objects, which is slow",
    ),
    (
        ("adatrace", "dpt"),
        "published methods with the same guarantee as strict, which is the one to use",
    ),
    (("sc", "rsc"), "for comparison only, never granted to analysts"),
)
"""What a user may expect here, and why it is not tried."""
_NO_HISTORY = (
    "their trajectories are not one person's, so they hold no histories. lg+cut and lg+swap+cut were "
    "measured to show what that requirement costs"
)
HEAVIEST = MethodToTry("lg+swap+cut", weight=1.4)
"""Goes through every kernel: run first, to know how long the others will take."""


_COUNTS = {
    "density": {"zones": "grid:500m", "tables": "visits"},
    "flows": {"zones": "grid:1km", "tables": "flows"},
}
"""What `counts` is asked for: the table that answers the question."""


def grid_for(purpose: Purpose, roads: str | None = None) -> Sequence[MethodToTry]:
    """What is tried for a purpose."""
    methods = list(_HISTORIES if purpose.kinds == {"edited"} else GRID)
    if purpose.name in _COUNTS:
        given = _COUNTS[purpose.name]
        asked = f"{given['tables']} by {given['zones'].removeprefix('grid:')} and hour, epsilon 2"
        methods.insert(1, MethodToTry("counts", asked, {**given, "epsilon": "2"}, 2.0))
    if roads is not None and purpose.kinds != {"edited"}:
        methods += [replace(method, given={**method.given, "roads": roads}) for method in _TRIMMED]
    return [method.on_roads(roads) for method in methods]


def never_tried(purpose: Purpose) -> list[tuple[str, str]]:
    """Methods that are not tried for a purpose, whatever the data and the time: names and reason."""
    tried = {part for method in grid_for(purpose) for part in method.method.split("+")}
    found = []
    if purpose.name not in _COUNTS:
        found.append(("counts", "tables of counts have no trajectories and answer other questions"))
    if purpose.kinds == {"edited"}:
        found.append(("swap, cut, points, strict", _NO_HISTORY))
    for names, why in _NEVER:
        missing = [name for name in names if name not in tried]
        if missing:
            found.append((", ".join(missing), why))
    return found
