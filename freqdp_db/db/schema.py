"""Create and upgrade our schemas: one transaction, or none of it.

What an installation is made of: revisions of its tables, run by Alembic, and the objects of `sql/`.
Recorded objects are dropped newest first (never CASCADE), the revisions run, `sql/` is applied in
order, the grants are made again and the hashes recorded.
Alembic is imported where it is used: only `init` needs it.
"""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
from psycopg import sql

import freqdp_db
from freqdp_db import errors
from freqdp_db.db.connection import PINNED_PATH, Connection, Database, as_json, from_json, login_of
from freqdp_db.db.names import find_postgis, format_name, literal, postgis_schema, quoted
from freqdp_db.db.rights import ROLES, grant_statements, role_statement
from freqdp_db.db.source import schema_exists
from freqdp_db.db.tables import Names
from freqdp_db.model.documents import Document, not_in_json
from freqdp_db.settings import Settings

if TYPE_CHECKING:
    from alembic.config import Config


RECORDED = re.compile(
    r"(FUNCTION|VIEW) [$][{](private|release)[}][.][a-z0-9_]+([(][]a-z0-9_ ,.${}[]*[)])?"
)
"""How `sql_object` names what it records, for Python and PostgreSQL. Who runs `init` drops what it names:
nothing else may be there."""
_FILE = re.compile(r"^(?P<number>\d{3})_(?P<name>\w+)\.(?P<kind>view|function)\.sql$")
# An object as its comment names it: of a function with its types, as an upgrade drops it.
_IDENTITY = re.compile(r"^COMMENT ON (?P<identity>(FUNCTION|VIEW) .+?) IS\b", re.MULTILINE)


def resource(folder: str) -> Path:
    """`sql` or `migrations`: inside an installed wheel, or beside the package in a checkout."""
    package = Path(freqdp_db.__file__).parent
    installed = package / f"_{folder}"
    return installed if installed.is_dir() else package.parent / folder


def render(text: str, names: Names) -> str:
    """Put this installation's names into a SQL text: ${private} quoted, ${private:name} as a literal."""
    schemas = {"private": names.schema, "release": names.release_schema, "postgis": names.postgis}
    roles = {kind: f"{names.schema}_{kind}" for kind in ("runner", "analyst")}
    for word, name in schemas.items():
        text = text.replace(f"${{{word}}}", quoted(name))
    for word, name in (schemas | roles).items():
        text = text.replace(f"${{{word}:name}}", literal(name))
    return text


# The replaceable objects: found in `sql/`, dropped and applied around every migration.


@dataclass(frozen=True)
class SqlObject:
    """One file of `sql/`."""

    path: str
    kind: str
    identity: str
    text: str
    hash: str


@lru_cache
def load_objects(names: Names) -> tuple[SqlObject, ...]:
    """All objects, in the order of their numbers, which is the order of their dependencies.

    Read once: every command compares them with what the database has, and files that an upgrade of the
    package puts in their place belong to other code than what runs.
    """
    root = resource("sql")
    objects = []
    for file in sorted(root.rglob("*.sql"), key=lambda f: f.name):
        match = _FILE.match(file.name)
        if match is None:
            raise RuntimeError(f"sql/{file.relative_to(root)} is not named NNN_object.kind.sql")
        text = file.read_text(encoding="utf-8")
        found = _IDENTITY.search(text)
        if found is None:
            raise RuntimeError(f"sql/{file.relative_to(root)} has no comment on its object")
        if match["kind"] == "function":
            text += f"REVOKE ALL ON {found['identity']} FROM PUBLIC;\n"
        objects.append(
            SqlObject(
                path=str(file.relative_to(root)),
                kind=match["kind"],
                identity=found["identity"],
                text=render(text, names),
                hash=hashlib.sha256(text.encode()).hexdigest(),
            )
        )
    return tuple(objects)


# The revisions of the tables.


def all_revisions() -> list[str]:
    """From the oldest: they are numbered, and their files begin with the number."""
    files = (resource("migrations") / "versions").glob("[0-9]*.py")
    return sorted(path.name.partition("_")[0] for path in files)


def head_revision() -> str:
    """The newest revision."""
    return all_revisions()[-1]


def alembic_config(names: Names) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(resource("migrations")).replace("%", "%%"))
    config.attributes["names"] = names
    return config


def tables_script(names: Names, revision: str | None, until: str = "head") -> str:
    """What brings the tables from this revision (None: from nothing) to another one, as SQL."""
    from alembic import command

    config = alembic_config(names)
    config.output_buffer = io.StringIO()
    command.upgrade(config, f"{revision}:{until}" if revision else until, sql=True)
    return config.output_buffer.getvalue().strip()


def run_revision(text: str) -> None:
    """The statements of a revision, with this installation's names in place: part of the script."""
    from alembic import op

    context = op.get_context()
    names: Names = context.config.attributes["names"]  # type: ignore[union-attr]
    # as it is: SQLAlchemy would read colons as parameters, and double the signs of percent
    context.impl.static_output(render(text, names).strip())


# PostGIS's functions that tell what it knows of any table, without asking for a right on it.
#
# The statistics of a geometry column are a histogram of where its rows lie, and the root of a GiST index is
# their extent. Tables of ours that are not granted keep no such statistics. Those of the source are its
# owner's: only the owner of PostGIS can close the functions.


_FUNCTIONS = (
    "_postgis_selectivity", "_postgis_join_selectivity", "_postgis_stats", "_postgis_index_extent",
    "st_estimatedextent",
)  # fmt: skip


def open_estimates(connection: Connection, postgis: str) -> list[str]:
    """The names of those of the functions that everybody may call."""
    query = (
        "SELECT DISTINCT p.proname::text FROM pg_proc p JOIN pg_namespace n "
        "ON n.oid = p.pronamespace WHERE n.nspname = %s AND p.proname = ANY(%s) "
        "AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a "
        "WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE') ORDER BY 1"
    )
    return connection.first_column(query, [postgis, list(_FUNCTIONS)])


def estimates_closed(names: Names) -> str:
    """A statement that takes them from everybody, as a comment: whoever may run it decides."""
    text = """DO $close$
DECLARE
    item pg_catalog.regprocedure;
BEGIN
    FOR item IN
        SELECT p.oid FROM pg_catalog.pg_proc AS p
        JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
        WHERE n.nspname = ${postgis:name} AND p.proname IN (%s)
    LOOP
        EXECUTE pg_catalog.format('REVOKE EXECUTE ON FUNCTION %%s FROM PUBLIC', item);
    END LOOP;
END $close$;"""
    statement = render(text % ", ".join(map(literal, _FUNCTIONS)), names)
    return "\n".join(f"-- {line}" for line in statement.splitlines())


def ownership_statement(names: Names) -> str:
    """Give the tables of builds and releases that belong to runners to the owner of the schema.

    Up to revision 0005 runners owned them, and who owns a table decides what runs when others write to it.
    """
    text = """DO $owner$
DECLARE
    item record;
BEGIN
    FOR item IN
        SELECT c.oid, n.nspname, c.relname, o.rolname AS owner
        FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        JOIN pg_catalog.pg_roles AS r ON r.oid = c.relowner AND r.rolname = ${runner:name}
        JOIN pg_catalog.pg_namespace AS p ON p.nspname = ${private:name}
        JOIN pg_catalog.pg_roles AS o ON o.oid = p.nspowner
        WHERE n.nspname IN (${private:name}, ${release:name}) AND c.relkind IN ('r', 'p', 'v')
    LOOP
        -- freqdp makes none of these on such tables: they would run for whoever writes there
        IF EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = item.oid AND NOT tgisinternal)
            OR EXISTS (SELECT FROM pg_catalog.pg_attrdef WHERE adrelid = item.oid)
            OR EXISTS (SELECT FROM pg_catalog.pg_policy WHERE polrelid = item.oid)
            OR EXISTS (SELECT FROM pg_catalog.pg_rewrite WHERE ev_class = item.oid
                AND rulename <> '_RETURN')
            OR EXISTS (SELECT FROM pg_catalog.pg_index WHERE indrelid = item.oid
                AND (indexprs IS NOT NULL OR indpred IS NOT NULL))
        THEN
            RAISE EXCEPTION 'table %.% has a trigger, default, policy, rule or index that is not freqdp''s',
                item.nspname, item.relname
            USING ERRCODE = 'QF001', HINT = 'a runner has made it: look at it, drop it, run `freqdp init`';
        END IF;
        EXECUTE pg_catalog.format('ALTER TABLE %I.%I OWNER TO %I', item.nspname, item.relname, item.owner);
        EXECUTE pg_catalog.format(
            'GRANT SELECT ON %I.%I TO %I', item.nspname, item.relname, ${runner:name}
        );
    END LOOP;
END $owner$"""
    return render(text, names)


INIT_REMEDY = "run `freqdp init` (or give its script to the DBA: `freqdp init --sql`)"
ROLES_REMEDY = (
    "give the script of `freqdp init --sql --roles` to somebody with CREATEROLE, then run "
    "`freqdp init` again"
)
EXTENSION = "freqdp"
"""Its name, where the functions are installed as one."""
_HAS_SERIES = "0010"
"""The revision that made the table `series`."""
BECOME_OWNER = """DO $owner$
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
class UpgradeResult(Document):
    """What `init` did."""

    names: Names = not_in_json()
    created: bool = False
    revision_before: str | None = None
    revision: str = ""
    objects_changed: list[str] = field(default_factory=list)
    methods_changed: bool = False
    roles_created: list[str] = field(default_factory=list)
    roles_missing: list[str] = field(default_factory=list)
    """Nobody made them, and this login may not: see `roles_remedy`."""
    roles_remedy: ClassVar = ROLES_REMEDY

    def document(self) -> dict[str, Any]:
        return super().document() | {"changed": self.changed}

    @property
    def changed(self) -> bool:
        return bool(
            self.created
            or self.revision_before != self.revision
            or self.objects_changed
            or self.methods_changed
            or self.roles_created
        )


def server_version(connection: Connection) -> tuple[int, str]:
    """As a number to compare, and as people write it."""
    query = "SELECT current_setting('server_version_num')::int, current_setting('server_version')"
    ((number, shown),) = connection.execute(query).fetchall()
    return number, shown


def existing_roles(connection: Connection, roles: list[str]) -> set[str]:
    query = "SELECT rolname::text FROM pg_roles WHERE rolname = ANY(%s)"
    return set(connection.first_column(query, [roles]))


def names_of(connection: Connection) -> Names:
    return Names(connection.schema, connection.release_schema, postgis_schema(connection))


_IS_TABLE = "SELECT EXISTS (SELECT FROM pg_class WHERE oid = to_regclass(%s) AND relkind = 'r')"
"""Functions that a view calls would run with the rights of whoever asks what is installed."""


def current_revision(connection: Connection, schema: str) -> str | None:
    table = sql.Identifier(schema, "schema_version")
    if not connection.one_value(_IS_TABLE, [table.as_string(None)]):
        return None
    query = sql.SQL("SELECT version_num FROM {}").format(table)
    row = connection.execute(query).fetchone()
    return None if row is None else str(row[0])


def recorded_objects(connection: Connection, schema: str) -> list[tuple[str, str, str]]:
    """(path, identity, hash) of the applied objects, in order."""
    table = sql.Identifier(schema, "sql_object")
    if not connection.one_value(_IS_TABLE, [table.as_string(None)]):
        return []
    query = sql.SQL("SELECT path, identity, hash FROM {} ORDER BY position")
    return connection.execute(query.format(table)).fetchall()


def reads_private(database: Database) -> bool:
    """False for who may look into the release schema alone: an analyst; anybody, where there is no more."""
    login = login_of(database, database.settings)
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
    with database.begin() as connection:
        names = names_of(connection)
        result = UpgradeResult(names=names, revision=head_revision())

        def is_current() -> bool:
            """Whether tables, functions and views are this software's, and the owner's."""
            result.revision_before = current_revision(connection, names.schema)
            result.created = result.revision_before is None
            result.objects_changed = _changed_objects(connection, names, result)
            return result.revision_before == result.revision and not result.objects_changed

        current = is_current()
        if not current:
            _refuse_extension(connection, names)
        grant = create_roles and _make_roles(connection, names, result, require_roles)
        foreign = not result.created and objects_of_others(connection, database.settings)
        if current and not grant and not foreign and _is_declared(connection, names.schema):
            return result
        _become_owner(connection, names)
        _create_schemas(connection, names)
        if current_revision(connection, names.schema) is not None:
            # one `init` at a time, once there is something to upgrade; nobody but the owner can lock it so
            version = f"{quoted(names.schema)}.schema_version"
            _run(connection, f"LOCK TABLE {version} IN SHARE ROW EXCLUSIVE MODE")
        # another one may have been at work meanwhile
        current = is_current()
        _require_free_names(connection, names, result.revision_before)
        if not current:
            _run_upgrade(connection, names, result)
        result.methods_changed = not _is_declared(connection, names.schema)
        if result.methods_changed:
            for statement in declaration_statements(names):
                _run(connection, statement)
        if create_roles and not result.roles_missing:
            for statement in grant_statements(names):
                _run(connection, statement)
    return result


def extension_version(connection: Connection, schema: str) -> str | None:
    """Of the extension that the functions of this installation belong to; None: `init` made them."""
    query = (
        "SELECT e.extversion::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
        "WHERE e.extname = %s AND n.nspname = %s"
    )
    found = connection.execute(query, [EXTENSION, schema]).fetchone()
    return None if found is None else str(found[0])


def _refuse_extension(connection: Connection, names: Names) -> None:
    """Functions of an extension are replaced by its script alone."""
    version = extension_version(connection, names.schema)
    if version is not None:
        call = f"CALL {format_name(names.schema)}.install()"
        update = (
            f"install the files of `freqdp init --extension`, ALTER EXTENSION {EXTENSION} UPDATE, "
        )
        raise errors.SchemaStale(
            f"the functions of schema {names.schema!r} belong to the extension {EXTENSION} {version}, and "
            "functions, views or tables are not those of this version of freqdp",
            remedy=f"in the database: {'' if version == freqdp_db.__version__ else update}{call}",
        )


def _require_free_names(connection: Connection, names: Names, revision: str | None) -> None:
    """Refuse to upgrade where a release is called as a table that earlier revisions did not have."""
    if revision is None or revision >= _HAS_SERIES:
        return
    query = (
        "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = 'series'"
    )
    if connection.execute(query, [names.release_schema]).fetchone() is not None:
        raise errors.AlreadyExists(
            f"{names.release_schema}.series is there, and this version keeps its own table of that name. "
            "Nothing was changed",
            remedy="if it is a release, withdraw it with the version of freqdp that made it (freqdp "
            "release withdraw series); if it is a table of yours, rename it. Then run freqdp init again",
        )


def objects_of_others(connection: Connection, settings: Settings) -> list[str]:
    """Relations and functions of both schemas that are not those of the owner of the private one."""
    query = (
        "WITH ours AS (SELECT n.oid, p.nspowner AS owner FROM pg_namespace n, pg_namespace p "
        "WHERE n.nspname IN (%(private)s, %(released)s) AND p.nspname = %(private)s) "
        "SELECT c.oid::regclass::text FROM pg_class c JOIN ours o ON o.oid = c.relnamespace "
        "WHERE c.relowner <> o.owner AND c.relkind NOT IN ('i', 'I', 't') UNION ALL "
        "SELECT f.oid::regprocedure::text FROM pg_proc f JOIN ours o ON o.oid = f.pronamespace "
        "WHERE f.proowner <> o.owner ORDER BY 1"
    )
    values = {"private": settings.schema, "released": settings.release_schema}
    return connection.first_column(query, values)


def _become_owner(connection: Connection, names: Names) -> None:
    """What this transaction makes belongs to the owner of the schema, whoever runs it."""
    query = (
        "SELECT r.rolname::text, r.rolname = current_user, pg_has_role(r.oid, 'MEMBER') "
        "FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner WHERE n.nspname = %s"
    )
    found = connection.execute(query, [names.schema]).fetchone()
    if found is None:
        return
    owner, is_owner, may_be = found
    try:
        _run(connection, ownership_statement(names))
    except psycopg.errors.InsufficientPrivilege:
        raise errors.PermissionMissing(
            f"tables of schema {names.schema!r} belong to {names.schema}_runner, and you may not "
            f"give them to {owner}",
            remedy="run `freqdp init` once as a superuser: what belongs to whom is kept",
        ) from None
    if not may_be:
        raise errors.PermissionMissing(
            f"schema {names.schema!r} belongs to {owner}",
            remedy=f"run `freqdp init` as {owner}, as a member of that role or as a superuser",
        )
    if not is_owner:
        connection.driver.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(owner)))


def _run(connection: Connection, statement: str) -> None:
    # not through SQLAlchemy: without parameters a % in a name or a text stays what it is
    connection.driver.execute(statement)


def _create_schemas(connection: Connection, names: Names) -> None:
    for schema in (names.schema, names.release_schema):
        if not schema_exists(connection, schema):
            _require_may_create(connection, schema)
            try:
                # waits for another session that is making it
                with connection.savepoint():
                    for statement in schema_statements(names, schema):
                        _run(connection, statement)
            except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateSchema):
                continue  # that one has made it meanwhile


def _require_may_create(connection: Connection, schema: str) -> None:
    query = "SELECT has_database_privilege(current_database(), 'CREATE'), current_database(), current_user"
    ((may, database, user),) = connection.execute(query).fetchall()
    if not may:
        raise errors.PermissionMissing(
            f"you may not create schema {schema!r} in database {database!r}",
            remedy=f"its owner can: GRANT CREATE ON DATABASE {quoted(database)} TO {quoted(user)}; "
            "or give the script of `freqdp init --sql` to the DBA",
        )


def schema_statements(names: Names, schema: str) -> list[str]:
    comment = (
        "freqdp, private: everything derived from raw data"
        if schema == names.schema
        else "freqdp, publishable: released tables and their catalogue"
    )
    return [f"CREATE SCHEMA {quoted(schema)}", f"COMMENT ON SCHEMA {quoted(schema)} IS '{comment}'"]


def _changed_objects(connection: Connection, names: Names, result: UpgradeResult) -> list[str]:
    """Paths of objects that are not the software's, or not the schema owner's, or gone."""
    if result.created:
        return sorted(o.path for o in load_objects(names))
    before = {p: h for p, _, h in recorded_objects(connection, names.schema)}
    after = {o.path: o.hash for o in load_objects(names)}
    query = (
        "SELECT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
        "WHERE n.nspname = %(schema)s AND p.proowner = n.nspowner OR n.nspname = %(release)s UNION ALL "
        "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %(schema)s AND c.relowner = n.nspowner AND c.relkind = 'v'"
    )
    values = {"schema": names.schema, "release": names.release_schema}
    there = set(connection.first_column(query, values))
    return sorted(
        p
        for p in before.keys() | after.keys()
        if before.get(p) != after.get(p) or p.partition("_")[2].partition(".")[0] not in there
    )


def _statements(names: Names, revision: str | None, recorded: list[str]) -> list[str]:
    """What brings tables, functions and views to this version, from this revision.

    recorded: the identities of the functions and views that are there, in order.
    """
    table = sql.Identifier(names.schema, "sql_object")
    statements = [_drop_statement(names, identity) for identity in reversed(recorded)]
    if revision != head_revision():
        statements.append(tables_script(names, revision))
    version = f"{quoted(names.schema)}.schema_version"
    statements += [
        f"COMMENT ON TABLE {version} IS 'Revision of the tables (Alembic).'",
        sql.SQL("DELETE FROM {}").format(table).as_string(None),
    ]
    for position, item in enumerate(load_objects(names)):
        statements += [item.text, record_statement(names, position, item)]
    return statements


def _drop_statement(names: Names, identity: str) -> str:
    """An extension that was dropped has taken its functions along."""
    if RECORDED.fullmatch(identity) is None:
        raise errors.SchemaStale(
            f"{names.schema}.sql_object has a row that is no function or view of freqdp's",
            remedy=f"freqdp has not made schema {names.schema!r}, or its owner has changed it: look at it, "
            "and use another schema, or drop it",
        )
    kind, name = render(identity, names).split(" ", 1)
    return f"DROP {kind} IF EXISTS {name}"


def record_statement(names: Names, position: int, item: SqlObject) -> str:
    """Keep which text an object was made from."""
    table = sql.Identifier(names.schema, "sql_object")
    values = map(sql.Literal, (position, item.path, item.identity, item.kind, item.hash))
    record = sql.SQL("INSERT INTO {} (position, path, identity, kind, hash) VALUES ({})")
    return record.format(table, sql.SQL(", ").join(values)).as_string(None)


def _run_upgrade(connection: Connection, names: Names, result: UpgradeResult) -> None:
    recorded = [] if result.created else recorded_objects(connection, names.schema)
    before = [identity for _, identity, _ in recorded]
    for statement in _statements(names, result.revision_before, before):
        try:
            _run(connection, statement)
        except psycopg.errors.DependentObjectsStillExist as error:
            # Names of relations only: the detail of this error never holds a row.
            dependants = (error.diag.message_detail or "").splitlines()
            dropped = statement.startswith("DROP ")
            replaced = (
                statement.removeprefix("DROP ").replace("IF EXISTS ", "")
                if dropped
                else "tables of freqdp's own"
            )
            raise errors.SchemaInUse(
                f"the upgrade replaces {replaced}, but: " + "; ".join(dependants),
                remedy="drop that object (keep its definition), upgrade, create it again",
            ) from None


# The table `method`: what the installed software declares, for requests in SQL. Only `init` and a release
# have to import the methods.


def declaration_statements(names: Names) -> list[str]:
    """Write all rows anew."""
    from freqdp_db.methods.registry import declarations

    table = sql.Identifier(names.schema, "method")
    statements = [sql.SQL("DELETE FROM {}").format(table)]
    for position, (name, declared) in enumerate(declarations().items()):
        values = map(sql.Literal, (name, position, as_json(declared)))
        insert = sql.SQL("INSERT INTO {} (name, position, declaration) VALUES ({})")
        statements.append(insert.format(table, sql.SQL(", ").join(values)))
    return [statement.as_string(None) for statement in statements]


def _is_declared(connection: Connection, schema: str) -> bool:
    """Whether the table holds what this software declares."""
    from freqdp_db.methods.registry import declarations

    query = sql.SQL("SELECT name, declaration::text FROM {} ORDER BY position")
    rows = connection.execute(query.format(sql.Identifier(schema, "method")))
    found = {name: from_json(text) for name, text in rows}
    return found == from_json(as_json(declarations())) and list(found) == list(declarations())


def require_declared(database: Database) -> None:
    """Refuse to work beside declarations of another software: SQL would check by other rules."""
    with database.begin() as connection:
        if not _is_declared(connection, database.settings.schema):
            raise errors.SchemaStale(
                "the methods that this database knows are not those of this software",
                remedy="run: freqdp init",
            )


def _make_roles(connection: Connection, names: Names, result: UpgradeResult, require: bool) -> bool:
    """Make the roles that are missing, if this login may; whether their rights are to be granted."""
    roles = [f"{names.schema}_{kind}" for kind in ROLES]
    existing = existing_roles(connection, roles)
    missing = [role for role in roles if role not in existing]
    if missing:
        query = "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
        may_create = connection.one_value(query)
        if not may_create:
            if require:
                raise errors.PermissionMissing(
                    "you may not create roles: " + ", ".join(missing), remedy=ROLES_REMEDY
                )
            result.roles_missing = missing
            return False
    try:
        _run(connection, role_statement(names))
    except psycopg.errors.InsufficientPrivilege as error:
        raise errors.PermissionMissing(
            f"{names.schema}_admin is no member of {names.schema}_runner, and you may not make it "
            f"one: {error.diag.message_primary}",
            remedy=ROLES_REMEDY,
        ) from None
    result.roles_created = missing
    query = "SELECT has_schema_privilege(%s, %s, 'USAGE')"
    runner = f"{names.schema}_runner"
    granted = not result.created and connection.one_value(query, [runner, names.schema])
    return bool(missing or require or not granted)


def roles_script(names: Names) -> str:
    """The group roles alone: for somebody with CREATEROLE who has nothing else to do with freqdp."""
    parts = [
        "-- Makes the group roles of freqdp that are missing, and changes nothing else. Then the owner of\n"
        "-- freqdp's schemas runs `freqdp init`, which grants their rights.",
        f"{role_statement(names)};",
    ]
    return "\n\n".join(parts) + "\n"


def script(names: Names, revision: str | None, recorded: list[str]) -> str:
    """The whole upgrade as a SQL script for a DBA, from this revision (None: from nothing).

    recorded: the identities of the functions and views that are there, in order.
    """
    parts: list[str] = ["BEGIN;", f"{PINNED_PATH};", f"{role_statement(names)};"]
    if revision is None:
        for schema in (names.schema, names.release_schema):
            parts += [s + ";" for s in schema_statements(names, schema)]
    else:
        # whoever runs this, all stays with the owner of the schema
        parts.append(f"{ownership_statement(names)};")
        parts.append(BECOME_OWNER.format(schema=literal(names.schema)))
    parts += [s.rstrip().rstrip(";") + ";" for s in _statements(names, revision, recorded)]
    parts += [s + ";" for s in declaration_statements(names)]
    parts += [s + ";" for s in grant_statements(names)]
    parts.append("COMMIT;")
    parts.append(_CLOSE_ESTIMATES.format(close=estimates_closed(names)))
    return "\n\n".join(parts) + "\n"


# The script that removes freqdp from a database again: for a DBA to read and to run.


# Views of others that hang on ours would go with them: they are named, and nothing is dropped.
_GUARD = """DO $guard$
DECLARE
    hanging text;
BEGIN
    SELECT string_agg(DISTINCT format('%I.%I', n.nspname, v.relname), ', ') INTO hanging
    FROM pg_depend AS d
    JOIN pg_rewrite AS r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
    JOIN pg_class AS v ON v.oid = r.ev_class
    JOIN pg_namespace AS n ON n.oid = v.relnamespace
    JOIN pg_class AS c ON c.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass
    JOIN pg_namespace AS s ON s.oid = c.relnamespace
    WHERE s.nspname IN ({schemas}) AND n.nspname NOT IN ({schemas});
    IF hanging IS NOT NULL THEN
        RAISE EXCEPTION 'these hang on relations of freqdp''s: %', hanging
        USING HINT = 'drop them first; nothing was removed';
    END IF;
END $guard$"""

_ROLE = """DO $role$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = {name}) THEN
        DROP OWNED BY {role};
        DROP ROLE {role};
    END IF;
EXCEPTION
    WHEN dependent_objects_still_exist OR object_in_use OR insufficient_privilege THEN
        RAISE NOTICE 'role % stays: another database uses it, or you may not drop it', {name};
END $role$"""


def removal_script(names: Names) -> str:
    """Drop both schemas with all they hold, and the group roles that no other database uses."""
    schemas = ", ".join(literal(s) for s in (names.release_schema, names.schema))
    parts = [
        "-- Removes freqdp from this database: datasets, builds, releases, the ledger of budgets and\n"
        "-- the records of all that was published. There is no way back but a backup. Your own tables\n"
        "-- stay as they are.",
        "BEGIN;",
        _GUARD.format(schemas=schemas) + ";",
        *(
            f"DROP SCHEMA IF EXISTS {quoted(s)} CASCADE;"
            for s in (names.release_schema, names.schema)
        ),
        "COMMIT;",
        "-- Roles belong to the whole server. Each in a transaction of its own: one may have to stay.",
    ]
    # administrators are runners, and so may the others be members of each other: members first
    for kind in ("admin", *(k for k in ROLES if k != "admin")):
        role = f"{names.schema}_{kind}"
        parts.append(_ROLE.format(name=literal(role), role=quoted(role)) + ";")
    return "\n\n".join(parts) + "\n"
