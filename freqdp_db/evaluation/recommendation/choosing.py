"""Choose: the most useful candidate that keeps the risk, or what comes nearest.

The risk of a candidate is what the best attacker learns of a person's samples, as `evaluate` counts it:
the largest exposure. Of made-up trips it is the largest above its control, because what an attacker
hits there by chance is not learnt from anybody's samples. `half` is the share of persons of whom an
attacker learns more than half. Another draw and other persons give other numbers: both must stay within
the limit at the upper end of what such trials show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from freqdp_db.evaluation.attacks.exposure import is_exposure
from freqdp_db.evaluation.recommendation.grid import MethodToTry
from freqdp_db.evaluation.recommendation.options import Purpose, in_words
from freqdp_db.evaluation.report.words import attack_in_words
from freqdp_db.model.documents import Document
from freqdp_db.privacy.guarantee import ProtectedUnit
from freqdp_db.release.request import Request

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
    """So many, each on another half of the objects, with another draw."""
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

    @property
    def risk_words(self) -> str:
        return risk_in_words(self.risk)

    @property
    def use_words(self) -> str:
        return "cannot be used for it" if self.usefulness is None else in_words(self.usefulness)

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
        mine, theirs = (self.usefulness or 0.0, -self.risk), (other.usefulness or 0.0, -other.risk)
        return mine != theirs and mine[0] >= theirs[0] and mine[1] >= theirs[1]


@dataclass(frozen=True)
class Chosen:
    """What to use, and why."""

    recommended: Candidate | None
    nearest: Candidate | None
    """Where nothing meets the risk."""
    why: str

    @property
    def picked(self) -> Candidate | None:
        return self.recommended or self.nearest


def judged(
    variant: MethodToTry, request: Request, trials: Sequence[Mapping[str, float]], purpose: Purpose,
    limit: float, command: str, seconds: float, protected: ProtectedUnit,
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
        numbers=_means(trials),
        command=command,
        seconds=seconds,
    )


def _means(trials: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each shown metric over the trials that could measure it (speed needs enough moves)."""
    measured = {name: [values[name] for values in trials if name in values] for name in _SHOWN}
    return {name: fmean(values) for name, values in measured.items() if values}


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


def _largest(values: Mapping[str, float], beside: str, made_up: bool) -> tuple[float, str]:
    """The largest of all exposures, of made-up trips above its control; and whose it is."""
    above = {
        name: values[name + beside]
        - (values.get(f"{name}{beside}.control", 0.0) if made_up else 0.0)
        for name in values
        if is_exposure(name)
    }
    worst = max(above, key=lambda name: above[name])
    return max(above[worst], 0.0), worst


def choose(candidates: Sequence[Candidate], limit: float) -> Chosen:
    """The most useful that meets the risk; of those that are about as useful, the least risky."""
    usable = [c for c in candidates if c.usefulness is not None]
    meeting = [c for c in usable if c.meets]
    if meeting:
        best = min(_about_best(meeting), key=lambda c: (c.risk_high, c.half_high, -_use(c)))
        return Chosen(best, None, _why(best, usable, limit))
    if not usable:
        return Chosen(None, None, "No method that could be measured serves this purpose.")
    nearest = min(usable, key=lambda c: (max(c.risk_high, c.half_high), -_use(c)))
    return Chosen(
        None,
        nearest,
        f"No method that was tried keeps the risk at {percent(limit)} or less. {nearest.label} comes "
        f"nearest. {learns(nearest)} {expected_at_most(nearest)} Do not hand out a release on these "
        "terms: accept more risk (--risk), choose another purpose (--for), or publish statistics instead "
        "of trajectories.",
    )


def _use(candidate: Candidate) -> float:
    return candidate.usefulness or 0.0


def _about_best(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The most useful, and those that are as useful but for the luck of a draw."""
    most = max(_use(c) for c in candidates)
    return [c for c in candidates if _use(c) >= most - ALIKE]


def _why(best: Candidate, usable: Sequence[Candidate], limit: float) -> str:
    text = (
        f"{learns(best)} {expected_at_most(best)} That is within {percent(limit)}. Usefulness: "
        f"{share(_use(best))} ({best.use_words})."
    )
    meeting = [c for c in usable if c.meets]
    most = max(meeting, key=_use)
    if len(meeting) == 1:
        text += " No other candidate stays within it."
    elif _use(most) > _use(best):
        text += (
            f" Of the {len(meeting)} candidates within it, {most.label} is about as useful "
            f"({share(_use(most))} against {share(_use(best))}) but riskier ({percent(most.risk)})."
        )
    else:
        text += f" It is the most useful of the {len(meeting)} candidates within it."
    better = [c for c in usable if not c.meets and _use(c) > _use(best) + ALIKE]
    if better:
        # of what is more useful, the one that comes nearest to the limit
        tempting = min(better, key=lambda c: (max(c.risk_high, c.half_high), -_use(c)))
        text += (
            f" {tempting.label} would be more useful ({share(_use(tempting))} instead of "
            f"{share(_use(best))}), but lets an attacker learn {percent(tempting.risk)}, or up to "
            f"{percent(tempting.risk_high)} in another draw, {_more_than_half(tempting)}."
        )
    return text


def _more_than_half(candidate: Candidate) -> str:
    if candidate.half <= 0:
        return "and more than half of nobody"
    return f"and more than half for {percent(candidate.half)} of people"


def learns(candidate: Candidate) -> str:
    """What the best attacker learns, in a sentence."""
    return (
        f"The strongest attacker, {candidate.attacker}, learns {percent(candidate.risk)} of a person's "
        f"samples on average, {_more_than_half(candidate)}."
    )


def expected_at_most(candidate: Candidate) -> str:
    """The upper end, and what it rests on, in a sentence."""
    rests = (
        f"judging by {candidate.trials} trials on different people with different draws"
        if candidate.trials > 1
        else "judging by one trial with a margin of a quarter (there was no time for more)"
    )
    return (
        f"Expect at most {percent(candidate.risk_high)} (and {percent(candidate.half_high)} of people) in "
        f"another draw, {rests}."
    )


def contender(candidates: Sequence[Candidate], limit: float) -> Candidate | None:
    """What has to be tried again before the choice is sure: the chosen one, or a more useful one that
    may keep the limit after all; None: nothing has to."""
    chosen = choose(candidates, limit).recommended
    if chosen is not None and chosen.trials < TRIALS:
        return chosen
    may = [
        c
        for c in candidates
        if c.trials < TRIALS
        and _use(c) > (0.0 if chosen is None else _use(chosen) + ALIKE)
        and within(c.risk, c.half, limit)
    ]
    return max(may, key=lambda c: (_use(c), -c.risk), default=None)


def frontier(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Those that no other beats in both, the least useful first."""
    usable = [c for c in candidates if c.usefulness is not None]
    best = [c for c in usable if not any(other.beats(c) for other in usable)]
    return sorted(best, key=lambda c: (c.usefulness or 0.0, c.risk))


def guaranteed(candidates: Iterable[Candidate]) -> Candidate | None:
    """The most useful that guarantees something for an object; of about as useful ones, the strictest."""
    having = [c for c in candidates if c.person_epsilon is not None and c.usefulness is not None]
    if not having:
        return None
    return min(_about_best(having), key=lambda c: float(c.person_epsilon or 0))


def price_of_histories(candidates: Iterable[Candidate]) -> str | None:
    """What it costs that each trajectory must stay one object's."""
    known = list(candidates)
    inside = min((c for c in known if c.usefulness is not None), key=lambda c: c.risk, default=None)
    outside = min((c for c in known if c.usefulness is None), key=lambda c: c.risk, default=None)
    if inside is None or outside is None:
        return None
    return (
        "Whole histories rule out methods that unlink (cut, swap) or generate trips (strict). The cost: "
        f"the lowest risk is {percent(inside.risk)} ({inside.label}); without that requirement "
        f"{outside.label} reaches {percent(outside.risk)}."
    )


def risk_in_words(risk: float) -> str:
    """How much of a person is learnt."""
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
    """What was not tried, and why."""

    label: str
    reason: str


@dataclass(frozen=True)
class Recommendation(Document):
    """What to use for a dataset, why, and what else was tried."""

    dataset: str
    purpose: str
    risk: float
    """The limit."""
    objects: int
    """So many made the trial releases; as many others were held out."""
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
                -(c.usefulness or 0.0),
                c.risk,
            ),
        )

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """The table."""
        return [
            (
                ("* " if c.label in (self.recommended, self.nearest) else "  ") + c.label,
                f"{percent(c.risk)}, at most {percent(c.risk_high)} ({c.risk_words})",
                percent(c.half_high),
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
            names = "; ".join(left.label for left in self.left_out)
            lines.append(f"Not tried, for reasons that the page gives: {names}.")
        return [*lines, FOR_THE_CURATOR, f"The page: {self.file}"]
