"""A release as OGC Moving Features JSON: a feature for each trajectory.

Each has its positions and their times (`temporalGeometry`), which MobilityDB and movingpandas read, and the
line through them (`geometry`) for programs that know GeoJSON alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from freqdp_db.dataset.projection import WGS84, ReferenceSystem
from freqdp_db.db.published import Extent, ReleaseReader, Samples
from freqdp_db.errors import BadInput
from freqdp_db.progress import Progress
from freqdp_db.release.export.notice import catalog_document


def moving_feature_columns(system: ReferenceSystem, areas: bool) -> list[str]:
    return ["trajectory_id", "datetimes", "coordinates"]


def write_moving_features(
    path: Path, reader: ReleaseReader, extent: Extent, system: ReferenceSystem, progress: Progress
) -> int:
    """Write the file; the number of samples that were read.

    The format wants times of a feature to increase: of samples with one time, the first is written.
    Nothing is said of what lies between two samples, so interpolation is Discrete.
    """
    if reader.has_areas:
        raise BadInput(
            f"[[format]] mfjson: release {reader.catalog['name']!r} has areas, not positions",
            remedy="use [[format]] geoparquet, gpkg or csv",
        )
    code = system.crs.to_authority()
    name = "urn:ogc:def:crs:OGC:1.3:CRS84"
    if system.srid != WGS84:
        name = f"urn:ogc:def:crs:{code[0]}::{code[1]}" if code else system.crs.name
    head = {
        "type": "FeatureCollection",
        "crs": {"type": "Name", "properties": {"name": name}},
        "trs": {"type": "Name", "properties": {"name": "urn:ogc:data:time:iso8601"}},
        "properties": {"freqdp": catalog_document(reader.catalog)},
    }
    rows = 0
    with (
        path.open("w", encoding="utf-8") as file,
        progress.stage("export samples", extent.rows) as stage,
        closing(reader.samples()) as chunks,
    ):
        file.write(json.dumps(head, ensure_ascii=False)[:-1] + ', "features": [')
        first = True
        for samples in whole_trajectories(chunks):
            for feature in _features(samples):
                file.write(("\n" if first else ",\n") + json.dumps(feature))
                first = False
            rows += len(samples)
            stage.advance(len(samples))
        file.write("\n]}\n")
    return rows


def whole_trajectories(chunks: Iterator[Samples]) -> Iterator[Samples]:
    """The same samples, cut where trajectories end."""
    rest: Samples | None = None
    for chunk in chunks:
        joined = chunk if rest is None else _join(rest, chunk)
        last = int(np.searchsorted(joined.trajectory_id, joined.trajectory_id[-1]))
        if last:
            yield _part(joined, 0, last)
        rest = _part(joined, last, len(joined))
    if rest is not None:
        yield rest


_COLUMNS = ("trajectory_id", "seq", "at_us", "x", "y")


def _join(one: Samples, other: Samples) -> Samples:
    columns: dict[str, Any] = {
        c: np.concatenate([getattr(one, c), getattr(other, c)]) for c in _COLUMNS
    }
    return replace(one, **columns)


def _part(samples: Samples, first: int, last: int) -> Samples:
    return replace(samples, **{c: getattr(samples, c)[first:last] for c in _COLUMNS})


def _features(samples: Samples) -> Iterator[dict[str, Any]]:
    begins = np.flatnonzero(np.diff(samples.trajectory_id, prepend=samples.trajectory_id[0] - 1))
    for first, last in zip(begins, np.append(begins[1:], len(samples)), strict=True):
        at = samples.at_us[first:last]
        fresh = np.flatnonzero(np.diff(at, prepend=at[0] - 1) > 0) + first
        coordinates = np.column_stack([samples.x[fresh], samples.y[fresh]]).tolist()
        times = np.datetime_as_string(samples.at_us[fresh].view("datetime64[us]"), timezone="UTC")
        single = len(fresh) == 1
        yield {
            "type": "Feature",
            "properties": {"trajectory_id": int(samples.trajectory_id[first])},
            "geometry": {
                "type": "Point" if single else "LineString",
                "coordinates": coordinates[0] if single else coordinates,
            },
            "temporalGeometry": {
                "type": "MovingPoint",
                "interpolation": "Discrete",
                "datetimes": [str(time).replace(".000000Z", "Z") for time in times],
                "coordinates": coordinates,
            },
        }
