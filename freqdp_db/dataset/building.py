"""Build a dataset: one consistent copy of the source, cleaned, projected, snapped, filed and written.

Each partition of the source's objects is read, cleaned, snapped, filed and written where the engine keeps
it. What has to be the same everywhere (the system of metres, the numbers of the places, the frame of the
grid, the clock) is decided here, from what is counted in the partitions.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import reduce
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import freqdp_db
from freqdp_db.dataset import cleaning
from freqdp_db.dataset.cleaning import (
    REASONS,
    TIME_UNITS,
    GridCells,
    merge_cells,
    snap_anchors,
    snap_exact,
)
from freqdp_db.dataset.findings import Findings, SeenTimes, look_at, moment, seen_times
from freqdp_db.dataset.projection import WGS84, ReferenceSystem, seen_degrees, transform, utm_srid
from freqdp_db.dataset.reading import RawRows, Source, SourceColumns, read_source
from freqdp_db.dataset.text_values import Snap
from freqdp_db.db import builds
from freqdp_db.db.builds import Window, window_build
from freqdp_db.db.connection import Database, DatabaseRef, hold
from freqdp_db.db.copy import Layout, line_bytes, point_bytes
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.db.ledger import require_traceable
from freqdp_db.db.source import SourceRelation, definition_of
from freqdp_db.engines.partitions import LOCAL, Engine, LocalPartitions, Partitions, PerPartition
from freqdp_db.engines.ranges import add
from freqdp_db.errors import BadData, BadInput, Remark
from freqdp_db.methods.frequency.partition import Partition, trajectories_in
from freqdp_db.methods.relations import FEWEST_OBJECTS
from freqdp_db.model.arrays import Flags, Ids, Ints, Metres, offsets_of
from freqdp_db.model.trajectories import Build, Clock, Codes, KeptColumns, Locations, Trajectories
from freqdp_db.progress import Progress, Stage
from freqdp_db.search.grid import (
    Filed,
    Frame,
    Grid,
    cells_of,
    choose_frame,
    distinct_segments,
    file_segments,
    levels_of,
    merge_grids,
)

_ANY_ZONE = 32631
_CHUNK = 1 << 17
"""Rows that are packed for COPY at a time."""


def build(
    database: Database,
    dataset: DatasetRow,
    progress: Progress,
    engine: Engine = LOCAL,
    window: Window | None = None,
) -> builds.BuildRow:
    """Read, clean, snap and write a new build, then make it the dataset's current one.

    window: of the rows of this window alone; such a build is nobody's current one.
    """
    return build_and_look(database, dataset, progress, engine, window)[0]


def build_of_window(
    database: Database,
    dataset: DatasetRow,
    window: Window,
    progress: Progress,
    engine: Engine = LOCAL,
) -> builds.BuildRow:
    """The newest build of a window; made if there is none."""
    known = window_build(database, dataset.dataset_id, window.time_window)
    if known is None:
        return build(database, dataset, progress, engine, window)
    return builds.find_build(database, known)


def build_and_look(
    database: Database,
    dataset: DatasetRow,
    progress: Progress,
    engine: Engine = LOCAL,
    window: Window | None = None,
) -> tuple[builds.BuildRow, Findings]:
    """The same as `build`, and what was found in the source."""
    if engine.remote and Snap.parse(dataset.snap).kind != "grid":
        raise BadInput(
            f"[[engine]] dask cannot build with [[snap]] {dataset.snap}: only cells of a grid can be "
            "numbered without all positions in one process",
            remedy="use [[engine]] threads, or add the dataset with [[snap]] grid:METRES",
        )
    number = builds.next_build_number(database)
    with (
        hold(database, "dataset", dataset.dataset_id, f"dataset {dataset.name!r}"),
        hold(database, "build", number, f"build {number}"),
    ):
        builds.sweep_builds(database)
        # refused before anything is read; what the source meets is recorded with the build
        require_traceable(database, dataset.dataset_id)
        record, relations, findings = _make(database, dataset, number, progress, engine, window)
        with progress.stage("attach"):
            builds.attach_build(database, record, relations)
    builds.sweep_builds(database)
    return builds.find_build(database, number), findings


def _make(
    database: Database,
    dataset: DatasetRow,
    number: int,
    progress: Progress,
    engine: Engine,
    window: Window | None,
) -> tuple[dict[str, Any], list[SourceRelation], Findings]:
    """Fill the tables of a build: its row, the relations that it was read from, and what was found."""
    with ExitStack() as reading:
        connection = reading.enter_context(database.begin(snapshot=True))
        source, read = read_source(engine, connection, database, dataset, progress, window)
        if not engine.remote:
            # workers may have to read again, if one of them is lost
            reading.close()
        excluded = dict(source.counts.excluded)
        with progress.stage("clean and snap", source.counts.rows):
            built, keys, partitions, left_out = _discretise(
                database, dataset, source, read, excluded, may_be_empty=window is not None
            )
        # nobody keeps the rows as they were read
        del read
        with progress.stage("file segments", built.trajectories.samples):
            tf, used = (
                add(list(partitions.map(each))) for each in (attrgetter("frequencies.tf"), _used_of)
            )
            visited = np.concatenate(list(partitions.map(_visited_of)))
            frame = choose_frame(built.locations, used)
            filed = partitions.map(_file_partition, frame)
            segments = sum(filed.map(_segments_of))
            grid = reduce(merge_grids, filed.map(attrgetter("filed.grid")))
        write_build(database, number, built, keys, tf, visited, filed, grid, progress)
        hashed = _fingerprint(dataset, built, keys, partitions, window)
        seen = [t for t in partitions.map(_times_of, source.snapshot_at) if t is not None]
        if window is not None and not seen:
            seen = [SeenTimes(moment(window.window_begin), moment(window.window_end), 0, 0)]
        times = reduce(operator.add, seen)
        findings = _inspect(database, dataset, built, used, times, source.epoch_unit)
        time, relation = dataset.mapping.time, (dataset.source_schema, dataset.source_relation)
        index = None if window is None else builds.missing_index(database, relation, time)
        if index is not None:
            warning = (
                f"{dataset.source} has no index that begins with {time}: a window costs as much to read "
                f"as all of it. Its owner can: {index}"
            )
            findings.warnings.append(Remark(warning))
    record = {
        "build_id": number,
        "dataset_id": dataset.dataset_id,
        "snapshot_at": source.snapshot_at,
        "rows": source.counts.rows,
        "excluded": excluded,
        "trajectories": len(built.trajectories),
        "samples": built.trajectories.samples,
        "locations": len(built.locations),
        "segments": segments,
        "source_srid": dataset.source_srid,
        "srid": built.srid,
        "snap": dataset.snap,
        "time_unit": source.time_unit,
        "time_step_us": built.clock.step_us,
        "median_gap_us": built.clock.median_gap_us,
        "grid": asdict(frame),
        "fingerprint": hashed,
        "software": freqdp_db.__version__,
        "time_window": None if window is None else window.time_window,
        "window_begin": None if window is None else window.window_begin,
        "window_end": None if window is None else window.window_end,
        "kept": None if built.kept is None else built.kept.document() | {"left_out": left_out},
    }
    return record, source.relations, findings


# Rows become trajectories of numbered places.


@dataclass(frozen=True)
class ProjectedRows(RawRows):
    """The same in order, cleaned, and in metres."""

    x: Metres
    y: Metres


def _discretise(
    database: Database,
    dataset: DatasetRow,
    source: Source,
    read: Partitions[RawRows],
    excluded: dict[str, int],
    *,
    may_be_empty: bool,
) -> tuple[Build, list[str], Partitions[Partition], dict[str, int]]:
    """Clean, project to metres, order and snap; also the objects' keys.

    Counts what is left out in `excluded`; gives what is left out of kept columns.
    """
    raw = _reference(database, dataset.source_srid)
    usable = read.map(_drop_unusable, raw)
    _require_rows(usable, excluded, may_be_empty=may_be_empty)
    srid = dataset.srid or _choose_srid(database, raw, usable)
    plane = _reference(database, srid)
    projected = usable.map(project, raw, plane)
    rows = _require_rows(projected, excluded, may_be_empty=may_be_empty)
    places, location = _snap(database, dataset, source, projected, raw, plane)
    keys: list[list[str]] = list(projected.map(getattr, "keys"))
    first = np.cumsum([0, *(len(own) for own in keys)]).tolist()
    step = cleaning.time_step(lambda us: sum(projected.map(_on_step_of, us)), rows)
    gap, times = reduce(_merge_counted, projected.map(_gaps_of))
    median = cleaning.median_of_counted(gap, times) if len(gap) else None
    kept = None if source.kept is None else choose_values(source.kept, projected)
    codes = None if kept is None else kept.codes
    partitions = projected.map(_as_partition, location, PerPartition(first[:-1]), places, codes)
    built = Build(
        trajectories=trajectories_in(partitions),
        locations=places,
        clock=Clock(step, cleaning.median_gap(median, step)),
        srid=srid,
        source_srid=dataset.source_srid,
        timezone=dataset.mapping.timezone,
        kept=None if kept is None else kept.columns,
    )
    left_out = {} if kept is None else kept.left_out
    return built, [key for own in keys for key in own], partitions, left_out


@dataclass(frozen=True)
class ChosenValues:
    """Which combinations of values are carried along, and which have too few objects."""

    columns: KeptColumns
    codes: Codes
    """The code of each number that a row may have; 0: too few have these values."""
    left_out: dict[str, int]
    """Combinations and samples without their values."""


def choose_values(source: SourceColumns, projected: Partitions[ProjectedRows]) -> ChosenValues:
    """A combination that few objects have tells who they are: their values are left out.

    What is left out is NULL, as what is not there. If few objects had NULL then, these would be told by it:
    the rarest combination that is left joins them.
    """
    counts: NDArray[np.int64] = add(list(projected.map(_counts_of, source)))
    objects, samples = counts
    there = objects > 0
    there[0] = False
    shown = there & (objects >= FEWEST_OBJECTS)
    without = sum(projected.map(_objects_among, ~shown))
    if 0 < without < FEWEST_OBJECTS and shown.any():
        rarest = np.flatnonzero(shown)[objects[shown].argmin()]
        shown[rarest] = False
    codes = np.where(shown, np.cumsum(shown), 0).astype(np.int16)
    values = [source.values_of(0), *(source.values_of(int(n)) for n in np.flatnonzero(shown))]
    left = there & ~shown
    return ChosenValues(
        KeptColumns(source.columns, tuple(values)),
        codes,
        {"combinations": int(left.sum()), "samples": int(samples[left].sum())},
    )


def _require_rows(
    partitions: Partitions[Any], excluded: dict[str, int], *, may_be_empty: bool
) -> int:
    """How many rows are left; raises BadData if there are none. Adds up what was left out."""
    for own in partitions.map(getattr, "excluded"):
        for reason, rows in own.items():
            excluded[reason] = excluded.get(reason, 0) + rows
    left = sum(partitions.map(len))
    if left == 0 and not may_be_empty:
        reasons = ", ".join(f"{n:,} {REASONS[r]}" for r, n in excluded.items() if n)
        raise BadData(
            f"no row can be used: {reasons}",
            remedy="check the column mapping (are [[lon]] and [[lat]] swapped? Numbers in metres are "
            "named with [[x]], [[y]] and [[srid]]; lines are taken apart with ST_DumpPoints in a view)",
        )
    return left


def _reference(database: Database, srid: int) -> ReferenceSystem:
    return ReferenceSystem.parse(srid, definition_of(database, srid, "SRID"))


def _choose_srid(database: Database, raw: ReferenceSystem, partitions: Partitions[RawRows]) -> int:
    """The source's own system if it is in metres, else the UTM zone of the data."""
    if raw.metric:
        return raw.srid
    seen = add(list(partitions.map(_degrees_of, raw, _reference(database, WGS84))))
    # of a window without rows any zone is right: there is nothing to measure
    return utm_srid(seen) if seen.any() else _ANY_ZONE


def _snap(
    database: Database,
    dataset: DatasetRow,
    source: Source,
    projected: Partitions[ProjectedRows],
    raw: ReferenceSystem,
    plane: ReferenceSystem,
) -> tuple[Locations, Partitions[Ids]]:
    """The locations, also in the source's SRID as a release shows them; and the one of each row."""
    snap = Snap.parse(dataset.snap)
    if snap.kind == "grid":
        cells = reduce(merge_cells, projected.map(_cells_in, snap.metres)).numbered()
        centres = cells.locations(snap.metres)
        places = Locations(centres.x, centres.y, *transform(plane, raw, centres.x, centres.y))
        return places, projected.map(_places_in, cells, snap.metres)
    (whole,) = projected
    if snap.kind == "exact":
        snapped = snap_exact(whole.x, whole.y)
        shown = whole.rows.x[snapped.origin], whole.rows.y[snapped.origin]
    else:
        assert source.anchors is not None
        x, y, srid = source.anchors
        own = _reference(database, srid)
        snapped = snap_anchors(whole.x, whole.y, *transform(own, plane, x, y))
        shown = transform(own, raw, x[snapped.origin], y[snapped.origin])
    places = Locations(snapped.locations.x, snapped.locations.y, *shown)
    return places, LocalPartitions(projected.ranges, [snapped.of_row])


def _inspect(
    database: Database,
    dataset: DatasetRow,
    built: Build,
    samples: Ints,
    times: SeenTimes,
    epoch_unit: str | None,
) -> Findings:
    """Where and when a build lies, and what looks wrong. samples: how many each place has.

    epoch_unit: what epoch numbers were taken to count; None: times are times.
    """
    raw, mapping = _reference(database, dataset.source_srid), dataset.mapping
    lon, lat = transform(raw, _reference(database, WGS84), *built.locations.in_source())
    in_degrees = raw.geographic and mapping.lon and mapping.lat
    return look_at(
        lon,
        lat,
        samples,
        times,
        built.trajectories.lengths,
        timezone=mapping.timezone,
        epoch_unit=None if epoch_unit is None else TIME_UNITS[epoch_unit],
        columns=(mapping.lon or "", mapping.lat or "") if in_degrees else None,
        region=dataset.region,
        utm_srid=built.srid if dataset.srid is None and not raw.metric else None,
    )


def _fingerprint(
    dataset: DatasetRow,
    built: Build,
    keys: list[str],
    partitions: Partitions[Partition],
    window: Window | None,
) -> str:
    """A hash of everything in a build: of its samples, first all places, then all times.

    Two windows are never the same request, also if neither has a row.
    """
    which = "" if window is None else f" {window.time_window}"
    digest = hashlib.sha256(f"{dataset.snap} {dataset.source_srid} {built.srid}{which}".encode())
    for key in keys:
        digest.update(f"{len(key)} {key}".encode())
    whole = [built.locations.x, built.locations.y, built.trajectories.offsets]
    names = ["location", "at"]
    if built.kept is not None:
        digest.update(json.dumps(built.kept.document()).encode())
        names.append("kept")
    each: list[Iterable[Any]] = [partitions.map(attrgetter(f"trajectories.{n}")) for n in names]
    for columns in (whole, *each):
        for column in columns:
            digest.update(np.ascontiguousarray(column).view(np.uint8).data)
    return digest.hexdigest()


# What is done with each partition of the objects, where the engine keeps it.


def _drop_unusable(read: RawRows, raw: ReferenceSystem) -> RawRows:
    """Leave out rows that cannot be."""
    excluded: dict[str, int] = {}
    return RawRows(read.keys, cleaning.drop_unusable(read.rows, raw.limits, excluded), excluded)


def _degrees_of(read: RawRows, raw: ReferenceSystem, degrees: ReferenceSystem) -> Ints:
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


def _cells_in(projected: ProjectedRows, metres: float) -> GridCells:
    """The distinct cells that hold a row."""
    return GridCells.of(projected.x, projected.y, metres)


def _places_in(projected: ProjectedRows, cells: GridCells, metres: float) -> Ids:
    """The place of each row."""
    return cells.find(projected.x, projected.y, metres)


def _on_step_of(projected: ProjectedRows, step_us: int) -> int:
    """How many times are multiples of the step."""
    return cleaning.on_step(projected.rows.at, step_us)


def _gaps_of(projected: ProjectedRows) -> tuple[Ints, Ints]:
    """Times between samples of one object, and how often each is seen."""
    rows = projected.rows
    return np.unique(cleaning.gaps(rows.at, rows.object), return_counts=True)


def _merge_counted(one: tuple[Ints, Ints], other: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Counts of either, added."""
    values, at = np.unique(np.concatenate([one[0], other[0]]), return_inverse=True)
    times = np.zeros(len(values), np.int64)
    np.add.at(times, at, np.concatenate([one[1], other[1]]))
    return values, times


def _counts_of(projected: ProjectedRows, source: SourceColumns) -> NDArray[np.int64]:
    """How many objects have each combination of values, and how many samples."""
    rows = projected.rows
    assert rows.kept is not None
    own = np.unique(rows.object.astype(np.int64) * source.numbers + rows.kept) % source.numbers
    return np.stack([np.bincount(n, minlength=source.numbers) for n in (own, rows.kept)])


def _objects_among(projected: ProjectedRows, numbers: Flags) -> int:
    """How many objects have a sample with one of these combinations of values."""
    assert projected.rows.kept is not None
    return len(np.unique(projected.rows.object[numbers[projected.rows.kept]]))


def _as_partition(
    projected: ProjectedRows, location: Ids, first: int, places: Locations, codes: Codes | None
) -> Partition:
    """Trajectories of numbered places; codes: of the values that rows carry along, by their numbers."""
    at = projected.rows.at
    offsets = offsets_of(projected.rows.object, len(projected.keys))
    kept = None if codes is None else codes[projected.rows.kept]
    return Partition(first, Trajectories(offsets, location, at, at[offsets[:-1]], kept), places)


def _used_of(partition: Partition) -> Ints:
    """How many samples are at each place."""
    return np.bincount(partition.trajectories.location, minlength=len(partition.places))


def _visited_of(partition: Partition) -> Ints:
    """How many places each trajectory visits."""
    return np.diff(partition.frequencies.offsets)


def _times_of(partition: Partition, read_at: datetime) -> SeenTimes | None:
    """When the samples are; None: there are none."""
    at = partition.trajectories.at
    return seen_times(at, read_at) if len(at) else None


@dataclass(frozen=True)
class FiledPartition:
    """A partition and its segments, filed in the frame of all."""

    partition: Partition
    filed: Filed


def _file_partition(partition: Partition, frame: Frame) -> FiledPartition:
    """File the distinct segments of these trajectories, whole."""
    segments = distinct_segments(partition.trajectories)
    return FiledPartition(partition, file_segments(segments, partition.places, frame, cut=False))


def _segments_of(filed: FiledPartition) -> int:
    return len(filed.filed.segments)


# Write the tables: packed records, streamed with COPY.


SAMPLE = Layout("build_id int4, trajectory_id int4, seq int4, location_id int4, at timestamptz")
SAMPLE_KEPT = Layout(f"{SAMPLE.columns}, kept int2")
"""Where samples carry columns along."""
LOCATION = Layout("build_id int4, location_id int4, x_m float8, y_m float8, tf int4, geom point")
SEGMENT = Layout(
    "build_id int4, trajectory_id int4, seq int4, cell_id int8, from_location int4, to_location int4, "
    "occurrences int4, geom line"
)
_TRAJECTORY = ["build_id", "trajectory_id", "object_key", "samples", "places"]
_GRID_CELL = [
    "build_id", "cell_id", "level", "parent_id", "x_min", "y_min", "x_max", "y_max",
    "tree_x_min", "tree_y_min", "tree_x_max", "tree_y_max", "segments", "tree_segments",
]  # fmt: skip


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
    own, places = built.trajectories, built.locations

    def write_small() -> None:
        """The tables that do not grow with the samples."""
        with builds.filling(database, "grid_cell", number) as part:
            part.copy_rows(_GRID_CELL, _cell_rows(number, grid))
        with builds.filling(database, "location", number) as part:
            location = LOCATION.pack(
                build_id=number,
                location_id=np.arange(len(places)),
                x_m=places.x,
                y_m=places.y,
                tf=tf,
                geom=point_bytes(*places.in_source(), built.source_srid),
            )
            part.copy(LOCATION, [location])
        columns = zip(range(len(keys)), keys, own.lengths.tolist(), visited.tolist(), strict=True)
        with builds.filling(database, "trajectory", number) as part:
            part.copy_rows(_TRAJECTORY, ((number, *row) for row in columns))

    def write_beside_samples(whole: FiledPartition) -> None:
        with builds.filling(database, "segment", number) as part:
            part.copy(SEGMENT, _segment_chunks(number, built.srid, whole.filed))
        write_small()

    with progress.stage("write samples", own.samples) as stage:
        if filed.remote:
            run, reach = builds.create_large(database, number), DatabaseRef.of(database)
            parts = PerPartition(range(len(filed.ranges)))
            for rows in filed.map(_write_partition, reach, number, run, parts, built.srid):
                stage.advance(rows)
            with database.side_by_side(1) as start:
                start(write_small)
                builds.finish_large(database, number)
        else:
            (whole,) = filed
            with database.side_by_side(1) as start:
                start(write_beside_samples, whole)
                with builds.filling(database, "sample", number) as part:
                    part.copy(_sample_layout(own), _sample_chunks(number, own, stage))


def _write_partition(
    filed: FiledPartition, reach: DatabaseRef, build_id: int, run: int, part: int, srid: int
) -> int:
    """Write the samples and the segments of a partition; how many samples."""
    first, own = filed.partition.first, filed.partition.trajectories
    with Progress().stage("write samples") as stage:
        samples: Any = (_sample_layout(own), _sample_chunks(build_id, own, stage, first))
        segments: Any = (SEGMENT, _segment_chunks(build_id, srid, filed.filed, first))
        builds.write_range(reach.database(), build_id, run, part, samples, segments)
    return own.samples


def _sample_layout(trajectories: Trajectories) -> Layout:
    return SAMPLE if trajectories.kept is None else SAMPLE_KEPT


def _sample_chunks(
    number: int, trajectories: Trajectories, stage: Stage, first: int = 0
) -> Iterator[NDArray[Any]]:
    """Rows of `sample`; first: the number of the first trajectory."""
    owner, layout = trajectories.owner, _sample_layout(trajectories)
    for begin in range(0, trajectories.samples, _CHUNK):
        part = slice(begin, begin + _CHUNK)
        mine = owner[part]
        carried = {} if trajectories.kept is None else {"kept": trajectories.kept[part]}
        yield layout.pack(
            build_id=number,
            trajectory_id=mine + first,
            seq=np.arange(begin, begin + len(mine)) - trajectories.offsets[mine] + 1,
            location_id=trajectories.location[part],
            at=trajectories.at[part],
            **carried,
        )
        stage.advance(len(mine))


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
    filed = np.diff(grid.segment_offsets)
    columns = (grid.cell, levels_of(grid.cell), grid.box, grid.tree_box, filed, grid.tree_segments)
    for cell, level, box, tree_box, own, below in zip(*(c.tolist() for c in columns), strict=True):
        yield (number, cell, level, cell >> 2 or None, *box, *tree_box, own, below)
