"""A small dataset for all integration tests."""

from __future__ import annotations

import pytest
from library import POINTS, build_points, make_points, opened
from servers import SharedServer


@pytest.fixture(scope="session")
def built(shared_server: SharedServer) -> str:
    """The name of a database with a small dataset `d`, built, with a budget of 1000; to be cloned."""

    def fill(url: str) -> None:
        with opened(url) as database:
            build_points(database, "d", make_points(url, "points", POINTS))

    return shared_server.filled("points", fill)
