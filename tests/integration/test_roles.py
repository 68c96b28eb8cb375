"""The group roles can do their work: a runner builds and publishes, an auditor checks the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
from library import opened
from psycopg.conninfo import make_conninfo
from world import anonymize, freqdp, login, query, withdraw

from freqdp_db.db.connection import hold

KINDS = ("admin", "runner", "analyst", "auditor")
ADD = ["dataset", "add", "d", "--from", "demo.t", "--object", "o", "--time", "at", "--geom", "g"]


@pytest.fixture
def people(database_url: str) -> Iterator[dict[str, str]]:
    """A login for each group role: kind -> connection string."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA demo")
        connection.execute(
            "CREATE TABLE demo.t AS SELECT 'o' || mod(i, 8) AS o, "
            "'2020-01-01'::timestamptz + i * interval '1 min' AS at, "
            "ST_SetSRID(ST_MakePoint(4.3 + mod(i * 7, 50) * 0.001, 50.8 + mod(i * 3, 40) * 0.001), "
            "4326)::geometry(Point, 4326) AS g FROM generate_series(1, 800) i"
        )
    with ExitStack() as stack:
        names = {kind: stack.enter_context(login(database_url, f"freqdp_{kind}")) for kind in KINDS}
        for kind in ("admin", "runner"):
            query(database_url, f"GRANT USAGE ON SCHEMA demo TO {names[kind]}")
            query(database_url, f"GRANT SELECT ON demo.t TO {names[kind]}")
        # one login in the tests' server: SET ROLE stands for logging in as the person
        yield {
            kind: make_conninfo(database_url, options=f"-c role={name}")
            for kind, name in names.items()
        }


def test_each_role_does_its_part(people: dict[str, str]) -> None:
    def by(kind: str, *arguments: str) -> None:
        freqdp(people[kind], *arguments).succeeded()

    by("admin", *ADD)
    by("runner", "dataset", "build", "d")
    by("runner", "anonymize", "d", "--method", "lg", "--epsilon", "1", "--signature", "3")
    with psycopg.connect(people["analyst"]) as connection:
        assert connection.execute("SELECT count(*) FROM freqdp_release.d_1").fetchone()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM freqdp.release_key")
    by("auditor", "ledger", "verify")
    by("auditor", "budget", "d")
    by("auditor", "release", "show", "d_1")
    freqdp(people["auditor"], "audit", "d", "--method", "lg").refused("permission denied")
    by("runner", "ledger", "verify")
    by("admin", "dataset", "build", "d")
    by("admin", "release", "withdraw", "d_1")


# the keys of the locks of version 0.3.0
_ADVISORY = (
    "SELECT pg_advisory_lock(hashtextextended('freqdp ' || k || ' freqdp', 0)) "
    "FROM unnest(ARRAY['upgrade', 'sources']) AS k",
    "SELECT pg_advisory_lock(hashtext('freqdp freqdp ' || k), n) FROM generate_series(1, 5) AS n, "
    "unnest(ARRAY['dataset', 'build', 'release', 'request', 'name']) AS k",
)


def test_locks_of_strangers_stop_nobody(people: dict[str, str], database_url: str) -> None:
    """Whoever may connect can take any advisory lock; ours are rows that only our roles can lock."""
    with psycopg.connect(people["analyst"], autocommit=True) as stranger:
        for statement in _ADVISORY:
            stranger.execute(statement.encode())
        freqdp(people["admin"], *ADD).succeeded()
        freqdp(people["runner"], "dataset", "build", "d").succeeded()
        anonymize(people["runner"], "d", "lg", "--signature", "3")
        withdraw(people["runner"], "d_1")
        freqdp(database_url, "init").succeeded()
    for kind in ("analyst", "auditor"):
        with psycopg.connect(people[kind], autocommit=True) as connection:
            for statement in ("SELECT FROM freqdp.lock FOR UPDATE", "TABLE freqdp.lock"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement.encode())


def test_two_builds_by_two_logins(people: dict[str, str]) -> None:
    """Of the session of another login little can be seen: it is named by that."""
    freqdp(people["admin"], *ADD).succeeded()
    with opened(people["runner"]) as database, hold(database, "dataset", 1, "dataset 'd'"):
        refusal = freqdp(people["admin"], "dataset", "build", "d").refused("worked on by process")
    assert refusal["error"] == "Busy"
    freqdp(people["admin"], "dataset", "build", "d").succeeded()


def test_who_holds_and_who_approves(people: dict[str, str]) -> None:
    freqdp(people["admin"], *ADD).succeeded()
    freqdp(people["runner"], "dataset", "build", "d").succeeded()
    limit = ("dataset", "set", "d", "--max-exposure", "100%")
    freqdp(people["runner"], *limit).refused("permission denied")
    anonymize(people["runner"], "d", "lg", "--hold", "--signature", "3")
    freqdp(people["auditor"], "release", "approve", "d_1").refused("permission denied")
    approved = freqdp(people["admin"], "release", "approve", "d_1").succeeded()
    assert approved["approved_by"]
    with psycopg.connect(people["analyst"]) as connection:
        assert connection.execute("SELECT count(*) FROM freqdp_release.d_current_trip").fetchone()
    freqdp(people["admin"], *limit).succeeded()


# What runners may do to each table and column is in the denial matrix: these are other ways, and some of
# each kind.
BYPASSES = [
    "UPDATE freqdp.spend SET amount = 0",
    "TRUNCATE freqdp.spend",
    "ALTER TABLE freqdp.spend DISABLE TRIGGER ALL",
    "SELECT freqdp.append_entry(1, 'grant', 1, NULL, 'x')",
    "SELECT freqdp.grant_budget(1, 1, 'x')",
    "UPDATE freqdp.release SET approved_by = 'somebody'",
    "INSERT INTO freqdp.account (population_id, source_schema, source_relation, object_column, unit) "
    "VALUES (1, 'demo', 'u', 'o', 'person')",
    "CREATE OR REPLACE FUNCTION freqdp.book_spend(release int, reason text) RETURNS text "
    "LANGUAGE sql AS 'SELECT NULL::text'",
    "DROP FUNCTION freqdp.book_spend(int, text)",
    "CREATE OR REPLACE VIEW freqdp.budget AS SELECT 1 AS x",
]


def test_a_runner_cannot_get_round_the_ledger(people: dict[str, str]) -> None:
    with psycopg.connect(people["runner"], autocommit=True) as connection:
        for statement in BYPASSES:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
