"""What `recommend` tries, how a candidate is judged, and which one is chosen.

A purpose rates a release by one number from 0 to 1. 0 is "nothing in common with the original", 1 is
"the same". They compare methods on one dataset and are no scores to quote. A divergence (JSD, at most
ln 2) becomes 1 - sqrt(JSD / ln 2): the root makes a distance of it, and keeps small losses visible.

- `density`: 1 - sqrt(JSD / ln 2) of samples by 500 m cell and hour of the day (metric `density`).
- `flows`: mean of F1 and of 1 - relative error (at most 1) of the 100 largest flows (`flow.f1`, `flow`).
- `trips`: mean of 1 - sqrt(JSD / ln 2) of trip lengths, durations, and moves between cells of 1 km
  (`length`, `duration`, `transitions`).
- of `counts`, density and flows are counted in the zones of its tables: visits of persons by zone and
  hour, trips between zones.
- `histories`: share of each object's visits that stays its own (1 - `inf.sym`).

The risk of a candidate is what the best attacker learns of a person's samples, as `evaluate` counts it:
the largest exposure. Of made-up trips it is the largest above its control, because what an attacker
hits there by chance is not learnt from anybody's samples. `half` is the share of persons of whom an
attacker learns more than half. Another draw and other persons give other numbers: both must stay within
the limit at the upper end of what such trials show. The most useful candidate that does is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from freqdp_db.errors import BadInput
from freqdp_db.evaluation.attacks.exposure import is_exposure
from freqdp_db.evaluation.report.words import attack_in_words
from freqdp_db.methods.contract import KINDS, Kind
from freqdp_db.methods.registry import find_method
from freqdp_db.model.documents import Document
from freqdp_db.privacy.guarantee import ProtectedUnit
from freqdp_db.release.request import Request

# Purposes.


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
            lambda values: (values["flow.f1"] + 1.0 - min(values["flow"], 1.0)) / 2,
        ),
        Purpose(
            "trips",
            "how far, how long and which way trips go",
            "How alike lengths and durations of trips and moves between areas of 1 km are.",
            lambda values: fmean(kept(values[n]) for n in ("length", "duration", "transitions")),
            frozenset(KINDS) - {"counts"},
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


def use_in_words(usefulness: float) -> str:
    return next((words for least, words in _WORDS if usefulness >= least), "hardly")


# What is tried: the first with a guarantee first, then what promises most.

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

    @property
    def label(self) -> str:
        return f"{self.method}, {self.variant_name}" if self.variant_name else self.method

    @property
    def pace(self) -> str:
        """Candidates of one pace take about as long as each other."""
        return f"{self.method}, {self.given.get('samples', 'all')}"

    @property
    def does(self) -> str:
        return "; then ".join(_DOES[part] for part in self.method.split("+"))

    @property
    def is_for_an_object(self) -> bool:
        """Whether it guarantees something for one object with all its data."""
        return find_method(self.method).unit == "person"

    def on_roads(self, roads: str | None) -> MethodToTry:
        """The same where trips keep to roads, if this one makes trips."""
        if roads is None or find_method(self.method).kind != "synthetic":
            return self
        return replace(self, given={**self.given, "roads": roads})

    def request(self) -> Request:
        """What `anonymize` would be asked for."""
        return Request.parse(self.method, **self.given)


_SHORT = {"pieces": "30min", "quiet": "10min"}
_WIDE = {"meet": "1000m/15min"}
_COARSE = {"time_step": "5min"}
_UNDATED = {"dates": "hour-of-week"}
_OF_DAY = {"dates": "hour-of-day"}
_CROWD = {"crowd": "10"}
_BRIEF = {"pieces": "10min", "quiet": "10min"}
_TRIP_ENDS = {
    "pieces": "24h", "quiet": "0s", "silence": "apart", "samples": "ends", "ends": "3", "clock": "60s",
}  # fmt: skip
"""Whole trips, of which only the ends are shown: what flows are counted by."""
_BY_CELL = {"grain": "500", "time_step": "1h", **_OF_DAY}
"""No finer than density is counted."""

Ladder = Sequence[MethodToTry]
"""Candidates of one sort, from most to least of what is shown: both usefulness and risk fall."""


def _shares(words: str, given: dict[str, str], shares: Sequence[str]) -> list[MethodToTry]:
    """`points` with fewer and fewer of the samples."""
    return [
        MethodToTry("points", f"{share} % of the samples, {words}", {**given, "share": share})
        for share in shares
    ]


LADDERS: dict[str, Ladder] = {
    # always first, so that there is time for the line with a guarantee
    "strict": [
        MethodToTry("strict", f"epsilon {epsilon}", {"epsilon": epsilon})
        for epsilon in ("4", "2", "1")
    ],
    "points": [
        MethodToTry("points", "hour of day only", _OF_DAY),
        *_shares("hour of day only", _OF_DAY, ("50", "30", "20", "10", "5", "1")),
    ],
    "cells": [
        MethodToTry("points", "cells of 500 m and hours of the day", _BY_CELL),
        *(
            MethodToTry(
                "points", f"cells of 500 m and hours of the day, at most {most} % one object's",
                {**_BY_CELL, "dominance": most},
            )
            for most in ("70", "50", "30")
        ),
    ],
    "crowds": [
        MethodToTry("points", "crowds of 10, hour of day only", {**_CROWD, **_OF_DAY}),
        *_shares("crowds of 10, hour of day only", {**_CROWD, **_OF_DAY}, ("50", "20", "10", "5")),
    ],
    "ends": [
        MethodToTry("cut", "ends of trips", _TRIP_ENDS),
        MethodToTry("cut", "ends of trips, hour of day only", {**_TRIP_ENDS, **_OF_DAY}),
        MethodToTry(
            "cut", "ends of trips, crowds of 10, hour of day only",
            {**_TRIP_ENDS, **_CROWD, **_OF_DAY},
        ),
    ],
    "cut": [
        MethodToTry("cut"),
        MethodToTry("cut", "short pieces", _SHORT),
        MethodToTry("cut", "10 min pieces, no dates", {**_BRIEF, **_UNDATED}),
        MethodToTry(
            "cut", "10 min pieces, crowds of 10, no dates", {**_BRIEF, **_CROWD, **_UNDATED}
        ),
    ],
    "lg": [MethodToTry("lg"), MethodToTry("lg", "times to 5 min", _COARSE)],
    "lg+cut": [MethodToTry("lg+cut"), MethodToTry("lg+cut", "short pieces", _SHORT)],
    "swap": [
        MethodToTry("swap"),
        MethodToTry("swap", "wide meetings", _WIDE),
    ],
    "lg+swap": [
        MethodToTry("lg+swap"),
        MethodToTry("lg+swap", "wide meetings", _WIDE),
        MethodToTry("lg+swap", "wide meetings, times to 5 min", {**_WIDE, **_COARSE}),
    ],
    "lg+swap+cut": [
        MethodToTry("lg+swap+cut"),
        MethodToTry("lg+swap+cut", "short pieces", _SHORT),
    ],
}  # fmt: skip
_FIRST = {
    "density": ("strict", "counts", "cells", "points", "crowds", "cut"),
    "flows": ("strict", "counts", "ends", "cut", "lg+swap+cut"),
    "trips": ("strict", "cut", "lg+swap+cut"),
}
"""Which ladders promise most for a purpose; the others follow."""
_TRIMMED: Ladder = (
    MethodToTry("cut", "short pieces, ends trimmed by the map", _SHORT),
    MethodToTry("cut", "10 min pieces, ends trimmed by the map, no dates", {**_BRIEF, **_UNDATED}),
)
"""Tried where there are roads."""
_HISTORIES: Ladder = (
    MethodToTry("lg"),
    MethodToTry("lg", "epsilon 0.2", {"epsilon": "0.2"}),
    MethodToTry("lg", "signature 30", {"signature": "30"}),
    MethodToTry("lg", "times to 5 min", _COARSE),
    MethodToTry("lg", "times to 1 h", {"time_step": "1h"}),
    MethodToTry("gl"),
    MethodToTry("pure-l"),
    # out, but they say what it costs that each trajectory must be one object's
    MethodToTry("lg+cut"),
    MethodToTry("lg+swap+cut"),
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
HEAVIEST = MethodToTry("lg+swap+cut")
"""Goes through every kernel: run first."""
TYPICAL = MethodToTry("cut")
"""Tells how long a candidate takes whose pace is not known."""


_COUNTS = {
    "density": {"zones": "grid:500m", "tables": "visits"},
    "flows": {"zones": "grid:1km", "tables": "flows", "bins": "parts-of-day"},
}
"""What `counts` is asked for: the table that answers the question."""


def ladders_for(purpose: Purpose, roads: str | None = None) -> list[Ladder]:
    """What is tried for a purpose, the most promising first."""
    if purpose.kinds == {"edited"}:
        return [[method] for method in _HISTORIES]
    ladders = dict(LADDERS)
    if purpose.name in _COUNTS:
        given = _COUNTS[purpose.name]
        asked = f"{given['tables']} by {given['zones'].removeprefix('grid:')}, epsilon 2"
        ladders["counts"] = [MethodToTry("counts", asked, {**given, "epsilon": "2"})]
    if roads is not None:
        ladders["trimmed"] = [replace(m, given={**m.given, "roads": roads}) for m in _TRIMMED]
    first = _FIRST[purpose.name]
    names = [*first, *(name for name in ladders if name not in first)]
    return [[method.on_roads(roads) for method in ladders[name]] for name in names]


def grid_for(purpose: Purpose, roads: str | None = None) -> list[MethodToTry]:
    return [method for ladder in ladders_for(purpose, roads) for method in ladder]


class Climb:
    """Which candidates of a ladder to try: those around the limit first, between too much and enough."""

    def __init__(self, ladder: Ladder) -> None:
        self.ladder = ladder
        self._too_much, self._enough = -1, len(ladder)

    def next(self) -> MethodToTry | None:
        """In the middle of what is not known; None: where the limit lies is known."""
        if self._enough - self._too_much < 2:
            return None
        return self.ladder[(self._too_much + self._enough) // 2]

    def tried(self, method: MethodToTry, *, within: bool) -> None:
        """Learn whether it keeps the limit, or cannot be tried at all."""
        place = self.ladder.index(method)
        if within:
            self._enough = place
        else:
            self._too_much = place


def steps_to_climb(ladders: Sequence[Ladder]) -> list[MethodToTry]:
    """About what has to be tried of them to know where the limit lies."""
    return [ladder[0] for ladder in ladders for _ in range(len(ladder).bit_length())]


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


# What was measured, and the choice.

_RISKS = ((0.01, "hardly anything"), (0.05, "little"), (0.2, "a part"), (0.5, "much"))
"""Below this risk; what is above the last is most of a person."""
SERVES = 0.5
"""What is less useful is not recommended without a word of caution."""
ALIKE = 0.02
"""Usefulness that differs by no more is no difference: another draw may turn it round."""
TRIALS = 3
"""So many for what is recommended, if there is time."""
_ONE_TRIAL = 1.25
_T95 = (6.314, 2.920)
"""Student's t at 95 %, one-sided, with 1 and 2 degrees of freedom."""
_SHOWN = (
    "exposure", "home", "home.control", "membership.auc", "membership.tpr1", "relink", "edits.auc",
    "density", "density.map", "flow", "flow.f1", "length", "duration", "transitions", "speed", "inf",
    "inf.sym",
)  # fmt: skip


@dataclass(frozen=True)
class Candidate(Document):
    """A method with parameters, and what was measured of it."""

    label: str
    method: str
    does: str
    """To the data, in words."""
    kind: str
    parameters: dict[str, Any]
    risk: float
    """What the best attacker learns of a person's samples: the mean over the trials."""
    half: float
    """Share of persons of whom an attacker learns more than half; likewise."""
    risk_high: float
    half_high: float
    """The upper ends of both: what another draw on other persons is to be expected to show at most."""
    trials: int
    """So many, each on other objects, with another draw."""
    worst: str
    """The metric of the best attacker."""
    attacker: str
    """The same in words."""
    usefulness: float | None
    """0 to 1; None: it cannot serve the purpose."""
    meets: bool
    """It serves the purpose and keeps the risk."""
    person_epsilon: str | None
    """Its guarantee for one object with all its data; None: it has none."""
    guarantee: str
    numbers: dict[str, float]
    command: str
    seconds: float
    complete: bool = True
    """Whether all attackers were tried. They are not once one has learnt more than the limit: then the
    risk is at least this."""

    @property
    def learnt(self) -> str:
        """The risk as it is shown."""
        return percent(self.risk) if self.complete else f"at least {percent(self.risk)}"

    @property
    def risk_shown(self) -> str:
        """The same with its upper end and in words, if all attackers were tried."""
        if not self.complete:
            return self.learnt
        return f"{self.learnt}, at most {percent(self.risk_high)} ({risk_in_words(self.risk)})"

    @property
    def half_shown(self) -> str:
        """The upper end of the share of persons of whom more than half is learnt."""
        return percent(self.half_high) if self.complete else f"at least {percent(self.half)}"

    @property
    def use(self) -> float:
        """The usefulness, 0 where it cannot serve."""
        return self.usefulness or 0.0

    @property
    def use_words(self) -> str:
        return "cannot be used for it" if self.usefulness is None else use_in_words(self.usefulness)

    @property
    def caution(self) -> str:
        """What has to be said beside its name; empty where it serves well enough."""
        if self.usefulness is None or self.usefulness >= SERVES:
            return ""
        return (
            f"little of what analysts need is left (usefulness {share(self.usefulness)} of 1: "
            f"{self.use_words})"
        )

    def beats(self, other: Candidate) -> bool:
        """At least as good in both, and better in one."""
        mine, theirs = (self.use, self.risk), (other.use, other.risk)
        return mine != theirs and self.use >= other.use and self.risk <= other.risk


@dataclass(frozen=True)
class Chosen:
    recommended: Candidate | None
    nearest: Candidate | None
    """Where nothing meets the risk."""
    why: str

    @property
    def picked(self) -> Candidate | None:
        return self.recommended or self.nearest


def judged(
    variant: MethodToTry, request: Request, trials: Sequence[Mapping[str, float]], purpose: Purpose,
    limit: float, command: str, seconds: float, protected: ProtectedUnit, *, complete: bool = True,
) -> Candidate:  # fmt: skip
    """What was measured of a candidate, held against a purpose and a limit."""
    method = request.method
    made_up = method.kind == "synthetic"
    risks = [_largest(values, "", made_up) for values in trials]
    halves = [_largest(values, ".half", made_up)[0] for values in trials]
    worst = max(risks)[1]
    risk, half = fmean(value for value, _ in risks), fmean(halves)
    risk_high, half_high = upper_end([value for value, _ in risks]), upper_end(halves)
    serves = method.kind in purpose.kinds
    score = fmean(purpose.score(values) for values in trials) if serves else 0.0
    useful = min(max(score, 0.0), 1.0) if serves else None
    guarantee = request.guarantee(protected)
    # speed needs enough moves: not every trial can measure it
    measured = {name: [values[name] for values in trials if name in values] for name in _SHOWN}
    return Candidate(
        label=variant.label,
        method=method.name,
        does=variant.does,
        kind=method.kind,
        parameters=request.published(),
        risk=risk,
        half=half,
        risk_high=risk_high,
        half_high=half_high,
        trials=len(trials),
        worst=worst,
        attacker=f"one {attack_in_words(worst)}",
        usefulness=useful,
        meets=serves and within(risk_high, half_high, limit),
        person_epsilon=guarantee["epsilon"] if method.unit == "person" else None,
        guarantee=guarantee["plain"],
        numbers={name: fmean(values) for name, values in measured.items() if values},
        command=command,
        seconds=seconds,
        complete=complete,
    )


def within(risk: float, half: float, limit: float) -> bool:
    """Whether both stay within the limit."""
    return risk <= limit and half <= limit


def upper_end(values: Sequence[float]) -> float:
    """What one more trial is to be expected to show at most, with a probability of 95 %.

    Of several trials, the upper end of the prediction interval (Student's t), and no less than any of
    them showed. One trial says nothing of how much they differ: then a quarter is added.
    """
    if len(values) == 1:
        return min(_ONE_TRIAL * values[0], 1.0)
    wide = stdev(values) * math.sqrt(1.0 + 1.0 / len(values)) * _T95[len(values) - 2]
    return min(max(fmean(values) + wide, *values), 1.0)


def is_out(values: Mapping[str, float], limit: float) -> bool:
    """Whether what some attackers learnt of somebody's samples is above the limit already."""
    risk, half = (_largest(values, beside, made_up=False)[0] for beside in ("", ".half"))
    return not within(risk, half, limit)


def _largest(values: Mapping[str, float], beside: str, made_up: bool) -> tuple[float, str]:
    """The largest of all exposures, of made-up trips above its control, and whose it is; 0: of none."""
    above = {
        name: values[name + beside]
        - (values.get(f"{name}{beside}.control", 0.0) if made_up else 0.0)
        for name in values
        if is_exposure(name)
    }
    worst = max(above, key=above.__getitem__, default="")
    return max(above.get(worst, 0.0), 0.0), worst


def choose(candidates: Sequence[Candidate], limit: float) -> Chosen:
    """The most useful that meets the risk; of those that are about as useful, the least risky."""
    usable = [c for c in candidates if c.usefulness is not None]
    meeting = [c for c in usable if c.meets]
    if meeting:
        best = min(_about_best(meeting), key=lambda c: (c.risk_high, c.half_high, -c.use))
        return Chosen(best, None, _why(best, usable, limit))
    if not usable:
        return Chosen(None, None, "No method that could be measured serves this purpose.")
    nearest = min(usable, key=lambda c: (max(c.risk_high, c.half_high), -c.use))
    so_far = "" if nearest.complete else ", as far as it was attacked"
    return Chosen(
        None,
        nearest,
        f"No method that was tried keeps the risk at {percent(limit)} or less. {nearest.label} comes "
        f"nearest{so_far}. {learns(nearest)} {expected_at_most(nearest)} Do not hand out a release on "
        "these terms: accept more risk (--risk), choose another purpose (--for), or publish statistics "
        "instead of trajectories.",
    )


def _about_best(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The most useful, and those that are as useful but for the luck of a draw."""
    return [c for c in candidates if c.use >= max(c.use for c in candidates) - ALIKE]


def _why(best: Candidate, usable: Sequence[Candidate], limit: float) -> str:
    text = (
        f"{learns(best)} {expected_at_most(best)} That is within {percent(limit)}. Usefulness: "
        f"{share(best.use)} ({best.use_words})."
    )
    meeting = [c for c in usable if c.meets]
    most = max(meeting, key=lambda c: c.use)
    if len(meeting) == 1:
        text += " No other candidate stays within it."
    elif most.use > best.use:
        text += (
            f" Of the {len(meeting)} candidates within it, {most.label} is about as useful "
            f"({share(most.use)} against {share(best.use)}) but riskier ({most.learnt})."
        )
    else:
        text += f" It is the most useful of the {len(meeting)} candidates within it."
    better = [c for c in usable if not c.meets and c.use > best.use + ALIKE]
    if better:
        # of what is more useful, the one that comes nearest to the limit
        tempting = min(better, key=lambda c: (max(c.risk_high, c.half_high), -c.use))
        high = ""
        if tempting.complete:
            high = f", or up to {percent(tempting.risk_high)} in another draw"
        text += (
            f" {tempting.label} would be more useful ({share(tempting.use)} instead of "
            f"{share(best.use)}), but lets an attacker learn {tempting.learnt} of a person's samples"
            f"{high}{_more_than_half(tempting)}."
        )
    return text


def _more_than_half(candidate: Candidate) -> str:
    """The end of a sentence; empty where nothing can be said, because not all attackers were tried."""
    if candidate.half <= 0:
        return ", and more than half of nobody" if candidate.complete else ""
    least = "" if candidate.complete else "at least "
    return f", and more than half for {least}{percent(candidate.half)} of people"


def learns(candidate: Candidate) -> str:
    """What the best attacker learns of those that were tried, in a sentence."""
    who = "The strongest attacker" if candidate.complete else "An attacker"
    return (
        f"{who}, {candidate.attacker}, learns {candidate.learnt} of a person's samples on average"
        f"{_more_than_half(candidate)}."
    )


def expected_at_most(candidate: Candidate) -> str:
    """The upper end, and what it rests on, in a sentence."""
    if not candidate.complete:
        return "Not all attackers were tried: it may be more."
    rests = (
        f"judging by {candidate.trials} trials with other draws, other people attacked and held out"
        if candidate.trials > 1
        else "judging by one trial with a margin of a quarter (there was no time for more)"
    )
    return (
        f"Expect at most {percent(candidate.risk_high)} (and {percent(candidate.half_high)} of people) in "
        f"another draw, {rests}."
    )


def contender(candidates: Sequence[Candidate], limit: float) -> Candidate | None:
    """What has to be tried (again) before the choice is sure: the chosen one, a more useful one that
    may keep the limit after all, or what comes nearest by attackers that are not all; None: nothing."""
    choice = choose(candidates, limit)
    chosen = choice.recommended
    if chosen is not None and chosen.trials < TRIALS:
        return chosen
    if choice.nearest is not None and not choice.nearest.complete:
        return choice.nearest
    may = [
        c
        for c in candidates
        if c.trials < TRIALS
        and c.use > (0.0 if chosen is None else chosen.use + ALIKE)
        and within(c.risk, c.half, limit)
    ]
    return max(may, key=lambda c: (c.use, -c.risk), default=None)


def frontier(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Of those that all attackers were tried on: what no other beats in both, the least useful first."""
    known = [c for c in candidates if c.usefulness is not None and c.complete]
    best = [c for c in known if not any(other.beats(c) for other in known)]
    return sorted(best, key=lambda c: (c.use, c.risk))


def guaranteed(candidates: Iterable[Candidate]) -> Candidate | None:
    """The most useful that guarantees something for an object; of about as useful ones, the strictest."""
    having = [c for c in candidates if c.person_epsilon is not None and c.usefulness is not None]
    if not having:
        return None
    return min(_about_best(having), key=lambda c: float(c.person_epsilon or 0))


def price_of_histories(candidates: Iterable[Candidate]) -> str | None:
    """What it costs that each trajectory must stay one object's.

    A risk is compared where all attackers were tried; if there is none, it is at least the lowest.
    """
    known = list(candidates)
    usable = [c for c in known if c.usefulness is not None]
    complete = [c for c in usable if c.complete]
    inside = min(complete or usable, key=lambda c: c.risk, default=None)
    outside = min((c for c in known if c.usefulness is None), key=lambda c: c.risk, default=None)
    if inside is None or outside is None:
        return None
    lowest = "the lowest risk" if complete in ([], usable) else "the lowest risk by all attackers"
    return (
        "Whole histories rule out methods that unlink (cut, swap) or generate trips (strict). The cost: "
        f"{lowest} is {inside.learnt} ({inside.label}); without that requirement {outside.label} "
        f"reaches {outside.learnt}."
    )


def risk_in_words(risk: float) -> str:
    return next((words for most, words in _RISKS if risk < most), "most of a person")


def percent(value: float) -> str:
    """5 %, 3.8 %, 0.04 %: two figures, no more."""
    shown = 100 * value
    if shown and shown < 0.1:
        return "less than 0.1 %"
    return f"{shown:.1f} %".replace(".0 %", " %")


def share(usefulness: float | None) -> str:
    return "-" if usefulness is None else f"{usefulness:.2f}"


FOR_THE_CURATOR = (
    "The choice and this page are based on the original data: they are for the curator. Nothing was "
    "published or spent."
)


@dataclass(frozen=True)
class LeftOut:
    label: str
    reason: str


_NAMED = 8
"""So many of those that were not tried are named; the page has all."""


@dataclass(frozen=True)
class Recommendation(Document):
    """What to use for a dataset, why, and what else was tried."""

    dataset: str
    purpose: str
    risk: float
    """The limit."""
    objects: int
    """So many made the trial releases."""
    held_out: int
    """So many others did not."""
    attacked: int
    """So many of those who did were looked for in them."""
    objects_in_all: int
    seed: int
    minutes: float
    seconds: float
    recommended: str | None
    """The label of a candidate; None: nothing meets the risk."""
    nearest: str | None
    """If nothing does: what comes nearest."""
    why: str
    command: str | None
    """Asks for what is recommended, or for what comes nearest."""
    guarantee: str
    """What can be had with a guarantee for one object, which no measurement replaces."""
    candidates: list[Candidate]
    left_out: list[LeftOut]
    notes: list[str]
    file: Path

    @property
    def picked(self) -> Candidate | None:
        """What is recommended, or comes nearest."""
        name = self.recommended or self.nearest
        return next((c for c in self.candidates if c.label == name), None)

    @property
    def caution(self) -> str:
        """What has to be said beside what is recommended."""
        return "" if self.picked is None else self.picked.caution

    def ordered(self) -> list[Candidate]:
        """The picked one first, then what meets the risk, then the rest; the most useful first."""
        picked = self.recommended or self.nearest
        return sorted(
            self.candidates,
            key=lambda c: (
                c.label != picked,
                not c.meets,
                c.usefulness is None,
                -c.use,
                c.risk,
            ),
        )

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        return [
            (
                ("* " if c.label in (self.recommended, self.nearest) else "  ") + c.label,
                c.risk_shown,
                c.half_shown,
                f"{share(c.usefulness)} ({c.use_words})",
                "yes" if c.meets else "no",
            )
            for c in self.ordered()
        ]

    def lines(self) -> list[str]:
        """The answer, below the table."""
        head = self.why
        if self.recommended:
            beside = f", with caution: {self.caution}" if self.caution else ""
            head = f"Recommended for {self.dataset}: {self.recommended}{beside}. {self.why}"
        lines = [head]
        if self.command:
            lines.append(f"  {self.command}")
        lines += [self.guarantee, *self.notes]
        if self.left_out:
            names = "; ".join(left.label for left in self.left_out[:_NAMED])
            more = len(self.left_out) - _NAMED
            others = f"; and {more} more" if more > 0 else ""
            lines.append(f"Not tried, for reasons that the page gives: {names}{others}.")
        return [*lines, FOR_THE_CURATOR, f"The page: {self.file}"]
