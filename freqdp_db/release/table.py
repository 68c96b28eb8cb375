"""The released table: what its rows are, in which order, and how it explains itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.storage.copy.layout import POSTGRES_EPOCH_US, point_coordinates
from freqdp_db.storage.copy.wire import encode_lines
from freqdp_db.storage.published.staging import POINTS

_LINE_ROWS = 1 << 20
_CHUNK = 1 << 17


@dataclass(frozen=True)
class ReleasedTable:
    """The rows of a release, in order of the released ids: physical order says nothing else."""

    trajectories: Trajectories
    order: Ints
    """Trajectories that are not empty, by released id."""
    key: Ints
    geometry: NDArray[np.void]
    """Each location as a point of the source's SRID."""
    srid: int

    @classmethod
    def of(
        cls, trajectories: Trajectories, key: Ints, geometry: NDArray[np.void], srid: int
    ) -> ReleasedTable:
        order = np.argsort(key)
        return cls(trajectories, order[trajectories.lengths[order] > 0], key, geometry, srid)

    @property
    def rows(self) -> int:
        return self.trajectories.samples

    def _batches(self, rows: int) -> Iterator[Ints]:
        """Whole trajectories, about so many rows at a time."""
        ends = np.cumsum(self.trajectories.lengths[self.order])
        begin = 0
        while begin < len(self.order):
            before = ends[begin - 1] if begin else 0
            end = max(int(np.searchsorted(ends, before + rows)), begin + 1)
            yield self.order[begin:end]
            begin = end

    def points(self) -> Iterator[NDArray[Any]]:
        """Packed rows (trajectory_id, seq, at, geom)."""
        lengths, offsets = self.trajectories.lengths, self.trajectories.offsets
        for batch in self._batches(_CHUNK):
            counts = lengths[batch]
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            source = np.repeat(offsets[batch], counts) + within
            yield POINTS.pack(
                trajectory_id=np.repeat(self.key[batch], counts),
                seq=within + 1,
                at=self.trajectories.at[source],
                geom=self.geometry[self.trajectories.location[source]],
            )

    def lines(self) -> Iterator[memoryview]:
        """Rows (trajectory_id, LineStringM) of the trajectories with at least two samples."""
        x, y = point_coordinates(self.geometry)
        seconds = (self.trajectories.at + POSTGRES_EPOCH_US) / 1e6
        for batch in self._batches(_LINE_ROWS):
            batch = batch[self.trajectories.lengths[batch] >= 2]
            yield encode_lines(
                self.key[batch],
                self.trajectories.offsets[batch],
                self.trajectories.lengths[batch],
                self.trajectories.location,
                x,
                y,
                seconds,
                self.srid,
            )


def comments(name: str, guarantee: dict[str, Any], method: str) -> dict[str, str]:
    """COMMENT ON for the two tables and their columns."""
    user = "; ".join(
        f"{artefact.replace('_', ' ')}, epsilon {found['whole_user']}"
        for artefact, found in guarantee["artefacts"].items()
        if "whole_user" in found
    )
    what = (
        f"Release {name}, anonymized by freqdp with method {method}. {guarantee['plain']} "
        f"For a whole user: {user}."
    )
    return {
        "points": what + " See catalog for the full guarantee.",
        "points.trajectory_id": "Fresh random id; says nothing about the object behind it.",
        "points.seq": "Position in the trajectory, from 1, in time order.",
        "points.at": "Time of the sample.",
        "points.geom": "The location's point, in the SRID of the source.",
        "line": what + " One line per trajectory of at least 2 samples.",
        "line.trajectory_id": "The same id as in the table of samples.",
        "line.geom": "LineStringM: M is the time in epoch seconds.",
    }
