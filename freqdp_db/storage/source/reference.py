"""Reference systems, as the server knows them."""

from __future__ import annotations

import sqlalchemy as sa
from psycopg import sql

from freqdp_db.errors import BadInput
from freqdp_db.storage.connection.engine import driver
from freqdp_db.storage.connection.postgis import postgis_schema


def definition_of(connection: sa.Connection, srid: int, option: str) -> str:
    """A definition of the SRID that pyproj understands: EPSG code, else the WKT."""
    row = (
        driver(connection)
        .execute(
            sql.SQL("SELECT auth_name, auth_srid, srtext FROM {} WHERE srid = %s").format(
                sql.Identifier(postgis_schema(connection), "spatial_ref_sys")
            ),
            [srid],
        )
        .fetchone()
    )
    if row is None:
        raise BadInput(
            f"{option} {srid}: spatial_ref_sys has no such SRID",
            remedy="use one that PostGIS knows, or add it to spatial_ref_sys",
        )
    authority, code, wkt = row
    return f"EPSG:{code}" if authority == "EPSG" and code else str(wkt)
