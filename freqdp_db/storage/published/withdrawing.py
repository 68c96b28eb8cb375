"""Take a release's tables back: first from its readers, then from the disk.

The first step waits for nobody: whoever reads the tables goes on until the end of that transaction, and
nobody begins anew. The second waits for readers and for views that hang on the tables, and is tried again.
"""

from __future__ import annotations

import sqlalchemy as sa

from freqdp_db.errors import Busy, SchemaInUse
from freqdp_db.storage.connection.engine import Connection, Database, translated
from freqdp_db.storage.connection.locks import limit_waiting
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.connection.statements import call
from freqdp_db.storage.published.current import current_of, show_newest
from freqdp_db.storage.published.relations import PARTS, dependants
from freqdp_db.storage.published.waiting import LOCK_TIMEOUT
from freqdp_db.storage.records.datasets import table


def revoke_release(database: Database, release_id: int, name: str) -> None:
    """Let nobody read a release any more, and take it from the catalogue. The record stays."""
    releases, catalog = table(database, "release"), table(database, "catalog", released=True)
    with database.begin() as connection:
        limit_waiting(connection, LOCK_TIMEOUT)
        dataset_id = connection.execute(
            sa.update(releases)
            .where(releases.c.release_id == release_id)
            .values(state="withdrawing", withdrawn_at=sa.func.now())
            .returning(releases.c.dataset_id)
        ).scalar_one()
        connection.execute(sa.delete(catalog).where(catalog.c.name == name))
        call(connection, database, "revoke_release", release_id, "")
        if _is_current(connection, database, release_id, name):
            try:
                with translated(database), connection.begin_nested():
                    show_newest(connection, database, dataset_id)
            except (Busy, SchemaInUse):
                # the views show it with the rights of their owner
                call(connection, database, "revoke_release", release_id, "_current")


def drop_release(database: Database, release_id: int, name: str) -> None:
    """Drop the tables of a release that nobody may read; or empty them, and say what hangs on them."""
    releases = table(database, "release")
    with database.begin() as connection:
        limit_waiting(connection, LOCK_TIMEOUT)
        dataset_id = connection.execute(
            sa.select(releases.c.dataset_id).where(releases.c.release_id == release_id)
        ).scalar_one()
        if _is_current(connection, database, release_id, name):
            show_newest(connection, database, dataset_id)
        hanging = hanging_on(connection, database.settings.release_schema, name)
        call(connection, database, "drop_release", release_id, bool(hanging))
        if not hanging:
            connection.execute(
                sa.update(releases)
                .where(releases.c.release_id == release_id)
                .values(state="withdrawn")
            )
    require_none(hanging)


def hanging_on(connection: Connection, schema: str, name: str) -> list[tuple[str, str]]:
    """Views of others that read a release, each with what it is."""
    found = [view for part in PARTS for view in dependants(connection, schema, name + part)]
    return [
        (kind, format_relation(*view))
        for kind, *view in found
        if tuple(view) != (schema, f"{name}_trip")
    ]


def require_none(hanging: list[tuple[str, str]]) -> None:
    if hanging:
        raise SchemaInUse(
            "these views hang on it: " + ", ".join(view for _, view in hanging),
            remedy="; ".join(f"DROP {kind} {view}" for kind, view in hanging),
        )


def _is_current(connection: Connection, database: Database, release_id: int, name: str) -> bool:
    """Whether views of its dataset show the release."""
    schema = database.settings.release_schema
    found = {tuple(v) for part in PARTS for _, *v in dependants(connection, schema, name + part)}
    views = current_of(connection, database, release_id)
    return any((schema, view) in found for view in views)
