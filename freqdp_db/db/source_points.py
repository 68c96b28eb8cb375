"""Points of interest and outlines of regions, read from tables of the user's."""

from __future__ import annotations

import numpy as np
from psycopg import sql

from freqdp_db.db.connection import Connection, driver
from freqdp_db.db.copy import Layout, read_arrays
from freqdp_db.db.names import format_relation, postgis_schema
from freqdp_db.db.source import Relation, find_relation, read_column
from freqdp_db.db.statements import one_value
from freqdp_db.errors import BadInput
from freqdp_db.model.trajectories import Points

_LAYOUT = Layout([("x", "float8"), ("y", "float8"), ("category", "int4")])


def read_points(
    connection: Connection,
    relation: tuple[str, str],
    srid: int,
    category: str,
    *,
    option: str,
    category_option: str,
) -> Points:
    """The places and categories of a table or view; what has no place or category is left out.

    Of other shapes than points the middle counts. The options are where both were named.
    """
    found = find_relation(connection, *relation, option=option)
    column = sql.Identifier(
        "p", found.column(category_option, read_column(found.columns, category)).name
    )
    geom = sql.Identifier("p", geometry_column(found, option))
    gis = postgis_schema(connection)
    parts = {
        "relation": found.identifier,
        "category": sql.SQL('{}::text COLLATE "C"').format(column),
        "geometry": sql.Identifier(gis, "geometry"),
        "geom": geom,
        "srid": sql.Literal(srid),
        **{name: sql.Identifier(gis, f"st_{name}") for name in ("x", "y", "transform", "centroid")},
        "empty": sql.Identifier(gis, "st_isempty"),
    }
    rows = sql.SQL(
        "SELECT {transform}({centroid}({geom}::{geometry}), {srid}) AS place, {category} AS category "
        "FROM {relation} p WHERE {category} IS NOT NULL AND NOT {empty}({geom}::{geometry})"
    ).format(**parts)
    raw = driver(connection)
    columns = read_arrays(
        raw,
        sql.SQL(
            "SELECT {x}(place) AS x, {y}(place) AS y, "
            "(dense_rank() OVER (ORDER BY category) - 1)::int4 AS category FROM ({rows}) r "
            "ORDER BY category, x, y"
        ).format(rows=rows, x=parts["x"], y=parts["y"]),
        _LAYOUT,
    )
    names = raw.execute(
        sql.SQL("SELECT DISTINCT category FROM ({}) r ORDER BY category").format(rows)
    ).fetchall()
    if not len(columns["x"]):
        raise BadInput(
            f"{option}: {found.schema}.{found.name} has no point with a category",
            remedy=f"give a table of points of interest with {option}",
        )
    there = np.isfinite(columns["x"]) & np.isfinite(columns["y"])
    return Points(
        columns["x"][there],
        columns["y"][there],
        columns["category"][there].astype(np.int32),
        tuple(name for (name,) in names),
    )


def geometry_column(relation: Relation, option: str) -> str:
    """The column called `geom`, or the only one of its kind."""
    found = [c.name for c in relation.columns.values() if c.type in ("geometry", "geography")]
    if "geom" in found:
        return "geom"
    if len(found) != 1:
        raise BadInput(
            f"{option}: {relation.schema}.{relation.name} has "
            + (f"several geometries: {', '.join(found)}" if found else "no geometry"),
            remedy="give a table or view whose geometry is called geom",
        )
    return found[0]


# Read a table of polygons as one area.


def read_area(connection: Connection, relation: tuple[str, str]) -> str:
    """The union of a table's polygons, in degrees, as GeoJSON."""
    found = find_relation(connection, *relation, option="[[region]]")
    gis = postgis_schema(connection)
    routines = ("asgeojson", "transform", "union", "collectionextract")
    query = sql.SQL(
        "SELECT {asgeojson}({transform}({union}({collectionextract}({geom}::{geometry}, 3)), "
        "4326), 15, 8) FROM {relation} p"
    ).format(
        geom=sql.Identifier("p", geometry_column(found, "[[region]]")),
        geometry=sql.Identifier(gis, "geometry"),
        relation=found.identifier,
        **{name: sql.Identifier(gis, f"st_{name}") for name in routines},
    )
    area = one_value(connection, query)
    if area is None:
        raise BadInput(
            f"[[region]] {format_relation(*relation)} has no polygon",
            remedy="name a table of polygons, or give the corners of a box",
        )
    return str(area)
