"""Fixtures for every test: one server a run, one database a test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
from servers import SharedServer, cloned
from world import city_template

from freqdp_db.compiling import compile_kernels
from freqdp_db.db.connection import Database
from freqdp_db.progress import Progress
from freqdp_db.settings import Settings

_SHARED = pytest.StashKey[SharedServer]()
_WORKERINPUT = "freqdp_server_directory"
_ROOT = Path(__file__).parent.parent


def pytest_configure(config: pytest.Config) -> None:
    given = getattr(config, "workerinput", None)
    if given is None:
        if not config.option.collectonly:
            compile_kernels(Progress())  # or every worker would compile them for itself
        config.stash[_SHARED] = SharedServer.create()
    else:
        config.stash[_SHARED] = SharedServer(Path(given[_WORKERINPUT]))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist: tell each worker where the server of the run is."""
    node.workerinput[_WORKERINPUT] = str(node.config.stash[_SHARED].directory)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and _SHARED in config.stash:
        config.stash[_SHARED].remove()


@pytest.fixture(scope="session")
def shared_server(pytestconfig: pytest.Config) -> SharedServer:
    return pytestconfig.stash[_SHARED]


@pytest.fixture(scope="session")
def server_dsn(shared_server: SharedServer) -> str:
    """The server's own database, for administration; tests work in `database_url`."""
    return shared_server.get().dsn


@pytest.fixture(scope="session")
def template_db(shared_server: SharedServer) -> str:
    """The name of a database with PostGIS and our schema, to be cloned and not connected to."""
    return shared_server.template(schema=True)


@pytest.fixture
def database_url(shared_server: SharedServer, template_db: str) -> Iterator[str]:
    """A fresh database with our schema."""
    with cloned(shared_server.get(), template_db) as url:
        yield url


@pytest.fixture
def empty_database_url(shared_server: SharedServer) -> Iterator[str]:
    """A fresh database with PostGIS and nothing else."""
    with cloned(shared_server.get(), shared_server.template(schema=False)) as url:
        yield url


@pytest.fixture
def city(shared_server: SharedServer, pytestconfig: pytest.Config) -> Iterator[str]:
    """A fresh database with a small city, registered and built."""
    with cloned(shared_server.get(), city_template(shared_server, pytestconfig)) as url:
        yield url


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    database = Database(database_url, Settings(dsn=database_url), "tests")
    yield database
    database.close()


class RunCli(Protocol):
    """Runs `freqdp` as a person would; `env` changes the environment, None removes a variable."""

    def __call__(
        self,
        *arguments: str,
        env: Mapping[str, str | None] | None = None,
        timeout: float = 600,
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def run_cli(database_url: str) -> RunCli:
    """`python -m freqdp_db ...` on the test's database."""

    def run(
        *arguments: str, env: Mapping[str, str | None] | None = None, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        changed = {**os.environ, "DATABASE_URL": database_url, **(env or {})}
        return subprocess.run(
            [sys.executable, "-m", "freqdp_db", *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=_ROOT,
            env={name: value for name, value in changed.items() if value is not None},
            check=False,
        )

    return run
