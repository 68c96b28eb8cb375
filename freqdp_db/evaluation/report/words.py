"""What the metrics say in words, for people: words come first, the metric's own name second."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from freqdp_db.evaluation.attacks.exposure.measuring import is_exposure
from freqdp_db.evaluation.report.verdicts import attack_in_words

_LOWER, _HIGHER = "lower is more private", "higher is more private"
_CLOSER, _LIKER = "lower is more useful", "higher is more useful"
LEARNT, LINKED, OTHERWISE = "What an attacker learns", "Who is linked", "What else gives away"
USE, ELSEWHERE, BESIDE = "What analysts keep", "As other work counts it", "Beside them"
GROUPS = (LEARNT, LINKED, OTHERWISE, USE, ELSEWHERE, BESIDE)
"""In the order in which they are shown."""


@dataclass(frozen=True)
class Meaning:
    """Of one metric."""

    group: str
    what: str
    good: str
    """Which way is good; empty where it depends."""


_SAID: dict[str, Meaning] = {
    name: Meaning(group, what, good)
    for group, entries in {
        LEARNT: {
            "exposure": ("learnt of a person by the best of all attackers", _LOWER),
            "home": ("places of rest at night that are told, within 200 m", _LOWER),
            "profile": ("of a trajectory, the part that is the person's it is taken for", _LOWER),
            "relink": ("joints that a follower gets right", _LOWER),
            "relink.rhythm": ("joints that a follower by rhythm gets right", _LOWER),
            "edits.auc": ("inserted samples told from true ones (0.5 is chance)", _LOWER),
            "membership.auc": ("told who is in it (0.5 is chance)", _LOWER),
            "membership.tpr1": ("found to be in it at 1 % false alarms", _LOWER),
        },
        LINKED: {"la": ("linked to the right trajectory by the best attacker", _LOWER)},
        OTHERWISE: {
            "mi": ("mutual information of positions", _LOWER),
            "unicity": ("pinned down by 4 samples of the release", _LOWER),
            "unicity.place": ("has a place of its own left", _LOWER),
            "recovery.f": ("roads recovered (F)", _LOWER),
            "recovery.precision": ("of the roads recovered, those really driven", _LOWER),
            "recovery.recall": ("of the roads driven, those recovered", _LOWER),
            "recovery.rmf": ("route mismatch fraction", _HIGHER),
            "recovery.accuracy": ("samples put back on their road", _LOWER),
        },
        USE: {
            "inf": ("samples lost", _CLOSER),
            "inf.sym": ("samples lost or put in", _CLOSER),
            "density": ("change of where samples lie by the hour (JSD)", _CLOSER),
            "density.map": ("change of where samples lie (JSD)", _CLOSER),
            "flow": ("error of the 100 largest flows, as shares", _CLOSER),
            "flow.f1": ("largest flows that stay the largest (F1)", _LIKER),
            "flow.hour": ("error of the 100 largest flows by the hour", _CLOSER),
            "length": ("change of trip lengths (JSD)", _CLOSER),
            "duration": ("change of trip durations (JSD)", _CLOSER),
            "speed": ("error of the mean speed by cell, km/h", _CLOSER),
            "transitions": ("change of moves between cells (JSD)", _CLOSER),
            "de": ("change of diameters (JSD)", _CLOSER),
            "te.trip": ("change of where trips begin and end (JSD)", _CLOSER),
            "ffp": ("frequent patterns kept (F1)", _LIKER),
            "query_error": (
                "error of counts of trajectories in areas, median, as a share of the true count",
                _CLOSER,
            ),
            "hotspot": ("order of hotspots (Kendall)", _LIKER),
            "plausibility.fast": ("segments over 120 km/h", "lower is more plausible"),
            "plausibility.length_ratio": ("length against the original", "1 is as before"),
        },
        ELSEWHERE: {
            "published.query": (
                "mean error of 200 counts of trips in areas, as a share of the true count",
                _CLOSER,
            ),
            "published.kendall": ("order of cells by trips (Kendall)", _LIKER),
            "published.patterns": ("frequent patterns of trips kept (F1)", _LIKER),
            "published.trips": ("change of trips (JSD)", _CLOSER),
            "published.diameters": ("change of diameters of trips (JSD)", _CLOSER),
        },
        BESIDE: {
            "edits.auc.visits": ("insertions told by how often places occur alone", _LOWER),
            "mi.nats": ("mutual information of positions, nats", _LOWER),
            "te.trajectory": ("change of where trajectories begin and end (JSD)", _CLOSER),
            "ffp.occurrence": ("frequent patterns kept, by occurrence (F1)", _LIKER),
            "query_error.mean": (
                "error of counts of trajectories in areas, mean, as a share of the true count",
                _CLOSER,
            ),
            "plausibility.fast.original": ("segments over 120 km/h in the original", ""),
            "plausibility.length_km": ("length of all trajectories, km", ""),
            "plausibility.length_km.original": ("length of all originals, km", ""),
            "recovery.beta_m": ("beta of the map matching, metres", ""),
            "recovery.matched": ("original samples that are on a road", ""),
            "edits.share": ("released samples that were inserted", ""),
        },
    }.items()
    for name, (what, good) in entries.items()
}
# What stands beside a metric: how its name ends, and how its words go on.
_ENDINGS = {
    ".precision": "of what is claimed, the share that is right",
    ".half": "persons of whom it is more than half",
    ".p95": "of the most exposed 5 %, at least",
    ".control": "the same for people who are not in it",
    ".none": "who have nothing to be linked by",
    ".chance": "the same for a resample of the original",
    ".counts": "the same, as counts",
    ".f1": "the same largest ones (F1)",
    ".busiest.shares": "error of the 100 busiest, as shares",
    ".busiest.counts": "error of the 100 busiest, as counts",
    ".swap": "at swaps alone",
    ".cut": "at cuts alone",
    ".endless": "followed without end",
}
_SCORES = {"cosine": "by likeness", "likelihood": "by likelihood"}
_HABITS = {"s": "by places of other days", "st": "by places and hours of other days"}


def meaning_of(name: str) -> Meaning:
    """Of any metric; one that another version measured has its name for words."""
    if name in _SAID:
        return _SAID[name]
    if is_exposure(name):
        return Meaning(LEARNT, f"learnt by one {attack_in_words(name)}", _LOWER)
    for ending, words in _ENDINGS.items():
        if name.endswith(ending):
            of = meaning_of(name.removesuffix(ending))
            return Meaning(BESIDE, f"{of.what}: {words}", "")
    if name.startswith("la_"):
        return Meaning(LINKED, f"linked by one {attack_in_words(name)}", _LOWER)
    return _of_a_family(name) or Meaning(BESIDE, name, "")


def _of_a_family(name: str) -> Meaning | None:
    family, _, rest = name.partition(".")
    stem, _, last = name.rpartition(".")
    if family == "exposure" and last.removesuffix("h").isdigit() and last.endswith("h"):
        return Meaning(BESIDE, f"{meaning_of(stem).what}: followed for {last[:-1]} h", "")
    if family == "profile" and rest.count(".") == 1:
        habit, score = rest.split(".")
        if habit in _HABITS and score in _SCORES:
            return Meaning(BESIDE, f"taken for the right person {_HABITS[habit]}, {_SCORES[score]}",
                           _LOWER)  # fmt: skip
    if family == "membership":
        of = _SAID.get(stem)
        return None if of is None else Meaning(BESIDE, f"{of.what}: by {last}", _LOWER)
    return None


def by_group(names: Iterable[str]) -> Mapping[str, list[str]]:
    """Names of metrics in the order in which people read them."""
    known = {name: n for n, name in enumerate(_SAID)}
    groups: dict[str, list[str]] = {}
    ordered = sorted(names, key=lambda n: (known.get(n, len(known)), n))
    for group in GROUPS:
        there = [name for name in ordered if meaning_of(name).group == group]
        if there:
            groups[group] = there
    return groups
