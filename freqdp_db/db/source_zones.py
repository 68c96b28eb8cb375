"""Zones for counts: from a table of polygons of the user's, from a grid of squares, or from H3.

PostGIS makes, checks and unites the polygons; assigning samples to them is not done here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, LiteralString, TypeAlias

import numpy as np
import psycopg
from psycopg import sql

from freqdp_db.db.connection import Connection
from freqdp_db.db.copy import Layout, copy_bytes, read_arrays
from freqdp_db.db.source import (
    INTEGERS,
    Relation,
    definition_of,
    find_relation,
    key_of,
    read_column,
    read_name,
)
from freqdp_db.errors import BadData, BadInput
from freqdp_db.methods.counts.zones import (
    OUTSIDE,
    Shapes,
    Squares,
    Zones,
    block_width,
    blocks_of,
    square_names,
)
from freqdp_db.methods.kinds import Box, HexagonGrid, Outline, SquareGrid
from freqdp_db.model.arrays import Ids, Ints, Metres

MOST_ZONES = 100_000
MOST_SQUARES = 1_200_000
BLOCK_M = 5_000.0
"""Districts of a grid are blocks of squares, about so wide,"""
_MOST_DISTRICTS = 500
"""or wider where there would be more of them than about so many."""
_PARENTS_UP = 2
"""Districts of hexagons are those so many resolutions coarser, or more where there would be too many."""
_OVERLAP = 0.001
"""Of the smaller of two zones: what they may have in common, as maps drawn by hand do."""
_NAMED = 3
"""How many zones a message names."""
_STRAIGHT_DEGREES, _STRAIGHT_UNITS = 0.01, 1000.0
"""Longer sides, in degrees or in units of a projection, get more corners before they are transformed."""

Later: TypeAlias = Callable[[], AbstractContextManager[Connection]]
_ZONES = "[[zones]]"
_CORNERS = Layout("n int4, part int4, ring int4, x float8, y float8")
_PLACES = Layout("c int8, r int8")
_SHAPES: LiteralString = """
SELECT {st_asewkb}({st_multi}({st_normalize}({st_transform}(geom, {shown}))), 'NDR')
FROM ({zones}) z ORDER BY n
"""
_UNITED: LiteralString = """
SELECT {st_asewkb}({st_multi}({st_normalize}({st_union}({st_transform}(geom, {shown})))), 'NDR')
FROM ({zones}) z
JOIN unnest({district}::int4[]) WITH ORDINALITY AS d (district, m) ON d.m = z.n
GROUP BY GROUPING SETS ((d.district), ()) ORDER BY grouping(d.district), d.district
"""
_UNITED_SQUARES: LiteralString = """
WITH square AS (
  SELECT s.c, s.r, d.district FROM ({zones}) s
  JOIN unnest({district}::int4[]) WITH ORDINALITY AS d (district, m) ON d.m = s.n
), run AS (
  SELECT district,
    {st_makeenvelope}(min(c) * {w}, r * {w}, (max(c) + 1) * {w}, (r + 1) * {w}, {metric}) AS geom
  FROM (SELECT *, c - row_number() OVER (PARTITION BY district, r ORDER BY c) AS first FROM square) s
  GROUP BY district, r, first
), block AS (SELECT district, {st_union}(geom) AS geom FROM run GROUP BY district)
SELECT {st_asewkb}({st_multi}({st_normalize}({st_transform}({st_segmentize}(geom, {w}), {shown}))), 'NDR')
FROM (SELECT district, geom FROM block UNION ALL SELECT NULL, {st_union}(geom) FROM block) b
ORDER BY district NULLS LAST
"""
"""Of very many squares: those that touch in a row of a district are united as one rectangle."""


def read_zones(
    connection: Connection,
    zoning: str | SquareGrid | HexagonGrid,
    region: Box | Outline,
    srid: int,
    source_srid: int,
    *,
    later: Later,
    zone: str | None = None,
    district: str | None = None,
) -> Zones:
    """Zones in metres of `srid`, their shapes in `source_srid`. zone, district: columns of a table.

    later: begins the transaction in which the shapes of squares are made, when they are asked for.
    """
    reader = _Reader(connection, region, srid, source_srid, later)
    try:
        if isinstance(zoning, str):
            return reader.from_table(zoning, zone, district)
        for name, column in (("[[zone]]", zone), ("[[district]]", district)):
            if column is not None:
                raise BadInput(
                    f"{name} {column}: {_ZONES} {zoning} is no table",
                    remedy=f"leave {name} out, or name a table of polygons with {_ZONES}",
                )
        if isinstance(zoning, SquareGrid):
            return reader.squares(zoning)
        return reader.hexagons(zoning)
    except (psycopg.errors.InternalError_, psycopg.errors.DataException) as error:
        raise BadInput(
            f"{_ZONES} {zoning}: PostGIS cannot transform the zones to SRID {srid} or {source_srid}",
            remedy="check that they lie where the dataset does, and in the SRID that they say: "
            + str(error).splitlines()[0],
        ) from None


class _Reader:
    """Polygons are queries of (n, geom), numbered from 1."""

    def __init__(
        self,
        connection: Connection,
        region: Box | Outline,
        srid: int,
        source_srid: int,
        later: Later,
    ) -> None:
        self.connection, self.raw, self.later = connection, connection.driver, later
        self.names: dict[str, Any] = {"metric": srid, "shown": source_srid}
        self.names["region"] = self._region(region)
        self.names["area"] = self._sql("{st_transform}({st_segmentize}({region}, 0.01), {metric})")

    def _sql(self, text: LiteralString, **more: Any) -> sql.Composed:
        return self.connection.text(text, **self.names, **more)

    def _rows(self, text: LiteralString, **more: Any) -> list[tuple[Any, ...]]:
        return self.raw.execute(self._sql(text, **more)).fetchall()

    def _region(self, region: Box | Outline) -> sql.Composed:
        """In degrees. What an even number of rings goes round is a hole."""
        if isinstance(region, Box):
            corners = sql.SQL(", ").join(sql.Literal(float(side)) for side in region)
            return self._sql("{st_makeenvelope}({corners}, 4326)", corners=corners)
        rings = ", ".join(
            "(" + ", ".join(f"{lon} {lat}" for lon, lat in ring) + ")" for ring in region.rings
        )
        wkt = f"MULTILINESTRING({rings})"
        return self._sql("{st_buildarea}({st_geomfromtext}({wkt}, 4326))", wkt=wkt)

    # A grid of squares, and hexagons.

    def squares(self, grid: SquareGrid) -> Zones:
        """The squares that meet the region; their lines lie at multiples of the width."""
        width = float(grid.metres)
        ((*box,),) = self._rows(
            "SELECT {st_xmin}(a), {st_ymin}(a), {st_xmax}(a), {st_ymax}(a) FROM (SELECT {area} AS a) r"
        )
        west, south, east, north = (int(np.floor(side / width)) for side in box)
        wide, high = east - west + 1, north - south + 1
        _require_not_too_many(wide * high, grid, "wider squares", MOST_SQUARES)
        squares = self._sql(
            "SELECT (row_number() OVER (ORDER BY r, c))::int4 AS n, c, r, geom FROM "
            "generate_series({west}::int8, {east}) c, generate_series({south}::int8, {north}) r, "
            "LATERAL (SELECT {st_makeenvelope}(c * {w}, r * {w}, (c + 1) * {w}, (r + 1) * {w}, "
            "{metric}) AS geom) s, (SELECT {area} AS area OFFSET 0) a "
            "WHERE {st_intersects}(s.geom, a.area)",
            west=west, east=east, south=south, north=north, w=width,
        )  # fmt: skip
        place = read_arrays(
            self.raw, self._sql("SELECT c, r FROM ({zones}) s ORDER BY n", zones=squares), _PLACES
        )
        zone = np.full((high, wide), OUTSIDE, np.int32)
        zone[place["r"] - south, place["c"] - west] = np.arange(len(place["c"]))
        x, y = ((place[axis].astype(np.float64) + 0.5) * width for axis in ("c", "r"))
        names = square_names(place["c"], place["r"], width)
        block = max(round(BLOCK_M / width), 1)
        district, districts = blocks_of(x, y, block * width)
        if len(districts) > _MOST_DISTRICTS:
            block = max(block, math.ceil(math.sqrt(len(names) / _MOST_DISTRICTS)))
            district, districts = blocks_of(x, y, block * width)
        return Zones(
            names, district, districts, x, y, partial(self._square_shapes, squares, district, width),
            Squares(width, west, south, zone),
        )  # fmt: skip

    def _square_shapes(self, squares: sql.Composed, district: Ids, side: float) -> Iterator[Shapes]:
        """As those of other zones, in a transaction of its own: they may be a million."""
        query = self._sql(_SHAPES, zones=squares)
        united = _UNITED_SQUARES if len(district) > MOST_ZONES else _UNITED
        with self.later() as connection:
            for data in copy_bytes(connection.driver, query):
                # squares are alike: all rows are as long as the first says
                width = int(data[2:6].view(">i4")[0])
                rows = data.view([("count", ">i2"), ("size", ">i4"), ("shape", f"V{width}")])
                if (rows["size"] != width).any():
                    raise BadData("the server sent a square of another size than the first")
                yield rows["shape"]
            yield self._united(connection.driver, squares, district, united, w=side)

    def hexagons(self, grid: HexagonGrid) -> Zones:
        """The cells of H3 that overlap the region."""
        import h3

        ((area_m2, outline),) = self._rows("SELECT {st_area}({area}), {st_asgeojson}({region})")
        expected = area_m2 / h3.average_hexagon_area(grid.resolution, unit="m^2")
        _require_not_too_many(expected, grid, "a lower resolution")
        shape = h3.geo_to_h3shape(json.loads(outline))
        cells = sorted(h3.h3shape_to_cells_experimental(shape, grid.resolution, contain="overlap"))
        coarser = max(grid.resolution - _PARENTS_UP, 0)
        parents = [h3.cell_to_parent(c, coarser) for c in cells]
        while coarser > 0 and len(set(parents)) > _MOST_DISTRICTS:
            coarser -= 1
            parents = [h3.cell_to_parent(c, coarser) for c in cells]
        polygons = self._sql(
            "SELECT n::int4 AS n, {st_setsrid}({st_geomfromwkb}(wkb), 4326) AS geom "
            "FROM unnest({cells}::bytea[]) WITH ORDINALITY AS w (wkb, n)",
            cells=[_hexagon(h3.cell_to_boundary(cell)) for cell in cells],
        )
        return self._zones(polygons, cells, parents)

    # A table.

    def from_table(self, text: str, zone: str | None, district: str | None) -> Zones:
        name = read_name(self.connection, text, _ZONES)
        relation = find_relation(self.connection, *name, option=_ZONES)
        if zone is None:
            zone = self._primary_key(relation)
        column = relation.column("[[zone]]", read_column(relation.columns, zone))
        of_district: sql.Composable = sql.SQL("NULL::text")
        if district is not None:
            known = relation.column("[[district]]", read_column(relation.columns, district))
            of_district = self._sql(
                '{column}::text COLLATE "C"', column=sql.Identifier("z", known.name)
            )
        exact = column.type in INTEGERS | {"numeric"}
        polygons = self._sql(
            "SELECT (row_number() OVER (ORDER BY {order}))::int4 AS n, {id}::text AS name, "
            "{district} AS district, {st_force2d}({geom}::{geometry}) AS geom FROM {relation} z",
            order=self._sql(
                "{id}" if exact else '{id}::text COLLATE "C"', id=sql.Identifier("z", column.name)
            ),
            id=sql.Identifier("z", column.name),
            district=of_district,
            geom=sql.Identifier("z", relation.geometry_column(_ZONES)),
            relation=relation.identifier,
        )
        self._require_polygons(relation, column.name, district, polygons)
        self._require_in_region(relation, polygons)
        found = self._rows("SELECT name, district FROM ({zones}) z ORDER BY n", zones=polygons)
        names = [name for name, _ in found]
        districts = None if district is None else [named for _, named in found]
        return self._zones(polygons, names, districts, relation)

    def _primary_key(self, relation: Relation) -> str:
        key = key_of(self.connection, (relation.schema, relation.name))
        if len(key) != 1:
            what = "no primary key" if not key else "a primary key of several columns"
            raise BadInput(
                f"{_ZONES} {relation} has {what}",
                remedy="say which column identifies a zone: [[zone]] COLUMN",
            )
        return key[0]

    def _require_polygons(
        self, relation: Relation, zone: str, district: str | None, polygons: sql.Composed
    ) -> None:
        """Refuse rows that are no zones."""
        problems: list[tuple[LiteralString, str, str]] = [
            ("name IS NULL", f"without a value in {zone}", "give each zone an identifier"),
            ("again > 1", f"with a {zone} that another row has", "have one row for each zone (ST_Union)"),
            ("geom IS NULL OR {st_isempty}(geom)", "without a geometry",
             "leave them out, in a view for example"),
            ("{geometrytype}(geom) NOT IN ('POLYGON', 'MULTIPOLYGON')", "that are no polygons",
             "leave them out, or name a table of polygons"),
            ("{st_srid}(geom) = 0", "whose SRID is unknown",
             "set it, in a view for example: ST_SetSRID(geom, 4326)"),
            ("NOT {st_isvalid}(geom)", "whose polygon is not valid", "repair them: ST_MakeValid(geom)"),
        ]  # fmt: skip
        if district is not None:
            problems.append(("district IS NULL", f"without a value in {district}", "fill it"))
        counts = sql.SQL(", ").join(
            self._sql("count(*) FILTER (WHERE {bad})", bad=self._sql(condition))
            for condition, _, _ in problems
        )
        ((rows, systems, *found),) = self._rows(
            "SELECT count(*), array_agg(DISTINCT {st_srid}(geom)) FILTER (WHERE geom IS NOT NULL), "
            "{counts} FROM (SELECT *, row_number() OVER (PARTITION BY name) AS again "
            "FROM ({zones}) q) z",
            counts=counts, zones=polygons,
        )  # fmt: skip
        of = f"{_ZONES} {relation}"
        if rows == 0:
            raise BadInput(f"{of} has no rows", remedy="name a table of polygons, one row each")
        for count, (_, what, remedy) in zip(found, problems, strict=True):
            if count:
                raise BadInput(f"{of} has {count:,} of {rows:,} rows {what}", remedy=remedy)
        _require_not_too_many(rows, relation, "larger zones")
        for srid in systems:
            definition_of(self.connection, srid, f"{of}: SRID")

    def _require_in_region(self, relation: Relation, zones: sql.Composed) -> None:
        found = self._rows(
            "SELECT name FROM ({zones}) z, (SELECT {region} AS area OFFSET 0) r "
            "WHERE NOT {st_intersects}({st_transform}(z.geom, 4326), r.area) ORDER BY n",
            zones=zones,
        )
        if found:
            raise BadInput(
                f"{_ZONES} {relation}: {len(found):,} zones lie outside of the region "
                f"({_some([name for (name,) in found])})",
                remedy="leave them out, in a view for example, or declare a larger [[region]]",
            )

    # Of whatever polygons.

    def _zones(
        self,
        polygons: sql.Composed,
        names: Sequence[str],
        of_districts: Sequence[str] | None,
        relation: Relation | None = None,
    ) -> Zones:
        """Zones that are looked up as polygons.

        of_districts: the district of each; None: blocks. relation: the table, whose polygons may overlap.
        """
        from freqdp_db.methods.counts.polygons import index_polygons

        corners = self._corners(polygons)
        zone, x, y = corners["n"] - 1, corners["x"], corners["y"]
        if relation is not None:
            self._require_apart(relation, polygons, names, _meeting(zone, x, y))
        found = self._rows(
            "SELECT {st_x}(c), {st_y}(c) FROM (SELECT n, {st_centroid}({st_transform}(geom, {metric})) "
            "AS c FROM ({zones}) z) m ORDER BY n",
            zones=polygons,
        )
        middle_x, middle_y = np.array(found).T.copy()
        if of_districts is None:
            width = block_width(middle_x, middle_y)
            district, districts = blocks_of(middle_x, middle_y, width)
        else:
            distinct, number = np.unique(of_districts, return_inverse=True)
            district, districts = number.astype(np.int32), tuple(str(d) for d in distinct)
        ring = np.stack([corners["n"], corners["part"], corners["ring"]])
        new = np.concatenate([[0], (np.diff(ring, axis=1) != 0).any(axis=0)])
        return Zones(
            tuple(names),
            district,
            districts,
            middle_x,
            middle_y,
            partial(iter, self._shapes(polygons, district)),
            index_polygons(zone.astype(np.int64), np.cumsum(new), x, y, len(names)),
        )

    def _corners(self, polygons: sql.Composed) -> dict[str, Any]:
        """In metres. Sides that are long and straight in another SRID are bent."""
        query = self._sql(
            "SELECT n, (d).path[1] AS part, (d).path[2] AS ring, {st_x}((d).geom) AS x, "
            "{st_y}((d).geom) AS y FROM (SELECT n, {st_dumppoints}({st_multi}({st_transform}("
            "CASE WHEN {st_srid}(geom) = {metric} THEN geom ELSE {st_segmentize}(geom, "
            "CASE WHEN proj4text LIKE '%+proj=longlat%' THEN {degrees} ELSE {units} END::float8) END, "
            "{metric}))) AS d FROM ({zones}) z "
            "JOIN {spatial_ref_sys} s ON s.srid = {st_srid}(geom)) p ORDER BY n, (d).path",
            degrees=_STRAIGHT_DEGREES, units=_STRAIGHT_UNITS, zones=polygons,
        )  # fmt: skip
        return read_arrays(self.raw, query, _CORNERS)

    def _require_apart(
        self,
        relation: Relation,
        polygons: sql.Composed,
        names: Sequence[str],
        pairs: tuple[Ints, Ints],
    ) -> None:
        """Refuse zones that have more in common than a hair. pairs: those whose boxes meet."""
        found = self._rows(
            "WITH z AS MATERIALIZED (SELECT n, {st_transform}(geom, {metric}) AS geom FROM ({zones}) q) "
            "SELECT a.n - 1, b.n - 1 FROM unnest({first}::int4[], {second}::int4[]) AS p (a, b) "
            "JOIN z a ON a.n = p.a + 1 JOIN z b ON b.n = p.b + 1 "
            "WHERE {st_relate}(a.geom, b.geom, '2********') AND "
            "{st_area}({st_intersection}(a.geom, b.geom)) "
            "> {share} * least({st_area}(a.geom), {st_area}(b.geom)) ORDER BY 1, 2",
            zones=polygons, first=pairs[0].tolist(), second=pairs[1].tolist(), share=_OVERLAP,
        )  # fmt: skip
        if found:
            shown = _some([f"{names[a]} and {names[b]}" for a, b in found])
            raise BadInput(
                f"{_ZONES} {relation}: {len(found):,} pairs of zones overlap ({shown})",
                remedy="zones may touch and not overlap: a sample is counted in one of them. "
                "Repair the polygons (ST_Difference), or name another table",
            )

    def _shapes(self, polygons: sql.Composed, district: Ids) -> list[list[bytes]]:
        """Of the zones, then of the districts and of the city."""
        own = [bytes(shape) for (shape,) in self._rows(_SHAPES, zones=polygons)]
        return [own, self._united(self.raw, polygons, district, _UNITED)]

    def _united(
        self, raw: Any, polygons: sql.Composed, district: Ids, united: LiteralString, **more: Any
    ) -> list[bytes]:
        """Of the districts, then of the city."""
        query = self._sql(united, zones=polygons, district=district.tolist(), **more)
        return [bytes(shape) for (shape,) in raw.execute(query)]


def _hexagon(corners: Sequence[tuple[float, float]]) -> bytes:
    """WKB of a cell, from its corners as latitude and longitude."""
    ring = np.array([*corners, corners[0]], "<f8")[:, ::-1]
    return b"\x01" + np.array([3, 1, len(ring)], "<u4").tobytes() + ring.tobytes()


def _meeting(zone: Ids, x: Metres, y: Metres) -> tuple[Ints, Ints]:
    """Pairs of zones whose boxes meet, the first of each with the lower number. zone: of each corner."""
    first = np.flatnonzero(np.diff(zone, prepend=-1))
    low_x, low_y = (np.minimum.reduceat(side, first) for side in (x, y))
    high_x, high_y = (np.maximum.reduceat(side, first) for side in (x, y))
    order = np.argsort(low_x)
    ends = np.searchsorted(low_x[order], high_x[order], side="left")
    found = [np.zeros((2, 0), np.int64)]
    for position, end in enumerate(ends):
        mine, others = order[position], order[position + 1 : end]
        other = others[(low_y[others] < high_y[mine]) & (high_y[others] > low_y[mine])]
        found.append(np.stack([np.minimum(mine, other), np.maximum(mine, other)]))
    one, another = np.concatenate(found, axis=1)
    return one, another


def _require_not_too_many(count: float, what: object, remedy: str, most: int = MOST_ZONES) -> None:
    if count > most:
        raise BadInput(
            f"{_ZONES} {what}: {count:,.0f} zones are too many, at most {most:,} are counted",
            remedy=f"choose {remedy}, or a smaller [[region]]",
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
