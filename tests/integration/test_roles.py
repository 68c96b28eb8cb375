"""The group roles can do their work: a runner builds and publishes, an administrator withdraws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo


@pytest.fixture
def people(database_url: str) -> Iterator[dict[str, str]]:
    """A login for each group role: kind -> connection string."""
    names = {kind: f"{kind}_{uuid4().hex[:8]}" for kind in ("admin", "runner", "analyst")}
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA demo")
        connection.execute(
            "CREATE TABLE demo.t AS SELECT 'o' || mod(i, 8) AS o, "
            "'2020-01-01'::timestamptz + i * interval '1 min' AS at, "
            "ST_SetSRID(ST_MakePoint(4.3 + mod(i * 7, 50) * 0.001, 50.8 + mod(i * 3, 40) * 0.001), "
            "4326)::geometry(Point, 4326) AS g FROM generate_series(1, 800) i"
        )
        for kind, name in names.items():
            role = sql.Identifier(name)
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(role))
            connection.execute(
                sql.SQL("GRANT {} TO {}").format(sql.Identifier(f"freqdp_{kind}"), role)
            )
            if kind != "analyst":
                connection.execute(sql.SQL("GRANT USAGE ON SCHEMA demo TO {}").format(role))
                connection.execute(sql.SQL("GRANT SELECT ON demo.t TO {}").format(role))
        # one login in the tests' server: SET ROLE stands for logging in as the person
        yield {
            kind: make_conninfo(database_url, options=f"-c role={name}")
            for kind, name in names.items()
        }
        for name in names.values():
            role = sql.Identifier(name)
            connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
            connection.execute(sql.SQL("DROP ROLE {}").format(role))


def test_each_role_does_its_part(people: dict[str, str], run_cli: Any) -> None:
    def by(kind: str, *arguments: str) -> None:
        done = run_cli(*arguments, env={"DATABASE_URL": people[kind]})
        assert done.returncode == 0, done.stderr

    add = ("dataset", "add", "d", "--from", "demo.t", "--object", "o", "--time", "at")
    by("admin", *add, "--geom", "g")
    by("runner", "dataset", "build", "d")
    by("runner", "anonymize", "d", "--epsilon", "1", "--signature", "3")
    with psycopg.connect(people["analyst"]) as connection:
        assert connection.execute("SELECT count(*) FROM freqdp_release.d_1").fetchone()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM freqdp.release_key")
    by("admin", "dataset", "build", "d")
    by("admin", "release", "withdraw", "d_1")
