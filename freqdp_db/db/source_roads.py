"""Road tables: from rows, or from an edge table that is there; junctions and anchors from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa
from psycopg import sql

from freqdp_db.db.connection import Connection, driver
from freqdp_db.db.copy import Layout, read_arrays
from freqdp_db.db.names import format_relation, identifier, postgis_schema
from freqdp_db.db.plain_tables import Column, Mode, PlainTable, column_types, filling
from freqdp_db.db.statements import column_list, one_value
from freqdp_db.errors import BadInput, NotFound
from freqdp_db.model.arrays import offsets_of
from freqdp_db.roads.network import RoadRows
from freqdp_db.settings import Settings

ROAD_COLUMNS = (
    Column("id", "int8", "Number of the road."),
    Column("source", "int8", "Junction where it starts."),
    Column("target", "int8", "Junction where it ends."),
    Column("name", "text", "Name, if known."),
    Column("kind", "text", "Kind of road, if known."),
    Column("length_m", "float8", "Length in metres."),
    Column("speed_kmh", "float8", "Usual or allowed speed, if known."),
    Column("oneway", "bool", "Whether it may be driven from source to target only."),
    Column("geom", "line", "Its course from source to target, WGS 84."),
)
ANCHOR_COLUMNS = (
    Column("id", "int8", "Number of the junction; points along the roads are numbered after them."),
    Column("geom", "point", "Where it is, WGS 84."),
)

# How edge tables of pgRouting, osm2pgrouting, osm2po and OSMnx call these columns.
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


def roads_table(relation: tuple[str, str], comment: str) -> PlainTable:
    return PlainTable(relation, ROAD_COLUMNS, comment, key="id")


def anchors_table(relation: tuple[str, str], roads: tuple[str, str]) -> PlainTable:
    return PlainTable(
        relation,
        ANCHOR_COLUMNS,
        f"Junctions and points along {format_relation(*roads)}, loaded by freqdp; "
        "to snap samples to.",
        key="id",
    )


def column_mapping(pairs: Sequence[str]) -> dict[str, str]:
    """`ours=theirs` pairs, as `--map` takes them."""
    known = [c.name for c in ROAD_COLUMNS]
    mapping = {}
    for pair in pairs:
        ours, _, theirs = pair.partition("=")
        if ours not in known or not theirs:
            raise BadInput(
                f"[[map]] {pair} is not of the form ours=theirs",
                remedy="ours is one of " + ", ".join(known),
            )
        mapping[ours] = theirs
    return mapping


def load_roads(
    connection: sa.Connection,
    settings: Settings,
    table: PlainTable,
    mode: Mode,
    rows: Iterable[Sequence[Any]],
    on_rows: Callable[[int], None] | None = None,
) -> int:
    """Fill a roads table from rows in the order of its columns, the geometry as hex EWKB."""
    count = 0
    with filling(connection, settings, table, mode) as place:
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
            identifier(place), column_list(c.name for c in table.columns)
        )
        with driver(connection).cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
                count += 1
                if on_rows is not None and count % 1_000 == 0:
                    on_rows(1_000)
    if on_rows is not None:
        on_rows(count % 1_000)
    return count


def copy_roads(
    connection: sa.Connection,
    settings: Settings,
    table: PlainTable,
    mode: Mode,
    origin: tuple[str, str],
    mapping: Mapping[str, str],
) -> tuple[int, int]:
    """Fill a roads table from an edge table; returns rows taken and rows that are no line."""
    raw = driver(connection)
    gis = postgis_schema(connection)
    types = edge_columns(raw, origin)
    column = choose_columns(origin, types, mapping)
    in_gis = {name: sql.Identifier(gis, name) for name in _FUNCTIONS}
    # A one-part MultiLineString is a line all the same.
    line = sql.SQL("{transform}({merge}({geom}), 4326)").format(
        transform=in_gis["st_transform"], merge=in_gis["st_linemerge"], geom=column["geom"]
    )
    length: sql.Composable = sql.SQL("{}(line.geom::{}, true)").format(
        in_gis["st_length"], sql.Identifier(gis, "geography")
    )
    if "length_m" in column:
        length = sql.SQL("{}::float8").format(column["length_m"])
    with filling(connection, settings, table, mode) as place:
        count = sql.SQL("SELECT count(*) FROM {}").format(identifier(origin))
        there = int(one_value(connection, count))
        taken = raw.execute(
            sql.SQL(
                "INSERT INTO {place} (id, source, target, name, kind, length_m, speed_kmh, oneway,"
                " geom) SELECT {id}::int8, {source}::int8, {target}::int8, {name}::text,"
                " {kind}::text, {length}, {speed}, {oneway}, line.geom FROM {origin} e,"
                " LATERAL (SELECT {line} AS geom OFFSET 0) line"
                " WHERE {kind_of}(line.geom) = 'LINESTRING' ORDER BY 1"
            ).format(
                place=identifier(place),
                id=column["id"],
                source=column["source"],
                target=column["target"],
                name=column.get("name", sql.SQL("NULL")),
                kind=column.get("kind", sql.SQL("NULL")),
                length=length,
                speed=_speed(column.get("speed_kmh")),
                oneway=oneway_flag(column.get("oneway")),
                origin=identifier(origin),
                line=line,
                kind_of=in_gis["geometrytype"],
            )
        ).rowcount
    return taken, there - taken


def make_anchors(
    connection: sa.Connection,
    settings: Settings,
    table: PlainTable,
    mode: Mode,
    roads: tuple[str, str],
    every_m: float | None,
) -> int:
    """Fill a table of junctions from a roads table, and points every so many metres between."""
    raw = driver(connection)
    gis = postgis_schema(connection)
    names = {name: sql.Identifier(gis, name) for name in _FUNCTIONS}
    with filling(connection, settings, table, mode) as place:
        count = raw.execute(
            sql.SQL(
                "INSERT INTO {place} (id, geom) SELECT DISTINCT ON (id) id, geom FROM ("
                "SELECT source AS id, {start}(geom) AS geom FROM {roads} UNION ALL "
                "SELECT target, {end}(geom) FROM {roads}) ends ORDER BY id"
            ).format(
                place=identifier(place),
                roads=identifier(roads),
                start=names["st_startpoint"],
                end=names["st_endpoint"],
            )
        ).rowcount
        if every_m is not None:
            # The two directions of a street are two rows of the same length: one gives its points.
            count += raw.execute(
                sql.SQL(
                    "INSERT INTO {place} (id, geom) SELECT (SELECT max(id) FROM {place})"
                    " + row_number() OVER (ORDER BY road.id, part), {interpolate}(road.geom,"
                    " part / parts) FROM (SELECT DISTINCT ON (least(source, target),"
                    " greatest(source, target), round(length_m::numeric, 1)) id, geom,"
                    " ceil(length_m / {every}) AS parts FROM {roads}"
                    " ORDER BY least(source, target),"
                    " greatest(source, target), round(length_m::numeric, 1), id) road,"
                    " generate_series(1, road.parts::int8 - 1) part"
                ).format(
                    place=identifier(place),
                    roads=identifier(roads),
                    interpolate=names["st_lineinterpolatepoint"],
                    every=sql.Literal(every_m),
                )
            ).rowcount
    return count


_FUNCTIONS = (
    "st_transform",
    "st_linemerge",
    "st_length",
    "geometrytype",
    "st_startpoint",
    "st_endpoint",
    "st_lineinterpolatepoint",
)


def edge_columns(raw: psycopg.Connection[Any], origin: tuple[str, str]) -> dict[str, str]:
    """Names and types of an edge table's columns."""
    types = column_types(raw, origin)
    if not types:
        raise NotFound(
            f"there is no table {format_relation(*origin)}",
            remedy="check its name, with its schema",
        )
    return types


def choose_columns(
    origin: tuple[str, str], types: Mapping[str, str], mapping: Mapping[str, str]
) -> dict[str, sql.Identifier]:
    """Which column of theirs (of e) is which of ours: as told, else by the usual names."""
    chosen: dict[str, str] = {}
    for name, known in _KNOWN_NAMES.items():
        told = mapping.get(name)
        if told is not None and told not in types:
            raise BadInput(
                f"[[map]] {name}={told}: {format_relation(*origin)} has no such column",
                remedy="its columns are " + ", ".join(types),
            )
        found = told or next((k for k in known if k in types), None)
        if found is not None:
            chosen[name] = found
        elif name in _NEEDED:
            raise BadInput(
                f"{format_relation(*origin)} has no column that looks like {name}",
                remedy=f"name it: [[map]] {name}=COLUMN (a topology can be made with "
                "pgr_createTopology)",
            )
    if types[chosen["geom"]] != "geometry":
        raise BadInput(
            f"the column {chosen['geom']} of {format_relation(*origin)} is not a geometry",
            remedy="name the right one: [[map]] geom=COLUMN",
        )
    return {name: sql.Identifier("e", found) for name, found in chosen.items()}


def _speed(column: sql.Identifier | None) -> sql.Composable:
    """A number, also from text such as `50` or `50 mph`; anything else is unknown."""
    if column is None:
        return sql.SQL("NULL::float8")
    return sql.SQL(
        "CASE WHEN {0}::text ~ '^[0-9]+([.][0-9]+)?$' THEN {0}::text::float8"
        " WHEN {0}::text ~ '^[0-9]+ ?mph$' THEN substring({0}::text, '^[0-9]+')::float8 * 1.609344"
        " END"
    ).format(column)


def oneway_flag(column: sql.Identifier | None) -> sql.Composable:
    """Booleans, OSM's yes/no and osm2pgrouting's 1; any other code counts as two-way."""
    if column is None:
        return sql.SQL("false")
    return sql.SQL("coalesce(lower({}::text) IN ('true', 't', 'yes', '1'), false)").format(column)


# Read an edge table, ours or anybody's, as columns in metres.


def read_roads(
    connection: Connection, relation: tuple[str, str], srid: int, mapping: Mapping[str, str]
) -> RoadRows:
    """The lines of an edge table; columns by their usual names, or as `mapping` says.

    Where no column says `oneway`, pgRouting's `reverse_cost` does: below 0 there is no way back.
    """
    raw = driver(connection)
    types = edge_columns(raw, relation)
    column = choose_columns(relation, types, mapping)
    oneway = oneway_flag(column.get("oneway"))
    if "oneway" not in column and "reverse_cost" in types:
        oneway = sql.SQL("coalesce(e.reverse_cost < 0, false)")
    gis = postgis_schema(connection)
    parts = {
        "relation": identifier(relation),
        "oneway": oneway,
        "srid": sql.Literal(srid),
        **{name: column[name] for name in ("id", "source", "target", "geom")},
        **{
            name: sql.Identifier(gis, f"st_{name}")
            for name in ("transform", "linemerge", "dumppoints", "x", "y")
        },
        "kind": sql.Identifier(gis, "geometrytype"),
    }
    # a one-part MultiLineString is a line all the same
    lines = sql.SQL(
        "SELECT {id}::int8 AS id, {source}::int8 AS source, {target}::int8 AS target, "
        "({oneway})::int::int2 AS oneway, "
        "{transform}({linemerge}({geom}), {srid}) AS line FROM {relation} e "
        "WHERE {kind}({linemerge}({geom})) = 'LINESTRING' "
        "AND {id} IS NOT NULL AND {source} IS NOT NULL AND {target} IS NOT NULL"
    ).format(**parts)
    layout = Layout([("id", "int8"), ("source", "int8"), ("target", "int8"), ("oneway", "int2")])
    rows = read_arrays(
        raw,
        sql.SQL("SELECT id, source, target, oneway FROM ({}) l ORDER BY id").format(lines),
        layout,
    )
    if len(rows["id"]) == 0 or (np.diff(rows["id"]) == 0).any():
        raise BadInput(
            f"{format_relation(*relation)} has "
            + ("no lines" if len(rows["id"]) == 0 else "several rows of one id"),
            remedy="give a table of roads, one row each: freqdp load roads makes one",
        )
    points = read_arrays(
        raw,
        sql.SQL(
            "SELECT id, {x}((d).geom) AS x, {y}((d).geom) AS y FROM "
            "(SELECT id, {dumppoints}(line) AS d FROM ({lines}) l) p ORDER BY id, (d).path[1]"
        ).format(lines=lines, **{name: parts[name] for name in ("x", "y", "dumppoints")}),
        Layout([("id", "int8"), ("x", "float8"), ("y", "float8")]),
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
