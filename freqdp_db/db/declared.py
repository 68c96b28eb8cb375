"""The table `method`: what the installed software declares, for requests in SQL."""

from __future__ import annotations

import sqlalchemy as sa
from psycopg import sql

from freqdp_db.db.connection import Connection, Database, driver
from freqdp_db.db.exact_json import as_json, from_json
from freqdp_db.db.tables import Names
from freqdp_db.errors import SchemaStale
from freqdp_db.methods.registry import declarations


def declaration_statements(names: Names) -> list[str]:
    """Write all rows anew."""
    table = sql.Identifier(names.schema, "method")
    statements = [sql.SQL("DELETE FROM {}").format(table)]
    for position, (name, declared) in enumerate(declarations().items()):
        values = map(sql.Literal, (name, position, as_json(declared)))
        statements.append(
            sql.SQL("INSERT INTO {} (name, position, declaration) VALUES ({})").format(
                table, sql.SQL(", ").join(values)
            )
        )
    return [statement.as_string(None) for statement in statements]


def is_declared(connection: Connection, schema: str) -> bool:
    """Whether the table holds what this software declares."""
    rows = driver(connection).execute(
        sql.SQL("SELECT name, declaration::text FROM {} ORDER BY position").format(
            sql.Identifier(schema, "method")
        )
    )
    found = {name: from_json(text) for name, text in rows}
    return found == from_json(as_json(declarations())) and list(found) == list(declarations())


def require_declared(database: Database) -> None:
    """Refuse to work beside declarations of another software: SQL would check by other rules."""
    with database.begin() as connection:
        if not is_declared(connection, database.settings.schema):
            raise SchemaStale(
                "the methods that this database knows are not those of this software",
                remedy="run: freqdp init",
            )


def declare(connection: sa.Connection, names: Names) -> bool:
    """Write the declarations if they are not there; whether they were written."""
    if is_declared(connection, names.schema):
        return False
    for statement in declaration_statements(names):
        driver(connection).execute(statement)
    return True
