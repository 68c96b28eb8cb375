"""A release as a GeoPackage (OGC 12-128r18, version 1.3): a file of SQLite, by the standard library.

Two layers, `samples` and `lines`, and `areas` first where a release has some, each with its R-tree. The
statements here are the file format;
they have nothing to do with the database that the release comes from.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyproj
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ints
from freqdp_db.dataset.projection import WGS84, ReferenceSystem
from freqdp_db.errors import BadInput
from freqdp_db.progress import Progress, Stage
from freqdp_db.release.export.areas import GPKG_BOX, gpkg_boxes
from freqdp_db.release.export.gpkg_schema import AREAS, TABLES, TRIGGERS
from freqdp_db.release.export.moments import iso_times
from freqdp_db.release.export.pages import PAGE, PageFile, TableWriter
from freqdp_db.release.export.rtree import RTree, create_rtree, insert_into, set_root
from freqdp_db.storage.published.reading import Extent, ReleaseReader, Samples

_APPLICATION_ID = 0x47504B47  # "GPKG"
_VERSION = 10300

# Header of a geometry: magic, version 0, flags, srs_id. Flag 1: little-endian; 2: an xy envelope.
_NO_ENVELOPE, _XY_ENVELOPE = 0x01, 0x03
_POINT = np.dtype(
    [("magic", "S2"), ("version", "u1"), ("flags", "u1"), ("srs_id", "<i4"),
     ("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")]
)  # fmt: skip
_LINE_HEAD = struct.Struct("<2sBBi4d")
_WKB_LINE_HEAD = 1 + 4 + 4  # byte order, type, number of points; then x, y, m of each


@dataclass(frozen=True)
class _Layer:
    table: str
    geometry: str
    m: int
    identifier: str
    description: str


def gpkg_columns(system: ReferenceSystem, areas: bool) -> list[str]:
    during = ["during_begin", "during_end"] if areas else []
    return ["fid", "geom", "trajectory_id", "seq", "at", "at_us", *during]


def write_gpkg(
    path: Path,
    reader: ReleaseReader,
    extent: Extent,
    system: ReferenceSystem,
    progress: Progress,
) -> int:
    """Write both layers; returns the number of samples."""
    name, words = reader.catalog["name"], reader.catalog["guarantee"]["plain"]
    layers = [
        _Layer("samples", "POINT", 0, name, words),
        _Layer("lines", "LINESTRING", 1, f"{name} (lines)", words),
    ]
    if reader.has_areas:
        layers.insert(0, _Layer("areas", "POLYGON", 0, f"{name} (areas)", words))
    with _opened(path) as file:
        file.execute(f"PRAGMA page_size = {PAGE}")
        file.execute("PRAGMA auto_vacuum = NONE")
        file.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        file.execute(f"PRAGMA user_version = {_VERSION}")
        file.execute("BEGIN")
        tables = TABLES + (AREAS if reader.has_areas else "")
        for statement in tables.split(";\n"):
            file.execute(statement)
        _describe(file, layers, extent, system)
        sizes = {layer.table: create_rtree(file, f"rtree_{layer.table}_geom") for layer in layers}
        roots = dict(file.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'"))
        file.execute("COMMIT")
    # without SQLite, which nobody may have open meanwhile
    with PageFile(path) as whole, progress.stage("export samples", extent.rows) as stage:
        written = [
            _Pages(whole, roots, table, sizes[table])
            for table in (["samples", "areas"] if reader.has_areas else ["samples"])
        ]
        rows = _write_samples(written, reader, system.srid, stage)
    with _opened(path) as file:
        file.execute("BEGIN")
        for pages in written:
            pages.complete(file, rows)
        with progress.stage("export lines", unit="lines") as stage:
            _write_lines(file, reader, system.srid, sizes["lines"], stage)
        with progress.stage("index"):
            file.execute("CREATE UNIQUE INDEX samples_trajectory ON samples (trajectory_id, seq)")
            if reader.has_areas:
                file.execute("CREATE UNIQUE INDEX areas_trajectory ON areas (trajectory_id, seq)")
            file.execute("CREATE UNIQUE INDEX lines_trajectory ON lines (trajectory_id, day)")
        file.execute("COMMIT")
        for layer in layers:
            file.executescript(TRIGGERS.substitute(layer=layer.table))
    return rows


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        # the file has another name until it is whole: a journal would protect nothing
        file.execute("PRAGMA journal_mode = OFF")
        file.execute("PRAGMA synchronous = OFF")
        yield file


class _Pages:
    """A layer with a row for each sample, and its R-tree, written as pages."""

    _TYPES: ClassVar = {
        "samples": [f"V{_POINT.itemsize}", ">i8", ">i4", "S24", ">i8"],
        "areas": [f"V{GPKG_BOX.itemsize}", ">i8", ">i4", "S24", "S24"],
    }

    def __init__(self, file: PageFile, roots: dict[str, int], table: str, size: int) -> None:
        self._table, self._tree_name = table, f"rtree_{table}_geom"
        self._rows = TableWriter(file, roots[table], self._TYPES[table])
        self._nodes = TableWriter(file, roots[f"{self._tree_name}_node"], [f"V{size}"])
        self._rowids = TableWriter(file, roots[f"{self._tree_name}_rowid"], [">i4"])
        # the root: what it holds is known in the end
        self._nodes.add(np.zeros(1, f"V{size}"))
        self._parents: list[tuple[Any, Any]] = []
        self._tree = RTree(size, self._insert)
        self._root = b""

    def _insert(self, table: str, ids: Any, values: Any) -> None:
        if table == "parent":
            self._parents.append((ids, values))
        else:
            (self._nodes if table == "node" else self._rowids).add(values)

    def add(self, columns: Sequence[Any], x: Any, y: Any) -> None:
        """Rows of the layer, and the least and greatest x and y of each."""
        self._rows.add(*columns)
        self._tree.add(x, y)

    def finish(self) -> None:
        self._root = self._tree.finish()
        for writer in (self._rows, self._nodes, self._rowids):
            writer.finish()

    def complete(self, file: sqlite3.Connection, rows: int) -> None:
        """What is small, or known in the end only: by SQLite."""
        insert = insert_into(file, self._tree_name)
        for ids, values in self._parents:
            insert("parent", ids, values)
        set_root(file, self._tree_name, self._root)
        if rows:
            file.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (self._table, rows))


def _describe(
    file: sqlite3.Connection, layers: list[_Layer], extent: Extent, system: ReferenceSystem
) -> None:
    """The tables that say what is in the file."""
    wgs84 = ReferenceSystem.parse(WGS84, f"EPSG:{WGS84}")
    systems = [
        ("Undefined Cartesian SRS", -1, "NONE", -1, "undefined", "undefined Cartesian"),
        ("Undefined geographic SRS", 0, "NONE", 0, "undefined", "undefined geographic"),
        _reference_row(wgs84),
        *([] if system.srid == WGS84 else [_reference_row(system)]),
    ]
    file.executemany("INSERT INTO gpkg_spatial_ref_sys VALUES (?, ?, ?, ?, ?, ?)", systems)
    changed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    box = extent.box or (None, None, None, None)
    for layer in layers:
        file.execute(
            "INSERT INTO gpkg_contents VALUES (?, 'features', ?, ?, ?, ?, ?, ?, ?, ?)",
            (layer.table, layer.identifier, layer.description, changed, *box, system.srid),
        )
        file.execute(
            "INSERT INTO gpkg_geometry_columns VALUES (?, 'geom', ?, ?, 0, ?)",
            (layer.table, layer.geometry, system.srid, layer.m),
        )
        file.execute(
            "INSERT INTO gpkg_extensions VALUES (?, 'geom', 'gpkg_rtree_index', "
            "'http://www.geopackage.org/spec131/#extension_rtree', 'write-only')",
            (layer.table,),
        )


def _reference_row(system: ReferenceSystem) -> tuple[Any, ...]:
    try:
        definition = system.crs.to_wkt("WKT1_GDAL")
    except pyproj.exceptions.CRSError:
        raise BadInput(
            f"--format gpkg: SRID {system.srid} cannot be written in this format",
            remedy="use --format geoparquet or csv",
        ) from None
    authority, code = system.crs.to_authority() or ("NONE", system.srid)
    return system.crs.name, system.srid, authority, int(code), definition, None


def _write_samples(layers: list[_Pages], reader: ReleaseReader, srid: int, stage: Stage) -> int:
    rows = 0
    with closing(reader.samples()) as chunks:
        for samples in chunks:
            # the standard's form of a time has milliseconds and no more
            columns = [samples.trajectory_id, samples.seq, _texts(samples.at_us), samples.at_us]
            x, y = (samples.x, samples.x), (samples.y, samples.y)
            layers[0].add([_points(samples, srid), *columns], x, y)
            if (a := samples.areas) is not None:
                during = [_texts(a.begin_us), _texts(a.end_us)]
                boxes = gpkg_boxes(a, srid)
                layers[1].add(
                    [boxes, *columns[:2], *during], (a.x_min, a.x_max), (a.y_min, a.y_max)
                )
            rows += len(samples)
            stage.advance(len(samples))
    for layer in layers:
        layer.finish()
    return rows


def _texts(at_us: Ints) -> NDArray[Any]:
    """Times as 24 characters each."""
    text = iso_times(at_us, "ms")
    if not len(text):
        return np.empty(0, "S24")
    begin = text.offset * 24
    return np.frombuffer(text.buffers()[2], "S24", len(text), begin)


def _points(samples: Samples, srid: int) -> NDArray[Any]:
    points = np.empty(len(samples), _POINT)
    points["magic"], points["version"], points["flags"] = b"GP", 0, _NO_ENVELOPE
    points["srs_id"] = srid
    points["order"], points["type"] = 1, 1
    points["x"], points["y"] = samples.x, samples.y
    return points.view(f"V{_POINT.itemsize}")


def _write_lines(
    file: sqlite3.Connection, reader: ReleaseReader, srid: int, size: int, stage: Stage
) -> None:
    boxes: list[tuple[float, float, float, float]] = []
    with closing(reader.lines()) as lines:
        for number, (trajectory_id, day, wkb) in enumerate(lines, start=1):
            points = np.frombuffer(wkb, "<f8", offset=_WKB_LINE_HEAD).reshape(-1, 3)
            (x_min, y_min, _), (x_max, y_max, _) = points.min(axis=0), points.max(axis=0)
            boxes.append((x_min, x_max, y_min, y_max))
            blob = _LINE_HEAD.pack(b"GP", 0, _XY_ENVELOPE, srid, *boxes[-1]) + wkb
            when = None if day is None else day.isoformat()
            file.execute(
                "INSERT INTO lines VALUES (?, ?, ?, ?)", (number, blob, trajectory_id, when)
            )
            stage.advance(1)
    tree = RTree(size, insert_into(file, "rtree_lines_geom"))
    x_min, x_max, y_min, y_max = np.array(boxes, np.float64).reshape(-1, 4).T
    tree.add((x_min, x_max), (y_min, y_max))
    set_root(file, "rtree_lines_geom", tree.finish())
