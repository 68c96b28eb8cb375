"""The server that tests run on, one for all workers of a run, and the databases on it.

FREQDP_TEST_DSN names one; else a PostGIS container where a Docker engine runs; else a private
embedded server. There is no fourth case: without a server the tests fail, they are not skipped.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import shutil
import subprocess
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from freqdp_db.db.connection import Database
from freqdp_db.db.schema import upgrade
from freqdp_db.server.binaries import find_binaries
from freqdp_db.server.embedded import EmbeddedServer, connection_url
from freqdp_db.settings import Settings

IMAGE = "postgis/postgis:15-3.4"
_MEMORY_BYTES = 8 << 30
# The server is thrown away after the run, and no machine is switched off in the middle of it: waiting
# for the disk would double the time of every test, and half-written pages cannot come about. The log
# is kept short, as it may lie in memory.
# No autovacuum comes in between: it changes how large a table is while a test looks.
_SETTINGS = ("fsync = off", "full_page_writes = off", "max_wal_size = '1GB'", "autovacuum = off")


@dataclass(frozen=True)
class TestServer:
    """A server and what it takes to be rid of it."""

    __test__ = False

    dsn: str
    run: str
    """Marks the databases of this run: a server from FREQDP_TEST_DSN may carry others'."""
    container: str | None = None
    data_dir: str | None = None
    copies_files: bool = False
    """Clone without writing all of it to the log: faster, where nothing waits for the disk."""


class SharedServer:
    """Starts the server when the first test of any worker asks for it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._record = directory / "server.json"

    @classmethod
    def create(cls) -> SharedServer:
        """For the controlling process. Not in pytest's directory: root's is closed to others."""
        directory = Path(tempfile.mkdtemp(prefix="freqdp-tests-", dir=_memory()))
        directory.chmod(0o711)
        return cls(directory)

    @contextmanager
    def locked(self, what: str = "server") -> Iterator[None]:
        """One worker of the run at a time."""
        with (self.directory / f"{what}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def get(self) -> TestServer:
        with self.locked():
            if not self._record.exists():
                self._record.write_text(json.dumps(asdict(_start(self.directory))))
            return TestServer(**json.loads(self._record.read_text()))

    def template(self, *, schema: bool) -> str:
        """The name of a database to clone: with PostGIS only, or with our schema too."""
        return self._once("schema", None, _upgrade) if schema else self._once("postgis", None, None)

    def filled(self, what: str, fill: Callable[[str], object], base: str | None = None) -> str:
        """The name of a database to clone, with what `fill` puts into one of our schema, or into a
        clone of `base`."""
        return self._once(what, base or self.template(schema=True), fill)

    def _once(self, what: str, base: str | None, fill: Callable[[str], object] | None) -> str:
        """One worker of the run makes it, the others wait for it."""
        server = self.get()
        name = f"{server.run}_{what}"
        made = self.directory / f"{what}.made"
        with self.locked(what):
            if not made.exists():
                _make_template(server, name, base)
                if fill is not None:
                    fill(database_url(server, name))
                made.touch()
        return name

    def remove(self) -> None:
        """End what this run started. For the controlling process, when all workers are done."""
        try:
            if self._record.exists():
                _end(TestServer(**json.loads(self._record.read_text())), self.directory)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)


def _memory() -> str | None:
    """A file system in memory with room to spare: a database is there in half the time."""
    with suppress(OSError):
        if shutil.disk_usage("/dev/shm").free >= _MEMORY_BYTES:
            return "/dev/shm"
    return None


@contextmanager
def cloned(server: TestServer, template: str) -> Iterator[str]:
    """The URL of a fresh database, dropped afterwards."""
    name = f"{server.run}_{uuid.uuid4().hex[:12]}"
    _copy(server, template, name)
    try:
        yield database_url(server, name)
    finally:
        _drop(server, name)


def clone_of(template: str, scope: Literal["function", "module"] = "function") -> Any:
    """A fixture that gives the URL of a fresh clone of what the fixture `template` names."""

    @pytest.fixture(scope=scope)
    def clone(request: pytest.FixtureRequest, shared_server: SharedServer) -> Iterator[str]:
        with cloned(shared_server.get(), request.getfixturevalue(template)) as url:
            yield url

    return clone


def filled_once(what: str, fill: Callable[[str], object], base: str = "template_db") -> Any:
    """A fixture that gives the name of a database to clone: a clone of what the fixture `base` names,
    which one worker of the run fills for all."""

    @pytest.fixture(scope="session")
    def template(request: pytest.FixtureRequest, shared_server: SharedServer) -> str:
        return shared_server.filled(what, fill, request.getfixturevalue(base))

    return template


def database_url(server: TestServer, name: str) -> str:
    return connection_url(make_conninfo(server.dsn, dbname=name))


def _start(directory: Path) -> TestServer:
    run = f"freqdp_test_{uuid.uuid4().hex[:8]}"
    given = os.environ.get("FREQDP_TEST_DSN")
    if given:
        return TestServer(given, run)
    return _start_container(run) or _start_embedded(run, directory / "server")


def _start_container(run: str) -> TestServer | None:
    with warnings.catch_warnings():
        # testcontainers warns about its own modules being moved.
        warnings.simplefilter("ignore")
        from testcontainers.core.config import testcontainers_config
        from testcontainers.postgres import PostgresContainer

        # Its reaper ends the container with the process that started it: the first worker to
        # finish would take the server from all others. `remove` ends it instead.
        testcontainers_config.ryuk_disabled = True
        container = None
        with suppress(_docker().errors.DockerException):
            container = PostgresContainer(IMAGE, driver=None)
        if container is None:
            # The refused client leaves a socket to the collector, which would warn in some test.
            gc.collect()
            return None
        container.start()
        return TestServer(
            container.get_connection_url(), run, container=container.get_wrapped_container().id
        )


def _docker() -> Any:
    """The client library; by name, because the checkout has a folder that is called the same."""
    return importlib.import_module("docker")


def _start_embedded(run: str, data_dir: Path) -> TestServer:
    dsn = EmbeddedServer(data_dir).ensure_running()
    with psycopg.connect(dsn) as connection:
        can_choose = connection.info.server_version >= 150000
    server = TestServer(dsn, run, data_dir=str(data_dir), copies_files=can_choose)
    for setting in _SETTINGS:
        _execute(server, sql.SQL("ALTER SYSTEM SET {}").format(sql.SQL(setting)))
    _execute(server, sql.SQL("SELECT pg_reload_conf()").format())
    return server


def destroy(server: EmbeddedServer) -> None:
    """Stop an embedded server and remove its files, and only those."""
    server.stop()
    layout = server.layout
    for path in (layout.cluster, layout.socket_dir, *layout.data_dir.glob("cluster.new-*")):
        shutil.rmtree(path, ignore_errors=True)
    layout.log.unlink(missing_ok=True)
    layout.lock.unlink(missing_ok=True)
    with suppress(OSError):
        layout.data_dir.rmdir()


def _end(server: TestServer, directory: Path) -> None:
    if server.data_dir is not None:
        destroy(EmbeddedServer(Path(server.data_dir)))
    elif server.container is not None:
        client = _docker().from_env()
        client.containers.get(server.container).remove(force=True, v=True)
        client.close()
    else:
        for made in directory.glob("*.made"):
            _drop(server, f"{server.run}_{made.stem}")


def _make_template(server: TestServer, name: str, base: str | None) -> None:
    _drop(server, name)
    if base is not None:
        _copy(server, base, name)
        return
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'")
    _execute(server, statement.format(sql.Identifier(name)))
    with psycopg.connect(database_url(server, name), autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("CREATE EXTENSION IF NOT EXISTS postgis")


def _upgrade(url: str) -> None:
    """Install our schema, and leave no connection: a template that has one cannot be cloned."""
    database = Database(url, Settings(dsn=url), "tests")
    try:
        upgrade(database)
    finally:
        database.close()


def _copy(server: TestServer, template: str, name: str) -> None:
    strategy = sql.SQL(" STRATEGY file_copy" if server.copies_files else "")
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}{}")
    _execute(server, statement.format(sql.Identifier(name), sql.Identifier(template), strategy))


def _drop(server: TestServer, name: str) -> None:
    statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
    _execute(server, statement.format(sql.Identifier(name)))


def _execute(server: TestServer, statement: sql.Composed) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute(statement)


def run_program(program: str, *arguments: str) -> None:
    """Run a program of PostgreSQL, such as pg_dump; it has to succeed."""
    done = subprocess.run(
        [find_binaries().program(program), *arguments],
        capture_output=True, text=True, check=False,
        env={**os.environ, **find_binaries().relocation()},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
