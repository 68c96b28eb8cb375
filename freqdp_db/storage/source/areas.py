"""Read a table of polygons as one area."""

from __future__ import annotations

from psycopg import sql

from freqdp_db.errors import BadInput
from freqdp_db.storage.connection.engine import Connection
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.connection.postgis import postgis_schema
from freqdp_db.storage.connection.statements import one_value
from freqdp_db.storage.source.points import geometry_column
from freqdp_db.storage.source.relations import find_relation


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
