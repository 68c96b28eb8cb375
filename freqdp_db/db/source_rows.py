"""The rows of a user's relation, as arrays. Read only.

A row is a sample, or a trip: a line with its times, or the two ends. A line keeps its times as M, in Unix
seconds, or in a column with an array that has as many. Of a trip record, both ends are samples: two columns
are named, with a comma between them. Trips are read as the rows of their samples.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, LiteralString

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.db.connection import Connection
from freqdp_db.db.copy import Layout, native, read_arrays, read_records
from freqdp_db.db.names import as_text, number_of_value, trusted_postgis
from freqdp_db.db.source import (
    INTEGERS,
    NUMBERS,
    TIMES,
    Mapping,
    Relation,
    RelationColumn,
    column_pair,
    geometry_kind,
    geometry_srid,
    kept_type,
)
from freqdp_db.errors import BadData, BadInput

EPOCH_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EXCLUDED = ("null_object", "null_time", "null_position", "not_a_point", "other_srid")
_PLAIN_POINT = re.compile(r"(?:.+\.)?geometry\(Point,[1-9][0-9]*\)")


@dataclass(frozen=True)
class RowCounts:
    """What the relation holds, at the snapshot."""

    rows: int
    excluded: dict[str, int]
    """Those that are left out before they are read, by reason."""
    only_srid: int | None
    """Which all its geometries have, where it was asked for; None: they have none, or not all the same."""


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
    kept: tuple[tuple[str, ...], ...] | None = None
    """The values of each column that is carried along, where they are known."""


class SourceReader:
    """Reads one mapped relation inside one snapshot."""

    def __init__(
        self,
        connection: Connection,
        relation: Relation,
        mapping: Mapping,
        srid: int | None = None,
        part: SourcePart | None = None,
    ) -> None:
        """srid: geometries of others are left out; None: none are. part: only these rows."""
        self._connection = connection
        self._condition = mapping.filter
        trusted = trusted_postgis(connection) if mapping.filter else None
        if trusted is not None:
            # what the filter may call without naming a schema
            connection.driver.execute(
                sql.SQL("SET LOCAL search_path = pg_catalog, {}, pg_temp").format(
                    sql.Identifier(trusted)
                )
            )
        self._relation, self._mapping = as_samples(connection, relation, mapping)
        self._part = part or SourcePart()
        self.hash_seed = self._part.hash_seed
        columns, mapped = self._relation.columns, self._mapping
        self.epoch = columns[mapped.time].type in NUMBERS
        self.time_unit = mapping.time_unit
        self.integer_keys = columns[mapped.object].type in INTEGERS
        self._names: dict[str, sql.Composable] = {
            "object": sql.Identifier(mapped.object),
            "time": sql.Identifier(mapped.time),
            "rows": self._relation.rows,
        }
        self._names |= {"key": self._key(columns[mapped.object].base)}
        self._names |= self._position(srid) | {"moment": self._moment()}
        self._kept = [sql.Identifier(name) for name in self._mapping.keep_columns]
        self.kept_columns = tuple(
            (name, kept_type(columns[mapped_name]) or "")
            for name, mapped_name in zip(mapping.keep_columns, mapped.keep_columns, strict=True)
        )

    @property
    def carries(self) -> bool:
        """Whether rows have columns that are carried along."""
        return bool(self._kept)

    def _sql(self, text: LiteralString, **values: Any) -> sql.Composed:
        """A statement over the names of the mapping, and functions of PostGIS."""
        return self._connection.text(text, **self._names, **values)

    def _position(self, srid: int | None) -> dict[str, sql.Composable]:
        """Where a row is, what is wrong with its position, and the SRID that all rows have."""
        true, mapped = sql.SQL("true"), self._mapping
        if mapped.geom is None:
            assert mapped.lon is not None and mapped.lat is not None
            x, y = self._number(mapped.lon), self._number(mapped.lat)
            missing = sql.SQL("({} IS NULL OR {} IS NULL)").format(x, y)
            none = sql.SQL("NULL::int")
            return {
                "x": x, "y": y, "missing": missing, "is_point": true, "has_srid": true, "only": none,
            }  # fmt: skip
        declared, column = self._relation.columns[mapped.geom], sql.Identifier(mapped.geom)

        def of(text: LiteralString) -> sql.Composable:
            return self._connection.text(text, geom=geometry, column=column, srid=srid)

        geometry: sql.Composable = column
        if declared.type == "geography":
            geometry = self._connection.text("{column}::{geometry}", column=column)
        found = {
            # an empty point has coordinates that are not numbers
            "x": of("coalesce({st_x}({geom}), 'NaN'::float8)"),
            "y": of("coalesce({st_y}({geom}), 'NaN'::float8)"),
            "missing": of("({column} IS NULL)"),
            "is_point": true,
            "has_srid": true,
            "only": sql.Literal(geometry_srid(declared)),
        }
        # nothing but points of one SRID can be in a column that is declared so
        if not _PLAIN_POINT.fullmatch(declared.shown):
            found["is_point"] = of("{geometrytype}({geom}) IN ('POINT', 'POINTM')")
            found["only"] = of(
                "CASE WHEN min({st_srid}({geom})) = max({st_srid}({geom})) THEN min({st_srid}({geom})) END"
            )
            if srid is not None:
                found["has_srid"] = of("{st_srid}({geom}) = {srid}")
                found["only"] = sql.SQL("NULL::int")
        return found

    def _key(self, type: str | None) -> sql.Composable:
        """The object of a row as text: the same for values that are equal, such as 1.0 and 1.00."""
        if type == "numeric":
            return self._sql("trim_scale({object})::text")
        if type in ("float4", "float8"):
            return self._sql("({object} + '0')::text")  # -0 is 0
        if type == "citext":
            return self._sql('lower({object}::text COLLATE "default")')
        return self._sql("{object}::text")

    def _number(self, column: str) -> sql.Composable:
        """A column of numbers as float8; what no float8 can hold is not a number."""
        if self._relation.columns[column].type != "numeric":
            return sql.SQL("{}::float8").format(sql.Identifier(column))
        # the cast would end the whole COPY for one row that is too large or too near to 0
        return sql.SQL(
            "CASE WHEN {c} IS NULL OR (scale({c}) < 300 AND {c} BETWEEN -1e300 AND 1e300) "
            "THEN {c}::float8 ELSE 'NaN' END"
        ).format(c=sql.Identifier(column))

    def _moment(self) -> sql.Composable:
        """When a row is: a time, or an epoch number."""
        if self.epoch:
            return self._number(self._mapping.time)
        if self._relation.columns[self._mapping.time].type == "timestamptz":
            return self._names["time"]
        # dates reach beyond timestamps, and these beyond themselves in another zone: such a row would
        # end the whole COPY
        return sql.SQL(
            "CASE WHEN {c} BETWEEN DATE '1800-01-01' AND DATE '2300-01-01' "
            "THEN {c}::timestamp AT TIME ZONE {zone} WHEN {c} IS NOT NULL THEN 'infinity' END"
        ).format(c=self._names["time"], zone=sql.Literal(self._mapping.timezone))

    def _where(self, *conditions: LiteralString) -> sql.Composable:
        parts: list[sql.Composable] = [self._sql(condition) for condition in conditions]
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
            parts.append(_condition(self._mapping.filter))
        return sql.SQL(" WHERE ") + sql.SQL(" AND ").join(parts) if parts else sql.SQL("")

    def _during(self, begin: datetime, end: datetime) -> list[sql.Composable]:
        """Whether a row's time lies in a window; an index of the column serves it."""
        inside: LiteralString = "{time} >= {begin} AND {time} < {end}"
        if self._relation.columns[self._mapping.time].type == "timestamptz":
            return [self._sql(inside, begin=begin, end=end)]
        if self.epoch:
            assert self.time_unit is not None, "what epoch numbers count is declared"
            per_second = EPOCH_PER_SECOND[self.time_unit]
            first, last = (int(moment.timestamp()) * per_second for moment in (begin, end))
            return [self._sql(inside, begin=first, end=last)]
        # the clock changes by less than a day: local times far outside need not be converted
        day = timedelta(days=1)
        near = ((begin - day).astimezone(UTC), (end + day).astimezone(UTC))
        return [
            self._sql(inside, begin=near[0].replace(tzinfo=None), end=near[1].replace(tzinfo=None)),
            self._sql("{moment} >= {begin} AND {moment} < {end}", begin=begin, end=end),
        ]

    def _between(self, first: str, last: str) -> sql.Composable:
        """An index of the column serves integers; texts are compared by their bytes, as we sort them."""
        if self.integer_keys:
            return self._sql(
                "{object} BETWEEN {first} AND {last}", first=int(first), last=int(last)
            )
        return self._sql('({key} COLLATE "C") BETWEEN {first} AND {last}', first=first, last=last)

    def export(self) -> str:
        """The name by which other sessions read what this one reads, as long as it lasts."""
        self._connection.never_time_out()
        name: str = self._connection.one_value("SELECT pg_export_snapshot()")
        return name

    def taken_at(self) -> datetime:
        """When the snapshot was taken."""
        at: datetime = self._connection.one_value("SELECT now()")
        return at

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
        found: int | None = self._connection.one_value(query)
        return found

    def check_filter(self) -> None:
        """Let the server parse the filter and the columns; reads no row."""
        condition = self._condition
        if condition is not None and not condition.strip():
            raise BadInput("[[where]] is empty", remedy="give a condition, or leave [[where]] out")
        try:
            self.count("false")
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
                f"{self._connection.postgis}.ST_X(geom), a OPERATOR({self._connection.postgis}.&&) b"
                if unknown
                else "give one condition, as it would stand after WHERE, without a semicolon",
            ) from None

    def count(self, *conditions: LiteralString) -> RowCounts:
        """Count the rows, and those that are left out, each under the first reason that holds."""
        query = self._sql(
            "SELECT count(*), count(*) FILTER (WHERE {object} IS NULL), "
            "count(*) FILTER (WHERE {object} IS NOT NULL AND {time} IS NULL), "
            "count(*) FILTER (WHERE {known} AND {missing}), "
            "count(*) FILTER (WHERE {known} AND NOT {missing} AND NOT {is_point}), "
            "count(*) FILTER (WHERE {known} AND NOT {missing} AND {is_point} AND NOT {has_srid}), "
            "{only} FROM {rows}{where}",
            known=self._sql("{object} IS NOT NULL AND {time} IS NOT NULL"),
            where=self._where(*conditions),
        )
        # binary results need the extended protocol, which takes one statement only: a filter that
        # smuggles in a second one ends here
        row = self._connection.driver.execute(query, binary=True).fetchone()
        assert row is not None
        rows, *excluded, only_srid = row
        return RowCounts(rows, dict(zip(_EXCLUDED, excluded, strict=True)), only_srid)

    def objects(self) -> list[tuple[str, int, int]]:
        """The distinct object keys, in the order of trajectories; their numbers on the wire; their rows.

        Keys whose numbers collide change the hash's seed.
        """
        while True:
            query = self._sql(
                "SELECT {key}, {number}, count(*) FROM {rows}{where} GROUP BY 1, 2",
                number=self._number_on_wire(),
                where=self._where("{object} IS NOT NULL"),
            )
            found = self._connection.driver.execute(query).fetchall()
            if len({number for _, number, _ in found}) == len(found):
                return sorted(found, key=lambda row: row[1] if self.integer_keys else row[0])
            self.hash_seed += 1

    def _number_on_wire(self) -> sql.Composable:
        if self.integer_keys:
            return self._sql("{object}::int8")
        return self._sql("hashtextextended({key}, {seed})", seed=self.hash_seed)

    def _usable(self) -> sql.Composable:
        """The condition on the rows that `count` leaves in."""
        return self._where(
            "{object} IS NOT NULL", "{time} IS NOT NULL", "NOT {missing}", "{is_point}", "{has_srid}"
        )  # fmt: skip

    @cached_property
    def kept(self) -> tuple[tuple[str, ...], ...]:
        """The values of each column that is carried along, as text, in order.

        Raises BadData if one of them is not coarse. No value is shown: it may be anybody's name.
        """
        if self._part.kept is not None:
            return self._part.kept
        found = []
        for (name, _), column in zip(self.kept_columns, self._kept, strict=True):
            query = self._sql(
                "SELECT left(value, {longest} + 1), count(*) OVER (), max(char_length(value)) OVER () "
                "FROM (SELECT DISTINCT {value} AS value FROM {rows}{where}) AS s "
                "WHERE value IS NOT NULL ORDER BY value LIMIT {most}",
                value=as_text(column), where=self._usable(), most=MOST_VALUES, longest=LONGEST_VALUE,
            )  # fmt: skip
            rows = self._connection.execute(query).fetchall()
            _require_coarse(name, *(rows[0][1:] if rows else (0, 0)))
            found.append(tuple(value for value, *_ in rows))
        return tuple(found)

    def _kept_code(self) -> sql.Composable:
        """One number for the values of all columns that are carried along; 0: they are NULL."""
        code: sql.Composable = sql.SQL("0")
        factor = 1
        for column, values in zip(self._kept, self.kept, strict=True):
            number = number_of_value(column, values)
            code = sql.SQL("{} + {} * {}").format(code, sql.Literal(factor), number)
            factor *= len(values) + 1
        return sql.SQL("({})::int2").format(code)

    def rows(self, on_rows: Callable[[int], None]) -> Iterator[dict[str, NDArray[Any]]]:
        """All rows that `count` leaves in, in chunks of columns: object, at, x, y, and kept."""
        columns = f"object int8, at {'float8' if self.epoch else 'timestamptz'}, x float8, y float8"
        more: sql.Composable = sql.SQL("")
        if self._kept:
            columns += ", kept int2"
            more = sql.SQL(", {}").format(self._kept_code())
        query = self._sql(
            "SELECT {number}, {moment}, {x}, {y}{more} FROM {rows}{where}",
            number=self._number_on_wire(),
            more=more,
            where=self._usable(),
        )
        layout = Layout(columns)
        for records in read_records(self._connection.driver, query, layout, on_rows):
            yield native(records, layout)


MOST_VALUES = 20
LONGEST_VALUE = 64
"""Of a column that is carried along: so many values, of so many characters."""


def _require_coarse(name: str, values: int, longest: int) -> None:
    if values > MOST_VALUES:
        raise BadData(
            f"[[keep_columns]]: column {name!r} has {values:,} values, more than the {MOST_VALUES} that "
            "may be carried along",
            remedy="make it coarser in a view, or keep other columns",
        )
    if longest > LONGEST_VALUE:
        raise BadData(
            f"[[keep_columns]]: column {name!r} has a value of {longest:,} characters, more than the "
            f"{LONGEST_VALUE} that may be carried along",
            remedy="shorten its values in a view, or keep other columns",
        )


def _condition(text: str) -> sql.Composable:
    # the newline ends a comment that the condition may close with
    return sql.SQL("(") + sql.SQL(text) + sql.SQL("\n)")


# Tables that are read beside the source.


def read_anchors(
    connection: Connection, relation: Relation
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """The points of a relation with one geometry column, and their SRID (for `anchors:`)."""
    geometries = [c.name for c in relation.columns.values() if c.type == "geometry"]
    if len(geometries) != 1:
        raise BadInput(
            f"anchors:{relation.schema}.{relation.name} has {len(geometries)} geometry columns",
            remedy="name a table or view with one column of points",
        )
    read: dict[str, Any] = {"geom": sql.Identifier(geometries[0]), "relation": relation.identifier}
    ((srids, others),) = connection.execute(
        "SELECT array_agg(DISTINCT {st_srid}({geom})) FILTER (WHERE {geom} IS NOT NULL), "
        "count(*) FILTER (WHERE {geometrytype}({geom}) <> 'POINT') FROM {relation}",
        **read,
    )
    if srids is None or len(srids) != 1 or srids[0] == 0 or others:
        raise BadInput(
            f"anchors:{relation.schema}.{relation.name} does not hold points of one SRID",
            remedy="every row needs a point, all with the same SRID",
        )
    query = connection.text(
        "SELECT {st_x}({geom}), {st_y}({geom}) FROM {relation} WHERE {st_x}({geom}) IS NOT NULL",
        **read,
    )
    places = read_arrays(connection.driver, query, Layout("x float8, y float8"))
    return places["x"], places["y"], int(srids[0])


def read_pairs(connection: Connection, relation: Relation) -> list[tuple[str, str]]:
    """The rows of a relation with two columns, as texts."""
    columns = (sql.SQL("{}::text").format(sql.Identifier(name)) for name in relation.columns)
    query = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(columns), relation.identifier)
    return connection.driver.execute(query).fetchall()


# Trips, as the rows of their samples.


_OBJECT, _TIME, _GEOM, _X, _Y = "object", "time", "geom", "x", "y"
_LINE = "LINESTRING"
_ANY = ("", "GEOMETRY", "GEOMETRYM", "GEOMETRYZM")


def line_with_times(relation: Relation, name: str | None) -> bool:
    """Whether a column has lines whose M is the time."""
    column = relation.columns.get(name or "")
    return column is not None and geometry_kind(column) in (f"{_LINE}M", f"{_LINE}ZM")


def as_samples(
    connection: Connection, relation: Relation, mapping: Mapping
) -> tuple[Relation, Mapping]:
    """The relation with a row for each sample, and which of its columns holds what."""
    named = (mapping.time, mapping.geom, mapping.lon, mapping.lat)
    both_ends = any(text and column_pair(relation.columns, text) for text in named)
    if not both_ends and not _has_lines(relation, mapping):
        return relation, mapping
    relation.column("[[object]]", mapping.object)
    return _ends(relation, mapping) if both_ends else _lines(connection, relation, mapping)


def _has_lines(relation: Relation, mapping: Mapping) -> bool:
    if mapping.geom not in relation.columns:
        return False
    kind, time = geometry_kind(relation.columns[mapping.geom]), relation.columns.get(mapping.time)
    if kind.rstrip("ZM") == _LINE:
        return True
    # a column of any geometries has lines if that is how the times are given
    in_lines = time is not None and (time.name == mapping.geom or time.type.startswith("_"))
    return kind in _ANY and in_lines


def _ends(relation: Relation, mapping: Mapping) -> tuple[Relation, Mapping]:
    """Both ends of each trip."""
    given = {
        _TIME: ("[[time]]", mapping.time),
        _GEOM: ("[[geom]]", mapping.geom),
        _X: ("[[lon]]", mapping.lon),
        _Y: ("[[lat]]", mapping.lat),
    }
    starts, ends = [], []
    for name, (option, text) in given.items():
        if text is None:
            continue
        pair = column_pair(relation.columns, text)
        if pair is None:
            raise BadInput(
                f"{option} {text!r} is one column, and another option names both ends of a trip",
                remedy=f"name two columns with a comma: {option} START,END",
            )
        first, last = (relation.column(option, column) for column in pair)
        if first.shown != last.shown:
            raise BadInput(
                f"{option} {text!r}: the columns are of the types {first.shown} and {last.shown}",
                remedy="both ends need the same type: cast one of them in a view",
            )
        starts.append((sql.Identifier("trip", first.name), replace(first, name=name)))
        ends.append(sql.Identifier("trip", last.name))
    columns = [column for _, column in starts]
    samples = sql.SQL("CROSS JOIN LATERAL (VALUES ({}), ({})) AS sample ({})").format(
        sql.SQL(", ").join(start for start, _ in starts),
        sql.SQL(", ").join(ends),
        sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
    )
    return _expanded(
        relation, mapping, samples, [(sql.Identifier("sample", c.name), c) for c in columns]
    )


def _lines(
    connection: Connection, relation: Relation, mapping: Mapping
) -> tuple[Relation, Mapping]:
    """The points of each line."""
    assert mapping.geom is not None
    line = relation.column("[[geom]]", mapping.geom)
    time = relation.column("[[time]]", mapping.time)
    names = {"line": sql.Identifier("trip", line.name), "times": sql.Identifier("trip", time.name)}
    srid = geometry_srid(line)
    point = RelationColumn(_GEOM, "geometry", f"geometry(Point,{srid})" if srid else "geometry")
    if time == line:
        if geometry_kind(line) in (_LINE, f"{_LINE}Z"):
            raise BadInput(
                f"[[geom]] {line.name!r} is of type {line.shown}, which has no times",
                remedy="name a column with an array of the times of its points with [[time]]; or use "
                "lines with M, in Unix seconds",
            )
        samples = connection.text(
            "LEFT JOIN LATERAL {st_dumppoints}({line}::{geometry}) AS sample (path, geom) ON true",
            **names,
        )
        at = connection.text("{st_m}(sample.geom)")
        when = RelationColumn(_TIME, "float8", "double precision")
    else:
        kind = time.type.removeprefix("_")
        if not time.type.startswith("_") or kind not in TIMES | NUMBERS:
            raise BadInput(
                f"[[time]] {time.name!r} is of type {time.shown}, and [[geom]] {line.name!r} has lines",
                remedy="it must be an array with a time for each point of the line; leave [[time]] out if "
                "M is the time, in Unix seconds",
            )
        samples = connection.text(
            "LEFT JOIN LATERAL ROWS FROM ({st_dumppoints}({line}::{geometry}), unnest({times})) "
            "AS sample (path, geom, at) ON true",
            **names,
        )
        at = sql.Composed([sql.Identifier("sample", "at")])
        when = RelationColumn(_TIME, kind, time.shown.removesuffix("[]"))
    return _expanded(
        relation, mapping, samples, [(at, when), (sql.Identifier("sample", "geom"), point)]
    )


def _expanded(
    relation: Relation,
    mapping: Mapping,
    samples: sql.Composable,
    columns: Sequence[tuple[sql.Composable, RelationColumn]],
) -> tuple[Relation, Mapping]:
    """A subquery in place of the relation. The owner's condition is on the rows of trips."""
    carried = {f"kept_{n}": name for n, name in enumerate(mapping.keep_columns, start=1)}
    columns = [
        *columns,
        *(
            (
                sql.Identifier("trip", name),
                replace(relation.column("[[keep_columns]]", name), name=alias),
            )
            for alias, name in carried.items()
        ),
    ]
    query = sql.SQL("(SELECT trip.{} AS {}, {} FROM (SELECT * FROM {}{}) AS trip {}) AS samples").format(
        sql.Identifier(mapping.object),
        sql.Identifier(_OBJECT),
        sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(value, sql.Identifier(column.name)) for value, column in columns
        ),
        relation.identifier,
        sql.SQL(" WHERE ") + _condition(mapping.filter) if mapping.filter else sql.SQL(""),
        samples,
    )  # fmt: skip
    owner = replace(relation.columns[mapping.object], name=_OBJECT)
    known = {column.name: column for _, column in columns}
    mapped = replace(
        mapping,
        object=_OBJECT,
        time=_TIME,
        geom=_GEOM if _GEOM in known else None,
        lon=_X if _X in known else None,
        lat=_Y if _Y in known else None,
        filter=None,
        keep_columns=tuple(carried),
    )
    return replace(relation, columns={_OBJECT: owner, **known}, expanded=query), mapped
