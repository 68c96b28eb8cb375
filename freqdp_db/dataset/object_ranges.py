"""What a build does with each partition of a source's objects, from raw rows to filed segments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.columns.ragged import offsets_of
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.dataset import cleaning
from freqdp_db.dataset.findings import SeenTimes, seen_times
from freqdp_db.dataset.projection import ReferenceSystem, seen_degrees, transform
from freqdp_db.dataset.reading import RawRows
from freqdp_db.dataset.snapping import GridCells
from freqdp_db.frequency.partition import Partition
from freqdp_db.search.filing import Filed, file_segments
from freqdp_db.search.grid import Frame, Grid
from freqdp_db.search.segments import distinct_segments


@dataclass(frozen=True)
class ProjectedRows(RawRows):
    """The same in order, cleaned, and in metres."""

    x: Metres
    y: Metres


@dataclass(frozen=True)
class FiledPartition:
    """A partition and its segments, filed in the frame of all."""

    partition: Partition
    filed: Filed


def drop_unusable(read: RawRows, raw: ReferenceSystem) -> RawRows:
    """Leave out rows that cannot be."""
    excluded: dict[str, int] = {}
    return RawRows(read.keys, cleaning.drop_unusable(read.rows, raw.limits, excluded), excluded)


def excluded_of(read: RawRows) -> dict[str, int]:
    return read.excluded


def keys_of(read: RawRows) -> list[str]:
    return read.keys


def degrees_of(read: RawRows, raw: ReferenceSystem, degrees: ReferenceSystem) -> Ints:
    """How many rows are in each degree of longitude."""
    return seen_degrees(*transform(raw, degrees, read.rows.x, read.rows.y))


def project(read: RawRows, raw: ReferenceSystem, plane: ReferenceSystem) -> ProjectedRows:
    """Order the rows, drop repeats, project to metres; objects without a row are left out."""
    excluded: dict[str, int] = {}
    rows = cleaning.drop_repeats(cleaning.sort_rows(read.rows), excluded)
    x, y = transform(raw, plane, rows.x, rows.y)
    inside = cleaning.within(x, y, plane.limits)
    excluded["outside_projection"] = int((~inside).sum())
    if not inside.all():
        rows, x, y = rows.take(inside), x[inside], y[inside]
    present, owner = np.unique(rows.object, return_inverse=True)
    keys = [read.keys[k] for k in present]
    return ProjectedRows(keys, replace(rows, object=owner), excluded, x, y)


def cells_of(projected: ProjectedRows, metres: float) -> GridCells:
    """The distinct cells that hold a row."""
    return GridCells.of(projected.x, projected.y, metres)


def places_in(projected: ProjectedRows, cells: GridCells, metres: float) -> Ids:
    """The place of each row."""
    return cells.find(projected.x, projected.y, metres)


def on_step_of(projected: ProjectedRows, step_us: int) -> int:
    """How many times are multiples of the step."""
    return cleaning.on_step(projected.rows.at, step_us)


def gaps_of(projected: ProjectedRows) -> tuple[Ints, Ints]:
    """Times between samples of one object, and how often each is seen."""
    rows = projected.rows
    return np.unique(cleaning.gaps(rows.at, rows.object), return_counts=True)


def merge_counted(one: tuple[Ints, Ints], other: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Counts of either, added."""
    values, at = np.unique(np.concatenate([one[0], other[0]]), return_inverse=True)
    times = np.zeros(len(values), np.int64)
    np.add.at(times, at, np.concatenate([one[1], other[1]]))
    return values, times


def as_partition(
    projected: ProjectedRows, location: Ids, first: int, places: Locations
) -> Partition:
    """Trajectories of numbered places."""
    at = projected.rows.at
    offsets = offsets_of(projected.rows.object, len(projected.keys))
    return Partition(first, Trajectories(offsets, location, at, at[offsets[:-1]]), places)


def used_of(partition: Partition) -> Ints:
    """How many samples are at each place."""
    return np.bincount(partition.trajectories.location, minlength=len(partition.places))


def visited_of(partition: Partition) -> Ints:
    """How many places each trajectory visits."""
    return np.diff(partition.frequencies.offsets)


def times_of(partition: Partition, read_at: datetime) -> SeenTimes | None:
    """When the samples are; None: there are none."""
    at = partition.trajectories.at
    return seen_times(at, read_at) if len(at) else None


def location_of(partition: Partition) -> Ids:
    return partition.trajectories.location


def at_of(partition: Partition) -> Ints:
    return partition.trajectories.at


def file_partition(partition: Partition, frame: Frame) -> FiledPartition:
    """File the distinct segments of these trajectories, whole."""
    segments = distinct_segments(partition.trajectories)
    return FiledPartition(partition, file_segments(segments, partition.places, frame, cut=False))


def segments_of(filed: FiledPartition) -> int:
    return len(filed.filed.segments)


def grid_of(filed: FiledPartition) -> Grid:
    return filed.filed.grid
