"""The rows of a user's relation, as arrays. Read only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.db.connection import driver
from freqdp_db.db.copy import ColumnType, Layout, native, read_arrays, read_records
from freqdp_db.db.names import postgis_schema, trusted_postgis
from freqdp_db.db.source import INTEGERS, NUMBERS, Mapping, Relation, geometry_srid
from freqdp_db.db.source_trips import as_samples
from freqdp_db.db.statements import one_value
from freqdp_db.errors import BadInput

EPOCH_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_PLAIN_POINT = re.compile(r"(?:.+\.)?geometry\(Point,[1-9][0-9]*\)")


@dataclass(frozen=True)
class RowCounts:
    """What the relation holds, at the snapshot."""

    rows: int
    null_object: int
    null_time: int
    null_position: int
    not_a_point: int
    other_srid: int
    usual_srid: int | None
    """Which most of its geometries have, where it was asked for; None: it has none."""

    def excluded(self) -> dict[str, int]:
        """Rows that are left out before they are read, by reason."""
        reasons = ("null_object", "null_time", "null_position", "not_a_point", "other_srid")
        return {reason: getattr(self, reason) for reason in reasons}


@dataclass(frozen=True)
class SourcePart:
    """Some rows of a relation."""

    objects: tuple[str, str] | None = None
    """Those of the objects from one key to another, both with it, in the order of `sizes`."""
    blocks: tuple[int, int | None] | None = None
    """Those that lie in these blocks, the last not with it; None: to the end."""
    hash_seed: int = 0
    """With which keys that are texts become numbers."""
    times: tuple[datetime, datetime] | None = None
    """Those from one moment to before another: the rows of a window."""


class SourceReader:
    """Reads one mapped relation inside one snapshot."""

    def __init__(
        self,
        connection: sa.Connection,
        relation: Relation,
        mapping: Mapping,
        srid: int | None = None,
        part: SourcePart | None = None,
    ) -> None:
        """srid: geometries of others are left out; None: none are. part: only these rows."""
        self._connection = connection
        self._srid = srid
        self._postgis = postgis_schema(connection)
        self._condition = mapping.filter
        trusted = trusted_postgis(connection) if mapping.filter else None
        if trusted is not None:
            # what the filter may call without naming a schema
            driver(connection).execute(
                sql.SQL("SET LOCAL search_path = pg_catalog, {}, pg_temp").format(
                    sql.Identifier(trusted)
                )
            )
        self._relation, self._mapping = as_samples(relation, mapping, self._postgis)
        self._part = part or SourcePart()
        self.hash_seed = self._part.hash_seed
        columns, mapped = self._relation.columns, self._mapping
        self.epoch = columns[mapped.time].type in NUMBERS
        self.time_unit = mapping.time_unit
        # a column of plain points of one SRID: nothing else can be in it
        self.all_points = mapped.geom is not None and bool(
            _PLAIN_POINT.fullmatch(columns[mapped.geom].shown)
        )
        self.integer_keys = columns[mapped.object].type in INTEGERS

    def _function(self, name: str, argument: sql.Composable) -> sql.Composable:
        return sql.SQL("{}({})").format(sql.Identifier(self._postgis, name), argument)

    def _geometry(self) -> sql.Composable:
        assert self._mapping.geom is not None
        column: sql.Composable = sql.Identifier(self._mapping.geom)
        if self._relation.columns[self._mapping.geom].type == "geography":
            return sql.SQL("{}::{}").format(column, sql.Identifier(self._postgis, "geometry"))
        return column

    def _coordinates(self) -> tuple[sql.Composable, sql.Composable]:
        if self._mapping.geom is not None:
            geometry = self._geometry()
            return self._function("st_x", geometry), self._function("st_y", geometry)
        assert self._mapping.lon is not None and self._mapping.lat is not None
        return self._number(self._mapping.lon), self._number(self._mapping.lat)

    def _number(self, column: str) -> sql.Composable:
        """A column of numbers as float8; what no float8 can hold is not a number."""
        if self._relation.columns[column].type != "numeric":
            return sql.SQL("{}::float8").format(sql.Identifier(column))
        # the cast would end the whole COPY for one row that is too large or too near to 0
        return sql.SQL(
            "CASE WHEN {c} IS NULL OR (scale({c}) < 300 AND {c} BETWEEN -1e300 AND 1e300) "
            "THEN {c}::float8 ELSE 'NaN' END"
        ).format(c=sql.Identifier(column))

    def _time(self) -> sql.Composable:
        column = sql.Identifier(self._mapping.time)
        kind = self._relation.columns[self._mapping.time].type
        if kind == "timestamptz":
            return column
        if self.epoch:
            return self._number(self._mapping.time)
        # dates reach beyond timestamps, and these beyond themselves in another zone: such a row would
        # end the whole COPY
        return sql.SQL(
            "CASE WHEN {c} BETWEEN DATE '1800-01-01' AND DATE '2300-01-01' "
            "THEN {c}::timestamp AT TIME ZONE {zone} WHEN {c} IS NOT NULL THEN 'infinity' END"
        ).format(c=column, zone=sql.Literal(self._mapping.timezone))

    def _where(self, *conditions: sql.Composable) -> sql.Composable:
        parts = list(conditions)
        if self._part.times is not None:
            parts += self._during(*self._part.times)
        if self._part.objects is not None:
            parts.append(self._between(*self._part.objects))
        if self._part.blocks is not None:
            first, last = self._part.blocks
            parts.append(sql.SQL("ctid >= {}::tid").format(f"({first},0)"))
            if last is not None:
                parts.append(sql.SQL("ctid < {}::tid").format(f"({last},0)"))
        if self._mapping.filter:
            # the newline ends a comment that the filter may close with
            parts.append(sql.SQL("(") + sql.SQL(self._mapping.filter) + sql.SQL("\n)"))
        return sql.SQL(" WHERE ") + sql.SQL(" AND ").join(parts) if parts else sql.SQL("")

    def _during(self, begin: datetime, end: datetime) -> list[sql.Composable]:
        """Whether a row's time lies in a window; an index of the column serves it."""
        column = sql.Identifier(self._mapping.time)
        inside = sql.SQL("{c} >= {begin} AND {c} < {end}")
        kind = self._relation.columns[self._mapping.time].type
        if kind == "timestamptz":
            return [inside.format(c=column, begin=begin, end=end)]
        if self.epoch:
            assert self.time_unit is not None, "what epoch numbers count is declared"
            per_second = EPOCH_PER_SECOND[self.time_unit]
            first, last = (int(moment.timestamp()) * per_second for moment in (begin, end))
            return [inside.format(c=column, begin=first, end=last)]
        # the clock changes by less than a day: local times far outside need not be converted
        near = [
            (moment.astimezone(UTC) + margin).replace(tzinfo=None)
            for moment, margin in ((begin, -timedelta(days=1)), (end, timedelta(days=1)))
        ]
        return [
            inside.format(c=column, begin=near[0], end=near[1]),
            inside.format(c=self._time(), begin=begin, end=end),
        ]

    def _between(self, first: str, last: str) -> sql.Composable:
        """An index of the column serves integers; texts are compared by their bytes, as we sort them."""
        column: sql.Composable = sql.Identifier(self._mapping.object)
        if self.integer_keys:
            return sql.SQL("{} BETWEEN {} AND {}").format(column, int(first), int(last))
        return sql.SQL('({}::text COLLATE "C") BETWEEN {} AND {}').format(column, first, last)

    def export(self) -> str:
        """The name by which other sessions read what this one reads, as long as it lasts."""
        self._connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        name: str = self._connection.execute(sa.text("SELECT pg_export_snapshot()")).scalar_one()
        return name

    def sizes(self) -> list[tuple[str, int, int]]:
        """The distinct object keys, in the order of trajectories; their numbers on the wire; their rows."""
        rows = self._distinct(sql.SQL(", count(*)"))
        found = [(text, number, count) for number, text, count in rows]
        return sorted(found, key=lambda row: row[1] if self.integer_keys else row[0])

    def blocks(self) -> int | None:
        """How many blocks its largest table has; None: its samples do not lie in blocks (a view)."""
        if self._relation.expanded is not None:
            return None
        query = sql.SQL(
            "SELECT CASE WHEN bool_and(relkind IN ('r', 'm')) THEN "
            "max(pg_relation_size(oid) / current_setting('block_size')::int) END FROM pg_class "
            "WHERE oid IN (SELECT relid FROM pg_partition_tree({r}::regclass) WHERE isleaf "
            "UNION SELECT c.oid FROM pg_class AS c WHERE c.oid = {r}::regclass AND relkind <> 'p')"
        ).format(r=self._relation.identifier.as_string())
        found: tuple[int | None] | None = driver(self._connection).execute(query).fetchone()
        return None if found is None else found[0]

    def taken_at(self) -> datetime:
        """When the snapshot was taken."""
        at: datetime = self._connection.execute(sa.text("SELECT now()")).scalar_one()
        return at

    def check_filter(self) -> None:
        """Let the server parse the filter and the columns; reads no row."""
        condition = self._condition
        if condition is not None and not condition.strip():
            raise BadInput("[[where]] is empty", remedy="give a condition, or leave [[where]] out")
        try:
            self.count(limit_zero=True)
        except psycopg.Error as error:
            if condition is None or error.sqlstate is None:
                raise
            # no row was read: the message speaks of nothing but the condition
            unknown = isinstance(
                error, psycopg.errors.UndefinedFunction | psycopg.errors.UndefinedObject
            )
            raise BadInput(
                f"[[where]] {condition!r}: {error.diag.message_primary}",
                remedy="write functions, operators and types with their schema: "
                f"{self._postgis}.ST_X(geom), a OPERATOR({self._postgis}.&&) b"
                if unknown
                else "give one condition, as it would stand after WHERE, without a semicolon",
            ) from None

    def _is_point(self) -> sql.Composable:
        """Whether a geometry is a point."""
        kind = self._function("geometrytype", self._geometry())
        return sql.SQL("{} IN ('POINT', 'POINTM')").format(kind)

    def _has_srid(self) -> sql.Composable:
        """Whether a geometry has the SRID that is read."""
        if self._srid is None:
            return sql.SQL("true")
        return sql.SQL("{} = {}").format(self._function("st_srid", self._geometry()), self._srid)

    def count(self, *, limit_zero: bool = False) -> RowCounts:
        """Count the rows, and those that are left out, each under the first reason that holds."""
        here, when = sql.Identifier(self._mapping.object), sql.Identifier(self._mapping.time)
        is_point: sql.Composable = sql.SQL("true")
        has_srid: sql.Composable = sql.SQL("true")
        usual: sql.Composable = sql.SQL("NULL::int")  # numbers have none
        if self._mapping.geom is not None:
            missing = sql.SQL("{} IS NULL").format(sql.Identifier(self._mapping.geom))
            if self.all_points:
                usual = sql.Literal(geometry_srid(self._relation.columns[self._mapping.geom]))
            else:
                is_point, has_srid = self._is_point(), self._has_srid()
            if self._srid is None and not self.all_points:
                usual = sql.SQL("mode() WITHIN GROUP (ORDER BY {})").format(
                    self._function("st_srid", self._geometry())
                )
        else:
            missing = sql.SQL("{} IS NULL OR {} IS NULL").format(*self._coordinates())
        query = sql.SQL(
            "SELECT count(*), count(*) FILTER (WHERE {o} IS NULL), "
            "count(*) FILTER (WHERE {o} IS NOT NULL AND {t} IS NULL), "
            "count(*) FILTER (WHERE {known} AND ({m})), "
            "count(*) FILTER (WHERE {known} AND NOT ({m}) AND NOT {p}), "
            "count(*) FILTER (WHERE {known} AND NOT ({m}) AND {p} AND NOT {s}), {usual} FROM {r}{w}"
        ).format(
            o=here,
            t=when,
            known=sql.SQL("{} IS NOT NULL AND {} IS NOT NULL").format(here, when),
            m=missing,
            p=is_point,
            s=has_srid,
            usual=usual,
            r=self._relation.rows,
            w=self._where(*([sql.SQL("false")] if limit_zero else [])),
        )
        # binary results need the extended protocol, which takes one statement only: a filter that
        # smuggles in a second one ends here
        row = driver(self._connection).execute(query, binary=True).fetchone()
        assert row is not None
        return RowCounts(*row)

    def objects(self) -> dict[int, str]:
        """The distinct object keys: number on the wire -> text."""
        return dict(self._distinct(sql.SQL("")))

    def _distinct(self, more: sql.Composable) -> list[Any]:
        """Number on the wire, key and more of every object. Collisions change the hash's seed."""
        while True:
            query = sql.SQL("SELECT {}, {}::text{} FROM {}{} GROUP BY 1, 2").format(
                self._object(),
                sql.Identifier(self._mapping.object),
                more,
                self._relation.rows,
                self._where(sql.SQL("{} IS NOT NULL").format(sql.Identifier(self._mapping.object))),
            )
            rows = driver(self._connection).execute(query).fetchall()
            if len({row[0] for row in rows}) == len(rows):
                return rows
            self.hash_seed += 1

    def _object(self) -> sql.Composable:
        column = sql.Identifier(self._mapping.object)
        if self.integer_keys:
            return sql.SQL("{}::int8").format(column)
        return sql.SQL("hashtextextended({}::text, {})").format(column, sql.Literal(self.hash_seed))

    def rows(self, on_rows: Callable[[int], None]) -> Iterator[dict[str, NDArray[Any]]]:
        """All rows that `count` leaves in, in chunks of columns: object, at, x, y.

        An empty point has coordinates that are not numbers.
        """
        position = list(self._coordinates())
        needed: list[sql.Composable] = [
            sql.Identifier(self._mapping.object),
            sql.Identifier(self._mapping.time),
        ]
        chosen: list[sql.Composable] = []
        if self._mapping.geom is None:
            needed += position
        else:
            needed.append(sql.Identifier(self._mapping.geom))
            position = [sql.SQL("coalesce({}, 'NaN'::float8)").format(c) for c in position]
            if not self.all_points:
                chosen = [self._is_point(), self._has_srid()]
        query = sql.SQL("SELECT {} FROM {}{}").format(
            sql.SQL(", ").join([self._object(), self._time(), *position]),
            self._relation.rows,
            self._where(*(sql.SQL("{} IS NOT NULL").format(column) for column in needed), *chosen),
        )
        when: ColumnType = "float8" if self.epoch else "timestamptz"
        layout = Layout([("object", "int8"), ("at", when), ("x", "float8"), ("y", "float8")])
        for records in read_records(driver(self._connection), query, layout, on_rows):
            yield native(records, layout)


def read_anchors(
    connection: sa.Connection, relation: Relation
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """The points of a relation with one geometry column, and their SRID (for `anchors:`)."""
    geometries = [c for c in relation.columns.values() if c.type == "geometry"]
    if len(geometries) != 1:
        raise BadInput(
            f"anchors:{relation.schema}.{relation.name} has {len(geometries)} geometry columns",
            remedy="name a table or view with one column of points",
        )
    geometry, postgis = sql.Identifier(geometries[0].name), postgis_schema(connection)
    point = sql.SQL("{} = 'POINT'").format(
        sql.SQL("{}({})").format(sql.Identifier(postgis, "geometrytype"), geometry)
    )
    x, y = (
        sql.SQL("{}({})").format(sql.Identifier(postgis, f), geometry) for f in ("st_x", "st_y")
    )
    srids = (
        driver(connection)
        .execute(
            sql.SQL("SELECT DISTINCT {}({}) FROM {} WHERE {} IS NOT NULL").format(
                sql.Identifier(postgis, "st_srid"), geometry, relation.identifier, geometry
            )
        )
        .fetchall()
    )
    bad = sql.SQL("SELECT count(*) FROM {} WHERE NOT ({})").format(relation.identifier, point)
    if len(srids) != 1 or srids[0][0] == 0 or one_value(connection, bad):
        raise BadInput(
            f"anchors:{relation.schema}.{relation.name} does not hold points of one SRID",
            remedy="every row needs a point, all with the same SRID",
        )
    query = sql.SQL("SELECT {}, {} FROM {} WHERE {} AND {} IS NOT NULL").format(
        x, y, relation.identifier, point, x
    )
    places = read_arrays(driver(connection), query, Layout([("x", "float8"), ("y", "float8")]))
    return places["x"], places["y"], int(srids[0][0])


def read_pairs(connection: sa.Connection, relation: Relation) -> list[tuple[str, str]]:
    """The rows of a relation with two columns, as texts."""
    columns = (sql.SQL("{}::text").format(sql.Identifier(name)) for name in relation.columns)
    query = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(columns), relation.identifier)
    return driver(connection).execute(query).fetchall()
