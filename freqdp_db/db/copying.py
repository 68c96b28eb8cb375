"""Copies of granted releases in another database, which has nothing but them: for analysts.

All is read from the release schema, and all that is written there can be made again from it. A relation is
made there as the catalogues of the server say that it is here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

from psycopg import errors as driver_errors
from psycopg import sql

from freqdp_db.db.connection import Connection, Database, column_list, translated
from freqdp_db.db.names import find_postgis
from freqdp_db.db.published import (
    LOCK_TIMEOUT,
    CatalogRow,
    current_names,
    dependent_views,
    dependents_of_release,
    described,
    is_shown,
    refuse_dependents,
    showing,
    srid_of,
)
from freqdp_db.db.source import (
    catalog_value,
    columns_of,
    is_table,
    key_of,
    relation_exists,
    relations_of,
    schema_exists,
)
from freqdp_db.db.tables import insert_rows, update_rows
from freqdp_db.errors import BadInput, Busy, PermissionMissing, SchemaInUse

_WITHDRAWN = "Withdrawn with release ", ": to be dropped as soon as nothing is in the way."
"""The comment of a relation whose release is not in the catalogue any more: around its name."""
_INDEXES: LiteralString = (
    "ARRAY(SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i "
    "WHERE i.indrelid = c.oid AND NOT i.indisprimary ORDER BY 1)"
)
_PARENT: LiteralString = (
    "(SELECT p.relname::text FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent "
    "WHERE i.inhrelid = c.oid)"
)
_READERS: LiteralString = """
    ARRAY(SELECT DISTINCT r.rolname::text FROM (
        SELECT (aclexplode(c.relacl)).grantee UNION
        SELECT (aclexplode(t.attacl)).grantee FROM pg_attribute t
        WHERE t.attrelid = c.oid AND NOT t.attisdropped
    ) AS a LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE a.grantee <> c.relowner)
    """
"""Whom a relation is granted to; NULL: to everybody."""


class _Target:
    """A transaction in the other database, and what it does to relations of the release schema there."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self.connection, self.database = connection, database
        self.schema, self.analyst = (
            database.settings.release_schema,
            database.settings.role("analyst"),
        )

    def catalog_value(self, expression: LiteralString, relation: str) -> Any:
        return catalog_value(self.connection, expression, (self.schema, relation))

    def run(self, statement: LiteralString, *values: str | sql.Composable) -> None:
        """A statement; a text is the name of a relation."""
        named = (sql.Identifier(self.schema, v) if isinstance(v, str) else v for v in values)
        self.connection.execute(sql.SQL(statement).format(*named))

    def has(self, relation: str) -> bool:
        return relation_exists(self.connection, self.schema, relation)

    def has_analysts(self) -> bool:
        query = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = %s)"
        return bool(self.connection.one_value(query, [self.analyst]))

    def lock_catalog(self) -> None:
        """Until the end of the transaction; analysts may not lock it so, and go on reading."""
        self.connection.limit_waiting(LOCK_TIMEOUT)
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
        for role in self.catalog_value(_READERS, relation) or ():
            named = sql.SQL("PUBLIC") if role is None else sql.Identifier(role)
            self.run("REVOKE ALL ON {} FROM {} CASCADE", relation, named)

    def comment(self, relation: str, text: str) -> None:
        kind: LiteralString = "TABLE" if self.is_table(relation) else "VIEW"
        self.connection.comment_on(kind, sql.Identifier(self.schema, relation), text)

    def is_table(self, relation: str) -> bool:
        return is_table(self.connection, (self.schema, relation))

    def comment_columns(self, source: Connection, relation: str, origin: str) -> None:
        """What the columns of a relation say of themselves, where `origin` has them from."""
        for column in columns_of(source, (self.schema, origin)).values():
            if column.comment is not None:
                named = sql.Identifier(self.schema, relation, column.name)
                self.connection.comment_on("COLUMN", named, column.comment)

    def comment_as(self, source: Connection, relation: str) -> None:
        """What a relation and its columns say of themselves where they come from."""
        self.comment_columns(source, relation, relation)
        described: LiteralString = "obj_description(c.oid, 'pg_class')"
        text = catalog_value(source, described, (self.schema, relation))
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
        for definition in catalog_value(source, _INDEXES, named):
            self.run("{}", _written(definition))
        self.run("ANALYZE {}", relation)
        self.comment_as(source, relation)

    def _copy_rows(
        self, source: Connection, named: sql.Identifier, columns: sql.Composed, key: sql.Composed
    ) -> None:
        read = sql.SQL("COPY (SELECT {} FROM {} ORDER BY {}) TO STDOUT (FORMAT binary)")
        write = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)")
        with (
            source.driver.cursor() as reader,
            reader.copy(read.format(columns, named, key)) as rows,
            self.connection.driver.cursor() as writer,
            writer.copy(write.format(named, columns)) as copy,
        ):
            for block in rows:
                copy.write(block)

    # Series.

    def join_series(self, source: Connection, entry: CatalogRow, series: str) -> None:
        """Attach the tables of a window to those of its series, which are made with the first one."""
        for relation in entry.relations:
            own = self.schema, relation
            bound = catalog_value(source, "pg_get_expr(c.relpartbound, c.oid)", own)
            if bound is None:
                continue
            parent = series + relation.removeprefix(entry.name)
            if not self.has(parent):
                self.run(
                    "CREATE TABLE {} (LIKE {} INCLUDING INDEXES) PARTITION BY LIST (window_start)",
                    parent,
                    relation,
                )
                self.comment_as(source, parent)
                self.grant(parent)
            self.run("ALTER TABLE {} ATTACH PARTITION {} {}", parent, relation, _written(bound))
        query = "SELECT * FROM {r}.series WHERE name = %s"
        if self.connection.execute(query, [series]).fetchone() is None:
            rows = source.rows_as(dict[str, Any], query, [series])
            insert_rows(self.connection, "series", *rows)

    def leave_series(self, relation: str, *, detach: bool = True) -> None:
        """Detach a table from its series; or take the series from its readers until that can be done."""
        parent = self.catalog_value(_PARENT, relation)
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
        query = (
            "SELECT * FROM {r}.catalog WHERE dataset = %s AND series IS NOT DISTINCT FROM %s "
            "AND time_window IS NULL ORDER BY version DESC LIMIT 1"
        )
        found = next(iter(self.connection.rows_as(CatalogRow, query, [dataset, series])), None)
        newest = None if found is None else (found.name, found.version)
        if is_shown(self.connection, dataset, series, newest):
            return
        for part, view in current_names(dataset, series).items():
            if found is None or newest is None or found.name + part not in found.relations:
                self._drop_view(view)
                continue
            shown = found.name + part
            try:
                with self.connection.savepoint():
                    self.run("CREATE OR REPLACE VIEW {} AS SELECT * FROM {}", view, shown)
            except driver_errors.InvalidTableDefinition:
                # another SRID, or areas no longer: a view's columns can neither change type nor go
                self._drop_view(view)
                self.run("CREATE VIEW {} AS SELECT * FROM {}", view, shown)
            self.comment_columns(self.connection, view, shown)
            self.comment(view, described(dataset, series, newest))
            self.grant(view)

    def _drop_view(self, view: str) -> None:
        found = dependent_views(self.connection, self.schema, view)
        refuse_dependents([(kind, f"{schema}.{name}") for kind, schema, name in found])
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
        if not schema_exists(there.connection, schema):
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
        may_make = "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
        if not there.has_analysts() and there.connection.one_value(may_make):
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
    if schema_exists(there.connection, private):
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
def only_publisher(target: Database) -> Iterator[None]:
    """Keep other sessions from publishing into the same database while the block runs."""
    with _opened(target) as there:
        there.connection.never_time_out()
        there.lock_catalog()
        yield


def copy_release(source: Connection, target: Database, entry: CatalogRow) -> None:
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
                query = catalog_value(source, "pg_get_viewdef(c.oid)", (schema, relation))
                there.run("CREATE VIEW {} AS {}", relation, _written(query))
                there.comment_as(source, relation)
            there.grant(relation)
        if entry.series is not None and entry.time_window is not None:
            there.join_series(source, entry, entry.series)
        insert_rows(there.connection, "catalog", vars(entry))


def _require_srid(connection: Connection, srid: int) -> None:
    query = "SELECT FROM {spatial_ref_sys} WHERE srid = {srid}"
    if srid and connection.execute(query, srid=srid).fetchone() is None:
        raise BadInput(
            f"the database of [[to]] does not know SRID {srid}",
            remedy="insert its row of spatial_ref_sys there",
        )


def update_entry(target: Database, entry: CatalogRow) -> None:
    """What the catalogue says of a release that is there."""
    update_rows(target, "catalog", {"name": entry.name}, **vars(entry))


def withdraw_copy(target: Database, entry: CatalogRow) -> None:
    """Let nobody read a copy any more, and take it from the catalogue there."""
    whose = entry.dataset, entry.series
    with _opened(target) as there:
        there.connection.limit_waiting(LOCK_TIMEOUT)
        there.connection.execute("DELETE FROM {r}.catalog WHERE name = %s", [entry.name])
        for relation in entry.relations:
            there.revoke(relation)
            try:
                with translated(target), there.connection.savepoint():
                    there.leave_series(relation)
            except Busy:
                there.leave_series(relation, detach=False)
        # these show it with the rights of their owner
        if shown := showing(there.connection, there.schema, entry.relations, *whose):
            try:
                with translated(target), there.connection.savepoint():
                    there.show_newest(*whose)
            except (Busy, SchemaInUse):
                for view in shown:
                    there.revoke(view)
        for relation in entry.relations:
            if there.has(relation):
                there.comment(relation, entry.name.join(_WITHDRAWN))


def finish_pending(target: Database, whose: Iterable[tuple[str, str | None]]) -> list[str]:
    """Point the views of these at their newest releases, and drop what was taken back.

    whose: datasets, each with a series or, for releases in none, without. Returns what has to wait, because
    somebody reads it or has a view of it.
    """
    waiting = []
    for dataset, series in whose:
        try:
            with _opened(target) as there:
                there.connection.limit_waiting(LOCK_TIMEOUT)
                there.show_newest(dataset, series)
        except (Busy, SchemaInUse) as error:
            waiting.append(f"{series or dataset}_current: {error.message}")
    withdrawn: dict[str, list[str]] = {}
    for relation in relations_of(target, target.settings.release_schema):
        if relation.comment.startswith(_WITHDRAWN[0]):
            withdrawn.setdefault(relation.comment, []).append(relation.name)
    for comment, relations in withdrawn.items():
        try:
            _drop(target, relations)
        except (Busy, SchemaInUse) as error:
            name = comment.removeprefix(_WITHDRAWN[0]).removesuffix(_WITHDRAWN[1])
            waiting.append(f"{name}: {error.message}")
    return waiting


def _drop(target: Database, relations: Sequence[str]) -> None:
    """Drop what a release consisted of, views first; or empty it, and say what hangs on it."""
    with _opened(target) as there:
        there.connection.limit_waiting(LOCK_TIMEOUT)
        dependents = dependents_of_release(there.connection, there.schema, relations)
        for relation in relations:
            there.leave_series(relation)
            kind = "TABLE" if there.is_table(relation) else "VIEW"
            if kind == "TABLE":
                there.run("TRUNCATE {}", relation)
            if not dependents:
                there.run("DROP {} {}", sql.SQL(kind), relation)
    refuse_dependents(dependents)
