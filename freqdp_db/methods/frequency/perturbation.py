"""The noise of the paper: TF (Alg. 1, lines 1-6) and PF of point lists (Alg. 2, lines 1-18)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import attrgetter

import numpy as np

from freqdp_db.engines.partitions import Partitions
from freqdp_db.engines.ranges import either, joined, map_ranges
from freqdp_db.methods.contract import WorkingSet
from freqdp_db.methods.frequency.counts import Frequencies, Signatures, rank_places
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.model.arrays import Flags, Ids, Ints, offsets_from, owners, within
from freqdp_db.model.trajectories import PfTargets, TfTargets
from freqdp_db.privacy.accounting import Mechanism
from freqdp_db.privacy.noise import RandomSource, scale_for


@dataclass(frozen=True)
class Ranked:
    """The places of each trajectory of a partition, most telling first."""

    frequencies: Frequencies
    """With TF of all trajectories."""
    signatures: Signatures


def rank_signatures(state: WorkingSet, tf: Ids, size: int) -> Partitions[Ranked]:
    """Rank the places of every trajectory; the first `size` are its signature."""
    return state.partitions.map(_rank, tf, len(state.trajectories), size)


def _rank(partition: Partition, tf: Ids, trajectories: int, size: int) -> Ranked:
    frequencies = replace(partition.frequencies, tf=tf)
    return Ranked(frequencies, rank_places(frequencies, size, trajectories))


def candidates_in(ranked: Partitions[Ranked]) -> Flags:
    """The paper's P: places that are in any trajectory's signature."""
    return either(list(ranked.map(attrgetter("signatures.candidates"))))


# Global TF randomization (Alg. 1, lines 1-6)


def tf_mechanism(epsilon: Fraction) -> Mechanism:
    """The mechanism of `perturb_tf`. One incidence moves one component by 1."""
    return Mechanism(
        artefact="tf_vector",
        input="TF of every candidate location",
        unit="one (object, location) incidence",
        assumes="the candidate locations and the number of objects are fixed",
        whole_user="the number of candidates that the user visits",
        sensitivity=1,
        epsilon=epsilon,
    )


def perturb_tf(
    tf: Ids, trajectories: int, candidates: Flags, epsilon: Fraction, source: RandomSource
) -> TfTargets:
    """Draw a target for the TF of every candidate: l* = clamp(l + noise(1/eps), 0, |D|).

    Input: the TF vector over the candidates, which are taken as fixed.
    Protected change: one (object, location) incidence added or removed.
    Sensitivity: 1, in one component.
    Guarantee: the vector of targets is eps-DP for that change; clamping is post-processing.
    Paper: Algorithm 1, lines 1-6.
    """
    location = np.flatnonzero(candidates).astype(np.int32)
    tf = tf[location]
    noise = source.discrete_laplace(tf_mechanism(epsilon).scale, len(location))
    target = np.clip(tf + noise, 0, trajectories).astype(np.int32)
    return TfTargets(location, tf, target)


# Local PF randomization (Alg. 2, lines 1-18): the point lists and their perturbed frequencies.


def pf_mechanism(epsilon: Fraction, size: int) -> Mechanism:
    """The mechanism of stage 2 of `perturb_pf`, on the lattice 1/m; stage 1 does not see the counts.

    An occurrence in stage 2 moves one component by m steps of the lattice. One in stage 1 moves mu,
    and with it at most m components, by one step each.
    """
    return Mechanism(
        artefact="pf_vectors",
        input="PF of the listed locations of every trajectory",
        unit="one occurrence of a listed location in one trajectory",
        assumes="the point lists are fixed and every listed count stays at least 1",
        whole_user="the listed occurrences of the user, which is unbounded",
        sensitivity=size,
        epsilon=epsilon,
    )


@dataclass(frozen=True)
class PointLists:
    """The point lists of some trajectories before the random picks.

    A list has 2m places: the signature, then the next-ranked candidates, then uniform random picks of the
    trajectory's other places. A trajectory with fewer places lists all of them.
    """

    listed: Ints
    """[trajectory]: number of places of its list."""
    certain: Ints
    """[trajectory]: number of places that are listed for certain."""
    place: Ids
    pf: Ids
    """The certain places, list by list."""
    others: Ints
    """[trajectory]: number of places to pick the rest from; 0 if the list is complete."""
    other_place: Ids
    other_pf: Ids
    """These places, list by list."""


def _split(
    first: int,
    last: int,
    offsets: Ints,
    order: Ints,
    place: Ids,
    pf: Ids,
    candidates: Flags,
    size: int,
) -> tuple[Ints | Ids, ...]:
    """The columns of `PointLists` for a range of trajectories."""
    own = offsets[first : last + 1] - offsets[first]
    owner = owners(own)
    ranked = order[offsets[first] : offsets[last]]
    place, pf = place[ranked], pf[ranked]
    eligible = (within(own) < size) | candidates[place]
    before = offsets_from(eligible)  # number of eligible places before each entry of the range
    nth = before[:-1] - before[own[:-1]][owner]
    listed = np.minimum(np.diff(own), 2 * size)
    certain = np.minimum(np.diff(before[own]), 2 * size)
    kept = eligible & (nth < 2 * size)
    # a list that candidates fill needs no picks
    other = ~eligible & (listed > certain)[owner]
    others = np.bincount(owner[other], minlength=last - first)
    return listed, certain, place[kept], pf[kept], others, place[other], pf[other]


def lists_of(ranked: Ranked, candidates: Flags) -> PointLists:
    """The point lists of a partition. candidates: those of all trajectories."""
    frequencies, signatures = ranked.frequencies, ranked.signatures
    parts = map_ranges(
        _split, frequencies.offsets, frequencies.offsets, signatures.order, frequencies.location,
        frequencies.pf, candidates, signatures.size,
    )  # fmt: skip
    return PointLists(*joined(parts))


def _fill(lists: PointLists, source: RandomSource) -> tuple[Ints, Ids, Ids]:
    """Pick the missing places at random; returns the length of each list, the places, and their PF."""
    offsets = offsets_from(lists.others)
    owner = owners(offsets)
    # the places with the smallest random keys, as many as are missing
    by_key = np.lexsort((source.uniform_words(len(owner)), owner))
    picked = by_key[within(offsets) < (lists.listed - lists.certain)[owner]]
    order = np.argsort(
        np.concatenate([owners(offsets_from(lists.certain)), owner[picked]]), kind="stable"
    )
    place = np.concatenate([lists.place, lists.other_place[picked]])[order]
    pf = np.concatenate([lists.pf, lists.other_pf[picked]])[order]
    return lists.listed, place, pf


def perturb_pf(
    frequencies: Frequencies, signatures: Signatures, epsilon: Fraction, source: RandomSource
) -> PfTargets:
    """Choose each trajectory's 2m points and draw a target for the PF of each; see `perturb_lists`."""
    lists = lists_of(Ranked(frequencies, signatures), signatures.candidates)
    return perturb_lists([lists], signatures.size, epsilon, source)


def perturb_lists(
    parts: Iterable[PointLists], size: int, epsilon: Fraction, source: RandomSource
) -> PfTargets:
    """Fill each trajectory's list of 2m points and draw a target for the PF of each.

    parts: the lists of ranges of trajectories, one range after the other.

    Stage 1 (the signature): f* = max(0, noise). Stage 2 (the rest): f* = max(0, round(f - mu +
    noise)), with mu the mean of f* - f over stage 1, so that the length of the trajectory is kept.
    f - mu lies on the lattice 1/m, the noise is drawn there, and only the sum is rounded: rounding
    f - mu first would multiply the sensitivity.

    Input: the PF vectors over the point lists, which are taken as fixed.
    Protected change: one occurrence added or removed, every listed count staying at least 1.
    Sensitivity: 1 (stage 1 does not see the counts; an occurrence there moves mu, and with it m
    components, by 1/m each).
    Guarantee: the vectors of targets are eps-DP for that change.
    Paper: Algorithm 2, lines 1-18.
    """
    listed, place, pf = joined([_fill(lists, source) for lists in parts])
    offsets = offsets_from(listed)
    trajectory = owners(offsets)
    rank = within(offsets) + 1
    target = _draw(
        pf.astype(np.int64), trajectory, rank <= size, len(listed), size, epsilon, source
    )
    return PfTargets(
        trajectory=trajectory,
        location=place,
        stage=np.where(rank <= size, 1, 2).astype(np.int16),
        rank=rank.astype(np.int16),
        pf=pf,
        target=target.astype(np.int32),
    )


def _draw(
    pf: Ints,
    trajectory: Ids,
    first: np.typing.NDArray[np.bool_],
    trajectories: int,
    size: int,
    epsilon: Fraction,
    source: RandomSource,
) -> Ints:
    target = np.zeros(len(pf), np.int64)
    noise = source.discrete_laplace(scale_for(1, epsilon), int(first.sum()))
    target[first] = np.maximum(0, noise)
    # a trajectory with points in stage 2 has m points in stage 1, so that this sum is m times mu
    change = np.zeros(trajectories, np.int64)
    np.add.at(change, trajectory[first], target[first] - pf[first])
    second = ~first
    on_lattice = source.discrete_laplace(pf_mechanism(epsilon, size).scale, int(second.sum()))
    units = size * pf[second] - change[trajectory[second]] + on_lattice
    target[second] = np.maximum(0, (2 * units + size) // (2 * size))
    return target
