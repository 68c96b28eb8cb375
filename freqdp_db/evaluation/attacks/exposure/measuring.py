"""All exposures of a release, and the headline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.evaluation.attacks.exposure.case import Case
from freqdp_db.evaluation.attacks.exposure.devices import MARKS, device_exposures
from freqdp_db.evaluation.attacks.exposure.edits import edits_exposure
from freqdp_db.evaluation.attacks.exposure.following import FOLLOWERS, following_exposures
from freqdp_db.evaluation.attacks.exposure.habits import home_exposure, profile_exposures
from freqdp_db.evaluation.attacks.exposure.joints import Joints, find_joints
from freqdp_db.evaluation.attacks.exposure.likeness import LIKENESSES, likeness_exposures
from freqdp_db.evaluation.attacks.exposure.membership import membership
from freqdp_db.evaluation.attacks.exposure.relinking import relink
from freqdp_db.evaluation.attacks.exposure.sightings import SightingIndex, sighting_exposures
from freqdp_db.evaluation.attacks.knowledge import KNOWN_SAMPLES
from freqdp_db.progress import Progress

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
    index, joints = SightingIndex(case.release), find_joints(case.release)
    found = _followed(case, index, joints, seed, done) | relink(case.release, joints)
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


# The longest first; how many attackers each of them is.
_ATTACKS = {
    "traces": (_traces, _BY_TRACES + 1),
    "likeness": (_likeness, LIKENESSES),
    "profiles": (_profiles, 1),
    "edits": (_edits, 1),
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
    index, joints = SightingIndex(case.release), find_joints(case.release)
    theirs = _likeness(others, seed, _nothing) | _followed(others, index, joints, seed, _nothing)
    for name, value in theirs.items():
        if not name.endswith(_NO_CONTROL) and name.startswith(("exposure", "home")):
            found[f"{name}.control"] = value
    return found | membership(case, others, index, np.random.default_rng([seed, 12]))


def _nothing() -> None:
    return None


def _followed(
    case: Case, index: SightingIndex, joints: Joints, seed: int, done: _Done
) -> dict[str, float]:
    found, seen = sighting_exposures(case, index, np.random.default_rng([seed, 2]), done)
    found |= following_exposures(case, joints, {count: seen[count] for count in _FOLLOWED}, done)
    found |= device_exposures(case, joints, _MARKED, *seen[_MARKED], done)
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
