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
from freqdp_db.settings import Settings
from freqdp_db.storage.connection.engine import PINNED_PATH, Database, driver
from freqdp_db.storage.connection.login import login_of
from freqdp_db.storage.connection.postgis import find_postgis, postgis_schema
from freqdp_db.storage.schema.estimates import estimates_closed
from freqdp_db.storage.schema.grants import (
    ROLES,
    grant_statements,
    ownership_statements,
    role_statements,
)
from freqdp_db.storage.schema.objects import (
    SqlObject,
    literal,
    load_objects,
    quoted,
    render,
    resource,
)
from freqdp_db.storage.schema.tables import Names

INIT_REMEDY = "run `freqdp init` (or give its script to the DBA: `freqdp init --sql`)"
ROLES_REMEDY = (
    "give the script of `freqdp init --sql --roles` to somebody with CREATEROLE, then run "
    "`freqdp init` again"
)
_BECOME_OWNER = """DO $owner$
BEGIN
    EXECUTE pg_catalog.format('SET LOCAL ROLE %I', (
        SELECT r.rolname FROM pg_catalog.pg_namespace AS n
        JOIN pg_catalog.pg_roles AS r ON r.oid = n.nspowner WHERE n.nspname = {schema}
    ));
END $owner$;"""
_CLOSE_ESTIMATES = """\
-- Optional, for the owner of PostGIS (a superuser, as a rule): these functions tell everybody who may
-- connect what the statistics of any table say about where its rows lie, source tables included. Planning
-- does not need them; QGIS asks for one of them where "use estimated table metadata" is set.
{close}"""


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
    """False for who may look into the release schema alone: an analyst; anybody, where there is no more."""
    with database.begin() as connection:
        login = login_of(connection, database.settings)
    return login.sees_private or not login.sees_released


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
    # only `init` and the test of what is declared have to import the methods
    from freqdp_db.storage.schema.declared import declare, is_declared

    result = UpgradeResult(revision=head_revision())
    with database.begin() as connection:
        names = names_of(connection, database)
        result.revision_before = current_revision(connection, names.schema)
        result.created = result.revision_before is None
        grant = create_roles and _make_roles(connection, names, result, require_roles)
        result.objects_changed = _changed_objects(connection, names, result)
        current = result.revision_before == result.revision and not result.objects_changed
        foreign = not result.created and objects_of_others(connection, database.settings)
        if current and not grant and not foreign and is_declared(connection, names.schema):
            return result
        _become_owner(connection, names)
        _create_schemas(connection, names)
        _lock_version(connection, names.schema)
        # another one may have been at work meanwhile
        result.revision_before = current_revision(connection, names.schema)
        result.created = result.revision_before is None
        result.objects_changed = _changed_objects(connection, names, result)
        current = result.revision_before == result.revision and not result.objects_changed
        if not current:
            _upgrade_objects(connection, names, result)
        result.methods_changed = declare(connection, names)
        if create_roles and not result.roles_missing:
            for statement in grant_statements(names):
                _run(connection, statement)
    return result


def owner_of(connection: sa.Connection, schema: str) -> str | None:
    """Whose the schema is; None: there is none."""
    owner: str | None = connection.execute(
        sa.text(
            "SELECT r.rolname FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner "
            "WHERE n.nspname = :schema"
        ),
        {"schema": schema},
    ).scalar()
    return owner


def objects_of_others(connection: sa.Connection, settings: Settings) -> list[str]:
    """Relations and functions of both schemas that are not those of the owner of the private one."""
    found = connection.execute(
        sa.text(
            "WITH ours AS (SELECT n.oid, p.nspowner AS owner FROM pg_namespace n, pg_namespace p "
            "WHERE n.nspname IN (:private, :released) AND p.nspname = :private) "
            "SELECT c.oid::regclass::text FROM pg_class c JOIN ours o ON o.oid = c.relnamespace "
            "WHERE c.relowner <> o.owner AND c.relkind NOT IN ('i', 'I', 't') UNION ALL "
            "SELECT f.oid::regprocedure::text FROM pg_proc f JOIN ours o ON o.oid = f.pronamespace "
            "WHERE f.proowner <> o.owner ORDER BY 1"
        ),
        {"private": settings.schema, "released": settings.release_schema},
    )
    return list(found.scalars())


def _become_owner(connection: sa.Connection, names: Names) -> None:
    """What this transaction makes belongs to the owner of the schema, whoever runs it."""
    owner = owner_of(connection, names.schema)
    if owner is None:
        return
    for statement in ownership_statements(names):
        try:
            _run(connection, statement)
        except psycopg.errors.InsufficientPrivilege:
            raise errors.PermissionMissing(
                f"tables of schema {names.schema!r} belong to {names.schema}_runner, and you may not "
                f"give them to {owner}",
                remedy="run `freqdp init` once as a superuser: what belongs to whom is kept",
            ) from None
    is_owner, may_be = connection.execute(
        sa.text("SELECT current_user = :owner, pg_has_role(:owner, 'MEMBER')"), {"owner": owner}
    ).one()
    if not may_be:
        raise errors.PermissionMissing(
            f"schema {names.schema!r} belongs to {owner}",
            remedy=f"run `freqdp init` as {owner}, as a member of that role or as a superuser",
        )
    if not is_owner:
        driver(connection).execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(owner)))


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
            try:
                # waits for another session that is making it
                with connection.begin_nested():
                    for statement in _schema_statements(names, schema):
                        _run(connection, statement)
            except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateSchema):
                continue  # that one has made it meanwhile


def _lock_version(connection: sa.Connection, schema: str) -> None:
    """One `init` at a time, once there is something to upgrade. Nobody but the owner can lock it so."""
    if current_revision(connection, schema) is not None:
        _run(connection, f"LOCK TABLE {quoted(schema)}.schema_version IN SHARE ROW EXCLUSIVE MODE")


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


def _changed_objects(connection: sa.Connection, names: Names, result: UpgradeResult) -> list[str]:
    """Paths of objects that are not the software's, or not the schema owner's."""
    if result.created:
        return sorted(o.path for o in load_objects(names))
    before = {p: h for p, _, h in recorded_objects(connection, names.schema)}
    after = {o.path: o.hash for o in load_objects(names)}
    others = set(
        connection.execute(
            sa.text(
                "SELECT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
                "WHERE n.nspname = :schema AND p.proowner <> n.nspowner UNION ALL "
                "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                "WHERE n.nspname = :schema AND c.relowner <> n.nspowner AND c.relkind = 'v'"
            ),
            {"schema": names.schema},
        ).scalars()
    )
    return sorted(
        p
        for p in before.keys() | after.keys()
        if before.get(p) != after.get(p) or p.partition("_")[2].partition(".")[0] in others
    )


def _upgrade_objects(connection: sa.Connection, names: Names, result: UpgradeResult) -> None:
    recorded = [] if result.created else recorded_objects(connection, names.schema)
    for _, identity, _ in reversed(recorded):
        _drop(connection, render(identity, names))
    from freqdp_db.storage.schema import revisions

    revisions.apply(connection, names)
    for statement in _version_statements(names) + _object_statements(names, load_objects(names)):
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
) -> bool:
    """Make the roles that are missing, if this login may; whether their rights are to be granted."""
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
                    "you may not create roles: " + ", ".join(missing), remedy=ROLES_REMEDY
                )
            result.roles_missing = missing
            return False
    try:
        for statement in role_statements(names):
            _run(connection, statement)
    except psycopg.errors.InsufficientPrivilege as error:
        raise errors.PermissionMissing(
            f"{names.schema}_admin is no member of {names.schema}_runner, and you may not make it "
            f"one: {error.diag.message_primary}",
            remedy=ROLES_REMEDY,
        ) from None
    result.roles_created = missing
    granted = (
        not result.created
        and connection.execute(
            sa.text("SELECT has_schema_privilege(:role, :schema, 'USAGE')"),
            {"role": f"{names.schema}_runner", "schema": names.schema},
        ).scalar()
    )
    return bool(missing or require or not granted)


def roles_script(names: Names) -> str:
    """The group roles alone: for somebody with CREATEROLE who has nothing else to do with freqdp."""
    parts = [
        "-- Makes the group roles of freqdp that are missing, and changes nothing else. Then the owner of\n"
        "-- freqdp's schemas runs `freqdp init`, which grants their rights.",
        *(f"{s};" for s in role_statements(names)),
    ]
    return "\n\n".join(parts) + "\n"


def script(names: Names, revision: str | None, recorded: list[str]) -> str:
    """The whole upgrade as a SQL script for a DBA, from this revision (None: from nothing).

    recorded: the identities of the functions and views that are there, in order.
    """
    parts: list[str] = ["BEGIN;", f"{PINNED_PATH};", *(f"{s};" for s in role_statements(names))]
    if revision is None:
        for schema in (names.schema, names.release_schema):
            parts += [s + ";" for s in _schema_statements(names, schema)]
    else:
        # whoever runs this, all stays with the owner of the schema
        parts += [f"{s};" for s in ownership_statements(names)]
        parts.append(_BECOME_OWNER.format(schema=literal(names.schema)))
        parts += [f"DROP {render(identity, names)};" for identity in reversed(recorded)]
    if revision != head_revision():
        from freqdp_db.storage.schema import revisions

        parts.append(revisions.script(names, revision))
    parts += [s.rstrip().rstrip(";") + ";" for s in _version_statements(names)]
    parts += [s.rstrip().rstrip(";") + ";" for s in _object_statements(names, load_objects(names))]
    from freqdp_db.storage.schema.declared import declaration_statements

    parts += [s + ";" for s in declaration_statements(names)]
    parts += [s + ";" for s in grant_statements(names)]
    parts.append("COMMIT;")
    parts.append(_CLOSE_ESTIMATES.format(close=estimates_closed(names)))
    return "\n\n".join(parts) + "\n"


def check(database: Database) -> None:
    """`alembic check`: raises alembic.util.AutogenerateDiffsDetected if tables and metadata differ."""
    from freqdp_db.storage.schema import revisions

    with database.begin() as connection:
        names = names_of(connection, database)
    revisions.check(database, names)
