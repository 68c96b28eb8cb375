"""Fixtures for every test: one server a run, one database a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import compile_for_tests
from servers import SharedServer, clone_of, cloned, filled_once
from sources import make_sources
from world import make_city, release_city

from freqdp_db.db.connection import Database
from freqdp_db.settings import Settings

_SHARED = pytest.StashKey[SharedServer]()
_WORKERINPUT = "freqdp_server_directory"


def pytest_configure(config: pytest.Config) -> None:
    given = getattr(config, "workerinput", None)
    if given is None:
        if not config.option.collectonly:
            compile_for_tests(many=bool(config.getoption("numprocesses", None)))
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


city_db = filled_once("city", make_city)
"""The name of a database with a small city, registered and built, to be cloned."""
city = clone_of("city_db")


city_r_db = filled_once("city_r", release_city, "city_db")
"""The city with a release by lg that is called r."""
sources_db = filled_once("sources", make_sources)
"""Tables of every kind of trouble."""


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    database = Database(database_url, Settings(dsn=database_url), "tests")
    yield database
    database.close()
