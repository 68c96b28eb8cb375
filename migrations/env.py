"""Alembic's entry point. The connection and the schema names come from `db.schema`.

Upgrades are written as SQL, which `freqdp init` runs or prints; a connection is there for `alembic check`.
"""

from __future__ import annotations

from alembic import context

from freqdp_db.db.tables import metadata_for

config = context.config
names = config.attributes["names"]
tables = metadata_for(names, data=True)


def include_name(name: str | None, type_: str, parent_names: dict[str, str | None]) -> bool:
    """Autogenerate sees our schemas only, and of these what the metadata declares.

    Partitions, staging tables and releases come and go with the data; PostGIS's and the user's
    tables are none of our business.
    """
    if type_ == "schema":
        return name in (names.schema, names.release_schema)
    if type_ == "table":
        return name in {table.name for table in tables.tables.values()}
    return True


if context.is_offline_mode():
    where = {
        "dialect_name": "postgresql",
        "as_sql": True,
        "literal_binds": True,
        "transactional_ddl": False,
    }
else:
    where = {"connection": config.attributes["connection"]}
context.configure(
    **where,
    target_metadata=tables,
    version_table="schema_version",
    version_table_schema=names.schema,
    include_schemas=True,
    include_name=include_name,
    compare_type=True,
    compare_server_default=False,
    # comments are written in the revisions, once, and not repeated in the metadata
    autogenerate_plugins=["alembic.autogenerate.*", "~alembic.autogenerate.comments"],
)
context.run_migrations()
