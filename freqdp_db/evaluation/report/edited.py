"""Which samples were taken out of an object's trajectory, and which were put in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Flags
from freqdp_db.evaluation.pair import Pair


@dataclass(frozen=True)
class EditedSamples:
    """Which samples of D are not in D*, and which of D* not in D."""

    deleted: Flags
    inserted: Flags


def edited_samples(pair: Pair) -> EditedSamples:
    """What differs, by (object, place, time)."""
    sides = [
        (side.offsets, pair.coarse(side.at), side.location)
        for side in (pair.original, pair.released)
    ]
    before, after = sides
    places = len(pair.locations)
    return EditedSamples(_missing(*before, *after, places), _missing(*after, *before, places))


@njit(nogil=True, cache=True)
def _missing(offsets, at, place, others, other_at, other_place, places):  # type: ignore[no-untyped-def]
    """The samples that the same object does not have at their place and time on the other side.

    Both sides are in order of time. `seen`: the last row here at whose time the other side was there.
    """
    found = np.ones(len(at), np.bool_)
    seen = np.full(places, -1, np.int64)
    for t in range(len(offsets) - 1):
        q = others[t]
        first = offsets[t]
        while first < offsets[t + 1]:
            last = first
            while last < offsets[t + 1] and at[last] == at[first]:
                last += 1
            while q < others[t + 1] and other_at[q] < at[first]:
                q += 1
            while q < others[t + 1] and other_at[q] == at[first]:
                seen[other_place[q]] = first
                q += 1
            for i in range(first, last):
                found[i] = seen[place[i]] != first
            first = last
    return found
