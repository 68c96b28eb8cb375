"""Take a release's tables back: in one transaction, or not at all."""

from __future__ import annotations

import sqlalchemy as sa
from psycopg import sql

from freqdp_db.errors import SchemaInUse
from freqdp_db.storage.connection.engine import Database, driver
from freqdp_db.storage.connection.locks import limit_waiting
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.published.current import current_of, show_newest
from freqdp_db.storage.published.relations import (
    PARTS,
    dependants,
    relation_exists,
    role_exists,
)
from freqdp_db.storage.published.waiting import LOCK_TIMEOUT
from freqdp_db.storage.records.datasets import table


def withdraw_tables(database: Database, release_id: int, name: str) -> None:
    """Revoke, empty, remove from the catalogue and drop. The record stays."""
    released = database.settings.release_schema
    releases, catalog = table(database, "release"), table(database, "catalog", released=True)
    with database.begin() as connection:
        raw = driver(connection)
        limit_waiting(connection, LOCK_TIMEOUT)
        found = [view for part in PARTS for view in dependants(connection, released, name + part)]
        views = {(released, view) for view in current_of(connection, database, release_id)}
        current = any(tuple(view) in views for _, *view in found)
        ours = {*views, (released, f"{name}_trip")}
        hanging = [
            (kind, format_relation(*view)) for kind, *view in found if tuple(view) not in ours
        ]
        if hanging:
            raise SchemaInUse(
                f"release {name!r} cannot be withdrawn while these views hang on it: "
                + ", ".join(view for _, view in hanging),
                remedy="drop them first: " + "; ".join(f"DROP {kind} {v}" for kind, v in hanging),
            )
        dataset_id = connection.execute(
            sa.update(releases)
            .where(releases.c.release_id == release_id)
            .values(state="withdrawn", withdrawn_at=sa.func.now())
            .returning(releases.c.dataset_id)
        ).scalar_one()
        if current:
            show_newest(connection, database, dataset_id)
        raw.execute(
            sql.SQL("DROP VIEW IF EXISTS {}").format(sql.Identifier(released, f"{name}_trip"))
        )
        for relation in (name, f"{name}_line"):
            if not relation_exists(connection, released, relation):
                continue  # dropped or renamed by hand: what is left of the release still goes
            target = sql.Identifier(released, relation)
            if role_exists(connection, database, "analyst"):
                raw.execute(
                    sql.SQL("REVOKE ALL ON {} FROM {}").format(
                        target, sql.Identifier(database.settings.role("analyst"))
                    )
                )
            raw.execute(sql.SQL("TRUNCATE {}").format(target))
            raw.execute(sql.SQL("DROP TABLE {}").format(target))
        connection.execute(sa.delete(catalog).where(catalog.c.name == name))
