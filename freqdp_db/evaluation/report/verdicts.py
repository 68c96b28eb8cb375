"""The three questions an owner asks before handing a release out, answered from its metrics."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from freqdp_db.evaluation.attacks.exposure.measuring import is_exposure
from freqdp_db.evaluation.metrics import EXPOSED, LINKED, is_linking
from freqdp_db.methods.guarantee import stands_for
from freqdp_db.storage.records.releases import ReleaseRow

_LENGTHS = {"10": "the 10 strongest of them", "full": "all of them"}
_SIGNATURES = {"s": "places", "st": "places by the hour", "sq": "movements between places"}
Tone = Literal["good", "middling", "bad", "unknown", "moot"]
"""Whether the answer is good news: a yes may be either. Moot: the question does not apply."""
_Scale = tuple[tuple[float, str, Tone], ...]
"""Below this value; the answer; and how that is."""
_ENDLESS = float("inf")
_FOUND: _Scale = ((0.05, "hardly", "good"), (0.3, "in part", "middling"), (_ENDLESS, "yes", "bad"))
_USEFUL: _Scale = (
    (0.1, "yes", "good"),
    (0.3, "for coarse questions", "middling"),
    (_ENDLESS, "hardly", "bad"),
)
_FLOWS_OFF = 0.3
"""From this error of the largest flows on, places and times alone are kept well."""
_RECOVERED: _Scale = (
    (0.2, "hardly", "good"),
    (0.6, "in part", "middling"),
    (_ENDLESS, "mostly", "bad"),
)
_MARKS = {
    "fraction": "the same fraction of a second",
    "second": "the same second of the minute",
    "interval": "the same interval and phase",
    "digits": "as many digits",
}
"""What a device is known by."""
_PROTOCOLS = {"a": "over the whole period", "b": "from other days"}


@dataclass(frozen=True)
class Verdict:
    """One question, its answer in a word, the number behind it, and what the number means."""

    question: str
    answer: str
    metric: str
    value: float | None
    meaning: str
    tone: Tone = "unknown"


def _judge(value: float, scale: _Scale) -> tuple[str, Tone]:
    """By the number as it is shown, to a thousandth: no two answers to the same number."""
    shown = round(value, 3)
    return next((answer, tone) for below, answer, tone in scale if shown < below)


def verdicts(
    values: Mapping[str, float], name: str = "NAME", no_ways: str | None = None
) -> list[Verdict]:
    """Found? Useful? Recoverable? Refuses nothing: what was not measured is said to be so.

    name: of the release. no_ways: why it has none that could be put back together.
    """
    return [_found(values, name), _useful(values, name), _recoverable(values, name, no_ways)]


def verdicts_of(release: ReleaseRow, values: Mapping[str, float]) -> list[Verdict]:
    """Those of a release that was made."""
    no_ways = None
    if release.kind == "synthetic":
        no_ways = "Its trips are made up and nobody's: they have no original."
    elif stands_for(release.guarantee) is not None:
        no_ways = (
            "It has areas and intervals for several objects each, no ways that roads could join."
        )
    return verdicts(values, shlex.quote(release.name), no_ways)


def attack_in_words(name: str) -> str:
    """What an attacker of this metric (`la_x.4`, `exposure.s.a.full`, ...) has and does."""
    name = name.removeprefix("exposure.").removeprefix("la_")
    kind, _, rest = name.partition(".")
    if kind == "x":
        return f"who knows {rest} exact sample{'s' * (rest != '1')} (place and time) of somebody"
    if kind in ("follow", "rhythm"):
        known = (
            f"who knows {rest} exact sample{'s' * (rest != '1')} of somebody and follows the trace"
        )
        return known + (" by its speed and direction" if kind == "follow" else " by its rhythm")
    if kind in _MARKS:
        return f"who knows {rest} exact samples of somebody and takes what has {_MARKS[kind]}"
    if kind == "t":
        return f"who compares times of day {_PROTOCOLS[rest]}"
    protocol, length = rest.split(".")
    return f"who compares {_SIGNATURES[kind]}, {_LENGTHS[length]}, {_PROTOCOLS[protocol]}"


def strongest(values: Mapping[str, float], attacks: Iterable[str]) -> str:
    """The attack that finds or learns most."""
    return max(attacks, key=lambda name: values[name])


def _found(values: Mapping[str, float], name: str) -> Verdict:
    question = "Could someone be found in it?"
    if EXPOSED not in values:
        return Verdict(question, "not measured", EXPOSED, None, f"Run freqdp evaluate {name}.")
    learnt = values[EXPOSED]
    best = strongest(values, filter(is_exposure, values))
    answer, tone = _judge(learnt, _FOUND)
    meaning = "No attacker that was tried learns anything of a person's samples."
    if learnt > 0:
        meaning = (
            f"The best of all attackers learns {learnt:.1%} of a person's samples on average: one "
            f"{attack_in_words(best)}."
        )
        half = values.get(f"{best}.half")
        if half is not None:
            meaning += f" Of {half:.1%} of the persons it is more than half."
    if LINKED in values:
        by = strongest(values, filter(is_linking, values))
        meaning += f" {values[LINKED]:.1%} are linked to the right trajectory by one {attack_in_words(by)}."
    return Verdict(question, answer, best, learnt, meaning, tone)


def _useful(values: Mapping[str, float], name: str) -> Verdict:
    question = "Is it still good for analysis?"
    if "inf" not in values and "density" in values:
        return _useful_in_all(question, values["density"], values["flow"])
    if "query_error" not in values:
        missing = f"Run freqdp evaluate {name}."
        return Verdict(question, "not measured", "query_error", None, missing)
    error, lost, hotspot = values["query_error"], values.get("inf"), values["hotspot"]
    # counts of objects may stay where most samples are gone: the worse of the two is the answer
    worse = max(("query_error", "density"), key=lambda name: values.get(name, 0.0))
    answer, tone = _judge(values[worse], _USEFUL)
    return Verdict(
        question,
        answer,
        worse,
        values[worse],
        f"A count of objects in an area is off by {error:.1%} in the median, and the busiest areas "
        f"keep their order with a rank correlation of {hotspot:.2f}."
        + ("" if worse == "query_error" else f" {_apart(values[worse])}.")
        + ("" if lost is None else f" {lost:.1%} of each object's samples are gone."),
        tone,
    )


def _apart(density: float) -> str:
    return (
        f"Where samples lie by the hour differs from the original by {density:.3f} (0: the same, 0.693: "
        "nothing in common)"
    )


def _useful_in_all(question: str, density: float, flow: float) -> Verdict:
    """Where released trajectories are not the objects': what is counted over all of them."""
    answer, tone = _judge(density, _USEFUL)
    if tone == "good" and round(flow, 3) >= _FLOWS_OFF:
        answer, tone = "for places and times, less for flows", "middling"
    return Verdict(
        question,
        answer,
        "density",
        density,
        f"{_apart(density)}; the shares of the 100 largest flows are off by {flow:.1%} on average. "
        "Trajectories are not the objects': do not count objects by them.",
        tone,
    )


def _recoverable(values: Mapping[str, float], name: str, no_ways: str | None) -> Verdict:
    question = "Could the original be put back together?"
    if no_ways is not None:
        return Verdict(question, "does not apply", "recovery.f", None, no_ways, "moot")
    if "recovery.f" not in values:
        return Verdict(
            question,
            "not measured",
            "recovery.f",
            None,
            f"It takes roads (freqdp evaluate {name} --roads schema.table), and a release that has a "
            "trajectory for each object.",
        )
    f, precision, recall = (values[f"recovery.{n}"] for n in ("f", "precision", "recall"))
    answer, tone = _judge(f, _RECOVERED)
    return Verdict(
        question,
        answer,
        "recovery.f",
        f,
        f"Matched to the roads, the release gives back {recall:.1%} of the road kilometres that were "
        f"driven, and {precision:.1%} of what it gives were driven (F {f:.3f}).",
        tone,
    )
