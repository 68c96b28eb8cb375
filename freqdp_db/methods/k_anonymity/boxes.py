"""Samples as boxes of whole cells of space and whole minutes, and trajectories as rows of boxes.

Bounds are whole numbers of cells (100 m) and minutes, so that what boxes cost each other is whole
too, and no rounding decides which is the cheapest. Released bounds are then rounded outward, and do
not tell where in its cell anybody was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freqdp_db.errors import BadInput
from freqdp_db.model.arrays import Ids, Ints, offsets_from
from freqdp_db.model.trajectories import Areas, Locations, Trajectories

CELL_M = 100.0
MINUTE_US = 60_000_000
SIDES = X_LOW, X_HIGH, Y_LOW, Y_HIGH, T_LOW, T_HIGH = range(6)
"""Rows of a table of boxes; the high bounds are not in the box."""
_LARGEST_SUM = 1 << 31


@dataclass(frozen=True)
class Origin:
    """What the bounds are counted from: keeps the numbers small."""

    x: int
    y: int
    minute: int

    def areas(self, bounds: Ids) -> tuple[Ints, Areas]:
        """Begins, and where and until when, in metres and microseconds."""
        begin, until = (
            (bounds[side].astype(np.int64) + self.minute) * MINUTE_US for side in (T_LOW, T_HIGH)
        )
        x_min, x_max = ((bounds[side] + float(self.x)) * CELL_M for side in (X_LOW, X_HIGH))
        y_min, y_max = ((bounds[side] + float(self.y)) * CELL_M for side in (Y_LOW, Y_HIGH))
        return begin, Areas(x_min, y_min, x_max, y_max, until)


@dataclass(frozen=True)
class Boxes:
    """Rows of boxes, each in order of time; what a row has twice is in it once."""

    offsets: Ints
    bounds: Ids
    """By side, then by box."""
    origin: Origin

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, number: int) -> Ids:
        """The boxes of one row."""
        return self.bounds[:, self.offsets[number] : self.offsets[number + 1]]


def first_boxes(trajectories: Trajectories, places: Locations, largest: int) -> Boxes:
    """The cell and minute of every sample. `largest`: the most objects that a row may come to."""
    x = np.floor(places.x / CELL_M).astype(np.int64)[trajectories.location]
    y = np.floor(places.y / CELL_M).astype(np.int64)[trajectories.location]
    minute = trajectories.at // MINUTE_US
    origin = Origin(*(int(c.min()) if len(c) else 0 for c in (x, y, minute)))
    x, y, minute = x - origin.x, y - origin.y, minute - origin.minute
    _require_room(x, y, minute, largest)
    owner = trajectories.owner
    order = np.lexsort((y, x, minute, owner))
    again = np.zeros(len(order), np.bool_)
    again[1:] = True
    for column in (x, y, minute, owner):
        again[1:] &= np.diff(column[order]) == 0
    order = order[~again]
    bounds = np.empty((len(SIDES), len(order)), np.int32)
    for side, column in zip((X_LOW, Y_LOW, T_LOW), (x, y, minute), strict=True):
        bounds[side], bounds[side + 1] = column[order], column[order] + 1
    lengths = np.bincount(owner[order], minlength=len(trajectories))
    return Boxes(offsets_from(lengths), bounds, origin)


def _require_room(x: Ints, y: Ints, minute: Ints, largest: int) -> None:
    """The weighted growth of any box to any other must be exact in 32 bits."""
    if not len(x):
        return
    # klt lets boxes grow beyond all samples: twice as far leaves room
    widest = max(2 * int(x.max() + y.max() + 4), int(minute.max()) + 2)
    if 4 * largest * widest >= _LARGEST_SUM:
        raise BadInput(
            f"the data reach too far in space or time for groups of {largest:,}",
            remedy="choose a smaller [[k]], or a dataset of fewer years",
        )
