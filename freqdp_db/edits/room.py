"""Room for the insertions of the global step: a segment with a free time step, near the nearest one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numba import njit

from freqdp_db.columns.edits import EditRuns
from freqdp_db.columns.trajectories import Clock
from freqdp_db.edits.applying import Thinned
from freqdp_db.edits.timing import free_of, own_gaps
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.search.distance import squared_distance, to_mm

_NEARBY_MM = 500_000
"""So much farther than the nearest segment."""
_ANYWHERE_MM = 1 << 62


def find_room(thinned: Thinned, insertions: EditRuns, clock: Clock) -> EditRuns:
    """Insertions of the global step, one a run, moved to segments that have time for them."""
    state, locations = thinned.partition.trajectories, thinned.partition.places
    parts = map_ranges(
        _find_room, state.offsets, state.offsets, state.location, state.at, thinned.position,
        locations.x, locations.y, clock.step_us, clock.median_gap_us,
        insertions.by_trajectory(len(state)), insertions.location, insertions.position, insertions.loss_mm,
    )  # fmt: skip
    position, loss = joined(parts)
    return replace(insertions, position=position, loss_mm=loss)


@njit(nogil=True, cache=True)
def _find_room(  # type: ignore[no-untyped-def]
    first, last, offsets, location, at, kept, x, y, step, gap, edit_offsets, place, position, loss
):
    """Where the nearest segment has no free time step left: the next one that has."""
    begin = edit_offsets[first]
    position = position[begin : edit_offsets[last]].copy()
    loss = loss[begin : edit_offsets[last]].copy()
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        if edit_offsets[t] == edit_offsets[t + 1] or hi - lo < 2:
            continue
        free = free_of(at, lo, hi, step)
        for e in range(edit_offsets[t], edit_offsets[t + 1]):
            px, py = x[place[e]], y[place[e]]
            here = np.searchsorted(kept[lo:hi], position[e - begin])
            if free[here] <= 0:
                own = own_gaps(at, lo, hi, gap)
                nearby = own[len(own) // 2] < 2 * step
                best = loss[e - begin] + _NEARBY_MM + 1 if nearby else _ANYWHERE_MM
                for i in range(hi - lo - 1):
                    if free[i] > 0:
                        a, b = location[lo + i], location[lo + i + 1]
                        cost = to_mm(squared_distance(px, py, x[a], y[a], x[b], y[b]))
                        if cost < best:
                            best, here = cost, i
                if free[here] > 0:
                    position[e - begin], loss[e - begin] = kept[lo + here], best
            free[here] -= 1
    return position, loss
