"""What `w4m` promises, measured in its result."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import State


def check_clusters(
    before: State,
    offsets: Ints,
    member: Ids,
    after: State,
    k: int,
    delta_m: float,
    most_trash: int,
) -> dict[str, int]:
    """Refuse a cluster of too few, two members ever too far apart, or too much left out."""
    old, new = before.trajectories, after.trajectories
    if len(new) != len(old) or not np.array_equal(before.key, after.key):
        raise VerificationFailed("the trajectories are not those of the objects")
    if len(np.unique(member)) != len(member):
        raise VerificationFailed("an object is in two clusters")
    kept = np.zeros(len(old), np.bool_)
    kept[member] = True
    if new.lengths[~kept].any():
        raise VerificationFailed("an object of no cluster was released")
    trash = int((~kept & (old.lengths > 0)).sum())
    if trash > most_trash and len(member):
        raise VerificationFailed(f"{trash:,} objects were left out; {most_trash:,} may be")
    instants = 0
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        if end - begin < k:
            raise VerificationFailed("a cluster has fewer objects than k")
        parts = [slice(*new.offsets[m : m + 2].tolist()) for m in member[begin:end].tolist()]
        times = new.at[parts[0]]
        if not all(np.array_equal(new.at[p], times) for p in parts):
            raise VerificationFailed("members of a cluster have different times")
        x = [after.places.x[new.location[p]] for p in parts]
        y = [after.places.y[new.location[p]] for p in parts]
        for a, b in combinations(range(len(parts)), 2):
            if (np.hypot(x[a] - x[b], y[a] - y[b]) > delta_m).any():
                raise VerificationFailed("two members of a cluster are further apart than delta")
        instants += len(times)
    return {"clusters": len(offsets) - 1, "instants": instants, "trash": trash}
