"""Maps in tables of the user's: points of interest, outlines of regions, roads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.db.connection import Connection
from freqdp_db.db.copy import Layout, read_arrays
from freqdp_db.db.names import format_relation
from freqdp_db.db.source import columns_of, find_relation, read_column
from freqdp_db.errors import BadInput, NotFound
from freqdp_db.model.arrays import offsets_of
from freqdp_db.model.trajectories import Points
from freqdp_db.roads.network import RoadRows

_POINTS = Layout("x float8, y float8, category int4")
_ROADS = Layout("id int8, source int8, target int8, oneway int2")
_CORNERS = Layout("id int8, x float8, y float8")

# How edge tables of pgRouting, osm2pgrouting, osm2po and OSMnx call the columns of roads.
_KNOWN_NAMES: dict[str, tuple[str, ...]] = {
    "id": ("id", "edge_id", "gid", "fid", "ogc_fid"),
    "source": ("source", "u", "source_id", "from_node"),
    "target": ("target", "v", "target_id", "to_node"),
    "name": ("name", "osm_name", "street"),
    "kind": ("kind", "highway", "fclass", "class", "clazz"),
    "length_m": ("length_m", "len_m"),
    "speed_kmh": ("speed_kmh", "kmh", "maxspeed_forward", "maxspeed"),
    "oneway": ("oneway", "one_way"),
    "geom": ("geom", "the_geom", "geometry", "wkb_geometry", "geom_way"),
}
_NEEDED = ("id", "source", "target", "geom")


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
    column = found.column(category_option, read_column(found.columns, category)).name
    rows = connection.text(
        "SELECT {st_x}(place) AS x, {st_y}(place) AS y, category FROM (SELECT "
        "{st_transform}({st_centroid}({geom}::{geometry}), {srid}) AS place, "
        '{category}::text COLLATE "C" AS category FROM {relation} p '
        "WHERE {category} IS NOT NULL AND NOT {st_isempty}({geom}::{geometry})) placed",
        geom=sql.Identifier("p", found.geometry_column(option)),
        category=sql.Identifier("p", column),
        relation=found.identifier,
        srid=srid,
    )
    numbered = sql.SQL(
        "SELECT x, y, (dense_rank() OVER (ORDER BY category) - 1)::int4 AS category FROM ({}) r "
        "ORDER BY category, x, y"
    ).format(rows)
    columns = read_arrays(connection.driver, numbered, _POINTS)
    if not len(columns["x"]):
        raise BadInput(
            f"{option}: {found.schema}.{found.name} has no point with a category",
            remedy=f"give a table of points of interest with {option}",
        )
    names = connection.driver.execute(
        sql.SQL("SELECT DISTINCT category FROM ({}) r ORDER BY category").format(rows)
    )
    there = np.isfinite(columns["x"]) & np.isfinite(columns["y"])
    return Points(
        columns["x"][there],
        columns["y"][there],
        columns["category"][there].astype(np.int32),
        tuple(name for (name,) in names),
    )


def read_area(connection: Connection, relation: tuple[str, str]) -> str:
    """The union of a table's polygons, in degrees, as GeoJSON."""
    found = find_relation(connection, *relation, option="[[region]]")
    query = connection.text(
        "SELECT {st_asgeojson}({st_transform}({st_union}({st_collectionextract}("
        "{geom}::{geometry}, 3)), 4326), 15, 8) FROM {relation} p",
        geom=sql.Identifier("p", found.geometry_column("[[region]]")),
        relation=found.identifier,
    )
    area = connection.one_value(query)
    if area is None:
        raise BadInput(
            f"[[region]] {format_relation(*relation)} has no polygon",
            remedy="name a table of polygons, or give the corners of a box",
        )
    return str(area)


# Roads: an edge table, ours or anybody's.


def column_mapping(pairs: Sequence[str]) -> dict[str, str]:
    """`ours=theirs` pairs, as `--map` takes them."""
    mapping = {}
    for pair in pairs:
        ours, _, theirs = pair.partition("=")
        if ours not in _KNOWN_NAMES or not theirs:
            raise BadInput(
                f"[[map]] {pair} is not of the form ours=theirs",
                remedy="ours is one of " + ", ".join(_KNOWN_NAMES),
            )
        mapping[ours] = theirs
    return mapping


def select_roads(
    connection: Connection, relation: tuple[str, str], srid: int, mapping: Mapping[str, str]
) -> sql.Composed:
    """The lines of an edge table with the columns of a roads table, in an SRID.

    Columns are found by their usual names, or as `mapping` says. A one-part MultiLineString is a line all
    the same. Where no column says `oneway`, pgRouting's `reverse_cost` does: below 0 there is no way back.
    """
    column = _choose_columns(connection, relation, mapping)
    parts: dict[str, LiteralString] = {
        "name": "{name}::text" if "name" in column else "NULL::text",
        "kind": "{kind}::text" if "kind" in column else "NULL::text",
        "length_m": "{length_m}::float8"
        if "length_m" in column
        else "{st_length}({st_transform}(line.geom, 4326)::{geography}, true)",
        # a number, also as text such as `50` or `50 mph`; anything else is unknown
        "speed_kmh": "CASE WHEN {speed_kmh}::text ~ '^[0-9]+([.][0-9]+)?$' "
        "THEN {speed_kmh}::text::float8 WHEN {speed_kmh}::text ~ '^[0-9]+ ?mph$' "
        "THEN substring({speed_kmh}::text, '^[0-9]+')::float8 * 1.609344 END"
        if "speed_kmh" in column
        else "NULL::float8",
        "oneway": "false",
    }
    if "oneway" in column:
        # booleans, OSM's yes/no and osm2pgrouting's 1; any other code counts as two-way
        parts["oneway"] = "coalesce(lower({oneway}::text) IN ('true', 't', 'yes', '1'), false)"
    elif "reverse_cost" in column:
        parts["oneway"] = "coalesce({reverse_cost}::float8 < 0, false)"
    return connection.text(
        "SELECT {id}::int8 AS id, {source}::int8 AS source, {target}::int8 AS target, "
        "{name} AS name, {kind} AS kind, {length_m} AS length_m, {speed_kmh} AS speed_kmh, "
        "{oneway} AS oneway, line.geom FROM {relation} e, LATERAL (SELECT "
        "{st_transform}({st_linemerge}({geom}), {srid}) AS geom OFFSET 0) line "
        "WHERE {geometrytype}(line.geom) = 'LINESTRING'",
        relation=sql.Identifier(*relation),
        srid=srid,
        **{name: column[name] for name in _NEEDED},
        **{name: connection.text(text, **column) for name, text in parts.items()},
    )


def _choose_columns(
    connection: Connection, relation: tuple[str, str], mapping: Mapping[str, str]
) -> dict[str, sql.Identifier]:
    """Which column of theirs (of e) is which of ours: as given, else by the usual names."""
    theirs = columns_of(connection, relation)
    if not theirs:
        raise NotFound(
            f"there is no table {format_relation(*relation)}",
            remedy="check its name, with its schema",
        )
    chosen: dict[str, str] = {}
    for name, known in _KNOWN_NAMES.items():
        given = mapping.get(name)
        if given is not None and given not in theirs:
            raise BadInput(
                f"[[map]] {name}={given}: {format_relation(*relation)} has no such column",
                remedy="its columns are " + ", ".join(theirs),
            )
        found = given or next((k for k in known if k in theirs), None)
        if found is not None:
            chosen[name] = found
        elif name in _NEEDED:
            raise BadInput(
                f"{format_relation(*relation)} has no column that looks like {name}",
                remedy=f"say which it is and make a table of roads: freqdp load roads --from "
                f"{format_relation(*relation)} --map {name}=COLUMN --into SCHEMA.TABLE "
                "(pgr_createTopology makes junctions)",
            )
    if theirs[chosen["geom"]].type != "geometry":
        raise BadInput(
            f"the column {chosen['geom']} of {format_relation(*relation)} is not a geometry",
            remedy="name the right one: [[map]] geom=COLUMN",
        )
    if "reverse_cost" in theirs:
        chosen["reverse_cost"] = "reverse_cost"
    return {name: sql.Identifier("e", found) for name, found in chosen.items()}


def read_roads(
    connection: Connection, relation: tuple[str, str], srid: int, mapping: Mapping[str, str]
) -> RoadRows:
    """The lines of an edge table as columns, in metres of the SRID."""
    try:
        rows, points = _read_lines(connection, select_roads(connection, relation, srid, mapping))
    except (psycopg.errors.InternalError_, psycopg.DataError):
        raise BadInput(
            f"{format_relation(*relation)} cannot be read as roads in SRID {srid}",
            remedy="ids and junctions must be whole numbers, and lines must lie where the dataset does, "
            "in the SRID that they say",
        ) from None
    if len(rows["id"]) == 0 or (np.diff(rows["id"]) == 0).any():
        raise BadInput(
            f"{format_relation(*relation)} has "
            + ("no lines" if len(rows["id"]) == 0 else "several rows of one id"),
            remedy="give a table of roads, one row each: freqdp load roads makes one",
        )
    road = np.searchsorted(rows["id"], points["id"])
    return RoadRows(
        rows["id"],
        rows["source"],
        rows["target"],
        rows["oneway"] != 0,
        offsets_of(road, len(rows["id"])),
        points["x"],
        points["y"],
    )


def _read_lines(
    connection: Connection, roads: sql.Composed
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Roads in order of their ids, and the corners of their lines."""
    lines = sql.SQL(
        "SELECT id, source, target, oneway::int::int2 AS oneway, geom FROM ({}) r "
        "WHERE id IS NOT NULL AND source IS NOT NULL AND target IS NOT NULL"
    ).format(roads)
    corners = connection.text(
        "SELECT id, {st_x}((d).geom) AS x, {st_y}((d).geom) AS y FROM "
        "(SELECT id, {st_dumppoints}(geom) AS d FROM ({lines}) l) p ORDER BY id, (d).path[1]",
        lines=lines,
    )
    rows = sql.SQL("SELECT id, source, target, oneway FROM ({}) l ORDER BY id").format(lines)
    return read_arrays(connection.driver, rows, _ROADS), read_arrays(
        connection.driver, corners, _CORNERS
    )
