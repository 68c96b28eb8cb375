"""One mechanism of a release, from trajectories to trajectories: draw, plan the edits, apply them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.edits import Edits, PfTargets, Targets, TfTargets
from freqdp_db.columns.trajectories import Clock, Locations, Trajectories
from freqdp_db.edits.applying import delete, insert
from freqdp_db.edits.deletion import delete_globally, delete_locally
from freqdp_db.edits.insertion import Search, insert_globally, insert_locally, search_in_memory
from freqdp_db.errors import VerificationFailed
from freqdp_db.frequency.counts import Frequencies, count_frequencies
from freqdp_db.frequency.signatures import rank_places
from freqdp_db.mechanisms.closure import close_signatures
from freqdp_db.mechanisms.global_tf import perturb_tf
from freqdp_db.mechanisms.local_pf import perturb_pf
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods.registry import MechanismName
from freqdp_db.release.request import Request


@dataclass(frozen=True)
class World:
    """What every mechanism of a release needs besides the trajectories."""

    locations: Locations
    clock: Clock
    search: Search = search_in_memory
    """How the global insertion finds trajectories; the answer is always the same."""


def draw(
    mechanism: MechanismName,
    frequencies: Frequencies,
    locations: Locations,
    request: Request,
    source: RandomSource,
) -> Targets:
    """Signatures anew, then the mechanism's targets."""
    signatures = rank_places(frequencies, request.signature)
    if mechanism == "closure":
        return close_signatures(frequencies, signatures, locations, request.radius_m)
    if mechanism == "global":
        return perturb_tf(
            frequencies, signatures.candidates, Fraction(request.epsilon_global), source
        )
    return perturb_pf(frequencies, signatures, Fraction(request.epsilon_local), source)


def edit(
    trajectories: Trajectories,
    frequencies: Frequencies,
    targets: Targets,
    world: World,
    request: Request,
    rank: Ints,
) -> tuple[Edits, Trajectories]:
    """All deletions, then all insertions, until the targets hold."""
    locations, clock = world.locations, world.clock
    if isinstance(targets, TfTargets):
        deletions = delete_globally(trajectories, locations, frequencies, targets, rank)
        thinned = delete(trajectories, deletions)
        insertions = insert_globally(thinned, locations, targets, rank, world.search)
    else:
        deletions = delete_locally(trajectories, locations, targets)
        thinned = delete(trajectories, deletions)
        insertions = insert_locally(thinned, locations, targets, clock, request.spread_mm)
    return Edits(deletions, insertions), insert(thinned, insertions, locations, clock)


def drawn_from(frequencies: Frequencies, targets: Targets) -> bool:
    """Whether these are the frequencies that the targets were drawn from."""
    if isinstance(targets, TfTargets):
        known = (targets.location >= 0) & (targets.location < len(frequencies.tf))
        return bool(known.all() and (frequencies.tf[targets.location] == targets.tf).all())
    return bool((point_frequency(frequencies, targets) == targets.pf).all())


def require_targets(frequencies: Frequencies, targets: Targets, step: int) -> None:
    """Refuse unless every target holds exactly."""
    if isinstance(targets, TfTargets):
        reached = frequencies.tf[targets.location].astype(np.int64)
    else:
        reached = point_frequency(frequencies, targets)
    missed = int((reached != targets.target).sum())
    if missed:
        raise VerificationFailed(f"step {step}: {missed:,} of {len(targets):,} targets do not hold")


def point_frequency(frequencies: Frequencies, targets: PfTargets) -> Ints:
    """PF of each (trajectory, location) of the targets; 0 where it is absent."""
    places = len(frequencies.tf)
    owner = np.repeat(
        np.arange(len(frequencies.offsets) - 1, dtype=np.int64), np.diff(frequencies.offsets)
    )
    known = owner * places + frequencies.location
    wanted = targets.trajectory.astype(np.int64) * places + targets.location
    at = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    if len(known) == 0:
        return np.zeros(len(wanted), np.int64)
    return np.where(known[at] == wanted, frequencies.pf[at], 0).astype(np.int64)


def digest(trajectories: Trajectories) -> str:
    """SHA-256 of trajectories: what a resumed run must arrive at again."""
    result = hashlib.sha256()
    for column in (trajectories.offsets, trajectories.location, trajectories.at):
        result.update(np.ascontiguousarray(column).view(np.uint8).data)
    return result.hexdigest()


def count(trajectories: Trajectories, world: World) -> Frequencies:
    return count_frequencies(trajectories, len(world.locations))


def user_level(frequencies: Frequencies, targets: Targets, request: Request) -> dict[str, float]:
    """What a whole user costs: counted from the data, so for the curator only."""
    trajectories = len(frequencies.offsets) - 1
    if isinstance(targets, TfTargets):
        candidate = np.zeros(len(frequencies.tf), np.bool_)
        candidate[targets.location] = True
        visited = np.add.reduceat(
            np.append(candidate[frequencies.location], False).astype(np.int64),
            frequencies.offsets[:-1],
        )
        visited[np.diff(frequencies.offsets) == 0] = 0
        epsilon = float(request.epsilon_global)
        return {
            "candidates_per_user_mean": float(visited.mean()),
            "candidates_per_user_max": int(visited.max(initial=0)),
            "epsilon_per_user_mean": epsilon * float(visited.mean()),
            "epsilon_per_user_max": epsilon * int(visited.max(initial=0)),
        }
    per_user = np.bincount(targets.trajectory, weights=targets.pf, minlength=trajectories)
    epsilon = float(request.epsilon_local)
    return {
        "listed_occurrences_per_user_mean": float(per_user.mean()),
        "listed_occurrences_per_user_max": int(per_user.max(initial=0)),
        "epsilon_per_user_mean": epsilon * float(per_user.mean()),
        "epsilon_per_user_max": epsilon * int(per_user.max(initial=0)),
    }
