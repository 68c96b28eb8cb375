"""What tests of the schema share: a query, a whole job, and roles that do not outlive a test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from library import Point, build_points, release
from psycopg import sql

from freqdp_db.dataset.memory import load_build
from freqdp_db.db.connection import Database
from freqdp_db.methods.contract import StepContext
from freqdp_db.progress import Progress
from freqdp_db.release.verification import verify
from freqdp_db.server.binaries import find_binaries

POINTS: list[Point] = [
    (f"o{i}", 60 * j + i, 100 * ((i + j) % 9), 100 * ((i * j) % 5))
    for i in range(6)
    for j in range(20)
]
OURS = "n.nspname IN (%(private)s, %(release)s)"


def query(url: str, statement: str, **values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def psql(url: str, script: str) -> subprocess.CompletedProcess[str]:
    """What psql makes of a script."""
    return subprocess.run(
        [find_binaries().program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", "-"],
        input=script, capture_output=True, text=True, check=False,
        env={**os.environ, **find_binaries().relocation()},
    )  # fmt: skip


def whole_job(database: Database, relation: str) -> None:
    """Build, release and verify under these settings."""
    build_points(database, "job", relation)
    done = release(database, "job", "job_1", epsilon="1", signature=3, seed=1)
    world = StepContext(load_build(database, done.build_id, Progress()))
    checked = verify(database, done, world, Progress())
    assert checked.rows == done.rows and checked.rows > 0


@contextmanager
def roles_dropped(database: Database, by: str | None = None) -> Iterator[None]:
    """Roles outlive the database: drop those of schemas that only this test uses.

    by: the URL of somebody who may, if the database's own login may not.
    """
    try:
        yield
    finally:
        if database.settings.schema != "freqdp":
            with psycopg.connect(by or database.conninfo, autocommit=True) as connection:
                for kind in ("admin", "runner", "analyst", "auditor"):
                    role = sql.Identifier(database.settings.role(kind))
                    if connection.execute(
                        "SELECT 1 FROM pg_roles WHERE rolname = %s", [database.settings.role(kind)]
                    ).fetchone():
                        for statement in (
                            "REASSIGN OWNED BY {} TO CURRENT_USER",
                            "DROP OWNED BY {}",
                            "DROP ROLE {}",
                        ):
                            connection.execute(sql.SQL(statement).format(role))
