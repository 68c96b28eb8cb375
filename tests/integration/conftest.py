"""A small dataset for all integration tests."""

from __future__ import annotations

from library import POINTS, build_points, make_points, opened
from servers import filled_once


def _build(url: str) -> None:
    with opened(url) as database:
        build_points(database, "d", make_points(url, "points", POINTS))


built = filled_once("points", _build)
"""The name of a database with a small dataset `d`, built, with a budget of 1000; to be cloned."""
