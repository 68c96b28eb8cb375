"""A release as GeoParquet."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from freqdp_db.dataset.projection import ReferenceSystem
from freqdp_db.progress import Progress
from freqdp_db.release.export import geometries
from freqdp_db.release.export.notice import catalog_document
from freqdp_db.storage.published.reading import Extent, ReleaseReader


def geoparquet_columns(system: ReferenceSystem, areas: bool) -> list[str]:
    more = ["area", "during_begin", "during_end"] if areas else []
    return ["trajectory_id", "seq", "at", "geometry", *more]


def write_geoparquet(
    path: Path, reader: ReleaseReader, extent: Extent, system: ReferenceSystem, progress: Progress
) -> int:
    """GeoParquet 1.1: WKB points; a row group for every buffer that is read, about 130,000 rows."""
    moment = pa.timestamp("us", tz="UTC")
    kinds = [pa.int64(), pa.int32(), moment, pa.binary(), pa.binary(), moment, moment]
    names = geoparquet_columns(system, reader.has_areas)
    schema = pa.schema(
        [pa.field(name, kind, nullable=False) for name, kind in zip(names, kinds, strict=False)],
        metadata={
            "geo": json.dumps(_geo_metadata(extent, system, reader.has_areas)),
            "freqdp": json.dumps(catalog_document(reader.catalog)),
        },
    )
    rows = 0
    with (
        pq.ParquetWriter(path, schema, compression="zstd") as writer,
        progress.stage("export samples", extent.rows) as stage,
        closing(reader.samples()) as chunks,
    ):
        for samples in chunks:
            columns = [
                pa.array(samples.trajectory_id),
                pa.array(samples.seq.astype(np.int32)),
                pa.array(samples.at_us).view(moment),
                geometries.points(samples.x, samples.y),
            ]
            if (areas := samples.areas) is not None:
                columns.append(geometries.boxes(areas))
                columns += [pa.array(t).view(moment) for t in (areas.begin_us, areas.end_us)]
            writer.write_batch(pa.record_batch(columns, schema=schema))
            rows += len(samples)
            stage.advance(len(samples))
    return rows


def _geo_metadata(extent: Extent, system: ReferenceSystem, areas: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {
        name: {
            "encoding": "WKB",
            "geometry_types": [kind],
            "crs": system.crs.to_json_dict(),
            **({} if extent.box is None else {"bbox": list(extent.box)}),
        }
        for name, kind in (("geometry", "Point"), ("area", "Polygon"))[: 1 + areas]
    }
    # readers that show one geometry show the areas: the points are only their middles
    return {
        "version": "1.1.0",
        "primary_column": "area" if areas else "geometry",
        "columns": columns,
    }
