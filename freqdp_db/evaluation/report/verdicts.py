"""The three questions an owner asks before handing a release out, answered from its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from freqdp_db.evaluation.metrics import HEADLINE

_LENGTHS = {"10": "the 10 strongest of them", "full": "all of them"}
_SIGNATURES = {"s": "places", "st": "places by the hour", "sq": "movements between places"}
_PROTOCOLS = {"a": "over the whole period", "b": "from other days"}


@dataclass(frozen=True)
class Verdict:
    """One question, its answer in a word, the number behind it, and what the number means."""

    question: str
    answer: str
    metric: str
    value: float | None
    meaning: str


def verdicts(values: Mapping[str, float]) -> list[Verdict]:
    """Found? Useful? Recoverable? Refuses nothing: what was not measured is said to be so."""
    return [_found(values), _useful(values), _recoverable(values)]


def attack_in_words(name: str) -> str:
    """What an attacker of this metric has and does."""
    kind, _, rest = name.partition(".")
    if kind == "la_x":
        return f"who knows {rest} exact sample{'s' * (rest != '1')} (place and time) of somebody"
    if kind == "la_t":
        return f"who compares times of day {_PROTOCOLS[rest]}"
    protocol, length = rest.split(".")
    what = _SIGNATURES[kind.removeprefix("la_")]
    return f"who compares {what}, {_LENGTHS[length]}, {_PROTOCOLS[protocol]}"


def strongest_attack(values: Mapping[str, float]) -> str:
    """The linking attack that links most."""
    attacks = {n: v for n, v in values.items() if n.startswith("la_") and not n.endswith(".none")}
    return max(attacks, key=lambda name: attacks[name])


def _found(values: Mapping[str, float]) -> Verdict:
    question = "Could someone be found in it?"
    if HEADLINE not in values:
        return Verdict(question, "not measured", HEADLINE, None, "Run freqdp evaluate.")
    linked = values[HEADLINE]
    best = strongest_attack(values)
    places = max(v for n, v in values.items() if n.startswith("la_s.") and not n.endswith(".none"))
    answer = "hardly" if linked < 0.05 else "some" if linked < 0.3 else "yes"
    return Verdict(
        question,
        answer,
        best,
        linked,
        f"The best of all attackers links {linked:.1%} of the objects right: one "
        f"{attack_in_words(best)}. By places alone it is {places:.1%}.",
    )


def _useful(values: Mapping[str, float]) -> Verdict:
    question = "Is it still good for analysis?"
    if "query_error" not in values:
        return Verdict(question, "not measured", "query_error", None, "Run freqdp evaluate.")
    error, lost, hotspot = values["query_error"], values["inf"], values["hotspot"]
    answer = "yes" if error < 0.1 else "for coarse questions" if error < 0.3 else "hardly"
    return Verdict(
        question,
        answer,
        "query_error",
        error,
        f"A count of objects in an area is off by {error:.1%} in the median, and the busiest areas "
        f"keep their order with a rank correlation of {hotspot:.2f}. {lost:.1%} of each object's "
        "samples are gone.",
    )


def _recoverable(values: Mapping[str, float]) -> Verdict:
    question = "Could the original be put back together?"
    if "recovery.f" not in values:
        return Verdict(
            question,
            "not measured",
            "recovery.f",
            None,
            "It takes roads: freqdp evaluate NAME --roads schema.table.",
        )
    f, precision, recall = (values[f"recovery.{n}"] for n in ("f", "precision", "recall"))
    answer = "hardly" if f < 0.2 else "in part" if f < 0.6 else "mostly"
    return Verdict(
        question,
        answer,
        "recovery.f",
        f,
        f"Matched to the roads, the release gives back {recall:.1%} of the road kilometres that were "
        f"driven, and {precision:.1%} of what it gives were driven (F {f:.2f}).",
    )
