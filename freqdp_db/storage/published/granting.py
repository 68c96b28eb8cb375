"""Who may read a published release: analysts, from when it is granted until it is withdrawn.

A release is taken back first from its readers, then from the disk. The first step waits for nobody:
whoever reads the tables goes on until the end of that transaction, and nobody begins anew. The second
waits for readers and for views that hang on the tables, and is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from freqdp_db.errors import Busy, SchemaInUse
from freqdp_db.storage.connection.engine import Connection, Database, translated
from freqdp_db.storage.connection.locks import limit_waiting
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.connection.statements import call
from freqdp_db.storage.published.current import current_names, show_newest
from freqdp_db.storage.published.relations import dependants
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


def revoke_release(database: Database, release: ReleaseRow) -> None:
    """Let nobody read a release any more, and take it from the catalogue. The record stays."""
    releases, catalog = table(database, "release"), table(database, "catalog", released=True)
    with database.begin() as connection:
        limit_waiting(connection, LOCK_TIMEOUT)
        connection.execute(
            sa.update(releases)
            .where(releases.c.release_id == release.release_id)
            .values(state="withdrawing", withdrawn_at=sa.func.now())
        )
        connection.execute(sa.delete(catalog).where(catalog.c.name == release.name))
        call(connection, database, "revoke_release", release.release_id, "")
        if _is_current(connection, database, release):
            try:
                with translated(database), connection.begin_nested():
                    show_newest(connection, database, release.dataset_id)
            except (Busy, SchemaInUse):
                # the views show it with the rights of their owner
                call(connection, database, "revoke_release", release.release_id, "_current")


def drop_release(database: Database, release: ReleaseRow) -> None:
    """Drop the tables of a release that nobody may read; or empty them, and say what hangs on them."""
    releases = table(database, "release")
    with database.begin() as connection:
        limit_waiting(connection, LOCK_TIMEOUT)
        if _is_current(connection, database, release):
            show_newest(connection, database, release.dataset_id)
        hanging = hanging_on(connection, database.settings.release_schema, release.relation_names)
        call(connection, database, "drop_release", release.release_id, bool(hanging))
        if not hanging:
            connection.execute(
                sa.update(releases)
                .where(releases.c.release_id == release.release_id)
                .values(state="withdrawn")
            )
    require_none(hanging)


def hanging_on(
    connection: Connection, schema: str, relations: Sequence[str]
) -> list[tuple[str, str]]:
    """Views of others that read relations of a release, each with what it is."""
    found = [view for relation in relations for view in dependants(connection, schema, relation)]
    own = {(schema, relation) for relation in relations}
    return [(kind, format_relation(*view)) for kind, *view in found if tuple(view) not in own]


def require_none(hanging: list[tuple[str, str]]) -> None:
    if hanging:
        raise SchemaInUse(
            "these views hang on it: " + ", ".join(view for _, view in hanging),
            remedy="; ".join(f"DROP {kind} {view}" for kind, view in hanging),
        )


def _is_current(connection: Connection, database: Database, release: ReleaseRow) -> bool:
    """Whether views of its dataset show the release."""
    schema = database.settings.release_schema
    datasets = table(database, "dataset")
    dataset: str = connection.execute(
        sa.select(datasets.c.name).where(datasets.c.dataset_id == release.dataset_id)
    ).scalar_one()
    return bool(showing(connection, schema, release.relation_names, dataset))


def showing(
    connection: Connection, schema: str, relations: Sequence[str], dataset: str
) -> list[str]:
    """The views over the newest release of a dataset that read these relations."""
    found = {tuple(v) for of in relations for _, *v in dependants(connection, schema, of)}
    return [view for view in current_names(dataset).values() if (schema, view) in found]
