"""Signature closure: the comparison methods that drop what is most telling, without any noise."""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.edits import PfTargets
from freqdp_db.columns.ragged import offsets_of, owners, within
from freqdp_db.columns.trajectories import Locations
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.frequency.counts import Frequencies
from freqdp_db.frequency.signatures import Signatures

_LARGEST_RANK = 2**15 - 1
_SIGNATURE, _NEARBY = 1, 2


@njit(nogil=True, cache=True)
def _mark(first, last, offsets, order, place, size, x, y, radius2):  # type: ignore[no-untyped-def]
    """Stage 1: the signature; stage 2: other places within the radius of one of it."""
    begin = offsets[first]
    stage = np.zeros(offsets[last] - begin, np.int16)
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        signature = min(size, hi - lo)
        for i in range(lo, lo + signature):
            stage[order[i] - begin] = _SIGNATURE
        if radius2 <= 0.0:
            continue
        for i in range(lo + signature, hi):
            p = place[order[i]]
            for j in range(lo, lo + signature):
                q = place[order[j]]
                dx, dy = x[p] - x[q], y[p] - y[q]
                if dx * dx + dy * dy <= radius2:
                    stage[order[i] - begin] = _NEARBY
                    break
    return (stage,)


def close_signatures(
    frequencies: Frequencies, signatures: Signatures, locations: Locations, radius_m: float
) -> PfTargets:
    """Target 0 for each trajectory's signature and for all its places within the radius (0: none).

    Input: PF and the signatures.
    Protected change: none. No noise is drawn: what is missing tells where it was.
    Sensitivity: not bounded.
    Guarantee: none; a heuristic.
    Paper: the methods SC and RSC of its comparison.
    """
    parts = map_ranges(
        _mark, frequencies.offsets, frequencies.offsets, signatures.order, frequencies.location,
        signatures.size, locations.x, locations.y, radius_m * radius_m,
    )  # fmt: skip
    (stage,) = joined(parts)
    # in order of rank within each trajectory, as point lists are
    entry = signatures.order[stage[signatures.order] > 0]
    trajectory = owners(frequencies.offsets)[entry]
    rank = within(offsets_of(trajectory, len(frequencies.offsets) - 1)) + 1
    return PfTargets(
        trajectory=trajectory,
        location=frequencies.location[entry],
        stage=stage[entry],
        rank=np.minimum(rank, _LARGEST_RANK).astype(np.int16),
        pf=frequencies.pf[entry],
        target=np.zeros(len(entry), np.int32),
    )
