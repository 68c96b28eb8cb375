"""Build a dataset: one consistent copy of the source, cleaned, projected, snapped and filed.

Each partition of the source's objects is read, cleaned, snapped, filed and written where the engine keeps
it. What has to be the same everywhere (the system of metres, the numbers of the places, the frame of the
grid, the clock) is decided here, from what is counted in the partitions.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

import freqdp_db
from freqdp_db.dataset import cleaning
from freqdp_db.dataset import writing as of
from freqdp_db.dataset.cleaning import REASONS, TIME_UNITS
from freqdp_db.dataset.findings import Findings, SeenTimes, look_at, moment
from freqdp_db.dataset.projection import WGS84, ReferenceSystem, transform, utm_srid
from freqdp_db.dataset.reading import RawRows, Source, read_source, rows_of
from freqdp_db.dataset.snapping import Snap, merge_cells, snap_anchors, snap_exact
from freqdp_db.dataset.writing import ProjectedRows, write_build
from freqdp_db.db import builds
from freqdp_db.db.builds import Window, missing_index, window_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.db.ledger import require_traced
from freqdp_db.db.locks import hold
from freqdp_db.db.source import definition_of
from freqdp_db.engines.partitions import LOCAL, Engine, LocalPartitions, Partitions, PerPartition
from freqdp_db.engines.ranges import add
from freqdp_db.errors import BadData, BadInput, Remark
from freqdp_db.methods.frequency.partition import Partition, tf_of, trajectories_in
from freqdp_db.model.arrays import Ids, Ints
from freqdp_db.model.trajectories import Build, Clock, Locations
from freqdp_db.progress import Progress
from freqdp_db.search.grid import Frame, choose_frame, merge_grids

_ANY_ZONE = 32631


@dataclass(frozen=True)
class BuildResult:
    """A build whose tables are filled, and what is recorded of it."""

    built: Build
    source: Source
    excluded: dict[str, int]
    segments: int
    frame: Frame
    fingerprint: str
    findings: Findings


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
    """The same, and what was found in the source."""
    number = builds.next_build_number(database)
    with (
        hold(database, "dataset", dataset.dataset_id, f"dataset {dataset.name!r}"),
        hold(database, "build", number, f"build {number}"),
    ):
        builds.sweep_builds(database)
        # refused before anything is read; what the source meets is recorded with the build
        with database.begin() as connection, connection.begin_nested() as asked:
            require_traced(connection, database, dataset.dataset_id)
            asked.rollback()
        made = _make(database, dataset, number, progress, engine, window)
        with progress.stage("attach"):
            record = _record(dataset, number, made, window)
            builds.attach_build(database, record, made.source.relations)
    builds.sweep_builds(database)
    return builds.find_build(database, number), made.findings


def _make(
    database: Database,
    dataset: DatasetRow,
    number: int,
    progress: Progress,
    engine: Engine,
    window: Window | None,
) -> BuildResult:
    if engine.remote and Snap.parse(dataset.snap).kind != "grid":
        raise BadInput(
            f"[[engine]] dask cannot build with [[snap]] {dataset.snap}: only cells of a grid can be "
            "numbered without all positions in one process",
            remedy="use [[engine]] threads, or add the dataset with [[snap]] grid:METRES",
        )
    with ExitStack() as reading:
        connection = reading.enter_context(database.begin(snapshot=True))
        source, read = read_source(engine, connection, database, dataset, progress, window)
        if not engine.remote:
            # workers may have to read again, if one of them is lost
            reading.close()
        excluded = source.counts.excluded()
        with progress.stage("clean and snap", source.counts.rows):
            built, keys, partitions = _discretise(
                database, dataset, source, read, excluded, may_be_empty=window is not None
            )
        # nobody keeps the rows as they were read
        del read
        with progress.stage("file segments", built.trajectories.samples):
            tf, used = (add(list(partitions.map(each))) for each in (tf_of, of.used_of))
            visited = np.concatenate(list(partitions.map(of.visited_of)))
            frame = choose_frame(built.locations, used)
            filed = partitions.map(of.file_partition, frame)
            segments = sum(filed.map(of.segments_of))
            grid = reduce(merge_grids, filed.map(of.grid_of))
        write_build(database, number, built, keys, tf, visited, filed, grid, progress)
        hashed = _fingerprint(dataset, built, keys, _columns(partitions), window)
        seen = [t for t in partitions.map(of.times_of, source.snapshot_at) if t is not None]
        if window is not None and not seen:
            seen = [SeenTimes(moment(window.window_begin), moment(window.window_end), 0, 0)]
        times = reduce(operator.add, seen)
        findings = _inspect(database, dataset, built, used, times, source.epoch_unit)
        if window is not None:
            findings = replace(
                findings, warnings=[*findings.warnings, *_unindexed(database, dataset)]
            )
    return BuildResult(built, source, excluded, segments, frame, hashed, findings)


def _unindexed(database: Database, dataset: DatasetRow) -> list[Remark]:
    """A warning where a window cannot be found without reading everything."""
    source, time = (dataset.source_schema, dataset.source_relation), dataset.mapping.time
    with database.begin() as connection:
        index = missing_index(connection, database, source, time)
    if index is None:
        return []
    return [
        Remark(
            f"{dataset.source} has no index that begins with {time}: a window costs as much to read as "
            f"all of it. Its owner can: {index}"
        )
    ]


def _record(
    dataset: DatasetRow, number: int, made: BuildResult, window: Window | None
) -> dict[str, Any]:
    """The row of `build`."""
    built = made.built
    return {
        "build_id": number,
        "dataset_id": dataset.dataset_id,
        "snapshot_at": made.source.snapshot_at,
        "rows": made.source.counts.rows,
        "excluded": made.excluded,
        "trajectories": len(built.trajectories),
        "samples": built.trajectories.samples,
        "locations": len(built.locations),
        "segments": made.segments,
        "source_srid": dataset.source_srid,
        "srid": built.srid,
        "snap": dataset.snap,
        "time_unit": made.source.time_unit,
        "time_step_us": built.clock.step_us,
        "median_gap_us": built.clock.median_gap_us,
        "grid": asdict(made.frame),
        "fingerprint": made.fingerprint,
        "software": freqdp_db.__version__,
        "time_window": None if window is None else window.time_window,
        "window_begin": None if window is None else window.window_begin,
        "window_end": None if window is None else window.window_end,
    }


def _discretise(
    database: Database,
    dataset: DatasetRow,
    source: Source,
    read: Partitions[RawRows],
    excluded: dict[str, int],
    *,
    may_be_empty: bool,
) -> tuple[Build, list[str], Partitions[Partition]]:
    """Clean, project to metres, order and snap; also the objects' keys.

    Counts what is left out in `excluded`.
    """
    raw = _reference(database, dataset.source_srid)
    usable = read.map(of.drop_unusable, raw)
    _require_rows(usable, excluded, may_be_empty=may_be_empty)
    srid = dataset.srid or _choose_srid(database, raw, usable)
    plane = _reference(database, srid)
    projected = usable.map(of.project, raw, plane)
    rows = _require_rows(projected, excluded, may_be_empty=may_be_empty)
    places, location = _snap(database, dataset, source, projected, raw, plane)
    keys = list(projected.map(of.keys_of))
    first = np.cumsum([0, *(len(own) for own in keys)]).tolist()
    step = cleaning.time_step(lambda us: sum(projected.map(of.on_step_of, us)), rows)
    gap, times = reduce(of.merge_counted, projected.map(of.gaps_of))
    median = cleaning.median_of_counted(gap, times) if len(gap) else None
    partitions = projected.map(of.as_partition, location, PerPartition(first[:-1]), places)
    built = Build(
        trajectories=trajectories_in(partitions),
        locations=places,
        clock=Clock(step, cleaning.median_gap(median, step)),
        srid=srid,
        source_srid=dataset.source_srid,
        timezone=dataset.mapping.timezone,
    )
    return built, [key for own in keys for key in own], partitions


def _require_rows(
    partitions: Partitions[Any], excluded: dict[str, int], *, may_be_empty: bool
) -> int:
    """How many rows are left; raises BadData if there are none. Adds up what was left out."""
    for own in partitions.map(of.excluded_of):
        for reason, rows in own.items():
            excluded[reason] = excluded.get(reason, 0) + rows
    left = sum(partitions.map(rows_of))
    if left == 0 and not may_be_empty:
        reasons = ", ".join(f"{n:,} {REASONS[r]}" for r, n in excluded.items() if n)
        raise BadData(
            f"no row can be used: {reasons}",
            remedy="check the column mapping (are [[lon]] and [[lat]] swapped? Numbers in metres are "
            "named with [[x]], [[y]] and [[srid]]; lines are taken apart with ST_DumpPoints in a view)",
        )
    return left


def _reference(database: Database, srid: int) -> ReferenceSystem:
    with database.begin() as connection:
        return ReferenceSystem.parse(srid, definition_of(connection, srid, "SRID"))


def _choose_srid(database: Database, raw: ReferenceSystem, partitions: Partitions[RawRows]) -> int:
    """The source's own system if it is in metres, else the UTM zone of the data."""
    if raw.metric:
        return raw.srid
    seen = add(list(partitions.map(of.degrees_of, raw, _reference(database, WGS84))))
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
        cells = reduce(merge_cells, projected.map(of.cells_of_partition, snap.metres)).numbered()
        centres = cells.locations(snap.metres)
        places = Locations(centres.x, centres.y, *transform(plane, raw, centres.x, centres.y))
        return places, projected.map(of.places_in, cells, snap.metres)
    (whole,) = projected
    if snap.kind == "exact":
        snapped = snap_exact(whole.x, whole.y)
        assert snapped.row is not None
        shown = whole.rows.x[snapped.row], whole.rows.y[snapped.row]
    else:
        assert source.anchors is not None
        x, y, srid = source.anchors
        own = _reference(database, srid)
        snapped = snap_anchors(whole.x, whole.y, *transform(own, plane, x, y))
        assert snapped.anchor is not None
        shown = transform(own, raw, x[snapped.anchor], y[snapped.anchor])
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
    raw = _reference(database, dataset.source_srid)
    lon, lat = transform(raw, _reference(database, WGS84), *built.locations.in_source())
    mapping = dataset.mapping
    return look_at(
        lon,
        lat,
        samples,
        times,
        built.trajectories.lengths,
        timezone=mapping.timezone,
        epoch_unit=None if epoch_unit is None else TIME_UNITS[epoch_unit],
        columns=(mapping.lon, mapping.lat)
        if raw.geographic and mapping.lon and mapping.lat
        else None,
        region=dataset.region,
        utm_srid=built.srid if dataset.srid is None and not raw.metric else None,
    )


def _fingerprint(
    dataset: DatasetRow,
    built: Build,
    keys: list[str],
    samples: Iterable[NDArray[Any]],
    window: Window | None,
) -> str:
    """A hash of everything in a build. samples: the column of places, then that of times.

    Two windows are never the same request, also if neither has a row.
    """
    which = "" if window is None else f" {window.time_window}"
    digest = hashlib.sha256(f"{dataset.snap} {dataset.source_srid} {built.srid}{which}".encode())
    for key in keys:
        digest.update(f"{len(key)} {key}".encode())
    for column in (built.locations.x, built.locations.y, built.trajectories.offsets):
        digest.update(np.ascontiguousarray(column).view(np.uint8).data)
    for column in samples:
        digest.update(np.ascontiguousarray(column).view(np.uint8).data)
    return digest.hexdigest()


def _columns(partitions: Partitions[Partition]) -> Iterator[NDArray[Any]]:
    """The places of all samples, then their times, one partition after the other."""
    yield from partitions.map(of.location_of)
    yield from partitions.map(of.at_of)
