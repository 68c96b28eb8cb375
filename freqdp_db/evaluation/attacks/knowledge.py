"""What a few known samples give away: LA_x, unicity, and places of one's own.

Untouched samples keep their exact times, so somebody who knows a few of them has the strongest
attack of all. Where released times were coarsened, the attacker coarsens what he knows alike.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Flags, Ints
from freqdp_db.columns.days import HOUR_US
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.evaluation.pair import Pair, share_of
from freqdp_db.evaluation.utility.crowding import numbered_cells
from freqdp_db.frequency.counts import count_frequencies

KNOWN_SAMPLES = (1, 2, 4, 10)
_UNICITY_SAMPLES = 4
_UNICITY_CELL_M = 1_000.0


@njit(nogil=True, cache=True)
def _count_matches(first, last, known_offsets, list_of, list_offsets, carrier, trajectories):  # type: ignore[no-untyped-def]
    """How many known facts of each object its own trajectory holds; the most; how many hold these."""
    own = np.zeros(last - first, np.int64)
    best, ties = np.zeros(last - first, np.int64), np.zeros(last - first, np.int64)
    hits = np.zeros(trajectories, np.int64)
    for o in range(first, last):
        n = o - first
        for i in range(known_offsets[o], known_offsets[o + 1]):
            if list_of[i] >= 0:
                for j in range(list_offsets[list_of[i]], list_offsets[list_of[i] + 1]):
                    hits[carrier[j]] += 1
        own[n] = hits[o]
        # only the carriers of a known fact can have a hit
        for i in range(known_offsets[o], known_offsets[o + 1]):
            if list_of[i] >= 0:
                for j in range(list_offsets[list_of[i]], list_offsets[list_of[i] + 1]):
                    t = carrier[j]
                    if hits[t] > best[n]:
                        best[n], ties[n] = hits[t], 1
                    elif hits[t] == best[n] and hits[t] > 0:
                        ties[n] += 1
                    # counted once
                    hits[t] = 0
    return own, best, ties


class _Facts:
    """Which trajectories hold each fact (any integer), every trajectory once."""

    def __init__(self, fact: Ints, owner: Ints, trajectories: int) -> None:
        self.known, which = np.unique(fact, return_inverse=True)
        pairs = np.unique(which.astype(np.int64) * trajectories + owner)
        self.carrier = (pairs % trajectories).astype(np.int32)
        self.offsets = np.searchsorted(pairs // trajectories, np.arange(len(self.known) + 1))
        self.trajectories = trajectories

    def match(self, fact: Ints, offsets: Ints) -> tuple[Ints, Ints, Ints]:
        """For each object: hits of its own trajectory, the most hits, and how many reach them."""
        at = np.minimum(np.searchsorted(self.known, fact), max(len(self.known) - 1, 0))
        found = self.known[at] == fact if len(self.known) else np.zeros(len(fact), np.bool_)
        parts = map_ranges(
            _count_matches, offsets, offsets, np.where(found, at, -1), self.offsets,
            self.carrier, self.trajectories,
        )  # fmt: skip
        own, best, ties = joined(parts)
        return own, best, ties


def pick_samples(side: Trajectories, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Random samples of each trajectory, without repetition: offsets, and positions."""
    offsets = offsets_from(np.minimum(side.lengths, count))
    parts = map_ranges(
        _lowest, side.offsets, side.offsets, rng.random(side.samples), offsets, count
    )
    (position,) = joined(parts)
    return offsets, position


@njit(nogil=True, cache=True)
def _lowest(first, last, offsets, draw, out_offsets, count):  # type: ignore[no-untyped-def]
    """The samples with the lowest draws of each trajectory, lowest first."""
    begin = out_offsets[first]
    found = np.empty(out_offsets[last] - begin, np.int64)
    for t in range(first, last):
        low = out_offsets[t] - begin
        n = 0
        for i in range(offsets[t], offsets[t + 1]):
            if n == count and draw[i] >= draw[found[low + n - 1]]:
                continue
            n = min(n + 1, count)
            k = low + n - 1
            while k > low and draw[found[k - 1]] > draw[i]:
                found[k] = found[k - 1]
                k -= 1
            found[k] = i
    return (found,)


def known_samples(pair: Pair, rng: np.random.Generator) -> dict[str, float]:
    """LA_x: share of objects that k known samples (place, exact time) find, and nobody else."""
    clock, released_time = np.unique(pair.released.at, return_inverse=True)
    steps = max(len(clock), 1)

    def facts(location: Ints, time: Ints) -> Ints:
        return location * np.int64(steps) + time

    holds = _Facts(
        facts(pair.released.location.astype(np.int64), released_time.astype(np.int64)),
        pair.released.owner.astype(np.int64),
        len(pair),
    )
    linkable = pair.on_both_sides
    found = {}
    for count in KNOWN_SAMPLES:
        offsets, position = pick_samples(pair.original, count, rng)
        at = pair.coarse(pair.original.at[position])
        step = np.minimum(np.searchsorted(clock, at), steps - 1)
        seen = clock[step] == at if len(clock) else np.zeros(len(at), np.bool_)
        fact = facts(pair.original.location[position].astype(np.int64), step.astype(np.int64))
        own, best, ties = holds.match(np.where(seen, fact, -1), offsets)
        right = (own > 0) & (own == best) & (ties == 1)
        found[f"la_x.{count}"] = share_of(right, linkable)
    return found


def unicity(pair: Pair, rng: np.random.Generator) -> dict[str, float]:
    """Share of released trajectories that four samples of their own (1 km, hour) pin down.

    Reads the release alone. Beside it, `unicity.place`: the share of objects with a place that
    only they visit in D and whose samples there were published untouched, at least one.
    """
    side = pair.released
    cell, _, _ = numbered_cells(pair.locations, _UNICITY_CELL_M)
    hour = side.at // HOUR_US
    hour = hour - hour.min(initial=0)
    fact = cell[side.location] * (hour.max(initial=0) + 1) + hour
    holds = _Facts(fact, side.owner.astype(np.int64), len(side))
    offsets, position = pick_samples(side, _UNICITY_SAMPLES, rng)
    # a fact that was drawn twice says no more than once, but both trajectories count it alike
    _, _, ties = holds.match(fact[position], offsets)
    return {
        "unicity": share_of(ties == 1, side.lengths > 0),
        "unicity.place": _own_places(pair),
    }


def _own_places(pair: Pair) -> float:
    original, released = pair.original, pair.released
    tf = count_frequencies(original, len(pair.locations)).tf
    alone = tf[original.location] == 1
    # untouched: the same object at the same place and time, as the release shows times
    fields = [("owner", np.int32), ("location", np.int32), ("at", np.int64)]
    before = np.empty(int(alone.sum()), fields)
    before["owner"] = original.owner[alone]
    before["location"] = original.location[alone]
    before["at"] = pair.coarse(original.at[alone])
    kept = tf[released.location] == 1
    after = np.empty(int(kept.sum()), fields)
    after["owner"] = released.owner[kept]
    after["location"] = released.location[kept]
    after["at"] = released.at[kept]
    exposed: Flags = np.zeros(len(pair), np.bool_)
    exposed[np.intersect1d(before, after)["owner"]] = True
    return share_of(exposed, original.lengths > 0)
