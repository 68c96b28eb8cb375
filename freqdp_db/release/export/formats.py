"""A release in each format: CSV, GeoParquet, GeoPackage (by GDAL) and OGC Moving Features JSON.

Rows are read and written in batches: memory does not grow with the release.
"""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, LiteralString, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pyproj
from numpy.typing import NDArray

from freqdp_db.dataset.projection import WGS84, ReferenceSystem
from freqdp_db.db.published import Extent, ReadAreas, ReleaseReader, Samples
from freqdp_db.errors import BadInput
from freqdp_db.progress import Progress, Stage
from freqdp_db.release.export.notice import catalog_document

_TIME = pa.timestamp("us", tz="UTC")


class Layer:
    """Rows to write: a table of a release, or its samples, areas or lines. It counts what was taken."""

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        shapes: Mapping[str, str],
    ) -> None:
        self.name, self.schema = name, schema
        self.shapes = shapes
        """Columns with geometries and what each holds, such as Point; first the one to show."""
        self.rows = 0
        self.failure: BaseException | None = None
        """What was raised while rows were read."""
        self._batches = batches

    def batches(self, stage: Stage) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches:
                yield batch
                self.rows += len(batch)
                stage.advance(len(batch))
        except BaseException as error:
            self.failure = error
            raise


# What writes a layer.


def _csv(path: Path, layer: Layer, stage: Stage, *, quoting: Literal["needed", "none"]) -> None:
    plain = quoting == "none"  # Arrow would still quote the names
    options = pa_csv.WriteOptions(include_header=not plain, quoting_style=quoting)
    with path.open("wb") as file:
        if plain:
            file.write((",".join(layer.schema.names) + "\n").encode())
        with pa_csv.CSVWriter(file, layer.schema, write_options=options) as writer:
            for batch in layer.batches(stage):
                writer.write(batch)


def _parquet(
    path: Path,
    layer: Layer,
    stage: Stage,
    reader: ReleaseReader,
    system: ReferenceSystem | None,
    extent: Extent | None = None,
) -> None:
    """With the metadata of GeoParquet 1.1 where there are geometries.

    extent: of samples, which have a column `bbox` around what is shown.
    """
    metadata = {"freqdp": json.dumps(catalog_document(reader.catalog))}
    if layer.shapes and system is not None:
        box = {} if extent is None or extent.box is None else {"bbox": list(extent.box)}
        crs = system.crs.to_json_dict()
        columns: dict[str, Any] = {
            name: {"encoding": "WKB", "geometry_types": [shape], "crs": crs, **box}
            for name, shape in layer.shapes.items()
        }
        primary = next(iter(columns))
        if extent is not None:
            columns[primary]["covering"] = {"bbox": {side: ["bbox", side] for side in _SIDES}}
        metadata["geo"] = json.dumps(
            {"version": "1.1.0", "primary_column": primary, "columns": columns}
        )
    schema = layer.schema.with_metadata(metadata)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in layer.batches(stage):
            writer.write_batch(batch.cast(schema))


def _geopackage(
    path: Path, layer: Layer, stage: Stage, reader: ReleaseReader, system: ReferenceSystem | None
) -> None:
    """Add a layer to the file."""
    import pyogrio  # loads GDAL, which no other command needs

    try:
        crs = None if system is None else system.crs.to_wkt("WKT1_GDAL")
    except pyproj.exceptions.CRSError:
        raise BadInput(
            f"[[format]] gpkg: SRID {reader.srid} cannot be written in this format",
            remedy="use [[format]] geoparquet or csv",
        ) from None
    name = reader.catalog["name"]
    try:
        with warnings.catch_warnings():
            # GDAL does not like names that do not end in .gpkg
            warnings.simplefilter("ignore", RuntimeWarning)
            column, shape = next(iter(layer.shapes.items()), (None, None))
            pyogrio.write_arrow(
                pa.RecordBatchReader.from_batches(layer.schema, layer.batches(stage)),
                path,
                layer=layer.name,
                driver="GPKG",
                geometry_name=column,
                geometry_type=shape,
                crs=crs,
                # GDAL before 3.7, as in QGIS of Debian 12, warns of later versions
                dataset_options={"VERSION": "1.3"},
                layer_options={
                    "identifier": name if layer.name == "samples" else f"{name} ({layer.name})",
                    "description": reader.catalog["guarantee"]["plain"],
                },
            )
    except Exception as error:
        # what was raised in a generator comes back as an error of Arrow's
        if layer.failure is not None:
            raise layer.failure from None
        if isinstance(error, pyogrio.errors.DataSourceError | pyogrio.errors.DataLayerError):
            raise OSError(str(error)) from None
        raise


# Tables of a release that are no trajectories.

_ARROW: dict[str, pa.DataType] = {
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp with time zone": _TIME,
}
"""Types that files have, too; a geometry is WKB (in CSV: WKT), and anything else is text."""


def write_table(
    format_name: str,
    path: Path,
    reader: ReleaseReader,
    table: str,
    system: ReferenceSystem | None,
    stage: Stage,
    layer_name: str | None = None,
) -> int:
    """Write a table of a release; the number of its rows.

    layer_name: of a GeoPackage's layer, which has one geometry, the last one; None: as the table.
    """
    columns = reader.columns(table)
    geometry = pa.string() if format_name == "csv" else pa.binary()
    shapes = {
        # a type such as `public.geometry(MultiPolygon,4326)`
        name: kind.partition("geometry(")[2].partition(",")[0]
        for name, kind in reversed(columns.items())
        if "geometry(" in kind
    }
    if format_name == "gpkg":
        columns = {n: k for n, k in columns.items() if n not in list(shapes)[1:]}
    schema = pa.schema(
        [
            (name, geometry if name in shapes else _ARROW.get(kind, pa.string()))
            for name, kind in columns.items()
        ]
    )

    def shown(kind: str) -> LiteralString:
        if "geometry(" in kind:
            return "{text}({})" if format_name == "csv" else "{wkb}({})"
        return "{}" if kind in _ARROW else "{}::text"

    def batches() -> Iterator[pa.RecordBatch]:
        with closing(reader.rows(table, shown, list(columns))) as chunks:
            for rows in chunks:
                values = [list(column) for column in zip(*rows, strict=True)]
                arrays = [pa.array(v, field.type) for v, field in zip(values, schema, strict=True)]
                yield pa.record_batch(arrays, schema=schema)

    layer = Layer(layer_name or table, schema, batches(), shapes)
    if format_name == "gpkg":
        _geopackage(path, layer, stage, reader, system)
    elif format_name == "csv":
        _csv(path, layer, stage, quoting="needed")
    else:
        _parquet(path, layer, stage, reader, system)
    return layer.rows


# Trajectories.


class Written(NamedTuple):
    """How many samples, and the columns of each."""

    rows: int
    columns: list[str]


@dataclass(frozen=True)
class Format:
    """How trajectories are written."""

    suffix: str
    write: Callable[[Path, ReleaseReader, Extent, ReferenceSystem, Progress], Written]


def _samples_layer(
    name: str,
    reader: ReleaseReader,
    fields: Iterable[tuple[str, pa.DataType] | pa.Field],
    values: Callable[[Samples], list[Any]],
    shapes: Mapping[str, str],
    *,
    by_place: bool = False,
) -> Layer:
    """A row for each sample: the fields with their values, then the columns that samples carry along."""
    own = pa.schema(fields)
    kept = [pa.field(n, _ARROW.get(kind, pa.string())) for n, kind in reader.kept_columns.items()]
    schema = pa.schema([*own, *kept])

    def batches() -> Iterator[pa.RecordBatch]:
        with closing(reader.samples(by_place=by_place)) as chunks:
            for samples in chunks:
                columns = [
                    pa.array(v).cast(field.type) if isinstance(v, np.ndarray) else v
                    for v, field in zip(values(samples), own, strict=True)
                ]
                for field, codes in zip(kept, samples.kept, strict=True):
                    texts = pa.array([None, *reader.kept_values[field.name]], pa.string())
                    columns.append(texts.cast(field.type).take(pa.array(codes)))
                yield pa.record_batch(columns, schema=schema)

    return Layer(name, schema, batches(), shapes)


def write_csv(
    path: Path, reader: ReleaseReader, extent: Extent, system: ReferenceSystem, progress: Progress
) -> Written:
    """Times are ISO 8601 in UTC, all of one length; areas are their sides."""
    axes = ("lon", "lat") if system.geographic else ("x", "y")
    fields = [("trajectory_id", pa.int64()), ("seq", pa.int64()), ("sampled_at", pa.string())]
    fields += [(axis, pa.float64()) for axis in axes]
    if reader.has_areas:
        fields += [(f"{axis}_{end}", pa.float64()) for end in ("min", "max") for axis in axes]
        fields += [("during_begin", pa.string()), ("during_end", pa.string())]
    unit: Literal["s", "us"] = "s" if extent.whole_seconds else "us"
    size = 1_000_000 if unit == "s" else 1

    def iso(at_us: NDArray[np.int64]) -> Any:
        at = pa.array(at_us // size).view(pa.timestamp(unit))
        text = pc.utf8_replace_slice(at.cast(pa.string()), 10, 11, "T")
        return pc.binary_join_element_wise(text, "Z", "")

    def values(s: Samples) -> list[Any]:
        found = [s.trajectory_id, s.seq, iso(s.at_us), s.x, s.y]
        if (a := s.areas) is not None:
            found += [a.x_min, a.y_min, a.x_max, a.y_max, iso(a.begin_us), iso(a.end_us)]
        return found

    layer = _samples_layer("samples", reader, fields, values, {})
    # of the columns here, only texts that are carried along may need quotes; none is not an empty one
    quoting: Literal["needed", "none"] = "needed" if reader.kept_columns else "none"
    with progress.stage("export samples", extent.rows) as stage:
        _csv(path, layer, stage, quoting=quoting)
    return Written(layer.rows, layer.schema.names)


_WKB_POINT = np.dtype([("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])
_WKB_BOX = np.dtype(
    [("order", "u1"), ("type", "<u4"), ("rings", "<u4"), ("points", "<u4"),
     ("corners", "<f8", (5, 2))]
)  # fmt: skip


def _points(samples: Samples) -> Any:
    """As WKB."""
    found = np.empty(len(samples), _WKB_POINT)
    found["order"], found["type"], found["x"], found["y"] = 1, 1, samples.x, samples.y
    return _binary(found)


def _boxes(areas: ReadAreas) -> Any:
    """Polygons as WKB, their corners from the south-west, around by the east."""
    found = np.empty(len(areas.x_min), _WKB_BOX)
    found["order"], found["type"], found["rings"], found["points"] = 1, 3, 1, 5
    west, south, east, north = areas.x_min, areas.y_min, areas.x_max, areas.y_max
    found["corners"][:, :, 0] = np.column_stack([west, east, east, west, west])
    found["corners"][:, :, 1] = np.column_stack([south, south, north, north, south])
    return _binary(found)


def _binary(records: NDArray[Any]) -> Any:
    """Records of one width as a binary column."""
    ends = np.arange(len(records) + 1, dtype=np.int32) * records.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(records.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(records), buffers)


_SIDES = ("xmin", "ymin", "xmax", "ymax")
_BOX = pa.struct([pa.field(side, pa.float64(), nullable=False) for side in _SIDES])


def write_geoparquet(
    path: Path, reader: ReleaseReader, extent: Extent, system: ReferenceSystem, progress: Progress
) -> Written:
    """GeoParquet 1.1: WKB points with a covering column of boxes.

    Rows are in order of the day and of the Hilbert curve, a row group for every buffer that is read, about
    130,000 rows: who asks for a place and a time reads few of them.
    """
    fields = [("trajectory_id", pa.int64()), ("seq", pa.int32()), ("sampled_at", _TIME)]
    fields.append(("geometry", pa.binary()))
    if reader.has_areas:
        fields += [("area", pa.binary()), ("during_begin", _TIME), ("during_end", _TIME)]
    fields.append(("bbox", _BOX))

    def values(s: Samples) -> list[Any]:
        found = [s.trajectory_id, s.seq, s.at_us, _points(s)]
        sides = [s.x, s.y, s.x, s.y]
        if (a := s.areas) is not None:
            found += [_boxes(a), a.begin_us, a.end_us]
            sides = [a.x_min, a.y_min, a.x_max, a.y_max]
        box = pa.StructArray.from_arrays(list(map(pa.array, sides)), fields=list(_BOX))
        return [*found, box]

    # readers that show one geometry show the areas: the points are only their middles
    shapes = {"area": "Polygon"} if reader.has_areas else {}
    layer = _samples_layer(
        "samples",
        reader,
        [pa.field(name, kind, nullable=False) for name, kind in fields],
        values,
        {**shapes, "geometry": "Point"},
        by_place=True,
    )
    with progress.stage("export samples", extent.rows) as stage:
        _parquet(path, layer, stage, reader, system, extent)
    return Written(layer.rows, layer.schema.names)


_MOMENT = pa.timestamp("ms", tz="UTC")
_KEY = [("geom", pa.binary()), ("trajectory_id", pa.int64())]
_SAMPLES = [
    *_KEY, ("seq", pa.int32()), ("sampled_at", _MOMENT), ("sampled_at_us", pa.int64()),
]  # fmt: skip
_AREAS = [*_KEY, ("seq", pa.int32()), ("during_begin", _MOMENT), ("during_end", _MOMENT)]
_LINES = pa.schema([*_KEY, ("day", pa.date32())])
_LINES_A_BATCH = 500


def write_geopackage(
    path: Path, reader: ReleaseReader, extent: Extent, system: ReferenceSystem, progress: Progress
) -> Written:
    """Write layers `samples` and `lines`, and `trips` or `areas`.

    The format keeps times in milliseconds: `sampled_at_us` has the exact one, in microseconds since 1970.
    """

    def at_points(s: Samples) -> list[Any]:
        return [_points(s), s.trajectory_id, s.seq, s.at_us // 1000, s.at_us]

    def in_areas(s: Samples) -> list[Any]:
        assert s.areas is not None, "the release has areas"
        during = [s.areas.begin_us // 1000, s.areas.end_us // 1000]
        return [_boxes(s.areas), s.trajectory_id, s.seq, *during]

    samples = _samples_layer("samples", reader, _SAMPLES, at_points, {"geom": "Point"})
    layers = [samples, Layer("lines", _LINES, _lines(reader), {"geom": "LineString"})]
    if reader.has_areas:  # programs open the first layer
        areas = _samples_layer("areas", reader, _AREAS, in_areas, {"geom": "Polygon"})
        layers.insert(0, areas)
    for layer in layers:
        total = None if layer.name == "lines" else extent.rows
        unit = "lines" if layer.name == "lines" else "rows"
        with progress.stage(f"export {layer.name}", total, unit) as stage:
            _geopackage(path, layer, stage, reader, system)
    if reader.trips is not None:
        with progress.stage("export trips", unit="trips") as stage:
            write_table("gpkg", path, reader, reader.trips, system, stage, "trips")
    with progress.stage("index"), closing(sqlite3.connect(path)) as file:
        for layer in layers:
            key = "day" if layer.name == "lines" else "seq"
            file.execute(
                f"CREATE UNIQUE INDEX {layer.name}_trajectory ON {layer.name} (trajectory_id, {key})"
            )
        # pyogrio has no name for lines with M, and GDAL then calls it optional
        file.execute("UPDATE gpkg_geometry_columns SET m = 1 WHERE table_name = 'lines'")
        file.commit()
    during = ["during_begin", "during_end"] if reader.has_areas else []
    return Written(samples.rows, ["fid", *samples.schema.names, *during])


def _lines(reader: ReleaseReader) -> Iterator[pa.RecordBatch]:
    with closing(reader.lines()) as lines:
        while some := list(islice(lines, _LINES_A_BATCH)):
            trajectory, day, wkb = zip(*some, strict=True)
            yield pa.record_batch([list(wkb), list(trajectory), list(day)], schema=_LINES)


def write_moving_features(
    path: Path, reader: ReleaseReader, extent: Extent, system: ReferenceSystem, progress: Progress
) -> Written:
    """A feature for each trajectory: `temporalGeometry` for MobilityDB and movingpandas, `geometry` (the
    line through the samples) for programs that know GeoJSON alone.

    The format wants times of a feature to increase: of samples with one time, the first is written.
    Nothing is said of what lies between two samples, so interpolation is Discrete. What samples carry along
    is not in it.
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
        separator = "\n"
        for samples in _whole_trajectories(chunks):
            for feature in _features(samples):
                file.write(separator + json.dumps(feature))
                separator = ",\n"
            rows += len(samples)
            stage.advance(len(samples))
        file.write("\n]}\n")
    return Written(rows, ["trajectory_id", "datetimes", "coordinates"])


_COLUMNS = ("trajectory_id", "seq", "at_us", "x", "y")


def _whole_trajectories(chunks: Iterator[Samples]) -> Iterator[Samples]:
    """The same samples, cut where trajectories end."""

    def part(samples: Samples, first: int, last: int) -> Samples:
        return replace(samples, **{c: getattr(samples, c)[first:last] for c in _COLUMNS})

    rest: Samples | None = None
    for chunk in chunks:
        joined = chunk
        if rest is not None:
            columns: dict[str, Any] = {
                c: np.concatenate([getattr(rest, c), getattr(chunk, c)]) for c in _COLUMNS
            }
            joined = replace(chunk, **columns)
        last = int(np.searchsorted(joined.trajectory_id, joined.trajectory_id[-1]))
        if last:
            yield part(joined, 0, last)
        rest = part(joined, last, len(joined))
    if rest is not None:
        yield rest


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


FORMATS = {
    "csv": Format(".csv", write_csv),
    "geoparquet": Format(".parquet", write_geoparquet),
    "gpkg": Format(".gpkg", write_geopackage),
    "mfjson": Format(".mfjson", write_moving_features),
}
