"""What is counted, and over which public grids. Holds no data: the sampling side reads it too.

Three grids lie over the region, each cutting the one before: zones, cells, fine cells. Headings are
numbered 0 to 7 anticlockwise from east; a move goes to one of the eight neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.methods.synthesis.public import Region
from freqdp_db.model.arrays import Ints, Metres

HEADING_X = np.array([1, 1, 0, -1, -1, -1, 0, 1], np.int64)
HEADING_Y = np.array([0, 1, 1, 1, 0, -1, -1, -1], np.int64)
HEADINGS = 8

DISTANCE_EDGES = np.array([0.5, 1.2, 1.7, 2.1, 2.5, 2.9, 3.2, 4.3, 5.5])
"""Upper edges, in zones of straight distance between two zones; class 0 is the same zone."""
DISTANCE_CLASSES = 10
REACH_OF_DISTANCE = np.array([0, 1, 1, 2, 2, 2, 3, 4, 5, 5], np.int64)
"""Numbers of steps are counted by a coarser class of the distance."""
REACHES = 6
STEP_CLASSES = 16
BENDS = 12
BEND_GROUPS = 4
METRE_CLASSES = 17
METRE_EDGES = 1000.0 * 2.0 ** (np.arange(METRE_CLASSES + 1) / 2.0)
"""Classes of a trip's length; the last is open."""
MINUTE_CLASSES = 18
MINUTE_EDGES = 2.0 * 2.0 ** (np.arange(MINUTE_CLASSES + 1) / 2.0)
"""Classes of a trip's duration, in minutes; the first begins at none, the last is open."""
BEND_EDGES = 0.25 * 2.0 ** (np.arange(BENDS + 1) / 2.0)
"""How long a trip is for its steps: metres / (side of a cell * (steps + 0.7))."""
DAYPARTS = 6
PACES = 12
PACE_EDGES = 0.25 * 2.0 ** (np.arange(PACES + 1) / 3.0)
"""How fast a trip is, in proportion to the speed of its part of the day."""


@dataclass(frozen=True)
class Grids:
    """The three grids; rows go north, columns east, numbers row by row."""

    region: Region
    zones_x: int
    zones_y: int
    per_zone: int
    """Cells along one side of a zone."""
    per_cell: int
    """Fine cells along one side of a cell."""

    @property
    def cells_x(self) -> int:
        return self.zones_x * self.per_zone

    @property
    def cells_y(self) -> int:
        return self.zones_y * self.per_zone

    @property
    def fine_x(self) -> int:
        return self.cells_x * self.per_cell

    @property
    def fine_y(self) -> int:
        return self.cells_y * self.per_cell

    @property
    def zones(self) -> int:
        return self.zones_x * self.zones_y

    @property
    def cells(self) -> int:
        return self.cells_x * self.cells_y

    @property
    def fine(self) -> int:
        return self.fine_x * self.fine_y

    @property
    def cell_m(self) -> float:
        """Side of a cell, the mean of both."""
        return (self.region.width / self.cells_x + self.region.height / self.cells_y) / 2

    def zone_of_cell(self) -> Ints:
        row, column = np.divmod(np.arange(self.cells), self.cells_x)
        zone: Ints = (row // self.per_zone) * self.zones_x + column // self.per_zone
        return zone

    def cell_of_fine(self) -> Ints:
        row, column = np.divmod(np.arange(self.fine), self.fine_x)
        cell: Ints = (row // self.per_cell) * self.cells_x + column // self.per_cell
        return cell

    def zone_distance_class(self) -> Ints:
        """Class of each pair of zones, a row for each first zone, flattened."""
        row, column = np.divmod(np.arange(self.zones), self.zones_x)
        far = np.hypot(row[:, None] - row[None, :], column[:, None] - column[None, :])
        return distance_class(far).ravel()

    def cell_centres(self) -> tuple[Metres, Metres]:
        """In units of cells, from the region's corner."""
        row, column = np.divmod(np.arange(self.cells), self.cells_x)
        return column + 0.5, row + 0.5


def distance_class(zones_apart: Metres) -> Ints:
    """0: same zone; then by straight distance, the last open."""
    return np.searchsorted(DISTANCE_EDGES, zones_apart).astype(np.int64)


STEP_EDGES = np.array([0, 1, 2, 3, 4, 5, 6, 8, 11, 15, 20, 27, 36, 48, 64, 96, 160], np.int64)
"""Class j has the numbers of steps from STEP_EDGES[j] to STEP_EDGES[j + 1] - 1; the last is open."""


BEND_GROUP_OF_STEPS = np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3], np.int64)
"""Bends are counted by a coarser class of the number of steps."""


@njit(nogil=True, cache=True)
def heading_of(dx, dy):  # type: ignore[no-untyped-def]
    """0 to 7 anticlockwise from east, for steps of -1, 0, 1."""
    if dy == 0:
        return 0 if dx > 0 else 4
    if dy > 0:
        return 2 - dx
    return 6 + dx
