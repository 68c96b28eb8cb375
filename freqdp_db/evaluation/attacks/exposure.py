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
from freqdp_db.evaluation.attacks.following import (
    FOLLOWERS,
    SwapPoints,
    find_swap_points,
    following_exposures,
    relink,
)
from freqdp_db.evaluation.attacks.habits import home_exposure, profile_exposures
from freqdp_db.evaluation.attacks.known_samples import (
    KNOWN_SAMPLES,
    KnownSamples,
    SightingIndex,
    sighting_exposures,
)
from freqdp_db.evaluation.attacks.points import tracked_exposures
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
_FOLLOWED = (1, 10)
_HOME_KNOWN = 4
_NO_CONTROL = (".precision", ".p95")
_BESIDE = (*_NO_CONTROL, ".half", ".control")
_Done = Callable[[], None]
_MARKED = 10
"""So many known samples show what a device is known by."""
_BY_TRACES = len(KNOWN_SAMPLES) + len(FOLLOWERS) * len(_FOLLOWED) + len(MARKS)


def _likeness(case: Case, seed: int, done: _Done) -> dict[str, float]:
    return likeness_exposures(case, np.random.default_rng([seed, 1]), done)


def _traces(case: Case, seed: int, done: _Done) -> dict[str, float]:
    index, swap_points = SightingIndex(case.release), find_swap_points(case.release)
    found = _followed(case, index, swap_points, seed, done) | relink(case.release, swap_points)
    done()
    return found


def _profiles(case: Case, seed: int, done: _Done) -> dict[str, float]:
    found = profile_exposures(case, np.random.default_rng([seed, 10]))
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
    "traces": (_traces, _BY_TRACES + 1),
    "likeness": (_likeness, LIKENESSES),
    "profiles": (_profiles, 1),
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
    index, swap_points = SightingIndex(case.release), find_swap_points(case.release)
    theirs = _likeness(others, seed, _nothing) | _followed(
        others, index, swap_points, seed, _nothing
    )
    for name, value in theirs.items():
        if not name.endswith(_NO_CONTROL) and name.startswith(("exposure", "home")):
            found[f"{name}.control"] = value
    return found | membership(case, others, index, np.random.default_rng([seed, 12]))


def _nothing() -> None:
    return None


def _followed(
    case: Case, index: SightingIndex, swap_points: SwapPoints, seed: int, done: _Done
) -> dict[str, float]:
    found, seen = sighting_exposures(case, index, np.random.default_rng([seed, 2]), done)
    found |= following_exposures(
        case, swap_points, {count: seen[count] for count in _FOLLOWED}, done
    )
    found |= device_exposures(case, swap_points, _MARKED, *seen[_MARKED], done)
    return found | home_exposure(case, seen[_HOME_KNOWN][1])


def is_exposure(name: str) -> bool:
    """Whether a metric is the value of an attack, and not what stands beside it."""
    if not name.startswith("exposure.") or name.endswith(_BESIDE):
        return False
    # a follower's single horizons are beside the one at even odds
    return name.count(".") == 2 or not name.startswith(("exposure.follow", "exposure.rhythm"))


def worst_exposure(found: Mapping[str, float]) -> float:
    """The headline: what the best of all attackers learns."""
    return max((value for name, value in found.items() if is_exposure(name)), default=0.0)
