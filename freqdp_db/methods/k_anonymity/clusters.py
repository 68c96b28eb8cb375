"""w4m's greedy clusters: a pivot and the k - 1 nearest, if they lie within a radius.

The first pivot is the farthest from the data's centre, each further one the farthest from those
before. What is in no cluster joins the nearest pivot within the radius, or is trash. If that is
more than may be, the radius grows by half, and all begins again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.methods.k_anonymity.likeness import Likeness

_GROWTH = 1.5


@dataclass(frozen=True)
class Clusters:
    """Members of each cluster, the pivot first; in nobody's is the trash."""

    offsets: Ints
    member: Ids


def find_clusters(likeness: Likeness, k: int, most_trash: int) -> Clusters:
    count = len(likeness.offsets) - 1
    if count < k:
        return Clusters(np.zeros(1, np.int64), np.zeros(0, np.int32))
    from_centre = likeness.to_centre()
    radius = likeness.first_radius()
    while True:
        clusters = _one_round(likeness, k, radius, from_centre)
        if count - sum(map(len, clusters)) <= most_trash:
            sizes = np.array([len(c) for c in clusters], np.int64)
            member = np.array([m for c in clusters for m in c], np.int32)
            return Clusters(offsets_from(sizes), member)
        radius *= _GROWTH


def _one_round(
    likeness: Likeness,
    k: int,
    radius: float,
    from_centre: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> list[list[int]]:
    count = len(from_centre)
    free = np.ones(count, np.bool_)
    waiting = np.ones(count, np.bool_)
    """Neither in a cluster nor a pivot that found too few."""
    from_pivots = from_centre.copy()
    nearest, nearest_m = np.full(count, -1), np.full(count, np.inf)
    clusters: list[list[int]] = []
    tried = 0
    while waiting.any() and int(free.sum()) >= k:
        candidates = np.flatnonzero(waiting)
        pivot = int(candidates[np.argmax(from_pivots[candidates])])
        away = likeness.to_all(pivot)
        from_pivots = away.copy() if tried == 0 else np.minimum(from_pivots, away)
        tried += 1
        waiting[pivot] = False
        others = np.flatnonzero(free)
        others = others[others != pivot]
        chosen = others[np.argsort(away[others], kind="stable")[: k - 1]]
        if away[chosen].max() > radius:
            continue
        nearer = away < nearest_m
        nearest[nearer], nearest_m[nearer] = len(clusters), away[nearer]
        clusters.append([pivot, *chosen.tolist()])
        free[clusters[-1]] = waiting[clusters[-1]] = False
    for left in np.flatnonzero(free & (nearest_m <= radius)).tolist():
        clusters[nearest[left]].append(left)
    return clusters
