"""Names of relations as people type them, by PostgreSQL's own quoting rules; where PostGIS is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from psycopg import sql

from freqdp_db.errors import BadInput, PermissionMissing
from freqdp_db.settings import MAX_IDENTIFIER_BYTES

if TYPE_CHECKING:
    from freqdp_db.db.connection import Connection

_PART = re.compile(r'"((?:[^"\x00]|"")*)"|([^\W\d][\w$]*)')
_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")


def parse_relation(text: str, option: str = "the name", *, fold: bool = True) -> tuple[str, str]:
    """Split `table`, `schema.table` or `"My Schema"."t.x"` into (schema, name).

    Unquoted parts are folded to lower case, as PostgreSQL does; without `fold` they stay as typed.
    The schema is `public` only when it is left out. Raises BadInput, naming `option`.
    """
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise _malformed(text, option)
        quoted, plain = match.groups()
        unquoted = _fold(plain) if plain is not None and fold else plain
        parts.append(unquoted if quoted is None else quoted.replace('""', '"'))
        position = match.end()
        if position == len(text):
            break
        if text[position] != "." or len(parts) == 2:
            raise _malformed(text, option)
        position += 1
    for part in parts:
        if not part:
            raise _malformed(text, option)
        if len(part.encode()) > MAX_IDENTIFIER_BYTES:
            raise BadInput(
                f"{option} {text!r} has a part of more than {MAX_IDENTIFIER_BYTES} bytes",
                remedy="PostgreSQL would cut it off; give a shorter name",
            )
    return (parts[0], parts[1]) if len(parts) == 2 else ("public", parts[0])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that begins a remedy, if something that there is is called almost so."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {format_name(close[0])}? " if close else ""


def format_relation(schema: str, name: str) -> str:
    """The name as it can be typed again: quoted where PostgreSQL would need it."""
    return f"{format_name(schema)}.{format_name(name)}"


def format_name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


def quoted(identifier: str) -> str:
    """A name, in double quotes in any case."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _fold(name: str) -> str:
    # Only ASCII letters: what the server does with others depends on its encoding.
    return "".join(c.lower() if c.isascii() else c for c in name)


def _malformed(text: str, option: str) -> BadInput:
    return BadInput(
        f"{option} {text!r} is not a name of the form schema.table",
        remedy='write schema.table; other characters need double quotes: "My Schema".t',
    )


# Where PostGIS is: its functions and types are always named with their schema.


_TRUSTED = """
    WITH postgis AS (
        SELECT n.oid, n.nspname, n.nspacl, n.nspowner, e.extowner FROM pg_extension e
        JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'postgis'
    ), trusted AS (
        SELECT r.oid FROM pg_roles r, postgis p WHERE r.rolsuper OR r.oid IN (p.nspowner, p.extowner)
        OR r.oid = (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
    )
    SELECT p.nspname FROM postgis p
    WHERE NOT EXISTS (SELECT FROM aclexplode(coalesce(p.nspacl, acldefault('n', p.nspowner))) a
            WHERE a.privilege_type = 'CREATE' AND a.grantee NOT IN (SELECT oid FROM trusted))
        AND NOT EXISTS (SELECT FROM pg_proc f
            WHERE f.pronamespace = p.oid AND f.proowner NOT IN (SELECT oid FROM trusted))
        AND NOT EXISTS (SELECT FROM pg_operator o
            WHERE o.oprnamespace = p.oid AND o.oprowner NOT IN (SELECT oid FROM trusted))
    """


def find_postgis(connection: Connection) -> str | None:
    """The schema that PostGIS is installed in."""
    query = (
        "SELECT n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n "
        "ON n.oid = e.extnamespace WHERE e.extname = 'postgis'"
    )
    found: str | None = connection.one_value(query)
    return found


def postgis_schema(connection: Connection) -> str:
    """The same, or a refusal."""
    found = find_postgis(connection)
    if found is None:
        raise PermissionMissing(
            "this database has no PostGIS",
            remedy="as a superuser or the database's owner: CREATE EXTENSION postgis",
        )
    return found


def trusted_postgis(connection: Connection) -> str | None:
    """The schema of PostGIS, if nobody but superusers and owners makes functions and operators there.

    None: somebody else may, or did: what is called there without its schema could be theirs.
    """
    found: str | None = connection.one_value(_TRUSTED)
    return found


def geometry_type(postgis: str, kind: str, srid: int) -> sql.Composed:
    """The type of a column of such geometries: Point, LineString, ..."""
    return sql.SQL("{}({}, {})").format(
        sql.Identifier(postgis, "geometry"), sql.SQL(kind), sql.Literal(srid)
    )


# Columns with few values, as numbers: rows of one width.


def as_text(column: sql.Composable) -> sql.Composed:
    """A column as text, compared by its bytes."""
    return sql.SQL('({}::text COLLATE "C")').format(column)


def number_of_value(column: sql.Composable, values: Sequence[str]) -> sql.Composed:
    """Which of these values a column has, from 1; 0: NULL."""
    return sql.SQL("coalesce(array_position({}::text[], {}), 0)").format(
        sql.Literal(list(values)), as_text(column)
    )
