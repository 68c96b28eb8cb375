"""Copies of granted releases in another database, which has nothing but them: for analysts.

All is read from the release schema, and all that is written there can be made again from it. A relation is
made there as the catalogues of the server say that it is here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString, TypeAlias

import sqlalchemy as sa
from psycopg import errors as driver_errors
from psycopg import sql

from freqdp_db.db.connection import (
    Connection,
    Database,
    column_list,
    comment_on,
    driver,
    limit_waiting,
    translated,
)
from freqdp_db.db.datasets import table
from freqdp_db.db.names import find_postgis, with_postgis
from freqdp_db.db.published import (
    LOCK_TIMEOUT,
    current_names,
    dependants,
    described,
    hanging_on,
    is_shown,
    require_none,
    showing,
    srid_of,
)
from freqdp_db.db.source import (
    IS_RELATION,
    OF_CLASS,
    ask_of,
    columns_of,
    is_table,
    key_of,
    relation_exists,
)
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


Entry: TypeAlias = sa.Row[Any]
"""A row of the catalogue."""


def entries(connection: Connection) -> Sequence[Entry]:
    """The catalogue, oldest first."""
    catalog = table(connection, "catalog", released=True)
    oldest = sa.select(catalog).order_by(catalog.c.published_at, catalog.c.name)
    return connection.execute(oldest).all()


class _Target:
    """A transaction in the other database, and what it does to relations of the release schema there."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self.connection, self.database = connection, database
        self.schema, self.analyst = (
            database.settings.release_schema,
            database.settings.role("analyst"),
        )

    def ask(self, query: str, relation: str) -> Any:
        return ask_of(self.connection, query, (self.schema, relation))

    def run(self, statement: LiteralString, *values: str | sql.Composable) -> None:
        """A statement; a text is the name of a relation."""
        named = (sql.Identifier(self.schema, v) if isinstance(v, str) else v for v in values)
        driver(self.connection).execute(sql.SQL(statement).format(*named))

    def has(self, relation: str) -> bool:
        return relation_exists(self.connection, self.schema, relation)

    def has_schema(self, name: str) -> bool:
        found = sa.text("SELECT 1 FROM pg_namespace WHERE nspname = :name")
        return self.connection.execute(found, {"name": name}).scalar() is not None

    def has_analysts(self) -> bool:
        found = sa.text("SELECT 1 FROM pg_roles WHERE rolname = :name")
        return self.connection.execute(found, {"name": self.analyst}).scalar() is not None

    def lock_catalog(self) -> None:
        """Until the end of the transaction; analysts may not lock it so, and go on reading."""
        limit_waiting(self.connection, LOCK_TIMEOUT)
        try:
            self.run("LOCK TABLE {} IN SHARE UPDATE EXCLUSIVE MODE", "catalog")
        except driver_errors.LockNotAvailable:
            raise _another_publishes() from None

    def grant(self, relation: str) -> None:
        """Let analysts read it, if there is such a role."""
        if self.has_analysts():
            self.run("GRANT SELECT ON {} TO {}", relation, sql.Identifier(self.analyst))

    def revoke(self, relation: str) -> None:
        """From everybody but its owner."""
        for role in self.ask(_READERS, relation).scalars().all():
            named = sql.SQL("PUBLIC") if role is None else sql.Identifier(role)
            self.run("REVOKE ALL ON {} FROM {} CASCADE", relation, named)

    def comment(self, relation: str, text: str) -> None:
        kind: LiteralString = "TABLE" if self.is_table(relation) else "VIEW"
        comment_on(self.connection, kind, sql.Identifier(self.schema, relation), text)

    def is_table(self, relation: str) -> bool:
        return is_table(self.connection, (self.schema, relation))

    def comment_columns(self, source: Connection, relation: str, origin: str) -> None:
        """What the columns of a relation say of themselves, where `origin` has them from."""
        for column in columns_of(source, (self.schema, origin)).values():
            if column.comment is not None:
                named = sql.Identifier(self.schema, relation, column.name)
                comment_on(self.connection, "COLUMN", named, column.comment)

    def comment_as(self, source: Connection, relation: str) -> None:
        """What a relation and its columns say of themselves where they come from."""
        self.comment_columns(source, relation, relation)
        text = ask_of(source, _COMMENT, (self.schema, relation)).scalar()
        if text is not None:
            self.comment(relation, text)

    def create_table(self, source: Connection, relation: str, *, with_rows: bool) -> None:
        """As it is where it comes from: columns, rows in the order of the key, key, indexes, comments."""
        named = self.schema, relation
        columns = columns_of(source, named)
        definitions = sql.SQL(", ").join(
            sql.SQL("{} {}{}").format(
                sql.Identifier(column.name),
                _written(column.shown),
                sql.SQL(" NOT NULL" if column.required else ""),
            )
            for column in columns.values()
        )
        self.run("CREATE TABLE {} ({})", relation, definitions)
        key = column_list(key_of(source, named))
        if with_rows:
            self._copy_rows(source, sql.Identifier(*named), column_list(columns), key)
        self.run("ALTER TABLE {} ADD PRIMARY KEY ({})", relation, key)
        for definition in ask_of(source, _INDEXES, named).scalars():
            self.run("{}", _written(definition))
        self.run("ANALYZE {}", relation)
        self.comment_as(source, relation)

    def _copy_rows(
        self, source: Connection, named: sql.Identifier, columns: sql.Composed, key: sql.Composed
    ) -> None:
        read = sql.SQL("COPY (SELECT {} FROM {} ORDER BY {}) TO STDOUT (FORMAT binary)")
        write = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)")
        with (
            driver(source).cursor() as reader,
            reader.copy(read.format(columns, named, key)) as rows,
            driver(self.connection).cursor() as writer,
            writer.copy(write.format(named, columns)) as copy,
        ):
            for block in rows:
                copy.write(block)

    # Series.

    def join_series(self, source: Connection, entry: Entry) -> None:
        """Attach the tables of a window to those of its series, which are made with the first one."""
        for relation in entry.relations:
            bound = ask_of(source, _BOUND, (self.schema, relation)).scalar()
            if bound is None:
                continue
            parent = entry.series + relation.removeprefix(entry.name)
            if not self.has(parent):
                self.run(
                    "CREATE TABLE {} (LIKE {} INCLUDING INDEXES) PARTITION BY LIST (window_start)",
                    parent,
                    relation,
                )
                self.comment_as(source, parent)
                self.grant(parent)
            self.run("ALTER TABLE {} ATTACH PARTITION {} {}", parent, relation, _written(bound))
        series = table(self.connection, "series", released=True)
        known = sa.select(series).where(series.c.name == entry.series)
        if self.connection.execute(known).first() is None:
            row = source.execute(known).one()
            self.connection.execute(sa.insert(series).values(row._asdict()))

    def leave_series(self, relation: str, *, detach: bool = True) -> None:
        """Detach a table from its series; or take the series from its readers until that can be done."""
        parent = self.ask(_PARENT, relation).scalar()
        if parent is None:
            return
        if not detach:
            self.revoke(parent)
            return
        self.run("ALTER TABLE {} DETACH PARTITION {}", parent, relation)
        self.grant(parent)

    # Views of the newest.

    def show_newest(self, dataset: str, series: str | None) -> None:
        """The views over the newest release of a dataset or a series that the catalogue there has."""
        catalog = table(self.connection, "catalog", released=True)
        found = self.connection.execute(
            sa.select(catalog.c.name, catalog.c.version, catalog.c.relations)
            .where(
                catalog.c.dataset == dataset,
                catalog.c.series.is_not_distinct_from(series),
                catalog.c.time_window.is_(None),
            )
            .order_by(catalog.c.version.desc())
        ).first()
        newest = None if found is None else (found.name, found.version)
        if is_shown(self.connection, dataset, series, newest):
            return
        for part, view in current_names(dataset, series).items():
            if found is None or newest is None or found.name + part not in found.relations:
                self._drop_view(view)
                continue
            shown = found.name + part
            try:
                with self.connection.begin_nested():
                    self.run("CREATE OR REPLACE VIEW {} AS SELECT * FROM {}", view, shown)
            except driver_errors.InvalidTableDefinition:
                # another SRID, or areas no longer: a view's columns can neither change type nor go
                self._drop_view(view)
                self.run("CREATE VIEW {} AS SELECT * FROM {}", view, shown)
            self.comment_columns(self.connection, view, shown)
            self.comment(view, described(dataset, series, newest))
            self.grant(view)

    def _drop_view(self, view: str) -> None:
        found = dependants(self.connection, self.schema, view)
        require_none([(kind, f"{schema}.{name}") for kind, schema, name in found])
        self.run("DROP VIEW IF EXISTS {}", view)


def _written(text: str) -> sql.SQL:
    """What the server wrote of a type, an index or a view: with all names quoted and qualified."""
    return sql.SQL(text)


def _another_publishes() -> Busy:
    return Busy(
        "another session is publishing into the database of [[to]]",
        remedy="run the command again when it has finished",
    )


@contextmanager
def _opened(target: Database) -> Iterator[_Target]:
    with target.begin() as connection:
        yield _Target(connection, target)


def prepare(source: Connection, target: Database) -> None:
    """The schema and the catalogue of the other database, unless it has them."""
    with _opened(target) as there:
        schema = there.schema
        _require_fit(source, there)
        if not there.has_schema(schema):
            try:
                # waits for another session that is making it
                there.run("CREATE SCHEMA {}", sql.Identifier(schema))
            except (driver_errors.UniqueViolation, driver_errors.DuplicateSchema):
                raise _another_publishes() from None
        present = _shape(there.connection, schema)
        if present:
            there.lock_catalog()
            if present != _shape(source, schema):
                raise BadInput(
                    "the catalogue in the database of [[to]] was made by another version of freqdp",
                    remedy=f"drop it all there (DROP SCHEMA {schema} CASCADE): it is copied again",
                )
        else:
            for own in ("catalog", "series"):
                there.create_table(source, own, with_rows=False)
        analysts = sql.Identifier(there.analyst)
        may_make = sa.text(
            "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
        )
        if not there.has_analysts() and there.connection.execute(may_make).scalar():
            there.run("CREATE ROLE {} NOLOGIN", analysts)
        if there.has_analysts():
            there.run("GRANT USAGE ON SCHEMA {} TO {}", sql.Identifier(schema), analysts)
        for own in ("catalog", "series"):
            there.grant(own)


def _shape(connection: Connection, schema: str) -> dict[str, str]:
    """Names and types of the columns of the catalogue; none: there is no catalogue."""
    return {c.name: c.shown for c in columns_of(connection, (schema, "catalog")).values()}


def _require_fit(source: Connection, there: _Target) -> None:
    """Refuse a database that holds more than releases, or cannot hold them."""
    private = there.database.settings.schema
    if there.has_schema(private):
        raise BadInput(
            f"the database of [[to]] has the schema {private}: its logins can see counts and sizes of "
            "private tables",
            remedy="give a database that has nothing but releases: createdb analysts, then in it "
            "CREATE EXTENSION postgis",
        )
    here, elsewhere = find_postgis(source), find_postgis(there.connection)
    if elsewhere is None:
        raise PermissionMissing(
            "the database of [[to]] has no PostGIS",
            remedy=f"as a superuser or its owner, there: CREATE EXTENSION postgis SCHEMA {here}",
        )
    if here != elsewhere:
        raise BadInput(
            f"PostGIS is in schema {elsewhere} in the database of [[to]], and in {here} here: views of "
            "trips name its functions with their schema",
            remedy=f"give a database with PostGIS in schema {here}",
        )


@contextmanager
def alone(target: Database) -> Iterator[None]:
    """Keep other sessions from publishing into the same database while the block runs."""
    with _opened(target) as there:
        there.connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        there.lock_catalog()
        yield


def copy_release(source: Connection, target: Database, entry: Entry) -> None:
    """Copy a release that is not there yet: in one transaction, its rows in the order of their keys."""
    with _opened(target) as there:
        schema = there.schema
        for relation in entry.relations:
            _require_srid(there.connection, srid_of(source, (schema, relation)))
            if there.has(relation):
                raise Busy(
                    f"{schema}.{relation} is in the way in the database of [[to]]: it has not been "
                    "dropped yet, or is not freqdp's",
                    remedy="run the command again when nobody reads it there, or drop it there",
                )
        # tables come before the views that read them
        for relation in entry.relations:
            if is_table(source, (schema, relation)):
                there.create_table(source, relation, with_rows=True)
            else:
                query = ask_of(source, _DEFINITION, (schema, relation)).scalar_one()
                there.run("CREATE VIEW {} AS {}", relation, _written(query))
                there.comment_as(source, relation)
            there.grant(relation)
        if entry.series is not None and entry.time_window is not None:
            there.join_series(source, entry)
        catalog = table(there.connection, "catalog", released=True)
        there.connection.execute(sa.insert(catalog).values(entry._asdict()))


def _require_srid(connection: Connection, srid: int) -> None:
    query = with_postgis(
        str(find_postgis(connection)),
        "SELECT 1 FROM {spatial_ref_sys} WHERE srid = {srid}",
        srid=srid,
    )
    if srid and driver(connection).execute(query).fetchone() is None:
        raise BadInput(
            f"the database of [[to]] does not know SRID {srid}",
            remedy="insert its row of spatial_ref_sys there",
        )


def update_entry(target: Database, entry: Entry) -> None:
    """What the catalogue says of a release that is there."""
    with target.begin() as connection:
        catalog = table(connection, "catalog", released=True)
        changed = sa.update(catalog).where(catalog.c.name == entry.name).values(entry._asdict())
        connection.execute(changed)


def take_back(target: Database, entry: Entry) -> None:
    """Let nobody read a copy any more, and take it from the catalogue there."""
    whose = entry.dataset, entry.series
    with _opened(target) as there:
        catalog = table(there.connection, "catalog", released=True)
        limit_waiting(there.connection, LOCK_TIMEOUT)
        there.connection.execute(sa.delete(catalog).where(catalog.c.name == entry.name))
        for relation in entry.relations:
            there.revoke(relation)
            try:
                with translated(target), there.connection.begin_nested():
                    there.leave_series(relation)
            except Busy:
                there.leave_series(relation, detach=False)
        # these show it with the rights of their owner
        if shown := showing(there.connection, there.schema, entry.relations, *whose):
            try:
                with translated(target), there.connection.begin_nested():
                    there.show_newest(*whose)
            except (Busy, SchemaInUse):
                for view in shown:
                    there.revoke(view)
        for relation in entry.relations:
            if there.has(relation):
                there.comment(relation, entry.name.join(_GONE))


def finish(target: Database, whose: Iterable[tuple[str, str | None]]) -> list[str]:
    """Point the views of these at their newest releases, and drop what was taken back.

    whose: datasets, each with a series or, for releases in none, without. Returns what has to wait, because
    somebody reads it or has a view of it.
    """
    waiting = []
    for dataset, series in whose:
        try:
            with _opened(target) as there:
                limit_waiting(there.connection, LOCK_TIMEOUT)
                there.show_newest(dataset, series)
        except (Busy, SchemaInUse) as error:
            waiting.append(f"{series or dataset}_current: {error.message}")
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
    with _opened(target) as there:
        limit_waiting(there.connection, LOCK_TIMEOUT)
        hanging = hanging_on(there.connection, there.schema, relations)
        for relation in relations:
            there.leave_series(relation)
            kind = "TABLE" if there.is_table(relation) else "VIEW"
            if kind == "TABLE":
                there.run("TRUNCATE {}", relation)
            if not hanging:
                there.run("DROP {} {}", sql.SQL(kind), relation)
    require_none(hanging)
