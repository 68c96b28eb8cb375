"""Whether stored targets and edits fit the trajectories that they are said to be of."""

from __future__ import annotations

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import EditRuns, Edits, PfTargets
from freqdp_db.columns.ragged import owners
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.errors import VerificationFailed
from freqdp_db.frequency.counts import Frequencies


def reached_pf(frequencies: Frequencies, targets: PfTargets) -> Ints:
    """PF of each (trajectory, location) of the targets; 0 where it is absent."""
    places = len(frequencies.tf)
    known = owners(frequencies.offsets).astype(np.int64) * places + frequencies.location
    wanted = targets.trajectory.astype(np.int64) * places + targets.location
    if len(known) == 0:
        return np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, frequencies.pf[at], 0).astype(np.int64)


def require_possible(state: Trajectories, edits: Edits, places: int) -> None:
    """Every deletion names a sample that is at its place; every insertion goes between samples.

    The kernels that apply the edits take this for granted.
    """
    for runs in (edits.deletions, edits.insertions):
        known = (runs.trajectory >= 0) & (runs.trajectory < len(state))
        known &= (runs.location >= 0) & (runs.location < places)
        if not known.all():
            raise VerificationFailed("the log names trajectories or places of no build")
    owner, place, position = _one_by_one(edits.deletions)
    if not ((position >= 0) & (position < state.lengths[owner])).all():
        raise VerificationFailed("the log deletes samples that do not exist")
    at = state.offsets[owner] + position
    keep = np.ones(state.samples + 1, np.bool_)
    keep[at] = False
    gone = len(keep) - np.count_nonzero(keep)
    if not (state.location[at] == place).all() or gone != len(at):
        raise VerificationFailed("the log deletes samples of other places, or twice")
    left = state.lengths - np.bincount(owner, minlength=len(state))
    # the last sample that is left ends no segment, unless it is the only one
    last = np.flatnonzero(keep)[np.cumsum(left) - 1] - state.offsets[:-1]
    owner, place, position = _one_by_one(edits.insertions)
    inside = (position >= 0) & (position < state.lengths[owner])
    survives = keep[np.where(inside, state.offsets[owner] + position, state.samples)]
    follows = inside & survives & ((position != last[owner]) | (left[owner] == 1))
    if not np.where(left[owner] == 0, position == -1, follows).all():
        raise VerificationFailed("the log inserts after samples that are not there")


def _one_by_one(runs: EditRuns) -> tuple[Ids, Ids, Ids]:
    """Trajectory, location and position of each edit."""
    counts = np.diff(runs.offsets)
    return np.repeat(runs.trajectory, counts), np.repeat(runs.location, counts), runs.position
