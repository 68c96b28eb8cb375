"""A published release of counts as its readers have it: from the release schema alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, LiteralString

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.db.connection import Connection, Database, column_list
from freqdp_db.db.copy import Layout, read_arrays
from freqdp_db.db.source import relation_exists
from freqdp_db.model.arrays import Ints, Metres

_WEB_MERCATOR = 3857
"""Keeps shapes: what a map is drawn in."""
_MOST_DRAWN = 150_000
"""Of more zones the outlines are not read: pictures show districts."""
_NUMBERS = "value int8, margin float8, estimate float8"
_VISITS = Layout(f"zone int8, bin int4, {_NUMBERS}")
_FLOWS = Layout(f"origin int8, destination int8, bin int4, {_NUMBERS}")
_ROADS = Layout(f"road int8, bin int4, {_NUMBERS}, mean_kmh float8, mean_margin float8")
_CORNERS = Layout("zone int8, ring int8, x float8, y float8")

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ZoneRows:
    """The table of zones; zone n stands at n - 1."""

    name: list[str]
    level: list[str]
    corners: Columns
    """Of all rings, by zone: `zone`, `ring`, `x`, `y`, for a map."""
    x: Metres
    y: Metres
    """The middle of each zone, for a map."""

    def numbers(self, level: str) -> Ints:
        """The zones of a level, from 0."""
        return np.flatnonzero(np.array(self.level) == level)


@dataclass(frozen=True)
class PublishedCounts:
    """Zones, bins, and the tables that the release has."""

    zones: ZoneRows
    bins: list[str]
    """Names; the first is that of all bins together."""
    visits: Columns | None
    flows: Columns | None
    roads: Columns | None
    road_names: list[str]
    """Of roads alone, without districts and the city; road n stands at n - 1."""
    road_corners: Columns
    """Of their lines: `zone` is the road, `ring` 0."""

    @property
    def finest_level(self) -> str:
        """Zones, or districts where single bins of zones are not all shown."""
        assert self.visits is not None, "the release has visits"
        complete = len(self.visits["bin"]) == len(self.zones.name) * len(self.bins)
        return "zone" if complete else "district"

    def visits_of(self, level: str, column: str) -> NDArray[Any]:
        """A column of visits, by zone of the level and by bin: the first bin is all of them."""
        assert self.visits is not None, "the release has visits"
        wanted = np.isin(self.visits["zone"], self.zones.numbers(level) + 1)
        table: NDArray[Any] = self.visits[column][wanted].reshape(-1, len(self.bins))
        return table


def read_counts(connection: Connection, name: str) -> PublishedCounts:
    schema, raw = connection.release_schema, connection.driver

    def text(query: LiteralString, **parts: Any) -> sql.Composed:
        """Over the release's tables of zones, bins and roads."""
        tables = {
            part: sql.Identifier(schema, f"{name}_{part}") for part in ("zone", "bin", "road")
        }
        moved = connection.text("{st_transform}(geom, {srid})", srid=_WEB_MERCATOR)
        return connection.text(query, moved=moved, **tables, **parts)

    def table(suffix: str, layout: Layout) -> Columns | None:
        if not relation_exists(connection, schema, name + suffix):
            return None
        table, columns = sql.Identifier(schema, name + suffix), column_list(layout.names)
        query: LiteralString = "SELECT {columns} FROM {table} ORDER BY 1, 2"
        return read_arrays(raw, text(query, columns=columns, table=table), layout)

    names, levels, x, y = zip(
        *connection.execute(
            text(
                "SELECT name, level, {st_x}(c), {st_y}(c) FROM "
                "(SELECT *, {st_centroid}({moved}) AS c FROM {zone}) z ORDER BY zone"
            )
        ),
        strict=True,
    )
    corners = text(
        "SELECT zone, ((d).path[1]::int8 << 32) + (d).path[2] AS ring, {st_x}((d).geom) AS x, "
        "{st_y}((d).geom) AS y FROM (SELECT zone, {st_dumppoints}({moved}) AS d FROM {zone} "
        "WHERE level <> 'zone' OR {drawn}) p ORDER BY zone, (d).path",
        drawn=len(names) <= _MOST_DRAWN,
    )
    zones = ZoneRows(
        list(names), list(levels), read_arrays(raw, corners, _CORNERS), np.array(x), np.array(y)
    )
    bins = connection.first_column(text("SELECT name FROM {bin} ORDER BY bin"))
    road_names, road_corners = [], {name: np.zeros(0) for name in _CORNERS.names}
    if (roads := table("_roads", _ROADS)) is not None:
        lines = text(
            "SELECT road AS zone, 0::int8 AS ring, {st_x}((d).geom) AS x, {st_y}((d).geom) AS y FROM "
            "(SELECT road, {st_dumppoints}({moved}) AS d FROM {road} WHERE level = 'road') p "
            "ORDER BY road, (d).path"
        )
        road_corners = read_arrays(raw, lines, _CORNERS)
        named = text("SELECT name FROM {road} WHERE level = 'road' ORDER BY road")
        road_names = connection.first_column(named)
    return PublishedCounts(
        zones,
        bins,
        table("_visits", _VISITS),
        table("_flows", _FLOWS),
        roads,
        road_names,
        road_corners,
    )


def small_counts(database: Database, name: str, least: int) -> tuple[int, int]:
    """How many rows of visits and flows show a count from 1 to below `least`, and how many there are."""
    schema, small, rows = database.settings.release_schema, 0, 0
    with database.begin(snapshot=True) as connection:
        for suffix in ("_visits", "_flows"):
            if not relation_exists(connection, schema, name + suffix):
                continue
            query: LiteralString = (
                "SELECT count(*) FILTER (WHERE value >= 1 AND value < {least}), count(*) "
                "FROM {table}"
            )
            table = sql.Identifier(schema, name + suffix)
            ((few, all_of_them),) = connection.execute(query, least=least, table=table)
            small, rows = small + few, rows + all_of_them
    return small, rows
