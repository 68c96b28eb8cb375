"""The demo's city, built and released once for all tests that only read it."""

from __future__ import annotations

from library import build_city, load_city, opened, release
from servers import clone_of, filled_once


def _release(url: str) -> None:
    load_city(url, objects=20, days=2)
    with opened(url) as database:
        build_city(database, "city", "grid:100")
        release(database, "city", "city_1", epsilon="1", signature=2)


released_city_db = filled_once("released_city", _release)
released_city = clone_of("released_city_db", scope="module")
"""With the release city_1, as the examples of `sql/` assume."""
