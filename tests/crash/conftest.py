"""One driver for the run, one cloned city for a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness import Driver
from servers import SharedServer, cloned


@pytest.fixture(scope="session")
def driver(
    shared_server: SharedServer,
    city_db: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Driver]:
    with cloned(shared_server.get(), city_db) as url:
        made = Driver(url, tmp_path_factory.mktemp("driver"))
    yield made
    made.close()
