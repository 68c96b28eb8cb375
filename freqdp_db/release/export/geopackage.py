"""A release as a GeoPackage, written by GDAL (pyogrio)."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyproj

from freqdp_db.columns.arrays import Ints
from freqdp_db.dataset.projection import ReferenceSystem
from freqdp_db.errors import BadInput
from freqdp_db.progress import Progress, Stage
from freqdp_db.release.export import geometries
from freqdp_db.storage.published.reading import Extent, ReleaseReader

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
            yield _batch(_SAMPLES, geometries.points(s.x, s.y), columns)


def _areas(reader: ReleaseReader) -> Iterator[pa.RecordBatch]:
    with closing(reader.samples()) as chunks:
        for s in chunks:
            assert s.areas is not None, "the release has areas"
            during = [s.areas.begin_us // 1000, s.areas.end_us // 1000]
            columns = [s.trajectory_id, s.seq.astype("i4"), *during]
            yield _batch(_AREAS, geometries.boxes(s.areas), columns)


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
