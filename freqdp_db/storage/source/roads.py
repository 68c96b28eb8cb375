"""Read an edge table, ours or anybody's, as columns in metres."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from psycopg import sql

from freqdp_db.columns.ragged import offsets_of
from freqdp_db.errors import BadInput
from freqdp_db.roads.network import RoadRows
from freqdp_db.storage.connection.engine import Connection, driver
from freqdp_db.storage.connection.names import format_relation, identifier
from freqdp_db.storage.connection.postgis import postgis_schema
from freqdp_db.storage.copy.layout import Layout, read_arrays
from freqdp_db.storage.source.road_tables import choose_columns, edge_columns, oneway_flag


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
