"""Write a build's tables: packed records, streamed with COPY."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.dataset import cleaning
from freqdp_db.dataset.findings import SeenTimes, seen_times
from freqdp_db.dataset.projection import ReferenceSystem, seen_degrees, transform
from freqdp_db.dataset.reading import RawRows
from freqdp_db.dataset.snapping import GridCells
from freqdp_db.db import builds
from freqdp_db.db import builds as build_parts
from freqdp_db.db.connection import Database, DatabaseRef
from freqdp_db.db.copy import Layout, line_bytes, point_bytes
from freqdp_db.engines.partitions import Partitions, PerPartition
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_of
from freqdp_db.model.trajectories import Build, Locations, Trajectories
from freqdp_db.progress import Progress, Stage
from freqdp_db.search.grid import (
    Filed,
    Frame,
    Grid,
    cells_of,
    distinct_segments,
    file_segments,
    levels_of,
)

# What a build does with each partition of a source's objects, from raw rows to filed segments.


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


def cells_of_partition(projected: ProjectedRows, metres: float) -> GridCells:
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


_CHUNK = 1 << 17


def write_build(
    database: Database,
    number: int,
    built: Build,
    keys: Sequence[str],
    tf: Ids,
    visited: Ints,
    filed: Partitions[FiledPartition],
    grid: Grid,
    progress: Progress,
) -> None:
    """Fill the standalone tables. visited: how many places each trajectory visits."""
    small = (_write_small, database, number, built, keys, tf, visited, grid)
    with progress.stage("write samples", built.trajectories.samples) as stage:
        if filed.remote:
            _write_by_workers(database, number, built, filed, small, stage)
        else:
            (whole,) = filed
            _write_here(database, number, built, whole, small, stage)


def _write_here(
    database: Database,
    number: int,
    built: Build,
    whole: FiledPartition,
    small: tuple[Any, ...],
    stage: Stage,
) -> None:
    """Two tables at a time: samples beside everything else."""

    def write_others() -> None:
        with builds.filling(database, "segment", number) as part:
            part.copy(SEGMENT, _segment_chunks(number, built.srid, whole.filed))
        small[0](*small[1:])

    with database.side_by_side(1) as start:
        start(write_others)
        with builds.filling(database, "sample", number) as part:
            part.copy(SAMPLE, _sample_chunks(number, built.trajectories, stage))


def _write_by_workers(
    database: Database,
    number: int,
    built: Build,
    filed: Partitions[FiledPartition],
    small: tuple[Any, ...],
    stage: Stage,
) -> None:
    """Each worker writes the samples and segments of its partitions."""
    run = build_parts.create_large(database, number)
    parts = PerPartition(range(len(filed.ranges)))
    for rows in filed.map(
        _write_partition, DatabaseRef.of(database), number, run, parts, built.srid
    ):
        stage.advance(rows)
    with database.side_by_side(1) as start:
        start(*small)
        build_parts.finish_large(database, number)


def _write_partition(
    filed: FiledPartition, reach: DatabaseRef, build_id: int, run: int, part: int, srid: int
) -> int:
    """Write the samples and the segments of a partition; how many samples."""
    first, own = filed.partition.first, filed.partition.trajectories
    with Progress().stage("write samples") as stage:
        samples: Any = (SAMPLE, _sample_chunks(build_id, own, stage, first))
        segments: Any = (SEGMENT, _segment_chunks(build_id, srid, filed.filed, first))
        build_parts.write_range(reach.database(), build_id, run, part, samples, segments)
    return own.samples


SAMPLE = Layout(
    [
        ("build_id", "int4"),
        ("trajectory_id", "int4"),
        ("seq", "int4"),
        ("location_id", "int4"),
        ("at", "timestamptz"),
    ]
)


def _sample_chunks(
    number: int, trajectories: Trajectories, stage: Stage, first: int = 0
) -> Iterator[NDArray[Any]]:
    """Rows of `sample`; first: the number of the first trajectory."""
    owner = trajectories.owner
    for begin in range(0, trajectories.samples, _CHUNK):
        part = slice(begin, begin + _CHUNK)
        mine = owner[part]
        yield SAMPLE.pack(
            build_id=number,
            trajectory_id=mine + first,
            seq=np.arange(begin, begin + len(mine)) - trajectories.offsets[mine] + 1,
            location_id=trajectories.location[part],
            at=trajectories.at[part],
        )
        stage.advance(len(mine))


def _write_small(
    database: Database,
    number: int,
    built: Build,
    keys: Sequence[str],
    tf: Ids,
    visited: Ints,
    grid: Grid,
) -> None:
    """The tables that do not grow with the samples."""
    with builds.filling(database, "grid_cell", number) as part:
        part.copy_rows(GRID_COLUMNS, _cell_rows(number, grid))
    with builds.filling(database, "location", number) as part:
        location = LOCATION.pack(
            build_id=number,
            location_id=np.arange(len(built.locations)),
            x_m=built.locations.x,
            y_m=built.locations.y,
            tf=tf,
            geom=point_bytes(*built.locations.in_source(), built.source_srid),
        )
        part.copy(LOCATION, [location])
    with builds.filling(database, "trajectory", number) as part:
        part.copy_rows(
            ["build_id", "trajectory_id", "object_key", "samples", "places"],
            (
                (number, t, key, int(samples), int(distinct))
                for t, (key, samples, distinct) in enumerate(
                    zip(keys, built.trajectories.lengths, visited, strict=True)
                )
            ),
        )


LOCATION = Layout(
    [
        ("build_id", "int4"),
        ("location_id", "int4"),
        ("x_m", "float8"),
        ("y_m", "float8"),
        ("tf", "int4"),
        ("geom", "point"),
    ]
)
SEGMENT = Layout(
    [
        ("build_id", "int4"),
        ("trajectory_id", "int4"),
        ("seq", "int4"),
        ("cell_id", "int8"),
        ("from_location", "int4"),
        ("to_location", "int4"),
        ("occurrences", "int4"),
        ("geom", "line"),
    ]
)
GRID_COLUMNS = [
    "build_id", "cell_id", "level", "parent_id", "x_min", "y_min", "x_max", "y_max",
    "tree_x_min", "tree_y_min", "tree_x_max", "tree_y_max", "segments", "tree_segments",
]  # fmt: skip


def _segment_chunks(number: int, srid: int, index: Filed, first: int = 0) -> Iterator[NDArray[Any]]:
    """Rows of `segment`; first: the number of the first trajectory."""
    cell, segments = cells_of(index), index.segments
    for begin in range(0, len(index), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        row = index.row[part]
        yield SEGMENT.pack(
            build_id=number,
            trajectory_id=segments.trajectory[row] + first,
            seq=segments.position[row] + 1,
            cell_id=cell[part],
            from_location=segments.tail[row],
            to_location=segments.head[row],
            occurrences=segments.occurrences[row],
            geom=line_bytes(index.ends[part], srid),
        )


def _cell_rows(number: int, grid: Grid) -> Iterator[tuple[Any, ...]]:
    columns = zip(
        grid.cell.tolist(),
        levels_of(grid.cell).tolist(),
        grid.box.tolist(),
        grid.tree_box.tolist(),
        np.diff(grid.segment_offsets).tolist(),
        grid.tree_segments.tolist(),
        strict=True,
    )
    for cell, level, box, tree_box, own, below in columns:
        yield (number, cell, level, cell >> 2 or None, *box, *tree_box, own, below)
