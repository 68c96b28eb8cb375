"""`profile`: who is found by habits of other days; and `home`: where an object rests at night."""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.evaluation.attacks.claims import NEAR_M, Shares
from freqdp_db.evaluation.attacks.known_samples import Sighted
from freqdp_db.evaluation.attacks.signatures import (
    days_apart,
    dimensions_of,
    pick_by_cosine,
    tf_idf,
)
from freqdp_db.evaluation.pair import Case, hours_of_day, share_of
from freqdp_db.methods.frequency.counts import count_frequencies
from freqdp_db.model.arrays import Flags, Ids, Ints, offsets_of, owners
from freqdp_db.model.trajectories import Trajectories

_KINDS = ("s", "st")
# How much of a habit is taken to be everybody's.
_SMOOTHING = 0.2
_EVENING, _MORNING = 22, 6


@njit(nogil=True, cache=True)
def _pick_by_likelihood(  # type: ignore[no-untyped-def]
    first, last, offsets, dimension, count, lists, object_of, gain, objects
):
    """The object whose habits make each released trajectory most likely; -1 if none has any."""
    pick = np.full(last - first, -1, np.int64)
    score = np.zeros(objects, np.float64)
    touched = np.empty(objects, np.int64)
    for t in range(first, last):
        n = 0
        for i in range(offsets[t], offsets[t + 1]):
            d = dimension[i]
            for j in range(lists[d], lists[d + 1]):
                if score[object_of[j]] == 0.0:
                    touched[n] = object_of[j]
                    n += 1
                score[object_of[j]] += count[i] * gain[j]
        best = 0.0
        for k in range(n):
            if score[touched[k]] > best:
                best, pick[t - first] = score[touched[k]], touched[k]
        for k in range(n):
            score[touched[k]] = 0.0
    return (pick,)


def pick_by_likelihood(original: Trajectories, released: Trajectories, dimensions: int) -> Ints:
    """For each released trajectory the object that would most likely have made it.

    A naive Bayes score: the product over samples of what the object does and what everybody does,
    mixed 4 to 1; what nobody but the mixture explains weighs alike for all.
    """
    habits = count_frequencies(original, dimensions)
    walks = count_frequencies(released, dimensions)
    owner = owners(habits.offsets)
    total = np.bincount(habits.location, habits.pf, dimensions)
    common = total[habits.location] / max(total.sum(), 1.0)
    own = habits.pf / original.lengths[owner]
    gain = np.log1p((1.0 - _SMOOTHING) * own / (_SMOOTHING * common))
    order = np.argsort(habits.location, kind="stable")
    parts = map_ranges(
        _pick_by_likelihood, walks.offsets, walks.offsets, walks.location, walks.pf,
        offsets_of(habits.location[order], dimensions), owner[order], gain[order],
        max(len(original), 1),
    )  # fmt: skip
    (pick,) = joined(parts)
    return pick


def profile_exposures(case: Case, rng: np.random.Generator) -> dict[str, float]:
    """`profile.<signature>.<score>`: share of a released trajectory that is who it is taken for.

    Protocol B: habits of D's even days against released odd days, each released trajectory linked
    with an object; mean over trajectories of the share of its samples that are that object's. The
    largest is `profile`.
    """
    pair = days_apart(case.pair)
    filled = pair.released.lengths > 0
    found: dict[str, float] = {}
    if not filled.any():
        return {"profile": 0.0}
    for kind in _KINDS:
        original, released, dimensions = dimensions_of(pair, kind)
        shown, true = tf_idf(released, dimensions), tf_idf(original, dimensions)
        alike, _ = pick_by_cosine(shown, true, dimensions, rng)
        likely = pick_by_likelihood(original, released, dimensions)
        for score, pick in (("cosine", alike), ("likelihood", likely)):
            share = _share_owned(case, pick)
            found[f"profile.{kind}.{score}"] = float(share[filled].mean())
    return {"profile": max(found.values()), **found}


def _share_owned(case: Case, pick: Ints) -> Shares:
    """Of each released trajectory's samples, how many are the picked object's."""
    release = case.release
    mine = release.owners == pick[release.trajectory]
    size = np.maximum(release.trajectories.lengths, 1)
    return np.bincount(release.trajectory, mine, len(release.trajectories)) / size


def resting_place(side: Trajectories, timezone: str) -> Ids:
    """The place with most samples between 22 and 6 h; ties go to the lower one; -1: no such sample."""
    hour = hours_of_day(side.at, timezone)
    night: Flags = (hour >= _EVENING) | (hour < _MORNING)
    nights = side.where(night)
    place = np.full(len(side), -1, np.int32)
    if not nights.samples:
        return place
    counted = count_frequencies(nights, int(nights.location.max()) + 1)
    owner = owners(counted.offsets)
    order = np.lexsort((counted.location, -counted.pf.astype(np.int64), owner))
    first = np.ones(len(order), np.bool_)
    first[1:] = owner[order][1:] != owner[order][:-1]
    place[owner[order[first]]] = counted.location[order[first]]
    return place


def home_exposure(case: Case, sighted: Sighted) -> dict[str, float]:
    """`home`: share of objects whose resting place the found trajectory tells, within 200 m."""
    truth = resting_place(case.original, case.timezone)
    told = resting_place(case.release.trajectories, case.timezone)
    guess = np.where(sighted.pick >= 0, told[sighted.pick], -1) if len(told) else truth * 0 - 1
    rests, guessed = truth >= 0, guess >= 0
    both = rests & guessed
    right = np.zeros(len(case), np.bool_)
    a, b = truth[both], guess[both]
    places, release = case.places, case.release.places
    right[both] = np.hypot(places.x[a] - release.x[b], places.y[a] - release.y[b]) <= NEAR_M
    return {"home": share_of(right, rests)}
