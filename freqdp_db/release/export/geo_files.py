"""A release as a GeoPackage, written by GDAL (pyogrio), or as GeoParquet."""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
from numpy.typing import NDArray

from freqdp_db.dataset.projection import ReferenceSystem
from freqdp_db.db.published import Extent, ReadAreas, ReleaseReader
from freqdp_db.errors import BadInput
from freqdp_db.model.arrays import Ints, Metres
from freqdp_db.progress import Progress, Stage
from freqdp_db.release.export.notice import catalog_document

# Geometries of a release as files have them: WKB, one column of Arrow.


_WKB_POINT = np.dtype([("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])
_WKB_BOX = np.dtype(
    [("order", "u1"), ("type", "<u4"), ("rings", "<u4"), ("points", "<u4"),
     ("corners", "<f8", (5, 2))]
)  # fmt: skip


def points(x: Metres, y: Metres) -> Any:
    found = np.empty(len(x), _WKB_POINT)
    found["order"], found["type"], found["x"], found["y"] = 1, 1, x, y
    return _binary(found)


def boxes(areas: ReadAreas) -> Any:
    """Polygons, their corners from the south-west, around by the east."""
    found = np.empty(len(areas.x_min), _WKB_BOX)
    found["order"], found["type"], found["rings"], found["points"] = 1, 3, 1, 5
    corners = found["corners"]
    corners[:, :, 0] = np.column_stack(
        [areas.x_min, areas.x_max, areas.x_max, areas.x_min, areas.x_min]
    )
    corners[:, :, 1] = np.column_stack(
        [areas.y_min, areas.y_min, areas.y_max, areas.y_max, areas.y_min]
    )
    return _binary(found)


def _binary(records: NDArray[Any]) -> Any:
    """Records of one width as a binary column."""
    ends = np.arange(len(records) + 1, dtype=np.int32) * records.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(records.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(records), buffers)


_MOMENT = pa.timestamp("ms", tz="UTC")
_KEY = [("geom", pa.binary()), ("trajectory_id", pa.int64())]
_SAMPLES = pa.schema([*_KEY, ("seq", pa.int32()), ("at", _MOMENT), ("at_us", pa.int64())])
_AREAS = pa.schema([*_KEY, ("seq", pa.int32()), ("during_begin", _MOMENT), ("during_end", _MOMENT)])
_LINES = pa.schema([*_KEY, ("day", pa.date32())])
_LINES_A_BATCH = 500


def geopackage_columns(system: ReferenceSystem, areas: bool) -> list[str]:
    during = ["during_begin", "during_end"] if areas else []
    return ["fid", *_SAMPLES.names, *during]


def write_geopackage(
    path: Path, reader: ReleaseReader, extent: Extent, system: ReferenceSystem, progress: Progress
) -> int:
    """Write layers `samples` and `lines`, and `areas` where there are some; the number of samples.

    The format keeps times in milliseconds: `at_us` has the exact one, in microseconds since 1970.
    """
    layers = Layers(path, reader, system)
    # programs open the first layer
    if reader.has_areas:
        with progress.stage("export areas", extent.rows) as stage:
            layers.write("areas", "Polygon", _AREAS, _areas(reader), stage)
    with progress.stage("export samples", extent.rows) as stage:
        rows = layers.write("samples", "Point", _SAMPLES, _samples(reader), stage)
    with progress.stage("export lines", unit="lines") as stage:
        layers.write("lines", "LineString", _LINES, _lines(reader), stage)
    with progress.stage("index"), closing(sqlite3.connect(path)) as file:
        for layer in ("areas", "samples")[not reader.has_areas :]:
            file.execute(f"CREATE UNIQUE INDEX {layer}_trajectory ON {layer} (trajectory_id, seq)")
        # pyogrio has no name for lines with M, and GDAL then calls it optional
        file.execute("UPDATE gpkg_geometry_columns SET m = 1 WHERE table_name = 'lines'")
        file.execute("CREATE UNIQUE INDEX lines_trajectory ON lines (trajectory_id, day)")
        file.commit()
    return rows


class Layers:
    """The file, to which layers are added one after the other."""

    def __init__(self, path: Path, reader: ReleaseReader, system: ReferenceSystem | None) -> None:
        self._path, self._catalog = path, reader.catalog
        try:
            self._crs = None if system is None else system.crs.to_wkt("WKT1_GDAL")
        except pyproj.exceptions.CRSError:
            raise BadInput(
                f"[[format]] gpkg: SRID {reader.srid} cannot be written in this format",
                remedy="use [[format]] geoparquet or csv",
            ) from None

    def write(
        self,
        layer: str,
        geometry: str,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        stage: Stage,
        column: str | None = "geom",
    ) -> int:
        """Write a layer; the number of its rows. column: of its geometry; None: it has none."""
        import pyogrio  # loads GDAL, which no other command needs

        name = self._catalog["name"]
        rows = 0
        failure: BaseException | None = None

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal rows, failure
            try:
                for batch in batches:
                    yield batch
                    rows += len(batch)
                    stage.advance(len(batch))
            except BaseException as error:
                failure = error
                raise

        try:
            with warnings.catch_warnings():
                # GDAL does not like names that do not end in .gpkg
                warnings.simplefilter("ignore", RuntimeWarning)
                pyogrio.write_arrow(
                    pa.RecordBatchReader.from_batches(schema, counted()),
                    self._path,
                    layer=layer,
                    driver="GPKG",
                    geometry_name=column,
                    geometry_type=None if column is None else geometry,
                    crs=self._crs,
                    layer_options={
                        "identifier": name if layer == "samples" else f"{name} ({layer})",
                        "description": self._catalog["guarantee"]["plain"],
                    },
                )
        except Exception as error:
            # what was raised in a generator comes back as an error of Arrow's
            if failure is not None:
                raise failure from None
            if isinstance(error, pyogrio.errors.DataSourceError | pyogrio.errors.DataLayerError):
                raise OSError(str(error)) from None
            raise
        return rows


def _samples(reader: ReleaseReader) -> Iterator[pa.RecordBatch]:
    with closing(reader.samples()) as chunks:
        for s in chunks:
            columns = [s.trajectory_id, s.seq.astype("i4"), s.at_us // 1000, s.at_us]
            yield _batch(_SAMPLES, points(s.x, s.y), columns)


def _areas(reader: ReleaseReader) -> Iterator[pa.RecordBatch]:
    with closing(reader.samples()) as chunks:
        for s in chunks:
            assert s.areas is not None, "the release has areas"
            during = [s.areas.begin_us // 1000, s.areas.end_us // 1000]
            columns = [s.trajectory_id, s.seq.astype("i4"), *during]
            yield _batch(_AREAS, boxes(s.areas), columns)


def _lines(reader: ReleaseReader) -> Iterator[pa.RecordBatch]:
    with closing(reader.lines()) as lines:
        while some := list(islice(lines, _LINES_A_BATCH)):
            trajectory, day, wkb = zip(*some, strict=True)
            yield pa.record_batch([list(wkb), list(trajectory), list(day)], schema=_LINES)


def _batch(schema: pa.Schema, geometry: pa.Array, columns: Sequence[Ints]) -> pa.RecordBatch:
    arrays = [
        pa.array(c).view(field.type) for c, field in zip(columns, list(schema)[1:], strict=True)
    ]
    return pa.record_batch([geometry, *arrays], schema=schema)


# A release as GeoParquet.


_SIDES = ("xmin", "ymin", "xmax", "ymax")
_BOX = pa.struct([pa.field(side, pa.float64(), nullable=False) for side in _SIDES])


def geoparquet_columns(system: ReferenceSystem, areas: bool) -> list[str]:
    more = ["area", "during_begin", "during_end"] if areas else []
    return ["trajectory_id", "seq", "at", "geometry", *more, "bbox"]


def write_geoparquet(
    path: Path, reader: ReleaseReader, extent: Extent, system: ReferenceSystem, progress: Progress
) -> int:
    """GeoParquet 1.1: WKB points with a covering column of boxes.

    Rows are in order of the day and of the Hilbert curve, a row group for every buffer that is read, about
    130,000 rows: who asks for a place and a time reads few of them.
    """
    moment = pa.timestamp("us", tz="UTC")
    during = [pa.binary(), moment, moment] if reader.has_areas else []
    kinds = [pa.int64(), pa.int32(), moment, pa.binary(), *during, _BOX]
    names = geoparquet_columns(system, reader.has_areas)
    schema = pa.schema(
        [pa.field(name, kind, nullable=False) for name, kind in zip(names, kinds, strict=True)],
        metadata={
            "geo": json.dumps(_geo_metadata(extent, system, reader.has_areas)),
            "freqdp": json.dumps(catalog_document(reader.catalog)),
        },
    )
    rows = 0
    with (
        pq.ParquetWriter(path, schema, compression="zstd") as writer,
        progress.stage("export samples", extent.rows) as stage,
        closing(reader.samples(by_place=True)) as chunks,
    ):
        for samples in chunks:
            columns = [
                pa.array(samples.trajectory_id),
                pa.array(samples.seq.astype(np.int32)),
                pa.array(samples.at_us).view(moment),
                points(samples.x, samples.y),
            ]
            sides = [samples.x, samples.y, samples.x, samples.y]
            if (areas := samples.areas) is not None:
                columns.append(boxes(areas))
                columns += [pa.array(t).view(moment) for t in (areas.begin_us, areas.end_us)]
                sides = [areas.x_min, areas.y_min, areas.x_max, areas.y_max]
            columns.append(
                pa.StructArray.from_arrays(list(map(pa.array, sides)), fields=list(_BOX))
            )
            writer.write_batch(pa.record_batch(columns, schema=schema))
            rows += len(samples)
            stage.advance(len(samples))
    return rows


def _geo_metadata(extent: Extent, system: ReferenceSystem, areas: bool) -> dict[str, Any]:
    # readers that show one geometry show the areas: the points are only their middles
    primary = "area" if areas else "geometry"
    columns: dict[str, Any] = {
        name: {
            "encoding": "WKB",
            "geometry_types": [kind],
            "crs": system.crs.to_json_dict(),
            **({} if extent.box is None else {"bbox": list(extent.box)}),
        }
        for name, kind in (("geometry", "Point"), ("area", "Polygon"))[: 1 + areas]
    }
    columns[primary]["covering"] = {"bbox": {side: ["bbox", side] for side in _SIDES}}
    return {"version": "1.1.0", "primary_column": primary, "columns": columns}
