"""The demo's city, built and released once for all tests that only read it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from library import build_city, load_city, opened, release
from servers import SharedServer, cloned


def _fill(url: str) -> None:
    load_city(url, objects=20, days=2)
    with opened(url) as database:
        build_city(database, "city", "grid:100")
        release(database, "city", "city_1", epsilon="1", signature=2)


@pytest.fixture(scope="session")
def released_city(shared_server: SharedServer) -> Iterator[str]:
    """With the release city_1, as the examples of `sql/` assume."""
    with cloned(shared_server.get(), shared_server.filled("released_city", _fill)) as url:
        yield url
