"""`freqdp doctor` and refusals for want of a right: they name the server, the login and the GRANT."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from world import Answer, freqdp, login

from freqdp_db.db.rights import remedy_for
from freqdp_db.settings import Settings


@pytest.fixture
def somebody(database_url: str) -> Iterator[str]:
    """A login of no group; its name."""
    with login(database_url) as name:
        yield name


def _by(url: str, name: str, *arguments: str) -> Answer:
    return freqdp(make_conninfo(url, options=f"-c role={name}"), *arguments)


def _found(answer: Answer) -> dict[str, str | None]:
    """What was said, and the remedy where something is missing."""
    return {f["what"]: None if f["ok"] else f["remedy"] for f in answer.document["findings"]}


def test_it_names_server_database_user_and_roles(database_url: str, somebody: str) -> None:
    parts = conninfo_to_dict(database_url)
    where = f"server at {parts['host']}, port {parts['port']}, database {parts['dbname']}, user "
    said = _found(freqdp(database_url, "doctor"))
    assert where + f"{parts['user']} (superuser)" in said
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"GRANT freqdp_admin TO {somebody}".encode())
    said = _found(_by(database_url, somebody, "doctor"))
    assert where + f"{somebody} (freqdp_admin, freqdp_runner)" in said


def test_it_makes_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "server"
    for name in ("DATABASE_URL", "PGHOST", "PGSERVICE", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FREQDP_DATA_DIR", str(place))
    done = freqdp(None, "doctor", in_words=True)
    assert done.code == 0
    assert "note  no server yet" in done.out
    assert f"no embedded one in {place} yet" in done.out
    assert "creates the embedded one there" in done.out
    assert not place.exists()


def test_postgis_without_usage_is_not_ok(database_url: str, somebody: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"GRANT freqdp_analyst TO {somebody}".encode())
        connection.execute("REVOKE USAGE ON SCHEMA public FROM PUBLIC")
    answer = _by(database_url, somebody, "doctor")
    assert answer.code == 1
    said = _found(answer)
    assert said[f"PostGIS is in schema public, which {somebody} may not use"] == (
        f"its owner can: GRANT USAGE ON SCHEMA public TO {somebody}"
    )


def test_an_analyst_is_well(database_url: str, somebody: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"GRANT freqdp_analyst TO {somebody}".encode())
    answer = _by(database_url, somebody, "doctor")
    assert answer.succeeded()["ok"]
    assert any("freqdp_release can be read" in what for what in _found(answer))


def test_analysts_beside_the_private_tables_are_named(database_url: str, somebody: str) -> None:
    """What the server tells everybody, no right of ours hides: the way out is said."""

    def said() -> list[str]:
        return [what for what in _found(freqdp(database_url, "doctor")) if somebody in what]

    assert said() == []
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"GRANT freqdp_analyst TO {somebody}".encode())
        (found,) = said()
        assert "pg_stat_all_tables" in found and "freqdp release publish --all" in found
        connection.execute(f"GRANT freqdp_runner TO {somebody}".encode())
        assert said() == [], "who may read the rows may know how many there are"


def test_a_stranger_is_told_what_to_be_granted(database_url: str, somebody: str) -> None:
    answer = _by(database_url, somebody, "doctor")
    assert answer.code == 1
    assert "see `freqdp doctor`" not in answer.out
    said = _found(answer)[f"{somebody} may use neither schema freqdp nor freqdp_release"]
    assert said is not None and f"GRANT freqdp_analyst TO {somebody}" in said


def test_the_least_role_that_a_command_needs_is_named(database_url: str, somebody: str) -> None:
    roles = {"analyst", "auditor", "runner", "admin"}
    for command, role in (
        (("release", "list"), "analyst"),
        (("dataset", "list"), "auditor"),
        (("budget", "d"), "auditor"),
        (("ledger", "verify"), "auditor"),
        (("evaluate", "r"), "runner"),
        (("dataset", "drop", "d"), "admin"),
    ):
        remedy = _by(database_url, somebody, *command).refused("permission denied")["remedy"]
        assert f"GRANT freqdp_{role} TO " in remedy
        assert not any(f"freqdp_{other}" in remedy for other in roles - {role})


@pytest.mark.parametrize(
    ("denied", "remedy"),
    [
        ("permission denied for schema freqdp_release", "GRANT freqdp_analyst TO ann"),
        ("permission denied for table sample_12", "GRANT freqdp_runner TO ann"),
        ("permission denied for function grant_budget", "GRANT freqdp_admin TO ann"),
        ("permission denied for table dataset", "GRANT freqdp_admin TO ann"),
        ("permission denied for table ping", "GRANT SELECT ON ping TO ann"),
        ("permission denied for schema fleet", "GRANT USAGE ON SCHEMA fleet TO ann"),
        ("permission denied for database x", "GRANT CONNECT, CREATE ON DATABASE x TO ann"),
        ("Berechtigung fehlt", "superuser"),
    ],
)
def test_remedies(denied: str, remedy: str) -> None:
    assert remedy in remedy_for(denied, Settings(), "ann")
