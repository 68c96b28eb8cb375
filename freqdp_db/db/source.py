"""Relations: what the catalogues say of one, how people name them, and which tables one reads."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from collections.abc import Mapping as Mapped
from dataclasses import dataclass
from itertools import combinations
from typing import Any, LiteralString

from psycopg import sql

from freqdp_db.db.connection import Connection, Session
from freqdp_db.db.names import format_name, format_relation, parse_relation
from freqdp_db.errors import BadInput, NotFound, PermissionMissing

INTEGERS = {"int2", "int4", "int8"}
NUMBERS = INTEGERS | {"float4", "float8", "numeric"}
TIMES = {"timestamptz", "timestamp", "date"}

HAS_ROWS = "c.relkind IN ('r', 'v', 'm', 'f', 'p')"
OID_OF = sql.SQL(
    "(SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %(schema)s AND c.relname = %(relation)s)"
)
"""The part `{oid}` of a query with the values of `named_relation`."""
_BASE_TYPE = """(
    WITH RECURSIVE made (oid) AS (
        SELECT t.oid UNION SELECT d.typbasetype FROM made JOIN pg_type d USING (oid) WHERE d.typtype = 'd'
    ) SELECT b.typname::text FROM made JOIN pg_type b USING (oid) WHERE b.typtype <> 'd'
) """
_READABLE_BY = """
    coalesce((
        SELECT has_schema_privilege(r.oid, c.relnamespace, 'USAGE')
            AND has_table_privilege(r.oid, c.oid, 'SELECT')
            AND (NOT c.relrowsecurity OR r.rolbypassrls OR r.rolsuper
                OR (NOT c.relforcerowsecurity AND pg_has_role(r.oid, c.relowner, 'USAGE')))
            AND (r.rolsuper OR NOT EXISTS (SELECT FROM unnest(c.reloptions) AS o
                WHERE o ~* '^security_invoker=(true|on|yes|1|t|y)$'))
        FROM pg_roles r WHERE r.rolname = %(login)s
    ), false)
    """


# What the catalogues say.


def named_relation(relation: tuple[str, str]) -> dict[str, str]:
    """The values of `OID_OF`."""
    return {"schema": relation[0], "relation": relation[1]}


def catalog_value(
    session: Session, expression: LiteralString, relation: tuple[str, str], **values: Any
) -> Any:
    """An expression over the row `c` of pg_class of a relation; None: there is no such relation."""
    query = "SELECT {expression} FROM pg_class c WHERE c.oid = {oid}"
    parts = {"expression": sql.SQL(expression), "oid": OID_OF}
    return session.one_value(query, named_relation(relation) | values, **parts)


def relation_exists(session: Session, schema: str, relation: str) -> bool:
    return catalog_value(session, "true", (schema, relation)) is not None


def schema_exists(session: Session, name: str) -> bool:
    query = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)"
    return bool(session.one_value(query, [name]))


def is_table(session: Session, relation: tuple[str, str]) -> bool:
    """Whether it is a table, not a view."""
    return bool(catalog_value(session, "c.relkind IN ('r', 'p')", relation))


@dataclass(frozen=True)
class NamedRelation:
    """What the catalogue says of a relation of a schema."""

    name: str
    is_view: bool
    comment: str


def relations_of(
    session: Session, schema: str, names: Collection[str] | None = None
) -> list[NamedRelation]:
    """The relations of a schema, indexes included; of these names. Views come first."""
    query = (
        "SELECT c.relname::text AS name, c.relkind = 'v' AS is_view, "
        "coalesce(obj_description(c.oid, 'pg_class'), '') AS comment "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %(schema)s "
        "AND (%(names)s::text[] IS NULL OR c.relname = ANY(%(names)s)) ORDER BY 2 DESC, 1"
    )
    values = {"schema": schema, "names": None if names is None else list(names)}
    return session.rows_as(NamedRelation, query, values)


@dataclass(frozen=True)
class RelationColumn:
    name: str
    type: str
    shown: str
    """The type as PostgreSQL writes it."""
    required: bool = False
    comment: str | None = None
    is_enum: bool = False
    base: str | None = None
    """Of a domain, the type that it is made of; of others, the type itself."""


def columns_of(session: Session, relation: tuple[str, str]) -> dict[str, RelationColumn]:
    """The columns in order, by name; none if there is no such relation."""
    query = (
        "SELECT a.attname::text, t.typname::text, format_type(a.atttypid, a.atttypmod), "
        "a.attnotnull, col_description(a.attrelid, a.attnum), t.typtype = 'e', "
        + _BASE_TYPE
        + "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
        "WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid = {oid} ORDER BY a.attnum"
    )
    rows = session.execute(query, named_relation(relation), oid=OID_OF)
    return {name: RelationColumn(name, *more) for name, *more in rows}


def key_of(session: Session, relation: tuple[str, str]) -> list[str]:
    """The columns of the primary key of a table, in order."""
    query = (
        "SELECT a.attname::text FROM pg_index i "
        "JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place) ON true "
        "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number "
        "WHERE i.indisprimary AND i.indrelid = {oid} ORDER BY k.place"
    )
    return session.first_column(query, named_relation(relation), oid=OID_OF)


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
    keep_columns: tuple[str, ...] = ()
    """What samples carry along: coarse, and public, as the owner declared."""


def read_name(connection: Connection, text: str, option: str) -> tuple[str, str]:
    """What relation is meant: as it was typed, if there is such, else as PostgreSQL would read it."""
    typed, folded = (parse_relation(text, option, fold=fold) for fold in (False, True))
    return typed if catalog_value(connection, HAS_ROWS, typed) else folded


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
    if not catalog_value(connection, HAS_ROWS, (schema, name)):
        raise NotFound(
            f"{option}: there is no table or view {name!r} in schema {schema!r}",
            remedy=_alike(connection, schema, name)
            or f"check the name given with {option}; quote parts that hold capitals or dots",
        )
    readable: LiteralString = (
        "has_schema_privilege(c.relnamespace, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')"
    )
    if not catalog_value(connection, readable, (schema, name)):
        login = connection.one_value("SELECT current_user")
        raise PermissionMissing(
            f"{option}: you may not read {schema}.{name}",
            remedy="its owner can: " + _grant((schema, name), login),
        )
    return Relation(schema, name, columns_of(connection, (schema, name)))


def _alike(connection: Connection, schema: str, name: str) -> str | None:
    """Relations of that name but for capitals, as they have to be typed."""
    query = (
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE lower(n.nspname) = lower(%s) AND lower(c.relname) = lower(%s) AND "
    )
    found = connection.execute(query + HAS_ROWS + " ORDER BY 1, 2", [schema, name]).fetchall()
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
    if catalog_value(connection, _READABLE_BY, relation, login=login) is False:
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


MOST_KEPT = 3
"""So many columns may be carried along."""
_KEPT_TYPES = {
    "text": "text", "varchar": "text", "bpchar": "text", "bool": "bool", "int2": "int2", "int4": "int4",
    "int8": "int8",
}  # fmt: skip
"""What a column may be that is carried along, and what it is in a release; an enum is text."""
OF_RELEASES = {
    "trajectory_id", "seq", "sampled_at", "at", "geom", "area", "during", "window_start",
    # of files
    "sampled_at_us", "lon", "lat", "x", "y", "geometry", "bbox", "fid", "during_begin", "during_end",
    *(f"{axis}_{end}" for axis in ("lon", "lat", "x", "y") for end in ("min", "max")),
    # of every table
    "ctid", "xmin", "xmax", "cmin", "cmax", "tableoid",
}  # fmt: skip
"""Names of columns that releases have of their own."""


def check_keep_columns(relation: Relation, names: Iterable[str]) -> None:
    """Refuse columns to carry along that are not there, or are of a type that cannot be."""
    for name in names:
        column = relation.column("[[keep_columns]]", name)
        if kept_type(column) is None:
            raise BadInput(
                f"[[keep_columns]] {name!r} is of type {column.shown}",
                remedy="text, boolean, enum or whole numbers can be kept: make it one of these, and "
                "coarse, in a view",
            )


def kept_type(column: RelationColumn) -> str | None:
    """The type that a column which is carried along has in a release; None: it cannot be."""
    return "text" if column.is_enum else _KEPT_TYPES.get(column.type)


def read_keep_columns(relation: Relation, mapping: Mapping, text: str) -> tuple[str, ...]:
    """Which columns are to be carried along: names with commas between them, or none.

    mapping: what its other columns are.
    """
    if text.strip().lower() == "none":
        return ()
    names = [read_column(relation.columns, part.strip()) for part in text.split(",")]
    if len(names) > MOST_KEPT or len({name.lower() for name in names}) < len(names):
        raise BadInput(
            f"[[keep_columns]] {text!r} names "
            + (f"{len(names)} columns" if len(names) > MOST_KEPT else "a column twice"),
            remedy=f"name at most {MOST_KEPT}, each once: every one of them tells people apart",
        )
    others = {
        m for m in (mapping.object, mapping.time, mapping.geom, mapping.lon, mapping.lat) if m
    }
    mapped = {part for name in others for part in (name, *name.split(","))}
    check_keep_columns(relation, names)
    for name in names:
        if name in mapped:
            raise BadInput(
                f"[[keep_columns]] {name!r} is the object, the time or the position of a sample",
                remedy="keep columns that say what kind of trip or vehicle it is",
            )
        if name.lower() in OF_RELEASES:
            raise BadInput(
                f"[[keep_columns]] {name!r}: releases have a column of this name",
                remedy="give it another name in a view",
            )
    return tuple(names)


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


def definition_of(session: Session, srid: int, option: str) -> str:
    """A definition of the SRID that pyproj understands: EPSG code, else the WKT."""
    query = "SELECT auth_name, auth_srid, srtext FROM {spatial_ref_sys} WHERE srid = {srid}"
    row = session.execute(query, srid=srid).fetchone()
    if row is None:
        raise BadInput(
            f"{option} {srid}: spatial_ref_sys has no such SRID",
            remedy="use one that PostGIS knows, or add it to spatial_ref_sys",
        )
    authority, code, wkt = row
    return f"EPSG:{code}" if authority == "EPSG" and code else str(wkt)


def require_timezone(connection: Connection, name: str) -> None:
    """Refuse a zone that AT TIME ZONE would not take."""
    known = "SELECT EXISTS (SELECT FROM pg_timezone_names WHERE lower(name) = lower(%s))"
    if not connection.one_value(known, [name]):
        raise BadInput(
            f"[[timezone]] {name!r} is not a time zone that the server knows",
            remedy="give a name such as UTC, Europe/Brussels or Asia/Shanghai",
        )


# Where the rows of a relation come from: the tables behind views, and what partitions belong to.
#
# PostgreSQL records what a view reads. It does not record what a foreign table, a function or a copy
# was made from: the first two are named, the last looks like any other table. The SQL function
# `source_lineage` has the query; the ledger books by it.


_MADE_FROM = """
    WITH behind AS (
        SELECT database_key, relation_oid, source_schema, source_relation
        FROM {p}.source_lineage(%s::text, %s::text)
        UNION
        SELECT database_key, relation_oid, source_schema, source_relation FROM {p}.build_source
        WHERE build_id = %s
    ), data AS (
        SELECT * FROM behind
        UNION
        SELECT s.database_key, s.relation_oid, s.source_schema, s.source_relation
        FROM {p}.population_source s
        -- a table that was only looked something up in has no column of objects
        WHERE s.object_column <> '' AND s.population_id IN (
            SELECT met.population_id FROM {p}.population_source met JOIN behind b ON
                (b.relation_oid, b.database_key) = (met.relation_oid, met.database_key)
                OR (b.source_schema, b.source_relation) = (met.source_schema, met.source_relation)
            UNION
            SELECT coalesce(p.merged_into, p.population_id) FROM {p}.population p WHERE p.name = %s
        )
    )
    SELECT min(format('%%I.%%I', r.source_schema, r.source_relation))
    FROM {p}.source_lineage(%s::text, %s::text) r
    WHERE r.source_schema = ANY (%s) OR EXISTS (SELECT FROM data d WHERE
        (d.relation_oid, d.database_key) = (r.relation_oid, r.database_key)
        OR (d.source_schema, d.source_relation) = (r.source_schema, r.source_relation))
    """
_UNTRACED = """
    WITH behind AS (
        SELECT l.relation_oid::oid AS oid, l.* FROM {p}.source_lineage(%s::text, %s::text) AS l
    )
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
_DEFINITIONS = """
    SELECT w.ev_class::int8, w.ev_class::regclass::text, w.ev_action::text
    FROM {p}.source_lineage(%s::text, %s::text) AS l JOIN pg_rewrite w ON w.ev_class = l.relation_oid
    WHERE l.relation_kind IN ('v', 'm') AND w.ev_type = '1'
    ORDER BY 1
    """
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


def lineage(session: Session, schema: str, name: str) -> list[SourceRelation]:
    """All that is behind a relation, itself with it."""
    query = (
        "SELECT database_key, relation_oid, source_schema, source_relation "
        "FROM {p}.source_lineage(%s::text, %s::text)"
    )
    return session.rows_as(SourceRelation, query, [schema, name])


def require_not_from(
    connection: Connection,
    option: str,
    relation: tuple[str, str],
    source: tuple[str, str],
    build: int | None = None,
    persons: str | None = None,
) -> None:
    """Refuse a public input that reads what the rows of a source, or of a build of it, come from.

    Also another table of the same persons, as it is called or was read before, and builds and releases.
    persons: whose rows those of the source will be as well.
    """
    own = [connection.schema, connection.release_schema]
    made_from = connection.one_value(_MADE_FROM, [*source, build, persons, *relation, own])
    if made_from is not None:
        raise BadInput(
            f"{option} {format_relation(*relation)} reads the rows of {made_from}: what is made from "
            "the data is not public",
            remedy="name a table that was made without the data, such as a map",
        )


def choosing(session: Session, schema: str, name: str, condition: str | None) -> list[str]:
    """How a relation may choose rows by what other rows are, in words. Row by row choices are not named.

    condition: of `--where`.
    """
    found = session.execute(_DEFINITIONS, [schema, name]).fetchall()
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


def untraced(session: Session, schema: str, name: str) -> list[str]:
    """What the relation reads that leads no further, in words."""
    return session.first_column(_UNTRACED, [schema, name])
