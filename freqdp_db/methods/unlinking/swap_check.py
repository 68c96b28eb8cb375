"""What `swap` promises, computed anew from its input and its draw, by another way than the step.

The step follows pointers from sample to sample. Here time runs window by window: every input
trajectory carries the released trajectory it goes by, and the groups of a window exchange them.
"""

from __future__ import annotations

import numpy as np

from freqdp_db.columns.arrays import Flags, Ids, Ints
from freqdp_db.columns.groups import Groups
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import State
from freqdp_db.methods.unlinking.meetings import FASTEST_M_PER_US, RESTING, Meeting


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
