"""freqdp as an extension of PostgreSQL: the files for CREATE EXTENSION, made of what `init` runs.

pg_dump writes CREATE EXTENSION in place of an extension's objects, before all tables. So tables are not
part of it (their rows would be lost), nor is what cannot be made without tables: views, and functions
with a parsed body (BEGIN ATOMIC). Its procedure `install` makes these outside of it.
"""

from __future__ import annotations

from freqdp_db.db.connection import PINNED_PATH
from freqdp_db.db.names import format_name, literal, quoted
from freqdp_db.db.rights import grant_statements, role_statement
from freqdp_db.db.schema import (
    BECOME_OWNER,
    EXTENSION,
    RECORDED,
    SqlObject,
    all_revisions,
    declaration_statements,
    head_revision,
    load_objects,
    ownership_statement,
    record_statement,
    schema_statements,
    tables_script,
)
from freqdp_db.db.tables import Names

_CONTROL = """\
comment = {comment}
default_version = {version}
schema = {schema}
requires = 'postgis'
relocatable = false
superuser = false
encoding = 'UTF8'
"""
_SCRIPT = """\
-- The functions of freqdp {version}, for CREATE EXTENSION {extension}; ALTER EXTENSION {extension} UPDATE.
-- Then CALL {schema}.install(), which makes tables and views, or upgrades them.

{pinned};

{postgis}

-- What is there already is replaced: functions and views of `freqdp init`, or of the version before.
{drop}

{members}

CREATE OR REPLACE PROCEDURE {schema}.install()
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS {install};
COMMENT ON PROCEDURE {schema}.install() IS
'Makes or upgrades what is outside of the extension: tables, views, roles, rights. Twice changes nothing.';
REVOKE ALL ON PROCEDURE {schema}.install() FROM PUBLIC;

{own}
"""
_POSTGIS = """DO $postgis$
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
        WHERE e.extname = 'postgis' AND n.nspname = {postgis}
    ) THEN
        RAISE EXCEPTION 'PostGIS is not in schema %, for which this extension was made', {postgis}
        USING HINT = 'make its files with `freqdp init --extension`, connected to this database';
    END IF;
END $postgis$;"""
_DROP = """DO $drop$
DECLARE
    item text;
BEGIN
    IF to_regclass({table}) IS NULL THEN
        RETURN;
    END IF;
    -- whoever runs this runs what stands there
    IF (SELECT c.relkind FROM pg_class AS c WHERE c.oid = to_regclass({table})) <> 'r' THEN
        RAISE EXCEPTION '% is not a table of freqdp', {table};
    END IF;
    FOR item IN
        SELECT o.identity FROM {schema}.sql_object AS o{outside}
        ORDER BY o.position DESC
    LOOP
        IF item !~ {recorded} THEN
            RAISE EXCEPTION '% has a row that is no function or view of freqdp', {table};
        END IF;
        item := overlay(item PLACING ' IF EXISTS' FROM strpos(item, ' ') FOR 0);
        item := replace(replace(item, '${{private}}', {private}), '${{release}}', {release});
        EXECUTE 'DROP ' || replace(item, '${{postgis}}', {postgis});
    END LOOP;
    DELETE FROM {schema}.sql_object;
END $drop$;"""
# A superuser who restores a dump makes the extension, too.
_OWN = """DO $own$
DECLARE
    item record;
BEGIN
    FOR item IN
        SELECT p.oid::regprocedure AS routine, n.nspowner::regrole AS owner
        FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
        WHERE n.nspname = {schema} AND p.proowner <> n.nspowner
    LOOP
        EXECUTE format('ALTER ROUTINE %s OWNER TO %s', item.routine, item.owner);
    END LOOP;
END $own$;"""
_INSTALL = """
DECLARE
    caller constant text := current_setting('role');
    revision text;
    found text;
BEGIN
    EXECUTE {roles};
    IF to_regnamespace({release}) IS NULL THEN
        EXECUTE {schemas};
    END IF;
    EXECUTE {own};
    IF to_regclass({version_table}) IS NOT NULL THEN
        EXECUTE {ownership};
        SELECT v.version_num INTO revision FROM {version_table_name} AS v;
    END IF;
    EXECUTE {become_owner};
    IF revision = {head} THEN
        SELECT string_agg(o.hash, ' ' ORDER BY o.position) INTO found FROM {schema}.sql_object AS o;
    END IF;
    IF found IS DISTINCT FROM {expected} THEN
        EXECUTE {drop};
{steps}
        IF revision <> {head} THEN
            RAISE EXCEPTION 'the tables are of revision %, which freqdp {version} does not know', revision;
        END IF;
        EXECUTE {objects};
    END IF;
    EXECUTE {rights};
    PERFORM set_config('role', caller, true);
END
"""


def extension_files(names: Names, version: str, installed: str | None = None) -> dict[str, str]:
    """Texts by file name: for the server's extension directory, and `pg_tle.sql` for pg_tle.

    installed: the version of the extension that is there. If it is another one, its update is among them.
    """
    text = _script(names, version)
    comment = (
        f"freqdp: anonymization of trajectories. CALL {names.schema}.install() makes its tables"
    )
    described = {"comment": comment, "version": version, "schema": names.schema}
    # a control file is read as postgresql.conf is
    control = {key: literal(value).replace("\\", "\\\\") for key, value in described.items()}
    files = {
        f"{EXTENSION}.control": _CONTROL.format(**control),
        f"{EXTENSION}--{version}.sql": text,
    }
    name, to, body = literal(EXTENSION), literal(version), _dollar_quoted(text)
    if installed in (None, version):
        schema = literal(names.schema)
        register = f"""SELECT pgtle.install_extension({name}, {to}, {literal(comment)},
{body}, ARRAY['postgis'], {schema});"""
    else:
        files[f"{EXTENSION}--{installed}--{version}.sql"] = text
        register = f"""SELECT pgtle.install_extension_version_sql({name}, {to}, {body});
SELECT pgtle.install_update_path({name}, {literal(installed)}, {to}, {body});
SELECT pgtle.set_default_version({name}, {to});"""
    return files | {"pg_tle.sql": f"BEGIN;\n{register}\nCOMMIT;\n"}


def extension_statements(names: Names, version: str, installed: str | None) -> list[str]:
    """What to run in the database, once the files are on the server."""
    updates = installed not in (None, version)
    first = f"ALTER EXTENSION {EXTENSION} UPDATE" if updates else f"CREATE EXTENSION {EXTENSION}"
    return [first, f"CALL {format_name(names.schema)}.install()"]


def _is_member(item: SqlObject) -> bool:
    """Whether it can be made before the tables, in the schema of the extension."""
    return item.identity.startswith("FUNCTION ${private}.") and "LANGUAGE plpgsql" in item.text


def _script(names: Names, version: str) -> str:
    schema = quoted(names.schema)
    return _SCRIPT.format(
        version=version,
        extension=EXTENSION,
        schema=schema,
        pinned=PINNED_PATH,
        postgis=_POSTGIS.format(postgis=literal(names.postgis)),
        drop=_drop(names),
        members="\n\n".join(o.text.strip() for o in load_objects(names) if _is_member(o)),
        install=_dollar_quoted(_install(names, version)),
        own=_OWN.format(schema=literal(names.schema)),
    )


def _drop(names: Names, where: str = "") -> str:
    return _DROP.format(
        schema=quoted(names.schema),
        table=literal(f"{quoted(names.schema)}.sql_object"),
        recorded=literal(f"^{RECORDED.pattern}$"),
        outside=where,
        private=literal(quoted(names.schema)),
        release=literal(quoted(names.release_schema)),
        postgis=literal(quoted(names.postgis)),
    )


def _install(names: Names, version: str) -> str:
    """The body of the procedure."""
    schema = quoted(names.schema)
    objects = load_objects(names)
    outside = [o for o in objects if not _is_member(o)]
    made = ", ".join(literal(o.path) for o in objects if _is_member(o))
    steps, before = [], None
    for revision in all_revisions():
        test = "IS NULL" if before is None else f"= {literal(before)}"
        steps += [
            f"        IF revision {test} THEN",
            f"            EXECUTE {_dollar_quoted(tables_script(names, before, revision))};",
            f"            revision := {literal(revision)};",
            "        END IF;",
        ]
        before = revision
    head = head_revision()
    comment = f"COMMENT ON TABLE {schema}.schema_version IS 'Revision of the tables (Alembic).'"
    records = [record_statement(names, position, item) for position, item in enumerate(objects)]
    create, *comments = schema_statements(names, names.release_schema)
    schemas = [create, *comments, *schema_statements(names, names.schema)[1:]]
    return _INSTALL.format(
        version=version,
        schema=schema,
        roles=_block([role_statement(names)]),
        release=literal(quoted(names.release_schema)),
        schemas=_block(schemas),
        own=_block([_OWN.format(schema=literal(names.schema))]),
        version_table=literal(f"{schema}.schema_version"),
        version_table_name=f"{schema}.schema_version",
        ownership=_block([ownership_statement(names)]),
        become_owner=_block([BECOME_OWNER.format(schema=literal(names.schema))]),
        head=literal(head),
        expected=literal(" ".join(o.hash for o in objects)),
        drop=_block([_drop(names, f"\n        WHERE o.path NOT IN ({made})")]),
        steps="\n".join(steps),
        objects=_block([comment, *(o.text for o in outside), *records]),
        rights=_block([*declaration_statements(names), *grant_statements(names)]),
    )


def _block(statements: list[str]) -> str:
    """Statements as one text for EXECUTE."""
    return _dollar_quoted("\n".join(s.strip().rstrip(";") + ";" for s in statements))


def _dollar_quoted(text: str) -> str:
    number = 1
    while f"$text{number}$" in text:
        number += 1
    return f"$text{number}${text}$text{number}$"
