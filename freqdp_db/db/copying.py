"""Copies of granted releases in another database, which has nothing but them: for analysts.

All is read from the release schema, and all that is written there can be made again from it. A relation is
made there as the catalogues of the server say that it is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
import sqlalchemy as sa
from psycopg import errors as driver_errors
from psycopg import sql

from freqdp_db.db.connection import Connection, Database, driver, translated
from freqdp_db.db.datasets import table
from freqdp_db.db.locks import limit_waiting
from freqdp_db.db.names import find_postgis
from freqdp_db.db.published import (
    IS_RELATION,
    LOCK_TIMEOUT,
    OF_CLASS,
    ask_of,
    columns_of,
    current_names,
    dependants,
    described,
    hanging_on,
    is_shown,
    is_table,
    key_of,
    relation_exists,
    require_none,
    showing,
    srid_of,
    stored_columns,
)
from freqdp_db.db.statements import column_list, comment_on
from freqdp_db.errors import BadInput, Busy, PermissionMissing, SchemaInUse

_GONE = "Withdrawn with release ", ": to be dropped as soon as nothing is in the way."
"""The comment of a relation whose release is not in the catalogue any more: around its name."""
_INDEXES = (
    "SELECT pg_get_indexdef(i.indexrelid) "
    + OF_CLASS
    + "JOIN pg_index i ON i.indrelid = c.oid AND NOT i.indisprimary "
    + IS_RELATION
    + "ORDER BY 1"
)
_BOUND = "SELECT pg_get_expr(c.relpartbound, c.oid) " + OF_CLASS + IS_RELATION
_PARENT = (
    "SELECT p.relname::text "
    + OF_CLASS
    + "JOIN pg_inherits i ON i.inhrelid = c.oid JOIN pg_class p ON p.oid = i.inhparent "
    + IS_RELATION
)
_DEFINITION = "SELECT pg_get_viewdef(c.oid) " + OF_CLASS + IS_RELATION
_COMMENT = "SELECT obj_description(c.oid, 'pg_class') " + OF_CLASS + IS_RELATION
_READERS = (
    "SELECT DISTINCT r.rolname::text " + OF_CLASS + "CROSS JOIN LATERAL ("
    "SELECT (aclexplode(c.relacl)).grantee UNION SELECT (aclexplode(t.attacl)).grantee "
    "FROM pg_attribute t WHERE t.attrelid = c.oid AND NOT t.attisdropped"
    ") AS a LEFT JOIN pg_roles r ON r.oid = a.grantee "
    + IS_RELATION
    + "AND a.grantee <> c.relowner"
)
"""Whom a relation is granted to; no name: to everybody."""


@dataclass(frozen=True)
class CatalogEntry:
    """A row of the catalogue."""

    row: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.row["name"])

    @property
    def relations(self) -> list[str]:
        """The names of its tables and views."""
        return list(self.row["relations"])

    @property
    def identity(self) -> tuple[Any, ...]:
        """Tells a release from another one that has had the same name."""
        return tuple(
            self.row[c] for c in ("name", "version", "published_at", "ledger_head", "rows")
        )


def entries(connection: Connection, database: Database, *, granted: bool) -> list[CatalogEntry]:
    """The catalogue, oldest first; granted: only what analysts may read."""
    catalog = table(database, "catalog", released=True)
    wanted = catalog.c.granted if granted else sa.true()
    rows = connection.execute(
        sa.select(catalog).where(wanted).order_by(catalog.c.published_at, catalog.c.name)
    )
    return [CatalogEntry(dict(row._mapping)) for row in rows]


def prepare(source: Connection, target: Database) -> None:
    """The schema and the catalogue of the other database, unless it has them."""
    schema = target.settings.release_schema
    with target.begin() as connection:
        _require_fit(source, connection, target)
        there = connection.execute(
            sa.text("SELECT 1 FROM pg_namespace WHERE nspname = :schema"), {"schema": schema}
        ).scalar()
        if there is None:
            try:
                # waits for another session that is making it
                _run(connection, "CREATE SCHEMA {}", sql.Identifier(schema))
            except (driver_errors.UniqueViolation, driver_errors.DuplicateSchema):
                raise _another_publishes() from None
        present = columns_of(connection, (schema, "catalog"))
        if present:
            _lock_catalog(connection, schema)
        else:
            for own in ("catalog", "series"):
                _create_table(source, connection, schema, own)
                _index(source, connection, schema, own)
                _comment_as(source, connection, schema, own)
        if present and present != columns_of(source, (schema, "catalog")):
            raise BadInput(
                "the catalogue in the database of [[to]] was made by another version of freqdp",
                remedy=f"drop it all there (DROP SCHEMA {schema} CASCADE): it is copied again",
            )
        _make_analysts(connection, target)
        analyst = target.settings.role("analyst")
        if _role_exists(connection, analyst):
            driver(connection).execute(
                sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(
                    sql.Identifier(schema), sql.Identifier(analyst)
                )
            )
        for own in ("catalog", "series"):
            _let_analysts_read(connection, target, own)


@contextmanager
def alone(target: Database) -> Iterator[None]:
    """Keep other sessions from publishing into the same database while the block runs."""
    with target.begin() as connection:
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        _lock_catalog(connection, target.settings.release_schema)
        yield


def _lock_catalog(connection: Connection, schema: str) -> None:
    """Until the end of the transaction; analysts may not lock it so, and go on reading."""
    limit_waiting(connection, LOCK_TIMEOUT)
    try:
        _run(
            connection,
            "LOCK TABLE {} IN SHARE UPDATE EXCLUSIVE MODE",
            sql.Identifier(schema, "catalog"),
        )
    except driver_errors.LockNotAvailable:
        raise _another_publishes() from None


def _another_publishes() -> Busy:
    return Busy(
        "another session is publishing into the database of [[to]]",
        remedy="run the command again when it has finished",
    )


def _require_fit(source: Connection, connection: Connection, target: Database) -> None:
    """Refuse a database that holds more than releases, or cannot hold them."""
    private = target.settings.schema
    found = connection.execute(
        sa.text("SELECT 1 FROM pg_namespace WHERE nspname = :schema"), {"schema": private}
    ).scalar()
    if found is not None:
        raise BadInput(
            f"the database of [[to]] has the schema {private}: its logins can see counts and sizes of "
            "private tables",
            remedy="give a database that has nothing but releases: createdb analysts, then in it "
            "CREATE EXTENSION postgis",
        )
    here, there = find_postgis(source), find_postgis(connection)
    if there is None:
        raise PermissionMissing(
            "the database of [[to]] has no PostGIS",
            remedy=f"as a superuser or its owner, there: CREATE EXTENSION postgis SCHEMA {here}",
        )
    if here != there:
        raise BadInput(
            f"PostGIS is in schema {there} in the database of [[to]], and in {here} here: views of trips "
            "name its functions with their schema",
            remedy=f"give a database with PostGIS in schema {here}",
        )


def _make_analysts(connection: Connection, target: Database) -> None:
    """The group role of analysts, on a server that has none, if this login may make it."""
    analyst = target.settings.role("analyst")
    may = connection.execute(
        sa.text("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user")
    ).scalar()
    if may and not _role_exists(connection, analyst):
        driver(connection).execute(
            sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(analyst))
        )


def _role_exists(connection: Connection, name: str) -> bool:
    found = connection.execute(
        sa.text("SELECT 1 FROM pg_roles WHERE rolname = :name"), {"name": name}
    )
    return found.scalar() is not None


def _let_analysts_read(connection: Connection, target: Database, relation: str) -> None:
    analyst = target.settings.role("analyst")
    if _role_exists(connection, analyst):
        driver(connection).execute(
            sql.SQL("GRANT SELECT ON {} TO {}").format(
                sql.Identifier(target.settings.release_schema, relation), sql.Identifier(analyst)
            )
        )


def copy_release(source: Connection, target: Database, entry: CatalogEntry) -> None:
    """Copy a release that is not there yet: in one transaction, its rows in the order of their keys."""
    schema = target.settings.release_schema
    with target.begin() as connection:
        for relation in entry.relations:
            _require_srid(connection, srid_of(source, (schema, relation)))
            if relation_exists(connection, schema, relation):
                raise Busy(
                    f"{schema}.{relation} is in the way in the database of [[to]]: it has not been "
                    "dropped yet, or is not freqdp's",
                    remedy="run the command again when nobody reads it there, or drop it there",
                )
        # tables come before the views that read them
        for relation in entry.relations:
            if _kind_of(source, schema, relation) == "VIEW":
                _run(
                    connection,
                    "CREATE VIEW {} AS {}",
                    sql.Identifier(schema, relation),
                    _text(ask_of(source, _DEFINITION, (schema, relation)).scalar_one()),
                )
            else:
                _create_table(source, connection, schema, relation)
                _copy_rows(source, connection, schema, relation)
                _index(source, connection, schema, relation)
            _comment_as(source, connection, schema, relation)
            _let_analysts_read(connection, target, relation)
        if entry.row["series"] is not None:
            _join_series(source, connection, target, entry)
        catalog = table(target, "catalog", released=True)
        connection.execute(sa.insert(catalog).values(**entry.row))


def _join_series(
    source: Connection, connection: Connection, target: Database, entry: CatalogEntry
) -> None:
    """Attach the tables of a window to those of its series, which are made with the first one."""
    schema, series = target.settings.release_schema, table(target, "series", released=True)
    named = str(entry.row["series"])
    for relation in entry.relations:
        bound = ask_of(source, _BOUND, (schema, relation)).scalar()
        if bound is None:
            continue
        parent = named + relation.removeprefix(entry.name)
        if not relation_exists(connection, schema, parent):
            _run(
                connection,
                "CREATE TABLE {} (LIKE {}) PARTITION BY LIST (window_start)",
                sql.Identifier(schema, parent),
                sql.Identifier(schema, relation),
            )
            _run(
                connection,
                "ALTER TABLE {} ADD PRIMARY KEY ({})",
                sql.Identifier(schema, parent),
                column_list(key_of(source, (schema, parent))),
            )
            _comment_as(source, connection, schema, parent)
            _let_analysts_read(connection, target, parent)
        _run(
            connection,
            "ALTER TABLE {} ATTACH PARTITION {} {}",
            sql.Identifier(schema, parent),
            sql.Identifier(schema, relation),
            _text(bound),
        )
    known = sa.select(series).where(series.c.name == named)
    if connection.execute(known).first() is None:
        connection.execute(sa.insert(series).values(**dict(source.execute(known).one()._mapping)))


def _leave_series(connection: Connection, target: Database, relation: str, *, detach: bool) -> None:
    """Detach a table from its series; or take the series from its readers until that can be done."""
    schema = target.settings.release_schema
    parent = ask_of(connection, _PARENT, (schema, relation)).scalar()
    if parent is None:
        return
    if not detach:
        _revoke(connection, schema, parent)
        return
    _run(
        connection,
        "ALTER TABLE {} DETACH PARTITION {}",
        sql.Identifier(schema, parent),
        sql.Identifier(schema, relation),
    )
    _let_analysts_read(connection, target, parent)


def update_entry(target: Database, entry: CatalogEntry) -> None:
    """What the catalogue says of a release that is there."""
    catalog = table(target, "catalog", released=True)
    with target.begin() as connection:
        connection.execute(
            sa.update(catalog).where(catalog.c.name == entry.name).values(**entry.row)
        )


def _require_srid(connection: Connection, srid: int) -> None:
    known = sql.Identifier(str(find_postgis(connection)), "spatial_ref_sys")
    query = sql.SQL("SELECT 1 FROM {} WHERE srid = %s").format(known)
    if srid and driver(connection).execute(query, [srid]).fetchone() is None:
        raise BadInput(
            f"the database of [[to]] does not know SRID {srid}",
            remedy="insert its row of spatial_ref_sys there",
        )


def _run(connection: Connection, statement: LiteralString, *values: sql.Composable) -> None:
    driver(connection).execute(sql.SQL(statement).format(*values))


def _text(written: str) -> sql.SQL:
    """What the server wrote of a type, an index or a view: with all names quoted and qualified."""
    return sql.SQL(written)


def _create_table(source: Connection, connection: Connection, schema: str, relation: str) -> None:
    columns = [
        sql.SQL("{} {}{}").format(
            sql.Identifier(column.name),
            _text(column.kind),
            sql.SQL(" NOT NULL" if column.required else ""),
        )
        for column in stored_columns(source, (schema, relation))
    ]
    _run(
        connection, "CREATE TABLE {} ({})", sql.Identifier(schema, relation),
        sql.SQL(", ").join(columns),
    )  # fmt: skip


def _index(source: Connection, connection: Connection, schema: str, relation: str) -> None:
    """The key and the indexes that the relation has where it comes from, under the same names."""
    made = sql.Identifier(schema, relation)
    key = key_of(source, (schema, relation))
    _run(connection, "ALTER TABLE {} ADD PRIMARY KEY ({})", made, column_list(key))
    for definition in ask_of(source, _INDEXES, (schema, relation)).scalars():
        driver(connection).execute(_text(definition))
    _run(connection, "ANALYZE {}", made)


def _copy_rows(source: Connection, connection: Connection, schema: str, relation: str) -> None:
    """In the order of the key, however they lie where they come from."""
    named = sql.Identifier(schema, relation)
    columns = column_list(list(columns_of(source, (schema, relation))))
    key = column_list(key_of(source, (schema, relation)))
    read = sql.SQL("COPY (SELECT {} FROM {} ORDER BY {}) TO STDOUT (FORMAT binary)").format(
        columns, named, key
    )
    write = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(named, columns)
    with (
        driver(source).cursor() as reader,
        reader.copy(read) as rows,
        driver(connection).cursor() as writer,
        writer.copy(write) as copy,
    ):
        for block in rows:
            copy.write(block)


def _comment_as(
    source: Connection,
    connection: Connection,
    schema: str,
    relation: str,
    origin: str | None = None,
) -> None:
    """What a relation and its columns say of themselves where they come from.

    origin: another relation, whose columns it has.
    """
    for column in stored_columns(source, (schema, origin or relation)):
        if column.comment is not None:
            named = sql.Identifier(schema, relation, column.name)
            comment_on(connection, "COLUMN", named, column.comment)
    text = ask_of(source, _COMMENT, (schema, relation)).scalar() if origin is None else None
    if text is not None:
        _comment(connection, schema, relation, text)


def _comment(connection: Connection, schema: str, relation: str, text: str) -> None:
    kind = _kind_of(connection, schema, relation)
    comment_on(connection, kind, sql.Identifier(schema, relation), text)


def _kind_of(connection: Connection, schema: str, relation: str) -> LiteralString:
    return "TABLE" if is_table(connection, (schema, relation)) else "VIEW"


def take_back(target: Database, entry: CatalogEntry) -> None:
    """Let nobody read a copy any more, and take it from the catalogue there."""
    catalog = table(target, "catalog", released=True)
    dataset, schema = str(entry.row["dataset"]), target.settings.release_schema
    with target.begin() as connection:
        limit_waiting(connection, LOCK_TIMEOUT)
        connection.execute(sa.delete(catalog).where(catalog.c.name == entry.name))
        for relation in entry.relations:
            _revoke(connection, schema, relation)
            try:
                with translated(target), connection.begin_nested():
                    _leave_series(connection, target, relation, detach=True)
            except Busy:
                _leave_series(connection, target, relation, detach=False)
        # these show it with the rights of their owner
        if shown := showing(connection, schema, entry.relations, dataset):
            try:
                with translated(target), connection.begin_nested():
                    _show_newest(connection, target, dataset)
            except (Busy, SchemaInUse):
                for view in shown:
                    _revoke(connection, schema, view)
        for relation in entry.relations:
            if relation_exists(connection, schema, relation):
                _comment(connection, schema, relation, entry.name.join(_GONE))


def _revoke(connection: Connection, schema: str, relation: str) -> None:
    """From everybody but its owner."""
    for role in ask_of(connection, _READERS, (schema, relation)).scalars().all():
        _run(
            connection,
            "REVOKE ALL ON {} FROM {} CASCADE",
            sql.Identifier(schema, relation),
            sql.SQL("PUBLIC") if role is None else sql.Identifier(role),
        )


def finish(target: Database, datasets: Sequence[str]) -> list[str]:
    """Point the views of these datasets at their newest releases, and drop what was taken back.

    Returns what has to wait, because somebody reads it or has a view of it.
    """
    waiting = []
    for dataset in datasets:
        try:
            with target.begin() as connection:
                limit_waiting(connection, LOCK_TIMEOUT)
                _show_newest(connection, target, dataset)
        except (Busy, SchemaInUse) as error:
            waiting.append(f"{dataset}_current: {error.message}")
    with target.begin() as connection:
        rows = connection.execute(
            sa.text(
                "SELECT c.relname::text, obj_description(c.oid, 'pg_class') AS comment "
                + OF_CLASS
                + "WHERE n.nspname = :schema AND starts_with(obj_description(c.oid, 'pg_class'), :gone) "
                "ORDER BY 2, c.relkind = 'v' DESC, 1"
            ),
            {"schema": target.settings.release_schema, "gone": _GONE[0]},
        ).all()
    for comment in dict.fromkeys(row.comment for row in rows):
        try:
            _drop(target, [row.relname for row in rows if row.comment == comment])
        except (Busy, SchemaInUse) as error:
            name = comment.removeprefix(_GONE[0]).removesuffix(_GONE[1])
            waiting.append(f"{name}: {error.message}")
    return waiting


def _drop(target: Database, relations: Sequence[str]) -> None:
    """Drop what a release consisted of, views first; or empty it, and say what hangs on it."""
    schema = target.settings.release_schema
    with target.begin() as connection:
        limit_waiting(connection, LOCK_TIMEOUT)
        hanging = hanging_on(connection, schema, relations)
        for relation in relations:
            _leave_series(connection, target, relation, detach=True)
            named = sql.Identifier(schema, relation)
            kind = _kind_of(connection, schema, relation)
            if kind == "TABLE":
                _run(connection, "TRUNCATE {}", named)
            if not hanging:
                _run(connection, "DROP {} {}", sql.SQL(kind), named)
    require_none(hanging)


def _show_newest(connection: Connection, target: Database, dataset: str) -> None:
    """The views over the newest release of a dataset that the catalogue there has."""
    schema, catalog = target.settings.release_schema, table(target, "catalog", released=True)
    found = connection.execute(
        sa.select(catalog.c.name, catalog.c.version, catalog.c.relations)
        .where(catalog.c.dataset == dataset, catalog.c.time_window.is_(None))
        .order_by(catalog.c.version.desc())
    ).first()
    newest = None if found is None else (found.name, found.version)
    if is_shown(connection, target, dataset, newest):
        return
    for part, view in current_names(dataset).items():
        if found is None or newest is None or found.name + part not in found.relations:
            _drop_view(connection, schema, view)
            continue
        shown = found.name + part
        made = sql.Identifier(schema, view), sql.Identifier(schema, shown)
        try:
            with connection.begin_nested():
                _run(connection, "CREATE OR REPLACE VIEW {} AS SELECT * FROM {}", *made)
        except psycopg.errors.InvalidTableDefinition:
            # another SRID, or areas no longer: a view's columns can neither change their type nor go
            _drop_view(connection, schema, view)
            _run(connection, "CREATE VIEW {} AS SELECT * FROM {}", *made)
        _comment_as(connection, connection, schema, view, shown)
        comment_on(connection, "VIEW", made[0], described(dataset, newest))
        _let_analysts_read(connection, target, view)


def _drop_view(connection: Connection, schema: str, view: str) -> None:
    require_none([(kind, f"{s}.{v}") for kind, s, v in dependants(connection, schema, view)])
    _run(connection, "DROP VIEW IF EXISTS {}", sql.Identifier(schema, view))
