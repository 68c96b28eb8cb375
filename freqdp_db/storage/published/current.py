"""`<dataset>_current`: a view in the release schema that always shows the newest private release."""

from __future__ import annotations

import sqlalchemy as sa
from psycopg import errors as driver_errors
from psycopg import sql

from freqdp_db.errors import AlreadyExists, SchemaInUse
from freqdp_db.settings import MAX_IDENTIFIER_BYTES
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.records.datasets import table
from freqdp_db.storage.schema.grants import hand_over

_SUFFIX = "_current"
_MARK = "The newest private release of dataset "


def current_name(dataset: str) -> str | None:
    """The view's name; None if the dataset's own is so long that there can be none."""
    name = dataset + _SUFFIX
    return name if len(name.encode()) <= MAX_IDENTIFIER_BYTES else None


def require_ours(connection: Connection, database: Database, dataset: str) -> None:
    """Refuse, before anything is spent, if a relation that is not ours has the view's name."""
    found = connection.execute(
        sa.text(
            "SELECT c.relkind = 'v' AND obj_description(c.oid, 'pg_class') LIKE :mark || '%' "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = :schema AND c.relname = :name"
        ),
        {
            "schema": database.settings.release_schema,
            "name": current_name(dataset),
            "mark": _MARK,
        },
    ).first()
    if found is not None and not found[0]:
        raise AlreadyExists(
            f"{database.settings.release_schema} has a relation {current_name(dataset)!r} that is "
            "not the view of the newest release",
            remedy="rename or drop it: the name is reserved",
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
    """Point the view at the newest private release, or drop it if there is none.

    Inside the transaction that publishes or withdraws, and last in it: readers wait from here to
    the commit.
    """
    datasets, releases = table(database, "dataset"), table(database, "release")
    dataset = connection.execute(
        sa.select(datasets.c.name).where(datasets.c.dataset_id == dataset_id)
    ).scalar_one()
    name = current_name(dataset)
    if name is None:
        return
    newest = connection.execute(
        sa.select(releases.c.name, releases.c.version)
        .where(
            releases.c.dataset_id == dataset_id,
            releases.c.state == "published",
            releases.c.grantable,
        )
        .order_by(releases.c.version.desc())
    ).first()
    raw, schema = driver(connection), database.settings.release_schema
    view = sql.Identifier(schema, name)
    if newest is None:
        _drop(connection, view)
        return
    release = sql.Identifier(schema, newest.name)
    before, now = (_columns(connection, schema, relation) for relation in (name, newest.name))
    replaced = bool(before) and before == now[: len(before)]
    if before and not replaced:
        # another SRID, or areas no longer: a view's columns can neither change their type nor go
        _drop(connection, view)
    shown = sql.SQL(", ").join(sql.Identifier(column) for column, _ in now)
    raw.execute(
        sql.SQL("CREATE OR REPLACE VIEW {} AS SELECT {} FROM {}").format(view, shown, release)
    )
    if not replaced:
        hand_over(connection, database, view)
        analyst = database.settings.role("analyst")
        if connection.execute(
            sa.text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": analyst}
        ).scalar():
            raw.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(view, sql.Identifier(analyst)))
    _comment_columns(connection, schema, name, newest.name)
    comment = f"{_MARK}{dataset}: now {newest.name}, version {newest.version}. See catalog."
    raw.execute(sql.SQL("COMMENT ON VIEW {} IS {}").format(view, sql.Literal(comment)))


def _comment_columns(connection: Connection, schema: str, view: str, release: str) -> None:
    """The view's columns say what the release's say."""
    rows = connection.execute(
        sa.text(
            "SELECT a.attname, col_description(a.attrelid, a.attnum) FROM pg_attribute a "
            "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = :schema AND c.relname = :release AND a.attnum > 0"
        ),
        {"schema": schema, "release": release},
    ).all()
    for column, text in rows:
        driver(connection).execute(
            sql.SQL("COMMENT ON COLUMN {} IS {}").format(
                sql.Identifier(schema, view, column), sql.Literal(text)
            )
        )


def current_of(connection: Connection, database: Database, release_id: int) -> str:
    """The name that the view over a release's dataset has or would have, as `dependants` writes it."""
    datasets, releases = table(database, "dataset"), table(database, "release")
    name: str = connection.execute(
        sa.select(
            sa.func.format("%I.%I", database.settings.release_schema, datasets.c.name + _SUFFIX)
        )
        .join(releases, releases.c.dataset_id == datasets.c.dataset_id)
        .where(releases.c.release_id == release_id)
    ).scalar_one()
    return name


def _columns(connection: Connection, schema: str, relation: str) -> list[tuple[str, str]]:
    """Names and types, in order; nothing if there is no such relation."""
    rows = connection.execute(
        sa.text(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a "
            "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = :schema AND c.relname = :relation AND a.attnum > 0 "
            "AND NOT a.attisdropped ORDER BY a.attnum"
        ),
        {"schema": schema, "relation": relation},
    )
    return [(name, kind) for name, kind in rows]


def _drop(connection: Connection, view: sql.Identifier) -> None:
    try:
        driver(connection).execute(sql.SQL("DROP VIEW IF EXISTS {}").format(view))
    except driver_errors.DependentObjectsStillExist as error:
        # names of relations only: the detail of this error never holds a row
        raise SchemaInUse(
            f"{view.as_string(None)} has to be dropped, but: {error.diag.message_detail}",
            remedy="drop the views that hang on it first",
        ) from None
