"""Who may read a published release: analysts, from the moment it is granted to them."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.connection.locks import limit_waiting
from freqdp_db.storage.connection.statements import call
from freqdp_db.storage.published.current import show_newest
from freqdp_db.storage.published.waiting import LOCK_TIMEOUT, patient
from freqdp_db.storage.records.datasets import table
from freqdp_db.storage.records.releases import ReleaseRow


@patient
def approve_release(
    show: bool,
    database: Database,
    release: ReleaseRow,
    check: Callable[[Connection], None],
) -> None:
    """Grant a release that was held, say so in the catalogue, and show it as the newest: at once.

    check: raises, in the same transaction, if it must not be granted.
    """
    catalog = table(database, "catalog", released=True)
    with database.begin() as connection:
        check(connection)
        limit_waiting(connection, LOCK_TIMEOUT)
        call(connection, database, "approve_release", release.release_id)
        connection.execute(
            sa.update(catalog).where(catalog.c.name == release.name).values(granted=True)
        )
        call(connection, database, "grant_release", release.release_id)
        if show:
            show_newest(connection, database, release.dataset_id)
