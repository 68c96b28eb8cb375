"""One candidate, tried in memory: half of the objects make the release, the others are held out."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.ranges import use
from freqdp_db.engines.threads import SingleThread
from freqdp_db.evaluation.attacks.exposure.case import Case
from freqdp_db.evaluation.attacks.exposure.measuring import (
    measure_exposure,
    measure_membership,
)
from freqdp_db.evaluation.trials import run_trial
from freqdp_db.evaluation.utility.losses import information_loss
from freqdp_db.evaluation.utility.usefulness import usefulness
from freqdp_db.methods.contract import World
from freqdp_db.release.request import Request

_UTILITY_STREAM = 100
_FEW_SAMPLES = 400_000
"""Up to so many, one thread is quicker than many that each count all places."""


@dataclass(frozen=True)
class Halves:
    """Objects that the method sees, and others that it does not."""

    members: Trajectories
    controls: Trajectories


def chosen(objects: int, seed: int) -> Ints:
    """The order in which objects are taken for a trial."""
    return np.random.default_rng([seed, objects]).permutation(objects)


def split(trajectories: Trajectories, objects: int, seed: int) -> Halves:
    """Two halves of a random choice of objects, without one in both; the same seed, the same ones."""
    order = chosen(len(trajectories), seed)
    half = objects // 2
    return Halves(
        trajectories.take(np.sort(order[:half])),
        trajectories.take(np.sort(order[half : 2 * half])),
    )


def try_out(world: World, halves: Halves, request: Request, seed: int) -> dict[str, float]:
    """Run a method on the members, and measure what attackers learn and what analysts keep."""
    few = halves.members.samples <= _FEW_SAMPLES
    with use(SingleThread()) if few else nullcontext():
        return _tried(world, halves, request, seed)


def _tried(world: World, halves: Halves, request: Request, seed: int) -> dict[str, float]:
    build, members = world.build, halves.members
    state, _ = run_trial(request, world, seed, members)
    case = Case.of(replace(build, trajectories=members), state, request.values)
    found = measure_exposure(case, seed) | measure_membership(case, seed, halves.controls)
    rng = np.random.default_rng([seed, _UTILITY_STREAM])
    found |= usefulness(replace(case.pair, released=state.trajectories), state.places, rng)
    if request.method.kind == "edited":
        found |= information_loss(case.pair)
    return found
