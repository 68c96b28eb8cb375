"""The wheel: it carries `sql/` and `migrations/`, and works where there is no checkout."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import psycopg
import pytest
from packaging.requirements import Requirement
from psycopg.conninfo import make_conninfo
from servers import destroy
from world import freqdp, query, verify

import freqdp_db
from freqdp_db.server.embedded import EmbeddedServer

ROOT = Path(__file__).parent.parent.parent


def _run(*words: str | Path, cwd: Path, **environment: str) -> str:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "DATABASE_URL")}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    # with the backend at hand there is nothing to download
    isolation = ["--no-isolation"] if importlib.util.find_spec("hatchling") else []
    _run(sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", out, ROOT, cwd=out)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel in it; it borrows this one's dependencies."""
    home = tmp_path_factory.mktemp("environment")
    _run(sys.executable, "-m", "venv", "--without-pip", home / "venv", cwd=home)
    programs = home / "venv" / "bin"
    _run(
        *(sys.executable, "-m", "pip", "--python", programs / "python", "install"),
        *("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", wheel),
        cwd=home,
    )
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(_run(programs / "python", "-c", where, cwd=home).strip())
    # a path file of another environment's is not read, so the editable install stays out
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "borrowed.pth").write_text("".join(f"{path}\n" for path in sorted(borrowed)))
    return programs


def test_carries_every_sql_file_and_migration(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    for folder, pattern in (("sql", "*.sql"), ("migrations", "*.py"), ("migrations", "*.mako")):
        files = [f for f in (ROOT / folder).rglob(pattern) if "__pycache__" not in f.parts]
        assert files
        for file in files:
            name = f"freqdp_db/_{folder}/{file.relative_to(ROOT / folder)}"
            assert held.get(name) == file.read_bytes(), name
    assert not [name for name in held if name.startswith("tests/") or "__pycache__" in name]


def test_runs_without_the_checkout(installed: Path, tmp_path: Path) -> None:
    found = _run(
        installed / "python", "-c", "import freqdp_db; print(freqdp_db.__file__)", cwd=tmp_path
    )
    assert Path(found.strip()).is_relative_to(installed.parent)
    said = _run(installed / "freqdp", "--version", cwd=tmp_path)
    assert said == f"freqdp {freqdp_db.__version__}\n"


_CLIENT = """
import freqdp_db

def newest(url: str | None) -> str:
    with freqdp_db.connect(url) as freqdp:
        made = freqdp.anonymize("city", "lg", epsilon=1, time_step="60s", name="a")
        budget = freqdp.budget("city")
        reveal_type(budget.remaining)
        reveal_type(freqdp.release(made.name).rows)
        reveal_type([d.name for d in freqdp.datasets()])
        freqdp.verify(3)
        freqdp.verify("city_1", unknown=1)
        return made.table
"""


def test_types_are_honoured(wheel: Path, tmp_path: Path) -> None:
    """The wheel has a py.typed, and a strict type checker knows what the verbs take and give."""
    with zipfile.ZipFile(wheel) as archive:
        assert "freqdp_db/py.typed" in archive.namelist()
    (tmp_path / "client.py").write_text(_CLIENT)
    # in the checkout, whose cache `make lint` has filled: the installed package takes half a minute
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(tmp_path / "client.py")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = done.stdout
    assert 'is "decimal.Decimal"' in said, said + done.stderr
    assert 'is "int | None"' in said or 'is "Union[builtins.int, None]"' in said, said
    assert 'is "builtins.list[builtins.str]"' in said or 'is "list[str]"' in said, said
    assert said.count("error:") == 2, said
    assert '"verify" of "Freqdp" has incompatible type "int"' in said
    assert 'Unexpected keyword argument "unknown"' in said


def test_init_from_the_wheel(installed: Path, empty_database_url: str, tmp_path: Path) -> None:
    def init() -> dict[str, object]:
        said = _run(
            installed / "freqdp", "init", "--json", cwd=tmp_path, DATABASE_URL=empty_database_url
        )
        document: dict[str, object] = json.loads(said)
        return document

    first = init()
    assert first["created"] is True
    assert first["objects_changed"]
    second = init()
    assert second["changed"] is False
    # the checkout's own command finds nothing to do either: both apply the same files
    same = _run(
        *(sys.executable, "-m", "freqdp_db", "init", "--json"),
        cwd=ROOT,
        DATABASE_URL=empty_database_url,
    )
    assert json.loads(same)["changed"] is False


# --- What docker/compose.yaml sets up, without Docker: its logins on a server, its files as text.


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
        destroy(server)
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
    verify(curator, "city_1")
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
