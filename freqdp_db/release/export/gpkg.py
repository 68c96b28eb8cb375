"""A release as a GeoPackage (OGC 12-128r18, version 1.3): a file of SQLite, by the standard library.

Two layers, `samples` and `lines`, and `areas` first where a release has some, each with its R-tree. The
statements here are the file format;
they have nothing to do with the database that the release comes from.
"""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pyproj

from freqdp_db.dataset.projection import ReferenceSystem
from freqdp_db.errors import BadInput
from freqdp_db.progress import Progress, Stage
from freqdp_db.release.export.areas import gpkg_boxes
from freqdp_db.release.export.moments import iso_times
from freqdp_db.release.export.rtree import RTree, insert_rows
from freqdp_db.storage.published.reading import Extent, ReleaseReader, Samples

_APPLICATION_ID = 0x47504B47  # "GPKG"
_VERSION = 10300
_WGS84 = 4326

# Header of a geometry: magic, version 0, flags, srs_id. Flag 1: little-endian; 2: an xy envelope.
_NO_ENVELOPE, _XY_ENVELOPE = 0x01, 0x03
_POINT = np.dtype(
    [("magic", "S2"), ("version", "u1"), ("flags", "u1"), ("srs_id", "<i4"),
     ("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")]
)  # fmt: skip
_LINE_HEAD = struct.Struct("<2sBBi4d")
_WKB_LINE_HEAD = 1 + 4 + 4  # byte order, type, number of points; then x, y, m of each

_TABLES = """
CREATE TABLE gpkg_spatial_ref_sys (
  srs_name TEXT NOT NULL,
  srs_id INTEGER PRIMARY KEY,
  organization TEXT NOT NULL,
  organization_coordsys_id INTEGER NOT NULL,
  definition TEXT NOT NULL,
  description TEXT
);
CREATE TABLE gpkg_contents (
  table_name TEXT NOT NULL PRIMARY KEY,
  data_type TEXT NOT NULL,
  identifier TEXT UNIQUE,
  description TEXT DEFAULT '',
  last_change DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')),
  min_x DOUBLE,
  min_y DOUBLE,
  max_x DOUBLE,
  max_y DOUBLE,
  srs_id INTEGER,
  CONSTRAINT fk_gc_r_srs_id FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys(srs_id)
);
CREATE TABLE gpkg_geometry_columns (
  table_name TEXT NOT NULL,
  column_name TEXT NOT NULL,
  geometry_type_name TEXT NOT NULL,
  srs_id INTEGER NOT NULL,
  z TINYINT NOT NULL,
  m TINYINT NOT NULL,
  CONSTRAINT pk_geom_cols PRIMARY KEY (table_name, column_name),
  CONSTRAINT uk_gc_table_name UNIQUE (table_name),
  CONSTRAINT fk_gc_tn FOREIGN KEY (table_name) REFERENCES gpkg_contents(table_name),
  CONSTRAINT fk_gc_srs FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys (srs_id)
);
CREATE TABLE gpkg_extensions (
  table_name TEXT,
  column_name TEXT,
  extension_name TEXT NOT NULL,
  definition TEXT NOT NULL,
  scope TEXT NOT NULL,
  CONSTRAINT ge_tce UNIQUE (table_name, column_name, extension_name)
);
CREATE TABLE samples (
  fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  geom POINT NOT NULL,
  trajectory_id INTEGER NOT NULL,
  seq MEDIUMINT NOT NULL,
  at DATETIME NOT NULL,
  at_us INTEGER NOT NULL
);
CREATE TABLE lines (
  fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  geom LINESTRING NOT NULL,
  trajectory_id INTEGER NOT NULL,
  day DATE
);
"""

_AREAS = """
CREATE TABLE areas (
  fid INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  geom POLYGON NOT NULL,
  trajectory_id INTEGER NOT NULL,
  seq MEDIUMINT NOT NULL,
  during_begin DATETIME NOT NULL,
  during_end DATETIME NOT NULL
);
"""

# The standard's own triggers (Annex F.3). The ST_ functions are the reading program's.
_TRIGGERS = Template(
    """
CREATE TRIGGER rtree_${layer}_geom_insert AFTER INSERT ON ${layer}
  WHEN (new.geom NOT NULL AND NOT ST_IsEmpty(NEW.geom))
BEGIN
  INSERT OR REPLACE INTO rtree_${layer}_geom VALUES (
    NEW.fid, ST_MinX(NEW.geom), ST_MaxX(NEW.geom), ST_MinY(NEW.geom), ST_MaxY(NEW.geom));
END;
CREATE TRIGGER rtree_${layer}_geom_update1 AFTER UPDATE OF geom ON ${layer}
  WHEN OLD.fid = NEW.fid AND (NEW.geom NOTNULL AND NOT ST_IsEmpty(NEW.geom))
BEGIN
  INSERT OR REPLACE INTO rtree_${layer}_geom VALUES (
    NEW.fid, ST_MinX(NEW.geom), ST_MaxX(NEW.geom), ST_MinY(NEW.geom), ST_MaxY(NEW.geom));
END;
CREATE TRIGGER rtree_${layer}_geom_update2 AFTER UPDATE OF geom ON ${layer}
  WHEN OLD.fid = NEW.fid AND (NEW.geom ISNULL OR ST_IsEmpty(NEW.geom))
BEGIN
  DELETE FROM rtree_${layer}_geom WHERE id = OLD.fid;
END;
CREATE TRIGGER rtree_${layer}_geom_update3 AFTER UPDATE ON ${layer}
  WHEN OLD.fid != NEW.fid AND (NEW.geom NOTNULL AND NOT ST_IsEmpty(NEW.geom))
BEGIN
  DELETE FROM rtree_${layer}_geom WHERE id = OLD.fid;
  INSERT OR REPLACE INTO rtree_${layer}_geom VALUES (
    NEW.fid, ST_MinX(NEW.geom), ST_MaxX(NEW.geom), ST_MinY(NEW.geom), ST_MaxY(NEW.geom));
END;
CREATE TRIGGER rtree_${layer}_geom_update4 AFTER UPDATE ON ${layer}
  WHEN OLD.fid != NEW.fid AND (NEW.geom ISNULL OR ST_IsEmpty(NEW.geom))
BEGIN
  DELETE FROM rtree_${layer}_geom WHERE id IN (OLD.fid, NEW.fid);
END;
CREATE TRIGGER rtree_${layer}_geom_delete AFTER DELETE ON ${layer}
  WHEN old.geom NOT NULL
BEGIN
  DELETE FROM rtree_${layer}_geom WHERE id = OLD.fid;
END;
"""
)


@dataclass(frozen=True)
class _Layer:
    table: str
    geometry: str
    m: int
    identifier: str
    description: str


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
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        # the file has another name until it is whole: a journal would protect nothing
        file.execute("PRAGMA journal_mode = OFF")
        file.execute("PRAGMA synchronous = OFF")
        file.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        file.execute(f"PRAGMA user_version = {_VERSION}")
        file.execute("BEGIN")
        tables = _TABLES + (_AREAS if reader.has_areas else "")
        for statement in tables.split(";\n"):
            file.execute(statement)
        _describe(file, layers, extent, system)
        with progress.stage("export samples", extent.rows) as stage:
            rows = _write_samples(file, reader, system.srid, stage)
        with progress.stage("export lines", unit="lines") as stage:
            _write_lines(file, reader, system.srid, stage)
        with progress.stage("index"):
            file.execute("CREATE UNIQUE INDEX samples_trajectory ON samples (trajectory_id, seq)")
            if reader.has_areas:
                file.execute("CREATE UNIQUE INDEX areas_trajectory ON areas (trajectory_id, seq)")
            file.execute("CREATE UNIQUE INDEX lines_trajectory ON lines (trajectory_id, day)")
        file.execute("COMMIT")
        for layer in layers:
            file.executescript(_TRIGGERS.substitute(layer=layer.table))
    return rows


def _describe(
    file: sqlite3.Connection, layers: list[_Layer], extent: Extent, system: ReferenceSystem
) -> None:
    """The tables that say what is in the file."""
    wgs84 = ReferenceSystem.parse(_WGS84, f"EPSG:{_WGS84}")
    systems = [
        ("Undefined Cartesian SRS", -1, "NONE", -1, "undefined", "undefined Cartesian"),
        ("Undefined geographic SRS", 0, "NONE", 0, "undefined", "undefined geographic"),
        _reference_row(wgs84),
        *([] if system.srid == _WGS84 else [_reference_row(system)]),
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


def _write_samples(file: sqlite3.Connection, reader: ReleaseReader, srid: int, stage: Stage) -> int:
    tree, rows = RTree(file, "rtree_samples_geom"), 0
    boxes = RTree(file, "rtree_areas_geom") if reader.has_areas else None
    with closing(reader.samples()) as chunks:
        for samples in chunks:
            columns = [
                np.arange(rows + 1, rows + 1 + len(samples)),
                _points(samples, srid),
                samples.trajectory_id,
                samples.seq,
                # the standard's form of a time has milliseconds and no more
                iso_times(samples.at_us, "ms").to_pylist(),
                samples.at_us,
            ]
            insert_rows(file, "samples", columns)
            tree.add((samples.x, samples.x), (samples.y, samples.y))
            if samples.areas is not None and boxes is not None:
                a = samples.areas
                during = [iso_times(t, "ms").to_pylist() for t in (a.begin_us, a.end_us)]
                found = [columns[0], gpkg_boxes(a, srid), *columns[2:4], *during]
                insert_rows(file, "areas", found)
                boxes.add((a.x_min, a.x_max), (a.y_min, a.y_max))
            rows += len(samples)
            stage.advance(len(samples))
    tree.finish()
    if boxes is not None:
        boxes.finish()
    return rows


def _points(samples: Samples, srid: int) -> list[bytes]:
    points = np.empty(len(samples), _POINT)
    points["magic"], points["version"], points["flags"] = b"GP", 0, _NO_ENVELOPE
    points["srs_id"] = srid
    points["order"], points["type"] = 1, 1
    points["x"], points["y"] = samples.x, samples.y
    blobs: list[bytes] = points.view(f"V{_POINT.itemsize}").tolist()
    return blobs


def _write_lines(file: sqlite3.Connection, reader: ReleaseReader, srid: int, stage: Stage) -> None:
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
    tree = RTree(file, "rtree_lines_geom")
    x_min, x_max, y_min, y_max = np.array(boxes, np.float64).reshape(-1, 4).T
    tree.add((x_min, x_max), (y_min, y_max))
    tree.finish()
