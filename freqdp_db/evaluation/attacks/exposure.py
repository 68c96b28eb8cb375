"""Exposure: what attackers learn of a person's samples from a release; and membership.

Membership asks whether an object was in it: half of the objects make the release, the others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from freqdp_db.evaluation.attacks.claims import Shares, area_under_curve
from freqdp_db.evaluation.attacks.devices import MARKS, device_exposures
from freqdp_db.evaluation.attacks.edits import edits_exposure
from freqdp_db.evaluation.attacks.habits import habit_exposures, home_exposure
from freqdp_db.evaluation.attacks.known_samples import (
    KNOWN_SAMPLES,
    NEAR_KNOWN,
    KnownSamples,
    SightingIndex,
    draw_known,
    held_samples,
    near_exposures,
    sighting_exposures,
)
from freqdp_db.evaluation.attacks.learning import SPLITS
from freqdp_db.evaluation.attacks.points import tracked_exposures
from freqdp_db.evaluation.attacks.relinking import find_joints, relinked_exposures
from freqdp_db.evaluation.attacks.signatures import (
    LIKENESSES,
    dimensions_of,
    likeness_exposures,
    pick_by_cosine,
    tf_idf,
)
from freqdp_db.evaluation.pair import Case
from freqdp_db.model.arrays import within
from freqdp_db.model.trajectories import Trajectories
from freqdp_db.progress import Progress

_FALSE_ALARMS = 0.01
_MOST_KNOWN = 1_000


def membership(
    members: Case, others: Case, index: SightingIndex, rng: np.random.Generator
) -> dict[str, float]:
    """`membership.auc` and `membership.tpr1`; each attack beside them.

    Score of an object: likeness to its most alike released trajectory by places, by pairs of
    places, and by exact samples (how many of its samples the best trajectory holds). Chance is 0.5
    and 0.01. The best attack of the three counts.
    """
    found: dict[str, float] = {}
    for name, scores in (
        ("places", [_by_cosine(case, "s", rng) for case in (members, others)]),
        ("pairs", [_by_cosine(case, "sq", rng) for case in (members, others)]),
        ("samples", [_by_samples(case, index, rng) for case in (members, others)]),
    ):
        there = [s[c.original.lengths > 0] for s, c in zip(scores, (members, others), strict=True)]
        found[f"membership.auc.{name}"] = area_under_curve(there[0], there[1])
        found[f"membership.tpr1.{name}"] = found_at(there[0], there[1], _FALSE_ALARMS)
    return {
        kind: max(value for name, value in found.items() if name.startswith(kind))
        for kind in ("membership.auc", "membership.tpr1")
    } | found


def _by_cosine(case: Case, kind: str, rng: np.random.Generator) -> Shares:
    original, released, dimensions = dimensions_of(case.pair, kind)
    true, shown = tf_idf(original, dimensions), tf_idf(released, dimensions)
    return pick_by_cosine(true, shown, dimensions, rng)[1]


def _by_samples(case: Case, index: SightingIndex, rng: np.random.Generator) -> Shares:
    """Of an object's samples, those that its best trajectory has: exactly, then nearby."""
    known = _spread(case, _MOST_KNOWN)
    sighted = index.find(case, known, rng)
    share: Shares = sighted.score / np.maximum(np.diff(known.offsets), 1)
    return share


def _spread(case: Case, most: int) -> KnownSamples:
    """Every object's samples, thinned evenly where there are too many."""
    side = case.original
    every = np.maximum(-(-side.lengths // most), 1)
    position = np.flatnonzero(within(side.offsets) % every[side.owner] == 0)
    return KnownSamples(np.searchsorted(position, side.offsets).astype(np.int64), position)


def found_at(positive: Shares, negative: Shares, false_alarms: float) -> float:
    """Share of positives above a line that at most this share of negatives is above."""
    if not len(positive) or not len(negative):
        return false_alarms
    ranked = np.sort(negative)[::-1]
    line = ranked[min(int(false_alarms * len(ranked)), len(ranked) - 1)]
    return float((positive > line).mean())


HEADLINE = "exposure"
_RELINKED = (1, 10)
_HOME_KNOWN = 4
_NO_CONTROL = (".precision", ".p95", ".low", ".high")
_BESIDE = (*_NO_CONTROL, ".half", ".control")
_Done = Callable[[], None]
_MARKED = 10
"""So many known samples show what a device is known by."""
_BY_TRACES = len(KNOWN_SAMPLES) + len(NEAR_KNOWN) + 2 * SPLITS + len(MARKS)


def _likeness(case: Case, seed: int, done: _Done) -> dict[str, float]:
    return likeness_exposures(case, np.random.default_rng([seed, 1]), done)


def _traces(case: Case, seed: int, done: _Done) -> dict[str, float]:
    index = SightingIndex(case.release)
    found = _sighted(case, index, seed, done)
    rng = np.random.default_rng([seed, 3])
    held = held_samples(case)
    seen = {}
    for count in NEAR_KNOWN:
        known = draw_known(case, count, rng, held)
        seen[count] = known, index.find(case, known, rng)
    found |= near_exposures(case, seen, rng, done)
    joints = find_joints(case.release)
    if joints is None:
        for _ in range(2 * SPLITS + len(MARKS)):
            done()
        return found
    found |= relinked_exposures(case, joints, {p: seen[p] for p in _RELINKED}, rng, done)
    return found | device_exposures(case, joints.runs, _MARKED, *seen[_MARKED], done)


def _habits(case: Case, seed: int, done: _Done) -> dict[str, float]:
    found = habit_exposures(case, np.random.default_rng([seed, 10]))
    done()
    return found


def _edits(case: Case, seed: int, done: _Done) -> dict[str, float]:
    found = edits_exposure(case, np.random.default_rng([seed, 11]))
    done()
    return found


def _points(case: Case, seed: int, done: _Done) -> dict[str, float]:
    found = tracked_exposures(case, np.random.default_rng([seed, 13]))
    done()
    return found


# The longest first; how many attackers each of them is.
_ATTACKS = {
    "traces": (_traces, _BY_TRACES),
    "likeness": (_likeness, LIKENESSES),
    "habits": (_habits, 1),
    "edits": (_edits, 1),
    "points": (_points, 1),
}
EXPOSURES = tuple(_ATTACKS)


def measure_exposure(
    case: Case, seed: int, progress: Progress | None = None, only: Collection[str] | None = None
) -> dict[str, float]:
    """Every exposure of the objects of a case, and the headline.

    Args:
        case: the objects, their places, and the release.
        seed: picks known samples and breaks ties; each attack has its own stream.
        progress: told of every attacker.
        only: some of EXPOSURES, and no headline.
    """
    asked = EXPOSURES if only is None else only
    attackers = sum(_ATTACKS[name][1] for name in asked)
    found: dict[str, float] = {}
    named = "exposure" if only is None else " ".join(only)
    with (progress or Progress()).stage(named, attackers, "attackers") as stage:
        for name in asked:
            found |= _ATTACKS[name][0](case, seed, lambda: stage.advance(1))
    if only is None:
        found[HEADLINE] = worst_exposure(found)
    return found


def measure_membership(case: Case, seed: int, controls: Trajectories) -> dict[str, float]:
    """What tells members from objects over the same places that are no part of the release.

    Each exposure of theirs is `.control`.
    """
    found: dict[str, float] = {}
    others = replace(case, original=controls)
    index = SightingIndex(case.release)
    theirs = _likeness(others, seed, _nothing) | _sighted(others, index, seed, _nothing)
    rng = np.random.default_rng([seed, 3])
    known = {count: draw_known(others, count, rng) for count in NEAR_KNOWN}
    seen = {count: (k, index.find(others, k, rng)) for count, k in known.items()}
    theirs |= near_exposures(others, seen, rng)
    for name, value in theirs.items():
        if not name.endswith(_NO_CONTROL) and name.startswith(("exposure", "home")):
            found[f"{name}.control"] = value
    return found | membership(case, others, index, np.random.default_rng([seed, 12]))


def _nothing() -> None:
    return None


def _sighted(case: Case, index: SightingIndex, seed: int, done: _Done) -> dict[str, float]:
    found, seen = sighting_exposures(case, index, np.random.default_rng([seed, 2]), done)
    return found | home_exposure(case, seen[_HOME_KNOWN])


def is_exposure(name: str) -> bool:
    """Whether a metric is the value of an attack, and not what stands beside it."""
    return name.startswith("exposure.") and not name.endswith(_BESIDE)


def worst_exposure(found: Mapping[str, float]) -> float:
    """The headline: what the best of all attackers learns."""
    return max((value for name, value in found.items() if is_exposure(name)), default=0.0)
