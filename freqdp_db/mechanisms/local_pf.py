"""Local PF randomization (Alg. 2, lines 1-18): the point lists and their perturbed frequencies."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import PfTargets
from freqdp_db.columns.ragged import offsets_from, owners, within
from freqdp_db.columns.sorting import stable_order
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.frequency.counts import Frequencies
from freqdp_db.frequency.signatures import Signatures
from freqdp_db.mechanisms.mechanism import Mechanism
from freqdp_db.mechanisms.noise import RandomSource, scale_for


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


@njit(nogil=True, cache=True)
def _split(first, last, offsets, order, place, candidates, size):  # type: ignore[no-untyped-def]
    """Size of each point list, and from how many other places the rest of it must be picked."""
    listed, others = np.zeros(last - first, np.int64), np.zeros(last - first, np.int64)
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        known = 0
        for i in range(lo + size, hi):
            if candidates[place[order[i]]]:
                known += 1
        listed[t - first] = min(hi - lo, 2 * size)
        # more candidates than fit leave nothing to pick
        if hi - lo > size + known and known < size:
            others[t - first] = hi - lo - size - known
    return listed, others


@njit(nogil=True, cache=True)
def _fill_lists(  # type: ignore[no-untyped-def]
    first, last, offsets, order, place, candidates, size, keys, key_offsets, out_offsets
):
    begin = out_offsets[first]
    entry = np.empty(out_offsets[last] - begin, np.int64)
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        k, end = out_offsets[t] - begin, out_offsets[t + 1] - begin
        # the signature, then the next-ranked places that are in anybody's signature
        i = lo
        while i < hi and k < end:
            if i - lo < size or candidates[place[order[i]]]:
                entry[k] = order[i]
                k += 1
            i += 1
        # then uniform picks of the other places
        if k < end:
            rest = np.empty(key_offsets[t + 1] - key_offsets[t], np.int64)
            r = 0
            for i in range(lo + size, hi):
                if not candidates[place[order[i]]]:
                    rest[r] = order[i]
                    r += 1
            picked = stable_order(keys[key_offsets[t] : key_offsets[t + 1]])
            for j in range(end - k):
                entry[k + j] = rest[picked[j]]
    return (entry,)


def perturb_pf(
    frequencies: Frequencies, signatures: Signatures, epsilon: Fraction, source: RandomSource
) -> PfTargets:
    """Choose each trajectory's 2m points and draw a target for the PF of each.

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
    size = signatures.size
    offsets, entry = _point_lists(frequencies, signatures, source)
    trajectory = owners(offsets)
    rank = within(offsets) + 1
    pf = frequencies.pf[entry].astype(np.int64)
    target = _draw(pf, trajectory, rank <= size, len(offsets) - 1, size, epsilon, source)
    return PfTargets(
        trajectory=trajectory,
        location=frequencies.location[entry],
        stage=np.where(rank <= size, 1, 2).astype(np.int16),
        rank=rank.astype(np.int16),
        pf=pf.astype(np.int32),
        target=target.astype(np.int32),
    )


def _point_lists(
    frequencies: Frequencies, signatures: Signatures, source: RandomSource
) -> tuple[Ints, Ints]:
    """Each trajectory's point list, as positions in the frequency columns."""
    ranking = (
        frequencies.offsets,
        signatures.order,
        frequencies.location,
        signatures.candidates,
        signatures.size,
    )
    listed, others = joined(map_ranges(_split, frequencies.offsets, *ranking))
    offsets, key_offsets = offsets_from(listed), offsets_from(others)
    keys = source.uniform_words(int(key_offsets[-1]))
    filling = map_ranges(_fill_lists, frequencies.offsets, *ranking, keys, key_offsets, offsets)
    (entry,) = joined(filling)
    return offsets, entry


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
    # A trajectory with points in stage 2 has all m of stage 1: m times mu is this sum.
    change = np.zeros(trajectories, np.int64)
    np.add.at(change, trajectory[first], target[first] - pf[first])
    second = ~first
    on_lattice = source.discrete_laplace(pf_mechanism(epsilon, size).scale, int(second.sum()))
    units = size * pf[second] - change[trajectory[second]] + on_lattice
    target[second] = np.maximum(0, (2 * units + size) // (2 * size))
    return target
