"""Relations: what the catalogues say of one, how people name them, and which tables one reads."""

from __future__ import annotations

import re
from collections.abc import Collection
from collections.abc import Mapping as Mapped
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import sqlalchemy as sa
from psycopg import sql

from freqdp_db.db.connection import (
    Connection,
    driver,
    one_value,
    private_name,
    private_schema,
    release_schema,
    rows_as,
)
from freqdp_db.db.names import (
    format_name,
    format_relation,
    parse_relation,
    postgis_schema,
    with_postgis,
)
from freqdp_db.errors import BadInput, NotFound, PermissionMissing

INTEGERS = {"int2", "int4", "int8"}
NUMBERS = INTEGERS | {"float4", "float8", "numeric"}
TIMES = {"timestamptz", "timestamp", "date"}

OF_CLASS = "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
IS_RELATION = "WHERE n.nspname = :schema AND c.relname = :relation "
_HAS_ROWS = "AND c.relkind IN ('r', 'v', 'm', 'f', 'p') "
_COLUMNS = "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
_BASE_TYPE = """(
    WITH RECURSIVE made (oid) AS (
        SELECT t.oid UNION SELECT d.typbasetype FROM made JOIN pg_type d USING (oid) WHERE d.typtype = 'd'
    ) SELECT b.typname::text FROM made JOIN pg_type b USING (oid) WHERE b.typtype <> 'd'
) """
_READABLE_BY = """
    SELECT coalesce(
        has_schema_privilege(r.oid, n.oid, 'USAGE') AND has_table_privilege(r.oid, c.oid, 'SELECT')
        AND (NOT c.relrowsecurity OR r.rolbypassrls OR r.rolsuper
            OR (NOT c.relforcerowsecurity AND pg_has_role(r.oid, c.relowner, 'USAGE')))
        AND (r.rolsuper OR NOT EXISTS (SELECT FROM unnest(c.reloptions) AS o
            WHERE o ~* '^security_invoker=(true|on|yes|1|t|y)$')),
        false)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_roles r ON r.rolname = :login
    WHERE n.nspname = :schema AND c.relname = :relation AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
    """


# What the catalogues say.


def ask_of(connection: Connection, query: str, relation: tuple[str, str], **values: Any) -> Any:
    """Ask for something of a relation; the query has `IS_RELATION`."""
    named = {"schema": relation[0], "relation": relation[1]}
    return connection.execute(sa.text(query), named | values)


def relation_exists(connection: Connection, schema: str, relation: str) -> bool:
    found = ask_of(connection, "SELECT 1 " + OF_CLASS + IS_RELATION, (schema, relation))
    return found.scalar() is not None


def is_table(connection: Connection, relation: tuple[str, str]) -> bool:
    """Whether it is a table, not a view."""
    query = "SELECT c.relkind IN ('r', 'p') " + OF_CLASS + IS_RELATION
    return bool(ask_of(connection, query, relation).scalar())


@dataclass(frozen=True)
class RelationColumn:
    name: str
    type: str
    shown: str
    """The type as PostgreSQL writes it."""
    required: bool = False
    comment: str | None = None
    base: str | None = None
    """Of a domain, the type that it is made of; of others, the type itself."""


def columns_of(connection: Connection, relation: tuple[str, str]) -> dict[str, RelationColumn]:
    """The columns in order, by name; none if there is no such relation."""
    rows = ask_of(
        connection,
        "SELECT a.attname::text, t.typname::text, format_type(a.atttypid, a.atttypmod), "
        "a.attnotnull, col_description(c.oid, a.attnum), "
        + _BASE_TYPE
        + OF_CLASS
        + _COLUMNS
        + "JOIN pg_type t ON t.oid = a.atttypid "
        + IS_RELATION
        + "ORDER BY a.attnum",
        relation,
    )
    return {row[0]: RelationColumn(*row) for row in rows}


def key_of(connection: Connection, relation: tuple[str, str]) -> list[str]:
    """The columns of the primary key of a table, in order."""
    rows = ask_of(
        connection,
        "SELECT a.attname::text "
        + OF_CLASS
        + _COLUMNS
        + "JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary "
        "JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place) "
        "ON k.number = a.attnum " + IS_RELATION + "ORDER BY k.place",
        relation,
    )
    return list(rows.scalars())


# Relations of the user's.


@dataclass(frozen=True)
class Relation:
    """A table or view of the user's."""

    schema: str
    name: str
    columns: dict[str, RelationColumn]
    expanded: sql.Composable | None = None
    """A subquery over it with a row for each sample, where a row of it is a trip."""

    def __str__(self) -> str:
        return format_relation(self.schema, self.name)

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    @property
    def rows(self) -> sql.Composable:
        """What is read, as it stands after FROM."""
        return self.expanded or self.identifier

    def column(self, option: str, name: str) -> RelationColumn:
        if name not in self.columns:
            raise BadInput(
                f"{option} {name!r}: {self.schema}.{self.name} has no such column",
                remedy="its columns are: " + ", ".join(map(format_name, self.columns)),
            )
        return self.columns[name]

    def geometry_column(self, option: str) -> str:
        """The column called `geom`, or the only one of its kind."""
        found = [c.name for c in self.columns.values() if c.type in ("geometry", "geography")]
        if "geom" in found:
            return "geom"
        if len(found) != 1:
            raise BadInput(
                f"{option}: {self.schema}.{self.name} has "
                + (f"several geometries: {', '.join(found)}" if found else "no geometry"),
                remedy="give a table or view whose geometry is called geom",
            )
        return found[0]


@dataclass(frozen=True)
class Mapping:
    """Which columns hold what; `lon` and `lat` hold x and y where the source's SRID is projected."""

    object: str
    time: str
    geom: str | None
    lon: str | None
    lat: str | None
    timezone: str
    filter: str | None
    time_unit: str | None = None
    """What epoch numbers count: s, ms, us or ns, as the owner declared; None: it is guessed."""


def read_name(connection: Connection, text: str, option: str) -> tuple[str, str]:
    """What relation is meant: as it was typed, if there is such, else as PostgreSQL would read it."""
    typed, folded = (parse_relation(text, option, fold=fold) for fold in (False, True))
    there = ask_of(connection, "SELECT 1 " + OF_CLASS + IS_RELATION + _HAS_ROWS, typed).first()
    return folded if there is None else typed


def read_column(columns: Collection[str], text: str) -> str:
    """What column is meant, by the same rule."""
    if text in columns:
        return text
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1].replace('""', '"')
    return text.lower() if text.lower() in columns else text


def column_pair(columns: Collection[str], text: str) -> tuple[str, str] | None:
    """The two columns that are named with a comma between them: the ends of a trip."""
    if text in columns or text.count(",") != 1:
        return None
    first, last = (read_column(columns, part.strip()) for part in text.split(","))
    return first, last


def read_columns(columns: Collection[str], text: str) -> str:
    """What column is meant, or what pair of them."""
    pair = column_pair(columns, text)
    return read_column(columns, text) if pair is None else ",".join(pair)


def find_relation(
    connection: Connection, schema: str, name: str, *, option: str = "[[source]]"
) -> Relation:
    """Look the relation up and make sure that we may read it; `option` is where it was named."""
    found = ask_of(
        connection,
        "SELECT current_user AS login, has_schema_privilege(n.oid, 'USAGE') "
        "AND has_table_privilege(c.oid, 'SELECT') AS readable "
        + OF_CLASS
        + IS_RELATION
        + _HAS_ROWS,
        (schema, name),
    ).first()
    if found is None:
        raise NotFound(
            f"{option}: there is no table or view {name!r} in schema {schema!r}",
            remedy=_alike(connection, schema, name)
            or f"check the name given with {option}; quote parts that hold capitals or dots",
        )
    if not found.readable:
        raise PermissionMissing(
            f"{option}: you may not read {schema}.{name}",
            remedy="its owner can: " + _grant((schema, name), found.login),
        )
    return Relation(schema, name, columns_of(connection, (schema, name)))


def _alike(connection: Connection, schema: str, name: str) -> str | None:
    """Relations of that name but for capitals, as they have to be typed."""
    found = connection.execute(
        sa.text(
            "SELECT n.nspname, c.relname "
            + OF_CLASS
            + "WHERE lower(n.nspname) = lower(:schema) AND lower(c.relname) = lower(:relation) "
            + _HAS_ROWS
            + "ORDER BY 1, 2"
        ),
        {"schema": schema, "relation": name},
    ).all()
    if not found:
        return None
    return "there is " + " and ".join(format_relation(*row) for row in found) + ": write it so"


def _grant(relation: tuple[str, str], login: str) -> str:
    """The statements that let a login read a relation."""
    return (
        sql.SQL("GRANT USAGE ON SCHEMA {} TO {u}; GRANT SELECT ON {} TO {u}")
        .format(sql.Identifier(relation[0]), sql.Identifier(*relation), u=sql.Identifier(login))
        .as_string()
    )


def require_readable_by(
    connection: Connection, relation: tuple[str, str], login: str, option: str
) -> None:
    """Refuse a relation that a login may not read: all of its rows, and with its own rights.

    Rows that a policy hides from the login, and views that read with the rights of whoever asks
    (security_invoker), would be read with the rights of this session.
    """
    if ask_of(connection, _READABLE_BY, relation, login=login).scalar() is False:
        raise PermissionMissing(
            f"{option}: {login} asked for this, and may not read {format_relation(*relation)}",
            remedy=f"its owner can: {_grant(relation, login)}"
            "; views with security_invoker and tables with row security are refused",
        )


def check_mapping(relation: Relation, mapping: Mapping, *, projected: bool = False) -> None:
    """Refuse columns that are missing or of a type that cannot hold what they are said to hold.

    projected: `lon` and `lat` were given as x and y.
    """
    relation.column("[[object]]", mapping.object)
    time = relation.column("[[time]]", mapping.time)
    if time.type not in TIMES | NUMBERS:
        raise BadInput(
            f"[[time]] {mapping.time!r} is of type {time.shown}",
            remedy="it must be a timestamp (with or without time zone), a date or epoch numbers",
        )
    if mapping.geom is not None:
        geom = relation.column("[[geom]]", mapping.geom)
        remedy = None
        if geom.type not in ("geometry", "geography"):
            remedy = "it must be a PostGIS point; for two number columns use [[lon]] and [[lat]]"
        elif geometry_kind(geom).rstrip("ZM") not in ("", "GEOMETRY", "POINT"):
            remedy = "points or lines are needed: make a view over it that has them"
        if remedy is not None:
            raise BadInput(f"[[geom]] {mapping.geom!r} is of type {geom.shown}", remedy=remedy)
    options = ("[[x]]", "[[y]]") if projected else ("[[lon]]", "[[lat]]")
    for option, name in zip(options, (mapping.lon, mapping.lat), strict=True):
        if name is not None and relation.column(option, name).type not in NUMBERS:
            raise BadInput(
                f"{option} {name!r} is of type {relation.columns[name].shown}",
                remedy="it must be a number" + ("" if projected else " of degrees"),
            )


def geometry_kind(column: RelationColumn) -> str:
    """What the column's type declares, such as POINT or LINESTRINGZM; empty: nothing."""
    if column.type not in ("geometry", "geography"):
        return ""
    return column.shown.partition("(")[2].rstrip(")").split(",")[0].upper()


def geometry_srid(column: RelationColumn) -> int | None:
    """The SRID that the column's type declares."""
    if "," in column.shown:
        return int(column.shown.rpartition(",")[2].rstrip(")"))
    return 4326 if column.type == "geography" else None


def declared_srid(relation: Relation, geom: str) -> int | None:
    """The SRID that the type of a geometry column declares; of a pair, that of the first."""
    pair = column_pair(relation.columns, geom)
    return geometry_srid(relation.columns[geom if pair is None else pair[0]])


# Reference systems and time zones, as the server knows them.


def definition_of(connection: Connection, srid: int, option: str) -> str:
    """A definition of the SRID that pyproj understands: EPSG code, else the WKT."""
    query = with_postgis(
        postgis_schema(connection),
        "SELECT auth_name, auth_srid, srtext FROM {spatial_ref_sys} WHERE srid = {srid}",
        srid=srid,
    )
    row = driver(connection).execute(query).fetchone()
    if row is None:
        raise BadInput(
            f"{option} {srid}: spatial_ref_sys has no such SRID",
            remedy="use one that PostGIS knows, or add it to spatial_ref_sys",
        )
    authority, code, wkt = row
    return f"EPSG:{code}" if authority == "EPSG" and code else str(wkt)


def require_timezone(connection: Connection, name: str) -> None:
    """Refuse a zone that AT TIME ZONE would not take."""
    known = connection.execute(
        sa.text("SELECT EXISTS (SELECT FROM pg_timezone_names WHERE lower(name) = lower(:name))"),
        {"name": name},
    ).scalar()
    if not known:
        raise BadInput(
            f"[[timezone]] {name!r} is not a time zone that the server knows",
            remedy="give a name such as UTC, Europe/Brussels or Asia/Shanghai",
        )


# Where the rows of a relation come from: the tables behind views, and what partitions belong to.
#
# PostgreSQL records what a view reads. It does not record what a foreign table, a function or a copy
# was made from: the first two are named, the last looks like any other table. The SQL function
# `source_lineage` has the query; the ledger books by it.


_LINEAGE = sql.SQL(
    "SELECT database_key, relation_oid, source_schema, source_relation FROM {}(%s::text, %s::text)"
)
# A table that was only looked something up in has no column of objects.
_MADE_FROM = sql.SQL(
    """
    WITH behind AS (
        SELECT database_key, relation_oid, source_schema, source_relation FROM {}(%s::text, %s::text)
        UNION
        SELECT database_key, relation_oid, source_schema, source_relation FROM {} WHERE build_id = %s
    ), data AS (
        SELECT * FROM behind
        UNION
        SELECT s.database_key, s.relation_oid, s.source_schema, s.source_relation
        FROM {sources} s
        WHERE s.object_column <> '' AND s.population_id IN (
            SELECT met.population_id FROM {sources} met JOIN behind b ON
                (b.relation_oid, b.database_key) = (met.relation_oid, met.database_key)
                OR (b.source_schema, b.source_relation) = (met.source_schema, met.source_relation)
        )
    )
    SELECT min(format('%%I.%%I', r.source_schema, r.source_relation))
    FROM {lineage}(%s::text, %s::text) r
    WHERE r.source_schema = ANY (%s) OR EXISTS (SELECT FROM data d WHERE
        (d.relation_oid, d.database_key) = (r.relation_oid, r.database_key)
        OR (d.source_schema, d.source_relation) = (r.source_schema, r.source_relation))
    """
)
_UNTRACED = sql.SQL(
    """
    WITH behind AS (SELECT l.relation_oid::oid AS oid, l.* FROM {}(%s::text, %s::text) AS l)
    SELECT 'the foreign table ' || oid::regclass AS what FROM behind WHERE relation_kind = 'f'
      UNION
    SELECT 'the function ' || p.oid::regprocedure
    FROM behind
    JOIN pg_rewrite w ON w.ev_class = behind.oid
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
        AND d.refclassid = 'pg_proc'::regclass
    JOIN pg_proc p ON p.oid = d.refobjid
    WHERE p.pronamespace <> 'pg_catalog'::regnamespace
        AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass
            AND e.objid = p.oid AND e.deptype = 'e')
    ORDER BY 1
    """
)

_DEFINITIONS = sql.SQL(
    """
    SELECT w.ev_class::int8, w.ev_class::regclass::text, w.ev_action::text
    FROM {}(%s::text, %s::text) AS l JOIN pg_rewrite w ON w.ev_class = l.relation_oid
    WHERE l.relation_kind IN ('v', 'm') AND w.ev_type = '1'
    ORDER BY 1
    """
)
# As PostgreSQL writes the parse tree of a view, with those of its subqueries inside.
_CHOOSING = {
    "LIMIT": re.compile(r":limitCount \{|:limitOffset \{"),
    "window functions": re.compile(r":hasWindowFuncs true"),
    "aggregates": re.compile(r":hasAggs true"),
    "DISTINCT ON": re.compile(r":hasDistinctOn true"),
    "a subquery": re.compile(r"\{SUBLINK "),
    "TABLESAMPLE": re.compile(r"\{TABLESAMPLECLAUSE "),
    "INTERSECT or EXCEPT": re.compile(r"\{SETOPERATIONSTMT :op [23] "),
    "RECURSIVE": re.compile(r":hasRecursive true"),
}
_JOINED = "a join of rows with others of the same table"
_PARTS = re.compile(
    r"\\.|\{(?P<node>\w*)|(?P<end>\})|:rtekind (?:0 :relid (?P<relation>\d+)|6 :ctename (?P<named>\S+))"
)
"""Of a parse tree: where a node begins and ends, and what relation or WITH query is read.

Braces in names are escaped."""


@dataclass(frozen=True)
class SourceRelation:
    """A relation that rows come from or through."""

    database_key: str
    relation_oid: int
    source_schema: str
    source_relation: str


def lineage(connection: Connection, schema: str, name: str) -> list[SourceRelation]:
    """All that is behind a relation, itself with it."""
    query = _LINEAGE.format(private_name(connection, "source_lineage"))
    return rows_as(SourceRelation, connection, query, [schema, name])


def require_not_from(
    connection: Connection,
    option: str,
    relation: tuple[str, str],
    source: tuple[str, str],
    build: int | None = None,
) -> None:
    """Refuse a public input that reads what the rows of a source, or of a build of it, come from.

    Also another table of the same persons, as it is called or was read before, and builds and releases.
    """
    query = _MADE_FROM.format(
        *(private_name(connection, name) for name in ("source_lineage", "build_source")),
        sources=private_name(connection, "population_source"),
        lineage=private_name(connection, "source_lineage"),
    )
    own = [private_schema(connection), release_schema(connection)]
    made_from = one_value(connection, query, [*source, build, *relation, own])
    if made_from is not None:
        raise BadInput(
            f"{option} {format_relation(*relation)} reads the rows of {made_from}: what is made from "
            "the data is not public",
            remedy="name a table that was made without the data, such as a map",
        )


def choosing(connection: Connection, schema: str, name: str, condition: str | None) -> list[str]:
    """How a relation may choose rows by what other rows are, in words. Row by row choices are not named.

    condition: of `--where`.
    """
    query = _DEFINITIONS.format(private_name(connection, "source_lineage"))
    found = driver(connection).execute(query, [schema, name]).fetchall()
    trees = {str(oid): tree for oid, _, tree in found}
    said = []
    for oid, view, tree in found:
        words = [word for word, pattern in _CHOOSING.items() if pattern.search(tree)]
        if not words and _joins_itself(str(oid), trees):
            words = [_JOINED]
        if words:
            said.append(f"the view {view} has {' and '.join(words)}")
    if condition is not None and re.search(r"\bselect\b", condition, re.IGNORECASE):
        said.append("[[where]] has a subquery")
    return said


def _joins_itself(view: str, trees: Mapped[str, str]) -> bool:
    """Whether a view reads a table more than once, by itself or through other views.

    Branches of a UNION, such as both ends of a trip, do not count. trees: of all views, by their OIDs.
    """

    def behind(relation: str) -> set[str]:
        tree = trees.get(relation)
        if tree is None:
            return {relation}
        return {table for r, _ in _reads(tree)[0] if r != relation for table in behind(r)}

    reads, unions = _reads(trees[view])
    tables = [(behind(relation), queries) for relation, queries in reads if relation != view]
    return any(
        one & other and max(set(queries) & set(others)) not in unions
        for (one, queries), (other, others) in combinations(tables, 2)
    )


def _reads(tree: str) -> tuple[list[tuple[str, list[int]]], set[int]]:
    """What a view's parse tree reads, each with the queries around it; and which queries are unions.

    Queries are numbered as they begin, so that of several around something the last is the innermost.
    """
    reads, unions, queries = [], set(), 0
    around: list[
        int
    ] = []  # of every node that is open: the number of the query that it is; 0: of none
    for part in _PARTS.finditer(tree):
        if part["end"]:
            around.pop()
        elif part["node"] is not None:
            if part["node"] == "SETOPERATIONSTMT":
                unions.add(max(around))
            queries += part["node"] == "QUERY"
            around.append(queries if part["node"] == "QUERY" else 0)
        elif what := part["relation"] or part["named"]:
            reads.append((what, [query for query in around if query]))
    return reads, unions


def untraced(connection: Connection, schema: str, name: str) -> list[str]:
    """What the relation reads that leads no further, in words."""
    query = _UNTRACED.format(private_name(connection, "source_lineage"))
    return [what for (what,) in driver(connection).execute(query, [schema, name])]
