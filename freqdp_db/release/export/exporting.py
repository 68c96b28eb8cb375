"""`release export`: a published release as a file, with its guarantee and terms of use beside it.

Rows are streamed: memory does not grow with the release. Every file is written under another name
and renamed when all of them are whole; the data comes last, so that it is never there without its
guarantee.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

import freqdp_db
from freqdp_db.dataset.projection import ReferenceSystem
from freqdp_db.documents import Document
from freqdp_db.errors import AlreadyExists, BadInput, FreqdpError, VerificationFailed
from freqdp_db.progress import Progress
from freqdp_db.release.export.areas import arrow_bytes, wkb_boxes
from freqdp_db.release.export.gpkg import write_gpkg
from freqdp_db.release.export.moments import iso_times
from freqdp_db.release.export.notice import readme, why_not_granted
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.published.reading import Extent, ReleaseReader

_WKB_POINT = np.dtype([("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])


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
    """Write a published release and, beside it, its guarantee (JSON) and a README: all or nothing.

    srid: the reference system of the file; None: that of the release.
    """
    chosen = _find_format(format_name)
    target = _target(name, chosen, out)
    files = (
        target,
        target.with_name(f"{target.name}.guarantee.json"),
        target.with_name(f"{target.name}.README.txt"),
    )
    _require_writable(files, overwrite)
    with _writing(files) as (data, guarantee, notice):
        with database.begin(snapshot=True) as connection:
            reader = ReleaseReader(connection, database, name, srid)
            system = ReferenceSystem.parse(reader.srid, reader.definition())
            if not reader.catalog["granted"]:
                reason = why_not_granted(reader.catalog["guarantee"])
                progress.note(f"Warning: NOT for handing out. {reason}")
            with progress.stage("measure"):
                extent = reader.extent()
            _require_rows(reader, extent.rows)
            rows = chosen.write(data, reader, extent, system, progress)
        _require_rows(reader, rows)
        columns = _columns(format_name, system, reader.has_areas)
        document = _document(reader.catalog, target, data, format_name, system, columns)
        guarantee.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
        notice.write_text(readme(document), "utf-8")
    return Exported(name, files, rows)


def _find_format(name: str) -> _Format:
    if name not in FORMATS:
        raise BadInput(f"--format {name!r} is not known", remedy="use one of " + ", ".join(FORMATS))
    return FORMATS[name]


def _target(name: str, chosen: _Format, out: Path | None) -> Path:
    if out is not None:
        if out.is_dir():
            raise BadInput(
                f"--out {out} is a directory",
                remedy=f"name a file: --out {out / f'release{chosen.suffix}'}",
            )
        return out
    if "/" in name or os.sep in name:
        raise BadInput(
            f"release {name!r} cannot give a file its name", remedy="name the file with --out"
        )
    return Path(f"{name}{chosen.suffix}")


def _require_writable(files: tuple[Path, ...], overwrite: bool) -> None:
    target, folder = files[0], files[0].parent
    if not folder.is_dir():
        raise BadInput(f"--out {target}: there is no directory {folder}", remedy="make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(
            f"--out {target}: you may not write to {folder}", remedy="choose another directory"
        )
    for file in files:
        # a rename would replace a device or a socket by a file
        if file.exists() and not file.is_file():
            raise BadInput(f"{file} is not a plain file", remedy="choose another --out")
        if os.path.lexists(file) and not overwrite:
            raise AlreadyExists(f"{file} exists already", remedy="--force overwrites it")


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
            f"{files[0]} cannot be written: {reason}", remedy="free some space, or choose --out"
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


def _write_csv(
    path: Path, reader: ReleaseReader, extent: Extent, system: ReferenceSystem, progress: Progress
) -> int:
    """Columns trajectory_id, seq, at, and lon, lat (or x, y in a projected system); areas as sides."""
    names = _columns("csv", system, reader.has_areas)
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


def _write_geoparquet(
    path: Path, reader: ReleaseReader, extent: Extent, system: ReferenceSystem, progress: Progress
) -> int:
    """GeoParquet 1.1: WKB points; a row group for every buffer that is read, about 130,000 rows."""
    moment = pa.timestamp("us", tz="UTC")
    kinds = [pa.int64(), pa.int32(), moment, pa.binary(), pa.binary(), moment, moment]
    names = _columns("geoparquet", system, reader.has_areas)
    schema = pa.schema(
        [pa.field(name, kind, nullable=False) for name, kind in zip(names, kinds, strict=False)],
        metadata={
            "geo": json.dumps(_geo_metadata(extent, system, reader.has_areas)),
            "freqdp": json.dumps(_catalog_document(reader.catalog)),
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
                arrow_bytes(_wkb_points(samples.x, samples.y)),
            ]
            if (areas := samples.areas) is not None:
                columns.append(arrow_bytes(wkb_boxes(areas)))
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


def _wkb_points(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[Any]:
    points = np.empty(len(x), _WKB_POINT)
    points["order"], points["type"], points["x"], points["y"] = 1, 1, x, y
    return points


FORMATS = {
    "csv": _Format(".csv", _write_csv),
    "geoparquet": _Format(".parquet", _write_geoparquet),
    "gpkg": _Format(".gpkg", write_gpkg),
}


def _columns(format_name: str, system: ReferenceSystem, areas: bool) -> list[str]:
    during = ["during_begin", "during_end"] if areas else []
    if format_name == "csv":
        axes = ("lon", "lat") if system.geographic else ("x", "y")
        sides = [f"{axis}_{end}" for end in ("min", "max") for axis in axes] if areas else []
        return ["trajectory_id", "seq", "at", *axes, *sides, *during]
    if format_name == "geoparquet":
        return ["trajectory_id", "seq", "at", "geometry", *(["area"] if areas else []), *during]
    return ["fid", "geom", "trajectory_id", "seq", "at", "at_us", *during]


def _catalog_document(catalog: dict[str, Any]) -> dict[str, Any]:
    """The catalogue's row as plain JSON values."""
    published = catalog["published_at"].astimezone(UTC)
    return {**catalog, "published_at": published.isoformat(timespec="seconds")}


def _document(
    catalog: dict[str, Any],
    target: Path,
    data: Path,
    format_name: str,
    system: ReferenceSystem,
    columns: list[str],
) -> dict[str, Any]:
    """The guarantee beside the file: the catalogue's row, and which file it speaks of."""
    with data.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    return {
        **_catalog_document(catalog),
        "file": {
            "name": target.name,
            "format": format_name,
            "bytes": data.stat().st_size,
            "sha256": digest,
            "columns": columns,
            "srid": system.srid,
            "reference_system": system.crs.name,
            "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "software": f"freqdp {freqdp_db.__version__}",
        },
    }
