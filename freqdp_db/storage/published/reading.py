"""A published release as `release export` reads it: from the release schema alone."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import date
from typing import Any, LiteralString

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.errors import BadInput, NotFound
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.connection.postgis import postgis_schema
from freqdp_db.storage.connection.statements import listed
from freqdp_db.storage.copy.layout import (
    AREAS,
    POINTS,
    POSTGRES_EPOCH_US,
    box_coordinates,
    point_coordinates,
    range_times,
    read_records,
)
from freqdp_db.storage.published.relations import (
    column_comments,
    columns_of,
    is_table,
    key_of,
    require_there,
    srid_of,
)
from freqdp_db.storage.records.datasets import table
from freqdp_db.storage.source.reference import definition_of


@dataclass(frozen=True)
class ReadAreas:
    """Of some rows of a release: where and when, in the SRID of the release."""

    x_min: Metres
    y_min: Metres
    x_max: Metres
    y_max: Metres
    begin_us: Ints
    end_us: Ints
    """Microseconds since 1970-01-01 UTC; the end is not in the interval."""


@dataclass(frozen=True)
class Samples:
    """Some rows of a release, as columns."""

    trajectory_id: Ints
    seq: Ints
    at_us: Ints
    """Microseconds since 1970-01-01 UTC."""
    x: Metres
    y: Metres
    areas: ReadAreas | None = None

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True)
class Extent:
    """What one look at the table tells: enough to write a file's header before its rows."""

    rows: int
    box: tuple[float, float, float, float] | None
    """x_min, y_min, x_max, y_max, of the areas where there are some; None if there are no rows."""
    whole_seconds: bool
    """Whether no time has a fraction of a second."""


def read_catalog(database: Database) -> list[dict[str, Any]]:
    """The rows of the catalogue, oldest first."""
    catalog = table(database, "catalog", released=True)
    with database.begin() as connection:
        rows = connection.execute(sa.select(catalog).order_by(catalog.c.published_at))
        return [dict(row._mapping) for row in rows]


_ROWS = 10_000


class ReleaseReader:
    """Reads one release inside one snapshot, in its own SRID or in another one."""

    def __init__(
        self, connection: Connection, database: Database, name: str, srid: int | None = None
    ) -> None:
        schema = database.settings.release_schema
        self._connection = connection
        self._postgis = postgis_schema(connection)
        self._schema = schema
        self._points = sql.Identifier(schema, name)
        self._lines = sql.Identifier(schema, f"{name}_line")
        catalog = table(database, "catalog", released=True)
        row = connection.execute(sa.select(catalog).where(catalog.c.name == name)).first()
        if row is None:
            raise NotFound(
                f"the catalogue has no release {name!r}",
                remedy="`freqdp release list` shows what there is",
            )
        self.catalog: dict[str, Any] = dict(row._mapping)
        relations: list[str] = self.catalog["relations"]
        for relation in relations:
            require_there(connection, (schema, relation))
        self.tables = [r for r in relations if is_table(connection, (schema, r))]
        self.has_trajectories = f"{name}_line" in relations
        self.has_areas = "area" in columns_of(connection, (schema, relations[0]))
        own = max(srid_of(connection, (schema, table)) for table in self.tables)
        self.srid = own if srid is None else srid
        """0: it has no geometries."""
        self._moved = self.srid != own

    def _function(self, name: str) -> sql.Identifier:
        return sql.Identifier(self._postgis, name)

    def definition(self) -> str:
        """A definition of the SRID that pyproj understands."""
        return definition_of(self._connection, self.srid, "[[srid]]")

    def _column(self, name: str) -> sql.Composable:
        """A geometry in the SRID that is wanted."""
        column = sql.Identifier(name)
        if not self._moved:
            return column
        values = {"f": self._function("st_transform"), "srid": sql.Literal(self.srid)}
        if name != "area":
            return sql.SQL("{f}({c}, {srid})").format(c=column, **values)
        # the sides of a box are curves there: the box around many points of them
        return sql.SQL(
            "{envelope}({f}({segmentize}({c}, greatest({perimeter}({c}) / 64, 1e-9)), {srid}))"
        ).format(
            c=column,
            envelope=self._function("st_envelope"),
            segmentize=self._function("st_segmentize"),
            perimeter=self._function("st_perimeter"),
            **values,
        )

    def columns(self, table: str) -> dict[str, str]:
        """The columns of one of its tables, and their types."""
        return columns_of(self._connection, (self._schema, table))

    def comments(self, table: str) -> dict[str, str]:
        """What the columns of one of its tables say of themselves."""
        return column_comments(self._connection, (self._schema, table))

    def rows(
        self, table: str, shown: Callable[[str], LiteralString]
    ) -> Generator[list[tuple[Any, ...]], None, None]:
        """The rows of one of its tables, in the order of its key, many at a time.

        shown: what a column of a type is asked for as: `{}` is the column, `{wkb}` and `{text}` are the
        functions that write a geometry.
        """
        asked = [
            sql.SQL(shown(kind)).format(
                self._column(name) if "geometry(" in kind else sql.Identifier(name),
                text=self._function("st_astext"),
                wkb=self._function("st_asbinary"),
            )
            for name, kind in self.columns(table).items()
        ]
        query = sql.SQL("SELECT {} FROM {} ORDER BY {}").format(
            sql.SQL(", ").join(asked),
            sql.Identifier(self._schema, table),
            listed(key_of(self._connection, (self._schema, table))),
        )
        with driver(self._connection).cursor("rows") as cursor:
            cursor.execute(query)
            while some := cursor.fetchmany(_ROWS):
                yield some

    def extent(self) -> Extent:
        shown = "area" if self.has_areas else "geom"
        row = (
            driver(self._connection)
            .execute(
                sql.SQL(
                    "SELECT count(*), min({x_min}({g})), min({y_min}({g})), max({x_max}({g})), "
                    "max({y_max}({g})), coalesce(bool_and(whole), true) FROM "
                    "(SELECT {shown}::{box} AS {g}, at = date_trunc('second', at) AS whole FROM {points}) s"
                ).format(
                    g=sql.Identifier(shown),
                    shown=self._column(shown),
                    box=self._function("box3d"),
                    points=self._points,
                    **{
                        f"{axis}_{end}": self._function(f"st_{axis}{end}")
                        for axis in "xy"
                        for end in ("min", "max")
                    },
                )
            )
            .fetchone()
        )
        assert row is not None
        rows, x_min, y_min, x_max, y_max, whole = row
        return Extent(rows, (x_min, y_min, x_max, y_max) if rows else None, whole)

    def samples(self) -> Generator[Samples, None, None]:
        """All samples in order of (trajectory_id, seq), many rows at a time."""
        if not self.has_trajectories:
            raise BadInput(
                f"release {self.catalog['name']!r} has no trajectories",
                remedy="its tables: " + ", ".join(self.tables),
            )
        layout = AREAS if self.has_areas else POINTS
        query = sql.SQL("SELECT {} FROM {} ORDER BY trajectory_id, seq").format(
            sql.SQL(", ").join(
                self._column(name) if name in ("geom", "area") else sql.Identifier(name)
                for name in layout.names
            ),
            self._points,
        )
        for records in read_records(driver(self._connection), query, layout):
            x, y = point_coordinates(records["geom"])
            yield Samples(
                trajectory_id=records["trajectory_id"].astype(np.int64),
                seq=records["seq"].astype(np.int64),
                at_us=records["at"].astype(np.int64) + POSTGRES_EPOCH_US,
                x=x,
                y=y,
                areas=_read_areas(records) if self.has_areas else None,
            )

    def lines(self) -> Generator[tuple[int, date, bytes], None, None]:
        """(trajectory_id, day, LineStringM as ISO WKB, little-endian) in order, one at a time."""
        query = sql.SQL(
            "COPY (SELECT trajectory_id, day, {}({}, 'NDR'::text) FROM {} ORDER BY 1, 2) "
            "TO STDOUT (FORMAT binary)"
        ).format(
            self._function("st_asbinary"),
            self._column("geom"),
            self._lines,
        )
        with driver(self._connection).cursor() as cursor, cursor.copy(query) as copy:
            copy.set_types(["int8", "date", "bytea"])
            yield from copy.rows()


def _read_areas(records: NDArray[Any]) -> ReadAreas:
    begin, end = range_times(records["during"])
    west, south, east, north = box_coordinates(records["area"])
    return ReadAreas(west, south, east, north, begin + POSTGRES_EPOCH_US, end + POSTGRES_EPOCH_US)
