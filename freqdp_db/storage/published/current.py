"""`<dataset>_current`, `_current_line`, ...: views of the newest release that is granted."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from psycopg import errors as driver_errors

from freqdp_db.errors import AlreadyExists, Busy, SchemaInUse
from freqdp_db.methods.registry import suffixes
from freqdp_db.methods.relations import Relation
from freqdp_db.settings import MAX_IDENTIFIER_BYTES
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.connection.locks import limit_waiting
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.connection.statements import call
from freqdp_db.storage.published.relations import columns_of, dependants, srid_of
from freqdp_db.storage.published.waiting import LOCK_TIMEOUT
from freqdp_db.storage.records.datasets import table

_SUFFIX = "_current"
_MARK = "The newest release that analysts may read of dataset "
"""What the comment of such a view begins with."""


def current_names(dataset: str) -> dict[str, str]:
    """The name of the view over each part of a release; without those that would be too long."""
    names = {part: dataset + _SUFFIX + part for part in suffixes()}
    return {p: n for p, n in names.items() if len(n.encode()) <= MAX_IDENTIFIER_BYTES}


def require_ours(connection: Connection, database: Database, dataset: str) -> None:
    """Refuse, before anything is spent, if a relation that is not ours has the name of a view."""
    found = connection.execute(
        sa.text(
            "SELECT c.relname, c.relkind = 'v' "
            "AND coalesce(starts_with(obj_description(c.oid, 'pg_class'), :mark), false) "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = :schema AND c.relname = ANY(:names)"
        ),
        {
            "schema": database.settings.release_schema,
            "names": list(current_names(dataset).values()),
            "mark": _MARK,
        },
    )
    for name, ours in found:
        if not ours:
            raise AlreadyExists(
                f"{database.settings.release_schema} has a relation {name!r} that is not a view of "
                "the newest release",
                remedy="rename or drop it: the name is reserved",
            )


def require_replaceable(
    connection: Connection,
    database: Database,
    dataset: str,
    relations: tuple[Relation, ...],
    srid: int,
) -> None:
    """Refuse, before anything is spent, if views of others hang on one that gets other columns."""
    schema = database.settings.release_schema
    columns = {relation.suffix: relation.names for relation in relations}
    for part, name in current_names(dataset).items():
        before = list(columns_of(connection, (schema, name)))
        same = before == columns.get(part, [])[: len(before)]
        if before and not (same and srid_of(connection, (schema, name)) in (0, srid)):
            _require_nothing_hangs(connection, schema, name)


def _require_nothing_hangs(connection: Connection, schema: str, view: str) -> None:
    hanging = [(kind, format_relation(*of)) for kind, *of in dependants(connection, schema, view)]
    if hanging:
        raise SchemaInUse(
            f"{format_relation(schema, view)} has to be dropped, because its columns change or go, and "
            f"these views hang on it: {', '.join(name for _, name in hanging)}",
            remedy="drop them first, and make them anew afterwards: "
            + "; ".join(f"DROP {kind} {name}" for kind, name in hanging),
        )


def next_version(connection: Connection, database: Database, dataset_id: int) -> int:
    """The number of the next release; the dataset's row is locked, so that no two get the same."""
    datasets, releases = table(database, "dataset"), table(database, "release")
    connection.execute(
        sa.select(datasets.c.dataset_id)
        .where(datasets.c.dataset_id == dataset_id)
        .with_for_update(key_share=True)
    )
    last = connection.execute(
        sa.select(sa.func.max(releases.c.version)).where(releases.c.dataset_id == dataset_id)
    ).scalar()
    return (last or 0) + 1


def show_newest(connection: Connection, database: Database, dataset_id: int) -> None:
    """Point the views at the newest release that is granted, or drop them if there is none.

    Inside the transaction that publishes or withdraws, and last in it: readers wait from here to
    the commit. One at a time for a dataset: what another one withdraws is not shown again.
    """
    datasets = table(database, "dataset")
    dataset = connection.execute(
        sa.select(datasets.c.name)
        .where(datasets.c.dataset_id == dataset_id)
        .with_for_update(key_share=True)
    ).scalar_one()
    newest = _newest(connection, database, dataset_id)
    for part, name in current_names(dataset).items():
        if newest is None:
            _drop(connection, database, dataset_id, part, name)
        else:
            _point_at(connection, database, dataset_id, newest, part, name)


def _newest(connection: Connection, database: Database, dataset_id: int) -> Any:
    """The newest release of a dataset that analysts may read: its number, name and version."""
    releases = table(database, "release")
    return connection.execute(
        sa.select(releases.c.release_id, releases.c.name, releases.c.version, releases.c.relations)
        .where(
            releases.c.dataset_id == dataset_id,
            releases.c.state == "published",
            releases.c.grantable,
            ~releases.c.held,
        )
        .order_by(releases.c.version.desc())
    ).first()


def show_late(database: Database) -> None:
    """Point views at what was published while somebody was reading them; those still read wait on."""
    datasets = table(database, "dataset")
    with database.begin() as connection:
        late = [
            row.dataset_id
            for row in connection.execute(sa.select(datasets.c.dataset_id, datasets.c.name))
            if (newest := _newest(connection, database, row.dataset_id)) is not None
            and not is_shown(connection, database, row.name, (newest.name, newest.version))
        ]
    for dataset_id in late:
        with suppress(Busy, SchemaInUse), database.begin() as connection:
            limit_waiting(connection, LOCK_TIMEOUT)
            show_newest(connection, database, dataset_id)


def is_shown(
    connection: Connection, database: Database, dataset: str, newest: tuple[str, int] | None
) -> bool:
    """Whether the views say that they show this release; readers need not wait to hear it again."""
    said = connection.execute(
        sa.text(
            "SELECT obj_description(c.oid, 'pg_class') FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = :schema AND c.relname = ANY(:names)"
        ),
        {
            "schema": database.settings.release_schema,
            "names": list(current_names(dataset).values()),
        },
    ).scalars()
    return set(said) == (set() if newest is None else {described(dataset, newest)})


def described(dataset: str, newest: tuple[str, int]) -> str:
    """The comment of the views over a release; `show_current` writes the same."""
    return f"{_MARK}{dataset}: now {newest[0]}, version {newest[1]}. See catalog."


def _point_at(
    connection: Connection,
    database: Database,
    dataset_id: int,
    release: Any,
    part: str,
    name: str,
) -> None:
    """Let a view show a part of this release; if it has none, there is no view."""
    schema = database.settings.release_schema
    before, now = (
        list(columns_of(connection, (schema, r)).items()) for r in (name, release.name + part)
    )
    if part not in release.relations:
        now = []
    if not now or (before and before != now[: len(before)]):
        # another SRID, or areas no longer: a view's columns can neither change their type nor go
        _drop(connection, database, dataset_id, part, name)
    if now:
        call(connection, database, "show_current", release.release_id, part)


def _drop(
    connection: Connection, database: Database, dataset_id: int, part: str, name: str
) -> None:
    schema = database.settings.release_schema
    _require_nothing_hangs(connection, schema, name)
    try:
        call(connection, database, "drop_current", dataset_id, part)
    except driver_errors.DependentObjectsStillExist as error:
        # names of relations only: the detail of this error never holds a row
        raise SchemaInUse(
            f"{format_relation(schema, name)} has to be dropped, but: {error.diag.message_detail}",
            remedy="drop what hangs on it first",
        ) from None
