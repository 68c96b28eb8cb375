"""Recording a request for a release: queueing, names and the row, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.types.json import Jsonb
from sqlalchemy.dialects import postgresql as pg

from freqdp_db.errors import AlreadyExists, Busy
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.connection.exact_json import as_json
from freqdp_db.storage.connection.statements import call
from freqdp_db.storage.records.datasets import table
from freqdp_db.storage.records.releases import ReleaseRow


def queue_up(connection: Connection, database: Database, request_hash: str) -> None:
    """Equal requests at the same moment go one after the other, until the end of the transaction."""
    connection.execute(
        sa.text("SELECT pg_advisory_xact_lock(hashtext(:what), hashtext(:hash))"),
        {"what": f"freqdp {database.settings.schema} request", "hash": request_hash},
    )


def keep_build(connection: Connection, database: Database, build_id: int) -> None:
    """Keep the build from being swept between here and the commit."""
    builds = table(database, "build")
    alive = connection.execute(
        sa.select(builds.c.build_id)
        .where(builds.c.build_id == build_id, builds.c.dropped_at.is_(None))
        .with_for_update(read=True)
    ).scalar()
    if alive is None:
        raise Busy("the dataset was rebuilt at this moment", remedy="run the command again")


def used_names(connection: Connection, database: Database, dataset_id: int, begin: str) -> set[str]:
    """Names of releases that begin so. Held until the commit: two at once do not take the same."""
    rows = table(database, "release")
    connection.execute(
        sa.text("SELECT pg_advisory_xact_lock(hashtext(:what), :dataset)"),
        {"what": f"freqdp {database.settings.schema} name", "dataset": dataset_id},
    )
    return set(
        connection.execute(
            sa.select(rows.c.name).where(rows.c.name.startswith(begin, autoescape=True))
        ).scalars()
    )


def request_hash(
    connection: Connection, database: Database, build_id: int, method: str, parameters: Any
) -> str:
    """What tells that a request was answered before: SQL computes it, for requests in SQL too."""
    exact = Jsonb(parameters, as_json)
    return str(call(connection, database, "request_hash", build_id, method, exact))


def insert_release(
    connection: Connection, database: Database, parameters: dict[str, Any], **values: Any
) -> ReleaseRow:
    """Record a release."""
    rows = table(database, "release")
    exact = sa.literal(as_json(parameters), sa.Text).cast(pg.JSONB)
    try:
        row = connection.execute(
            sa.insert(rows).values(parameters=exact, **values).returning(rows)
        ).one()
    except sa.exc.IntegrityError as error:
        if isinstance(error.orig, psycopg.errors.UniqueViolation):
            raise AlreadyExists(
                f"there is a release {values['name']!r} already",
                remedy="choose another name with --as",
            ) from None
        raise
    return ReleaseRow(**row._mapping)


def linked_releases(
    connection: Connection, database: Database, account_id: int, moving: Collection[str]
) -> list[str]:
    """Published releases of the same source in which a trajectory is one object's, newest first.

    moving: methods that move an object's samples, besides those that edit them.
    """
    releases = table(database, "release")
    which = (releases.c.kind == "edited") | releases.c.method.in_(moving)
    return _granted(connection, database, account_id, which)


def unlinked_releases(connection: Connection, database: Database, account_id: int) -> list[str]:
    """Published releases of the same source that unlink, newest first.

    But those of which it was accepted (`--beside`) that another one undoes it.
    """
    releases = table(database, "release")
    accepted = releases.c.parameters.has_key("beside")
    return _granted(connection, database, account_id, (releases.c.kind == "unlinked") & ~accepted)


def _granted(
    connection: Connection, database: Database, account_id: int, which: sa.ColumnElement[bool]
) -> list[str]:
    """Names of releases of the same source that analysts may read, newest first."""
    releases, datasets = table(database, "release"), table(database, "dataset")
    return list(
        connection.execute(
            sa.select(releases.c.name)
            .join(datasets, datasets.c.dataset_id == releases.c.dataset_id)
            .where(
                datasets.c.account_id == account_id,
                releases.c.state == "published",
                releases.c.grantable,
                ~releases.c.held,
                which,
            )
            .order_by(releases.c.release_id.desc())
        ).scalars()
    )


@dataclass(frozen=True)
class Provenance:
    """What the catalogue says of where a release comes from."""

    dataset: str
    ledger_head: str


def provenance(database: Database, release: ReleaseRow) -> Provenance:
    spends, datasets = table(database, "spend"), table(database, "dataset")
    with database.begin() as connection:
        head = connection.execute(
            sa.select(spends.c.hash).where(spends.c.release_id == release.release_id)
        ).scalar_one()
        dataset = connection.execute(
            sa.select(datasets.c.name).where(datasets.c.dataset_id == release.dataset_id)
        ).scalar_one()
    return Provenance(dataset, head)


def give_up(database: Database, release_id: int) -> None:
    """Mark an unfinished release as abandoned."""
    releases = table(database, "release")
    with database.begin() as connection:
        connection.execute(
            sa.update(releases)
            .where(releases.c.release_id == release_id)
            .values(state="abandoned", withdrawn_at=sa.func.now())
        )
