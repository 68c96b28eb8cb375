"""What the draws read of each partition: its places, ranked by how telling they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from freqdp_db.columns.arrays import Flags, Ids, Ints
from freqdp_db.columns.edits import PfTargets
from freqdp_db.columns.trajectories import Locations
from freqdp_db.engines.partitions import Partitions
from freqdp_db.engines.ranges import either
from freqdp_db.frequency.counts import Frequencies
from freqdp_db.frequency.partition import Partition
from freqdp_db.frequency.signatures import Signatures, rank_places
from freqdp_db.mechanisms.closure import close_signatures
from freqdp_db.mechanisms.local_pf import PointLists, point_lists
from freqdp_db.methods.contract import State


@dataclass(frozen=True)
class Ranked:
    """The places of each trajectory of a partition, most telling first."""

    first: int
    places: Locations
    frequencies: Frequencies
    """With TF of all trajectories."""
    signatures: Signatures


def rank_signatures(state: State, size: int) -> Partitions[Ranked]:
    """Rank the places of every trajectory; the first `size` are its signature."""
    return state.partitions.map(_rank, state.tf, len(state.trajectories), size)


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
