"""A release beside its originals as the paper compares them: trajectory t is object t's.

Trajectories that are several objects' stand beside each of them. Those that are nobody's are dealt
out to the objects by number: what is linked then is chance, as it is in the paper.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from freqdp_db.columns.ragged import offsets_from, rows_of
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.evaluation.attacks.exposure.case import Case
from freqdp_db.evaluation.metrics import measure
from freqdp_db.evaluation.pair import Pair
from freqdp_db.evaluation.utility.journeys import in_trips, side_by_side
from freqdp_db.evaluation.utility.losses import diameter_error, trip_error
from freqdp_db.evaluation.utility.patterns import frequent_patterns
from freqdp_db.methods.contract import State
from freqdp_db.progress import Progress

_OF_OBJECTS = frozenset(
    {"linking attacks", "mutual information", "information loss", "diameters", "trips",
     "frequent patterns"}
)  # fmt: skip


def paper_metrics(case: Case, state: State, pair: Pair, seed: int) -> dict[str, float]:
    """The metrics of the paper's table that need no roads; `pair`: as `aligned` gives it.

    Whoever generates trips generates no weeks: how wide trajectories are, where they begin and end
    and how they go on is then compared trip by trip, on both sides.
    """
    found = measure(pair, seed, Progress(), _OF_OBJECTS)
    if is_nobodys(state):
        trips = in_trips(
            side_by_side(replace(pair, released=case.release.trajectories), state.places)
        )
        rng = np.random.default_rng(seed)
        found |= diameter_error(trips) | frequent_patterns(trips)
        found["te.trip"] = trip_error(trips, rng)["te.trajectory"]
    return found


def is_nobodys(state: State) -> bool:
    """Whether its trajectories are made up."""
    return state.owner is not None and state.members is None


def aligned(case: Case, state: State) -> Pair:
    """Both sides over the original places, object by object."""
    pair, objects = case.pair, len(case.original)
    if state.part_of is not None:
        return replace(pair, released=_repeated(pair.released, state))
    if is_nobodys(state):
        return replace(pair, released=_dealt(pair.released, objects))
    return pair


def _repeated(side: Trajectories, state: State) -> Trajectories:
    """The trajectory of each object's group; whoever is in none has an empty one."""
    assert state.part_of is not None
    there = state.part_of >= 0
    rows, _ = rows_of(side.offsets, state.part_of[there].astype(np.int64))
    lengths = np.where(there, side.lengths[state.part_of], 0) if len(side) else there * 0
    start = np.where(there, side.start[state.part_of], 0) if len(side) else there * 0
    return Trajectories(offsets_from(lengths), side.location[rows], side.at[rows], start)


def _dealt(side: Trajectories, objects: int) -> Trajectories:
    """Trips to objects in turn, each object's in the order of their times."""
    owner = side.owner.astype(np.int64) % objects
    order = np.lexsort((side.at, owner))
    offsets = offsets_from(np.bincount(owner, minlength=objects))
    at = side.at[order]
    start = np.zeros(objects, np.int64)
    filled = offsets[1:] > offsets[:-1]
    start[filled] = at[offsets[:-1][filled]]
    return Trajectories(offsets, side.location[order], at, start)
