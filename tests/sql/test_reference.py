"""No SQL object is without a purpose: the package calls it, or the reference shows how to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from library import build_city, load_city, opened, release
from servers import SharedServer, cloned

from freqdp_db.db.sql_objects import resource

PACKAGE = Path(__file__).parent.parent.parent / "freqdp_db"
# It names every object to grant rights on it.
GRANTS = PACKAGE / "storage" / "schema" / "grants.py"
_EXAMPLE = re.compile(r"^-- example:\n((?:--   .*\n)+)", re.MULTILINE)

TEXTS = {
    file.name.split("_", 1)[1].split(".")[0]: file.read_text("utf-8")
    for file in resource("sql").rglob("*.sql")
}
EXAMPLES = {
    name: found[1].replace("--   ", "")
    for name, text in TEXTS.items()
    if (found := _EXAMPLE.search(text))
}


def _called_by_python(name: str, source: str) -> bool:
    """As an argument of `call`, `own` and the like, or in a statement after the schema."""
    return re.search(rf'"{name}"|}}\.{name}\b', source) is not None


def _called(texts: dict[str, str], source: str) -> set[str]:
    """The objects that Python calls, or SQL that is itself called or has an example."""
    found = {name for name in texts if name in EXAMPLES or _called_by_python(name, source)}
    while True:
        through = {
            name
            for name in texts
            if any(
                re.search(rf"\${{private}}\.{name}\b", texts[caller]) for caller in found - {name}
            )
        }
        if through <= found:
            return found
        found |= through


def _source() -> str:
    return "\n".join(f.read_text("utf-8") for f in PACKAGE.rglob("*.py") if f != GRANTS)


def test_every_object_has_a_caller_or_an_example() -> None:
    assert set(TEXTS) - _called(TEXTS, _source()) == set()


def test_an_object_without_one_is_found() -> None:
    lonely = {"lonely": "CREATE VIEW ${private}.lonely AS SELECT 1", "other": "${private}.lonely"}
    assert _called(TEXTS | lonely, _source()) == set(TEXTS)


@pytest.fixture(scope="module")
def city_url(shared_server: SharedServer, template_db: str) -> Iterator[str]:
    """The demo's city, built and released once, as the examples assume."""
    with cloned(shared_server.get(), template_db) as url:
        load_city(url, objects=20, days=1)
        with opened(url) as database:
            build_city(database, "city", "grid:100")
            release(database, "city", "city_1", epsilon="1", signature=2)
        yield url


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_run(city_url: str, name: str) -> None:
    with psycopg.connect(city_url) as connection:
        rows = connection.execute(EXAMPLES[name].encode()).fetchall()
    # nothing was evaluated, so nothing is measured
    assert rows or name == "publishable_metric"
