"""FFP: are the most frequent patterns of movement still the most frequent ones?

Trajectories become sequences of cells on a 6 x 6 grid: repeats dropped, jumps filled with the
cells along the straight way from centre to centre (through a corner: x first). A pattern is 2 to 8
consecutive cells.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.ragged import offsets_from, owners
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.evaluation.pair import CellBox, Pair

SIDE = 6
SHORTEST, LONGEST = 2, 8
MOST_FREQUENT = 100
_EDGE_PERCENT = 1.0
_CELLS = SIDE * SIDE


@njit(nogil=True, cache=True)
def _walk(first, last, offsets, place, column, row, side):  # type: ignore[no-untyped-def]
    """How many cells each trajectory passes, and which."""
    lengths = np.zeros(last - first, np.int64)
    room = 0
    for t in range(first, last):
        for i in range(offsets[t], offsets[t + 1]):
            if i == offsets[t]:
                room += 1
            else:
                a, b = place[i - 1], place[i]
                room += abs(column[b] - column[a]) + abs(row[b] - row[a])
    cells = np.empty(room, np.int32)
    k = 0
    for t in range(first, last):
        lo, hi = offsets[t], offsets[t + 1]
        begin = k
        if hi > lo:
            x, y = column[place[lo]], row[place[lo]]
            cells[k] = y * side + x
            k += 1
            for i in range(lo + 1, hi):
                to_x, to_y = column[place[i]], row[place[i]]
                wide, high = abs(to_x - x), abs(to_y - y)
                step_x = 1 if to_x > x else -1
                step_y = 1 if to_y > y else -1
                done_x = done_y = 0
                while done_x < wide or done_y < high:
                    # which border comes first on the straight way; at a corner, x
                    if (1 + 2 * done_x) * high <= (1 + 2 * done_y) * wide and done_x < wide:
                        x += step_x
                        done_x += 1
                    else:
                        y += step_y
                        done_y += 1
                    cells[k] = y * side + x
                    k += 1
        lengths[t - first] = k - begin
    return lengths, cells


def cell_sequences(
    side: Trajectories, column: Ids, row: Ids, cells_along: int = SIDE
) -> tuple[Ints, Ids]:
    """The cells that each trajectory passes, with offsets by trajectory."""
    parts = map_ranges(_walk, side.offsets, side.offsets, side.location, column, row, cells_along)
    lengths, cells = joined(parts)
    return offsets_from(lengths), cells


def most_frequent(offsets: Ints, cells: Ids, *, by_occurrence: bool) -> Ints:
    """Codes of the most frequent patterns; ties go to shorter ones and lower cell numbers."""
    codes, support = [], []
    owner = owners(offsets)
    code = cells.astype(np.int64)
    for length in range(2, LONGEST + 1):
        # one more cell at the end of every pattern that does not run into the next trajectory
        whole = owner[: -(length - 1)] == owner[length - 1 :]
        code = code[: len(whole)] * _CELLS + cells[length - 1 :]
        if length < SHORTEST or not whole.any():
            continue
        known, which = np.unique(code[whole], return_inverse=True)
        if not by_occurrence:
            carriers = np.unique(which.astype(np.int64) * len(offsets) + owner[: len(whole)][whole])
            which = carriers // len(offsets)
        codes.append(known + length * _CELLS**LONGEST)
        support.append(np.bincount(which, minlength=len(known)))
    if not codes:
        return np.zeros(0, np.int64)
    every, count = np.concatenate(codes), np.concatenate(support)
    return every[np.lexsort((every, -count))[:MOST_FREQUENT]]


def frequent_patterns(pair: Pair) -> dict[str, float]:
    """F1 of the 100 most frequent patterns of D and D*: by trajectories, and by occurrences."""
    column, row = CellBox.of(pair, _EDGE_PERCENT).columns_and_rows(pair.locations, SIDE)
    before = cell_sequences(pair.original, column, row)
    after = cell_sequences(pair.released, column, row)
    found = {}
    for name, by_occurrence in (("ffp", False), ("ffp.occurrence", True)):
        old = most_frequent(*before, by_occurrence=by_occurrence)
        new = most_frequent(*after, by_occurrence=by_occurrence)
        size = len(old) + len(new)
        found[name] = 2 * len(np.intersect1d(old, new)) / size if size else 1.0
    return found
