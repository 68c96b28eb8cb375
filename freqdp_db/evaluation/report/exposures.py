"""Exposure in the report: a small multiple by attacker, the worst named in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from freqdp_db.evaluation.attacks.exposure.following import HORIZONS_H
from freqdp_db.evaluation.attacks.exposure.measuring import is_exposure
from freqdp_db.evaluation.metrics import EXPOSED
from freqdp_db.evaluation.report.charts import Share, bar_chart, share_panel
from freqdp_db.evaluation.report.verdicts import attack_in_words, strongest

_OF = {
    "a.10": "the 10 strongest, whole period",
    "a.full": "all, whole period",
    "b.10": "the 10 strongest, other days",
    "b.full": "all, other days",
}
_KNOWN = {k: f"{k} known sample{'s' * (k != '1')}" for k in ("1", "2", "4", "10")}
_FROM = {k: f"from {k} known sample{'s' * (k != '1')}" for k in ("1", "10")}


def _each(attack: str, variants: Mapping[str, str]) -> dict[str, str]:
    return {f"exposure.{attack}.{variant}": name for variant, name in variants.items()}


_PANELS = {
    "Knows a few exact samples": _each("x", _KNOWN),
    "Follows the trace by speed and direction": _each("follow", _FROM),
    "Follows the trace by its rhythm": _each("rhythm", _FROM),
    "Knows the device, from 10 known samples": {
        "exposure.fraction.10": "by its fraction of a second",
        "exposure.second.10": "by its second of the minute",
        "exposure.interval.10": "by its interval",
        "exposure.digits.10": "by its digits",
    },
    "Compares places": _each("s", _OF),
    "Compares places by the hour": _each("st", _OF),
    "Compares movements between places": _each("sq", _OF),
    "Compares times of day": _each("t", {"a": "whole period", "b": "other days"}),
}
"""Of each kind of attacker: its metrics, and what the bar of each is called."""
_BESIDE = {
    "home": "Where a person rests at night is told, to within 200 m, for {:.1%} of the persons: by the "
    "trajectory that 4 known samples find.",
    "profile": "On average, {:.1%} of a released trajectory is of the person it is taken for by habits "
    "of other days.",
    "relink": "A follower gets {:.1%} of the joints (swaps, cuts) right.",
    "edits.auc": "Inserted samples are told from true ones with {:.2f} (area under the curve: 0.5 is "
    "chance, 1 is always).",
}


Picture: TypeAlias = tuple[str, str]
"""Caption and SVG."""


@dataclass(frozen=True)
class Exposures:
    """What the section shows."""

    worst: str
    """In words."""
    marked: bool
    """Whether one of them is marked as the worst: not if none learns anything."""
    panels: list[Picture]
    """Of each kind of attacker."""
    horizons: Picture | None
    beside: list[str]
    """Sentences."""


def exposures(values: Mapping[str, float]) -> Exposures | None:
    """From the metrics of a release; None if they were not measured."""
    if EXPOSED not in values:
        return None
    worst = strongest(values, filter(is_exposure, values))
    # as it is shown: of nothing, none is the worst
    marked = worst if round(values[worst], 3) > 0 else None
    panels = []
    for title, bars in _PANELS.items():
        shares = [
            Share(name, values[metric], values.get(f"{metric}.precision"), metric == marked)
            for metric, name in bars.items()
            if metric in values
        ]
        if shares:
            told = "; ".join(f"{share.name} {share.value:.1%}" for share in shares)
            panels.append((title, share_panel(f"{title}: {told}", shares)))
    beside = [words.format(values[name]) for name, words in _BESIDE.items() if name in values]
    return Exposures(
        worst_in_words(values, worst), marked is not None, panels, _horizons(values), beside
    )


def worst_in_words(values: Mapping[str, float], worst: str) -> str:
    """Who it is, what it learns, of how many, and how often it is right."""
    if values[worst] <= 0:
        return "None of these attackers learns anything of a person's samples."
    words = (
        f"The worst is one {attack_in_words(worst)}: it learns {values[worst]:.1%} of a person's "
        "other samples on average"
    )
    half = values.get(f"{worst}.half")
    if half is not None and round(half, 3) > 0:
        words += f", and more than half of {half:.1%} of the persons"
    elif half is not None:
        words += ", and of nobody more than half"
    if f"{worst}.precision" in values:
        words += f". Of what it claims, {values[f'{worst}.precision']:.1%} is right"
    return words + "."


def _horizons(values: Mapping[str, float]) -> Picture | None:
    """How far from one known sample a follower comes, and how often it is still right."""
    names = ["to the end" if h is None else f"{h} h" for h in HORIZONS_H.values()]
    keys = [f"exposure.follow.1.{horizon}" for horizon in HORIZONS_H]
    if not all(key in values and f"{key}.precision" in values for key in keys):
        return None
    title = "Followed from one known sample by speed and direction, for so long either way"
    series = [
        ("% of the person learnt", [100 * values[key] for key in keys]),
        ("% of the claim right", [100 * values[f"{key}.precision"] for key in keys]),
    ]
    drawn = bar_chart(title, names, series, "followed for", "%")
    return (title, drawn) if drawn else None
