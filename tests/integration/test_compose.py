"""What docker/compose.yaml sets up, without Docker: its logins on a server, its files as text."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import psycopg
import pytest
from packaging.requirements import Requirement
from psycopg.conninfo import make_conninfo
from world import freqdp, query

from freqdp_db.server.embedded import EmbeddedServer

ROOT = Path(__file__).parent.parent.parent
DOCKER = ROOT / "docker"
COMPOSE = (DOCKER / "compose.yaml").read_text("utf-8")
PINS = (DOCKER / "constraints.txt").read_text("utf-8")


@pytest.fixture(scope="module")
def composed() -> Iterator[str]:
    """A server of its own after roles.sql, as the image's set-up would leave it."""
    folder = Path(tempfile.mkdtemp(prefix="freqdp-compose-"))
    folder.chmod(0o755)
    server = EmbeddedServer(folder / "server")
    try:
        server.ensure_running()
        with psycopg.connect(server.conninfo("postgres"), autocommit=True) as connection:
            connection.execute("DROP DATABASE freqdp")
        for who in ("curator", "worker"):
            (folder / f"{who}_password").write_text(f"{who}'s secret\n")
        script = (DOCKER / "roles.sql").read_text("utf-8").replace("/run/secrets", str(folder))
        command = [*server.psql_command()[:-1], server.conninfo("postgres")]
        done = subprocess.run(
            [*command, "-X", "-v", "ON_ERROR_STOP=1", "-f", "-"],
            input=script, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        yield server.conninfo()
    finally:
        server.destroy()
        shutil.rmtree(folder, ignore_errors=True)


def _as(url: str, who: str) -> str:
    return make_conninfo(url, options=f"-c role={who}")


def _by(conninfo: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_neither_login_is_a_superuser_and_both_do_their_part(composed: str) -> None:
    curator, worker = (_as(composed, who) for who in ("curator", "worker"))
    assert (
        query(
            composed,
            "SELECT rolname FROM pg_roles WHERE rolcanlogin AND (rolsuper OR rolcreaterole OR "
            "rolcreatedb OR rolreplication OR rolbypassrls) AND rolname IN ('curator', 'worker')",
        )
        == []
    )
    assert freqdp(curator, "init").succeeded()["roles_missing"] == []
    assert freqdp(curator, "doctor").succeeded()["ok"]
    assert freqdp(worker, "doctor").succeeded()["ok"]
    freqdp(curator, "load", "demo", "--objects", "20", "--days", "1").succeeded()
    add = ("dataset", "add", "city", "--from", "demo.city", "--object", "object_id", "--time", "at")
    freqdp(worker, *add, "--geom", "geom").refused("you may not read demo.city")
    freqdp(curator, *add, "--geom", "geom").succeeded()
    request = "SELECT freqdp.request_release('city', 'lg', 1.0, '{{\"rebuild\": true, \"signature\": {}}}')"
    # not granted yet: refused, with the GRANT that is missing
    _by(curator, request.format(3))
    assert freqdp(worker, "worker", "--once").code == 4
    ((error,),) = _by(curator, "SELECT error FROM freqdp.job WHERE state = 'refused'")
    assert "you may not read demo.city" in error
    granted = re.findall(r'"(GRANT USAGE[^"]*)"', COMPOSE)
    query(composed, granted[0])
    _by(curator, request.format(4))
    assert freqdp(worker, "worker", "--once").code == 0
    freqdp(curator, "release", "verify", "city_1").succeeded()
    refused = freqdp(worker, "dataset", "drop", "city").refused("permission denied")
    assert "GRANT freqdp_admin TO" in refused["remedy"]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        _by(worker, "CREATE TABLE public.t (x int)")


def test_passwords_are_the_secrets(composed: str) -> None:
    for who in ("curator", "worker"):
        ((kept,),) = query(composed, f"SELECT rolpassword FROM pg_authid WHERE rolname = '{who}'")
        assert kept.startswith("SCRAM-SHA-256$")


def _service(name: str) -> str:
    return re.split(rf"^  {name}:", COMPOSE, flags=re.MULTILINE)[1].split("\n\n")[0]


def test_the_services_use_them() -> None:
    for service, who in (("freqdp", "curator"), ("worker", "worker")):
        said = _service(service)
        assert f"PGUSER: {who}\n" in said
        assert f"PGPASSWORD_FILE: /run/secrets/{who}_password" in said
        assert re.search(rf"secrets:\n      - {who}_password\n    volumes", said), said
    assert "0.0.0.0" in _service("worker"), "the numbers are for other containers"
    assert "./exports:/out" in _service("freqdp"), "exports arrive on the host"
    assert "roles.sql:/docker-entrypoint-initdb.d/" in _service("db")
    assert not re.search(r"^ +ports:", COMPOSE, re.MULTILINE), "nothing is published to the host"


def test_every_package_of_the_image_is_pinned() -> None:
    """Also where other versions are installed: what those ask of others is their own matter."""
    pins = dict(line.split("==") for line in PINS.splitlines() if not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    waiting = [(True, Requirement(text)) for text in project["dependencies"]]
    seen: set[str] = set()
    while waiting:
        asked_of_the_pin, wanted = waiting.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        assert name in pins, f"{name} is not pinned in docker/constraints.txt"
        if asked_of_the_pin:
            assert wanted.specifier.contains(pins[name]), f"{wanted} is pinned to {pins[name]}"
        if name in seen:
            continue
        seen.add(name)
        extras = wanted.extras or {""}
        installed = distribution(name)
        for further in map(Requirement, installed.requires or []):
            if further.marker is None or any(
                further.marker.evaluate({"extra": extra}) for extra in extras
            ):
                waiting.append((installed.version == pins[name], further))
    dockerfile = (DOCKER / "Dockerfile").read_text("utf-8")
    assert "--constraint /constraints.txt" in dockerfile
    assert "!docker/constraints.txt" in (DOCKER / "Dockerfile.dockerignore").read_text("utf-8")
