"""The script that removes freqdp from a database again: for a DBA to read and to run."""

from __future__ import annotations

from freqdp_db.storage.schema.grants import ROLES
from freqdp_db.storage.schema.objects import literal, quoted
from freqdp_db.storage.schema.tables import Names

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
