"""Trajectories of a few samples, as a test writes them down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freqdp_db.model.arrays import offsets_from
from freqdp_db.model.trajectories import Trajectories

MINUTE = 60_000_000
Rows = Sequence[Sequence[tuple[int, float]]]
"""(place, minutes) of the samples of each trajectory."""


def side_of(rows: Rows) -> Trajectories:
    offsets = offsets_from(np.array([len(r) for r in rows], np.int64))
    location = np.array([p for r in rows for p, _ in r], np.int32)
    at = np.array([int(m * MINUTE) for r in rows for _, m in r], np.int64)
    start = np.array([int(r[0][1] * MINUTE) if r else 0 for r in rows], np.int64)
    return Trajectories(offsets, location, at, start)
