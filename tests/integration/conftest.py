"""A small dataset for all integration tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from library import POINTS, build_points, make_points, opened
from servers import SharedServer, cloned
from world import value


@pytest.fixture(scope="module")
def built(shared_server: SharedServer, template_db: str) -> Iterator[str]:
    """The name of a database with a small dataset `d`, built, with a budget of 1000; to be cloned."""
    with cloned(shared_server.get(), template_db) as url:
        with opened(url) as database:
            build_points(database, "d", make_points(url, "points", POINTS))
        yield str(value(url, "SELECT current_database()::text"))
