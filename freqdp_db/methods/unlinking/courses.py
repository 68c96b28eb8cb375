"""Which course an object is on: at rest, or under way from somewhere.

Trips that come from the same side can go on as each other without any count of who travels from
where to where noticing, and without the turn that gives a swap away. So can objects at rest: one
trip has ended, and another begins.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.trips import MINUTE_US, TripRule, find_stays

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
