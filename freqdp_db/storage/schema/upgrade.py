"""Create and upgrade our schemas: one transaction, or none of it.

Recorded objects are dropped newest first (never CASCADE), the revisions run, `sql/` is applied in
order, the grants are made again and the hashes recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import psycopg
import sqlalchemy as sa
from psycopg import sql

from freqdp_db import errors
from freqdp_db.storage.connection.engine import Database, driver
from freqdp_db.storage.connection.login import login_of
from freqdp_db.storage.connection.postgis import find_postgis, postgis_schema
from freqdp_db.storage.schema.grants import ROLES, grant_statements, role_statements
from freqdp_db.storage.schema.objects import SqlObject, load_objects, quoted, render, resource
from freqdp_db.storage.schema.tables import Names

_LOCK = sa.text("SELECT pg_advisory_xact_lock(hashtextextended('freqdp upgrade ' || :schema, 0))")
# Operators and functions that somebody planted in a schema of the session's path must not end up
# in our views and functions.
_PINNED_PATH = "SET LOCAL search_path = pg_catalog, pg_temp"
INIT_REMEDY = "run `freqdp init` (or give its script to the DBA: `freqdp init --sql`)"


@dataclass
class UpgradeResult:
    """What `init` did."""

    created: bool = False
    revision_before: str | None = None
    revision: str = ""
    objects_changed: list[str] = field(default_factory=list)
    methods_changed: bool = False
    roles_created: list[str] = field(default_factory=list)
    roles_missing: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(
            self.created
            or self.revision_before != self.revision
            or self.objects_changed
            or self.methods_changed
            or self.roles_created
        )


def head_revision() -> str:
    """The newest revision: they are numbered, and their files begin with the number."""
    newest = max(path.name for path in (resource("migrations") / "versions").glob("[0-9]*.py"))
    return newest.partition("_")[0]


def server_version(connection: sa.Connection) -> tuple[int, str]:
    """As a number to compare, and as people write it."""
    row = connection.execute(
        sa.text(
            "SELECT current_setting('server_version_num')::int, current_setting('server_version')"
        )
    ).one()
    return row[0], row[1]


def existing_roles(connection: sa.Connection, roles: list[str]) -> set[str]:
    return set(
        connection.execute(
            sa.text("SELECT rolname FROM pg_roles WHERE rolname = ANY(:roles)"), {"roles": roles}
        ).scalars()
    )


def names_of(connection: sa.Connection, database: Database) -> Names:
    return Names.of(database.settings, postgis_schema(connection))


def current_revision(connection: sa.Connection, schema: str) -> str | None:
    known = connection.execute(
        sa.text("SELECT to_regclass(:name) IS NOT NULL"),
        {"name": f"{quoted(schema)}.schema_version"},
    ).scalar()
    if not known:
        return None
    row = (
        driver(connection)
        .execute(
            sql.SQL("SELECT version_num FROM {}").format(sql.Identifier(schema, "schema_version"))
        )
        .fetchone()
    )
    return None if row is None else str(row[0])


def recorded_objects(connection: sa.Connection, schema: str) -> list[tuple[str, str, str]]:
    """(path, identity, hash) of the applied objects, in order."""
    rows = driver(connection).execute(
        sql.SQL("SELECT path, identity, hash FROM {} ORDER BY position").format(
            sql.Identifier(schema, "sql_object")
        )
    )
    return [(path, identity, hash_) for path, identity, hash_ in rows]


def reads_private(database: Database) -> bool:
    """False for a login that may look into the release schema alone: an analyst's."""
    with database.begin() as connection:
        login = login_of(connection, database.settings)
    return not login.there or login.sees_private or not login.sees_released


def require_current(database: Database) -> None:
    """Refuse a database whose schema is missing or not the one of this software."""
    schema = database.settings.schema
    with database.begin() as connection:
        revision = current_revision(connection, schema)
        if revision is None:
            raise errors.SchemaMissing(
                f"this database has no schema {schema!r} of freqdp's, or you may not read it",
                remedy=INIT_REMEDY,
            )
        names = Names.of(database.settings, find_postgis(connection) or "public")
        recorded = {(path, hash_) for path, _, hash_ in recorded_objects(connection, schema)}
    current = {(o.path, o.hash) for o in load_objects(names)}
    if revision != head_revision():
        raise errors.SchemaStale(
            f"the schema {schema!r} (revision {revision}) does not belong to this version of freqdp "
            f"(revision {head_revision()})",
            remedy=INIT_REMEDY,
        )
    if recorded != current:
        raise errors.SchemaStale(
            f"functions or views of the schema {schema!r} do not belong to this version of freqdp",
            remedy=INIT_REMEDY,
        )


def upgrade(
    database: Database, *, require_roles: bool = False, create_roles: bool = True
) -> UpgradeResult:
    """Bring the database to this software's schema. Twice changes nothing."""
    result = UpgradeResult(revision=head_revision())
    with database.begin() as connection:
        names = names_of(connection, database)
        connection.execute(_LOCK, {"schema": names.schema})
        connection.exec_driver_sql(_PINNED_PATH)
        result.revision_before = current_revision(connection, names.schema)
        result.created = result.revision_before is None
        _create_schemas(connection, names)
        _upgrade_objects(connection, names, result)
        # only `init` and the test of what is declared have to import the methods
        from freqdp_db.storage.schema.declared import declare

        result.methods_changed = declare(connection, names)
        if create_roles:
            _make_roles(connection, names, result, require_roles)
    return result


def _run(connection: sa.Connection, statement: str) -> None:
    # not through SQLAlchemy: without parameters a % in a name or a text stays what it is
    driver(connection).execute(statement)


def _create_schemas(connection: sa.Connection, names: Names) -> None:
    for schema in (names.schema, names.release_schema):
        exists = connection.execute(
            sa.text("SELECT 1 FROM pg_namespace WHERE nspname = :schema"), {"schema": schema}
        ).scalar()
        if not exists:
            _require_may_create(connection, schema)
            for statement in _schema_statements(names, schema):
                _run(connection, statement)


def _require_may_create(connection: sa.Connection, schema: str) -> None:
    may, database, user = connection.execute(
        sa.text(
            "SELECT has_database_privilege(current_database(), 'CREATE'), "
            "current_database(), current_user"
        )
    ).one()
    if not may:
        raise errors.PermissionMissing(
            f"you may not create schema {schema!r} in database {database!r}",
            remedy=f"its owner can: GRANT CREATE ON DATABASE {quoted(database)} TO {quoted(user)}; "
            "or give the script of `freqdp init --sql` to the DBA",
        )


def _schema_statements(names: Names, schema: str) -> list[str]:
    comment = (
        "freqdp, private: everything derived from raw data"
        if schema == names.schema
        else "freqdp, publishable: released tables and their catalogue"
    )
    return [f"CREATE SCHEMA {quoted(schema)}", f"COMMENT ON SCHEMA {quoted(schema)} IS '{comment}'"]


def _upgrade_objects(connection: sa.Connection, names: Names, result: UpgradeResult) -> None:
    objects = load_objects(names)
    recorded = [] if result.created else recorded_objects(connection, names.schema)
    before = {path: hash_ for path, _, hash_ in recorded}
    after = {o.path: o.hash for o in objects}
    result.objects_changed = sorted(
        p for p in before.keys() | after.keys() if before.get(p) != after.get(p)
    )
    if result.revision_before == result.revision and not result.objects_changed:
        return
    for _, identity, _ in reversed(recorded):
        _drop(connection, render(identity, names))
    from freqdp_db.storage.schema import revisions

    revisions.apply(connection, names)
    for statement in _version_statements(names) + _object_statements(names, objects):
        _run(connection, statement)


def _drop(connection: sa.Connection, identity: str) -> None:
    try:
        _run(connection, f"DROP {identity}")
    except psycopg.errors.DependentObjectsStillExist as error:
        # Names of relations only: the detail of this error never holds a row.
        dependants = (error.diag.message_detail or "").splitlines()
        raise errors.SchemaInUse(
            f"the upgrade replaces {identity}, but: " + "; ".join(dependants),
            remedy="drop that object (keep its definition), upgrade, create it again",
        ) from None


def _version_statements(names: Names) -> list[str]:
    return [
        f"COMMENT ON TABLE {quoted(names.schema)}.schema_version IS "
        "'Revision of the tables (Alembic).'"
    ]


def _object_statements(names: Names, objects: list[SqlObject]) -> list[str]:
    table = sql.Identifier(names.schema, "sql_object")
    statements = [sql.SQL("DELETE FROM {}").format(table).as_string(None)]
    for position, item in enumerate(objects):
        record = sql.SQL(
            "INSERT INTO {} (position, path, identity, kind, hash) VALUES ({})"
        ).format(
            table,
            sql.SQL(", ").join(
                map(sql.Literal, (position, item.path, item.identity, item.kind, item.hash))
            ),
        )
        statements += [item.text, record.as_string(None)]
    return statements


def _make_roles(
    connection: sa.Connection, names: Names, result: UpgradeResult, require: bool
) -> None:
    roles = [f"{names.schema}_{kind}" for kind in ROLES]
    existing = existing_roles(connection, roles)
    missing = [r for r in roles if r not in existing]
    if missing:
        may_create = connection.execute(
            sa.text("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user")
        ).scalar()
        if not may_create:
            if require:
                raise errors.PermissionMissing(
                    "you may not create roles: " + ", ".join(missing),
                    remedy="give the script of `freqdp init --sql` to a role with CREATEROLE",
                )
            result.roles_missing = missing
            return
        for statement in role_statements(names, existing):
            _run(connection, statement)
        result.roles_created = missing
    if missing or result.changed or require:
        for statement in grant_statements(names):
            _run(connection, statement)


def script(names: Names, revision: str | None) -> str:
    """The whole upgrade as a SQL script for a DBA, from this revision (None: from nothing)."""
    parts: list[str] = ["BEGIN;", f"{_PINNED_PATH};"]
    if revision is None:
        for schema in (names.schema, names.release_schema):
            parts += [s + ";" for s in _schema_statements(names, schema)]
    else:
        parts += [f"DROP {render(o.identity, names)};" for o in reversed(load_objects(names))]
    if revision != head_revision():
        from freqdp_db.storage.schema import revisions

        parts.append(revisions.script(names, revision))
    parts += [s.rstrip().rstrip(";") + ";" for s in _version_statements(names)]
    parts += [s.rstrip().rstrip(";") + ";" for s in _object_statements(names, load_objects(names))]
    from freqdp_db.storage.schema.declared import declaration_statements

    parts += [s + ";" for s in declaration_statements(names)]
    parts.append("DO $roles$ BEGIN")
    for kind, statement in zip(ROLES, role_statements(names, set())[::2], strict=True):
        role = f"{names.schema}_{kind}".replace("'", "''")
        parts.append(
            f"  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN {statement}; END IF;"
        )
    parts.append("END $roles$;")
    parts += [s + ";" for s in grant_statements(names)]
    parts.append("COMMIT;")
    return "\n\n".join(parts) + "\n"


def check(database: Database) -> None:
    """`alembic check`: raises alembic.util.AutogenerateDiffsDetected if tables and metadata differ."""
    from freqdp_db.storage.schema import revisions

    with database.begin() as connection:
        names = names_of(connection, database)
    revisions.check(database, names)
