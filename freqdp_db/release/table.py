"""The released table: what its rows are, in which order, and how it explains itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.areas import Areas
from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.columns.build import Build
from freqdp_db.columns.days import local_days
from freqdp_db.columns.ragged import rows_of
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.dataset.projection import to_source
from freqdp_db.dataset.shown import InSource
from freqdp_db.methods.contract import State
from freqdp_db.progress import Stage
from freqdp_db.release.comparing import Relations, compare_tables
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.copy.layout import (
    POSTGRES_EPOCH_US,
    Layout,
    box_bytes,
    point_bytes,
    range_bytes,
)
from freqdp_db.storage.copy.wire import encode_lines
from freqdp_db.storage.published import staging
from freqdp_db.storage.published.staging import AREAS, POINTS

_LINE_ROWS = 1 << 20
_CHUNK = 1 << 17


@dataclass(frozen=True)
class ReleasedTable:
    """The rows of a release, in order of the released ids: physical order says nothing else."""

    trajectories: Trajectories
    order: Ints
    """Trajectories that are not empty, by released id."""
    key: Ints
    x: Metres
    y: Metres
    """Each place, in the source's SRID."""
    areas: Areas | None
    """Each sample's, in the source's SRID."""
    srid: int
    timezone: str
    """Of the days that lines are cut into."""
    in_order: ClassVar[bool] = True
    """Whether rows can be compared as they were written, before there is an index."""

    @classmethod
    def of(cls, state: State, build: Build) -> ReleasedTable:
        order = np.argsort(state.key)
        order = order[state.trajectories.lengths[order] > 0]
        if state.places.source_x is not None:
            x, y = state.places.in_source()
        else:
            x, y = to_source(build, state.places.x, state.places.y)
        areas = None if state.areas is None else InSource(build).areas(state.areas)
        return cls(
            state.trajectories, order, state.key, x, y, areas, build.source_srid, build.timezone
        )

    @property
    def rows(self) -> int:
        return self.trajectories.samples

    @property
    def shown(self) -> int:
        """How many trajectories it has."""
        return len(self.order)

    @property
    def layout(self) -> Layout:
        return POINTS if self.areas is None else AREAS

    def write_points(self, database: Database, release_id: int, stage: Stage) -> None:
        """Fill the staged table of samples."""
        points = _counted(self.points(), stage)
        staging.write_points(database, release_id, self.srid, self.layout, points)

    def write_lines(self, database: Database, release_id: int) -> None:
        """Fill the staged table of lines, and index it."""
        staging.write_lines(database, release_id, self.srid, self.lines())

    def compare(self, database: Database, relations: Relations, stage: Stage) -> None:
        """Compare with stored tables; raises VerificationFailed."""
        compare_tables(database, relations, self, stage)

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
        """Packed rows (trajectory_id, seq, at, geom), and area and interval where there are any."""
        geometry = point_bytes(self.x, self.y, self.srid)
        for batch in self._batches(_CHUNK):
            source, offsets = rows_of(self.trajectories.offsets, batch)
            counts = np.diff(offsets)
            columns = {
                "trajectory_id": np.repeat(self.key[batch], counts),
                "seq": np.arange(len(source)) - np.repeat(offsets[:-1], counts) + 1,
                "at": self.trajectories.at[source],
                "geom": geometry[self.trajectories.location[source]],
            }
            if self.areas is not None:
                a = self.areas
                columns["area"] = box_bytes(
                    a.x_min[source], a.y_min[source], a.x_max[source], a.y_max[source], self.srid
                )
                columns["during"] = range_bytes(self.trajectories.at[source], a.until[source])
            yield self.layout.pack(**columns)

    def lines(self) -> Iterator[NDArray[np.uint8]]:
        """Rows (trajectory_id, day, LineStringM) of the days with at least two samples."""
        seconds = (self.trajectories.at + POSTGRES_EPOCH_US) / 1e6
        for batch in self._batches(_LINE_ROWS):
            owner, days, first, count = self._days(batch)
            whole = count >= 2
            yield encode_lines(
                self.key[owner[whole]],
                days[whole],
                first[whole],
                count[whole],
                self.trajectories.location,
                self.x,
                self.y,
                seconds,
                self.srid,
            )

    def _days(self, batch: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """The days of these trajectories: whose, which, the first sample of each and how many."""
        source, offsets = rows_of(self.trajectories.offsets, batch)
        days = local_days(self.trajectories.at[source], self.timezone)
        begins = np.ones(len(days), np.bool_)
        begins[1:] = np.diff(days) != 0
        begins[offsets[:-1]] = True
        first = np.flatnonzero(begins)
        owner = np.searchsorted(offsets, first, side="right") - 1
        return batch[owner], days[first], source[first], np.diff(first, append=len(days))


def _counted(chunks: Iterator[NDArray[Any]], stage: Stage) -> Iterator[NDArray[Any]]:
    for chunk in chunks:
        yield chunk
        stage.advance(len(chunk))


def comments(
    name: str,
    guarantee: dict[str, Any],
    for_analysts: str,
    *,
    timezone: str = "UTC",
    areas: bool = False,
) -> dict[str, str]:
    """COMMENT ON for the two tables and their columns; `areas`: whether samples have some."""
    what = (
        f"Release {name}, anonymized by freqdp with method {guarantee['method']}. {for_analysts} "
        f"{guarantee['plain']}"
    )
    users = "; ".join(
        f"{artefact.replace('_', ' ')}, epsilon {found['whole_user']}"
        for artefact, found in guarantee["artefacts"].items()
        if "whole_user" in found
    )
    if users:
        what += f" For a whole user: {users}."
    point = "The location's point, in the SRID of the source."
    if areas:
        point = "The middle of the area, in the SRID of the source: not a position."
    return {
        "points": what + " See catalog for the full guarantee.",
        "points.trajectory_id": "An id of this release alone; says nothing about any object.",
        "points.seq": "Position in the trajectory, from 1, in time order.",
        "points.at": "Begin of the interval." if areas else "Time of the sample.",
        "points.geom": point,
        "points.area": "Where samples of the group lie, of some or all of its objects; in the SRID of "
        "the source.",
        "points.during": "When: the times of samples in the area lie in this interval.",
        "trip": what,
        "line": what
        + f" One line for each day ({timezone}) of a trajectory with at least 2 samples.",
        "line.trajectory_id": "The same id as in the table of samples.",
        "line.day": f"The day, in the time zone {timezone}.",
        "line.geom": "LineStringM: M is the time in epoch seconds.",
    }
