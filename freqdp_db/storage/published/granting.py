"""Who may read a published release: analysts, from the moment it is granted to them."""

from __future__ import annotations

import sqlalchemy as sa

from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.connection.locks import limit_waiting
from freqdp_db.storage.published.current import show_newest
from freqdp_db.storage.published.relations import PARTS, let_analysts_read, relation_exists
from freqdp_db.storage.published.waiting import LOCK_TIMEOUT, patient
from freqdp_db.storage.records.datasets import table
from freqdp_db.storage.records.releases import ReleaseRow


def grant_to_analysts(connection: Connection, database: Database, name: str) -> None:
    """Let analysts read all parts of a release that are there."""
    for part in PARTS:
        if relation_exists(connection, database.settings.release_schema, name + part):
            let_analysts_read(connection, database, name + part)


@patient
def approve_release(database: Database, release: ReleaseRow) -> None:
    """Grant a release that was held, say so in the catalogue, and show it as the newest: at once."""
    releases, catalog = table(database, "release"), table(database, "catalog", released=True)
    with database.begin() as connection:
        limit_waiting(connection, LOCK_TIMEOUT)
        connection.execute(
            sa.update(releases)
            .where(releases.c.release_id == release.release_id)
            .values(held=False, approved_at=sa.func.now(), approved_by=sa.text("session_user"))
        )
        connection.execute(
            sa.update(catalog).where(catalog.c.name == release.name).values(granted=True)
        )
        grant_to_analysts(connection, database, release.name)
        show_newest(connection, database, release.dataset_id)
