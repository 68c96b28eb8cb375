"""Rows of `release` and what belongs to one: its steps and its key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from freqdp_db.columns.arrays import Ints
from freqdp_db.errors import NotFound
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.connection.names import did_you_mean
from freqdp_db.storage.connection.statements import own, select_own
from freqdp_db.storage.copy.layout import Layout, read_arrays, write_records
from freqdp_db.storage.records.datasets import table


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
        known = [release.name for release in list_releases(database)]
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
    from freqdp_db.storage.records.draws import save_columns

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
    from freqdp_db.storage.records.draws import save_columns

    with database.begin() as connection:
        if key is not None:
            layout = Layout([("release_id", "int4"), *_KEY.columns])
            packed = layout.pack(
                release_id=release_id, trajectory_id=np.arange(len(key)), released_id=key
            )
            relation = own(database, "release_key")
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
