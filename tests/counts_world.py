"""Zones and bins over the small made-up city, for the tests of counts."""

from __future__ import annotations

import numpy as np
from synthetic_world import PERIOD, REGION

from freqdp_db.methods.counts.zones import BinKind, Bins, Squares, Zones, blocks_of


def grid_zones(width: float = 2_000.0, block: float = 8_000.0) -> Zones:
    """Squares over the region, and blocks of them as districts."""
    columns, rows = int(REGION.x_max // width), int(REGION.y_max // width)
    number = np.arange(columns * rows)
    x, y = (number % columns + 0.5) * width, (number // columns + 0.5) * width
    district, names = blocks_of(x, y, block)
    squares = Squares(width, 0, 0, number.reshape(rows, columns).astype(np.int32))
    return Zones(tuple(map(str, number)), district, names, x, y, tuple, squares)


def time_bins(kind: BinKind = "hour-of-day", timezone: str = "Europe/Brussels") -> Bins:
    return Bins(kind, PERIOD, timezone)
