"""How functions of partitions find the database: in a worker, by its own environment.

Only the names of the schemas travel to them. The connection string does not: it may hold a password, and
what travels passes a scheduler.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache

from freqdp_db.errors import BadInput
from freqdp_db.settings import libpq_is_configured, load_settings
from freqdp_db.storage.connection.engine import Database, connect


@dataclass(frozen=True)
class Reach:
    """Where in its database a worker finds our tables."""

    schema: str
    release_schema: str
    _here: Database | None = field(default=None, compare=False, repr=False)
    """In the process that it was made in; it does not travel."""

    @classmethod
    def of(cls, database: Database) -> Reach:
        return cls(database.settings.schema, database.settings.release_schema, database)

    def __reduce__(self) -> tuple[type[Reach], tuple[str, str]]:
        return Reach, (self.schema, self.release_schema)

    def database(self) -> Database:
        """The database; in a worker its own, reached once in its life."""
        return _reached(self) if self._here is None else self._here


@lru_cache(maxsize=8)
def _reached(reach: Reach) -> Database:
    if not (os.environ.get("DATABASE_URL") or libpq_is_configured()):
        raise BadInput(
            "a Dask worker does not know the database",
            remedy="set DATABASE_URL or PGSERVICE in the environment of the workers",
        )
    settings = load_settings(schema=reach.schema, release_schema=reach.release_schema)
    return connect(settings, "dask worker")
