"""swap: whenever trajectories meet, what follows is dealt out among them at random.

No sample that is on the clock is lost or moved: a released trajectory is pieced together from several
objects', and every seam lies where they met. It is no formal guarantee: an attacker who follows a trace
by its speed and direction undoes part of it, which the exposure metrics measure.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Flags, Ids, Ints
from freqdp_db.columns.groups import Groups
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.sorting import stable_order
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.errors import VerificationFailed
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods.contract import State
from freqdp_db.methods.unlinking.meetings import (
    FASTEST_M_PER_US,
    RESTING,
    Meeting,
    last_in_trajectory,
)
from freqdp_db.methods.unlinking.steps import SwapDraw

# --- Uniform random permutations of many groups at once, from words of the random source ---


@njit(nogil=True, cache=True)
def _rank(first, last, offsets, word):  # type: ignore[no-untyped-def]
    """Rank of each member's word in its group; groups with two equal words are marked."""
    begin = offsets[first]
    rank = np.empty(offsets[last] - begin, np.int32)
    tied = np.zeros(last - first, np.bool_)
    for g in range(first, last):
        lo, hi = offsets[g], offsets[g + 1]
        order = stable_order(word[lo:hi])
        for i in range(hi - lo):
            rank[lo - begin + i] = order[i]
            if i > 0 and word[lo + order[i]] == word[lo + order[i - 1]]:
                tied[g - first] = True
    return rank, tied


def deal(offsets: Ints, source: RandomSource) -> Ids:
    """For each group a uniform random permutation of 0 .. size - 1, one after the other.

    The order of independent uniform words is uniform as long as no two are equal; a group with
    equal words is drawn again, so that what is left is exactly uniform.
    """
    word = source.uniform_words(int(offsets[-1]))
    while True:
        rank, tied = joined(map_ranges(_rank, offsets, offsets, word))
        if not tied.any():
            return rank
        again = np.repeat(tied, np.diff(offsets))
        word[again] = source.uniform_words(int(again.sum()))


# --- swap: whenever trajectories meet, what follows is dealt out among them at random ---


def swapped_trajectories(trajectories: Trajectories, draw: SwapDraw) -> tuple[Trajectories, Ints]:
    """Follow every trajectory through its seams; beside it, where each sample stood before.

    Linear in the samples: each is followed by one other, and only stops know another one.
    """
    following = np.arange(1, trajectories.samples + 1, dtype=np.int64)
    following[last_in_trajectory(trajectories)] = -1
    begin = np.repeat(draw.offsets[:-1], np.diff(draw.offsets))
    following[draw.stop] = following[draw.stop][begin + draw.dealt]
    begins = trajectories.offsets
    lengths, source = joined(map_ranges(_follow, begins, begins, following))
    if len(source) != trajectories.samples:
        raise VerificationFailed("the draw does not deal every passage once")
    location, at = trajectories.location[source], trajectories.at[source]
    return Trajectories(offsets_from(lengths), location, at, trajectories.start), source


@njit(nogil=True, cache=True)
def _follow(first, last, begins, following):  # type: ignore[no-untyped-def]
    """How long each released trajectory is, and where each of its samples stood."""
    lengths = np.zeros(last - first, np.int64)
    for t in range(first, last):
        i = begins[t] if begins[t] < begins[t + 1] else -1
        # as many steps as there are samples: a draw that was tampered with may go round in circles
        while i >= 0 and lengths[t - first] <= len(following):
            lengths[t - first] += 1
            i = following[i]
    source = np.empty(lengths.sum(), np.int64)
    k = 0
    for t in range(first, last):
        i = begins[t]
        for _ in range(lengths[t - first]):
            source[k] = i
            k += 1
            i = following[i]
    return lengths, source


def groups_in_result(draw: SwapDraw, source: Ints, kept: Flags) -> Groups:
    """The groups by positions in the step's result: where identities may have changed in it.

    source: where each swapped sample stood; kept: whether it is in the result.
    """
    position = np.empty(len(source), np.int64)
    position[source] = np.where(kept, np.cumsum(kept) - 1, -1)
    return draw.groups.moved(position)


def never_meet(trajectories: Trajectories, stop: Ints) -> Flags:
    """Trajectories with samples of which none is in a group."""
    met = np.zeros(len(trajectories), np.bool_)
    met[trajectories.owner[stop]] = True
    return ~met & (trajectories.lengths > 0)


def pieced_together(state: State) -> int:
    """Trajectories with samples of several objects."""
    trajectory, owner = state.trajectories.owner, state.owners()
    another = (np.diff(owner) != 0) & (np.diff(trajectory) == 0)
    return len(np.unique(trajectory[1:][another]))


def summary(state: State, draw: SwapDraw, after: State) -> dict[str, float]:
    """For the curator: meetings of an object, how many never meet, and what came of it."""
    filled = state.trajectories.lengths > 0
    meetings = np.bincount(state.trajectories.owner[draw.stop], minlength=len(state.trajectories))[
        filled
    ]
    sizes = np.diff(draw.offsets)
    return {
        "objects": int(filled.sum()),
        "objects_that_never_meet": int((meetings == 0).sum()),
        "meetings_per_object_median": float(np.median(meetings)) if len(meetings) else 0.0,
        "meetings_per_object_mean": float(meetings.mean()) if len(meetings) else 0.0,
        "groups": len(sizes),
        "largest_group": int(sizes.max(initial=0)),
        "trajectories": int((after.trajectories.lengths > 0).sum()),
        "pieced_together": pieced_together(after),
    }


# --- What `swap` promises, computed anew from its input and its draw, by another way than the step ---


def check_swap(
    before: State, groups: Groups, dealt: Ids, dropped: Ids, after: State, meeting: Meeting
) -> dict[str, int]:
    """Refuse unless the result is the input with its seams dealt as drawn, and nothing else.

    Raises:
        VerificationFailed: a group that did not meet, a permutation that is none, a sample that
            was lost, made or moved, a time that falls, or a seam that is not the drawn one.
    """
    old, new = before.trajectories, after.trajectories
    _require_groups(before, groups, dealt, meeting)
    _require_ascending(new)
    kept = np.ones(len(old), np.bool_)
    if not ((dropped >= 0) & (dropped < len(old))).all():
        raise VerificationFailed("swap: the log drops trajectories that do not exist")
    kept[dropped] = False
    if not kept[old.owner[groups.stop]].all():
        raise VerificationFailed("swap: a trajectory was dropped although it meets others")
    stays = kept[old.owner]
    if not _same_rows((old.location[stays], old.at[stays]), (new.location, new.at)):
        raise VerificationFailed("swap: the places and times are not those of its input")
    label = goes_by(old, groups, dealt, meeting)
    rows = (label, old.location, old.at, before.owners())
    released = (new.owner, new.location, new.at, after.owners())
    if not _same_rows(tuple(column[stays] for column in rows), released):
        raise VerificationFailed("swap: a trajectory does not go on as it was dealt")
    if _too_fast(after) > _too_fast(before):
        raise VerificationFailed("swap: a seam is faster than 120 km/h")
    seams = _seams(groups, dealt)
    return {"groups": len(groups), "members": len(groups.stop), "seams": seams}


def goes_by(trajectories: Trajectories, groups: Groups, dealt: Ids, meeting: Meeting) -> Ids:
    """The released trajectory of each sample: windows in order, labels exchanged after each."""
    owner = trajectories.owner
    window = meeting.windows(trajectories.at)
    member_window = window[groups.stop]
    order = np.argsort(member_window, kind="stable")
    edges = np.flatnonzero(np.diff(member_window[order])) + 1
    begin = np.repeat(groups.offsets[:-1], np.diff(groups.offsets))
    carries = np.arange(len(trajectories), dtype=np.int32)
    # what a trajectory goes by changes after its stops only
    change_at, change_to = [], []
    for members in np.split(order, edges):
        if not len(members):
            continue
        taker = owner[groups.stop[members]]
        giver = owner[groups.stop[begin[members] + dealt[members]]]
        # what the giver did next is now the taker's
        carries[giver] = carries[taker]
        change_at.append(groups.stop[begin[members] + dealt[members]])
        change_to.append(carries[giver])
    return _spread(trajectories, change_at, change_to)


def _spread(trajectories: Trajectories, change_at: list[Ints], change_to: list[Ids]) -> Ids:
    """Labels of all samples, from those that hold after some of them."""
    samples = trajectories.samples
    begins = np.zeros(samples, np.bool_)
    begins[trajectories.offsets[:-1][trajectories.lengths > 0]] = True
    label = np.where(begins, trajectories.owner, -1)
    if change_at:
        after, to = np.concatenate(change_at) + 1, np.concatenate(change_to)
        inside = after < samples
        after, to = after[inside], to[inside]
        here = ~begins[after]
        label[after[here]] = to[here]
    known = np.where(label >= 0, np.arange(samples), 0)
    if samples:
        known = np.maximum.accumulate(known)
    return label[known].astype(np.int32)


def _require_groups(before: State, groups: Groups, dealt: Ids, meeting: Meeting) -> None:
    """Groups are disjoint, each in one window and one cell, and dealt a permutation."""
    side, stop = before.trajectories, groups.stop
    sizes = np.diff(groups.offsets)
    if not (len(groups.offsets) and groups.offsets[0] == 0 and groups.offsets[-1] == len(stop)):
        raise VerificationFailed("swap: the groups do not cover their members")
    if (sizes < 2).any() or len(dealt) != len(stop) or len(groups.doubled) != len(sizes):
        raise VerificationFailed("swap: a group of fewer than two was dealt")
    if ((stop < 0) | (stop >= side.samples)).any() or len(np.unique(stop)) != len(stop):
        raise VerificationFailed("swap: a member is no sample, or is in two groups")
    if not ((groups.doubled >= RESTING) & (groups.doubled <= meeting.widest)).all():
        raise VerificationFailed("swap: a cell is wider than it may be")
    number = groups.of_members()
    rank = np.lexsort((dealt, number))
    place = np.arange(len(stop)) - groups.offsets[number]
    if not np.array_equal(dealt[rank], place):
        raise VerificationFailed("swap: what was dealt to a group is no permutation")
    window = meeting.windows(side.at)
    owner = side.owner
    goes_on = stop[stop + 1 < side.samples]
    again = (owner[goes_on + 1] == owner[goes_on]) & (window[goes_on + 1] == window[goes_on])
    if again.any():
        raise VerificationFailed("swap: a member is not the last of its window")
    x, y = before.places.x[side.location[stop]], before.places.y[side.location[stop]]
    first = groups.offsets[:-1][number]
    met: Flags = window[stop] == window[stop[first]]
    for doubled in np.unique(groups.doubled):
        mine = groups.doubled[number] == doubled
        for cell in meeting.cells(x, y, window[stop], int(doubled)):
            met &= ~mine | (cell == cell[first])
    if not met.all():
        raise VerificationFailed("swap: a group has members of two cells or windows")


def _require_ascending(side: Trajectories) -> None:
    owner = side.owner
    falls = (np.diff(side.at) < 0) & (owner[1:] == owner[:-1])
    if falls.any():
        raise VerificationFailed(f"swap: {int(falls.sum()):,} times go backwards")


def _too_fast(state: State) -> int:
    """Steps over 120 km/h."""
    side, owner = state.trajectories, state.trajectories.owner
    x, y = state.places.x[side.location], state.places.y[side.location]
    fast = np.hypot(np.diff(x), np.diff(y)) > np.diff(side.at) * FASTEST_M_PER_US
    return int((fast & (owner[1:] == owner[:-1])).sum())


def _same_rows(one: tuple[Ints | Ids, ...], other: tuple[Ints | Ids, ...]) -> bool:
    """Whether two tables hold the same rows, in any order."""
    if len(one[0]) != len(other[0]):
        return False
    a, b = np.lexsort(one), np.lexsort(other)
    return all(np.array_equal(x[a], y[b]) for x, y in zip(one, other, strict=True))


def _seams(groups: Groups, dealt: Ids) -> int:
    """Members that go on as somebody else."""
    place = np.arange(len(dealt)) - np.repeat(groups.offsets[:-1], np.diff(groups.offsets))
    return int((dealt != place).sum())
