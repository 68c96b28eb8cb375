"""The clusters of `w4m`: distances between trajectories, a greedy search, and moving members together.

LSTD (linear spatio-temporal distance) compares two trajectories at equal shares of their time: the mean
distance in space and time, where a second counts as many metres as the objects travel in one. EDR (edit
distance on real sequences) is the share of samples that match no sample of the other trajectory, within
delta and the time that delta takes, in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_each
from freqdp_db.model.arrays import Flags, Ids, Ints, Metres, new_rows, offsets_from
from freqdp_db.model.trajectories import Locations, Trajectories

SHARES = 65
"""LSTD compares at so many instants, from the first sample to the last."""


@dataclass
class TrajectoryDistances:
    """What distances from one trajectory to all are computed from; no trajectory is empty."""

    offsets: Ints
    x: Metres
    y: Metres
    at: Ints
    speed: float
    """Metres per microsecond."""
    at_shares: Metres
    """[trajectory, share of its time]: x, y, and the time as metres."""
    edr: bool
    tolerance_m: float
    _known: dict[int, Metres] = field(default_factory=dict)

    def to_all(self, pivot: int) -> Metres:
        if not self.edr:
            return self.lstd(self.at_shares[pivot])
        if pivot not in self._known:
            parts = map_each(_edr_to, len(self.offsets) - 1, pivot, *self.columns())
            self._known[pivot] = joined(parts)[0]
        return self._known[pivot]

    def lstd(self, one: Metres) -> Metres:
        apart: Metres = np.sqrt(((self.at_shares - one) ** 2).sum(axis=2)).mean(axis=1)
        return apart

    def columns(self) -> tuple[Ints, Metres, Metres, Ints, float, float]:
        """What EDR compares, with its tolerances in metres and microseconds."""
        tolerance_us = self.tolerance_m / self.speed
        return self.offsets, self.x, self.y, self.at, self.tolerance_m, tolerance_us


def compare(
    trajectories: Trajectories, places: Locations, delta_m: float, *, edr: bool
) -> TrajectoryDistances:
    offsets, at = trajectories.offsets, trajectories.at
    x, y = places.x[trajectories.location], places.y[trajectories.location]
    speed = _typical_speed(offsets, x, y, at)
    shares = np.empty((len(trajectories), SHARES, 3))
    for t, (begin, end) in enumerate(pairwise(offsets)):
        when = at[begin] + (at[end - 1] - at[begin]) * (np.arange(SHARES) / (SHARES - 1))
        shares[t] = np.column_stack([*_places_at(x, y, at, begin, end, when), when * speed])
    return TrajectoryDistances(offsets, x, y, at, speed, shares, edr, delta_m)


def _typical_speed(offsets: Ints, x: Metres, y: Metres, at: Ints) -> float:
    """The median of the objects' average speeds: a few wild jumps must not make time worthless."""
    way = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    first, last = offsets[:-1], offsets[1:] - 1
    span = at[last] - at[first]
    moved = (way[last] - way[first])[span > 0] / span[span > 0]
    found = float(np.median(moved)) if len(moved) else 0.0
    return found if found > 0 else 1e-6


def _places_at(
    x: Metres, y: Metres, at: Ints, begin: int, end: int, when: Metres
) -> tuple[Metres, Metres]:
    """Where the trajectory of samples begin to end - 1 is at these times; before and after, at its ends."""
    i = begin + np.maximum(np.searchsorted(at[begin:end], when, side="right") - 1, 0)
    j = np.minimum(i + 1, end - 1)
    between = (j > i) & (at[i] < when)
    part = np.divide(when - at[i], at[j] - at[i], out=np.zeros(len(when)), where=between)
    return x[i] + part * (x[j] - x[i]), y[i] + part * (y[j] - y[i])


@njit(nogil=True, cache=True)
def samples_match(i, j, x, y, at, tolerance_m, tolerance_us):  # type: ignore[no-untyped-def]
    return (
        abs(x[i] - x[j]) <= tolerance_m
        and abs(y[i] - y[j]) <= tolerance_m
        and abs(at[i] - at[j]) <= tolerance_us
    )


@njit(nogil=True, cache=True)
def _edit_costs(one, other, offsets, x, y, at, tolerance_m, tolerance_us):  # type: ignore[no-untyped-def]
    """[i, j]: edits between the first i samples of one trajectory and the first j of the other."""
    a, b = offsets[one], offsets[other]
    n, m = offsets[one + 1] - a, offsets[other + 1] - b
    cost = np.empty((n + 1, m + 1), np.int32)
    for i in range(n + 1):
        cost[i, 0] = i
    for j in range(m + 1):
        cost[0, j] = j
    for i in range(n):
        for j in range(m):
            same = 0 if samples_match(a + i, b + j, x, y, at, tolerance_m, tolerance_us) else 1
            cost[i + 1, j + 1] = min(cost[i, j] + same, cost[i, j + 1] + 1, cost[i + 1, j] + 1)
    return cost


@njit(nogil=True, cache=True)
def _edr_to(first, last, pivot, offsets, x, y, at, tolerance_m, tolerance_us):  # type: ignore[no-untyped-def]
    found = np.empty(last - first)
    for t in range(first, last):
        cost = _edit_costs(t, pivot, offsets, x, y, at, tolerance_m, tolerance_us)
        found[t - first] = cost[-1, -1] / (max(cost.shape) - 1)
    return (found,)


# --- w4m's greedy clusters: a pivot and the k - 1 nearest, if they lie within a radius ---


_GROWTH = 1.5


def find_clusters(distances: TrajectoryDistances, k: int, most_trash: int) -> tuple[Ints, Ids]:
    """Offsets and members of the clusters, the pivot of each first; in nobody's is the trash."""
    count = len(distances.offsets) - 1
    if count < k:
        return np.zeros(1, np.int64), np.zeros(0, np.int32)
    from_centre = distances.lstd(np.median(distances.at_shares, axis=0))
    # the tolerance, or a tenth of all samples
    radius = 0.1 if distances.edr else max(distances.tolerance_m, 1.0)
    while True:
        clusters = _one_round(distances, k, radius, from_centre)
        if count - sum(map(len, clusters)) <= most_trash:
            sizes = np.array([len(c) for c in clusters], np.int64)
            return offsets_from(sizes), np.array([m for c in clusters for m in c], np.int32)
        radius *= _GROWTH


def _one_round(
    distances: TrajectoryDistances, k: int, radius: float, from_centre: Metres
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
        away = distances.to_all(pivot)
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


# --- w4m's edits: members of a cluster are brought onto the pivot's times, and near each other ---


_ROUNDING_M = 0.005
"""Less than a coordinate of the table may be off by."""


def move_together(
    distances: TrajectoryDistances, members: Ids, delta_m: float
) -> tuple[Metres, Metres, list[Flags]]:
    """x and y of each member at each of the pivot's times; which of these are matched samples."""
    offsets, x, y, at = distances.offsets, distances.x, distances.y, distances.at
    pivot = int(members[0])
    part = slice(int(offsets[pivot]), int(offsets[pivot + 1]))
    rows_x, rows_y, matched = [x[part]], [y[part]], [np.ones(len(at[part]), np.bool_)]
    for member in members[1:].tolist():
        begin, end = offsets[member], offsets[member + 1]
        # the member's time at the share of its time that each of the pivot's samples has
        of_pivot = at[part] - at[part][0]
        share = of_pivot / of_pivot[-1] if of_pivot[-1] > 0 else np.zeros(len(of_pivot))
        when = at[begin] + share * (at[end - 1] - at[begin])
        if distances.edr:
            pairs: Ints = _matched_edr(pivot, member, *distances.columns())
        else:
            pairs = _nearest_in_time(at, begin, end, when)
        created_x, created_y = _places_at(x, y, at, begin, end, when)
        rows_x.append(np.where(pairs >= 0, x[pairs], created_x))
        rows_y.append(np.where(pairs >= 0, y[pairs], created_y))
        matched.append(pairs >= 0)
    moved_x, moved_y = _onto_disc(
        np.array(rows_x), np.array(rows_y), max(delta_m / 2 - _ROUNDING_M, 0.0)
    )
    return moved_x, moved_y, matched


def _nearest_in_time(at: Ints, begin: int, end: int, when: Metres) -> Ints:
    """The nearest of the samples begin to end - 1 to each time; -1 where it is nearer to another time."""
    after = np.minimum(begin + np.searchsorted(at[begin:end], when), end - 1)
    before = np.maximum(after - 1, begin)
    nearest = np.where(np.abs(at[after] - when) < np.abs(at[before] - when), after, before)
    order = np.lexsort((np.abs(at[nearest] - when), nearest))
    found = np.full(len(when), -1)
    mutual = order[new_rows(nearest[order])]
    found[mutual] = nearest[mutual]
    return found


@njit(nogil=True, cache=True)
def _matched_edr(pivot, member, offsets, x, y, at, tolerance_m, tolerance_us):  # type: ignore[no-untyped-def]
    """For each sample of the pivot, the member's that the cheapest alignment gives it."""
    a, b = offsets[pivot], offsets[member]
    n, m = offsets[pivot + 1] - a, offsets[member + 1] - b
    cost = _edit_costs(pivot, member, offsets, x, y, at, tolerance_m, tolerance_us)
    found = np.full(n, -1)
    i, j = n, m
    while i > 0 and j > 0:
        same = samples_match(a + i - 1, b + j - 1, x, y, at, tolerance_m, tolerance_us)
        if same and cost[i, j] == cost[i - 1, j - 1]:
            found[i - 1] = b + j - 1
            i, j = i - 1, j - 1
        elif cost[i, j] == cost[i - 1, j - 1] + 1:
            i, j = i - 1, j - 1
        elif cost[i, j] == cost[i - 1, j] + 1:
            i -= 1
        else:
            j -= 1
    return found


def _onto_disc(x: Metres, y: Metres, radius: float) -> tuple[Metres, Metres]:
    """By member and time: nobody further than the radius from where all are in the mean."""
    centre_x, centre_y = x.mean(axis=0), y.mean(axis=0)
    dx, dy = x - centre_x, y - centre_y
    away = np.hypot(dx, dy)
    part = np.where(away > radius, radius / np.where(away > 0, away, 1.0), 1.0)
    return centre_x + part * dx, centre_y + part * dy
