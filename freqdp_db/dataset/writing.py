"""Write a build's tables: packed records, streamed with COPY."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.build import Build
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.dataset.object_ranges import FiledPartition
from freqdp_db.engines.partitions import Partitions, PerPartition
from freqdp_db.progress import Progress, Stage
from freqdp_db.search.filing import Filed, cells_of
from freqdp_db.search.grid import Grid, levels_of
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.reach import Reach
from freqdp_db.storage.copy.layout import Layout, line_bytes, point_bytes
from freqdp_db.storage.records import build_parts, builds

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
    for rows in filed.map(_write_partition, Reach.of(database), number, run, parts, built.srid):
        stage.advance(rows)
    with database.side_by_side(1) as start:
        start(*small)
        build_parts.finish_large(database, number)


def _write_partition(
    filed: FiledPartition, reach: Reach, build_id: int, run: int, part: int, srid: int
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
