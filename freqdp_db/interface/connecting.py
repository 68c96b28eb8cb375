"""Reach the database that a caller means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from freqdp_db.errors import BadInput
from freqdp_db.progress import Progress
from freqdp_db.settings import Settings, load_settings
from freqdp_db.storage.connection import engine
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.schema.upgrade import reads_private, require_current
from freqdp_db.storage.source.plain_tables import Mode


@dataclass(frozen=True)
class Target:
    """A database that is reached when it is needed, and left afterwards."""

    settings: Settings
    command: str = "library"

    @classmethod
    def of(cls, connection: Connection) -> Target:
        if isinstance(connection, Target):
            return connection
        if isinstance(connection, Database):
            return cls(connection.settings)
        return cls(load_settings(dsn=connection))


Connection: TypeAlias = Database | Target | str | None
Value: TypeAlias = str | int | float | Decimal | None
"""A parameter of a method: as text, or as what is written so. None: as if it were not given."""


def connect(
    dsn: str | None = None, *, schema: str | None = None, release_schema: str | None = None
) -> Database:
    """Reach a database, for many calls; `close()` it in the end.

    dsn: a URL or a libpq string; None: DATABASE_URL, then the PG* variables, then the embedded server.
    schema, release_schema: the names of the two schemas, if not FREQDP_SCHEMA and
    FREQDP_RELEASE_SCHEMA or the defaults.
    """
    settings = load_settings(dsn=dsn, schema=schema, release_schema=release_schema)
    return engine.connect(settings)


@contextmanager
def reached(connection: Connection, *, check_schema: bool = True) -> Iterator[Database]:
    """The database; refused if its schema is missing or stale. Closed if it was opened here."""
    if isinstance(connection, Database):
        database = connection
    else:
        target = Target.of(connection)
        database = engine.connect(target.settings, target.command)
    try:
        if check_schema and reads_private(database):
            require_current(database)
        yield database
    finally:
        if database is not connection:
            database.close()


def working(progress: Progress | None, *, kernels: bool = False) -> Progress:
    """Where work tells how far it is; `kernels`: it needs the compiled ones."""
    shown = progress or Progress()
    if kernels:
        from freqdp_db.compiling import compile_kernels

        compile_kernels(shown)
    return shown


def mode_of(replace: bool, append: bool = False) -> Mode:
    """How a table of the user's is made."""
    if replace and append:
        raise BadInput("--replace and --append exclude each other", remedy="give one of them")
    return "replace" if replace else "append" if append else "create"
