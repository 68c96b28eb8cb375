"""The tables and triggers of a GeoPackage: statements of the file format."""

from __future__ import annotations

from string import Template

TABLES = """
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

AREAS = """
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
TRIGGERS = Template(
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
