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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freqdp_db.dataset.projection import ReferenceSystem
from freqdp_db.dataset.text_values import file_called
from freqdp_db.db.connection import Database
from freqdp_db.db.published import ReleaseReader
from freqdp_db.errors import AlreadyExists, BadInput, FreqdpError, VerificationFailed
from freqdp_db.model.documents import Document
from freqdp_db.progress import Progress
from freqdp_db.release.catalogue import require_readable
from freqdp_db.release.export.formats import FORMATS, Format, write_table
from freqdp_db.release.export.notice import (
    dcat_document,
    guarantee_document,
    readme,
    why_not_granted,
)
from freqdp_db.release.export.qgis_project import write_project


@dataclass(frozen=True)
class Exported(Document):
    """What was written: the data first."""

    release: str
    files: tuple[Path, ...]
    rows: int


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
    if format_name not in FORMATS:
        raise BadInput(
            f"[[format]] {format_name!r} is not known", remedy="use one of " + ", ".join(FORMATS)
        )
    chosen = FORMATS[format_name]
    require_readable(database, name)
    files_of = _relations_by_file(database, name, format_name)
    targets = [_target(name, suffix, chosen, out) for suffix in files_of]
    files = tuple(
        target.with_name(target.name + kind) for target in targets for kind in _endings(format_name)
    )
    _require_writable(files, overwrite)
    written = 0
    with _writing(files) as drafts, database.begin(snapshot=True) as connection:
        reader = ReleaseReader(connection, name, srid)
        system = ReferenceSystem.parse(reader.srid, reader.definition()) if reader.srid else None
        if not reader.catalog["granted"]:
            reason = why_not_granted(reader.catalog["guarantee"])
            progress.note(f"Warning: NOT for handing out. {reason}")
        for number, (relations, target) in enumerate(zip(files_of.values(), targets, strict=True)):
            each = len(_endings(format_name))
            data, guarantee, notice, dcat, *project = drafts[each * number : each * (number + 1)]
            extent = None
            if relations == [name] and system is not None and reader.has_trajectories:
                with progress.stage("measure"):
                    extent = reader.extent()
                _require_rows(reader, extent.rows)
                rows, names = chosen.write(data, reader, extent, system, progress)
                said = reader.comments(name)
                columns = {n: said[n] if n in reader.kept_columns else "" for n in names}
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
            # of trajectories, the samples count
            written += 0 if reader.has_trajectories and relations != [name] else rows
            document = guarantee_document(
                reader.catalog, target, data, format_name, system, list(columns)
            )
            known = dcat_document(document, None if extent is None else extent.box, system)
            _write_json(guarantee, document)
            _write_json(dcat, known)
            notice.write_text(readme(document, rows, columns), "utf-8")
            for path in project:
                layers = ["lines", "samples"] if reader.has_trajectories else relations
                layers = ["areas"] if reader.has_areas else layers
                write_project(path, target.name, name, layers, system)
    return Exported(name, files, written)


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _relations_by_file(database: Database, name: str, format_name: str) -> dict[str, list[str]]:
    """What is written to each file, by what follows the release's name in that of the file.

    Trajectories are one file, and so is a GeoPackage, which has layers: those for a map come first,
    because programs open the first one. Views are written where there are geometries.
    """
    with database.begin(snapshot=True) as connection:
        reader = ReleaseReader(connection, name)
    if reader.has_trajectories:
        # GeoPackage and MF-JSON are one file
        trips = reader.trips if format_name in ("csv", "geoparquet") else None
        return {"": [name]} | ({"_trip": [trips]} if trips is not None else {})
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
"""Formats of moving points: they have nothing for tables of other kinds, nor for kept columns."""


def _target(name: str, suffix: str, chosen: Format, out: Path | None) -> Path:
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
