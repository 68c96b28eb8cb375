"""`release export`: a published release as a file, with its guarantee and terms of use beside it.

Rows are streamed: memory does not grow with the release. Every file is written under another name
and renamed when all of them are whole; the data comes last, so that it is never there without its
guarantee.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, LiteralString

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from freqdp_db.dataset.projection import ReferenceSystem
from freqdp_db.dataset.text_values import file_called
from freqdp_db.db.connection import Database
from freqdp_db.db.published import Extent, ReleaseReader
from freqdp_db.errors import AlreadyExists, BadInput, FreqdpError, VerificationFailed
from freqdp_db.model.documents import Document
from freqdp_db.progress import Progress, Stage
from freqdp_db.release.catalogue import require_readable
from freqdp_db.release.export.geo_files import (
    Layers,
    geopackage_columns,
    geoparquet_columns,
    write_geopackage,
    write_geoparquet,
)
from freqdp_db.release.export.moving_features import (
    moving_feature_columns,
    write_moving_features,
)
from freqdp_db.release.export.notice import (
    catalog_document,
    dcat_document,
    guarantee_document,
    readme,
    why_not_granted,
)
from freqdp_db.release.export.qgis_project import write_project

# Tables of a release that are no trajectories, as CSV, GeoParquet and GeoPackage.


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


# A release as CSV.


_MICROSECONDS = {"s": 1_000_000, "ms": 1000, "us": 1}


def csv_columns(system: ReferenceSystem, areas: bool) -> list[str]:
    axes = ("lon", "lat") if system.geographic else ("x", "y")
    if not areas:
        return ["trajectory_id", "seq", "at", *axes]
    sides = [f"{axis}_{end}" for end in ("min", "max") for axis in axes]
    return ["trajectory_id", "seq", "at", *axes, *sides, "during_begin", "during_end"]


def write_csv(
    path: Path, reader: ReleaseReader, extent: Extent, system: ReferenceSystem, progress: Progress
) -> int:
    """Columns trajectory_id, seq, at, and lon, lat (or x, y in a projected system); areas as sides."""
    names = csv_columns(system, reader.has_areas)
    kinds = [pa.int64(), pa.int64(), pa.string(), pa.float64(), pa.float64()]
    if reader.has_areas:
        kinds += [pa.float64()] * 4 + [pa.string()] * 2
    schema = pa.schema(zip(names, kinds, strict=True))
    options = pa_csv.WriteOptions(include_header=False, quoting_style="none")
    rows = 0
    with path.open("wb") as file, progress.stage("export samples", extent.rows) as stage:
        file.write((",".join(names) + "\n").encode())
        with (
            pa_csv.CSVWriter(file, schema, write_options=options) as writer,
            closing(reader.samples()) as chunks,
        ):
            for samples in chunks:
                unit: Literal["s", "us"] = "s" if extent.whole_seconds else "us"
                at = iso_times(samples.at_us, unit)
                columns = [samples.trajectory_id, samples.seq, at, samples.x, samples.y]
                if (areas := samples.areas) is not None:
                    columns += [areas.x_min, areas.y_min, areas.x_max, areas.y_max]
                    columns += [iso_times(t, unit) for t in (areas.begin_us, areas.end_us)]
                writer.write(pa.record_batch([pa.array(c) for c in columns], schema=schema))
                rows += len(samples)
                stage.advance(len(samples))
    return rows


def iso_times(at_us: NDArray[np.int64], unit: Literal["s", "ms", "us"]) -> Any:
    """ISO 8601 in UTC as an Arrow array, all of one length, rounded down to the unit."""
    at = pa.array(at_us // _MICROSECONDS[unit]).view(pa.timestamp(unit))
    text = pc.utf8_replace_slice(at.cast(pa.string()), 10, 11, "T")
    return pc.binary_join_element_wise(text, "Z", "")


@dataclass(frozen=True)
class Exported(Document):
    """What was written: the data first."""

    release: str
    files: tuple[Path, ...]
    rows: int


@dataclass(frozen=True)
class _Format:
    suffix: str
    write: Callable[[Path, ReleaseReader, Extent, ReferenceSystem, Progress], int]
    columns: Callable[[ReferenceSystem, bool], list[str]]
    """Of the samples; also where there are areas."""


def export_release(
    database: Database,
    name: str,
    format_name: str,
    out: Path | None,
    progress: Progress,
    *,
    srid: int | None = None,
    overwrite: bool = False,
) -> Exported:
    """Write a published release and, beside it, its guarantee (JSON), a README and what a data catalogue
    wants to know (DCAT): all or nothing.

    srid: the reference system of the file; None: that of the release.
    """
    chosen = _find_format(format_name)
    require_readable(database, name)
    files_of = _relations_by_file(database, name, format_name)
    targets = [_target(name, suffix, chosen, out) for suffix in files_of]
    files = tuple(
        target.with_name(target.name + kind) for target in targets for kind in _endings(format_name)
    )
    _require_writable(files, overwrite)
    written = 0
    with _writing(files) as drafts, database.begin(snapshot=True) as connection:
        reader = ReleaseReader(connection, database, name, srid)
        system = ReferenceSystem.parse(reader.srid, reader.definition()) if reader.srid else None
        if not reader.catalog["granted"]:
            reason = why_not_granted(reader.catalog["guarantee"])
            progress.note(f"Warning: NOT for handing out. {reason}")
        for number, (relations, target) in enumerate(zip(files_of.values(), targets, strict=True)):
            each = len(_endings(format_name))
            data, guarantee, notice, dcat, *project = drafts[each * number : each * (number + 1)]
            extent = None
            if reader.has_trajectories and system is not None:
                with progress.stage("measure"):
                    extent = reader.extent()
                _require_rows(reader, extent.rows)
                rows = chosen.write(data, reader, extent, system, progress)
                columns = dict.fromkeys(chosen.columns(system, reader.has_areas), "")
            else:
                rows, columns = 0, {}
                for relation in relations:
                    with progress.stage(f"export {relation}", unit="rows") as stage:
                        found = write_table(format_name, data, reader, relation, system, stage)
                    if relation == reader.tables[0]:
                        _require_rows(reader, found)
                    rows += found
                    said = reader.comments(relation)
                    several = len(relations) > 1
                    columns |= {f"{relation}.{c}" if several else c: said[c] for c in said}
            written += rows
            document = guarantee_document(
                reader.catalog, target, data, format_name, system, list(columns)
            )
            guarantee.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
            notice.write_text(readme(document, rows, columns), "utf-8")
            known = dcat_document(document, None if extent is None else extent.box, system)
            dcat.write_text(json.dumps(known, indent=2, ensure_ascii=False) + "\n", "utf-8")
            for path in project:
                layers = ["lines", "samples"] if reader.has_trajectories else relations
                layers = ["areas"] if reader.has_areas else layers
                write_project(path, target.name, name, layers, system)
    return Exported(name, files, written)


def _relations_by_file(database: Database, name: str, format_name: str) -> dict[str, list[str]]:
    """What is written to each file, by what follows the release's name in that of the file.

    Trajectories are one file, and so is a GeoPackage, which has layers: those for a map come first,
    because programs open the first one. Views are written where there are geometries.
    """
    with database.begin(snapshot=True) as connection:
        reader = ReleaseReader(connection, database, name)
    if reader.has_trajectories:
        return {"": [name]}
    if format_name in _OF_TRAJECTORIES:
        raise BadInput(
            f"[[format]] {format_name}: release {name!r} has no trajectories",
            remedy="use [[format]] geoparquet, gpkg or csv",
        )
    if format_name == "gpkg":
        return {"": [*reader.views, *reader.tables]}
    written = reader.tables if format_name == "csv" else [*reader.tables, *reader.views]
    return {relation.removeprefix(name): [relation] for relation in written}


_BESIDE = ("", ".guarantee.json", ".README.txt", ".dcat.jsonld")
"""How the names of a file and of what stands beside it end."""


def _endings(format_name: str) -> tuple[str, ...]:
    """The same of a format: beside a GeoPackage there is a project for QGIS."""
    return (*_BESIDE, ".qgs") if format_name == "gpkg" else _BESIDE


_OF_TRAJECTORIES = ("mfjson",)
"""Formats that have nothing for tables of other kinds."""


def _find_format(name: str) -> _Format:
    if name not in FORMATS:
        raise BadInput(
            f"[[format]] {name!r} is not known", remedy="use one of " + ", ".join(FORMATS)
        )
    return FORMATS[name]


def _target(name: str, suffix: str, chosen: _Format, out: Path | None) -> Path:
    if out is not None:
        if out.is_dir():
            raise BadInput(
                f"[[out]] {out} is a directory",
                remedy=f"name a file: [[out]] {out / f'release{chosen.suffix}'}",
            )
        return out.with_name(out.stem + suffix + out.suffix) if suffix else out
    return file_called(name + suffix, chosen.suffix)


def _require_writable(files: tuple[Path, ...], overwrite: bool) -> None:
    target, folder = files[0], files[0].parent
    if not folder.is_dir():
        raise BadInput(f"[[out]] {target}: there is no directory {folder}", remedy="make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(
            f"[[out]] {target}: you may not write to {folder}", remedy="choose another directory"
        )
    for file in files:
        # a rename would replace a device or a socket by a file
        if file.exists() and not file.is_file():
            raise BadInput(f"{file} is not a plain file", remedy="choose another [[out]]")
        if os.path.lexists(file) and not overwrite:
            raise AlreadyExists(f"{file} exists already", remedy="[[force]] overwrites it")


@contextmanager
def _writing(files: tuple[Path, ...]) -> Iterator[tuple[Path, ...]]:
    """Hand out names to write under; rename them at the end, or leave nothing behind."""
    mark = secrets.token_hex(4)
    drafts = tuple(file.with_name(f".{file.name}.{mark}.part") for file in files)
    try:
        yield drafts
        for draft in drafts:
            with draft.open("rb") as written:
                os.fsync(written.fileno())
        for draft, file in reversed(list(zip(drafts, files, strict=True))):
            draft.replace(file)
    except (OSError, sqlite3.Error) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise FreqdpError(
            f"{files[0]} cannot be written: {reason}", remedy="free some space, or choose [[out]]"
        ) from None
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)


def _require_rows(reader: ReleaseReader, rows: int) -> None:
    catalogued = reader.catalog["rows"]
    if rows != catalogued:
        raise VerificationFailed(
            f"release {reader.catalog['name']!r} has {rows:,} rows, but {catalogued:,} were published",
            remedy=f"freqdp release verify {reader.catalog['name']}",
        )


FORMATS = {
    "csv": _Format(".csv", write_csv, csv_columns),
    "geoparquet": _Format(".parquet", write_geoparquet, geoparquet_columns),
    "gpkg": _Format(".gpkg", write_geopackage, geopackage_columns),
    "mfjson": _Format(".mfjson", write_moving_features, moving_feature_columns),
}
