"""Build a dataset: one consistent copy of the source, cleaned, projected, snapped and filed."""

from __future__ import annotations

import hashlib
from dataclasses import asdict

import numpy as np

import freqdp_db
from freqdp_db.columns.arrays import Metres
from freqdp_db.columns.build import Build
from freqdp_db.columns.ragged import offsets_of
from freqdp_db.columns.trajectories import Clock, Locations, Trajectories
from freqdp_db.dataset import cleaning
from freqdp_db.dataset.cleaning import Rows
from freqdp_db.dataset.findings import Findings, look_at
from freqdp_db.dataset.projection import ReferenceSystem, transform, utm_srid
from freqdp_db.dataset.reading import Source, read_source
from freqdp_db.dataset.snapping import Snap, Snapped, snap_anchors, snap_exact, snap_grid
from freqdp_db.dataset.writing import write_build
from freqdp_db.errors import BadData
from freqdp_db.frequency.counts import count_frequencies
from freqdp_db.progress import Progress
from freqdp_db.search.filing import file_trajectories
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.locks import hold
from freqdp_db.storage.records import builds
from freqdp_db.storage.records.datasets import DatasetRow
from freqdp_db.storage.schema.upgrade import names_of
from freqdp_db.storage.source.reference import definition_of

_WGS84 = 4326


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
        source = read_source(database, dataset, progress)
        excluded = dict(source.excluded)
        with progress.stage("clean and snap", source.counted):
            built, keys = _discretise(database, dataset, source, excluded)
            findings = _look(database, dataset, source, built)
        with progress.stage("file segments", built.trajectories.samples):
            frequencies = count_frequencies(built.trajectories, len(built.locations))
            index = file_trajectories(built.trajectories, built.locations, cut=False)
        write_build(database, number, built, keys, frequencies, index, progress)
        with progress.stage("attach"):
            builds.attach_build(
                database,
                {
                    "build_id": number,
                    "dataset_id": dataset.dataset_id,
                    "snapshot_at": source.snapshot_at,
                    "rows": source.counted,
                    "excluded": excluded,
                    "trajectories": len(built.trajectories),
                    "samples": built.trajectories.samples,
                    "locations": len(built.locations),
                    "segments": len(index.segments),
                    "source_srid": dataset.source_srid,
                    "srid": built.srid,
                    "snap": dataset.snap,
                    "time_step_us": built.clock.step_us,
                    "median_gap_us": built.clock.median_gap_us,
                    "grid": asdict(index.grid.frame),
                    "fingerprint": _fingerprint(dataset, built, keys),
                    "software": freqdp_db.__version__,
                },
            )
    builds.sweep_builds(database)
    return builds.find_build(database, number), findings


def _look(database: Database, dataset: DatasetRow, source: Source, built: Build) -> Findings:
    """Where and when it lies, and what looks wrong."""
    raw = _reference(database, dataset.source_srid)
    lon, lat = transform(raw, _reference(database, _WGS84), *built.locations.in_source())
    mapping = dataset.mapping
    return look_at(
        lon,
        lat,
        np.bincount(built.trajectories.location, minlength=len(built.locations)),
        built.trajectories.at,
        timezone=mapping.timezone,
        epoch_unit=source.epoch_unit,
        columns=(mapping.lon, mapping.lat)
        if raw.geographic and mapping.lon and mapping.lat
        else None,
        region=dataset.region,
        utm_srid=built.srid if dataset.srid is None and not raw.metric else None,
        read_at=source.snapshot_at,
    )


def _discretise(
    database: Database, dataset: DatasetRow, source: Source, excluded: dict[str, int]
) -> tuple[Build, list[str]]:
    """Clean, project to metres, order and snap; also the objects' keys.

    Counts what is left out in `excluded`.
    """
    raw = _reference(database, dataset.source_srid)
    rows = cleaning.drop_unusable(source.rows, raw.geographic, excluded)
    _require_rows(rows, excluded)
    srid = dataset.srid or _choose_srid(database, raw, rows)
    plane = _reference(database, srid)
    rows = cleaning.sort_rows(rows)
    rows = cleaning.drop_repeats(rows, excluded)
    x, y = transform(raw, plane, rows.x, rows.y)
    inside = np.isfinite(x) & np.isfinite(y)
    excluded["outside_projection"] = int((~inside).sum())
    if not inside.all():
        rows, x, y = rows.take(inside), x[inside], y[inside]
    _require_rows(rows, excluded)
    snapped, source_x, source_y = _snap(database, dataset, source, rows, x, y, raw, plane)
    present, owner = np.unique(rows.object, return_inverse=True)
    offsets = offsets_of(owner, len(present))
    step = cleaning.time_step(rows.at)
    places = snapped.locations
    built = Build(
        trajectories=Trajectories(offsets, snapped.of_row, rows.at, rows.at[offsets[:-1]]),
        locations=Locations(places.x, places.y, source_x, source_y),
        clock=Clock(step, cleaning.median_gap(rows.at, owner, step)),
        srid=srid,
        source_srid=dataset.source_srid,
        timezone=dataset.mapping.timezone,
    )
    return built, [source.keys[k] for k in present]


def _require_rows(rows: Rows, excluded: dict[str, int]) -> None:
    if len(rows) == 0:
        reasons = ", ".join(f"{n:,} {cleaning.REASONS[r]}" for r, n in excluded.items() if n)
        raise BadData(
            f"no row can be used: {reasons}",
            remedy="check the column mapping (are --lon and --lat swapped?)",
        )


def _reference(database: Database, srid: int) -> ReferenceSystem:
    with database.begin() as connection:
        postgis = names_of(connection, database).postgis
        return ReferenceSystem.parse(srid, definition_of(connection, postgis, srid, "SRID"))


def _choose_srid(database: Database, raw: ReferenceSystem, rows: Rows) -> int:
    """The source's own system if it is in metres, else the UTM zone of the data."""
    if raw.metric:
        return raw.srid
    if raw.srid == _WGS84:
        return utm_srid(rows.x, rows.y)
    lon, lat = transform(raw, _reference(database, _WGS84), rows.x, rows.y)
    known = np.isfinite(lon) & np.isfinite(lat)
    if not known.any():
        raise BadData(f"no position can be read in SRID {raw.srid}", remedy="give --srid")
    return utm_srid(lon[known], lat[known])


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
        return snapped, rows.x[snapped.row], rows.y[snapped.row]
    assert source.anchors is not None
    anchor_x, anchor_y, srid = source.anchors
    own = _reference(database, srid)
    snapped = snap_anchors(x, y, *transform(own, plane, anchor_x, anchor_y))
    assert snapped.anchor is not None
    chosen = snapped.anchor
    return snapped, *transform(own, raw, anchor_x[chosen], anchor_y[chosen])


def _fingerprint(dataset: DatasetRow, built: Build, keys: list[str]) -> str:
    digest = hashlib.sha256(f"{dataset.snap} {dataset.source_srid} {built.srid}".encode())
    for key in keys:
        digest.update(f"{len(key)} {key}".encode())
    for column in (
        built.locations.x,
        built.locations.y,
        built.trajectories.offsets,
        built.trajectories.location,
        built.trajectories.at,
    ):
        digest.update(np.ascontiguousarray(column).view(np.uint8).data)
    return digest.hexdigest()
