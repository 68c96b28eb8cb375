"""Recording a request for a release: queueing, names and the row, inside the caller's transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql
from psycopg.types.json import Jsonb

from freqdp_db.errors import AlreadyExists, Busy
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.connection.exact_json import as_json
from freqdp_db.storage.connection.locks import wait_for
from freqdp_db.storage.connection.statements import call, one_value, own
from freqdp_db.storage.records.accounts import accounts_of_same_rows
from freqdp_db.storage.records.datasets import table
from freqdp_db.storage.records.releases import ReleaseRow


def queue_up(connection: Connection, database: Database, dataset_id: int) -> None:
    """Requests for a dataset at the same moment go one after the other, until the end of the transaction.

    So the second of two equal ones finds the record of the first, and no two take the same name.
    """
    wait_for(connection, database, "request", dataset_id)


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


def used_names(connection: Connection, database: Database, begin: str) -> set[str]:
    """Names of releases that begin so."""
    rows = table(database, "release")
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


def record_release(
    connection: Connection,
    database: Database,
    *,
    name: str,
    build_id: int,
    method: str,
    parameters: dict[str, Any],
    grantable: bool,
    held: bool,
    software: str,
    guarantee: dict[str, Any],
) -> ReleaseRow:
    """Record a release and book what it spends, or refuse both."""
    query = sql.SQL(
        "SELECT {}(%s::text, %s::int, %s::text, %s::jsonb, %s::boolean, %s::boolean, %s::text, "
        "%s::jsonb)"
    ).format(own(database, "record_release"))
    values = [
        name, build_id, method, Jsonb(parameters, as_json), grantable, held, software,
        Jsonb(guarantee),
    ]  # fmt: skip
    try:
        release_id = one_value(connection, query, values)
    except psycopg.errors.UniqueViolation:
        raise AlreadyExists(
            f"there is a release {name!r} already", remedy="choose another name with [[name]]"
        ) from None
    rows = table(database, "release")
    row = connection.execute(sa.select(rows).where(rows.c.release_id == release_id)).one()
    return ReleaseRow(**row._mapping)


@dataclass(frozen=True)
class PublishedBeside:
    """A release that analysts may read, of a source that reads the same rows as another."""

    name: str
    dataset: str
    method: str
    parameters: dict[str, Any]
    build_id: int


def published_beside(
    connection: Connection, database: Database, account_id: int
) -> list[PublishedBeside]:
    """Releases that analysts may read, of sources that read the rows of this account's; newest first."""
    releases, datasets = table(database, "release"), table(database, "dataset")
    accounts = accounts_of_same_rows(connection, database, account_id)
    rows = connection.execute(
        sa.select(
            releases.c.name,
            datasets.c.name.label("dataset"),
            releases.c.method,
            releases.c.parameters,
            releases.c.build_id,
        )
        .join(datasets, datasets.c.dataset_id == releases.c.dataset_id)
        .where(
            datasets.c.account_id.in_(accounts),
            releases.c.state == "published",
            releases.c.grantable,
            ~releases.c.held,
        )
        .order_by(releases.c.release_id.desc())
    )
    return [PublishedBeside(**row._mapping) for row in rows]


def method_of(connection: Connection, database: Database, name: str) -> str | None:
    """The method of the newest release of this name, also of one that was withdrawn."""
    releases = table(database, "release")
    found: str | None = connection.execute(
        sa.select(releases.c.method)
        .where(releases.c.name == name)
        .order_by(releases.c.release_id.desc())
    ).scalar()
    return found


def times_overlap(connection: Connection, database: Database, one: int, other: int) -> bool:
    """Whether two builds have samples of the same stretch of time."""
    samples = table(database, "sample")
    (begin, end), (other_begin, other_end) = (
        connection.execute(
            sa.select(sa.func.min(samples.c.at), sa.func.max(samples.c.at)).where(
                samples.c.build_id == build
            )
        ).one()
        for build in (one, other)
    )
    if begin is None or other_begin is None:
        return False
    return bool(begin <= other_end and other_begin <= end)


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
