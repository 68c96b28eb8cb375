"""Where an object is: which builds and releases hold it. Reads the key; for the curator only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import sql

from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.statements import rows_as


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
