"""Rows of `release` and what belongs to one: requests, steps, the key, what is erased."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa
from psycopg import sql
from psycopg.types.json import Jsonb

from freqdp_db.db.builds import BuildRow
from freqdp_db.db.connection import Connection, Database, driver
from freqdp_db.db.copy import Layout, read_arrays, write_records
from freqdp_db.db.datasets import table
from freqdp_db.db.exact_json import as_json
from freqdp_db.db.ledger import accounts_of_same_rows
from freqdp_db.db.locks import wait_for
from freqdp_db.db.names import did_you_mean
from freqdp_db.db.statements import call, one_value, private_name, rows_as, select_own
from freqdp_db.errors import AlreadyExists, Busy, NotFound
from freqdp_db.model.arrays import Ints


@dataclass(frozen=True)
class ReleaseRow:
    """A release that was asked for."""

    release_id: int
    name: str
    dataset_id: int
    build_id: int
    method: str
    kind: str
    parameters: dict[str, Any]
    grantable: bool
    request_hash: str
    state: str
    version: int | None
    software: str
    requested_at: datetime
    requested_by: str
    published_at: datetime | None
    withdrawn_at: datetime | None
    rows: int | None
    guarantee: dict[str, Any]
    user_level: dict[str, Any] | None
    timings: dict[str, float] | None
    held: bool
    approved_at: datetime | None
    approved_by: str | None
    relations: list[str] | None
    """What follows its name in those of its tables and views, once they are published."""
    digests: dict[str, Any] | None
    """What was verified last: see `release.verification`."""
    series: str | None
    """The series whose window it is; None: it stands by itself."""

    @property
    def relation_names(self) -> list[str]:
        """Of its tables and views, in the schema of releases."""
        return [self.name + suffix for suffix in self.relations or ()]

    @property
    def granted(self) -> bool:
        """Whether analysts may read it, once it is published."""
        return self.grantable and not self.held


@dataclass(frozen=True)
class StepRow:
    """One step of a release."""

    release_id: int
    step: int
    mechanism: str
    drawn: int
    software: str
    counts: dict[str, float] | None
    digest: str | None


_KEY = Layout([("trajectory_id", "int4"), ("released_id", "int8")])


def find_release(database: Database, name: str) -> ReleaseRow:
    """The release of this name: the live one, else the newest that was withdrawn."""
    releases = table(database, "release")
    with database.begin() as connection:
        row = connection.execute(
            sa.select(releases)
            .where(releases.c.name == name)
            .order_by(
                releases.c.state.in_(["withdrawn", "abandoned"]), releases.c.release_id.desc()
            )
        ).first()
    if row is None:
        if windows := list_windows(database, name):
            raise NotFound(
                f"{name!r} is a series, and this is done with one window of it",
                remedy=f"name the window, such as {windows[-1].name}; `freqdp release list` shows them",
            )
        rows = list_releases(database)
        known = [release.name for release in rows] + [r.series for r in rows if r.series]
        raise NotFound(
            f"there is no release {name!r}",
            remedy=did_you_mean(name, known) + "`freqdp release list` shows what there is",
        )
    return ReleaseRow(**row._mapping)


def get_release(database: Database, release_id: int) -> ReleaseRow:
    releases = table(database, "release")
    with database.begin() as connection:
        row = connection.execute(
            sa.select(releases).where(releases.c.release_id == release_id)
        ).one()
    return ReleaseRow(**row._mapping)


def list_releases(database: Database, state: str | None = None) -> list[ReleaseRow]:
    """All releases, or those in a state, oldest first."""
    releases = table(database, "release")
    wanted = sa.true() if state is None else releases.c.state == state
    with database.begin() as connection:
        rows = connection.execute(sa.select(releases).where(wanted).order_by(releases.c.release_id))
        return [ReleaseRow(**row._mapping) for row in rows]


def list_windows(database: Database, series: str) -> list[ReleaseRow]:
    """The published windows of a series, also those that are held, oldest first."""
    releases, builds = table(database, "release"), table(database, "build")
    with database.begin() as connection:
        rows = connection.execute(
            sa.select(releases)
            .join(builds, builds.c.build_id == releases.c.build_id)
            .where(
                releases.c.series == series,
                releases.c.state == "published",
            )
            .order_by(builds.c.window_begin, releases.c.release_id)
        )
        return [ReleaseRow(**row._mapping) for row in rows]


def same_request(
    connection: Connection, database: Database, request_hash: str
) -> ReleaseRow | None:
    """The newest release that answers the same request and was not withdrawn."""
    releases = table(database, "release")
    row = connection.execute(
        sa.select(releases)
        .where(
            releases.c.request_hash == request_hash,
            releases.c.state.in_(["running", "published"]),
        )
        .order_by(releases.c.release_id.desc())
    ).first()
    return None if row is None else ReleaseRow(**row._mapping)


def update_release(database: Database, release_id: int, **values: Any) -> None:
    releases = table(database, "release")
    with database.begin() as connection:
        connection.execute(
            sa.update(releases).where(releases.c.release_id == release_id).values(**values)
        )


def list_steps(connection: Connection, database: Database, release_id: int) -> list[StepRow]:
    steps = table(database, "release_step")
    rows = connection.execute(
        sa.select(steps).where(steps.c.release_id == release_id).order_by(steps.c.step)
    )
    return [StepRow(**row._mapping) for row in rows]


def finish_step(
    database: Database, release_id: int, step: int, logged: Any, counts: Any, digest: str
) -> None:
    """Commit a step's log together with its counts."""
    from freqdp_db.db.draws import save_columns

    steps = table(database, "release_step")
    with database.begin() as connection:
        save_columns(connection, database, release_id, step, "log", logged)
        connection.execute(
            sa.update(steps)
            .where(steps.c.release_id == release_id, steps.c.step == step)
            .values(counts=counts, digest=digest)
        )


def commit_draw(
    database: Database,
    release_id: int,
    step: int,
    mechanism: str,
    drawn: Any,
    software: str,
    key: Ints | None,
) -> None:
    """Commit a step's draw; with the first one, the key that hides the objects."""
    from freqdp_db.db.draws import save_columns

    with database.begin() as connection:
        if key is not None:
            layout = Layout([("release_id", "int4"), *_KEY.columns])
            packed = layout.pack(
                release_id=release_id, trajectory_id=np.arange(len(key)), released_id=key
            )
            relation = private_name(database, "release_key")
            write_records(driver(connection), relation, layout.names, [packed])
        save_columns(connection, database, release_id, step, "draw", drawn)
        connection.execute(
            sa.insert(table(database, "release_step")).values(
                release_id=release_id,
                step=step,
                mechanism=mechanism,
                drawn=len(drawn),
                software=software,
            )
        )


def load_key(connection: Connection, database: Database, release_id: int) -> Ints:
    """Released id of every trajectory; empty before the first draw is committed."""
    query = select_own(database, "release_key", _KEY.names, "trajectory_id", release_id=release_id)
    ids: Ints = read_arrays(driver(connection), query, _KEY)["released_id"]
    return ids


# Recording a request for a release: queueing, names and the row, inside the caller's transaction.


def queue_up(connection: Connection, database: Database, account_id: int) -> None:
    """Requests on the same rows at the same moment go one after the other, until the transaction ends.

    So the second of two equal ones finds the record of the first, no two take the same name, and of two
    that must not be published beside each other the second finds the first.
    """
    # in ascending order, so that no two wait for each other
    for account in sorted(accounts_of_same_rows(connection, database, account_id)):
        wait_for(connection, database, "request", account)


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
    series: str | None = None,
) -> ReleaseRow:
    """Record a release and book what it spends, or refuse both."""
    query = sql.SQL(
        "SELECT {}(%s::text, %s::int, %s::text, %s::jsonb, %s::boolean, %s::boolean, %s::text, "
        "%s::jsonb, %s::text)"
    ).format(private_name(database, "record_release"))
    values = [
        name, build_id, method, Jsonb(parameters, as_json), grantable, held, software,
        Jsonb(guarantee), series,
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
    state: str
    """published, or running: analysts will be able to read it as soon as it is made."""
    dataset: str
    method: str
    parameters: dict[str, Any]
    build_id: int
    window_begin: datetime | None
    window_end: datetime | None

    def shares_time(self, build: BuildRow) -> bool:
        """Whether it may show samples that a build has: not if both are of windows that are apart."""
        if self.window_begin is None or self.window_end is None:
            return True
        if build.window_begin is None or build.window_end is None:
            return True
        return self.window_begin < build.window_end and build.window_begin < self.window_end


def published_beside(
    connection: Connection, database: Database, account_id: int, *, running: bool = False
) -> list[PublishedBeside]:
    """Releases that analysts may read, of sources that read the rows of this account's; newest first.

    running: also those that are being made.
    """
    states = ("published", "running") if running else ("published",)
    releases, datasets = table(database, "release"), table(database, "dataset")
    builds = table(database, "build")
    accounts = accounts_of_same_rows(connection, database, account_id)
    rows = connection.execute(
        sa.select(
            releases.c.name,
            releases.c.state,
            datasets.c.name.label("dataset"),
            releases.c.method,
            releases.c.parameters,
            releases.c.build_id,
            builds.c.window_begin,
            builds.c.window_end,
        )
        .join(datasets, datasets.c.dataset_id == releases.c.dataset_id)
        .join(builds, builds.c.build_id == releases.c.build_id)
        .where(
            datasets.c.account_id.in_(accounts),
            releases.c.state.in_(states),
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
    time_window: str | None


def provenance(database: Database, release: ReleaseRow) -> Provenance:
    spends, datasets = table(database, "spend"), table(database, "dataset")
    builds = table(database, "build")
    with database.begin() as connection:
        head = connection.execute(
            sa.select(spends.c.hash).where(spends.c.release_id == release.release_id)
        ).scalar_one()
        dataset = connection.execute(
            sa.select(datasets.c.name).where(datasets.c.dataset_id == release.dataset_id)
        ).scalar_one()
        window = connection.execute(
            sa.select(builds.c.time_window).where(builds.c.build_id == release.build_id)
        ).scalar_one()
    return Provenance(dataset, head, window)


def give_up(database: Database, release_id: int) -> None:
    """Mark an unfinished release as abandoned."""
    releases = table(database, "release")
    with database.begin() as connection:
        connection.execute(
            sa.update(releases)
            .where(releases.c.release_id == release_id)
            .values(state="abandoned", withdrawn_at=sa.func.now())
        )


# Where an object is: which builds and releases hold it. Reads the key; for the curator only.


@dataclass(frozen=True)
class ObjectRow:
    """An object in a build, or in the key of a release that was made from it."""

    dataset: str
    build_id: int
    trajectory_id: int
    release: str | None
    state: str | None
    method: str | None
    parameters: dict[str, Any] | None
    released_id: int | None


def find_object(database: Database, object_key: str) -> list[ObjectRow]:
    """One row per build that holds the object, and per release made from it."""
    query = sql.SQL(
        "SELECT d.name AS dataset, t.build_id, t.trajectory_id, r.name AS release, r.state, "
        "r.method, r.parameters, k.released_id FROM {p}.trajectory t JOIN {p}.build b USING (build_id) "
        "JOIN {p}.dataset d USING (dataset_id) "
        "LEFT JOIN {p}.release r ON r.build_id = t.build_id "
        "LEFT JOIN {p}.release_key k ON k.release_id = r.release_id "
        "AND k.trajectory_id = t.trajectory_id "
        "WHERE t.object_key = %s ORDER BY t.build_id, r.release_id"
    ).format(p=sql.Identifier(database.settings.schema))
    with database.begin() as connection:
        return rows_as(ObjectRow, connection, query, [object_key])
