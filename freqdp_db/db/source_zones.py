"""Zones for counts: from a table of polygons of the user's, from a grid of squares, or from H3.

PostGIS makes, checks and unites the polygons; assigning samples to them is not done here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from freqdp_db.db.connection import Connection, driver
from freqdp_db.db.copy import Layout, read_arrays
from freqdp_db.db.names import format_relation, postgis_schema
from freqdp_db.db.source import Relation, definition_of, find_relation, read_column, read_name
from freqdp_db.db.source_points import geometry_column
from freqdp_db.errors import BadInput
from freqdp_db.methods.counts.zones import (
    OUTSIDE,
    Squares,
    Zones,
    block_width,
    blocks_of,
    square_name,
)
from freqdp_db.methods.kinds import Box, HexagonGrid, Outline, SquareGrid
from freqdp_db.model.arrays import Ids, Ints, Metres

MOST_ZONES = 100_000
MOST_SQUARES = 1_200_000
BLOCK_M = 5_000.0
"""Districts of a grid are blocks of squares, about so wide,"""
_MOST_BLOCKS = 500
"""or wider where there would be more. (Grids of up to MOST_ZONES squares keep theirs.)"""
_PARENTS_UP = 2
"""Districts of hexagons are those so many resolutions coarser."""
_OVERLAP = 0.001
"""Of the smaller of two zones: what they may have in common, as maps drawn by hand do."""
_NAMED = 3
"""How many zones a message names."""
_WGS84 = 4326
_STRAIGHT = 0.01, 1000.0
"""Longer sides, in degrees or in units of a projection, get more corners before they are transformed."""

_ZONES = "[[zones]]"
_FUNCTIONS = (
    "area", "asewkb", "asgeojson", "buildarea", "centroid", "dumppoints", "force2d", "geomfromtext",
    "geomfromwkb", "intersection", "intersects", "isempty", "isvalid", "makeenvelope", "multi",
    "normalize", "relate", "segmentize", "setsrid", "srid", "transform", "union", "x", "xmax", "xmin",
    "y", "ymax", "ymin",
)  # fmt: skip
_UNITED_SQUARES = """
WITH square AS (
  SELECT s.c, s.r, d.district FROM ({squares}) s
  JOIN unnest(%s::int4[]) WITH ORDINALITY AS d (district, m) ON d.m = s.n
), run AS (
  SELECT district,
    {makeenvelope}(min(c) * {w}, r * {w}, (max(c) + 1) * {w}, (r + 1) * {w}, {metric}) AS geom
  FROM (SELECT *, c - row_number() OVER (PARTITION BY district, r ORDER BY c) AS first FROM square) s
  GROUP BY district, r, first
), block AS (SELECT district, {union}(geom) AS geom FROM run GROUP BY district)
SELECT {asewkb}({multi}({normalize}({transform}({segmentize}(geom, {w}), {shown}))), 'NDR')
FROM (SELECT district, geom FROM block UNION ALL SELECT NULL, {union}(geom) FROM block) b
ORDER BY district NULLS LAST
"""
"""Of very many squares: those that touch in a row of a district are united as one rectangle."""
_GEOGRAPHIC = "SELECT srid FROM {} WHERE srid = ANY(%s) AND proj4text LIKE '%%+proj=longlat%%'"


def read_zones(
    connection: Connection,
    zoning: str | SquareGrid | HexagonGrid,
    region: Box | Outline,
    srid: int,
    source_srid: int,
    *,
    zone: str | None = None,
    district: str | None = None,
) -> Zones:
    """Zones in metres of `srid`, their shapes in `source_srid`. zone, district: columns of a table."""
    reader = _Reader(connection, region, srid, source_srid)
    try:
        if isinstance(zoning, str):
            return reader.from_table(zoning, zone, district)
        for name, column in (("[[zone]]", zone), ("[[district]]", district)):
            if column is not None:
                raise BadInput(
                    f"{name} {column}: {_ZONES} {zoning} is no table",
                    remedy=f"leave {name} out, or name a table of polygons with {_ZONES}",
                )
        of_grid = reader.squares if isinstance(zoning, SquareGrid) else reader.hexagons
        return of_grid(zoning)  # type: ignore[arg-type]
    except (psycopg.errors.InternalError_, psycopg.errors.DataException) as error:
        raise BadInput(
            f"{_ZONES} {zoning}: PostGIS cannot transform the zones to SRID {srid} or {source_srid}",
            remedy="check that they lie where the dataset does, and in the SRID that they say: "
            + str(error).splitlines()[0],
        ) from None


@dataclass(frozen=True)
class _Polygons:
    """A query of (n, geom), numbered from 1, and its arguments."""

    query: sql.Composed
    arguments: tuple[Any, ...] = ()


class _Reader:
    def __init__(
        self, connection: Connection, region: Box | Outline, srid: int, source_srid: int
    ) -> None:
        self.connection, self.raw = connection, driver(connection)
        self.srid, self.source_srid = srid, source_srid
        gis = postgis_schema(connection)
        self.systems = sql.Identifier(gis, "spatial_ref_sys")
        self.names: dict[str, sql.Composable] = {
            name: sql.Identifier(gis, f"st_{name}") for name in _FUNCTIONS
        }
        self.names |= {
            "geometry": sql.Identifier(gis, "geometry"),
            "kind": sql.Identifier(gis, "geometrytype"),
            "metric": sql.Literal(srid),
            "shown": sql.Literal(source_srid),
        }
        self.names["region"] = self._region(region)

    def _sql(self, text: str, **more: sql.Composable) -> sql.Composed:
        return sql.SQL(text).format(**self.names, **more)

    def _rows(self, query: sql.Composed, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.raw.execute(query, arguments).fetchall()

    def _region(self, region: Box | Outline) -> sql.Composed:
        """In degrees. What an even number of rings goes round is a hole."""
        if isinstance(region, Box):
            corners = sql.SQL(", ").join(sql.Literal(float(side)) for side in region)
            return self._sql("{makeenvelope}({corners}, 4326)", corners=corners)
        rings = ", ".join(
            "(" + ", ".join(f"{lon} {lat}" for lon, lat in ring) + ")" for ring in region.rings
        )
        wkt = sql.Literal(f"MULTILINESTRING({rings})")
        return self._sql("{buildarea}({geomfromtext}({wkt}, 4326))", wkt=wkt)

    # A grid of squares, and hexagons.

    def squares(self, grid: SquareGrid) -> Zones:
        """The squares that meet the region; their lines lie at multiples of the width."""
        width = float(grid.metres)
        whole = self._sql("{transform}({segmentize}({region}, 0.01), {metric})")
        ((west, south, east, north),) = self._rows(
            self._sql(
                "SELECT {xmin}(a), {ymin}(a), {xmax}(a), {ymax}(a) FROM (SELECT {whole} AS a) r",
                whole=whole,
            )
        )
        columns = int(np.floor(west / width)), int(np.floor(east / width))
        rows = int(np.floor(south / width)), int(np.floor(north / width))
        wide, high = columns[1] - columns[0] + 1, rows[1] - rows[0] + 1
        _require_not_too_many(wide * high, grid, "wider squares", MOST_SQUARES)
        numbers = {
            "w": sql.Literal(width),
            **{f"c{i}": sql.Literal(c) for i, c in enumerate(columns)},
            **{f"r{i}": sql.Literal(r) for i, r in enumerate(rows)},
        }
        squares = self._sql(
            "SELECT (row_number() OVER (ORDER BY r, c))::int4 AS n, c, r, geom FROM "
            "generate_series({c0}::int8, {c1}) c, generate_series({r0}::int8, {r1}) r, "
            "LATERAL (SELECT {makeenvelope}(c * {w}, r * {w}, (c + 1) * {w}, (r + 1) * {w}, {metric}) "
            "AS geom) s, (SELECT {whole} AS area OFFSET 0) a WHERE {intersects}(s.geom, a.area)",
            whole=whole,
            **numbers,
        )
        place = np.array(
            self._rows(sql.SQL("SELECT c, r FROM ({}) s ORDER BY n").format(squares)), np.int64
        ).reshape(-1, 2)
        zone = np.full((high, wide), OUTSIDE, np.int32)
        zone[place[:, 1] - rows[0], place[:, 0] - columns[0]] = np.arange(len(place))
        x, y = ((place[:, axis].astype(np.float64) + 0.5) * width for axis in (0, 1))
        names = tuple(square_name(c, r, width) for c, r in place.tolist())
        block, united = max(round(BLOCK_M / width), 1), None
        if len(names) > MOST_ZONES:
            block = max(block, math.ceil(math.sqrt(len(names) / _MOST_BLOCKS)))
            united = self._sql(_UNITED_SQUARES, squares=squares, w=numbers["w"])
        district, districts = blocks_of(x, y, block * width)
        return Zones(
            names, district, districts, x, y, self._shapes(_Polygons(squares), district, united),
            Squares(width, columns[0], rows[0], zone),
        )  # fmt: skip

    def hexagons(self, grid: HexagonGrid) -> Zones:
        """The cells of H3 that overlap the region."""
        import h3

        ((area_km2, outline),) = self._rows(
            self._sql(
                "SELECT {area}({transform}({segmentize}({region}, 0.01), {metric})) / 1e6, "
                "{asgeojson}({region})"
            )
        )
        expected = area_km2 / h3.average_hexagon_area(grid.resolution, unit="km^2")
        _require_not_too_many(expected, grid, "a lower resolution")
        import json

        shape = h3.geo_to_h3shape(json.loads(outline))
        cells = sorted(h3.h3shape_to_cells_experimental(shape, grid.resolution, contain="overlap"))
        parents = [h3.cell_to_parent(c, max(grid.resolution - _PARENTS_UP, 0)) for c in cells]
        districts, district = np.unique(parents, return_inverse=True)
        given = self._sql(
            "SELECT n::int4 AS n, {setsrid}({geomfromwkb}(wkb), 4326) AS geom "
            "FROM unnest(%s::bytea[]) WITH ORDINALITY AS w (wkb, n)"
        )
        polygons = _Polygons(given, ([_hexagon(h3.cell_to_boundary(cell)) for cell in cells],))
        return self._zones(polygons, cells, district.astype(np.int32), [str(d) for d in districts])

    # A table.

    def from_table(self, text: str, zone: str | None, district: str | None) -> Zones:
        name = read_name(self.connection, text, _ZONES)
        relation = find_relation(self.connection, *name, option=_ZONES)
        if zone is None:
            zone = self._primary_key(relation)
        of_zone = relation.column("[[zone]]", read_column(relation.columns, zone)).name
        columns: dict[str, sql.Composable] = {
            "relation": relation.identifier,
            "id": sql.Identifier("z", of_zone),
            "geom": self._sql(
                "{force2d}({column}::{geometry})",
                column=sql.Identifier("z", geometry_column(relation, _ZONES)),
            ),
            "district": sql.SQL("NULL::text"),
        }
        if district is not None:
            known = read_column(relation.columns, district)
            of_district = relation.column("[[district]]", known).name
            columns["district"] = sql.SQL('{}::text COLLATE "C"').format(
                sql.Identifier("z", of_district)
            )
        systems = self._require_polygons(relation, of_zone, district, columns)
        kind = relation.columns[of_zone].type
        order = columns["id"]
        if kind not in ("int2", "int4", "int8", "numeric"):
            order = sql.SQL('{}::text COLLATE "C"').format(columns["id"])
        rows = self._sql(
            "SELECT (row_number() OVER (ORDER BY {order}))::int4 AS n, {id}::text AS name, "
            "{district} AS district, {given} AS geom FROM {relation} z",
            order=order, given=columns["geom"],
            **{name: columns[name] for name in ("id", "district", "relation")},
        )  # fmt: skip
        polygons = _Polygons(rows)
        self._require_in_region(relation, polygons)
        found = self._rows(sql.SQL("SELECT name, district FROM ({}) z ORDER BY n").format(rows))
        names = [name for name, _ in found]
        if district is None:
            return self._zones(polygons, names, None, None, relation, systems)
        districts, index = np.unique([d for _, d in found], return_inverse=True)
        return self._zones(
            polygons, names, index.astype(np.int32), [str(d) for d in districts], relation, systems
        )

    def _primary_key(self, relation: Relation) -> str:
        found = self._rows(
            sql.SQL(
                "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
                "AND a.attnum = ANY (i.indkey) WHERE i.indisprimary AND i.indrelid = "
                "(SELECT c.oid FROM pg_class c WHERE c.relname = %s "
                "AND c.relnamespace = %s::regnamespace)"
            ).format(),
            [relation.name, sql.Identifier(relation.schema).as_string(self.raw)],
        )
        if len(found) != 1:
            what = "no primary key" if not found else "a primary key of several columns"
            raise BadInput(
                f"{_ZONES} {_name(relation)} has {what}",
                remedy="say which column identifies a zone: [[zone]] COLUMN",
            )
        return str(found[0][0])

    def _require_polygons(
        self,
        relation: Relation,
        zone: str,
        district: str | None,
        columns: dict[str, sql.Composable],
    ) -> list[int]:
        """Refuse rows that are no zones; the SRIDs that there are."""
        query = self._sql(
            "SELECT count(*) AS rows, count(*) FILTER (WHERE id IS NULL) AS nameless, "
            "count(*) - count(DISTINCT id) - count(*) FILTER (WHERE id IS NULL) AS repeated, "
            "count(*) FILTER (WHERE geom IS NULL OR {isempty}(geom)) AS empty, "
            "count(*) FILTER (WHERE {kind}(geom) NOT IN ('POLYGON', 'MULTIPOLYGON')) AS other, "
            "count(*) FILTER (WHERE {srid}(geom) = 0) AS unknown, "
            "count(*) FILTER (WHERE NOT {isvalid}(geom)) AS invalid, "
            "count(*) FILTER (WHERE district IS NULL) AS homeless, "
            "array_agg(DISTINCT {srid}(geom)) FILTER (WHERE geom IS NOT NULL) AS systems "
            "FROM (SELECT {given_id} AS id, {given} AS geom, {given_district} AS district "
            "FROM {relation} z) z",
            given_id=columns["id"], given=columns["geom"], given_district=columns["district"],
            relation=columns["relation"],
        )  # fmt: skip
        row = self.raw.execute(query).fetchone()
        assert row is not None
        rows, nameless, repeated, empty, other, unknown, invalid, homeless, systems = row
        of = f"{_ZONES} {_name(relation)}"
        if rows == 0:
            raise BadInput(f"{of} has no rows", remedy="name a table of polygons, one row each")
        problems: list[tuple[int, str, str]] = [
            (nameless, f"without a value in {zone}", "give each zone an identifier"),
            (repeated, f"with a {zone} that another row has", "have one row for each zone (ST_Union)"),
            (empty, "without a geometry", "leave them out, in a view for example"),
            (other, "that are no polygons", "leave them out, or name a table of polygons"),
            (unknown, "whose SRID is unknown", "set it, in a view for example: ST_SetSRID(geom, 4326)"),
            (invalid, "whose polygon is not valid", "repair them: ST_MakeValid(geom)"),
        ]  # fmt: skip
        if district is not None:
            problems.append((homeless, f"without a value in {district}", "fill it"))
        for count, what, remedy in problems:
            if count:
                raise BadInput(f"{of} has {count:,} of {rows:,} rows {what}", remedy=remedy)
        _require_not_too_many(rows, _name(relation), "larger zones")
        for srid in systems:
            definition_of(self.connection, srid, f"{of}: SRID")
        return [int(srid) for srid in systems]

    def _require_in_region(self, relation: Relation, zones: _Polygons) -> None:
        found = self._rows(
            self._sql(
                "SELECT name FROM ({zones}) z, (SELECT {region} AS area OFFSET 0) r "
                "WHERE NOT {intersects}({transform}(z.geom, 4326), r.area) ORDER BY n",
                zones=zones.query,
            )
        )
        if found:
            raise BadInput(
                f"{_ZONES} {_name(relation)}: {len(found):,} zones lie outside of the region "
                f"({_some([name for (name,) in found])})",
                remedy="leave them out, in a view for example, or declare a larger [[region]]",
            )

    # Of whatever polygons.

    def _zones(
        self,
        polygons: _Polygons,
        names: Sequence[str],
        district: Ids | None,
        districts: Sequence[str] | None,
        relation: Relation | None = None,
        systems: Sequence[int] = (_WGS84,),
    ) -> Zones:
        """Zones that are looked up as polygons. relation: the table, whose polygons may overlap."""
        from freqdp_db.methods.counts.polygons import index_polygons

        corners = self._corners(polygons, systems)
        zone, x, y = corners["n"] - 1, corners["x"], corners["y"]
        if relation is not None:
            self._require_apart(relation, polygons, names, *_boxes(zone, x, y, len(names)))
        middle = np.array(
            self._rows(
                self._sql(
                    "SELECT {x}(c), {y}(c) FROM (SELECT n, {centroid}({transform}(geom, {metric})) AS c "
                    "FROM ({zones}) z) m ORDER BY n",
                    zones=polygons.query,
                ),
                polygons.arguments,
            )
        )
        if district is None or districts is None:
            width = block_width(middle[:, 0], middle[:, 1])
            district, districts = blocks_of(middle[:, 0], middle[:, 1], width)
        ring = np.stack([corners["n"], corners["part"], corners["ring"]])
        new = np.concatenate([[0], (np.diff(ring, axis=1) != 0).any(axis=0)])
        return Zones(
            tuple(names),
            district,
            tuple(districts),
            middle[:, 0].copy(),
            middle[:, 1].copy(),
            self._shapes(polygons, district),
            index_polygons(zone.astype(np.int64), np.cumsum(new), x, y, len(names)),
        )

    def _corners(self, polygons: _Polygons, systems: Sequence[int]) -> dict[str, Any]:
        """In metres. Sides that are long and straight in another SRID are bent."""
        geographic = {
            srid
            for (srid,) in self._rows(sql.SQL(_GEOGRAPHIC).format(self.systems), [list(systems)])
        }
        steps = sql.SQL(" ").join(
            sql.SQL("WHEN {} THEN {}").format(
                sql.Literal(srid), sql.Literal(_STRAIGHT[srid not in geographic])
            )
            for srid in systems
        )
        query = self._sql(
            "SELECT n, (d).path[1] AS part, (d).path[2] AS ring, {x}((d).geom) AS x, {y}((d).geom) AS y "
            "FROM (SELECT n, {dumppoints}({multi}({transform}(CASE WHEN {srid}(geom) = {metric} THEN geom "
            "ELSE {segmentize}(geom, CASE {srid}(geom) {steps} END::float8) END, {metric}))) AS d "
            "FROM ({zones}) z) p ORDER BY n, (d).path",
            steps=steps,
            zones=polygons.query,
        )
        client = psycopg.ClientCursor(self.raw)
        text = client.mogrify(query, polygons.arguments)
        layout = Layout(
            [("n", "int4"), ("part", "int4"), ("ring", "int4"), ("x", "float8"), ("y", "float8")]
        )
        return read_arrays(self.raw, sql.SQL(text), layout)

    def _require_apart(
        self,
        relation: Relation,
        polygons: _Polygons,
        names: Sequence[str],
        low: Metres,
        high: Metres,
    ) -> None:
        """Refuse zones that have more in common than a hair. low, high: corners of their boxes."""
        first, second = _meeting(low, high)
        found = self._rows(
            self._sql(
                "WITH z AS MATERIALIZED (SELECT n, {transform}(geom, {metric}) AS geom FROM ({zones}) q) "
                "SELECT a.n - 1, b.n - 1 FROM unnest(%s::int4[], %s::int4[]) AS p (a, b) "
                "JOIN z a ON a.n = p.a + 1 JOIN z b ON b.n = p.b + 1 "
                "WHERE {relate}(a.geom, b.geom, '2********') AND {area}({intersection}(a.geom, b.geom)) "
                "> %s * least({area}(a.geom), {area}(b.geom)) ORDER BY 1, 2",
                zones=polygons.query,
            ),
            [first.tolist(), second.tolist(), _OVERLAP],
        )
        if found:
            shown = _some([f"{names[a]} and {names[b]}" for a, b in found])
            raise BadInput(
                f"{_ZONES} {_name(relation)}: {len(found):,} pairs of zones overlap ({shown})",
                remedy="zones may touch and not overlap: a sample is counted in one of them. "
                "Repair the polygons (ST_Difference), or name another table",
            )

    def _shapes(
        self, polygons: _Polygons, district: Ids, united: sql.Composed | None = None
    ) -> tuple[bytes, ...]:
        """Of the zones, then of the districts, then of the city.

        united: a quicker query of the last two, from the district of each zone.
        """
        multi = self._sql("{asewkb}({multi}({normalize}({transform}({each}, {shown}))), 'NDR')",
                          each=sql.SQL("geom"))  # fmt: skip
        own = self._rows(
            sql.SQL("SELECT {multi} FROM ({zones}) z ORDER BY n").format(
                multi=multi, zones=polygons.query
            ),
            polygons.arguments,
        )
        united = united or self._sql(
            "SELECT {asewkb}({multi}({normalize}({union}({transform}(geom, {shown})))), 'NDR') FROM "
            "({zones}) z JOIN unnest(%s::int4[]) WITH ORDINALITY AS d (district, m) ON d.m = z.n "
            "GROUP BY GROUPING SETS ((d.district), ()) ORDER BY grouping(d.district), d.district",
            zones=polygons.query,
        )
        larger = self._rows(united, [*polygons.arguments, district.tolist()])
        return tuple(bytes(shape) for (shape,) in own + larger)


def _hexagon(corners: Sequence[tuple[float, float]]) -> bytes:
    """WKB of a cell, from its corners as latitude and longitude."""
    ring = np.array([*corners, corners[0]], "<f8")[:, ::-1]
    return b"\x01" + np.array([3, 1, len(ring)], "<u4").tobytes() + ring.tobytes()


def _boxes(zone: Ints, x: Metres, y: Metres, zones: int) -> tuple[Metres, Metres]:
    low, high = np.full((zones, 2), np.inf), np.full((zones, 2), -np.inf)
    for axis, values in enumerate((x, y)):
        np.minimum.at(low[:, axis], zone, values)
        np.maximum.at(high[:, axis], zone, values)
    return low, high


def _meeting(low: Metres, high: Metres) -> tuple[Ints, Ints]:
    """Pairs of boxes that meet, the first of each with the lower number."""
    order = np.argsort(low[:, 0])
    ends = np.searchsorted(low[order, 0], high[order, 0], side="left")
    found = []
    for position, end in enumerate(ends):
        mine, others = order[position], order[position + 1 : end]
        meet = (low[others, 1] < high[mine, 1]) & (high[others, 1] > low[mine, 1])
        other = others[meet]
        found.append(np.stack([np.minimum(mine, other), np.maximum(mine, other)]))
    first, second = np.concatenate([np.zeros((2, 0), np.int64), *found], axis=1)
    return first, second


def _require_not_too_many(count: float, what: object, remedy: str, most: int = MOST_ZONES) -> None:
    if count > most:
        raise BadInput(
            f"{_ZONES} {what}: {count:,.0f} zones are too many, at most {most:,} are counted",
            remedy=f"choose {remedy}, or a smaller [[region]]",
        )


def _name(relation: Relation) -> str:
    return format_relation(relation.schema, relation.name)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
