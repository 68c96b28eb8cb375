"""Metrics in plain words: the verdicts on a release, attackers by name, and what each metric means."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from freqdp_db.db.releases import ReleaseRow
from freqdp_db.evaluation.attacks.exposure import is_exposure
from freqdp_db.evaluation.counts import MEMBERS
from freqdp_db.evaluation.evaluate import EXPOSED, LINKED, is_linking
from freqdp_db.privacy.guarantee import stands_for

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
_GOES_ON = {
    "near": "takes what the same released trajectories hold before and after",
    "relink": "joins what was cut or swapped there",
    "tracked": "follows single samples from there, or takes those of the same place",
}
"""What an attacker does with known samples that the release holds."""
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


@dataclass(frozen=True)
class JoinedWindows:
    """Some windows of a series together against their originals."""

    windows: int
    exposure: float
    """What the best attacker learns of a person on average; of counts, how much more often than chance it
    is right about who was counted."""
    half: float
    """Share of persons of whom an attacker learns more than half; of counts, whom it finds, beyond the one
    in a hundred that it takes for counted and who was not."""
    attacker: str
    """Which one that is, in words."""
    counts: bool


def _judge(value: float, scale: _Scale) -> tuple[str, Tone]:
    """By the number as it is shown, to a thousandth: no two answers to the same number."""
    shown = round(value, 3)
    return next((answer, tone) for below, answer, tone in scale if shown < below)


def judge_risk(value: float) -> tuple[str, Tone]:
    """What a share that attackers find or learn is called, and how that is."""
    return _judge(value, _FOUND)


_NEWS: dict[Tone, str] = {
    "good": "✓ good",
    "middling": "~ middling",
    "bad": "✗ bad",
    "unknown": "? unknown",
    "moot": "",
}


def news_of(tone: Tone) -> str:
    """What stands beside an answer: a yes may be good or bad."""
    return _NEWS[tone]


def verdicts(
    values: Mapping[str, float], name: str = "NAME", no_ways: str | None = None
) -> list[Verdict]:
    """Found? Useful? Recoverable? Refuses nothing: what was not measured is said to be so.

    name: of the release. no_ways: why it has none that could be put back together.
    """
    return [
        Verdict("Could someone be found in it?", *_found(values, name)),
        Verdict("Is it still good for analysis?", *_useful(values, name)),
        Verdict("Could the original be put back together?", *_recoverable(values, name, no_ways)),
    ]


def verdicts_of(release: ReleaseRow, values: Mapping[str, float]) -> list[Verdict]:
    """Those of a release that was made; they ask about trajectories, and counts have none."""
    if release.kind == "counts":
        return []
    no_ways = None
    if release.kind == "synthetic":
        no_ways = "Its trips are synthetic: they have no original."
    elif stands_for(release.guarantee) is not None:
        no_ways = "It consists of areas and intervals shared by several objects, not of paths along roads."
    return verdicts(values, shlex.quote(release.name), no_ways)


def verdicts_of_table(table: str, kind: str, values: Mapping[str, float]) -> list[Verdict]:
    """Those of a table that was made elsewhere."""
    no_ways = None
    if kind == "synthetic":
        no_ways = "None of its trajectories belongs to an object."
    return verdicts(values, f"--table {shlex.quote(table)} ...", no_ways)


def attack_in_words(name: str) -> str:
    """What an attacker of this metric (`la_x.4`, `exposure.s.a.full`, ...) has and does."""
    name = name.removeprefix("exposure.").removeprefix("la_")
    kind, _, rest = name.partition(".")
    if kind == "x":
        return f"who knows {rest} exact sample{'s' * (rest != '1')} (place and time) of somebody"
    if kind in _GOES_ON:
        return (
            f"who knows {rest} exact sample{'s' * (rest != '1')} of somebody and {_GOES_ON[kind]}"
        )
    if kind == "members":
        return "who knows all that somebody did and asks whether they were counted"
    if kind == "habits":
        return "who knows somebody's habits of other days and takes every piece that fits"
    if kind in _MARKS:
        return f"who knows {rest} exact samples of somebody and takes what has {_MARKS[kind]}"
    if kind == "t":
        return f"who compares times of day {_PROTOCOLS[rest]}"
    protocol, length = rest.split(".")
    return f"who compares {_SIGNATURES[kind]}, {_LENGTHS[length]}, {_PROTOCOLS[protocol]}"


def strongest(values: Mapping[str, float], attacks: Iterable[str]) -> str:
    """The attack that finds or learns most."""
    return max(attacks, key=lambda name: values[name])


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def series_rows(found: Mapping[int, Mapping[str, float]]) -> list[JoinedWindows]:
    """What attackers learn from windows of a series together, by how many."""
    rows = []
    for number, values in found.items():
        best = strongest(values, filter(is_exposure, values))
        words = attack_in_words(best) if values[EXPOSED] > 0 else "nobody: none learns anything"
        counts = MEMBERS in values
        rows.append(JoinedWindows(number, values[EXPOSED], values["half"], words, counts))
    return rows


def learnt_in_words(values: Mapping[str, float]) -> str:
    """What the strongest attacker learns: `one who ..., learns ...`."""
    best = strongest(values, filter(is_exposure, values))
    words = (
        f"one {attack_in_words(best)}, learns {values[best]:.1%} of a person's samples on average"
    )
    if f"{best}.low" in values:
        low, high = values[f"{best}.low"], values[f"{best}.high"]
        words += f" ({low:.1%} to {high:.1%} by half of the people)"
    half = values.get(f"{best}.half")
    return words if half is None else f"{words}, and more than half for {half:.1%} of people"


@dataclass(frozen=True)
class Attacker:
    """One attacker, and what it learnt."""

    who: str
    learnt: float
    """Share of a person's other samples, on average."""
    half: float | None
    """Share of persons of whom it learns more than half."""
    precision: float | None
    """Share of its claims that is right."""


def attackers(values: Mapping[str, float]) -> list[Attacker]:
    """All that were measured, the strongest first."""
    names = sorted(filter(is_exposure, values), key=lambda name: -values[name])
    return [
        Attacker(
            attack_in_words(name),
            values[name],
            values.get(f"{name}.half"),
            values.get(f"{name}.precision"),
        )
        for name in names
    ]


_BESIDE_ATTACKERS = {
    "home": "Homes located to within 200 m: {:.1%} of people, by the trajectory that 4 known samples find.",
    "habits": "Habits of other days match {:.1%} of the released trajectories of the days between with the "
    "right person.",
    "relink": "The re-linker undoes {:.1%} of the swaps and cuts.",
    "edits.auc": "Inserted samples can be told apart from true ones with an AUC of {:.2f} (0.5 is chance, "
    "1 is certainty).",
}


def beside_attackers(values: Mapping[str, float]) -> list[str]:
    return [
        words.format(values[name]) for name, words in _BESIDE_ATTACKERS.items() if name in values
    ]


_Answer = tuple[str, str, float | None, str, Tone]
"""A verdict, without its question."""


def _found(values: Mapping[str, float], name: str) -> _Answer:
    if EXPOSED not in values:
        return "not measured", EXPOSED, None, f"Run freqdp evaluate {name}.", "unknown"
    learnt = values[EXPOSED]
    best = strongest(values, filter(is_exposure, values))
    answer, tone = judge_risk(learnt)
    meaning = "None of the attacks learns anything about a person's samples."
    if learnt > 0:
        meaning = f"The strongest attacker, {learnt_in_words(values)}."
    if LINKED in values:
        by = strongest(values, filter(is_linking, values))
        meaning += f" One {attack_in_words(by)} links {values[LINKED]:.1%} to the right trajectory."
    return answer, best, learnt, meaning, tone


def _useful(values: Mapping[str, float], name: str) -> _Answer:
    in_all = "inf" not in values and "density" in values
    if not in_all and "query_error" not in values:
        return "not measured", "query_error", None, f"Run freqdp evaluate {name}.", "unknown"
    density = values.get("density", 0.0)
    apart = (
        f"The density of samples by place and hour differs from the original by {density:.3f} (0: the "
        "same, 0.693: nothing in common)"
    )
    if in_all:
        # released trajectories are not the objects': what is counted over all of them
        answer, tone = _judge(density, _USEFUL)
        flow = values["flow"]
        if tone == "good" and round(flow, 3) >= _FLOWS_OFF:
            answer, tone = "for places and times, less for flows", "middling"
        meaning = (
            f"{apart}; the shares of the 100 largest flows are off by {flow:.1%}{_of_itself(flow)} on "
            "average. Trajectories do not correspond to objects: do not count objects by them."
        )
        return answer, "density", density, meaning, tone
    error, hotspot = values["query_error"], values["hotspot"]
    # counts of objects may stay where most samples are gone: the worse of the two is the answer
    worse = "query_error" if error >= density else "density"
    answer, tone = _judge(values[worse], _USEFUL)
    meaning = (
        f"A count of objects in an area is off by {error:.1%}{_of_itself(error)} in the median, and the "
        f"busiest areas keep their order with a rank correlation of {hotspot:.2f}."
    )
    if worse == "density":
        meaning += f" {apart}."
    if "inf" in values:
        meaning += f" {values['inf']:.1%} of each object's samples are gone."
    return answer, worse, values[worse], meaning, tone


def _of_itself(error: float) -> str:
    return " (more than the count itself)" if error > 1 else ""


def _recoverable(values: Mapping[str, float], name: str, no_ways: str | None) -> _Answer:
    if no_ways is not None:
        return "does not apply", "recovery.f", None, no_ways, "moot"
    if "recovery.f" not in values:
        needs = (
            f"This needs roads (freqdp evaluate {name} --roads schema.table) and a release with one "
            "trajectory for each object."
        )
        return "not measured", "recovery.f", None, needs, "unknown"
    f, precision, recall = (values[f"recovery.{n}"] for n in ("f", "precision", "recall"))
    answer, tone = _judge(f, _RECOVERED)
    meaning = (
        f"Map matching the release recovers {recall:.1%} of the road kilometres that were driven, and "
        f"{precision:.1%} of what it recovers is right (F {f:.3f})."
    )
    return answer, "recovery.f", f, meaning, tone


_LOWER, _HIGHER = "lower is more private", "higher is more private"
_CLOSER, _LIKER = "lower is more useful", "higher is more useful"
LEARNT, WHO_IS_LINKED, OTHERWISE = "What an attacker learns", "Who is linked", "Other risks"
USE, BESIDE = "What analysts keep", "Further metrics"
GROUPS = (LEARNT, WHO_IS_LINKED, OTHERWISE, USE, BESIDE)
"""In the order in which they are shown."""


@dataclass(frozen=True)
class Meaning:
    group: str
    what: str
    good: str
    """Which way is good; empty where it depends."""


_SAID: dict[str, Meaning] = {
    name: Meaning(group, what, good)
    for group, entries in {
        LEARNT: {
            "exposure": ("learnt of a person by the strongest attacker", _LOWER),
            "home": ("homes located to within 200 m", _LOWER),
            "habits": ("matched to the right person by habits of other days", _LOWER),
            "relink": ("swaps and cuts that the re-linker undoes", _LOWER),
            "edits.auc": (
                "inserted samples told apart from true ones (AUC, 0.5 is chance)",
                _LOWER,
            ),
            "membership.auc": ("members told apart from non-members (AUC, 0.5 is chance)", _LOWER),
            "membership.tpr1": ("members found at 1 % false alarms", _LOWER),
        },
        WHO_IS_LINKED: {"la": ("linked to the right trajectory by the strongest attacker", _LOWER)},
        OTHERWISE: {
            "mi": ("mutual information of positions", _LOWER),
            "unicity": ("identified by 4 samples of the release", _LOWER),
            "unicity.place": ("still has a place that nobody else visits", _LOWER),
            "recovery.f": ("roads recovered (F)", _LOWER),
            "recovery.precision": ("share of the recovered roads that were driven", _LOWER),
            "recovery.recall": ("share of the driven roads that were recovered", _LOWER),
            "recovery.rmf": ("route mismatch fraction", _HIGHER),
            "recovery.accuracy": ("samples matched to their true road", _LOWER),
        },
        USE: {
            "inf": ("samples lost", _CLOSER),
            "inf.sym": ("samples lost or inserted", _CLOSER),
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
        BESIDE: {
            "edits.auc.visits": ("insertions told apart by visit counts alone (AUC)", _LOWER),
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
    ".precision": "share of the claims that is right",
    ".half": "people of whom more than half is learnt",
    ".p95": "95th percentile",
    ".control": "the same for people who are not in the data",
    ".none": "share with nothing to link by",
    ".chance": "the same for a resample of the original",
    ".counts": "the same, as counts",
    ".f1": "the same largest ones (F1)",
    ".busiest.shares": "error of the 100 busiest, as shares",
    ".busiest.counts": "error of the 100 busiest, as counts",
    ".swap": "at swaps alone",
    ".cut": "at cuts alone",
    ".low": "the lowest of the halves it was tested on",
    ".high": "the highest of the halves it was tested on",
}


_OF_COUNTS = {
    "coverage": ("rows whose 95 % interval holds the bounded count", "0.95 is right"),
    "error": ("median relative error of the 100 largest", _LOWER),
    "lost": ("share that is not counted because of bounds", _LOWER),
}


def meaning_of(name: str) -> Meaning:
    """Of any metric; one that another version measured has its name for words."""
    if name.startswith("series."):
        _, number, what = name.split(".", 2)
        said = _ENDINGS[".half"] if what == "half" else meaning_of(what).what
        return Meaning(BESIDE, f"{said}, from {number} windows together", "")
    if name in _SAID:
        return _SAID[name]
    if is_exposure(name):
        return Meaning(LEARNT, f"learnt by one {attack_in_words(name)}", _LOWER)
    for ending, words in _ENDINGS.items():
        if name.endswith(ending):
            of = meaning_of(name.removesuffix(ending))
            return Meaning(BESIDE, f"{of.what}: {words}", "")
    if name.startswith("la_"):
        return Meaning(WHO_IS_LINKED, f"linked by one {attack_in_words(name)}", _LOWER)
    stem, _, last = name.rpartition(".")
    if name.startswith("counts."):
        _, what, *where = name.split(".")
        words, good = _OF_COUNTS[what]
        return Meaning(USE, f"{words}: {', '.join(where)}", good)
    if stem in _SAID and last == "unprotected":
        return Meaning(BESIDE, f"{_SAID[stem].what}, on the same counts without noise", "")
    if stem in _SAID and name.startswith("membership."):
        return Meaning(BESIDE, f"{_SAID[stem].what}: by {last}", _LOWER)
    return Meaning(BESIDE, name, "")


_ERRORS = ("query_error", "flow")


def remark_of(name: str, value: float) -> str:
    """What to say beside a value that looks wrong and is not; empty: nothing."""
    if name.startswith(_ERRORS) and not name.endswith(".f1") and value > 1:
        return (
            "Above 1, the error is larger than the true number itself. If an object has several "
            "trajectories, each is counted; small numbers weigh as much as large ones."
        )
    return ""


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


def main_by_group(values: Mapping[str, float]) -> Mapping[str, list[str]]:
    """What a terminal shows: the strongest attacker of each sort, and what analysts keep."""
    groups = dict(by_group(values))
    groups.pop(BESIDE, None)
    for group, is_attack in ((LEARNT, is_exposure), (WHO_IS_LINKED, is_linking)):
        there = groups.get(group, [])
        sorts = [_sort_of_attack(name) for name in there if is_attack(name)]
        best = {
            strongest(values, (n for n in there if is_attack(n) and _sort_of_attack(n) == sort))
            for sort in sorts
        }
        if there:
            groups[group] = [name for name in there if name in best or not is_attack(name)]
    return groups


def _sort_of_attack(name: str) -> str:
    kind = name.removeprefix("exposure.").removeprefix("la_").partition(".")[0]
    if kind in _MARKS:
        return "marks"
    return "signatures" if kind in (*_SIGNATURES, "t") else kind
