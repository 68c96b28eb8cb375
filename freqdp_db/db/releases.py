"""Rows of `release` and what belongs to one: requests, steps, the key, objects, metrics, draws and logs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, LiteralString, TypeAlias

import numpy as np
import psycopg
import sqlalchemy as sa
from psycopg import sql
from psycopg.types.json import Jsonb

from freqdp_db.db.builds import BuildRow
from freqdp_db.db.connection import Connection, Database, Session, as_json, wait_for
from freqdp_db.db.copy import (
    RUN_COLUMNS,
    ArrayDumper,
    ArrayOf,
    Layout,
    array_from,
    encode_runs,
    read_arrays,
    read_runs,
    write_records,
)
from freqdp_db.db.ledger import accounts_of_same_rows
from freqdp_db.db.names import did_you_mean
from freqdp_db.db.tables import update_rows
from freqdp_db.errors import AlreadyExists, BadData, Busy, NotFound, VerificationFailed
from freqdp_db.model.arrays import Ints
from freqdp_db.model.trajectories import EditLog, EditRuns, Edits, Operation, PfTargets, TfTargets


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
    """The series that it belongs to; None: it stands by itself."""
    window: str | None
    """The day, week or month that it covers; None: all data."""
    kept: list[list[str]] | None
    """Name and type of each column that samples of its build carry along; None: there is none."""

    @property
    def relation_names(self) -> list[str]:
        """Of its tables and views, in the schema of releases."""
        return [self.name + suffix for suffix in self.relations or ()]

    @property
    def is_in_table(self) -> bool:
        """Whether it is a window of a series: a part of the table that is called so."""
        return self.series is not None and self.window is not None

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


_SELECT = (
    "SELECT r.*, b.time_window AS window, b.kept -> 'columns' AS kept "
    "FROM {p}.release r JOIN {p}.build b USING (build_id) "
)
_KEY = Layout("trajectory_id int4, released_id int8")


def select_releases(session: Session, condition: LiteralString, *values: Any) -> list[ReleaseRow]:
    """Releases, each as `r` with its build `b`."""
    return session.rows_as(ReleaseRow, _SELECT + condition, values)


def find_release(database: Database, name: str) -> ReleaseRow:
    """The release of this name: the live one, else the newest that was withdrawn."""
    found = select_releases(
        database,
        "WHERE r.name = %s ORDER BY r.state IN ('withdrawn', 'abandoned'), r.release_id DESC LIMIT 1",
        name,
    )
    if found:
        return found[0]
    if windows := list_windows(database, name):
        raise NotFound(
            f"{name!r} is a series: this command takes one window of it",
            remedy=f"name the window, such as {windows[-1].name}; `freqdp release list` shows them",
        )
    rows = list_releases(database)
    known = [release.name for release in rows] + [str(r.series) for r in rows if r.is_in_table]
    raise NotFound(
        f"there is no release {name!r}",
        remedy=did_you_mean(name, known) + "`freqdp release list` shows what there is",
    )


def get_release(database: Database, release_id: int) -> ReleaseRow:
    (found,) = select_releases(database, "WHERE r.release_id = %s", release_id)
    return found


def list_releases(database: Database, state: str | None = None) -> list[ReleaseRow]:
    """All releases, or those in a state, oldest first."""
    condition: LiteralString = "WHERE r.state = coalesce(%s, r.state) ORDER BY r.release_id"
    return select_releases(database, condition, state)


def list_windows(database: Database, series: str) -> list[ReleaseRow]:
    """The published windows of a series, also those that are held, oldest first."""
    return select_releases(
        database,
        "WHERE r.series = %s AND r.state = 'published' AND b.time_window IS NOT NULL "
        "ORDER BY b.window_begin, r.release_id",
        series,
    )


def same_request(
    connection: Connection, request_hash: str, series: str | None
) -> ReleaseRow | None:
    """The newest release that answers the same request and was not withdrawn.

    series: the one that it has to belong to; None: who asks for none takes any.
    """
    found = select_releases(
        connection,
        "WHERE r.request_hash = %s AND r.state IN ('running', 'published') "
        "AND (%s::text IS NULL OR r.series = %s) ORDER BY r.release_id DESC LIMIT 1",
        request_hash,
        series,
        series,
    )
    return found[0] if found else None


def update_release(session: Session, release_id: int, **values: Any) -> None:
    update_rows(session, "release", {"release_id": release_id}, **values)


def list_steps(session: Session, release_id: int) -> list[StepRow]:
    query = "SELECT * FROM {p}.release_step WHERE release_id = %s ORDER BY step"
    return session.rows_as(StepRow, query, [release_id])


def finish_step(
    database: Database, release_id: int, step: int, logged: Any, counts: Any, digest: str
) -> None:
    """Commit a step's log together with its counts."""
    update = (
        "UPDATE {p}.release_step SET counts = %s, digest = %s WHERE release_id = %s AND step = %s"
    )
    with database.begin() as connection:
        save_columns(connection, release_id, step, "log", logged)
        connection.execute(update, [Jsonb(counts), digest, release_id, step])


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
    with database.begin() as connection:
        if key is not None:
            layout = Layout(f"release_id int4, {_KEY.columns}")
            packed = layout.pack(
                release_id=release_id, trajectory_id=np.arange(len(key)), released_id=key
            )
            relation = connection.private_name("release_key")
            write_records(connection.driver, relation, layout.names, [packed])
        save_columns(connection, release_id, step, "draw", drawn)
        insert = (
            "INSERT INTO {p}.release_step (release_id, step, mechanism, drawn, software) "
            "VALUES (%s, %s, %s, %s, %s)"
        )
        connection.execute(insert, [release_id, step, mechanism, len(drawn), software])


def load_key(connection: Connection, release_id: int) -> Ints:
    """Released id of every trajectory; empty before the first draw is committed."""
    query = connection.select_own("release_key", _KEY.names, "trajectory_id", release_id=release_id)
    ids: Ints = read_arrays(connection.driver, query, _KEY)["released_id"]
    return ids


# Recording a request for a release: queueing, names and the row, inside the caller's transaction.


def lock_same_rows(connection: Connection, account_id: int) -> None:
    """Requests on the same rows at the same moment go one after the other, until the transaction ends.

    So the second of two equal ones finds the record of the first, no two take the same name, and of two
    that must not be published beside each other the second finds the first.
    """
    # in ascending order, so that no two wait for each other
    for account in sorted(accounts_of_same_rows(connection, account_id)):
        wait_for(connection, "request", account)


def lock_build(connection: Connection, build_id: int) -> None:
    """Keep the build from being swept between here and the commit."""
    query = "SELECT FROM {p}.build WHERE build_id = %s AND dropped_at IS NULL FOR SHARE"
    alive = connection.execute(query, [build_id]).fetchone()
    if alive is None:
        raise Busy("the dataset was rebuilt at this moment", remedy="run the command again")


def used_names(connection: Connection, begin: str) -> set[str]:
    """Names of releases that begin so."""
    query = "SELECT DISTINCT name FROM {p}.release WHERE starts_with(name, %s)"
    return set(connection.first_column(query, [begin]))


def request_hash(connection: Connection, build_id: int, method: str, parameters: Any) -> str:
    """What tells that a request was answered before: SQL computes it, for requests in SQL too."""
    exact = Jsonb(parameters, as_json)
    return str(connection.call("request_hash", build_id, method, exact))


def record_release(
    connection: Connection,
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
    asked = method, Jsonb(parameters, as_json), grantable, held, software, Jsonb(guarantee), series
    try:
        release_id = connection.call("record_release", name, build_id, *asked)
    except psycopg.errors.UniqueViolation:
        raise AlreadyExists(
            f"there is a release {name!r} already", remedy="choose another name with [[name]]"
        ) from None
    (row,) = select_releases(connection, "WHERE r.release_id = %s", release_id)
    return row


@dataclass(frozen=True)
class ReleaseOfSameRows:
    """A release that analysts may read, of a source that reads the same rows as another."""

    name: str
    state: str
    """published, or running: analysts will be able to read it as soon as it is made."""
    dataset: str
    method: str
    parameters: dict[str, Any]
    build_id: int
    series: str | None
    """The series of windows that it is one of."""


def releases_of_same_rows(
    session: Session, account_id: int, *, build: BuildRow | None = None, running: bool = False
) -> list[ReleaseOfSameRows]:
    """Releases that analysts may read, of sources that read the rows of this account's; newest first.

    build: those alone that may show samples of it, not those of windows that are apart from its own.
    running: also those that are being made.
    """
    query = (
        "SELECT r.name, r.state, d.name AS dataset, r.method, r.parameters, r.build_id, "
        "CASE WHEN b.time_window IS NOT NULL THEN r.series END AS series "
        "FROM {p}.release r JOIN {p}.dataset d USING (dataset_id) "
        "JOIN {p}.build b USING (build_id) WHERE d.account_id = ANY (%s) AND r.state = ANY (%s) "
        "AND r.grantable AND NOT r.held "
        "AND coalesce(b.window_begin < %s AND %s < b.window_end, true) ORDER BY r.release_id DESC"
    )
    accounts = accounts_of_same_rows(session, account_id)
    states = ["published", "running"] if running else ["published"]
    window = (None, None) if build is None else (build.window_end, build.window_begin)
    return session.rows_as(ReleaseOfSameRows, query, [accounts, states, *window])


def method_of(connection: Connection, name: str) -> str | None:
    """The method of the newest release of this name, also of one that was withdrawn."""
    found = select_releases(
        connection, "WHERE r.name = %s ORDER BY r.release_id DESC LIMIT 1", name
    )
    return found[0].method if found else None


def times_overlap(connection: Connection, one: int, other: int) -> bool:
    """Whether two builds have samples of the same stretch of time."""
    query = (
        "SELECT coalesce(a.first <= b.last AND b.first <= a.last, false) FROM "
        "(SELECT min(at) AS first, max(at) AS last FROM {p}.sample WHERE build_id = %s) a, "
        "(SELECT min(at) AS first, max(at) AS last FROM {p}.sample WHERE build_id = %s) b"
    )
    return bool(connection.one_value(query, [one, other]))


def ledger_head(database: Database, release: ReleaseRow) -> str:
    """The hash of the entry that a release was booked with."""
    query = "SELECT hash FROM {p}.spend WHERE release_id = %s"
    return str(database.one_value(query, [release.release_id]))


def abandon(database: Database, release_id: int) -> None:
    """Give up an unfinished release."""
    update_release(database, release_id, state="abandoned", withdrawn_at=sa.func.now())


# Where an object is: which builds and releases hold it. Reads the key; for the curator only.


def find_object(database: Database, object_key: str) -> list[dict[str, Any]]:
    """One row per build that holds the object, and per release made from it, with its request."""
    query = (
        "SELECT d.name AS dataset, t.build_id, t.trajectory_id, r.name AS release, r.state, k.released_id, "
        "r.method, r.parameters FROM {p}.trajectory t JOIN {p}.build b USING (build_id) "
        "JOIN {p}.dataset d USING (dataset_id) "
        "LEFT JOIN {p}.release r ON r.build_id = t.build_id "
        "LEFT JOIN {p}.release_key k ON k.release_id = r.release_id "
        "AND k.trajectory_id = t.trajectory_id "
        "WHERE t.object_key = %s ORDER BY t.build_id, r.release_id"
    )
    return database.rows_as(dict[str, Any], query, [object_key])


# What was measured of a release: rows of `metric`.


@dataclass(frozen=True)
class MetricRow:
    """One measured number."""

    release_id: int
    name: str
    value: float
    publishable: bool
    seed: int | None
    measured_at: datetime


def store_metrics(
    database: Database,
    release_id: int,
    values: Mapping[str, float],
    publishable: Collection[str],
    seed: int,
    family: str | None = None,
) -> None:
    """Write metrics; those of the same name are replaced, others stay.

    family: how their names begin; others that begin so go.
    """
    begins = "DELETE FROM {p}.metric WHERE release_id = %s AND starts_with(name, %s)"
    insert = (
        "INSERT INTO {p}.metric (release_id, name, value, publishable, seed) "
        "SELECT %s, name, value, publishable, %s "
        "FROM unnest(%s::text[], %s::float8[], %s::boolean[]) AS m (name, value, publishable) "
        "ON CONFLICT (release_id, name) DO UPDATE SET value = excluded.value, "
        "publishable = excluded.publishable, seed = excluded.seed, measured_at = now()"
    )
    columns = [list(values), list(map(float, values.values())), [n in publishable for n in values]]
    with database.begin() as connection:
        if family is not None:
            connection.execute(begins, [release_id, family])
        connection.execute(insert, [release_id, seed, *columns])


def load_metrics(database: Database, release_id: int) -> list[MetricRow]:
    query = "SELECT * FROM {p}.metric WHERE release_id = %s ORDER BY name"
    return database.rows_as(MetricRow, query, [release_id])


def measured_value(database: Database, release_id: int, name: str) -> float | None:
    """One number of a release; None if it was not measured, or if the login may not know."""
    query = "SELECT value FROM {p}.metric WHERE release_id = %s AND name = %s"
    with database.begin() as connection:
        relation = connection.private_name("metric").as_string(None)
        if not connection.one_value("SELECT has_table_privilege(%s, 'SELECT')", [relation]):
            return None
        found: float | None = connection.one_value(query, [release_id, name])
    return found


# Draws and logs of steps: named columns, in tables of their own where SQL reads them.
#
# Targets and edits of frequencies are read by people and by checks in SQL, so each has a table. All other
# draws and logs are kept column by column, whatever the method calls them, as arrays of whole numbers or of
# numbers: the view `step_value` has a row for each value.

Part: TypeAlias = Literal["draw", "log"]
_TARGETS: dict[type, tuple[str, Layout, tuple[str, ...]]] = {
    TfTargets: ("tf_target", Layout("location_id int4, tf int4, target int4"), ("location_id",)),
    PfTargets: (
        "pf_target",
        Layout("trajectory_id int4, location_id int4, stage int2, rank int2, pf int4, target int4"),
        ("trajectory_id", "rank"),
    ),
}
"""Table, columns in the order of the fields, and the order of rows."""
_CHUNK = 1 << 20
"""Values in a row of `step_column`."""


def save_columns(
    connection: Connection, release_id: int, step: int, part: Part, columns: Any
) -> None:
    """Keep a draw or a log, inside the caller's transaction."""
    raw = connection.driver
    if isinstance(columns, EditLog):
        # those of workers come one range after the other: they are never here all at once
        write_records(
            raw,
            connection.private_name("edit_run"),
            ["release_id", "step", "operation", *RUN_COLUMNS],
            (
                rows
                for edits in columns.partitions
                for runs in (edits.deletions, edits.insertions)
                for rows in encode_runs(runs, release_id, step)
            ),
        )
        return
    if type(columns) in _TARGETS:
        name, own, _ = _TARGETS[type(columns)]
        layout = Layout(f"release_id int4, step int2, {own.columns}")
        values = dict(
            zip(own.names, (getattr(columns, f.name) for f in fields(columns)), strict=True)
        )
        packed = layout.pack(release_id=release_id, step=step, **values)
        write_records(raw, connection.private_name(name), layout.names, [packed])
        return
    statement = (
        "INSERT INTO {p}.step_column (release_id, step, part, name, chunk, dtype, whole, number) "
        "VALUES (%s, %s, %s, %s, %s, %s, %b::int8[], %b::float8[])"
    )
    raw.adapters.register_dumper(ArrayOf, ArrayDumper)
    for field in fields(columns):
        column = np.asarray(getattr(columns, field.name))
        for chunk, begin in enumerate(range(0, max(len(column), 1), _CHUNK)):
            part_of = column[begin : begin + _CHUNK]
            kept = (
                (None, ArrayOf("float8", part_of))
                if column.dtype.kind == "f"
                else (ArrayOf("int8", part_of), None)
            )
            about = (release_id, step, part, field.name, chunk, column.dtype.str)
            connection.execute(statement, [*about, *kept])


def load_columns(connection: Connection, release_id: int, step: int, part: Part, kind: type) -> Any:
    """A draw or a log of this kind, as it was kept; the log of edits: see `load_edits`."""
    raw = connection.driver
    if kind in _TARGETS:
        name, layout, order = _TARGETS[kind]
        query = connection.select_own(name, layout.names, *order, release_id=release_id, step=step)
        found = read_arrays(raw, query, layout)
        return kind(*(found[column] for column in layout.names))
    parts: dict[str, list[Any]] = {}
    cursor = raw.execute(
        sql.SQL(
            "SELECT name, dtype, whole, number FROM {} WHERE release_id = %s AND step = %s AND part = %s "
            "ORDER BY name, chunk"
        ).format(connection.private_name("step_column")),
        [release_id, step, part],
        binary=True,
    )
    rows = cursor.pgresult
    assert rows is not None
    for row in range(rows.ntuples):
        column, dtype, whole, number = (rows.get_value(row, k) or b"" for k in range(4))
        values = array_from("int8", whole) if whole else array_from("float8", number)
        parts.setdefault(column.decode(), []).append(values.astype(dtype.decode(), copy=False))
    expected = {field.name for field in fields(kind)}
    if expected != parts.keys():
        differ = ", ".join(sorted(expected ^ parts.keys()))
        raise VerificationFailed(
            f"step {step}: its {part} is not stored as this version keeps it (these differ: {differ})"
        )
    return kind(**{name: np.concatenate(chunks) for name, chunks in parts.items()})


def load_edits(
    connection: Connection,
    release_id: int,
    step: int,
    part: tuple[int | None, int | None] = (None, None),
) -> Edits:
    """The edits of a step; part: of the trajectories from one on, and before another."""

    def runs(operation: Operation) -> EditRuns:
        kept = connection.select_own(
            "edit_run", RUN_COLUMNS, part=part,
            release_id=release_id, step=step, operation=operation,
        )  # fmt: skip
        return read_runs(connection.driver, kept, operation)

    try:
        return Edits(runs("d"), runs("i"))
    except BadData:
        raise VerificationFailed("the edit log holds edits without a position or a loss") from None
