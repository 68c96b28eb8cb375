"""Who meets whom: trajectories that are in one cell at the end of one window of time.

Time is cut into windows. In a window each trajectory is where its last sample in it lies: its
*stop*. Stops of one window in one cell form a crowd. A crowd is parted into groups:

- by course, if asked for: who is under way meets those who come from the same side. Such a swap
  costs the counts of who travels where least, and a follower by velocity most. Who is at rest meets
  those at rest nearby, or a parked vehicle would jump;
- so that everybody could have gone on as any other: no such step may be faster than 120 km/h, so
  that swapping invents no impossible movement.

Who finds nobody in a cell is looked for in cells of twice the side, and so on up to the widest:
meeting places are small where there is a crowd and large where there is none. Every second window
has its cells shifted by half a side, so that no border keeps neighbours apart for long. Trajectories
of which more than half would still stay together then meet anybody who is left, on whatever course,
in wider cells: few, so that no count suffers, but they would be the ones to be found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Flags, Ids, Ints, Metres
from freqdp_db.columns.groups import Groups
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.trips import MINUTE_US, TripRule, find_stays

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


def last_in_trajectory(trajectories: Trajectories) -> Flags:
    """Whether each sample is the last of its trajectory."""
    last = np.zeros(trajectories.samples, np.bool_)
    last[trajectories.offsets[1:][trajectories.lengths > 0] - 1] = True
    return last


def find_stops(trajectories: Trajectories, meeting: Meeting) -> Ints:
    """The last sample of each trajectory in each window that it has samples in."""
    window = meeting.windows(trajectories.at)
    last = last_in_trajectory(trajectories)
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
    ends = last_in_trajectory(trajectories)
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
        self._ends = last_in_trajectory(trajectories)
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
        order, begins = _sorted_cells(window, column, row)
        stop = stop[order]
        parts = map_ranges(
            _split, begins, begins, stop, self._ends, self._side.at, self._x, self._y,
            FASTEST_M_PER_US * _JUST_BELOW,
        )  # fmt: skip
        (part,) = joined(parts)
        crowd = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
        number = _number_parts(crowd, part, begins)
        size = np.bincount(number)
        wanted = size > 1
        if lonely is not None:
            owner = np.searchsorted(self._side.offsets, stop, side="right") - 1
            wanted &= np.bincount(number, lonely[owner], len(size)) > 0
        met = wanted[number] if len(number) else np.zeros(0, np.bool_)
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


def _sorted_cells(window: Ints, column: Ints, row: Ints) -> tuple[Ints, Ints]:
    """An order by (window, cell), stable, and where each cell's crowd begins in it."""
    if not len(window):
        return np.zeros(0, np.int64), np.zeros(1, np.int64)
    code = _packed(window, column, row)
    order = (
        np.argsort(code, kind="stable") if code is not None else np.lexsort((row, column, window))
    )
    fresh = np.ones(len(order), np.bool_)
    for key in (window, column, row):
        ranked = key[order]
        same = ranked[1:] == ranked[:-1]
        fresh[1:] = ~same if key is window else fresh[1:] | ~same
    return order, np.append(np.flatnonzero(fresh), len(order)).astype(np.int64)


def _packed(window: Ints, column: Ints, row: Ints) -> Ints | None:
    """One number for the three, in their order; None if it would not fit."""
    low = [int(key.min()) for key in (window, column, row)]
    span = [
        int(key.max()) - least + 1 for key, least in zip((window, column, row), low, strict=True)
    ]
    if span[0] * span[1] * span[2] >= 2**63:
        return None
    packed: Ints = ((window - low[0]) * span[1] + (column - low[1])) * span[2] + (row - low[2])
    return packed


def _number_parts(crowd: Ints, part: Ids, begins: Ints) -> Ints:
    """Numbers for the parts of all crowds, in order of crowds."""
    if not len(part):
        return np.zeros(0, np.int64)
    parts = np.maximum.reduceat(part, begins[:-1]) + 1
    return offsets_from(parts)[crowd] + part


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
