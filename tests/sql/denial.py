"""Who may do what with every object of both schemas, as the live catalogue has it.

Run by hand to write the golden file anew, after a table, a function or a grant was changed:

    python tests/sql/denial.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent)]

import psycopg  # noqa: E402
from library import build_points, make_points, opened, release  # noqa: E402
from psycopg import sql  # noqa: E402

GOLDEN = HERE / "denial_matrix.txt"
ROLES = ("freqdp_admin", "freqdp_runner", "freqdp_analyst", "freqdp_auditor", "PUBLIC")
POINTS = [(f"o{i % 6}", 60.0 * i, 100.0 * (i * 7 % 23), 100.0 * (i * 5 % 11)) for i in range(180)]
_TABLE_VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
_COLUMN_VERBS = ("SELECT", "INSERT", "UPDATE", "REFERENCES")
_SCHEMAS = "('freqdp'::regnamespace, 'freqdp_release'::regnamespace)"
_KINDS = {"r": "table", "p": "table", "v": "view", "S": "sequence", "m": "view", "f": "table"}


def make_world(url: str) -> None:
    """One of everything: a source, a build, a release, a seeded release and a withdrawn one."""
    relation = make_points(url, "points", POINTS)
    with opened(url) as database:
        build_points(database, "d", relation, snap="grid:100")
        release(database, "d", "d_1", epsilon="1", signature=2)
        release(database, "d", "d_seeded", epsilon="1", signature=2, seed=1)


def matrix(url: str) -> list[str]:
    """A line for each object: what each role may do with it; `-` is nothing."""
    lines = []
    with psycopg.connect(url, autocommit=True) as connection:
        # somebody whom nobody has granted anything stands for PUBLIC
        connection.execute("CREATE ROLE freqdp_denial_nobody NOLOGIN")
        try:
            for kind, name, oid in _objects(connection):
                rights = [f"{role}={_rights(connection, kind, oid, role)}" for role in ROLES]
                lines.append(f"{kind} {name}: " + " ".join(rights))
        finally:
            connection.execute("DROP ROLE freqdp_denial_nobody")
    return sorted(lines)


def _objects(connection: psycopg.Connection[Any]) -> list[tuple[str, str, int]]:
    found = [
        ("schema", name, oid)
        for name, oid in connection.execute(
            f"SELECT nspname, oid FROM pg_namespace WHERE oid IN {_SCHEMAS}".encode()
        )
    ]
    found += [
        (_KINDS[kind], name, oid)
        for kind, name, oid in connection.execute(
            "SELECT relkind::text, relnamespace::regnamespace || '.' || relname, oid FROM pg_class "
            f"WHERE relnamespace IN {_SCHEMAS} AND relkind NOT IN ('i', 'I')".encode()
        )
    ]
    found += [
        ("function", name, oid)
        for name, oid in connection.execute(
            "SELECT pronamespace::regnamespace || '.' || proname || '(' || "
            "pg_get_function_identity_arguments(oid) || ')', oid "
            f"FROM pg_proc WHERE pronamespace IN {_SCHEMAS}".encode()
        )
    ]
    return found


def _rights(connection: psycopg.Connection[Any], kind: str, oid: int, role: str) -> str:
    who = "freqdp_denial_nobody" if role == "PUBLIC" else role

    def may(verbs: tuple[str, ...], function: str) -> list[str]:
        statement = sql.SQL("SELECT v FROM unnest(%s::text[]) v WHERE {}(%s::name, %s::oid, v)")
        rows = connection.execute(
            statement.format(sql.Identifier(function)), [list(verbs), who, oid]
        )
        return [row[0] for row in rows]

    if kind == "schema":
        found = may(("USAGE", "CREATE"), "has_schema_privilege")
    elif kind == "function":
        found = may(("EXECUTE",), "has_function_privilege")
    elif kind == "sequence":
        found = may(("USAGE", "SELECT", "UPDATE"), "has_sequence_privilege")
    else:
        found = may(_TABLE_VERBS, "has_table_privilege")
        rest = tuple(verb for verb in _COLUMN_VERBS if verb not in found)
        for verb in may(rest, "has_any_column_privilege"):
            columns = connection.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %(oid)s AND attnum > 0 "
                "AND NOT attisdropped "
                "AND has_column_privilege(%(who)s::name, %(oid)s::oid, attnum, %(verb)s) ORDER BY 1",
                {"oid": oid, "who": who, "verb": verb},
            )
            found.append(f"{verb}({','.join(row[0] for row in columns)})")
    return ",".join(found) or "-"


def main() -> None:
    from servers import SharedServer, cloned

    server = SharedServer.create()
    try:
        with cloned(server.get(), server.template(schema=True)) as url:
            make_world(url)
            GOLDEN.write_text("\n".join(matrix(url)) + "\n")
    finally:
        server.remove()


if __name__ == "__main__":
    main()
