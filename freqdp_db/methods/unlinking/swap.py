"""swap: whenever trajectories meet, what follows is dealt out among them at random.

No sample that is on the clock is lost or moved: a released trajectory is pieced together from several
objects', and every seam lies where they met. It is no formal guarantee: an attacker who follows a trace
by its speed and direction undoes part of it, which the exposure metrics measure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import WorkingSet
from freqdp_db.methods.trips import MINUTE_US, TripRule, find_stays
from freqdp_db.methods.unlinking.steps import SwapDraw
from freqdp_db.model.arrays import (
    Flags,
    Groups,
    Ids,
    Ints,
    Metres,
    new_rows,
    offsets_from,
    owners,
    within,
)
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.privacy.noise import RandomSource

# Who meets whom: trajectories that are in one cell at the end of one window of time.
#
# Time is cut into windows. In a window each trajectory is where its last sample in it lies: its
# *stop*. Stops of one window in one cell form a crowd. A crowd is parted into groups:
#
# - by course, if asked for: who is under way meets those who come from the same side. Such a swap
# costs the counts of who travels where least, and a follower by velocity most. Who is at rest meets
# those at rest nearby, or a parked vehicle would jump;
# - so that everybody could have gone on as any other: no such step may be faster than 120 km/h, so
# that swapping invents no impossible movement.
#
# Who finds nobody in a cell is looked for in cells of twice the side, and so on up to the widest:
# meeting places are small where there is a crowd and large where there is none. Every second window
# has its cells shifted by half a side, so that no border keeps neighbours apart for long. Trajectories
# of which more than half would still stay together then meet anybody who is left, on whatever course,
# in wider cells: few, so that no count suffers, but they would be the ones to be found.


# --- Which course an object is on: at rest, or under way from somewhere ---


_RULE = TripRule(gap_us=20 * MINUTE_US)
"""After so long without a sample where one came from says little: a shorter gap than that of trips."""
AT_REST = 0
_SETTING_OUT = 1
COURSES_BESIDE = 2
"""At rest, and setting out: besides the directions."""
# Where one comes from is a place at least so far back.
_REACH_M = 1_000.0


@njit(nogil=True, cache=True)
def _find_courses(first, last, offsets, at, x, y, stays, gap_us, reach, sectors):  # type: ignore[no-untyped-def]
    begin = offsets[first]
    course = np.empty(offsets[last] - begin, np.int32)
    for t in range(first, last):
        # two places on the way, at least the reach apart, begun anew with every trip
        anchor = previous = offsets[t]
        for i in range(offsets[t], offsets[t + 1]):
            if i > offsets[t] and (stays[i] or stays[i - 1] or at[i] - at[i - 1] > gap_us):
                anchor = previous = i
            dx, dy = x[i] - x[anchor], y[i] - y[anchor]
            if dx * dx + dy * dy >= reach * reach:
                previous, anchor = anchor, i
            ends = i + 1 == offsets[t + 1] or at[i + 1] - at[i] > gap_us
            dx, dy = x[i] - x[previous], y[i] - y[previous]
            if stays[i] or ends:
                course[i - begin] = AT_REST
            elif dx * dx + dy * dy < reach * reach:
                course[i - begin] = _SETTING_OUT
            else:
                turn = (np.arctan2(dy, dx) / (2 * np.pi) + 1.0) * sectors
                course[i - begin] = _SETTING_OUT + 1 + int(np.floor(turn + 0.5)) % sectors
    return (course,)


def find_courses(trajectories: Trajectories, places: Locations, sectors: int) -> Ids:
    """Course of each sample: at rest, setting out, or the direction it comes from."""
    parts = map_ranges(
        _find_courses, trajectories.offsets, trajectories.offsets, trajectories.at,
        places.x[trajectories.location], places.y[trajectories.location],
        find_stays(trajectories, places, _RULE), _RULE.gap_us, _REACH_M, sectors,
    )  # fmt: skip
    (course,) = joined(parts)
    return course


# --- Who meets whom: trajectories that are in one cell at the end of one window of time ---


FASTEST_M_PER_US = 120_000 / 3_600 / 1e6
RESTING = -1
"""In place of how often a cell was doubled: one for those at rest."""
# A rounding below it, so that whoever measures the result finds nothing faster.
_JUST_BELOW = 1.0 - 1e-9
# Within the radius of a stay, so that a stay remains one.
_REST_CELL_M = 100.0
_MORE_DOUBLINGS = 2


@dataclass(frozen=True)
class Meeting:
    """What counts as a meeting: one cell of this side, one window of this length."""

    cell_m: float
    window_us: int
    doublings: int = 0
    """How often the side may double for those who meet nobody."""
    courses: int = 0
    """So many directions that one can come from; 0: all meet all."""

    @property
    def widest(self) -> int:
        """How often the side may double for those who would be found otherwise."""
        return self.doublings + _MORE_DOUBLINGS if self.courses else self.doublings

    def windows(self, at: Ints) -> Ints:
        """The window of each time."""
        return at // self.window_us

    def cells(self, x: Metres, y: Metres, window: Ints, doubled: int) -> tuple[Ints, Ints]:
        """Column and row of each place, in cells doubled so often, in a window's own grid."""
        side = _REST_CELL_M if doubled == RESTING else self.cell_m * 2.0**doubled
        shift = (window % 2) * (side / 2)
        return (
            np.floor((x + shift) / side).astype(np.int64),
            np.floor((y + shift) / side).astype(np.int64),
        )


def find_stops(trajectories: Trajectories, meeting: Meeting) -> Ints:
    """The last sample of each trajectory in each window that it has samples in."""
    window = meeting.windows(trajectories.at)
    last = trajectories.ends
    last[:-1] |= window[1:] != window[:-1]
    return np.flatnonzero(last)


def find_groups(trajectories: Trajectories, places: Locations, meeting: Meeting) -> Groups:
    """Every group of stops that meet: each stop in one group at most."""
    stop = find_stops(trajectories, meeting)
    # in an order that the numbers of the trajectories have no part in
    stop = stop[np.lexsort((trajectories.location[stop], trajectories.at[stop]))]
    gathering = _Gathering(trajectories, places, meeting)
    if not meeting.courses:
        for doubled in range(meeting.doublings + 1):
            stop = gathering.gather(stop, doubled)
        return gathering.groups()
    course = find_courses(trajectories, places, meeting.courses)
    resting = course[stop] == AT_REST
    alone = [gathering.gather(stop[resting], RESTING, course)]
    moving = stop[~resting]
    for doubled in range(meeting.doublings + 1):
        moving = gathering.gather(moving, doubled, course)
    stop = np.concatenate([*alone, moving])
    for doubled in range(meeting.doublings, meeting.widest + 1):
        lonely = lonely_trajectories(trajectories, gathering.groups().stop)
        stop = gathering.gather(stop, doubled, lonely=lonely)
    return gathering.groups()


def lonely_trajectories(trajectories: Trajectories, stop: Ints) -> Flags:
    """Those with more than half of their samples in one run between two stops that met."""
    ends = trajectories.ends
    ends[stop] = True
    at = np.flatnonzero(ends)
    run = np.diff(at, prepend=-1)
    owner = np.searchsorted(trajectories.offsets, at, side="right") - 1
    longest = np.zeros(len(trajectories), np.int64)
    np.maximum.at(longest, owner, run)
    lonely: Flags = 2 * longest > trajectories.lengths
    return lonely


class _Gathering:
    """Groups found so far."""

    def __init__(self, trajectories: Trajectories, places: Locations, meeting: Meeting) -> None:
        self._side, self._meeting = trajectories, meeting
        self._x, self._y = places.x[trajectories.location], places.y[trajectories.location]
        self._ends = trajectories.ends
        self._found: list[tuple[Ints, Ints, int]] = []

    def gather(
        self, stop: Ints, doubled: int, course: Ids | None = None, lonely: Flags | None = None
    ) -> Ints:
        """Group these stops, by course if one is given; who is left over.

        `lonely`: only groups that have one of these trajectories in them.
        """
        window = self._meeting.windows(self._side.at[stop])
        column, row = self._meeting.cells(self._x[stop], self._y[stop], window, doubled)
        if course is not None:
            column = column * (self._meeting.courses + COURSES_BESIDE) + course[stop]
        # stable: in a cell, stops keep their order
        order = np.lexsort((row, column, window))
        fresh = new_rows(window[order], column[order], row[order])
        stop, begins = stop[order], np.append(np.flatnonzero(fresh), len(order))
        parts = map_ranges(
            _split, begins, begins, stop, self._ends, self._side.at, self._x, self._y,
            FASTEST_M_PER_US * _JUST_BELOW,
        )  # fmt: skip
        (part,) = joined(parts)
        crowd = owners(begins)
        parts_of = np.zeros(len(begins) - 1, np.int64)
        np.maximum.at(parts_of, crowd, part + 1)
        number = offsets_from(parts_of)[crowd] + part
        size = np.bincount(number)
        wanted = size > 1
        if lonely is not None:
            owner = np.searchsorted(self._side.offsets, stop, side="right") - 1
            wanted &= np.bincount(number, lonely[owner], len(size)) > 0
        met: Flags = wanted[number]
        kept = np.flatnonzero(met)
        kept = kept[np.argsort(number[kept], kind="stable")]
        self._found.append((stop[kept], size[wanted], doubled))
        return stop[~met]

    def groups(self) -> Groups:
        return Groups(
            offsets_from(np.concatenate([sizes for _, sizes, _ in self._found])),
            np.concatenate([members for members, _, _ in self._found]),
            np.concatenate([np.full(len(s), doubled, np.int32) for _, s, doubled in self._found]),
        )


@njit(nogil=True, cache=True)
def _could_go_on(i, j, ends, at, x, y, fastest):  # type: ignore[no-untyped-def]
    """Whether the sample after stop j can follow stop i; the end of a trajectory always can."""
    if ends[j]:
        return True
    dx, dy = x[j + 1] - x[i], y[j + 1] - y[i]
    reach = (at[j + 1] - at[i]) * fastest
    return dx * dx + dy * dy <= reach * reach


@njit(nogil=True, cache=True)
def _split(first, last, begins, stop, ends, at, x, y, fastest):  # type: ignore[no-untyped-def]
    """Part each crowd so that in a part anybody could go on as anybody: first fit, in order."""
    begin = begins[first]
    part = np.zeros(begins[last] - begin, np.int32)
    for c in range(first, last):
        lo, hi = begins[c], begins[c + 1]
        if hi - lo < 2:
            continue
        parts = 0
        for m in range(lo, hi):
            i = stop[m]
            chosen = -1
            # who is too fast by himself keeps to himself
            if _could_go_on(i, i, ends, at, x, y, fastest):
                for p in range(parts):
                    fits, filled = True, False
                    for other in range(lo, m):
                        if part[other - begin] != p:
                            continue
                        filled = True
                        j = stop[other]
                        if not (
                            _could_go_on(i, j, ends, at, x, y, fastest)
                            and _could_go_on(j, i, ends, at, x, y, fastest)
                            and _could_go_on(j, j, ends, at, x, y, fastest)
                        ):
                            fits = False
                            break
                    if fits and filled:
                        chosen = p
                        break
            if chosen < 0:
                chosen = parts
                parts += 1
            part[m - begin] = chosen
    return (part,)


# --- Uniform random permutations of many groups at once, from words of the random source ---


def deal(offsets: Ints, source: RandomSource) -> Ids:
    """For each group a uniform random permutation of 0 .. size - 1, one after the other.

    The order of independent uniform words is uniform as long as no two are equal; a group with
    equal words is drawn again, so that what is left is exactly uniform.
    """
    group, word = owners(offsets), source.uniform_words(int(offsets[-1]))
    while True:
        order = np.lexsort((word, group))
        tied = ~new_rows(group, word[order])
        if not tied.any():
            return (order - offsets[group]).astype(np.int32)
        again = np.isin(group, group[tied])
        word[again] = source.uniform_words(int(again.sum()))


# --- swap: whenever trajectories meet, what follows is dealt out among them at random ---


def swapped_trajectories(trajectories: Trajectories, draw: SwapDraw) -> tuple[Trajectories, Ints]:
    """Follow every trajectory through its seams; beside it, where each sample stood before.

    Linear in the samples: each is followed by one other, and only stops know another one.
    """
    following = np.arange(1, trajectories.samples + 1, dtype=np.int64)
    following[trajectories.ends] = -1
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


def pieced_together(state: WorkingSet) -> int:
    """Trajectories with samples of several objects."""
    trajectory, owner = state.trajectories.owner, state.owners()
    another = (np.diff(owner) != 0) & (np.diff(trajectory) == 0)
    return len(np.unique(trajectory[1:][another]))


def summary(state: WorkingSet, draw: SwapDraw, after: WorkingSet) -> dict[str, float]:
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
    before: WorkingSet,
    groups: Groups,
    dealt: Ids,
    dropped: Ids,
    after: WorkingSet,
    meeting: Meeting,
) -> dict[str, int]:
    """Refuse unless the result is the input with its seams dealt as drawn, and nothing else.

    Raises:
        VerificationFailed: a group that did not meet, a permutation that is none, a sample that
            was lost, made or moved, a time that falls, or a seam that is not the drawn one.
    """
    old, new = before.trajectories, after.trajectories
    _require_groups(before, groups, dealt, meeting)
    falls = (np.diff(new.at) < 0) & (np.diff(new.owner) == 0)
    if falls.any():
        raise VerificationFailed(f"swap: {int(falls.sum()):,} times go backwards")
    kept = np.ones(len(old), np.bool_)
    if not ((dropped >= 0) & (dropped < len(old))).all():
        raise VerificationFailed("swap: the log drops trajectories that do not exist")
    kept[dropped] = False
    if not kept[old.owner[groups.stop]].all():
        raise VerificationFailed("swap: a trajectory was dropped although it meets others")
    stays = kept[old.owner]
    label = goes_by(old, groups, dealt, meeting)
    rows = (label, old.location, old.at, before.owners())
    released = (new.owner, new.location, new.at, after.owners())
    if not _same_rows(tuple(column[stays] for column in rows), released):
        raise VerificationFailed("swap: a trajectory does not go on as it was dealt")
    if _too_fast(after) > _too_fast(before):
        raise VerificationFailed("swap: a seam is faster than 120 km/h")
    seams = dealt != within(groups.offsets)
    return {"groups": len(groups), "members": len(groups.stop), "seams": int(seams.sum())}


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


def _require_groups(before: WorkingSet, groups: Groups, dealt: Ids, meeting: Meeting) -> None:
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
    if not np.array_equal(dealt[rank], within(groups.offsets)):
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


def _too_fast(state: WorkingSet) -> int:
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
