"""Build a dataset: one consistent copy of the source, cleaned, projected, snapped and filed."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

import freqdp_db
from freqdp_db.columns.arrays import Metres
from freqdp_db.columns.build import Build
from freqdp_db.columns.ragged import offsets_of
from freqdp_db.columns.trajectories import Clock, Locations, Trajectories
from freqdp_db.dataset import cleaning
from freqdp_db.dataset.cleaning import Rows
from freqdp_db.dataset.findings import Findings, seen_times
from freqdp_db.dataset.making import Made, fingerprint, look, reference, require_rows
from freqdp_db.dataset.object_ranges import Read, place
from freqdp_db.dataset.projection import WGS84, ReferenceSystem, seen_degrees, transform, utm_srid
from freqdp_db.dataset.reading import Source, read_source
from freqdp_db.dataset.snapping import Snap, Snapped, snap_anchors, snap_exact, snap_grid
from freqdp_db.dataset.spread_building import make_spread
from freqdp_db.dataset.writing import write_build
from freqdp_db.engines.held import workers_in_use
from freqdp_db.frequency.counts import count_frequencies
from freqdp_db.progress import Progress
from freqdp_db.search.filing import file_trajectories
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.locks import hold
from freqdp_db.storage.records import builds
from freqdp_db.storage.records.accounts import require_traced
from freqdp_db.storage.records.datasets import DatasetRow


def build(database: Database, dataset: DatasetRow, progress: Progress) -> builds.BuildRow:
    """Read, clean, snap and write a new build, then make it the dataset's current one."""
    return build_and_look(database, dataset, progress)[0]


def build_and_look(
    database: Database, dataset: DatasetRow, progress: Progress
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
        workers = workers_in_use()
        made = (
            _make(database, dataset, number, progress)
            if workers is None
            else make_spread(workers, database, dataset, number, progress)
        )
        with progress.stage("attach"):
            builds.attach_build(database, _record(dataset, number, made), made.relations)
    builds.sweep_builds(database)
    return builds.find_build(database, number), made.findings


def _make(database: Database, dataset: DatasetRow, number: int, progress: Progress) -> Made:
    """All of it in this process."""
    source = read_source(database, dataset, progress)
    excluded = dict(source.excluded)
    with progress.stage("clean and snap", source.counted):
        built, keys = _discretise(database, dataset, source, excluded)
        samples = np.bincount(built.trajectories.location, minlength=len(built.locations))
        times = seen_times(built.trajectories.at, source.snapshot_at)
        findings = look(database, dataset, built, samples, times, source.epoch_unit)
    with progress.stage("file segments", built.trajectories.samples):
        frequencies = count_frequencies(built.trajectories, len(built.locations))
        index = file_trajectories(built.trajectories, built.locations, cut=False)
    write_build(database, number, built, keys, frequencies, index, progress)
    columns = (built.trajectories.location, built.trajectories.at)
    return Made(
        built,
        source.snapshot_at,
        source.time_unit,
        source.counted,
        excluded,
        len(index.segments),
        index.grid.frame,
        fingerprint(dataset, built, keys, columns),
        findings,
        source.relations,
    )


def _record(dataset: DatasetRow, number: int, made: Made) -> dict[str, Any]:
    """The row of `build`."""
    built = made.built
    return {
        "build_id": number,
        "dataset_id": dataset.dataset_id,
        "snapshot_at": made.snapshot_at,
        "rows": made.counted,
        "excluded": made.excluded,
        "trajectories": len(built.trajectories),
        "samples": built.trajectories.samples,
        "locations": len(built.locations),
        "segments": made.segments,
        "source_srid": dataset.source_srid,
        "srid": built.srid,
        "snap": dataset.snap,
        "time_unit": made.time_unit,
        "time_step_us": built.clock.step_us,
        "median_gap_us": built.clock.median_gap_us,
        "grid": asdict(made.frame),
        "fingerprint": made.fingerprint,
        "software": freqdp_db.__version__,
    }


def _discretise(
    database: Database, dataset: DatasetRow, source: Source, excluded: dict[str, int]
) -> tuple[Build, list[str]]:
    """Clean, project to metres, order and snap; also the objects' keys.

    Counts what is left out in `excluded`.
    """
    raw = reference(database, dataset.source_srid)
    rows = cleaning.drop_unusable(source.rows, raw.limits, excluded)
    require_rows(len(rows), excluded)
    srid = dataset.srid or _choose_srid(database, raw, rows)
    plane = reference(database, srid)
    placed = place(Read(source.keys, rows, {}), raw, plane)
    excluded |= placed.excluded
    rows = placed.rows
    require_rows(len(rows), excluded)
    snapped, source_x, source_y = _snap(
        database, dataset, source, rows, placed.x, placed.y, raw, plane
    )
    offsets = offsets_of(rows.object, len(placed.keys))
    step = cleaning.time_step(partial(cleaning.on_step, rows.at), len(rows))
    gaps = cleaning.gaps(rows.at, rows.object)
    median = float(np.median(gaps)) if len(gaps) else None
    places = snapped.locations
    built = Build(
        trajectories=Trajectories(offsets, snapped.of_row, rows.at, rows.at[offsets[:-1]]),
        locations=Locations(places.x, places.y, source_x, source_y),
        clock=Clock(step, cleaning.median_gap(median, step)),
        srid=srid,
        source_srid=dataset.source_srid,
        timezone=dataset.mapping.timezone,
    )
    return built, placed.keys


def _choose_srid(database: Database, raw: ReferenceSystem, rows: Rows) -> int:
    """The source's own system if it is in metres, else the UTM zone of the data."""
    if raw.metric:
        return raw.srid
    return utm_srid(seen_degrees(*transform(raw, reference(database, WGS84), rows.x, rows.y)))


def _snap(
    database: Database,
    dataset: DatasetRow,
    source: Source,
    rows: Rows,
    x: Metres,
    y: Metres,
    raw: ReferenceSystem,
    plane: ReferenceSystem,
) -> tuple[Snapped, Metres, Metres]:
    """Snap the rows; the locations also in the source's SRID, as a release shows them."""
    snap = Snap.parse(dataset.snap)
    if snap.kind == "grid":
        snapped = snap_grid(x, y, snap.metres)
        return snapped, *transform(plane, raw, snapped.locations.x, snapped.locations.y)
    if snap.kind == "exact":
        snapped = snap_exact(x, y)
        assert snapped.row is not None
        return snapped, rows.x[snapped.row], rows.y[snapped.row]
    assert source.anchors is not None
    anchor_x, anchor_y, srid = source.anchors
    own = reference(database, srid)
    snapped = snap_anchors(x, y, *transform(own, plane, anchor_x, anchor_y))
    assert snapped.anchor is not None
    chosen = snapped.anchor
    return snapped, *transform(own, raw, anchor_x[chosen], anchor_y[chosen])
