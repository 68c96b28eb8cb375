"""What the draws read of each partition: its places, ranked by how telling they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from freqdp_db.engines.partitions import Partitions
from freqdp_db.engines.ranges import either, joined, map_ranges
from freqdp_db.methods.contract import WorkingSet
from freqdp_db.methods.frequency.counts import Frequencies, Signatures, rank_places
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.methods.frequency.perturbation import PointLists, point_lists
from freqdp_db.model.arrays import Flags, Ids, Ints, offsets_of, owners, within
from freqdp_db.model.edits import PfTargets
from freqdp_db.model.trajectories import Locations

# Signature closure: the comparison methods that drop what is most telling, without any noise.


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


@dataclass(frozen=True)
class Ranked:
    """The places of each trajectory of a partition, most telling first."""

    first: int
    places: Locations
    frequencies: Frequencies
    """With TF of all trajectories."""
    signatures: Signatures


def rank_signatures(state: WorkingSet, tf: Ids, size: int) -> Partitions[Ranked]:
    """Rank the places of every trajectory; the first `size` are its signature."""
    return state.partitions.map(_rank, tf, len(state.trajectories), size)


def _rank(partition: Partition, tf: Ids, trajectories: int, size: int) -> Ranked:
    frequencies = replace(partition.frequencies, tf=tf)
    signatures = rank_places(frequencies, size, trajectories)
    return Ranked(partition.first, partition.places, frequencies, signatures)


def candidates_in(ranked: Partitions[Ranked]) -> Flags:
    """The paper's P: places that are in anybody's signature."""
    return either(list(ranked.map(_candidates_of)))


def _candidates_of(ranked: Ranked) -> Flags:
    return ranked.signatures.candidates


def lists_of(ranked: Ranked, candidates: Flags) -> PointLists:
    """The point lists of these trajectories."""
    return point_lists(ranked.frequencies, replace(ranked.signatures, candidates=candidates))


def closed_of(ranked: Ranked, radius_m: float) -> PfTargets:
    """The targets that close the signatures of these trajectories."""
    targets = close_signatures(ranked.frequencies, ranked.signatures, ranked.places, radius_m)
    return replace(targets, trajectory=targets.trajectory + np.int32(ranked.first))


def visits_of(partition: Partition, chosen: Flags) -> Ints:
    """How many of the chosen places each trajectory visits."""
    frequencies = partition.frequencies
    seen = np.append(chosen[frequencies.location], False).astype(np.int64)
    visited = (
        np.add.reduceat(seen, frequencies.offsets[:-1]) if len(partition.trajectories) else seen[:0]
    )
    visited[np.diff(frequencies.offsets) == 0] = 0
    return visited
