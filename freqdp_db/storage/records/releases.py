"""Rows of `release` and what belongs to one: steps, key, targets and the edit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import sqlalchemy as sa
from psycopg import sql

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.edits import EditRuns, Edits, Operation, PfTargets, Targets, TfTargets
from freqdp_db.errors import NotFound
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.copy.layout import Layout, copy_bytes, read_arrays, write_records
from freqdp_db.storage.copy.wire import decode_runs, encode_runs
from freqdp_db.storage.records.datasets import table


@dataclass(frozen=True)
class ReleaseRow:
    """A release that was asked for."""

    release_id: int
    name: str
    dataset_id: int
    build_id: int
    method: str
    epsilon_global: Decimal
    epsilon_local: Decimal
    signature_size: int
    options: dict[str, Any]
    private: bool
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


@dataclass(frozen=True)
class StepRow:
    """One mechanism of a release."""

    release_id: int
    step: int
    mechanism: str
    targets: int
    software: str
    deletions: int | None
    insertions: int | None
    deletion_loss_m: float | None
    insertion_loss_m: float | None
    digest: str | None


_TF = Layout([("location_id", "int4"), ("tf", "int4"), ("target", "int4")])
_PF = Layout(
    [
        ("trajectory_id", "int4"),
        ("location_id", "int4"),
        ("stage", "int2"),
        ("rank", "int2"),
        ("pf", "int4"),
        ("target", "int4"),
    ]
)
_OWNER: list[tuple[str, Any]] = [("release_id", "int4"), ("step", "int2")]
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
        raise NotFound(
            f"there is no release {name!r}", remedy="`freqdp release list` shows what there is"
        )
    return ReleaseRow(**row._mapping)


def get_release(database: Database, release_id: int) -> ReleaseRow:
    releases = table(database, "release")
    with database.begin() as connection:
        row = connection.execute(
            sa.select(releases).where(releases.c.release_id == release_id)
        ).one()
    return ReleaseRow(**row._mapping)


def list_releases(database: Database) -> list[ReleaseRow]:
    releases = table(database, "release")
    with database.begin() as connection:
        rows = connection.execute(sa.select(releases).order_by(releases.c.release_id))
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


def list_steps(database: Database, release_id: int) -> list[StepRow]:
    steps = table(database, "release_step")
    with database.begin() as connection:
        rows = connection.execute(
            sa.select(steps).where(steps.c.release_id == release_id).order_by(steps.c.step)
        )
        return [StepRow(**row._mapping) for row in rows]


def finish_step(database: Database, release_id: int, step: int, edits: Edits, digest: str) -> None:
    """Commit a mechanism's edit log together with its counts."""
    steps = table(database, "release_step")
    relation = sql.Identifier(database.settings.schema, "edit_run")
    columns = ["release_id", "step", "operation", "trajectory_id", "location_id", "seq", "loss_m"]
    with database.begin() as connection:
        write_records(
            driver(connection),
            relation,
            columns,
            (encode_runs(runs, release_id, step) for runs in (edits.deletions, edits.insertions)),
        )
        connection.execute(
            sa.update(steps)
            .where(steps.c.release_id == release_id, steps.c.step == step)
            .values(
                deletions=edits.deletions.edits,
                insertions=edits.insertions.edits,
                deletion_loss_m=edits.deletions.loss_m,
                insertion_loss_m=edits.insertions.loss_m,
                digest=digest,
            )
        )


def commit_targets(
    database: Database,
    release_id: int,
    step: int,
    mechanism: str,
    targets: Targets,
    software: str,
    key: Ints | None,
) -> None:
    """Commit a mechanism's draw; with the first one, the key that hides the objects."""
    schema = database.settings.schema
    with database.begin() as connection:
        raw = driver(connection)
        if key is not None:
            layout = Layout([("release_id", "int4"), *_KEY.columns])
            packed = layout.pack(
                release_id=release_id, trajectory_id=np.arange(len(key)), released_id=key
            )
            write_records(raw, sql.Identifier(schema, "release_key"), layout.names, [packed])
        if isinstance(targets, TfTargets):
            layout = Layout([*_OWNER, *_TF.columns])
            packed = layout.pack(
                release_id=release_id,
                step=step,
                location_id=targets.location,
                tf=targets.tf,
                target=targets.target,
            )
            write_records(raw, sql.Identifier(schema, "tf_target"), layout.names, [packed])
        else:
            layout = Layout([*_OWNER, *_PF.columns])
            packed = layout.pack(
                release_id=release_id,
                step=step,
                trajectory_id=targets.trajectory,
                location_id=targets.location,
                stage=targets.stage,
                rank=targets.rank,
                pf=targets.pf,
                target=targets.target,
            )
            write_records(raw, sql.Identifier(schema, "pf_target"), layout.names, [packed])
        connection.execute(
            sa.insert(table(database, "release_step")).values(
                release_id=release_id,
                step=step,
                mechanism=mechanism,
                targets=len(targets),
                software=software,
            )
        )


def _of_release(
    database: Database, name: str, columns: Sequence[str], release_id: int, order: str, **more: Any
) -> sql.Composed:
    conditions = [sql.SQL("release_id = {}").format(sql.Literal(release_id))] + [
        sql.SQL("{} = {}").format(sql.Identifier(k), sql.Literal(v)) for k, v in more.items()
    ]
    return sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {}").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.Identifier(database.settings.schema, name),
        sql.SQL(" AND ").join(conditions),
        sql.SQL(order),
    )


def load_key(connection: Connection, database: Database, release_id: int) -> Ints:
    """Released id of every trajectory; empty before the first targets are committed."""
    query = _of_release(database, "release_key", _KEY.names, release_id, "trajectory_id")
    ids: Ints = read_arrays(driver(connection), query, _KEY)["released_id"]
    return ids


def load_targets(
    connection: Connection, database: Database, release_id: int, step: int, mechanism: str
) -> Targets:
    """A mechanism's committed draw."""
    raw = driver(connection)
    if mechanism == "global":
        query = _of_release(database, "tf_target", _TF.names, release_id, "location_id", step=step)
        found = read_arrays(raw, query, _TF)
        return TfTargets(found["location_id"], found["tf"], found["target"])
    query = _of_release(
        database, "pf_target", _PF.names, release_id, "trajectory_id, rank", step=step
    )
    found = read_arrays(raw, query, _PF)
    return PfTargets(
        found["trajectory_id"],
        found["location_id"],
        found["stage"],
        found["rank"],
        found["pf"],
        found["target"],
    )


def load_edits(connection: Connection, database: Database, release_id: int, step: int) -> Edits:
    """A mechanism's edit log."""

    def runs(operation: Operation) -> EditRuns:
        query = _of_release(
            database,
            "edit_run",
            ["trajectory_id", "location_id", "seq", "loss_m"],
            release_id,
            "trajectory_id, location_id",
            step=step,
            operation=operation,
        )
        return decode_runs(list(copy_bytes(driver(connection), query)), operation)

    return Edits(runs("d"), runs("i"))
