"""Vector tiles of released tables, decoded by GDAL."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import psycopg
import pyogrio

BRUSSELS = (11, 1048, 686)
"""z, x, y of a tile in the middle of the demo's city."""


def _tile(url: str, **query: str) -> bytes:
    with psycopg.connect(url) as connection:
        connection.execute("SET ROLE freqdp_analyst")
        row = connection.execute(
            "SELECT freqdp_release.tile(%s, %s, %s, %s)", [*BRUSSELS, json.dumps(query)]
        ).fetchone()
    assert row is not None
    return bytes(row[0])


def _inside(url: str, table: str) -> int:
    """How many rows lie in the tile."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            f"SELECT count(*) FROM freqdp_release.{table} WHERE ST_Intersects(geom, ST_Transform("
            "ST_TileEnvelope(%s, %s, %s), 4326))".encode(),
            BRUSSELS,
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_points_are_counted_by_pixel(released_city: str, tmp_path: Path) -> None:
    file = tmp_path / "686.pbf"
    file.write_bytes(_tile(released_city, table="city_1"))
    found = pyogrio.raw.read(f"MVT:{file}", columns=["samples"])
    samples = found[3][0]
    assert samples.sum() == _inside(released_city, "city_1") > len(samples) > 10


def test_lines_have_their_columns_and_can_be_chosen(released_city: str, tmp_path: Path) -> None:
    file = tmp_path / "686.pbf"
    file.write_bytes(_tile(released_city, table="city_1_line"))
    meta, _, _, columns = pyogrio.raw.read(f"MVT:{file}")
    assert {"trajectory_id", "day"} <= set(meta["fields"])
    ids = columns[list(meta["fields"]).index("trajectory_id")]
    # a line that only touches the edge may be left out
    inside = _inside(released_city, "city_1_line")
    assert 0 < inside - 5 <= len(ids) <= inside
    one = str(ids[0])
    file.write_bytes(_tile(released_city, table="city_1_line", trajectory_id=one))
    meta, _, _, columns = pyogrio.raw.read(f"MVT:{file}")
    chosen = columns[list(meta["fields"]).index("trajectory_id")]
    assert set(map(str, chosen)) == {one} and len(chosen) == np.sum(ids == ids[0])
