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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from freqdp_db.dataset.file_names import file_called
from freqdp_db.dataset.projection import ReferenceSystem
from freqdp_db.documents import Document
from freqdp_db.errors import AlreadyExists, BadInput, FreqdpError, VerificationFailed
from freqdp_db.progress import Progress
from freqdp_db.release.catalogue import require_readable
from freqdp_db.release.export.csv_file import csv_columns, write_csv
from freqdp_db.release.export.geopackage import geopackage_columns, write_geopackage
from freqdp_db.release.export.geoparquet import geoparquet_columns, write_geoparquet
from freqdp_db.release.export.notice import guarantee_document, readme, why_not_granted
from freqdp_db.release.export.tables import write_table
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.published.reading import Extent, ReleaseReader


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
    """Write a published release and, beside it, its guarantee (JSON) and a README: all or nothing.

    srid: the reference system of the file; None: that of the release.
    """
    chosen = _find_format(format_name)
    require_readable(database, name)
    tables = _tables_to_write(database, name)
    targets = [_target(name, suffix, chosen, out) for suffix in tables]
    files = tuple(
        target.with_name(target.name + kind)
        for target in targets
        for kind in ("", ".guarantee.json", ".README.txt")
    )
    _require_writable(files, overwrite)
    written = 0
    with _writing(files) as drafts, database.begin(snapshot=True) as connection:
        reader = ReleaseReader(connection, database, name, srid)
        system = ReferenceSystem.parse(reader.srid, reader.definition()) if reader.srid else None
        if not reader.catalog["granted"]:
            reason = why_not_granted(reader.catalog["guarantee"])
            progress.note(f"Warning: NOT for handing out. {reason}")
        for number, (suffix, target) in enumerate(zip(tables, targets, strict=True)):
            data, guarantee, notice = drafts[3 * number : 3 * number + 3]
            if reader.has_trajectories and system is not None:
                rows = _write_trajectories(chosen, data, reader, system, progress)
                columns = dict.fromkeys(chosen.columns(system, reader.has_areas), "")
            else:
                with progress.stage(f"export {name}{suffix}", unit="rows") as stage:
                    rows = write_table(format_name, data, reader, name + suffix, system, stage)
                columns = reader.comments(name + suffix)
            if number == 0:
                _require_rows(reader, rows)
            written += rows
            document = guarantee_document(
                reader.catalog, target, data, format_name, system, list(columns)
            )
            guarantee.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
            notice.write_text(readme(document, rows, columns), "utf-8")
    return Exported(name, files, written)


def _tables_to_write(database: Database, name: str) -> list[str]:
    """Each is a file, by what follows the release's name; trajectories are one file."""
    with database.begin(snapshot=True) as connection:
        reader = ReleaseReader(connection, database, name)
    if reader.has_trajectories:
        return [""]
    return [table.removeprefix(name) for table in reader.tables]


def _write_trajectories(
    chosen: _Format, data: Path, reader: ReleaseReader, system: ReferenceSystem, progress: Progress
) -> int:
    with progress.stage("measure"):
        extent = reader.extent()
    _require_rows(reader, extent.rows)
    return chosen.write(data, reader, extent, system, progress)


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
}
