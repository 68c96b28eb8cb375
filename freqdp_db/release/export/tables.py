"""Tables and views of a release that are no trajectories, as CSV, GeoParquet and GeoPackage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from freqdp_db.dataset.projection import ReferenceSystem
from freqdp_db.db.published import ReleaseReader
from freqdp_db.progress import Stage
from freqdp_db.release.export.geo_files import Layers
from freqdp_db.release.export.notice import catalog_document

_ARROW = {
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp with time zone": pa.timestamp("us", tz="UTC"),
}
"""Types that files have, too; a geometry is WKB, and anything else is text."""


def write_table(
    format_name: str,
    path: Path,
    reader: ReleaseReader,
    table: str,
    system: ReferenceSystem | None,
    stage: Stage,
) -> int:
    """Write a table of a release; the number of its rows."""
    columns = reader.columns(table)
    schema = pa.schema([(name, _arrow_type(kind, format_name)) for name, kind in columns.items()])
    geometries = [name for name, kind in columns.items() if "geometry(" in kind]
    batches = _batches(reader, table, schema, format_name)
    if format_name == "gpkg":
        column = geometries[0] if geometries else None
        shape = "Unknown" if column is None else _shape(columns[column])
        return Layers(path, reader, system).write(table, shape, schema, batches, stage, column)
    rows = 0
    if format_name == "csv":
        with pa_csv.CSVWriter(path, schema) as writer:
            for batch in batches:
                writer.write(batch)
                rows += len(batch)
                stage.advance(len(batch))
        return rows
    metadata = {"freqdp": json.dumps(catalog_document(reader.catalog))}
    if geometries and system is not None:
        shapes = {name: _shape(columns[name]) for name in geometries}
        metadata["geo"] = json.dumps(_geo_metadata(shapes, system))
    schema = schema.with_metadata(metadata)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch.cast(schema))
            rows += len(batch)
            stage.advance(len(batch))
    return rows


def _shape(kind: str) -> str:
    """Of a type such as `public.geometry(MultiPolygon,4326)`."""
    return kind.partition("geometry(")[2].partition(",")[0]


def _arrow_type(kind: str, format_name: str) -> pa.DataType:
    if "geometry(" in kind:
        return pa.string() if format_name == "csv" else pa.binary()
    return _ARROW.get(kind, pa.string())


def _batches(
    reader: ReleaseReader, table: str, schema: pa.Schema, format_name: str
) -> Iterator[pa.RecordBatch]:
    def shown(kind: str) -> LiteralString:
        if "geometry(" in kind:
            return "{text}({})" if format_name == "csv" else "{wkb}({})"
        return "{}" if kind in _ARROW else "{}::text"

    with closing(reader.rows(table, shown)) as chunks:
        for rows in chunks:
            values = [list(column) for column in zip(*rows, strict=True)]
            arrays = [pa.array(v, field.type) for v, field in zip(values, schema, strict=True)]
            yield pa.record_batch(arrays, schema=schema)


def _geo_metadata(shapes: dict[str, str], system: ReferenceSystem) -> dict[str, Any]:
    crs = system.crs.to_json_dict()
    return {
        "version": "1.1.0",
        "primary_column": next(iter(shapes)),
        "columns": {
            name: {"encoding": "WKB", "geometry_types": [shape], "crs": crs}
            for name, shape in shapes.items()
        },
    }
