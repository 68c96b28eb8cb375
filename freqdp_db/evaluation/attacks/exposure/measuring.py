"""All exposures of a release, and the headline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.evaluation.attacks.exposure.case import Case
from freqdp_db.evaluation.attacks.exposure.edits import edits_exposure
from freqdp_db.evaluation.attacks.exposure.following import FOLLOWERS, following_exposures
from freqdp_db.evaluation.attacks.exposure.habits import home_exposure, profile_exposures
from freqdp_db.evaluation.attacks.exposure.joints import Joints, find_joints
from freqdp_db.evaluation.attacks.exposure.likeness import ATTACKS, likeness_exposures
from freqdp_db.evaluation.attacks.exposure.membership import membership
from freqdp_db.evaluation.attacks.exposure.relinking import relink
from freqdp_db.evaluation.attacks.exposure.sightings import SightingIndex, sighting_exposures
from freqdp_db.evaluation.attacks.knowledge import KNOWN_SAMPLES
from freqdp_db.progress import Progress

HEADLINE = "exposure"
_FOLLOWED = (1, 10)
_HOME_KNOWN = 4
_ATTACKERS = ATTACKS + len(KNOWN_SAMPLES) + len(FOLLOWERS) * len(_FOLLOWED)
_NO_CONTROL = (".precision", ".p95")
_BESIDE = (*_NO_CONTROL, ".half", ".control")


def measure_exposure(
    case: Case,
    seed: int,
    controls: Trajectories | None = None,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Every exposure of the objects of a case.

    Args:
        case: the objects, their places, and the release.
        seed: picks known samples and breaks ties; each attack has its own stream.
        controls: objects over the same places that are no part of the release: each exposure of
            theirs is `.control`, and they are who `membership` tells members from.
        progress: told of every attacker.
    """
    attackers = _ATTACKERS * (1 if controls is None else 2) + 3
    with (progress or Progress()).stage("exposure", attackers, "attackers") as stage:

        def done() -> None:
            stage.advance(1)

        index, joints = SightingIndex(case.release), find_joints(case.release)
        found = _exposures(case, index, joints, seed, done)
        found |= relink(case.release, joints)
        done()
        found |= profile_exposures(case, np.random.default_rng([seed, 10]))
        done()
        found |= edits_exposure(case, np.random.default_rng([seed, 11]))
        done()
        if controls is not None:
            others = replace(case, original=controls)
            for name, value in _exposures(others, index, joints, seed, done).items():
                if not name.endswith(_NO_CONTROL) and name.startswith(("exposure", "home")):
                    found[f"{name}.control"] = value
            found |= membership(case, others, index, np.random.default_rng([seed, 12]))
    found[HEADLINE] = worst_exposure(found)
    return found


def _exposures(
    case: Case, index: SightingIndex, joints: Joints, seed: int, done: Callable[[], None]
) -> dict[str, float]:
    found = likeness_exposures(case, np.random.default_rng([seed, 1]), done)
    by_samples, seen = sighting_exposures(case, index, np.random.default_rng([seed, 2]), done)
    found |= by_samples
    found |= following_exposures(case, joints, {count: seen[count] for count in _FOLLOWED}, done)
    found |= home_exposure(case, seen[_HOME_KNOWN][1])
    return found


def is_exposure(name: str) -> bool:
    """Whether a metric is the value of an attack, and not what stands beside it."""
    if not name.startswith("exposure.") or name.endswith(_BESIDE):
        return False
    # a follower's single horizons are beside the one at even odds
    return name.count(".") == 2 or not name.startswith(("exposure.follow", "exposure.rhythm"))


def worst_exposure(found: Mapping[str, float]) -> float:
    """The headline: what the best of all attackers learns."""
    return max((value for name, value in found.items() if is_exposure(name)), default=0.0)
