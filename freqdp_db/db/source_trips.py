"""Sources with one row a trip: a line with its times, or the two ends. They are read as rows of samples.

A line keeps its times as M, in Unix seconds, or in a column with an array that has as many. Of a trip
record, both ends are samples: two columns are named, with a comma between them.
"""

from __future__ import annotations

from dataclasses import replace

from psycopg import sql

from freqdp_db.db.source import (
    NUMBERS,
    TIMES,
    Mapping,
    Relation,
    RelationColumn,
    column_pair,
    geometry_kind,
    geometry_srid,
)
from freqdp_db.errors import BadInput

OBJECT, TIME, GEOM, X, Y = "object", "time", "geom", "x", "y"
_LINE = "LINESTRING"
_ANY = ("", "GEOMETRY", "GEOMETRYM", "GEOMETRYZM")


def _holds_trips(relation: Relation, mapping: Mapping) -> bool:
    """Whether a row is a trip and not a sample."""
    if column_pair(relation.columns, mapping.time) is not None:
        return True
    if mapping.geom not in relation.columns:
        return False
    kind, time = geometry_kind(relation.columns[mapping.geom]), relation.columns.get(mapping.time)
    if kind.rstrip("ZM") == _LINE:
        return True
    # a column of any geometries has lines if that is how the times are given
    in_lines = time is not None and (time.name == mapping.geom or time.type.startswith("_"))
    return kind in _ANY and in_lines


def line_with_times(relation: Relation, name: str | None) -> bool:
    """Whether a column has lines whose M is the time."""
    column = relation.columns.get(name or "")
    return column is not None and geometry_kind(column) in (f"{_LINE}M", f"{_LINE}ZM")


def as_samples(relation: Relation, mapping: Mapping, postgis: str) -> tuple[Relation, Mapping]:
    """The relation with a row for each sample, and which of its columns holds what."""
    if not _holds_trips(relation, mapping):
        return relation, mapping
    relation.column("[[object]]", mapping.object)
    if column_pair(relation.columns, mapping.time) is not None:
        return _ends(relation, mapping)
    return _lines(relation, mapping, postgis)


def _ends(relation: Relation, mapping: Mapping) -> tuple[Relation, Mapping]:
    """Both ends of each trip."""
    named = {"[[time]]": mapping.time, "[[geom]]": mapping.geom}
    named |= {"[[lon]]": mapping.lon, "[[lat]]": mapping.lat}
    pairs: dict[str, tuple[RelationColumn, RelationColumn]] = {}
    for option, text in named.items():
        if text is None:
            continue
        pair = column_pair(relation.columns, text)
        if pair is None:
            raise BadInput(
                f"[[time]] {mapping.time!r} names both ends of a trip, and {option} {text!r} only one",
                remedy=f"name two columns with a comma: {option} START,END",
            )
        first, last = (relation.column(option, name) for name in pair)
        if first.shown != last.shown:
            raise BadInput(
                f"{option} {text!r}: the columns are of the types {first.shown} and {last.shown}",
                remedy="both ends need the same type: cast one of them in a view",
            )
        pairs[option] = first, last
    own = {"[[time]]": TIME, "[[geom]]": GEOM, "[[lon]]": X, "[[lat]]": Y}
    names = [own[option] for option in pairs]
    both = sql.SQL(", ").join(
        sql.SQL("({})").format(
            sql.SQL(", ").join(sql.Identifier("trip", pair[end].name) for pair in pairs.values())
        )
        for end in (0, 1)
    )
    samples = sql.SQL("CROSS JOIN LATERAL (VALUES {}) AS sample ({})").format(
        both, sql.SQL(", ").join(map(sql.Identifier, names))
    )
    types = {own[option]: replace(first, name=own[option]) for option, (first, _) in pairs.items()}
    columns = [sql.SQL("sample.{}").format(sql.Identifier(name)) for name in names]
    return _expanded(relation, mapping, samples, dict(zip(names, columns, strict=True)), types)


def _lines(relation: Relation, mapping: Mapping, postgis: str) -> tuple[Relation, Mapping]:
    """The points of each line."""
    assert mapping.geom is not None
    line = relation.column("[[geom]]", mapping.geom)
    time = relation.column("[[time]]", mapping.time)
    drawn = sql.SQL("trip.{}::{}").format(
        sql.Identifier(line.name), sql.Identifier(postgis, "geometry")
    )
    points = sql.SQL("{}({})").format(sql.Identifier(postgis, "st_dumppoints"), drawn)
    srid = geometry_srid(line)
    point = RelationColumn(GEOM, "geometry", f"geometry(Point,{srid})" if srid else "geometry")
    if time == line:
        if geometry_kind(line) in (_LINE, f"{_LINE}Z"):
            raise BadInput(
                f"[[geom]] {line.name!r} is of type {line.shown}, which has no times",
                remedy="name a column with an array of the times of its points with [[time]]; or use "
                "lines with M, in Unix seconds",
            )
        samples = sql.SQL("LEFT JOIN LATERAL {} AS sample (path, geom) ON true").format(points)
        at: sql.Composable = sql.SQL("{}(sample.geom)").format(sql.Identifier(postgis, "st_m"))
        when = RelationColumn(TIME, "float8", "double precision")
    else:
        kind = time.type.removeprefix("_")
        if not time.type.startswith("_") or kind not in TIMES | NUMBERS:
            raise BadInput(
                f"[[time]] {time.name!r} is of type {time.shown}, and [[geom]] {line.name!r} has lines",
                remedy="it must be an array with a time for each point of the line; leave [[time]] out if "
                "M is the time, in Unix seconds",
            )
        samples = sql.SQL(
            "LEFT JOIN LATERAL ROWS FROM ({}, unnest(trip.{})) AS sample (path, geom, at) ON true"
        ).format(points, sql.Identifier(time.name))
        at = sql.SQL("sample.at")
        when = RelationColumn(TIME, kind, time.shown.removesuffix("[]"))
    columns: dict[str, sql.Composable] = {TIME: at, GEOM: sql.SQL("sample.geom")}
    return _expanded(relation, mapping, samples, columns, {TIME: when, GEOM: point})


def _expanded(
    relation: Relation,
    mapping: Mapping,
    samples: sql.Composable,
    columns: dict[str, sql.Composable],
    types: dict[str, RelationColumn],
) -> tuple[Relation, Mapping]:
    """A subquery in place of the relation. The owner's condition is on the rows of trips."""
    where: sql.Composable = sql.SQL("")
    if mapping.filter:
        # the newline ends a comment that the filter may close with
        where = sql.SQL(" WHERE (") + sql.SQL(mapping.filter) + sql.SQL("\n)")
    query = sql.SQL("(SELECT trip.{} AS {}, {} FROM (SELECT * FROM {}{}) AS trip {}) AS samples").format(
        sql.Identifier(mapping.object),
        sql.Identifier(OBJECT),
        sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(value, sql.Identifier(name)) for name, value in columns.items()
        ),
        relation.identifier,
        where,
        samples,
    )  # fmt: skip
    owner = replace(relation.columns[mapping.object], name=OBJECT)
    expanded = replace(relation, columns={OBJECT: owner, **types}, expanded=query)
    mapped = replace(
        mapping,
        object=OBJECT,
        time=TIME,
        geom=GEOM if GEOM in types else None,
        lon=X if X in types else None,
        lat=Y if Y in types else None,
        filter=None,
    )
    return expanded, mapped
